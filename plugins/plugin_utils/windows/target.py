# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iSCSI target of Windows Server: targets, their LUNs and portals; see the package for the shapes of states and steps.

A request beyond its abilities is refused rather than weakened: a target has one CHAP name and secret and shows all its LUNs to everyone who may log in.
target_want.py checks the parameters.

The description of a target marks it as the testbed's own. It is given right after the target was made, so the names of targets that were about to be made are
in the record, too. LUNs are mapped last: no one sees one before CHAP is on.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.iscsi_names import portal_text, same_iqn
from ...module_utils.core.layers import Layer
from ...module_utils.core.luns import export_spec
from ...module_utils.core.secrets import keep_secret, same_secret
from ...module_utils.core.steps import Step
from .host import TARGET_SERVICE, service, serving, stamp, stamped, step
from .state import Portal, Remembered, State, Target
from .wants import LunWant, TargetWant

AREA = "target"
VHDX = {
    "path": {"type": "str", "required": True},
    "size_mib": {"type": "int", "required": True},
    "allocation": {"type": "str", "choices": ["dynamic", "fixed"], "default": "dynamic"},
}
SPEC: dict[str, Any] = {
    **export_spec({"vhdx": {"type": "dict", "options": VHDX}}),
    "state_dir": {"type": "path", "required": True},
}


def is_ours(target: Target, testbed_id: str, memory: Remembered) -> bool:
    return target["description"] == stamp(testbed_id) or (
        not target["description"] and target["name"] in memory.get("targets", [])
    )


def refuse_foreign(
    state: State, targets: list[TargetWant], testbed_id: str, memory: Remembered, expect_disks: bool = True
) -> None:
    """Names, IQNs and virtual disks that are wanted but belong to others. Without expect_disks the disks of layers may still be missing."""
    for present in state["targets"]:
        if is_ours(present, testbed_id, memory):
            continue
        for wanted in targets:
            if present["name"].lower() == wanted["name"].lower() or same_iqn(present["iqn"], wanted["iqn"]):
                raise Failure(
                    "foreign_target",
                    f"Target {present['name']} ({present['iqn']}) is on this host already, and not this testbed's.",
                    "Give the target another name, or remove that one by hand.",
                    target=present["name"],
                )
            taken = {lun["path"].lower() for lun in present["luns"]} & {lun["path"].lower() for lun in wanted["luns"]}
            if taken:
                raise Failure(
                    "disk_exported",
                    f"Virtual disk {sorted(taken)[0]} is exported by target {present['name']}, which is not this testbed's.",
                    "Use another disk.",
                    path=sorted(taken)[0],
                )
    disks = {disk["path"].lower(): disk for disk in state["virtual_disks"]}
    files = {path.lower() for path in state["files"]}
    for lun in (lun for target in targets for lun in target["luns"]):
        disk = disks.get(lun["path"].lower())
        if disk and not stamped(disk["description"], testbed_id):
            raise Failure(
                "disk_foreign",
                f"Virtual disk {lun['path']} is on this host already, and not this testbed's.",
                "Use another path.",
                path=lun["path"],
            )
        if not disk and lun["vhdx"] and lun["path"].lower() in files:
            ours = lun["path"].lower() in {path.lower() for path in memory.get("files", [])}
            raise Failure(
                "file_foreign",
                f"The file {lun['path']} exists, and is not a virtual disk of this testbed.",
                "A teardown was interrupted before it removed the file: run teardown once more."
                if ours
                else "Use another path, or remove the file.",
                path=lun["path"],
            )
        if not disk and not lun["vhdx"] and expect_disks:
            raise Failure(
                "device_missing",
                f"Virtual disk {lun['path']} of layer {lun['layer']} is not on this host.",
                "Run the role that makes that layer again: RAM disks go with a restart of the target service.",
                path=lun["path"],
            )
        if disk and disk["size_bytes"] != lun["size_bytes"]:
            raise Failure(
                "wrong_size",
                f"Virtual disk {lun['path']} has {disk['size_bytes']} bytes, not {lun['size_bytes']}.",
                "Tear the testbed down before you change a size.",
                path=lun["path"],
                size_bytes=disk["size_bytes"],
            )


def plan(
    state: State,
    targets: list[TargetWant],
    memory: Remembered,
    testbed_id: str,
    any_address: bool = False,
    expect_disks: bool = True,
) -> list[Step]:
    """Steps from the state to these targets. Targets and VHDX files of this testbed that are no longer wanted go first."""
    refuse_foreign(state, targets, testbed_id, memory, expect_disks)
    names = {target["name"].lower() for target in targets}
    steps = _removed(
        [
            present
            for present in state["targets"]
            if is_ours(present, testbed_id, memory) and present["name"].lower() not in names
        ]
    )
    wanted_paths = {lun["path"].lower() for target in targets for lun in target["luns"]}
    steps += _files_removed(state, memory, wanted_paths, testbed_id)
    disks = {disk["path"].lower() for disk in state["virtual_disks"]}
    for lun in (lun for target in targets for lun in target["luns"]):
        if lun["vhdx"] and lun["path"].lower() not in disks:
            _volume(state, lun, expect_disks)
            steps.append(
                step(
                    "make_disk",
                    lun["path"],
                    None,
                    f"{lun['size_bytes']} bytes, {lun['vhdx']['allocation']}",
                    "vdisk_new_fixed" if lun["vhdx"]["allocation"] == "fixed" else "vdisk_new",
                    Path=lun["path"],
                    SizeBytes=lun["size_bytes"],
                    Description=stamp(testbed_id, lun["name"]),
                )
            )
    # No one is let in on an address that was not asked for while the targets are still being described.
    steps += _portals(state, targets, memory, testbed_id, any_address)
    known = {present["name"].lower(): present for present in state["targets"]}
    for target in targets:
        steps += _target(known.get(target["name"].lower()), target, memory, testbed_id)
    return steps


def _volume(state: State, lun: LunWant, expect_volume: bool) -> None:
    """Refuse a file for which there is no volume, or none of its size. Without expect_volume that of a layer may still be missing."""
    volumes, letter = {volume["letter"].upper(): volume for volume in state["volumes"]}, lun["path"][0].upper()
    variable = f"iscsi_target_targets lun {lun['name']} vhdx"
    if lun["parent"] and letter not in volumes and not expect_volume:
        return
    if lun["parent"] and letter in volumes and volumes[letter]["label"] != lun["label"]:
        raise Failure(
            "datastore_foreign",
            f"Volume {letter}: is called {volumes[letter]['label'] or 'nothing'}, and that of layer {lun['parent']} is called {lun['label']}.",
            "Build the testbed again; this is another volume.",
            path=lun["path"],
        )
    if letter not in volumes:
        raise bad_value(
            f"{variable} path",
            lun["path"],
            f"Use a volume of this host; it has {', '.join(f'{letter}:' for letter in sorted(volumes))}.",
        )
    size = volumes[letter]["size_bytes"]
    if lun["vhdx"]["allocation"] == "fixed" and lun["size_bytes"] > size:
        raise bad_value(
            f"{variable} size_mib",
            lun["size_bytes"] >> 20,
            f"Volume {letter}: has {size >> 20} MiB in all; make the file smaller, or dynamic.",
        )


def _target(present: Target | None, target: TargetWant, memory: Remembered, testbed_id: str) -> list[Any]:
    name, auth, steps = target["name"], target["auth"], []
    now: Any = present or {
        "iqn": None,
        "description": "",
        "initiators": target["initiators"],
        "luns": [],
        "chap": False,
        "chap_user": "",
        "reverse_chap": False,
        "reverse_chap_user": "",
        "status": "NotConnected",
        "sessions": [],
    }
    if present is None:
        steps.append(
            step(
                "make_target",
                name,
                None,
                ", ".join(target["initiators"]),
                "target_new",
                Name=name,
                Initiators=target["initiators"],
            )
        )
    elif sorted(map(_bare, now["initiators"])) != sorted(map(_bare, target["initiators"])):
        steps.append(
            step(
                "initiators",
                name,
                ", ".join(now["initiators"]),
                ", ".join(target["initiators"]),
                "target_initiators",
                Name=name,
                Initiators=target["initiators"],
            )
        )
    if (now["iqn"], now["description"]) != (target["iqn"], stamp(testbed_id)):
        steps.append(
            step(
                "name",
                name,
                now["iqn"],
                target["iqn"],
                "target_name",
                Name=name,
                Iqn=target["iqn"],
                Description=stamp(testbed_id),
            )
        )
    kept, login = memory.get("secrets", {}).get(name, {}), dict(now)
    for on, user, password, op, set_script in (
        ("chap", "chap_user", "chap_password", "chap", "target_chap"),
        ("reverse_chap", "mutual_chap_user", "mutual_chap_password", "reverse_chap", "target_reverse_chap"),
    ):
        before = login[f"{on}_user"] if login[on] else None
        if auth[user]:
            if present is None or before != auth[user] or not same_secret(auth[password], kept.get(password)):
                steps.append(
                    step(op, name, before, auth[user], set_script, secret=(auth[user], auth[password]), Name=name)
                )
        elif login[on]:
            steps.append(step(op, name, before, "off", f"{set_script}_off", Name=name))
    wanted = {lun["path"].lower(): lun for lun in target["luns"]}
    mapped = {lun["path"].lower(): lun["lun"] for lun in now["luns"]}
    for lun in now["luns"]:
        path = lun["path"].lower()
        if path not in wanted and now["sessions"]:
            raise Failure(
                "target_in_use",
                f"LUN {lun['lun']} of target {name} cannot be removed: {', '.join(now['sessions'])} is logged in.",
                "Log the initiators out first: teardown does it from the top down.",
                target=name,
                path=lun["path"],
                initiators=now["sessions"],
            )
        if path not in wanted or wanted[path]["lun"] != lun["lun"]:
            steps.append(
                step("unmap", f"{name} LUN {lun['lun']}", lun["path"], None, "lun_unmap", Name=name, Path=lun["path"])
            )
    for path, lun in wanted.items():
        if mapped.get(path) != lun["lun"]:
            steps.append(
                step(
                    "map",
                    f"{name} LUN {lun['lun']}",
                    None,
                    lun["path"],
                    "lun_map",
                    Name=name,
                    Path=lun["path"],
                    Lun=lun["lun"],
                )
            )
    if now["status"] == "Disabled":
        steps.append(step("enable", name, "disabled", "enabled", "target_enable", Name=name))
    return steps


def cut_off(state: State, targets: list[TargetWant], memory: dict[str, Any]) -> list[dict[str, Any]]:
    """[{target, initiator, address, lun}] that initiators lose when their connection breaks: the names or secrets they logged in with are replaced.

    They logged in with those that the record notes. Another setting that somebody gave the target is repaired, and no initiator is cut off.
    """
    present, result = {target["name"].lower(): target for target in state["targets"]}, []
    for target in targets:
        now = present.get(target["name"].lower())
        if now and now["sessions"] and _replaced(target, memory):
            result += [
                {"target": target["iqn"], "initiator": initiator, "address": None, "lun": lun["lun"]}
                for initiator in now["sessions"]
                for lun in sorted(now["luns"], key=lambda lun: lun["lun"])
            ]
    return result


def _replaced(target: TargetWant, memory: dict[str, Any]) -> bool:
    """Whether the initiators of this target logged in with other names or secrets than it gets now."""
    auth, noted = target["auth"], memory.get("secrets", {}).get(target["name"], {})
    return any(
        noted.get(user, auth[user]) != auth[user]
        or bool(noted.get(password) and not (auth[password] and same_secret(auth[password], noted[password])))
        for user, password in (("chap_user", "chap_password"), ("mutual_chap_user", "mutual_chap_password"))
    )


def _bare(initiator: str) -> str:
    """An initiator's value in one notation, without its type: whether and how the cmdlet shows the type was not seen on a real host."""
    value = re.sub(r"^(iqn|dnsname|ipaddress|ipv6address|macaddress):(?=.)", "", initiator, flags=re.I).lower()
    if re.fullmatch(r"([0-9a-f]{2}[-:]?){5}[0-9a-f]{2}", value):
        return re.sub(r"[-:]", "", value)
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        return value


def exported_luns(state: State, steps: list[Step]) -> set[tuple[str, int]]:
    """(IQN, LUN) of the targets that the steps remove."""
    gone = {step["target"] for step in steps if step["op"] == "remove_target"}
    return {(mine["iqn"], lun["lun"]) for mine in state["targets"] if mine["name"] in gone for lun in mine["luns"]}


def _removed(targets: list[Target], expect_free: bool = True) -> list[Any]:
    steps: list[Step] = []
    for target in targets:
        if target["sessions"] and expect_free:
            raise Failure(
                "target_in_use",
                f"Target {target['name']} cannot be removed: {', '.join(target['sessions'])} is logged in.",
                "Log the initiators out first: teardown does it from the top down.",
                target=target["name"],
                initiators=target["sessions"],
            )
        steps += [
            step(
                "unmap",
                f"{target['name']} LUN {lun['lun']}",
                lun["path"],
                None,
                "lun_unmap",
                Name=target["name"],
                Path=lun["path"],
            )
            for lun in target["luns"]
        ]
        steps.append(step("remove_target", target["name"], target["iqn"], None, "target_remove", Name=target["name"]))
    return steps


def _files_removed(state: State, memory: Remembered, keep: set[str], testbed_id: str) -> list[Any]:
    """The cmdlet leaves the file behind, so that goes on its own; only files that the record names are the testbed's."""
    steps: list[Step] = []
    for path in memory.get("files", []):
        disk = next((disk for disk in state["virtual_disks"] if disk["path"].lower() == path.lower()), None)
        if path.lower() in keep or (disk and not stamped(disk["description"], testbed_id)):
            continue
        if disk:
            steps.append(step("remove_disk", path, f"{disk['size_bytes']} bytes", None, "vdisk_remove", Path=path))
        if disk or path.lower() in {name.lower() for name in state["files"]}:
            steps.append(step("remove_file", path, "file", None, "file_remove", Path=path))
    return steps


def _portals(
    state: State, targets: list[TargetWant], memory: Remembered, testbed_id: str, any_address: bool
) -> list[Any]:
    """The portals are one list for the whole server, so others' targets decide whether it may be made shorter."""
    if any_address or not targets or not serving(state):
        return []
    wanted = {(portal["address"], portal["port"]) for target in targets for portal in target["portals"]}
    steps, portals = [], state["portals"]
    addresses = {portal["address"] for portal in portals}
    for address, port in sorted(wanted):
        if address not in addresses:
            raise Failure(
                "address_missing",
                f"The target server has no address {address} to listen on; it has {', '.join(sorted(addresses)) or 'none'}.",
                "Correct the portal, or give the host that address.",
                address=address,
            )
        if {"address": address, "port": port, "enabled": True} not in portals:
            was = next(portal for portal in portals if portal["address"] == address)
            steps.append(
                step(
                    "portal",
                    address,
                    _portal_words(was),
                    f"port {port}, on",
                    "portal_set",
                    Address=address,
                    Port=port,
                    Enable=True,
                )
            )
    surplus = [
        portal
        for portal in portals
        if portal["enabled"] and portal["address"] not in {address for address, _port in wanted}
    ]
    others = _others(state, memory, testbed_id)
    if surplus and others:
        raise Failure(
            "portals_shared",
            f"The target server listens on {surplus[0]['address']}, too, and target {others[0]} of others may need it.",
            "Set iscsi_target_allow_any_address to true to leave the portals as they are.",
            address=surplus[0]["address"],
            target=others[0],
        )
    return steps + [
        step(
            "portal",
            portal["address"],
            _portal_words(portal),
            f"port {portal['port']}, off",
            "portal_set",
            Address=portal["address"],
            Port=portal["port"],
            Enable=False,
        )
        for portal in surplus
    ]


def _portal_words(portal: Portal) -> str:
    return f"port {portal['port']}, {'on' if portal['enabled'] else 'off'}"


def absent_plan(state: State, memory: Remembered, testbed_id: str, expect_free: bool = True) -> list[Step]:
    """Steps that take away all that this testbed has here and give the portals back. RAM disks belong to the role that made them.

    Only a running service reports its targets, and a stopped one keeps them, so it has to run once more. Without expect_free initiators may still
    be logged in: in check mode nothing was taken away above.
    """
    target_service = service(state, TARGET_SERVICE)
    if memory and target_service and not serving(state):
        return [step("service", TARGET_SERVICE, "stopped", "running", "service_start", Name=TARGET_SERVICE)]
    steps = _removed([present for present in state["targets"] if is_ours(present, testbed_id, memory)], expect_free)
    steps += _files_removed(state, memory, set(), testbed_id)
    now = {portal["address"]: portal for portal in state["portals"]} if memory.get("portals") else {}
    for before in memory.get("portals", []):
        portal = now.get(before["address"])
        if portal and portal != before and not _others(state, memory, testbed_id):
            steps.append(
                step(
                    "portal",
                    before["address"],
                    _portal_words(portal),
                    _portal_words(before),
                    "portal_set",
                    Address=before["address"],
                    Port=before["port"],
                    Enable=before["enabled"],
                )
            )
    return steps


def _others(state: State, memory: Remembered, testbed_id: str) -> list[Any]:
    return [present["name"] for present in state["targets"] if not is_ours(present, testbed_id, memory)]


def still_to_give_back(memory: Remembered, state: State, testbed_id: str) -> Remembered:
    """The rest of the record after absent_plan: others' targets may not be reached where they were not meant to be."""
    return {"portals": memory["portals"]} if memory.get("portals") and _others(state, memory, testbed_id) else {}


def remember(memory: Remembered, state: State, targets: list[TargetWant], steps: list[Step]) -> Remembered:
    """The record with what the teardown needs of these steps; kept before the first of them."""
    after = memory.copy()
    after["targets"] = sorted(set(memory.get("targets", [])) | {target["name"] for target in targets})
    after["files"] = sorted(
        set(memory.get("files", [])) | {planned["target"] for planned in steps if planned["op"] == "make_disk"}
    )
    known = {portal["address"] for portal in memory.get("portals", [])}
    changed = {planned["target"] for planned in steps if planned["op"] == "portal"}
    after["portals"] = memory.get("portals", []) + [
        portal for portal in (state["portals"] if changed else []) if portal["address"] in changed - known
    ]
    return after


def note_secret(memory: Remembered, done: dict[str, Any]) -> None:
    """Secrets cannot be read back, so a salted digest shows the next run whether one has changed."""
    if done["secret"]:
        side = "chap" if done["op"] == "chap" else "mutual_chap"
        user, password = done["secret"]
        noted = memory.setdefault("secrets", {}).setdefault(done["target"], {})
        noted |= {f"{side}_user": user, f"{side}_password": keep_secret(password)}


def layers_of(targets: list[TargetWant], published: dict[str, Layer]) -> list[Layer]:
    """The LUNs as layers, without their host. A target's LUN is read through a login only; the path of an earlier one of the host itself stays."""
    layers: list[Layer] = []
    for target in targets:
        for lun in target["luns"]:
            name, identity = f"target-{lun['name']}", {"target_iqn": target["iqn"], "lun": lun["lun"]}
            before = published.get(name) or {}
            seen = bool(before.get("path")) and identity.items() <= before["identity"].items()
            layers.append(
                {
                    "name": name,
                    "kind": "target",
                    "path": before["path"] if seen else None,
                    "parent": lun["parent"],
                    "purpose": lun["purpose"],
                    "size_bytes": lun["size_bytes"],
                    "identity": before["identity"] if seen else identity,
                    "detail": {
                        "provider": "windows",
                        "virtual_disk": lun["path"],
                        "portals": [portal_text(**portal) for portal in target["portals"]],
                    },
                }
            )
    return layers
