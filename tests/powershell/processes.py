# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's processes, its registry and a run's program look like, for the cases of engine_run and engine_remove."""

from __future__ import annotations

from cases import at, call, quiet

# 2026-11-22 12:00:00 UTC, in intervals of 100 ns since the year 1: when the program of worlds/processes.ps1 begins.
BEGUN = 639309456000000000
HIVE = "S-1-5-21-7-8-9-500"
KEY = "Software\\iometer.org\\Iometer\\Settings"
PROGRAM = at("io", "IOmeter.exe")
TABLE = call("Get-CimInstance", ClassName="Win32_Process")
IDLE = {HIVE: {}, f"{HIVE}\\Software": {}}
ABOVE = {**IDLE, f"{HIVE}\\Software\\iometer.org": {}, f"{HIVE}\\Software\\iometer.org\\Iometer": {}}


def row(number: int, parent: int, after: float | None, path: str = "", line: str = "") -> str:
    """A process: its number, that of who started it, when it began in seconds after the program, its file and its command line."""
    begun = "$null" if after is None else repr(after)
    return f"Add-Row -Id {number} -Parent {parent} -After {begun} -Path '{path}' -Line '{line}'\n"


def beside(name: str) -> str:
    return at("io", name)


def ended(*numbers: int) -> list:
    """Whom a run ends, all at once."""
    return [
        quiet("Stop-Process", Id=list(numbers), Force=True),
        quiet("Wait-Process", Id=list(numbers), Timeout=30),
    ]


def settings(values: dict) -> dict:
    """The registry with IOMeter's key."""
    return {**ABOVE, f"{HIVE}\\{KEY}": values}


def registry(keys: dict) -> str:
    """The world with this registry."""
    lines = []
    for path, values in keys.items():
        pairs = "; ".join(f"{name} = '{value}'" for name, value in values.items())
        lines.append(f"'{path}' = @{{ {pairs} }}")
    return "$global:StandIn.Registry = @{ " + "; ".join(lines) + " }\n"


def value(version: str) -> tuple:
    return call("Write-UserValue", Hive=HIVE, Key=KEY, Name="Version", Value=version)


# Those that are there before any run: two without a time, as of the system, and a shell; and one of another program of somebody else.
SYSTEM = row(0, 0, None) + row(4, 0, None, "", "") + row(50, 4, -1000.0, at("shell.exe"))
# (what, table, whom the run ends, who is named and left) while the run's program has the number 100 and may leave Dynamo.exe with -p 24711.
MARKED = f'"{beside("dynamo")}"  -p 24711 '
WHOM = [
    (
        # Windows tells them in no order.
        "its tree",
        row(102, 101, 2.0, at("deep", "tool.exe"))
        + row(201, 200, 4.0, beside("Dynamo.exe"), MARKED)
        + row(101, 100, 1.0, at("cmd.exe"))
        + row(200, 50, 3.0, beside("IOmeter.exe"))
        + row(100, 50, 0.0, PROGRAM),
        [100, 101, 102],
        [],
    ),
    (
        "a program that has taken its number",
        row(100, 50, 10.0, PROGRAM) + row(101, 100, 11.0, beside("Dynamo.exe"), MARKED),
        [],
        [],
    ),
    (
        "a program that had the number before",
        row(100, 50, -0.0011, PROGRAM) + row(101, 100, 1.0, at("cmd.exe")),
        [],
        [],
    ),
    ("the program, told in microseconds, early", row(100, 50, -0.0009, PROGRAM), [100], []),
    ("the program, told in microseconds, late", row(100, 50, 0.0009, PROGRAM), [100], []),
    ("a program begun in the next millisecond", row(100, 50, 0.0011, PROGRAM), [], []),
    ("a child older than its parent", row(101, 100, -5.0, beside("tool.exe")) + row(100, 50, 0.0, PROGRAM), [100], []),
    (
        "a grandchild older than its parent",
        row(100, 50, 0.0, PROGRAM) + row(102, 101, 1.0, beside("tool.exe")) + row(101, 100, 2.0, at("cmd.exe")),
        [100, 101],
        ["tool.exe (102)"],
    ),
    (
        "the orphan that it is known to leave, and that one's child",
        row(100, 50, 0.0, PROGRAM)
        + row(103, 999, 3.0, beside("Dynamo.exe"), MARKED)
        + row(104, 103, 4.0, at("cmd.exe")),
        [100, 103, 104],
        [],
    ),
    ("that orphan when the program has gone", row(103, 999, 3.0, beside("Dynamo.exe"), MARKED), [103], []),
    ("that orphan in capitals", row(103, 999, 3.0, at("IO", "DYNAMO.EXE"), MARKED), [103], []),
    (
        "an orphan of that name for another port",
        row(100, 50, 0.0, PROGRAM)
        + row(105, 999, 3.0, beside("Dynamo.exe"), f'"{beside("dynamo")}" -p 2471')
        + row(106, 999, 4.0, beside("Dynamo.exe"), f'"{beside("dynamo")}" -p 247110')
        + row(107, 999, 5.0, beside("Dynamo.exe"), ""),
        [100],
        ["Dynamo.exe (105)", "Dynamo.exe (106)", "Dynamo.exe (107)"],
    ),
    (
        "another orphan beside it with the mark",
        row(100, 50, 0.0, PROGRAM)
        + row(108, 999, 3.0, beside("fio.exe"), "fio -p 24711 x")
        + row(109, 108, 4.0, beside("fio.exe")),
        [100],
        ["fio.exe (108)"],
    ),
    (
        "orphans that do not lie beside it",
        row(100, 50, 0.0, PROGRAM)
        + row(110, 999, 3.0, at("Dynamo.exe"), MARKED)
        + row(111, 999, 4.0, at("io", "below", "Dynamo.exe"), MARKED)
        + row(112, 999, 5.0, "", MARKED),
        [100],
        [],
    ),
    (
        "an orphan begun before the program",
        row(113, 999, -1.0, beside("Dynamo.exe"), MARKED) + row(100, 50, 0.0, PROGRAM),
        [100],
        [],
    ),
    ("nobody, when nobody is there", "", [], []),
]
