# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that a user names by what proves them: found among the host's, never by a name alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.failure import Failure
from ...core.layers import Layer
from . import device_safety, verdicts
from .facts import Facts
from .system import System

# How an option names a disk.
OPTIONS: dict[str, Any] = {"device": {"type": "path"}, **{key: {"type": "str"} for key in device_safety.PROOFS}}


def proofs(given: Mapping[str, object]) -> dict[str, Any]:
    """The words that distinguish a disk from others."""
    return {key: given[key] for key in device_safety.PROOFS if given.get(key)}


def proven(given: Mapping[str, Any], facts: Facts) -> bool:
    """Whether a device shows everything that is said of it, and something is."""
    wanted = proofs(given)
    plain = {key: value for key, value in wanted.items() if key != "uuid"}
    layer: Layer = {"name": "member", "path": facts.get("path"), "identity": plain}
    refused = bool(plain) and bool(verdicts.identity_refusals({"mapped": False, **facts}, layer))
    strange = "uuid" in wanted and not verdicts.same_uuid(wanted["uuid"], facts.get("mapped_uuid"))
    return bool(wanted) and facts.get("type") == "block" and not refused and not strange


def find(given: Mapping[str, Any], system: System) -> list[str]:
    """Paths of the host's whole disks that show what is said."""
    facts = [device_safety.identity(f"/dev/{name.replace('!', '/')}", system) for name in system.names("/sys/block")]
    return [item["path"] for item in facts if proven(given, item)]


def present(given: Mapping[str, Any], system: System) -> list[str]:
    """Where a disk is that shows what is said of it; a name alone proves nothing."""
    if not given.get("device"):
        return find(given, system)
    path = system.resolve(given["device"])
    return [path] if proven(given, device_safety.identity(path, system)) else []


def look_up(given: Mapping[str, Any], system: System) -> dict[str, object]:
    """The user's words for a disk, with the ``paths`` of the disks that show it; of one with a ``path`` its ``type``, and what it ``shows`` instead."""
    given = {key: value for key, value in given.items() if value not in (None, "")}
    path, wanted = given.get("path"), {**proofs(given), "device": given.get("path")}
    facts = device_safety.identity(system.resolve(path), system) if path else {"type": ""}
    named_only = [path] if path and not proofs(given) and facts["type"] == "block" else []
    return {
        **given,
        "type": facts["type"],
        "shows": device_safety.hints(facts, given),
        "paths": named_only or present(wanted, system),
    }


def locate(what: str, variable: str, given: Mapping[str, Any], system: System) -> str:
    """The path of a wanted disk, whose proof the device guard then asks for; raises member_missing or serial_twice."""
    paths = [system.resolve(given["device"])] if given.get("device") else find(given, system)
    if len(paths) == 1:
        return paths[0]
    proof = ", ".join(f"{key} {value}" for key, value in proofs(given).items())
    raise Failure(
        "serial_twice" if paths else "member_missing",
        f"{what}: {'several disks show' if paths else 'no disk of this host shows'} {proof}{' (' + ', '.join(paths) + ')' if paths else ''}.",
        "Name it by its device and an identifier." if paths else f"Attach the disk, or correct {variable}.",
    )
