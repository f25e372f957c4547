# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the initiator's kernel says of sessions, disks and mounts, after the refusals of side_effect.yml."""

from __future__ import annotations

import json

import pytest

testinfra_hosts = ["ssh://hypervisor01"]
PREFIX = "iqn.2026-11.test.storlab.molecule"
MIB = 1024 * 1024


@pytest.fixture
def disks(host):
    """The iSCSI disks as lsblk sees them, by size in MiB."""
    listed = json.loads(
        host.check_output("lsblk --json --bytes --nodeps --output NAME,SIZE,SERIAL,WWN,TRAN,VENDOR,MOUNTPOINT")
    )["blockdevices"]
    return [disk for disk in listed if disk["name"].startswith("sd")]


def test_sessions_are_the_ones_that_were_asked_for(host):
    names = sorted(
        host.file(f"/sys/class/iscsi_session/{session}/targetname").content_string.strip()
        for session in host.file("/sys/class/iscsi_session").listdir()
    )
    assert names == [f"{PREFIX}:lio-a", f"{PREFIX}:lio-b", f"{PREFIX}:tgt"]


def test_disks_have_the_sizes_of_their_luns(disks):
    assert sorted(int(disk["size"]) // MIB for disk in disks) == [31, 31, 31, 321]


def test_every_disk_has_another_serial_and_name(host, disks):
    serials = [host.file(f"/sys/block/{disk['name']}/device/vpd_pg80").content for disk in disks]
    names = [host.file(f"/sys/block/{disk['name']}/device/wwid").content_string for disk in disks]
    assert len(set(serials)) == len(set(names)) == 4


def test_queue_depths_are_the_testbeds_own(host, disks):
    depths = sorted(int(host.file(f"/sys/block/{disk['name']}/device/queue_depth").content_string) for disk in disks)
    assert depths == [9, 27, 27, 27]


@pytest.mark.parametrize(
    ("mount_point", "kind", "mib"), [("/srv/storlab/la3", "ext4", 7), ("/srv/storlab/t1", "xfs", 11)]
)
def test_datastores_are_mounted_with_a_written_benchmark_file(host, mount_point, kind, mib):
    mount = host.mount_point(mount_point)
    assert mount.exists and mount.filesystem == kind and mount.device.startswith("/dev/sd")
    file = host.file(f"{mount_point}/storlab-benchmark.dat")
    assert file.size == mib * MIB
    # Written, not a hole and not zeros: both would be read faster than anything real.
    assert int(host.check_output("stat --format=%%b %s", file.path)) * 512 >= mib * MIB
    assert int(host.check_output("head --bytes=65536 %s | tr --delete '\\0' | wc --bytes", file.path)) > 60000


def test_nothing_is_mounted_at_the_next_boot(host):
    assert "/srv/storlab" not in host.file("/etc/fstab").content_string


def test_refused_logins_left_no_record(host):
    assert "narrow" not in host.run("grep -r narrow /etc/iscsi /var/lib/iscsi").stdout


def test_secrets_are_readable_by_root_only(host):
    holders = host.run("grep -rl secret- /etc/iscsi /var/lib/iscsi").stdout.split()
    assert holders
    for path in holders:
        assert host.file(path).mode & 0o077 == 0
