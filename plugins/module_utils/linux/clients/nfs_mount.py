# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS mounts of a Linux client: which file system of the server one shows, and what is to be done about it.

An export of the role nfs_export has the UUID of its file system as fsid, and the kernel shows the fsid of every mount in /proc/fs/nfsfs/volumes.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.steps import Step
from ..host import read_text
from ..watch.probe import reach

VOLUMES = "/proc/fs/nfsfs/volumes"
PORT = 2049
# A path that needs no quotes in a table of exports.
EXPORT = re.compile(r"(/[A-Za-z0-9._+-]+)+")
# Locks of version 3 need daemons on both sides, and benchmark files have one user.
OPTIONS = {"3": "vers=3,proto=tcp,nolock", "4.2": "vers=4.2,proto=tcp"}


def volumes(text: str) -> dict[str, str]:
    """{'major:minor' of a mount: fsid} of /proc/fs/nfsfs/volumes."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {row[3]: row[4] for row in rows if len(row) > 4}


def fsids(uuid: str) -> set[str]:
    """How clients may show an fsid that is a UUID (nfsd4_encode_fattr, encode_fsid in fs/nfsd).

    Version 4 sends it whole, as two numbers. Version 3 has 8 bytes: both halves, as numbers in the server's byte order, laid over each other.
    """
    digits = bytes.fromhex(uuid.replace("-", ""))
    halves = digits[:8], digits[8:]
    whole = ":".join(f"{int.from_bytes(half, 'big'):x}" for half in halves)
    orders: tuple[Any, ...] = ("little", "big")
    folded = {int.from_bytes(halves[0], order) ^ int.from_bytes(halves[1], order) for order in orders}
    return {whole, *(f"{number:x}:0" for number in folded)}


def source(entry: dict[str, Any]) -> str:
    """What is mounted, as mount(8) and the mount table write it."""
    server = f"[{entry['server']}]" if ":" in entry["server"] else entry["server"]
    return f"{server}:{entry['export']}"


def options(entry: dict[str, Any]) -> str:
    return ",".join(part for part in (OPTIONS[entry["nfs_version"]], entry["mount_options"]) if part)


def check(entry: dict[str, Any]) -> None:
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


def plan(current: dict[str, Any], wanted: dict[str, Any]) -> list[Step]:
    """Steps for one datastore over NFS. current: {mounted, fsid: of that mount, options: as recorded, generation: as recorded}"""
    steps: list[Step] = []
    name: Step = {"datastore": wanted["name"]}
    mounted = current["mounted"]
    replaced = bool(current["generation"] and wanted["generation"] and current["generation"] != wanted["generation"])
    other = mounted and (
        mounted["source"] != source(wanted)
        or current["options"] != options(wanted)
        or current["fsid"] not in fsids(wanted["uuid"])
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


def fsid_of(mounted: dict[str, Any] | None) -> str | None:
    return volumes(read_text(VOLUMES, default="")).get(mounted["numbers"]) if mounted else None
