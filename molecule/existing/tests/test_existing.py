# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger has of an appliance of somebody else: every layer measured, mounts that the kernel holds read-only, a LUN that is only read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://hypervisor01"]
FOLDER = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], ".cache/existing")
LAYERS = {"datastore-shares", "datastore-older", "initiator-far"}


@pytest.fixture
def run() -> Path:
    [folder] = FOLDER.glob("nas-testbed/results/nas/*/run.json")
    return folder.parent


def test_every_layer_is_measured_and_its_caches_are_called_unknown(run):
    results = {
        result["layer"]: result
        for result in (json.loads(path.read_text()) for path in run.glob("points/*/result.json"))
    }
    assert {name: result["status"] for name, result in results.items()} == dict.fromkeys(LAYERS, "measured")
    for name in LAYERS:
        assert results[name]["preparation"]["storage_cache"] == "unknown", name
        assert results[name]["preparation"]["zero_percent"] == 0, name


def test_the_kernel_keeps_the_engine_from_writing(run):
    for path in run.glob("points/*/result.json"):
        result = json.loads(path.read_text())
        wall = "landlock" if result["layer"] == "initiator-far" else "read_only_mount"
        assert result["preparation"]["wall"] == wall, result["layer"]


def test_the_report_is_of_this_run(run):
    page = (run / "report/index.html").read_text(encoding="utf-8")
    assert all(layer in page for layer in LAYERS)


def test_exports_are_mounted_read_only_in_the_version_that_was_wanted(host):
    for name, version in {"shares": "4.2", "older": "3"}.items():
        mount = host.mount_point(f"/srv/storlab-existing/nas/{name}")
        assert mount.exists and {"ro", f"vers={version}"} <= set(mount.options), name
        assert host.run(f"touch /srv/storlab-existing/nas/{name}/vms/new").rc != 0


def test_what_the_storage_states_is_in_the_fingerprint(run):
    devices = json.loads((run / "hosts" / "client01.json").read_text(encoding="utf-8"))["devices"]
    assert devices["initiator-far"]["inquiry"]["vendor"] == "LIO-ORG"
    assert devices["initiator-far"]["provisioning"]["thin_provisioning"] == "0"
    assert devices["initiator-far"]["limits"]["max_hw_sectors_kb"]
    assert "caps" in devices["datastore-shares"]["nfs"] and "nfsv4" in devices["datastore-shares"]["nfs"]
    assert "caps" in devices["datastore-older"]["nfs"] and "nfsv4" not in devices["datastore-older"]["nfs"]


def test_the_secret_is_nowhere(run):
    texts = [path for path in FOLDER.glob("nas-testbed/**/*") if path.is_file()]
    assert texts and [path for path in texts if b"sixteen-letters1" in path.read_bytes()] == []
