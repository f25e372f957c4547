# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks from the build to the teardown, on a host whose kernel is made of files: brd, zram and loop devices do what the real ones do with sizes and names.

Real ones are in molecule/ramdisk and tests/integration/test_ramdisk_on_tmpfs.py.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from rooted import Rooted
from unchanged import broken_off, refused

MIB = 1 << 20
BOTH = [{"name": "a", "size_mib": 3, "purpose": "scratch"}, {"name": "b", "size_mib": 5, "purpose": "data"}]


class Kernel(Rooted):
    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, ramdisk, record, block_device)
        self.uses, self.short, self.mounted = {}, 0, False
        self.write("/proc/meminfo", "MemTotal: 900000 kB\nMemAvailable: 204800 kB\n")
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        self.folder("/sys/block")
        monkeypatch.setattr(block_device, "users", lambda path: self.uses.get(path, []))
        monkeypatch.setattr(
            ramdisk.mounts, "read", lambda: [{"mount_point": f"{self.home}/ramdisk"}] if self.mounted else []
        )
        self.home = f"{root}/run/storlab/unit"
        monkeypatch.setattr(
            ramdisk, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab")
        )

    def disk(self, name: str, size_bytes: int) -> None:
        self.write(f"/dev/{name}")
        self.write(f"/sys/class/block/{name}/size", str((size_bytes - self.short) // 512))
        self.folder(f"/sys/block/{name}")

    def gone(self, name: str) -> None:
        for path in (f"/dev/{name}", f"/sys/class/block/{name}", f"/sys/block/{name}"):
            self.remove(path)

    def read_text(self, path: str, default: str | None = None) -> str:
        if path == "/sys/class/zram-control/hot_add":
            number = next(free for free in range(1, 9) if not self.has(f"/sys/block/zram{free}"))
            self.disk(f"zram{number}", 0)
            return str(number)
        return super().read_text(path, default)

    def wrote(self, path: str, text: str) -> None:
        if path.endswith("/disksize"):
            self.disk(path.split("/")[3], int(text))
        elif path.endswith("/hot_remove"):
            self.gone(f"zram{text}")
        else:
            assert re.fullmatch(r"/sys/block/zram\d/reset", path), path

    def command(self, argv: list):
        if argv[:2] == ["modprobe", "brd"]:
            given = dict(part.split("=") for part in argv[2:])
            for key, value in given.items():
                self.write(f"/sys/module/brd/parameters/{key}", value)
            for number in range(int(given["rd_nr"])):
                self.disk(f"ram{number}", int(given["rd_size"]) * 1024)
        elif argv[0] == "modprobe":
            self.write({"zram": "/sys/class/zram-control/hot_add", "loop": "/dev/loop-control"}[argv[1]])
        elif argv[0] == "addpart":
            assert argv[2:4] == ["1", "0"]
            self.disk(f"{os.path.basename(argv[1])}p1", int(argv[4]) * 512)
        elif argv == ["rmmod", "brd"]:
            self.modules.discard("brd")
            self.remove("/sys/module/brd")
            for name in os.listdir(self.real("/sys/class/block")):
                if name.startswith("ram"):
                    self.gone(name)
        elif argv[0] in ("mount", "umount"):
            assert argv[-1] == f"{self.home}/ramdisk"
            self.mounted = argv[0] == "mount"
        elif argv[:3] == ["losetup", "--find", "--show"]:
            name = f"loop{len(self.done)}"
            self.disk(name, os.stat(argv[3]).st_size)
            self.write(f"/sys/block/{name}/loop/backing_file", argv[3])
            self.write(f"/sys/block/{name}/loop/dio", "0")
            return f"/dev/{name}\n"
        elif argv[:2] == ["losetup", "--direct-io=on"]:
            self.write(f"/sys/block/{os.path.basename(argv[2])}/loop/dio", "1")
        elif argv[:2] == ["losetup", "--detach"]:
            self.gone(os.path.basename(argv[2]))
        else:
            return super().command(argv)


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    return Kernel(monkeypatch, tmp_path)


def call(disks=BOTH, state="present", check_mode=False, **more) -> dict:
    return converge(
        ramdisk.Area, {"testbed_id": "unit", "state": state, "provider": "auto", "disks": disks, **more}, check_mode
    )


def paths(result) -> dict:
    return {layer["name"]: layer["path"] for layer in result["layers"]}


def test_brd_disks_have_their_exact_size_and_go_with_the_module(kernel):
    wanted = {"backing-a": "/dev/ram0p1", "backing-b": "/dev/ram1"}
    foreseen = call(check_mode=True)
    assert (foreseen["changed"], paths(foreseen), kernel.done) == (True, wanted, [])
    made = call()
    assert (made["provider"], made["provider_reason"], paths(made)) == ("brd", "best available", wanted)
    assert made["layers"][0]["identity"] == {"stamp": "unit/a", "size_bytes": 3 * MIB, "whole_device": "/dev/ram0"}
    assert "whole_device" not in made["layers"][1]["identity"]
    assert {name: block_device.size_bytes(path) for name, path in wanted.items()} == {
        "backing-a": 3 * MIB,
        "backing-b": 5 * MIB,
    }
    assert kernel.read_text("/sys/module/brd/parameters/rd_size") == "5120"
    again = call()
    assert (again["changed"], again["steps"], again["layers"]) == (False, [], made["layers"])
    assert call(state="absent", check_mode=True)["changed"] is True and "brd" in kernel.modules
    assert [step["op"] for step in call(state="absent")["steps"]] == ["remove", "remove"]
    assert kernel.modules == {"ext4"} and not kernel.has(kernel.home)
    assert call(state="absent")["changed"] is False


def test_zram_disks_are_added_and_removed_one_by_one(kernel):
    kernel.available -= {"brd", "loop"}
    made = call()
    assert (made["provider"], paths(made)) == ("zram", {"backing-a": "/dev/zram1", "backing-b": "/dev/zram2"})
    assert "no module brd" in made["provider_reason"] and "no loop devices" in made["provider_reason"]
    assert kernel.done == [f"{3 * MIB} > /sys/block/zram1/disksize", f"{5 * MIB} > /sys/block/zram2/disksize"]
    kernel.done.clear()
    less = call(BOTH[1:])
    assert [(step["op"], step["disk"]) for step in less["steps"]] == [("remove", "a")]
    assert paths(less) == {"backing-b": "/dev/zram2"}
    assert kernel.done == ["1 > /sys/block/zram1/reset", "1 > /sys/class/zram-control/hot_remove"]
    # One that somebody took away meanwhile is made anew, and says that it is another.
    kernel.gone("zram2")
    made = call(BOTH[1:])
    assert paths(made) == {"backing-b": "/dev/zram1"}
    assert made["layers"][0]["detail"]["generation"] != less["layers"][0]["detail"]["generation"]


def test_files_on_a_tmpfs_become_loop_devices(kernel):
    kernel.folder("/sys/module/brd")
    made = call()
    assert made["provider"] == "tmpfs" and "not by this testbed" in made["provider_reason"]
    assert [layer["detail"]["direct_io"] for layer in made["layers"]] == [True, True]
    files = {name: os.stat(f"{kernel.home}/ramdisk/{name}.img") for name in "ab"}
    assert {name: (found.st_size, found.st_blocks * 512 >= found.st_size) for name, found in files.items()} == {
        "a": (3 * MIB, True),
        "b": (5 * MIB, True),
    }
    assert call()["changed"] is False
    # Somebody else's file on the same memory keeps it mounted.
    kernel.write(f"{kernel.home}/ramdisk/theirs", "kept")
    less = call(BOTH[:1])
    assert paths(less) == {"backing-a": paths(made)["backing-a"]} and kernel.mounted
    assert sorted(os.listdir(f"{kernel.home}/ramdisk")) == ["a.img", "theirs"]
    kernel.remove(f"{kernel.home}/ramdisk/theirs")
    call(state="absent")
    assert not kernel.mounted and not kernel.has(kernel.home)


def test_a_device_of_another_size_is_refused_and_known(kernel):
    kernel.short = 512
    with broken_off() as caught:
        call(BOTH[1:])
    details = caught.value.details
    assert (caught.value.code, details["size_bytes"], details["expected_bytes"]) == (
        "wrong_size",
        5 * MIB - 512,
        5 * MIB,
    )
    # The record names it, so it goes.
    assert json.loads(kernel.read_text(f"{kernel.home}/ramdisk.json"))["disks"]["b"]["path"] == "/dev/ram0"
    call(state="absent")
    assert "brd" not in kernel.modules and not kernel.has("/dev/ram0")


def test_a_kernel_without_any(kernel):
    kernel.available.clear()
    with refused(Path(kernel.root), kernel.done) as caught:
        call()
    assert caught.value.code == "provider_unavailable"
    assert all(f"no {what}" in str(caught.value) for what in ("module brd", "loop devices", "module zram"))
    assert not kernel.has(kernel.home)


def test_memory_that_is_not_there(kernel):
    # Of 200 MiB, 48 stay.
    with refused(Path(kernel.root), kernel.done) as caught:
        call([{**BOTH[0], "size_mib": 153}])
    assert (caught.value.code, caught.value.details["needed_bytes"]) == ("not_enough_memory", 153 * MIB)
    assert kernel.done == [] and not kernel.has(kernel.home)
    assert call([{**BOTH[0], "size_mib": 152}])["changed"] is True
    # Another size takes the place of the first one.
    kernel.write("/proc/meminfo", "MemAvailable: 61440 kB\n")
    assert call([{**BOTH[0], "size_mib": 160}])["changed"] is True
    kernel.write("/proc/meminfo", "MemFree: 4 kB\n")
    assert call([{**BOTH[0], "size_mib": 999}], check_mode=True)["changed"] is True


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_disk_in_use_stays(kernel, check_mode):
    call()
    before = kernel.read_text(f"{kernel.home}/ramdisk.json")
    kernel.uses = {"/dev/ram1": ["mounted on /mnt"], "/dev/ram0p1": []}
    kernel.done.clear()
    with refused(Path(kernel.root), kernel.done) as caught:
        call(state="absent", check_mode=check_mode)
    assert (caught.value.code, caught.value.details["path"]) == ("device_mounted", "/dev/ram1")
    assert (kernel.done, kernel.read_text(f"{kernel.home}/ramdisk.json")) == ([], before)
    kernel.uses = {"/dev/ram0p1": ["held by dm-3"]}
    with refused(Path(kernel.root), kernel.done) as caught:
        call(BOTH[:1])
    assert (caught.value.code, kernel.done) == ("device_in_use", [])


# ---------------------------------------------------------------- a run that is killed


class Killed(BaseException):
    """The end of the process: nothing of it runs after that, no cleaning up and no record."""


def kill_after(kernel, monkeypatch, number: int) -> list:
    """Let the next run be killed right after its so-many-th change to the host; the changes that it came to."""
    changes: list = []
    dead = []

    def deadly(function):
        def changed(*arguments, **named):
            if dead:
                raise Killed
            answer = function(*arguments, **named)
            path = str(arguments[0]) if arguments else ""
            if function != kernel.read_text or path.endswith("hot_add"):
                changes.append(path)
                if len(changes) == number:
                    dead.append(path)
                    raise Killed
            return answer

        return changed

    for module in (ramdisk, record):
        for name in ("run", "write_text", "load_module", "read_text", "write_json"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, deadly(getattr(module, name)))
    return changes


@pytest.mark.parametrize("number", range(1, 14))
@pytest.mark.parametrize("provider", ["brd", "zram", "tmpfs"])
@pytest.mark.parametrize("next_run", ["absent", "present"])
def test_a_module_that_a_killed_build_has_loaded_goes(kernel, provider, number, next_run):
    """Noted before it is loaded, whenever the build is killed; a module that was there stays."""
    before = set(kernel.modules)
    with pytest.MonkeyPatch.context() as patch:
        changes = kill_after(kernel, patch, number)
        try:
            call(provider=provider)
        except Killed:
            assert len(changes) == number
    if next_run == "present":
        call(provider=provider)
    assert before < kernel.modules or next_run == "absent"
    call(state="absent")
    assert kernel.modules == before and not kernel.has(kernel.home)


@pytest.mark.parametrize("number", range(1, 14))
@pytest.mark.parametrize("provider", ["brd", "zram", "tmpfs"])
@pytest.mark.parametrize("next_run", ["absent", "present"])
def test_what_a_killed_build_has_made_is_ours(kernel, provider, number, next_run):
    """Of zram the kernel chooses the number: a device that came between the call and its record is taken while it is empty."""
    kernel.disk("zram1", 7 * MIB)
    kernel.write("/sys/class/zram-control/hot_add")
    kernel.modules.add("zram")
    with pytest.MonkeyPatch.context() as patch:
        changes = kill_after(kernel, patch, number)
        try:
            call(provider=provider)
        except Killed:
            assert len(changes) == number
    if next_run == "present":
        made = call(provider=provider)
        assert {layer["size_bytes"] for layer in made["layers"]} == {3 * MIB, 5 * MIB}
        assert call(provider=provider)["changed"] is False
    call(state="absent")
    there = {name for name in os.listdir(kernel.real("/sys/block")) if name.startswith(("zram", "ram"))}
    assert (there, kernel.mounted, kernel.has(kernel.home)) == ({"zram1"}, False, False)
    assert not any(kernel.has(f"/sys/block/{name}/loop/backing_file") for name in there) and "brd" not in kernel.modules


def test_an_empty_zram_device_of_somebody_else_is_not_taken(kernel):
    """It was there before, or it has a size by now, or two came and nobody can tell which is ours."""
    for others in (("zram1",), ("zram1", "zram2")):
        for name in others:
            kernel.disk(name, 0)
        kernel.write("/sys/class/zram-control/hot_add")
        kernel.modules.add("zram")
        disks = ramdisk.RamDisks("unit")
        before = sorted(others[:1]) if len(others) == 1 else []
        disks.record.data.update(provider="zram", order=["a"], disks={}, zram_before=before)
        disks.record.save()
        call(state="absent")
        assert set(os.listdir(kernel.real("/sys/block"))) >= set(others)
        assert not kernel.has(kernel.home)
