# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastores of a testbed on an ESXi host: what the module esxi_datastore takes and does."""

from __future__ import annotations

from typing import Any

from ..core.failure import Failure
from ..core.kept_record import KeptRecord
from ..core.steps import Step, shown
from .area import HostArea
from .datastore import Datastores, behind, check, layer_of, read, remembered, visible
from .datastore_plan import fits, plan
from .intentions import AREA, Intentions
from .params import DatastoresDatastoreOption
from .session import Session
from .states import HostSystem, StoresState, StoreWant

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "unmounted", "absent"], "default": "present"},
    "state_dir": {"type": "path"},
    "allow_device": {"type": "list", "elements": "str", "default": []},
    "discard_contents": {"type": "bool", "default": False},
    "hosts": {"type": "list", "elements": "str", "default": []},
    "wait_s": {"type": "int", "default": 60},
    "layers": {"type": "dict", "default": {}},
    "datastores": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "type": {"type": "str", "choices": ["vmfs", "nfs", "rdm", "existing"], "default": "vmfs"},
            "access": {"type": "str", "choices": ["read", "write"], "default": "read"},
            "layer": {"type": "str"},
            "version": {"type": "int", "default": 6},
            "compatibility": {"type": "str", "choices": ["physical", "virtual"], "default": "physical"},
            "server": {"type": "str"},
            "path": {"type": "str"},
        },
    },
}


class Area(HostArea):
    """The datastores of a testbed on a host."""

    def plan(self) -> list[Step]:
        params, session = self.params, self.session
        self.host = host = session.host()
        with session.doing("read the host's name"):
            area = f"datastore-{params['testbed_id']}"
            self.memory = KeptRecord(params["state_dir"], area, host.name) if params["state_dir"] else None
            self.intentions = intentions = Intentions(self.memory, host.name)
        self.wanted = wanted = [(entry, self._want(entry)) for entry in params["datastores"]]
        names, naas = [want["name"] for _entry, want in wanted], [want["naa"] for _entry, want in wanted if want["naa"]]
        recorded = self.memory.data.get("datastores", {}) if self.memory else {}
        self.stores = stores = Datastores(session, host, intentions)
        if not self.check_mode and any(want["type"] == "vmfs" for _entry, want in wanted):
            # The changes of another host to a shared LUN show only after a rescan of this one, and then a while later.
            stores.rescan()

        def awaited(seen: StoresState, want: StoreWant) -> bool:
            return behind(seen, want) or intentions.awaited(seen, want, params["long_timeout_s"])

        self.state: StoresState = session.until(
            lambda: read(session, host, names, naas),
            lambda seen: self.check_mode or not any(awaited(seen, want) for _entry, want in wanted),
            params["wait_s"],
        )
        self.plans = [
            (want, plan(self.state, want, stores.look, recorded, intentions.matching))
            for _entry, want in wanted
            if want["type"] != "rdm"
        ]
        return [step for _want, its_steps in self.plans for step in its_steps]

    def _want(self, entry: DatastoresDatastoreOption) -> StoreWant:
        params = self.params
        return check(
            entry,
            params["layers"],
            "datastore_datastores",
            params["testbed_id"],
            params["state"],
            self.check_mode,
            params["allow_device"],
            params["discard_contents"],
            params["hosts"],
            self.memory is not None,
        )

    def guard(self, steps: list[Step]) -> None:
        """Without check mode it is asked when the volume is made, because a step before may free the device."""
        for want, its_steps in self.plans:
            for step in its_steps:
                if self.check_mode and "device" in step and len(its_steps) == 1:
                    with self.session.doing(f"ask whether {want['naa']} can take a VMFS"):
                        self.stores.refuse_unoffered(step, want)

    def apply(self, steps: list[Step]) -> None:
        for want, its_steps in self.plans:
            for step in its_steps:
                self.stores.apply(step, want)
        taken = [want for want, its_steps in self.plans if its_steps]
        if taken:
            self.state = settle(self.session, self.host, taken, self.params["wait_s"])
        if self.memory:
            made = tuple(volume["name"] for volume in self.state["volumes"] if self.intentions.matching(volume))
            remember(self.memory, [want for _entry, want in self.wanted], self.state, made)
            self.intentions.settle(self.state, self.plans, self.params["long_timeout_s"])
            if not any(self.memory.data.get(key) for key in ("datastores", AREA)):
                self.memory.forget()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        result = shown(steps)
        result["kept"] = kept_for_others(self.state, self.plans)
        if self.present:
            volumes = {volume["name"]: volume for volume in self.state["volumes"]}
            result["layers"] = [
                layer_of(
                    want,
                    volumes.get(want["name"]),
                    entry["layer"],
                    self.state["stores"].get(want["name"]) if want["type"] == "existing" else None,
                )
                for entry, want in self.wanted
            ]
            for layer, (_entry, want) in zip(result["layers"], self.wanted):
                disk = self.state["disks"].get(want["naa"] or "")
                layer["size_bytes"] = layer["size_bytes"] or (disk.get("size_bytes") if disk else None)
        return result


def kept_for_others(state: StoresState, plans: list[tuple[StoreWant, list[Step]]]) -> list[str]:
    """The datastores that are to go and stay: shares that were there before the testbed."""
    going = [want for want, steps in plans if want["state"] != "present" and want["type"] == "nfs" and not steps]
    there = {volume["name"]: volume for volume in state["volumes"]}
    return sorted(want["name"] for want in going if want["name"] in there and fits(there[want["name"]], want))


def settle(session: Session, host: HostSystem, wanted: list[StoreWant], wait_s: float) -> StoresState:
    """The state once the host shows what was done, so that who reads it next sees it."""
    state: StoresState = session.until(
        lambda: read(session, host), lambda seen: all(visible(seen, want) for want in wanted), wait_s
    )
    for want in wanted:
        if not visible(state, want):
            raise Failure(
                "change_unseen",
                f"The host does not show the datastore {want['name']} as it was made {want['state']} {wait_s} s ago.",
                "Look at the host's events; a longer datastore_esxi_wait_s may help.",
                name=want["name"],
            )
    return state


def remember(memory: KeptRecord, wanted: list[StoreWant], state: StoresState, made: tuple[str, ...]) -> None:
    kept = remembered(memory.data.get("datastores", {}), wanted, state, made)
    if kept != memory.data.get("datastores", {}):
        memory.data["datastores"] = kept
        memory.save()
