# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host offers to measure. Tables and trees are made up, with the facts of RHEL, Debian and a client of Samba."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import offered
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety

TABLE = r"""21 1 253:1 / / rw,relatime - ext4 /dev/mapper/vg-root rw
22 21 8:1 / /boot rw,relatime - ext4 /dev/sda1 rw
23 21 0:5 / /dev rw - devtmpfs devtmpfs rw
24 21 0:18 / /var/lib/nfs/rpc_pipefs rw,relatime - rpc_pipefs sunrpc rw
25 21 0:20 / /shared/dir1 rw,nosuid - nfs4 nas1:/vol/vms rw,vers=4,rsize=32768,hard,proto=tcp,port=0,sec=krb5
26 21 0:19 / /shared/dir2 rw - nfs 192.0.2.12:/vol/old rw,vers=3,rsize=32768
27 21 0:22 / /shared/dir3 rw - nfs4 [2001:db8::7]:/ rw,vers=4.2,proto=tcp6
28 21 0:23 / /shared/rdma rw - nfs4 nas1:/fast rw,vers=4.2,proto=rdma
29 21 0:24 / /again rw - nfs4 nas1:/vol/vms rw,vers=4,proto=tcp,sec=krb5
30 21 0:38 / /mnt/sounds rw,relatime - cifs //nas2/media/ rw,unc=\\nas2\media,username=user,serverino
31 21 0:40 / /tank/vm\040images rw - zfs tank/vms rw
32 21 253:1 /srv /srv/bound rw - ext4 /dev/mapper/vg-root rw
33 21 253:9 / /hidden rw - xfs /dev/sdx rw
34 21 0:50 / /hidden rw - tmpfs none rw
35 21 0:51 / /srv/storlab-existing/nas/nas ro - nfs4 nas1:/other ro,vers=4.2,proto=tcp
36 21 253:7 / /data rw - xfs /dev/mapper/vg-data rw
37 21 253:8 / /etc/hosts rw - ext4 /dev/vdz rw
"""


def test_each_mount_of_others_is_offered_once():
    """In order: versions of old kernels, security, IPv6; an export that only the user's own mount reaches; a share; a folder with a blank in its name."""
    offers = offered.mounted(mounts.parse(TABLE), lambda _path: True)
    assert [offer["entry"] for offer in offers] == [
        {"kind": "nfs", "server": "nas1", "export": "/vol/vms", "nfs_version": "4.0", "mount_options": "sec=krb5"},
        {"kind": "nfs", "server": "192.0.2.12", "export": "/vol/old", "nfs_version": "3"},
        {"kind": "nfs", "server": "2001:db8::7", "export": "/", "nfs_version": "4.2"},
        {"kind": "path", "path": "/shared/rdma"},
        {"kind": "path", "path": "/mnt/sounds"},
        {"kind": "path", "path": "/tank/vm images"},
        {"kind": "path", "path": "/data"},
    ]
    assert [offer["name"] for offer in offers][:4] == ["vms", "old", "[2001:db8::7]", "rdma"]
    assert [offer["shared"] for offer in offers] == [True] * 5 + [False] * 2
    assert offers[4]["what"] == "folder /mnt/sounds, cifs of //nas2/media/"


def test_no_server_is_asked(monkeypatch):
    for name in ("stat", "lstat", "statvfs", "listdir", "open"):
        monkeypatch.setattr(os, name, lambda *_arguments: pytest.fail("a server was asked"))
    table = mounts.parse("25 21 0:20 / /silent rw - nfs4 nas1:/x rw,vers=4.2\n26 21 0:21 / /m rw - cifs //n/m rw\n")
    assert len(offered.mounted(table)) == 2


class System(device_safety.System):
    def __init__(self, shown: dict) -> None:
        super().__init__("/nowhere")
        self.shown = shown


DISKS = [
    {"path": f"/dev/sd{letter}", "size_bytes": 3 << 30, "sector_bytes": 512, "serial": "", "used": letter in "ac"}
    for letter in "abcdef"
]
SHOWN = {
    "/dev/sda": {"serial": "SYSTEM"},
    "/dev/sdb": {"serial": "S2", "naa": "600140500000000000000000000000a1"},
    "/dev/sdc": {"serial": "S3", "naa": "600140500000000000000000000000a2"},
    "/dev/sdd": {"serial": "S3", "naa": "600140500000000000000000000000a2"},
    "/dev/sde": {"wwid": "eui.0025385b21404321"},
    "/dev/sdf": {},
}


def test_luns_are_offered_once_whoever_uses_them_and_disks_that_seem_unused(tmp_path, monkeypatch):
    """sdc and sdd are two paths to one LUN, whose file system is mounted; sda is the system's disk, and sdf shows nothing of itself."""
    for session, disk in ((4, "sdc"), (5, "sdd")):
        folder = tmp_path / f"sys/class/iscsi_session/session{session}"
        (folder / f"device/target{session}:0:0/{session}:0:0:2/block/{disk}").mkdir(parents=True)
        (folder / "targetname").write_text("iqn.2017-10.com.example:he\n", encoding="utf-8")
    luns = offered.luns(str(tmp_path))
    assert luns == {f"/dev/{disk}": ("iqn.2017-10.com.example:he", 2) for disk in ("sdc", "sdd")}
    monkeypatch.setattr(device_safety, "identity", lambda path, _system=None: SHOWN[path])
    offers = offered.disks_of(DISKS, luns)
    assert [(offer["name"], offer["entry"], offer["shared"]) for offer in offers] == [
        ("sdb", {"kind": "device", "naa": "600140500000000000000000000000a1"}, True),
        ("he-lun2", {"kind": "device", "naa": "600140500000000000000000000000a2"}, True),
        ("sde", {"kind": "device", "wwid": "eui.0025385b21404321"}, False),
    ]
    assert offers[1]["what"] == "LUN 2 of iqn.2017-10.com.example:he, 3.0 GiB, logged in to as /dev/sdc"


def test_namespaces_of_one_subsystem_are_told_apart_by_their_names(monkeypatch):
    """The names are as Linux 6.1.0 showed that of a namespace over NVMe/TCP; cheap disks of one serial have no name that proves them."""
    shown = {
        "/dev/nvme0n1": {"serial": "SUB", "wwid": "uuid.11111111-2222-3333-4444-555555555555"},
        "/dev/nvme0n2": {"serial": "SUB", "wwid": "uuid.22222222-2222-3333-4444-555555555555"},
        "/dev/sda": {"serial": "000000", "wwid": "t10.ATA cheap 000000"},
        "/dev/sdb": {"serial": "000000", "wwid": "t10.ATA cheap 000000"},
        "/dev/sdc": {"serial": "S9", "wwid": "naa.5000c500a1b2c3d4"},
    }
    disks = [{**DISKS[1], "path": path, "serial": facts["serial"]} for path, facts in shown.items()]
    monkeypatch.setattr(device_safety, "identity", lambda path, _system=None: shown[path])
    assert [offer["entry"] for offer in offered.disks_of(disks, {})] == [
        {"kind": "device", "wwid": "uuid.11111111-2222-3333-4444-555555555555"},
        {"kind": "device", "wwid": "uuid.22222222-2222-3333-4444-555555555555"},
        {"kind": "device", "serial": "S9"},
    ]


def test_a_host_with_nothing_offers_nothing(tmp_path):
    table = tmp_path / "proc/self/mountinfo"
    table.parent.mkdir(parents=True)
    table.write_text("".join(TABLE.splitlines(keepends=True)[:4]), encoding="utf-8")
    used = [{**disk, "used": True} for disk in DISKS]
    assert offered.look(str(tmp_path), lambda: used) == []
