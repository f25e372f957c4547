# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JetStress's report, of which only a synthetic one is at hand."""

from __future__ import annotations

import json

import places
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.jetstress_results import FilterModule
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import jetstress
from hypothesis import example, given, settings
from hypothesis import strategies as st

REPORT = (places.FIXTURES / "jetstress" / "SYNTHETIC_Performance.html").read_text()
OVERALL = '<td class="grid_row_header">Overall Test Result</td>\n<td class="success">Pass</td>'
ACHIEVED = '<td class="grid_row_header">Achieved Transactional I/O per Second</td>\n<td>1234.567</td>'


def changed(old: str, new: str) -> str:
    assert REPORT.count(old) == 1
    return REPORT.replace(old, new)


def codes(found: dict) -> list:
    return [failure["code"] for failure in found["failures"]]


def test_a_test_that_passed():
    assert jetstress.results(REPORT) == [
        {"engine": {"name": "jetstress"}, "status": "measured", "failures": [], "transactional_iops": 1234.567}
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", ""),
        lambda text: text.replace("<td", "<TD").replace("</td>", "</TD>"),
        lambda text: text.replace('"grid_row_header"', '"wide grid_row_header"'),
        lambda text: text.replace("I/O per", "I&#47;O&nbsp;per"),
        lambda text: text.replace(">Pass<", "><b> pass </b><"),
        lambda text: text.replace("</td>", ""),
    ],
)
def test_the_same_report_in_other_writing_is_the_same(change):
    assert jetstress.results(change(REPORT)) == jetstress.results(REPORT)


def test_a_test_that_failed_keeps_its_figure():
    (one,) = jetstress.results(changed('<td class="success">Pass</td>', '<td class="failure">Fail</td>'))
    assert (one["status"], codes(one), one["transactional_iops"]) == ("failed", ["test_failed"], 1234.567)


@pytest.mark.parametrize(
    "without", [changed(ACHIEVED, ""), changed("<td>1234.567</td>", "<td></td>"), changed("<td>1234.567</td>", "")]
)
def test_a_test_of_backup_or_recovery_has_no_figure(without):
    assert jetstress.results(without) == [{"engine": {"name": "jetstress"}, "status": "measured", "failures": []}]


def test_a_test_without_io_is_no_measurement():
    (one,) = jetstress.results(changed("1234.567", "0.000"))
    assert (one["status"], codes(one)) == ("failed", ["no_io"])


def test_two_reports_in_one_text_are_two_results_and_each_has_its_own_figure():
    other = changed("1234.567", "89.5").replace(">Pass<", ">Fail<")
    assert [(one["status"], one["transactional_iops"]) for one in jetstress.results(REPORT + other)] == [
        ("measured", 1234.567),
        ("failed", 89.5),
    ]
    both = jetstress.results(REPORT[: REPORT.index("<h2>Database")] + other)
    assert [codes(one) for one in both] == [["no_result"], ["test_failed"]]


def test_a_report_that_breaks_off_anywhere_is_no_measurement():
    for length in range(REPORT.index("</html>") + len("</html")):
        try:
            found = jetstress.results(REPORT[:length])
        except Failure as failure:
            assert failure.code == "no_result"
            continue
        assert [(one["status"], codes(one), "transactional_iops" in one) for one in found] == [
            ("failed", ["no_result"], False)
        ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "no_result"),
        ("<html><body>Overall Test Result: Pass</body></html>", "no_result"),
        (changed('grid_row_header">Overall', 'x">Overall'), "no_result"),
        (changed(">Pass<", ">Maybe<"), "jetstress_output_unreadable"),
        (changed(">Pass<", "><"), "jetstress_output_unreadable"),
        (changed("1234.567", "1.234,567"), "jetstress_output_unreadable"),
        (changed("1234.567", "-5"), "jetstress_output_unreadable"),
        (changed("1234.567", "NaN"), "jetstress_output_unreadable"),
        (changed(OVERALL, OVERALL + OVERALL), "jetstress_output_unreadable"),
    ],
)
def test_what_is_no_report_is_refused(text, code):
    with pytest.raises(Failure) as caught:
        jetstress.results(text)
    assert caught.value.code == code and caught.value.remedy.endswith(".")


def test_filter_takes_text_and_bytes_and_fails_in_one_sentence():
    read = FilterModule().filters()["jetstress_results"]
    assert read(REPORT) == read(REPORT.encode("utf-16")) == read("\ufeff" + REPORT)
    with pytest.raises(AnsibleFilterError, match="not a report of JetStress"):
        read("nothing of the kind")


CHANGE = st.tuples(
    st.integers(0, len(REPORT)), st.integers(0, 60), st.text("0123456789.,<>/!-[]\"'& \ntdhlmPasFi", max_size=8)
)


@settings(deadline=None, max_examples=200)
@given(st.lists(CHANGE, min_size=1, max_size=4))
@example([(0, 0, "<![d[")])
def test_damage_is_a_failure_or_a_sound_figure_never_a_traceback(changes):
    text = REPORT
    for position, length, replacement in changes:
        text = text[:position] + replacement + text[position + length :]
    try:
        found = jetstress.results(text)
    except Failure as failure:
        assert failure.code in ("no_result", "jetstress_output_unreadable")
        return
    assert found and all(one.get("transactional_iops", 0) >= 0 for one in found)
    json.dumps(found, allow_nan=False)
