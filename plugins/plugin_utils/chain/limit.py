# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks whether a playbook can do its work on the hosts that --limit leaves. Ansible skips plays that have no host left, and ends well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module_utils.core.failure import Failure
from .testbed import Testbed

# The groups that a playbook works on: one of their hosts must be left. `any` works on the controller, which --limit does not take away.
MACHINES = ("targets", "hypervisors", "clients", "embedded_controllers")
SCOPES: dict[str, tuple[str, ...]] = {
    "any": (),
    "benchmark": ("targets", "hypervisors", "clients", "guests"),
    "build": (*MACHINES, "guest_hosts"),
    "installation": ("guest_hosts", "guests"),
    "machines": ("embedded_controllers",),
    "teardown": (*MACHINES, "guest_hosts"),
    "whole": (*MACHINES, "guests"),
}


def members(testbed: Testbed, scope: str, groups: dict[str, list[str]]) -> list[str]:
    """The hosts that a playbook of this scope works on."""
    known = {**groups, "guest_hosts": testbed.groups.get("guest_hosts", [])}
    return list(dict.fromkeys(name for group in SCOPES[scope] for name in known.get(group, [])))


def left_out(testbed: Testbed, groups: dict[str, list[str]], playing: list[str]) -> dict[str, list[str]]:
    """{host: its layers} of the hosts that would be measured, and that --limit leaves out."""
    return {
        name: [layer["name"] for layer in testbed.layers if layer["host"] == name]
        for name in members(testbed, "benchmark", groups)
        if name not in playing
    }


def refuse(
    testbed: Testbed,
    scope: str,
    groups: dict[str, list[str]],
    limit: str,
    playing: list[str],
    built: Callable[[str], bool],
) -> None:
    """Failure 'limit_unfit' where the playbook cannot do its work on the hosts that --limit leaves.

    built: whether the layer of this name was published by an earlier build.
    """
    acting = members(testbed, scope, groups)
    missing = [name for name in acting if name not in playing]
    if scope == "whole" and missing:
        raise _unfit(
            f"--limit {limit} leaves out {', '.join(missing)}, and this playbook works on the whole testbed",
            "Leave --limit out.",
            limit,
        )
    if acting and not set(acting) & set(playing):
        raise _unfit(
            f"--limit {limit} leaves this playbook no host to work on",
            f"Name some of {', '.join(acting)} in it, or leave --limit out.",
            limit,
        )
    if scope == "build":
        _refuse_without_ground(testbed, [name for name in acting if name in playing], limit, playing, built)


def _refuse_without_ground(
    testbed: Testbed, acting: list[str], limit: str, playing: list[str], built: Callable[[str], bool]
) -> None:
    """A host of a build needs layers of others: those that --limit leaves out must be built already."""
    for name in acting:
        for other in testbed.hosts[name].depends_on if name in testbed.hosts else []:
            lacking: list[Any] = [
                layer["name"] for layer in testbed.layers if layer["host"] == other and not built(layer["name"])
            ]
            if lacking and other not in playing:
                raise _unfit(
                    f"--limit {limit} leaves out {other}, whose {', '.join(lacking)} {name} needs and no build has made yet",
                    f"Build {other} first, name it in --limit, too, or leave --limit out.",
                    limit,
                )


def _unfit(what: str, remedy: str, limit: str) -> Failure:
    return Failure("limit_unfit", f"{what}; nothing was touched.", remedy, limit=limit)
