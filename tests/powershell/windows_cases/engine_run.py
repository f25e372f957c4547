# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_run: what a scheduled task runs. It lies as a file beside its plan; processes and the registry are simulated, files are real."""

from __future__ import annotations

from cases import WILD, WILD_NAME, AnyFile, Anything, AtLeast, Case, Json, Like, at, call
from processes import (
    ABOVE,
    BEGUN,
    HIVE,
    IDLE,
    KEY,
    PROGRAM,
    SYSTEM,
    TABLE,
    WHOM,
    beside,
    ended,
    registry,
    row,
    settings,
    value,
)

NOW = Like(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
PLAN = {
    "program": PROGRAM,
    "arguments": "/c a.icf /r b.csv",
    "output": "",
    "limit_s": 100,
    "link": "",
    "link_target": "",
    "licence_version": "",
    "leaves": "Dynamo.exe",
    "mark": "-p 24711",
}
STARTED = {"run/process.json": Json({"pid": 100, "start": str(BEGUN)})}


def started(output: str = "stdout.txt", program: str = PROGRAM, arguments: str = "/c a.icf /r b.csv") -> tuple:
    return call(
        "Start-Process",
        FilePath=program,
        ArgumentList=[arguments],
        WorkingDirectory=at("run"),
        RedirectStandardOutput=at("run", output),
        RedirectStandardError=at("run", "stderr.txt"),
        PassThru=True,
    )


def waited() -> tuple:
    """One look of two a second."""
    return call("WaitForExit", Milliseconds=500)


def program(seconds: float | None = 60.0, code: int = 3, handle: str = "77") -> str:
    """The world in which the program ends after so many seconds with this code, or not by itself."""
    return f"Set-Program -Id 100 -Ends {'$null' if seconds is None else seconds} -ExitCode {code} -Handle {handle}\n"


def record(**changed) -> Json:
    return Json(
        {
            "exit_code": 3,
            "timed_out": False,
            "started_utc": NOW,
            "finished_utc": NOW,
            "error": None,
            "left": [],
            "late_ms": AtLeast(0),
            "clock_step_ms": AtLeast(0),
            **changed,
        }
    )


def run(
    what: str, calls: list, told: Json, change: str = "", plan: dict | None = None, begun: bool = True, **more
) -> Case:
    """The program runs to its end, unless the change says otherwise. begun: whether the record of its process is left."""
    plan = {**PLAN, **(plan or {})}
    files = {"run/plan.json": Json(plan), **more.pop("files", {})}
    left = {**files, **(STARTED if begun else {}), "run/ended.json": told, **more.pop("left", {})}
    world = program() + change
    more = {"registry": IDLE, **more}
    return Case(
        "engine_run",
        what,
        {},
        calls,
        world="processes",
        change=world,
        files=files,
        left=left,
        as_file="run/runner.ps1",
        **more,
    )


def ends_at_look(number: int) -> str:
    """The world in which the program has ended when it is looked at for so many times."""
    return f"$global:StandIn.Program.Looks = {number}\n"


def look_takes(milliseconds: int) -> str:
    """The world in which each look takes so long, as on a host that runs nothing for a while."""
    return f"$global:StandIn.Program.LookMs = {milliseconds}\n"


STARTED_CLOCK = "[System.Diagnostics.Stopwatch]::StartNew()"
UNSTARTED_CLOCK = "New-Object -TypeName System.Diagnostics.Stopwatch"
TO_ITS_END = [started(), waited(), TABLE]
TO_ITS_LIMIT = [started(), *[waited()] * 200, TABLE]
CASES = [
    run("its exit code", TO_ITS_END, record()),
    run(
        "records of an earlier try are replaced",
        TO_ITS_END,
        record(),
        files={"run/process.json": "old", "run/ended.json": "old"},
    ),
    run("a code that is no error", TO_ITS_END, record(exit_code=0), program(code=0)),
    run(
        "its output in a file of a name", [started("out.json"), *TO_ITS_END[1:]], record(), plan={"output": "out.json"}
    ),
    run(
        "a program and arguments that look like a script",
        [started(program=WILD_NAME, arguments=WILD), *TO_ITS_END[1:]],
        record(),
        plan={"program": WILD_NAME, "arguments": WILD},
    ),
    run("a limit of more milliseconds than 32 bits hold", TO_ITS_END, record(), plan={"limit_s": 3000000}),
    run(
        "it ends at the last look before its limit", [started(), *[waited()] * 200, TABLE], record(), ends_at_look(200)
    ),
    run(
        "a look that came a second and a half late is told",
        [started(), waited(), waited(), TABLE],
        record(late_ms=AtLeast(1400)),
        ends_at_look(2) + look_takes(2000),
    ),
    run(
        "a look that was in time is not told as late",
        TO_ITS_END,
        record(late_ms=0),
        edit=(STARTED_CLOCK, UNSTARTED_CLOCK),
    ),
    run(
        "a clock that was set by a second and a half is told",
        [started(), waited(), TABLE],
        record(late_ms=0, clock_step_ms=AtLeast(1400)),
        look_takes(1500),
        # In place of a clock that is set ahead: one that counts the time, and does not go on.
        edit=(STARTED_CLOCK, UNSTARTED_CLOCK),
    ),
    run(
        "at its limit it is ended with what it has started",
        [*TO_ITS_LIMIT, *ended(100, 101)],
        record(exit_code=None, timed_out=True),
        program(None) + SYSTEM + row(100, 50, 0.0, PROGRAM) + row(101, 100, 1.0, at("cmd.exe")),
    ),
    run(
        "what it has left when it ends by itself is ended, and nobody who has its number since",
        [*TO_ITS_END, *ended(101, 102)],
        record(left=["tool.exe (105)", "tool.exe (106)"]),
        SYSTEM
        + row(101, 100, 30.0, at("cmd.exe"))
        + row(102, 101, 70.0, at("cmd.exe"))
        + row(105, 100, 60.0, beside("tool.exe"))
        + row(106, 100, 61.0, beside("tool.exe")),
    ),
    # Whatever a program that has ended does not say, the rest is told.
    *[
        run(
            f"a program that does not say its {silent} ({how})",
            TO_ITS_END,
            record(**told),
            f"Add-Member -InputObject $global:StandIn.Program -MemberType {member} -Name {silent} -Value {value_of} -Force\n",
            **more,
        )
        for silent, told, more in (
            ("Handle", {}, {}),
            (
                "StartTime",
                {},
                {"begun": False, "left": {"run/process.json": Json({"pid": 100, "start": Like(r"\d{18}")})}},
            ),
            ("ExitTime", {}, {}),
            ("ExitCode", {"exit_code": None, "error": f"{PROGRAM} has ended and does not say its exit code."}, {}),
        )
        for how, member, value_of in (
            ("nothing", "NoteProperty", "$null"),
            ("an error", "ScriptProperty", "{ throw 'It has exited.' }"),
        )
    ],
    run(
        "what a program has left that does not say when it ended is ended",
        [*TO_ITS_END, *ended(101)],
        record(),
        SYSTEM
        + row(101, 100, 30.0, at("cmd.exe"))
        + "Add-Member -InputObject $global:StandIn.Program -MemberType NoteProperty -Name ExitTime -Value $null -Force\n",
    ),
    run(
        "a program that is missing",
        [started()],
        record(exit_code=None, error="The system cannot find the file specified."),
        "$global:StandIn.Answers['Start-Process'] = { Deny-Call -Message 'The system cannot find the file specified.' -Category InvalidOperation }",
        begun=False,
    ),
]

# ---- a second name for the measured file

LINK = {"link": at("iobw.tst"), "link_target": at("data")}
# While the program runs, both names are one file, and a record tells whoever comes after a runner that was ended.
WRITES = f"""$global:StandIn.Answers['Start-Process'] = {{
    $record = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText('{at("run", "link.json")}'))
    if ($record.link -ne '{at("iobw.tst")}') {{ throw "The record says $($record.link)." }}
    if (-not (Test-Path -LiteralPath '{at("iobw.tst")}')) {{ throw 'There is no link.' }}
    [System.IO.File]::AppendAllText('{at("iobw.tst")}', ' and more')
    $global:StandIn.Program
}}
"""
CASES += [
    run(
        "a link is there while the program runs",
        TO_ITS_END,
        record(),
        WRITES,
        LINK,
        files={"data": "measured"},
        left={"data": "measured and more"},
    ),
    run(
        "a link that exists is somebody else's",
        [],
        record(exit_code=None, error=f"{LINK['link']} exists."),
        "",
        LINK,
        begun=False,
        files={"data": "measured", "iobw.tst": "theirs"},
    ),
    run("a file that is missing gets no link", [], record(exit_code=None, error=Like(".+")), "", LINK, begun=False),
    run(
        "a link is taken away also when the program cannot be started",
        [started()],
        record(exit_code=None, error="Not today."),
        "$global:StandIn.Answers['Start-Process'] = { Deny-Call -Message 'Not today.' }",
        LINK,
        begun=False,
        files={"data": "measured"},
    ),
    run(
        "a link is taken away also when the processes cannot be seen",
        [started(), waited(), TABLE],
        record(error="Get-CimInstance is denied."),
        "$global:StandIn.Answers['Get-CimInstance'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }",
        LINK,
        files={"data": "measured"},
    ),
]

# ---- IOMeter's licence

LICENCE = {"licence_version": "1.1.0"}
NUMBER = call("Get-AccountNumber")
SET = [NUMBER, value("1.1.0")]
# A record tells whoever comes after a runner that was ended what was there before.
RECORDED = """$global:StandIn.Answers['Start-Process'] = {{
    $record = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText('{path}'))
    if ("$($record.hive) $($record.version) $($record.made)" -ne '{text}') {{ throw "The record says $($record.hive) $($record.version) $($record.made)." }}
    $version = $global:StandIn.Registry['{key}'].Version
    if ($version -ne '1.1.0') {{ throw "The licence is that of $version." }}
    $global:StandIn.Program
}}
"""


def recorded(version: str, made: str) -> str:
    return RECORDED.format(path=at("run", "licence.json"), text=f"{HIVE} {version} {made}", key=f"{HIVE}\\{KEY}")


TOP, MIDDLE = "Software\\iometer.org", "Software\\iometer.org\\Iometer"
OTHER = {**settings({"Other": "kept"}), "S-1-5-18\\Software": {}}
CASES += [
    run(
        "a licence that was there comes back",
        [*SET, *TO_ITS_END, value("2008.06.18")],
        record(),
        registry(settings({"Version": "2008.06.18", "Other": "kept"})) + recorded("2008.06.18", ""),
        LICENCE,
        registry=settings({"Version": "2008.06.18", "Other": "kept"}),
    ),
    run(
        "a licence that was not there goes, and the key stays",
        [*SET, *TO_ITS_END],
        record(),
        registry(OTHER) + recorded("", ""),
        LICENCE,
        registry=OTHER,
    ),
    run("all keys are made and go", [*SET, *TO_ITS_END], record(), recorded("", TOP), LICENCE),
    run(
        "two keys are made and go",
        [*SET, *TO_ITS_END],
        record(),
        registry({**IDLE, f"{HIVE}\\{TOP}": {"kept": "k"}}) + recorded("", MIDDLE),
        LICENCE,
        registry={**IDLE, f"{HIVE}\\{TOP}": {"kept": "k"}},
    ),
    run(
        "the last key is made and goes",
        [*SET, *TO_ITS_END],
        record(),
        registry(ABOVE) + recorded("", KEY),
        LICENCE,
        registry=ABOVE,
    ),
    run(
        "a licence that cannot be set",
        SET,
        record(exit_code=None, error="The registry is full."),
        "$global:StandIn.Answers['Write-UserValue'] = { throw 'The registry is full.' }",
        LICENCE,
        begun=False,
    ),
    run(
        "a licence comes back also when the processes cannot be seen",
        [*SET, started(), waited(), TABLE],
        record(error="Get-CimInstance is denied."),
        registry(OTHER)
        + "$global:StandIn.Answers['Get-CimInstance'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }",
        LICENCE,
        registry=OTHER,
    ),
    run(
        "a licence that cannot be put back is told beside what went wrong before",
        [*SET, started(), value("2008.06.18")],
        record(exit_code=None, error="Not today. The registry is full."),
        registry(settings({"Version": "2008.06.18"}))
        + "$global:StandIn.Answers['Start-Process'] = {\n"
        + "    $global:StandIn.Answers['Write-UserValue'] = { throw 'The registry is full.' }\n    Deny-Call -Message 'Not today.'\n}\n",
        LICENCE,
        begun=False,
        left={"run/licence.json": Json({"hive": HIVE, "version": "2008.06.18", "made": ""})},
        registry=settings({"Version": "1.1.0"}),
    ),
]

# ---- whom it ends

CASES += [
    run(
        f"at its limit: {what}",
        [*TO_ITS_LIMIT, *(ended(*numbers) if numbers else [])],
        record(exit_code=None, timed_out=True, left=named),
        program(None) + SYSTEM + table,
    )
    for what, table, numbers, named in WHOM
]

# ---- a real program

REAL = {"program": "/bin/sh", "limit_s": 30, "arguments": '-c "echo told; echo warned >&2; exit 7"'}
NUMBERS = Anything()
CASES += [
    Case(
        "engine_run",
        "a real program, its words and its exit code",
        {},
        [started(program="/bin/sh", arguments=REAL["arguments"]), TABLE],
        world="real_processes",
        files={"run/plan.json": Json({**PLAN, **REAL})},
        left={
            "run/plan.json": Json({**PLAN, **REAL}),
            "run/process.json": Json({"pid": NUMBERS, "start": Like(r"\d{18}")}),
            "run/stdout.txt": AnyFile(),
            "run/stderr.txt": AnyFile(),
            "run/ended.json": record(exit_code=7),
        },
        as_file="run/runner.ps1",
        linux=True,
    ),
    Case(
        "engine_run",
        "a real program and its child are ended at the limit",
        {},
        [
            started(program="/bin/sh", arguments='-c "(sleep 4; echo late > late) & sleep 60"'),
            TABLE,
            *[(name, {**parameters, "Id": NUMBERS}) for name, parameters in ended(1)],
        ],
        world="real_processes",
        files={
            "run/plan.json": Json(
                {**PLAN, **REAL, "limit_s": 1, "arguments": '-c "(sleep 4; echo late > late) & sleep 60"'}
            )
        },
        left={
            "run/plan.json": Json(
                {**PLAN, **REAL, "limit_s": 1, "arguments": '-c "(sleep 4; echo late > late) & sleep 60"'}
            ),
            "run/process.json": Json({"pid": NUMBERS, "start": Like(r"\d{18}")}),
            "run/stdout.txt": AnyFile(),
            "run/stderr.txt": AnyFile(),
            "run/ended.json": record(exit_code=None, timed_out=True),
        },
        as_file="run/runner.ps1",
        linux=True,
    ),
]
