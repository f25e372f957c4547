# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines, and where each can run. Documented in docs/engines.md."""

from __future__ import annotations

import shutil
from typing import Any

from ..core.failure import Failure, bad_value
from ..workload.workload import Workload
from .diskspd import Diskspd
from .elbencho import Elbencho
from .engine import Engine
from .fio_engine import Fio
from .iometer import Iometer

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Fio(), Diskspd(), Iometer(), Elbencho())}
# A plan that names no engine is of an earlier version, which had this one alone. It plays the reference beat beside others, too.
USUAL = Fio.name


def engine_of_plan(plan: dict[str, Any]) -> Engine:
    """The engine that a plan is measured with."""
    return engine_of(plan.get("engine", USUAL))


def reference_program(engine: Engine, program: str) -> str:
    """The program that plays the reference beat on a host. program: the engine's own."""
    if engine.ceiling:
        return program
    return shutil.which(ENGINES[USUAL].program) or ENGINES[USUAL].program


def engine_of(name: object, variable: str = "engine") -> Engine:
    """The engine of this name; Failure 'bad_value' for another."""
    if name not in ENGINES:
        raise bad_value(variable, name, f"Use one of {', '.join(ENGINES)}.")
    return ENGINES[name]


def misplaced(name: object, platform: str) -> tuple[str, str] | None:
    """(what is wrong, what to do) of an engine of this name on hosts of a platform (linux or windows); None when it runs there, or is unknown."""
    if not isinstance(name, str) or name not in ENGINES:
        return None
    if platform == "linux" and not ENGINES[name].linux:
        return "which runs on Windows hosts only", "use fio"
    if platform == "windows" and not ENGINES[name].windows:
        return "which runs on Linux hosts only", "use fio"
    return None


def check_options(workloads: list[Workload]) -> None:
    """Failure 'bad_value' for options of an engine that there is not."""
    for workload in workloads:
        for name in workload.get("engine_options", {}):
            engine_of(name, "workload.engine_options")


def check_host(args: dict[str, Any], windows: bool) -> None:
    """Failure 'bad_value' for what cannot be measured on hosts of this kind. args: the arguments of the task benchmark."""
    engine = engine_of(args["engine"])
    if not windows:
        if not engine.linux:
            raise bad_value("engine", args["engine"], "It runs on Windows hosts only; use fio on this one.")
        if args["servers"] and not engine.many_hosts:
            raise bad_value(
                "engine",
                args["engine"],
                "Many hosts at once are measured with fio only; leave out servers, or use fio.",
            )
        return
    if not engine.windows:
        raise bad_value("engine", args["engine"], "It runs on Linux hosts only; use fio on this one.")
    if args["servers"]:
        raise bad_value(
            "servers",
            [server.get("host") for server in args["servers"]],
            "Many hosts are measured at once from a Linux host; leave it out.",
        )
    if args["steady_state"] is not None:
        raise Failure(
            "bad_value",
            f"steady_state is {args['steady_state']!r}.",
            "It is not judged on Windows hosts; leave it out there.",
        )
