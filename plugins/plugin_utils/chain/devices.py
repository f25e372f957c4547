# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that the user names, and what becomes of their contents: what a build formats and a benchmark overwrites is said before it is done.

RAM disks, VHDX files and emulated disks are not among them: the testbed makes these itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...module_utils.core.layers import Layer
from .shape import Problem, shown
from .testbed import OVERRIDDEN, Disk, Host, Testbed, mappings

OVERWRITTEN, FORMATTED = "OVERWRITTEN", "FORMATTED"
PROOFS = ("serial", "naa", "wwid", "uuid")
# What lies on a LUN and is no file system: a mapping of it, or the file system of another host.
NO_FILE_SYSTEM = ("rdm", "nfs", "existing")
MEASURED_RAW = ("backing", "target", "initiator")


class Device(NamedTuple):
    """One device as a user named it. ``given``: path, and what proves it. ``fate`` is empty where its contents stay."""

    host: str
    variable: str
    path_word: str
    given: dict[str, Any]
    fate: str
    what: str
    layer: str
    here: bool = True

    def text(self) -> str:
        """'/dev/sdb, serial S1' as the user named it."""
        proofs = [f"{key} {self.given[key]}" for key in PROOFS if self.given.get(key)]
        path = self.given.get("path")
        return ", ".join([str(path), *proofs] if path else ["a disk with " + " and ".join(proofs)])

    def sentence(self) -> str:
        return f"{self.fate}: {self.text()} on {self.host} ({self.variable}): {self.what}"


def named(testbed: Testbed) -> list[Device]:
    """All devices that the description or a role's variable names, each once."""
    devices: dict[Any, Device] = {}
    for host in testbed.hosts.values():
        for look in (_members, _parts, _luns, _stores, _luns_of_others, _attached):
            for device in look(testbed, host):
                devices.setdefault((device.host, device.text(), device.layer), device)
    return list(devices.values())


def lost(testbed: Testbed) -> list[Device]:
    """Those whose contents are gone afterwards."""
    return [device for device in named(testbed) if device.fate]


def wanted(testbed: Testbed, host: str) -> list[dict[str, Any]]:
    """What is to be looked for on a host, as storlab.testbed.host_probe takes it."""
    return [
        {
            "variable": device.variable,
            "path_word": device.path_word,
            **device.given,
            **({"fate": device.fate} if device.fate else {}),
        }
        for device in named(testbed)
        if device.host == host and device.here
    ]


def missing(host: str, probed: list[dict[str, Any]]) -> Iterator[Problem]:
    """What a host shows to be wrong with what is named. probed: ``named`` of the probe."""
    for entry in probed:
        variable, path, paths = entry["variable"], entry.get("path"), entry["paths"]
        proofs = [f"{key} {entry[key]}" for key in PROOFS if entry.get(key)]
        owner = "" if f" of {host}" in variable else f" of {host}"
        word = _with_key(variable, entry.get("path_word") or "path")
        if path and entry["type"] != "block":
            remedy = f"correct it; on {host}, lsblk --output PATH,SIZE,SERIAL,WWN lists what there is"
            yield Problem(word, shown(path), f"which is not a block device{owner}", remedy)
        elif not paths and path:
            has = ", ".join(f"{key} {value}" for key, value in entry["shows"].items()) or "nothing that identifies it"
            yield Problem(
                word, shown(path), f"which shows {has}, and not {' and '.join(proofs)}", "name the right device"
            )
        elif not paths:
            yield Problem(
                variable,
                None,
                f"is not a disk of {host}: none has {' and '.join(proofs)}",
                "attach it, or correct this",
            )
        elif len(paths) > 1:
            why = f"is not one disk: {' and '.join(paths)} of {host} show {' and '.join(proofs)}"
            yield Problem(variable, None, why, f"add {entry.get('path_word') or 'path'} to it")


def _with_key(variable: str, key: str) -> str:
    """testbed.disks[1] with its path; a variable of a host has the host's name behind."""
    name, of, host = variable.partition(" of ")
    return f"{name}.{key}{of}{host}"


def _given(entry: dict[str, Any], path_word: str) -> dict[str, Any]:
    given = {"path": entry.get(path_word), **{key: entry.get(key) for key in PROOFS}}
    return {key: str(value) for key, value in given.items() if value}


def _disk(testbed: Testbed, host: Host, name: Any) -> Disk | None:
    return next((disk for disk in testbed.disks if disk.target == host.name and disk.name == name), None)


def _by_hand(host: Host, variable: str) -> bool:
    return host.because.get(variable) == OVERRIDDEN


def _members(testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, array in enumerate(mappings(host.variables.get("raid_arrays"))):
        disk = _disk(testbed, host, array.get("name"))
        by_hand = _by_hand(host, "raid_arrays") or disk is None
        if not by_hand and disk and (disk.entry.get("raid") or {}).get("emulated"):
            continue
        for number, member in enumerate(mappings(array.get("members"))):
            variable = f"testbed.disks[{disk.index}].raid.members[{number}]" if disk else ""
            variable = f"raid_arrays[{place}].members[{number}] of {host.name}" if by_hand else variable
            what = f"becomes part of the RAID array {array.get('name')}"
            word, given = ("device" if by_hand else "path"), _given(member, "device")
            if given:
                yield Device(host.name, variable, word, given, OVERWRITTEN, what, f"backing-{array.get('name')}")


def _parts(testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, tier in enumerate(mappings(host.variables.get("cache_tier_caches"))):
        disk = _disk(testbed, host, tier.get("name"))
        by_hand = _by_hand(host, "cache_tier_caches") or disk is None
        for part in ("origin", "fast"):
            if not by_hand and disk and ((disk.entry.get("cache") or {}).get(part) or {}).get("emulated"):
                continue
            variable = f"testbed.disks[{disk.index}].cache.{part}" if disk else ""
            variable = f"cache_tier_caches[{place}].{part} of {host.name}" if by_hand else variable
            layer = f"backing-{tier.get('name')}"
            fate = _fate(testbed, layer)
            if part == "fast":
                # A cache that is not in yet may be put in later, and then nothing is asked any more.
                when = "" if tier.get("cached", True) else " once it is put in"
                fate = (OVERWRITTEN, f"caches for the disk {tier.get('name')}{when}")
            word, given = ("device" if by_hand else "path"), _given(tier.get(part) or {}, "device")
            if given:
                yield Device(host.name, variable, word, given, *fate, layer)


def _luns(testbed: Testbed, host: Host) -> Iterator[Device]:
    by_hand = _by_hand(host, "iscsi_target_targets")
    for place, export in enumerate(mappings(host.variables.get("iscsi_target_targets"))):
        for number, lun in enumerate(mappings(export.get("luns"))):
            if not lun.get("device"):
                continue
            disk, layer = _disk(testbed, host, lun.get("name")), f"target-{lun.get('name')}"
            variable = f"iscsi_target_targets[{place}].luns[{number}] of {host.name}"
            variable = f"testbed.disks[{disk.index}]" if disk and not by_hand else variable
            word, given = ("device" if by_hand or disk is None else "path"), _given(lun, "device")
            yield Device(host.name, variable, word, given, *_fate(testbed, layer), layer)


def _stores(_testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, store in enumerate(mappings(host.variables.get("datastore_datastores"))):
        if store.get("device"):
            what = f"{store.get('filesystem', 'a file system')} of the datastore {store.get('name')}"
            variable = f"datastore_datastores[{place}] of {host.name}"
            layer = f"datastore-{store.get('name')}"
            yield Device(host.name, variable, "device", _given(store, "device"), FORMATTED, what, layer)


def _luns_of_others(testbed: Testbed, host: Host) -> Iterator[Device]:
    """LUNs of targets that are none of the inventory's hosts."""
    ours = {
        export.get("name")
        for other in testbed.hosts.values()
        for export in mappings(other.variables.get("iscsi_target_targets"))
    }
    suffix = host.variables.get("iscsi_initiator_layer_suffix", "")
    for place, session in enumerate(mappings(host.variables.get("iscsi_initiator_targets"))):
        if session.get("iqn") in ours:
            continue
        for number, lun in enumerate(mappings(session.get("luns"))):
            variable = f"iscsi_initiator_targets[{place}].luns[{number}] of {host.name}"
            given = {"path": f"LUN {lun.get('lun')} of {session.get('iqn')}", **_given(lun, "")}
            layer = f"initiator-{lun.get('name')}{suffix}"
            yield Device(host.name, variable, "", given, *_fate(testbed, layer), layer, here=False)


def _attached(testbed: Testbed, host: Host) -> Iterator[Device]:
    """Disks that were there before and that the user allows to be written to."""
    described = {
        entry.get("name"): place
        for place, entry in enumerate(testbed.description["existing"])
        if isinstance(entry, dict)
    }
    for place, entry in enumerate(mappings(host.variables.get("existing_storage_entries"))):
        if entry.get("kind") != "device" or entry.get("access") != "write":
            continue
        name = str(entry.get("name"))
        index = described.get(name, described.get(name.removesuffix(f"-{host.name}")))
        by_hand = _by_hand(host, "existing_storage_entries") or index is None
        variable = f"existing_storage_entries[{place}] of {host.name}" if by_hand else f"testbed.existing[{index}]"
        layer = f"{entry.get('layer_kind')}-{name}"
        word, given = ("device" if by_hand else "path"), _given(entry, "device")
        yield Device(host.name, variable, word, given, OVERWRITTEN, f"measured raw as {layer}", layer)


def _fate(testbed: Testbed, bottom: str) -> tuple[str, str]:
    """What becomes of a LUN, by the layers that stand on it."""
    layers = _above(testbed, bottom)
    stores = [layer for layer in layers if layer["kind"] == "datastore" and layer["what"] not in NO_FILE_SYSTEM]
    if stores:
        return FORMATTED, f"{stores[0]['what']} on {stores[0]['host']}"
    # Without a file system below it a guest has the LUN whole.
    whole = [layer for layer in layers if layer["kind"] == "guest"]
    measured = whole or [layer for layer in layers if layer["purpose"] == "scratch" and layer["kind"] in MEASURED_RAW]
    names = " and ".join(layer["name"] for layer in measured)
    return (OVERWRITTEN, f"measured raw as {names}") if measured else ("", "")


def _above(testbed: Testbed, bottom: str) -> list[Layer]:
    """A layer and all that stand on it, from the bottom up."""
    layers: list[Layer] = []
    names = {bottom}
    for layer in testbed.layers:
        if layer["name"] in names or layer["parent"] in names:
            names.add(layer["name"])
            layers.append(layer)
    return layers
