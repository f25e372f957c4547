# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that look at an engine and its runs, and the one that starts a run. Tasks are simulated, folders are real."""

from __future__ import annotations

import base64
import os

from cases import WILD, Case, Json, Like, aged, at, call, quiet

# ---- engine_host

HOST = [
    call("Assert-WindowsPowerShell"),
    call("Get-CimInstance", ClassName="Win32_OperatingSystem"),
    call("Get-CimInstance", ClassName="Win32_ComputerSystem"),
    call("Get-CimInstance", ClassName="Win32_Processor"),
    quiet("Get-CimInstance", Namespace="root/cimv2/power", ClassName="Win32_PowerPlan", Filter="IsActive=TRUE"),
]
FOUND = [call("Read-ProductVersion", Path=at("tool.exe")), call("Get-AccountName")]
ABOUT = {
    "program": at("tool.exe"),
    "version": "3.42",
    "account": "BOX\\measurer",
    "console_user": "BOX\\operator",
    "cpu": {"model": "Example CPU @ 2.10GHz", "cores": 48, "sockets": 2},
    "memory_bytes": 274877906944,
    "product": "Windows Server 2022 Standard",
    "version_os": "10.0.20348",
    "build": "20348",
    "power_plan": "High performance",
    "hypervisor": True,
    "machine": "Example Corp.  Model 7",
}
NOT_FOUND = {**ABOUT, "program": None, "version": None}


def host(what: str, program: str, calls: list, result: dict, change: str = "", **more) -> Case:
    files = {"tool.exe": "#!/bin/sh\n"}
    return Case(
        "engine_host",
        what,
        {"Program": program},
        calls,
        result,
        False,
        world="measuring",
        change=change,
        files=files,
        **more,
    )


CASES = [
    host("a program by its path", at("tool.exe"), [*HOST, *FOUND], ABOUT),
    host("in check mode, too", at("tool.exe"), [*HOST, *FOUND], ABOUT, check=True),
    host("a program that is not there", at("none.exe"), [*HOST, FOUND[1]], NOT_FOUND),
    host("a name that looks like a script", WILD, [*HOST, FOUND[1]], NOT_FOUND),
    host(
        "a program without a version",
        at("tool.exe"),
        [*HOST, *FOUND],
        {**ABOUT, "version": None},
        "$global:StandIn.Answers['Read-ProductVersion'] = { '' }",
    ),
    host(
        "no power plan to be seen, nobody at the console",
        at("tool.exe"),
        [*HOST, *FOUND],
        {**ABOUT, "power_plan": "", "console_user": "", "hypervisor": False, "machine": "Example Corp."},
        "$global:StandIn.Before = $global:StandIn.Answers['Get-CimInstance']\n"
        "$global:StandIn.Answers['Get-CimInstance'] = {\n    param($Bound, $Name)\n    switch ($Bound.ClassName) {\n"
        "        'Win32_PowerPlan' { Deny-Call -Message 'Not found' -Category ObjectNotFound }\n"
        "        'Win32_ComputerSystem' { New-Thing 'Win32_ComputerSystem' @{ UserName = $null; NumberOfLogicalProcessors = [uint32]48; "
        "NumberOfProcessors = [uint32]2; "
        "TotalPhysicalMemory = [uint64]274877906944; HypervisorPresent = $false; Manufacturer = 'Example Corp.'; Model = '' } }\n"
        "        default { & ($global:StandIn.Before) $Bound $Name }\n    }\n}",
    ),
    host(
        "the host may not be looked at",
        at("tool.exe"),
        HOST[:2],
        {},
        "$global:StandIn.Answers['Get-CimInstance'] = { param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }",
        error="Get-CimInstance is denied.",
    ),
    host(
        "another PowerShell",
        at("tool.exe"),
        HOST[:1],
        {},
        "$global:StandIn.Answers['Assert-WindowsPowerShell'] = { Deny-Call -Message 'Another one is needed.' -Terminating }",
        error="Another one is needed.",
    ),
]

# ---- engine_list and engine_status

RUNNING, QUEUED, READY = "Running", "Queued", "Ready"


def tasks(**states) -> str:
    """A world with tasks: {name of the run: (state, year of its last run or None)}, all of the testbed tb."""
    lines = []
    for name, (state, year) in states.items():
        lines.append(f"$global:StandIn.Tasks['storlab tb {name}'] = '{state}'")
        lines.append(
            f"$global:StandIn.Ran['storlab tb {name}'] = "
            + ("$null" if year is None else f"[datetime]::new({year}, 11, 30)")
        )
    return "\n".join(lines) + "\n"


def plans(seconds: float, *names: str) -> str:
    return "".join(aged(at("tb", name, "plan.json"), seconds) for name in names)


def run(name: str, state: str) -> dict:
    return {"testbed_id": "tb", "folder": at("tb", name), "name": name, "state": state, "task": f"storlab tb {name}"}


def asked(*names: str) -> list:
    return [quiet("Get-ScheduledTask", TaskName=[f"storlab tb {name}"], TaskPath=["\\"]) for name in names]


RUNS = {
    "tb/active/plan.json": "{}",
    "tb/ended/ended.json": "{}",
    "tb/ended/plan.json": "{}",
    "tb/lost/plan.json": "{}",
    "tb/other/notes.txt": "no run",
    "tb/queued/plan.json": "{}",
    "tb/young/plan.json": "{}",
}
STATES = tasks(active=(RUNNING, 2026), ended=(RUNNING, 2026), lost=(READY, 2026), queued=(QUEUED, 1999))
OLD = plans(3600, "active", "ended", "lost", "queued") + plans(1, "young")
LISTED = {
    "runs": [
        run("active", "running"),
        run("ended", "ended"),
        run("lost", "lost"),
        run("queued", "running"),
        run("young", "running"),
    ]
}
ALL_ASKED = asked("active", "ended", "lost", "queued", "young")


def listed(what: str, testbed_id: str, result: dict, calls: list, root: str = at(), **more) -> Case:
    given = {"Root": root, "TestbedId": testbed_id}
    more = {"files": RUNS, "change": STATES + OLD, **more}
    return Case("engine_list", what, given, calls, result, False, world="measuring", **more)


CASES += [
    listed("of one testbed", "tb", LISTED, ALL_ASKED),
    listed("in check mode, too", "tb", LISTED, ALL_ASKED, check=True),
    listed("of a testbed without any", "tb2", {"runs": []}, []),
    listed("where there is no folder for them", "tb", {"runs": []}, [], root=at("none")),
    listed(
        "of all testbeds",
        "",
        {
            "runs": [
                {"testbed_id": "a", "folder": at("a", "run"), "name": "run", "state": "lost", "task": "storlab a run"},
                run("lost", "lost"),
            ]
        },
        [quiet("Get-ScheduledTask", TaskName=["storlab a run"], TaskPath=["\\"]), *asked("lost")],
        files={"a/run/plan.json": "{}", "tb/lost/plan.json": "{}"},
        change=aged(at("a", "run", "plan.json"), 3600) + plans(3600, "lost"),
    ),
    listed(
        "in hidden folders, too",
        "",
        {
            "runs": [
                {"testbed_id": ".h", "folder": at(".h", ".r"), "name": ".r", "state": "lost", "task": "storlab .h .r"}
            ]
        },
        [quiet("Get-ScheduledTask", TaskName=["storlab .h .r"], TaskPath=["\\"])],
        files={".h/.r/plan.json": "{}"},
        change=aged(at(".h", ".r", "plan.json"), 3600),
    ),
    listed(
        "what was begun 20 s ago and has no task",
        "tb",
        {"runs": [run("x", "lost")]},
        asked("x"),
        files={"tb/x/plan.json": "{}"},
        change=plans(20.3, "x"),
    ),
]


def status(what: str, state: str, world: str, files: dict, ended=None, result=267009, **more) -> Case:
    told = {
        "state": state,
        "ended": ended,
        "files": [
            {"name": name.rpartition("/")[2], "size_bytes": len(content)}
            for name, content in sorted(files.items())
            if content is not None
        ],
        "task_result": result,
    }
    calls = [
        quiet("Get-ScheduledTaskInfo", TaskName="storlab tb x", TaskPath="\\"),
        quiet("Get-ScheduledTask", TaskName=["storlab tb x"], TaskPath=["\\"]),
    ]
    given = {"Folder": at("tb", "x"), "TaskName": "storlab tb x"}
    return Case("engine_status", what, given, calls, told, False, world="measuring", change=world, files=files, **more)


PLAN = {"tb/x/plan.json": "{}"}
OUTPUT = {**PLAN, "tb/x/out.json": "12345", "tb/x/stderr.txt": "", "tb/x/below": None}
ENDED = '{"exit_code": 3, "started_utc": "2026-11-21T08:15:30.123Z"}'
YOUNG, AGED = plans(1, "x"), plans(3600, "x")
CASES += [
    status("runs", "running", AGED + tasks(x=(RUNNING, 2026)), OUTPUT),
    status("in check mode, too", "running", AGED + tasks(x=(RUNNING, 2026)), OUTPUT, check=True),
    status("waits for its turn", "running", AGED + tasks(x=(QUEUED, 1999)), PLAN),
    # What the controller reads as JSON is not read here: PowerShell 7 would make dates of times.
    status("has ended", "ended", AGED + tasks(x=(READY, 2026)), {**OUTPUT, "tb/x/ended.json": ENDED}, ended=ENDED),
    status(
        "has ended while its task still runs",
        "ended",
        YOUNG + tasks(x=(RUNNING, 2026)),
        {**PLAN, "tb/x/ended.json": ENDED},
        ended=ENDED,
    ),
    status("its task is gone", "lost", AGED, PLAN, result=None),
    status("its task has run and not ended it", "lost", YOUNG + tasks(x=(READY, 2001)), PLAN),
    status("has just been made, and its task never ran", "running", YOUNG + tasks(x=(READY, 1999)), PLAN),
    status("has just been made, and its task has no last time", "running", YOUNG + tasks(x=(READY, None)), PLAN),
    status("has just been made, and has no task yet", "running", YOUNG, PLAN, result=None),
    status("was made 20 s ago, and its task never ran", "lost", plans(20.3, "x") + tasks(x=(READY, 1999)), PLAN),
    status("has a hidden file", "running", AGED + tasks(x=(RUNNING, 2026)), {**PLAN, "tb/x/.hidden": "123"}),
    status("has no plan", "lost", tasks(x=(READY, 1999)), {"tb/x/out.json": "1"}),
    status("has no plan, and its task runs", "running", tasks(x=(RUNNING, 2026)), {"tb/x/out.json": "1"}),
    Case(
        "engine_status",
        "is not there",
        {"Folder": at("tb", "none"), "TaskName": "storlab tb none"},
        [],
        {"state": "missing", "ended": None, "files": [], "task_result": None},
        False,
        world="measuring",
    ),
]

# ---- engine_start


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


NEW = ("lab", "tb", "new")
SHELL = os.path.join(
    os.environ.get("SYSTEMROOT", "/SystemRoot"), "System32", "WindowsPowerShell", "v1.0", "powershell.exe"
)
RUNNER = at(*NEW, "runner.ps1")
PARAMETERS = {
    "Folder": at(*NEW),
    "TaskName": "storlab tb new",
    "Names": ["job.fio", "other.txt"],
    "Contents": [encoded("a job"), encoded("täxt")],
    "Runner": encoded("the runner"),
    "Program": "C:\\fio\\fio.exe",
    "Arguments": "--output=x job.fio",
    "Output": "out.json",
    "LimitS": 100,
    "Session": "service",
    "Link": "T:\\iobw.tst",
    "LinkTarget": "T:\\data",
    "LicenceVersion": "1.1.0",
    "Leaves": "Dynamo.exe",
    "Mark": "-p 24711",
}
WRITTEN = {
    "program": "C:\\fio\\fio.exe",
    "arguments": "--output=x job.fio",
    "output": "out.json",
    "limit_s": 100,
    "link": "T:\\iobw.tst",
    "link_target": "T:\\data",
    "licence_version": "1.1.0",
    "leaves": "Dynamo.exe",
    "mark": "-p 24711",
}
LEFT = {
    "lab/tb/new/plan.json": Json(WRITTEN),
    "lab/tb/new/runner.ps1": "the runner",
    "lab/tb/new/job.fio": "a job",
    "lab/tb/new/other.txt": "täxt",
}
ASSERTED = call("Assert-WindowsPowerShell")
NO_TASK = quiet("Get-ScheduledTask", TaskName=["storlab tb new"], TaskPath=["\\"])
SYSTEM = call("New-ScheduledTaskPrincipal", UserId="SYSTEM", LogonType="ServiceAccount", RunLevel="Highest")


def folders(there: int = 0) -> list:
    """What is asked of the run's folder and of those above it, of which the first are there."""
    found = []
    for position in range(len(NEW)):
        path = at(*NEW[: position + 1])
        found += [] if position < there else [call("New-OwnedFolder", Path=path)]
        found.append(call("Read-FolderRights", Path=path))
    return [*found, call("Read-FolderRights", Path=at(*NEW))]


def task(principal: list, time: str = "00:06:40") -> list:
    """A task of normal priority, which ends 300 s after the engine should have."""
    return [
        call(
            "New-ScheduledTaskAction",
            Execute=SHELL,
            Argument=f"-NoProfile -NonInteractive -ExecutionPolicy Bypass -File {RUNNER}",
            WorkingDirectory=at(*NEW),
        ),
        *principal,
        call(
            "New-ScheduledTaskSettingsSet",
            Priority=4,
            ExecutionTimeLimit=time,
            AllowStartIfOnBatteries=True,
            DontStopIfGoingOnBatteries=True,
            MultipleInstances="IgnoreNew",
        ),
        call(
            "Register-ScheduledTask",
            TaskName="storlab tb new",
            TaskPath="\\",
            Action=["<an action>"],
            Principal="<a principal>",
            Settings="<settings>",
        ),
        call("Start-ScheduledTask", TaskName="storlab tb new", TaskPath="\\"),
    ]


def start(
    what: str, calls: list, left: dict | None, error=None, change: str = "", files: dict | None = None, **given
) -> Case:
    return Case(
        "engine_start",
        what,
        {**PARAMETERS, **given},
        calls,
        error=error,
        world="measuring",
        change=change,
        files=files or {},
        left=left,
    )


FREE = [ASSERTED, NO_TASK]
# With the 300 s above it, the last number that 31 bits hold.
MOST = 2**31 - 301
CASES += [
    start("as the system", [*FREE, *folders(), *task([SYSTEM])], LEFT),
    start(
        "on the desktop of the account",
        [
            *FREE,
            *folders(),
            *task(
                [
                    call("Get-AccountName"),
                    call(
                        "New-ScheduledTaskPrincipal",
                        UserId="BOX\\measurer",
                        LogonType="Interactive",
                        RunLevel="Highest",
                    ),
                ]
            ),
        ],
        LEFT,
        Session="interactive",
    ),
    start(
        "without files of its own, beside other runs",
        [*FREE, *folders(2), *task([SYSTEM])],
        {"lab/tb/old": None, "lab/tb/new/plan.json": Json(WRITTEN), "lab/tb/new/runner.ps1": "the runner"},
        files={"lab/tb/old": None},
        Names=[],
        Contents=[],
    ),
    start(
        "texts that look like a script, a limit of many days",
        [*FREE, *folders(), *task([SYSTEM], "24855.03:14:07")],
        {
            "lab/tb/new/plan.json": Json({**dict.fromkeys(WRITTEN, WILD), "limit_s": MOST}),
            "lab/tb/new/runner.ps1": WILD,
            "lab/tb/new/a [b] $c 'd'": WILD,
        },
        Names=["a [b] $c 'd'"],
        Contents=[encoded(WILD)],
        Runner=encoded(WILD),
        LimitS=MOST,
        **dict.fromkeys(
            ("Program", "Arguments", "Output", "Link", "LinkTarget", "LicenceVersion", "Leaves", "Mark"), WILD
        ),
    ),
    start(
        "a folder of characters that IOMeter does not take",
        [ASSERTED],
        None,
        Like(r"The folder .*new run has characters that not every engine takes\."),
        Folder=at("lab", "new run"),
    ),
    start("a folder that is there", [ASSERTED], None, Like(r"The folder .*new exists\."), files={"lab/tb/new": None}),
    start(
        "a task that is there",
        FREE,
        None,
        "The task storlab tb new exists.",
        "$global:StandIn.Tasks['storlab tb new'] = 'Ready'",
    ),
    start(
        "a folder above that is somebody else's",
        [*FREE, call("Read-FolderRights", Path=at("lab"))],
        None,
        Like(r"The folder .*lab does not belong to the administrators\. Remove it\."),
        "$global:StandIn.Answers['Read-FolderRights'] = @{ lab = @{ owner = 'S-1-5-21-1-2-3-1001' } }",
        files={"lab": None},
    ),
    start(
        "another PowerShell",
        [ASSERTED],
        None,
        "Another one is needed.",
        "$global:StandIn.Answers['Assert-WindowsPowerShell'] = { Deny-Call -Message 'Another one is needed.' -Terminating }",
    ),
    *(
        start(
            f"{cmdlet} refuses",
            [*FREE, *folders(), *task([SYSTEM])[: count + 1]],
            LEFT,
            f"{cmdlet} is denied.",
            f"$global:StandIn.Answers['{cmdlet}'] = {{ param($Bound, $Name) Deny-Call -Message \"$Name is denied.\" }}",
        )
        for count, cmdlet in enumerate(
            (
                "New-ScheduledTaskAction",
                "New-ScheduledTaskPrincipal",
                "New-ScheduledTaskSettingsSet",
                "Register-ScheduledTask",
                "Start-ScheduledTask",
            )
        )
    ),
]
