# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of an ESXi host for machines that are to come: memory that can be reserved, free space of its datastores, and whether their images are there."""

from __future__ import annotations

import os
from typing import Any

from .datastore import is_name, read
from .session import Session
from .states import HostSystem, Store
from .transfer import IsoStore

IMAGES: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {"datastore": {"type": "str"}, "path": {"type": "str"}, "src": {"type": "path"}},
}


def room(session: Session, host: HostSystem, images: list[dict[str, Any]]) -> dict[str, Any]:
    """{memory_mib, machines, datastores: {name: {free_mib, accessible}}, missing: [image]}; memory_mib is None where the host does not say it."""
    stores = read(session, host)["stores"]
    with session.doing("read the memory that machines can reserve"):
        memory = reservable_mib(host)
        machines = sorted(machine.name for machine in host.vm)
    return {
        "memory_mib": memory,
        "machines": machines,
        "datastores": {
            name: {
                "accessible": store["accessible"],
                "free_mib": None if store["free_bytes"] is None else store["free_bytes"] >> 20,
            }
            for name, store in stores.items()
        },
        "missing": [image_name(image) for image in images if not _there(session, host, image, stores)],
    }


def offers(datastores: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Datastores that can be reached, as a Linux host offers its storage (linux/clients/offered.py). One of a name is one of all hosts that have it."""
    return [
        {
            "name": name,
            "entry": {"kind": "esxi_datastore"},
            "what": "datastore"
            if store["free_mib"] is None
            else f"datastore with {store['free_mib'] / 1024:.1f} GiB free",
            "shared": True,
        }
        for name, store in sorted(datastores.items())
        if store["accessible"] and is_name(name)
    ]


def reservable_mib(host: HostSystem) -> int | None:
    """Memory of the host without what its running machines have reserved. The host needs some of it for itself, too."""
    hardware = host.summary.hardware
    if hardware is None:
        return None
    reserved = sum(
        (machine.config.memoryAllocation.reservation or 0)
        for machine in host.vm
        if machine.config and machine.config.memoryAllocation and machine.runtime.powerState == "poweredOn"
    )
    return max(0, int((hardware.memorySize >> 20) - reserved))


def image_name(image: dict[str, Any]) -> str:
    """'[datastore1] windows.iso', or the file on the controller that is to be uploaded."""
    return str(image.get("src") or f"[{image.get('datastore')}] {image.get('path')}")


def _there(session: Session, host: HostSystem, image: Any, stores: dict[str, Store]) -> bool:
    if image.get("src"):
        return os.path.isfile(image["src"]) and os.access(image["src"], os.R_OK)
    store = stores.get(image.get("datastore") or "")
    if not store or not store["accessible"] or not image.get("path"):
        return False
    return IsoStore(session, host, image, "").size() is not None
