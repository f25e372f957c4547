# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import socket

from ansible_collections.storlab.testbed.plugins.module_utils.storage_state import gather, strays


def write(root, path, text=""):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def host(root):
    write(root, "sys/block/vda/size", "8192\n")
    write(root, "sys/block/vda/vda1/partition", "1\n")
    write(root, "sys/block/vda/vda1/size", "6144\n")
    write(root, "sys/block/loop0/size", "0\n")
    write(root, "proc/modules", "ext4 999 1 - Live 0x0\nbrd 16384 0 - Live 0x0\n")
    write(root, "proc/swaps", "Filename Type Size Used Priority\n/dev/vda2 partition 10 0 -2\n")
    write(root, "proc/self/mountinfo",
          "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n23 22 0:5 / /proc rw - proc proc rw\n24 22 0:9 / /run/user/0 rw - tmpfs tmpfs rw\n")
    write(root, "proc/77/comm", "tgtd\n")
    write(root, "proc/78/comm", "bash\n")
    write(root, "etc/iscsi/nodes/iqn.a/portal", "secret")


def test_gather_reads_every_section(tmp_path):
    host(tmp_path)
    links = [{"ifname": "eth0", "addr_info": [{"local": "10.9.8.7", "prefixlen": 24, "scope": "global"}]}, {"ifname": "vethx"}]
    state = gather(str(tmp_path), json.dumps(links))
    assert state["block_devices"] == ["vda 4194304 bytes", "vda1 3145728 bytes"]
    assert state["mounts"] == ["/dev/vda1 on / type ext4"]
    assert state["swaps"] == ["/dev/vda2"]
    assert state["kernel_modules"] == ["brd", "ext4"]
    assert state["processes"] == ["tgtd running"]
    assert state["network"] == ["interface eth0", "interface eth0 address 10.9.8.7/24"]
    assert [line.split()[0] for line in state["configuration_files"]] == ["/etc/iscsi/nodes/iqn.a/portal"]
    assert "secret" not in json.dumps(state)


def test_equal_states_have_no_strays(tmp_path):
    host(tmp_path)
    assert strays(gather(str(tmp_path)), gather(str(tmp_path))) == []


def test_strays_name_what_came_and_what_went(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path))
    write(tmp_path, "sys/block/loop0/loop/backing_file", "/srv/x.img")
    write(tmp_path, "sys/class/iscsi_session/session4/targetname", "iqn.left-over\n")
    write(tmp_path, "sys/kernel/config/target/core/iblock_0/storlab-a-bench/udev_path", "/dev/ram0")
    write(tmp_path, "sys/kernel/config/target/iscsi/iqn.our-target/param", "")
    write(tmp_path, "run/storlab/a/pid", "12")
    write(tmp_path, "etc/iscsi/nodes/iqn.a/portal", "other secret")
    (tmp_path / "proc/77/comm").unlink()
    found = strays(before, gather(str(tmp_path)))
    assert "block devices: loop0 0 bytes on /srv/x.img (was not there before)" in found
    assert "iscsi sessions: iqn.left-over (was not there before)" in found
    assert "targets: LIO backstore storlab-a-bench (was not there before)" in found
    assert "targets: LIO target iqn.our-target (was not there before)" in found
    assert "own files: /run/storlab/a/pid (was not there before)" in found
    assert "processes: tgtd running (is gone)" in found
    assert sum("/etc/iscsi/nodes/iqn.a/portal" in line for line in found) == 2


def test_ignored_lines_are_no_strays(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path))
    write(tmp_path, "proc/modules", "ext4 999 1 - Live 0x0\nbrd 1 0 - Live 0x0\nzram 1 0 - Live 0x0\n")
    assert strays(before, gather(str(tmp_path)), ignore=["^kernel modules: zram "]) == []
    assert strays(before, gather(str(tmp_path)), ignore=["^kernel modules: brd "]) == ["kernel modules: zram (was not there before)"]


def test_what_another_testbed_has_is_left_out(tmp_path):
    host(tmp_path)
    before = gather(str(tmp_path), testbed_id="mine")
    write(tmp_path, "run/storlab/other/pid", "12")
    write(tmp_path, "proc/90/comm", "qemu-system-x86\n")
    write(tmp_path, "proc/90/cmdline", "qemu\0-name\0storlab-other\0")
    assert strays(before, gather(str(tmp_path), testbed_id="mine")) == []
    (tmp_path / "run/storlab/mine").mkdir()
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(tmp_path / "run/storlab/mine/control"))
    assert strays(before, gather(str(tmp_path), testbed_id="mine")) == ["own files: /run/storlab/mine (was not there before)"]
    write(tmp_path, "run/storlab/mine/pid", "13")
    write(tmp_path, "proc/91/comm", "qemu-system-x86\n")
    write(tmp_path, "proc/91/cmdline", "qemu\0-name\0storlab-mine\0")
    found = strays(before, gather(str(tmp_path), testbed_id="mine"))
    assert found == ["own files: /run/storlab/mine (was not there before)", "own files: /run/storlab/mine/pid (was not there before)",
                     "processes: qemu-system-x86 of storlab mine running (was not there before)"]
