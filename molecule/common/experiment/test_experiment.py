# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an experiment leaves: its page, its report, figures that are those of fio's own files, and no machine."""

from __future__ import annotations

import collections
import json
import os
import re
from pathlib import Path

import pytest

testinfra_hosts = ["local://"]
HOME = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
NAME = os.environ["MOLECULE_SCENARIO_NAME"]
RESULTS = HOME / f".cache/testbeds/molecule-{NAME}/results"
# experiment -> layer -> the least points, of what vars.yml asks for: workloads, and of E4 and E5 the variants. A search measures more, and a ceiling is
# measured beside some.
LEAST = {
    "e1": dict.fromkeys(("ceiling-target01", "backing-e1-raw", "datastore-e1-ram", "datastore-e1-raid10"), 2),
    "e2": dict.fromkeys(("ceiling-target01", "datastore-e2", "datastore-e2-iscsi", "datastore-e2-nfs"), 16),
    "e3": dict.fromkeys(("guest-e3", "guest-e3-raw"), 2),
    "e4": {"guest-e4": 8},
    "e5": {"backing-e5": 16, "backing-e5-parity": 4},
}

# What each compares within its run: the names of the sides that are set against a baseline. Of two sides one has no name.
COMPARED = {
    "e1": [["datastore on the RAM disk", "RAM disk"]],
    "e2": [["over iSCSI", "over NFS"]],
    "e4": [[None]],
    "e5": [["3 drives"], ["512 pages"]],
}


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run() -> Path:
    runs = [path.parent for path in RESULTS.glob(f"{NAME}-scaled-down/*/run.json")]
    assert len(runs) == 1
    return runs[0]


@pytest.fixture(scope="module")
def results(run) -> list:
    return [read(path) for path in sorted(run.glob("points/*/result.json"))]


def test_the_page_has_this_experiment_and_no_other(run):
    (row,) = read(RESULTS / "experiments/index.json")["experiments"]
    assert (row["name"], row["rc"], row["failed"], row["points_failed"]) == (NAME, 0, False, 0)
    assert (row["run_id"], row["scaled_down"], list(row["machines"])) == (run.name, True, ["emulated"])
    assert (RESULTS / "experiments" / row["report"]).samefile(run / "report/index.html")


def test_every_point_was_measured(results):
    counted = collections.Counter(result["layer"] for result in results)
    assert {layer: least for layer, least in LEAST[NAME].items() if counted[layer] < least} == {}
    assert {layer for layer in counted if not layer.startswith("ceiling-")} == {
        layer for layer in LEAST[NAME] if not layer.startswith("ceiling-")
    }
    (row,) = read(RESULTS / "experiments/index.json")["experiments"]
    assert row["points"] == len(results)


def test_figures_are_those_of_fio(run, results):
    for result in results:
        raw = read(run / "points" / result["point_id"] / result["raw"]["file"])
        for direction in ("read", "write"):
            done = sum(job[direction]["total_ios"] for job in raw["jobs"])
            if done:
                rate = sum(job[direction]["iops"] for job in raw["jobs"])
                assert result[direction]["ios"] == done and result[direction]["iops"] == pytest.approx(rate, rel=0.05)
            else:
                assert direction not in result


def test_measured_figures_stand_beside_published_ones(run):
    page = (run / "report/index.html").read_text(encoding="utf-8")
    rows = page.partition('sortable published"')[2].partition("</table>")[0].split("<tr")[2:]
    # Published, and at least one that was measured.
    assert any(len(re.findall(r'value="[0-9.]+"', row)) >= 1 for row in rows)


def test_what_it_compares_is_on_the_page_and_has_all_that_both_sides_measured(run):
    (row,) = read(RESULTS / "experiments/index.json")["experiments"]
    pages = [(RESULTS / "experiments" / comparison["href"]).resolve() for comparison in row.get("comparisons", [])]
    assert all(page.is_file() for page in pages)
    compared = [read(page.with_name("comparison.json")) for page in pages]
    every = [one.get("sides", [one]) for one in compared]
    assert sorted(([side.get("name") for side in sides] for sides in every), key=str) == sorted(
        COMPARED.get(NAME, []), key=str
    )
    for sides in every:
        for side in sides:
            assert side["rows"] and not side["failed"] and not side["under_test_same"]
            # A short point may lack a figure of its own, such as the processor's; no point is missing.
            assert [entry for entry in side["unmatched"] if "metric" not in entry] == []


def test_no_machine_and_no_state_of_it_is_left(host):
    lab = str(HOME / f".cache/lab/{NAME}-scaled-down")
    assert not host.file(lab).exists
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert commands and not [command for command in commands if f"{lab}/".encode() in command]
