# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks: choice of the provider, the plan, exact sizes, and real loop devices on a tmpfs."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import block_device, ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure

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
    assert steps(both, {"provider": "tmpfs", "disks": {"b": 7 * MIB, "c": MIB}}) == [("remove", "a"), ("remove", "b"), ("create", "b"), ("create", "c")]
    assert steps(both, {"provider": "zram", "disks": both["disks"]}) == [("remove", "a"), ("remove", "b"), ("create", "a"), ("create", "b")]
    assert steps(both, NOTHING) == [("remove", "a"), ("remove", "b")]


def test_brd_disks_come_and_go_together():
    one = {"provider": "brd", "disks": {"a": 3 * MIB}}
    assert steps(one, {"provider": "brd", "disks": {"a": 3 * MIB, "b": 3 * MIB}}) == [("remove", "a"), ("create", "a"), ("create", "b")]


def test_brd_disks_are_exact():
    assert ramdisk.brd_layout({"a": 3 * MIB, "b": 5 * MIB, "c": 5 * MIB}) == (
        5 * 1024,
        {"a": ("/dev/ram0", "/dev/ram0p1"), "b": ("/dev/ram1",) * 2, "c": ("/dev/ram2",) * 2},
    )


@pytest.mark.parametrize("disks", [[{"name": "a", "size_mib": 0}], [{"name": "a", "size_mib": 1}, {"name": "a", "size_mib": 2}]])
def test_bad_disks(disks):
    with pytest.raises(Failure) as caught:
        ramdisk.check_disks(disks)
    assert caught.value.code == "bad_value"


@pytest.fixture
def real(tmp_path, monkeypatch):
    """RAM disks of a testbed of its own, on this host; needs root and loop devices."""
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    assert os.path.exists("/dev/loop-control"), "this kernel has no loop devices: run the tests on one that has"
    monkeypatch.setattr(ramdisk, "Record", lambda testbed, area: _record(testbed, area, str(tmp_path / "run")))
    yield lambda: ramdisk.RamDisks("unit")
    ramdisk.RamDisks("unit").remove_all()
    assert not (tmp_path / "run").exists()


def _record(testbed, area, run_dir):
    from ansible_collections.storlab.testbed.plugins.module_utils.host import Record

    return Record(testbed, area, run_dir)


def build(disks, sizes):
    wanted = {"provider": "tmpfs", "disks": sizes}
    found = ramdisk.plan(disks.current(), wanted)
    disks.apply(found, "tmpfs", sizes)
    return found


def test_real_disks_are_exact_kept_and_repaired(real):
    build(real(), {"a": 3 * MIB, "b": 5 * MIB})
    layers = {
        layer["name"]: layer
        for layer in real().layers([{"name": "a", "size_mib": 3, "purpose": "scratch"}, {"name": "b", "size_mib": 5, "purpose": "data"}], "tmpfs")
    }
    path = layers["backing-b"]["path"]
    assert block_device.size_bytes(path) == layers["backing-b"]["size_bytes"] == 5 * MIB
    assert layers["backing-b"]["identity"] == {"stamp": "unit/b", "size_bytes": 5 * MIB, "major_minor": block_device.device_numbers(path)}
    assert build(real(), {"a": 3 * MIB, "b": 5 * MIB}) == []
    ramdisk.run(["losetup", "--detach", path])
    ramdisk.wait_for(lambda: real().current()["disks"] == {"a": 3 * MIB}, timeout_s=5)
    before = {name: disk["generation"] for name, disk in real().record.data["disks"].items()}
    assert [(step["op"], step["disk"]) for step in build(real(), {"a": 3 * MIB, "b": 5 * MIB})] == [("create", "b")]
    after = {name: disk["generation"] for name, disk in real().record.data["disks"].items()}
    assert after["a"] == before["a"] and after["b"] != before["b"]


def test_a_real_disk_in_use_is_not_removed(real):
    build(real(), {"a": 3 * MIB})
    path = real().record.data["disks"]["a"]["path"]
    holder = ramdisk.run(["losetup", "--find", "--show", path]).stdout.strip()
    try:
        with pytest.raises(Failure) as caught:
            real().remove_all()
        assert caught.value.code == "device_in_use" and os.path.basename(holder) in str(caught.value)
        assert real().current()["disks"] == {"a": 3 * MIB}
    finally:
        ramdisk.run(["losetup", "--detach", holder])
        ramdisk.wait_for(lambda: not block_device.users(path), timeout_s=5)
