# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS mounts of a Linux client: which file system of the server one shows, and what is to be done about it.

An export of the role nfs_export has the UUID of its file system as fsid (disks/nfs_volumes.py).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.steps import Step
from ..disks import nfs_volumes
from ..nouns import Store
from ..params import DatastoresDatastoreOption
from ..watch.probe import reach

PORT = 2049
# A path that needs no quotes in a table of exports.
EXPORT = re.compile(r"(/[A-Za-z0-9._+-]+)+")
# Locks of version 3 need daemons on both sides, and benchmark files have one user.
OPTIONS = {"3": "vers=3,proto=tcp,nolock", "4.2": "vers=4.2,proto=tcp"}


def source(entry: Store) -> str:
    """The mounted source, as mount(8) and the mount table write it."""
    server = f"[{entry['server']}]" if ":" in entry["server"] else entry["server"]
    return f"{server}:{entry['export']}"


def options(entry: Store) -> str:
    return ",".join(part for part in (OPTIONS[entry["nfs_version"]], entry["mount_options"]) if part)


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
