# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``ramdisk``: backing disks in a target's memory."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.layers import Layer
from ..stage import Stage
from ..testbed import Context, Disk, Host, layer_of, mappings


class Ramdisk(Stage):
    name = "ramdisk"
    kinds = ("ramdisk",)

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            windows, model = host.platform == "windows", any("model" in disk.entry for disk in disks)
            described = [_described(disk) for disk in disks if disk.entry["kind"] == "ramdisk"]
            context.derive(host, "ramdisk_disks", described, "testbed.disks")
            provider = ("preinstalled" if model else "iscsi_target") if windows else "auto"
            context.derive(host, "ramdisk_provider", provider, f"{host.name} runs {host.platform.capitalize()}")
            loopback = windows and any(disk.loopback for disk in disks)
            context.derive(host, "ramdisk_windows_loopback", loopback, "testbed.disks")

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets

    def layers(self, host: Host) -> list[Layer]:
        return [
            layer_of(
                "backing", disk.get("name"), host, None, disk.get("purpose"), f"RAM disk, {disk.get('size_mib')} MiB"
            )
            for disk in mappings(host.variables.get("ramdisk_disks"))
        ]


def _described(disk: Disk) -> dict[str, Any]:
    return {
        "name": disk.name,
        "size_mib": disk.entry.get("size", 0),
        "purpose": disk.purpose,
        **({"model": disk.entry["model"]} if "model" in disk.entry else {}),
    }
