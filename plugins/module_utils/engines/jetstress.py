# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JetStress: whether a test passed, and its transactional I/O, out of the HTML report. Experimental.

No report is public. All that is known of its form is the part that ExchangeDsc (the resource ExchJetstress) looks for: two cells of class grid_row_header, each
with its value in the next cell. The tables of latencies are known from printed reports only, not as HTML, so they are left alone.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from ..core.failure import Failure

_OVERALL, _ACHIEVED = "Overall Test Result", "Achieved Transactional I/O per Second"


def results(text: str) -> list[dict[str, Any]]:
    """{engine: {name}, status, failures: [{code, message}], transactional_iops} for every report in the text; what it does not say is absent.

    Failure 'no_result' when the text is not a report, 'jetstress_output_unreadable' when a value is none.
    """
    parser = _Reports()
    try:
        parser.feed(text)
        parser.close()
    except (AssertionError, NotImplementedError) as error:
        # The errors that html.parser raises at a broken declaration, and what it raised before Python 3.10.
        raise _unreadable(f"it is not HTML: {error}") from error
    if not any(_OVERALL in report["values"] for report in parser.reports):
        raise Failure(
            "no_result",
            f"This is not a report of JetStress: it has no cell {_OVERALL!r}.",
            "Give the file <type>_<date>.html that JetStress wrote at the end of the test.",
        )
    return [_result(report) for report in parser.reports]


def _result(report: dict[str, Any]) -> dict[str, Any]:
    values, failures = report["values"], []
    result: dict[str, Any] = {"engine": {"name": "jetstress"}}
    if not report["whole"] or _OVERALL not in values:
        failures.append({"code": "no_result", "message": "The report breaks off."})
    else:
        passed = values[_OVERALL].lower()
        if passed not in ("pass", "fail"):
            raise _unreadable(f"its {_OVERALL} is {values[_OVERALL][:40]!r}")
        if passed == "fail":
            failures.append({"code": "test_failed", "message": f"JetStress says {_OVERALL}: {values[_OVERALL]}."})
        # Tests of backup and recovery have no such figure.
        if values.get(_ACHIEVED):
            result["transactional_iops"] = _number(values[_ACHIEVED])
            if not result["transactional_iops"]:
                failures.append({"code": "no_io", "message": "No I/O was done."})
    return {**result, "status": "failed" if failures else "measured", "failures": failures}


def _number(cell: str) -> float:
    if not re.fullmatch(r"\d{1,15}(\.\d{1,12})?", cell):
        raise _unreadable(f"its {_ACHIEVED} is {cell[:40]!r}")
    return float(cell)


def _unreadable(why: str) -> Failure:
    return Failure(
        "jetstress_output_unreadable",
        f"The JetStress report cannot be read: {why}.",
        "Use the file as JetStress wrote it, with numbers like 1234.567.",
    )


class _Reports(HTMLParser):
    """reports: [{values: {text of a row's header: text of the cell after it}, whole}], one for each html element."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[dict[str, Any]] = []
        self._header: str | None = None
        self._cell: dict[str, Any] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "html":
            self._end_cell()
            self.reports.append({"values": {}, "whole": False})
        elif tag == "td":
            self._end_cell()
            self._cell = {"header": "grid_row_header" in (dict(attrs).get("class") or "").split(), "text": []}

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "tr", "table", "html"):
            self._end_cell()
        if tag in ("tr", "table", "html"):
            self._header = None
        if tag == "html" and self.reports:
            self.reports[-1]["whole"] = True

    def handle_data(self, data: str) -> None:
        if self._cell:
            self._cell["text"].append(data)

    def _end_cell(self) -> None:
        if not self._cell:
            return
        cell, self._cell = self._cell, None
        text = " ".join("".join(cell["text"]).split())
        if cell["header"]:
            self._header = text
        elif self._header is not None and self.reports:
            header, self._header = self._header, None
            if header in (_OVERALL, _ACHIEVED) and header in self.reports[-1]["values"]:
                raise _unreadable(f"it has {header!r} twice")
            self.reports[-1]["values"][header] = text
