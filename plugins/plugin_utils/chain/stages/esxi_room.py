# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an ESXi host has room for the guests that are to be made on it: memory to reserve, free space on its own datastores, and their images."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from ..description import size_text
from ..testbed import Host, Testbed, mappings


class StoreRoom(TypedDict):
    free_mib: int | None
    accessible: bool


class Room(TypedDict, total=False):
    """As esxi_state returns it."""

    memory_mib: int | None
    machines: list[str]
    datastores: dict[str, StoreRoom]
    missing: list[str]


class Guest(TypedDict, total=False):
    name: str
    memory_mib: int
    esxi: dict[str, Any]


Line = tuple[str, bool, str, str]


def images(host: Host) -> list[dict[str, Any]]:
    """The images that the guests of an ESXi host are installed from, for the option images of esxi_state."""
    wanted: list[dict[str, Any]] = []
    for guest in mappings(host.variables.get("guest_vm_guests")):
        esxi = guest.get("esxi") or {}
        iso = esxi.get("iso")
        if isinstance(iso, dict):
            place = {
                "datastore": iso.get("datastore") or esxi.get("datastore"),
                "path": iso.get("path"),
                "src": iso.get("src"),
            }
            wanted.append({key: value for key, value in place.items() if value})
    return [image for place, image in enumerate(wanted) if image not in wanted[:place]]


def findings(testbed: Testbed, name: str, room: Room) -> list[Line]:
    """[(what, good, in words, what mends it)] of an ESXi host. room: as esxi_state returns it."""
    host = testbed.hosts[name]
    there = set(room.get("machines") or [])
    # A machine that is there already has its memory and its disks.
    coming = [
        cast(Guest, guest)
        for guest in mappings(host.variables.get("guest_vm_guests"))
        if f"storlab-{testbed.testbed_id}-{guest.get('name')}" not in there
    ]
    return [
        *_memory(coming, room),
        *_existing(testbed, name, room),
        *_space(testbed, coming, room),
        *_images(host, room),
    ]


def _memory(coming: list[Guest], room: Room) -> list[Line]:
    wanted = sum(
        guest.get("memory_mib") or 0
        for guest in coming
        if (guest.get("esxi") or {}).get("reserve_memory", True) is not False
    )
    free = room.get("memory_mib")
    if not wanted or free is None:
        return []
    text = f"{size_text(free)} can be reserved, guests reserve {size_text(wanted)}"
    return [
        ("memory to reserve", wanted <= free, text, "turn off machines that reserve memory, or make the guests smaller")
    ]


def _existing(testbed: Testbed, name: str, room: Room) -> list[Line]:
    lines = []
    for store in testbed.stores:
        if not store.there or name not in store.hosts:
            continue
        known = (room.get("datastores") or {}).get(store.label)
        good = bool(known and known["accessible"])
        text = "is there" if good else "is there, and the host cannot reach it" if known else "is not there"
        others = ", ".join(sorted(room.get("datastores") or {})) or "none"
        remedy = (
            "bring its device back"
            if known
            else f"write one of the host's datastores in {store.variable}.name: {others}"
        )
        lines.append((f"datastore {store.label}", good, text, remedy))
    return lines


def _space(testbed: Testbed, coming: list[Guest], room: Room) -> list[Line]:
    """The free space of datastores that are there already; the others are made as large as their LUN."""
    wanted: dict[str, int] = {}
    for guest in coming:
        esxi = guest.get("esxi") or {}
        for disk in mappings(esxi.get("disks")):
            place = disk.get("datastore") or esxi.get("datastore")
            wanted[str(place)] = wanted.get(str(place), 0) + (disk.get("size_mib") or 0)
    made = {store.label for store in testbed.stores if not store.there}
    lines = []
    for place, size in wanted.items():
        known = (room.get("datastores") or {}).get(place)
        if place in made or not size or not known or known["free_mib"] is None:
            continue
        text = f"{size_text(known['free_mib'])} free, disks of guests take {size_text(size)}"
        remedy = f"free space on {place}, or make the disks smaller"
        lines.append((f"room on {place}", size <= known["free_mib"], text, remedy))
    return lines


def _images(host: Host, room: Room) -> list[Line]:
    missing = set(room.get("missing") or [])
    lines = []
    for image in images(host):
        # As module_utils/esxi/room.py names it.
        shown = str(image.get("src") or f"[{image.get('datastore')}] {image.get('path')}")
        remedy = (
            "copy the image there, or correct src" if image.get("src") else "upload it, or set src so that a build does"
        )
        lines.append((f"image {shown}", shown not in missing, "is missing" if shown in missing else "is there", remedy))
    return lines
