# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines of an ESXi host: their state as plain data, and a plan that brings one to what is wanted.

A machine belongs to a testbed when its extraConfig says so. There it also says which of its disks are the testbed's (belongings.py). Disks and cards that are
not listed are left alone, and disks that have no record are detached before the machine is destroyed.

State::

    {power: on|off|suspended, owner, building: bool, accessible: bool, lost: [names of its datastores that are lost],
     guest_id, vcpus, memory_mib, locked: bool, reservation_mib, path, uuid,
     controllers: [{key, kind, bus}],
     disks: [{key, controller, bus, unit, size_bytes, provisioning, uuid, path, chain: [path and those below it], naa, compatibility}],
     cdroms: [{key, controller, bus, unit, iso}], files: [{key, kind, path}] of floppy drives, ports and whatever else has a file,
     nics: [{key, type, network}], extra: {key: text}, snapshots: [{name, disks: [{uuid, chain}]}],
     layout: [{path, type}] of the machine's files, and where it is to be destroyed folder: [names in its folder]}

Facts, what the host offers::

    {datastores: {name: {free_bytes, accessible}}, networks: [names],
     luns: {naa: {size_bytes, device, uuid, volume, users: [names], offered: for raw mappings,
                  available, partitions, unresolved: what is on it, see datastore.py}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..core.layers import Layer
from ..core.names import device_name, plain_naa
from ..core.steps import Step
from . import belongings
from .belongings import DISK_KEY
from .datastore import exported
from .datastore_plan import UNSEEN, contents
from .params import VmDiskOption, VmIsoOption, VmParams
from .states import DiskWant, InstallationWant, IsoWant, MachineFacts, MachineState, MachineWant, MappedLun

# Set while a machine is being made: what carries it was interrupted, has never run, and is made again.
BUILDING_KEY = "storlab.building"
# Set when an unattended installation has ended: its answer file is not put into a drive again.
INSTALLED_KEY = "storlab.installed"
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
FAMILIES = {
    **{kind: family for kind, (family, _buses, _units) in CONTROLLERS.items()},
    "lsisas": "scsi",
    "buslogic": "scsi",
    "sata": "sata",
}
PROVISIONING = ("eager", "lazy", "thin")
# A machine is made with these, whatever is asked for.
BLANK: MachineState = {
    "power": "off",
    "owner": None,
    "building": True,
    "accessible": True,
    "lost": [],
    "path": None,
    "uuid": None,
    "disks": [],
    "cdroms": [],
    "files": [],
    "nics": [],
    "extra": {},
    "snapshots": [],
    "layout": [],
    "folder": [],
    "controllers": [{"key": 200, "kind": "ide", "bus": 0}, {"key": 201, "kind": "ide", "bus": 1}],
}


# ---------------------------------------------------------------- what is wanted


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
    return wanted


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


# ---------------------------------------------------------------- where disks are attached


def records(state: MachineState) -> dict[str, Any]:
    """{disk's name: {controller, bus, unit, made, uuid}} of the disks that the testbed made, as the machine itself says."""
    return {
        key[len(DISK_KEY) :]: record for key, record in belongings.records(state).items() if key.startswith(DISK_KEY)
    }


def disk_of(state: MachineState, name: str) -> dict[str, Any] | None:
    """The disk that the testbed made under this name; None when it is not attached."""
    disk: dict[str, Any] | None = belongings.owned(state).get(DISK_KEY + name)
    return disk


class Slots:
    """Which units of which controllers are free."""

    def __init__(self, state: MachineState, reserved: Sequence[Mapping[str, object]]) -> None:
        self.slots: dict[Any, Any] = {
            (FAMILIES[each["kind"]], each["bus"]): (each["kind"], set())
            for each in state["controllers"]
            if each["kind"] in FAMILIES
        }
        self.there = set(self.slots)
        for device in (*state["disks"], *state["cdroms"], *reserved):
            self._slot(device["controller"], device["bus"])[1].add(device["unit"])

    def _slot(self, kind: str, bus: int) -> Any:
        return self.slots.setdefault((FAMILIES.get(kind, kind), bus), (kind, set()))

    def take(self, kind: str, bus: int | None, unit: int | None, what: str) -> dict[str, Any]:
        """A place for a device; fails when there is none."""
        family, buses, units = CONTROLLERS[kind]
        own = [number for number in range(buses) if self.slots.get((family, number), ("",))[0] == kind]
        free = [number for number in range(buses) if (family, number) not in self.slots]
        for number in [bus] if bus is not None else own + free:
            holder, taken = self.slots.get((family, number), (kind, set()))
            left = [each for each in units if each not in taken and unit in (None, each)]
            if holder == kind and left:
                self._slot(kind, number)[1].add(left[0])
                return {
                    "controller": kind,
                    "bus": number,
                    "unit": left[0],
                    "new_controller": (family, number) not in self.there,
                }
        wanted = f"{kind} {'any bus' if bus is None else bus}:{'any unit' if unit is None else unit}"
        raise Failure(
            "no_place",
            f"There is no place for {what} at {wanted}.",
            "Give it another controller, bus or unit; " + self._taken_places() + ".",
            place=wanted,
        )

    def _taken_places(self) -> str:
        taken = [
            f"{kind} {bus}:{unit}"
            for (_family, bus), (kind, units) in sorted(self.slots.items())
            for unit in sorted(units)
        ]
        return f"taken are {', '.join(taken) or 'none'}"


def drives(want: MachineWant, state: MachineState) -> list[tuple[IsoWant, dict[str, Any] | None]]:
    """[(image, the CD-ROM drive that it belongs in, or None while there is none)]: the user's in the first drive, that of the answer file in another."""
    there = state["cdroms"]
    pairs: list[tuple[IsoWant, dict[str, Any] | None]] = []
    if want.get("iso"):
        pairs.append((want["iso"], there[0] if there else None))
    if want.get("answers"):
        image: IsoWant = want["answers"]
        others = there[len(pairs) :]
        own = next((drive for drive in others if drive["iso"] == image["backing"]), None)
        empty = next((drive for drive in others if not drive["iso"]), None)
        pairs.append((image, own or empty))
    return pairs


def place(want: MachineWant, state: MachineState) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """({disk's name: place}, places of the CD-ROM drives that are missing)."""
    known = records(state)
    slots = Slots(state, [known[disk["name"]] for disk in want["disks"] if disk["name"] in known])
    places = {}
    # Devices with a fixed place come before devices that may take any.
    for disk in sorted(want["disks"], key=lambda disk: (disk["bus"] is None) + (disk["unit"] is None)):
        record = known.get(disk["name"])
        if record is None:
            places[disk["name"]] = slots.take(
                disk["controller"], disk["bus"], disk["unit"], f"disk {disk['name']} of {want['name']}"
            )
            continue
        now = disk_of(state, disk["name"])
        spot = {key: (now or record)[key] for key in belongings.PLACE}
        for key, value in spot.items():
            wanted = cast("dict[str, Any]", disk)[key]
            if wanted not in (None, value):
                raise differs(want, disk, key, value, wanted)
        if now is None:
            _refuse_occupied(state, want, disk, spot)
        places[disk["name"]] = {
            **spot,
            "new_controller": (FAMILIES[spot["controller"]], spot["bus"]) not in slots.there,
        }
    missing = [
        slots.take("ide", None, None, f"the CD-ROM drive of {want['name']}")
        for _image, drive in drives(want, state)
        if drive is None
    ]
    return places, missing


def _refuse_occupied(
    state: MachineState, want: MachineWant, disk: Mapping[str, object], spot: Mapping[str, object]
) -> None:
    for other in state["disks"]:
        if all(other[key] == spot[key] for key in belongings.PLACE):
            raise Failure(
                "disk_replaced",
                f"Where disk {disk['name']} of {want['name']} was ({spot['controller']} {spot['bus']}:{spot['unit']}), {other['path']} is attached, which "
                "the testbed did not make.",
                "Attach the testbed's disk again, or detach the other if it is not needed there; nothing is written to it.",
                disk=disk["name"],
                path=other["path"],
            )


def differs(want: MachineWant, disk: Mapping[str, object], key: str, was: object, will: object) -> Failure:
    return Failure(
        "disk_differs",
        f"Disk {disk['name']} of {want['name']} has {key} {was}, not {will}.",
        "A disk with contents is never recreated: remove the machine first, or describe the existing disk.",
        disk=disk["name"],
        key=key,
        was=was,
        wanted=will,
    )


# ---------------------------------------------------------------- planning


def foreign(name: str, owner: str | None) -> Failure:
    return Failure(
        "vm_foreign",
        f"The virtual machine {name} does not carry this testbed's stamp"
        + (f" but that of {owner}." if owner else "."),
        "It stays as it is; choose another name, or remove it by hand if it is not needed.",
        name=name,
        owner=owner,
    )


def own(state: MachineState, want: MachineWant | InstallationWant) -> None:
    if state["owner"] != want["testbed_id"]:
        raise foreign(want["name"], state["owner"])


def changes(state: MachineState, want: MachineWant, facts: MachineFacts) -> list[Any]:
    """Steps that give a machine what it lacks: [{op, target, was, will, off}]; off says that it must not run at that time."""
    name, steps = want["name"], []

    def step(op: object, target: object, was: object, will: object, off: object = False, **more: object) -> None:
        steps.append({"op": op, "target": target, "was": was, "will": will, "off": off, **more})

    for key in ("guest_id", "vcpus", "memory_mib"):
        if want[key] not in (None, state[key]):
            step(key, name, state[key], want[key], off=True)
    memory = want["memory_mib"] or state["memory_mib"]
    reserved = state["locked"] and state["reservation_mib"] == state["memory_mib"]
    if want["reserve"] and not reserved:
        step("reserve_memory", name, f"{state['reservation_mib']} MiB", f"{memory} MiB", off=True)
    elif not want["reserve"] and state["locked"]:
        step("reserve_memory", name, f"{state['reservation_mib']} MiB", "0 MiB", off=True)
    if state["extra"].get(UUID_KEY, "").upper() != "TRUE" and not state["building"]:
        step("disk_uuids", name, state["extra"].get(UUID_KEY), "TRUE", off=True)
    unnoted = {} if state["building"] else belongings.completed(state)
    if unnoted:
        step("record_disks", name, "known by their places", "known by their UUIDs", values=unnoted)
    places, missing = place(want, state)
    _disks(state, want, facts, places, step)
    for image, now in drives(want, state):
        if now is None:
            step("add_cdrom", name, None, image["backing"], off=True, place=missing.pop(0), image=image)
        elif now["iso"] != image["backing"]:
            step("mount_iso", name, now["iso"], image["backing"], key=now["key"], image=image)
    for number, nic in enumerate(want["nics"]):
        if nic["network"] not in facts["networks"]:
            raise bad_value(
                f"nics of {name}",
                nic["network"],
                "The host has the networks " + (", ".join(sorted(facts["networks"])) or "none") + ".",
            )
        now = state["nics"][number] if number < len(state["nics"]) else None
        will = f"{nic['type']} on {nic['network']}"
        if now is None:
            step("add_nic", f"{name} {number}", None, will, nic=nic, number=number)
        elif now["type"] != nic["type"]:
            step(
                "replace_nic",
                f"{name} {number}",
                f"{now['type']} on {now['network']}",
                will,
                off=True,
                nic=nic,
                number=number,
                key=now["key"],
            )
        elif now["network"] != nic["network"]:
            step("move_nic", f"{name} {number}", f"{now['type']} on {now['network']}", will, nic=nic, key=now["key"])
    for key, value in want["extra"].items():
        if state["extra"].get(key) != value:
            # Values may be what only the guest should read.
            step("extra_config", key, "another value" if key in state["extra"] else None, "as given", value=value)
    return steps


def _disks(state: MachineState, want: MachineWant, facts: MachineFacts, places: dict[str, Any], step: Any) -> None:
    known = records(state)
    needed: dict[Any, Any] = {}
    for disk in want["disks"]:
        spot, record, holds = places[disk["name"]], known.get(disk["name"]), []
        where = f"{spot['controller']} {spot['bus']}:{spot['unit']}"
        now = disk_of(state, disk["name"])
        if now is not None and record:
            _same(want, disk, now, record)
            continue
        if disk["rdm"]:
            lun = free_lun(want, disk, facts)
            text = f"{where}, {disk['rdm']['compatibility']} mapping of {disk['rdm']['naa']}"
            size = lun["size_bytes"]
            holds = contents(lun) + ([] if disk["rdm"]["exported"] else [UNSEEN])
        else:
            text, size = (
                f"{where}, {disk['size_bytes'] // MIB} MiB {disk['provisioning']} on {disk['datastore']}",
                disk["size_bytes"],
            )
            if disk["provisioning"] != "thin":
                needed[disk["datastore"]] = needed.get(disk["datastore"], 0) + size
        _datastore(want, disk["datastore"], facts)
        # Only disks at a SCSI controller that is there can be plugged in while the machine runs.
        off = spot["new_controller"] or FAMILIES[spot["controller"]] != "scsi"
        was = " and ".join(holds) or None
        step("add_disk", f"{want['name']} {disk['name']}", was, text, off=off, place=spot, disk=disk, size_bytes=size)
    for name, size in needed.items():
        free = facts["datastores"][name]["free_bytes"]
        if size > free:
            raise Failure(
                "datastore_full",
                f"The datastore {name} has {free} bytes free; the new disks of {want['name']} take {size}.",
                "Make them smaller or thin, or give a larger datastore.",
                datastore=name,
                free_bytes=free,
                size_bytes=size,
            )


def _same(want: MachineWant, disk: DiskWant, now: dict[str, Any], record: Mapping[str, object]) -> None:
    if disk["rdm"]:
        for key in ("naa", "compatibility"):
            if now[key] != disk["rdm"][key]:
                raise differs(want, disk, key, now[key], disk["rdm"][key])
        return
    if now["naa"]:
        raise differs(want, disk, "mapping of", now["naa"], "a file")
    if now["size_bytes"] != disk["size_bytes"]:
        raise differs(want, disk, "size_bytes", now["size_bytes"], disk["size_bytes"])
    # Hosts do not report for sure how a thick disk was made; the machine's own record does.
    made = (
        "thin"
        if now["provisioning"] == "thin"
        else record["made"]
        if record["made"] in ("eager", "lazy")
        else now["provisioning"]
    )
    if made != disk["provisioning"]:
        raise differs(want, disk, "provisioning", made, disk["provisioning"])


def free_lun(want: MachineWant, disk: DiskWant, facts: MachineFacts) -> MappedLun:
    naa = disk["rdm"]["naa"]
    lun: MappedLun | None = facts["luns"].get(naa)
    if lun is None:
        raise Failure(
            "lun_missing",
            f"The host has no working device {naa} for disk {disk['name']} of {want['name']}.",
            "Run iscsi_initiator first, and look whether the target exports the LUN to this host.",
            naa=naa,
        )
    if lun["volume"]:
        raise Failure(
            "device_in_use",
            f"The device {naa} carries the datastore {lun['volume']}.",
            "Give the testbed a LUN of its own.",
            name=lun["volume"],
        )
    users = [user for user in lun["users"] if user != want["name"]]
    if users:
        raise Failure(
            "device_in_use",
            f"The device {naa} is mapped raw to {', '.join(users)}.",
            "Give the testbed a LUN of its own.",
            name=users[0],
        )
    # That a machine which was made half has it says no more than that; it is asked for again when that machine is gone.
    if not lun["users"]:
        _refuse_unoffered(want, disk, lun)
    _refuse_overwriting(want, disk, lun)
    return lun


def _refuse_unoffered(want: MachineWant, disk: DiskWant, lun: MappedLun) -> None:
    naa, where = disk["rdm"]["naa"], f"disk {disk['name']} of {want['name']}"
    if not lun["available"]:
        raise Failure(
            "device_in_use",
            f"The device {naa} is not free for {where}: the host has a datastore on it, or uses it itself, or it is mapped to a virtual machine.",
            "Give the testbed a LUN of its own.",
            name=naa,
        )
    if not lun["offered"]:
        raise Failure(
            "device_unfit",
            f"The host does not offer the device {naa} for raw mappings, so it cannot be {where}.",
            "Give the testbed a LUN of an array that the host can map and that nothing else uses.",
            naa=naa,
        )


def _refuse_overwriting(want: MachineWant, disk: DiskWant, lun: MappedLun) -> None:
    """A guest writes to a raw mapping, so the LUN is proven as one that is going to be formatted is."""
    rdm, reasons = disk["rdm"], contents(lun)
    remedy = (
        "Give a blank LUN. If its contents are not needed, allow the guest to overwrite it with "
        f"guest_vm_allow_device: [{device_name(rdm['naa'])}]."
    )
    what = f"The device {rdm['naa']} for disk {disk['name']} of {want['name']}"
    if rdm["allowed"]:
        return
    if reasons:
        raise Failure(
            "device_not_blank", f"{what} has {' and '.join(reasons)}.", remedy, naa=rdm["naa"], contents=reasons
        )
    if not rdm["exported"]:
        raise Failure(
            "device_unproven",
            f"{what} is not exported by this testbed, and a host does not see a file system on a device without a partition table.",
            remedy,
            naa=rdm["naa"],
        )


def _datastore(want: MachineWant, name: str, facts: MachineFacts) -> None:
    store = facts["datastores"].get(name)
    if store is None:
        raise bad_value(
            f"datastore of {want['name']}",
            name,
            "The host has " + (", ".join(sorted(facts["datastores"])) or "none") + ".",
        )
    if not store["accessible"]:
        raise Failure(
            "datastore_lost",
            f"The datastore {name} of {want['name']} is not accessible.",
            "Release its machines and build the datastore again: roles guest_vm (release.yml) and datastore.",
            datastore=name,
        )


def plan(
    state: MachineState | None, want: MachineWant, facts: MachineFacts, template: MachineState | None = None
) -> list[Step]:
    """Steps to state present. template: state of what the machine is made from, when it is not made empty."""
    _datastore(want, want["datastore"], facts)
    steps: list[Step] = []
    if state is not None:
        own(state, want)
        if not state["accessible"] or lost_parts(state):
            raise Failure(
                "vm_lost",
                f"Files of the virtual machine {want['name']} are not accessible: {', '.join(state['lost']) or state['path']}.",
                "Release it (role guest_vm, release.yml), build its datastore again, and run again.",
                name=want["name"],
            )
        if state["building"]:
            steps += absent_plan(state, want)
            state = None
    now = start_of(want, template) if state is None else state
    if state is None:
        steps.append({"op": "create", "target": want["name"], "was": None, "will": _summary(now, want)})
    return steps + with_power(now, want, changes(now, want, facts))


def start_of(want: MachineWant, template: MachineState | None) -> MachineState:
    """The state of a machine that has just been made."""
    if template is not None:
        return {
            **template,
            "power": "off",
            "owner": want["testbed_id"],
            "building": True,
            "accessible": True,
            "lost": [],
            "extra": {key: value for key, value in template["extra"].items() if not key.startswith("storlab.")},
        }
    return {
        **BLANK,
        "guest_id": want["guest_id"],
        "vcpus": want["vcpus"],
        "memory_mib": want["memory_mib"],
        "locked": want["reserve"],
        "reservation_mib": want["memory_mib"] if want["reserve"] else 0,
    }


def _summary(state: MachineState, want: MachineWant) -> str:
    source = f"template {want['template']}" if want["template"] else f"{want['ova']}" if want["ova"] else "empty"
    return f"{source}, {state['vcpus']} vCPUs, {state['memory_mib']} MiB on {want['datastore']}"


def with_power(state: MachineState, want: MachineWant, steps: list[Step]) -> list[Step]:
    """The steps between what must be done to the power before and after them."""
    held, needs_off = state["power"] != "off", [step for step in steps if step.get("off")]
    if held and needs_off and not want["restart"] and want["power"] != "off":
        raise Failure(
            "needs_power_off",
            f"The virtual machine {want['name']} must be off for {', '.join(sorted({step['op'] for step in needs_off}))}.",
            "Allow that with restart: true, or turn it off.",
            name=want["name"],
            steps=[step["op"] for step in needs_off],
        )
    before: list[Step] = (
        [{"op": "power_off", "target": want["name"], "was": state["power"], "will": "off"}]
        if held and (needs_off or want["power"] == "off")
        else []
    )
    now = "off" if before else state["power"]
    on_after = want["power"] == "on" or (want["power"] == "as_is" and state["power"] == "on")
    after: list[Step] = (
        [{"op": "power_on", "target": want["name"], "was": now, "will": "on"}] if on_after and now != "on" else []
    )
    return before + steps + after


def lost_parts(state: MachineState) -> list[Any]:
    """Steps that take disks and images out whose datastores are lost."""
    return [
        {"op": "detach", "target": disk["path"], "was": "lost with its datastore", "will": None, "key": disk["key"]}
        for disk in state["disks"]
        if belongings.lost(state, disk["path"])
    ] + [
        {"op": "eject", "target": drive["iso"], "was": "lost with its datastore", "will": None, "key": drive["key"]}
        for drive in state["cdroms"]
        if belongings.lost(state, drive["iso"])
    ]


def absent_plan(state: MachineState | None, want: MachineWant) -> list[Step]:
    """Destroys the machine, and keeps what others attached to it or put beside it; one whose files are lost is only forgotten by the host."""
    if state is None:
        return []
    own(state, want)
    if not state["accessible"]:
        return [*_kill(state, want), _forget(state, want)]
    belongings.refuse_snapshots(state, want["name"])
    images = [image["backing"] for image in (want.get("iso"), want.get("answers")) if image]
    steps = [
        *_kill(state, want),
        *lost_parts(state),
        *belongings.letting_go(state, images),
    ]
    if belongings.beside(state):
        return steps + _dismantle(state, want)
    names = [snapshot["name"] for snapshot in state["snapshots"]]
    was = state["path"] + (f", with the snapshots {', '.join(names)}" if names else "")
    return [*steps, {"op": "destroy", "target": want["name"], "was": was, "will": None}]


def _forget(state: MachineState, want: MachineWant) -> dict[str, str | None]:
    return {"op": "unregister", "target": want["name"], "was": state["path"], "will": None}


def _dismantle(state: MachineState, want: MachineWant) -> list[object]:
    """Takes a machine away file by file, because its folder holds files of others, and nothing says that a host leaves them when it destroys the machine."""
    snapshots = [
        {"op": "remove_snapshots", "target": want["name"], "was": snapshot["name"], "will": None}
        for snapshot in state["snapshots"][:1]
    ]
    disks = [
        {"op": "delete_disk", "target": disk["path"], "was": "the testbed's", "will": None, "key": disk["key"]}
        for disk in belongings.owned(state).values()
        if not belongings.lost(state, disk["path"])
    ]
    files = [
        {"op": "delete_file", "target": path, "was": "the machine's", "will": None}
        for path in belongings.own_files(state)
    ]
    return [*snapshots, *disks, _forget(state, want), *files]


def released_plan(state: MachineState | None, want: MachineWant) -> list[Step]:
    """Lets go of a datastore that is lost, so that it can be made again: lets go of the whole machine when it is there, else of its disks. Others stay."""
    if state is None or state["owner"] != want["testbed_id"]:
        return []
    if not state["accessible"]:
        return absent_plan(state, want)
    parts = lost_parts(state)
    return [*_kill(state, want), *parts] if parts else []


def installed_plan(state: MachineState | None, want: MachineWant) -> list[Step]:
    """Notes that the installation has ended, and takes the answer file's image out of the drive."""
    if state is None:
        raise Failure(
            "vm_missing", f"There is no virtual machine {want['name']}.", "Build it first.", name=want["name"]
        )
    own(state, want)
    backing = want["answers"]["backing"]
    steps: list[Step] = []
    if state["extra"].get(INSTALLED_KEY) != "TRUE":
        steps.append({"op": "extra_config", "target": INSTALLED_KEY, "was": None, "will": "as given", "value": "TRUE"})
    return steps + [
        {"op": "eject", "target": backing, "was": "the answer file's image", "will": None, "key": drive["key"]}
        for drive in state["cdroms"]
        if drive["iso"] == backing
    ]


def _kill(state: MachineState, want: MachineWant) -> list[Any]:
    return (
        [{"op": "kill", "target": want["name"], "was": state["power"], "will": "off"}]
        if state["power"] != "off"
        else []
    )


def zero_plan(state: MachineState | None, want: MachineWant, names: list[str]) -> list[Step]:
    """Fills the testbed's disks with zeroes; all of them, or those that are named."""
    if state is None:
        raise Failure(
            "vm_missing", f"There is no virtual machine {want['name']}.", "Build it first.", name=want["name"]
        )
    own(state, want)
    made = {disk["name"]: disk for disk in made_disks(state)}
    steps: list[Step] = []
    for name in names or sorted(made):
        if name not in made:
            raise bad_value(
                f"disks of {want['name']}",
                name,
                "The testbed made the disks " + (", ".join(sorted(made)) or "none") + ".",
            )
        if made[name]["naa"]:
            raise Failure(
                "disk_raw",
                f"Disk {name} of {want['name']} is the LUN {made[name]['naa']}, which the host cannot fill with zeroes.",
                "Fill it at the target, or leave it out.",
                disk=name,
                naa=made[name]["naa"],
            )
        steps.append(
            {
                "op": "zero",
                "target": f"{want['name']} {name}",
                "was": "whatever it holds",
                "will": f"{made[name]['size_bytes']} bytes of zeroes",
                "off": True,
                "path": made[name]["path"],
            }
        )
    return with_power(state, {**want, "power": "as_is"}, steps)


# ---------------------------------------------------------------- report


def made_disks(state: MachineState) -> list[Any]:
    """The disks that the testbed made: [{name, controller, bus, unit, size_bytes, path, uuid, naa, compatibility, made}]."""
    return [
        {
            **{key: value for key, value in disk.items() if key not in ("key", "provisioning", "chain")},
            "name": name,
            "made": record["made"],
        }
        for name, record in sorted(records(state).items())
        if (disk := disk_of(state, name)) is not None
    ]


def disk_facts(state: MachineState, want: MachineWant) -> list[Any]:
    """The wanted disks as they are, for the user. serial is what the guest sees, null where that is not known.

    With disk.EnableUUID a guest reads the disk's UUID as its serial number at SCSI controllers; a physical mapping shows the LUN's own.
    """
    there, disks = {disk["name"]: disk for disk in made_disks(state)}, []
    for disk in want["disks"]:
        now = there.get(disk["name"])
        if now is None:
            continue
        physical, raw = now["compatibility"] == "physical", disk["rdm"] or {}
        serial = (
            raw.get("serial")
            if physical
            else now["uuid"].replace("-", "").lower()
            if now["uuid"] and FAMILIES[now["controller"]] == "scsi"
            else None
        )
        disks.append(
            {
                **{
                    key: now[key]
                    for key in (
                        "name",
                        "controller",
                        "bus",
                        "unit",
                        "size_bytes",
                        "path",
                        "uuid",
                        "naa",
                        "compatibility",
                    )
                },
                "serial": serial,
                "provisioning": None if now["naa"] else now["made"],
                "layer": raw.get("layer"),
                "datastore": disk["datastore"],
            }
        )
    return disks
