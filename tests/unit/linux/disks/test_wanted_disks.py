# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of the disks and mount points that an inventory names."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import (
    device_safety,
    disk_serial,
    proven_disk,
    wanted_disks,
)

DISKS = {
    "/dev/sda": {"serial": "S1", "naa": "6001405a"},
    "/dev/sdb": {"serial": "S2", "wwid": "naa.5000c"},
    "/dev/sdc": {"serial": "S2"},
}


class System(device_safety.System):
    def resolve(self, path: str) -> str:
        return {"/dev/disk/by-id/one": "/dev/sda"}.get(path, path)

    def names(self, path: str) -> list:
        return [name.rpartition("/")[2] for name in DISKS] if path == "/sys/block" else []


@pytest.fixture
def system(monkeypatch):
    def identity(path, _system=None):
        facts = DISKS.get(path)
        return {"path": path, "type": "block", "mapped": False, **facts} if facts else {"path": path, "type": "missing"}

    monkeypatch.setattr(device_safety, "identity", identity)
    return System()


@pytest.mark.parametrize(
    ("given", "paths", "kind"),
    [
        ({"path": "/dev/sda", "serial": "S1"}, ["/dev/sda"], "block"),
        ({"path": "/dev/disk/by-id/one", "naa": "naa.6001405a"}, ["/dev/sda"], "block"),
        ({"path": "/dev/sda", "serial": "S2"}, [], "block"),
        ({"path": "/dev/sdb", "serial": "S2", "wwid": "naa.5000d"}, [], "block"),
        ({"path": "/dev/sdz", "serial": "S1"}, [], "missing"),
        ({"serial": "S1"}, ["/dev/sda"], ""),
        ({"serial": "S2"}, ["/dev/sdb", "/dev/sdc"], ""),
        ({"serial": "S2", "wwid": "naa.5000c"}, ["/dev/sdb"], ""),
        ({"serial": "S3"}, [], ""),
        # By hand a role may name a device alone; whether that is proven, the device guard asks.
        ({"path": "/dev/sdb"}, ["/dev/sdb"], "block"),
    ],
)
def test_disks_are_looked_up_by_what_is_said_of_them(system, given, paths, kind):
    answer = proven_disk.look_up({"variable": "v", "uuid": "", **given}, system)
    assert (answer["paths"], answer["type"], answer["variable"]) == (paths, kind, "v")
    shows = DISKS.get(system.resolve(given.get("path", "")), {})
    # A WWID differs among kernels, so it is shown where nothing else is, or it was asked for.
    assert answer["shows"] == {key: value for key, value in shows.items() if key != "wwid" or "wwid" in given}


def test_what_can_be_a_mount_point_and_what_is_in_the_way(tmp_path):
    file, full, empty = tmp_path / "file", tmp_path / "full", tmp_path / "empty"
    file.write_text("", encoding="utf-8")
    (full / "x").mkdir(parents=True)
    empty.mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    before = sorted(os.listdir(tmp_path))
    for path, answer in {
        empty: {},
        tmp_path / "a" / "b": {},
        full: {"problem": "not_empty", "at": str(full)},
        file: {"problem": "below_file", "at": str(file)},
        file / "x" / "y": {"problem": "below_file", "at": str(file)},
        tmp_path / "nowhere" / "x": {"problem": "below_file", "at": str(tmp_path / "nowhere")},
        "/proc/storlab/x": {"problem": "no_folders", "at": "/proc"},
        "/proc": {},
    }.items():
        assert mounts.no_place(str(path)) == answer, path
    assert sorted(os.listdir(tmp_path)) == before, "nothing was made"


def test_a_file_system_that_is_mounted_read_only(tmp_path, monkeypatch):
    answer = os.statvfs(tmp_path)
    fields = list(answer)
    fields[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(fields))
    assert mounts.no_place(str(tmp_path / "x"))["problem"] == "read_only"


def test_a_mount_of_a_server_that_is_silent_is_not_touched(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text("22 1 0:44 / /srv/storlab/ds rw - nfs4 192.0.2.11:/x rw\n", encoding="utf-8")
    for name in ("stat", "lstat", "statvfs", "listdir", "access"):
        monkeypatch.setattr(os, name, lambda *_arguments: pytest.fail("it was asked"))
    assert mounts.no_place("/srv/storlab/ds", str(table)) == mounts.no_place("/srv/storlab/ds/y", str(table)) == {}


def test_a_folder_that_the_user_may_not_write(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    assert mounts.no_place(str(tmp_path / "x")) == {"problem": "not_permitted", "at": str(tmp_path)}


@pytest.mark.parametrize(("code", "problem"), [(13, "not_permitted"), (40, "unusable"), (36, "unusable")])
def test_whatever_the_system_refuses_is_no_traceback(tmp_path, monkeypatch, code, problem):
    def refuse(_path):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "statvfs", refuse)
    assert mounts.no_place(str(tmp_path / "x")) == {"problem": problem, "at": str(tmp_path)}


FREE = {
    "path": "/dev/vdb",
    "resolved": "/dev/vdb",
    "type": "block",
    "size_bytes": 1 << 30,
    "major_minor": "253:16",
    "claim": None,
    "mapped": False,
    "signature": {},
    "read_only": False,
    "partition": False,
    "whole_device": "/dev/vdb",
    "above": [],
    "claimed_above": [],
    "holders_above": [],
    "openers": [],
    **{key: [] for key in ("mounts", "partitions", "holders", "loops", "exports")},
    "swap": False,
}


@pytest.mark.parametrize(
    ("facts", "taken"),
    [
        ({}, False),
        # The disk of the host that a container runs on: no partition, no mount that is seen here, and the kernel gives it to nobody.
        ({"claim": "EBUSY", "signature": {"TYPE": "ext4"}}, True),
        ({"claim": "EBUSY"}, True),
        ({"signature": {"TYPE": "xfs"}}, True),
        ({"type": "missing"}, True),
        ({"type": "unknown", "claim": "EPERM"}, True),
        ({"exports": [{"software": "LIO", "name": "x", "serial": "y", "device": "/dev/vdb", "claims": []}]}, True),
    ],
)
def test_a_disk_that_somebody_has_is_not_called_unused(monkeypatch, facts, taken):
    monkeypatch.setattr(device_safety, "inspect", lambda _path: {**FREE, **facts})
    assert wanted_disks.taken("/dev/vdb") is taken


def test_disks_are_looked_at_one_by_one_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(wanted_disks, "disks", lambda: [{"path": "/dev/sda"}])
    assert wanted_disks.look([], [], False) == {"disks": [], "named": [], "folders": {}}
    assert wanted_disks.look([], ["/proc"], True) == {
        "disks": [{"path": "/dev/sda"}],
        "named": [],
        "folders": {"/proc": {}},
    }


def test_a_path_that_the_kernel_joined_to_an_nvme_disk_is_none(tmp_path):
    """As Linux 6.1.0 shows a disk over NVMe/TCP: its head and a path, which has no node in /dev."""
    for name, hidden in (("nvme0n1", "0"), ("nvme0c0n1", "1")):
        (tmp_path / name / "device").mkdir(parents=True)
        for attribute, text in (("hidden", hidden), ("size", "8"), ("device/serial", "SUB")):
            (tmp_path / name / attribute).write_text(f"{text}\n")
    disks = wanted_disks.disks(str(tmp_path), str(tmp_path / "no table"), held=lambda path: False)
    assert [disk["path"] for disk in disks] == ["/dev/nvme0n1"]
    assert disk_serial.disks(str(tmp_path)) == [("/dev/nvme0n1", "SUB", 4096)]
