# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The things that this testbed was about to make on a host, kept on the controller from before the call that makes it until the host shows it with its stamp.

A call that was cut (its answer took longer than the time limit, the controller was killed) may have been carried out, or may be carried out a while later.
Without the intention, what it leaves carries no stamp, and both build and teardown would refuse it as somebody else's. With it, what matches is taken, provided
that it is empty: on the very device, under the very name, on the very host.
"""

from __future__ import annotations

import time
from typing import Any

from ..core.kept_record import KeptRecord
from ..core.steps import Step
from .states import StoresState, StoreWant, Volume

AREA = "intended"


class Intentions:
    """The intentions of one host. memory: None where nothing is kept; then a call that was cut leaves things that cannot be proven."""

    def __init__(self, memory: KeptRecord | None, host: str, wall: Any = time.time) -> None:
        self.memory, self.host, self.wall = memory, host, wall

    @property
    def kept(self) -> dict[str, Any]:
        """{name: {name, naa, remote, host, time_s}}"""
        return self.memory.data.get(AREA, {}) if self.memory else {}

    def keep(self, want: StoreWant) -> None:
        if self.memory:
            remote = f"{want['server']}:{want['path']}" if want["type"] == "nfs" else None
            intention = {"name": want["name"], "naa": want["naa"], "remote": remote, "host": self.host}
            self.memory.data.setdefault(AREA, {})[want["name"]] = {**intention, "time_s": round(self.wall())}
            self.memory.save()

    def drop(self, name: str) -> None:
        if self.memory and self.kept.pop(name, None):
            if not self.kept:
                del self.memory.data[AREA]
            self.memory.save()

    def matching(self, volume: Volume) -> dict[str, Any] | None:
        """The intention that a volume may have come of."""
        intention: dict[str, Any] | None = self.kept.get(volume["name"])
        if not intention or intention["host"] != self.host:
            return None
        place = (volume["naa"], volume["remote"])
        meant = ([intention["naa"]] if intention["naa"] else [], intention["remote"])
        return intention if place == meant else None

    def awaited(self, state: StoresState, want: StoreWant, patience_s: float) -> bool:
        """Whether the host may still be at work on a call that was cut, and has not shown what comes of it."""
        intention = self.kept.get(want["name"])
        if not intention or self.wall() - intention["time_s"] > patience_s:
            return False
        return not any(self.matching(volume) for volume in state["volumes"])

    def settle(self, state: StoresState, plans: list[tuple[StoreWant, list[Step]]], patience_s: float) -> None:
        """After a run that succeeded: forget what is there with its stamp, and what was removed. Things that may yet appear stay known.

        plans: [(what was wanted, the steps that were taken)].
        """
        for want, steps in plans:
            if steps or want["state"] == "present" or not self.awaited(state, want, patience_s):
                self.drop(want["name"])
