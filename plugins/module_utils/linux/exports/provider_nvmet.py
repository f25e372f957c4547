# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by nvmet, the NVMe target of the Linux kernel, over TCP."""

from __future__ import annotations

from typing import Any

from ...core import converge
from ...core.names import check_testbed_id
from ...core.nvme_names import FIRST_NAMESPACE
from ...core.steps import Step, diff_of
from ..host import wait_for
from . import iscsi_target
from .nvmet import MODULES, NvmeTarget, check_targets, exported_luns, lost_luns, lun_identity, newly_exported, plan
from .nvmet import wanted_entries as wanted

OPTIONS: dict[str, Any] = {}
COMMANDS: dict[str, tuple[str, str]] = {}
KERNEL_MODULES = MODULES
FIRST_LUN = FIRST_NAMESPACE
LUN_0 = "no namespace of NVMe"
SHARES_LUNS = True
SPLITS_TARGETS = True
PROTOCOL = "nvme"


class Area(converge.Area):
    """The subsystems of a testbed."""

    def plan(self) -> list[Step]:
        params = self.params
        self.nvme = nvme = NvmeTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]))
        self.targets: list[Any] = []
        self.entries: list[Any] = []
        if self.present:
            self.targets = iscsi_target.check_targets(
                params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
            )
            check_targets(self.targets)
            nvme.refuse_foreign(self.targets)
            self.entries = wanted(nvme.testbed_id, self.targets, nvme.numbers(self.targets))
        self.current = nvme.current()
        steps = plan(self.current, self.entries)
        self.changed = bool(steps or (nvme.record.data and not self.present))
        return steps

    def guard(self, steps: list[Step]) -> None:
        nvme, uses, layers = self.nvme, self.params["uses"], self.params["layers"]
        if not self.present and (self.check_mode or not self.changed):
            # A user of it may be gone by then.
            return
        for target, lun in newly_exported(self.current, steps, self.targets):
            # In check mode on a fresh host the device below is not there yet.
            if not (self.check_mode and lun["expected"]):
                iscsi_target.refuse_unsafe(lun, target["name"], nvme.testbed_id)

        def taken() -> Any:
            return lost_luns(self.current, steps, nvme.peers(), layers)

        # A connection that is just ending, or whose host died.
        wait_for(lambda: not any(taken()), 0 if uses else 5 if self.present else 60, interval_s=0.5)
        lost, cut = taken()
        luns = iscsi_target.withdrawn(lost, self.targets, layers, cut)
        if not self.present:
            luns += iscsi_target.left_behind(exported_luns(steps), layers, luns)
        iscsi_target.refuse_withdrawn(luns, uses)

    def apply(self, steps: list[Step]) -> None:
        if not self.present and self.changed:
            self.nvme.remove_all(steps)
        elif steps:
            self.nvme.apply(self.targets, steps, self.entries)

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        result = {"changed": self.changed, "steps": steps, "diff": diff_of(steps, lambda step: step["path"])}
        if self.present:
            result["layers"] = iscsi_target.layers_of(
                self.targets,
                self.params["layers"],
                lambda target, lun: lun_identity(self.nvme.testbed_id, target, lun),
                "nvmet",
            )
        return result
