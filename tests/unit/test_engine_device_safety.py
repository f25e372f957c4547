# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device guard: against a made-up /sys and /proc, and against real loop devices of this host."""

from __future__ import annotations

import os
import stat
import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import device_safety as guard
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure

SIZE = 64 << 20
SERIAL, NAA = "5a1e1d04-7d52", "6001405aaaabbbb0000111122223333f"
LAYER = {"name": "initiator-bench", "kind": "initiator", "host": "hypervisor01", "path": "/dev/sdb", "parent": "target-bench", "purpose": "scratch",
         "size_bytes": SIZE, "identity": {"serial": SERIAL, "naa": NAA}}
FILE_LAYER = {"name": "datastore-ds1", "kind": "datastore", "host": "hypervisor01", "path": "/srv/ds1/bench.dat", "parent": "initiator-ds1",
              "purpose": "scratch", "size_bytes": 4096, "identity": {"mount_point": "/srv/ds1", "uuid": "11111111-2222"}}


class FakeHost(guard.System):
    """A host whose /sys, /proc and /dev are a folder: one blank SCSI disk /dev/sdb (8:16) that is nobody's."""

    def __init__(self, root):
        super().__init__(str(root))
        self.blank, self.claim, self.tgt, self.signature, self.layer = True, None, "", None, LAYER
        self.modes = {"/dev/sdb": (stat.S_IFBLK, os.makedev(8, 16))}
        self.write("/dev/sdb", "")
        self.disk = "/sys/devices/host0/block/sdb"
        self.link("/sys/dev/block/8:16", "../../devices/host0/block/sdb")
        for name, content in {"dev": "8:16", "size": str(SIZE // 512), "ro": "0", "device/vpd_pg80": b"\0\x80\0\x0d" + SERIAL.encode(),
                              "device/vpd_pg83": b"\0\x83\0\x14\x01\x03\0\x10" + bytes.fromhex(NAA)}.items():
            self.write(f"{self.disk}/{name}", content)
        os.makedirs(self.real(f"{self.disk}/holders"))
        self.write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 8:32 / /srv/ds1 rw - ext4 /dev/sdc rw\n")
        self.write("/proc/swaps", "Filename Type Size Used Priority\n")

    def write(self, path, content):
        os.makedirs(os.path.dirname(self.real(path)), exist_ok=True)
        with open(self.real(path), "wb") as handle:
            handle.write(content if isinstance(content, bytes) else content.encode())

    def link(self, path, to):
        os.makedirs(os.path.dirname(self.real(path)), exist_ok=True)
        os.symlink(to, self.real(path))

    def stat(self, path):
        found = super().stat(path)
        kind, number = self.modes.get(path, (None, 0))
        if kind is None:
            return found
        return SimpleNamespace(st_mode=kind | 0o660, st_rdev=number, st_size=0, st_blocks=0)

    def exclusive(self, path):
        return self.claim

    def run(self, argv):
        if argv[0] == "tgtadm":
            return 0, self.tgt, ""
        if argv[-1] == "/dev/sdc":
            return 0, "UUID=11111111-2222\nTYPE=ext4\n", ""
        if isinstance(self.signature, int):
            return self.signature, "", "blkid: error: /dev/sdb: Input/output error" if self.signature != 8 else ""
        if self.signature:
            return 0, f"DEVNAME=/dev/sdb\nTYPE={self.signature}\n", ""
        return (2, "", "") if self.blank else (0, "DEVNAME=/dev/sdb\nTYPE=xfs\nUUID=99\n", "")


@pytest.fixture
def host(tmp_path):
    return FakeHost(tmp_path)


def codes(host, layer=LAYER, **options):
    return [item["code"] for item in guard.refusals(guard.inspect(layer["path"], system=host), layer, **options)]


def test_the_proven_device_is_accepted(host):
    assert codes(host) == []


def test_what_the_kernel_knows_is_read(host):
    facts = guard.inspect("/dev/sdb", system=host)
    assert (facts["serial"], facts["naa"], facts["size_bytes"], facts["major_minor"]) == (SERIAL, NAA, SIZE, "8:16")


def holder(host):
    host.write(f"{host.disk}/holders/dm-3/dev", "253:3")


def partition(host):
    host.write(f"{host.disk}/sdb1/partition", "1")
    host.write(f"{host.disk}/sdb1/dev", "8:17")


def mounted(host):
    host.write("/proc/self/mountinfo", "30 21 8:16 / /home\\040dir rw - ext4 /dev/sdb rw\n")


def mounted_by_name(host):
    # btrfs shows a number of its own, only the source tells.
    host.write("/proc/self/mountinfo", "30 21 0:44 / /mnt rw - btrfs /dev/sdb rw\n")


def mounted_partition(host):
    partition(host)
    host.write("/proc/self/mountinfo", "30 21 8:17 / /boot rw - ext4 /dev/sdb1 rw\n")


def lio(host, name, adapter="iblock_0", serial="other"):
    host.write(f"/sys/kernel/config/target/core/{adapter}/{name}/udev_path", "/dev/sdb\n")
    host.write(f"/sys/kernel/config/target/core/{adapter}/{name}/wwn/vpd_unit_serial", f"T10 VPD Unit Serial Number: {serial}\n")


def tgt(host, serial="beaf", device="/dev/sdb"):
    host.write("/run/tgtd/socket.0", "")
    host.tgt = f"Target 1: iqn.2020-01.test:a\n    LUN information:\n        LUN: 1\n            SCSI SN: {serial}\n            Backing store path: {device}\n"


def writer(host, flags="0100002", command="qemu-nbd"):
    host.link("/proc/4242/fd/7", "/dev/sdb")
    host.write("/proc/4242/fdinfo/7", f"pos:\t0\nflags:\t{flags}\n")
    host.write("/proc/4242/comm", f"{command}\n")


def claimed_member(kind):
    """A member of something that claims its disks without being seen in sysfs, as ZFS, bcache and Ceph do."""
    def change(host):
        host.claim, host.signature = "EBUSY", kind
    return change


def signed(kind):
    return lambda host: setattr(host, "signature", kind)


def held(name, kind=None, mounted_on=None, uuid=None):
    """The device is under another block device, which may be mounted."""
    def change(host):
        folder = f"/sys/devices/virtual/block/{name}"
        host.write(f"{folder}/dev", "253:3")
        host.link(f"{host.disk}/holders/{name}", folder)
        host.claim, host.signature = "EBUSY", kind
        if mounted_on:
            host.write("/proc/self/mountinfo", f"30 21 253:3 / {mounted_on} rw - ext4 /dev/mapper/x rw\n")
    return change


def held_partition(mounted_on=None, swap=False):
    """The volume group of a system is on a partition of the device: named by nothing but the holder of the partition."""
    def change(host):
        partition(host)
        host.write("/sys/devices/virtual/block/dm-0/dev", "253:0")
        host.link(f"{host.disk}/sdb1/holders/dm-0", "/sys/devices/virtual/block/dm-0")
        if mounted_on:
            host.write("/proc/self/mountinfo", f"30 21 253:0 / {mounted_on} rw - ext4 /dev/mapper/vg-root rw\n")
        if swap:
            host.write("/proc/swaps", "Filename Type\n/dev/dm-0 partition 1 0 -2\n")
    return change


def mounted_loop(host):
    host.write("/sys/block/loop4/loop/backing_file", "/dev/sdb\n")
    host.write("/sys/block/loop4/dev", "7:4")
    host.write("/proc/self/mountinfo", "30 21 7:4 / /mnt rw - ext4 /dev/loop4 rw\n")


def other_behind_links(host):
    """The path is a chain of links, and its end is not what it was: another disk took the name."""
    host.disk = "/sys/devices/host1/block/sdx"
    for name, content in {"dev": "65:112", "size": str(SIZE // 512), "ro": "0", "device/vpd_pg80": b"\0\x80\0\x03xyz"}.items():
        host.write(f"{host.disk}/{name}", content)
    host.link("/sys/dev/block/65:112", "../../devices/host1/block/sdx")
    host.write("/dev/sdx", "")
    host.modes["/dev/sdx"] = (stat.S_IFBLK, os.makedev(65, 112))
    os.unlink(host.real("/dev/sdb"))
    host.link("/dev/sdb", "disk/by-id/one")
    host.link("/dev/disk/by-id/one", "../by-path/two")
    host.link("/dev/disk/by-path/two", "../../sdx")


def broken_link(host):
    os.unlink(host.real("/dev/sdb"))
    host.link("/dev/sdb", "disk/by-id/gone")


def link_loop(host):
    os.unlink(host.real("/dev/sdb"))
    host.link("/dev/sdb", "sdc")
    host.link("/dev/sdc", "sdb")


def nvmet(host, enabled="1"):
    folder = "/sys/kernel/config/nvmet/subsystems/nqn.2020-01.test/namespaces/1"
    host.write(f"{folder}/device_path", "/dev/sdb\n")
    host.write(f"{folder}/enable", enabled)


CASES = {
    "mounted": (mounted, ["device_mounted"]),
    "mounted by name": (mounted_by_name, ["device_mounted"]),
    "partition mounted": (mounted_partition, ["device_mounted", "device_partitioned"]),
    "partitioned": (partition, ["device_partitioned"]),
    "is a partition": (lambda host: host.write(f"{host.disk}/partition", "2"), ["device_partitioned"]),
    "swap": (lambda host: host.write("/proc/swaps", "Filename Type\n/dev/sdb partition 1 0 -2\n"), ["device_swap"]),
    "held by device mapper": (holder, ["device_held"]),
    "foreign dm device": (lambda host: host.write(f"{host.disk}/dm/uuid", "LVM-abc"), ["device_mapped"]),
    "foreign md device": (lambda host: host.write(f"{host.disk}/md/array_state", "clean"), ["device_mapped"]),
    "claimed in the kernel": (lambda host: setattr(host, "claim", "EBUSY"), ["device_busy"]),
    "ZFS member, imported": (claimed_member("zfs_member"), ["signature_present", "device_busy"]),
    "ZFS member, not imported": (signed("zfs_member"), ["signature_present"]),
    "bcache backing device": (claimed_member("bcache"), ["signature_present", "device_busy"]),
    "path of a multipath device": (held("dm-5"), ["device_held"]),
    "md member, running": (held("md0", "linux_raid_member"), ["device_held", "signature_present"]),
    "md member, stopped": (signed("linux_raid_member"), ["signature_present"]),
    "LVM physical volume, active": (held("dm-3", "LVM2_member"), ["device_held", "signature_present"]),
    "LVM physical volume, inactive": (signed("LVM2_member"), ["signature_present"]),
    "LUKS": (signed("crypto_LUKS"), ["signature_present"]),
    "volume on it mounted": (held("dm-3", "LVM2_member", mounted_on="/"), ["device_mounted", "device_held", "signature_present"]),
    "volume on a partition of it mounted": (held_partition(mounted_on="/"), ["device_mounted", "device_partitioned"]),
    "volume on a partition of it is swap": (held_partition(swap=True), ["device_swap", "device_partitioned"]),
    "several signatures": (signed(8), ["signature_present"]),
    "blkid failed": (signed(4), ["signature_unknown"]),
    "dead": (lambda host: setattr(host, "claim", "ENXIO"), ["device_unreadable"]),
    "signature": (lambda host: setattr(host, "blank", False), ["signature_present"]),
    "read-only": (lambda host: host.write(f"{host.disk}/ro", "1"), ["device_read_only"]),
    "smaller": (lambda host: host.write(f"{host.disk}/size", str(SIZE // 512 - 1)), ["wrong_size"]),
    "other serial": (lambda host: host.write(f"{host.disk}/device/vpd_pg80", b"\0\x80\0\x03abc"), ["wrong_serial"]),
    "other naa": (lambda host: host.write(f"{host.disk}/device/vpd_pg83", b""), ["wrong_naa"]),
    "exported by LIO": (lambda host: lio(host, "their-disk"), ["device_exported"]),
    "exported by LIO as a file": (lambda host: lio(host, "their-file", "fileio_3"), ["device_exported"]),
    "exported by tgt": (tgt, ["device_exported"]),
    "exported over NVMe": (nvmet, ["device_exported"]),
    "loop device on it mounted": (mounted_loop, ["device_mounted", "device_held"]),
    "another disk behind its links": (other_behind_links, ["wrong_serial", "wrong_naa"]),
    "renumbered": (lambda host: setattr(host, "layer", {**LAYER, "identity": {"major_minor": "8:32"}}), ["wrong_number"]),
    "other wwid": (lambda host: setattr(host, "layer", {**LAYER, "identity": {"wwid": "naa.5000"}}), ["wrong_wwid"]),
    "larger": (lambda host: host.write(f"{host.disk}/size", str(SIZE // 512 + 1)), ["wrong_size"]),
    "backs a loop device": (lambda host: host.write("/sys/block/loop4/loop/backing_file", "/dev/sdb\n"), ["device_held"]),
    "open for writing": (writer, ["device_in_use"]),
    "gone": (lambda host: os.unlink(host.real("/dev/sdb")), ["device_missing"]),
    "a character device": (lambda host: host.modes.update({"/dev/sdb": (stat.S_IFCHR, 0)}), ["not_a_device"]),
    "a link to nothing": (broken_link, ["device_missing"]),
    "links in a circle": (link_loop, ["device_missing"]),
    "a FIFO": (lambda host: host.modes.update({"/dev/sdb": (stat.S_IFIFO, 0)}), ["not_a_device"]),
    "a socket": (lambda host: host.modes.update({"/dev/sdb": (stat.S_IFSOCK, 0)}), ["not_a_device"]),
    "a folder": (lambda host: host.modes.update({"/dev/sdb": (stat.S_IFDIR, 0)}), ["not_a_device"]),
    "a file of that name": (lambda host: host.modes.clear(), ["not_a_device", "wrong_size"]),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(host, case):
    change, expected = CASES[case]
    change(host)
    assert codes(host, host.layer) == expected


@pytest.mark.parametrize("case", CASES)
def test_naming_the_device_overrides_only_what_may_be_overridden(host, case):
    change, expected = CASES[case]
    change(host)
    kept, overridden = guard.judge(guard.inspect("/dev/sdb", system=host), host.layer, allow=["/dev/sdb"])
    assert [item["code"] for item in kept] == [code for code in expected if code in guard.FINAL]
    assert [item["code"] for item in overridden] == [code for code in expected if code not in guard.FINAL]


def test_a_namespace_that_is_off_exports_nothing(host):
    nvmet(host, enabled="0")
    assert codes(host) == []


def test_naming_another_device_overrides_nothing(host):
    holder(host)
    assert codes(host, allow=["/dev/sdc", "/dev"]) == ["device_held"]


def test_a_path_that_may_not_be_looked_at(host, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")
    monkeypatch.setattr(host, "stat", denied)
    assert codes(host, allow=["/dev/sdb"]) == ["device_unreadable"]


def test_readers_are_no_reason(host):
    writer(host, flags="0100000")
    assert codes(host) == []


def test_blkid_that_is_missing_proves_nothing(host, monkeypatch):
    monkeypatch.setattr(host, "run", lambda argv: None)
    assert codes(host) == ["signature_unknown"]


def test_data_layers_are_never_overwritten_but_may_be_exported(host):
    data = {**LAYER, "purpose": "data"}
    assert codes(host, data, allow=["/dev/sdb"]) == ["purpose_data"]
    assert codes(host, data, overwrite=False) == []


def test_without_identity_nothing_is_proven(host):
    assert codes(host, {**LAYER, "identity": {"stamp": "embedded/bench"}}) == ["identity_missing"]


@pytest.mark.parametrize("naa", [f"naa.{NAA}", f"0x{NAA.upper()}"])
def test_one_name_written_in_several_ways(host, naa):
    assert codes(host, {**LAYER, "identity": {"naa": naa}}) == []


def test_own_device_mapper_device(host):
    host.write(f"{host.disk}/dm/uuid", "STORLAB-1")
    assert codes(host, {**LAYER, "identity": {"uuid": "STORLAB-1"}}) == []


def test_own_partition_of_the_named_device(host):
    host.write(f"{host.disk}/sdb7/partition", "7")
    host.write(f"{host.disk}/sdb7/size", str(SIZE // 512))
    host.write("/dev/sdb7", "")
    host.modes["/dev/sdb7"] = (stat.S_IFBLK, os.makedev(8, 23))
    host.link("/sys/dev/block/8:23", "../../devices/host0/block/sdb/sdb7")
    layer = {**LAYER, "path": "/dev/sdb7", "identity": {"major_minor": "8:23", "whole_device": "/dev/sdb"}}
    assert codes(host, layer) == []
    assert codes(host, {**layer, "identity": {"major_minor": "8:23", "whole_device": "/dev/sda"}}) == ["device_partitioned"]
    assert codes(host, {**layer, "identity": {"major_minor": "8:23"}}) == ["device_partitioned"]


def test_links_are_followed_to_the_device(host):
    host.link("/dev/disk/by-id/mine", "../../sdb")
    assert codes(host, {**LAYER, "path": "/dev/disk/by-id/mine"}) == []
    mounted(host)
    assert codes(host, {**LAYER, "path": "/dev/disk/by-id/mine"}) == ["device_mounted"]


# ---------------------------------------------------------------- exports


def backing(**changes):
    return {**LAYER, "name": "backing-bench", "kind": "backing", "parent": None, "identity": {"major_minor": "8:16"}, **changes}


TARGET = {"name": "target-bench", "kind": "target", "parent": "backing-bench", "identity": {"serial": "ABC-77", "target_iqn": "iqn.2020-01.test:a"}}


def test_own_export_of_a_scratch_layer_is_measured_underneath(host):
    host.claim = "EBUSY"
    lio(host, "storlab-embedded-bench")
    assert codes(host, backing(), testbed_id="embedded") == []


def test_own_export_is_known_by_its_serial(host):
    lio(host, "any-name", serial="abc-77")
    assert codes(host, backing(), layers=[TARGET]) == []
    assert codes(host, backing(), layers=[{**TARGET, "parent": "backing-ds1"}]) == ["device_exported"]


def test_export_of_another_testbed_is_foreign(host):
    lio(host, "storlab-embedded-two-bench")
    assert codes(host, backing(), testbed_id="embedded") == ["device_exported"]


def test_own_export_does_not_excuse_what_else_is_wrong(host):
    lio(host, "storlab-embedded-bench", adapter="fileio_0")
    host.claim = "EBUSY"
    writer(host)
    assert codes(host, backing(), testbed_id="embedded") == ["device_in_use", "device_busy"]


def test_own_tgt_export(host):
    tgt(host, serial="ABC-77")
    writer(host, command="tgtd")
    assert codes(host, backing(), layers=[TARGET]) == []
    tgt(host, serial="ABC-77", device="/dev/sdz")
    assert codes(host, backing(), layers=[TARGET]) == ["device_in_use"]


# ---------------------------------------------------------------- files


@pytest.fixture
def datastore(host):
    host.write("/srv/ds1/bench.dat", b"x" * 4096)
    return host


def test_the_benchmark_file_on_its_file_system_is_accepted(datastore):
    assert codes(datastore, FILE_LAYER) == []


@pytest.mark.parametrize(("identity", "expected"), [
    ({"mount_point": "/srv/ds1", "uuid": "other"}, "wrong_uuid"),
    ({"mount_point": "/srv/ds2", "uuid": "11111111-2222"}, "wrong_mount"),
    ({"mount_point": "/srv/ds1"}, "identity_missing"),
    ({"serial": SERIAL}, "not_a_device"),
])
def test_files_elsewhere_are_refused(datastore, identity, expected):
    assert codes(datastore, {**FILE_LAYER, "identity": identity}) == [expected]


def test_file_system_that_is_not_mounted(datastore):
    datastore.write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n")
    assert codes(datastore, FILE_LAYER) == ["wrong_mount"]


def test_swap_file(datastore):
    datastore.write("/proc/swaps", "Filename Type\n/srv/ds1/bench.dat file 1 0 -2\n")
    assert codes(datastore, FILE_LAYER, allow=[FILE_LAYER["path"]]) == ["device_swap"]


def test_file_under_a_mounted_loop_device(datastore):
    datastore.write("/sys/block/loop4/loop/backing_file", "/srv/ds1/bench.dat\n")
    datastore.write("/sys/block/loop4/dev", "7:4")
    datastore.write("/proc/self/mountinfo", "30 21 8:32 / /srv/ds1 rw - ext4 /dev/sdc rw\n31 30 7:4 / /mnt rw - ext4 /dev/loop4 rw\n")
    assert codes(datastore, FILE_LAYER) == ["device_mounted", "device_held"]


def test_file_of_another_size(datastore):
    datastore.write("/srv/ds1/bench.dat", b"x" * 4095)
    assert codes(datastore, FILE_LAYER) == ["wrong_size"]


def test_link_that_leads_off_the_file_system(datastore):
    datastore.write("/etc/precious", b"x" * 4096)
    datastore.link("/srv/ds1/link.dat", "/etc/precious")
    assert codes(datastore, {**FILE_LAYER, "path": "/srv/ds1/link.dat"}) == ["wrong_mount"]


def test_block_device_where_a_file_is_expected(host):
    assert "not_a_device" in codes(host, {**LAYER, "identity": FILE_LAYER["identity"]})


# ---------------------------------------------------------------- failure


def test_guard_names_layer_host_reason_and_remedy(host):
    mounted(host)
    with pytest.raises(Failure) as caught:
        guard.guard(LAYER, system=host)
    assert caught.value.code == "device_mounted"
    assert str(caught.value) == ("Layer initiator-bench on hypervisor01 is not touched: /dev/sdb or what stands on it is mounted on /home dir. "
                                 "Unmount it, or name another device.")
    assert [item["code"] for item in caught.value.details["refusals"]] == ["device_mounted"]


# ---------------------------------------------------------------- real devices


@pytest.fixture
def loop(tmp_path):
    """A real loop device on a file of this test, detached by its name."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    name = subprocess.run(["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True).stdout.strip()
    yield SimpleNamespace(path=name, image=str(image))
    subprocess.run(["losetup", "--detach", name], check=True)


def real_layer(loop, **changes):
    number = os.stat(loop.path).st_rdev
    return {"name": "backing-x", "kind": "backing", "host": "here", "path": loop.path, "parent": None, "purpose": "scratch", "size_bytes": 1 << 20,
            "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"}, **changes}


def real_codes(layer):
    return [item["code"] for item in guard.refusals(guard.inspect(layer["path"]), layer)]


def test_real_blank_device(loop):
    assert real_codes(real_layer(loop)) == []


def test_real_device_through_a_link(loop, tmp_path):
    os.symlink(loop.path, tmp_path / "link")
    layer = real_layer(loop, path=str(tmp_path / "link"))
    assert real_codes(layer) == []
    assert real_codes({**layer, "identity": {"major_minor": "8:0"}}) == ["wrong_number"]


def test_real_device_of_another_size(loop):
    assert real_codes(real_layer(loop, size_bytes=2 << 20)) == ["wrong_size"]


def test_real_file_behind_a_loop_device(loop):
    assert real_codes(real_layer(loop, path=loop.image)) == ["not_a_device", "device_held"]


def test_real_device_that_is_open_for_writing(loop):
    with subprocess.Popen(["tail", "-f", "/dev/null"], stdin=os.open(loop.path, os.O_RDWR | os.O_CLOEXEC)) as other:
        assert real_codes(real_layer(loop)) == ["device_in_use"]
        other.kill()


def test_real_device_that_is_claimed(loop):
    claimed = os.open(loop.path, os.O_RDONLY | os.O_EXCL)
    try:
        assert real_codes(real_layer(loop)) == ["device_busy"]
    finally:
        os.close(claimed)


def test_real_swap(loop):
    subprocess.run(["mkswap", loop.path], check=True, capture_output=True)
    subprocess.run(["swapon", loop.path], check=True)
    try:
        assert set(real_codes(real_layer(loop))) == {"device_swap", "signature_present"}
    finally:
        subprocess.run(["swapoff", loop.path], check=True)


def test_real_things_that_are_no_devices(loop, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, code in {"/dev/zero": "not_a_device", str(tmp_path): "not_a_device", str(tmp_path / "fifo"): "not_a_device",
                       str(tmp_path / "nowhere" / "x"): "device_missing", f"{loop.image}/x": "device_missing"}.items():
        assert real_codes(real_layer(loop, path=path)) == [code]


def test_real_file_system_and_mount(loop, tmp_path):
    subprocess.run(["mkfs.ext4", "-q", loop.path], check=True)
    assert real_codes(real_layer(loop)) == ["signature_present"]
    mount_point = tmp_path / "mounted"
    mount_point.mkdir()
    subprocess.run(["mount", loop.path, str(mount_point)], check=True)
    try:
        assert set(real_codes(real_layer(loop))) == {"device_mounted", "signature_present"}
        uuid = subprocess.run(["blkid", "-p", "-s", "UUID", "-o", "value", loop.path], check=True, capture_output=True, text=True).stdout.strip()
        (mount_point / "bench.dat").write_bytes(bytes(65536))
        layer = real_layer(loop, path=str(mount_point / "bench.dat"), size_bytes=65536, identity={"mount_point": str(mount_point), "uuid": uuid})
        assert real_codes(layer) == []
        assert real_codes({**layer, "identity": {**layer["identity"], "uuid": "1234"}}) == ["wrong_uuid"]
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)
