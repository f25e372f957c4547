# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastores of a testbed on an ESXi host: what the module esxi_datastore takes and does."""

from __future__ import annotations

from typing import Any

from ..core.failure import Failure
from ..core.kept_record import KeptRecord
from ..core.steps import Step, shown
from .datastore import Datastores, behind, check, layer_of, read, remembered, visible
from .datastore_plan import fits, plan
from .intentions import AREA, Intentions
from .params import DatastoresParams
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


def ensure(session: Session, params: DatastoresParams, check_mode: bool) -> dict[str, Any]:
    host = session.host()
    with session.doing("read the host's name"):
        area = f"datastore-{params['testbed_id']}"
        memory = KeptRecord(params["state_dir"], area, host.name) if params["state_dir"] else None
        intentions = Intentions(memory, host.name)
    wanted = [
        (
            entry,
            check(
                entry,
                params["layers"],
                "datastore_datastores",
                params["testbed_id"],
                params["state"],
                check_mode,
                params["allow_device"],
                params["discard_contents"],
                params["hosts"],
                memory is not None,
            ),
        )
        for entry in params["datastores"]
    ]
    names, naas = [want["name"] for _entry, want in wanted], [want["naa"] for _entry, want in wanted if want["naa"]]
    recorded = memory.data.get("datastores", {}) if memory else {}
    stores = Datastores(session, host, intentions)
    if not check_mode and any(want["type"] == "vmfs" for _entry, want in wanted):
        # The changes of another host to a shared LUN show only after a rescan of this one, and then a while later.
        stores.rescan()

    def awaited(seen: StoresState, want: StoreWant) -> bool:
        return behind(seen, want) or intentions.awaited(seen, want, params["long_timeout_s"])

    state = session.until(
        lambda: read(session, host, names, naas),
        lambda seen: check_mode or not any(awaited(seen, want) for _entry, want in wanted),
        params["wait_s"],
    )
    plans = [
        (want, plan(state, want, stores.look, recorded, intentions.matching))
        for _entry, want in wanted
        if want["type"] != "rdm"
    ]
    for want, steps in plans:
        for step in steps:
            if not check_mode:
                stores.apply(step, want)
            elif "device" in step and len(steps) == 1:
                with session.doing(f"ask whether {want['naa']} can take a VMFS"):
                    stores.offer(step, want)
    if not check_mode:
        taken = [want for want, steps in plans if steps]
        if taken:
            state = settle(session, host, taken, params["wait_s"])
        if memory:
            made = tuple(volume["name"] for volume in state["volumes"] if intentions.matching(volume))
            remember(memory, [want for _entry, want in wanted], state, made)
            intentions.settle(state, plans, params["long_timeout_s"])
            if not any(memory.data.get(key) for key in ("datastores", AREA)):
                memory.forget()
    result = shown([step for _want, its_steps in plans for step in its_steps])
    result["kept"] = kept_for_others(state, plans)
    if params["state"] == "present":
        volumes = {volume["name"]: volume for volume in state["volumes"]}
        result["layers"] = [
            layer_of(
                want,
                volumes.get(want["name"]),
                entry["layer"],
                state["stores"].get(want["name"]) if want["type"] == "existing" else None,
            )
            for entry, want in wanted
        ]
        for layer, (_entry, want) in zip(result["layers"], wanted):
            layer["size_bytes"] = layer["size_bytes"] or (state["disks"].get(want["naa"]) or {}).get("size_bytes")
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
