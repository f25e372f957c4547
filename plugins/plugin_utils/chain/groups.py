# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of an inventory: their groups, the hosts that no playbook does anything with, and addresses that two of them have."""

from __future__ import annotations

from .description import ALSO_CALLED, GROUPS, OTHER_GROUPS
from .nouns import Lab
from .shape import Problem, near, shown
from .stages import STAGES
from .testbed import Testbed, addresses_of

# Names of every machine for itself.
LOCAL = ("localhost", "::1")
# Hosts that one sentence names.
MOST_NAMES = 5


def described_by_roles(testbed: Testbed) -> bool:
    """Whether an inventory describes by roles' variables what it has, such as sessions with a target that is none of its hosts."""
    variables = [stage.describes for stage in STAGES if stage.describes]
    return any(host.own.get(variable) for host in testbed.hosts.values() for variable in variables)


def problems(lab: Lab, testbed: Testbed) -> list[Problem]:
    groups, problems = testbed.groups, []
    known = (*GROUPS, *OTHER_GROUPS)
    for name in sorted(groups):
        near_names = filter(None, [near(name, known, 0.7)])
        meant = ALSO_CALLED.get(name) or tuple(near_names) if name not in known else ()
        if meant and groups[name] and not any(groups.get(other) for other in meant):
            remedy = f"did you mean {' or '.join(meant)}?"
            problems.append(Problem(f"group {name}", None, "is not a group of this collection", remedy))
    if not groups.get("targets") and not described_by_roles(testbed) and not testbed.description["existing"]:
        problems.append(
            Problem(
                "group targets",
                None,
                "has no hosts",
                "name the inventory of your lab with -i, and put its storage server in that group",
            )
        )
    for name in testbed.targets:
        if name in testbed.members("hypervisors", "clients"):
            problems.append(
                Problem(
                    name,
                    None,
                    "is in targets and in hypervisors or clients",
                    "leave it in targets; with loopback of a disk a target measures its own export",
                )
            )
    return problems


def remarks(lab: Lab, testbed: Testbed) -> list[str]:
    """Things that are not wrong, and most likely not meant: hosts that no playbook does anything with."""
    members = testbed.members(*GROUPS, *OTHER_GROUPS)
    idle = [name for name in lab["hosts"] if name not in members and name != "localhost"]
    if not idle or not members:
        return []
    names = ", ".join(idle[:MOST_NAMES]) + (f" and {len(idle) - MOST_NAMES} more" if idle[MOST_NAMES:] else "")
    return [
        f"{names} {'is' if len(idle) == 1 else 'are'} in no group of this collection, so no playbook does anything there: put hosts of the testbed into "
        f"{', '.join(GROUPS[:-1])} or {GROUPS[-1]}."
    ]


def doubled_addresses(lab: Lab, testbed: Testbed) -> list[Problem]:
    """Two hosts of one address are one machine, or one of them is never reached."""
    problems: list[Problem] = []
    owners: dict[str, tuple[str, str | None]] = {}
    for name in testbed.members(*GROUPS):
        own = testbed.hosts[name].own
        word = "testbed_address" if own.get("testbed_address") else "ansible_host"
        # Behind one address several machines may answer at ports of their own.
        port = str(own.get("ansible_port", 22)) if word == "ansible_host" else None
        for address in dict.fromkeys(address for address, _port in addresses_of(own)):
            if address in LOCAL or address.startswith("127."):
                continue
            other, other_port = owners.setdefault(address, (name, port))
            if other != name and (port is None or other_port is None or port == other_port):
                remedy = "give each host its own address in testbed_address"
                problems.append(Problem(f"{word} of {name}", shown(address), f"which {other} has, too", remedy))
    return problems
