# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A made-up lab of any size, and the work that the playbook show does on it; benchmarks/show.py measures its time."""

from __future__ import annotations

from typing import Any

from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import (
    check,
    devices,
    doctor,
    drawing,
    expand,
    groups,
    inventory,
)


def lab_of(hosts: int, disks: int) -> dict[str, Any]:
    """Half of the hosts are targets with the disks evenly on all of them, each of the others logs in to its share of them."""
    targets = [f"target{number:05d}" for number in range(max(1, hosts // 2))]
    clients = [f"client{number:05d}" for number in range(hosts - len(targets))]
    testbed = {
        "disks": [
            {
                "name": f"d{number:05d}",
                "size": "64MiB",
                "targets": [targets[number % len(targets)]],
                "to": [clients[number % len(clients)]],
            }
            for number in range(disks)
        ]
    }
    own = {
        name: {
            "testbed_address": f"10.{number // 65025}.{number // 255 % 255}.{number % 255 + 1}",
            "testbed": testbed,
            "testbed_id": "big",
        }
        for number, name in enumerate([*targets, *clients])
    }
    return {
        "groups": {"targets": targets, "hypervisors": clients},
        "hosts": own,
        "base_dir": "/lab",
        "secrets": inventory.masked_secrets(),
        "roles": inventory.role_options(),
        "profiles": [],
        "workloads": {},
        "published": {},
        "others": {},
        "addresses": {},
        "facts": {},
    }


def shown(lab: dict[str, Any]) -> tuple[int, int]:
    """(layers, characters drawn): what the action chain does for show, without reading the inventory."""
    testbed = expand.expand(lab)
    problems = check.check(lab, testbed)
    if problems:
        raise AssertionError(f"The made-up lab is wrong: {problems[0].sentence()}")
    groups.remarks(lab, testbed)
    text = drawing.draw(testbed)
    for host in testbed.hosts.values():
        drawing.masked(host.variables)
        doctor.needs(testbed, host.name)
    devices.lost(testbed)
    return len(testbed.layers), len("\n".join(text) if isinstance(text, list) else str(text))
