# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a testbed of this state folder has been about to write to, and which others would lose contents that may not be lost.

A note is a file of the state folder for each host, ``written/<host>.json``. It holds what the devices showed of themselves, outlives a teardown, and is made
before anything is written; so a build that was cut finds its own device again. It carries a checksum: one that was changed by hand counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import make_folder, read_json, write_json
from ...module_utils.core.names import plain_naa
from ...module_utils.linux.disks import contents
from .device import PROOFS
from .nouns import Named, Probe
from .testbed import Testbed

VARIABLE = "testbed_allow_device"
SHAPE = {"devices": [{str: str}], "sha256": str}
# {host: [what a device showed]}
Notes = dict[str, list[dict[str, str]]]


def path_of(state_dir: str, host: str) -> str:
    return os.path.join(state_dir, "written", f"{host}.json")


def read(state_dir: str, hosts: Any) -> dict[str, list[dict[str, str]]]:
    """{host: [what a device showed]} of the notes that are believed."""
    notes = {}
    for host in hosts:
        try:
            note = read_json(path_of(state_dir, host), kind=SHAPE)
        except (Failure, OSError):
            continue
        if note and note["sha256"] == _digest(note["devices"]):
            notes[host] = note["devices"]
    return notes


def remember(state_dir: str, probes: Mapping[str, Probe], notes: Notes) -> None:
    """Note the devices whose contents will be gone. Raises OSError where that cannot be: then nothing may be written to them."""
    for host, probe in probes.items():
        known = notes.get(host, [])
        entries = [entry for entry in _at_stake(probe) if not is_noted(entry, known)]
        new = [shown for shown in map(_shown, entries) if shown]
        if new:
            make_folder(os.path.dirname(path_of(state_dir, host)), mode=0o700)
            devices = [*known, *new]
            write_json(path_of(state_dir, host), {"devices": devices, "sha256": _digest(devices)}, 0o600, indent=1)


def strange(testbed: Testbed, probes: Mapping[str, Probe], notes: Notes) -> list[tuple[str, Named]]:
    """[(host, named entry of its probe)] that are neither blank, nor noted, nor allowed, and whose contents would be gone."""
    return [
        (host, entry)
        for host, probe in probes.items()
        if host in testbed.hosts
        for entry in _at_stake(probe)
        if entry.get("contents") != contents.BLANK
        and not is_noted(entry, notes.get(host, []))
        and not is_allowed(entry, testbed.hosts[host].own.get(VARIABLE))
    ]


def is_noted(entry: Named, known: list[dict[str, str]]) -> bool:
    """Whether one of the notes is of this device: they share something that proves a device, and differ in nothing that both have."""
    shown = _shown(entry)
    return any(
        shared and all(shown[key] == note[key] for key in shared)
        for shared, note in ((shown.keys() & note.keys() & set(PROOFS), note) for note in known)
    )


def is_allowed(entry: Named, allowed: Any) -> bool:
    """Whether a user names this device: by its path, or by what proves it."""
    names = {
        entry.get("path"),
        *(entry.get("paths") or []),
        *(entry.get(key) for key in PROOFS),
        *_shown(entry).values(),
    }
    wanted = {plain_naa(str(name)) for name in allowed} if isinstance(allowed, list) else set()
    return bool(wanted & {plain_naa(str(name)) for name in names if name})


def sentence(host: str, entry: Named) -> tuple[str, str]:
    """(what is wrong, the remedy) of a device that is strange."""
    proofs = [f"{key} {entry.get(key)}" for key in PROOFS if entry.get(key)]
    device = ", ".join([*(entry.get("paths") or []), *proofs])
    why = "is not blank, and it is not on record that this testbed has written to it"
    if entry.get("contents") != contents.DATA:
        why = f"cannot be read ({entry.get('reason') or 'it was not inspected'}), so it may hold something"
    remedy = f"if its contents are not needed, name it in the inventory: {VARIABLE}: {json.dumps([_name(entry)])}"
    return f"{device} on {host}, which would be {entry['fate']}, {why}", remedy


def not_blank(devices: list[tuple[str, Named]]) -> Failure:
    """The failure for devices that are strange; nothing was touched."""
    sentences = [sentence(host, entry)[0] for host, entry in devices]
    names = list(dict.fromkeys(_name(entry) for _host, entry in devices))
    return Failure(
        "device_not_blank",
        f"{'; '.join(sentences)}. Nothing was touched.",
        f"Name another device, or, if its contents are not needed, name it in the inventory: {VARIABLE}: {json.dumps(names)}.",
        devices=sentences,
    )


def _at_stake(probe: Probe | None) -> list[Named]:
    """The devices of a host that a user proves, and whose contents will be gone. Without proof the device guard refuses them in any case; one that is
    not there, or not the only one, is a problem of its own (devices.py)."""
    named = (probe or {}).get("named") or []
    proven = [entry for entry in named if any(entry.get(key) for key in PROOFS)]
    return [entry for entry in proven if entry.get("fate") and len(entry.get("paths") or []) == 1]


def _name(entry: Named) -> str:
    """The name by which a user allows it: its proof, which will not be another disk's tomorrow."""
    return next(str(entry.get(key)) for key in PROOFS if entry.get(key))


def _shown(entry: Named) -> dict[str, str]:
    """The properties that the device itself shows, as the host read it."""
    shown = entry.get("designators") or {}
    return {key: str(shown[key]) for key in PROOFS if shown.get(key)}


def _digest(devices: Any) -> str:
    return hashlib.sha256(json.dumps(devices, sort_keys=True).encode()).hexdigest()
