# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a SCSI device by an ESXi host: which one it is, and whether I/O to it is possible.

A state is the text of ``ScsiLun.operationalState``, its words joined by commas: the first is the primary one, so ``ok,degraded`` is a device that works.
"""

from __future__ import annotations

from typing import Any

from ..core.names import designator_of, plain_naa
from .session import Session
from .states import HostSystem

# By the API's own words, degraded means that paths are down and I/O is still possible.
DEGRADED = "degraded"
WORKING = ("ok", DEGRADED)
# Their names in HostStorageDeviceInfo.
PARTS = {
    "adapters": "hostBusAdapter",
    "enabled": "softwareInternetScsiEnabled",
    "luns": "scsiLun",
    "faces": "scsiTopology",
    "units": "multipathInfo",
}


class Devices:
    """Parts of a host's description of its devices, read at one moment. A part that was not asked for has no attribute here.

    The whole is megabytes on a host with hundreds of devices, and a host takes its time for it.
    """

    adapters: list[Any]
    enabled: bool
    luns: list[Any]
    faces: list[Any]
    units: dict[str, Any]

    def __init__(self, session: Session, host: HostSystem, *parts: str) -> None:
        names = {part: f"storageDeviceInfo.{PARTS[part]}" for part in parts}
        seen = session.properties(host.configManager.storageSystem, *names.values())
        values = {part: seen.get(name) for part, name in names.items()}
        if "adapters" in values:
            self.adapters = list(values["adapters"] or [])
        if "enabled" in values:
            self.enabled = bool(values["enabled"])
        if "luns" in values:
            self.luns = list(values["luns"] or [])
        if "faces" in values:
            self.faces = list(values["faces"].adapter or []) if values["faces"] else []
        if "units" in values:
            self.units = {unit.lun: unit for unit in (values["units"].lun if values["units"] else None) or []}


def state_of(device: Any) -> str:
    return ",".join(device.operationalState or [])


def works(state: str | None) -> bool:
    """Whether I/O is possible."""
    return (state or "").split(",")[0] in WORKING


def degraded(state: str | None) -> bool:
    """Whether it works with fewer paths than it has."""
    return works(state) and DEGRADED in (state or "").split(",")


def ways(unit: Any) -> dict[str, int]:
    """How many paths lead to a device, by their state. unit: its entry of the host's multipath information."""
    states = [path.state or path.pathState for path in (unit.path if unit else None) or []]
    return {state: states.count(state) for state in sorted(set(states))}


def ways_text(ways: dict[str, int]) -> str:
    """'paths: 1 active, 1 dead'."""
    return "paths: " + (", ".join(f"{count} {state}" for state, count in ways.items()) or "unknown")


def designators(device: Any) -> list[str]:
    """All that prove which device it is: a host names it by one of them."""
    names = [device.canonicalName, *(each.id for each in getattr(device, "descriptor", None) or [])]
    return sorted({plain for plain in (designator_of(name or "") for name in names) if plain})


def same_device(expected: str, known: list[str]) -> bool | None:
    """Whether one of a device's designators is the expected one; None when it has none of that kind, so that they prove nothing."""
    alike = [name.lower() for name in known if _kind(name) == _kind(plain_naa(expected))]
    return plain_naa(expected).lower() in alike if alike else None


def _kind(designator: str) -> str:
    return designator[:4].lower() if designator.lower().startswith(("eui.", "t10.")) else ""
