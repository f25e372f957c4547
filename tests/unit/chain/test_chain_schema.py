# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON schema for editors says what the check of the description says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory, schema

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "schema" / "storlab.testbed.schema.json"
PAGES = sorted(ROOT.glob("inventories/*/group_vars/all.yml"))


def errors(text: str) -> list:
    validator = jsonschema.Draft7Validator(json.loads(FILE.read_text(encoding="utf-8")))
    return [error.json_path for error in validator.iter_errors(yaml.safe_load(text))]


def test_the_file_is_what_the_specifications_say():
    """To renew it: python tests/tools/write_schema.py"""
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema.schema(inventory.role_options())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parents[1].name)
def test_example_inventories_are_accepted(page):
    assert errors(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("testbed: {disks: [{name: a, size: 128M}]}", "$.testbed"),
        ("testbed: {disks: [{name: a, siez: 128MiB}]}", "$.testbed"),
        ("testbed: {datastores: {}}", "$.testbed"),
        ("benchmark_repetitions: often", "$.benchmark_repetitions"),
        ("iscsi_target_provider: loi", "$.iscsi_target_provider"),
        ("testbed_disks: []", "$.testbed_disks"),
        ("testbed_adress: 192.0.2.1", "$.testbed_adress"),
    ],
)
def test_what_is_wrong_is_underlined(text, path):
    assert errors(text) == [path]


def test_values_may_be_worked_out():
    assert errors("benchmark_repetitions: '{{ mine }}'\ntestbed: '{{ my_testbed }}'\ncolour: blue") == []


def test_editors_are_told_where_it_is():
    settings = json.loads((ROOT / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    assert list(settings["yaml.schemas"]) == ["./docs/schema/storlab.testbed.schema.json"]
