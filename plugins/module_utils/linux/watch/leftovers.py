# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The remains and the losses of a teardown, judged from two storage states (storage_state.py) and from what the testbed is known to have made.

A host has other users. Everything that the testbed made must be gone. Everything from before that it could have taken must be there. Everything else that
differs is somebody else's doing: a note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..disks import multipath
from .ownership import KINDS, within

CAME, GONE = "was not there before", "is gone"
LEFT = "is left of the testbed"
# Things that outlive a restart of the host. Everything else of an earlier start is gone by itself.
LASTING = ("configuration_files", "raid", "cache_stamps")
# {section: area of the records}: things that only an administrator changes, by the same means that a testbed with such an area used.
SHARED = {
    "iscsi_sessions": "iscsi_session",
    "nvme_connections": "nvme_session",
    "nvme_targets": "nvme_target",
    "targets": "lio_target",
    "raid": "raid",
    "cache_stamps": "cache_tier",
}
SHARED_FILES = {
    "/etc/iscsi": "iscsi_session",
    "/var/lib/iscsi": "iscsi_session",
    "/etc/exports": "nfs_export",
    "/etc/exports.d": "nfs_export",
}
# A tgtd is ended by the file of its process number in the record's folder, so that no other can be.
SHARED_DAEMONS = {"iscsid": "iscsi_session", "nfsd": "nfs_export"}
States = dict[str, list[str]]
# {section: [{line, before, why}]}, see esxi/host_state.py.
Kept = dict[str, list[dict[str, Any]]]


class Verdict(NamedTuple):
    """strays: what the testbed has left, or may have taken. notes: the changes of others since. One fragment of a sentence each."""

    strays: list[str]
    notes: list[str]


def judge(
    before: States,
    after: States,
    ours: States | None = None,
    made: dict[str, Any] | None = None,
    restarted: bool = False,
    ignore: Iterable[str] = (),
    kept: Kept | None = None,
) -> Verdict:
    """The differences, and whose they are.

    ours: lines of ``after`` that the testbed made, no matter what was there before. In a section that is not in it nothing shows
        owners: every difference may be ours.
    made: {kind of names: [name], areas: [area]}, what the testbed is known to have made (record.py, ownership.py). None where there are no such records:
        then it may have taken whatever is gone.
    restarted: whether the host was restarted since ``before`` was read.
    ignore: regular expressions; a line that one of them matches (``re.search``) is passed over.
    kept: what stays for others, and why; it is never a stray.
    """
    strays: list[str] = []
    notes: list[str] = []
    ours = ours or {}
    for section in sorted({*before, *after, *ours}):
        old, new = Counter(before.get(section, ())), Counter(after.get(section, ()))
        mine, nobodys = new & Counter(ours.get(section, ())), section not in ours
        came, gone = new - old - mine, old - new
        taken = {line for line in gone if made is None or _may_be_taken(section, line, made, restarted)}
        # A file with other contents is one that went and one that came.
        changed = {_place(line) for line in taken} if section == "configuration_files" else set()
        left = (kept or {}).get(section, ())
        whys = {LEFT: {}, CAME: _reasons(left, "line"), GONE: _reasons(left, "before")}
        for lines, ending in ((mine, LEFT), (came, CAME), (gone, GONE)):
            for line in sorted(lines.elements()):
                why = whys[ending].get(line)
                text = f"{section.replace('_', ' ')}: {line} ({ending}{f', {why}' if why else ''})"
                blamed = nobodys or ending == LEFT or (ending == GONE and line in taken) or _place(line) in changed
                blamed = blamed and not why
                (strays if blamed else notes).append(text)
    passed = [re.compile(pattern) for pattern in ignore]
    return Verdict(*([line for line in lines if not any(p.search(line) for p in passed)] for lines in (strays, notes)))


def without(lines: States, ours: States) -> States:
    """The state of a host before a build: what a testbed has left there is none of it, so it is seen until it is gone."""
    return {
        section: sorted((Counter(several) - Counter(ours.get(section, ()))).elements())
        for section, several in lines.items()
    }


def as_before(lines: States, kept: Kept) -> States:
    """The state of a host before a build. A thing that was kept for others is in it as before the testbed, because a teardown gives it back so."""
    counted = {section: Counter(several) for section, several in lines.items()}
    for section, items in kept.items():
        for item in items:
            if counted.get(section, {}).get(item["line"]):
                counted[section][item["line"]] -= 1
                counted[section].update([item["before"]] if item["before"] else [])
    return {section: sorted(count.elements()) for section, count in counted.items()}


def _reasons(items: Iterable[dict[str, Any]], key: str) -> dict[str, str]:
    return {item[key]: item["why"] for item in items if item[key]}


def _place(line: str) -> str:
    """The path of a configuration file."""
    return re.split(r" sha256 | -> ", line)[0]


def _may_be_taken(section: str, line: str, made: dict[str, Any], restarted: bool) -> bool:
    """Whether this testbed may have taken what was there before it: by a name that is in its records, or by what it does to all of a kind."""
    if restarted and section not in LASTING:
        return False
    names = {kind: set(made.get(kind, ())) for kind in KINDS}
    areas = set(made.get("areas", ()))
    if section in SHARED:
        return SHARED[section] in areas
    if section == "configuration_files":
        place = _place(line)
        shared = {area for folder, area in SHARED_FILES.items() if within(place, [folder])}
        return bool(shared & areas) or (place in multipath.FILES and place in names["files"])
    if section == "processes":
        return SHARED_DAEMONS.get(line.split()[0]) in areas
    if section == "mounts":
        where = line.partition(" on ")[2].rpartition(" type ")[0]
        return where in names["mount_points"] or within(where, names["folders"])
    kind = {"block_devices": "devices", "kernel_modules": "modules"}.get(section)
    return kind is not None and line.split()[0] in names[kind]
