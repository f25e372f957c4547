# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datastores from the build to the teardown, on a host made of files: devices have superblocks, and a mount table says what is mounted.

Real file systems are in molecule/iscsi and tests/integration/test_superblocks.py.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import filesystem_uuid
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore, datastore_plan
from rooted import Rooted
from unchanged import broken_off, refused

MIB = 1 << 20
POINT, SERVER = "/run/srv/ds1", "10.0.0.7"
UUID = filesystem_uuid("unit", "ds1")
OURS = {"filesystem": "ext4", "uuid": UUID, "label": "storlab"}
BLANK = {"filesystem": None, "uuid": None, "label": ""}
LAYER = {
    "name": "initiator-ds1",
    "kind": "initiator",
    "host": "h",
    "path": "/dev/sdx",
    "parent": None,
    "purpose": "data",
    "size_bytes": 64 * MIB,
    "identity": {"serial": "sn-1"},
}
EXPORT_UUID = "12345678-9abc-def0-1122-334455667788"
EXPORT = {
    **LAYER,
    "name": "target-ds1",
    "kind": "target",
    "path": None,
    "identity": {"uuid": EXPORT_UUID},
    "detail": {"provider": "nfs"},
}


class Host(Rooted):
    """blocks: {device: what is read of it, or why it cannot be}; table: the mounts, oldest first."""

    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, datastore, datastore_plan, datastore.nfs_mount, record)
        self.blocks, self.numbers, self.table = {"/dev/sdx": BLANK}, {"/dev/sdx": "8:16"}, []
        self.holders, self.killed, self.ioctls, self.reasons, self.fails = [], [], [], [], {}
        self.way, self.fsid = "open", "123456789abcdef0:1122334455667788"
        # What mount.nfs(8) answers, and the connections that the kernel opens in spite of the option.
        self.nfs_says, self.nfs_takes_not, self.connections = "", "", 0
        self.write("/dev/sdx")
        self.write("/proc/filesystems", "nodev\tproc\n\text4\n")
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        self.available |= {"xfs", "nfs"}
        monkeypatch.setattr(
            datastore, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab")
        )
        monkeypatch.setattr(datastore, "read_superblock", self._superblock)
        monkeypatch.setattr(datastore, "_holders", self._holding)
        monkeypatch.setattr(datastore.mounts, "read", lambda: list(self.table))
        monkeypatch.setattr(datastore.block_device, "device_numbers", lambda path: self.numbers.get(path))
        monkeypatch.setattr(datastore.device_safety, "inspect", lambda path: {"path": path, "signature": None})
        monkeypatch.setattr(datastore.device_safety, "refusals", lambda *_facts, **_more: self.reasons)
        monkeypatch.setattr(datastore.fcntl, "ioctl", lambda _handle, number, *_more: self.ioctls.append(number))
        monkeypatch.setattr(datastore.probe, "reach", lambda server, port: self.way)
        monkeypatch.setattr(datastore.nfs_mount, "reach", lambda server, port: self.way)
        monkeypatch.setattr(datastore.nfs_volumes, "fsid_of", lambda mount: self.fsid if mount else None)

    def _superblock(self, device: str) -> dict:
        if isinstance(self.blocks[device], OSError):
            raise self.blocks[device]
        return self.blocks[device]

    def _holding(self, device: int) -> list:
        return [holder for holder in self.holders if os.makedev(8, 16) == device]

    def tell_connections(self) -> None:
        """As the kernel does: mounts of one server share the connections of the first."""
        text, first = "", 0
        for mount in self.table:
            if mount["filesystem"] == "nfs":
                first = first or int(
                    dict(word.partition("=")[::2] for word in mount["options"].split(",")).get("nconnect", 1)
                )
                text += f"device {mount['source']} mounted on {mount['mount_point']} with fstype nfs4 statvers=1.1\n"
                text += "\txprt:\ttcp 700 1 1 0 0 5 5 0 5 0 2 0 0\n" * (self.connections or first) + "\n"
        self.write("/proc/self/mountstats", text)

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        if pid == 13:
            raise ProcessLookupError
        # One ends only when it must.
        self.holders = [
            holder for holder in self.holders if holder[0] != pid or (pid == 12 and number != signal.SIGKILL)
        ]

    def command(self, argv: list):
        code = next((code for part, code in self.fails.items() if part in " ".join(argv)), 0)
        if code:
            return code, ""
        if argv[0].startswith("mkfs."):
            assert UUID in " ".join(argv)
            self.blocks[argv[-1]] = {**OURS, "filesystem": argv[0][5:]}
        elif argv[0] == "mount" and "-t" in argv:
            if self.nfs_says and self.nfs_takes_not in argv[4] and "nfs" in argv:
                return 32, self.nfs_says
            mount = {"mount_point": argv[-1], "source": argv[-2], "filesystem": argv[2], "options": argv[4]}
            self.table.append({**mount, "numbers": self.numbers.get(argv[-2], "0:44")})
            self.tell_connections()
        elif argv[0] == "umount":
            self.table.remove(next(mount for mount in reversed(self.table) if mount["mount_point"] == argv[-1]))
            for name in os.listdir(self.real(argv[-1])):
                self.remove(f"{argv[-1]}/{name}")
        elif argv[0] == "wipefs":
            self.blocks[argv[-1]] = BLANK
        else:
            assert argv[0] in ("mount", "modprobe"), argv
        return None


@pytest.fixture
def host(monkeypatch, tmp_path):
    return Host(monkeypatch, tmp_path)


def entry(**more) -> dict:
    options = {name: option.get("default") for name, option in datastore.SPEC["datastores"]["options"].items()}
    given = {"name": "ds1", "layer": "initiator-ds1", "mount_point": POINT, "benchmark_file_mib": 2}
    return {**options, **given, **more}


def nfs(**more) -> dict:
    given = {"filesystem": "nfs", "layer": "target-ds1", "server": SERVER, "export": "/srv/e", "mount_options": "hard"}
    return entry(**{**given, "benchmark_file_mib": 0, **more})


def call(*entries, state="present", check_mode=False, **more) -> dict:
    layers = {"initiator-ds1": LAYER, "target-ds1": EXPORT}
    given = {"testbed_id": "unit", "state": state, "layers": layers, "discard_contents": False, **more}
    return converge(datastore.Area, {**given, "datastores": list(entries)}, check_mode)


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


def refusal(*entries, **more) -> Failure:
    with pytest.raises(Failure) as caught:
        call(*entries, **more)
    return caught.value


def sizes(host) -> dict:
    return {name: os.stat(host.real(f"{POINT}/{name}")).st_size for name in os.listdir(host.real(POINT))}


def test_a_file_system_comes_and_goes(host):
    foreseen = call(entry(), check_mode=True)
    assert ops(foreseen) == ["make_filesystem", "mount", "write_benchmark_file"] and host.done == []
    made = call(entry())
    assert (made["changed"], ops(made), made["ended"]) == (True, ops(foreseen), [])
    [layer] = made["layers"]
    assert (layer["name"], layer["kind"], layer["parent"]) == ("datastore-ds1", "datastore", "initiator-ds1")
    assert sizes(host) == {os.path.basename(layer["path"]): 2 * MIB}
    with open(host.real(layer["path"]), "rb") as handle:
        blocks = [handle.read(4096) for _ in range(2 * MIB // 4096)]
    # Written, and no block is like another.
    assert len(set(blocks)) == 512 and all(block[8:] != bytes(4096 - 8) for block in blocks)
    assert [line.split()[0] for line in host.done] == ["mkfs.ext4", "mount"] and "noatime" in host.done[1]
    assert (call(entry())["changed"], ops(call(entry(mount_options="noatime,nodev")))) == (False, ["remount"])
    assert host.done[-1] == f"mount -o remount,noatime,nodev {POINT}"
    gone = call(state="absent", check_mode=True)
    assert (gone["changed"], ops(gone), host.table != []) == (True, ["remove"], True)
    call(state="absent")
    assert (host.blocks, host.table, host.has("/run/srv"), host.has("/run/storlab")) == (
        {"/dev/sdx": BLANK},
        [],
        False,
        False,
    )
    assert call(state="absent")["changed"] is False


def test_xfs_has_its_module_and_a_device_by_name_its_proof(host):
    result = call(entry(filesystem="xfs", layer=None, device="/dev/sdx", serial="sn-1", benchmark_file_mib=0))
    assert ops(result) == ["make_filesystem", "mount"]
    assert [line.split()[0] for line in host.done] == ["mkfs.xfs", "mount"] and "xfs" in host.modules
    call(state="absent")
    assert host.modules == {"ext4"}


def test_a_device_by_name_without_a_proof_is_left_alone(host):
    failure = refusal(entry(layer=None, device="/dev/sdx"))
    assert (failure.code != "bad_value", host.done) == (True, []) and "/dev/sdx" in str(failure)


def test_what_the_guard_refuses_is_not_written(host):
    host.reasons = [
        Failure("wrong_serial", "It has the serial sn-2.", "Look."),
    ]
    assert (refusal(entry()).code, host.done, host.has("/run/storlab")) == ("wrong_serial", [], False)
    # Of a file system of ours that is mounted and was replaced, its own traces are no obstacle.
    host.reasons = []
    call(entry())
    host.numbers["/dev/sdx"] = "8:32"
    host.blocks["/dev/sdx"] = BLANK
    host.reasons = [Failure(code, "It is.", "Look.") for code in ("device_mounted", "device_busy")]
    assert ops(call(entry()))[:2] == ["detach", "make_filesystem"]


def test_a_replaced_device_is_let_go_with_what_holds_it(host):
    call(entry())
    host.numbers["/dev/sdx"], host.blocks["/dev/sdx"] = "8:32", BLANK
    host.holders = [(11, "fio"), (12, "bash"), (13, "cat")]
    host.done.clear()
    result = call(entry())
    assert ops(result) == ["detach", "make_filesystem", "mount", "write_benchmark_file"]
    assert [ended["command"] for ended in result["ended"]] == ["fio", "bash", "cat"]
    assert host.killed[:3] == [(11, signal.SIGTERM), (12, signal.SIGTERM), (13, signal.SIGTERM)]
    assert (12, signal.SIGKILL) in host.killed and (11, signal.SIGKILL) not in host.killed
    assert host.ioctls == [datastore.SHUTDOWN, datastore.BLKFLSBUF]
    assert host.done[0] == f"umount {POINT}"
    assert [mount["numbers"] for mount in host.table] == ["8:32"]


def test_a_dead_mount_that_does_not_end_is_detached(host):
    call(entry(benchmark_file_mib=0))
    host.numbers["/dev/sdx"], host.blocks["/dev/sdx"] = "8:32", BLANK
    host.fails = {f"umount {POINT}": 32}
    call(entry(benchmark_file_mib=0))
    assert host.done[2:4] == [f"umount {POINT}", f"umount --lazy {POINT}"]


def test_a_file_system_on_a_dead_device_goes_too(host):
    call(entry())
    host.blocks["/dev/sdx"] = OSError(5, "Input/output error")
    host.remove("/dev/sdx")
    host.ioctls.clear()
    assert ops(call(state="absent")) == ["remove"]
    # Nothing is written to it, and its pages cannot be dropped any more.
    assert (host.table, host.ioctls, host.has(POINT)) == ([], [datastore.SHUTDOWN], False)


def test_what_was_unmounted_by_somebody_is_wiped_if_it_is_ours(host):
    call(entry())
    host.table.clear()
    host.remove(f"{POINT}/storlab-benchmark.dat")
    host.done.clear()
    assert call(state="absent")["steps"][0]["was"] == "not mounted"
    assert host.done == ["wipefs --all --quiet /dev/sdx"]
    call(entry())
    host.table.clear()
    host.done.clear()
    host.blocks["/dev/sdx"] = {**OURS, "uuid": "another"}
    call(state="absent")
    assert (host.done, host.blocks["/dev/sdx"]["uuid"]) == ([], "another")


@pytest.mark.parametrize(
    ("device", "why", "code"),
    [({}, None, "device_missing"), ({"/dev/sdx": "8:16"}, OSError(5, "Input/output error"), "device_unreadable")],
)
def test_a_device_that_cannot_be_looked_at(host, device, why, code):
    host.numbers, host.blocks["/dev/sdx"] = device, why
    failure = refusal(entry())
    assert (failure.code, failure.details["device"], host.done) == (code, "/dev/sdx", [])


def test_a_mount_point_of_somebody_else(host):
    host.table = [{"mount_point": POINT, "source": "/dev/sdz", "filesystem": "ext4", "numbers": "8:99"}]
    host.folder(POINT)
    for wanted in (entry(), nfs()):
        failure = refusal(wanted)
        assert (failure.code, failure.details["source"], host.done) == ("mount_point_used", "/dev/sdz", [])
    host.table = []
    host.write(f"{POINT}/theirs", "kept")
    assert refusal(entry()).code == "mount_point_used"
    assert host.read_text(f"{POINT}/theirs") == "kept" and host.table == []


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("below a file", "/run/srv is not a folder"),
        ("a file", f"{POINT} is not a folder"),
        ("a link to nowhere", "/run/srv is not a folder"),
        ("read-only", "the file system of /run is mounted read-only"),
        ("no right", "may not write to /run"),
    ],
)
def test_a_mount_point_that_cannot_be_made_is_found_before_the_disk_is_formatted(
    host, monkeypatch, case, why, check_mode
):
    if case == "below a file":
        host.write("/run/srv", "kept")
    elif case == "a file":
        host.write(POINT, "kept")
    elif case == "a link to nowhere":
        os.symlink("/no/such/folder", host.real("/run/srv"))
    elif case == "read-only":
        status = os.statvfs("/")
        flags = SimpleNamespace(f_flag=status.f_flag | os.ST_RDONLY)
        monkeypatch.setattr(datastore.os, "statvfs", lambda path: flags, raising=False)
    else:
        monkeypatch.setattr(datastore.os, "access", lambda path, mode: False, raising=False)
    with refused(Path(host.root), host.done) as caught:
        call(entry(), check_mode=check_mode)
    assert (caught.value.code, caught.value.details["mount_point"]) == ("mount_point_impossible", POINT)
    assert why in str(caught.value) and host.blocks["/dev/sdx"] == BLANK


def test_a_folder_that_the_kernel_refuses_leaves_the_disk_as_it_is(host, monkeypatch):
    """As in /proc, where nobody can tell beforehand."""

    def refuse(path, **_more):
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(datastore.os, "makedirs", refuse, raising=False)
    with broken_off() as caught:
        call(entry())
    assert caught.value.code == "mount_point_impossible" and "No such file or directory" in str(caught.value)
    assert (host.done, host.blocks["/dev/sdx"]) == ([], BLANK)


def test_benchmark_files_are_those_that_are_wanted(host):
    call(entry(benchmark_files=3))
    assert sorted(sizes(host).values()) == [2 * MIB] * 3
    host.write(f"{POINT}/{datastore_plan.PARTIAL}", "cut short")
    assert ops(call(entry(benchmark_file_mib=1, benchmark_files=2))) == ["write_benchmark_file"]
    assert list(sizes(host).values()) == [MIB] * 2
    # One of another size is written anew, the other one stays.
    first, second = sorted(sizes(host))
    with open(host.real(f"{POINT}/{first}"), "rb") as handle:
        kept = handle.read()
    host.write(f"{POINT}/{second}", "short")
    call(entry(benchmark_file_mib=1, benchmark_files=2))
    with open(host.real(f"{POINT}/{first}"), "rb") as handle:
        assert handle.read() == kept
    assert sizes(host) == {first: MIB, second: MIB}


@pytest.mark.parametrize(("files", "says"), [(1, "benchmark file needs"), (2, "2 benchmark files need")])
def test_benchmark_files_that_have_no_room(host, files, says):
    call(entry())
    size = (1 << 40) // MIB
    failure = refusal(entry(benchmark_file_mib=size, benchmark_files=files))
    assert (failure.code, failure.details["needed_bytes"]) == ("datastore_full", files << 40) and says in str(failure)


def test_what_others_put_there_or_use_stays(host):
    call(entry())
    host.write(f"{POINT}/theirs", "kept")
    failure = refusal(state="absent")
    assert (failure.code, failure.details["found"]) == ("datastore_not_empty", ["theirs"])
    host.holders = [(11, "fio")]
    failure = refusal(state="absent", discard_contents=True)
    assert (failure.code, "fio (pid 11)" in str(failure), len(host.table)) == ("device_in_use", True, 1)
    host.holders = []
    assert call(state="absent", discard_contents=True)["changed"] and host.table == []


def test_a_file_system_of_another_kind_is_told(host):
    host.blocks["/dev/sdx"] = {**OURS, "filesystem": "xfs"}
    assert (refusal(entry()).code, host.done) == ("wrong_filesystem", [])


def test_over_nfs(host):
    made = call(nfs())
    assert ops(made) == ["mount"]
    assert host.done == [f"mount -t nfs -o vers=4.2,proto=tcp,hard {SERVER}:/srv/e {POINT}"]
    assert made["layers"][0]["identity"]["uuid"] == EXPORT_UUID and made["layers"][0]["detail"]["server"] == SERVER
    assert call(nfs())["changed"] is False
    # Another version is another mount; the server is asked, so the old one ends as it should.
    host.done.clear()
    assert ops(call(nfs(nfs_version="3"))) == ["detach", "mount"]
    assert host.done[0] == f"umount --internal-only {POINT}"
    # What lies there is the server's.
    host.write(f"{POINT}/theirs")
    host.done.clear()
    call(state="absent")
    assert (host.done, host.table, host.has("/run/storlab")) == ([f"umount {POINT}"], [], False)


def test_nconnect_is_mounted_with_and_proven(host):
    made = call(nfs(nconnect=4))
    assert host.done == [f"mount -t nfs -o vers=4.2,proto=tcp,nconnect=4,hard {SERVER}:/srv/e {POINT}"]
    assert made["layers"][0]["detail"]["mount_options"] == "vers=4.2,proto=tcp,nconnect=4,hard"
    assert call(nfs(nconnect=4))["changed"] is False
    # Another number is another mount, and that is announced.
    planned = call(nfs(nconnect=2), check_mode=True)
    assert ops(planned) == ["detach", "mount"] and "nconnect=4" in planned["steps"][0]["was"]
    assert ops(call(nfs(nconnect=2))) == ["detach", "mount"] and "nconnect=2" in host.table[0]["options"]
    assert ops(call(nfs())) == ["detach", "mount"] and "nconnect" not in host.table[0]["options"]


def test_mounts_that_share_connections_all_go_before_the_first_comes_back(host):
    second = {"name": "ds2", "mount_point": "/run/srv/ds2", "export": "/srv/e2"}
    call(nfs(nconnect=4), nfs(nconnect=4, **second))
    host.done.clear()
    call(nfs(nconnect=2), nfs(nconnect=2, **second))
    assert [command.split()[0] for command in host.done] == ["umount", "umount", "mount", "mount"]
    assert host.real("/proc/self/mountstats") and host.table[1]["options"].count("nconnect=2") == 1
    assert call(nfs(nconnect=2), nfs(nconnect=2, **second))["changed"] is False


@pytest.mark.parametrize(
    ("address", "version", "connections", "shared"),
    [
        (SERVER, "4.2", "", "1 connection with /mnt/theirs"),
        (SERVER, "4.2", "nconnect=8,", "8 connections with /mnt/theirs"),
        (SERVER, "4.2", "nconnect=4,", None),
        (SERVER, "3", "", None),
        ("10.0.0.70", "4.2", "", None),
    ],
)
def test_connections_that_another_mount_has_opened_are_refused(host, address, version, connections, shared):
    options = f"rw,vers={version},proto=tcp,{connections}addr={address}"
    theirs = {
        "mount_point": "/mnt/theirs",
        "source": "x:/y",
        "filesystem": "nfs4",
        "options": options,
        "numbers": "0:9",
    }
    host.table.append(theirs)
    if not shared:
        # The kernel gives the number that was asked for.
        host.connections = 4
        assert ops(call(nfs(nconnect=4))) == ["mount"]
        return
    for check_mode in (True, False):
        with refused(Path(host.root), host.done, host.table) as caught:
            call(nfs(nconnect=4), check_mode=check_mode)
        assert caught.value.code == "connections_shared" and shared in str(caught.value)
    # Who asks for no number takes what there is, as before.
    assert ops(call(nfs())) == ["mount"]


def test_a_kernel_without_nconnect_is_named(host):
    host.nfs_says, host.nfs_takes_not = "mount.nfs: an incorrect mount option was specified", "nconnect"
    with broken_off() as caught:
        call(nfs(nconnect=4))
    assert caught.value.code == "nconnect_missing" and os.uname().release in str(caught.value)
    assert host.table == []
    # Another option that is wrong is not said to be this one, and for other reasons the message is mount's.
    host.nfs_takes_not = "hard"
    assert [refusal(nfs(nconnect=number)).code for number in (4, None)] == ["command_failed"] * 2
    host.nfs_says = "mount.nfs: access denied by server"
    assert "access denied" in str(refusal(nfs(nconnect=4)))
    host.nfs_says = ""
    assert ops(call(nfs(nconnect=4))) == ["mount"]


def test_connections_that_are_not_there_are_no_success(host):
    """As beside a mount from another address of the same server."""
    host.connections = 1
    for _attempt in range(2):
        failure = refusal(nfs(nconnect=4))
        assert failure.code == "wrong_connections" and "1 connection in place of 4" in str(failure)
    host.connections = 4
    host.tell_connections()
    assert call(nfs(nconnect=4))["changed"] is False


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ([nfs(nconnect=0)], "nconnect"),
        ([nfs(nconnect=17)], "nconnect"),
        ([nfs(nconnect=2, mount_options="nconnect=2")], "mount_options"),
        ([entry(nconnect=2)], "nconnect"),
        ([nfs(nconnect=2), nfs(name="ds2", mount_point="/run/srv/ds2")], "ds2 nconnect"),
    ],
)
def test_nconnect_that_cannot_be(host, wrong, named):
    with refused(Path(host.root), host.done) as caught:
        call(*wrong)
    assert caught.value.code == "bad_value" and named in str(caught.value)


def test_an_nfs_server_that_is_silent(host):
    call(nfs())
    host.way = "timeout"
    assert (refusal(nfs(nfs_version="3")).code, len(host.table)) == ("server_silent", 1)
    host.done.clear()
    call(state="absent")
    assert (host.done, host.table) == ([f"umount --internal-only --force --lazy {POINT}"], [])


def test_another_file_system_of_the_server_is_refused(host):
    host.fsid = "1:2"
    failure = refusal(nfs())
    assert failure.code == "wrong_uuid" and "1:2" in str(failure)
    host.fsid = None
    assert "the fsid none" in str(refusal(nfs()))


def test_benchmark_files_over_nfs_are_the_servers(host):
    # It is mounted by then; the next attempt says the same.
    for _attempt in range(2):
        failure = refusal(nfs(benchmark_file_mib=2))
        assert failure.code == "benchmark_file_missing" and "1 benchmark files of 2 MiB" in str(failure)
    with open(host.real(f"{POINT}/storlab-benchmark.dat"), "wb") as handle:
        handle.truncate(2 * MIB)
    assert call(nfs(benchmark_file_mib=2))["changed"] is False
    assert refusal(nfs(benchmark_file_mib=3)).code == "benchmark_file_missing"


def test_an_export_that_nobody_published_is_foreseen(host):
    unborn = call(nfs(layer="target-none"), check_mode=True)
    assert ops(unborn) == ["mount"] and host.done == []
    assert refusal(nfs(layer="target-none")).code == "layer_missing"


def test_who_holds_files_of_a_file_system(monkeypatch, tmp_path):
    host = Rooted(monkeypatch, tmp_path, datastore)
    host.write("/dev/data")
    device = os.stat(host.real("/dev/data")).st_dev
    for pid, name in (("21", "fio"), ("22", "idle"), ("23", "gone")):
        host.folder(f"/proc/{pid}/fd")
        host.write(f"/proc/{pid}/comm", f"{name}\n")
    host._symlink("/dev/data", "/proc/21/fd/3")
    host._symlink("/dev/missing", "/proc/22/fd/4")
    host.remove("/proc/23/fd")
    host.folder("/proc/sys")
    assert datastore._holders(device) == [(21, "fio")]
    assert datastore._holders(device + 1) == []
