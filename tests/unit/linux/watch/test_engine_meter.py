# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meter on a clock of its own: which readings belong to the measured time, and between what bounds the device's counts lie."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import meter as metering


class Host:
    """A clock, and a device that reads 1000 sectors a second in 10 requests from the second ``from_s`` on."""

    def __init__(self, from_s=0.0):
        self.now, self.from_s = 50.0, from_s

    def counts(self, _device="1:1"):
        since = max(self.now - 50.0 - self.from_s, 0)
        return {
            "name": "sdx",
            "counts": [7 + round(10 * since), 0, 70 + round(1000 * since), 5 + round(25 * since), 3, 0, 30, 2, 0, 1, 1],
        }

    def levels(self):
        """The load grows by a tenth in a second, its longer means by less, memory by a percent; the memory of the second 53 cannot be read."""
        since = self.now - 50.0
        loads = {
            "load_1min": round(0.1 * since, 2),
            "load_5min": round(0.02 * since, 3),
            "load_15min": round(0.01 * since, 3),
        }
        return {**loads, **({} if since == 3 else {"memory_used_percent": 40.0 + since})}

    def sample(self, device=None, pid=None, layers=None):
        ticks = round(100 * (self.now - 50.0))
        found = {
            "monotonic_s": self.now,
            "unix_s": self.now,
            "cpu_ticks": {"all": [ticks, 0, 0, ticks, 0, 0, 0, 0]},
            "network": {},
        }
        if device:
            found["device"] = self.counts()
        if layers:
            found["layers"] = {name: {**self.counts(), "name": f"sd{number}"} for name, number in layers.items()}
        return {**found, "engine_ticks": {"all": ticks}} if pid else found


@pytest.fixture
def host(monkeypatch):
    host = Host()
    monkeypatch.setattr(metering.time, "monotonic", lambda: host.now)
    monkeypatch.setattr(metering.counters, "sample", host.sample)
    monkeypatch.setattr(metering.counters, "levels", host.levels)
    monkeypatch.setattr(metering.counters, "device_counts", host.counts)
    monkeypatch.setattr(metering.counters, "TICKS_S", 100)
    return host


def run(host, meter, seconds):
    """As the runner does it: a sample each second, and what is due in between; the engine ends after so many seconds."""
    tick = 0
    while meter.elapsed_s() < seconds:
        meter.look(1)
        if meter.elapsed_s() >= tick:
            meter.sample(1)
            tick += 1
        host.now += max(min(tick - meter.elapsed_s(), meter.next_s(), seconds - meter.elapsed_s()), 1e-6)
    meter.end()


def test_the_interval_is_inside_the_measured_time(host):
    meter = metering.Meter("1:1", 2, 4)
    run(host, meter, 6.3)
    changed = meter.changed()
    assert meter.first["monotonic_s"] - 50 == pytest.approx(2.5, abs=1e-3)
    assert meter.last["monotonic_s"] - 50 == pytest.approx(6, abs=0.05)
    assert meter.last["monotonic_s"] - 50 <= 6
    assert changed["monotonic_s"] == pytest.approx(3.5, abs=0.05)


def test_what_precedes_a_late_start_is_not_counted(host):
    """On a busy machine fio began to count only 1.7 s after it had to: from 3.7 to 7.7 s. In all that is counted the device does its 10 reads a second."""
    host.from_s = 3.7
    meter = metering.Meter("1:1", 2, 4)
    run(host, meter, 7.8)
    assert 3.8 <= meter.first["monotonic_s"] - 50 < meter.last["monotonic_s"] - 50 <= 6
    changed = meter.changed()
    assert changed["monotonic_s"] >= 1.5
    assert meter.span_unix_s() == (meter.first["unix_s"], meter.last["unix_s"])
    device = metering.counters.figures_of(changed)["device"]
    assert device["read"]["ios"] / changed["monotonic_s"] == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("from_s", [0.85, 1.2, 5])
def test_nothing_is_counted_of_a_point_that_was_measured_later_than_anybody_thought(host, from_s):
    host.from_s = from_s
    meter = metering.Meter("1:1", 0, 1)
    run(host, meter, from_s + 1.02)
    assert meter.changed() is None


def test_few_readings_are_kept_of_a_long_point(host):
    meter = metering.Meter("1:1", 2, 3600)
    run(host, meter, 3602.3)
    assert len(meter.firsts) < 20
    assert meter.changed()["monotonic_s"] == pytest.approx(3599.5, abs=0.05)


def test_devices_of_other_layers_count_in_the_same_seconds(host):
    """10 reads a second of 2.5 ms each, whose ends are rounded to whole requests and milliseconds."""
    meter = metering.Meter("1:1", 2, 4, {"raid": "m", "disk": "d"})
    run(host, meter, 6.3)
    layers = metering.counters.figures_of(meter.changed())["layers"]
    assert {layer: found["name"] for layer, found in layers.items()} == {"raid": "sdm", "disk": "sdd"}
    assert layers["disk"]["interval_s"] == pytest.approx(3.5, abs=0.05)
    assert layers["disk"]["read"]["ios"] == pytest.approx(35, abs=1)
    assert layers["disk"]["in_flight"] == pytest.approx(0.025, abs=0.001)


def test_too_short_to_say(host):
    meter = metering.Meter(None, 0, 1)
    run(host, meter, 0.4)
    assert meter.changed() is None
    assert meter.device_seen() is None


def test_an_engine_that_ends_after_an_amount(host):
    meter = metering.Meter("1:1", 0, None)
    run(host, meter, 3.4)
    assert meter.changed()["monotonic_s"] == pytest.approx(2)
    seen = meter.device_seen()
    assert seen["least"] == seen["most"] == {"read": {"ios": 34, "bytes": 3400 * 512}, "write": {"ios": 0, "bytes": 0}}


def test_without_a_ramp_the_device_s_counts_are_exact(host):
    meter = metering.Meter("1:1", 0, 4)
    run(host, meter, 4.2)
    seen = meter.device_seen()
    assert seen["least"] == seen["most"]
    assert seen["most"]["read"] == {"ios": 42, "bytes": 4200 * 512}


def test_with_a_ramp_the_truth_lies_between_the_bounds(host):
    # Starting took 0.15 s and ending 0.1 s: it counted from 2.15 to 6.15 s.
    host.from_s = 0.15
    meter = metering.Meter("1:1", 2, 4)
    run(host, meter, 6.25)
    seen = meter.device_seen()
    truth = 4000 * 512
    assert seen["least"]["read"]["bytes"] <= truth + 100 * 512 <= seen["most"]["read"]["bytes"] + 1
    # and the bounds are as near as the readings after the ramp are close, and as starting and ending took together
    assert seen["most"]["read"]["bytes"] - seen["least"]["read"]["bytes"] <= 0.4 * 1000 * 512


def test_with_a_ramp_and_an_amount_nothing_can_be_said(host):
    meter = metering.Meter("1:1", 2, None)
    run(host, meter, 5)
    assert meter.device_seen() is None


def test_merged_requests_count_as_the_ios_they_were():
    before, after = [10, 4, 80, 0, 20, 6, 160, 0, 0, 0, 0], [15, 7, 160, 0, 21, 16, 248, 0, 0, 0, 0]
    assert metering._between(before, after) == {
        "read": {"ios": 8, "bytes": 80 * 512},
        "write": {"ios": 11, "bytes": 88 * 512},
    }


def test_series_of_the_device(host):
    series = metering.Series(on_device=True, ios_too=True)
    series.started(host.sample("1:1"))
    host.now += 1
    series.add("ramp", host.sample("1:1"), 999.0, 888)
    host.now += 1
    series.add("measure", host.sample("1:1"), None, None)
    assert series.content() == {
        "interval_s": 1,
        "columns": [
            "t_s",
            "phase",
            "iops",
            "bandwidth_bytes_s",
            "latency_mean_ns",
            "cpu_busy_percent",
            "load_1min",
            "load_5min",
            "load_15min",
            "memory_used_percent",
        ],
        "rows": [
            [1.0, "ramp", 10.0, 512000, 2500000, 50.0, 0.1, 0.02, 0.01, 41.0],
            [2.0, "measure", 10.0, 512000, 2500000, 50.0, 0.2, 0.04, 0.02, 42.0],
        ],
    }


def test_what_the_host_does_not_tell_of_itself_is_unknown(host):
    series = metering.Series()
    host.now += 2
    series.started(host.sample())
    host.now += 1
    series.add("measure", host.sample(), None, None)
    assert series.content()["rows"][0][-4:] == [0.3, 0.06, 0.03, None]


def test_series_of_what_the_engine_says(host):
    series = metering.Series()
    series.started(host.sample())
    host.now += 1
    series.add("measure", host.sample(), 5.5, None)
    assert series.content()["rows"] == [[1.0, "measure", 5.5, None, None, 50.0, 0.1, 0.02, 0.01, 41.0]]


def test_long_series_are_thinned(host, monkeypatch):
    monkeypatch.setattr(metering, "MOST_ROWS", 4)
    series = metering.Series()
    series.started(host.sample())
    for _ in range(13):
        host.now += 1
        series.add("measure", host.sample(), None, None)
    assert series.content()["interval_s"] == 4
    assert [row[0] for row in series.content()["rows"]] == [4.0, 8.0, 12.0]
    # each is of one second, not of four
    assert [row[5] for row in series.content()["rows"]] == [50.0, 50.0, 50.0]


def test_series_of_a_host_with_a_cache_has_its_hit_rate(host):
    def sample(hits: int, misses: int) -> dict:
        counts = [hits, misses, 0, 0, 0, 0]
        return {**host.sample(), "caches": {"lab:e4": {"counts": counts, "levels": [0, 1, 2, 65536]}}}

    series = metering.Series()
    series.started(sample(5, 5))
    for hits, misses in ((6, 8), (15, 9), (15, 9)):
        host.now += 1
        series.add("measure", sample(hits, misses), 5.5, None)
    content = series.content()
    assert content["columns"][-1] == "cache_hit_percent"
    assert [row[-1] for row in content["rows"]] == [25.0, 90.0, None]
