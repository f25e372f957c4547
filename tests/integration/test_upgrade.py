# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State and results that release 0.3.0 made are read, compared and taken down.

made_by_0.3.0.tar.xz is what ``python tests/tools/make_upgrade_fixture.py`` leaves: the playbooks of 0.3.0 built a testbed of a Windows server and a
client, both stand-ins, and measured it twice. before.json are these hosts before that build.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import lab_plays
import pytest
from places import ROOT, TESTS
from unchanged import differences
from world import lasting

IQN, CLIENT = "iqn.2026-11.test.storlab.upgraded:data", "iqn.1991-05.com.microsoft:win02"
LUNS = [
    {"lun": 2, "name": "bench", "layer": "backing-bench", "purpose": "scratch"},
    {"lun": 3, "name": "ds1", "layer": "backing-ds1", "purpose": "data"},
]
# The same testbed in the words of today.
VARIABLES = {
    "ansible_connection": "fake_windows",
    "testbed_windows": True,
    "testbed_id": "upgraded",
    "testbed": {
        "disks": [{"name": "bench", "size": "64MiB"}, {"name": "ds1", "size": "192MiB"}],
        "datastores": [{"disk": "ds1", "benchmark_file": "48MiB"}],
    },
    "iscsi_target_targets": [
        {
            "name": IQN,
            "portals": [{"address": "192.0.2.11", "port": 3260}],
            "luns": LUNS,
            "initiators": [{"iqn": CLIENT, "chap_user": "user-data", "chap_password": "secret-data-1"}],
        }
    ],
    "iscsi_target_windows_networks": ["192.0.2.0/24"],
    "iscsi_initiator_windows_wait_s": 1,
}


class Lab(lab_plays.Lab):
    def __init__(self, folder: Path):
        self.live = folder / "live"
        with tarfile.open(Path(__file__).parent / "made_by_0.3.0.tar.xz") as archive:
            # Our own archive. Debian 12 has a Python that knows no filters.
            archive.extractall(folder)  # noqa: S202
        self.world = self.live / "world.json"
        document = json.loads(self.world.read_text(encoding="utf-8"))
        for host in document["hosts"].values():
            # A switch of the stand-in that came later.
            host["reboot_after_removal"] = False
        self.world.write_text(json.dumps(document), encoding="utf-8")
        places = {
            "ansible_fake_windows_world": str(self.world),
            "testbed_state_dir": str(self.live / "state"),
            "testbed_results_dir": str(self.live / "results"),
        }
        groups = {"targets": {"hosts": {"win01": None}}, "hypervisors": {"hosts": {"win02": None}}}
        inventory = {"all": {"vars": {**VARIABLES, **places}, "children": groups}}
        super().__init__(
            "upgraded",
            folder,
            inventory,
            f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {TESTS}/fake_windows/connection\n"
            "inject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n",
        )
        self.results = self.live / "results" / "upgraded"

    def failures(self, *books: str, **variables: str) -> list:
        """Failures of shipped playbooks."""
        played = self.play(*books, **variables)
        assert (played.returned == 0) == (not played.failures), played
        return played.failures

    def hosts(self, path: Path) -> dict:
        kept = lasting(json.loads(path.read_text(encoding="utf-8"))["hosts"])
        # The stand-in counts what was written through it; a client's own system stays as it was.
        ignored = ("written", "folder_times", "reboot_after_removal")
        return {name: {key: value for key, value in host.items() if key not in ignored} for name, host in kept.items()}


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def stored(lab: Lab, run: str) -> dict:
    return {path.parent.name: path.read_bytes() for path in (lab.results / run / "points").glob("*/result.json")}


def test_runs_of_0_3_are_reported_and_compared_as_they_are(lab):
    before = {run: stored(lab, run) for run in ("old-a", "old-b")}
    assert {run: len(points) for run, points in before.items()} == {"old-a": 6, "old-b": 6}
    assert lab.failures("report", testbed_run_id="old-a") == []
    assert lab.failures("compare", testbed_candidate="old-b", testbed_baseline="old-a") == []
    figures = json.loads((lab.results / "old-a/report/results.json").read_text(encoding="utf-8"))
    assert "initiator-bench" in json.dumps(figures) and "datastore-ds1" in json.dumps(figures)
    compared = json.loads((lab.results / "compare/old-b-vs-old-a/comparison.json").read_text(encoding="utf-8"))
    by_layer = {row["layer"]: row for row in compared["rows"] if row["metric"] == "iops"}
    for layer in ("initiator-bench", "datastore-ds1"):
        for side, run in (("baseline", "old-a"), ("candidate", "old-b")):
            points = [json.loads(text) for name, text in before[run].items() if name.startswith(f"{layer}.")]
            rates = [point["total"]["iops"] for point in points]
            compared_side = {key: by_layer[layer][side][key] for key in ("low", "high", "repetitions")}
            assert compared_side == {"low": min(rates), "high": max(rates), "repetitions": 3}
    assert {run: stored(lab, run) for run in ("old-a", "old-b")} == before, "reading changes no result"


def test_a_testbed_of_0_3_is_taken_down_once_its_unsigned_layers_are_removed(lab):
    layers = lab.live / "state/layers"
    world = lab.hosts(lab.folder / "before.json")
    [failure] = lab.failures("teardown")
    assert failure["failure"]["code"] == "layer_edited"
    assert "A teardown goes on without it" in failure["msg"]
    assert lab.hosts(lab.world) != world
    # docs/upgrade.md
    shutil.rmtree(layers)
    assert lab.failures("teardown", "verify_clean") == []
    assert differences(world, lab.hosts(lab.world)) == []
