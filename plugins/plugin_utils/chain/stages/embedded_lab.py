# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``embedded_lab``: the machines that the other hosts of an embedded lab are."""

from __future__ import annotations

from ..emulated import tap_name
from ..stage import Stage
from ..testbed import Context, Host, addresses_of, mappings

# What a machine of the embedded lab needs besides what it holds.
MACHINE_MIB = 384


class EmbeddedLab(Stage):
    name = "embedded_lab"

    def derive(self, context: Context) -> None:
        if context.testbed.embedded:
            _machines(context, context.testbed.hosts[context.testbed.embedded])


def _machines(context: Context, host: Host) -> None:
    context.derive(host, "embedded_lab_name", context.testbed.testbed_id, "testbed_id")
    machines = []
    for name in context.testbed.targets + context.testbed.initiators:
        machine = context.testbed.hosts[name]
        held = sum(disk.get("size_mib", 0) for disk in mappings(machine.variables.get("ramdisk_disks")))
        disks = [emulated for disk in context.testbed.disks if disk.target == name for emulated in disk.emulated]
        machines.append(
            {
                "name": name,
                "address": addresses_of(machine.own)[0][0],
                "tap": tap_name(name),
                "memory_mib": MACHINE_MIB + held,
                "vcpus": 1,
                **({"disks": disks} if disks else {}),
            }
        )
    context.derive(
        host, "embedded_lab_machines", machines, "the groups targets, hypervisors and clients, and testbed.disks"
    )
    guests = [
        {"name": name, "address": addresses_of(context.testbed.hosts[name].own)[0][0], "tap": tap_name(name)}
        for name in context.testbed.groups.get("guests", [])
    ]
    context.derive(host, "embedded_lab_ports", guests, "the group guests")
