# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device guard: against a made-up /sys and /proc, and against real loop devices of this host."""

from __future__ import annotations

import os
import pathlib
import re
import stat
import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import unit_serial
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety as guard
from unchanged import refused

SIZE = 64 << 20
SERIAL, NAA = "5a1e1d04-7d52", "6001405aaaabbbb0000111122223333f"
LAYER = {
    "name": "initiator-bench",
    "kind": "initiator",
    "host": "hypervisor01",
    "path": "/dev/sdb",
    "parent": "target-bench",
    "purpose": "scratch",
    "size_bytes": SIZE,
    "identity": {"serial": SERIAL, "naa": NAA},
}
FILE_LAYER = {
    "name": "datastore-ds1",
    "kind": "datastore",
    "host": "hypervisor01",
    "path": "/srv/ds1/bench.dat",
    "parent": "initiator-ds1",
    "purpose": "scratch",
    "size_bytes": 4096,
    "identity": {"mount_point": "/srv/ds1", "uuid": "11111111-2222"},
}


class FakeHost(guard.System):
    """A host whose /sys, /proc and /dev are a folder: one blank SCSI disk /dev/sdb (8:16) that is nobody's."""

    def __init__(self, root):
        super().__init__(str(root))
        self.blank, self.claim, self.claims, self.tgt, self.signature, self.layer = True, None, {}, "", None, LAYER
        self.dead_sockets, self.behind = set(), {}
        self.modes = {"/dev/sdb": (stat.S_IFBLK, os.makedev(8, 16))}
        self.write("/dev/sdb", "")
        self.disk = "/sys/devices/host0/block/sdb"
        self.link("/sys/dev/block/8:16", "../../devices/host0/block/sdb")
        for name, content in {
            "dev": "8:16",
            "size": str(SIZE // 512),
            "ro": "0",
            "device/vpd_pg80": b"\0\x80\0\x0d" + SERIAL.encode(),
            "device/vpd_pg83": b"\0\x83\0\x14\x01\x03\0\x10" + bytes.fromhex(NAA),
        }.items():
            self.write(f"{self.disk}/{name}", content)
        os.makedirs(self.real(f"{self.disk}/holders"))
        self.write(
            "/proc/self/mountinfo",
            "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 8:32 / /srv/ds1 rw - ext4 /dev/sdc rw\n",
        )
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

    def listens(self, path):
        return path not in self.dead_sockets

    def loop_backing(self, name):
        return self.behind.get(name)

    def exclusive(self, path):
        return self.claims.get(path) or (self.claim if path == "/dev/sdb" else None)

    def run(self, argv):
        if argv[0] == "tgtadm":
            return 0, self.tgt, ""
        if argv[-1] == "/dev/dm-3":
            return 0, "TYPE=ext4\n", ""
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
    return [item.code for item in guard.refusals(guard.inspect(layer["path"], system=host), layer, **options)]


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
    host.write(
        f"/sys/kernel/config/target/core/{adapter}/{name}/wwn/vpd_unit_serial",
        f"T10 VPD Unit Serial Number: {serial}\n",
    )


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
    for name, content in {
        "dev": "65:112",
        "size": str(SIZE // 512),
        "ro": "0",
        "device/vpd_pg80": b"\0\x80\0\x03xyz",
    }.items():
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


def other_namespace(host, mount="30 21 8:16 / /data rw - ext4 /dev/sdb rw\n", root="/"):
    """A process with mounts of its own, such as one in a container."""
    host.link("/proc/self/ns/mnt", "mnt:[1]")
    host.link("/proc/self/root", "/")
    host.link("/proc/77/ns/mnt", "mnt:[2]" if root == "/" else "mnt:[1]")
    host.link("/proc/77/root", root)
    host.write("/proc/77/mountinfo", mount)


def root_under_an_overlay(host):
    """The system's own disk, mounted before / was covered: no mount table shows it, but the kernel has claimed it."""
    host.write("/proc/self/mountinfo", "21 1 0:30 / / rw - overlay overlay rw,lowerdir=/lower\n")
    host.claim, host.signature = "EBUSY", "ext4"


def hidden_mount_of_a_volume(host):
    held("dm-3", "LVM2_member")(host)
    host.claims["/dev/dm-3"] = "EBUSY"


def node_of_a_jail(host, path, number=(8, 16)):
    host.write(path, "")
    host.modes[path] = (stat.S_IFBLK, os.makedev(*number))


def writer_in_a_jail(host, number=(8, 16)):
    """A process that made a node of its own: neither its path nor its folder says which device it is."""
    host.write("/proc/4242/fdinfo/9", "pos:\t0\nflags:\t0100001\n")
    host.write("/proc/4242/comm", "dd\n")
    node_of_a_jail(host, "/proc/4242/fd/9", number)


def loop_over_a_jails_node(host, number="8:16", mount="31 21 7:4 / /mnt rw - ext4 /srv/jail/loop4 rw\n"):
    host.write("/sys/block/loop4/loop/backing_file", "/srv/jail/mine\n")
    host.write("/sys/block/loop4/dev", "7:4")
    host.behind["loop4"] = ("0:55", 77, number)
    host.write("/proc/self/mountinfo", mount)


def btrfs_by_a_jails_node(host, number=(8, 16)):
    other_namespace(host, "30 21 0:44 / /data rw - btrfs /dev/mine rw\n")
    node_of_a_jail(host, "/proc/77/root/dev/mine", number)


def btrfs_of_several(host, name="sdb"):
    """The second device of a file system: the mount table shows the first."""
    host.link("/sys/fs/btrfs/6b1c/devices/sdz", "/sys/devices/host0/block/sdz")
    host.write("/sys/devices/host0/block/sdz/dev", "65:144")
    host.write("/sys/devices/host9/block/sdy/dev", "65:128")
    path = host.disk if name == "sdb" else "/sys/devices/host9/block/sdy"
    host.link("/sys/fs/btrfs/6b1c/devices/other", path)
    host.write("/proc/self/mountinfo", "30 21 0:44 / /mnt rw - btrfs /dev/sdz rw\n")
    host.claim, host.signature = "EBUSY", "btrfs"


def bcachefs_of_several(host, source="/dev/sdz1:/dev/sdb"):
    """bcachefs shows all devices of a file system, under the number of the first."""
    host.write("/proc/self/mountinfo", f"861 79 65:145 / /mnt/all rw shared:994 - bcachefs {source} rw\n")


def swap_under_an_escaped_name(host, name="/dev/mapper/their\\040swap", node="/dev/mapper/their swap"):
    host.write(
        "/proc/swaps", f"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n{name} partition\t8151036\t\t0\t\t-2\n"
    )
    node_of_a_jail(host, node)


def passed_through(host, device="/dev/sg3", link="/sys/class/scsi_generic/sg3/device", number="8:16"):
    """tgt hands SCSI commands on through a character device of the disk."""
    tgt(host, device=device)
    host.write("/sys/devices/scsi/3:0:0:1/block/sdb/dev", number)
    host.link(link, "/sys/devices/scsi/3:0:0:1")


def old_tgt(host, device="/dev/sdb"):
    tgt(host, device=device)
    host.tgt = host.tgt.replace("Backing store path", "Backing store")


def swap_by_another_node(host, number=(8, 16)):
    host.write("/proc/swaps", "Filename Type Size\n/srv/swap-node partition 1 0 -2\n")
    node_of_a_jail(host, "/srv/swap-node", number)


def lio_by_another_node(host, number="8 Minor: 16"):
    host.write("/sys/kernel/config/target/core/iblock_0/x/udev_path", "/srv/jail/mine\n")
    host.write(
        "/sys/kernel/config/target/core/iblock_0/x/info",
        f"Status: ACTIVATED  iBlock device: sdb  UDEV PATH: /srv/jail/mine\n        Major: {number}  CLAIMED: IBLOCK\n",
    )


def twin(host, wwid="naa.6001405aaaabbbb0", size=SIZE // 512):
    """The same LUN logged in to at a second portal."""
    host.write(f"{host.disk}/device/wwid", "naa.6001405aaaabbbb0")
    host.write("/sys/devices/host5/block/sdq/dev", "65:0")
    host.write("/sys/devices/host5/block/sdq/size", str(size))
    host.write("/sys/devices/host5/block/sdq/device/wwid", wwid)
    os.makedirs(host.real("/sys/devices/host5/block/sdq/holders"))
    host.link("/sys/block/sdq", "../devices/host5/block/sdq")
    host.link("/sys/block/sdb", "../devices/host0/block/sdb")


def mounted_twin(host, **differs):
    twin(host, **differs)
    host.write("/proc/self/mountinfo", "30 21 65:0 / /vm rw - xfs /dev/sdq rw\n")


def twin_in_a_volume_group(host, **differs):
    twin(host, **differs)
    host.write("/sys/devices/virtual/block/dm-8/dev", "253:8")
    host.link("/sys/devices/host5/block/sdq/holders/dm-8", "/sys/devices/virtual/block/dm-8")


BY_NUMBER = {
    "open for writing by a node of a jail": (writer_in_a_jail, ["device_in_use"]),
    "loop device over a node of a jail": (loop_over_a_jails_node, ["device_mounted", "device_held"]),
    "Btrfs mounted by a node of a container": (btrfs_by_a_jails_node, ["device_mounted"]),
    "Btrfs, second device": (btrfs_of_several, ["device_mounted", "signature_present"]),
    "bcachefs, second device": (bcachefs_of_several, ["device_mounted"]),
    "swap under an escaped name": (swap_under_an_escaped_name, ["device_swap"]),
    "swap under a name that was removed": (
        lambda host: swap_under_an_escaped_name(host, "/dev/sdb\\040(deleted)"),
        ["device_swap"],
    ),
    "passed through by tgt": (passed_through, ["device_exported"]),
    "passed through by tgt, by bsg": (
        lambda host: passed_through(host, "/dev/bsg/3:0:0:1", "/sys/class/bsg/3:0:0:1/device"),
        ["device_exported"],
    ),
    "exported by a tgt of 2009": (old_tgt, ["device_exported"]),
    "Btrfs, not mounted": (signed("btrfs"), ["signature_present"]),
    "swap by another node": (swap_by_another_node, ["device_swap"]),
    "exported by LIO by another node": (lio_by_another_node, ["device_exported"]),
    "mounted at its second portal": (mounted_twin, ["device_mounted"]),
    "volume group at its second portal": (twin_in_a_volume_group, ["device_held"]),
}

CASES = {
    **BY_NUMBER,
    "root disk under an overlay": (root_under_an_overlay, ["signature_present", "device_claimed"]),
    "volume on it mounted where nobody sees": (
        hidden_mount_of_a_volume,
        ["device_held", "signature_present", "device_claimed"],
    ),
    "claimed, and nobody can say what it holds": (
        lambda host: claimed_member(4)(host),
        ["signature_unknown", "device_claimed"],
    ),
    "mounted in another namespace": (other_namespace, ["device_mounted"]),
    "mounted beyond a changed root": (lambda host: other_namespace(host, root="/srv/jail"), ["device_mounted"]),
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
    "ZFS member, imported": (claimed_member("zfs_member"), ["signature_present", "device_claimed"]),
    "ZFS member, not imported": (signed("zfs_member"), ["signature_present"]),
    "bcache backing device": (claimed_member("bcache"), ["signature_present", "device_claimed"]),
    "path of a multipath device": (held("dm-5"), ["device_held"]),
    "md member, running": (held("md0", "linux_raid_member"), ["device_held", "signature_present"]),
    "md member, stopped": (signed("linux_raid_member"), ["signature_present"]),
    "LVM physical volume, active": (held("dm-3", "LVM2_member"), ["device_held", "signature_present"]),
    "LVM physical volume, inactive": (signed("LVM2_member"), ["signature_present"]),
    "LUKS": (signed("crypto_LUKS"), ["signature_present"]),
    "volume on it mounted": (
        held("dm-3", "LVM2_member", mounted_on="/"),
        ["device_mounted", "device_held", "signature_present"],
    ),
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
    "renumbered": (
        lambda host: setattr(host, "layer", {**LAYER, "identity": {"major_minor": "8:32"}}),
        ["wrong_number"],
    ),
    "other wwid": (lambda host: setattr(host, "layer", {**LAYER, "identity": {"wwid": "naa.5000"}}), ["wrong_wwid"]),
    "larger": (lambda host: host.write(f"{host.disk}/size", str(SIZE // 512 + 1)), ["wrong_size"]),
    "backs a loop device": (
        lambda host: host.write("/sys/block/loop4/loop/backing_file", "/dev/sdb\n"),
        ["device_held"],
    ),
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


# The same with another device: nothing of it counts.
OTHERS = {
    "process": lambda host: writer_in_a_jail(host, (8, 17)),
    "loop device": lambda host: loop_over_a_jails_node(host, "8:17"),
    "loop device on a file": lambda host: loop_over_a_jails_node(host, "0:0"),
    "Btrfs": lambda host: btrfs_by_a_jails_node(host, (8, 17)),
    "swap": lambda host: swap_by_another_node(host, (8, 17)),
    "swap whose escaped name only begins so": lambda host: swap_under_an_escaped_name(
        host, "/dev/sdb\\040x", "/dev/other"
    ),
    "bcachefs": lambda host: bcachefs_of_several(host, "/dev/sdz1:/dev/sdba"),
    "path with colons": lambda host: bcachefs_of_several(host, "/dev/disk/by-path/pci-0:/dev/sdba"),
    "disk passed through": lambda host: passed_through(host, number="8:32"),
    "tgt of 2009": lambda host: old_tgt(host, "/dev/sdba"),
    "LIO": lambda host: lio_by_another_node(host, "8 Minor: 17"),
    "LUN of another name": lambda host: mounted_twin(host, wwid="naa.6001405aaaabbbb1"),
    "disk of a name that is no one's own": lambda host: (
        mounted_twin(host),
        *[
            host.write(f"{folder}/device/wwid", "t10.ATA QEMU HARDDISK")
            for folder in (host.disk, "/sys/devices/host5/block/sdq")
        ],
    ),
    "of another size": lambda host: mounted_twin(host, size=SIZE // 512 + 8),
    "free second portal": twin,
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_number_is_another_device(host, case):
    OTHERS[case](host)
    assert codes(host) == [] and block_device.users("/dev/sdb", system=host) == []


def test_a_file_is_told_by_its_inode(tmp_path):
    """Open in a container under another path, and behind a loop device of it."""
    host = FakeHost(tmp_path)
    host.write("/srv/ds1/bench.dat", "x" * 4096)
    status = os.stat(host.real("/srv/ds1/bench.dat"))
    assert codes(host, FILE_LAYER) == []
    os.makedirs(host.real("/proc/4242/fd"))
    os.link(host.real("/srv/ds1/bench.dat"), host.real("/proc/4242/fd/5"))
    host.write("/proc/4242/fdinfo/5", "flags:\t02\n")
    assert codes(host, FILE_LAYER) == ["device_in_use"]
    os.unlink(host.real("/proc/4242/fd/5"))
    host.write("/sys/block/loop6/loop/backing_file", "/in/a/container\n")
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    host.behind["loop6"] = (number, status.st_ino + 1, "0:0")
    assert codes(host, FILE_LAYER) == []
    host.behind["loop6"] = (number, status.st_ino, "0:0")
    assert codes(host, FILE_LAYER) == ["device_held"]


@pytest.mark.parametrize("case", CASES)
def test_naming_the_device_overrides_only_what_may_be_overridden(host, case):
    change, expected = CASES[case]
    change(host)
    kept, overridden = guard.judge(guard.inspect("/dev/sdb", system=host), host.layer, allow=["/dev/sdb"])
    assert [item.code for item in kept] == [code for code in expected if code in guard.FINAL]
    assert [item.code for item in overridden] == [code for code in expected if code not in guard.FINAL]


# What uses the device, and the words for it.
USES = {
    "mount": (mounted, "mounted on /home dir"),
    "mount of a partition": (mounted_partition, "mounted on /boot"),
    "mount in another namespace": (other_namespace, "mounted on /data (as process 77 sees it)"),
    "volume of a partition": (held_partition(), "held by dm-0"),
    "volume mounted": (held("dm-3", mounted_on="/var"), "mounted on /var"),
    "swap": (CASES["swap"][0], "swap space"),
    "holder": (holder, "held by dm-3"),
    "loop device": (CASES["backs a loop device"][0], "backs loop4"),
    "LIO, block": (lambda host: lio(host, "their-disk"), "exported as their-disk (lio)"),
    "LIO, file": (lambda host: lio(host, "their-file", "fileio_3"), "exported as their-file (lio)"),
    "tgt": (tgt, "exported as iqn.2020-01.test:a (tgt)"),
    "NVMe target": (nvmet, "exported as nqn.2020-01.test namespace 1 (nvmet)"),
    "process": (writer, "open in qemu-nbd (pid 4242)"),
}


@pytest.mark.parametrize("case", USES)
def test_both_judgements_see_every_use(host, case):
    assert block_device.users("/dev/sdb", system=host) == [] and codes(host) == []
    change, words = USES[case]
    change(host)
    assert words in block_device.users("/dev/sdb", system=host)
    assert codes(host) != []


def test_who_only_reads_keeps_a_device_from_going_but_not_from_being_measured(host):
    writer(host, flags="0100000")
    assert block_device.users("/dev/sdb", system=host) == ["open in qemu-nbd (pid 4242)"] and codes(host) == []
    assert block_device.users("/dev/sdb", with_openers=False, system=host) == []


def test_what_others_use_is_not_taken_for_this_devices(host):
    host.write(
        "/proc/self/mountinfo", "30 21 8:17 / /home rw - ext4 /dev/sdb1 rw\n31 21 8:160 / /srv rw - ext4 /dev/sdba rw\n"
    )
    other_namespace(host, "30 21 8:1 / /data rw - ext4 /dev/sdb12 rw\n")
    tgt(host, device="/dev/sdbc")
    host.write("/sys/kernel/config/target/core/iblock_0/a/udev_path", "/dev/sdb2\n")
    host.write("/sys/block/loop4/loop/backing_file", "/dev/sdb.img\n")
    assert block_device.users("/dev/sdb", system=host) == [] and codes(host) == []


def test_a_socket_that_a_tgtd_left_is_not_asked(host, monkeypatch):
    tgt(host)
    host.dead_sockets.add("/run/tgtd/socket.0")
    asked = []
    monkeypatch.setattr(host, "run", lambda argv: asked.append(argv[0]) or (2, "", ""))
    assert guard.usage("/dev/sdb", host)["exports"] == [] and asked == []


def test_a_tgtd_that_does_not_answer_ends_no_run(host, monkeypatch):
    tgt(host)
    monkeypatch.setattr(
        subprocess, "run", lambda argv, **_rest: (_ for _ in ()).throw(subprocess.TimeoutExpired(argv, 60))
    )
    assert guard.System().run(["true"])[0] == 124


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


def named(host, **given):
    """Codes for /dev/sdb as a user names it for a LUN."""
    facts = guard.inspect("/dev/sdb", system=host)
    try:
        guard.refuse_named("LUN a", "iscsi_target_targets iqn.x", "/dev/sdb", given, "data", facts)
    except Failure as failure:
        if failure.code == "identity_missing" and not given:
            raise
        return [item["code"] for item in failure.details["refusals"]]
    return []


def test_a_device_in_use_is_not_to_be_proven_first(host):
    lio(host, "their-disk")
    assert named(host) == ["device_exported"]


def test_a_device_that_only_its_name_proves_is_refused_with_the_lines_to_add(host):
    with refused(pathlib.Path(host.root)) as caught:
        named(host)
    assert caught.value.code == "identity_missing"
    assert f"serial: {SERIAL} or naa: {NAA}." in str(caught.value) and "iscsi_target_targets iqn.x" in str(caught.value)
    assert caught.value.details["identity"] == {"serial": SERIAL, "naa": NAA}
    os.unlink(host.real(f"{host.disk}/device/vpd_pg80"))
    os.unlink(host.real(f"{host.disk}/device/vpd_pg83"))
    with refused(pathlib.Path(host.root), match="shows no serial"):
        named(host)


def test_a_device_is_what_the_user_says_of_it(host):
    assert named(host, serial=SERIAL) == named(host, naa=f"naa.{NAA}", serial=SERIAL) == []
    assert named(host, serial="other") == ["wrong_serial"]
    assert named(host, serial=SERIAL, naa="6001405") == ["wrong_naa"]
    assert named(host, wwid="naa.5000") == ["wrong_wwid"]
    # A disk has no UUID of its own: that of what lies on it is no proof.
    assert named(host, uuid="1111-2222") == ["identity_missing"]


ATA = "t10.ATA     SLOWDISK 9000" + 27 * " " + "            WX9-4471"


def sata(host, wwid, page=True):
    """A SATA disk. Linux 4.16 shows its T10 name, Linux 6.17 its NAA name; the page has both."""
    host.write(f"{host.disk}/device/wwid", f"{wwid}\n")
    host.write(f"{host.disk}/device/vpd_pg80", b"\0\x80\0\x14            WX9-4471")
    t10 = bytes([2, 1, 0, len(ATA) - 4]) + ATA[4:].encode()
    body = t10 + bytes([1, 3, 0, 8]) + bytes.fromhex("5000c500aabbccdd")
    host.write(f"{host.disk}/device/vpd_pg83", bytes([0, 0x83, 0, len(body)]) + body if page else b"")


@pytest.mark.parametrize("shown", [ATA, "naa.5000c500aabbccdd"])
def test_a_wwid_holds_on_other_kernels(host, shown):
    sata(host, shown)
    for given in (ATA, "naa.5000c500aabbccdd", "5000C500AABBCCDD", re.sub(r" +", "_", ATA), re.sub(" ", "_", ATA)):
        assert named(host, wwid=given) == [], given
    for given in (ATA.replace("WX9-4471", "WX9-4472"), "naa.5000c500aabbccde", "t10.ATA_SLOWDISK_9000", "t10."):
        assert named(host, wwid=given) == ["wrong_wwid"], given
    assert named(host, naa="5000c500aabbccdd", serial="WX9-4471") == []


def test_a_wwid_is_compared_where_there_is_no_page(host):
    sata(host, ATA, page=False)
    assert named(host, wwid=ATA) == [] and named(host, wwid="naa.5000c500aabbccdd") == ["wrong_wwid"]


def test_a_name_of_a_model_is_no_name_of_a_disk(host):
    """Cheap devices have a T10 name without a serial."""
    body = bytes([2, 1, 0, 12]) + b"ATA     SLOW" + bytes([1, 3, 0, 8]) + bytes.fromhex("5000c500aabbccdd")
    host.write(f"{host.disk}/device/vpd_pg83", bytes([0, 0x83, 0, len(body)]) + body)
    assert named(host, wwid="t10.ATA     SLOW") == ["wrong_wwid"] and named(host, wwid="naa.5000c500aabbccdd") == []


@pytest.mark.parametrize(
    ("given", "codes_expected"),
    [
        ("eui.00253858710a0b1c", []),
        ("uuid.0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", []),
        ("nvme.1987-5758-4142-00000001", []),
        ("eui.00253858710a0b1d", ["wrong_wwid"]),
        # Not set.
        ("eui.00000000000000000000000000000000", ["wrong_wwid"]),
    ],
)
def test_a_namespace_is_known_by_each_of_its_names(host, given, codes_expected):
    for key, text in {
        "wwid": "nvme.1987-5758-4142-00000001",
        "uuid": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
        "nguid": "00000000-0000-0000-0000-000000000000",
        "eui": "00 25 38 58 71 0a 0b 1c",
    }.items():
        host.write(f"{host.disk}/{key}", f"{text}\n")
    assert named(host, wwid=given) == codes_expected


def test_hints_name_what_every_kernel_writes_alike(host):
    sata(host, ATA)
    with refused(pathlib.Path(host.root)) as caught:
        named(host)
    assert "serial: WX9-4471 or naa: 5000c500aabbccdd." in str(caught.value)
    sata(host, ATA, page=False)
    os.unlink(host.real(f"{host.disk}/device/vpd_pg80"))
    with refused(pathlib.Path(host.root), match=re.escape(f"wwid: {ATA}")):
        named(host)


def test_a_twin_is_known_though_the_kernel_shows_another_name(host):
    sata(host, ATA)
    twin(host, wwid=ATA)
    host.write(f"{host.disk}/device/wwid", ATA)
    mounted = "30 21 65:0 / /vm rw - xfs /dev/sdq rw\n"
    host.write("/proc/self/mountinfo", mounted)
    assert guard.usage("/dev/sdb", host)["mounts"] == [], "T10 names of cheap disks are alike"
    page = pathlib.Path(host.real(f"{host.disk}/device/vpd_pg83")).read_bytes()
    host.write("/sys/devices/host5/block/sdq/device/vpd_pg83", page)
    assert guard.usage("/dev/sdb", host)["mounts"] == ["/vm"]


VOLUME = "LVM-" + "Ab3" * 10 + "Zz" + "9cD" * 10 + "Yy"
ARRAY = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"


@pytest.mark.parametrize(
    ("kind", "found", "given"),
    [
        ("dm", VOLUME, VOLUME),
        ("dm", VOLUME, "9cD9cD-9cD9-cD9c-D9cD-9cD9-cD9c-D9cDYy"),
        ("dm", "mpath-36001405aaaa", "mpath-36001405aaaa"),
        ("md", ARRAY, ARRAY),
        ("md", ARRAY, "0f1e2d3c:4b5a6978:8796a5b4:c3d2e1f0"),
    ],
)
def test_mapped_devices_are_proven_by_their_uuid(host, kind, found, given):
    host.write(f"{host.disk}/{kind}/uuid", f"{found}\n")
    assert named(host, uuid=given) == []
    assert codes(host, {**LAYER, "identity": {"uuid": given}}) == []
    for wrong in (given.swapcase() if kind == "dm" else given.replace("0f1e", "0f1f"), given[:-1], f"{given}0"):
        assert named(host, uuid=wrong)[0] == "device_mapped"
    os.unlink(host.real(f"{host.disk}/device/vpd_pg80"))
    with refused(pathlib.Path(host.root), match=re.escape(f"uuid: {found}")):
        named(host)


@pytest.mark.parametrize(("second", "expected"), [("600a", []), ("600b", ["wrong_wwid"])])
def test_a_multipath_device_is_the_lun_that_all_its_paths_are(host, second, expected):
    host.write(f"{host.disk}/dm/uuid", "mpath-3600a\n")
    for name, wwid in (("sdx", "600a"), ("sdy", second)):
        host.write(f"/devices/{name}/device/wwid", f"naa.{wwid}")
        host.link(f"{host.disk}/slaves/{name}", f"/devices/{name}")
    layer = {**LAYER, "identity": {"wwid": "naa.600a"}}
    assert codes(host, {**layer, "identity": {**layer["identity"], "uuid": "mpath-3600a"}}) == expected
    assert codes(host, layer)[0] == "device_mapped"


def test_an_array_of_a_kernel_that_shows_no_uuid_is_asked_of_mdadm(host, monkeypatch):
    host.write(f"{host.disk}/md/array_state", "clean\n")
    before = host.run
    answer = (0, "MD_LEVEL=raid0\nMD_UUID=0f1e2d3c:4b5a6978:8796a5b4:c3d2e1f0\n", "")
    monkeypatch.setattr(host, "run", lambda argv: answer if argv[0] == "mdadm" else before(argv))
    assert named(host, uuid=ARRAY) == []


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
    assert codes(host, {**layer, "identity": {"major_minor": "8:23", "whole_device": "/dev/sda"}}) == [
        "device_partitioned"
    ]
    assert codes(host, {**layer, "identity": {"major_minor": "8:23"}}) == ["device_partitioned"]


def test_links_are_followed_to_the_device(host):
    host.link("/dev/disk/by-id/mine", "../../sdb")
    assert codes(host, {**LAYER, "path": "/dev/disk/by-id/mine"}) == []
    mounted(host)
    assert codes(host, {**LAYER, "path": "/dev/disk/by-id/mine"}) == ["device_mounted"]


# ---------------------------------------------------------------- exports


def backing(**changes):
    return {
        **LAYER,
        "name": "backing-bench",
        "kind": "backing",
        "parent": None,
        "identity": {"major_minor": "8:16"},
        **changes,
    }


TARGET = {
    "name": "target-bench",
    "kind": "target",
    "parent": "backing-bench",
    "identity": {"serial": "ABC-77", "target_iqn": "iqn.2020-01.test:a"},
}


def test_own_export_of_a_scratch_layer_is_measured_underneath(host):
    host.claim = "EBUSY"
    lio(host, "storlab-embedded-bench", serial=unit_serial("embedded", "bench"))
    assert codes(host, backing(), testbed_id="embedded") == []


def test_own_namespace_of_a_scratch_layer_is_measured_underneath(host):
    """By its UUID, which the layer of the target has, too."""
    name = "6f1d3b0e-52a4-5c1e-9a57-73746f726c61"
    nvmet(host)
    host.write("/sys/kernel/config/nvmet/subsystems/nqn.2020-01.test/namespaces/1/device_uuid", f"{name}\n")
    target = {**TARGET, "identity": {"wwid": f"uuid.{name}"}}
    assert codes(host, backing(), layers=[target]) == []
    for other in (
        {**target, "identity": {"wwid": f"uuid.{name[:-1]}2"}},
        {**target, "parent": "backing-other"},
        {**target, "identity": {"wwid": None}},
    ):
        assert codes(host, backing(), layers=[other]) == ["device_exported"]
    assert codes(host, {**backing(), "purpose": "data"}, layers=[target]) != []


def test_own_export_of_this_making_of_a_ram_disk(host):
    lio(host, "storlab-embedded-bench", serial=unit_serial("embedded", "bench", "g7"))
    made = backing(detail={"generation": "g7"})
    assert codes(host, made, testbed_id="embedded") == []
    # One that stands on it has the same making.
    above = backing(name="backing-bench", parent="backing-below", detail={})
    below = {**made, "name": "backing-below"}
    assert codes(host, above, testbed_id="embedded", layers=[below]) == []
    assert codes(host, backing(detail={"generation": "g8"}), testbed_id="embedded") == ["device_exported"]


def test_testbeds_whose_backstores_are_called_alike_do_not_take_each_others(host):
    lio(host, "storlab-a-b-c", serial=unit_serial("a-b", "c"))
    assert codes(host, backing(name="backing-b-c"), testbed_id="a") == ["device_exported"]
    assert codes(host, backing(name="backing-c"), testbed_id="a-b") == []


def test_own_export_is_known_by_its_serial(host):
    lio(host, "any-name", serial="abc-77")
    assert codes(host, backing(), layers=[TARGET]) == []
    assert codes(host, backing(), layers=[{**TARGET, "parent": "backing-ds1"}]) == ["device_exported"]


def test_export_of_another_testbed_is_foreign(host):
    lio(host, "storlab-embedded-two-bench")
    assert codes(host, backing(), testbed_id="embedded") == ["device_exported"]


def test_own_export_does_not_excuse_what_else_is_wrong(host):
    lio(host, "storlab-embedded-bench", adapter="fileio_0", serial=unit_serial("embedded", "bench"))
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


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({"mount_point": "/srv/ds1", "uuid": "other"}, "wrong_uuid"),
        ({"mount_point": "/srv/ds2", "uuid": "11111111-2222"}, "wrong_mount"),
        ({"mount_point": "/srv/ds1"}, "identity_missing"),
        ({"serial": SERIAL}, "not_a_device"),
    ],
)
def test_files_elsewhere_are_refused(datastore, identity, expected):
    assert codes(datastore, {**FILE_LAYER, "identity": identity}) == [expected]


@pytest.mark.parametrize(
    ("fsid", "expected"),
    [
        ("6d6a2a1c3f0e5c3b:9a550c1d2e3f4a5b", []),
        ("6d6a2a1c3f0e5c3b:9a550c1d2e3f4a5c", ["wrong_uuid"]),
        (None, ["wrong_uuid"]),
    ],
)
def test_a_file_over_nfs_is_proven_by_the_fsid_of_its_mount(datastore, fsid, expected):
    datastore.write("/proc/self/mountinfo", "44 1 0:45 / /srv/ds1 rw - nfs4 10.0.5.10:/srv/ds1 rw\n")
    table = f"NV SERVER PORT DEV FSID FSC\nv4 0a00050a 801 0:45 {fsid} no\nv4 0a00050a 801 0:46 6d6a2a1c3f0e5c3b:9a550c1d2e3f4a5b no\n"
    datastore.write("/proc/fs/nfsfs/volumes", table if fsid else table.replace("0:45", "0:44"))
    layer = {**FILE_LAYER, "identity": {"mount_point": "/srv/ds1", "uuid": "6d6a2a1c-3f0e-5c3b-9a55-0c1d2e3f4a5b"}}
    assert codes(datastore, layer) == expected


def test_file_system_that_is_not_mounted(datastore):
    datastore.write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n")
    assert codes(datastore, FILE_LAYER) == ["wrong_mount"]


def test_swap_file(datastore):
    datastore.write("/proc/swaps", "Filename Type\n/srv/ds1/bench.dat file 1 0 -2\n")
    assert codes(datastore, FILE_LAYER, allow=[FILE_LAYER["path"]]) == ["device_swap"]


def test_file_under_a_mounted_loop_device(datastore):
    datastore.write("/sys/block/loop4/loop/backing_file", "/srv/ds1/bench.dat\n")
    datastore.write("/sys/block/loop4/dev", "7:4")
    datastore.write(
        "/proc/self/mountinfo",
        "30 21 8:32 / /srv/ds1 rw - ext4 /dev/sdc rw\n31 30 7:4 / /mnt rw - ext4 /dev/loop4 rw\n",
    )
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


# ---------------------------------------------------------------- holding


def test_what_is_held_is_what_was_judged(datastore, tmp_path):
    path = pathlib.Path(datastore.real(FILE_LAYER["path"]))
    facts = {**guard.inspect(FILE_LAYER["path"], system=datastore), "resolved": str(path)}
    held = guard.hold(facts)
    assert os.fstat(held).st_ino == path.stat().st_ino and not os.get_inheritable(held)
    os.close(held)
    # Another file takes the name between the judgement and the opening.
    other = tmp_path / "other"
    other.write_bytes(b"y" * 4096)
    before = set(os.listdir("/proc/self/fd"))
    os.replace(other, path)
    with refused(tmp_path) as caught:
        guard.hold(facts)
    assert caught.value.code == "device_changed" and str(path) in str(caught.value)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_device_that_took_the_place_of_the_judged_one_is_not_held(host, tmp_path):
    facts = guard.inspect("/dev/sdb", system=host)
    assert facts["held_as"] == "8:16"
    (tmp_path / "file").write_bytes(b"")
    with refused(tmp_path) as caught:
        guard.hold({**facts, "resolved": str(tmp_path / "file")})
    assert caught.value.code == "device_changed"


# ---------------------------------------------------------------- failure


def test_guard_names_layer_host_reason_and_remedy(host):
    mounted(host)
    with refused(pathlib.Path(host.root)) as caught:
        guard.guard(LAYER, system=host)
    assert caught.value.code == "device_mounted"
    assert str(caught.value) == (
        "Layer initiator-bench on hypervisor01 is not touched: /dev/sdb or something on it is mounted on /home dir. "
        "Unmount it, or name another device."
    )
    assert [item["code"] for item in caught.value.details["refusals"]] == ["device_mounted"]
