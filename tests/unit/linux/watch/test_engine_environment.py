# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint's network and iSCSI values, on a /sys that is a folder, and that they make runs unlike."""

from __future__ import annotations

import copy
from pathlib import Path

from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks.system import System
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import environment
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import environment as shown
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture
from unchanged import refused


def system(tmp_path, files: dict, links: dict) -> System:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    for name, to in links.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)
    return System(str(tmp_path))


def program(path: Path, version: str) -> None:
    """A program that says its version, and notes in asked that it was started."""
    path.with_name("new").write_text(f"#!/bin/sh\necho asked >> {path.with_name('asked')}\n{version}\n")
    path.with_name("new").chmod(0o755)
    path.with_name("new").replace(path)


def test_a_program_is_asked_for_its_version_once_as_long_as_it_is_the_same(tmp_path):
    engine, asked = tmp_path / "fio", tmp_path / "asked"
    program(engine, "echo fio-3.33")
    seen = [environment.fingerprint(engine_path=str(engine))["engine"] for _again in range(3)]
    assert seen[0] == seen[1] == seen[2] and asked.read_text() == "asked\n"
    assert (seen[0]["version"], seen[0]["path"]) == ("fio-3.33", str(engine))
    # An update puts another file in its place.
    program(engine, "echo fio-3.36")
    updated = environment.fingerprint(engine_path=str(engine))["engine"]
    assert updated["version"] == "fio-3.36" and updated["sha256"] != seen[0]["sha256"]
    assert seen[0]["version"] == "fio-3.33" and asked.read_text() == "asked\n" * 2


def test_a_program_that_says_nothing_is_asked_again(tmp_path):
    engine, asked = tmp_path / "fio", tmp_path / "asked"
    program(engine, "exit 1")
    for _again in range(2):
        assert "version" not in environment.fingerprint(engine_path=str(engine))["engine"]
    assert asked.read_text() == "asked\n" * 2


def test_interfaces_with_hardware_and_bonds_are_told_and_no_others(tmp_path):
    net = "sys/class/net"
    host = system(
        tmp_path,
        {
            f"{net}/ens1/mtu": 9000,
            f"{net}/ens1/speed": 25000,
            f"{net}/eth0/mtu": 1500,
            f"{net}/eth0/speed": -1,
            f"{net}/bond0/mtu": 8000,
            f"{net}/bond0/bonding/mode": "802.3ad 4",
            f"{net}/lo/mtu": 65536,
            f"{net}/veth1a2b/mtu": 1400,
        },
        {
            f"{net}/ens1/device/driver": "../../../bus/pci/drivers/mlx5_core",
            f"{net}/eth0/device/driver": "../../../bus/virtio/drivers/virtio_net",
        },
    )
    found = environment.network(host)
    assert {name: {key: value for key, value in one.items() if value} for name, one in found.items()} == {
        "bond0": {"mtu": "8000", "driver": "bonding"},
        "ens1": {"mtu": "9000", "speed_mbit_s": "25000", "driver": "mlx5_core"},
        "eth0": {"mtu": "1500", "driver": "virtio_net"},
    }


def test_what_was_negotiated_is_that_of_the_disks_own_session(tmp_path):
    host = system(
        tmp_path,
        {
            "sys/class/iscsi_session/session7/first_burst_len": 65536,
            "sys/class/iscsi_session/session7/immediate_data": 1,
            "sys/class/iscsi_connection/connection7:0/max_xmit_dlength": 262144,
            "sys/class/iscsi_session/session8/first_burst_len": 1024,
            "sys/devices/platform/host3/session7/target3:0:0/3:0:0:1/block/sdb/size": 8,
            "sys/devices/pci0/ata1/block/sda/size": 8,
        },
        {
            "sys/block/sdb": "../devices/platform/host3/session7/target3:0:0/3:0:0:1/block/sdb",
            "sys/block/sda": "../devices/pci0/ata1/block/sda",
        },
    )
    found = environment._iscsi("/sys/block/sdb", host)
    assert {key: value for key, value in found.items() if value} == {
        "first_burst_len": "65536",
        "immediate_data": "1",
        "max_xmit_dlength": "262144",
    }
    assert environment._iscsi("/sys/block/sda", host) == {}


def test_runs_that_differ_in_mtu_or_in_what_was_negotiated_are_unlike(tmp_path):
    run = load.read_run(make_fixture.write_run(str(tmp_path / "a"), 1, 2))
    other = load.read_run(make_fixture.write_run(str(tmp_path / "b"), 1, 2))
    for one in (run, other):
        host = one.environments["hypervisor01"]
        host["network"] = {"ens1": {"mtu": "9000", "driver": "mlx5_core"}}
        host["devices"]["initiator-bench"]["iscsi"] = {"first_burst_len": "65536"}
    sides = [{"runs": [one], "selector": {}, "label": label} for one, label in ((run, "a"), (other, "b"))]
    comparison.compare_runs(*sides, under_test=[])
    alike = copy.deepcopy(other.environments)
    for change, fact in (
        (lambda host: host["network"]["ens1"].update(mtu="1500"), "network.ens1.mtu"),
        (lambda host: host["devices"]["initiator-bench"]["iscsi"].update(first_burst_len="8192"), "first_burst_len"),
    ):
        other.environments = copy.deepcopy(alike)
        change(other.environments["hypervisor01"])
        with refused(tmp_path, match=fact) as caught:
            comparison.compare_runs(*sides, under_test=[])
        assert caught.value.code == "unlike_runs"


def test_runs_under_other_settings_of_an_esxi_host_are_unlike(tmp_path):
    run = load.read_run(make_fixture.write_run(str(tmp_path / "a"), 1, 2))
    other = load.read_run(make_fixture.write_run(str(tmp_path / "b"), 1, 2))
    for one in (run, other):
        one.environments["hypervisor01"] = {
            "iscsi_adapter": {"DelayedAck": True, "LoginTimeout": 5},
            "host_options": {"ISCSI.MaxIoSizeKB": 128},
            "power_policy": "static",
            "network": {"vmk1": {"mtu": 9000}},
            "devices": {
                "initiator-bench": {"path_policy": "VMW_PSP_RR", "vaai": "supported"},
                "initiator-none": {"path_policy": "VMW_PSP_FIXED"},
            },
        }
    sides = [{"runs": [one], "selector": {}, "label": label} for one, label in ((run, "a"), (other, "b"))]
    comparison.compare_runs(*sides, under_test=[])
    alike = copy.deepcopy(other.environments)
    for part, change, fact in (
        ("iscsi_adapter", {"DelayedAck": False}, "hosts.hypervisor01.iscsi_adapter.DelayedAck (yes → no)"),
        ("host_options", {"ISCSI.MaxIoSizeKB": 512}, "ISCSI.MaxIoSizeKB (128 → 512)"),
        ("network", {"vmk1": {"mtu": 1500}}, "network.vmk1.mtu (9000 → 1500)"),
        ("devices", {"initiator-bench": {"path_policy": "VMW_PSP_RR", "vaai": "unsupported"}}, "bench.vaai"),
    ):
        other.environments = copy.deepcopy(alike)
        other.environments["hypervisor01"][part].update(change)
        with refused(tmp_path) as caught:
            comparison.compare_runs(*sides, under_test=[])
        assert caught.value.code == "unlike_runs" and fact in str(caught.value)
    # What another LUN of the host has is no difference.
    other.environments = copy.deepcopy(alike)
    other.environments["hypervisor01"]["devices"]["initiator-none"]["path_policy"] = "VMW_PSP_MRU"
    comparison.compare_runs(*sides, under_test=[])


def test_the_report_shows_the_settings_of_an_esxi_host():
    rows = dict(
        shown.describe(
            "h",
            {
                "iscsi_adapter": {"DelayedAck": False},
                "host_options": {"ISCSI.MaxIoSizeKB": 512},
                "power_policy": "static",
                "network": {"vmk1": {"mtu": 9000}},
                "devices": {
                    "initiator-a": {"path_policy": "VMW_PSP_RR", "paths": 2, "queue_depth": 64, "vaai": "unknown"}
                },
            },
        )["rows"]
    )
    assert rows == {
        "Power policy": "static",
        "Delayed ACK": "no",
        "Largest iSCSI I/O": "512 KiB",
        "vmk1": "MTU 9000",
        "initiator-a": "queue depth 64, VMW_PSP_RR, paths: 2, VAAI unknown",
    }


def test_the_report_names_the_interfaces():
    rows = shown.describe("h", {"network": {"ens1": {"mtu": "9000", "driver": "mlx5_core", "speed_mbit_s": "25000"}}})
    assert ("ens1", "mlx5_core, MTU 9000, 25000 Mbit/s") in rows["rows"]
    assert shown.describe("h", {})["rows"] == []


def test_a_disk_of_others_states_its_paths_and_its_provisioning(tmp_path):
    disk = "sys/block/sdq/device"
    host = system(
        tmp_path,
        {
            f"{disk}/vendor": "ARRAY   ",
            f"{disk}/rev": "7.1",
            f"{disk}/access_state": "active/optimized",
            f"{disk}/scsi_disk/3:0:0:1/thin_provisioning": 1,
            f"{disk}/scsi_disk/3:0:0:1/provisioning_mode": "unmap",
            "sys/block/sdq/queue/optimal_io_size": 1048576,
        },
        {},
    )
    statement = environment.scsi_statement("/sys/block/sdq", host)
    known = {group: {key: value for key, value in facts.items() if value} for group, facts in statement.items()}
    assert known == {
        "inquiry": {"vendor": "ARRAY", "rev": "7.1"},
        "alua": {"access_state": "active/optimized"},
        "provisioning": {"thin_provisioning": "1", "provisioning_mode": "unmap"},
        "limits": {"optimal_io_size": "1048576"},
    }
    # A disk that is none of SCSI states nothing of it.
    assert environment.scsi_statement("/sys/block/nvme0n1", host)["provisioning"] == {}


def test_an_nfs_server_states_its_capabilities_for_its_own_mount_alone():
    text = (
        "device proc mounted on /proc with fstype proc\n"
        "device 192.0.2.9:/a mounted on /srv/nas with fstype nfs4 statvers=1.1\n"
        "\topts:\tro,vers=4.2,rsize=65536\n\tage:\t5\n"
        "\timpl_id:\tname='box',domain='example',date='0,0'\n"
        "\tcaps:\tcaps=0x3ffdf,wtmult=512,dtsize=65536,bsize=0,namlen=255\n"
        "\tnfsv4:\tbm0=0x1,acl=0x3,lease_time=90,lease_expired=0\n"
        "\tsec:\tflavor=1,pseudoflavor=1\n\tevents:\t0 0\n"
        # What the kernel counts of a mount ends with an empty line.
        "\tper-op statistics\n\t        NULL: 1 1 0 44 24 0 0 0 0\n\n"
        "device 192.0.2.9:/b mounted on /srv/nas2 with fstype nfs4 statvers=1.1\n\tcaps:\tcaps=0x0\n"
    )
    assert environment.nfs_statement(text, "/srv/nas") == {
        "impl_id": "name='box',domain='example',date='0,0'",
        "caps": "caps=0x3ffdf,wtmult=512,dtsize=65536,bsize=0,namlen=255",
        "nfsv4": "bm0=0x1,acl=0x3,lease_time=90",
        "sec": "flavor=1,pseudoflavor=1",
    }
    assert environment.nfs_statement(text, "/srv/nas2") == {"caps": "caps=0x0"}
    assert environment.nfs_statement(text, "/srv") == {} and environment.nfs_statement("", "/srv/nas") == {}


def test_the_connections_of_an_nfs_mount_are_counted_not_believed():
    """Lines of Linux 6.1 with nconnect=3, of which one mount_point is the beginning of another."""
    text = (
        "device 192.0.2.9:/a mounted on /srv/nas with fstype nfs4 statvers=1.1\n"
        "\tsec:\tflavor=1,pseudoflavor=1\n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
        "\txprt:\ttcp 870 0 1 0 20 51 51 0 51 0 2 0 0\n"
        "\txprt:\ttcp 0 0 1 0 20 9 9 0 9 0 2 0 0\n"
        "\txprt:\ttcp 0 0 0 0 0 0 0 0 0 0 2 0 0\n"
        "\tper-op statistics\n\t        NULL: 1 1 0 44 24 0 0 0 0\n\n"
        "device 192.0.2.8:/b mounted on /srv/nas2 with fstype nfs statvers=1.1\n\txprt:\ttcp 1 1 1 0 0 1 1 0 1 0 2 0 0\n"
    )
    assert [environment.nfs_connections(text, path) for path in ("/srv/nas", "/srv/nas2", "/srv", "/")] == [3, 1, 0, 0]
    # The last mount on a mount point is the one that is seen.
    assert (
        environment.nfs_connections(text + text.replace("\txprt:\ttcp 0 0 0 0 0 0 0 0 0 0 2 0 0\n", ""), "/srv/nas")
        == 2
    )


# As fs/smb/client/cifs_debug.c prints it (Linux 6.1 and later); written by hand, of no real server.
CIFS = """Display Internal CIFS Data Structures for Debugging
---------------------------------------------------
CIFS Version 2.40
Features: DFS,STATS,DEBUG,ALLOW_INSECURE_LEGACY,CIFS_POSIX,UPCALL(SPNEGO),XATTR,ACL
CIFSMaxBufSize: 16384
Active VFS Requests: 0

Servers:\x20
1) ConnectionId: 0x1 Hostname: nas\x20
Number of credits: 389 Dialect 0x311 signed posix
TCP status: 1 Instance: 1
Local Users To Server: 1 SecMode: 0x1 Req On Wire: 0
In Send: 0 In MaxReq Wait: 0

\tSessions:\x20
\t1) Address: 192.0.2.10 Uses: 1 Capability: 0x300067\tSession Status: 1\x20
\tSecurity type: RawNTLMSSP  SessionId: 0x7
\tUser: 0 Cred User: 0

\tExtra Channels: 3\x20

\t\tChannel: 2 ConnectionId: 0x2
\t\tNumber of credits: 389 Dialect 0x311

\tShares:\x20
\t0) IPC: \\\\nas\\IPC$ Mounts: 1 DevInfo: 0x0 Attributes: 0x0
\tPathComponentMax: 0 Status: 1 type: 0 Serial Number: 0x0

\t1) \\\\nas\\VMs of us Mounts: 1 DevInfo: 0x20 Attributes: 0x1006f
\tPathComponentMax: 255 Status: 1 type: DISK Serial Number: 0x7 Encrypted

\tServer interfaces: 2\tLast updated: 9 seconds ago
\t1)\tSpeed: 10000000000 bps

\tMIDs:\x20
2) ConnectionId: 0x5 Hostname: old\x20
Number of credits: 30 Dialect 0x210
TCP status: 1 Instance: 1

\tSessions:\x20
\t1) Address: 192.0.2.11 Uses: 1 Capability: 0x300067\tSession Status: 1 Guest\x20
\tSecurity type: RawNTLMSSP  SessionId: 0x8

\tShares:\x20
\t1) \\\\old\\vms Mounts: 1 DevInfo: 0x20 Attributes: 0x1006f
\tPathComponentMax: 255 Status: 1 type: DISK Serial Number: 0x8
"""


def test_a_share_states_its_dialect_signing_encryption_and_channels():
    assert environment.smb_statement(CIFS, "//nas/vms of us/images") == {
        "dialect": "0x311",
        "signed": "yes",
        "encrypted": "yes",
        "channels": "4",
        "server_interfaces": "2",
        "security": "RawNTLMSSP",
    }
    assert environment.smb_statement(CIFS, "//old/vms") == {
        "dialect": "0x210",
        "signed": "no",
        "encrypted": "no",
        "channels": "1",
        "security": "RawNTLMSSP",
        "logged_in_as": "guest",
    }
    assert environment.smb_statement(CIFS, "//nas/other") == environment.smb_statement("", "//nas/vms") == {}


def test_a_share_of_a_real_server_states_itself():
    """As Linux 6.1 shows a share of Samba 4.17 that is mounted with vers=3.1.1, recorded in the embedded lab."""
    recorded = Path(__file__).parents[2] / "fixtures" / "smb" / "debug_data_linux_6.1_samba_4.17.txt"
    assert environment.smb_statement(recorded.read_text(encoding="utf-8"), "//10.213.0.11/shares") == {
        "dialect": "0x311",
        "signed": "no",
        "encrypted": "no",
        "channels": "1",
        "server_interfaces": "1",
        "security": "RawNTLMSSP",
    }


def test_who_logged_in_to_a_share_is_not_in_the_fingerprint(tmp_path, monkeypatch):
    facts = {"type": "file", "resolved": "/mnt/share/f", "mount_point": "/mnt/share", "filesystem": "cifs"}
    monkeypatch.setattr(environment, "inspect", lambda _path, **_more: facts)
    options = "rw,vers=3.1.1,cache=none,username=reader,domain=HERE,uid=0"
    table = f"25 21 0:20 / /mnt/share ro,relatime - cifs //nas/vms {options}"
    shown_device = environment.device("/mnt/share/f", system(tmp_path, {"proc/self/mountinfo": table}, {}))
    assert shown_device["mount_options"] == "ro,relatime,vers=3.1.1,cache=none,uid=0"
