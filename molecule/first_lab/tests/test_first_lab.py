# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger has after the commands of the first page: the layers on both hosts, every point measured, and a report of them."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://hypervisor01"]
FOLDER = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], ".cache/first_lab")
# Of the page's drawing: those that are measured, which are all but the data disk's own, and the engine's ceiling on each host.
MEASURED = {"ceiling-target01", "ceiling-client01", "backing-bench", "target-bench", "initiator-bench", "datastore-ds1"}


@pytest.fixture
def run() -> Path:
    [found] = (FOLDER / "lab-testbed/results/lab").glob("*/run.json")
    return found.parent


def test_every_layer_has_its_points(run):
    results = [json.loads(path.read_text(encoding="utf-8")) for path in run.glob("points/*/result.json")]
    assert [(one["point_id"], one["failures"]) for one in results if one["status"] != "measured"] == []
    # Four workloads in three rounds.
    assert collections.Counter(one["layer"] for one in results) == dict.fromkeys(MEASURED, 12)


def test_the_report_is_of_this_run(run):
    page = (run / "report/index.html").read_text(encoding="utf-8")
    assert all(layer in page for layer in MEASURED) and run.name in page


def test_the_file_system_of_the_drawing_is_mounted(host):
    mount = host.mount_point("/srv/storlab/ds1")
    assert mount.exists and mount.filesystem == "ext4"
    sessions = host.file("/sys/class/iscsi_session").listdir()
    names = [host.file(f"/sys/class/iscsi_session/{name}/targetname").content_string.strip() for name in sessions]
    assert names == ["iqn.2026-11.test.storlab:lab:target01"]
