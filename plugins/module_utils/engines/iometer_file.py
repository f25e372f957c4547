# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a result file of IOMeter: its runs, their tables, and the cells of a row by the names of the header."""

from __future__ import annotations

import csv
import re
from typing import TypedDict

from ..core.failure import Failure
from . import icf

# An unset 64-bit counter; and -1, which stands where workers differ.
_UNSET = (1 << 64) - 1
_AMBIGUOUS = -1


class Spec(TypedDict):
    """An access specification: its name, and its lines."""

    name: str
    lines: list[dict[str, int]]


class Block(TypedDict):
    """The table of one test: the rows with the numbers of their lines, and the access specifications that were known by then."""

    header: list[str]
    rows: list[tuple[int, list[str]]]
    specs: list[Spec]
    aborted: bool
    stamps: list[str | None]


class Run(TypedDict):
    """One start of IOMeter. closes: it has IOMeter's own header, not that of a fork."""

    announced: bool
    closes: bool
    version: str | None
    specs: list[Spec]
    stamp: str | None
    blocks: list[Block]
    ended: bool
    aborted: bool
    errors: list[str]


def runs_of(text: str) -> list[Run]:
    """[{version, specs, stamp, blocks: [{header, rows, specs, aborted, stamps}], ended, aborted, errors}] in the order of the file."""
    runs: list[Run] = []
    section = None
    rows: list[tuple[int, list[str]]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line:
            continue
        if line.startswith("ERROR:"):
            _current(runs)["errors"].append(line[len("ERROR:") :].strip())
            continue
        if line == "Aborted test":
            run = _current(runs)
            run["aborted"] = True
            # IOMeter wrote what it had until then; or, after a ramp, nothing. The file does not say which of the two it was.
            if run["blocks"] and section == "'Time Stamp":
                run["blocks"][-1]["aborted"] = True
            continue
        if re.match(r"(TimeStamp,)?'Target Type[;\t]", line):
            raise unreadable(number, "it is separated by other characters than commas")
        if re.match(r"(TimeStamp,)?'Target Type,", line):
            header = [name.strip() for name in _cells(line, number)]
            run = _current(runs)
            rows = []
            block: Block = {
                "header": header,
                "rows": rows,
                "specs": run["specs"],
                "aborted": False,
                "stamps": [run["stamp"]],
            }
            run["blocks"].append(block)
            section = "rows"
        elif line.startswith("'"):
            section = line
            if line.startswith(("'Test Type,", "'Iometer Output File")):
                runs.append(_new_run(closes=line.startswith("'Test Type,")))
            elif line == "'Access specifications":
                _current(runs)["specs"] = []
            elif line == "'End Test":
                _current(runs)["ended"] = True
        elif section == "rows":
            rows.append((number, _cells(line, number)))
        elif section == "'Time Stamp":
            run = _current(runs)
            if run["blocks"] and len(run["blocks"][-1]["stamps"]) == 1:
                run["blocks"][-1]["stamps"].append(line)
            run["stamp"] = line
        elif section == "'Version":
            _current(runs)["version"] = line
        elif section == "'Access specification name,default assignment":
            _current(runs)["specs"].append({"name": line.rsplit(",", 1)[0], "lines": []})
        elif section == icf.LINE_COMMENT and runs and runs[-1]["specs"]:
            runs[-1]["specs"][-1]["lines"].append(icf.access_line(line.rstrip(","), f"line {number}"))
        elif line.startswith("Version ") and runs:
            runs[-1]["version"] = line[len("Version ") :].strip()
    # IOMeter appends its errors, perhaps to nothing; but any log may have a line that starts with ERROR.
    return [run for run in runs if run["blocks"] or run["announced"] or text.lstrip().startswith("ERROR:")]


def _new_run(announced: bool = True, closes: bool = False) -> Run:
    """closes: it has IOMeter's own header, not that of a fork."""
    return {
        "announced": announced,
        "closes": closes,
        "version": None,
        "specs": [],
        "stamp": None,
        "blocks": [],
        "ended": False,
        "aborted": False,
        "errors": [],
    }


def _current(runs: list[Run]) -> Run:
    """The run that a line belongs to. A file may start in the middle of one."""
    if not runs:
        runs.append(_new_run(announced=False))
    return runs[-1]


def _cells(line: str, number: int) -> list[str]:
    try:
        return next(csv.reader([line]))
    except (csv.Error, StopIteration) as error:
        raise unreadable(number, f"it is not a line of a CSV file: {error}") from error


def unreadable(number: int, why: str) -> Failure:
    return Failure(
        "iometer_output_unreadable",
        f"Line {number} of the IOMeter file cannot be read: {why}.",
        "Use the file as IOMeter wrote it; a spreadsheet that saves it changes separators and numbers.",
        line=number,
    )


class Row:
    """One row, its cells by the names of the header."""

    def __init__(self, header: list[str], number: int, cells: list[str]) -> None:
        if len(cells) > len(header) + 1 or (len(cells) == len(header) + 1 and cells[-1]):
            raise unreadable(number, f"it has {len(cells)} fields, but its header names {len(header)}")
        self.number = number
        self.whole = len(cells) >= len(header)
        self.cells = dict(zip(header, cells))

    def text(self, name: str) -> str:
        return self.cells.get(name, "").strip()

    def number_of(self, name: str) -> float | None:
        """The number in a column; None when there is no such column, nothing in it, or IOMeter's mark for 'unset' or 'several'."""
        cell = self.text(name)
        if not cell:
            return None
        if not re.fullmatch(r"-?\d{1,25}(\.\d{1,12})?(e[+-]?\d{1,3})?", cell, re.IGNORECASE):
            # The text of 0/0 from a C++ stream.
            if re.fullmatch(r"[+-]?(nan|inf|1\.#\w{2,6})(\(\w*\))?", cell, re.IGNORECASE):
                return None
            raise unreadable(self.number, f"{name} is {cell[:40]!r}")
        value = int(cell) if re.fullmatch(r"-?\d+", cell) else float(cell)
        if value in (_AMBIGUOUS, _UNSET):
            return None
        if not 0 <= value < _UNSET:
            raise unreadable(self.number, f"{name} is {cell[:40]!r}")
        return value

    def count(self, name: str) -> int:
        value = self.number_of(name) or 0
        if value != int(value):
            raise unreadable(self.number, f"{name} is {value!r}, which is not a count")
        return int(value)
