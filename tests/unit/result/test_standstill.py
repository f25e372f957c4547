# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Standstills are found from a tenth of the run time on, and what is only slow is none.

The devices here are simulated: when each I/O is completed is drawn from a distribution, and the log is written by the rule of fio's helper thread (a line
at the end of each window in which something was completed; who is stopped writes the line when it goes on). Nothing of the code under test is used for that.
"""

from __future__ import annotations

import heapq
import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.result import result, standstill
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise

# Seconds that one I/O takes: of memory and flash that are shared, a disk, a busy array and of links that are barely there.
LAWS = {
    "memory": lambda draw: draw.expovariate(1 / 0.004),
    "flash": lambda draw: draw.lognormvariate(-5.5, 0.8),
    "flash that collects garbage": lambda draw: 0.08 if draw.random() < 0.01 else draw.lognormvariate(-5.5, 0.4),
    "disk": lambda draw: draw.uniform(0.004, 0.016),
    "busy array": lambda draw: draw.paretovariate(2.5) * 0.006,
    "tape": lambda draw: draw.expovariate(1 / 0.3),
    "tape with a tail": lambda draw: draw.lognormvariate(-1.2, 1.0),
    "slower than one a second": lambda draw: draw.expovariate(1 / 1.7),
    "slower than one in three seconds": lambda draw: draw.uniform(2.0, 5.0),
}
BUSY = ("memory", "flash", "flash that collects garbage", "disk", "busy array")
RUNTIMES_S = (6, 10, 30, 60)


def completions(draw, law, runtime_s, depth, held=None):
    """When each I/O of a closed loop is completed. held: (begin, end) in which the device completes nothing."""
    # Many quick I/Os say the same as fewer: simulate at most some thousands.
    waiting, found = [LAWS[law](draw) for _each in range(depth)], []
    heapq.heapify(waiting)
    while True:
        moment = heapq.heappop(waiting)
        if held and held[0] <= moment < held[1]:
            moment = held[1]
        if moment > runtime_s:
            return found
        found.append(moment)
        heapq.heappush(waiting, moment + LAWS[law](draw))


def asked_for(draw, rate, runtime_s, poisson):
    """When the I/Os of an open loop are completed, on a device that answers at once."""
    moment, found = 0.0, []
    while True:
        moment += draw.expovariate(rate) if poisson else 1 / rate
        if moment > runtime_s:
            return found
        found.append(moment)


def logged(moments, runtime_s, measured_s, stopped=None):
    """The lines of fio's log of these completions. stopped: (begin, end) in which the engine did not run, its log neither."""
    window_s, now, lines, index = standstill.window_ms(runtime_s) / 1000, 0.0, [], 0
    end_s = max([measured_s, *moments[-1:]])
    while now < end_s:
        now += window_s
        if stopped and stopped[0] <= now < stopped[1]:
            now = stopped[1]
        before = index
        while index < len(moments) and moments[index] <= now:
            index += 1
        if index > before:
            lines.append(f"{now * 1000:.0f}, 1, 0, 0, 0")
    return "\n".join(lines)


def judged(moments, runtime_s, depth=1, measured_s=None, stopped=None, **more):
    """The check of these completions in a run that was asked to take runtime_s and took measured_s."""
    measured_s = measured_s or runtime_s
    windows = standstill.seen(
        fio.log_moments_ms(logged(moments, runtime_s, measured_s, stopped)), standstill.window_ms(runtime_s)
    )
    return standstill.of_windows(windows, measured_s, len(moments) / depth, **more)


def test_less_than_one_of_two_hundred_clean_points_is_called_a_standstill():
    draw, called = random.Random(20261122), []  # noqa: S311, nothing secret
    for number in range(1000):
        runtime_s, law = draw.choice(RUNTIMES_S), draw.choice(list(LAWS))
        depth = draw.choice([1, 1, 2, 8])
        if number % 4 == 3:
            rate = draw.choice([0.2, 0.5, 0.9, 3, 20, 150])
            law, moments = f"{rate} a second", asked_for(draw, rate, runtime_s, poisson=number % 8 == 3)
        else:
            moments = completions(draw, law, runtime_s, depth)
        check = judged(moments, runtime_s, depth)
        if check is not None and not check["ok"]:
            called.append((law, runtime_s, check))
    assert len(called) < 5, called


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("what", ["device", "engine"])
def test_every_standstill_of_a_tenth_of_the_run_time_or_more_is_found(share, what):
    draw, missed = random.Random(f"{share}{what}"), []  # noqa: S311
    for _each in range(60):
        runtime_s, law, depth = draw.choice(RUNTIMES_S), draw.choice(BUSY), draw.choice([1, 2, 8])
        long_s = share * runtime_s
        begin = draw.uniform(0, runtime_s - min(long_s, 0.9 * runtime_s))
        held = (begin, begin + long_s)
        # fio waits for what is on its way: then its run is longer.
        measured_s = max(runtime_s, held[1])
        if what == "device":
            check = judged(completions(draw, law, measured_s, depth, held), runtime_s, depth, measured_s)
        else:
            moments = [
                moment if moment < begin else max(held[1], moment)
                for moment in completions(draw, law, runtime_s, depth)
            ]
            check = judged(moments, runtime_s, depth, measured_s, stopped=held)
        too_long = measured_s > max(1.05 * runtime_s, runtime_s + 1)
        if check["ok"] and not too_long:
            missed.append((law, runtime_s, depth, held, check))
    assert not missed


def test_a_standstill_at_either_edge_is_one():
    moments = [second / 100 for second in range(100, 900)]
    begins_late, ends_early = moments, [moment - 0.95 for moment in moments]
    for late in (begins_late, ends_early):
        check = judged(late, 10)
        assert not check["ok"]
        assert check["longest_s"] == pytest.approx(2, abs=0.15)
    assert judged([second / 100 for second in range(1, 1000)], 10)["ok"]


def test_a_pause_that_the_workload_makes_is_none():
    # Bursts of a second every three seconds, in a run of ten
    moments = [burst + step / 100 for burst in (0, 3, 6, 9) for step in range(100)]
    assert not judged(moments, 10)["ok"]
    assert judged(moments, 10, pause_s=2.0)["ok"]


def test_short_of_half_a_second_a_machine_may_be_busy_with_something_else():
    moments = [step / 100 for step in range(600) if not 130 <= step < 165]
    assert judged(moments, 6)["ok"]
    moments = [step / 100 for step in range(600) if not 130 <= step < 195]
    assert not judged(moments, 6)["ok"]


def test_a_log_that_is_empty_or_too_coarse_is_no_evidence():
    assert standstill.seen([], 20) is None
    assert standstill.of_windows(None, 10, 99) is None
    assert standstill.of_windows(standstill.seen([5, 900], 1000), 10, 99) is None
    assert fio.log_moments_ms("19, 2052, 0, 0, 0\n39, 2000, 1, 0, 0\nwritten\n5") == [19, 39]


# ---------------------------------------------------------------- by the longest I/O, where an engine leaves no windows


def total(ios, longest_ns, late=None):
    bins = {} if late is None else {"histogram": {"bins": {"1000": ios - late, str(longest_ns): late}}}
    return {"ios": ios, "latency_max_ns": longest_ns, **bins}


@pytest.mark.parametrize(
    ("figures", "in_flight", "ok"),
    [
        (total(50000, 700_000_000), 1, False),
        (total(50000, 500_000_000), 1, True),  # less than a tenth of six seconds
        (total(50000, 700_000_000), 16, False),
        (total(50000, 700_000_000, late=16), 16, False),
        (total(50000, 700_000_000, late=1), 16, True),  # one of sixteen was lost, the others went on
        (total(9, 700_000_000), 1, True),  # nine in six seconds: each may take that long
        (total(144, 700_000_000), 16, True),
    ],
)
def test_the_longest_io_tells_it_too(figures, in_flight, ok):
    assert standstill.of_latency(figures, 6, in_flight)["ok"] is ok


def test_without_latency_nothing_tells():
    assert standstill.of_latency({}, 6, 1) is None
    assert standstill.of_latency({"ios": 7}, 6, 1) is None


# ---------------------------------------------------------------- in the ramp, just before the measured time


def counted(draw, law, runtime_s, depth, held=None):
    """What an engine counts of a closed loop that began before: all that is completed in the measured time, with the whole of its latency."""
    ramp_s = 0.1 * runtime_s - (held[0] if held else 0)
    waiting = [(-ramp_s + LAWS[law](draw), -ramp_s) for _each in range(depth)]
    heapq.heapify(waiting)
    latencies, moments = [], []
    while True:
        moment, begun = heapq.heappop(waiting)
        if held and held[0] <= moment < held[1]:
            moment = held[1]
        if moment > runtime_s:
            break
        if moment >= 0:
            latencies.append(moment - begun)
            moments.append(moment)
        heapq.heappush(waiting, (moment + LAWS[law](draw), moment))
    longest = max(latencies, default=0)
    # fio's last bin begins at 17.1 s, whatever is in it.
    late = sum(one >= min(longest / 2, 17.1) for one in latencies)
    bins = {"1000": len(latencies) - late, str(int(min(longest, 17.1) * 1e9)): late}
    return moments, {
        "ios": len(latencies),
        "latency_mean_ns": sum(latencies) / max(len(latencies), 1) * 1e9,
        "latency_max_ns": longest * 1e9,
        "histogram": {"bins": bins},
    }


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 4.0])
def test_a_standstill_just_before_the_measured_time_is_found(share):
    draw, missed = random.Random(f"{share}before"), []  # noqa: S311
    for _each in range(60):
        runtime_s, law, depth = draw.choice(RUNTIMES_S[:-1]), draw.choice(BUSY), draw.choice([1, 2, 8])
        moments, figures = counted(draw, law, runtime_s, depth, (-share * runtime_s, 0.0))
        found = standstill.before(figures, runtime_s, depth)
        if not found or found["ok"]:
            missed.append((law, runtime_s, depth, figures["latency_max_ns"], len(moments)))
    assert not missed


def test_less_than_one_of_two_hundred_clean_points_is_called_one():
    draw, called = random.Random(20261124), []  # noqa: S311
    for _each in range(1000):
        runtime_s, law, depth = draw.choice(RUNTIMES_S[:-1]), draw.choice(list(LAWS)), draw.choice([1, 1, 2, 8])
        _moments, figures = counted(draw, law, runtime_s, depth)
        if standstill.before(figures, runtime_s, depth):
            called.append((law, runtime_s, depth, figures["latency_max_ns"]))
    assert len(called) < 5, called


def test_a_ramp_that_stood_still_fails_the_point():
    """Measured: the machine of the target was stopped for 28 s while fio 3.33 was in its ramp; 464 I/Os at queue depth 4 in 6.006 s."""
    figures = {"ios": 464, "bytes": 464 << 12, "iops": 77.3, "bandwidth_bytes_s": 316450.0}
    waited = {"latency_mean_ns": 227_000_000, "latency_max_ns": 27_747_509_735}
    bins = {"histogram": {"bins": {"20054016": 461, "17112760320": 3}}}
    steady = windows_of([step / 77 for step in range(462)])
    found = point([steady], total={**figures, **waited, **bins}, runtime_s=6.006)
    assert (found["status"], "stalled" in found["flags"]) == ("measured", True)
    # One of four answers came late, the others did not.
    lost = {"histogram": {"bins": {"20054016": 463, "17112760320": 1}}}
    assert point([steady], total={**figures, **waited, **lost}, runtime_s=6.006)["status"] == "measured"


# ---------------------------------------------------------------- what becomes of the point


def point(windows, **changes):
    workload = {**normalise({"runtime_s": 6, "queue_depth": 4}), **changes.pop("workload", {})}
    identity = {
        "point_id": "p",
        "workload": workload,
        "engine": {"name": "fio"},
        "layer_kind": changes.pop("kind", "backing"),
    }
    figures = {"ios": 600, "bytes": 600 << 12, "iops": 100.0, "bandwidth_bytes_s": 409600.0}
    own = {
        "engine": {"name": "fio"},
        "read": figures,
        "total": figures,
        "runtime_s": 6.0,
        "errors": {"total": 0},
        "flags": [],
        **changes,
    }
    noted = changes.pop("noted", {})
    meta = {"exit_code": 0, "failures": [], "flags": [], "overridden": [], "windows": windows, **noted}
    return result.of_point(identity, meta, [own])


def windows_of(moments):
    return standstill.seen(fio.log_moments_ms(logged(moments, 6, 6)), standstill.window_ms(6))


STOOD = [step / 50 for step in range(300) if not 100 <= step < 140]


def test_a_pause_of_the_storage_is_data():
    found = point([windows_of(STOOD)])
    assert (found["status"], found["failures"], "stalled" in found["flags"]) == ("measured", [], True)
    assert found["stall"]["longest_s"] == found["stall"]["total_s"] == pytest.approx(0.8, abs=0.06)
    assert found["stall"]["running_percent"] == pytest.approx(100 - 100 * 0.8 / 6, abs=1)
    assert found["total"]["iops"] == 100.0


def test_several_pauses_add_up():
    moments = [step / 50 for step in range(300) if not (50 <= step < 76 or 100 <= step < 130)]
    stall = point([windows_of(moments)])["stall"]
    assert stall["longest_s"] == pytest.approx(0.6, abs=0.06)
    assert stall["total_s"] == pytest.approx(1.12, abs=0.12)
    assert point([windows_of([step / 50 for step in range(300)])])["stall"] == {
        "total_s": 0.0,
        "longest_s": 0.0,
        "running_percent": 100.0,
    }
    assert "stall" not in point([None])


def test_an_engine_that_ended_late_is_kept_without_evidence():
    late = {"runtime_s": 9.0}
    found = point([None], **late)
    assert (found["status"], found["failures"], "too_long" in found["flags"]) == ("measured", [], True)
    found = point([None], **late, noted={"late_s": 2.5})
    assert [failure["code"] for failure in found["failures"]] == ["too_long"]
    assert point([None], **late, noted={"late_s": 0.2})["status"] == "measured"


@pytest.mark.parametrize(
    "evidence",
    [
        {"noted": {"late_s": 0.6}},
        {"noted": {"stopped_s": 0.6}},
        {"noted": {"flags": ["clock_stepped"]}},
        {"kind": "ceiling"},
        {"noted": {"counters": {"interval_s": 6.0, "cpu": {"host_busy_s": 1.0, "host_steal_percent": 9.0}}}},
    ],
)
def test_a_point_whose_host_stood_still_is_not_measured(evidence):
    found = point([windows_of(STOOD)], **evidence)
    assert found["status"] == "failed" and "stalled" not in found["flags"]
    assert [failure["code"] for failure in found["failures"]] == ["stalled"]
    assert "0.8" in found["failures"][0]["message"]
    (check,) = [check for check in found["checks"] if check["name"] == "standstill"]
    assert (check["ok"], check["limit_s"]) == (False, 0.6)


def test_a_point_that_did_not_is():
    found = point([windows_of([step / 50 for step in range(300)])])
    assert found["status"] == "measured"
    assert found["checks"][0]["ok"]


def test_of_many_hosts_each_is_looked_at():
    figures = {"ios": 6000, "bytes": 6000 << 12, "iops": 1.0, "bandwidth_bytes_s": 1.0, "latency_max_ns": 30_000_000}
    stood = {**figures, "latency_max_ns": 900_000_000}
    clients = [{"host": name, "runtime_s": 6.0, "total": one} for name, one in (("a", figures), ("b", stood))]
    assert "stalled" not in point([None], clients=clients[:1])["flags"]
    assert "stalled" in point([None], clients=clients)["flags"]


@pytest.mark.parametrize("noted", [{"late_s": 0.9}, {"flags": ["clock_stepped"]}, {"stopped_s": 0.9}])
def test_the_host_that_coordinates_others_is_no_evidence_of_their_pause(noted):
    stood = {"ios": 6000, "bytes": 6000 << 12, "iops": 1.0, "bandwidth_bytes_s": 1.0, "latency_max_ns": 900_000_000}
    made = point([None], clients=[{"host": "b", "runtime_s": 6.0, "total": stood}], noted=noted)
    assert (made["status"], made["failures"], "stalled" in made["flags"]) == ("measured", [], True)


def figures(longest_s: float, late: int = 1, bins: bool = True) -> dict:
    """Of 6 000 I/Os, so many that took the longest time."""
    counts = {"1000000": 6000 - late, str(round(longest_s * 1e9)): late}
    known = {"ios": 6000, "bytes": 6000 << 12, "iops": 1.0, "bandwidth_bytes_s": 1.0}
    return {
        **known,
        "latency_max_ns": round(longest_s * 1e9),
        **({"histogram": {"bins": counts}} if bins else {}),
    }


@pytest.mark.parametrize(
    ("total", "in_flight", "longest_s"),
    [
        (figures(0.9), 1, 0.9),
        (figures(0.9, bins=False), 1, 0.9),
        (figures(0.9, late=4), 4, 0.9),
        # One answer that was lost, while the others came.
        (figures(0.9), 4, 0.0),
        (figures(0.03), 1, 0.0),
        (figures(9.0), 1, 6.0),
        # No one knows whether the others were late, too.
        (figures(0.9, bins=False), 4, None),
        ({}, 1, None),
    ],
)
def test_the_longest_pause_of_an_engine_that_leaves_no_log(total, in_flight, longest_s):
    assert standstill.longest(total, 6.0, in_flight) == longest_s


def test_the_longest_pause_is_of_all_hosts_and_absent_where_one_does_not_tell():
    def stall_of(*totals):
        hosts = [{"host": f"h{place}", "runtime_s": 6.0, "total": total} for place, total in enumerate(totals)]
        return point([None], clients=hosts).get("stall")

    assert stall_of(figures(0.03), figures(0.7, late=4)) == {"longest_s": 0.7}
    assert stall_of(figures(0.03), figures(0.02)) == {"longest_s": 0.0}
    assert stall_of(figures(0.7, late=4), {}) is None


def test_a_pause_in_a_trial_fails_nothing_but_is_told():
    trial, whole, longer = (
        standstill.check(longest_s, runtime_s, 300, 0.04) for longest_s, runtime_s in ((0.9, 3), (2.98, 3), (0.9, 6))
    )
    assert (trial["ok"], trial["longest_s"], trial["limit_s"]) == (True, 0.9, 3)
    assert (whole["ok"], longer["ok"], longer["limit_s"]) == (False, False, 0.6)


def test_a_stop_of_the_engine_explains_its_pause_and_no_longer_one():
    """The engine's process was stopped by a signal, and no device was asked; a pause of twice that time and more is the storage's."""
    found = point([windows_of(STOOD)], noted={"stopped_s": 0.75})
    assert "the engine's process on this host was stopped for 0.75 s" in found["failures"][0]["message"]
    late = point([None], runtime_s=9.0, noted={"stopped_s": 2.9})
    assert [failure["code"] for failure in late["failures"]] == ["too_long"]


def test_a_stop_too_short_to_be_seen_in_the_io_fails_the_point_too():
    steady = windows_of([step / 50 for step in range(300)])
    found = point([steady], noted={"stopped_s": 0.27})
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == ("failed", ["engine_stopped"])
    assert "for 0.27 s" in found["failures"][0]["message"]
    assert point([steady], noted={"stopped_s": 0.0}) == point([steady])


def test_a_coordinator_that_was_stopped_held_up_no_host():
    """fio as the client of several servers: they go on while it does not run."""
    host = {"host": "one", "runtime_s": 6.0, "total": {"ios": 600, "iops": 100.0}, "read": {"ios": 600}}
    found = point([None], clients=[host, {**host, "host": "two"}], noted={"stopped_s": 2.0})
    assert "engine_stopped" not in [failure["code"] for failure in found["failures"]]
