# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage state of an ESXi host as linux/watch/leftovers.py compares it: sections of lines; and which of the lines a teardown leaves for others.

The result for others is {section: [{line: as it is now, before: the line before the testbed, or None, why}]}, by the testbed's records of the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.iscsi_names import iqn_key
from ..core.kept_record import KeptRecord
from ..core.names import plain_naa
from . import adapter_plan, datastore_plan, network, network_plan, settings
from .intentions import Intentions
from .states import AdapterState, AdapterTarget, NetworkState, StoreDisk, StoresState, Volume

AREAS = ("iscsi", "network", "datastore")


def lines(
    state: AdapterState, stores: StoresState, machines: list[str], net: NetworkState, host: Mapping[str, object]
) -> dict[str, list[str]]:
    """Sections of lines, without what changes by itself. A disabled adapter is listed until the host is restarted, and its settings count for nothing."""
    sections = {
        "iscsi adapter": [f"software iSCSI {'enabled' if state['enabled'] else 'disabled'}"]
        + (_own_lines(state) if state["enabled"] else [])
        + [f"bound {name}" for name in state["bound"]],
        "iscsi targets": [_target_line(target) for target in state["targets"]],
        "host options": [f"{key} {value}" for key, value in state["host_options"].items()]
        + [f"module {adapter_plan.QUEUE_DEPTH_MODULE} {state['module_options'] or 'no options'}"],
        "devices": [_device_line(naa, disk) for naa, disk in stores["disks"].items()],
        "datastores": [_volume_line(volume) for volume in stores["volumes"]],
        "network": network.lines(net),
        "host settings": settings.lines(host),
        "virtual machines": list(machines),
    }
    return {section: sorted(texts) for section, texts in sections.items()}


def _own_lines(state: AdapterState) -> list[str]:
    """The adapter's own settings."""
    options = [f"option {key} {value}" for key, value in state["options"].items()]
    return [f"name {state['iqn']}", f"alias {state['alias'] or 'none'}", *options]


def _target_line(target: AdapterTarget) -> str:
    return adapter_plan.entry_key(target) + (f" CHAP {target['chap']['name']}" if target["chap"] else "")


def _device_line(naa: str, disk: StoreDisk) -> str:
    return f"{naa} {disk['size_bytes']} bytes"


def _volume_line(volume: Volume) -> str:
    return f"{volume['name']} {datastore_plan.where(volume)}{'' if volume['mounted'] else ', unmounted'}"


# ---------------------------------------------------------------- what is left for others


def records(state_dir: str, testbed_id: str, host: str) -> dict[str, KeptRecord]:
    return {area: KeptRecord(state_dir, f"{area}-{testbed_id}", host) for area in AREAS}


def left(
    state: AdapterState, stores: StoresState, net: NetworkState, known: dict[str, KeptRecord], host: str
) -> dict[str, list[dict[str, Any]]]:
    """The things that others use, or have brought, and that the testbed would otherwise have to give back or to explain."""
    result: dict[str, list[dict[str, Any]]] = {"datastores": _shares(stores, known["datastore"], host)}
    memory = known["iscsi"].data
    others = adapter_plan.came_later(state, memory) if memory.get("before") else []
    if others:
        whom = f"kept for {', '.join(adapter_plan.entry_key(target) for target in others)}"
        result["iscsi adapter"] = _settings(state, memory, whom)
        result["network"] = _beneath(net, known["network"].data, whom)
        result["iscsi targets"] = [_item(_target_line(target)) for target in others]
        names = {iqn_key(target["iqn"]) for target in others if target["iqn"]}
        naas = {plain_naa(lun["name"]) for lun in state["luns"] if iqn_key(lun["iqn"]) in names}
        disks = {naa: disk for naa, disk in stores["disks"].items() if naa in naas}
        result["devices"] = [_item(_device_line(naa, disk)) for naa, disk in disks.items()]
        on_them = [volume for volume in stores["volumes"] if volume["naa"] and naas.issuperset(volume["naa"])]
        result["datastores"] += [_item(_volume_line(volume)) for volume in on_them]
    return {section: items for section, items in result.items() if items}


def _item(line: str, before: str | None = None, why: str = "of others") -> dict[str, Any]:
    return {"line": line, "before": before, "why": why}


def _settings(state: AdapterState, memory: dict[str, Any], whom: str) -> list[dict[str, Any]]:
    kept = adapter_plan.kept(state, memory)
    items = [_item(*_setting(item), whom) for item in kept if item["setting"] not in ("CHAP", "adapter")]
    if any(item["setting"] == "adapter" for item in kept):
        # While the adapter was disabled its settings did not count, so none of them was there before.
        own = [_item(line, None, whom) for line in _own_lines(state)]
        bound = [item for item in items if item["line"].startswith("bound ")]
        items = [_item("software iSCSI enabled", "software iSCSI disabled", whom), *own, *bound]
    return items


def _setting(item: dict[str, Any]) -> tuple[str, str | None]:
    """(line, line before) of a setting that adapter_plan.kept names."""
    setting = item["setting"]
    if setting.startswith("bound "):
        return setting, None
    now, before = (item[key] or "none" if setting == "alias" else item[key] for key in ("value", "before"))
    return f"{setting} {now}", f"{setting} {before}"


def _beneath(net: NetworkState, record: dict[str, object], whom: str) -> list[dict[str, object]]:
    """The lines of the testbed's interfaces that stay bound, and of what is below them."""
    kept = network_plan.kept(net, record)
    there = network_plan.by_group(net)
    only: NetworkState = {
        "switches": {name: net["switches"][name] for name in kept["switches"]},
        "port_groups": {name: net["port_groups"][name] for name in kept["port_groups"]},
        "interfaces": {there[name]["device"]: net["interfaces"][there[name]["device"]] for name in kept["interfaces"]},
    }
    return [_item(line, None, whom) for line in network.lines(only)]


def _shares(stores: StoresState, memory: KeptRecord, host: str) -> list[dict[str, object]]:
    """The NFS datastores that the testbed has not mounted. They are not a change of the testbed's, so they are there before and after."""
    mine, intended = memory.data.get("datastores", {}), Intentions(memory, host)
    shares = [volume for volume in stores["volumes"] if volume["type"] == "NFS" and volume["uuid"] not in mine]
    foreign = [_volume_line(volume) for volume in shares if not intended.matching(volume)]
    return [_item(line, line, "this testbed has not mounted it") for line in foreign]
