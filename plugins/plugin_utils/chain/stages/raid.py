# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``raid``: arrays of a target's disks."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.layers import Layer
from ....module_utils.core.raid_levels import chunk_kib
from ....module_utils.core.raid_levels import words as raid_words
from ..emulated import emulated_disk, limits, serial
from ..stage import Stage
from ..testbed import Context, Disk, Host, layer_of, mappings


class Raid(Stage):
    name = "raid"
    kinds = ("raid",)

    def emulated(self, disk: Disk) -> list[dict[str, Any]]:
        wanted = disk.entry.get("raid", {}).get("emulated")
        return [emulated_disk(disk, number, wanted) for number in range(1, wanted["count"] + 1)] if wanted else []

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            arrays = [_array(disk) for disk in disks if disk.entry["kind"] == "raid"]
            context.derive(host, "raid_arrays", arrays, "testbed.disks")

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets and bool(
            host.variables["raid_arrays"] or "raid" in context.published_providers(host)
        )

    def layers(self, host: Host) -> list[Layer]:
        layers = []
        for array in mappings(host.variables.get("raid_arrays")):
            what = raid_words(array.get("level"), array.get("members"), array.get("chunk_kib"))
            layers.append(layer_of("backing", array.get("name"), host, None, array.get("purpose"), what))
        return layers


def _serials(disk: Disk) -> list[str]:
    """Of the disks that the embedded lab makes for an array."""
    emulated = disk.entry.get("raid", {}).get("emulated")
    return [serial(disk, number) for number in range(1, emulated["count"] + 1)] if emulated else []


def _array(disk: Disk) -> dict[str, Any]:
    """An entry of raid_arrays; what is not said is the role's default."""
    raid = disk.entry.get("raid") or {}
    members = [
        {"device" if key == "path" else key: value for key, value in member.items()}
        for member in raid.get("members") or [{"serial": serial} for serial in _serials(disk)]
    ]
    chunk = chunk_kib(raid.get("chunk"))
    delay = limits(raid.get("emulated") or {})
    return {
        "name": disk.name,
        "level": raid.get("level"),
        "members": members,
        **({"chunk_kib": chunk} if chunk else {}),
        **{key: raid[key] for key in ("bitmap", "assume_clean", "stripe_cache", "resync") if key in raid},
        "purpose": disk.purpose,
        **({"emulated_delay": {"by": "QEMU", **delay}} if delay else {}),
    }
