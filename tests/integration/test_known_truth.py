# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A testbed whose truth is known: what is told of a device that takes as long as a law says.

The product's own path from the workload to the report, with two things replaced: of the job file the lines that name the engine and the file (fio reaches
the device by NBD, which the collection does not offer), and the guard, which knows no device behind a socket. A file of the device's size stands for it and
is never touched. Figures are held against what the device recorded (scripted_device.py), as bounds that hold under any load: runs go on side by side here.
"""

from __future__ import annotations

import base64
import math
import random
import re
import statistics
from pathlib import Path

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner, supervisor
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import keep
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive, load, run_folder
from scripted_device import reached, scripted
from waiting import until

SIZE = 8 << 20
# fio's histograms have bins of at most this share of a latency, and runtimes are whole milliseconds.
BIN, CLOCK_S = 1 / 64, 0.002
PERCENTILES = {"latency_p50_ns": 50, "latency_p95_ns": 95, "latency_p99_ns": 99, "latency_p99_9_ns": 99.9}
ROUNDS = 6

# ---------------------------------------------------------------- the laws

_TABLE = random.Random(20261122)  # noqa: S311 noise, no secret
EXPONENTIAL_S, FAST_S, SLOW_S, SLOW_SHARE = 0.008, 0.005, 0.06, 0.1
EXPONENTIAL = [_TABLE.expovariate(1 / EXPONENTIAL_S) for _number in range(4096)]
MIXTURE = [SLOW_S if _TABLE.random() < SLOW_SHARE else FAST_S for _number in range(4096)]
LOWER_S, ADDED_S = 0.020, 0.030
STALLED_AT_S, STALLED_S = 2.0, 2.5


def delay_s(export: str, number: int, elapsed_s: float) -> float:
    layer = export.partition(".")[0]
    place = int(re.search(r"\.(?:r|round)(\d+)$", export)[1])
    if layer == "exponential":
        return EXPONENTIAL[number % len(EXPONENTIAL)]
    if layer == "mixture":
        return MIXTURE[number % len(MIXTURE)]
    if layer == "stalling" and STALLED_AT_S <= elapsed_s < STALLED_AT_S + STALLED_S:
        return STALLED_AT_S + STALLED_S - elapsed_s
    if layer == "ending":
        return 4.0 if elapsed_s > 1.5 else 0.01
    return {
        "constant": 0.02,
        "lower": LOWER_S,
        "upper": LOWER_S + ADDED_S,
        "drifting": 0.01 * 1.4**place,
        "afterwards": 0.01 * 1.4**ROUNDS,
        "calm": 0.2,
        "restless": 0.04 if place % 2 else 0.12,
    }.get(layer, 0.01)


# ---------------------------------------------------------------- what is measured

IN_TURNS = {"io_bytes": 240 << 10, "queue_depth": 4}
FIGURES = {
    "constant": {"runtime_s": 2, "queue_depth": 4},
    "mixture": {"runtime_s": 2, "queue_depth": 8, "read_percent": 50},
    "exponential": {"runtime_s": 2, "queue_depth": 8, "workers": 2},
}
STANDING = {"stalling": {"runtime_s": 7, "queue_depth": 4}, "ending": {"runtime_s": 2, "queue_depth": 2}}
STEADY = {"metric": "latency_p50_ns", "window": 3, "round_s": 1, "budget_s": 8}


def layer_of(name: str, folder: Path) -> dict:
    path = folder / f"{name}.stand-in"
    with open(path, "wb") as handle:
        handle.truncate(SIZE)
    parent = "lower" if name == "upper" else None
    return {
        "name": name,
        "kind": "target" if parent else "backing",
        "host": "here",
        "path": str(path),
        "parent": parent,
        "purpose": "scratch",
        "size_bytes": SIZE,
        "identity": {},
        "detail": {},
    }


def plan_of(run_id: str, folder: Path, asked: list, **more) -> dict:
    """asked: [(layer, workload, repetition)] in the order in which they are measured."""
    layers = [layer_of(name, folder) for name in dict.fromkeys(name for name, _workload, _number in asked)]
    points = [run_plan.point(name, normalise({"ramp_s": 0, **given}), repetition) for name, given, repetition in asked]
    return run_plan.plan(layers, points, run_id=run_id, grace_s=60, **more)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """({run: the stored run as the report reads it}, {export: what the device recorded})"""
    folder = tmp_path_factory.mktemp("truth")
    in_turns = [(name, IN_TURNS, number) for number in range(1, ROUNDS + 1) for name in ("lower", "upper")]
    blocks = [(name, IN_TURNS, number) for name in ("drifting", "afterwards") for number in range(1, ROUNDS + 1)]
    plans = [
        plan_of("figures", folder, [(name, workload, 1) for name, workload in FIGURES.items()] + in_turns),
        plan_of("standing", folder, [(name, workload, 1) for name, workload in STANDING.items()]),
        plan_of("steady", folder, [(name, {"runtime_s": 1, "queue_depth": 4}, 1) for name in ("calm", "restless")])
        | {"steady_state": STEADY},
        plan_of("blocks", folder, blocks),
    ]
    with pytest.MonkeyPatch.context() as patch, scripted(folder, SIZE, delay_s) as device:
        made = fio.job_file
        patch.setattr(
            fio,
            "job_file",
            lambda point, log_ms=None, clock=None: reached(made(point, log_ms, clock), device.uri(point["point_id"])),
        )
        patch.setattr(
            supervisor.device_safety,
            "guard",
            lambda layer, *_given: (device_safety.usage(layer["path"], with_openers=False), []),
        )
        patch.setattr(memory, "COPY_S", 0.01)
        # Each below a base of its own: the runner refuses a second run on the same host, which would measure the first one.
        bases = {plan["run_id"]: str(folder / "hosts" / plan["run_id"]) for plan in plans}
        try:
            for plan in plans:
                runner.start(plan, bases[plan["run_id"]])
            for run_id, base in bases.items():
                until(lambda run_id=run_id, base=base: not runner.status("t", run_id, base)["alive"], seconds=900)
                assert runner.status("t", run_id, base)["state"]["status"] == "finished"
            runs = {}
            for plan in plans:
                run_id = plan["run_id"]
                answer = runner.collect("t", run_id, base=bases[run_id])
                assert "next_offset" not in answer
                run_dir = folder / "results" / "t" / run_id
                run_dir.mkdir(parents=True)
                asked = {"engine": "fio", "testbed_id": "t", "run_id": run_id}
                points = {point["point_id"]: point for point in plan["points"]}
                layers = {layer["name"]: layer for layer in plan["layers"]}
                files, prepared, host, _beat = archive.unpack(base64.b64decode(answer["content"]), set(points))
                run_folder.add_layers(str(run_dir), layers)
                run_folder.write_host(str(run_dir), "here", host)
                keep.keep(str(run_dir), asked, [points[name] for name in files], layers, files, prepared)
                runs[run_id] = load.read_run(str(run_dir))
        finally:
            for base in bases.values():
                runner.stop("t", remove=True, base=base, discard=True)
        yield runs, device.runs()


def point(measured, run_id: str, layer: str, repetition: int = 1):
    """(the stored result, what the device recorded of it)"""
    runs, recorded = measured
    (result,) = [one for one in runs[run_id].results if (one["layer"], one["repetition"]) == (layer, repetition)]
    return result, recorded.get(result["point_id"])


def ranked(values: list, percent: float) -> float:
    """The least of these (in order) within which that share of them is."""
    return values[max(0, math.ceil(percent / 100 * len(values) - 1e-9) - 1)]


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize("layer", FIGURES)
def test_figures_are_those_of_the_device(measured, layer):
    result, run = point(measured, "figures", layer)
    workload = result["workload"]
    least, most = run.least_ns(), run.most_ns(workload["queue_depth"])
    total = result["total"]
    assert result["status"] == "measured"
    assert total["ios"] == len(least)
    assert total["bytes"] == sum(one["length"] for one in run.requests())
    assert statistics.fmean(least) <= total["latency_mean_ns"] <= statistics.fmean(most)
    for name, percent in PERCENTILES.items():
        assert ranked(least, percent) * (1 - BIN) <= total[name] <= ranked(most, percent) * (1 + BIN), name
    shortest_s, longest_s = run.lasted_s()
    assert total["ios"] / (longest_s + CLOCK_S) <= total["iops"] <= total["ios"] / (shortest_s - CLOCK_S)


@pytest.mark.parametrize("layer", FIGURES)
def test_littles_law_holds_as_in_the_device(measured, layer):
    """IOPS x mean latency is how many were under way: never more than asked for, and at least what the device had."""
    result, run = point(measured, "figures", layer)
    asked = result["workload"]["queue_depth"] * result["workload"]["workers"]
    under_way = result["total"]["iops"] * result["total"]["latency_mean_ns"] / 1e9
    assert sum(run.least_ns()) / 1e9 / (run.lasted_s()[1] + CLOCK_S) <= under_way <= asked * 1.005
    assert max(one["in_flight"] for one in run.requests()) == result["workload"]["queue_depth"]


def test_figures_are_at_least_those_of_the_law(measured):
    """Against the formulas: a device never answers early, so each figure is at least the law's, up to how far its table is from the law."""
    result, _run = point(measured, "figures", "constant")
    assert all(result["total"][name] >= 0.02e9 * (1 - BIN) for name in (*PERCENTILES, "latency_mean_ns"))
    assert result["total"]["iops"] <= 4 / 0.02 * 1.02

    result, run = point(measured, "figures", "mixture")
    drawn = sorted(MIXTURE[: len(run.requests())])
    assert drawn.count(SLOW_S) / len(drawn) == pytest.approx(
        SLOW_SHARE, abs=4 * math.sqrt(SLOW_SHARE * (1 - SLOW_SHARE) / len(drawn))
    )
    assert result["total"]["latency_mean_ns"] >= statistics.fmean(drawn) * 1e9
    # The slow tenth is in the tail and nowhere else.
    assert result["total"]["latency_p99_ns"] >= SLOW_S * 1e9 * (1 - BIN)
    assert result["total"]["latency_p50_ns"] >= FAST_S * 1e9 * (1 - BIN)

    result, run = point(measured, "figures", "exponential")
    drawn = EXPONENTIAL[: len(run.requests())]
    assert len(drawn) >= 20
    for name, percent in PERCENTILES.items():
        if len(drawn) * (1 - percent / 100) >= 10:
            analytic_ns = -EXPONENTIAL_S * math.log(1 - percent / 100) * 1e9
            # Four standard deviations of a percentile of so many draws from the law.
            slack_ns = 4 * EXPONENTIAL_S * 1e9 * math.sqrt(percent / (100 - percent) / len(drawn))
            assert result["total"][name] >= analytic_ns - slack_ns - BIN * analytic_ns, name


def test_the_bounds_tell_one_law_from_another(measured):
    """What makes the tests above tests: the figures of one device are outside the bounds of another, ten times as fast."""
    fast_result, fast = point(measured, "figures", "mixture")
    slow_result, slow = point(measured, "figures", "upper")
    assert fast_result["total"]["latency_p50_ns"] < ranked(slow.least_ns(), 50) * (1 - BIN)
    assert slow_result["total"]["latency_p50_ns"] > ranked(fast.most_ns(8), 50) * (1 + BIN)


# ---------------------------------------------------------------- layers and time


def means(measured, layer: str) -> tuple:
    """(least, most) mean latency of a layer over all rounds, by the device."""
    of_rounds = [point(measured, "figures", layer, number)[1] for number in range(1, ROUNDS + 1)]
    return tuple(
        statistics.fmean(statistics.fmean(values) for values in bound)
        for bound in ([run.least_ns() for run in of_rounds], [run.most_ns(4) for run in of_rounds])
    )


def test_the_cost_of_a_layer_is_the_known_delay(measured):
    report = model.build(measured[0]["figures"])
    (step,) = [step for waterfall in report.waterfalls for step in waterfall.steps if step.cell.layer == "upper"]
    assert (step.relation, step.comparable, step.below.layer) == ("parent", True, "lower")
    lower, upper = means(measured, "lower"), means(measured, "upper")
    least, most = upper[0] - lower[1], upper[1] - lower[0]
    assert least <= step.added_mean_ns <= most
    low, high = step.added_between_ns
    # What the device really added lies within, but for what the machine added to either side.
    assert low - (upper[1] - upper[0]) <= upper[0] - lower[0] <= high + (lower[1] - lower[0])
    assert upper[0] - lower[0] >= 0.5 * ADDED_S * 1e9


def compared(measured, run_id: str, baseline: str, candidate: str) -> dict:
    results = measured[0][run_id].results
    sides = [[one for one in results if one["layer"] == layer] for layer in (baseline, candidate)]
    return comparison.compare(*sides, metrics=["latency_p50_ns"], compared=("layer",))


def test_layers_that_took_turns_differ_by_the_known_delay(measured):
    found = compared(measured, "figures", "lower", "upper")
    (row,) = found["rows"]
    assert (found["design"], row["verdict"]) == ("interleaved", "worse")
    ratios = []
    for number in range(1, ROUNDS + 1):
        lower, upper = (point(measured, "figures", layer, number)[1] for layer in ("lower", "upper"))
        ratios.append(
            (
                ranked(upper.least_ns(), 50) / ranked(lower.most_ns(4), 50),
                ranked(upper.most_ns(4), 50) / ranked(lower.least_ns(), 50),
            )
        )
    least, most = (100 * (statistics.geometric_mean(bound) - 1) for bound in zip(*ratios))
    assert least - 100 * 2 * BIN * (1 + least / 100) <= row["change_percent"] <= most + 100 * 2 * BIN * (1 + most / 100)


def test_what_drifted_is_no_verdict(measured):
    """The device grew slower while one side was measured, and stayed so: the sides differ, and nothing was changed."""
    found = compared(measured, "blocks", "drifting", "afterwards")
    (row,) = found["rows"]
    assert (found["design"], row["verdict"]) == ("blocks", "cannot_tell")
    assert (row["drift"]["side"], row["drift"]["kind"]) == ("baseline", "trend")
    assert row["drift"]["change_percent"] > 50


# ---------------------------------------------------------------- steady state, standstill


def test_what_does_not_change_is_steady_and_what_does_is_not(measured):
    calm, restless = (point(measured, "steady", layer)[0] for layer in ("calm", "restless"))
    assert (calm["status"], calm["steady_state"]["steady"]) == ("measured", True)
    assert "not_steady" not in calm["flags"]
    assert (restless["status"], restless["steady_state"]["steady"]) == ("measured", False)
    assert "not_steady" in restless["flags"]
    for result in (calm, restless):
        rounds = result["steady_state"]["rounds"]
        assert len(rounds) == 8 if result is restless else 3 <= len(rounds) <= 8
        for number, value in enumerate(rounds, 1):
            run = measured[1][f"{result['point_id']}.round{number}"]
            least, most = run.least_ns(), run.most_ns(4)
            assert ranked(least, 50) * (1 - BIN) <= value <= ranked(most, 50) * (1 + BIN)


def test_a_device_that_stood_still_is_measured_with_its_pause(measured):
    result, run = point(measured, "standing", "stalling")
    # A machine that is busy may itself have stood still as long.
    assert "stalled" in [*result["flags"], *(failure["code"] for failure in result["failures"])]
    (check,) = [check for check in result["checks"] if check["name"] == "standstill"]
    answers = sorted(one["answered_ns"] for one in run.requests())
    longest_s = max(later - one for one, later in zip(answers, answers[1:])) / 1e9
    assert longest_s >= STALLED_S - 0.05
    # Told by windows of a two-hundredth of the run time.
    assert check["longest_s"] >= longest_s - 3 * 7 / 200
    assert result["stall"]["longest_s"] >= longest_s - 3 * 7 / 200
    assert result["stall"]["total_s"] >= result["stall"]["longest_s"]


def test_a_device_that_kept_the_last_answers_makes_a_run_too_long(measured):
    result, run = point(measured, "standing", "ending")
    assert "too_long" in [*result["flags"], *(failure["code"] for failure in result["failures"])]
    shortest_s, longest_s = run.lasted_s()
    assert 4 < shortest_s - CLOCK_S <= result["runtime_s"] <= longest_s + CLOCK_S


def test_a_device_that_answers_did_not_stand_still(measured):
    for layer in FIGURES:
        result, _run = point(measured, "figures", layer)
        assert [check["ok"] for check in result["checks"] if check["name"] == "standstill"] == [True]
