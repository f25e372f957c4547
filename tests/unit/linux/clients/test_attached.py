# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that was there before: what is refused, how it is mounted, and which file of it is read."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import attached, readable
from unchanged import broken_off, refused, unchanged

MIB = 1 << 20


def entry(**given):
    plain = {key: option.get("default") for key, option in attached.SPEC["entries"]["options"].items()}
    return {**plain, "name": "nas", "kind": "nfs", "layer_kind": "datastore", **given}


SMB = {"kind": "smb", "server": "nas", "share": "vms"}
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
        ({**SMB, "share": ""}, ["share", "smb needs it"]),
        ({**SMB, "share": "a/../b"}, ["share", "a/../b"]),
        ({**SMB, "mount_options": "seal,password=x"}, ["mount_options", "Leave out password=x"]),
        ({**SMB, "mount_options": "credentials=/etc/shadow"}, ["mount_options", "Leave out credentials"]),
        ({**SMB, "mount_options": "rw"}, ["mount_options", "Leave out rw"]),
        ({**SMB, "user": "reader"}, ["password", "beside user"]),
        ({**SMB, "password": "x"}, ["user", "beside password"]),
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
    assert [step["op"] for step in attached.plan(recorded, mounted, wanted, {})] == ops


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
    assert readable.chosen_file("nas", folder, None, None) == "deep/er/three.img"
    assert readable.chosen_file("nas", folder, None, "one.img") == "one.img"
    assert readable.chosen_file("nas", folder, "deep/two.img", "one.img") == "deep/two.img"
    # What the last build read is gone.
    assert readable.chosen_file("nas", folder, None, "gone.img") == "deep/er/three.img"


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
        readable.chosen_file("nas", str(there), wanted, None)
    assert caught.value.code == "nothing_to_read"


def test_a_search_ends(tmp_path, monkeypatch):
    for number in range(7):
        big(tmp_path / f"{number}.img")
    monkeypatch.setattr(readable, "MOST_ENTRIES", 4)
    assert [path for _size, path in readable.readable_files(str(tmp_path))] == ["0.img", "1.img", "2.img", "3.img"]
    moments = iter(range(0, 1000, 9))
    monkeypatch.setattr(readable, "MOST_ENTRIES", 1000)
    assert len(list(readable.readable_files(str(tmp_path), lambda: next(moments)))) == 2


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

    host = SimpleNamespace(commands=[], table=[], writable=False, way="open", logins=[])

    def run(argv, **_more):
        host.commands.append(argv)
        place = argv[-1]
        if argv[0] == "mount":
            for option in argv[argv.index("-o") + 1].split(","):
                if option.startswith("credentials="):
                    path = option.partition("=")[2]
                    host.logins.append((oct(os.stat(path).st_mode & 0o777), open(path, encoding="utf-8").read()))  # noqa: SIM115
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


def params(*entries, state="present", layers=()):
    return {"testbed_id": "lab", "state": state, "entries": list(entries), "layers": list(layers), "below": []}


def test_a_build_mounts_once_and_a_teardown_undoes_exactly_that(host, tmp_path):
    folder = tmp_path / "tank"
    big(folder / "vm.img", 2 * MIB)
    tank = entry(name="tank", kind="path", folder=str(folder))
    place = tmp_path / "srv" / "lab" / "tank"
    ahead = converge(attached.Area, params(tank), True)
    assert ahead["changed"] and ahead["layers"] == [] and host.commands == [] and not (tmp_path / "srv").exists()
    built = converge(attached.Area, params(tank), False)
    assert [argv[0] for argv in host.commands] == ["mount"] and built["changed"]
    (layer,) = built["layers"]
    assert (layer["name"], layer["purpose"], layer["size_bytes"]) == ("datastore-tank", "read", 2 * MIB)
    assert layer["path"] == f"{place}/vm.img" and layer["detail"]["access"] == "read"
    assert not converge(attached.Area, params(tank), False)["changed"]
    gone = converge(attached.Area, params(state="absent"), False)
    assert gone["changed"] and host.commands[-1] == ["umount", str(place)] and host.table == []
    assert not converge(attached.Area, params(state="absent"), False)["changed"]
    assert (folder / "vm.img").stat().st_size == 2 * MIB and not (tmp_path / "run").exists()
    assert not (tmp_path / "srv").exists()


SHARE = {"kind": "smb", "server": "192.0.2.7", "share": "vms", "user": "reader", "password": "a,b=c d", "domain": "LAB"}


def test_folders_above_several_mounts_go_with_the_last_of_them(host, tmp_path):
    big(tmp_path / "tank" / "vm.img", 2 * MIB)
    tanks = [entry(name=name, kind="path", folder=str(tmp_path / "tank")) for name in ("lower", "upper")]
    converge(attached.Area, params(*tanks), False)
    converge(attached.Area, params(tanks[1]), False)
    assert os.listdir(tmp_path / "srv" / "lab") == ["upper"]
    converge(attached.Area, params(state="absent"), False)
    assert not (tmp_path / "srv").exists() and (tmp_path / "tank" / "vm.img").stat().st_size == 2 * MIB


def test_who_logs_in_to_a_share_is_in_a_file_for_as_long_as_it_is_read(host, tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "chosen_file", lambda *_given: "vm.img")
    monkeypatch.setattr(attached, "file_layer", lambda *_given: {})
    built = converge(attached.Area, params(entry(**SHARE)), False)
    assert host.logins == [("0o600", "username=reader\npassword=a,b=c d\ndomain=LAB\n")]
    (argv,) = [argv for argv in host.commands if argv[0] == "mount"]
    assert argv[1:3] == ["-t", "cifs"] and argv[-2] == "//192.0.2.7/vms"
    options = argv[argv.index("-o") + 1].split(",")
    assert options[:3] == ["ro", "vers=3.1.1", "cache=none"] and "rw" not in options and "guest" not in options
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["existing.json"]
    for text in (str(host.commands), str(built), left[0].read_text(encoding="utf-8")):
        assert "a,b=c d" not in text
    assert not converge(attached.Area, params(entry(**SHARE)), False)["changed"]
    converge(attached.Area, params(entry(**SHARE), state="absent"), False)
    assert host.table == [] and not (tmp_path / "run").exists() and not (tmp_path / "srv").exists()


def test_a_login_that_a_killed_build_left_is_removed(host, tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "chosen_file", lambda *_given: "vm.img")
    monkeypatch.setattr(attached, "file_layer", lambda *_given: {})
    converge(attached.Area, params(entry(**SHARE)), False)
    left = tmp_path / "run" / "lab" / "nas.credentials"
    left.write_text("password=x", encoding="utf-8")
    converge(attached.Area, params(state="absent"), False)
    assert not left.exists() and not (tmp_path / "run").exists()


def test_a_login_that_fails_leaves_no_file(host, tmp_path, monkeypatch):
    def refuse(argv, **_more):
        raise attached.Failure("command_failed", "mount error(13): Permission denied.", "Look at the message.")

    monkeypatch.setattr(attached, "run", refuse)
    with pytest.raises(attached.Failure):
        converge(attached.Area, params(entry(**SHARE)), False)
    assert host.table == [] and [path.name for path in (tmp_path / "run" / "lab").iterdir()] == ["existing.json"]


def test_a_guest_of_a_share_has_no_file(host, monkeypatch):
    monkeypatch.setattr(attached, "chosen_file", lambda *_given: "vm.img")
    monkeypatch.setattr(attached, "file_layer", lambda *_given: {})
    converge(attached.Area, params(entry(kind="smb", server="nas", share="/open/")), False)
    (argv,) = [argv for argv in host.commands if argv[0] == "mount"]
    assert host.logins == [] and "guest" in argv[argv.index("-o") + 1].split(",") and argv[-2] == "//nas/open"


def test_a_share_whose_server_is_silent_is_not_mounted(host, tmp_path):
    host.way = "refused"
    with refused(tmp_path, host.commands, match="SMB server 192.0.2.7 of nas does not answer on port 445"):
        converge(attached.Area, params(entry(**SHARE)), False)


def test_results_do_not_name_who_logged_in():
    shown = "ro,vers=3.1.1,cache=none,username=reader,domain=LAB,uid=0,sign,seal"
    assert attached.mounts.without_user(shown) == "ro,vers=3.1.1,cache=none,uid=0,sign,seal"


def test_a_server_that_is_silent_is_not_mounted(host, tmp_path):
    host.way = "filtered"
    with refused(tmp_path, host.commands, match="192.0.2.7") as caught:
        converge(attached.Area, params(entry(**NAS)), False)
    assert caught.value.code == "server_silent"


def test_a_mount_that_could_be_written_is_taken_back(host):
    host.writable = True
    with refused(host.table) as caught:
        converge(attached.Area, params(entry(**NAS)), False)
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
        converge(attached.Area, params(entry(**NAS)), False)
    assert caught.value.code == "mount_point_used"


def test_a_folder_that_is_not_there_is_refused(host, tmp_path):
    tank = entry(name="tank", kind="path", folder=str(tmp_path / "missing"))
    with refused(tmp_path, host.commands) as caught:
        converge(attached.Area, params(tank), False)
    assert caught.value.code == "folder_missing"


def test_a_dead_server_is_let_go_of_without_asking_it(host, monkeypatch, tmp_path):
    monkeypatch.setattr(attached, "chosen_file", lambda *_given: "vm.img")
    monkeypatch.setattr(attached, "file_layer", lambda *_given: {})
    converge(attached.Area, params(entry(**NAS)), False)
    host.way = "filtered"
    converge(attached.Area, params(state="absent"), False)
    assert host.commands[-1][:4] == ["umount", "--internal-only", "--force", "--lazy"]
    assert not (tmp_path / "srv").exists()


# ---------------------------------------------------------------- access: write


@pytest.fixture
def tank(host, tmp_path, monkeypatch):
    """A folder of somebody that may be written to, on a file system with enough space."""
    folder = tmp_path / "tank"
    big(folder / "vm.img", 2 * MIB)
    free = SimpleNamespace(f_bavail=1000, f_blocks=1000, f_frsize=MIB)
    monkeypatch.setattr(attached.own_file.os, "fstatvfs", lambda _handle: free)
    return entry(name="tank", kind="path", folder=str(folder), access="write", benchmark_file_mib=3)


OWN = "storlab.lab+tank"


def test_a_folder_of_our_own_is_written_and_removed_and_theirs_stays(host, tank, tmp_path):
    with unchanged(tmp_path / "tank"):
        ahead = converge(attached.Area, params(tank), True)
        assert [step["op"] for step in ahead["steps"]] == ["mount", "write"] and ahead["layers"] == []
        built = converge(attached.Area, params(tank), False)
        (layer,) = built["layers"]
        assert "bind,rw" in host.commands[0] and (layer["purpose"], layer["size_bytes"]) == ("scratch", 3 * MIB)
        assert layer["identity"]["own_folder"] == OWN and (tmp_path / "tank" / OWN / "storlab-benchmark.dat").exists()
        again = converge(attached.Area, params(tank), False)
        assert not again["changed"] and again["layers"] == built["layers"]
        gone = converge(attached.Area, params(state="absent"), False)
        assert gone["changed"] and gone["kept"] == [] and not (tmp_path / "run").exists()


def test_another_size_is_written_and_reading_alone_removes_it(host, tank, tmp_path):
    converge(attached.Area, params(tank), False)
    smaller = converge(attached.Area, params({**tank, "benchmark_file_mib": 2}), False)
    assert [(step["op"], step["was"]) for step in smaller["steps"]] == [("write", "own file of 3 MiB")]
    assert smaller["layers"][0]["size_bytes"] == 2 * MIB
    reads = converge(attached.Area, params({**tank, "access": "read"}), False)
    assert [step["op"] for step in reads["steps"]] == ["unmount", "mount"]
    assert reads["layers"][0]["purpose"] == "read" and not (tmp_path / "tank" / OWN).exists()


def test_other_options_of_the_mount_make_the_file_anew(host, tank, tmp_path):
    converge(attached.Area, params(tank), False)
    built = converge(attached.Area, params({**tank, "mount_options": "noatime"}), False)
    assert [step["op"] for step in built["steps"]] == ["unmount", "mount", "write"]
    assert (tmp_path / "tank" / OWN / "storlab-benchmark.dat").exists() and built["layers"][0]["size_bytes"] == 3 * MIB


@pytest.mark.parametrize("state", ["absent", "present"])
def test_after_a_restart_the_published_layer_knows_the_folder(host, tank, tmp_path, monkeypatch, state):
    layers = converge(attached.Area, params(tank), False)["layers"]
    # A restart: no mount, no record.
    place = tmp_path / "srv" / "lab" / "tank"
    place.unlink()
    place.mkdir()
    host.table.clear()
    (tmp_path / "run" / "lab" / "existing.json").unlink()
    if state == "absent":
        gone = converge(attached.Area, params(state="absent", layers=layers), False)
        assert (
            gone["changed"] and os.listdir(tmp_path / "tank") == ["vm.img"] and not (tmp_path / "srv" / "lab").exists()
        )
        return
    assert converge(attached.Area, params(tank, layers=layers), False)["layers"] == layers


@pytest.mark.parametrize("place", ["/srv/other/tank", None, "../../etc"])
def test_a_layer_of_another_place_makes_nothing_ours(host, tank, tmp_path, place):
    (layer,) = converge(attached.Area, params(tank), False)["layers"]
    converge(attached.Area, params(state="absent"), False)
    strange = {**layer, "identity": {**layer["identity"], "mount_point": place}}
    with unchanged(tmp_path, host.commands):
        assert not converge(attached.Area, params(state="absent", layers=[strange, {}]), False)["changed"]


def test_a_folder_of_that_name_that_was_there_is_refused(host, tank, tmp_path):
    (tmp_path / "tank" / OWN).mkdir()
    (tmp_path / "tank" / OWN / "letter").write_text("theirs")
    with refused(tmp_path / "tank", match="was there before") as caught:
        converge(attached.Area, params(tank), False)
    assert caught.value.code == "folder_foreign"
    with unchanged(tmp_path / "tank"):
        assert converge(attached.Area, params(state="absent"), False)["kept"] == []


def test_what_others_put_there_is_kept_and_named(host, tank, tmp_path):
    converge(attached.Area, params(tank), False)
    (tmp_path / "tank" / OWN / "letter").write_text("theirs")
    gone = converge(attached.Area, params(state="absent"), False)
    assert gone["kept"] == [str(tmp_path / "tank" / OWN / "letter")]
    assert (tmp_path / "tank" / OWN / "letter").read_text() == "theirs" and not (tmp_path / "srv").exists()


def test_a_teardown_cannot_end_well_without_the_server_that_has_our_folder(host, tank, monkeypatch):
    converge(attached.Area, params(tank), False)
    store = attached.Attached("lab")
    store.mounts["tank"]["server"] = "192.0.2.7"
    store.record.save()
    host.way = "filtered"
    with refused(host.table, match="192.0.2.7") as caught:
        converge(attached.Area, params(state="absent"), False)
    assert caught.value.code == "server_silent"


@pytest.mark.parametrize("more", [{"file": "vm.img"}, {"benchmark_file_mib": 0}])
def test_what_does_not_go_with_writing_is_refused(tank, more):
    with broken_off(match=next(iter(more))) as caught:
        attached.check({**tank, **more})
    assert caught.value.code == "bad_value"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({}, None),
        ({"mounts": ["/home"]}, "device_mounted"),
        ({"signature": {"TYPE": "ext4"}}, "signature_present"),
        ({"partitions": ["sdq1"]}, "device_partitioned"),
        ({"serial": "S8"}, "wrong_serial"),
    ],
)
def test_a_disk_that_is_written_to_passes_the_guard_of_all_devices(monkeypatch, facts, code):
    blank = {
        "path": "/dev/sdq", "resolved": "/dev/sdq", "type": "block", "held_as": "65:0", "claim": None, "mounts": [], "swap": False,
        "partitions": [], "partition": False, "whole_device": "/dev/sdq", "holders": [], "twins": {}, "mapped": False, "mapped_uuid": None,
        "read_only": False, "signature": {}, "exports": [], "loops": [], "openers": [], "serial": "S7", "size_bytes": 1 << 30,
    }  # fmt: skip
    monkeypatch.setattr(attached.proven_disk, "find", lambda *_given: ["/dev/sdq"])
    monkeypatch.setattr(attached.device_safety, "inspect", lambda *_given, **_more: {**blank, **facts})
    disk = entry(name="lun", kind="device", layer_kind="initiator", serial="S7", access="write")
    if code is None:
        layer = attached.device_layer(disk, attached.device_safety.System())
        assert (layer["purpose"], layer["path"], layer["identity"]) == ("scratch", "/dev/sdq", {"serial": "S7"})
        return
    with broken_off() as caught:
        attached.device_layer(disk, attached.device_safety.System())
    assert caught.value.code == code
