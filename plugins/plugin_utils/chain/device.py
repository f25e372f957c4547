# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One device that a user names, and what becomes of its contents. RAM disks, VHDX files and emulated disks are not among them: the testbed makes these."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...module_utils.core.layers import Layer
from .testbed import Disk, Host, Testbed

OVERWRITTEN, FORMATTED = "OVERWRITTEN", "FORMATTED"
PROOFS = ("serial", "naa", "wwid", "uuid")
# Those, and that of a disk of a Windows host.
NAMED_BY = (*PROOFS, "unique_id")
# What lies on a LUN and is no file system: a mapping of it, or the file system of another host.
NO_FILE_SYSTEM = ("rdm", "nfs")
MEASURED_RAW = ("backing", "target", "initiator")


class Device(NamedTuple):
    """One device as a user named it. ``given``: path, and what proves it. ``fate`` is empty where its contents stay."""

    host: str
    variable: str
    path_word: str
    given: dict[str, Any]
    fate: str
    what: str
    layer: str
    here: bool = True

    def text(self) -> str:
        """'/dev/sdb, serial S1' as the user named it."""
        proofs = [f"{key} {self.given[key]}" for key in NAMED_BY if self.given.get(key)]
        path = self.given.get("path")
        return ", ".join([str(path), *proofs] if path else ["a disk with " + " and ".join(proofs)])

    def sentence(self) -> str:
        return f"{self.fate}: {self.text()} on {self.host} ({self.variable}): {self.what}"


def given_of(entry: dict[str, Any], path_word: str) -> dict[str, Any]:
    given = {"path": entry.get(path_word), **{key: entry.get(key) for key in NAMED_BY}}
    return {key: str(value) for key, value in given.items() if value}


def disk_of(testbed: Testbed, host: Host, name: Any) -> Disk | None:
    return next((disk for disk in testbed.disks if disk.target == host.name and disk.name == name), None)


def fate_of(testbed: Testbed, bottom: str) -> tuple[str, str]:
    """What becomes of a LUN, by the layers that stand on it."""
    layers = _above(testbed, bottom)
    # Datastores that were there before have another purpose, and keep their file system.
    stores = [
        layer
        for layer in layers
        if layer["kind"] == "datastore" and layer["purpose"] == "scratch" and layer["what"] not in NO_FILE_SYSTEM
    ]
    if stores:
        return FORMATTED, f"{stores[0]['what']} on {stores[0]['host']}"
    # Without a file system below it a guest has the LUN whole.
    whole = [layer for layer in layers if layer["kind"] == "guest"]
    measured = whole or [layer for layer in layers if layer["purpose"] == "scratch" and layer["kind"] in MEASURED_RAW]
    names = " and ".join(layer["name"] for layer in measured)
    return (OVERWRITTEN, f"measured raw as {names}") if measured else ("", "")


def _above(testbed: Testbed, bottom: str) -> list[Layer]:
    """A layer and all that stand on it, from the bottom up."""
    layers: list[Layer] = []
    names = {bottom}
    for layer in testbed.layers:
        if layer["name"] in names or layer["parent"] in names:
            names.add(layer["name"])
            layers.append(layer)
    return layers
