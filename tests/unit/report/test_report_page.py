# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of pages with which scenarios look at reports."""

from __future__ import annotations

import pytest
from fixtures.report import make_fixture
from plays import play
from report_page import Page


def test_style_sheets_and_scripts_are_not_the_page():
    page = Page("<style>.backing {color: red}</style><script>let emulated = 1</script><p>The <b>chain</b></p>")
    assert page.text == "The chain"
    assert page.waterfall == {}


def test_rows_are_read_with_their_own_figures():
    page = Page(
        "<table class='other'><tr data-layer='x'><td data-metric='iops'><data value='1'>1</data></td></tr></table>"
        "<table class='waterfall'><tr data-layer='a'><td><data value='9'>9</data></td>"
        "<td data-metric='iops'><data value='2.5'>2.5</data></td><td data-metric='p99'><data value='7'>7</data></td></tr>"
        "<tr data-layer='b'><td data-metric='iops'>–</td><td><data value='8'>8</data></td></tr></table>"
    )
    assert page.waterfall == {"a": {"iops": 2.5, "p99": 7.0}, "b": {}}


def test_a_whole_report_is_read(tmp_path):
    run = make_fixture.write_run(str(tmp_path / "results"), 1, 1)
    (result,) = play(tmp_path, {"storlab.testbed.report": {"run_dir": str(run)}})
    with open(result["index"], encoding="utf-8") as stream:
        page = Page(stream.read())
    assert list(page.waterfall) == [row["layer"] for row in result["summary"]]
    for row in result["summary"]:
        assert page.waterfall[row["layer"]]["iops"] == pytest.approx(row["iops"], rel=1e-3)
    assert "target01 (emulated)" in page.text
