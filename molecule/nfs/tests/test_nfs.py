# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections of both mounts as the kernels of client and server count them, and as the results have them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import testinfra

testinfra_hosts = ["ssh://hypervisor01"]
POINTS = ("/srv/storlab/ds1-nfs", "/srv/storlab/ds2-nfs")
RESULTS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/molecule/nfs/results"


@pytest.mark.parametrize("point", POINTS)
def test_the_option_is_in_the_mount_table(host, point):
    (options,) = (
        line.split()[-1]
        for line in host.file("/proc/self/mountinfo").content_string.splitlines()
        if f" {point} " in line
    )
    assert "nconnect=4" in options.split(",") and "vers=4.2" in options.split(",")


def test_both_sides_have_four_connections_open(host):
    """Both mounts share them, and each I/O takes the next."""
    host.check_output(f"dd if={POINTS[0]}/storlab-benchmark.dat of=/dev/null bs=4096 count=64 iflag=direct")
    assert len(host.check_output("ss -Htn state established dst 10.213.0.11:2049").splitlines()) == 4
    target = testinfra.get_host("ssh://target01", ssh_config=host.backend.ssh_config)
    assert len(target.check_output("ss -Htn state established src 10.213.0.11:2049").splitlines()) == 4


@pytest.mark.parametrize("run", ["four", "again"])
def test_the_results_have_them(run):
    texts = [path.read_text(encoding="utf-8") for path in RESULTS.rglob("*.json") if run in path.parts]
    counts = [number for text in texts for number in _connections(json.loads(text))]
    assert counts and set(counts) == {4}


def _connections(value: object) -> list:
    """Every number of connections that a document names."""
    if isinstance(value, list):
        return [number for entry in value for number in _connections(entry)]
    if not isinstance(value, dict):
        return []
    own = [value["nfs_connections"]] if "nfs_connections" in value else []
    return own + [number for entry in value.values() for number in _connections(entry)]
