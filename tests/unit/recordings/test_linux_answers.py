# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real Linux systems answer, in one table: system, reader, answer, and what the reader must make of it.

The answers are written for these tests: their form and their odd places are those of real ones, which were looked at on the system that a row names; names,
numbers and lengths are made up. docs/support.md lists the readers of texts for which no real answer was looked at, and a test holds that list.
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import cache_bcache, raid, raid_plan
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import filesystem, open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import (
    device_mapper,
    exported,
    nfs_volumes,
    scsi_pages,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks.system import System
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio, nfs_plan, tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import environment, probe

LINUX = places.TESTS.parent / "plugins" / "module_utils" / "linux"


class Row(NamedTuple):
    system: str
    reader: Callable[..., Any]
    answer: Any
    right: Any
    # Where the reader is not called as it is.
    of: str = ""

    @property
    def name(self) -> str:
        return self.of or name_of(self.reader)


def name_of(reader: Callable[..., Any]) -> str:
    return f"{reader.__module__.rpartition('.')[2]}.{reader.__name__}"


def mounted(numbers: str, place: str, kind: str, source: str, options: str) -> dict[str, str]:
    return {"numbers": numbers, "mount_point": place, "filesystem": kind, "source": source, "options": options}


def ext(compatible: int, incompatible: int, read_only: int) -> bytes:
    """The first 2 KiB of an ext file system with these features."""
    head = bytearray(2048)
    head[0x438:0x43A] = b"\x53\xef"
    struct.pack_into("<III", head, 0x45C, compatible, incompatible, read_only)
    head[0x468:0x478] = bytes(range(16))
    head[0x478:0x47D] = b"label"
    return bytes(head)


def made(kind: str) -> dict[str, str]:
    return {"filesystem": kind, "uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f", "label": "label"}


def page(code: int, body: bytes) -> bytes:
    return bytes([0, code]) + len(body).to_bytes(2, "big") + body


ARM = """processor\t: {number}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm cpuid
CPU implementer\t: {implementer}
CPU architecture: 8
CPU variant\t: {variant}
CPU part\t: {part}
CPU revision\t: {revision}
"""


def arm(*processors: tuple[str, str, str, str], between: str = "\n") -> str:
    keys = ("implementer", "variant", "part", "revision")
    return between.join(ARM.format(number=number, **dict(zip(keys, one))) for number, one in enumerate(processors))


TGT = """Target {tid}: {name}
    System information:
        Driver: iscsi
        State: ready
    I_T nexus information:
        I_T nexus: 1
            Initiator: {initiator}
            Connection: 0
                IP Address: 192.0.2.7
    LUN information:
        LUN: 0
            Type: controller
            SCSI ID: IET     000{tid}0000
            SCSI SN: beaf{tid}0
            {backing}: None
        LUN: 3
            Type: disk
            SCSI ID: IET     000{tid}0003
            SCSI SN: beaf{tid}3
            Size: 4294 MB{block}
            Online: Yes
            {backing}: {device}
    Account information:
    ACL information:
        ALL
"""


def shown(**changed: Any) -> str:
    values = {"initiator": "iqn.1994-05.com.redhat:aa", "backing": "Backing store path", "block": ", Block size: 512"}
    return TGT.format(**{**values, **changed})


SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
CACHE = {"used": 9, "blocks": 512, "dirty": 4, "counts": [11, 12, 13, 14, 15, 16]}
ROWS = [
    # ---- mounts
    Row(
        "Linux 6.17, bcachefs",
        mounts.parse,
        "861 79 8:33 / /mnt/x rw,relatime shared:99 - bcachefs /dev/sdc1:/dev/sdc2 rw,noinodes_32bit\n",
        [mounted("8:33", "/mnt/x", "bcachefs", "/dev/sdc1:/dev/sdc2", "rw,relatime,noinodes_32bit")],
    ),
    Row(
        "Linux 5.14, Btrfs",
        mounts.parse,
        "24 1 0:31 /var_tmp /var/tmp rw,noatime - btrfs /dev/sdc1 rw,ssd,subvolid=264,subvol=/var_tmp\n",
        [mounted("0:31", "/var/tmp", "btrfs", "/dev/sdc1", "rw,noatime,ssd,subvolid=264,subvol=/var_tmp")],
    ),
    Row(
        "Linux 3.10, tmpfs without a source",
        mounts.parse,
        "21 20 0:53 / /mnt/t rw,relatime shared:212 - tmpfs  rw\n",
        [mounted("0:53", "/mnt/t", "tmpfs", "", "rw,relatime")],
    ),
    Row(
        "Linux in a container, a mount of a file that was removed",
        mounts.parse,
        "105 232 0:54 /boot_id//deleted /proc/sys/kernel/random/boot_id ro,nosuid shared:54 - tmpfs tmpfs rw,mode=755\n",
        [mounted("0:54", "/proc/sys/kernel/random/boot_id", "tmpfs", "tmpfs", "ro,nosuid,mode=755")],
    ),
    Row(
        "Linux with names of any bytes",
        mounts.parse,
        "30 22 8:16 / /a\\040b\\134c\rd rw shared:1 master:2 propagate_from:3 - fuse.sshfs me@host:/x\\011y rw\n",
        [mounted("8:16", "/a b\\c\rd", "fuse.sshfs", "me@host:/x\ty", "rw")],
    ),
    Row(
        "Linux 5.x, swap files",
        mounts.swap_spaces,
        SWAPS
        + "/dev/dm-2                               partition\t815\t228\t-2\n/some/file2\\040(deleted)            file\t\t111\t0\t0\n",
        ["/dev/dm-2", "/some/file2"],
    ),
    Row("Linux without swap", mounts.swap_spaces, SWAPS, []),
    # ---- processors
    Row(
        "x86_64",
        environment.processor,
        "processor\t: 0\nmodel name\t: Maker(R) CPU 7 @ 2.90GHz\nstepping\t: 4\n" * 2,
        "Maker(R) CPU 7 @ 2.90GHz",
    ),
    Row(
        "aarch64, RHEL 9",
        environment.processor,
        arm(("0x50", "0x3", "0x000", "2")),
        "ARM implementer 0x50, part 0x000, r3p2",
    ),
    Row(
        "aarch64, processors without a blank line between",
        environment.processor,
        arm(("0x41", "0x3", "0xd0c", "1"), ("0x41", "0x3", "0xd0c", "1"), between=""),
        "ARM implementer 0x41, part 0xd0c, r3p1",
    ),
    Row(
        "aarch64 with processors of two kinds",
        environment.processor,
        arm(("0x41", "0x0", "0xd03", "4"), ("0x41", "0x1", "0xd0b", "0")),
        "ARM implementer 0x41, part 0xd03, r0p4 + ARM implementer 0x41, part 0xd0b, r1p0",
    ),
    Row(
        "ppc64le, a guest",
        environment.processor,
        "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\nclock\t\t: 2200.0MHz\nrevision\t: 2.2 (pvr 004e 1202)\n\n"
        "timebase\t: 512000000\nplatform\t: pSeries\nmodel\t\t: IBM pSeries (emulated by qemu)\n",
        "POWER9 (architected), altivec supported",
    ),
    Row(
        "s390x, RHEL 8",
        environment.processor,
        "vendor_id       : IBM/S390\n# processors    : 2\nfeatures\t: esan3 zarch\n"
        "processor 0: version = FF,  identification = 1E41E8,  machine = 3906\nprocessor 1: version = FF,  identification = 1E41E8,  machine = 3906\n"
        "\ncpu number      : 0\ncpu MHz dynamic : 5208\n",
        "IBM/S390 machine 3906",
    ),
    Row(
        "ARMv7",
        environment.processor,
        "processor\t: 0\nmodel name\t: ARMv7 Processor rev 5 (v7l)\n",
        "ARMv7 Processor rev 5 (v7l)",
    ),
    Row("a kernel that says nothing", environment.processor, "processor\t: 0\nmodel\t\t:\n", None),
    Row(
        "Linux 4.18",
        probe.memory_mib,
        "MemTotal:       8009956 kB\nMemFree: 5 kB\nMemAvailable:    712312 kB\nHugePages_Total: 0\n",
        (7822, 695),
    ),
    # ---- file systems
    Row("mke2fs -t ext2", filesystem.parse_superblock, ext(0x38, 0x2, 0x1), made("ext2")),
    Row("mke2fs -t ext3", filesystem.parse_superblock, ext(0x3C, 0x2, 0x1), made("ext3")),
    Row("ext3 whose journal is to be replayed", filesystem.parse_superblock, ext(0x3C, 0x6, 0x3), made("ext3")),
    Row("mke2fs -t ext4", filesystem.parse_superblock, ext(0x3C, 0x2C2, 0x46B), made("ext4")),
    Row("ext4 without a journal", filesystem.parse_superblock, ext(0x38, 0x242, 0x1), made("ext4")),
    # ---- disks
    Row("SATA, serial on the right", scsi_pages.unit_serial, page(0x80, b"     WD-ABCDE1234567"), "WD-ABCDE1234567"),
    Row("SATA, serial on the left", scsi_pages.unit_serial, page(0x80, b"556BA5FD4690AAAA    "), "556BA5FD4690AAAA"),
    Row(
        "SAS, with names of ports and of the target",
        scsi_pages.naa_names,
        page(
            0x83,
            b"\x01\x03\0\x08"
            + bytes.fromhex("5000cca0506b5f1c")
            + b"\x61\x93\0\x08"
            + bytes.fromhex("5000cca0506b5f1d")
            + b"\x61\xa3\0\x08"
            + bytes.fromhex("5000cca0506b5f1f")
            + b"\x63\xa8\0\x18naa.5000CCA0506B5F1F\0\0\0\0",
        ),
        ["5000cca0506b5f1c"],
    ),
    Row(
        "scsi_debug",
        scsi_pages.designators,
        page(0x83, b"\x02\x01\0\x11Linux   disk 1400" + b"\x01\x03\0\x08" + bytes.fromhex("5333330000006b00")),
        ["t10.Linux   disk 1400", "naa.5333330000006b00"],
    ),
    # ---- tgt and LIO
    Row(
        "tgt of RHEL 5, which shows no block size",
        exported.parse_tgt,
        shown(tid=1, name="vhosts", backing="Backing store", device="/dev/hdd1", block=""),
        [{"name": "vhosts", "serial": "beaf13", "device": "/dev/hdd1"}],
    ),
    Row(
        "tgt with a disk passed through",
        exported.parse_tgt,
        shown(tid=2, name="iqn.2015-03.com.example:designDisk", device="/dev/sg0"),
        [{"name": "iqn.2015-03.com.example:designDisk", "serial": "beaf23", "device": "/dev/sg0"}],
    ),
    Row(
        "tgt with an initiator that has an alias",
        lambda text: tgt.parse_targets(text)["iqn.2010-10.org.example:v"],
        shown(
            tid=4,
            name="iqn.2010-10.org.example:v",
            initiator="iqn.1991-05.com.microsoft:desk-1 alias: none",
            device="/dev/vg/v-0a",
        ),
        {
            "tid": 4,
            "luns": {
                3: {"scsi_id": "IET     00040003", "serial": "beaf43", "device": "/dev/vg/v-0a", "block_bytes": 512}
            },
            "incoming": set(),
            "outgoing": set(),
            "acl": {"ALL"},
            "sessions": {"iqn.1991-05.com.microsoft:desk-1": "192.0.2.7"},
        },
        "tgt.parse_targets",
    ),
    Row(
        "LIO of Debian, logged in",
        lio.parse_session,
        "InitiatorName: iqn.1993-08.org.debian:01:0a1b\nInitiatorAlias: lab1\nLIO Session ID: 1   ISID: 0x00 02 3d 00 00 02  TSIH: 1\n"
        "----[iSCSI Connections]----\nCID: 0  Connection State: TARG_CONN_STATE_LOGGED_IN\n   Address 192.0.2.50 TCP  StatSN: 0x6916c3e9\n",
        ("iqn.1993-08.org.debian:01:0a1b", "192.0.2.50"),
    ),
    Row(
        "LIO, nobody logged in",
        lio.parse_session,
        "No active iSCSI Session for Initiator Endpoint: iqn.1993-08.org.debian:01:0a1b\n",
        None,
    ),
    Row(
        "LIO on a multipath map",
        exported._iblock_number,
        "Status: ACTIVATED  Max Queue Depth: 0\n           iBlock device: dm-0  UDEV PATH: /dev/d/x  readonly: 0\n      Major: 252 Minor: 7  CLAIMED: IBLOCK\n",
        "252:7",
    ),
    Row(
        "LIO on a file",
        exported._iblock_number,
        "Status: ACTIVATED\n        TCM FILEIO ID: 0        File: /srv/disk.img  Size: 7\n",
        None,
    ),
    Row(
        "open-iscsi 2.0-874",
        lambda text: {key: open_iscsi.parse_record(text)[key] for key in ("node.tpgt", "node.discovery_address")},
        "# BEGIN RECORD 6.2.0.874\nnode.name = iqn.2010-10.org.example:v\nnode.tpgt = -1\nnode.discovery_address = 192.0.2.3\n# END RECORD\n",
        {"node.tpgt": "-1", "node.discovery_address": "192.0.2.3"},
        "open_iscsi.parse_record",
    ),
    # ---- NFS
    Row(
        "nfs-utils of EL8",
        nfs_plan.parse_etab,
        "/srv/old\\040dir\t192.0.2.0/24(ro,sync,sec=sys)\n/data/nfs\t*(rw,no_root_squash)\n",
        {("/srv/old dir", "192.0.2.0/24"): {"ro", "sync", "sec=sys"}, ("/data/nfs", "*"): {"rw", "no_root_squash"}},
    ),
    Row("Linux 5.x", nfs_plan.parse_versions, "-2 +3 +4 +4.1 -4.2\n", {"3", "4", "4.1"}),
    Row(
        "Linux 6.1, a client that has opened, locked, delegated and laid out",
        nfs_plan.parse_states,
        '- 0x01: { type: open, access: rw, deny: --, superblock: "fd:10:13649", filename: "a", owner: "open id:\\x00" }\n'
        "- 0x03: { type: deleg, access: w }\n"
        '- 0x04: { type: layout, superblock: "08:31:96", filename: "b" }\n',
        {"253:16", "8:49"},
    ),
    Row(
        "Linux 4.18, versions 3 and 4",
        nfs_volumes.volumes,
        "NV SERVER   PORT DEV          FSID                              FSC\n"
        "v4 c0000247  801 0:51         c10a1819257f4d4d:a0d6372e2f44b4e3 no \n"
        "v3 c000020a  801 0:44         5d1c83b1:0                        no \n",
        {"0:51": "c10a1819257f4d4d:a0d6372e2f44b4e3", "0:44": "5d1c83b1:0"},
    ),
    # ---- RAID and caches
    Row(
        "mdadm 4.2",
        raid.parse_export,
        "MD_LEVEL=raid1\nMD_DEVICES=2\nMD_UUID=a1b2c3d4:0e5f6a7b:8c9d0e1f:2a3b4c5d\nMD_NAME=host:disk\nMD_DEVICE_dev_sdc5_DEV=/dev/sdc5\n",
        {
            "MD_LEVEL": "raid1",
            "MD_DEVICES": "2",
            "MD_UUID": "a1b2c3d4:0e5f6a7b:8c9d0e1f:2a3b4c5d",
            "MD_NAME": "host:disk",
            "MD_DEVICE_dev_sdc5_DEV": "/dev/sdc5",
        },
    ),
    Row(
        "dm-cache of Linux 3.x, without a mode of its metadata",
        device_mapper.cache_status,
        "8 10/1501 512 9/512 11 12 13 14 15 16 4 1 writeback 2 migration_threshold 2048 mq 4 random_threshold 4 sequential_threshold 512",
        {
            "block_bytes": 262144,
            "mode": "writeback",
            "policy": "mq",
            "migration_threshold": 2048,
            "metadata_mode": "",
            "needs_check": False,
            **CACHE,
        },
    ),
    Row(
        "dm-cache of Linux 6.x with three features",
        device_mapper.cache_status,
        "8 10/4096 128 9/512 11 12 13 14 15 16 4 3 metadata2 writethrough no_discard_passdown 2 migration_threshold 4096 smq 0 rw -",
        {
            "block_bytes": 65536,
            "mode": "writethrough",
            "policy": "smq",
            "migration_threshold": 4096,
            "metadata_mode": "rw",
            "needs_check": False,
            **CACHE,
        },
    ),
    Row("dm-cache that failed", device_mapper.cache_status, "Fail", None),
    Row("bcache of Linux 6.x", cache_bcache.read_size, "3.5M", 3670016),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}: {row.system}")
def test_answer(row):
    assert row.reader(row.answer) == row.right


# ---- trees of the kernel


class Tree(System):
    def __init__(self, root, files: dict[str, str]):
        super().__init__(str(root))
        for path, text in files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")

    def run(self, argv):
        return None


MD = {
    "array_state": "clean",
    "level": "raid5",
    "raid_disks": "3",
    "chunk_size": "65536",
    "degraded": "0",
    "resync_start": "none",
}


@pytest.mark.parametrize(
    ("system", "changed", "right"),
    [
        ("idle", {"sync_action": "idle"}, (3, 65536, False, True)),
        # As distributions start it once a month.
        ("checked", {"sync_action": "check", "sync_completed": "15 / 60"}, (3, 65536, False, True)),
        ("repaired", {"sync_action": "repair", "sync_completed": "15 / 60"}, (3, 65536, False, True)),
        ("checked, with a member lost", {"sync_action": "check", "degraded": "1"}, (3, 65536, False, False)),
        (
            "recovering",
            {"sync_action": "recover", "degraded": "1", "sync_completed": "15 / 60"},
            (3, 65536, True, False),
        ),
        (
            "reshaped, Linux 6.x",
            {"sync_action": "reshape", "raid_disks": "11 (10)", "chunk_size": "131072 (65536)"},
            (11, 131072, True, False),
        ),
        (
            "a container of firmware RAID",
            {"level": "container", "array_state": "inactive", "raid_disks": "", "chunk_size": "0"},
            (0, 0, False, True),
        ),
    ],
)
def test_md(tmp_path, system, changed, right):
    tree = Tree(tmp_path, {f"/sys/block/md8/md/{key}": f"{text}\n" for key, text in {**MD, **changed}.items()})
    array = raid.read_array("md8", tree)
    assert (
        array["raid_disks"],
        array["chunk_bytes"],
        raid_plan.synchronising(array),
        raid_plan.settled(array),
    ) == right


DMI = "/sys/class/dmi/id"


@pytest.mark.parametrize(
    ("system", "files", "right"),
    [
        ("x86_64 under KVM", {"/proc/cpuinfo": "flags\t\t: fpu vme hypervisor lahf_lm\n"}, True),
        (
            "x86_64 that could run guests",
            {"/proc/cpuinfo": "flags\t\t: fpu vme vmx ept\n", f"{DMI}/sys_vendor": "Dell Inc."},
            False,
        ),
        (
            "aarch64 under KVM with firmware",
            {"/proc/cpuinfo": arm(("0x50", "0x3", "0x000", "2")), f"{DMI}/sys_vendor": "QEMU"},
            True,
        ),
        ("aarch64 under RHEL's KVM", {f"{DMI}/sys_vendor": "Red Hat", f"{DMI}/product_name": "KVM"}, True),
        ("aarch64 under KVM with a device tree", {"/proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, True),
        (
            "aarch64 on bare metal",
            {"/proc/cpuinfo": arm(("0x50", "0x3", "0x000", "2")), f"{DMI}/sys_vendor": "Lenovo"},
            False,
        ),
        ("aarch64, rented", {f"{DMI}/sys_vendor": "Amazon EC2", f"{DMI}/product_name": "c6g.large"}, True),
        ("aarch64, rented whole", {f"{DMI}/sys_vendor": "Amazon EC2", f"{DMI}/product_name": "c6g.metal"}, False),
        ("ppc64le under KVM", {"/proc/cpuinfo": "cpu\t\t: POWER8 (architected)\nplatform\t: pSeries\n"}, True),
        (
            "ppc64le on bare metal",
            {"/proc/cpuinfo": "cpu\t\t: POWER9, altivec supported\nplatform\t: PowerNV\n"},
            False,
        ),
        ("s390x under KVM", {"/proc/sysinfo": "VM00 Name:            guest\nVM00 Control Program: KVM/Linux\n"}, True),
        ("s390x in a partition", {"/proc/sysinfo": "LPAR Number:          7\n"}, False),
    ],
)
def test_guest(tmp_path, system, files, right):
    assert environment._virtualisation(Tree(tmp_path, files))["guest"] is right


# ---- the list


def text_readers() -> set[str]:
    """The functions of the room that read a whole text or page which the kernel or a program gave: those named so."""
    names = set()
    for path in LINUX.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and re.match(r"parse(_|$)", node.name):
                names.add(f"{path.stem}.{node.name}")
    return names


def test_every_reader_has_a_recorded_answer_or_is_named_in_the_documentation():
    documented = set(
        re.findall(r"`(\w+\.parse\w*)`", (places.TESTS.parent / "docs" / "support.md").read_text(encoding="utf-8"))
    )
    proven = {row.name for row in ROWS}
    assert text_readers() - proven == documented
    assert "mounts.parse" in proven & text_readers()
