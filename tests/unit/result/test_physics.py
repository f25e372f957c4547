# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that cannot be true are told from those that can, and never become a measured point."""

from __future__ import annotations

import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.result import physics, result
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise

BLOCK = 4096


def closed_loop(in_flight: int, runtime_s: float, seed: int) -> dict:
    """The figures of a device that is simulated: each place takes its next I/O when the last one has ended; what ends in the measured time counts whole."""
    noise, latencies = random.Random(seed), []  # noqa: S311 noise, no secret
    for _place in range(in_flight):
        moment = -noise.random()  # the ramp
        while moment < runtime_s:
            lasted = noise.choice((0.003, 0.03, 0.3)) * noise.random()
            moment += lasted
            if 0 <= moment <= runtime_s:
                latencies.append(round(lasted * 1e9))
    return figures(latencies)


def figures(latencies: list[int], size: int = BLOCK) -> dict:
    return {
        "ios": len(latencies),
        "bytes": len(latencies) * size,
        "latency_mean_ns": sum(latencies) / len(latencies),
        "latency_max_ns": max(latencies),
    }


def by_name(total: dict, runtime_s: float = 2.0, in_flight: int = 4, bounds: tuple = (BLOCK, BLOCK)) -> dict:
    return {check["name"]: check for check in physics.checks(total, runtime_s, in_flight, bounds)}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("in_flight", "runtime_s"), [(1, 0.5), (3, 1.0), (16, 2.0)])
def test_a_closed_loop_never_breaks_them(in_flight, runtime_s, seed):
    checks = by_name(closed_loop(in_flight, runtime_s, seed), runtime_s, in_flight)
    assert set(checks) == {"littles_law", "block_size"}
    assert all(check["ok"] for check in checks.values()), checks


@pytest.mark.parametrize("seed", range(20))
def test_latencies_of_half_the_depth_that_is_claimed_twice_are_found(seed):
    """An engine that counts each I/O twice has twice as many in flight as there are places."""
    total = closed_loop(16, 4.0, seed)
    twice = {**total, "ios": 2 * total["ios"], "bytes": 2 * total["bytes"]}
    check = by_name(twice, 4.0, 16)["littles_law"]
    assert not check["ok"]
    assert check["in_flight"] == pytest.approx(twice["ios"] * twice["latency_mean_ns"] / 4e9, rel=1e-3)


def test_one_answer_that_began_long_before_is_no_contradiction():
    assert by_name(figures([3_000_000_000]), 1.0, 1)["littles_law"]["ok"], "it began in the ramp"
    assert not by_name(figures([3_000_000_000] * 6), 1.0, 1)["littles_law"]["ok"]


def test_bytes_lie_between_the_smallest_and_the_largest_block():
    assert by_name(figures([1000] * 5000, 8192), bounds=(4096, 16384))["block_size"]["ok"]
    small, large = (by_name(figures([1000] * 5000, size), bounds=(4096, 8192))["block_size"] for size in (4000, 8292))
    assert (small["ok"], large["ok"]) == (False, False)
    assert (small["bytes_per_io"], large["most_bytes"]) == (4000, 8192)
    # Four are under way at either edge, and no more.
    for blocks, ok in ((4991, False), (4992, True), (5008, True), (5009, False)):
        assert by_name({**figures([1000] * 5000), "bytes": blocks * BLOCK})["block_size"]["ok"] is ok


def test_what_is_not_there_is_not_judged():
    assert by_name({}) == {} and by_name({"ios": 0, "bytes": 0}) == {}
    assert set(by_name({"ios": 7, "latency_mean_ns": 5.0, "latency_max_ns": 9})) == {"littles_law"}
    assert set(by_name({"ios": 7, "bytes": 7 * BLOCK})) == {"block_size"}


def point(totals: list[dict], **changes) -> dict:
    own = [
        {
            "engine": {"name": "fio"},
            "read": total,
            "total": total,
            "runtime_s": 2.0,
            "errors": {"total": 0},
            "flags": [],
            **changes,
        }
        for total in totals
    ]
    identity = {
        "point_id": "p",
        "workload": normalise({"runtime_s": 2, "queue_depth": 2, "workers": 2}),
        "engine": {"name": "fio"},
    }
    return result.of_point(identity, {"exit_code": 0, "failures": [], "flags": [], "overridden": []}, own)


def rated(total: dict) -> dict:
    return {**total, "iops": total["ios"] / 2, "bandwidth_bytes_s": total["bytes"] / 2}


def test_a_point_that_breaks_one_is_not_measured():
    sound = point([rated(figures([1_000_000] * 1000))])
    assert sound["status"] == "measured"
    assert {"littles_law", "block_size"} <= {check["name"] for check in sound["checks"] if check["ok"]}
    wrong = point([rated(figures([10_000_000] * 1000))])
    assert wrong["status"] == "failed"
    (failure,) = wrong["failures"]
    assert failure["code"] == "impossible_figures"
    assert failure["message"].startswith(
        "5 I/Os were in flight on average by count and latency, but never more than 4.02"
    )


def test_of_many_hosts_each_is_judged():
    good, bad = rated(figures([1_000_000] * 1000)), rated(figures([1_000_000] * 1000, 5000))
    clients = [{"host": name, "runtime_s": 2.0, "total": total} for name, total in (("a", bad), ("b", good))]
    assert point([good], clients=clients[1:])["status"] == "measured"
    wrong = point([good], clients=clients)
    assert [failure["code"] for failure in wrong["failures"]] == ["impossible_figures"]
    assert "5000 bytes on average, but the workload's have 4096 to 4096" in wrong["failures"][0]["message"]


def judged(read: int, write: int, percent: int, flags: tuple = (), **latency) -> list:
    """Names of the checks that fail of a run of 10 s at queue depth 64."""
    total = {"ios": read + write, "bytes": (read + write) * BLOCK, **latency}
    part = {"runtime_s": 10.0, "total": total, "read": {"ios": read}, "write": {"ios": write}, "flags": list(flags)}
    checks, wrong = physics.judged(normalise({"read_percent": percent, "queue_depth": 64}), [part])
    failing = [check["name"] for check in checks if not check["ok"] and check["name"] != "least_in_flight"]
    assert [failure["code"] for failure in wrong] == ["impossible_figures"] * len(failing)
    return failing


@pytest.mark.parametrize(
    ("read", "write", "percent", "fails"),
    [
        (9_999, 1, 100, True),
        (10_000, 0, 100, False),
        (1, 9_999, 0, True),
        (0, 9_999, 0, False),
        # How much of a mixture is read is drawn.
        (6_900, 3_100, 70, False),
        (9, 1, 70, False),
    ],
)
def test_a_workload_of_one_direction_does_nothing_of_the_other(read, write, percent, fails):
    assert judged(read, write, percent) == (["read_share"] if fails else [])


def test_a_mean_lies_between_the_least_and_the_greatest():
    limits = {"latency_min_ns": 2_000, "latency_max_ns": 90_000}
    assert judged(9_000, 0, 100, latency_mean_ns=30_000.0, **limits) == []
    assert judged(9_000, 0, 100, latency_mean_ns=1_500.0, **limits) == ["mean_in_range"]
    assert judged(9_000, 0, 100, latency_mean_ns=95_000.0, **limits) == ["mean_in_range"]


def test_a_mean_lies_where_the_bins_allow():
    bins = {"histogram": {"unit": "ns", "bins": {"20096": 6_000, "40192": 3_000}}}
    assert judged(9_000, 0, 100, latency_mean_ns=26_900.0, **bins) == []
    assert judged(9_000, 0, 100, latency_mean_ns=28_500.0, **bins) == ["bins_and_mean"]
    assert judged(9_000, 0, 100, latency_mean_ns=25_500.0, **bins) == ["bins_and_mean"]
    # Of completion alone: submission comes on top, and never below.
    alone = ("completion_percentiles",)
    assert judged(9_000, 0, 100, alone, latency_mean_ns=28_500.0, **bins) == []
    assert judged(9_000, 0, 100, alone, latency_mean_ns=25_500.0, **bins) == ["bins_and_mean"]


def test_the_last_bin_is_open():
    bins = {"histogram": {"unit": "ns", "bins": {"20096": 8_999, "17112760320": 1}}}
    assert judged(9_000, 0, 100, latency_mean_ns=3_000_000.0, latency_max_ns=26_000_000_000, **bins) == []
    assert judged(9_000, 0, 100, latency_mean_ns=1_000_000.0, latency_max_ns=26_000_000_000, **bins) == [
        "bins_and_mean"
    ]


@pytest.mark.parametrize(
    ("workload", "part", "marked"),
    [
        # 0.02 in flight where one always is.
        ({}, {}, True),
        ({"think_time_us": 9_000}, {}, False),
        ({"rate_iops": 100}, {}, False),
        ({}, {"engine": {"ioengine": "null"}}, False),
        ({}, {"sync": {"ios": 1_000}}, False),
        # No I/O was completed for nearly all of the time.
        ({}, {"stalled_s": 9.9}, False),
        # The engine's own work between two I/Os.
        ({}, {"total": {"ios": 900_000, "latency_mean_ns": 200.0}}, False),
    ],
)
def test_fewer_in_flight_than_there_must_be_are_marked(workload, part, marked):
    whole = {"runtime_s": 10.0, "total": {"ios": 1_000, "latency_mean_ns": 200_000.0}, **part}
    checks, wrong = physics.judged(normalise(workload), [whole])
    assert (physics.flags(checks), wrong) == (["rarely_in_flight"] if marked else [], [])
    assert [check["in_flight"] for check in checks if check["name"] == "least_in_flight"] == ([0.02] if marked else [])


# ---------------------------------------------------------------- the share of reads of a mixture


def mixture(reads: int, writes: int, percent: int = 70, **workload: object) -> list[str]:
    """The flags of a point with so many reads and writes, whose workload asks for this share; it never fails for them."""
    asked = normalise({"read_percent": percent, "queue_depth": 4, **workload})
    total = {"ios": reads + writes, "bytes": BLOCK * (reads + writes)}
    part = {"runtime_s": 2.0, "total": total, "read": {"ios": reads}, "write": {"ios": writes}}
    checks, wrong = physics.judged(asked, [part])
    assert wrong == []
    for check in checks:
        if check["name"] == "mixture":
            assert not check["ok"] and check["wanted_percent"] == percent
            assert check["read_percent"] == pytest.approx(100 * reads / (reads + writes), rel=1e-3)
    return physics.flags(checks)


@pytest.mark.parametrize("percent", [1, 10, 50, 70, 99])
def test_an_engine_that_draws_each_direction_is_never_another_mixture(percent):
    seed = f"mixtures {percent}"
    print(f"seed {seed}")
    noise = random.Random(seed)  # noqa: S311 noise, no secret
    for ios in (10, 300, 5000):
        for _run in range(40):
            reads = sum(noise.random() < percent / 100 for _io in range(ios))
            assert mixture(reads, ios - reads, percent) == []


@pytest.mark.parametrize(
    ("reads", "writes", "marked"),
    [
        # 100,000 I/Os of 70 %: a standard deviation is 145.
        (70_000, 30_000, False),
        (70_800, 29_200, False),
        (71_000, 29_000, True),
        (69_000, 31_000, True),
        (50_000, 50_000, True),
        (100_000, 0, True),
        # Few I/Os say little, and what was on its way at the edges counts for either side.
        (12, 8, False),
        (0, 8, False),
        (0, 0, False),
    ],
)
def test_another_mixture_is_marked(reads, writes, marked):
    assert mixture(reads, writes) == (["other_mixture"] if marked else [])


@pytest.mark.parametrize(
    "workload",
    [
        {"rate_iops": 1000},
        {"think_time_us": 5},
        {"engine_options": {"fio": {"latency_target": "5ms"}}},
    ],
)
def test_a_mixture_that_something_else_shifts_is_not_judged(workload):
    assert mixture(50_000, 50_000, **workload) == []


def test_one_direction_is_not_a_mixture():
    assert mixture(5_000, 0, 100) == mixture(0, 5_000, 0) == []
