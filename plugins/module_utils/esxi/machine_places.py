# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a virtual machine is, and where its disks and images are attached: controllers, buses and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.failure import Failure
from . import belongings
from .belongings import DISK_KEY
from .machine_want import CONTROLLERS
from .states import InstallationWant, IsoWant, MachineState, MachineWant

FAMILIES = {
    **{kind: family for kind, (family, _buses, _units) in CONTROLLERS.items()},
    "lsisas": "scsi",
    "buslogic": "scsi",
    "sata": "sata",
}


def records(state: MachineState) -> dict[str, Any]:
    """{disk's name: {controller, bus, unit, made, uuid}} of the disks that the testbed made, as the machine itself says."""
    return {
        key[len(DISK_KEY) :]: record for key, record in belongings.records(state).items() if key.startswith(DISK_KEY)
    }


def disk_of(state: MachineState, name: str) -> dict[str, Any] | None:
    """The disk that the testbed made under this name; None when it is not attached."""
    disk: dict[str, Any] | None = belongings.owned(state).get(DISK_KEY + name)
    return disk


class Slots:
    """Which units of which controllers are free."""

    def __init__(self, state: MachineState, reserved: Sequence[Mapping[str, object]]) -> None:
        self.slots: dict[Any, Any] = {
            (FAMILIES[each["kind"]], each["bus"]): (each["kind"], set())
            for each in state["controllers"]
            if each["kind"] in FAMILIES
        }
        self.there = set(self.slots)
        for device in (*state["disks"], *state["cdroms"], *reserved):
            self._slot(device["controller"], device["bus"])[1].add(device["unit"])

    def _slot(self, kind: str, bus: int) -> Any:
        return self.slots.setdefault((FAMILIES.get(kind, kind), bus), (kind, set()))

    def take(self, kind: str, bus: int | None, unit: int | None, what: str) -> dict[str, Any]:
        """A place for a device; fails when there is none."""
        family, buses, units = CONTROLLERS[kind]
        own = [number for number in range(buses) if self.slots.get((family, number), ("",))[0] == kind]
        free = [number for number in range(buses) if (family, number) not in self.slots]
        for number in [bus] if bus is not None else own + free:
            holder, taken = self.slots.get((family, number), (kind, set()))
            left = [each for each in units if each not in taken and unit in (None, each)]
            if holder == kind and left:
                self._slot(kind, number)[1].add(left[0])
                return {
                    "controller": kind,
                    "bus": number,
                    "unit": left[0],
                    "new_controller": (family, number) not in self.there,
                }
        wanted = f"{kind} {'any bus' if bus is None else bus}:{'any unit' if unit is None else unit}"
        raise Failure(
            "no_place",
            f"There is no place for {what} at {wanted}.",
            "Give it another controller, bus or unit; " + self._taken_places() + ".",
            place=wanted,
        )

    def _taken_places(self) -> str:
        taken = [
            f"{kind} {bus}:{unit}"
            for (_family, bus), (kind, units) in sorted(self.slots.items())
            for unit in sorted(units)
        ]
        return f"taken are {', '.join(taken) or 'none'}"


def drives(want: MachineWant, state: MachineState) -> list[tuple[IsoWant, dict[str, Any] | None]]:
    """[(image, the CD-ROM drive that it belongs in, or None while there is none)]: the user's in the first drive, that of the answer file in another."""
    there = state["cdroms"]
    pairs: list[tuple[IsoWant, dict[str, Any] | None]] = []
    if want.get("iso"):
        pairs.append((want["iso"], there[0] if there else None))
    if want.get("answers"):
        image: IsoWant = want["answers"]
        others = there[len(pairs) :]
        own = next((drive for drive in others if drive["iso"] == image["backing"]), None)
        empty = next((drive for drive in others if not drive["iso"]), None)
        pairs.append((image, own or empty))
    return pairs


def place(want: MachineWant, state: MachineState) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """({disk's name: place}, places of the CD-ROM drives that are missing)."""
    known = records(state)
    slots = Slots(state, [known[disk["name"]] for disk in want["disks"] if disk["name"] in known])
    places = {}
    # Devices with a fixed place come before devices that may take any.
    for disk in sorted(want["disks"], key=lambda disk: (disk["bus"] is None) + (disk["unit"] is None)):
        record = known.get(disk["name"])
        if record is None:
            places[disk["name"]] = slots.take(
                disk["controller"], disk["bus"], disk["unit"], f"disk {disk['name']} of {want['name']}"
            )
            continue
        now = disk_of(state, disk["name"])
        spot = {key: (now or record)[key] for key in belongings.PLACE}
        for key, value in spot.items():
            wanted = cast("dict[str, Any]", disk)[key]
            if wanted not in (None, value):
                raise differs(want, disk, key, value, wanted)
        if now is None:
            _refuse_occupied(state, want, disk, spot)
        places[disk["name"]] = {
            **spot,
            "new_controller": (FAMILIES[spot["controller"]], spot["bus"]) not in slots.there,
        }
    missing = [
        slots.take("ide", None, None, f"the CD-ROM drive of {want['name']}")
        for _image, drive in drives(want, state)
        if drive is None
    ]
    return places, missing


def _refuse_occupied(
    state: MachineState, want: MachineWant, disk: Mapping[str, object], spot: Mapping[str, object]
) -> None:
    for other in state["disks"]:
        if all(other[key] == spot[key] for key in belongings.PLACE):
            raise Failure(
                "disk_replaced",
                f"Where disk {disk['name']} of {want['name']} was ({spot['controller']} {spot['bus']}:{spot['unit']}), {other['path']} is attached, which "
                "the testbed did not make.",
                "Attach the testbed's disk again, or detach the other if it is not needed there; nothing is written to it.",
                disk=disk["name"],
                path=other["path"],
            )


def differs(want: MachineWant, disk: Mapping[str, object], key: str, was: object, will: object) -> Failure:
    return Failure(
        "disk_differs",
        f"Disk {disk['name']} of {want['name']} has {key} {was}, not {will}.",
        "A disk with contents is never recreated: remove the machine first, or describe the existing disk.",
        disk=disk["name"],
        key=key,
        was=was,
        wanted=will,
    )


def foreign(name: str, owner: str | None) -> Failure:
    return Failure(
        "vm_foreign",
        f"The virtual machine {name} does not carry this testbed's stamp"
        + (f" but that of {owner}." if owner else "."),
        "It stays as it is; choose another name, or remove it by hand if it is not needed.",
        name=name,
        owner=owner,
    )


def own(state: MachineState, want: MachineWant | InstallationWant) -> None:
    if state["owner"] != want["testbed_id"]:
        raise foreign(want["name"], state["owner"])
