# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iSCSI initiator of Windows; see the package for the shapes of states and steps.

The initiator's name and its secret for mutual CHAP are the host's own, and the secret can be neither read nor given back. So the name is only
compared, and mutual CHAP is refused. Sessions are not persistent: after a restart of either side the next build makes them again.

A session is the testbed's own by its id, which is in the record. Whoever else logs in to the same target has a session of another id.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.iscsi_names import check_chap, check_known_iqn, iqn_key, portal_address, portal_text, same_iqn
from ...module_utils.core.layers import Layer
from ...module_utils.core.luns import expected
from ...module_utils.core.secrets import keep_secret, same_secret
from ...module_utils.core.steps import Step
from ...module_utils.linux.nouns import LoginTarget
from .host import (
    INITIATOR_SERVICE,
    check_id,
    check_lun,
    check_once,
    check_port,
    check_secrets,
    drive_path,
    ready_steps,
    refuse_disk,
    service,
    step,
)
from .params import SessionParams
from .state import Disk, Remembered, Session, State

SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "initiator_name": {"type": "str"},
    "layers": {"type": "dict", "default": {}},
    "wait_s": {"type": "int", "default": 60},
    "targets": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "iqn": {"type": "str", "required": True},
            "portal": {
                "type": "dict",
                "required": True,
                "options": {"address": {"type": "str", "required": True}, "port": {"type": "int", "default": 3260}},
            },
            "chap_user": {"type": "str"},
            "chap_password": {"type": "str", "no_log": True},
            "mutual_chap_user": {"type": "str"},
            "mutual_chap_password": {"type": "str", "no_log": True},
            "luns": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "lun": {"type": "int", "required": True},
                    "name": {"type": "str", "required": True},
                    "layer_kind": {"type": "str", "choices": ["initiator", "target"], "default": "initiator"},
                    "parent": {"type": "str"},
                    "purpose": {"type": "str", "choices": ["scratch", "data"]},
                    "size_bytes": {"type": "int"},
                },
            },
        },
    },
}


def check(params: SessionParams) -> list[Any]:
    """The targets with what is expected of their LUNs; raises bad_value."""
    check_id("iscsi_initiator_testbed_id", params["testbed_id"])
    check_known_iqn("iscsi_initiator_name", params["initiator_name"])
    targets: list[dict[str, Any]] = []
    for target in params["targets"]:
        variable = f"iscsi_initiator_targets {target['iqn']}"
        check_known_iqn("iscsi_initiator_targets iqn", target["iqn"])
        check_secrets(variable, target)
        check_chap(variable, target, allow_none=True)
        if target["mutual_chap_user"]:
            raise bad_value(
                f"{variable} mutual_chap_user",
                target["mutual_chap_user"],
                "Leave mutual CHAP out on Windows: its secret is the host's own, and could not be given back.",
            )
        portal: dict[str, Any] = {
            "address": portal_address(f"{variable} portal", target["portal"]["address"]),
            "port": check_port(f"{variable} portal", target["portal"]["port"]),
        }
        if ipaddress.ip_address(portal["address"]).is_loopback:
            raise bad_value(
                f"{variable} portal",
                portal["address"],
                "Use an address of the host's network, for a login of the host to itself, too: Windows does not log in over this one.",
            )
        for lun in target["luns"]:
            check_lun(variable, lun)
        check_once(f"{variable} luns", [lun["lun"] for lun in target["luns"]])
        targets.append(
            {
                **target,
                "portal": portal,
                "luns": [expected(lun, target["iqn"], params["layers"]) for lun in target["luns"]],
            }
        )
    check_once("iscsi_initiator_targets iqn", [target["iqn"] for target in targets])
    check_once("iscsi_initiator_targets lun name", [lun["name"] for target in targets for lun in target["luns"]])
    return targets


def _running(state: State) -> bool:
    initiator_service = service(state, INITIATOR_SERVICE)
    if not initiator_service or initiator_service["start_mode"] == "Disabled":
        raise Failure(
            "service_disabled",
            f"The service {INITIATOR_SERVICE} of this host is {'disabled' if initiator_service else 'missing'}.",
            "Set its start type to manual or automatic.",
            service=INITIATOR_SERVICE,
        )
    return bool(initiator_service["state"] == "Running")


def _started() -> Step:
    return step("service", INITIATOR_SERVICE, "stopped", "running", "service_start", Name=INITIATOR_SERVICE)


def plan(state: State, name: str, targets: list[Any], memory: Remembered, expect_loopback: bool = True) -> list[Step]:
    """Steps up to the logins; what the disks then need is planned by disk_steps, once they are there."""
    steps: list[Step] = []
    if not targets and not memory:
        return steps
    to_itself = [target["iqn"] for target in targets if any(lun["layer_kind"] == "target" for lun in target["luns"])]
    if to_itself and expect_loopback and state["loopback"] != 1:
        raise Failure(
            "loopback_off",
            f"The target server of this host does not let the host itself log in to {to_itself[0]}.",
            "Set ramdisk_windows_loopback and iscsi_target_windows_loopback to true and build again, from the RAM disks on.",
            target_iqn=to_itself[0],
        )
    if not _running(state):
        steps.append(_started())
    elif not same_iqn(state["initiator"]["iqn"], name):
        raise Failure(
            "initiator_name_differs",
            f"This host's initiator is called {state['initiator']['iqn']}, not {name}.",
            "Use that name in iscsi_initiator_name and at the target, or rename the initiator in Windows.",
            initiator=state["initiator"]["iqn"],
        )
    wanted = {iqn_key(target["iqn"]) for target in targets}
    for iqn in memory.get("sessions", []):
        session = own_session(state, memory, iqn)
        if session and iqn_key(iqn) not in wanted:
            steps += _logout(state, session)
    known = [(portal["address"], portal["port"]) for portal in state["initiator"]["portals"]]
    for target in targets:
        portal, session = target["portal"], own_session(state, memory, target["iqn"])
        if not session and _sessions(state, target["iqn"]):
            raise Failure(
                "session_foreign",
                f"This host is logged in to {target['iqn']} already, and not by this testbed.",
                "Log it out by hand.",
                target_iqn=target["iqn"],
            )
        if session and (not session["connected"] or not _same_login(target, memory)):
            steps += _logout(state, session)
            session = None
        if (portal["address"], portal["port"]) not in known:
            known.append((portal["address"], portal["port"]))
            steps.append(
                step(
                    "portal",
                    portal_text(**portal),
                    None,
                    "asked for its targets",
                    "initiator_portal_new",
                    Address=portal["address"],
                    Port=portal["port"],
                )
            )
        elif not session:
            steps.append(
                step(
                    "discover",
                    portal_text(**portal),
                    None,
                    "asked for its targets",
                    "initiator_portal_update",
                    Address=portal["address"],
                )
            )
        if not session:
            where = {"Iqn": target["iqn"], "Address": portal["address"], "Port": portal["port"]}
            if target["chap_user"]:
                steps.append(
                    step(
                        "login",
                        target["iqn"],
                        None,
                        f"as {target['chap_user']}",
                        "session_login_chap",
                        secret=(target["chap_user"], target["chap_password"]),
                        **where,
                    )
                )
            else:
                steps.append(step("login", target["iqn"], None, "without CHAP", "session_login", **where))
    return steps


def _sessions(state: State, iqn: str) -> list[Session]:
    return [session for session in state["initiator"]["sessions"] if same_iqn(session["iqn"], iqn)]


def own_session(state: State, memory: Remembered, iqn: str) -> Session | None:
    """This testbed's session with a target. No id is recorded for a login that was interrupted; the only session there is taken for it."""
    if iqn not in memory.get("sessions", []):
        return None
    known, present = memory.get("session_ids", {}).get(iqn), _sessions(state, iqn)
    if known:
        return next((session for session in present if session["id"] == known), None)
    if len(present) > 1:
        raise Failure(
            "session_foreign",
            f"This host has {len(present)} sessions with {iqn}, and the record does not say which of them is this testbed's.",
            "Log the others out by hand.",
            target_iqn=iqn,
            sessions=[session["id"] for session in present],
        )
    return present[0] if present else None


def _same_login(target: dict[str, Any], memory: Remembered) -> bool:
    kept = memory.get("logins", {}).get(target["iqn"])
    if not kept or kept["user"] != (target["chap_user"] or ""):
        return False
    return not target["chap_user"] or same_secret(target["chap_password"], kept["secret"])


def _logout(state: State, session: Session, expect_free: bool = True) -> list[Any]:
    """Steps that end a session. Its disks are set offline first: Windows does not log out of one that is in use, and loses what it has not written yet."""
    steps: list[Step] = []
    for disk in (disk for disk in state["disks"] if disk["number"] in session["disks"]):
        mounts = [
            mount
            for part in disk["partitions"]
            for mount in (part["letter"] and f"{part['letter']}:", *part["folders"])
            if mount
        ]
        if mounts and expect_free:
            raise Failure(
                "device_in_use",
                f"The session with {session['iqn']} cannot be ended: disk {disk['number']} is mounted as {mounts[0]}.",
                "Remove what is on it first: teardown does it from the top down.",
                number=disk["number"],
                mounts=mounts,
            )
        refuse_disk(disk, f"A disk of {session['iqn']}", proven=True)
        if not disk["offline"]:
            steps.append(
                step("offline", f"disk {disk['number']}", "online", "offline", "disk_offline", Number=disk["number"])
            )
    return [
        *steps,
        step("logout", session["iqn"], "logged in", None, "session_logout", Iqn=session["iqn"], Id=session["id"]),
    ]


def present_disks(state: State, targets: list[LoginTarget], memory: Remembered) -> dict[tuple[str, int], Disk]:
    """{(iqn, lun): disk} of the wanted LUNs that are there, in this testbed's own sessions."""
    disks: dict[tuple[str, int], Disk] = {}
    for target in targets:
        session = own_session(state, memory, target["iqn"])
        numbers = session["disks"] if session else []
        wanted = {lun["lun"] for lun in target["luns"]}
        for disk in state["disks"]:
            number = disk["lun"]
            if disk["number"] in numbers and number is not None and number in wanted:
                disks[(target["iqn"], number)] = disk
    return disks


def missing(disks: dict[tuple[str, int], Disk], targets: list[LoginTarget]) -> list[tuple[str, int]]:
    return [
        (target["iqn"], lun["lun"])
        for target in targets
        for lun in target["luns"]
        if (target["iqn"], lun["lun"]) not in disks
    ]


def lun_missing(lost: list[tuple[str, int]], disks: dict[tuple[str, int], Disk]) -> Failure:
    iqn, number = lost[0]
    there = sorted(lun for name, lun in disks if name == iqn)
    return Failure(
        "lun_missing",
        f"The target {iqn} shows no LUN {number} to this initiator (it shows {', '.join(map(str, there)) or 'none'} of the wanted).",
        "Export the LUN, and map it to this initiator's name.",
        target_iqn=iqn,
        missing=[lun for name, lun in lost if name == iqn],
        found=there,
    )


def disk_steps(disks: dict[tuple[str, int], Disk], targets: list[LoginTarget]) -> list[Step]:
    """Disks are proven, then brought online: the host's SAN policy may keep new ones offline."""
    steps: list[Step] = []
    for target in targets:
        for lun in target["luns"]:
            disk = disks.get((target["iqn"], lun["lun"]))
            if not disk:
                continue
            refuse_disk(disk, f"LUN {lun['lun']} of {target['iqn']}", size_bytes=lun.get("size_bytes"), proven=True)
            steps += ready_steps(disk)
    return steps


def absent_plan(state: State, memory: Remembered, expect_free: bool = True) -> list[Step]:
    """Sessions do not outlive the service and portals do, so it has to run once more when there is one to remove.

    Without expect_free disks may still be mounted: in check mode nothing was taken away above.
    """
    if not memory or not service(state, INITIATOR_SERVICE):
        return []
    if not _running(state):
        return [_started()] if memory.get("portals") else []
    own = [own_session(state, memory, iqn) for iqn in memory.get("sessions", [])]
    sessions = [session for session in own if session]
    steps = [planned for session in sessions for planned in _logout(state, session, expect_free)]
    portals = [
        portal
        for portal in state["initiator"]["portals"]
        if [portal["address"], portal["port"]] in memory.get("portals", [])
    ]
    steps += [
        step(
            "portal",
            portal_text(**portal),
            "asked for its targets",
            None,
            "initiator_portal_remove",
            Address=portal["address"],
            Port=portal["port"],
        )
        for portal in portals
    ]
    others = len(state["initiator"]["sessions"]) > len(sessions) or len(state["initiator"]["portals"]) > len(portals)
    if memory.get("service_was") == "Stopped" and not others:
        steps.append(step("service", INITIATOR_SERVICE, "running", "stopped", "service_stop", Name=INITIATOR_SERVICE))
    return steps


def still_to_give_back(memory: Remembered, state: State, steps: list[Step]) -> Remembered:
    """The rest of the record after these steps of absent_plan: a service that others use is stopped once they have gone."""
    kept = (
        memory.get("service_was") == "Stopped"
        and _running(state)
        and not any(planned["script"] == "service_stop" for planned in steps)
    )
    return {"service_was": "Stopped"} if kept else {}


def remember(memory: Remembered, state: State, targets: list[LoginTarget], steps: list[Step]) -> Remembered:
    """The record with what the teardown needs of these steps; kept before the first of them. Sessions that are ended or made have no id in it yet."""
    changing = {step["target"] for step in steps if step["op"] in ("login", "logout")}
    own = {target["iqn"]: own_session(state, memory, target["iqn"]) for target in targets}
    ids = {**memory.get("session_ids", {}), **{iqn: session["id"] for iqn, session in own.items() if session}}
    made = {step["target"] for step in steps if step["op"] == "portal"}
    return {
        **memory,
        "service_was": memory.get("service_was")
        or {known["name"]: known["state"] for known in state["services"]}[INITIATOR_SERVICE],
        "sessions": sorted(set(memory.get("sessions", [])) | {target["iqn"] for target in targets}),
        "session_ids": {iqn: known for iqn, known in ids.items() if iqn not in changing},
        "portals": memory.get("portals", [])
        + [
            [target["portal"]["address"], target["portal"]["port"]]
            for target in targets
            if portal_text(**target["portal"]) in made
            and [target["portal"]["address"], target["portal"]["port"]] not in memory.get("portals", [])
        ],
    }


def note_sessions(memory: Remembered, before: State, after: State) -> Remembered:
    """The record with the ids of the sessions that were made between two states; where two with one target were, their owners are unknown."""
    ids = dict(memory.get("session_ids", {}))
    for iqn in memory.get("sessions", []):
        old = [session["id"] for session in _sessions(before, iqn)]
        new = [session["id"] for session in _sessions(after, iqn) if session["id"] not in old]
        if len(new) == 1 and iqn not in ids:
            ids[iqn] = new[0]
    return {**memory, "session_ids": ids}


def note_login(memory: Remembered, done: dict[str, Any]) -> None:
    if done["op"] == "login":
        user, secret = done["secret"] or ("", "")
        memory.setdefault("logins", {})[done["target"]] = {"user": user, "secret": keep_secret(secret)}


def layers_of(targets: list[LoginTarget], disks: dict[tuple[str, int], Disk]) -> list[Layer]:
    """The LUNs as layers, without their host; without a path where the disk is not there yet, in check mode."""
    layers: list[Layer] = []
    for target in targets:
        for lun in target["luns"]:
            disk: dict[str, Any] = dict(disks.get((target["iqn"], lun["lun"])) or {})
            # Other initiators compare the serial of an export with what they see, and Windows may spell it its own way.
            proofs = ("unique_id", "serial") if lun["layer_kind"] == "initiator" else ("unique_id",)
            identity = {
                "target_iqn": target["iqn"],
                "lun": lun["lun"],
                **{key: disk[key] for key in proofs if disk.get(key)},
            }
            layers.append(
                {
                    "name": f"{lun['layer_kind']}-{lun['name']}",
                    "kind": lun["layer_kind"],
                    "path": drive_path(disk["number"]) if disk else None,
                    "parent": lun["parent"],
                    "purpose": lun["purpose"],
                    "size_bytes": disk.get("size_bytes") or lun.get("size_bytes"),
                    "identity": identity,
                    "detail": {"provider": "windows", "portal": portal_text(**target["portal"])},
                }
            )
    return layers
