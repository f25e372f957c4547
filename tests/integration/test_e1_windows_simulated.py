# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Experiment E1 on ESXi and Windows by its playbook, from the description to the report and the teardown, and from an ESXi host alone.

Windows, its IOMeter and ESXi are stand-ins.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("support", "standins", "fake_windows", "tools")]
import windows_esxi_lab as stand_ins
from windows_esxi_lab import IN, OUT, WINDOWS

IOMETER = "C:\\tools\\IOmeter.exe"
ID = "e1-windows-scaled-down"
RUN = "20261127T010203Z"
VARIABLES = {
    "testbed_run_id": RUN,
    "testbed": {"chap_password": IN, "mutual_chap_password": OUT, "disks": [{"name": "unused", "size": "1GiB"}]},
    "testbed_e1_windows": {
        "raid10": "LocalDS_0",
        # Windows does not log in over the loopback interface, where the tgtd has to listen: it has a test of its own below.
        "through": False,
        "repetitions": 4,
        "workload": {"ramp_s": 0, "runtime_s": 1},
    },
    "benchmark_windows": {"program": IOMETER},
    "benchmark_prepare": {"fill": False},
    "iscsi_target_windows_networks": ["127.0.0.0/8"],
    "iscsi_initiator_windows_wait_s": 1,
}
SETTINGS = {
    "programs": {IOMETER: {"engine": "iometer", "version": "1.1.0"}},
    "console_user": f"{WINDOWS.upper()}\\Administrator",
    "initiator": {"iqn": "iqn.1991-05.com.microsoft:array", "portals": [], "sessions": {}},
}


@pytest.fixture
def lab(tmp_path):
    with stand_ins.running(tmp_path, ID, VARIABLES, settings=SETTINGS) as lab:
        yield lab


def points(lab) -> dict:
    """{point: status} of what was measured."""
    folder = lab.folder / "results" / ID / RUN / "points"
    return {path.parent.name: json.loads(path.read_text())["status"] for path in folder.glob("*/result.json")}


def lines_of(document: dict) -> list:
    """What the playbooks have printed."""
    return [
        line
        for play in document["plays"]
        for task in play["tasks"]
        for result in task["hosts"].values()
        if task["task"]["name"] == "Show each step"
        for line in result["msg"].splitlines()
    ]


@pytest.mark.long
def test_from_the_description_to_the_report_and_back(lab):
    before = lab.kept()
    rc, document, _moments = lab.run("experiments/e1_windows_esxi", options=("--check",))
    assert rc == 0, stand_ins.failures(document)
    assert lab.kept() == before and not (lab.folder / "results" / ID).exists()
    lines = lines_of(document)
    assert "2. array: RAM disk of 8GiB (STARWIND*), measured raw: 2 min. OVERWRITTEN." in lines
    assert any("LocalDS_0, which is there and stays as it is" in line for line in lines)

    lab.play("experiments/e1_windows_esxi")
    measured = points(lab)
    assert set(measured.values()) == {"measured"}
    assert {name.split(".")[0] for name in measured} == {"backing-e1-ram", "datastore-e1-ram"}
    assert len(measured) == 2 * 2 * 4
    assert lab.kept() == before and lab.layers() == {}
    folder = lab.folder / "results" / ID
    page = (folder / RUN / "report" / "index.html").read_text()
    # What is simulated says so, and the published figures are beside the measured ones.
    assert "stand-in" in page and "StarWind RAM disk in a VM on ESXi" in page
    [path] = folder.glob("compare/*/*.json")
    compared = json.loads(path.read_text())
    assert [side["name"] for side in compared["sides"]] == ["file on the RAM disk"]
    [sentence] = compared["statements"]
    assert sentence["verdict"] in ("yes", "no", "cannot tell") and len(sentence["figures"]) == 2


@pytest.mark.long
def test_an_esxi_host_and_nothing_else_is_enough(tmp_path):
    # The simulated host has less memory than the published machine.
    with stand_ins.running(tmp_path, ID, VARIABLES, settings=SETTINGS, machine={"memory": "3GiB"}) as lab:
        before = lab.kept()
        wanted = yaml.safe_load((tmp_path / "lab.yml").read_text())["all"]["vars"]["testbed_e1_windows"]
        too_large = {**wanted, "machine": {**wanted["machine"], "memory": "12GiB"}}
        rc, document, _moments = lab.run(
            "experiments/e1_windows_esxi_machine", options=("-e", json.dumps({"testbed_e1_windows": too_large}))
        )
        assert rc == 2 and stand_ins.failures(document)[0].startswith("Not all of what the Windows machine needs")
        assert lab.kept() == before

        rc, document, _moments = lab.run("experiments/e1_windows_esxi", options=("--check",))
        assert rc == 0, stand_ins.failures(document)
        assert lab.kept() == before and not (lab.folder / "results" / ID).exists()
        [made, *others] = lines_of(document)
        assert made.startswith(
            "1. esx: the virtual machine array with 3GiB of memory, all of it reserved, 2 processors"
        )
        assert len(others) == 7 and "and of the machine array; the host esx stays" in others[-1]

        lab.play("experiments/e1_windows_esxi")
        measured = points(lab)
        assert set(measured.values()) == {"measured"} and len(measured) == 2 * 2 * 4
        assert lab.kept() == before and lab.layers() == {}


@pytest.mark.long
def test_the_machine_measures_its_own_target(tmp_path):
    chain = {
        "disks": [
            {"name": "ram", "model": "STARWIND*", "size": "8GiB", "to": []},
            {
                "name": "through",
                "kind": "vhdx",
                "path": "R:\\through.vhdx",
                "size": "512MiB",
                "allocation": "fixed",
                "to": [],
                "loopback": True,
            },
        ],
        "datastores": [{"disk": "ram", "hosts": [WINDOWS], "mount_point": "R:", "benchmark_file": "384MiB"}],
    }
    variables = {
        **{key: value for key, value in VARIABLES.items() if key != "testbed_e1_windows"},
        "testbed_id": "own",
        "testbed": chain,
        "benchmark_engine": "iometer",
        "benchmark_ceiling": False,
        "benchmark_workloads": [{"block_size": "4k", "read_percent": 80, "ramp_s": 0, "runtime_s": 1}],
        "iscsi_target_windows_networks": ["192.0.2.0/24"],
    }
    settings = {**SETTINGS, "addresses": ["192.0.2.11"]}
    with stand_ins.running(
        tmp_path, "own", variables, settings=settings, windows={"testbed_address": "192.0.2.11"}
    ) as lab:
        before = lab.kept()
        lab.play("build", "benchmark")
        assert lab.layers()["target-through"]["parent"] == "datastore-ram"
        folder = lab.folder / "results" / "own" / RUN / "points"
        [point] = [json.loads(path.read_text()) for path in folder.glob("target-through*/result.json")]
        assert point["status"] == "measured" and point["engine"]["name"] == "iometer"
        lab.play("teardown", "verify_clean")
        assert lab.kept() == before and lab.layers() == {}


@pytest.mark.skipif("E1_CUT" not in os.environ, reason="the cut of E1 takes minutes; make interrupted plays it")
@pytest.mark.parametrize("machine", [None, {"memory": "3GiB"}], ids=["machine-there", "machine-made"])
def test_a_run_that_was_cut_is_taken_down(tmp_path, machine):
    """E1_SEED=number repeats a run."""
    seed = int(os.environ.get("E1_SEED") or random.SystemRandom().randrange(1 << 32))
    # Of a whole run, which has more moments than this.
    moment = random.Random(seed).randrange(20, 420)  # noqa: S311 no secret
    print(f"E1_SEED={seed}: killed before task {moment}")
    with stand_ins.running(tmp_path, ID, VARIABLES, settings=SETTINGS, machine=machine) as lab:
        before = lab.kept()
        rc, _document, moments = lab.run("experiments/e1_windows_esxi", at=f"before {moment}")
        assert rc == -signal.SIGKILL, moments[-1]
        print(moments[-1])
        lab.play("experiments/e1_windows_esxi_teardown")
        assert lab.kept() == before and lab.layers() == {}
        assert set(points(lab).values()) <= {"measured"}
