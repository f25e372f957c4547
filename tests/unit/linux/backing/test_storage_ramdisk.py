# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks: choice of the provider, the plan, exact sizes, and real loop devices on a tmpfs."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk

MIB = 1 << 20
NO_BRD = {"brd": ("brd_in_use", "taken by another")}
NOTHING = {"provider": None, "disks": {}}


def test_auto_takes_the_best_and_says_what_it_passed_over():
    assert ramdisk.choose("auto", {}, None)[0] == "brd"
    provider, reason = ramdisk.choose("auto", NO_BRD, None)
    assert provider == "tmpfs" and "taken by another" in reason
    assert ramdisk.choose("auto", {**NO_BRD, "tmpfs": ("x", "no loop")}, None)[0] == "zram"


def test_auto_stays_with_what_is_in_use():
    assert ramdisk.choose("auto", {}, "zram")[0] == "zram"


def test_a_provider_that_cannot_be_used_is_refused_with_a_remedy():
    with pytest.raises(Failure, match="tmpfs or zram") as caught:
        ramdisk.choose("brd", NO_BRD, None)
    assert caught.value.code == "brd_in_use"
    with pytest.raises(Failure) as caught:
        ramdisk.choose("auto", {name: ("x", f"no {name}") for name in ramdisk.PROVIDERS}, None)
    assert caught.value.code == "provider_unavailable" and "no zram" in str(caught.value)


def steps(current, desired):
    return [(step["op"], step["disk"]) for step in ramdisk.plan(current, desired)]


def test_plan():
    both = {"provider": "tmpfs", "disks": {"a": 3 * MIB, "b": 5 * MIB}}
    assert steps(NOTHING, both) == [("create", "a"), ("create", "b")]
    assert steps(both, both) == []
    assert steps(both, {"provider": "tmpfs", "disks": {"b": 7 * MIB, "c": MIB}}) == [
        ("remove", "a"),
        ("remove", "b"),
        ("create", "b"),
        ("create", "c"),
    ]
    assert steps(both, {"provider": "zram", "disks": both["disks"]}) == [
        ("remove", "a"),
        ("remove", "b"),
        ("create", "a"),
        ("create", "b"),
    ]
    assert steps(both, NOTHING) == [("remove", "a"), ("remove", "b")]


def test_brd_disks_come_and_go_together():
    one = {"provider": "brd", "disks": {"a": 3 * MIB}}
    assert steps(one, {"provider": "brd", "disks": {"a": 3 * MIB, "b": 3 * MIB}}) == [
        ("remove", "a"),
        ("create", "a"),
        ("create", "b"),
    ]


def test_brd_disks_are_exact():
    assert ramdisk.brd_layout({"a": 3 * MIB, "b": 5 * MIB, "c": 5 * MIB}) == (
        5 * 1024,
        {"a": ("/dev/ram0", "/dev/ram0p1"), "b": ("/dev/ram1",) * 2, "c": ("/dev/ram2",) * 2},
    )


@pytest.mark.parametrize(
    "disks", [[{"name": "a", "size_mib": 0}], [{"name": "a", "size_mib": 1}, {"name": "a", "size_mib": 2}]]
)
def test_bad_disks(disks):
    with pytest.raises(Failure) as caught:
        ramdisk.check_disks(disks)
    assert caught.value.code == "bad_value"


class Kernel:
    """Answers for what the kernel shows of brd and zram, and notes what is asked of it."""

    def __init__(self, patched, sizes, parameters):
        self.done = []
        shown = ("/sys/module/brd", "/sys/block/zram")
        patched.setattr(ramdisk.os.path, "isdir", lambda path: path.startswith(shown))
        patched.setattr(ramdisk.block_device, "size_bytes", lambda path: sizes.get(os.path.basename(path)))
        patched.setattr(
            ramdisk, "read_text", lambda path, default=None: parameters.get(os.path.basename(path), default)
        )
        patched.setattr(ramdisk, "write_text", lambda path, text: self.done.append(f"{text} > {path}"))
        patched.setattr(ramdisk, "run", lambda argv, **_rest: self.done.append(" ".join(argv)))


def removed(monkeypatch, disk, sizes=None, parameters=None, **record):
    """What is done to the kernel when this recorded disk is removed."""
    kept = SimpleNamespace(data={"disks": {"a": disk}, **record}, folder="/nowhere", save=lambda: None)
    monkeypatch.setattr(ramdisk, "Record", lambda testbed, area: kept)
    mine = ramdisk.RamDisks("unit")
    with monkeypatch.context() as patched:
        kernel = Kernel(patched, sizes or {}, parameters or {})
        mine._remove(["a"])
    assert kept.data["disks"] == {}
    return kernel.done


def test_a_zram_device_that_took_the_place_of_ours_is_left_alone(monkeypatch):
    def gone(size):
        disk = {"provider": "zram", "path": "/dev/zram3", "size_bytes": 3 * MIB}
        return removed(monkeypatch, disk, {"zram3": size})

    # One that was killed before it got its size has none.
    assert gone(3 * MIB) == gone(0) == ["1 > /sys/block/zram3/reset", "3 > /sys/class/zram-control/hot_remove"]
    assert gone(5 * MIB) == []


def test_brd_that_somebody_else_has_loaded_since_is_left_alone(monkeypatch):
    disk = {"provider": "brd", "path": "/dev/ram0", "whole": "/dev/ram0", "size_bytes": 3 * MIB}

    def gone(**parameters):
        return removed(monkeypatch, disk, parameters=parameters, brd={"rd_nr": "2", "rd_size": "3072"})

    assert gone(rd_nr="2", rd_size="3072") == ["rmmod brd"]
    assert gone(rd_nr="16", rd_size="3072") == gone(rd_nr="2", rd_size="65536") == gone() == []
