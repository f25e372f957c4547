# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``ramdisk``: backing disks in a target's memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.layers import Layer
from ....module_utils.linux.backing import ramdisk as ramdisk_module
from ..changes import Change, Changes, change_text, each, values_kept, word_of
from ..finding import line
from ..identifiers import CASELESS, same_case, shared
from ..nouns import Kept, Lab, Probe
from ..shape import Problem, shown
from ..stage import Find, Judge, LookAhead, Needs, Stage
from ..testbed import Context, Disk, Host, Testbed, layer_of, mappings


class Ramdisk(Stage):
    name = "ramdisk"
    kinds = ("ramdisk",)
    words: ClassVar = {"ramdisk": ("model",)}
    sized = ("ramdisk",)
    describes = "ramdisk_disks"
    kept = ("ramdisk_disks", "ramdisk_provider")
    packages: ClassVar = {"modprobe": ("kmod", "kmod")}
    variables = (
        "ramdisk_disks",
        "ramdisk_provider",
        "ramdisk_windows_loopback",
    )

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            windows, model = host.platform == "windows", any("model" in disk.entry for disk in disks)
            described = [_described(disk) for disk in disks if disk.entry["kind"] == "ramdisk"]
            context.derive(host, "ramdisk_disks", described, "testbed.disks")
            provider = ("preinstalled" if model else "iscsi_target") if windows else "auto"
            context.derive(host, "ramdisk_provider", provider, f"{host.name} runs {host.platform.capitalize()}")
            loopback = windows and any(disk.loopback for disk in disks)
            context.derive(host, "ramdisk_windows_loopback", loopback, "testbed.disks")

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets

    def layers(self, host: Host) -> list[Layer]:
        return [
            layer_of(
                "backing", disk.get("name"), host, None, disk.get("purpose"), f"RAM disk, {disk.get('size_mib')} MiB"
            )
            for disk in mappings(host.variables.get("ramdisk_disks"))
        ]

    def memory_mib(self, lab: Lab, host: Host) -> tuple[int, str, str] | None:
        mib = taken_mib(host)
        return (mib, "its RAM disks", "make the disks smaller") if mib else None

    def checks(self) -> dict[str, Judge]:
        return {"testbed id": _unfit_id, "files": _doubled_file}

    def changes(self) -> dict[str, Changes]:
        return {"providers": values_kept("ramdisk_provider"), "units": _disks_kept}

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        return (["modprobe"], ["brd|zram|loop"]) if host.variables["ramdisk_disks"] else ([], [])

    def findings(self) -> dict[str, Find]:
        return {"memory": _memory}

    def looks_ahead(self) -> list[LookAhead]:
        return [("ramdisk_disks", ramdisk_module.SPEC["disks"], _check_disks)]


def _described(disk: Disk) -> dict[str, int | str]:
    return {
        "name": disk.name,
        "size_mib": disk.entry.get("size", 0),
        "purpose": disk.purpose,
        **({"model": disk.entry["model"]} if "model" in disk.entry else {}),
    }


def taken_mib(host: Host) -> int:
    """The memory for the RAM disks that a build makes."""
    made = host.variables.get("ramdisk_provider") != "preinstalled"
    return int(sum(disk.get("size_mib") or 0 for disk in mappings(host.variables.get("ramdisk_disks"))) * made)


def _unfit_id(_lab: Lab, testbed: Testbed) -> Iterator[Problem]:
    """A Windows target's disks in memory, and its targets, are named by the testbed."""
    if "_" in testbed.testbed_id and any(testbed.hosts[name].platform == "windows" for name in testbed.targets):
        why, remedy = "which becomes part of names on the Windows target", "write it without underscores"
        yield Problem("testbed_id", shown(testbed.testbed_id), why, remedy)


def _doubled_file(_lab: Lab, testbed: Testbed, host: Host) -> Iterator[Problem]:
    """A RAM disk of Windows may be a file of its name."""
    if host.platform not in CASELESS:
        return
    disks = [disk for disk in testbed.disks if disk.target == host.name]
    files = [(same_case(host, disk.name), disk.name) for disk in disks if disk.entry["kind"] == "ramdisk"]
    for _file, names in shared(files):
        if len(set(names)) > 1:
            yield Problem(
                "testbed.disks",
                f"a list with {' and '.join(names)}",
                f"which are one file on {host.name}",
                "give each a name that differs in more than capitals",
            )


def _disks_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes: list[Any] = []
    for host, was, now in each(before, after, "ramdisk_disks"):
        word = word_of(testbed, host, "ramdisk_disks", "testbed.disks")
        have, want = ({disk["name"]: disk for disk in mappings(disks)} for disks in (was, now))
        for name in [*have, *(name for name in want if name not in have)]:
            if have.get(name) != want.get(name):
                changes.append(
                    (
                        word,
                        None,
                        f"{change_text(name, have.get(name), want.get(name))} on {host}, whose RAM disks are built as one unit",
                    )
                )
    return changes


def _memory(_testbed: Testbed, host: Host, probe: Probe) -> list[Any]:
    wanted = sum(disk.get("size_mib", 0) for disk in mappings(host.variables.get("ramdisk_disks")))
    wanted = wanted if host.variables.get("ramdisk_provider") != "preinstalled" else 0
    if not wanted:
        return []
    # RAM disks of an earlier build are part of what is used.
    built = host.variables.get("ramdisk_disks") and any(
        layer["kind"] == "backing" for layer in probe.get("published", [])
    )
    free, total = probe["memory_available_mib"], probe["memory_mib"]
    good = wanted <= (total if built else free)
    text = f"{free} of {total} MiB free, RAM disks take {wanted} MiB"
    return [line(host.name, "memory", bool(good), text, f"free memory on {host.name}, or make testbed.disks smaller")]


def _check_disks(_testbed: Testbed, _host: Host, disks: list[dict[str, int | str]]) -> None:
    ramdisk_module.check_disks(disks)
