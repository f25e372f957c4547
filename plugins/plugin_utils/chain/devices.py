# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that the user names, and what becomes of their contents: what a build formats and a benchmark overwrites is said before it is done.

RAM disks, VHDX files and emulated disks are not among them: the testbed makes these itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils.linux.disks.device_safety import PROOFS
from .device import Device
from .nouns import Named
from .shape import Problem, shown
from .stages import STAGES
from .testbed import Host, Testbed


def named(testbed: Testbed) -> list[Device]:
    """All devices that the description or a role's variable names, each once."""
    return [device for host in testbed.hosts.values() for device in _on(testbed, host)]


def _on(testbed: Testbed, host: Host) -> list[Device]:
    """The devices that a host's own variables name, each once."""
    devices: dict[tuple[str, str], Device] = {}
    its_own = [device for stage in STAGES for device in stage.devices(testbed, host)]
    # Devices of others come last.
    for device in sorted(its_own, key=lambda device: not device.here):
        devices.setdefault((device.text(), device.layer), device)
    return list(devices.values())


def lost(testbed: Testbed) -> list[Device]:
    """Those whose contents are gone afterwards."""
    return [device for device in named(testbed) if device.fate]


def wanted(testbed: Testbed, host: str) -> list[dict[str, Any]]:
    """The search on a host, as storlab.testbed.host_probe takes it."""
    return [
        {
            "variable": device.variable,
            "path_word": device.path_word,
            **device.given,
            **({"fate": device.fate} if device.fate else {}),
        }
        for device in _on(testbed, testbed.hosts[host])
        if device.here
    ]


def missing(host: str, probed: list[Named]) -> Iterator[Problem]:
    """The faults of named things as a host shows them. probed: ``named`` of the probe."""
    for entry in probed:
        variable, path, paths = entry["variable"], entry.get("path"), entry["paths"]
        proofs = [f"{key} {entry.get(key)}" for key in PROOFS if entry.get(key)]
        owner = "" if f" of {host}" in variable else f" of {host}"
        word = _with_key(variable, entry.get("path_word") or "path")
        if path and entry["type"] != "block":
            remedy = f"correct it; on {host}, lsblk --output PATH,SIZE,SERIAL,WWN lists what there is"
            yield Problem(word, shown(path), f"which is not a block device{owner}", remedy)
        elif not paths and path:
            has = ", ".join(f"{key} {value}" for key, value in entry["shows"].items()) or "nothing that identifies it"
            yield Problem(
                word, shown(path), f"which shows {has}, and not {' and '.join(proofs)}", "name the right device"
            )
        elif not paths:
            yield Problem(
                variable,
                None,
                f"is not a disk of {host}: none has {' and '.join(proofs)}",
                "attach it, or correct this",
            )
        elif len(paths) > 1:
            why = f"is not one disk: {' and '.join(paths)} of {host} show {' and '.join(proofs)}"
            yield Problem(variable, None, why, f"add {entry.get('path_word') or 'path'} to it")


def _with_key(variable: str, key: str) -> str:
    """testbed.disks[1] with its path; a variable of a host has the host's name behind."""
    name, of, host = variable.partition(" of ")
    return f"{name}.{key}{of}{host}"
