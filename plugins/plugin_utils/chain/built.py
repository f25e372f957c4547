# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of builds, host by host, and the changes of the inventory that a running testbed cannot follow.

Additions are made by the next build, and settings that can be changed in place are changed. A thing to be recreated while something is on it, or
would be left where no playbook looks any more, is refused: the testbed is taken down as it was described, then built as it is. The table in
docs/description.md has every word.
"""

from __future__ import annotations

from collections.abc import Collection

from .changes import Change
from .drawing import masked
from .nouns import Kept
from .shape import Problem
from .stages import STAGES
from .testbed import Testbed

GROUPS = ("targets", "hypervisors", "clients")
HOSTS = ("hosts",)
# Topics of the stages in the order of a build: after a change in one bracket the next ones are not looked at, because they follow from it.
TOPICS = (
    HOSTS,
    ("providers", "parts", "units"),
    ("exports",),
    ("sessions",),
    ("datastores",),
    ("guests",),
    ("others",),
)


def record(testbed: Testbed) -> Kept:
    """The record of a testbed that has been built."""
    kept = [variable for stage in STAGES for variable in stage.kept]
    return {
        "groups": {group: testbed.groups.get(group, []) for group in GROUPS},
        "hosts": {
            name: {variable: masked(host.variables[variable]) for variable in kept if variable in host.variables}
            for name, host in testbed.hosts.items()
        },
    }


def added(before: Kept | None, fresh: Kept, hosts: Collection[str]) -> Kept:
    """The record once these hosts are built as ``record`` has it; other hosts keep what was recorded before."""
    if before is None or set(fresh["hosts"]) <= set(hosts):
        before = {"groups": {}, "hosts": {}}
    groups = {
        group: list(dict.fromkeys([*before["groups"].get(group, []), *(name for name in members if name in hosts)]))
        for group, members in fresh["groups"].items()
    }
    new = {name: values for name, values in fresh["hosts"].items() if name in hosts}
    return {"groups": groups, "hosts": {**before["hosts"], **new}}


def removed(before: Kept | None, hosts: Collection[str]) -> Kept | None:
    """The record once these hosts are taken down; None when nothing of the testbed is left."""
    if before is None:
        return None
    groups = {group: [name for name in members if name not in hosts] for group, members in before["groups"].items()}
    left = {name: values for name, values in before["hosts"].items() if name not in hosts}
    return {"groups": groups, "hosts": left} if any(groups.values()) else None


def problems(before: Kept, testbed: Testbed, path: str) -> list[Problem]:
    """The changes that the testbed cannot follow, only the lowest where one is on another. path: where the record is kept."""
    after = record(testbed)
    remedy = (
        f"change it back and run teardown, then change it and build; if nothing of that testbed is left, remove {path}"
    )
    for topics in TOPICS:
        looks = [stage.changes().get(topic) for topic in topics for stage in STAGES]
        changes = [change for look in looks if look for change in look(before, after, testbed)]
        changes += _hosts(before, after) if topics == HOSTS else []
        if changes:
            return list(dict.fromkeys(Problem(word, value, why, remedy) for word, value, why in changes))
    return []


def _hosts(before: Kept, after: Kept) -> list[Change]:
    return [
        (f"group {group}", None, f"no longer has {name}, which is part of the built testbed")
        for group, members in before["groups"].items()
        for name in members
        if name not in after["groups"][group]
    ]
