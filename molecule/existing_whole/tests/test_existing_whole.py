# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stranger has of an appliance of somebody else: each of its ways read and written, and experiment E2 on it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["local://"]
FOLDER = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"], ".cache/existing_whole")
RESULTS = FOLDER / "nas-testbed/results"
LAYERS = {"datastore-nas", "datastore-older", "datastore-share", "initiator-far"}
# A dialect as the kernel's client writes it: SMB 3.1.1.
DIALECT = "0x311"


def results(run: Path) -> dict:
    found = (json.loads(path.read_text(encoding="utf-8")) for path in run.glob("points/*/result.json"))
    return {result["layer"]: result for result in found}


@pytest.mark.parametrize("access", ["read", "write"])
def test_every_way_is_measured_and_its_caches_are_called_unknown(access):
    measured = results(RESULTS / "nas" / access)
    assert {name: result["status"] for name, result in measured.items()} == dict.fromkeys(LAYERS, "measured")
    for name, result in measured.items():
        assert ("write" in result) == (access == "write"), name
        assert result[access]["ios"] > 0, name
    for name in LAYERS if access == "read" else LAYERS - {"initiator-far"}:
        assert measured[name]["preparation"]["storage_cache"] == "unknown", name


def test_the_kernel_keeps_the_engine_from_writing_and_each_result_says_how():
    measured = results(RESULTS / "nas" / "read")
    walls = {name: "landlock" if name == "initiator-far" else "read_only_mount" for name in LAYERS}
    assert {name: result["preparation"]["wall"] for name, result in measured.items()} == walls
    assert not [result for result in results(RESULTS / "nas" / "write").values() if "wall" in result["preparation"]]


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_killed_benchmark_has_no_point_that_was_measured(access):
    assert [one for one in results(RESULTS / "nas" / f"killed-{access}").values() if one["status"] == "measured"] == []


def test_the_share_states_its_dialect_and_its_password_is_nowhere():
    (host,) = (RESULTS / "nas" / "read").glob("hosts/*.json")
    devices = json.loads(host.read_text(encoding="utf-8"))["devices"]
    assert devices["datastore-share"]["smb"]["dialect"] == DIALECT
    assert devices["datastore-nas"]["nfs"] and devices["initiator-far"]["inquiry"]["vendor"]
    kept = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if b"sixteen-letters1" in path.read_bytes()]


def test_the_experiment_measured_the_nas():
    (run,) = (path.parent for path in FOLDER.glob("e2-*-testbed/results/e2-existing-scaled-down/*/run.json"))
    assert set(results(run)) >= {"datastore-nas"}
    assert "datastore-nas" in (run / "report/index.html").read_text(encoding="utf-8")
