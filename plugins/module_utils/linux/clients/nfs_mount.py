# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS mounts of a Linux client: which file system of the server one shows, and what is to be done about it.

An export of the role nfs_export has the UUID of its file system as fsid (disks/nfs_volumes.py).
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Sequence
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.steps import Step
from ..disks import nfs_volumes
from ..host import read_text, run
from ..nouns import Mount, Store
from ..params import DatastoresDatastoreOption
from ..watch.environment import MOUNT_STATS, nfs_connections
from ..watch.probe import reach

PORT = 2049
# A path that needs no quotes in a table of exports.
EXPORT = re.compile(r"(/[A-Za-z0-9._+-]+)+")
# The kernel opens no more to one server (NFS_MAX_CONNECTIONS).
MOST_CONNECTIONS = 16
# Locks of version 3 need daemons on both sides, and benchmark files have one user.
OPTIONS = {"3": "vers=3,proto=tcp,nolock", "4.2": "vers=4.2,proto=tcp"}


def source(entry: Store) -> str:
    """The mounted source, as mount(8) and the mount table write it."""
    server = f"[{entry['server']}]" if ":" in entry["server"] else entry["server"]
    return f"{server}:{entry['export']}"


def options(entry: Store) -> str:
    connections = f"nconnect={entry['nconnect']}" if entry.get("nconnect") else ""
    return ",".join(part for part in (OPTIONS[entry["nfs_version"]], connections, entry["mount_options"]) if part)


def check(entry: DatastoresDatastoreOption) -> None:
    """Raises bad_value when an entry of datastore_datastores cannot be mounted over NFS."""
    what = f"datastore_datastores {entry['name']}"
    for key in ("server", "export", "layer"):
        if not entry[key]:
            raise bad_value(
                f"{what} {key}", entry[key], "NFS needs server, export, and the layer of the export (role nfs_export)."
            )
    try:
        ipaddress.ip_address(entry["server"])
    except ValueError:
        raise bad_value(f"{what} server", entry["server"], "Give the address of the server.") from None
    if not EXPORT.fullmatch(entry["export"]):
        raise bad_value(
            f"{what} export",
            entry["export"],
            "Give the absolute path that the server exports, of letters, digits, dots, dashes and underscores.",
        )
    connections = entry.get("nconnect")
    if connections is None:
        return
    if not 1 <= connections <= MOST_CONNECTIONS:
        raise bad_value(
            f"{what} nconnect", connections, f"Give a number from 1 to {MOST_CONNECTIONS}, or leave it out."
        )
    if any(option.partition("=")[0] == "nconnect" for option in entry["mount_options"].split(",")):
        raise bad_value(f"{what} mount_options", entry["mount_options"], "Leave nconnect out: it is a word of its own.")


def check_shared(entries: Sequence[Store]) -> None:
    """Raises bad_value where mounts that share their connections ask for different numbers of these."""
    numbers: dict[tuple[str, str], Store] = {}
    for entry in entries:
        if entry["filesystem"] != "nfs":
            continue
        first = numbers.setdefault((entry["server"], entry["nfs_version"]), entry)
        if first.get("nconnect") != entry.get("nconnect"):
            raise bad_value(
                f"datastore_datastores {entry['name']} nconnect",
                entry.get("nconnect"),
                f"Write what {first['name']} has there: the mounts of a server share their connections.",
            )


def plan(current: dict[str, Any], wanted: Store) -> list[Step]:
    """Steps for one datastore over NFS. current: {mounted, fsid: of that mount, options: as recorded, generation: as recorded}"""
    steps: list[Step] = []
    name: Step = {"datastore": wanted["name"]}
    mounted = current["mounted"]
    replaced = bool(current["generation"] and wanted["generation"] and current["generation"] != wanted["generation"])
    other = mounted and (
        mounted["source"] != source(wanted)
        or current["options"] != options(wanted)
        or current["fsid"] not in nfs_volumes.fsids(wanted["uuid"])
    )
    if mounted and (replaced or other):
        was = "a file system that was replaced" if replaced else f"{mounted['source']}, {current['options']}"
        steps.append({"op": "detach", **name, "was": was, "will": "not mounted"})
    if not mounted or replaced or other:
        will = f"{source(wanted)} on {wanted['mount_point']}, {options(wanted)}"
        steps.append({"op": "mount", **name, "was": "not mounted", "will": will})
    return steps


def refuse_silent(server: str, what: str) -> None:
    """Raises server_silent: looking at a mount whose server does not answer would wait for it without end."""
    way = reach(server, PORT)
    if way != "open":
        raise Failure(
            "server_silent",
            f"The NFS server {server} of {what} does not answer on port {PORT}: {way}.",
            "Build the target again, or look at the network between both.",
            server=server,
        )


def refuse_shared(table: Sequence[Mount], wanted: Store, leaving: Collection[str]) -> None:
    """Raises connections_shared when the kernel would take the connections of another mount, whose number is not the wanted one.

    Mounts of one server by one version share their connections, which the first of them opened. leaving: mount points that are unmounted before.
    """
    number = wanted.get("nconnect")
    if not number:
        return
    address = ipaddress.ip_address(wanted["server"])
    for mount in table:
        words = dict(option.partition("=")[::2] for option in mount["options"].split(","))
        if not mount["filesystem"].startswith("nfs") or mount["mount_point"] in {*leaving, wanted["mount_point"]}:
            continue
        if words.get("vers") != wanted["nfs_version"] or not _is_address(words.get("addr", ""), address):
            continue
        there = int(words.get("nconnect", 1))
        if there != number:
            raise Failure(
                "connections_shared",
                f"Datastore {wanted['name']} wants {_connections(number)} to the NFS server {wanted['server']}, but would share "
                f"{_connections(there)} with {mount['mount_point']}, which is mounted from there by version {wanted['nfs_version']}.",
                f"Unmount {mount['mount_point']}, or set nconnect of the datastore to {there}.",
                datastore=wanted["name"],
                mount_point=mount["mount_point"],
            )


def mount(wanted: Store) -> None:
    """Mount it; raises nconnect_missing where the kernel does not know the option."""
    try:
        _mount(wanted)
    except Failure as failure:
        number = wanted.get("nconnect")
        if not number or "incorrect mount option" not in str(failure):
            raise
        # So mount.nfs(8) reports any option that the kernel does not take; which of them it is shows without this one. The release of the kernel would
        # prove nothing, because distributions took nconnect over into older ones.
        _mount({**wanted, "nconnect": None})
        run(["umount", wanted["mount_point"]], what=f"{wanted['mount_point']} cannot be unmounted")
        raise Failure(
            "nconnect_missing",
            f"Datastore {wanted['name']} wants {_connections(number)}, and Linux {os.uname().release} does not take nconnect of an NFS mount.",
            "Leave out nconnect of the datastore, or use a kernel that has it: Linux 5.3 or later.",
            datastore=wanted["name"],
        ) from failure


def _mount(wanted: Store) -> None:
    run(
        ["mount", "-t", "nfs", "-o", options(wanted), source(wanted), wanted["mount_point"]],
        what=f"Datastore {wanted['name']} cannot be mounted on {wanted['mount_point']}",
    )


def refuse_wrong_connections(wanted: Store) -> None:
    """The mount must have the connections that are wanted. Beside mounts from another address of the same server the kernel gives it theirs."""
    number = wanted.get("nconnect")
    if not number:
        return
    there = nfs_connections(read_text(MOUNT_STATS, default=""), wanted["mount_point"])
    if there != number:
        raise Failure(
            "wrong_connections",
            f"{source(wanted)} of datastore {wanted['name']} is mounted with {_connections(there)} in place of {number}.",
            f"Look which other mounts the host has of this server, by any of its addresses: they share their connections. Or set nconnect to {there or 1}.",
            datastore=wanted["name"],
        )


def _is_address(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.ip_address(text) == address
    except ValueError:
        return False


def _connections(number: int) -> str:
    return f"{number} connection{'' if number == 1 else 's'}"
