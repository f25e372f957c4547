# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference beat: when it is played, what it tells, and that nothing it meets fails a run."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import beat, duration, runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from run_plan import plan, point

LAYER = {"name": "ceiling-x", "kind": "ceiling", "host": "h", "path": None, "size_bytes": 1 << 20, "identity": {}}


def document(iops: float, error: int = 0) -> str:
    """As much of fio's output as a reader needs, of a job of 500 ms."""
    done = round(iops / 2)
    read = {"total_ios": done, "io_bytes": 4096 * done, "iops": iops, "bw_bytes": 4096 * iops, "runtime": 500}
    write = dict.fromkeys(read, 0)
    job = {"jobname": "beat", "error": error, "job options": {}, "read": read, "write": write}
    return "fio: some words\n" + json.dumps({"fio version": "fio-3.33", "jobs": [job]})


@pytest.mark.parametrize(
    ("repetitions", "places"),
    [
        ([1], {0}),
        ([1, 1, 2, 2, 3], {0, 2, 4}),
        # A single round, as the role measures it.
        ([4, 4, 4], {0}),
        # Each point repeated at once: there are no rounds.
        ([1, 2, 3, 1, 2, 3], {0}),
        ([], set()),
    ],
)
def test_a_round_begins_where_the_repetition_changes(repetitions, places):
    begun = beat.begins([{"repetition": number} for number in repetitions])
    assert begun & set(range(len(repetitions))) == places


def test_figures_are_rates_of_the_null_engine_and_of_memory():
    assert beat.figures(document(1_234_567.0), 7.9e9) == {"null_iops": 1_234_567, "memory_copy_bytes_s": 7_900_000_000}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("fio: engine null not loadable\n", "engine null not loadable"),
        ("", "empty"),
        (document(0.0), "No I/O was done"),
        (document(5.0, error=22), "22"),
        ('{"fio version": "fio-3.33", "jobs": []}', "without any job"),
    ],
)
def test_what_the_null_engine_does_not_give_is_absent_and_said(output, words):
    told = beat.figures(output, 5e9)
    assert set(told) == {"note", "memory_copy_bytes_s"} and told["memory_copy_bytes_s"] == 5_000_000_000
    assert "null engine was not measured" in told["note"] and words in told["note"]
    assert set(beat.figures(output, None)) == {"note"}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)


@pytest.fixture
def engine(tmp_path):
    def made(script: str) -> str:
        path = tmp_path / "fio"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return made


def test_a_beat_names_the_null_engine_and_no_file(quick, engine, tmp_path):
    (tmp_path / "output").write_text(document(4000.0), encoding="utf-8")
    program = engine(f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/output')
    told = beat.play(program, str(tmp_path))
    assert told["null_iops"] == 4000 and told["memory_copy_bytes_s"] > 0 and told["started_utc"].endswith("Z")
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert "--ioengine=null" in asked and not any("filename" in word or "directory" in word for word in asked)


@pytest.mark.parametrize(
    ("code", "reliable", "clock"),
    [(0, "yes", "cpu"), (0, "no", "clock_gettime"), (1, "yes", "clock_gettime"), (139, "no", "clock_gettime")],
)
def test_the_clock_of_a_host_is_the_processors_where_that_passes(engine, tmp_path, code, reliable, clock):
    script = f'echo "cs: reliable_tsc: {reliable}"; test "$*" = --cpuclock-test && exit {code}; echo wrong > {tmp_path}/wrong'
    assert beat.clock_of(engine(script)) == clock
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(("passes", "clock"), [(1, "clock_gettime"), (5, "clock_gettime"), (1000, "cpu")])
def test_a_clock_that_passes_now_and_then_is_not_taken(engine, tmp_path, passes, clock):
    script = f'echo >> {tmp_path}/tests; echo "cs: reliable_tsc: yes"; test "$(wc -l < {tmp_path}/tests)" -le {passes} && exit 0; exit 1'
    assert beat.clock_of(engine(script)) == clock


def test_a_host_without_fio_has_no_clock_of_it(tmp_path):
    assert beat.clock_of(str(tmp_path / "missing")) is None


def test_the_clock_is_said_to_the_beat(quick, engine, tmp_path):
    beat.play(engine(f'echo "$@" > {tmp_path}/asked'), str(tmp_path), clock="clock_gettime")
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert [word for word in asked if "clock" in word] == ["--clocksource=clock_gettime"]


@pytest.mark.parametrize("script", ["echo fio: engine null not loadable; exit 1", "kill -9 $$"])
def test_a_fio_without_the_null_engine_fails_nothing(quick, engine, tmp_path, script):
    told = beat.play(engine(script), str(tmp_path))
    assert "null_iops" not in told and "null engine was not measured" in told["note"]
    assert told["memory_copy_bytes_s"] > 0


def test_a_fio_that_cannot_start_or_does_not_end_fails_nothing(quick, engine, tmp_path, monkeypatch):
    assert "null engine was not measured" in beat.play(str(tmp_path / "missing"), str(tmp_path))["note"]
    monkeypatch.setattr(beat, "PATIENCE_S", 0.05)
    assert "TimeoutExpired" in beat.play(engine("exec sleep 60"), str(tmp_path))["note"]


def test_memory_that_is_too_short_for_a_copy_fails_nothing(engine, tmp_path, monkeypatch):
    def short():
        raise MemoryError

    monkeypatch.setattr(memory, "copy_bytes_s", short)
    (tmp_path / "output").write_text(document(4000.0), encoding="utf-8")
    told = beat.play(engine(f"cat {tmp_path}/output"), str(tmp_path))
    assert told["null_iops"] == 4000 and "memory_copy_bytes_s" not in told


def rounds(**more):
    workload = normalise({"runtime_s": 3, "ramp_s": 1})
    return plan([LAYER], [point("ceiling-x", workload, number) for number in (1, 2, 3)], **more)


def test_the_estimate_counts_a_beat_a_round():
    assert duration.plan_s(rounds(beat=True)) - duration.plan_s(rounds()) == pytest.approx(3 * beat.EXPECTED_S)
    assert duration.plan_s(rounds(beat=False)) == duration.plan_s(rounds())


def test_a_run_is_joined_whether_it_plays_beats_or_not():
    assert runner.covers(rounds(beat=True), rounds(beat=False)) and runner.covers(rounds(), rounds(beat=True))
