# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that are derived from other names: each belongs to one owner, or the inventory is refused.

An iSCSI name has fewer letters than the name of a host, an interface fewer characters, and Windows and ESXi do not tell capitals from small letters. Two
hosts with one initiator name would each get the other's LUNs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from .shape import Problem, shown
from .testbed import Host, Testbed, mappings

# Platforms whose names of files and datastores are the same in capitals and in small letters.
CASELESS = ("windows", "esxi")


def problems(testbed: Testbed) -> list[Problem]:
    """One for each name that several owners would have."""
    looks = (_initiators, _targets, _machines, _emulated_disks, _mount_points, _files_of_windows, _guests)
    return [problem for look in looks for problem in look(testbed)]


def shared(entries: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, list[str]]]:
    """(name, [owner]) of each name that is there more than once. entries: (name, owner)."""
    owners: dict[Any, list[str]] = {}
    for name, owner in entries:
        owners.setdefault(name, []).append(owner)
    return ((name, several) for name, several in owners.items() if len(several) > 1)


def same_case(host: Host, name: Any) -> str:
    """The name as the host compares it."""
    return str(name).casefold() if host.platform in CASELESS else str(name)


def _initiators(testbed: Testbed) -> Iterator[Problem]:
    names = [
        (host.variables["iscsi_initiator_name"], host.name)
        for host in testbed.hosts.values()
        if host.variables.get("iscsi_initiator_name")
    ]
    for name, hosts in shared(names):
        yield Problem(
            f"iscsi_initiator_name of {' and '.join(hosts)}",
            shown(name),
            "so each would get the LUNs of the other",
            f"set another iscsi_initiator_name for {hosts[-1]}, or rename one of these hosts",
        )


def _targets(testbed: Testbed) -> Iterator[Problem]:
    names = [
        (export.get("name"), host.name)
        for host in testbed.hosts.values()
        for export in mappings(host.variables.get("iscsi_target_targets"))
        if export.get("name")
    ]
    for name, hosts in shared(names):
        if len(set(hosts)) == 1:
            remedy = "give each target an IQN of its own"
            yield Problem("iscsi_target_targets", f"a list with {shown(name)} twice", "", remedy)
        else:
            yield Problem(
                f"the name of the target of {' and '.join(dict.fromkeys(hosts))}",
                shown(name),
                "one name for several targets",
                "rename one of these hosts, or set iscsi_target_targets of one",
            )


def _machines(testbed: Testbed) -> Iterator[Problem]:
    """Of the embedded lab: an interface name has 15 characters only."""
    for host in testbed.hosts.values():
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


def _emulated_disks(testbed: Testbed) -> Iterator[Problem]:
    for host in testbed.hosts.values():
        for machine in mappings(host.variables.get("embedded_lab_machines")):
            serials = ((disk.get("serial"), "a disk") for disk in mappings(machine.get("disks")))
            for serial, _disks in shared(serials):
                yield Problem(
                    f"the serial of emulated disks of {machine.get('name')}",
                    shown(serial),
                    "which several would have",
                    "give the disks of testbed.disks other names",
                )


def _mount_points(testbed: Testbed) -> Iterator[Problem]:
    for host in testbed.hosts.values():
        points = [
            (posixpath.normpath(same_case(host, store["mount_point"])), str(store.get("name")))
            for store in mappings(host.variables.get("datastore_datastores"))
            if store.get("mount_point")
        ]
        for point, names in shared(points):
            # Names that are there twice are a problem of their own.
            if len(set(names)) > 1:
                yield Problem(
                    f"mount_point of the datastores {' and '.join(names)} on {host.name}",
                    shown(point),
                    "which only one can have",
                    "set mount_point of one in testbed.datastores",
                )


def _files_of_windows(testbed: Testbed) -> Iterator[Problem]:
    for host in testbed.hosts.values():
        if host.platform not in CASELESS:
            continue
        disks = [disk for disk in testbed.disks if disk.target == host.name]
        files = [(same_case(host, disk.name), disk.name) for disk in disks if disk.entry["kind"] == "ramdisk"]
        for _file, names in shared(files):
            if len(set(names)) > 1:
                yield Problem(
                    "testbed.disks",
                    f"a list with {' and '.join(names)}",
                    f"which are one file on {host.name}",
                    "give each a name that differs in more than capitals",
                )
        labels = [(same_case(host, store.label), store.label) for store in testbed.stores if host.name in store.hosts]
        for _label, names in shared(labels):
            if len(set(names)) > 1:
                yield Problem(
                    "testbed.datastores",
                    f"a list with {' and '.join(names)}",
                    f"which {host.name} does not distinguish",
                    "give each a name that differs in more than capitals",
                )


def _guests(testbed: Testbed) -> Iterator[Problem]:
    guests = [
        (host, guest) for host in testbed.hosts.values() for guest in mappings(host.variables.get("guest_vm_guests"))
    ]
    for inventory_name, names in shared((guest.get("host"), str(guest.get("name"))) for _host, guest in guests):
        if len(set(names)) > 1:
            yield Problem(
                f"host of the guests {' and '.join(names)}",
                shown(inventory_name),
                "one inventory name for several machines",
                "name another host of the group guests for each in testbed.guests",
            )
    machines = [((host.name, same_case(host, guest.get("name"))), str(guest.get("name"))) for host, guest in guests]
    for (runs, _name), names in shared(machines):
        if len(set(names)) > 1:
            yield Problem(
                "testbed.guests",
                f"a list with {' and '.join(names)}",
                f"which {runs} does not distinguish",
                "give each a name that differs in more than capitals",
            )
