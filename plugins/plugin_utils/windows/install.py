# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the engine of a Windows host comes from, and what becomes of it and of its runs at the end."""

from __future__ import annotations

import re
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.names import check_testbed_id
from ...module_utils.engines.catalogue import ENGINES, engine_of
from .engines import check_root
from .host import module_call, step
from .params import InstallParams
from .state import Remembered, State

SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "engine": {"type": "str", "default": "fio"},
    "program": {"type": "str"},
    "root": {"type": "str", "default": "C:\\storlab"},
    "discard": {"type": "bool", "default": False},
    "download": {
        "type": "dict",
        "default": {},
        "options": {"url": {"type": "str"}, "checksum": {"type": "str"}, "program": {"type": "str"}},
    },
}
KINDS = ("msi", "zip", "exe")
# In the name of a run's folder, before its checksum, which has no such letter: it writes a layer or warms it up.
PREPARATION = "p"


def check(params: InstallParams) -> None:
    check_testbed_id("benchmark_testbed_id", params["testbed_id"])
    check_root(params["root"])
    if not engine_of(params["engine"], "benchmark_engine").windows:
        raise bad_value("benchmark_engine", params["engine"], "It runs on Linux hosts only; use another on this one.")
    url, checksum = params["download"].get("url"), params["download"].get("checksum")
    if not url:
        return
    if kind(url) not in KINDS or not re.match(r"https?://", url):
        raise bad_value(
            "benchmark_windows_download.url",
            url,
            f"Use an address that ends in {', '.join('.' + each for each in KINDS)}.",
        )
    if not re.fullmatch(r"[0-9a-fA-F]{64}", checksum or ""):
        raise bad_value(
            "benchmark_windows_download.checksum",
            checksum,
            "Give the SHA-256 of the file: what an administrator runs must be what was meant.",
        )


def kind(url: str) -> str:
    return url.rpartition(".")[2].lower()


def folder(params: InstallParams) -> str:
    return f"{params['root']}\\tools\\{params['testbed_id']}\\{params['engine']}"


def installed_program(params: InstallParams) -> str:
    """Where the program is when the download has been installed."""
    return (
        params["download"].get("program")
        or params["program"]
        or ENGINES[params["engine"]].installed(folder(params), kind(params["download"]["url"]))
    )


def candidates(params: InstallParams) -> list[Any]:
    """Where to look for the program."""
    if params["program"]:
        return [params["program"]]
    engine = ENGINES[params["engine"]]
    return list(
        dict.fromkeys([*engine.programs, *([installed_program(params)] if params["download"].get("url") else [])])
    )


def _file(params: InstallParams) -> str:
    return f"{folder(params)}\\{params['download']['url'].rpartition('/')[2]}"


def plan(params: InstallParams, host: str) -> tuple[Any, ...]:
    """(steps, calls) that bring the engine to a host that does not have it."""
    name = params["program"] or ENGINES[params["engine"]].programs[0]
    if not params["download"].get("url"):
        raise Failure(
            "engine_missing",
            f"{host} has no program {name}.",
            "Install it, name it in full in benchmark_windows.program, or say in benchmark_windows_download where it comes from.",
            program=name,
        )
    # A program there runs with all rights.
    steps = [step("folder", folder(params), None, "for administrators alone", "folder_private", Folder=folder(params))]
    url, path = params["download"]["url"], _file(params)
    calls = [
        module_call(
            "download",
            path,
            None,
            url,
            "ansible.windows.win_get_url",
            url=url,
            dest=path,
            checksum=params["download"]["checksum"].lower(),
            checksum_algorithm="sha256",
            force=False,
        ),
    ]
    if kind(url) == "msi":
        calls.append(
            module_call("install", path, None, "installed", "ansible.windows.win_package", path=path, state="present")
        )
    elif kind(url) == "zip":
        calls.append(
            module_call(
                "unpack", path, None, folder(params), "community.windows.win_unzip", src=path, dest=folder(params)
            )
        )
    return steps, calls


def remember(memory: Remembered, params: InstallParams, calls: list[Any]) -> Remembered:
    """The record of what is brought, kept before it is: [{folder, package: file that it is uninstalled by, or None}]."""
    if not calls:
        return memory
    new = {"folder": folder(params), "package": _file(params) if kind(params["download"]["url"]) == "msi" else None}
    return {**memory, "brought": [*(entry for entry in memory.get("brought", []) if entry != new), new]}


def packages(memory: Remembered) -> list[Any]:
    """Files without which what was brought cannot be uninstalled."""
    return [entry["package"] for entry in memory.get("brought", []) if entry["package"]]


def absent_plan(memory: Remembered, state: State) -> tuple[Any, ...]:
    """(calls, steps) that take it away. A package is not there when it could not even be fetched."""
    calls = [
        module_call(
            "uninstall", package, "installed", None, "ansible.windows.win_package", path=package, state="absent"
        )
        for package in packages(memory)
        if package in state["files"]
    ]
    folders = dict.fromkeys(entry["folder"] for entry in memory.get("brought", []))
    return calls, [step("folder", each, "there", None, "folder_remove", Folder=each) for each in folders]


def uncollected(runs: list[Any]) -> list[Any]:
    """Names of the runs of an engine that have ended and measured something: no controller has taken their results."""
    return [
        run["name"]
        for run in runs
        if run["state"] == "ended" and not run["name"].rpartition("-")[2].startswith(PREPARATION)
    ]


def refuse_uncollected(runs: list[Any]) -> None:
    """Failure 'run_uncollected' for runs that have ended and are still there: a controller removes each when it has its results."""
    held = uncollected(runs)
    if held:
        raise Failure(
            "run_uncollected",
            f"{held[0]} has ended on this host, and no controller has taken its results.",
            "Run the same benchmark again, which takes them, or set benchmark_discard (discard of win_benchmark) to delete them.",
            runs=held,
        )


def ends(runs: list[Any]) -> list[Any]:
    """Steps that end these runs of the testbed and remove what they left."""
    return [
        step("run", run["folder"], run["state"], None, "engine_remove", Folder=run["folder"], TaskName=run["task"])
        for run in runs
    ]


def left_words(left: list[Any]) -> str:
    """The message about programs beside an engine that a run did not end. left: ['Dynamo.exe (4242)']."""
    return f"{', '.join(left)}: beside the engine still running, not known to be this run's, and left alone."
