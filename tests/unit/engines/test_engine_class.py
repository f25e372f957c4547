# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine more is a class in a file of its own and a line in the catalogue: a made-up one is planned, run and read by what knows no engine by name."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path

import pytest
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import catalogue
from ansible_collections.storlab.testbed.plugins.module_utils.engines.engine import Engine, Place, start
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use
from ansible_collections.storlab.testbed.plugins.module_utils.result import result as schema
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner, supervisor
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import unsupported
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive
from unchanged import refused

LAYER = {
    "name": "ceiling-here",
    "kind": "ceiling",
    "host": "here",
    "path": None,
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 20,
    "identity": {},
}


class Dummy(Engine):
    """A shell script that answers "I/Os seconds"."""

    name, job_file, raw_file, begins = "dummy", "dummy.job", "dummy.out", "ios "
    linux, windows, ceiling, program, package = True, False, True, "dummy-bench", "dummy-tools"

    def check(self, point):
        if point["workload"]["workers"] > 3:
            raise unsupported("dummy", "workers", point["workload"]["workers"], "Use at most 3.")

    def command(self, points, place: Place):
        (point,) = points
        job = {self.job_file: f"{point['workload']['queue_depth']} deep\n"}
        return start(["--answer", self.raw_file], job, 9, files=job)

    def live(self, printed):
        return (float(printed.split()[-1]), None) if printed else (None, None)

    def results(self, text, servers=None):
        ios, seconds = (int(word) for word in text.split()[1:3])
        part = schema.direction(ios, ios * 4096, ios / seconds, ios * 4096 / seconds)
        known = {"engine": {"version": "dummy-7"}, "errors": {"total": 0}, "failures": [], "flags": []}
        return [{**known, "runtime_s": float(seconds), "read": part, "total": part}]


@pytest.fixture(autouse=True)
def dummy(monkeypatch):
    monkeypatch.setitem(catalogue.ENGINES, "dummy", Dummy())
    monkeypatch.setattr(memory_use, "COPY_S", 0.01)


def options(**changes) -> dict:
    workload = {"runtime_s": 600, "loops": 1, "queue_depth": 5, **changes}
    arguments = {"testbed_id": "t", "run_id": "one", "results_dir": "/tmp/r", "workload": workload}
    return plan.validate(checked(benchmark, **arguments, engine="dummy", prepare={"fill": False}, beat=False))


def measured(tmp_path: Path, script: str) -> tuple:
    """(the plan of the host, what was handed over of its point)."""
    wanted = options()
    points = plan.planned(wanted, [LAYER])
    host_plan = {"testbed_id": "t", "run_id": "one", "grace_s": 20}
    host_plan.update(plan.for_host(wanted, {"measured": [LAYER], "known": [LAYER]}, points, {}))
    program, folder = tmp_path / "dummy-bench", tmp_path / "run"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    for name in ("points", "done"):
        (folder / name).mkdir(parents=True)
    (folder / "host.json").write_text(json.dumps({"cpu": {}}), encoding="utf-8")
    supervisor.Supervisor(str(folder), host_plan, str(program)).run()
    packed = base64.b64decode((folder / "done" / "1").read_bytes())
    files = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archived:
        for member in archived.getmembers():
            if member.isfile() and member.name.startswith("points/"):
                files[member.name.rpartition("/")[2]] = archived.extractfile(member).read()
    return points[0], files


REQUEST = {"testbed_id": "t", "run_id": "one", "engine": "dummy"}


def test_it_is_planned_run_and_read_like_any_other(tmp_path):
    point, files = measured(
        tmp_path, 'test "$*" = "--answer dummy.out" && test -s dummy.job && echo ios 700 2 > dummy.out'
    )
    assert files["dummy.job"] == b"5 deep\n"
    result = archive.read_point(point, LAYER, REQUEST, files)
    assert (result["status"], result["failures"], result["total"]["iops"]) == ("measured", [], 350)
    assert result["engine"] == {"version": "dummy-7", "name": "dummy"}
    assert (result["raw"]["file"], result["job"]["file"]) == ("dummy.out", "dummy.job")


def test_its_own_words_say_why_it_failed(tmp_path):
    point, files = measured(tmp_path, "echo no such disk >&2; exit 3")
    result = archive.read_point(point, LAYER, REQUEST, files)
    assert result["status"] == "failed" and "total" not in result
    assert any("no such disk" in str(value) for value in result.values())


def test_what_it_cannot_do_is_refused_before_anything_runs(tmp_path):
    wanted = options(workers=4)
    with refused(tmp_path) as caught:
        plan.planned(wanted, [LAYER])
    assert (caught.value.code, caught.value.details["engine"]) == ("workload_unsupported", "dummy")


def test_it_is_refused_on_hosts_where_it_does_not_run():
    asked = {"engine": "dummy", "servers": [], "steady_state": None}
    assert catalogue.check_host(asked, windows=False) is None
    with pytest.raises(Failure, match="Linux hosts only"):
        catalogue.check_host(asked, windows=True)
    assert catalogue.misplaced("dummy", "windows") == ("which runs on Linux hosts only", "use fio")
    with pytest.raises(Failure, match="fio only"):
        catalogue.check_host({**asked, "servers": [{"host": "a"}]}, windows=False)


def test_its_program_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(runner.shutil, "which", lambda _name: None)
    with pytest.raises(Failure) as caught:
        runner.find_engine("dummy")
    assert caught.value.code == "engine_missing"
    assert "dummy-bench" in caught.value.what and "dummy-tools" in caught.value.remedy


def test_another_name_is_refused_with_those_that_there_are():
    with pytest.raises(Failure) as caught:
        catalogue.engine_of("vdbench", "benchmark_engine")
    assert caught.value.details["variable"] == "benchmark_engine"
    assert all(name in str(caught.value) for name in catalogue.ENGINES)
