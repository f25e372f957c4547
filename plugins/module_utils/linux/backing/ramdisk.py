# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of exact size from what the kernel has: brd, a loop device on tmpfs, or zram."""

from __future__ import annotations

import glob
import os
import uuid
from collections.abc import Collection
from typing import Any

from ...core import converge
from ...core.failure import Failure, bad_value
from ...core.files import naming
from ...core.layers import Layer
from ...core.names import check_name, check_testbed_id
from ...core.steps import Step
from .. import memory_limits, mounts
from ..disks import block_device
from ..host import load_module, loaded_modules, module_available, read_text, run, wait_for, write_text
from ..record import Record

MIB = 1 << 20
# Best first: brd is memory with a block layer; a loop device adds a worker thread; zram compresses and so depends on the data.
PROVIDERS = ("brd", "tmpfs", "zram")
# The text that the kernel puts behind the name of a file that is removed and still open.
DELETED = " (deleted)"


def check_disks(disks: list[Any]) -> dict[str, Any]:
    """{name: size_bytes} in the given order; raises bad_value."""
    wanted = {}
    for disk in disks:
        if disk["name"] in wanted:
            raise bad_value("ramdisk_disks name", disk["name"], "Give every RAM disk another name.")
        if disk["size_mib"] < 1:
            raise bad_value(f"ramdisk_disks size_mib of {disk['name']}", disk["size_mib"], "Give at least 1 MiB.")
        wanted[disk["name"]] = disk["size_mib"] * MIB
    return wanted


def _backing_file(loop: str) -> str:
    """The file behind a loop device; also one whose name was removed, for the device keeps it."""
    path = read_text(f"/sys/block/{loop}/loop/backing_file", default="").strip()
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


def _loops() -> dict[str, str]:
    """{loop device: its file}"""
    names = sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob("/sys/block/loop*/loop"))
    return {name: _backing_file(name) for name in names}


def choose(wanted: str, obstacles: dict[str, Any], current: str | None) -> tuple[Any, ...]:
    """(provider, reason). obstacles: provider -> (code, why it cannot be used), missing when it can."""
    if wanted != "auto":
        if wanted in obstacles:
            others = [name for name in PROVIDERS if name not in obstacles]
            code, why = obstacles[wanted]
            raise Failure(
                code,
                f"RAM disk provider {wanted} cannot be used: {why}.",
                f"Set ramdisk_provider to auto or {' or '.join(others)}."
                if others
                else "Use a kernel with brd, loop or zram.",
                provider=wanted,
            )
        return wanted, "asked for"
    if current:
        return current, "already in use by this testbed"
    for name in PROVIDERS:
        if name not in obstacles:
            passed = "; ".join(f"{other}: {obstacles[other][1]}" for other in PROVIDERS[: PROVIDERS.index(name)])
            return name, f"best available ({passed})" if passed else "best available"
    raise Failure(
        "provider_unavailable",
        f"This kernel has no RAM disk: {'; '.join(f'{name}: {obstacles[name][1]}' for name in PROVIDERS)}.",
        "Use a kernel with brd, loop or zram.",
    )


def plan(current: dict[str, Any], desired: dict[str, Any]) -> list[Step]:
    """Steps from {provider, disks: {name: size}} to the same shape; removals first, each disk once.

    All brd disks come from one loading of the module, so a change of any of them replaces them all.
    """
    have, want = current["disks"], desired["disks"]
    whole = current["provider"] != desired["provider"] or (desired["provider"] == "brd" and have != want)
    remove = [name for name in have if whole or want.get(name) != have[name]]
    create = [name for name in want if whole or want[name] != have.get(name)]
    return [
        {"op": "remove", "disk": name, "provider": current["provider"], "size_bytes": have[name]} for name in remove
    ] + [{"op": "create", "disk": name, "provider": desired["provider"], "size_bytes": want[name]} for name in create]


def brd_layout(sizes: dict[str, Any]) -> tuple[Any, ...]:
    """(rd_size in KiB, {name: (whole device, path)}).

    brd gives all its disks one size, the biggest here. A smaller disk is a partition that exists only in the kernel's memory:
    it starts at sector 0, ends at the exact size, adds nothing to the I/O path, and brd allocates no page beyond it.
    """
    biggest = max(sizes.values())
    layout = {
        name: (f"/dev/ram{index}", f"/dev/ram{index}" if size == biggest else f"/dev/ram{index}p1")
        for index, (name, size) in enumerate(sizes.items())
    }
    return biggest // 1024, layout


class RamDisks:
    """The RAM disks of one testbed on this host."""

    def __init__(self, testbed_id: str) -> None:
        self.testbed_id = testbed_id
        self.record = Record(testbed_id, "ramdisk")
        self.folder = os.path.join(self.record.folder, "ramdisk")

    # -- what is there

    def obstacles(self) -> dict[str, Any]:
        reasons = {}
        ours = "brd" in self.record.data.get("modules", []) or self.record.data.get("provider") == "brd"
        if os.path.isdir("/sys/module/brd") and not ours:
            reasons["brd"] = ("brd_in_use", "brd is already loaded, and not by this testbed")
        elif not module_available("brd"):
            reasons["brd"] = ("provider_unavailable", "this kernel has no module brd")
        if not os.path.exists("/dev/loop-control") and not module_available("loop"):
            reasons["tmpfs"] = ("provider_unavailable", "this kernel has no loop devices")
        if not os.path.isdir("/sys/class/zram-control") and not module_available("zram"):
            reasons["zram"] = ("provider_unavailable", "this kernel has no module zram")
        return reasons

    def _alive(self, disk: dict[str, Any]) -> bool:
        name = os.path.basename(disk["path"] or "")
        if disk["provider"] == "tmpfs":
            return (
                bool(name)
                and disk["file"] == _backing_file(name)
                and block_device.size_bytes(name) == disk["size_bytes"]
            )
        return bool(name) and os.path.exists(disk["path"]) and block_device.size_bytes(name) == disk["size_bytes"]

    def current(self) -> dict[str, Any]:
        disks = {name: disk for name, disk in self.record.data.get("disks", {}).items() if self._alive(disk)}
        order = [name for name in self.record.data.get("order", []) if name in disks]
        return {
            "provider": self.record.data.get("provider") if disks else None,
            "disks": {name: disks[name]["size_bytes"] for name in order},
        }

    def refuse_used(self, names: Collection[str]) -> None:
        for name in names:
            path = self.record.data["disks"][name]["path"]
            uses = block_device.users(path)
            if uses:
                raise block_device.in_use(f"RAM disk {name} ({path}) cannot be removed", path, uses)

    def refuse_too_big(self, steps: list[Step]) -> None:
        # zram takes memory only for what is written, and less of it.
        sizes = {
            op: sum(step["size_bytes"] for step in steps if step["op"] == op and step["provider"] != "zram")
            for op in ("create", "remove")
        }
        needed = sizes["create"] - sizes["remove"]
        memory = memory_limits.memory(read_text)
        available = memory.available_bytes
        # Enough must stay for the kernel and the benchmark itself: a RAM disk is never swapped out.
        if available is not None and needed > 0 and needed > available - 48 * MIB:
            raise Failure(
                "not_enough_memory",
                f"The RAM disks need {needed // MIB} MiB more, and {memory.words()}.",
                f"Make ramdisk_disks smaller or {memory.remedy()} (48 MiB must stay free).",
                needed_bytes=needed,
                available_bytes=available,
                limit=memory.limit,
            )

    # -- change

    def apply(self, steps: list[Step], provider: str, wanted: dict[str, Any]) -> None:
        before = loaded_modules()
        removed = [step["disk"] for step in steps if step["op"] == "remove"]
        self.refuse_used(removed)
        # Disks of the record that died (their loop was detached, the module unloaded) are forgotten here, too.
        leftovers = [name for name in self.record.data.get("disks", {}) if name not in self.current()["disks"]]
        self._take_unrecorded()
        self._remove(removed + leftovers)
        created = {step["disk"]: step["size_bytes"] for step in steps if step["op"] == "create"}
        self.record.data.update(provider=provider, order=list(wanted))
        self.record.data.setdefault("disks", {})
        self.record.save()
        try:
            if created:
                creation = {"brd": self._create_brd, "zram": self._create_zram, "tmpfs": self._create_tmpfs}
                creation[provider](created)
        finally:
            self.record.note_modules(before)

    def _claim(self, name: str, **disk: Any) -> None:
        # A disk that is recreated is empty, whatever the layers above still hold in memory of the one before: this informs them.
        disk["generation"] = self.record.data["disks"].get(name, {}).get("generation") or uuid.uuid4().hex[:12]
        self.record.data["disks"][name] = disk
        self.record.save()

    def _create_brd(self, sizes: dict[str, Any]) -> None:
        size_kib, layout = brd_layout(sizes)
        for name, (whole, path) in layout.items():
            self._claim(name, provider="brd", path=path, whole=whole, size_bytes=sizes[name])
        self.record.data["brd"] = {"rd_nr": str(len(sizes)), "rd_size": str(size_kib)}
        self.record.save()
        load_module("brd", f"rd_nr={len(sizes)}", f"rd_size={size_kib}", intend=self.record.intend_modules)
        for name, (whole, path) in layout.items():
            if path != whole:
                run(
                    ["addpart", whole, "1", "0", str(sizes[name] // 512)],
                    what=f"{whole} cannot be limited to {sizes[name]} bytes",
                )
            self._expect(name, path, sizes[name])

    def _create_zram(self, sizes: dict[str, Any]) -> None:
        intend = self.record.intend_modules
        load_module("zram", "num_devices=0", intend=intend, provides="/sys/class/zram-control")
        for name, size in sizes.items():
            # The kernel chooses the number, so that the claim can only follow.
            self.record.data["zram_before"] = self._zrams()
            self.record.save()
            index = read_text("/sys/class/zram-control/hot_add")
            del self.record.data["zram_before"]
            self._claim(name, provider="zram", path=f"/dev/zram{index}", size_bytes=size)
            write_text(f"/sys/block/zram{index}/disksize", str(size))
            self._expect(name, f"/dev/zram{index}", size)

    @staticmethod
    def _zrams() -> list[str]:
        return sorted(name for name in os.listdir("/sys/block") if name.startswith("zram"))

    def _take_unrecorded(self) -> None:
        """Remove the zram device that a killed run had the kernel make and could not claim: the only one that came since, while it is empty."""
        before = self.record.data.pop("zram_before", None)
        if before is None:
            return
        claimed = {os.path.basename(disk["path"] or "") for disk in self.record.data.get("disks", {}).values()}
        came = [name for name in self._zrams() if name not in before and name not in claimed]
        empty = [name for name in came if block_device.size_bytes(name) == 0]
        if len(empty) == 1:
            self._remove_zram({"path": f"/dev/{empty[0]}", "size_bytes": 0})
        self.record.save()

    def _create_tmpfs(self, sizes: dict[str, Any]) -> None:
        load_module("loop", intend=self.record.intend_modules, provides="/dev/loop-control")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        if not self._mounted():
            # The size limit is what preallocated files enforce anyway; the default (half of the memory) could refuse them.
            run(
                ["mount", "-t", "tmpfs", "-o", "size=0,mode=0700", f"storlab-{self.testbed_id}", self.folder],
                what=f"{self.folder} cannot be mounted",
            )
        for name, size in sizes.items():
            file = os.path.join(self.folder, f"{name}.img")
            self._claim(name, provider="tmpfs", path="", file=file, size_bytes=size)
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                with naming(file):
                    os.posix_fallocate(handle, 0, size)
            finally:
                os.close(handle)
            path = run(["losetup", "--find", "--show", file], what=f"{file} cannot become a loop device").stdout.strip()
            # Kernels before 6.6 have no direct I/O on tmpfs; the loop device then works, and says so.
            run(["losetup", "--direct-io=on", path], ok=(0, 1))
            self._claim(
                name,
                provider="tmpfs",
                path=path,
                file=file,
                size_bytes=size,
                direct_io=read_text(f"/sys/block/{os.path.basename(path)}/loop/dio", default="0") == "1",
            )
            self._expect(name, path, size)

    @staticmethod
    def _expect(name: str, path: str, size: int) -> None:
        wait_for(lambda: os.path.exists(path), timeout_s=5)
        actual = block_device.size_bytes(path)
        if not os.path.exists(path) or actual != size:
            raise Failure(
                "wrong_size",
                f"RAM disk {name} ({path}) has {actual} bytes instead of {size}.",
                "Look at the kernel log of the host.",
                disk=name,
                path=path,
                size_bytes=actual,
                expected_bytes=size,
            )

    def _mounted(self) -> bool:
        return mounts.mounted_at(mounts.read(), self.folder) is not None

    def _remove(self, names: Collection[str]) -> None:
        disks = self.record.data.get("disks", {})
        providers = {disks[name]["provider"] for name in names}
        removal = {"zram": self._remove_zram, "tmpfs": self._remove_tmpfs}
        for name in names:
            # brd goes as a whole, after all its disks.
            if disks[name]["provider"] != "brd":
                removal[disks[name]["provider"]](disks[name])
        if "brd" in providers and os.path.isdir("/sys/module/brd") and self._brd_is_ours():
            run(["rmmod", "brd"], what="brd cannot be unloaded")
        for name in names:
            del disks[name]
        if names:
            self.record.save()

    def _brd_is_ours(self) -> bool:
        """Whether brd was loaded as the record says; somebody else may have loaded it since ours was unloaded."""
        loaded = {name: read_text(f"/sys/module/brd/parameters/{name}", default="") for name in ("rd_nr", "rd_size")}
        return loaded == self.record.data.get("brd")

    def _remove_zram(self, disk: dict[str, Any]) -> None:
        index = disk["path"][len("/dev/zram") :]
        # Another size: somebody else's device that got the number after ours had gone. None yet: a run was killed at its birth.
        ours = block_device.size_bytes(disk["path"]) in (0, disk["size_bytes"])
        if os.path.isdir(f"/sys/block/zram{index}") and ours:
            write_text(f"/sys/block/zram{index}/reset", "1")
            write_text("/sys/class/zram-control/hot_remove", index)

    def _remove_tmpfs(self, disk: dict[str, Any]) -> None:
        # Found by its file, not by the recorded number: a run killed between losetup and the record left only the file's name.
        for name, file in _loops().items():
            if file == disk["file"]:
                run(["losetup", "--detach", f"/dev/{name}"], what=f"/dev/{name} cannot be detached")
                wait_for(lambda name=name: not _backing_file(name), timeout_s=10)
        if os.path.exists(disk["file"]):
            os.unlink(disk["file"])
        self._tidy_tmpfs()

    def _tidy_tmpfs(self) -> None:
        # Files whose names were removed hold it, too.
        held = any(os.path.dirname(file) == self.folder for file in _loops().values())
        if self._mounted() and not held and not os.listdir(self.folder):
            run(["umount", self.folder], what=f"{self.folder} cannot be unmounted")
        if os.path.isdir(self.folder) and not self._mounted() and not os.listdir(self.folder):
            os.rmdir(self.folder)

    def remove_all(self) -> None:
        self.refuse_used([name for name in self.record.data.get("disks", {}) if name in self.current()["disks"]])
        self._take_unrecorded()
        self._remove(list(self.record.data.get("disks", {})))
        # A killed run may have mounted it, and claimed no disk yet.
        self._tidy_tmpfs()
        self.record.unload_modules()
        self.record.remove()

    # -- what to publish

    def layers(self, disks: list[Any], provider: str) -> list[Layer]:
        """The layers of the disks, without their host; the path of a disk that is not there yet is predicted where it can be."""
        known = self.record.data.get("disks", {})
        sizes = {disk["name"]: disk["size_mib"] * MIB for disk in disks}
        predicted = brd_layout(sizes)[1] if provider == "brd" and sizes else {}
        layers_made: list[Layer] = []
        for disk in disks:
            name, size = disk["name"], sizes[disk["name"]]
            path = known.get(name, {}).get("path") or predicted.get(name, ("", ""))[1] or None
            identity = {"stamp": f"{self.testbed_id}/{name}", "size_bytes": size}
            whole = known.get(name, {}).get("whole") or predicted.get(name, (path, path))[0]
            if whole and whole != path and provider == "brd":
                # Says to the device guard that this partition is the testbed's own making.
                identity["whole_device"] = whole
            numbers = block_device.device_numbers(path) if path else None
            if numbers:
                identity["major_minor"] = numbers
            detail = {"provider": provider}
            detail.update({key: known[name][key] for key in ("direct_io", "generation") if key in known.get(name, {})})
            layers_made.append(
                {
                    "name": f"backing-{name}",
                    "kind": "backing",
                    "path": path,
                    "parent": None,
                    "purpose": disk["purpose"],
                    "size_bytes": size,
                    "identity": identity,
                    "detail": detail,
                }
            )
        return layers_made


# ---- the module

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "provider": {"type": "str", "choices": ["auto", "brd", "tmpfs", "zram"], "default": "auto"},
    "disks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "size_mib": {"type": "int", "required": True},
            "purpose": {"type": "str", "choices": ["scratch", "data"], "default": "data"},
        },
    },
}


class Area(converge.Area):
    """The RAM disks of a testbed, for the module ramdisk."""

    def plan(self) -> list[Step]:
        params = self.params
        self.disks = RamDisks(check_testbed_id("ramdisk_testbed_id", params["testbed_id"]))
        self.current = self.disks.current()
        self.after: dict[str, Any] = {"provider": None, "disks": {}}
        if self.present:
            for disk in params["disks"]:
                check_name("ramdisk_disks name", disk["name"])
            wanted = check_disks(params["disks"])
            provider, self.reason = choose(params["provider"], self.disks.obstacles(), self.current["provider"])
            self.after = {"provider": provider, "disks": wanted}
        self.known = bool(self.disks.record.data)
        return plan(self.current, self.after)

    def guard(self, steps: list[Step]) -> None:
        if self.present:
            self.disks.refuse_too_big(steps)
        else:
            self.disks.refuse_used(self.current["disks"])

    def apply(self, steps: list[Step]) -> None:
        if self.present and steps:
            self.disks.apply(steps, self.after["provider"], self.after["disks"])
        elif not self.present and self.known:
            self.disks.remove_all()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        result: dict[str, Any] = {"changed": bool(steps) if self.present else self.known}
        if self.present:
            provider = self.after["provider"]
            result["provider"], result["provider_reason"] = provider, self.reason
            result["layers"] = self.disks.layers(self.params["disks"], provider)
        # Not of the steps: a disk that stays has none, and a change shows in the order of the others beside it.
        return {**result, "steps": steps, "diff": {"before": self.current, "after": self.after}}
