# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks made here, of the provider that needs no module of the kernel: tmpfs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from places import ROOT
from unchanged import refused

MIB = 1 << 20


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
    from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record

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
        for layer in real().layers(
            [{"name": "a", "size_mib": 3, "purpose": "scratch"}, {"name": "b", "size_mib": 5, "purpose": "data"}],
            "tmpfs",
        )
    }
    path = layers["backing-b"]["path"]
    assert block_device.size_bytes(path) == layers["backing-b"]["size_bytes"] == 5 * MIB
    assert layers["backing-b"]["identity"] == {
        "stamp": "unit/b",
        "size_bytes": 5 * MIB,
        "major_minor": block_device.device_numbers(path),
    }
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
        with refused(lambda: real().current(), lambda: real().record.data) as caught:
            real().remove_all()
        assert caught.value.code == "device_in_use" and os.path.basename(holder) in str(caught.value)
    finally:
        ramdisk.run(["losetup", "--detach", holder])
        ramdisk.wait_for(lambda: not block_device.users(path), timeout_s=5)


@pytest.fixture
def group():
    """A control group with a memory limit: (its folder, the file of the limit); what was in it has ended."""
    names = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}
    for mount in mounts.read():
        folder = os.path.join(mount["mount_point"], f"storlab-test-{os.getpid()}")
        limit = os.path.join(folder, names.get(mount["filesystem"], ""))
        if mount["filesystem"] not in names:
            continue
        try:
            os.mkdir(folder)
        except OSError:
            continue  # a container may not make one there
        if os.path.exists(limit):
            yield folder, limit
            os.rmdir(folder)
            return
        os.rmdir(folder)
    pytest.skip("no control group with a memory limit can be made on this machine")


def test_a_disk_larger_than_the_limit_of_the_control_group_is_refused(group, tmp_path):
    """In a process of its own: without the refusal, the kernel would kill it."""
    folder, limit = group
    with open(limit, "w", encoding="ascii") as handle:
        handle.write(str(300 * MIB))
    source = (
        "import os, sys\n"
        f"open({os.path.join(folder, 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        "from conftest import ROOT\n"
        "from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure\n"
        "from ansible_collections.storlab.testbed.plugins.module_utils.linux import record\n"
        "from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge\n"
        "from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk\n"
        f"ramdisk.Record = lambda testbed, area: record.Record(testbed, area, {str(tmp_path / 'run')!r})\n"
        "disks = [{'name': 'a', 'size_mib': 400, 'purpose': 'scratch'}]\n"
        "try:\n"
        "    converge(ramdisk.Area, {'testbed_id': 'unit', 'state': 'present', 'provider': 'tmpfs', 'disks': disks}, False)\n"
        "except Failure as failure:\n"
        "    print(failure.code, failure)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT / "tests", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not_enough_memory ") and f"limit of 300 MiB ({limit})" in done.stdout
    assert not (tmp_path / "run").exists()
