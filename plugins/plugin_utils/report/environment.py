# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint of a host (module_utils/linux/watch/environment.py, module_utils/esxi/fingerprint.py) for a reader.

Nothing in it is required: old and foreign ones are shown too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils.core import units
from ..store.flatten import flatten

HEADLINES = (
    ("Kernel", "kernel.release"),
    ("System", "distribution"),
    ("CPU", "cpu.model"),
    ("Cores", "cpu.cores"),
    ("Governor", "cpu.governor"),
    ("Memory", "memory_bytes"),
    ("Product", "virtualisation.product"),
    ("Generator", "engine.version"),
    ("Power policy", "power_policy"),
    ("Delayed ACK", "iscsi_adapter.DelayedAck"),
    ("Largest iSCSI I/O", "host_options.ISCSI.MaxIoSizeKB"),
)
UNITS = {"host_options.ISCSI.MaxIoSizeKB": "{} KiB"}
# Of Linux and of ESXi hosts.
DEVICE_WORDS = (
    ("driver_queue_depth", "queue depth {}"),
    ("queue_depth", "queue depth {}"),
    ("path_policy", "{}"),
    ("paths", "paths: {}"),
    ("vaai", "VAAI {}"),
)
QUEUE_WORDS = (("scheduler", "scheduler {}"), ("nr_requests", "{} requests"), ("rotational", "rotational {}"))


def describe(host: str, fingerprint: dict[str, Any] | None) -> dict[str, Any]:
    """{host, machine, simulated, rows: [(name, text)], all: [(dotted key, text)]}."""
    leaves = flatten(fingerprint or {})
    known = dict(leaves)
    rows = []
    for name, key in HEADLINES:
        text = known.get(key)
        if text:
            text = units.size(int(text)) if key.endswith("_bytes") and text.isdigit() else text
            rows.append((name, UNITS.get(key, "{}").format(text)))
    interfaces = (fingerprint or {}).get("network")
    for name, interface in (interfaces if isinstance(interfaces, dict) else {}).items():
        if isinstance(interface, dict):
            rows.append((name, _interface(interface)))
    devices = (fingerprint or {}).get("devices")
    for layer, device in (devices if isinstance(devices, dict) else {}).items():
        if isinstance(device, dict):
            rows.append((layer, _device(device)))
    return {
        "host": host,
        "machine": machine_kind(known),
        "simulated": known.get("simulated", ""),
        "rows": rows,
        "all": leaves,
    }


def _interface(interface: Mapping[str, object]) -> str:
    words = (("driver", "{}"), ("mtu", "MTU {}"), ("speed_mbit_s", "{} Mbit/s"))
    return ", ".join(text.format(interface[key]) for key, text in words if interface.get(key))


def _device(device: dict[str, Any]) -> str:
    reported = device.get("queue")
    queue: dict[str, Any] = reported if isinstance(reported, dict) else {}
    parts = [device.get("resolved") or device.get("path"), device.get("model"), device.get("filesystem")]
    if isinstance(device.get("size_bytes"), int):
        parts.append(units.size(device["size_bytes"]))
    parts += [words.format(_chosen(queue[key])) for key, words in QUEUE_WORDS if queue.get(key)]
    parts += [words.format(device[key]) for key, words in DEVICE_WORDS if device.get(key)]
    return ", ".join(str(part).strip() for part in parts if part)


def _chosen(value: object) -> str:
    """'mq-deadline [none]' -> 'none': the kernel puts the scheduler in use in brackets."""
    text = str(value)
    return text[text.index("[") + 1 : text.index("]")] if "[" in text and "]" in text else text


def machine_kind(known: dict[str, str]) -> str:
    """emulated, virtual, physical or unknown, from the flattened fingerprint."""
    if known.get("virtualisation.emulated") == "yes" or "TCG" in known.get("cpu.model", ""):
        return "emulated"
    return {"yes": "virtual", "no": "physical"}.get(known.get("virtualisation.guest", ""), "unknown")
