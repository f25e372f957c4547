# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has of what a testbed needs."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import wanted_disks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import probe

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.11
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
     |-- 10.10.0.11
        /32 host LOCAL
Local:
        |-- 192.0.2.11
           /32 host LOCAL
"""


def test_own_addresses_are_the_local_ones():
    assert probe.local_addresses(FIB_TRIE) == ["192.0.2.11", "10.10.0.11"]
    assert probe.local_addresses("") == []


def test_memory():
    assert probe.memory_mib("MemTotal:  2048000 kB\nMemFree: 5 kB\nMemAvailable:   1048576 kB\n") == (2000, 1024)


def test_ways():
    with socket.socket() as listener, socket.socket() as silent:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        silent.bind(("127.0.0.1", 0))
        assert probe.reach("127.0.0.1", listener.getsockname()[1]) == "open"
        # Bound, and nobody listens.
        assert probe.reach("127.0.0.1", silent.getsockname()[1]) == "refused"


def test_checksum_of_rfc_1071():
    assert probe.checksum(bytes([0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7])) == 0xFFFF ^ 0xDDF2
    assert probe.checksum(b"\x01") == 0xFFFF ^ 0x0100


def test_disks(tmp_path):
    for name, files in {
        "sdd": {"size": "24", "device/x": "", "device/vpd_pg80": b"\0\x80\0\x0c    WD-77190"},
        "sde": {"size": "40", "device/vpd_pg80": b"\0\x83\0\x04none"},
        "vda": {"size": "32", "device/x": "", "serial": "slow-7"},
        "sr0": {"size": "64", "device/type": "5"},
        "fd0": {"size": "72", "device/x": ""},
        "sda": {"size": "2048", "queue/logical_block_size": "512", "device/serial": "ONE \n", "sda1/size": "9"},
        "sdc": {"size": "4096", "device/x": ""},
        "sdb": {"size": "4096", "queue/logical_block_size": "4096", "device/x": ""},
        "nvme0n1": {"size": "8", "queue/logical_block_size": "512", "device/serial": "N"},
        "ram0": {"size": "16"},
        "loop0": {"size": "16"},
    }.items():
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 259:2 / /boot rw - ext4 /dev/nvme0n1p2 rw\n23 1 8:18 / / rw - ext4 /dev/sdb2x rw\n24 1 0:5 / /x rw - tmpfs sdb rw\n"
        "25 1 259:2 / /all rw - bcachefs /dev/nvme0n1p2:/dev/sdd rw\n"
    )
    found = wanted_disks.disks(str(tmp_path), str(table), held=lambda path: path == "/dev/sdc")
    assert [
        (disk["path"], disk["size_bytes"], disk["sector_bytes"], disk["serial"], disk["used"]) for disk in found
    ] == [
        ("/dev/nvme0n1", 4096, 512, "N", True),
        ("/dev/sda", 1 << 20, 512, "ONE", True),
        ("/dev/sdb", 2 << 20, 4096, "", False),
        # What only the guard sees: a mount of the host of this container, a file system that nobody has mounted.
        ("/dev/sdc", 2 << 20, 512, "", True),
        # The second device of a file system.
        ("/dev/sdd", 12288, 512, "WD-77190", True),
        # Another page than that of the serial.
        ("/dev/sde", 20480, 512, "", False),
        ("/dev/vda", 16384, 512, "slow-7", False),
    ]


ID, BOOT = "3d1219c7c4c5404aaa1f6d2a48adfda4", "5a37a92e-dfd6-46d5-bd0b-4ad05ae6eb0b"


@pytest.mark.parametrize(
    ("files", "known"),
    [
        ({"etc/machine-id": f"{ID}\n"}, ID),
        ({"etc/machine-id": "uninitialized\n", "var/lib/dbus/machine-id": f"{ID}\n"}, ID),
        ({"etc/machine-id": "\n"}, "pid:[4026531836]"),
        ({}, "pid:[4026531836]"),
    ],
)
def test_what_tells_a_machine_from_others(tmp_path, files, known):
    for path, text in {"proc/sys/kernel/random/boot_id": f"{BOOT}\n", **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    os.symlink("pid:[4026531836]", tmp_path / "proc/self/ns/pid")
    assert probe.machine(str(tmp_path)) == {"machine_id": known, "boot_id": BOOT}


def test_a_machine_that_shows_nothing(tmp_path):
    assert probe.machine(str(tmp_path)) == {"machine_id": "", "boot_id": ""}


def test_missing_commands_and_modules_are_named(monkeypatch):
    monkeypatch.setattr(probe, "module_available", lambda name: name == "there")
    result = probe.probe(
        ["sh", "no-such-command"], ["no_such_module|nor_this", "nor_that|there"], [], ["/dev/no-such-device"]
    )
    assert result["missing_commands"] == ["no-such-command"] and result["missing_modules"] == [
        "no_such_module|nor_this"
    ]
    assert (
        result["devices"] == {"/dev/no-such-device": {}} and result["memory_mib"] >= result["memory_available_mib"] > 0
    )
