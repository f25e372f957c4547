# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the progress of an image build; documentation in plugins/modules/lab_image.py."""

from __future__ import annotations

import json
import os
import threading
import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.lab.image import remaining_s

INTERVAL_S = 5.0


def progress_line(host: str, state: dict, now: float) -> str:
    elapsed = max(0.0, now - state["started"])
    return f"[{host}] image: {state['phase']}, {elapsed:.0f} s elapsed, ~{remaining_s(state['share'], state['entered'] - state['started'], elapsed)} s left"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended, task_vars["inventory_hostname"]), daemon=True)
        watcher.start()
        try:
            # A module speaks once, at its end; its progress is read from the file it keeps beside the images.
            result.update(self._execute_module(module_name="storlab.testbed.lab_image", task_vars=task_vars))
        finally:
            ended.set()
            watcher.join()
        return result

    def _watch(self, ended: threading.Event, host: str) -> None:
        path = os.path.join(os.path.expanduser(str(self._task.args.get("image_dir", ""))), ".progress")
        began = time.time()
        while not ended.wait(INTERVAL_S):
            try:
                with open(path, encoding="utf-8") as stream:
                    state = json.load(stream)
            except FileNotFoundError:
                continue
            if state["started"] >= began - INTERVAL_S:  # a killed build leaves its last words
                Display().display(progress_line(host, state, time.time()))
