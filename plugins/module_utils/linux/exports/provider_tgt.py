# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by tgt, in user space, with a tgtd of the testbed's own."""

from __future__ import annotations

from typing import Any

from ...core import converge
from ...core.names import check_testbed_id
from ...core.steps import Step, shown
from ..disks import block_device
from ..host import wait_for
from . import iscsi_target
from .tgt import OWN_LUN, TgtTarget, check_targets, cut_off, lost_luns, lun_identity, newly_exported, plan

OPTIONS: dict[str, Any] = {
    "control_port": {"type": "int", "default": 3260},
    "page_cache": {"type": "bool", "default": False},
}
COMMANDS = {"tgtd": ("tgt", "scsi-target-utils"), "tgtadm": ("tgt", "scsi-target-utils")}
KERNEL_MODULES: tuple[str, ...] = ()
FIRST_LUN = 1
LUN_0 = OWN_LUN
SHARES_LUNS = True
PROTOCOL = "iscsi"


class Area(converge.Area):
    """The targets of a testbed, and its tgtd."""

    def plan(self) -> list[Step]:
        params = self.params
        self.tgt = tgt = TgtTarget(
            check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]), params["control_port"]
        )
        self.targets: list[Any] = []
        if not self.present or not params["targets"]:
            there = bool(tgt.record.data or tgt.pid())
            was = "running" if tgt.pid() else "recorded"
            return [{"op": "stop", "target": "tgtd", "was": was, "will": None}] if there else []
        self.targets = iscsi_target.check_targets(
            params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
        )
        for lun in [lun for target in self.targets for lun in target["luns"]]:
            # In check mode on a fresh host the device below is not there yet.
            lun["block_bytes"] = (lun["device"] and block_device.logical_block_bytes(lun["device"])) or 512
        self.accounts = check_targets(self.targets)
        self.current = tgt.current()
        changed = tgt.changed_accounts(self.accounts) & self.current["accounts"]
        return plan(self.current, self.targets, changed, tgt.testbed_id, params["page_cache"])

    def guard(self, steps: list[Step]) -> None:
        if not self.targets:
            # A session may have ended by itself by then.
            if steps and not self.check_mode:
                self.refuse_lost(steps, patience_s=60)
            return
        for name, lun in newly_exported(self.current, self.targets, steps):
            # In check mode on a fresh host the device below is not there yet.
            if not (self.check_mode and lun["expected"]):
                iscsi_target.refuse_unsafe(lun, name, self.tgt.testbed_id)
        changed, recorded = self.tgt.changed_accounts(self.accounts), self.tgt.known_accounts(self.accounts)
        cut = cut_off(self.current, self.targets, changed & recorded, recorded - changed)
        self.refuse_lost(steps, patience_s=5, cut=cut)

    def refuse_lost(self, steps: list[Step], patience_s: float, cut: Any = ()) -> None:
        """Raises target_in_use for LUNs that initiators would lose; waits for sessions that are just ending, unless they were asked already."""
        uses, layers = self.params["uses"], self.params["layers"]

        def lost() -> Any:
            return lost_luns(self.tgt.current(), steps)

        wait_for(lambda: not lost(), 0 if uses else patience_s, interval_s=0.5)
        luns = iscsi_target.withdrawn(lost(), self.targets, layers, cut)
        if not self.present:
            exported = {(name, lun) for name, target in self.tgt.current()["targets"].items() for lun in target["luns"]}
            luns += iscsi_target.left_behind(exported, layers, luns)
        iscsi_target.refuse_withdrawn(luns, uses)

    def apply(self, steps: list[Step]) -> None:
        if steps and self.targets:
            self.tgt.apply(steps, self.targets, self.accounts)
        elif steps:
            self.tgt.remove_all()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        layers = iscsi_target.layers_of(
            self.targets,
            self.params["layers"],
            lambda target, lun: lun_identity(self.tgt.testbed_id, target, lun),
            "tgt",
            page_cache=self.params["page_cache"],
        )
        return {**shown(steps), **({"layers": layers} if self.present else {})}
