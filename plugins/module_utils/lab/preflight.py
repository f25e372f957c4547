# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requirements of a controller before an embedded lab is built on it."""

from __future__ import annotations

import os
import platform
import shutil
from typing import Any

from ..core.failure import Failure
from ..linux.memory_limits import memory
from .image import image_problem, read_recipe, recipe_hash
from .qemu import running_pid

# A build holds the unpacked root and the image at the same time; a lab with its image there needs logs only.
BUILD_DISK_MIB = 3072
LAB_DISK_MIB = 128
# What QEMU needs beside the memory of its machine.
OVERHEAD_MIB = 160


def observe(
    image_dir: str, recipe_dir: str, packages: list[str], machines: list[Any], commands: list[Any], files: list[Any]
) -> dict[str, object]:
    """The state of this host. packages: the image's, in addition to the recipe's own."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    folder = os.path.abspath(image_dir)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    missing = [need for need in commands if not shutil.which(need["command"], path=path)] + [
        need for need in files if not os.path.exists(need["file"])
    ]
    return {
        "architecture": platform.machine(),
        "user_id": os.geteuid(),
        "has_apt": bool(shutil.which("apt-get", path=path)),
        "missing_packages": sorted({need["package"] for need in missing}),
        "image_there": image_problem(os.path.join(image_dir, recipe_hash(read_recipe(recipe_dir, packages)))) is None,
        "disk_free_mib": shutil.disk_usage(folder).free // 2**20,
        "disk_folder": folder,
        "memory_free_mib": (memory().available_bytes or 0) >> 20,
        # A machine that runs has its memory already.
        "memory_needed_mib": sum(
            machine["memory_mib"] + OVERHEAD_MIB for machine in machines if not running_pid(machine["run_dir"])
        ),
    }


def first_problem(seen: dict[str, Any], install_packages: bool) -> Failure | None:
    """The first thing that is missing, and what to do about it."""
    if seen["architecture"] != "x86_64":
        return Failure(
            "architecture",
            f"The embedded lab needs an x86_64 controller, this one is {seen['architecture']}.",
            "Run it on an x86_64 host.",
        )
    if seen["user_id"] != 0:
        return Failure(
            "not_root",
            "The embedded lab needs root rights on the controller, for a network namespace and for mmdebstrap.",
            "Run this as root or with sudo.",
        )
    if seen["missing_packages"] and not (install_packages and seen["has_apt"]):
        packages = " ".join(seen["missing_packages"])
        return Failure(
            "packages_missing",
            f"The controller lacks the packages {packages}.",
            f"Install them, on Debian or Ubuntu with: apt-get install {packages}.",
            packages=seen["missing_packages"],
        )
    disk_mib = LAB_DISK_MIB if seen["image_there"] else BUILD_DISK_MIB
    if seen["disk_free_mib"] < disk_mib:
        return Failure(
            "disk_space",
            f"{seen['disk_folder']} has {seen['disk_free_mib']} MiB free, the embedded lab needs {disk_mib} MiB.",
            "Free space there, or set embedded_lab_image_dir to a folder with more.",
            free_mib=seen["disk_free_mib"],
            needed_mib=disk_mib,
        )
    if seen["memory_free_mib"] < seen["memory_needed_mib"]:
        return Failure(
            "memory",
            f"The controller has {seen['memory_free_mib']} MiB of memory available, its machines need {seen['memory_needed_mib']} MiB.",
            "Free memory, or give the machines less in embedded_lab_machines.",
            free_mib=seen["memory_free_mib"],
            needed_mib=seen["memory_needed_mib"],
        )
    return None
