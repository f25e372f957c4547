# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the environment fingerprint of a host says to a reader. The fingerprint is a free nested mapping; nothing in it is required."""

from __future__ import annotations

import re


def flatten(value, prefix: str = "") -> list:
    """[(dotted key, text)] of every leaf, in the order of the mapping."""
    if isinstance(value, dict):
        return [pair for key, part in value.items() for pair in flatten(part, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list):
        if all(not isinstance(part, (dict, list)) for part in value):
            return [(prefix, ", ".join(_text(part) for part in value))]
        return [pair for index, part in enumerate(value) for pair in flatten(part, f"{prefix}.{index}")]
    return [(prefix, _text(value))]


def _text(value) -> str:
    return "" if value is None else "yes" if value is True else "no" if value is False else str(value)


def describe(host: str, fingerprint: dict | None) -> dict:
    """{host, machine, simulated, rows: [(name, text)], all: [(dotted key, text)]}."""
    leaves = flatten(fingerprint or {})
    rows = [(name, text) for name, pattern in HEADLINES if (text := _first(leaves, pattern))]
    return {"host": host, "machine": machine_kind(leaves), "simulated": _first(leaves, r"(^|\.)simulated"), "rows": rows, "all": leaves}


HEADLINES = (
    ("Kernel", r"(^|\.)kernel(\.release|_release|_version)?$|(^|\.)release$"),
    ("Operating system", r"(^|\.)(os|distribution|pretty_name|os_release\.pretty_name|operating_system)$"),
    ("CPU", r"(^|\.)(cpu\.model(_name)?|cpu_model|processor)$"),
    ("Cores", r"(^|\.)(cpu\.(cores|count|online|logical)|cpu_count|cores|vcpus)$"),
    ("Memory", r"(^|\.)(memory(\.total)?(_bytes|_kib|_mib)?|mem_total.*|total_bytes)$"),
    ("Virtualisation", r"(^|\.)(virtuali[sz]ation|hypervisor|accelerator)(\.(type|kind|name|accelerator))?$"),
    ("fio", r"(^|\.)(fio\.version|fio_version|fio|engine\.version)$"),
    ("Scheduler", r"\.scheduler$"),
)


def _first(leaves: list, pattern: str) -> str:
    return next((text for key, text in leaves if text and re.search(pattern, key, re.IGNORECASE)), "")


def machine_kind(leaves: list) -> str:
    """emulated, virtual, physical or unknown. Emulation hides itself worst in the CPU's name, so that is asked first."""
    cpu = _first(leaves, r"(^|\.)(cpu\.model(_name)?|cpu_model|processor)$").lower()
    said = " ".join(text.lower() for key, text in leaves if re.search(r"virtuali[sz]|hypervisor|accel|emulat", key, re.IGNORECASE))
    if "tcg" in cpu or "qemu virtual cpu" in cpu or re.search(r"\btcg\b|\bqemu\b|emulated", said):
        return "emulated"
    if re.search(r"\b(kvm|vmware|microsoft|hyperv|hyper-v|xen|oracle|virtualbox|guest|yes)\b", said):
        return "virtual"
    if re.search(r"\b(none|physical|no)\b", said):
        return "physical"
    return "unknown"
