# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result schema: merging, what counts as measured, and how small a fact is."""

from __future__ import annotations

import json
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import histogram, result
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload import normalise

ENGINE = {"name": "fio", "version": "3.33", "ioengine": "libaio", "latency": "total"}


def part(values, seconds=2.0):
    """A direction whose I/O took exactly these nanoseconds."""
    bins = histogram.merge({str(value): 1} for value in values)
    latency = {"samples": len(values), "mean": statistics.fmean(values), "min": min(values), "max": max(values), "stddev": statistics.stdev(values)}
    return result.direction(len(values), 4096 * len(values), len(values) / seconds, 4096 * len(values) / seconds, latency, bins)


def test_percentiles_are_values_of_bins():
    bins = {"100": 50, "200": 45, "300": 5}
    assert histogram.percentiles(bins, [50.0, 50.1, 95.0, 95.1, 100.0]) == {50.0: 100, 50.1: 200, 95.0: 200, 95.1: 300, 100.0: 300}


def test_keys_are_ordered_as_numbers():
    assert list(histogram.merge([{"1000": 1}, {"90": 2, "1000": 3}]).items()) == [("90", 2), ("1000", 4)]
    assert histogram.percentile({"1000": 1, "90": 99}, 50.0) == 90


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


def of_point(meta=None, **changes):
    identity = {"point_id": "p", "layer": "l", "path": None, "workload": normalise({"read_percent": 70, "runtime_s": 10}),
                "engine": {"name": "fio", "randseed": 3}}
    own = {"engine": ENGINE, "read": part([1, 2]), "write": part([3, 4]), "total": part([1, 2, 3, 4]), "runtime_s": 10.001, "errors": {"total": 0},
           "cpu": {"user_percent": 7.5}, "flags": ["buffered_io"], **changes}
    own = {key: value for key, value in own.items() if value is not None}
    base = {"exit_code": 0, "failures": [], "flags": [], "overridden": []}
    return result.of_point(identity, {**base, **(meta or {})}, [own], said="fio: said so")


def test_measured():
    found = of_point()
    assert (found["status"], found["failures"], found["flags"]) == ("measured", [], ["buffered_io"])
    assert found["engine"] == {**ENGINE, "randseed": 3}
    assert found["cpu"] == {"user_percent": 7.5}
    assert "path" not in found


@pytest.mark.parametrize(("meta", "changes", "code"), [
    ({"exit_code": 1}, {}, "engine_exit"),
    ({"exit_code": -9}, {}, "engine_exit"),
    ({}, {"errors": {"total": 2, "first": 28}}, "io_errors"),
    ({}, {"write": None}, "no_io"),
    ({}, {"runtime_s": 9.4}, "too_short"),
    ({"failures": [{"code": "device_mounted", "message": "x"}]}, {}, "device_mounted"),
])
def test_not_measured(meta, changes, code):
    found = of_point(meta, **changes)
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == ("failed", [code])
    assert found["failures"][0]["said"] == "fio: said so"


def test_nearly_the_whole_time_counts():
    assert of_point(runtime_s=9.6)["status"] == "measured"


def test_overriding_is_recorded():
    found = of_point({"overridden": ["device_held"]})
    assert (found["overridden"], "guard_overridden" in found["flags"]) == (["device_held"], True)


def test_points_without_output():
    identity = {"point_id": "p", "workload": normalise({}), "engine": {"name": "fio"}}
    assert result.of_point(identity, None, [])["failures"][0]["code"] == "stopped"
    meta = {"exit_code": 1, "failures": [], "flags": [], "overridden": []}
    assert result.of_point(identity, meta, [])["failures"][0]["code"] == "no_result"


def test_a_summary_is_small_and_has_no_bins():
    found = of_point(read=part(range(1, 5000)), total=part(range(1, 9000)))
    short = result.summary(found)
    assert "histogram" not in json.dumps(short)
    assert len(json.dumps(short)) < 2000
    assert short["total"]["latency_p99_ns"] == found["total"]["latency_p99_ns"]


def test_stored_results_are_read_back(tmp_path):
    (tmp_path / "result.json").write_text(result.dump(of_point()), encoding="utf-8")
    assert result.load(str(tmp_path / "result.json"))["total"]["ios"] == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "storlab.result/0"}'])
def test_damaged_results_are_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content, encoding="utf-8")
    with pytest.raises(Failure) as caught:
        result.load(str(tmp_path / "result.json"))
    assert caught.value.code == "result_unreadable"
