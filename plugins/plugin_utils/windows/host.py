# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows hosts: plans over the state that scripts/state.ps1 reads.

A state is what that script returns::

    {about: {product, version, boot: when it was started}, feature: Installed|Available|InstallPending|… or null where there are no server roles,
     services: [{name, state, start_mode}],
     virtual_disks: [{path, size_bytes, description, status, serial}],
     targets: [{name, iqn, description, status, initiators: [type:value], luns: [{path, lun}], chap, chap_user, reverse_chap, reverse_chap_user,
                sessions: [initiator]}],
     portals: [{address, port, enabled: whether it listens there}], loopback: 1 when the host may be its own initiator,
     null where that was never set,
     firewall_rules: [name], initiator: {iqn, portals: [{address, port}], sessions: [{id, iqn, connected, persistent, authentication, disks: [number]}]},
     disks: [{number, lun, name, serial, unique_id, size_bytes, sector_bytes, bus, style, offline, read_only, boot, system, clustered,
              offline_reason: 'Policy' … or '', page_file: whether a volume of it holds one,
              partitions: [{number, type, size_bytes, letter, folders: [where it is mounted beside]}]}],
     volumes: [{letter, label, filesystem, size_bytes, entries: [{name, size_bytes}]}], files: [the asked ones that exist]}

A step is ``{op, target, was, will, script, parameters, secret}``: one script of scripts/ with its parameters, and its text for a person.
``secret`` is (user, password) for the script's parameter ``Chap``, or None. A call of another collection's module is
``{op, target, was, will, module, arguments}``.

Sources: the documentation of the PowerShell modules IscsiTarget, iSCSI and Storage of Windows Server 2016 to 2025.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.names import check_name, check_testbed_id
from ...module_utils.core.steps import Step
from .state import Disk, Partition, Service, State

FEATURE = "FS-iSCSITarget-Server"
TARGET_SERVICE, INITIATOR_SERVICE = "WinTarget", "MSiSCSI"
# Longer ones are refused by the Windows target and the Windows initiator, shorter ones by all.
SECRET_LENGTH = (12, 16)
# The sizes that the VHDX format can have, also where the disk is in memory; and the sizes that the target server takes.
LEAST_MIB, MOST_MIB = 3, 64 << 20
# A disk's one MBR or GPT start and the reserved partition that Windows makes on GPT disks by itself carry no data.
RESERVED = "Reserved"


def check_id(variable: str, testbed_id: str) -> str:
    """The testbed's id, which becomes part of target names; those take no underscore."""
    check_testbed_id(variable, testbed_id)
    if "_" in testbed_id:
        raise bad_value(
            variable,
            testbed_id,
            "Use no underscore where a Windows host takes part: names of Windows targets cannot hold one.",
        )
    return testbed_id


def stamp(testbed_id: str, name: str = "") -> str:
    """The mark of a thing on a Windows host as this testbed's; the description of virtual disks and targets."""
    return f"storlab testbed {testbed_id}" + (f": {name}" if name else "")


def without_repeats(state: State) -> State:
    """The state with each partition once. Where a cluster's storage is seen beside the host's own, Windows lists a partition for each of them."""
    disks: list[Disk] = []
    for disk in state.get("disks", []):
        partitions: list[Partition] = []
        for part in disk["partitions"]:
            same = next((known for known in partitions if _same_partition(known, part)), None)
            if same is None:
                partitions.append(part.copy())
            else:
                same["letter"] = same["letter"] or part["letter"]
                same["folders"] = list(dict.fromkeys([*same["folders"], *part["folders"]]))
        disks.append({**disk, "partitions": partitions})
    whole = state.copy()
    if disks:
        whole["disks"] = disks
    return whole


def _same_partition(part: Partition, other: Partition) -> bool:
    # On a dynamic disk each has the number 0.
    return part["number"] > 0 and all(part[key] == other[key] for key in ("number", "type", "size_bytes"))


def stamped(description: str, testbed_id: str) -> bool:
    return description == stamp(testbed_id) or description.startswith(stamp(testbed_id) + ": ")


def step(
    op: str, target: str, was: object, will: object, name: str, secret: tuple[Any, ...] | None = None, **parameters: Any
) -> Step:
    return {
        "op": op,
        "target": target,
        "was": was,
        "will": will,
        "script": name,
        "parameters": parameters,
        "secret": secret,
    }


def module_call(op: str, target: str, was: object, will: object, module: str, **arguments: Any) -> Step:
    return {"op": op, "target": target, "was": was, "will": will, "module": module, "arguments": arguments}


def service(state: State, name: str) -> Service | None:
    return next((entry for entry in state["services"] if entry["name"] == name), None)


def serving(state: State) -> bool:
    """Whether the target server runs, without which it has neither targets nor virtual disks to show."""
    target_service = service(state, TARGET_SERVICE)
    return target_service is not None and target_service["state"] == "Running"


def check_number(variable: str, value: int, what: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise bad_value(variable, value, f"Use a {what} from {least} to {most}.")
    return value


def check_lun(variable: str, lun: Mapping[str, Any]) -> None:
    """Its name, which becomes that of a layer, and its number, of which a target of Windows has 256 and its initiator sees as many."""
    check_name(f"{variable} lun name", lun["name"])
    check_number(f"{variable} lun {lun['name']}", lun["lun"], "number", 0, 255)


def check_port(variable: str, port: int) -> int:
    return check_number(f"{variable} port", port, "TCP port", 1, 65535)


def check_size(variable: str, size_mib: int) -> int:
    """The bytes of a virtual disk."""
    if size_mib < LEAST_MIB:
        raise bad_value(f"{variable} size_mib", size_mib, f"Use at least {LEAST_MIB}.")
    if size_mib > MOST_MIB:
        raise bad_value(f"{variable} size_mib", size_mib, f"Use at most {MOST_MIB} (64 TiB).")
    return size_mib << 20


def check_once(variable: str, values: Sequence[object]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise bad_value(variable, value, "Listed twice; list it once.")


def check_secrets(variable: str, entry: Mapping[str, Any]) -> None:
    for key in ("chap_password", "mutual_chap_password"):
        secret = entry.get(key)
        if secret and not SECRET_LENGTH[0] <= len(secret) <= SECRET_LENGTH[1]:
            raise bad_value(
                f"{variable} {key}",
                f"{len(secret)} characters long",
                "Use a secret of 12 to 16 characters: Windows takes no others.",
            )


def never_touched(disk: Disk) -> list[tuple[str, str]]:
    """[(code, words)] of what forbids any write to a disk, whoever asks for it."""
    reasons = (
        (disk["boot"], "disk_boot", "a boot disk"),
        (disk["system"], "disk_system", "a system disk"),
        (disk["page_file"], "disk_page_file", "a disk with a page file"),
        (disk["clustered"], "disk_clustered", "a clustered disk"),
    )
    return [(code, words) for forbids, code, words in reasons if forbids]


def refuse_disk(
    disk: Disk, what: str, size_bytes: int | None = None, unique_id: str | None = None, proven: bool = False
) -> None:
    """The parts that a role may not change: number, unique id and size must agree, and nothing of the system or a cluster is touched.

    proven: the caller knows the disk by more than its model and size, so that it may bring it online.
    """
    facts = {"number": disk["number"], "size_bytes": disk["size_bytes"], "unique_id": disk["unique_id"]}
    for code, words in never_touched(disk):
        raise Failure(
            code,
            f"{what} is disk {disk['number']}, {words} of this host, which is never touched.",
            "Name another disk.",
            **facts,
        )
    if size_bytes is not None and disk["size_bytes"] != size_bytes:
        raise Failure(
            "wrong_size",
            f"{what} is disk {disk['number']} of {disk['size_bytes']} bytes, where {size_bytes} are expected.",
            "Run build again; when it stays so, correct the size.",
            **facts,
        )
    if unique_id is not None and disk["unique_id"] != unique_id:
        raise Failure(
            "wrong_unique_id",
            f"{what} is disk {disk['number']} with unique id {disk['unique_id']}, where {unique_id} is expected.",
            "Run build again, so that the layers are up to date.",
            **facts,
        )
    if disk["offline"] and not proven and unique_id is None:
        raise Failure(
            "disk_offline",
            f"{what} is disk {disk['number']}, which is offline ({disk['offline_reason'] or 'no reason given'}), perhaps on purpose.",
            "Bring it online by hand if it may be overwritten.",
            offline_reason=disk["offline_reason"],
            **facts,
        )


def ready_steps(disk: Disk) -> list[Step]:
    """The steps that a proven disk needs before it can be written to: the policy of servers keeps new disks offline and read-only."""
    where, steps = f"disk {disk['number']}", []
    if disk["offline"]:
        steps.append(step("online", where, "offline", "online", "disk_online", Number=disk["number"]))
    if disk["read_only"]:
        steps.append(step("writable", where, "read-only", "writable", "disk_writable", Number=disk["number"]))
    return steps


def plain_serial(serial: str) -> str:
    """One disk's serial is written in several ways: with dashes or blanks, and in capitals."""
    return re.sub(r"[\s-]", "", serial).lower()


def drive_path(number: int) -> str:
    return f"\\\\.\\PhysicalDrive{number}"
