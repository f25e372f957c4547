# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each way of issuing I/O reaches on a host, and which results it bounds."""

from __future__ import annotations

import json

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.result import choices as judged
from ansible_collections.storlab.testbed.plugins.module_utils.result import result as schema
from ansible_collections.storlab.testbed.plugins.module_utils.run import choices, supervisor

FIGURES = {
    "psync_1": 400_000,
    "libaio_1": 200_000,
    "io_uring_1": 330_000,
    "libaio_32": 240_000,
    "io_uring_32": 250_000,
    "libaio_32_batch_8": 390_000,
}


def result(iops, ioengine="libaio", depth=1, workers=1, **workload):
    return {
        "point_id": "x",
        "workload_id": "4k",
        "layer_kind": "backing",
        "status": "measured",
        "flags": [],
        "engine": {"name": "fio", "ioengine": ioengine},
        "workload": {"queue_depth": depth, "workers": workers, **workload},
        "total": {"iops": iops, "bandwidth_bytes_s": 4096 * iops},
    }


# ---------------------------------------------------------------- what it bounds


@pytest.mark.parametrize(
    ("point", "bound", "faster"),
    [
        (result(101_000), True, "ioengine psync"),
        (result(99_000), False, "ioengine psync"),
        (result(390_000, "psync"), False, "ioengine psync"),
        # io_uring is slower than psync here, but by less than 25 %.
        (result(329_000, "io_uring"), False, "ioengine psync"),
        (result(130_000, depth=32), True, "ioengine libaio with iodepth_batch_submit and iodepth_batch_complete_min 8"),
        (result(130_000, depth=8), True, "ioengine libaio with iodepth_batch_submit and iodepth_batch_complete_min 8"),
        # It is the worker that is bound: four of them do four times as much.
        (
            result(130_000, depth=32, workers=4),
            False,
            "ioengine libaio with iodepth_batch_submit and iodepth_batch_complete_min 8",
        ),
    ],
)
def test_a_worker_above_half_of_what_its_choice_reaches_is_bound_by_it(point, bound, faster):
    check = judged.check(point, FIGURES)
    assert (check["ok"], check["faster"]) == (not bound, faster)
    addition = schema.against_ceiling({"x": point}, {"fio_choices": FIGURES})["x"]
    assert addition["flags"] == (["choice_bound"] if bound else [])
    assert "choice_bound" in addition["replaced_flags"]


@pytest.mark.parametrize(
    "point",
    [
        result(190_000, depth=4),
        result(190_000, ioengine="sync"),
        result(190_000, ioengine=None),
        result(190_000, depth=32, engine_options={"fio": {"iodepth_batch_submit": 4}}),
        {**result(190_000), "total": {}},
        {**result(190_000), "workload": {}},
    ],
)
def test_nothing_is_said_of_what_was_not_measured(point):
    assert judged.check(point, FIGURES) is None


@pytest.mark.parametrize("figures", [{}, {"psync_1": 400_000}, {"libaio_1": 0, "psync_1": 9}, {"libaio_1": True}])
def test_a_host_without_figures_judges_nothing(figures):
    point = result(190_000)
    assert judged.check(point, figures) is None
    assert schema.against_ceiling({"x": point}, {"fio_choices": figures}) == {}


def test_many_hosts_together_are_not_judged():
    assert schema.against_ceiling({"x": {**result(190_000), "clients": []}}, {"fio_choices": FIGURES}) == {}


# ---------------------------------------------------------------- how it is measured


def test_one_start_of_fio_has_a_job_for_each_choice_in_turn():
    asked = choices.arguments(clock="cpu")
    jobs = [part.split() for part in " ".join(asked).split("--name=")[1:]]
    assert [job[0] for job in jobs] == list(FIGURES)
    for job in jobs:
        assert {"--stonewall", "--filename=/dev/zero", "--rw=randread", "--clocksource=cpu"} <= set(job)
    assert {"--ioengine=libaio", "--iodepth=32", "--iodepth_batch_submit=8"} <= set(jobs[-1])
    assert not any("write" in argument for argument in asked)


def written(jobs):
    return json.dumps({"fio version": "fio-3.33", "jobs": jobs})


def job(name, iops, ios=5000, error=0):
    return {"jobname": name, "error": error, "read": {"iops": iops, "total_ios": ios}}


def test_what_a_kernel_or_fio_lacks_is_absent():
    output = written([job("psync_1", 301.6), job("io_uring_1", 0, 0, 38), job("libaio_1", 77.0, 12), job("x", 9.0)])
    assert choices.figures(output) == {"psync_1": 302}
    assert choices.figures("fio: io_uring is not compiled in\n") == {}
    assert choices.figures("") == {}


def test_a_host_without_fio_has_no_figures(tmp_path):
    assert choices.play(str(tmp_path / "fio"), str(tmp_path)) == {}
    assert list(tmp_path.iterdir()) == []


class Folder:
    """A supervisor that has not begun, in a folder of its own."""

    def __init__(self, path, plan):
        path.joinpath("host.json").write_text('{"cpu": {}, "memory_copy_bytes_s": 7}', encoding="utf-8")
        self.supervisor = supervisor.Supervisor(str(path), plan, "/usr/bin/true")
        self.path = path

    def host(self):
        self.supervisor._know_host()
        return json.loads(self.path.joinpath("host.json").read_text(encoding="utf-8"))


DISK = {
    "name": "backing-x",
    "kind": "backing",
    "host": "here",
    "path": "/dev/never",
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 20,
    "identity": {},
}


@pytest.mark.parametrize(
    ("layer", "more", "played"),
    [
        (DISK, {"beat": True}, True),
        (DISK, {"beat": False}, False),
        (DISK, {"beat": True, "fio_choices": {"psync_1": 5}}, False),
        ({**DISK, "kind": "ceiling", "path": None}, {"beat": True}, False),
    ],
)
def test_a_host_measures_once_a_run(tmp_path, monkeypatch, layer, more, played):
    plays = []
    monkeypatch.setattr(supervisor.choices, "play", lambda *arguments: plays.append(arguments) or {"psync_1": 9})
    monkeypatch.setattr(supervisor.memory, "copy_bytes_s", lambda: 11)
    host = Folder(tmp_path, {**run_plan.plan([layer], []), **more}).host()
    assert len(plays) == played
    assert host.get("fio_choices") == ({"psync_1": 9} if played else more.get("fio_choices"))
    assert host["memory_copy_bytes_s"] == 7
