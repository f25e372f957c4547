# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delay that is known, put into the network, is found there: by the network alone, by the initiator's latency, and by counters in one run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["local://"]
RESULTS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/molecule-links/results"
DELAY_MS = 40


@pytest.fixture(scope="module")
def run() -> Path:
    (run,) = (path.parent for path in RESULTS.glob("molecule-links/*/run.json"))
    return run


@pytest.fixture(scope="module")
def report(run) -> dict:
    return json.loads((run / "report/results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(run) -> list:
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(run.glob("points/*/result.json"))]
    assert {result["status"] for result in read} == {"measured"}
    return read


def test_the_network_alone_has_the_delay(run):
    lines = [json.loads(line) for line in (run / "network.jsonl").read_text(encoding="utf-8").splitlines()]
    trips = [line["round_trip_ns"] / 1e6 for line in lines if line["host"] == "hypervisor01"]
    assert trips and min(trips) >= DELAY_MS


def test_what_goes_over_the_network_waits_and_what_does_not_does_not(results):
    means = {}
    for result in results:
        means.setdefault(result["layer"], []).append(result["total"]["latency_mean_ns"] / 1e6)
    assert min(means["initiator-bench"] + means["datastore-ds1"]) >= DELAY_MS
    # The same disk, without the network.
    assert max(means["backing-bench"]) < DELAY_MS


def test_counters_find_the_delay_below_the_initiators_disk(report):
    (shares,) = (
        shares
        for workload in report["workloads"]
        for shares in workload.get("splits", [])
        if shares["layer"] == "datastore-ds1"
    )
    above, below = shares["parts"]
    assert above["layers"] == ["datastore-ds1"] and below["layers"][0] == "initiator-ds1"
    # By the requests that the disk was given in the counted seconds: the engine's own rate is of the whole run, and may have faltered in these.
    assert below["at_ns"] / below["ios_per_io"] >= DELAY_MS * 1e6 and below["own_ns"] > (above["own_ns"] or 0)
    assert above["own_ns"] is None or above["own_ns"] < DELAY_MS * 1e6


def test_the_report_names_the_link():
    page = next(RESULTS.glob("molecule-links/*/report/index.html")).read_text(encoding="utf-8")
    assert f"target01: what it sends was shaped on purpose: {DELAY_MS} ms later." in page
