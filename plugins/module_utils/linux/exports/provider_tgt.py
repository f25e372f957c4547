# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by tgt, in user space, with a tgtd of the testbed's own."""

from __future__ import annotations

from typing import Any

from ...core.names import check_testbed_id
from ...core.steps import Step, shown
from ..disks import block_device
from ..host import wait_for
from . import iscsi_target
from .tgt import TgtTarget, check_targets, cut_off, lost_luns, lun_identity, plan

OPTIONS: dict[str, Any] = {
    "control_port": {"type": "int", "default": 3260},
    "page_cache": {"type": "bool", "default": False},
}
COMMANDS = {"tgtd": ("tgt", "scsi-target-utils"), "tgtadm": ("tgt", "scsi-target-utils")}
KERNEL_MODULES: tuple[str, ...] = ()


def refuse_lost(
    tgt: TgtTarget, steps: list[Step], targets: list[Any], params: dict[str, Any], patience_s: float, cut: Any = ()
) -> None:
    """Raises target_in_use for LUNs that initiators would lose; waits for sessions that are just ending, unless they were asked already.

    cut: of what initiators would lose as soon as their connection breaks.
    """

    def lost() -> Any:
        return lost_luns(tgt.current(), steps)

    wait_for(lambda: not lost(), 0 if params["uses"] else patience_s, interval_s=0.5)
    iscsi_target.refuse_withdrawn(iscsi_target.withdrawn(lost(), targets, params["layers"], cut), params["uses"])


def ensure(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    tgt = TgtTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]), params["control_port"])
    if params["state"] == "absent" or not params["targets"]:
        there = bool(tgt.record.data or tgt.pid())
        steps: list[Step] = (
            [{"op": "stop", "target": "tgtd", "was": "running" if tgt.pid() else "recorded", "will": None}]
            if there
            else []
        )
        if there and not check_mode:
            refuse_lost(tgt, steps, [], params, patience_s=60)
            tgt.remove_all()
        return {**shown(steps), **({"layers": []} if params["state"] == "present" else {})}
    targets = iscsi_target.check_targets(
        params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
    )
    for lun in [lun for target in targets for lun in target["luns"]]:
        # In check mode on a fresh host the device below is not there yet.
        lun["block_bytes"] = (lun["device"] and block_device.logical_block_bytes(lun["device"])) or 512
    accounts = check_targets(targets)
    current = tgt.current()
    changed, recorded = tgt.changed_accounts(accounts), tgt.known_accounts(accounts)
    steps = plan(current, targets, changed & current["accounts"], tgt.testbed_id, params["page_cache"])
    added = {step["lun"] for step in steps if step["op"] == "add_lun"}
    for name, lun in [(target["name"], lun) for target in targets for lun in target["luns"] if lun["name"] in added]:
        ours = any(
            exported.get("device") == lun["device"]
            for known in current["targets"].values()
            for exported in known["luns"].values()
        )
        # In check mode on a fresh host the device below is not there yet.
        if not ours and not (check_mode and lun["expected"]):
            iscsi_target.refuse_unsafe(lun, name, tgt.testbed_id)
    cut = cut_off(current, targets, changed & recorded, recorded - changed)
    refuse_lost(tgt, steps, targets, params, patience_s=5, cut=cut)
    if steps and not check_mode:
        tgt.apply(steps, targets, accounts)
    layers = iscsi_target.layers_of(
        targets,
        params["layers"],
        lambda target, lun: lun_identity(tgt.testbed_id, target, lun),
        "tgt",
        page_cache=params["page_cache"],
    )
    return {**shown(steps), "layers": layers}
