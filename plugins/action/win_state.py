# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage state of a Windows host; documentation in plugins/modules/win_state.py."""

from __future__ import annotations

import time
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..plugin_utils.windows import existing, storage_state
from ..plugin_utils.windows.action import WindowsAction, lost

LOOK_EVERY_S = 10.0


class ActionModule(WindowsAction):
    SPEC: ClassVar[dict] = {
        "testbed_id": {"type": "str", "default": ""},
        "wait_s": {"type": "float", "default": 0},
    }

    def perform(self, params: dict) -> dict:
        if params["wait_s"] > 0:
            self._await(params["wait_s"])
        return super().perform(params)

    def _await(self, wait_s: float) -> None:
        """Ends when scripts run on the host. Until then nothing listens, or what listens is about to restart."""
        host = self.task_vars["inventory_hostname"]
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self.state()
                return
            except Exception as error:
                if not lost(error):
                    raise
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise Failure(
                        "windows_silent",
                        f"Windows on {host} has not answered for {wait_s:.0f} s: {str(error).rstrip('.')}.",
                        "Look at the console of the machine: Setup shows there what it waits for. Check address, port, user and password of its "
                        "connection, and the network in between. Run again: what is there is kept, and waited for.",
                        host=host,
                    ) from error
                time.sleep(min(LOOK_EVERY_S, left_s))
                self._connect_again()

    def _connect_again(self) -> None:
        """The connection plugins keep a shell that is open, and do not notice that it is gone."""
        try:
            self._connection.reset()
        except Exception as error:
            if not lost(error):
                raise

    def present(self, params: dict, state: dict) -> dict:
        testbed_id = params["testbed_id"]
        ours = storage_state.ours(state, testbed_id) if testbed_id else {}
        seen = {
            "volumes": [{key: volume[key] for key in ("letter", "label", "size_bytes")} for volume in state["volumes"]],
            "disks": [{key: disk[key] for key in ("number", "name", "size_bytes")} for disk in state["disks"]],
        }
        offers = existing.offers(state)
        return {
            "changed": False,
            "existing": offers,
            "seen": seen,
            "storage_state": storage_state.lines(state, testbed_id),
            "ours": ours,
        }
