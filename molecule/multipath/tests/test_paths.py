# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the initiator's kernel says of two portals, with multipathd running."""

from __future__ import annotations

import pytest

testinfra_hosts = ["ssh://hypervisor01"]


@pytest.fixture
def maps(host):
    """{device: its paths}"""
    found = {}
    for name in host.file("/sys/block").listdir():
        if name.startswith("dm-"):
            assert host.file(f"/sys/block/{name}/dm/uuid").content_string.startswith("mpath-36")
            found[name] = sorted(host.file(f"/sys/block/{name}/slaves").listdir())
    return found


def test_every_portal_has_a_session(host):
    ports = [
        host.file(f"/sys/class/iscsi_connection/{name}/persistent_port").content_string.strip()
        for name in host.file("/sys/class/iscsi_connection").listdir()
    ]
    assert sorted(ports) == ["3260", "3261"]


def test_two_luns_of_two_paths_each(maps):
    assert sorted(len(paths) for paths in maps.values()) == [2, 2]
    every = [path for paths in maps.values() for path in paths]
    assert len(set(every)) == 4 and all(path.startswith("sd") for path in every)


def test_the_datastore_lies_on_the_joined_device(host, maps):
    mount = host.mount_point("/srv/storlab/ds1")
    real = host.check_output("readlink --canonicalize %s", mount.device)
    numbers = host.check_output("stat --format=%%Hr:%%Lr %s", real)
    names = [name for name in maps if host.file(f"/sys/block/{name}/dev").content_string.strip() == numbers]
    assert mount.filesystem == "ext4" and len(names) == 1
