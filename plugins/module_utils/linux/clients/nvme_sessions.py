# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All NVMe connections of one testbed on a Linux host: what the module nvme_session takes and does. It has the options of iscsi_session."""

from __future__ import annotations

from typing import Any, cast

from ...core import converge, nvme_names
from ...core.failure import Failure
from ...core.iscsi_names import portal_text
from ...core.luns import layers_of, paths_of, unwanted
from ...core.names import check_testbed_id
from ...core.steps import Step, diff_of
from ..nouns import LoginTarget, Tuning
from . import iscsi_sessions
from .nvme_tcp import NvmeTcp, plan

SPEC: dict[str, Any] = iscsi_sessions.SPEC
PROVIDER = "nvme_tcp"


class Area(converge.Area):
    """The connections of a testbed on a Linux host, for the module nvme_session."""

    def plan(self) -> list[Step]:
        params = self.params
        self.tuning = cast(Tuning, {key: params[key] for key in iscsi_sessions.TUNING})
        self.nvme = nvme = NvmeTcp(
            check_testbed_id("iscsi_initiator_testbed_id", params["testbed_id"]), self.tuning.copy()
        )
        self.warnings: list[str] = []
        self.targets = iscsi_sessions.check(params) if self.present else []
        self.paths = [path for target in self.targets for path in paths_of(target)]
        self.extra = unwanted(nvme.records(), self.paths)
        self.disks: dict[tuple[str, int], Any] = {}
        self.changed = True
        steps: list[Step] = [
            {"op": "disconnect", "target": nvme_names.nqn_of(each["iqn"]), "was": "connected", "will": None}
            for each in self.extra
        ]
        if not self.present:
            self.changed = bool(self.extra or nvme.record.data)
            return steps
        self.host = nvme_names.nqn_of(params["initiator_name"])
        if nvme.hosts() and nvme.hosts() != [self.host]:
            # A connection keeps the name that it was made with.
            self.extra = nvme.records()
            was = ", ".join(nvme.hosts())
            steps = [{"op": "set_initiator_name", "target": "", "was": was, "will": self.host}]
        nvme.refuse_foreign(self.targets)
        self.plans = [(path, plan(self._state(path), path, self.tuning)) for path in self.paths]
        steps += [step for _path, its_steps in self.plans for step in its_steps]
        self.changed = bool(steps)
        return steps

    def _state(self, path: LoginTarget) -> Any:
        """The state of a path; nothing when it goes before."""
        if any(each["iqn"] == path["iqn"] and each["portal"] == path["portal"] for each in self.extra):
            return {"controller": None, "busy": [], "in_force": None, "kept": {}}
        return self.nvme.current(path)

    def guard(self, steps: list[Step]) -> None:
        self.nvme.refuse_used(self.extra)

    def apply(self, steps: list[Step]) -> None:
        if self.present:
            self._connect_all(steps)
        elif self.changed:
            self.nvme.remove_all()

    def _connect_all(self, steps: list[Step]) -> None:
        nvme = self.nvme
        nvme.remove(self.extra)
        if any(step["op"] == "set_initiator_name" for step in steps):
            nvme.record.data["hosts"] = []
        try:
            if steps:
                nvme.prepare(self.host)
            seen: dict[tuple[str, int], list[Any]] = {}
            for path, its_steps in self.plans:
                nvme.apply(its_steps, path, self.host)
            for path, _steps in self.plans:
                for lun, disk in nvme.disks(path).items():
                    seen.setdefault((path["iqn"], lun), []).append(disk)
            self._join(seen)
        except Failure:
            if not nvme.records():
                # The first connection failed: nothing of this testbed is left then.
                nvme.remove_all()
            raise

    def _join(self, seen: dict[tuple[str, int], list[Any]]) -> None:
        """The disk that a LUN is used as: the one that the kernel made of all its paths, else the first, and a warning says so."""
        for target in self.targets:
            texts = [portal_text(**path["portal"]) for path in paths_of(target)]
            for lun in target["luns"]:
                disks = seen.get((target["iqn"], lun["lun"]), [])
                if not disks:
                    continue
                several = {"paths": texts} if len(texts) > 1 else {}
                self.disks[target["iqn"], lun["lun"]] = {**disks[0], **several}
                if len({disk["path"] for disk in disks}) > 1:
                    self.warnings.append(
                        f"Namespace {lun['lun']} of {nvme_names.nqn_of(target['iqn'])} is used through {texts[0]} alone ({disks[0]['path']}), because the "
                        "kernel of this host does not join paths. Set its parameter nvme_core.multipath to Y and restart the host."
                    )

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        result = {"changed": self.changed, "steps": steps, "diff": diff_of(steps), "warnings": self.warnings}
        if not self.present:
            return result
        if self.check_mode:
            seen: dict[tuple[str, int], list[Any]] = {}
            for path in self.paths:
                for lun, disk in self.nvme.seen(path).items():
                    seen.setdefault((path["iqn"], lun), []).append(disk)
            self._join(seen)
        return {**result, "layers": layers_of(self.targets, self.disks, PROVIDER)}
