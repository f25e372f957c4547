# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by LIO, the target of the Linux kernel."""

from __future__ import annotations

from typing import Any

from ...core import converge
from ...core.names import check_testbed_id
from ...core.steps import Step, diff_of
from . import iscsi_target
from .lio import LioTarget, exported_luns, lun_identity, newly_exported, plan

OPTIONS: dict[str, Any] = {}
COMMANDS: dict[str, tuple[str, str]] = {}
KERNEL_MODULES = ("target_core_mod", "iscsi_target_mod")
FIRST_LUN = 0
SHARES_LUNS = False
PROTOCOL = "iscsi"


class Area(converge.Area):
    """The targets of a testbed."""

    def plan(self) -> list[Step]:
        params = self.params
        self.lio = LioTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]))
        self.targets: list[Any] = []
        self.entries: list[Any] = []
        if self.present:
            self.targets = iscsi_target.check_targets(
                params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
            )
        self.current = self.lio.current()
        if self.present:
            self.lio.refuse_foreign(self.current, self.targets)
            self.entries = self.lio.entries(self.current, self.targets)
        steps = plan(self.current, self.entries)
        self.changed = bool(steps or (self.lio.record.data and not self.present))
        return steps

    def guard(self, steps: list[Step]) -> None:
        lio, uses = self.lio, self.params["uses"]
        if not self.present and (self.check_mode or not self.changed):
            # A user of it may be gone by then.
            return
        for target, lun in newly_exported(self.current, steps, self.targets, lio.testbed_id):
            # In check mode on a fresh host the device below is not there yet.
            if not (self.check_mode and lun["expected"]):
                iscsi_target.refuse_unsafe(lun, target["name"], lio.testbed_id)
        # The session of an initiator that died lasts until LIO misses its answers.
        lost = lio.lost_luns(self.current, steps, patience_s=0 if uses else 5 if self.present else 60)
        cut = lio.cut_off(self.current, steps, self.targets) if self.present else ()
        layers = self.params["layers"]
        luns = iscsi_target.withdrawn(lost, self.targets, layers, cut)
        if not self.present:
            luns += iscsi_target.left_behind(exported_luns(steps), layers, luns)
        iscsi_target.refuse_withdrawn(luns, uses)

    def apply(self, steps: list[Step]) -> None:
        if not self.present and self.changed:
            self.lio.remove_all(steps)
        elif steps:
            self.lio.apply(self.targets, steps, self.entries)

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        lio = self.lio
        result = {"changed": self.changed, "steps": steps, "diff": diff_of(steps, lambda step: step["path"])}
        if self.present:
            result["layers"] = iscsi_target.layers_of(
                self.targets,
                self.params["layers"],
                lambda target, lun: lun_identity(lio.testbed_id, target, lun),
                "lio",
                facts=lio.facts,
            )
        return result
