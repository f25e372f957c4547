# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims of a testbed on this host, for the controller to keep a second time: a teardown then finds its way where the records are lost.

    {boot_id, areas: {area: {record, witnesses: {path: instance}, sha256: of the record's file}}}

A record (record.py) is the only thing that makes an object the testbed's. One that comes back from the controller is older than what is there, so it claims
nothing that cannot be distinguished from what came after it under the same name. Most areas compare on their own: the UUID of a file system, the serial of a
backstore, the command line and the start of a process. A RAM disk and a LIO target are known by their names only, so a witness shows which one was meant.
"""

from __future__ import annotations

import copy
import glob
import hashlib
import os
from typing import Any

from ...core.failure import Failure
from ...core.names import check_name
from .. import mounts
from ..disks import block_device
from ..host import read_text
from ..mounts import CONFIGFS
from ..own_folder import RUN_DIR
from ..record import Record
from . import ownership

# Salted hashes and digests of secrets. A teardown needs none of them, so the controller keeps none.
SECRETS = ("accounts", "chap", "logins")
# Kinds of names (ownership.py) of what outlives a restart of the host.
LASTING = ("arrays", "files")
# {area: {key of its record: keys of each entry, or None for all of it}}: what outlives one and has no mark of its own. Folders are on disks, and so are
# node records and files of exports; a session, a mount, a process and a module end with the host.
AFTER_RESTART: dict[str, dict[str, tuple[str, ...] | None]] = {
    "datastore": {"datastores": ("mount_point", "folders", "uuid", "device", "server")},
    "existing": {"mounts": None},
    "iscsi_session": {"folders": None, "multipath": None},
    "nfs_export": {"exports": None, "folder": None},
}


def kept(testbed_id: str, run_dir: str = RUN_DIR, configfs: str = CONFIGFS) -> dict[str, object]:
    """The claims of the testbed on this host as its records are now."""
    folder, areas = os.path.join(run_dir, testbed_id), {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
        area = os.path.basename(path)[: -len(".json")]
        data = _read(testbed_id, area, run_dir)
        if data:
            record = {key: value for key, value in data.items() if key not in (*SECRETS, "boot_id")}
            named = _named(area, record, configfs)
            witnesses = {place: _instance(place) for place in named.values()}
            with open(path, "rb") as handle:
                sha256 = hashlib.sha256(handle.read()).hexdigest()
            areas[area] = {"record": record, "witnesses": witnesses, "sha256": sha256}
    return {"boot_id": boot_id(), "areas": areas}


def restore(
    testbed_id: str,
    claims: dict[str, Any],
    check_mode: bool = False,
    run_dir: str = RUN_DIR,
    configfs: str = CONFIGFS,
) -> dict[str, object]:
    """{restored: [area], doubtful: {area: [name]}}: records that are lost or damaged are written again, without what no witness speaks for.

    A record that is there stays as it is. After a restart the part of it that outlives one is written; a build would else take for the host's own what an
    earlier one has made, and no teardown would remove it.
    """
    restored: list[str] = []
    doubtful: dict[str, list[str]] = {}
    same = claims["boot_id"] == boot_id()
    for area, claim in sorted(claims["areas"].items()):
        check_name("area of a claim", area)
        if _read(testbed_id, area, run_dir):
            continue
        data, lost = vouched(area, claim, configfs) if same else lasting(area, claim["record"])
        if not (data or same):
            continue
        if lost:
            doubtful[area] = lost
        restored.append(area)
        if not check_mode:
            damaged = os.path.join(run_dir, testbed_id, f"{area}.json")
            if os.path.lexists(damaged):
                os.unlink(damaged)
            record = Record(testbed_id, area, run_dir)
            record.data = data
            record.save()
    return {"restored": restored, "doubtful": doubtful}


def made(claims: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, object]:
    """The names in the claims, to be looked for once their records are gone: {kind: [name], areas: [area], witnesses: {path: instance}, boot_id}.

    before: the names known earlier. From an earlier start of the host only names that outlive one are kept.
    """
    known = before or {}
    same = known.get("boot_id") == claims["boot_id"]
    names = ownership.names_of({area: claim["record"] for area, claim in claims["areas"].items()})
    result: dict[str, Any] = {
        kind: sorted({*recorded, *(known.get(kind, ()) if same or kind in LASTING else ())})
        for kind, recorded in names.items()
    }
    result["areas"] = sorted({*claims["areas"], *known.get("areas", ())})
    result["witnesses"] = {
        **(known.get("witnesses", {}) if same else {}),
        **{path: seen for claim in claims["areas"].values() for path, seen in claim["witnesses"].items()},
    }
    result["boot_id"] = claims["boot_id"]
    return result


def still(names: dict[str, Any]) -> dict[str, object]:
    """The meaning that these names (``made``) may still have on this host: no device that came later under the number of one, nothing of an earlier start."""
    if not names:
        return {}
    if names.get("boot_id") != boot_id():
        return {kind: names.get(kind, []) for kind in LASTING}
    others = {
        os.path.basename(path)
        for path, seen in names.get("witnesses", {}).items()
        if os.path.exists(path) and _instance(path) != seen
    }
    return {**names, **{kind: sorted(set(names.get(kind, ())) - others) for kind in ("devices", "targets")}}


def vouched(area: str, claim: dict[str, Any], configfs: str = CONFIGFS) -> tuple[dict[str, Any], list[str]]:
    """(record without what is not the very thing that was claimed, names of these). A thing that is not there any more cannot be taken for another."""
    record = copy.deepcopy(claim["record"])
    lost = []
    for name, place in sorted(_named(area, record, configfs).items()):
        witness = claim["witnesses"].get(place)
        if os.path.exists(place) and (witness is None or _instance(place) != witness):
            lost.append(name)
    if area == "ramdisk":
        record["disks"] = {name: disk for name, disk in record.get("disks", {}).items() if name not in lost}
        record["order"] = [name for name in record.get("order", []) if name not in lost]
    elif area == "lio_target":
        record["targets"] = [name for name in record.get("targets", []) if name not in lost]
    elif area == "nvme_target":
        for key in ("subsystems", "hosts"):
            record[key] = [name for name in record.get(key, []) if name not in lost]
        record["ports"] = {
            portal: number
            for portal, number in record.get("ports", {}).items()
            if ownership.nvme_port(number) not in lost
        }
    return record, lost


def lasting(area: str, record: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(the part of a record that outlives a restart, names of what was left out of it because something is mounted there since)."""
    part: dict[str, Any] = {}
    for key, inner in AFTER_RESTART.get(area, {}).items():
        if key in record:
            part[key] = copy.deepcopy(record[key])
            if inner:
                part[key] = {
                    name: {word: value for word, value in entry.items() if word in inner}
                    for name, entry in part[key].items()
                }
    table = mounts.read()
    lost = []
    for entries in (part.get(key, {}) for key in ("datastores", "mounts")):
        for name in sorted(name for name, entry in entries.items() if mounts.mounted_at(table, entry["mount_point"])):
            # The testbed's own mount ended with the host.
            del entries[name]
            lost.append(name)
    return part, lost


def _named(area: str, record: dict[str, Any], configfs: str) -> dict[str, str]:
    """{name: path} of things that only their name distinguishes from others of this boot."""
    if area == "ramdisk":
        return {name: disk["path"] for name, disk in record.get("disks", {}).items() if disk["path"]}
    if area == "lio_target":
        return {name: os.path.join(configfs, "target/iscsi", name) for name in record.get("targets", [])}
    if area == "nvme_target":
        base = os.path.join(configfs, "nvmet")
        ports = {ownership.nvme_port(number): f"{base}/ports/{number}" for number in record.get("ports", {}).values()}
        return {
            **{name: f"{base}/{key}/{name}" for key in ("subsystems", "hosts") for name in record.get(key, [])},
            **ports,
        }
    return {}


def boot_id() -> str:
    """The identity of this start of the host."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def _instance(path: str) -> str | None:
    try:
        return block_device.instance(path)
    except OSError:  # not there
        return None


def _read(testbed_id: str, area: str, run_dir: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = Record(testbed_id, area, run_dir).data
    except Failure:
        return {}  # damaged, which is as good as lost
    return data
