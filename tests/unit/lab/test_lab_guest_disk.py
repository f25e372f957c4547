# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import disk_image, nbd
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import disk_serial

MIB = 1048576
PATH = "/srv/storlab/ds1/storlab-a-guest01.img"
EMPTY = {
    "mount_point": "/srv/storlab/ds1",
    "size_bytes": None,
    "allocated_bytes": None,
    "regular": None,
    "free_bytes": 64 * MIB,
}
THERE = {**EMPTY, "size_bytes": 48 * MIB, "allocated_bytes": 48 * MIB, "regular": True}


@pytest.mark.parametrize(
    ("seen", "size_bytes", "steps"),
    [
        (EMPTY, 48 * MIB, ["create"]),
        (THERE, 48 * MIB, []),
        (THERE, None, ["remove"]),
        (EMPTY, None, []),
        ({**EMPTY, "mount_point": None}, None, []),
    ],
)
def test_an_image_is_made_once_and_removed_once(seen, size_bytes, steps):
    assert disk_image.plan(PATH, seen, size_bytes) == steps


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ({**EMPTY, "mount_point": None}, "no_datastore"),
        ({**EMPTY, "mount_point": "/"}, "no_datastore"),
        ({**EMPTY, "free_bytes": 48 * MIB - 1}, "datastore_full"),
        ({**THERE, "size_bytes": 47 * MIB}, "size_differs"),
        ({**THERE, "regular": False}, "not_an_image"),
    ],
)
def test_nothing_is_overwritten_or_written_beside_the_datastore(seen, code):
    with pytest.raises(Failure) as caught:
        disk_image.plan(PATH, seen, 48 * MIB)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("path", "stamp", "size_bytes"),
    [
        ("/srv/storlab-b-guest01.img", "storlab-a-", MIB),
        ("relative/storlab-a-x.img", "storlab-a-", MIB),
        ("/srv/guest01.img", "", MIB),
        ("/srv/guest01.img", "guest", MIB),
        (PATH, "storlab-a-", MIB + 512),
        (PATH, "storlab-a-", 0),
    ],
)
def test_only_stamped_files_of_whole_blocks_are_taken(path, stamp, size_bytes):
    with pytest.raises(Failure) as caught:
        disk_image.check(path, stamp, size_bytes)
    assert caught.value.code == "bad_value"


def test_an_image_has_its_exact_size_and_no_hole(tmp_path):
    path = str(tmp_path / "storlab-a-guest01.img")
    (tmp_path / "storlab-a-guest01.img.part").write_bytes(b"left by a killed build")
    disk_image.apply(path, ["create"], 3 * MIB)
    info = os.stat(path)
    assert info.st_size == 3 * MIB
    assert info.st_blocks * 512 >= 3 * MIB
    content = (tmp_path / "storlab-a-guest01.img").read_bytes()
    assert all(any(content[at : at + 4096]) for at in range(0, 3 * MIB, 4096))
    assert os.listdir(tmp_path) == ["storlab-a-guest01.img"]
    disk_image.apply(path, ["remove"], None)
    assert os.listdir(tmp_path) == []


def test_removing_takes_a_half_written_image_too(tmp_path):
    (tmp_path / "storlab-a-x.img.part").write_bytes(b"half")
    disk_image.apply(str(tmp_path / "storlab-a-x.img"), [], None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "address", "port", "variable"),
    [
        ("a b", "10.0.0.1", 10809, "name"),
        ("a/../b", "10.0.0.1", 10809, "name"),
        ("e", "0.0.0.0", 10809, "address"),  # noqa: S104 - what is refused
        ("e", "::", 10809, "address"),
        ("e", "hypervisor01", 10809, "address"),
        ("e", "10.0.0.1", 0, "port"),
        ("e", "10.0.0.1", 65536, "port"),
    ],
)
def test_an_export_never_listens_everywhere(name, address, port, variable):
    with pytest.raises(Failure) as caught:
        nbd.check(name, address, port)
    assert caught.value.details["variable"] == variable


def test_an_export_is_one_file_at_one_address():
    argv = nbd.build_argv("storlab-a-guest01", PATH, "10.213.0.12", 10811, "native")
    assert argv[-1] == PATH
    pairs = dict(zip(argv, argv[1:]))
    assert (pairs["--bind"], pairs["--port"], pairs["--export-name"]) == ("10.213.0.12", "10811", "storlab-a-guest01")
    assert {"--persistent", "--fork", "--cache=none", "--aio=native", "--format=raw"} <= set(argv)


@pytest.mark.parametrize(
    ("current", "state", "steps"),
    [
        ({"pid": None, "as_wanted": False, "problem": None}, "present", ["start"]),
        ({"pid": 5, "as_wanted": True, "problem": None}, "present", []),
        ({"pid": 5, "as_wanted": False, "problem": None}, "present", ["stop", "start"]),
        ({"pid": 5, "as_wanted": True, "problem": "replaced"}, "present", ["stop", "start"]),
        ({"pid": 5, "as_wanted": True, "problem": None}, "released", []),
        ({"pid": 5, "as_wanted": True, "problem": "replaced"}, "released", ["stop"]),
        ({"pid": None, "as_wanted": False, "problem": None}, "released", []),
        ({"pid": 5, "as_wanted": True, "problem": None}, "absent", ["stop"]),
        ({"pid": None, "as_wanted": False, "problem": None, "left": False}, "absent", []),
        ({"pid": None, "as_wanted": False, "problem": None, "left": True}, "absent", ["stop"]),
    ],
)
def test_an_export_is_ended_only_for_a_reason(current, state, steps):
    assert nbd.plan(current, state) == steps


def test_a_file_that_took_the_place_of_the_served_one_is_noticed(tmp_path):
    path = tmp_path / "disk.img"
    path.write_bytes(b"one")
    with open(path, "rb"):
        fd_path = nbd.served_fd(os.getpid(), str(path))
        assert nbd.same_file(fd_path, str(path)) is True
        path.unlink()
        assert nbd.served_fd(os.getpid(), str(path)) is not None
        assert nbd.same_file(fd_path, str(path)) is False
        path.write_bytes(b"two")
        assert nbd.same_file(fd_path, str(path)) is False
    assert nbd.served_fd(os.getpid(), str(path)) is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\0" * 0x438 + b"\x53\xef" + b"\0" * 8192, None),
        (b"\0" * 8192, "no longer holds the ext4"),
        (None, "cannot be read"),
    ],
)
def test_a_disk_that_was_replaced_under_a_file_system_is_noticed(monkeypatch, content, problem):
    folder = {"mount_point": "/", "filesystem": "ext4", "source": "/dev/sdx"}
    monkeypatch.setattr(nbd.mounts, "read", lambda: [folder])
    monkeypatch.setattr(
        nbd, "read_direct", lambda path, offset, length, timeout_s: content and content[offset : offset + length]
    )
    found = nbd.storage_problem(PATH)
    assert found is None if problem is None else problem in found


def test_storage_is_read_past_the_caches(root):
    # The folder of the checkout lies on a disk, which can be read so; what cannot be read gives nothing.
    path = root / "LICENSE"
    assert nbd.read_direct(str(path), 20, 26, 5.0) == path.read_bytes()[20:46]
    assert nbd.read_direct("/storlab-none", 0, 4, 5.0) is None


DISKS = [
    ("/dev/vda", "storlab-root", 9 * MIB),
    ("/dev/vdb", "storlab-0123456789ab", 48 * MIB),
    ("/dev/vdc", "", 5 * MIB),
]


def test_a_disk_is_found_by_serial_wherever_it_is():
    assert disk_serial.pick(DISKS, "storlab-0123456789ab", 48 * MIB) == "/dev/vdb"
    assert disk_serial.pick(DISKS, "storlab-other", 48 * MIB) is None
    assert disk_serial.pick(DISKS, "", 5 * MIB) is None


@pytest.mark.parametrize(
    ("disks", "code"),
    [
        ([("/dev/vdb", "s1", 47 * MIB)], "size_differs"),
        ([("/dev/vdb", "s1", 48 * MIB), ("/dev/vdc", "s1", 48 * MIB)], "serial_twice"),
    ],
)
def test_a_disk_that_is_not_exactly_the_one_is_refused(disks, code):
    with pytest.raises(Failure) as caught:
        disk_serial.pick(disks, "s1", 48 * MIB)
    assert caught.value.code == code


def test_disks_are_read_from_the_kernel(tmp_path):
    for name, serial, sectors in (("vda", "s-root", 2048), ("vdb", "s-data", 4096)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "serial").write_text(serial)
        (tmp_path / name / "size").write_text(f"{sectors}\n")
    (tmp_path / "ram0").mkdir()
    (tmp_path / "ram0" / "size").write_text("16\n")
    assert disk_serial.disks(str(tmp_path)) == [
        ("/dev/ram0", "", 8192),
        ("/dev/vda", "s-root", MIB),
        ("/dev/vdb", "s-data", 2 * MIB),
    ]


def test_a_scsi_disk_tells_its_serial_in_a_page_of_its_own(tmp_path):
    (tmp_path / "sda" / "device").mkdir(parents=True)
    (tmp_path / "sda" / "size").write_text("6144\n")
    (tmp_path / "sda" / "device" / "vpd_pg80").write_bytes(b"\x00\x80\x00\x226000c29f0a1b2c3d4e5f60718293a4b5  ")
    assert disk_serial.disks(str(tmp_path)) == [("/dev/sda", "6000c29f0a1b2c3d4e5f60718293a4b5", 3 * MIB)]
