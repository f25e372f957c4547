# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, disks and drive letters of Windows hosts that the user names: what is not there, or is somebody else's, is found before anything is made."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

from .nouns import Probe
from .shape import Problem, shown
from .testbed import OVERRIDDEN, Disk, Host, Testbed, mappings

OUR_LABEL = "storlab-"


def missing(testbed: Testbed, host: Host, seen: Probe) -> Iterator[Problem]:
    """Problems with the names, by what the host shows. seen: ``{volumes, disks}`` of storlab.testbed.win_state."""
    for look in (_files, _disks, _letters):
        yield from look(testbed, host, seen)


def _place(testbed: Testbed, host: Host, variable: str, by_hand: str, name: Any) -> tuple[str, str]:
    """How the user wrote it: a word of testbed.disks, or of the role's variable with the host's name behind it."""
    disk: Disk | None = next((disk for disk in testbed.disks if disk.target == host.name and disk.name == name), None)
    if disk and host.because.get(variable) != OVERRIDDEN:
        return f"testbed.disks[{disk.index}]", ""
    return by_hand, f" of {host.name}"


def _files(testbed: Testbed, host: Host, seen: Probe) -> Iterator[Problem]:
    volumes = {str(volume["letter"]).upper(): volume for volume in seen["volumes"]}
    has = ", ".join(f"{letter}:" for letter in sorted(volumes))
    # The build makes these, and the stage of the volumes checks what is on them.
    coming = {
        str(store.get("mount_point") or "")[:1].upper()
        for store in mappings(host.variables.get("datastore_datastores"))
    }
    for place, export in enumerate(mappings(host.variables.get("iscsi_target_targets"))):
        for number, lun in enumerate(mappings(export.get("luns"))):
            given = lun.get("vhdx")
            file: dict[str, Any] = given if isinstance(given, dict) else {}
            path, letter = str(file.get("path") or ""), str(file.get("path") or "")[:1].upper()
            if not path or letter in coming:
                continue
            own = f"iscsi_target_targets[{place}].luns[{number}].vhdx"
            word, of = _place(testbed, host, "iscsi_target_targets", own, lun.get("name"))
            if letter not in volumes:
                yield Problem(
                    f"{word}.path{of}",
                    shown(path),
                    f"and {host.name} has no volume {letter}:",
                    f"use one of its volumes, which are {has}, or make {letter}: there",
                )
            elif file.get("allocation") == "fixed" and _mib(file) > int(volumes[letter]["size_bytes"]) >> 20:
                yield Problem(
                    f"{word}.{'size_mib' if of else 'size'}{of}",
                    f"{_mib(file)}MiB",
                    f"and volume {letter}: of {host.name} has {int(volumes[letter]['size_bytes']) >> 20}MiB in all",
                    "make the file smaller, or write allocation: dynamic",
                )


def _mib(entry: dict[str, Any]) -> int:
    size = entry.get("size_mib")
    return size if isinstance(size, int) else 0


def _disks(testbed: Testbed, host: Host, seen: Probe) -> Iterator[Problem]:
    for place, disk in enumerate(mappings(host.variables.get("ramdisk_disks"))):
        model = str(disk.get("model") or "")
        if not model:
            continue
        word, of = _place(testbed, host, "ramdisk_disks", f"ramdisk_disks[{place}]", disk.get("name"))
        alike = [item for item in seen["disks"] if fnmatch.fnmatchcase(str(item["name"]).lower(), model.lower())]
        matching = [item for item in alike if item["size_bytes"] == _mib(disk) << 20]
        if len(matching) == 1:
            continue
        if matching:
            why = f"and {len(matching)} disks of {host.name} have that model and {_mib(disk)}MiB"
            remedy = "give the disks different sizes in their own product"
        elif alike:
            sizes = ", ".join(sorted({f"{item['size_bytes'] >> 20}MiB" for item in alike}))
            why = f"and the disks of that model on {host.name} have {sizes}, not {_mib(disk)}MiB"
            remedy = "correct the size, or make the disk of that size in its own product"
        else:
            names = ", ".join(sorted({str(item["name"]) for item in seen["disks"]})) or "none"
            why = f"and {host.name} has no disk of that model"
            remedy = f"make it in its own product, or use a model that Get-Disk lists there: {names}"
        yield Problem(f"{word}.model{of}", shown(model), why, remedy)


def _letters(testbed: Testbed, host: Host, seen: Probe) -> Iterator[Problem]:
    """Letters that somebody's volume has. One without a label may be what a cut build of ours has left: the role looks closer."""
    volumes = {str(volume["letter"]).upper(): str(volume["label"]) for volume in seen["volumes"]}
    for place, store in enumerate(mappings(host.variables.get("datastore_datastores"))):
        point = str(store.get("mount_point") or "")
        label = volumes.get(point[:1].upper(), "")
        if label and not label.startswith(OUR_LABEL):
            own = next((item for item in testbed.stores if item.name == store.get("name")), None)
            by_hand = host.because.get("datastore_datastores") == OVERRIDDEN or own is None
            word = (
                f"datastore_datastores[{place}].mount_point of {host.name}"
                if by_hand or own is None
                else f"testbed.datastores[{own.index}].mount_point"
            )
            free = "".join(letter for letter in "DEFGHIJKLMNOPQRSTUVWXYZ" if letter not in volumes)
            yield Problem(
                word,
                shown(point),
                f"which is the volume {shown(label)} of {host.name} already",
                f"use a letter that is free there, such as {free[:1]}:",
            )
