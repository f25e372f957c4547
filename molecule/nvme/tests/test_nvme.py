# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both kernels say of the subsystems, their connections and disks, after the faults of side_effect.yml."""

from __future__ import annotations

import pytest
import testinfra

testinfra_hosts = ["ssh://hypervisor01"]
PREFIX = "nqn.2026-11.test.storlab:mnvme"
CONFIG = "/sys/kernel/config/nvmet"
MIB = 1024 * 1024


@pytest.fixture
def target(host):
    options = {"ssh_config": host.backend.ssh_config}
    return testinfra.get_host("ssh://target01", **options)


def lines(host, pattern: str) -> list:
    return sorted(host.check_output(f"cat {pattern}").splitlines())


def test_each_subsystem_has_two_live_paths(host):
    assert lines(host, "/sys/class/nvme/nvme*/state") == ["live"] * 4
    assert lines(host, "/sys/class/nvme/nvme*/subsysnqn") == [f"{PREFIX}:target01"] * 2 + [f"{PREFIX}:target01-2"] * 2
    assert lines(host, "/sys/class/nvme/nvme*/hostnqn") == [f"{PREFIX}:hypervisor01"] * 4


def test_the_paths_are_one_disk_each(host):
    disks = [name for name in host.file("/sys/block").listdir() if name.startswith("nvme") and "c" not in name]
    sizes = sorted(int(host.file(f"/sys/block/{name}/size").content_string) * 512 // MIB for name in disks)
    assert sizes == [33, 65]


def test_each_disk_has_the_uuid_that_the_target_gave_it(host, target):
    given = lines(target, f"{CONFIG}/subsystems/{PREFIX}*/namespaces/*/device_uuid")
    assert len(set(given)) == 2
    assert sorted({f"uuid.{name}" for name in given}) == sorted(set(lines(host, "/sys/block/nvme*n[0-9]/wwid")))


def test_the_datastore_is_on_its_disk(host):
    mount = host.mount_point("/srv/storlab/ds1")
    assert mount.exists and mount.filesystem == "ext4" and mount.device.startswith("/dev/nvme")


def test_no_host_is_let_in_without_a_name(target):
    assert set(lines(target, f"{CONFIG}/subsystems/{PREFIX}*/attr_allow_any_host")) == {"0"}
    listening = target.check_output("ss -Hltn")
    for port in (4420, 4421):
        assert f"10.213.0.11:{port}" in listening and f"0.0.0.0:{port}" not in listening


def test_the_host_of_the_machine_keeps_its_own_name(host):
    assert not host.file("/etc/nvme/hostnqn").exists
