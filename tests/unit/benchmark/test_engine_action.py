# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of a benchmark: the plan, what it takes out of an archive, what it stores and says."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import actions
import places
import pytest
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark, benchmark_failures
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import outcome, progress
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan as plans
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive as left
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load, run_folder
from unchanged import refused, unchanged

FIXTURES = places.FIXTURES / "fio"


def layer(name, host="target01", **changes):
    return {
        "name": name,
        "kind": name.partition("-")[0],
        "host": host,
        "path": f"/dev/{name}",
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 1 << 26,
        "identity": {"serial": f"serial-{name}"},
        **changes,
    }


LAYERS = {
    one["name"]: one
    for one in (
        layer("backing-bench"),
        layer("backing-ds1", purpose="data"),
        layer("target-ds1", path=None),
        layer("initiator-bench", host="hypervisor01"),
        layer("ceiling-target01", path=None, size_bytes=1 << 30),
    )
}


def args(**changes):
    given = {
        "testbed_id": "embedded",
        "run_id": "first",
        "results_dir": "/tmp/r",
        "workload": {"read_percent": 50, "runtime_s": 2},
        **changes,
    }
    return checked(benchmark, **given)


def plan(**changes):
    asked = plans.validate(args(**changes))
    layers = plans.choose_layers(changes.get("layers"), LAYERS, "target01")
    return {
        "points": plans.planned(asked, layers["measured"]),
        "skipped_layers": layers["skipped"],
        "known_layers": layers["known"],
    }


def test_only_measurable_scratch_layers_of_the_host_are_measured():
    found = plan()
    assert {point["layer"] for point in found["points"]} == {"backing-bench", "ceiling-target01"}
    assert found["skipped_layers"] == ["backing-ds1"]
    assert len(found["known_layers"]) == 5


def test_repetitions_are_interleaved():
    found = plan(repetitions=2, sweep={"queue_depth": [1, 8]}, layers=[LAYERS["backing-bench"]])
    assert [point["point_id"] for point in found["points"]] == [
        "backing-bench.4k-r50-rnd100-qd1-w1.r1",
        "backing-bench.4k-r50-rnd100-qd8-w1.r1",
        "backing-bench.4k-r50-rnd100-qd1-w1.r2",
        "backing-bench.4k-r50-rnd100-qd8-w1.r2",
    ]


def test_every_point_has_a_seed_of_its_own_and_keeps_it():
    seeds = [point["seed"] for point in plan(repetitions=3)["points"]]
    assert len(set(seeds)) == 6
    assert seeds == [point["seed"] for point in plan(repetitions=3)["points"]]
    assert set(seeds).isdisjoint(point["seed"] for point in plan(repetitions=3, run_id="second")["points"])


def test_several_workloads():
    found = plan(
        workload=None, workloads=[{"block_size": "4k"}, {"block_size": ["8k", "1m"]}], layers=[LAYERS["backing-bench"]]
    )
    assert [point["workload_id"] for point in found["points"]] == [
        "4k-r100-rnd100-qd1-w1",
        "8k-r100-rnd100-qd1-w1",
        "1m-r100-rnd100-qd1-w1",
    ]


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"run_id": "../evil"}, "run_id"),
        ({"run_id": ""}, "run_id"),
        ({"run_id": "latest"}, "run_id"),
        ({"testbed_id": "a/b"}, "testbed_id"),
        ({"repetitions": 0}, "repetitions"),
        ({"workload": None}, "workload"),
        ({"workloads": [{}]}, "workloads"),
        ({"workload": {"queue": 3}}, "workload.queue"),
        ({"workload": None, "workloads": [{}, {"read_percent": 200}]}, "workloads[1].read_percent"),
        ({"workload": None, "workloads": [{}, {}]}, "workloads"),
        ({"workload": {"range": {"size_bytes": "1g"}}}, "workload.range"),
        ({"layers": [layer("backing-x", path="/dev/a b")]}, "layer path"),
        ({"layers": [layer("backing-x/../y")]}, "layer name"),
        ({"layers": [{"name": "backing-x"}]}, "layer"),
    ],
)
def test_everything_is_validated_before_anything_runs(changes, variable):
    with pytest.raises(Failure) as caught:
        plan(**changes)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


# ---------------------------------------------------------------- what comes back


def archive(files: dict) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def test_only_expected_names_are_taken_out():
    files, preparations, environment, beat = left.unpack(
        archive(
            {
                "host.json": b'{"kernel": {"release": "x"}}',
                "beat.json": b'{"round": 3}',
                "points/a.r1/fio.json": b"1",
                "points/a.r1/../../etc/passwd": b"2",
                "points/b.r1/fio.json": b"3",
                "/etc/shadow": b"4",
                "points/a.r1/other": b"5",
                "preparation/fill-x/job.fio": b"6",
                "preparation/../job.fio": b"7",
                "preparation/fill-x/other": b"8",
            }
        ),
        {"a.r1"},
    )
    assert files == {"a.r1": {"fio.json": b"1"}}
    assert preparations == {"fill-x": {"job.fio": b"6"}}
    assert (environment, beat) == ({"kernel": {"release": "x"}}, {"round": 3})


def point_files(**changes):
    raw = (FIXTURES / "mixed_group.json").read_bytes()
    noted = {
        "point_id": "p",
        "exit_code": 0,
        "failures": [],
        "flags": [],
        "overridden": [],
        "started_utc": "2026-01-02T03:04:05.678Z",
        "raw_sha256": hashlib.sha256(raw).hexdigest(),
        **changes,
    }
    return {"meta.json": json.dumps(noted).encode(), "fio.json": raw, "job.fio": b"[p]\n"}


def read(files, **changes):
    point = plan(workload={"read_percent": 50, "runtime_s": 1, "ramp_s": 0}, **changes)["points"][0]
    return left.read_point(point, LAYERS["backing-bench"], args(), files), point


def test_a_point_becomes_a_result_that_names_its_files():
    found, point = read(point_files())
    assert found["status"] == "measured"
    assert found["raw"] == {"file": "fio.json", "sha256": hashlib.sha256(point_files()["fio.json"]).hexdigest()}
    assert found["job"]["sha256"] == hashlib.sha256(b"[p]\n").hexdigest()
    assert (found["fingerprint"], found["engine"]["randseed"]) == (point["fingerprint"], point["seed"])
    assert found["host"] == "target01"


def test_a_file_that_changed_on_the_way_is_refused():
    with pytest.raises(Failure) as caught:
        read(point_files(raw_sha256="0" * 64))
    assert caught.value.code == "transfer_damaged"


def test_output_that_cannot_be_read_is_a_failed_point_with_the_engines_words():
    files = {**point_files(), "fio.json": b"fio: engine libaio not loadable\n"}
    files["meta.json"] = json.dumps({"exit_code": 1, "failures": [], "flags": [], "overridden": []}).encode()
    found, _point = read(files)
    assert found["failures"] == [
        {"code": "engine_exit", "message": "fio ended with exit code 1."},
        {"code": "no_result", "message": found["failures"][1]["message"], "said": "fio: engine libaio not loadable"},
    ]


def test_a_point_that_was_never_begun():
    found, _point = read({})
    assert (found["status"], found["failures"][0]["code"]) == ("failed", "stopped")


# ---------------------------------------------------------------- what is stored


def test_stored_points_are_known_again(tmp_path):
    found, point = read(point_files())
    run_folder.write_point(str(tmp_path), point["point_id"], found, point_files())
    folder = tmp_path / "points" / point["point_id"]
    assert sorted(path.name for path in folder.iterdir()) == ["fio.json", "job.fio", "meta.json", "result.json"]
    assert hashlib.sha256((folder / "fio.json").read_bytes()).hexdigest() == found["raw"]["sha256"]
    assert list(run_folder.stored(str(tmp_path), [point])) == [point["point_id"]]


def test_failed_points_are_measured_again(tmp_path):
    found, point = read({})
    run_folder.write_point(str(tmp_path), point["point_id"], found, {})
    assert run_folder.stored(str(tmp_path), [point]) == {}


def test_at_the_end_of_all_rounds_what_failed_in_any_is_one_failure(tmp_path):
    """Without a look at the stored results, which another task may have changed meanwhile."""
    folder = str(tmp_path / "embedded" / "first")
    lost, slow = Failure("no_io", "No I/O was done.").as_fault(), Failure("too_short", "Ran 1 s.", "Wait.").as_fault()
    turns = [
        outcome.points_failed("target01", folder, {"b.r1": [lost], "c.r1": [slow]}, 3),
        outcome.points_failed("target01", folder, {"b.r3": [slow]}, 3),
    ]
    kept = json.loads(json.dumps([failure.as_result()["failure"] for failure in turns]))

    def answer(failures: list) -> dict:
        task = actions.make(benchmark_failures, {"failures": failures, "points": 9})
        with unchanged(tmp_path):
            return task.run(task_vars={"inventory_hostname": "target01"})

    ended = answer(kept)
    assert ended["failed"] and ended["failure"]["code"] == "points_failed"
    assert ended["failure"]["details"] == {
        "failed": {"b.r1": [lost], "c.r1": [slow], "b.r3": [slow]},
        "measured": 6,
        "run_dir": folder,
    }
    assert ended["failure"]["what"] == "3 of 9 points on target01 failed, first b.r1: No I/O was done."
    assert ended["msg"] == f"{ended['failure']['what']} {ended['failure']['remedy']}" and folder in ended["msg"]
    assert "failed" not in answer([])


def test_another_workload_of_the_same_name_is_not_written_over(tmp_path):
    found, point = read(point_files())
    run_folder.write_point(str(tmp_path), point["point_id"], found, point_files())
    with refused(tmp_path) as caught:
        run_folder.stored(str(tmp_path), [{**point, "fingerprint": "other"}])
    assert caught.value.code == "run_exists"


def test_what_preceded_the_points_is_kept_apart(tmp_path):
    run_folder.write_preparation(str(tmp_path), "warmup-x.4k", {"fio.json": b"first", "stderr.txt": b"odd"})
    run_folder.write_preparation(str(tmp_path), "warmup-x.4k", {"fio.json": b"second"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "preparation" / "warmup-x.4k").iterdir()} == {
        "fio.json": b"second"
    }
    assert not (tmp_path / "points").exists()


def test_a_full_disk_is_said_and_leaves_nothing_half(tmp_path, monkeypatch):
    [point] = plan(layers=[LAYERS["backing-bench"]])["points"]

    def full(*_paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder.os, "replace", full)
    (tmp_path / "points" / point["point_id"]).mkdir(parents=True)
    with refused(tmp_path, match=r"cannot be written: No space left on device. Make room there") as caught:
        run_folder.write_point(str(tmp_path), point["point_id"], {"status": "failed", "failures": []}, point_files())
    assert caught.value.code == "results_unwritable"


def test_a_results_dir_that_is_no_folder_is_said(tmp_path):
    (tmp_path / "file").write_text("", encoding="ascii")
    with refused(tmp_path, match=r"file/run cannot be written: Not a directory"):
        run_folder.add_layers(str(tmp_path / "file" / "run"), {"x": {"name": "x"}})


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (lambda folder: (folder / "lab").write_text("", encoding="ascii"), "results_unwritable"),
        (lambda folder: folder.joinpath("lab").symlink_to("nowhere"), "results_unwritable"),
        (lambda folder: (folder / "lab" / "run").mkdir(parents=True) or damage(folder / "lab" / "run"), "run_damaged"),
    ],
    ids=["a file", "a dangling link", "damaged"],
)
def test_a_run_that_could_not_be_kept_is_refused_beforehand(tmp_path, prepare, code):
    prepare(tmp_path)
    with refused(tmp_path) as caught:
        run_folder.refuse_unfit(str(tmp_path / "lab" / "run"))
    assert caught.value.code == code


def damage(run) -> None:
    (run / "run.json").write_text("{", encoding="ascii")


def test_a_full_disk_is_noticed_beforehand(tmp_path, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder.tempfile, "TemporaryFile", full)
    with refused(tmp_path, match="No space left on device"):
        run_folder.refuse_unfit(str(tmp_path / "lab" / "run"))


def test_whether_a_run_can_be_kept_is_tried_without_a_trace(tmp_path):
    with unchanged(tmp_path):
        run_folder.refuse_unfit(str(tmp_path / "lab" / "run"))


def test_hosts_add_to_the_layers_of_a_run(tmp_path):
    run_folder.add_layers(str(tmp_path), {"x": {"name": "x"}})
    run_folder.add_layers(str(tmp_path), {"y": {"name": "y"}})
    run_folder.write_host(str(tmp_path), "b", {"kernel": 2})
    assert set(json.loads((tmp_path / "layers.json").read_text(encoding="utf-8"))) == {"x", "y"}
    assert json.loads((tmp_path / "hosts" / "b.json").read_text(encoding="utf-8")) == {"host": "b", "kernel": 2}


def test_facts_keep_earlier_runs_and_points():
    found, point = read(point_files())
    earlier = {"zero": {"points": {"q": {}}}, "first": {"points": {"other.r1": {"status": "measured"}}}}
    facts = benchmark.merged_facts(earlier, args(), "/r", {point["point_id"]: found})
    assert facts["zero"] == earlier["zero"]
    assert set(facts["first"]["points"]) == {"other.r1", point["point_id"]}
    assert len(json.dumps(facts["first"]["points"][point["point_id"]])) <= 2048


# ---------------------------------------------------------------- what is said


STATE = {
    "point": 3,
    "points": 12,
    "layer": "backing-bench",
    "workload_id": "4k-r50-rnd100-qd8-w1",
    "repetition": 1,
    "repetitions": 3,
    "phase": "measure",
    "elapsed_s": 5.2,
    "phase_s": 10,
    "iops": 57412.0,
    "remaining_s": 41.3,
    "failed": 0,
}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"elapsed_s": 11.6},
            "[target01] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 rep 1/3 measure 10/10 s 57.4k IOPS 41 s left",
        ),
        ({}, "[target01] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 41 s left"),
        (
            {"phase": "fill", "iops": None, "repetitions": 1},
            "[target01] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 fill 5 s 41 s left",
        ),
        (
            {"iops": 1234567.0, "failed": 2, "remaining_s": 125},
            "[target01] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 rep 1/3 measure 5/10 s 1.23M IOPS 2 min 5 s left (2 failed)",
        ),
        (
            {"remaining_s": 7510},
            "[target01] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 2 h 5 min left",
        ),
    ],
)
def test_progress_line(changes, line):
    assert progress.line("target01", {**STATE, **changes}) == line


@pytest.mark.parametrize(
    ("elapsed", "left", "bar"),
    [
        (0, 60, "[....................]"),
        (15, 45, "[#####...............]"),
        (59.9, 0.1, "[###################.]"),
        (60, 0, "[####################]"),
        (0, 0, "[....................]"),
    ],
)
def test_the_bar_grows_with_time(elapsed, left, bar):
    assert (
        progress.bar("target01", {**STATE, "updated": elapsed, "remaining_s": left}).split(" 3/12 ")[0]
        == f"[target01] {bar}"
    )


def test_the_bar_says_what_the_line_says():
    assert progress.bar("target01", {**STATE, "updated": 14.2}) == (
        "[target01] [#####...............] 3/12 backing-bench 4k-r50-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 14 s gone 41 s left"
    )


@pytest.mark.parametrize(
    ("asked", "terminal", "style"),
    [
        ("auto", True, "bar"),
        ("auto", False, "log"),
        ("bar", False, "bar"),
        ("line", True, "line"),
        ("none", True, "none"),
    ],
)
def test_a_bar_is_for_terminals(asked, terminal, style):
    assert progress.style(asked, terminal) == style


@pytest.mark.parametrize(
    ("style", "said"),
    [("log", [100, 106, 121, 137]), ("line", [100, 106, 120, 137]), ("bar", [100, 106, 120, 137]), ("none", [])],
)
def test_no_style_speaks_more_often_than_every_five_seconds(style, said):
    heard, clock = [], [0.0]
    lines = progress.Lines("target01", style, lambda _line: heard.append(clock[0]))
    for moment, point in ((99, 0), (100, 1), (101, 2), (104.9, 3), (106, 2), (110, 2), (120, 2), (121, 3), (137, 2)):
        clock[0] = moment
        lines.show({**STATE, "point": point}, moment)
    assert heard == said


def test_what_lies_ahead():
    assert (
        progress.ahead("target01", 36, 380, "2026-01-02 03:04 UTC")
        == "[target01] 36 points to measure, about 6 min 20 s, until 2026-01-02 03:04 UTC"
    )
    assert progress.ahead("target01", 1, 12.4) == "[target01] 1 point to measure, about 12 s"


def test_points_are_listed_in_their_order():
    points = [
        {
            "order": number,
            "layer": "backing-bench",
            "workload_id": "4k",
            "repetition": number,
            "duration_s": 12.4,
            "status": status,
            **more,
        }
        for number, status, more in ((9, "stored", {}), (10, "planned", {"variant": "tuned"}))
    ]
    assert progress.listed("a", points, 10) == [
        "[a]  9 backing-bench 4k rep 9/10 stored",
        "[a] 10 backing-bench 4k tuned rep 10/10 12 s",
    ]
    assert progress.listed("a", points[:1], 1) == ["[a] 9 backing-bench 4k stored"]
    assert progress.listed("a", [], 1) == []


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            {
                "search": {"key": "queue_depth", "metric": "latency_p99_9_ns"},
                "outcome": "found",
                "found": {"load": 14, "iops": 76316.1, "latency_p99_9_ns": 3325952},
            },
            "queue_depth 14 → 76.3k IOPS, p99.9 3.33 ms, found",
        ),
        (
            {"search": {"key": "workers"}, "outcome": "at_highest", "found": {"load": 8, "iops": 950.4}},
            "workers 8 → 950 IOPS, at highest",
        ),
        (
            {
                "search": {"percents": [5]},
                "outcome": "found",
                "found": {"load": None, "iops": 2e6, "latency_p99_ns": 41e3},
            },
            "peak → 2M IOPS, p99 0.041 ms, found",
        ),
        ({"search": {"key": "queue_depth"}, "outcome": "lowest_breaks_limit"}, "lowest breaks limit"),
    ],
)
def test_the_answer_of_a_search_in_a_line(answer, line):
    assert (
        progress.answered("a", {"layer": "backing-bench", "workload_id": "4k", **answer})
        == f"[a] backing-bench 4k: {line}"
    )


def test_a_layer_that_is_another_in_each_variant_is_kept_as_it_was_in_each(tmp_path):
    small, large, other = ({"name": name, "size_bytes": size} for name, size in (("x", 10), ("x", 20), ("y", 30)))
    run_folder.add_layers(str(tmp_path), {"x": small, "y": other}, "two", {"x"})
    run_folder.add_layers(str(tmp_path), {"x": large, "y": other}, "four", {"x"})
    run_folder.add_layers(str(tmp_path), {"y": other})
    known = json.loads((tmp_path / "layers.json").read_text())
    assert known["x"] == {**large, "variants": {"two": small, "four": large}} and known["y"] == other
    assert [load.under(known["x"], name) for name in ("two", "four", "never")] == [small, large, large]


def test_what_a_layer_stands_on_is_kept_as_it_was_in_each_variant(tmp_path):
    """A cache tier of the target is put in and taken out while a guest is measured; a layer that the I/O does not go through has no variants."""
    guest = {"name": "guest", "parent": "datastore"}
    datastore = {"name": "datastore", "parent": "backing"}
    beside = {"name": "beside", "parent": "backing"}
    for variant, cached in (("baseline", False), ("cached", True)):
        backing = {"name": "backing", "parent": None, "detail": {"cached": cached}}
        layers = {layer["name"]: layer for layer in (guest, datastore, backing, beside)}
        run_folder.add_layers(str(tmp_path), layers, variant, {"guest"})
    known = json.loads((tmp_path / "layers.json").read_text())
    assert [load.under(known["backing"], name)["detail"]["cached"] for name in ("baseline", "cached")] == [False, True]
    assert {name for name, layer in known.items() if "variants" in layer} == {"guest", "datastore", "backing"}


def test_a_terminal_obeys_nothing_that_a_host_says(monkeypatch):
    shown: list = []
    monkeypatch.setattr(benchmark.display, "display", shown.append)
    monkeypatch.setattr(benchmark.display, "warning", shown.append)
    state = {"point": 3, "points": 7, "layer": "backing-\x1b[2J", "workload_id": "4k\x07", "phase": "\x9bmeasure"}
    progress.Lines("target01", "line", benchmark.say).show(state, 9.0)
    benchmark.warn("\x1b]0;title\x07")
    assert len(shown) == 2 and "3/7 backing-\\x1b[2J" in shown[0]
    assert not any(character in text for text in shown for character in "\x1b\x07\x9b")


# ---------------------------------------------------------------- turns of a host

RUNNER = {"state_dir": "/run/storlab/embedded/bench/first", "boot_id": "boot-7", "pid": 4711}


class Follower:
    """In the place of LinuxRun: it finishes no point, and its process stays when the plan says so."""

    played: list

    def __init__(self, *_arguments):
        self.runner = None

    def run(self, plan, _expected_s, runner):
        self.played.append((plan.get("stays", False), runner))
        self.runner = {**RUNNER, "pid": 4712} if plan.get("stays") else None
        return False

    def dismiss(self, runner):
        self.played.append(("dismissed", runner))


@pytest.fixture
def turn(tmp_path, monkeypatch):
    """turn(number, runner): (what the task answers as its runner, what became of the run) in a run of three rounds."""
    monkeypatch.setattr(benchmark, "LinuxRun", Follower)

    def play(numbers, runner=None, check=False, **changes):
        Follower.played = []
        given = {
            "testbed_id": "embedded",
            "run_id": "first",
            "results_dir": str(tmp_path),
            "layers": [LAYERS["ceiling-target01"]],
            "workload": {"runtime_s": 2},
            "repetitions": 3,
            "progress": "none",
            **({"only_repetitions": numbers} if numbers else {}),
            **({"runner": runner} if runner else {}),
            **changes,
        }
        answer = actions.make(benchmark, given, check=check).run(task_vars={"inventory_hostname": "target01"})
        assert answer.get("failure", {}).get("code") in (None, "points_failed")
        return answer.get("runner"), Follower.played

    return play


def test_the_process_stays_until_the_last_turn_of_its_host(turn):
    assert turn([1]) == ({**RUNNER, "pid": 4712}, [(True, None)])
    assert turn([2], RUNNER) == ({**RUNNER, "pid": 4712}, [(True, RUNNER)])
    assert turn([3], RUNNER) == (None, [(False, RUNNER)])
    # All rounds in one task, and variants, between which the host is changed.
    assert turn(None) == (None, [(False, None)])
    assert turn([1], variant="jumbo") == (None, [(False, None)])


def test_a_turn_whose_points_are_stored_measures_nothing_and_keeps_or_ends_the_process(turn, monkeypatch):
    monkeypatch.setattr(
        run_folder, "stored", lambda _folder, points: {point["point_id"]: {"status": "measured"} for point in points}
    )
    monkeypatch.setattr(benchmark.schema, "summary", lambda result: result)
    assert turn([2], RUNNER) == (RUNNER, [])
    assert turn([3], RUNNER) == (None, [("dismissed", RUNNER)])
    # Check mode ends nothing.
    assert turn([3], RUNNER, check=True) == (RUNNER, [])
