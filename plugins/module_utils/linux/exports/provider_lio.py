# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by LIO, the target of the Linux kernel."""

from __future__ import annotations

from typing import Any

from ...core.names import check_testbed_id
from ...core.steps import diff_of
from . import iscsi_target
from .lio import LioTarget, lun_identity, newly_exported, plan

OPTIONS: dict[str, Any] = {}
COMMANDS: dict[str, tuple[str, str]] = {}
KERNEL_MODULES = ("target_core_mod", "iscsi_target_mod")


def ensure(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    lio = LioTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]))
    if params["state"] == "absent":
        steps = plan(lio.current(), [])
        changed = bool(steps or lio.record.data)
        if changed and not check_mode:
            # The session of an initiator that died lasts until LIO misses its answers.
            lost = lio.lost_luns(lio.current(), steps, patience_s=0 if params["uses"] else 60)
            iscsi_target.refuse_withdrawn(iscsi_target.withdrawn(lost, [], params["layers"]), params["uses"])
            lio.remove_all(steps)
        return {"changed": changed, "steps": steps, "diff": diff_of(steps, lambda step: step["path"])}
    targets = iscsi_target.check_targets(
        params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
    )
    current = lio.current()
    lio.refuse_foreign(current, targets)
    entries = lio.entries(current, targets)
    steps = plan(current, entries)
    for target, lun in newly_exported(current, steps, targets, lio.testbed_id):
        # In check mode on a fresh host the device below is not there yet.
        if not (check_mode and lun["expected"]):
            iscsi_target.refuse_unsafe(lun, target["name"], lio.testbed_id)
    lost = lio.lost_luns(current, steps, patience_s=0 if params["uses"] else 5)
    going = iscsi_target.withdrawn(lost, targets, params["layers"], lio.cut_off(current, steps, targets))
    iscsi_target.refuse_withdrawn(going, params["uses"])
    if steps and not check_mode:
        lio.apply(targets, steps, entries)
    layers = iscsi_target.layers_of(
        targets,
        params["layers"],
        lambda target, lun: lun_identity(lio.testbed_id, target, lun),
        "lio",
        facts=lio.facts,
    )
    return {"changed": bool(steps), "steps": steps, "diff": diff_of(steps, lambda step: step["path"]), "layers": layers}
