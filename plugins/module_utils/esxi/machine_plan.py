# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines of an ESXi host: a plan that brings one from its state (machine_state.py) to what is wanted (machine_want.py).

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

from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.names import device_name
from ..core.steps import Step
from . import belongings
from .datastore_plan import UNSEEN, contents
from .machine_places import FAMILIES, differs, disk_of, drives, own, place, records
from .machine_want import MIB, UUID_KEY
from .states import DiskWant, MachineFacts, MachineState, MachineWant, MappedLun

# Set while a machine is being made: what carries it was interrupted, has never run, and is made again.
BUILDING_KEY = "storlab.building"
# Set when an unattended installation has ended: its answer file is not put into a drive again.
INSTALLED_KEY = "storlab.installed"
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
