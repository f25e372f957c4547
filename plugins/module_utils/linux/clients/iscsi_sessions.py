# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All iSCSI sessions of one testbed on a Linux host: what the module iscsi_session takes and does."""

from __future__ import annotations

from typing import Any, cast

from ...core import converge
from ...core.failure import Failure, bad_value
from ...core.iscsi_names import check_chap, check_known_iqn, portal_address, spelled
from ...core.luns import CHAP_SPEC, LUN_SPEC, PORTAL_SPEC, expected, layers_of, paths_of, unwanted
from ...core.names import check_testbed_id
from ...core.steps import Step, diff_of
from ..host import read_text
from ..nouns import LoginState, LoginTarget, Portal, Tuning
from ..params import IscsiSessionParams
from .open_iscsi import OpenIscsi, plan

TUNING = {
    "queue_depth": 32,
    "replacement_timeout_s": 120,
    "login_timeout_s": 15,
    "noop_interval_s": 5,
    "noop_timeout_s": 5,
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "initiator_name": {"type": "str"},
    "layers": {"type": "dict", "default": {}},
    **{key: {"type": "int", "default": value} for key, value in TUNING.items()},
    "targets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "iqn": {"type": "str", "required": True},
            "portal": {"type": "dict", "required": True, "options": PORTAL_SPEC},
            "other_portals": {"type": "list", "elements": "dict", "default": [], "options": PORTAL_SPEC},
            "luns": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    **LUN_SPEC,
                    "purpose": {"type": "str", "choices": ["scratch", "data", "read"]},
                    "layer_kind": {"type": "str", "choices": ["initiator", "target"], "default": "initiator"},
                },
            },
            **CHAP_SPEC,
        },
    },
}


def check(params: IscsiSessionParams) -> list[LoginTarget]:
    """The targets with what is expected of their LUNs; raises bad_value."""
    check_known_iqn("iscsi_initiator_name", params["initiator_name"])
    for key in ("queue_depth", "login_timeout_s"):
        if params[key] < 1:
            raise bad_value(f"iscsi_initiator_{key}", params[key], "Give at least 1.")
    targets: list[LoginTarget] = []
    for target in params["targets"]:
        check_known_iqn("iscsi_initiator_targets iqn", target["iqn"])
        # Whether CHAP is needed is for the target to say.
        check_chap(f"iscsi_initiator_targets {target['iqn']}", target, allow_none=True)
        portals: list[Portal] = [
            {**portal, "address": portal_address(f"iscsi_initiator_targets {target['iqn']} portal", portal["address"])}
            for portal in (target["portal"], *target["other_portals"])
        ]
        targets.append(
            {
                **target,
                "portal": portals[0],
                "other_portals": portals[1:],
                "luns": [expected(lun, target["iqn"], params["layers"]) for lun in target["luns"]],
            }
        )
    return targets


def ensure_target(iscsi: OpenIscsi, target: LoginTarget, steps: list[Step], warnings: list[Any]) -> dict[str, Any]:
    """Apply one target's steps and return its disks; a failed login is undone."""
    path = iscsi.record_file(target)
    before, busy = read_text(path) if path else None, iscsi.current(target)["busy"]
    try:
        iscsi.apply(steps, target)
        if iscsi.offline(target):
            iscsi.apply([{"op": "relogin"}], target)
        disks = iscsi.disks(target)
    except Failure:
        if any(step["op"] in ("create_record", "login", "relogin", "recover") for step in steps):
            iscsi.undo(target, before)
        raise
    if busy and any(step["op"] == "update_record" for step in steps):
        warnings.append(
            f"The session to {target['iqn']} is in use: what changed in its record takes effect at its next login."
        )
    return disks


class Area(converge.Area):
    """The sessions of a testbed on a Linux host, for the module iscsi_session."""

    def plan(self) -> list[Step]:
        params = self.params
        self.tuning = cast(Tuning, {key: params[key] for key in TUNING})
        self.iscsi = iscsi = OpenIscsi(
            check_testbed_id("iscsi_initiator_testbed_id", params["testbed_id"]), self.tuning.copy()
        )
        self.warnings: list[Any] = []
        targets = check(params) if self.present else []
        known = [each["iqn"] for each in iscsi.records()] if targets else []
        self.targets: list[LoginTarget] = [{**target, "iqn": spelled(target["iqn"], known)} for target in targets]
        paths = [path for target in self.targets for path in paths_of(target)]
        self.extra = unwanted(iscsi.records(), paths)
        self.name = iscsi.iface_name()
        self.plans: list[tuple[LoginTarget, list[Step]]] = []
        self.disks: dict[tuple[str, int], Any] = {}
        steps: list[Step] = [
            {"op": "logout", "target": target["iqn"], "was": "LOGGED_IN", "will": None} for target in self.extra
        ]
        if not self.present:
            left = self.name is not None or iscsi.empty_records()
            self.changed = bool(self.extra or iscsi.record.data or left)
            return steps
        if self.name != params["initiator_name"]:
            # A session keeps the name it logged in with.
            self.extra = iscsi.records()
            steps = [{"op": "set_initiator_name", "target": "", "was": self.name, "will": params["initiator_name"]}]
        if not iscsi.daemon_runs():
            steps.append({"op": "start", "target": "iscsid", "was": "not running", "will": "running"})
        self.plans = [(path, plan(self.current(path), path, self.tuning)) for path in paths]
        # The steps before the logins; a disk that is joined from several paths adds to it.
        self.first = steps
        return self.all_steps()

    def current(self, path: LoginTarget) -> LoginState:
        """The state of a target; nothing when the initiator gets another name."""
        if self.name == self.params["initiator_name"]:
            return self.iscsi.current(path)
        return {"record": None, "session": None, "luns": {}, "multipath": False, "busy": [], "in_force": None}

    def all_steps(self) -> list[Step]:
        return [*self.first, *(step for _path, its_steps in self.plans for step in its_steps)]

    def guard(self, steps: list[Step]) -> None:
        self.iscsi.refuse_used(self.extra)

    def apply(self, steps: list[Step]) -> None:
        if self.present:
            self.log_in()
        elif self.changed:
            self.iscsi.remove_all()

    def log_in(self) -> None:
        iscsi = self.iscsi
        iscsi.remove(self.extra)
        try:
            if any(its_steps for _path, its_steps in self.plans) or self.first:
                iscsi.prepare(self.params["initiator_name"])
            seen: dict[tuple[str, Any], list[Any]] = {}
            for path, its_steps in self.plans:
                for lun, disk in ensure_target(iscsi, path, its_steps, self.warnings).items():
                    seen.setdefault((path["iqn"], lun), []).append({**disk, "portal": path["portal"]})
            for target in self.targets:
                target["iqn"] = spelled(target["iqn"], [path["iqn"] for path, _steps in self.plans])
                for wanted in target["luns"]:
                    key = (target["iqn"], wanted["lun"])
                    self.disks[key] = iscsi.join(target, wanted, seen[key], self.first, self.warnings)
        except Failure:
            if not iscsi.records():
                # The first login failed: nothing of this testbed is left then.
                iscsi.remove_all()
            raise

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        if not self.present:
            return {"changed": self.changed, "steps": steps, "diff": diff_of(steps), "warnings": []}
        if self.check_mode and self.name == self.params["initiator_name"]:
            self.disks = self.iscsi.seen([path for path, _steps in self.plans])
        steps = self.all_steps()
        return {
            "changed": bool(steps),
            "steps": steps,
            "diff": diff_of(steps),
            "layers": layers_of(self.targets, self.disks),
            "warnings": self.warnings,
        }
