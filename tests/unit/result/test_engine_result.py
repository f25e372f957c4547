# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result schema: merging, what counts as measured, and how small a fact is."""

from __future__ import annotations

import json
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.result import histogram, result
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import additions
from unchanged import refused

ENGINE = {"name": "fio", "version": "3.33", "ioengine": "libaio", "latency": "total"}


def part(values, seconds=2.0):
    """A direction whose I/O took exactly these nanoseconds."""
    bins = histogram.merge({str(value): 1} for value in values)
    latency = {
        "samples": len(values),
        "mean": statistics.fmean(values),
        "min": min(values),
        "max": max(values),
        "stddev": statistics.stdev(values),
    }
    return result.direction(
        len(values), 4096 * len(values), len(values) / seconds, 4096 * len(values) / seconds, latency, bins
    )


def test_percentiles_are_values_of_bins():
    bins = {"100": 50, "200": 45, "300": 5}
    assert histogram.percentiles(bins, [50.0, 50.1, 95.0, 95.1, 100.0]) == {
        50.0: 100,
        50.1: 200,
        95.0: 200,
        95.1: 300,
        100.0: 300,
    }


def test_keys_are_ordered_as_numbers():
    assert list(histogram.merge([{"1000": 1}, {"90": 2, "1000": 3}]).items()) == [("90", 2), ("1000", 4)]
    assert histogram.percentiles({"1000": 1, "90": 99}, [50.0]) == {50.0: 90}


def test_nothing_measured_has_no_percentile():
    assert histogram.percentiles({}, [50.0]) == {50.0: None}


def test_merged_is_what_one_measurement_of_all_would_have_been():
    one, other = [100, 130, 170, 900], [50, 60, 5000, 7000, 9000, 11000]
    merged, together = result.merge_directions([part(one), part(other)]), part(one + other)
    assert merged.keys() == together.keys()
    for key, value in together.items():
        if key == "histogram":
            assert merged[key] == value
        else:
            assert merged[key] == pytest.approx(value), key


def test_percentiles_are_not_averaged():
    quiet, busy = part([100] * 900), part([100000] * 100)
    assert result.merge_directions([quiet, busy])["latency_p50_ns"] == 100
    assert result.merge_directions([quiet, busy])["latency_p95_ns"] == 100000


def test_what_cannot_be_merged_is_absent():
    without = {key: value for key, value in part([5, 6]).items() if key != "histogram"}
    merged = result.merge_directions([part([5, 9]), without])
    assert "latency_p99_ns" not in merged
    assert merged["latency_mean_ns"] == pytest.approx(6.25)
    assert "iops" not in result.merge_directions([part([5, 9]), part([1, 2])], concurrent=False)


def test_rates_of_what_ran_one_after_another():
    # 4 I/Os in 2 s, 6 in 3 s, and 5 s in which there was none in this direction
    merged = result.merge_directions(
        [part([1, 2, 3, 4], 2.0), part([5, 6, 7, 8, 9, 10], 3.0)], concurrent=False, runtime_s=10.0
    )
    assert (merged["ios"], merged["iops"], merged["bandwidth_bytes_s"]) == (10, 1.0, 4096.0)
    assert merged["latency_mean_ns"] == pytest.approx(5.5)
    assert result.merge_directions([part([1, 2], 2.0)], concurrent=False, runtime_s=4.0)["iops"] == 0.5
    assert result.merge_directions([part([1, 2], 2.0)])["iops"] == 1.0


def of_point(meta=None, **changes):
    identity = {
        "point_id": "p",
        "layer": "l",
        "path": None,
        "workload": normalise({"read_percent": 70, "runtime_s": 10}),
        "engine": {"name": "fio", "randseed": 3},
    }
    own = {
        "engine": ENGINE,
        "read": part([1, 2]),
        "write": part([3, 4]),
        "total": part([1, 2, 3, 4]),
        "runtime_s": 10.001,
        "errors": {"total": 0},
        "cpu": {"user_percent": 7.5},
        "flags": ["buffered_io"],
        **changes,
    }
    own = {key: value for key, value in own.items() if value is not None}
    base = {"exit_code": 0, "failures": [], "flags": [], "overridden": []}
    return result.of_point(identity, {**base, **(meta or {})}, [own], output="fio: said so")


def test_measured():
    found = of_point()
    assert (found["status"], found["failures"], found["flags"]) == ("measured", [], ["buffered_io"])
    assert found["engine"] == {**ENGINE, "randseed": 3}
    assert found["cpu"] == {"user_percent": 7.5}
    assert "path" not in found


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (1, "fio ended with exit code 1."),
        (-9, "fio was ended by signal 9 (Killed)."),
        (-11, "fio was ended by signal 11 (Segmentation fault)."),
    ],
)
def test_how_the_engine_ended_is_said(exit_code, words):
    assert of_point({"exit_code": exit_code})["failures"][0]["message"] == words


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({"total": 1, "first": 5}, "1 I/O error, the first of number 5 (Input/output error)."),
        ({"total": 3}, "3 I/O errors."),
    ],
)
def test_io_errors_are_said_in_words(errors, words):
    assert of_point(errors=errors)["failures"][0]["message"] == words


@pytest.mark.parametrize(
    ("meta", "changes", "code"),
    [
        ({"exit_code": 1}, {}, "engine_exit"),
        ({"exit_code": -9}, {}, "engine_exit"),
        ({}, {"errors": {"total": 2, "first": 28}}, "io_errors"),
        ({}, {"write": None}, "no_io"),
        ({}, {"runtime_s": 9.4}, "too_short"),
        ({"late_s": 0.9}, {"runtime_s": 11.1}, "too_long"),
        ({"failures": [{"code": "device_mounted", "message": "x"}]}, {}, "device_mounted"),
    ],
)
def test_not_measured(meta, changes, code):
    found = of_point(meta, **changes)
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == ("failed", [code])
    assert found["failures"][0]["said"] == "fio: said so"


def test_nearly_the_whole_time_counts():
    assert of_point(runtime_s=9.6)["status"] == "measured"


def test_a_little_more_than_the_time_counts():
    assert of_point(runtime_s=11.0)["status"] == "measured"


@pytest.mark.parametrize(
    ("asked_s", "measured_s", "codes"), [(6, 7.0, []), (6, 46, ["too_long"]), (600, 629, []), (600, 631, ["too_long"])]
)
def test_a_stopped_engine_is_no_measurement(asked_s, measured_s, codes):
    """An engine that was stopped or waited for a lost link runs on when that is over: its rates are of the stall."""
    reasons = result.failures({"engine": ENGINE, "runtime_s": measured_s}, 0, (), asked_s)
    assert [failure["code"] for failure in reasons] == codes
    assert all(f"{measured_s:g} s" in failure["message"] for failure in reasons)


def test_overriding_is_recorded():
    found = of_point({"overridden": ["device_held"]})
    assert (found["overridden"], "guard_overridden" in found["flags"]) == (["device_held"], True)


def test_points_without_output():
    identity = {"point_id": "p", "workload": normalise({}), "engine": {"name": "fio"}}
    assert result.of_point(identity, None, [])["failures"][0]["code"] == "stopped"
    meta = {"exit_code": 1, "failures": [], "flags": [], "overridden": []}
    assert result.of_point(identity, meta, [])["failures"][0]["code"] == "no_result"


# ---------------------------------------------------------------- rounds


def a_round(reads, writes, runtime_s, **changes):
    found = {
        "engine": ENGINE,
        "runtime_s": runtime_s,
        "errors": {"total": 0},
        "cpu": {"user_percent": 10.0},
        "flags": [],
        "status": "measured",
        "failures": [],
    }
    for name, values in (("read", reads), ("write", writes)):
        if values:
            found[name] = part(values, runtime_s)
    found["total"] = part((reads or []) + (writes or []), runtime_s)
    return {**found, **changes}


def of_rounds(rounds, window, **told):
    identity = {
        "point_id": "p",
        "workload": normalise({"read_percent": 90, "runtime_s": 60}),
        "engine": {"name": "fio"},
    }
    steady = {"metric": "iops", "steady": True, "window": window, "rounds": [1.0] * len(rounds), "round_s": 2, **told}
    meta = {"exit_code": 0, "failures": [], "flags": [], "overridden": [], "steady_state": steady}
    return result.of_point(identity, meta, rounds)


def test_the_figures_are_of_the_window():
    rounds = [
        a_round([900, 901], [902, 903], 2.0),
        a_round([10, 20, 30], None, 2.0, cpu={"user_percent": 30.0}, flags=["buffered_io"]),
        a_round([40, 50], [60, 70], 2.5, errors={"total": 0}),
    ]
    found = of_rounds(rounds, 2)
    assert (found["status"], found["runtime_s"], found["flags"]) == ("measured", 4.5, ["buffered_io"])
    assert found["read"]["ios"] == 5
    assert found["read"]["iops"] == pytest.approx(5 / 4.5)
    # In one of two rounds nothing was written; the time counts all the same.
    assert found["write"]["iops"] == pytest.approx(2 / 4.5)
    assert found["total"]["latency_max_ns"] == 70
    assert found["cpu"]["user_percent"] == pytest.approx((30 * 2.0 + 10 * 2.5) / 4.5, abs=1e-3)


def test_not_steady_is_a_flag_and_keeps_the_figures():
    found = of_rounds([a_round([1, 2], [3, 4], 2.0)] * 2, 5, steady=False)
    assert (found["status"], found["flags"], found["read"]["ios"]) == ("measured", ["not_steady"], 4)


def test_errors_and_short_rounds_fail_the_point():
    wrong = [
        a_round([1, 2], [3, 4], 2.0),
        a_round([1, 2], [3, 4], 2.0, errors={"total": 3, "first": 5}),
        a_round([1, 2], [3, 4], 1.5),
    ]
    found = of_rounds(wrong, 3)
    assert [failure["code"] for failure in found["failures"]] == ["io_errors", "too_short"]
    assert found["errors"] == {"total": 3, "first": 5}
    disagreeing = a_round([1, 2], [3, 4], 2.0, failures=[{"code": "rates_disagree", "message": "x"}])
    assert [failure["code"] for failure in of_rounds([a_round([1, 2], [3, 4], 2.0), disagreeing], 2)["failures"]] == [
        "rates_disagree"
    ]


def test_a_workload_that_goes_on_has_its_errors_as_a_figure():
    meta = {"exit_code": 0, "failures": [], "flags": [], "overridden": []}
    failed = a_round([1, 2], None, 10.0, errors={"total": 3, "first": 67})
    identity = {"point_id": "p", "engine": {"name": "fio"}}
    goes_on = result.of_point({**identity, "workload": normalise({"on_error": "continue"})}, meta, [failed])
    assert (goes_on["status"], goes_on["flags"], goes_on["errors"]["total"]) == ("measured", ["io_errors"], 3)
    ends = result.of_point({**identity, "workload": normalise({})}, meta, [failed])
    assert (ends["status"], ends["flags"]) == ("failed", [])
    quiet = result.of_point(
        {**identity, "workload": normalise({"on_error": "continue"})}, meta, [a_round([1, 2], None, 10.0)]
    )
    assert (quiet["status"], quiet["flags"]) == ("measured", [])
    # fio ends by itself over what is no failure of storage.
    ended = result.of_point(
        {**identity, "workload": normalise({"on_error": "continue"})}, {**meta, "exit_code": 1}, [failed]
    )
    assert [failure["code"] for failure in ended["failures"]] == ["engine_exit"]


def test_a_round_without_result_is_no_window():
    identity = {"point_id": "p", "workload": normalise({}), "engine": {"name": "fio"}}
    meta = {
        "exit_code": -9,
        "failures": [],
        "flags": [],
        "overridden": [],
        "steady_state": {"steady": False, "window": 2, "rounds": [1.0, 2.0], "round_s": 2},
    }
    assert [
        failure["code"] for failure in result.of_point(identity, meta, [a_round([1, 2], None, 2.0)])["failures"]
    ] == ["no_result"]


def test_what_ends_after_an_amount_may_be_short():
    identity = {"point_id": "p", "workload": normalise({"io_bytes": "1m", "runtime_s": 60}), "engine": {"name": "fio"}}
    meta = {"exit_code": 0, "failures": [], "flags": [], "overridden": []}
    assert result.of_point(identity, meta, [a_round([1, 2], None, 0.5)])["status"] == "measured"


# ---------------------------------------------------------------- what the host counted


COUNTED = {
    "interval_s": 4.0,
    "cpu": {"host_busy_s": 2.0, "host_busy_percent": 25.0, "host_steal_percent": 0.9, "cores": 2, "mhz": 2000.0},
    "device": {"name": "sda", "read": {"ios": 4, "bytes": 16384}, "write": {"ios": 0, "bytes": 0}},
    "interrupts": 9,
    "context_switches": 11,
}


def test_counters_become_cpu_cost():
    found = of_point({"counters": COUNTED, "wall_s": 12.5})
    # 0.5 s a second for 2 I/Os per second, on a 2 GHz processor
    assert (found["cpu"]["us_per_io"], found["cpu"]["mhz_per_iops"]) == (250000.0, 500.0)
    assert found["cpu"]["user_percent"] == 7.5
    assert (found["counters"]["interrupts"], found["wall_s"]) == (9, 12.5)
    assert "cpu" not in found["counters"]
    assert "steal" not in found["flags"]


def test_steal_is_flagged():
    assert "steal" in of_point({"counters": {**COUNTED, "cpu": {**COUNTED["cpu"], "host_steal_percent": 1.1}}})["flags"]


def seen(read, write, least=1.0, ios_comparable=True):
    """What a device saw of so many bytes read and written, in I/Os of 4096 bytes, and the lower bound as a share of it."""
    most = {name: {"ios": size // 4096, "bytes": size} for name, size in (("read", read), ("write", write))}
    return {
        "most": most,
        "least": {name: {key: int(value * least) for key, value in figures.items()} for name, figures in most.items()},
        "ios_comparable": ios_comparable,
    }


def checked(told, ios=(100000, 50000)):
    measured = {
        "read": result.direction(ios[0], ios[0] * 4096, 10, 10),
        "write": result.direction(ios[1], ios[1] * 4096, 10, 10),
    }
    measured["total"] = result.merge_directions(list(measured.values()))
    found = of_point({"device_seen": told}, **measured)
    return found["checks"][0], found


@pytest.mark.parametrize(
    ("told", "ok"),
    [
        (seen(100000 * 4096, 50000 * 4096), True),
        # 2 % more, and what a look at the device reads: 128 requests
        (seen(102160 * 4096, 50000 * 4096), True),
        (seen(102180 * 4096, 50000 * 4096), False),
        (seen(100000 * 4096, 51010 * 4096), True),
        (seen(100000 * 4096, 51030 * 4096), False),
        (seen(98050 * 4096, 50000 * 4096), True),
        (seen(98030 * 4096, 50000 * 4096), False),
        # Between the bounds of a ramp everything is possible.
        (seen(110000 * 4096, 55000 * 4096, least=0.9), True),
        (seen(120000 * 4096, 60000 * 4096, least=0.9), False),
    ],
)
def test_the_device_s_counters(told, ok):
    check, found = checked(told)
    assert (check["ok"], "device_counters_differ" in found["flags"], found["status"]) == (ok, not ok, "measured")


def test_split_ios_are_not_compared():
    told = seen(100000 * 4096, 50000 * 4096, ios_comparable=False)
    for bound in ("least", "most"):
        told[bound]["read"]["ios"] = 400000
    check, _found = checked(told)
    assert check["ok"]
    assert "ios" not in check["read"]
    assert not checked({**told, "ios_comparable": True})[0]["ok"]


def test_less_than_half_is_a_failure():
    _check, found = checked(seen(50000 * 4096, 26000 * 4096))
    assert found["status"] == "measured" and "device_counters_differ" in found["flags"]
    _check, found = checked(seen(50000 * 4096, 24000 * 4096))
    assert [failure["code"] for failure in found["failures"]] == ["device_counters_differ"]
    assert "303104000" in found["failures"][0]["message"]


def test_a_slow_device_that_udev_looked_at():
    """A disk of 40 I/Os per second, read for 10 s just after it was written: the look takes more than 2 %."""
    told = seen(400 * 4096 + (1 << 20), 50 * 4096)
    told["least"]["read"]["ios"] = told["most"]["read"]["ios"] = 448
    assert checked(told, ios=(400, 50))[0]["ok"]
    told["least"]["write"]["bytes"] = told["most"]["write"]["bytes"] = 60 * 4096
    assert not checked(told, ios=(400, 50))[0]["ok"]


# ---------------------------------------------------------------- ceilings


def of_layer(name, kind, iops, bandwidth, workload_id="4k", status="measured"):
    return {
        "layer": name,
        "layer_kind": kind,
        "workload_id": workload_id,
        "status": status,
        "flags": ["buffered_io"],
        "total": {"iops": iops, "bandwidth_bytes_s": bandwidth},
    }


def judged(results, host):
    """The results with what is judged of them."""
    fresh = result.against_ceiling(results, host)
    return {
        name: additions.merged(one, [{"of": None, **fresh[name]}] if name in fresh else [])
        for name, one in results.items()
    }


def test_against_the_ceiling_and_the_memory():
    found = judged(
        {
            "c1": of_layer("ceiling-x", "ceiling", 1000.0, 4e6),
            "c2": of_layer("ceiling-x", "ceiling", 900.0, 3e6),
            "c3": of_layer("ceiling-x", "ceiling", 5000.0, 3e6, status="failed"),
            "slow": of_layer("a", "backing", 290.0, 2e6),
            "bound": of_layer("b", "target", 310.0, 2e6),
            "cache": of_layer("c", "initiator", 1010.0, 2e6),
            "memory": of_layer("d", "guest", 11.0, 8.1e6),
            "other": of_layer("e", "guest", 99999.0, 2e6, workload_id="8k"),
            "nothing": {"layer_kind": "guest", "workload_id": "4k", "status": "failed", "flags": []},
        },
        {"memory_copy_bytes_s": 8e6},
    )
    assert {name: one["flags"][1:] for name, one in found.items()} == {
        "c1": [],
        "c2": [],
        "c3": [],
        "slow": [],
        "bound": ["generator_bound"],
        "cache": ["faster_than_ceiling", "generator_bound"],
        "memory": ["faster_than_ceiling"],
        "other": [],
        "nothing": [],
    }
    assert found["bound"]["checks"] == [
        {
            "name": "ceiling",
            "ok": True,
            "iops": 310.0,
            "bandwidth_bytes_s": 2e6,
            "ceiling_iops": 1000.0,
            "memory_copy_bytes_s": 8e6,
        },
        {"name": "generator", "ok": False, "share_percent": 31.0, "limit_percent": 30},
    ]
    assert [check["name"] for check in found["other"]["checks"]] == ["ceiling"]
    assert "checks" not in found["nothing"]


def test_judging_again_replaces_the_judgement():
    ceiling = of_layer("ceiling-x", "ceiling", 1000.0, 4e6)
    once = judged(
        {
            "c": ceiling,
            "a": {**of_layer("a", "backing", 500.0, 1e6), "checks": [{"name": "device_counters", "ok": True}]},
        },
        {},
    )
    twice = judged({"c": {**ceiling, "total": {"iops": 5000.0, "bandwidth_bytes_s": 1}}, "a": once["a"]}, {})
    assert [check["name"] for check in twice["a"]["checks"]] == ["device_counters", "ceiling", "generator"]
    assert (once["a"]["flags"], twice["a"]["flags"]) == (["buffered_io", "generator_bound"], ["buffered_io"])


def test_without_any_ceiling_nothing_is_checked():
    one = of_layer("a", "backing", 500.0, 1e6)
    assert result.against_ceiling({"a": one}, {}) == {}


def test_a_summary_is_small_and_has_no_bins():
    found = of_point(read=part(range(1, 5000)), total=part(range(1, 9000)))
    short = result.summary(found)
    assert "histogram" not in json.dumps(short)
    assert len(json.dumps(short)) < 2000
    assert short["total"]["latency_p99_ns"] == found["total"]["latency_p99_ns"]


def test_a_summary_with_everything_on_is_small():
    identity = {
        "testbed_id": "embedded-testbed",
        "run_id": "2026-11-21-first-run",
        "layer": "initiator-datastore1",
        "layer_kind": "initiator",
        "point_id": "initiator-datastore1.4k-mix-r70-rnd100-qd128-w16-0a1b2c.r10",
        "host": "hypervisor01.lab.example.com",
        "path": "/dev/disk/by-id/scsi-3600140500000000000",
        "workload": normalise({"read_percent": 50, "runtime_s": 60, "queue_depth": 128, "workers": 16}),
        "workload_id": "4k-mix-r70-rnd100-qd128-w16-0a1b2c",
        "repetition": 10,
        "variant": "scheduler-none",
        "engine": {"name": "fio", "randseed": 123456789},
        "fingerprint": "f" * 64,
        "raw": {"file": "fio.json", "sha256": "a" * 64},
        "job": {"file": "job.fio", "sha256": "b" * 64},
        "series": {"file": "series.json", "sha256": "c" * 64},
    }
    cpu = {
        "host_busy_s": 123456.78,
        "host_busy_percent": 99.87,
        "host_steal_percent": 12.34,
        "cores": 128,
        "busiest_core_percent": 99.9,
        "engine_busy_s": 12345.67,
        "busiest_thread_percent": 99.9,
        "mhz": 2596.132,
    }
    meta = {
        "exit_code": 0,
        "failures": [],
        "flags": ["governor", "page_cache_not_dropped"],
        "overridden": ["device_held", "device_signature"],
        "started_utc": "2026-11-21T16:52:37.158Z",
        "finished_utc": "2026-11-21T16:52:43.492Z",
        "wall_s": 300.123,
        "preparation": {"filled": True, "preconditioned_passes": 2, "warmup_s": 60, "page_cache": "not_dropped"},
        "prepared": {"utc": "x", "instance": "y" * 50},
        "steady_state": {
            "metric": "iops",
            "steady": False,
            "window": 5,
            "rounds": [123456.789] * 5,
            "round_s": 60,
            "budget_s": 900,
        },
        "counters": {
            **COUNTED,
            "cpu": cpu,
            "network": {f"eth{number}": {"rx_bytes": 10**12, "tx_bytes": 10**12} for number in range(20)},
        },
        "device_seen": seen(10**12, 10**12),
    }
    rounds = [
        a_round(
            [number * 123456 + 1 for number in range(1, 3000)],
            [number * 134567 + 3 for number in range(1, 3000)],
            60.001,
            flags=["buffered_io", "synchronous_submission"],
        )
    ] * 5
    made = result.of_point(identity, meta, rounds)
    fresh = result.against_ceiling({"p": made}, {"memory_copy_bytes_s": 1})["p"]
    found = additions.merged(made, [{"of": additions.measurement(made), **fresh}])
    assert found["flags"][-1] == "faster_than_ceiling"
    short = result.summary(found)
    assert len(json.dumps(short)) <= 2000
    assert (short["steady"], short["cpu"]["us_per_io"] > 0, short["variant"]) == (False, True, "scheduler-none")


def test_stored_results_are_read_back(tmp_path):
    (tmp_path / "result.json").write_text(result.dump(of_point()), encoding="utf-8")
    assert result.load(str(tmp_path / "result.json"))["total"]["ios"] == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "storlab.result/0"}'])
def test_damaged_results_are_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content, encoding="utf-8")
    with refused(tmp_path) as caught:
        result.load(str(tmp_path / "result.json"))
    assert caught.value.code == "result_unreadable"
