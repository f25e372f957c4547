# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``embedded_lab``: the machines that the other hosts of an embedded lab are."""

from __future__ import annotations

from collections.abc import Iterator

from ..emulated import tap_name
from ..identifiers import shared
from ..nouns import Lab
from ..shape import Problem, shown
from ..stage import Judge, Stage
from ..testbed import Context, Host, Testbed, addresses_of, mappings

# The memory that a machine of the embedded lab needs beside its disks.
MACHINE_MIB = 384
# It has 30 places on its bus: this many beside its system's disk and its network card.
MOST_EMULATED = 28


class EmbeddedLab(Stage):
    name = "embedded_lab"
    variables = (
        "embedded_lab_machines",
        "embedded_lab_name",
        "embedded_lab_ports",
    )

    def derive(self, context: Context) -> None:
        if context.testbed.embedded:
            _machines(context, context.testbed.hosts[context.testbed.embedded])

    def checks(self) -> dict[str, Judge]:
        return {"emulated disks": _emulated, "machines": _doubled_place, "serials": _doubled_serial}


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


def _emulated(_lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = []
    for target in testbed.targets:
        numbers = {disk.index: len(disk.emulated) for disk in testbed.disks if disk.target == target}
        total, most = sum(numbers.values()), max(numbers, key=lambda index: numbers[index], default=0)
        if total > MOST_EMULATED:
            variable = f"testbed.disks[{most}].raid.emulated.count"
            why = f"but a machine of the embedded lab has room for {MOST_EMULATED} such disks"
            why += "" if total == numbers[most] else f", and {target} would have {total}"
            problems.append(Problem(variable, str(numbers[most]), why, "make it smaller"))
    return problems


def _doubled_place(_lab: Lab, _testbed: Testbed, host: Host) -> Iterator[Problem]:
    """Of the embedded lab: an interface name has 15 characters only."""
    machines = [
        machine
        for variable in ("embedded_lab_machines", "embedded_lab_ports")
        for machine in mappings(host.variables.get(variable))
    ]
    for key in ("tap", "address"):
        for value, names in shared(
            (machine[key], str(machine.get("name"))) for machine in machines if machine.get(key)
        ):
            yield Problem(
                f"embedded_lab_machines {key} of {' and '.join(names)}",
                shown(value),
                "which two machines cannot share",
                "rename one of these hosts" if key == "tap" else "give each machine an address of its own",
            )


def _doubled_serial(_lab: Lab, _testbed: Testbed, host: Host) -> Iterator[Problem]:
    for machine in mappings(host.variables.get("embedded_lab_machines")):
        serials = ((disk.get("serial"), "a disk") for disk in mappings(machine.get("disks")))
        for serial, _disks in shared(serials):
            yield Problem(
                f"the serial of emulated disks of {machine.get('name')}",
                shown(serial),
                "which several would have",
                "give the disks of testbed.disks other names",
            )
