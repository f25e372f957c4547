# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""engine_remove: what ends a run, puts back what it changed, and removes it. Processes, tasks and the registry are simulated, files are real."""

from __future__ import annotations

from cases import WILD_NAME, Case, Json, at, call, quiet
from processes import (
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

NAME = {"TaskName": "storlab tb x", "TaskPath": "\\"}
# Of those cmdlets that take several names.
NAMES = {"TaskName": ["storlab tb x"], "TaskPath": ["\\"]}
SEEN = quiet("Get-ScheduledTask", **NAMES)
GONE = [call("Unregister-ScheduledTask", **NAMES, Confirm=False)]
STOPPED = [call("Stop-ScheduledTask", **NAME), call("Get-ScheduledTask", **NAMES)]
PAUSE = call("Start-Sleep", Milliseconds=250)
TASK = "$global:StandIn.Tasks['storlab tb x'] = 'Running'\n"
PLAN = {"program": PROGRAM, "link": at("iobw.tst"), "leaves": "Dynamo.exe", "mark": "-p 24711"}
RUN = {"tb/x/plan.json": Json(PLAN), "tb/x/runner.ps1": "", "tb/x/out.csv": "1"}
BEGAN = {**RUN, "tb/x/process.json": Json({"pid": 100, "start": str(BEGUN)})}
ENDED = {**BEGAN, "tb/x/ended.json": "{}"}
KEPT = {"kept": "k"}
# A table in which the run's program still runs, and an orphan that it would have left.
ALIVE = SYSTEM + row(100, 50, 0.0, PROGRAM) + row(103, 999, 3.0, beside("Dynamo.exe"), '"dynamo" -p 24711')


def removed(
    what: str, calls: list, files: dict, change: str = "", left: dict | None = None, named: tuple = (), **more
) -> Case:
    more = {"registry": IDLE, "result": {"left": list(named)}, **more}
    return Case(
        "engine_remove",
        what,
        {"Folder": at("tb", "x"), "TaskName": "storlab tb x"},
        calls,
        world="processes",
        change=change,
        files={**KEPT, **files},
        left={**KEPT, **(left or {})},
        **more,
    )


NO_TASK = [SEEN, SEEN]
CASES = [
    removed("nothing is there", NO_TASK, {}),
    removed("a run that has ended, and whose task is there", [SEEN, *STOPPED, SEEN, *GONE], ENDED, TASK + ALIVE),
    removed("a run that is under way", [SEEN, *STOPPED, TABLE, *ended(100, 103), SEEN, *GONE], BEGAN, TASK + ALIVE),
    # Its program might be somebody else's who uses the same one.
    removed("a run that never started anything", [SEEN, *STOPPED, SEEN, *GONE], RUN, TASK + ALIVE),
    removed("a folder without a plan", NO_TASK, {"tb/x/process.json": Json({"pid": 100, "start": str(BEGUN)})}, ALIVE),
    removed(
        "those above that hold others stay", NO_TASK, {**RUN, "tb/y/plan.json": "{}"}, left={"tb/y/plan.json": "{}"}
    ),
    removed(
        "a task that takes three turns to stop",
        [SEEN, call("Stop-ScheduledTask", **NAME), *[STOPPED[1], PAUSE] * 2, STOPPED[1], SEEN, *GONE],
        ENDED,
        TASK
        + "$global:StandIn.Turns = 0\n"
        + "$global:StandIn.Answers['Stop-ScheduledTask'] = {}\n"
        + "$global:StandIn.Answers['Start-Sleep'] = { $global:StandIn.Turns++\n"
        + "if ($global:StandIn.Turns -eq 2) { $global:StandIn.Tasks['storlab tb x'] = 'Ready' } }\n",
    ),
    removed(
        "a task that does not stop is waited for 15 s",
        [SEEN, call("Stop-ScheduledTask", **NAME), *[STOPPED[1], PAUSE] * 60, SEEN, *GONE],
        ENDED,
        TASK + "$global:StandIn.Answers['Stop-ScheduledTask'] = {}\n",
    ),
    removed(
        "a task that may not be stopped",
        [SEEN, STOPPED[0]],
        BEGAN,
        TASK
        + ALIVE
        + "$global:StandIn.Answers['Stop-ScheduledTask'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }\n",
        left=BEGAN,
        error="Stop-ScheduledTask is denied.",
        result={},
    ),
    removed(
        "processes that may not be seen",
        [SEEN, *STOPPED, TABLE],
        BEGAN,
        TASK
        + "$global:StandIn.Answers['Get-CimInstance'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }\n",
        left=BEGAN,
        error="Get-CimInstance is denied.",
        result={},
    ),
    removed(
        "a task that may not be removed",
        [SEEN, *STOPPED, SEEN, *GONE],
        ENDED,
        TASK
        + "$global:StandIn.Answers['Unregister-ScheduledTask'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }\n",
        left=ENDED,
        error="Unregister-ScheduledTask is denied.",
        result={},
    ),
    removed(
        "a process that ends before it is ended",
        [SEEN, TABLE, *ended(100, 103), SEEN],
        BEGAN,
        ALIVE
        + "foreach ($name in 'Stop-Process', 'Wait-Process') {\n"
        + "$global:StandIn.Answers[$name] = { Deny-Call -Message 'No such process.' -Category ObjectNotFound } }\n",
    ),
    *(
        removed(
            f"ends {what}",
            [SEEN, TABLE, *(ended(*numbers) if numbers else []), SEEN],
            BEGAN,
            SYSTEM + table,
            named=tuple(named),
        )
        for what, table, numbers, named in WHOM
    ),
    removed(
        "of an engine that leaves nobody every orphan is left",
        [SEEN, TABLE, *ended(100), SEEN],
        {**BEGAN, "tb/x/plan.json": Json({**PLAN, "leaves": "", "mark": ""})},
        ALIVE,
        named=("Dynamo.exe (103)",),
    ),
]

# ---- what it puts back

LINK = {"tb/x/link.json": Json({"link": at("iobw.tst")}), "iobw.tst": "measured", "data": "measured"}
OTHER = {"iobw.tst": "theirs"}
CASES += [
    removed("a link that the run made", NO_TASK, {**ENDED, **LINK}, left={"data": "measured"}),
    removed("a link that is gone already", NO_TASK, {**ENDED, "tb/x/link.json": "{}"}),
    removed("a link of others", NO_TASK, {**ENDED, **OTHER}, left=OTHER),
]


def licence(version: str | None, made: str) -> dict:
    return {**ENDED, "tb/x/licence.json": Json({"hive": HIVE, "version": version, "made": made})}


TOP = "Software\\iometer.org"
SET = settings({"Version": "1.1.0", "Other": "kept"})
CASES += [
    removed(
        "a licence that was there before",
        [SEEN, value("2008.06.18"), SEEN],
        licence("2008.06.18", ""),
        registry(SET),
        registry=settings({"Version": "2008.06.18", "Other": "kept"}),
    ),
    removed(
        "a licence that was not there before",
        NO_TASK,
        licence(None, ""),
        registry(SET),
        registry=settings({"Other": "kept"}),
    ),
    removed(
        "a licence that is gone already", NO_TASK, licence(None, ""), registry(settings({})), registry=settings({})
    ),
    removed("keys that the run made", NO_TASK, licence(None, TOP), registry(SET)),
    removed("keys that are gone already", NO_TASK, licence("2008.06.18", TOP)),
    removed(
        "another account's licence stays",
        NO_TASK,
        licence(None, TOP),
        registry({**SET, f"S-1-5-18\\{KEY}": {"Version": "1.1.0"}}),
        registry={**IDLE, f"S-1-5-18\\{KEY}": {"Version": "1.1.0"}},
    ),
    # The record must stay until then: without it nobody would know what was there.
    removed(
        "the account has logged off",
        [SEEN, *STOPPED],
        licence(None, TOP),
        TASK + registry({"S-1-5-18": {}}),
        left=licence(None, TOP),
        error=f"The licence key of IOMeter is put back only while the account {HIVE} is logged on.",
        result={},
        registry={"S-1-5-18": {}},
    ),
    removed("no licence was set", NO_TASK, ENDED, registry(SET), registry=SET),
]

# ---- a folder that does not go at once

# The cmdlet of PowerShell itself, until so many tries have failed.
HELD = """$global:StandIn.Tries = {tries}
function global:Remove-Item {{
    [CmdletBinding(SupportsShouldProcess = $true)]
    param([string]$LiteralPath, [switch]$Recurse, [switch]$Force)
    Add-Call -Name 'Remove-Item' -Bound $PSBoundParameters
    $global:StandIn.Tries--
    if ($global:StandIn.Tries -ge 0) {{ Deny-Call -Message 'The file is in use.' }}
    else {{ [System.IO.Directory]::Delete($LiteralPath, $true) }}
}}
"""
TRY = quiet("Remove-Item", LiteralPath=at("tb", "x"), Recurse=True, Force=True)
CASES += [
    removed("a file is held for two moments", [*NO_TASK, TRY, PAUSE, TRY, PAUSE, TRY], RUN, HELD.format(tries=2)),
    removed(
        "a file is held for good",
        [*NO_TASK, *[TRY, PAUSE] * 20, call("Remove-Item", LiteralPath=at("tb", "x"), Recurse=True, Force=True)],
        RUN,
        HELD.format(tries=99),
        left=RUN,
        error="The file is in use.",
        result={},
    ),
    Case(
        "engine_remove",
        "names that look like a script",
        {"Folder": at("tb", WILD_NAME), "TaskName": WILD_NAME},
        [quiet("Get-ScheduledTask", TaskName=[WILD_NAME], TaskPath=["\\"])] * 2,
        {"left": []},
        world="processes",
        files={**KEPT, f"tb/{WILD_NAME}/out.csv": "1", "tb/a/out.csv": "2"},
        left={**KEPT, "tb/a/out.csv": "2"},
        registry=IDLE,
    ),
]
