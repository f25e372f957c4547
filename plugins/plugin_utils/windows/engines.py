# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of engines on Windows hosts, and the fingerprint of such a host. The engines themselves are in module_utils/engines."""

from __future__ import annotations

import re
from typing import Any

from ...module_utils.core.failure import bad_value

SESSIONS = ("auto", "service", "interactive")
SPEC = {
    "program": {"type": "str"},
    "root": {"type": "str", "default": "C:\\storlab"},
    "session": {"type": "str", "choices": list(SESSIONS), "default": "auto"},
    "iometer_version": {"type": "str", "default": "1.1.0"},
}


def check(settings: dict[str, Any]) -> dict[str, str]:
    """The settings; raises bad_value."""
    check_root(settings["root"])
    if not re.fullmatch(r"[0-9][0-9.]{0,30}", settings["iometer_version"]):
        raise bad_value(
            "benchmark_windows.iometer_version",
            settings["iometer_version"],
            "Use the version that IOMeter shows, such as 1.1.0.",
        )
    return settings


def check_root(root: str) -> None:
    """IOMeter takes no other characters in the names of files."""
    if not re.fullmatch(r"[A-Za-z]:(\\[A-Za-z0-9_-][A-Za-z0-9_.-]*){1,4}", root):
        raise bad_value(
            "benchmark_windows.root",
            root,
            "Use a folder on a local drive, of letters, digits, dot, dash and underscore, such as C:\\storlab.",
        )


def environment(host: dict[str, Any], devices: dict[str, dict[str, int | str]], engine: str) -> dict[str, Any]:
    """The host's fingerprint in the shape of module_utils/linux/watch/environment.py. host: what scripts/engine_host.ps1 reads."""
    return {
        "distribution": host["product"],
        "kernel": {"release": f"{host['version_os']} build {host['build']}"},
        "cpu": host["cpu"],
        "memory_bytes": host["memory_bytes"],
        "virtualisation": {"guest": host["hypervisor"], "product": host["machine"]},
        "power_plan": host["power_plan"],
        "engine": {"name": engine, "path": host["program"], "version": host["version"]},
        "devices": devices,
        # A stand-in announces itself; scripts/engine_host.ps1 reports no such thing of a host.
        **({"simulated": f"{host['product']}; its figures are made up"} if host.get("stand_in") else {}),
    }
