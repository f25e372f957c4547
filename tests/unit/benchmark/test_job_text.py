# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is given is made once a point, where the point is run; it is that text which is kept."""

from __future__ import annotations

import os

import pytest
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.engines import diskspd, fio_job, icf_writer
from ansible_collections.storlab.testbed.plugins.module_utils.engines.catalogue import ENGINES
from ansible_collections.storlab.testbed.plugins.module_utils.engines.engine import Place
from ansible_collections.storlab.testbed.plugins.module_utils.run import supervisor
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from unchanged import refused

DRIVE = {
    "name": "initiator-win01",
    "kind": "initiator",
    "host": "win01",
    "path": "\\\\.\\PhysicalDrive3",
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 27,
    "identity": {"unique_id": "naa.600"},
}
CEILING = {**DRIVE, "name": "ceiling-target01", "kind": "ceiling", "host": "target01", "path": None, "identity": {}}
FOLDER = "C:\\storlab\\embedded\\first-1"


def options(**changes) -> dict:
    workload = changes.pop("workload", {"runtime_s": 3, "ramp_s": 1, "queue_depth": 5})
    return plan.validate(
        checked(
            benchmark, testbed_id="embedded", run_id="first", results_dir="/tmp/r", **{"workload": workload, **changes}
        )
    )


@pytest.fixture
def made(monkeypatch) -> list:
    """Every job file, command line and configuration that is made from now on."""
    texts: list = []

    def noted(make):
        def making(*args, **more):
            texts.append(make(*args, **more))
            return texts[-1]

        return making

    for module, name in ((fio_job, "_render"), (diskspd, "argv"), (icf_writer, "write")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return texts


KEPT = {
    "fio": lambda text: text,
    "diskspd": lambda argv: " ".join(argv) + "\n",
    "iometer": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("engine", KEPT)
def test_windows_is_given_what_was_made_once(engine, made):
    (point,) = plan.planned(options(engine=engine, repetitions=1), [DRIVE])
    assert made == []
    job = {**point, "path": DRIVE["path"], "size_bytes": DRIVE["size_bytes"]}
    run = ENGINES[engine].command([job], Place(FOLDER, windows=True, version="1.1.0"))
    assert len(made) == 1
    kept = run["job"][ENGINES[engine].job_file]
    assert kept == KEPT[engine](made[0])
    assert run["files"] in ({}, {ENGINES[engine].job_file: kept})


def test_linux_is_given_what_was_made_once(made, tmp_path):
    engine = tmp_path / "fio"
    engine.write_text("#!/bin/sh\ncp job.fio given.fio\n")
    engine.chmod(0o755)
    wanted = options(repetitions=1)
    (point,) = plan.planned(wanted, [CEILING])
    assert made == []
    host_plan = plan.for_host(wanted, {"measured": [CEILING], "known": [CEILING]}, [point], {})
    (tmp_path / "run").mkdir()
    work = supervisor.Supervisor(str(tmp_path / "run"), host_plan, str(engine))
    work.state["point"] = 1
    work._point(point)
    assert len(made) == 1
    (folder,) = (folder for folder, _folders, names in os.walk(tmp_path / "run") if "job.fio" in names)
    for name in ("job.fio", "given.fio"):
        with open(os.path.join(folder, name), encoding="utf-8") as handle:
            assert handle.read() == made[0]


def test_no_text_is_made_for_what_a_search_may_want(made):
    search = {"knee": {"key": "queue_depth", "values": [2, 8, 32]}}
    wanted = options(search=search, repetitions=2)
    assert len(plan.searched(wanted, [DRIVE], {})) > 2
    assert made == []


@pytest.mark.parametrize(
    ("engine", "workload", "variable"),
    [
        ("fio", {"workers": 3, "rate_iops": 100}, "rate_iops"),
        ("fio", {"engine_options": {"fio": {"bs": "4k"}}}, "engine_options.fio.bs"),
        ("diskspd", {"think_time_us": 1500, "burst": 2}, "think_time_us"),
        ("diskspd", {"verify": "crc32c"}, "workload.verify"),
        ("iometer", {"think_time_us": 2500, "burst": 2}, "think_time_us"),
        (
            "iometer",
            {"read_percent": 50, "block_size": {"read": {"4k": 33, "8k": 67}, "write": "4k"}},
            "block_sizes",
        ),
    ],
)
def test_what_could_not_be_said_is_refused_without_making_it(engine, workload, variable, made):
    with refused(made) as caught:
        plan.planned(options(engine=engine, workload={"runtime_s": 3, **workload}, repetitions=1), [DRIVE])
    assert caught.value.details["variable"] == variable
    assert made == []
