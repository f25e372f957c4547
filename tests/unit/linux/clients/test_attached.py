# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that was there before: what is refused, how it is mounted, and which file of it is read."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import attached
from unchanged import broken_off, refused

MIB = 1 << 20


def entry(**given):
    plain = {key: option.get("default") for key, option in attached.SPEC["entries"]["options"].items()}
    return {**plain, "name": "nas", "kind": "nfs", "layer_kind": "datastore", **given}


NAS = {"server": "192.0.2.7", "export": "/volume1/vms"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"server": "192.0.2.7"}, ["export", "nfs"]),
        ({**NAS, "export": "volume1"}, ["export", "volume1", "absolute"]),
        ({**NAS, "server": "192.0.2.7:/volume1"}, ["server", "alone"]),
        ({**NAS, "mount_options": "noatime,rw"}, ["mount_options", "Leave out rw"]),
        ({**NAS, "mount_options": "vers=3"}, ["mount_options", "Leave out vers=3"]),
        ({**NAS, "file": "/etc/passwd"}, ["file", "/etc/passwd"]),
        ({**NAS, "file": "a/../../b"}, ["file", "below"]),
        ({**NAS, "name": "../x"}, ["name", "../x"]),
        ({"kind": "path"}, ["folder"]),
        ({"kind": "path", "folder": "tank"}, ["folder", "tank"]),
        ({"kind": "device", "device": "/dev/sdb"}, ["serial", "proves"]),
    ],
)
def test_what_cannot_be_attached_is_refused(given, words):
    with broken_off() as caught:
        attached.check(entry(**given))
    assert caught.value.code == "bad_value"
    for word in words:
        assert word in str(caught.value)


def test_what_can_be_attached_is_not_refused():
    attached.check(entry(**NAS, mount_options="rsize=65536,noatime", file="images/vm.img"))
    attached.check(entry(kind="device", naa="600140512345"))


@pytest.mark.parametrize("version", ["3", "4.0", "4.1", "4.2"])
def test_an_export_is_mounted_read_only(version):
    mount = attached.wanted_mount("lab", entry(**NAS, nfs_version=version, mount_options="noatime"))
    options = mount["options"].split(",")
    assert options[0] == "ro" and f"vers={version}" in options and "noatime" in options and "rw" not in options
    assert ("nolock" in options) == (version == "3")
    assert (mount["source"], mount["filesystem"]) == ("192.0.2.7:/volume1/vms", "nfs")
    assert mount["mount_point"] == "/srv/storlab-existing/lab/nas"


def test_an_address_of_ipv6_has_brackets_and_a_folder_is_bound_read_only(tmp_path):
    assert attached.wanted_mount("lab", entry(**{**NAS, "server": "2001:db8::7"}))["source"].startswith(
        "[2001:db8::7]:/"
    )
    mount = attached.wanted_mount("lab", entry(kind="path", folder=str(tmp_path)))
    assert (mount["filesystem"], mount["options"], mount["source"]) == ("", "bind,ro", os.path.realpath(tmp_path))
    assert attached.wanted_mount("lab", entry(kind="device", serial="S1")) is None


MOUNT = {"mount_point": "/srv/x", "source": "a:/b", "filesystem": "nfs", "options": "ro"}


@pytest.mark.parametrize(
    ("recorded", "mounted", "wanted", "ops"),
    [
        ({}, {}, {"nas": MOUNT}, ["mount"]),
        ({"nas": {**MOUNT, "folders": [], "file": "f"}}, {"nas": True}, {"nas": MOUNT}, []),
        ({"nas": MOUNT}, {"nas": False}, {"nas": MOUNT}, ["mount"]),
        ({"nas": MOUNT}, {"nas": True}, {"nas": {**MOUNT, "options": "ro,vers=3"}}, ["unmount", "mount"]),
        ({"nas": MOUNT}, {"nas": True}, {}, ["unmount"]),
        ({"nas": MOUNT}, {"nas": False}, {}, []),
    ],
)
def test_only_what_differs_is_mounted_and_unmounted(recorded, mounted, wanted, ops):
    assert [step["op"] for step in attached.plan(recorded, mounted, wanted)] == ops


def big(path, size=MIB, filling=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(filling * size)


def test_the_biggest_file_is_read_unless_another_was_read_or_is_named(tmp_path):
    big(tmp_path / "one.img", MIB)
    big(tmp_path / "deep" / "er" / "three.img", 3 * MIB)
    big(tmp_path / "deep" / "two.img", 2 * MIB)
    big(tmp_path / "small.txt", 100)
    os.symlink("/etc/passwd", tmp_path / "link")
    folder = str(tmp_path)
    assert attached.chosen_file("nas", folder, None, None) == "deep/er/three.img"
    assert attached.chosen_file("nas", folder, None, "one.img") == "one.img"
    assert attached.chosen_file("nas", folder, "deep/two.img", "one.img") == "deep/two.img"
    # What the last build read is gone.
    assert attached.chosen_file("nas", folder, None, "gone.img") == "deep/er/three.img"


@pytest.mark.parametrize("wanted", [None, "small.txt", "link", "missing.img", "folder"])
def test_what_cannot_be_read_is_refused_and_nothing_changes(tmp_path, wanted):
    big(tmp_path / "small.txt", 100)
    big(tmp_path / "elsewhere" / "big.img", 2 * MIB)
    there = tmp_path / "export"
    there.mkdir()
    (tmp_path / "small.txt").rename(there / "small.txt")
    (there / "folder").mkdir()
    os.symlink(tmp_path / "elsewhere" / "big.img", there / "link")
    with refused(tmp_path, match=wanted or "nas") as caught:
        attached.chosen_file("nas", str(there), wanted, None)
    assert caught.value.code == "nothing_to_read"


def test_a_search_ends(tmp_path, monkeypatch):
    for number in range(7):
        big(tmp_path / f"{number}.img")
    monkeypatch.setattr(attached, "MOST_ENTRIES", 4)
    assert [path for _size, path in attached.readable_files(str(tmp_path))] == ["0.img", "1.img", "2.img", "3.img"]
    moments = iter(range(0, 1000, 9))
    monkeypatch.setattr(attached, "MOST_ENTRIES", 1000)
    assert len(list(attached.readable_files(str(tmp_path), lambda: next(moments)))) == 2


def test_of_several_paths_to_one_disk_the_device_on_top_is_taken():
    holders = {"/dev/sda": ["dm-3"], "/dev/sdb": ["dm-3"], "/dev/dm-3": []}
    assert attached.topmost(list(holders), holders.__getitem__) == ["/dev/dm-3"]
    # Two disks that merely show the same stay two.
    assert attached.topmost(["/dev/sda", "/dev/sdb"], {"/dev/sda": [], "/dev/sdb": []}.__getitem__) == [
        "/dev/sda",
        "/dev/sdb",
    ]
    assert attached.topmost(["/dev/sda"], {"/dev/sda": []}.__getitem__) == ["/dev/sda"]


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host that mounts nothing for real: commands are noted, and what they would mount is in its table."""

    host = SimpleNamespace(commands=[], table=[], writable=False, way="open")

    def run(argv, **_more):
        host.commands.append(argv)
        place = argv[-1]
        if argv[0] == "mount":
            if os.path.isdir(argv[-2]):
                # What a mount would show.
                os.rmdir(place)
                os.symlink(argv[-2], place)
            host.table.append({"mount_point": argv[-1], "source": argv[-2], "filesystem": "nfs", "options": "ro"})
        else:
            if os.path.islink(place):
                os.unlink(place)
                os.mkdir(place)
            host.table[:] = [mount for mount in host.table if mount["mount_point"] != argv[-1]]

    real = attached.Record
    monkeypatch.setattr(attached, "Record", lambda testbed, area: real(testbed, area, str(tmp_path / "run")))
    monkeypatch.setattr(attached, "PLACE", str(tmp_path / "srv"))
    monkeypatch.setattr(attached, "run", run)
    monkeypatch.setattr(attached.mounts, "read", lambda *_args: host.table)
    monkeypatch.setattr(record, "missing_modules", lambda name: set())
    monkeypatch.setattr(attached, "load_module", lambda name, intend: host.commands.append(["modprobe", name]))
    monkeypatch.setattr(
        attached.os, "statvfs", lambda _path: SimpleNamespace(f_flag=0 if host.writable else os.ST_RDONLY)
    )
    monkeypatch.setattr(attached, "reach", lambda *_way: host.way)
    (tmp_path / "run").mkdir(mode=0o700)
    return host


def params(*entries, state="present"):
    return {"testbed_id": "lab", "state": state, "entries": list(entries)}


def test_a_build_mounts_once_and_a_teardown_undoes_exactly_that(host, tmp_path):
    folder = tmp_path / "tank"
    big(folder / "vm.img", 2 * MIB)
    tank = entry(name="tank", kind="path", folder=str(folder))
    place = tmp_path / "srv" / "lab" / "tank"
    ahead = attached.ensure(params(tank), True)
    assert ahead["changed"] and ahead["layers"] == [] and host.commands == [] and not (tmp_path / "srv").exists()
    built = attached.ensure(params(tank), False)
    assert [argv[0] for argv in host.commands] == ["mount"] and built["changed"]
    (layer,) = built["layers"]
    assert (layer["name"], layer["purpose"], layer["size_bytes"]) == ("datastore-tank", "read", 2 * MIB)
    assert layer["path"] == f"{place}/vm.img" and layer["detail"]["access"] == "read"
    assert not attached.ensure(params(tank), False)["changed"]
    gone = attached.ensure(params(state="absent"), False)
    assert gone["changed"] and host.commands[-1] == ["umount", str(place)] and host.table == []
    assert not attached.ensure(params(state="absent"), False)["changed"]
    assert (folder / "vm.img").stat().st_size == 2 * MIB and not (tmp_path / "run").exists()
    assert not (tmp_path / "srv").exists()


def test_a_server_that_is_silent_is_not_mounted(host, tmp_path):
    host.way = "filtered"
    with refused(tmp_path, host.commands, match="192.0.2.7") as caught:
        attached.ensure(params(entry(**NAS)), False)
    assert caught.value.code == "server_silent"


def test_a_mount_that_could_be_written_is_taken_back(host):
    host.writable = True
    with refused(host.table) as caught:
        attached.ensure(params(entry(**NAS)), False)
    assert caught.value.code == "mount_writable"


@pytest.mark.parametrize("there", ["mount", "file"])
def test_a_place_of_others_stays_theirs(host, tmp_path, there):
    place = tmp_path / "srv" / "lab" / "nas"
    if there == "mount":
        host.table.append({"mount_point": str(place), "source": "/dev/sdq1", "filesystem": "ext4", "options": "rw"})
    else:
        big(place / "theirs.txt", 10)
    with refused(
        tmp_path, host.commands, host.table, match="/dev/sdq1" if there == "mount" else "theirs.txt"
    ) as caught:
        attached.ensure(params(entry(**NAS)), False)
    assert caught.value.code == "mount_point_used"


def test_a_folder_that_is_not_there_is_refused(host, tmp_path):
    tank = entry(name="tank", kind="path", folder=str(tmp_path / "missing"))
    with refused(tmp_path, host.commands) as caught:
        attached.ensure(params(tank), False)
    assert caught.value.code == "folder_missing"


def test_a_dead_server_is_let_go_of_without_asking_it(host, monkeypatch, tmp_path):
    monkeypatch.setattr(attached, "chosen_file", lambda *_given: "vm.img")
    monkeypatch.setattr(attached, "file_layer", lambda *_given: {})
    attached.ensure(params(entry(**NAS)), False)
    host.way = "filtered"
    attached.ensure(params(state="absent"), False)
    assert host.commands[-1][:4] == ["umount", "--internal-only", "--force", "--lazy"]
    assert not (tmp_path / "srv").exists()
