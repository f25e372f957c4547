# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded machines: real kernels that can be storage servers and initiators, on a network of their own."""

from __future__ import annotations

import pytest

testinfra_hosts = ["ssh://target01", "ssh://hypervisor01"]


def test_machine_is_the_one_that_was_asked_for(host):
    assert host.check_output("hostname") == host.backend.get_pytest_id().removeprefix("ssh://")


@pytest.mark.parametrize(
    "module", ["brd", "zram", "loop", "target_core_iblock", "iscsi_target_mod", "iscsi_tcp", "sd_mod", "ext4", "xfs"]
)
def test_kernel_has_what_the_roles_need(host, module):
    assert host.run("modprobe --dry-run %s", module).rc == 0


def test_root_file_system_cannot_be_changed(host):
    """What a test writes is in memory: the next boot starts from the image."""
    assert "overlay on / type overlay" in host.check_output("mount")


def test_machine_reaches_its_network_and_nothing_else(host):
    assert host.run("ip route get 10.213.0.1").rc == 0
    assert host.run("ip route get 198.51.100.7").rc != 0


def test_only_keys_open_a_machine(host):
    settings = host.check_output("/usr/sbin/sshd -T").splitlines()
    assert "passwordauthentication no" in settings
    assert "permitrootlogin without-password" in settings
