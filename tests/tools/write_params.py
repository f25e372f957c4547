# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes params.py of each room after a module's options have changed: the type of its parameters, as its SPEC has them.

An option without a default that need not be given may be None. Its value is of any type: the checks of the rooms see to it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("", "support")]

import conftest  # noqa: F401 - makes the collection importable
import places

PACKAGE = "ansible_collections.storlab.testbed.plugins."
# {room: {class: (file, name of the SPEC there)}}
ROOMS = {
    "module_utils.esxi": {
        "Connection": ("session", "spec"),
        "Datastores": ("datastores", "SPEC"),
        "Installation": ("installation", "SPEC"),
        "Iscsi": ("login", "SPEC"),
        "Network": ("network", "SPEC"),
        "Vm": ("guest", "SPEC"),
    },
    "module_utils.linux": {
        "DiskBySerial": ("disks.disk_serial", "SPEC"),
        "Raid": ("backing.raid", "SPEC"),
        "CacheTier": ("backing.cache_tier", "SPEC"),
        "IscsiTarget": ("exports.iscsi_target", "SPEC"),
        "NfsExport": ("exports.nfs_export", "SPEC"),
        "Existing": ("clients.attached", "SPEC"),
        "IscsiSession": ("clients.iscsi_sessions", "SPEC"),
        "Datastores": ("clients.datastore", "SPEC"),
        "DebianInstallation": ("loads.debian_installation", "SPEC"),
        "DebianPackages": ("loads.debian_packages", "SPEC"),
        "DatabaseLoad": ("loads.database", "SPEC"),
    },
    "plugin_utils.windows": {
        "Install": ("install", "SPEC"),
        "Ntfs": ("ntfs", "SPEC"),
        "Ramdisk": ("ramdisk", "SPEC"),
        "Server": ("server", "SPEC"),
        "Session": ("session", "SPEC"),
        "Target": ("target", "SPEC"),
    },
}
# These areas read their parameters one by one: the types of their lists' entries are used, no type of the whole.
ENTRIES_ALONE = ("Raid", "CacheTier", "IscsiTarget")
HEAD = '''# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the modules' parameters, written by ``python tests/tools/write_params.py`` from their SPECs; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict
'''
SIMPLE = {"str": "str", "path": "str", "int": "int", "bool": "bool", "float": "float", "raw": "Any"}
LAYERS = "dict[str, Layer]"
# A connection is part of the parameters of every module for ESXi.
BASES = {"module_utils.esxi": "ConnectionParams"}


def kind_of(name: str, option: dict[str, Any], inner: str) -> str:
    """The type of a value that is given. inner: the class of what its ``options`` describe."""
    kind = option.get("type", "str")
    if "options" in option:
        return f"list[{inner}]" if kind == "list" else inner
    if kind == "list":
        element = option.get("elements", "raw")
        return f"list[{'dict[str, Any]' if element == 'dict' else SIMPLE[element]}]"
    if kind == "dict":
        return {"layers": LAYERS, "layer": "Layer"}.get(name, "dict[str, Any]")
    return SIMPLE[kind]


def single(key: str) -> str:
    """One of a list: 'disk' of disks, 'entry' of entries, 'switch' of switches."""
    for plural, singular in (("ies", "y"), ("tches", "tch"), ("s", "")):
        if key.endswith(plural):
            return key.removesuffix(plural) + singular
    return key


def classes(name: str, spec: dict[str, Any], base: str = "TypedDict", suffix: str = "Params") -> Iterator[str]:
    """The text of each class, those that others hold first."""
    fields = []
    for key, option in spec.items():
        inner = name + "".join(word.title() for word in single(key).split("_"))
        sure = option.get("required") or option.get("default") is not None
        if "options" in option and (sure or name == "Vm"):
            yield from classes(inner, option["options"], suffix="Option")
        kind = kind_of(key, option, f"{inner}Option")
        fields.append(f"    {key}: {kind if sure else 'Any'}")
    if suffix == "Option" or name not in ENTRIES_ALONE:
        yield f"class {name}{suffix}({base}):\n" + "\n".join(fields) + "\n"


def text_of(room: str) -> str:
    parts = []
    for name, (file, spec) in ROOMS[room].items():
        options = getattr(importlib.import_module(f"{PACKAGE}{room}.{file}"), spec)
        base = BASES.get(room, "TypedDict")
        parts += classes(
            name, options(None) if callable(options) else options, "TypedDict" if name == "Connection" else base
        )
    body = "\n\n".join(parts)
    layer = {"module_utils": "..core.layers", "plugin_utils": "...module_utils.core.layers"}[room.partition(".")[0]]
    imported = f"\nfrom {layer} import Layer\n" if "Layer]" in body or " Layer\n" in body else ""
    return f"{HEAD}{imported}\n\n{body}"


def path_of(room: str) -> Path:
    return places.ROOT / "plugins" / Path(*room.split(".")) / "params.py"


if __name__ == "__main__":
    for each in ROOMS:
        path_of(each).write_text(text_of(each), encoding="utf-8")
        print(path_of(each))
