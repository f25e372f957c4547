# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: kill_controller
type: aggregate
short_description: Kills the process of a playbook at one task, for tests only
description:
  - Counts the tasks that start, from 1. C(before 7) is the moment before any host does the seventh task, C(after 7) that when the first host has done it, and
    others may still be at it. A task that no host tells anything of, such as one that includes others, has no such moment.
  - Each moment is added, with the name of the task, as a line to the file that the environment variable E(KILL_CONTROLLER_MOMENTS) names.
  - At the moment that E(KILL_CONTROLLER_AT) names the process that runs the playbook is killed, so that nothing of it can tidy up.
  - Before the first task of the role or the play, or the task, that the environment variable E(KILL_CONTROLLER_HOLD_AT) names, the playbook is held between
    two stages. It writes the file C(held) in the folder that E(KILL_CONTROLLER_HOLD) names and goes on when the file C(go) is there.
author:
  - The storlab.testbed developers
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_controller"

    def __init__(self):
        super().__init__()
        self.number, self.name, self.last = 0, "", ""
        self.hold_at = os.environ.get("KILL_CONTROLLER_HOLD_AT", "")
        self.play = ""

    def _reached(self, moment):
        """Of several hosts the first one counts."""
        now = f"{moment} {self.number}"
        if now == self.last:
            return
        self.last = now
        with open(os.environ["KILL_CONTROLLER_MOMENTS"], "a", encoding="utf-8") as handle:
            handle.write(f"{now} {self.name}\n")
        if os.environ.get("KILL_CONTROLLER_AT") == now:
            os.kill(os.getpid(), signal.SIGKILL)

    def _hold(self, task):
        """Once."""
        role = task._role.get_name().rpartition(".")[2] if task._role else ""
        if not self.hold_at or self.hold_at not in (role, task.name, self.play):
            return
        self.hold_at, folder = "", Path(os.environ["KILL_CONTROLLER_HOLD"])
        (folder / "held").touch()
        while not (folder / "go").exists():
            time.sleep(0.05)

    def v2_playbook_on_play_start(self, play):
        self.play = play.get_name()

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._hold(task)
        self.number += 1
        self.name = task.get_name()
        self._reached("before")

    def v2_playbook_on_handler_task_start(self, task):
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_ok(self, result):
        self._reached("after")

    def v2_runner_on_skipped(self, result):
        self._reached("after")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._reached("after")
