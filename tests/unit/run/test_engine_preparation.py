# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is prepared, when it is spared, and how long a plan takes with it."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.run import (
    before_point,
    duration,
    preparation,
    runner,
    supervisor,
)
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import expected_s, normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan as plan_module

GB = 10**9
DISK = {"name": "disk", "path": "/dev/x", "size_bytes": 5 * GB}
CEILING = {"name": "ceiling", "path": None, "size_bytes": None}
READ = normalise({"ramp_s": 3, "runtime_s": 20})
WRITE = normalise({"ramp_s": 3, "runtime_s": 30, "read_percent": 0})
OVERHEAD_S = expected_s(READ) - 23


def plan(*points, **more):
    return {
        "layers": [DISK, CEILING],
        "points": [
            {"point_id": f"p{number}", "layer": layer["name"], "workload": workload, "workload_id": name}
            for number, (layer, workload, name) in enumerate(points)
        ],
        **more,
    }


def test_without_preparation():
    found = duration.steps_s(plan((DISK, READ, "r"), (CEILING, WRITE, "w"), prepare={"fill": False}))
    assert found == pytest.approx([23 + OVERHEAD_S, 33 + OVERHEAD_S])


def test_each_layer_is_written_once_and_each_workload_warmed_once():
    points = [(CEILING, READ, "r"), (DISK, WRITE, "w"), (DISK, READ, "r"), (DISK, READ, "r")]
    found = duration.steps_s(plan(*points, prepare={"precondition_passes": 2, "warmup_s": 7}))
    # Two passes of 5 GB at 500 MB/s; a warm-up takes its own start as well.
    assert found == pytest.approx(
        [23 + OVERHEAD_S, 33 + OVERHEAD_S + 20 + 7 + OVERHEAD_S, 23 + OVERHEAD_S + 7 + OVERHEAD_S, 23 + OVERHEAD_S]
    )
    assert duration.plan_s(plan(*points, prepare={})) == pytest.approx(23 * 3 + 33 + 4 * OVERHEAD_S + 10)
    assert duration.plan_s(
        plan(*points, prepare={}, prepared={"disk": {"filled": True, "instance": "7"}})
    ) == pytest.approx(23 * 3 + 33 + 4 * OVERHEAD_S)
    # Where nothing tells the device from another of its name it is written again.
    assert duration.plan_s(plan(*points, prepare={}, prepared={"disk": {"filled": True}})) == pytest.approx(
        23 * 3 + 33 + 4 * OVERHEAD_S + 10
    )


def test_what_is_only_written_is_filled_too():
    assert duration.plan_s(plan((DISK, WRITE, "w"))) == pytest.approx(33 + OVERHEAD_S + 10)
    assert duration.plan_s(plan((DISK, WRITE, "w"), prepare={"fill": False})) == pytest.approx(33 + OVERHEAD_S)


def test_steady_state_takes_at_most_its_budget():
    assert duration.point_s(READ, {"budget_s": 600}) == pytest.approx(3 + 600 + OVERHEAD_S)
    assert duration.point_s(READ, {}) == pytest.approx(3 + 25 * 20 + OVERHEAD_S)


@pytest.mark.parametrize(
    ("earlier", "wanted", "spared"),
    [
        ({"filled": True}, {"filled": True}, True),
        ({"filled": True}, {"filled": True, "preconditioned_passes": 2}, False),
        ({"filled": True, "preconditioned_passes": 1}, {"filled": True, "preconditioned_passes": 2}, False),
        ({"filled": True, "preconditioned_passes": 2}, {"filled": True, "preconditioned_passes": 2}, True),
        ({"filled": True, "preconditioned_passes": 2}, {"filled": True}, True),
        ({}, {"filled": True}, False),
    ],
)
def test_what_was_prepared_earlier(earlier, wanted, spared):
    assert preparation.covers(earlier, wanted) is spared


def test_what_a_host_does_unless_told_otherwise_is_what_the_task_says():
    assert preparation.of_plan({}) == plan_module.validate_prepare({})
    assert preparation.of_plan({})["drop_caches"] is True


# ---------------------------------------------------------------- the steps, as an executor sees them


class Recorder:
    """An executor that notes what it is asked for. errors: {step: why it fails}; devices: {layer: instance}."""

    remedy = "Look."

    def __init__(self, devices=None, errors=None, empties_cache=True):
        self.devices, self.errors, self.empties_cache = devices or {}, errors or {}, empties_cache
        self.steps, self.data = [], []

    def instance(self, job):
        return self.devices.get(job["layer"])

    def write(self, job, writing, instance):
        self.steps.append((writing.phase, job["layer"], writing.passes, writing.block_bytes, instance))
        self.data.append(job["workload"].get("data"))
        return preparation.Written(self.errors.get(writing.phase), 2.7183)

    def warm_up(self, job, seconds):
        self.steps.append(("warmup", job["layer"], job["workload_id"], seconds))
        return self.errors.get("warmup")

    def hit_percent(self):
        return self.hits.pop(0)

    def drop_page_cache(self, job):
        self.steps.append(("drop", job["layer"]))
        return self.empties_cache


def prepared_by(recorder, asked):
    """What is noted on each point when they are prepared one after another; a Failure in the place of notes where one is raised."""
    layers, machine, notes = (
        {layer["name"]: layer for layer in asked["layers"]},
        preparation.Preparation(asked, recorder),
        [],
    )
    for point in asked["points"]:
        meta = {"flags": []}
        try:
            machine.before([{**layers[point["layer"]], **point}], meta)
        except Failure as failure:
            meta = failure
        notes.append(meta)
    return notes


BUFFERED = normalise({"direct": False})


def test_the_steps_before_each_point():
    recorder = Recorder({"disk": "i7"})
    asked = plan(
        (CEILING, READ, "r"),
        (DISK, WRITE, "w"),
        (DISK, BUFFERED, "b"),
        (DISK, BUFFERED, "b"),
        prepare={"precondition_passes": 3, "precondition_block_bytes": 65536, "warmup_s": 4},
    )
    first, second, third, fourth = prepared_by(recorder, asked)
    assert recorder.steps == [
        ("precondition", "disk", 3, 65536, "i7"),
        ("warmup", "disk", "w", 4),
        ("warmup", "disk", "b", 4),
        ("drop", "disk"),
        ("drop", "disk"),
    ]
    assert first == {"flags": []}
    assert second["preparation"] == {
        "filled": True,
        "preconditioned_passes": 3,
        "warmup_s": 4,
        "page_cache": "not_used",
    }
    assert third["preparation"]["page_cache"] == fourth["preparation"]["page_cache"] == "dropped"
    assert second["prepared"] == third["prepared"] and second["prepared"]["instance"] == "i7"


@pytest.mark.parametrize(
    ("earlier", "steps"),
    [
        ({"filled": True, "instance": "i7", "utc": "t"}, []),
        ({"filled": True, "instance": "i6", "utc": "t"}, [("fill", "disk", 1, None, "i7")]),
        ({"instance": "i7", "utc": "t"}, [("fill", "disk", 1, None, "i7")]),
        ({}, [("fill", "disk", 1, None, "i7")]),
    ],
)
def test_only_the_very_device_that_was_written_is_spared(earlier, steps):
    recorder = Recorder({"disk": "i7"})
    (notes,) = prepared_by(recorder, plan((DISK, READ, "r"), prepared={"disk": earlier}))
    assert recorder.steps == steps
    assert (notes["prepared"] == {"utc": "t", "instance": "i7"}) is (not steps)


def test_a_device_that_nothing_tells_from_another_is_always_written():
    recorder = Recorder()
    (notes,) = prepared_by(recorder, plan((DISK, READ, "r"), prepared={"disk": {"filled": True, "utc": "t"}}))
    assert [step[0] for step in recorder.steps] == ["fill"] and set(notes["prepared"]) == {"utc"}


def test_a_layer_that_cannot_be_written_is_tried_once_and_all_its_points_say_so():
    recorder = Recorder(errors={"fill": "3 of 9 bytes were written."})
    notes = prepared_by(recorder, plan((DISK, READ, "r"), (DISK, WRITE, "w")))
    assert [step[0] for step in recorder.steps] == ["fill"]
    assert [(failure.code, str(failure)) for failure in notes] == [
        ("fill_failed", "disk could not be written once before it is measured: 3 of 9 bytes were written. Look.")
    ] * 2


def test_a_warm_up_that_failed_is_tried_again():
    recorder = Recorder(errors={"warmup": "fio ended."})
    asked = plan((DISK, WRITE, "w"), (DISK, WRITE, "w"), prepare={"warmup_s": 2, "fill": False})
    assert [failure.code for failure in prepared_by(recorder, asked)] == ["warmup_failed"] * 2
    assert recorder.steps == [("warmup", "disk", "w", 2)] * 2


@pytest.mark.parametrize(
    ("hits", "turns", "listed"),
    [
        ([10.0, 41.5, 60.0, 61.9, 5.0], 9, [10.0, 41.5, 60.0, 61.9]),
        ([10.0, 41.5, 60.0], 3, [10.0, 41.5, 60.0]),
        ([None], 9, None),
    ],
)
def test_a_cache_is_warmed_up_until_its_hit_rate_is_steady_and_no_longer_than_allowed(hits, turns, listed):
    recorder = Recorder()
    recorder.hits = list(hits)
    asked = plan((DISK, WRITE, "w"), (DISK, WRITE, "w"), prepare={"warmup_s": 2, "warmup_turns": turns, "fill": False})
    notes = prepared_by(recorder, asked)
    assert [note["preparation"].get("warmup_hit_percent") for note in notes] == [listed] * 2
    assert recorder.steps == [("warmup", "disk", "w", 2)] * len(listed or [None])


@pytest.mark.parametrize(
    ("drop", "empties", "word", "flags"),
    [
        (True, True, "dropped", []),
        (True, False, "not_dropped", ["page_cache_not_dropped"]),
        (False, True, "not_dropped", []),
    ],
)
def test_whether_the_page_cache_was_emptied(drop, empties, word, flags):
    recorder = Recorder(empties_cache=empties)
    (notes,) = prepared_by(recorder, plan((DISK, BUFFERED, "b"), prepare={"fill": False, "drop_caches": drop}))
    assert (notes["preparation"], notes["flags"]) == ({"page_cache": word}, flags)
    assert recorder.steps == ([("drop", "disk")] if drop else [])


def turns(*names, **more):
    """A plan of points that are called <layer>.<workload>.r<repetition>."""
    asked = plan(*((DISK if name.startswith("disk") else CEILING, READ, name.split(".")[1]) for name in names), **more)
    for name, point in zip(names, asked["points"]):
        point.update(point_id=name, repetition=int(name[-1]))
    return asked


@pytest.mark.parametrize(
    ("when", "zeroed"),
    [
        ("point", ["disk.a.r1", "disk.a.r2", "disk.b.r2", "disk.b.r3"]),
        ("case", ["disk.a.r1", "disk.b.r2"]),
        ("round", ["disk.a.r1", "disk.a.r2", "disk.b.r3"]),
    ],
)
def test_zeroes_are_written_between_points_and_told_with_the_point_that_follows(when, zeroed):
    points = ["null.a.r1", "disk.a.r1", "disk.a.r2", "null.a.r2", "disk.b.r2", "disk.b.r3"]
    recorder = Recorder({"disk": "i7"})
    notes = dict(zip(points, prepared_by(recorder, turns(*points, prepare={"zero_before": when}))))
    # In the place of a fill, with zeroes whatever the workload writes.
    assert recorder.steps == [("zero", "disk", 1, None, "i7")] * len(zeroed)
    assert recorder.data == [{"pattern": "zero"}] * len(zeroed)
    assert [name for name in points if "zeroed_bytes" in notes[name].get("preparation", {})] == zeroed
    assert notes["disk.a.r1"]["preparation"] == {
        "filled": True,
        "zeroed_bytes": 5 * GB,
        "zeroed_s": 2.718,
        "page_cache": "not_used",
    }
    assert notes["disk.b.r3"]["preparation"]["filled"] is True
    assert all("prepared" not in note for note in notes.values()) and notes["null.a.r1"] == {"flags": []}


def test_a_run_that_goes_on_begins_with_zeroes_whatever_was_written_earlier():
    earlier = {"disk": {"filled": True, "instance": "i7", "utc": "t"}}
    recorder = Recorder({"disk": "i7"})
    prepared_by(recorder, turns("disk.b.r2", "disk.b.r3", prepare={"zero_before": "case"}, prepared=earlier))
    assert [step[0] for step in recorder.steps] == ["zero"]


def test_zeroes_that_cannot_be_written_are_tried_again_for_the_next_point():
    recorder = Recorder(errors={"zero": "3 of 9 bytes were written."})
    asked = turns("disk.a.r1", "disk.a.r2", prepare={"zero_before": "round", "warmup_s": 4})
    assert [(failure.code, str(failure)) for failure in prepared_by(recorder, asked)] == [
        ("fill_failed", "disk could not be written with zeroes: 3 of 9 bytes were written. Look.")
    ] * 2
    assert [step[0] for step in recorder.steps] == ["zero", "zero"]


def test_zeroes_are_no_contents_where_data_are_reduced():
    for reduces in (True, False):
        asked = turns("disk.a.r1", prepare={"zero_before": "point"})
        asked["points"][0]["reduces_data"] = reduces
        (notes,) = prepared_by(Recorder(), asked)
        assert preparation.reads_unwritten(READ, notes) is reduces


def test_how_long_zeroes_take_is_part_of_the_estimate():
    points = ["disk.a.r1", "disk.b.r1", "disk.b.r2"]
    assert [
        duration.plan_s(turns(*points, prepare={"zero_before": when})) for when in ("nothing", "round", "point")
    ] == pytest.approx([3 * (23 + OVERHEAD_S) + 10 * times for times in (1, 2, 3)])


def test_only_what_reads_without_a_fill_may_read_what_was_never_written():
    (filled,), (bare,), (nothing,) = (
        prepared_by(Recorder(), plan((layer, READ, "r"), prepare={"fill": fill}))
        for layer, fill in ((DISK, True), (DISK, False), (CEILING, False))
    )
    assert [preparation.reads_unwritten(READ, notes) for notes in (filled, bare, nothing)] == [False, True, False]
    assert not preparation.reads_unwritten(WRITE, bare)


@pytest.mark.parametrize(
    ("workload", "drop", "cached", "expected"),
    [
        (BUFFERED, False, 7 * 4096 - 1, True),
        (BUFFERED, False, 0, True),
        (BUFFERED, False, 7 * 4096, False),
        # The last page of a range may reach beyond it.
        (BUFFERED, False, 8 * 4096, False),
        (BUFFERED, True, 0, False),
        (normalise({"direct": False, "read_percent": 0}), False, 0, False),
        (READ, False, None, False),
    ],
)
def test_a_kept_page_cache_that_lacks_a_part_of_what_is_read_is_told(workload, drop, cached, expected):
    prepare = preparation.of_plan({"prepare": {"drop_caches": drop}})
    assert preparation.reads_partly_cached(workload, prepare, cached, 7 * 4096) is expected


def test_of_a_layer_with_a_file_per_worker_those_of_the_workers_are_looked_at(monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        before_point.memory, "resident_bytes", lambda path, offset, size: looked_at.append((path, offset, size)) or 5
    )
    workload = normalise({"direct": False, "workers": 2, "range": {"offset_bytes": 8192, "size_bytes": 1 << 20}})
    job = {"path": "/srv/a.0", "size_bytes": 4 << 20, "files": ["/srv/a.0", "/srv/a.1", "/srv/a.2"]}
    assert before_point.memory_of({**job, "workload": workload})["cached_bytes"] == 10
    assert looked_at == [("/srv/a.0", 8192, 1 << 20), ("/srv/a.1", 8192, 1 << 20)]
    assert before_point.used_bytes({**job, "workload": workload}) == 2 << 20
    assert before_point.used_bytes({"path": "/dev/x", "size_bytes": 4 << 20, "workload": workload}) == 1 << 20


def test_every_file_of_a_layer_passes_the_guard(monkeypatch):
    """The second one is no longer on the testbed's file system."""
    judged = []

    def guard(layer, *_more):
        judged.append((layer["name"], layer["path"]))
        if layer["path"] == "/srv/a.1.dat":
            raise Failure("wrong_mount", "It lies elsewhere.", "Build again.")

    monkeypatch.setattr(supervisor.device_safety, "guard", guard)
    files = [f"/srv/a.{number}.dat" for number in range(3)]
    layer = {**DISK, "path": files[0], "detail": {"files": files}}
    point = {"point_id": "p", "layer": layer["name"], "workload": READ, "workload_id": "r"}
    plan_of = {"layers": [layer], "known_layers": [], "points": [point], "allow_device": [], "testbed_id": "t"}
    with pytest.raises(Failure) as caught:
        runner.check_layers(plan_of)
    assert caught.value.code == "wrong_mount"
    assert judged == [(layer["name"], files[0]), (layer["name"], files[1])]


def test_buffers_that_the_host_has_no_memory_for_are_refused_with_the_arithmetic(monkeypatch):
    monkeypatch.setattr(
        runner, "read_text", lambda _path, default="": "MemTotal: 4194304 kB\nMemAvailable: 133120 kB\n"
    )

    def check(**workload):
        point = {"point_id": "p", "layer": "ceiling", "workload": normalise(workload), "workload_id": "w"}
        runner.check_layers(
            {"layers": [CEILING], "known_layers": [], "points": [point], "allow_device": [], "testbed_id": "t"}
        )

    check(workers=2, queue_depth=65, block_size="1m")
    with pytest.raises(Failure) as caught:
        check(workers=3, queue_depth=11, block_size="4m")
    assert caught.value.code == "memory_short"
    assert "3 workers × 11 in flight × 4096 KiB are 132 MiB, and this host has 130 MiB available" in str(caught.value)


def test_many_hosts_at_once_are_not_repeated_until_steady():
    point = {"point_id": "p", "layer": "ceiling", "workload": READ, "workload_id": "r", "servers": [{}]}
    with pytest.raises(Failure, match="leave it out"):
        runner.check_layers(
            {
                "layers": [CEILING],
                "known_layers": [],
                "points": [point],
                "steady_state": {},
                "allow_device": [],
                "testbed_id": "t",
            }
        )
