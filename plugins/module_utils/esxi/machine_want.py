# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine of an ESXi host as it is wanted: the parameters of its module, checked."""

from __future__ import annotations

import re
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.layers import Layer, only_read
from ..core.names import plain_naa
from .datastore import exported
from .params import VmDiskOption, VmIsoOption, VmParams
from .states import DiskWant, IsoWant, MachineWant

# Without it a guest sees no serial numbers of its disks.
UUID_KEY = "disk.EnableUUID"
MIB = 1048576
# controller: (family that shares bus numbers, number of buses, units of a bus). SCSI controllers themselves are unit 7. From VMware's "Configuration
# Maximums" and the documentation of VirtualSCSIController, VirtualIDEController and VirtualNVMEController.
CONTROLLERS = {
    "lsilogic": ("scsi", 4, [unit for unit in range(16) if unit != 7]),
    "pvscsi": ("scsi", 4, [unit for unit in range(16) if unit != 7]),
    "ide": ("ide", 2, [0, 1]),
    "nvme": ("nvme", 4, list(range(15))),
}
PROVISIONING = ("eager", "lazy", "thin")


def check(params: VmParams) -> MachineWant:
    """The parameters of a machine, from the module's parameters; raises bad_value before anything is asked of the host.

    Adds to each disk: size_bytes, rdm {naa, compatibility, serial, layer} or None.
    """
    name = params["name"]
    if not name or len(name) > 80 or set(name) & set("/\\%[]"):
        raise bad_value("guest_vm_guests name", name, "Use 1 to 80 characters without / \\ % [ and ].")
    values: Any = params
    want: Any = {
        key: values[key]
        for key in (
            "name",
            "testbed_id",
            "datastore",
            "guest_id",
            "vcpus",
            "memory_mib",
            "power",
            "restart",
            "template",
            "ova",
            "nics",
        )
    }
    want["reserve"] = params["reserve_memory"]
    if params["template"] and params["ova"]:
        raise bad_value("ova", params["ova"], "Give either template or ova.")
    if not params["datastore"]:
        raise bad_value(f"datastore of {name}", params["datastore"], "Name the datastore that the machine is on.")
    if not params["template"] and not params["ova"]:
        for key in ("guest_id", "vcpus", "memory_mib"):
            if not params[key]:
                raise bad_value(
                    f"{key} of {name}",
                    params[key],
                    "A machine from neither template nor OVA needs guest_id, vcpus and memory_mib.",
                )
    if params["vcpus"] is not None and params["vcpus"] < 1:
        raise bad_value(f"vcpus of {name}", params["vcpus"], "Give at least 1.")
    if params["memory_mib"] is not None and (params["memory_mib"] < 4 or params["memory_mib"] % 4):
        raise bad_value(f"memory_mib of {name}", params["memory_mib"], "Give a multiple of 4.")
    want["extra"] = {}
    for key, value in (params["extra_config"] or {}).items():
        if key.startswith("storlab.") or key == UUID_KEY:
            raise bad_value(f"extra_config of {name}", key, "This key belongs to the collection; leave it out.")
        want["extra"][key] = str(value).upper() if isinstance(value, bool) else str(value)
    want["disks"] = [_disk(disk, name, params) for disk in params["disks"]]
    want["iso"] = iso_of(params["iso"], name, params["datastore"]) if params["iso"] else None
    wanted: MachineWant = want
    _no_twins(wanted)
    _refuse_only_read(wanted, params["layers"])
    return wanted


def _refuse_only_read(want: MachineWant, layers: dict[str, Layer]) -> None:
    """Raises layer_read_only for a machine with files on a datastore of others that is only read. An image that is there already may be on one."""
    kept = {
        (layer.get("identity") or {}).get("datastore")
        for layer in layers.values()
        if layer.get("kind") == "datastore" and only_read(layer)
    }
    iso = want["iso"]
    places = [want["datastore"], *(disk["datastore"] for disk in want["disks"])]
    places += [iso["datastore"]] if iso and iso["src"] else []
    for name in places:
        if name in kept:
            raise Failure(
                "layer_read_only",
                f"{want['name']} would have files on {name}, a datastore that was there before the testbed and is only read.",
                "Name another datastore, or set access: write of it in testbed.existing.",
                datastore=name,
            )


def _disk(disk: VmDiskOption, name: str, params: VmParams) -> DiskWant:
    where = f"disk {disk['name']} of {name}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", disk["name"] or ""):
        raise bad_value(
            f"a disk's name of {name}", disk["name"], "Use at most 32 letters, digits, dashes or underscores."
        )
    kind = disk["controller"]
    _family, buses, units = CONTROLLERS[kind]
    if disk["bus"] is not None and not 0 <= disk["bus"] < buses:
        raise bad_value(f"bus of {where}", disk["bus"], f"A machine has buses 0 to {buses - 1} for {kind}.")
    if disk["unit"] is not None and disk["unit"] not in units:
        raise bad_value(
            f"unit of {where}",
            disk["unit"],
            f"{kind} has units {units[0]} to {units[-1]}{', without 7' if 7 not in units else ''}.",
        )
    wanted: DiskWant = {
        "name": disk["name"],
        "controller": kind,
        "bus": disk["bus"],
        "unit": disk["unit"],
        "datastore": disk["datastore"] or params["datastore"],
        "provisioning": disk["provisioning"],
        "size_bytes": None,
        "rdm": None,
    }
    if not disk["rdm"]:
        if not disk["size_mib"] or disk["size_mib"] < 1:
            raise bad_value(f"size_mib of {where}", disk["size_mib"], "Give its size, or rdm.")
        return {**wanted, "size_bytes": disk["size_mib"] * MIB}
    if disk["size_mib"] is not None:
        raise bad_value(
            f"size_mib of {where}", disk["size_mib"], "Leave it out: a raw device mapping is as large as its LUN."
        )
    if kind == "ide":
        raise bad_value(f"controller of {where}", kind, "A raw device mapping needs lsilogic, pvscsi or nvme.")
    rdm = disk["rdm"]
    if bool(rdm["layer"]) == bool(rdm["naa"]):
        raise bad_value(f"rdm of {where}", rdm["layer"] or rdm["naa"], "Give either layer or naa.")
    identity = (
        {"naa": plain_naa(rdm["naa"])} if rdm["naa"] else (params["layers"].get(rdm["layer"]) or {}).get("identity", {})
    )
    if not identity.get("naa"):
        raise bad_value(
            f"rdm layer of {where}",
            rdm["layer"],
            "Name a layer that has an NAA identifier; known are: "
            + (", ".join(sorted(params["layers"])) or "none")
            + ".",
        )
    return {
        **wanted,
        "provisioning": None,
        "rdm": {
            "naa": identity["naa"],
            "serial": identity.get("serial"),
            "compatibility": rdm["compatibility"],
            "layer": rdm["layer"],
            "exported": _exported(params["layers"], rdm["layer"]),
            "allowed": identity["naa"] in {plain_naa(each.rsplit("/", 1)[-1]) for each in params["allow_device"]},
        },
    }


def _exported(layers: dict[str, Layer], name: str | None) -> bool:
    """Whether a layer is a LUN that this testbed's own target exports, or is of one."""
    layer = layers.get(name or "") or {}
    if layer.get("kind") == "datastore":
        layer = layers.get(layer.get("parent") or "") or {}
    return exported(layer, layers)


def iso_of(iso: VmIsoOption, name: str, home: str) -> IsoWant:
    path = iso["path"] or (iso["src"] or "").rsplit("/", 1)[-1]
    if not path or path.startswith("/") or ".." in path.split("/") or set(path) & set("[]"):
        raise bad_value(f"iso path of {name}", path, "Give a path relative to the datastore's root.")
    return {
        "src": iso["src"],
        "path": path,
        "datastore": iso["datastore"] or home,
        "sidecar": f"{path}.storlab.json",
        "backing": f"[{iso['datastore'] or home}] {path}",
    }


def _no_twins(want: MachineWant) -> None:
    names = [disk["name"] for disk in want["disks"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise bad_value(f"disks of {want['name']}", twice[0], "Give each disk a name of its own.")
    places = [(disk["controller"], disk["bus"], disk["unit"]) for disk in want["disks"] if disk["unit"] is not None]
    for kind, bus, unit in places:
        if places.count((kind, bus, unit)) > 1:
            raise bad_value(
                f"disks of {want['name']}", f"{kind} unit {unit}", "Two disks have this unit; give each its own."
            )
    raw = [disk["rdm"]["naa"] for disk in want["disks"] if disk["rdm"]]
    for naa in raw:
        if raw.count(naa) > 1:
            raise bad_value(f"disks of {want['name']}", naa, "Two disks are mapped to this LUN; map it once.")
