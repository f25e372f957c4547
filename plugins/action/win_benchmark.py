# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that measure on a Windows host: there, or gone with all their runs; documentation in plugins/modules/win_benchmark.py."""

from __future__ import annotations

from ..module_utils.core.failure import Failure
from ..module_utils.core.steps import shown
from ..plugin_utils.windows import install
from ..plugin_utils.windows.action import WindowsAction


class ActionModule(WindowsAction):
    SPEC, AREA = install.SPEC, "benchmark"

    def present(self, params: dict, _state: dict) -> dict:
        install.check(params)
        engine: dict = {}
        for name in install.candidates(params):
            engine = self.script("engine_host", {"Program": name})
            if engine["program"]:
                break
        steps, calls = ([], []) if engine["program"] else install.plan(params, self.task_vars["inventory_hostname"])
        self.remember(install.remember(self.memory.data, params, calls))
        self.apply(steps)
        done = steps + self.carried_out(calls)
        if calls and not self._task.check_mode:
            program = install.installed_program(params)
            engine = self.script("engine_host", {"Program": program})
            if not engine["program"]:
                raise Failure(
                    "engine_missing",
                    f"{params['download']['url']} was installed, but {program} is not there.",
                    "Name the program in full in benchmark_windows.program.",
                    program=program,
                )
        return {**shown(done), "program": engine["program"], "version": engine["version"]}

    def files(self, _params: dict) -> list:
        return install.packages(self.memory.data)

    def absent(self, params: dict, state: dict) -> dict:
        install.check(params)
        runs = self.script("engine_list", {"Root": params["root"], "TestbedId": params["testbed_id"]})["runs"]
        if not params["discard"]:
            install.refuse_uncollected(runs)
        ends = install.ends(runs)
        left = [] if self._task.check_mode else self.ended(ends)
        calls, steps = install.absent_plan(self.memory.data, state)
        done = self.carried_out(calls)
        self.apply(steps)
        self.forget()
        return {**shown(ends + done + steps), **({"warnings": [install.left_words(left)]} if left else {})}

    def ended(self, steps: list) -> list:
        """Ends and removes runs; who else runs beside their programs, and was left."""
        answers = [self.script(step["script"], step["parameters"]) for step in steps]
        return [name for answer in answers for name in answer.get("left") or []]

    def carried_out(self, calls: list) -> list:
        """In check mode those that would be: most need the file that the one before them brings."""
        return calls if self._task.check_mode else self.changes(self.call(calls))
