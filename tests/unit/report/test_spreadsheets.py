# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spreadsheet that opens a table works nothing out of the texts in it."""

from __future__ import annotations

import csv
import io

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import compare_render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import export
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.spreadsheet import harmless

FORMULAS = ("=HYPERLINK(1)", "+cmd|'/c calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "-", "=1")


@pytest.mark.parametrize("text", FORMULAS)
def test_what_begins_as_a_formula_is_a_text(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", [-3, -2.5, 0, None, True, "-3", "+4.5e-3", "-.5", "backing-bench", "4k-r70", "", " =1", "'=1"]
)
def test_numbers_and_other_texts_stay(value):
    assert harmless(value) is value


def test_no_table_holds_a_formula():
    row = {"point_id": "@p", "layer": "=l", "layer_kind": "+k", "host": "-h", "run_id": "=r", "testbed_id": "=t"}
    row |= {"workload": {}, "workload_id": "=w", "repetition": 1, "status": "=s", "flags": ["=f"], "failures": []}
    table = list(csv.reader(io.StringIO(export.as_csv([row]).decode())))
    assert sum(text.startswith("'") for text in table[1]) >= 8
    assert not any(text.startswith(("=", "+", "-", "@")) for text in table[1])
    sides = {"baseline": {"value": -4.5}, "candidate": {"value": 2}}
    compared = {"rows": [{"layer": "=l", "workload_id": "@w", "metric": "+m", "change_percent": -3.25, **sides}]}
    values = next(csv.DictReader(io.StringIO(compare_render.comparison_csv(compared))))
    assert (values["layer"], values["workload_id"], values["metric"]) == ("'=l", "'@w", "'+m")
    assert (values["change_percent"], values["baseline_value"]) == ("-3.25", "-4.5")
