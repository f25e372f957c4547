# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of an ESXi host, weighted to a benchmark's time: every expected figure is worked out by hand."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import types
from pathlib import Path

import jsonschema
import places
import pytest
from ansible_collections.storlab.testbed.plugins.action import esxi_counters as action
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.files import read_json
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import counters as esxi_counters
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import counters_result, fingerprint
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import additions, run_folder
from fixtures.report import make_fixture
from unchanged import refused

SCHEMA = json.loads((places.ROOT / "docs" / "schema" / "storlab.result-1.schema.json").read_text(encoding="utf-8"))
NAA = "60000000000000000e00000000010001"
DEVICE = f"naa.{NAA}"
UUID = "6000C29A-1111-2222-3333-444455556666"
# 2026-11-21T12:00:00Z; samples end at whole 20 s.
NOON = 1795262400
# Samples that end 20, 40 and 60 s after noon, with one before and one after that no time below touches.
HOST = {
    ("cpu.usagemhz.average", ""): (9, 900, 1000, 1200, 9),
    ("cpu.usage.average", ""): (1, 1000, 2000, 4000, 1),
    ("disk.commandsAveraged.average", DEVICE): (7, 100, 200, 400, 7),
    ("disk.numberReadAveraged.average", DEVICE): (7, 70, 160, 310, 7),
    ("disk.totalLatency.average", DEVICE): (90, 4, 6, 10, 90),
    ("disk.deviceLatency.average", DEVICE): (90, 3, 5, 8, 90),
    ("disk.kernelLatency.average", DEVICE): (90, 1, 1, 2, 90),
    ("disk.queueLatency.average", DEVICE): (90, 0, 0, 1, 90),
    ("disk.commandsAveraged.average", "naa.other"): (5, 5, 5, 5, 5),
    ("storageAdapter.commandsAveraged.average", "vmhba64"): (8, 110, 210, 410, 8),
    ("storageAdapter.commandsAveraged.average", "vmhba0"): (8, 1, 2, 3, 8),
    ("datastore.read.average", "5f-uuid"): (3, 30, 60, 90, 3),
    ("datastore.numberWriteAveraged.average", "5f-uuid"): (0, 0, 0, 0, 0),
    ("datastore.totalWriteLatency.average", "5f-uuid"): (0, 0, 0, 0, 0),
}
MACHINE = {
    ("cpu.usagemhz.average", ""): (9, 300, 450, 600, 9),
    ("virtualDisk.numberReadAveraged.average", "scsi0:1"): (9, 50, 100, 200, 9),
    ("virtualDisk.readLatencyUS.latest", "scsi0:1"): (9, 400, 800, 600, 9),
    ("virtualDisk.totalReadLatency.average", "scsi0:1"): (9, 0, 1, 7, 9),
    ("virtualDisk.numberReadAveraged.average", "scsi0:0"): (9, 1, 1, 1, 9),
}


def table(series: dict, first: int = 0, last: int = 4) -> dict:
    return {
        "columns": [list(column) for column in series],
        "rows": [
            [NOON + 20 * place, 20, *(values[place] for values in series.values())] for place in range(first, last + 1)
        ],
    }


def sampled(**changes) -> dict:
    return {
        "host": "esxi01.lab",
        "product": "VMware ESXi 8.0.2",
        "simulated": False,
        "clock": {"offset_s": 0.0, "uncertain_s": 0.001},
        "sample_s": 20,
        "hardware": {
            "cores": 8,
            "mhz": 2500,
            "model": "CPU",
            "vendor": "Maker",
            "product": "Server",
            "memory_bytes": 64 << 30,
        },
        "names": {
            "datastores": {"5f-uuid": "lab-ds1", "6a": "other"},
            "adapters": {DEVICE: ["vmhba64"], "naa.other": ["vmhba0"]},
            "disks": {"vm01": {"scsi0:0": "6000c29a-0000", "scsi0:1": UUID}, "vm02": {"scsi0:1": "7"}},
        },
        "host_samples": table(HOST),
        "machines": {"vm01": table(MACHINE), "vm02": table({("cpu.usagemhz.average", ""): (9, 50, 70, 95, 9)})},
        **changes,
    }


# 15 s of the first, all of the second and 10 s of the third sample.
SPAN = (NOON + 5, NOON + 50)


def test_samples_count_with_their_seconds_and_latencies_with_their_commands():
    found = esxi_counters.figures(sampled(), *SPAN)
    assert (found["interval_s"], found["samples"], found["partial_samples"]) == (45, 1, 2)
    # (15 · 900 + 20 · 1000 + 10 · 1200) / 45 and (15 · 10 + 20 · 20 + 10 · 40) / 45 %
    assert found["cpu"] == {
        "used_mhz": pytest.approx(45500 / 45),
        "host_busy_percent": pytest.approx(950 / 45),
        "cores": 8,
        "mhz": 2500,
        "vm_mhz": {"vm01": pytest.approx((4500 + 9000 + 6000) / 45), "vm02": pytest.approx((750 + 1400 + 950) / 45)},
    }
    device = found["devices"][DEVICE]
    # Commands: 1500, 4000 and 4000.
    assert device == {
        "iops": pytest.approx(9500 / 45),
        "read_iops": pytest.approx((1050 + 3200 + 3100) / 45),
        "gavg_ns": pytest.approx((4 * 1500 + 6 * 4000 + 10 * 4000) / 9500 * 1e6),
        "davg_ns": pytest.approx((4500 + 20000 + 32000) / 9500 * 1e6),
        "kavg_ns": pytest.approx((1500 + 4000 + 8000) / 9500 * 1e6),
        "below_resolution": ["qavg_ns"],
    }
    assert device["gavg_ns"] == pytest.approx(device["kavg_ns"] + device["davg_ns"])
    assert found["adapters"]["vmhba64"] == {"iops": pytest.approx((1650 + 4200 + 4100) / 45)}
    # Nothing was written there, so there is no latency of writes, neither 0 nor below what the counter tells.
    assert found["datastores"] == {
        "lab-ds1": {"read_bandwidth_bytes_s": pytest.approx((450 + 1200 + 900) / 45 * 1024), "write_iops": 0}
    }
    # Microseconds before whole milliseconds. Reads: 750, 2000 and 2000.
    assert found["virtual_disks"]["vm01:scsi0:1"] == {
        "read_iops": pytest.approx(4750 / 45),
        "read_latency_mean_ns": pytest.approx((400 * 750 + 800 * 2000 + 600 * 2000) / 4750 * 1e3),
    }


def test_whole_milliseconds_are_taken_where_there_are_no_microseconds():
    samples = sampled()
    samples["machines"]["vm01"] = table({column: values for column, values in MACHINE.items() if "US" not in column[0]})
    found = esxi_counters.figures(samples, *SPAN)["virtual_disks"]["vm01:scsi0:1"]
    assert found["read_latency_mean_ns"] == pytest.approx((0 * 750 + 1 * 2000 + 7 * 2000) / 4750 * 1e6)


@pytest.mark.parametrize("device", [(90, 0, 0, 0, 90), (90, 0, 1, 1, 90)])
def test_latency_below_a_millisecond_is_never_zero(device):
    # 0 · 1500 + 1 · 8000 of 9500 is below 1 ms as well.
    found = esxi_counters.figures(
        sampled(host_samples=table({**HOST, ("disk.deviceLatency.average", DEVICE): device})), *SPAN
    )["devices"][DEVICE]
    assert (
        "davg_ns" not in found and set(found["below_resolution"]) == {"davg_ns", "qavg_ns"} and found["gavg_ns"] > 1e6
    )


@pytest.mark.parametrize(
    ("started", "finished", "whole", "partial"), [(0, 60, 3, 0), (20, 40, 1, 0), (19, 61, 2, 2), (3, 57, 1, 2)]
)
def test_whole_samples_are_counted(started, finished, whole, partial):
    found = esxi_counters.figures(sampled(), NOON + started, NOON + finished)
    assert (found["samples"], found["partial_samples"]) == (whole, partial)


@pytest.mark.parametrize(("started", "finished"), [(5, 18), (21, 39), (5, 35), (1, 39)])
def test_time_without_a_whole_sample_has_no_figures(started, finished):
    with pytest.raises(Failure) as caught:
        esxi_counters.figures(sampled(), NOON + started, NOON + finished)
    assert caught.value.code == "interval_too_short" and "40 s" in str(caught.value)


@pytest.mark.parametrize(("started", "finished"), [(5, 95), (-60, 50), (200, 300)])
def test_time_that_was_not_sampled_has_no_figures(started, finished):
    with pytest.raises(Failure) as caught:
        esxi_counters.figures(sampled(), NOON + started, NOON + finished)
    assert caught.value.code == "not_observed"


def test_a_lost_sample_is_a_gap():
    samples = sampled()
    del samples["host_samples"]["rows"][2]
    with pytest.raises(Failure) as caught:
        esxi_counters.figures(samples, *SPAN)
    assert caught.value.code == "not_observed" and "20 s of the measured 45 s" in str(caught.value)


def test_what_has_a_gap_is_absent_and_the_rest_is_there():
    host = {
        **HOST,
        ("disk.kernelLatency.average", DEVICE): (1, 1, None, 2, 1),
        ("cpu.usage.average", ""): (None, 1000, 2000, 4000, None),
    }
    samples = sampled(host_samples=table(host))
    # vm02 was switched on between the first and the second sample.
    samples["machines"]["vm02"] = table({("cpu.usagemhz.average", ""): (9, 50, 70, 95, 9)}, first=2)
    found = esxi_counters.figures(samples, *SPAN)
    assert "kavg_ns" not in found["devices"][DEVICE] and "davg_ns" in found["devices"][DEVICE]
    assert set(found["cpu"]["vm_mhz"]) == {"vm01"} and found["cpu"]["host_busy_percent"] == pytest.approx(950 / 45)


def test_answers_are_read_in_any_order_and_missing_values_are_null():
    def series(counter, instance, value):
        return types.SimpleNamespace(id=types.SimpleNamespace(counterId=counter, instance=instance), value=value)

    found = types.SimpleNamespace(
        sampleInfoCSV="20,2026-11-21T12:00:40Z,20,2026-11-21T12:00:20Z",
        value=[
            series(6, "", "1500,-1"),
            series(9, DEVICE, "0,12"),
            series(9, "short", "5"),
            series(99, "", "1,2"),
            series(6, "none", None),
        ],
    )
    assert esxi_counters.table_of(found, {6: "cpu.usagemhz.average", 9: "disk.queueLatency.average"}) == {
        "columns": [["cpu.usagemhz.average", ""], ["disk.queueLatency.average", DEVICE]],
        "rows": [[NOON + 20, 20, None, 12], [NOON + 40, 20, 1500, 0]],
    }
    assert esxi_counters.table_of(types.SimpleNamespace(sampleInfoCSV="", value=[]), {}) == {"columns": [], "rows": []}


@pytest.mark.parametrize(("until", "last", "asked"), [(30, 45, 3), (4, 25, 3), (0, 5, 1)])
def test_the_sample_in_which_the_time_ends_is_waited_for_but_not_for_ever(monkeypatch, until, last, asked):
    now, newest = [NOON], iter((5, 5, last, last))
    monkeypatch.setattr(
        esxi_counters,
        "time",
        types.SimpleNamespace(time=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds)),
    )
    found = esxi_counters.complete(
        lambda: {"host_samples": {"rows": [[NOON + next(newest), 20]]}}, NOON + 40, NOON + until
    )
    assert found["host_samples"]["rows"][0][0] == NOON + last and now[0] == NOON + (asked - 1) * esxi_counters.POLL_S


def test_samples_that_were_kept_and_read_again_are_one():
    early, late = (
        sampled(host_samples=table(HOST, last=2)),
        sampled(host_samples=table({**HOST, ("disk.read.average", "new"): (1, 2, 3, 4, 5)}, first=2)),
    )
    early["machines"]["gone"], early["names"]["disks"]["gone"] = table(MACHINE, last=1), {"scsi0:0": "8"}
    found = esxi_counters.merge(early, late)
    assert (
        esxi_counters.figures(found, *SPAN)["devices"][DEVICE]
        == esxi_counters.figures(sampled(), *SPAN)["devices"][DEVICE]
    )
    assert [row[-1] for row in found["host_samples"]["rows"]] == [None, None, 3, 4, 5]
    assert {"gone", "vm01", "vm02"} == set(found["machines"]) and found["names"]["disks"]["gone"] == {"scsi0:0": "8"}
    assert esxi_counters.merge(None, late) is late


def test_aborted_commands_and_resets_are_counted_in_every_sample_that_touches_the_time():
    host = {
        **HOST,
        ("disk.commandsAborted.summation", DEVICE): (50, 0, 2, 1, 50),
        ("disk.busResets.summation", DEVICE): (50, 0, 0, 0, 50),
        ("disk.commandsAborted.summation", "naa.other"): (0, 9, 9, 9, 0),
        # What is not known of a sample may have been some: what is known is the least.
        ("disk.busResets.summation", "naa.other"): (0, None, 4, 0, 0),
        ("disk.busResets.summation", "naa.third"): (0, None, 0, 0, 0),
    }
    devices = esxi_counters.figures(sampled(host_samples=table(host)), *SPAN)["devices"]
    assert (devices[DEVICE]["commands_aborted"], devices[DEVICE]["bus_resets"]) == (3, 0)
    assert (devices["naa.other"]["commands_aborted"], devices["naa.other"]["bus_resets"]) == (9 * 3, 4)
    assert "naa.third" not in devices and "commands_aborted" not in esxi_counters.figures(sampled(), *SPAN)["devices"]


# ---------------------------------------------------------------- into results

LAYERS = {
    "backing-ds1": {"name": "backing-ds1", "host": "target01", "parent": None, "identity": {"serial": "x"}},
    "initiator-ds1": {"name": "initiator-ds1", "host": "esxi01", "parent": "backing-ds1", "identity": {"naa": NAA}},
    "datastore-ds1": {
        "name": "datastore-ds1",
        "host": "esxi01",
        "parent": "initiator-ds1",
        "identity": {"naa": NAA, "uuid": "5f-uuid", "datastore": "lab-ds1"},
    },
    "guest-vm01": {
        "name": "guest-vm01",
        "host": "guest01",
        "parent": "datastore-ds1",
        "identity": {"serial": UUID.replace("-", "").lower()},
    },
}
PATH = {"naa": NAA, "datastore": "lab-ds1", "serials": {UUID.replace("-", "").lower()}, "machine": None}


def test_what_of_the_host_a_layer_passes():
    assert counters_result.behind(LAYERS, "guest-vm01", "esxi01") == PATH
    assert (
        counters_result.behind(LAYERS, "backing-ds1", "esxi01") is None
        and counters_result.behind(LAYERS, "guest-vm01", "esxi02") is None
    )
    with pytest.raises(Failure):
        counters_result.behind({"guest-vm01": LAYERS["guest-vm01"]}, "guest-vm01", "esxi01")


def test_the_machine_of_a_mapped_lun_is_told_by_its_layer():
    """No virtual disk has the serial that the guest sees, and another machine's is not taken for it."""
    layers = {
        **LAYERS,
        "guest-vm01": {**LAYERS["guest-vm01"], "identity": {"serial": "6000c29f"}, "detail": {"machine": "vm02"}},
    }
    path = counters_result.behind(layers, "guest-vm01", "esxi01")
    own = counters_result.cut(sampled(), *SPAN, path)
    raw = {"file": "esxi.esxi01.json", "sha256": "ab" * 32}
    added = counters_result.addition(result(), "esxi01", esxi_counters.figures(own, *SPAN), own, raw, {}, path)
    # (750 + 1400 + 950) / 45 MHz for 2000 IOPS.
    assert added["counters"]["hosts"]["esxi01"]["cpu"]["vm_mhz_per_iops"] == 0.03444


def result(
    point_id: str = "guest-vm01.x.r1",
    host: str = "guest01",
    layer: str = "guest-vm01",
    started=SPAN[0],
    finished=SPAN[1],
    **changes,
) -> dict:
    made = make_fixture.result(make_fixture.LAYERS[1], make_fixture.WORKLOADS[0], 1, 0)
    counted = {
        "interval_s": finished - started,
        "started_utc": action.utc(started),
        "finished_utc": action.utc(finished),
        "hosts": {"target01": {"cpu": {}}},
    }
    return {
        **made,
        "point_id": point_id,
        "layer": layer,
        "layer_kind": "guest",
        "host": host,
        "path": "/dev/sdb",
        "counters": counted,
        "total": {**made["total"], "iops": 2000.0},
        **changes,
    }


def test_a_result_gets_what_was_counted_on_its_way_and_holds_against_the_schema():
    own = counters_result.cut(sampled(simulated=True), *SPAN, PATH)
    raw, clock = {"file": "esxi.esxi01.json", "sha256": "ab" * 32}, {"clock_offset_s": 0.5, "clock_uncertain_s": 0.01}
    before = result()
    fresh = counters_result.addition(before, "esxi01", esxi_counters.figures(own, *SPAN), own, raw, clock, PATH)
    assert before == result()
    found = additions.merged(before, [{"of": additions.measurement(before), **fresh}])
    esxi = found["counters"]["esxi"]
    plain = {
        "host": "esxi01",
        "device": DEVICE,
        "samples": 1,
        "partial_samples": 2,
        "interval_s": 45,
        "simulated": True,
        "raw": raw,
        "below_resolution": ["qavg_ns"],
    }
    assert {key: esxi[key] for key in plain} == plain
    assert esxi["device_iops"] == pytest.approx(9500 / 45) and esxi["gavg_ns"] == pytest.approx(70000 / 9500 * 1e6)
    assert (
        esxi["datastore"]["name"] == "lab-ds1"
        and esxi["virtual_disk"]["name"] == "vm01:scsi0:1"
        and set(esxi["adapters"]) == {"vmhba64"}
    )
    # 45500 / 45 MHz were used for 2000 IOPS.
    cpu = found["counters"]["hosts"]["esxi01"]["cpu"]
    assert cpu["mhz_per_iops"] == 0.5056 and set(cpu["vm_mhz"]) == {"vm01", "vm02"}
    # Of them the guest that was measured: (4500 + 9000 + 6000) / 45 MHz.
    assert cpu["vm_mhz_per_iops"] == 0.2167
    assert {key: found["counters"]["hosts"]["esxi01"][key] for key in clock} == clock and "target01" in found[
        "counters"
    ]["hosts"]
    assert {key: value for key, value in found.items() if key != "counters"} == {
        key: value for key, value in before.items() if key != "counters"
    }
    jsonschema.Draft202012Validator(SCHEMA).validate(found)


@pytest.mark.parametrize(
    ("aborted", "resets", "codes", "words"),
    [
        ((0, 2, 1), (0, 0, 0), ["commands_aborted"], "aborted 3 commands to " + DEVICE),
        ((0, 0, 0), (0, 0, 1), ["bus_resets"], "reset the bus of " + DEVICE + " once"),
        ((1, 0, 0), (1, 2, 0), ["commands_aborted", "bus_resets"], "3 times"),
        ((0, 0, 0), (0, 0, 0), [], None),
        ((None, None, None), (None, None, None), [], None),
    ],
)
def test_a_point_whose_lun_had_commands_aborted_or_its_bus_reset_is_failed(aborted, resets, codes, words):
    host = {
        **HOST,
        ("disk.commandsAborted.summation", DEVICE): (9, *aborted, 9),
        ("disk.busResets.summation", DEVICE): (9, *resets, 9),
        # Those of another LUN are not the point's.
        ("disk.commandsAborted.summation", "naa.other"): (9, 9, 9, 9, 9),
    }
    own = counters_result.cut(sampled(host_samples=table(host)), *SPAN, PATH)
    raw = {"file": "esxi.esxi01.json", "sha256": "ab" * 32}
    fresh = counters_result.addition(result(), "esxi01", esxi_counters.figures(own, *SPAN), own, raw, {}, PATH)
    found = additions.merged(result(), [{"of": additions.measurement(result()), **fresh}])
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert [failure["code"] for failure in found["failures"]] == codes
    assert found["status"] == ("failed" if codes else "measured")
    if words:
        assert words in " ".join(failure["message"] for failure in found["failures"])
        assert "esxi01" in found["failures"][0]["message"]
    assert result()["status"] == "measured" and found["total"] == result()["total"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gavg_ns", None),
        ("commands_aborted", 0.5),
        ("bus_resets", -1),
        ("kavg_ns", -1),
        ("samples", 0),
        ("raw", {"file": "x"}),
        ("simulated", "yes"),
        ("below_resolution", []),
    ],
)
def test_the_schema_refuses_other_figures(key, value):
    own = counters_result.cut(sampled(), *SPAN, PATH)
    raw = {"file": "a", "sha256": "ab" * 32}
    fresh = counters_result.addition(result(), "esxi01", esxi_counters.figures(own, *SPAN), own, raw, {}, PATH)
    found = additions.merged(result(), [{"of": additions.measurement(result()), **fresh}])
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert validator.is_valid(found)
    found["counters"]["esxi"][key] = value
    assert not validator.is_valid(found)


def test_only_what_a_point_passes_is_kept_with_it():
    own = counters_result.cut(sampled(), *SPAN, PATH)
    assert [row[0] - NOON for row in own["host_samples"]["rows"]] == [20, 40, 60]
    assert {instance for _counter, instance in own["host_samples"]["columns"]} == {"", DEVICE, "vmhba64", "5f-uuid"}
    assert [instance for _counter, instance in own["machines"]["vm01"]["columns"]] == [
        "",
        "scsi0:1",
        "scsi0:1",
        "scsi0:1",
    ]
    whole, cut = esxi_counters.figures(sampled(), *SPAN), esxi_counters.figures(own, *SPAN)
    assert cut["devices"] == {DEVICE: whole["devices"][DEVICE]} and cut["cpu"] == whole["cpu"]


def test_where_a_host_counted_nothing_itself_the_certain_time_is_between_its_bounds():
    # The engine ran from 10 to 130 s after noon with 20 s of ramp and 90 s measured: certainly from 40 to 120 s.
    windows = result(started_utc=action.utc(NOON + 10), finished_utc=action.utc(NOON + 130), runtime_s=90.0)
    windows["workload"] = {**windows["workload"], "ramp_s": 20}
    del windows["counters"]
    assert counters_result.interval(windows) == (NOON + 40, NOON + 120)
    assert counters_result.interval({**windows, "finished_utc": action.utc(NOON + 300)}) is None
    assert counters_result.interval({**windows, "steady_state": {}}) is None
    # Points that shared a run of the engine: nobody knows when each was.
    for missing in ("started_utc", "finished_utc"):
        assert counters_result.interval({key: value for key, value in windows.items() if key != missing}) is None
    assert counters_result.interval(result()) == SPAN


@pytest.fixture
def run_dir(tmp_path):
    """Points of a guest whose clock is 3 s ahead of the controller's."""
    run_folder.add_layers(str(tmp_path), LAYERS)
    run_folder.remember_clock(str(tmp_path), "guest01", {"offset_s": 3.0, "uncertain_s": 0.01})
    run_folder.remember_clock(str(tmp_path), "vague", {"offset_s": 0.0, "uncertain_s": 0.8})
    for made in (
        result("good", started=SPAN[0] + 3, finished=SPAN[1] + 3),
        result("short", started=NOON + 8, finished=NOON + 20),
        result("unknown", host="other"),
        result("vague", host="vague"),
        result("elsewhere", host="target01", layer="backing-ds1"),
        result("late", started=NOON + 800, finished=NOON + 860),
        result("failed", status="failed"),
        result(
            "paused", counters={"interval_s": 5, "started_utc": action.utc(NOON), "finished_utc": action.utc(NOON + 60)}
        ),
    ):
        (tmp_path / "points" / made["point_id"]).mkdir(parents=True)
        run_folder.write_point(str(tmp_path), made["point_id"], made, {})
    return tmp_path


def contents(folder: Path) -> dict:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SETTINGS = {
    "iscsi_adapter": {"DelayedAck": True, "LoginTimeout": 5},
    "host_options": {"ISCSI.MaxIoSizeKB": 128},
    "power_policy": "static",
    "network": {
        "vmk1": {"mtu": 9000},
        "vSwitch1": {"mtu": 9000},
        "vmnic1": {"driver": "ixgben", "speed_mbit_s": 10000},
    },
    "luns": {DEVICE: {"path_policy": "VMW_PSP_RR", "paths": 2, "vaai": "supported"}, "naa.other": {"paths": 1}},
}


def test_settings_are_the_host_s_and_those_of_luns_go_by_layer():
    samples = sampled(settings=SETTINGS)
    found = counters_result.environment(samples, LAYERS, "esxi01")
    lun = {"path_policy": "VMW_PSP_RR", "paths": 2, "vaai": "supported"}
    assert found["devices"] == {"initiator-ds1": lun, "datastore-ds1": lun} and "luns" not in found
    assert found["iscsi_adapter"]["DelayedAck"] is True and found["network"]["vmk1"] == {"mtu": 9000}
    assert "devices" not in counters_result.environment(samples, LAYERS, "esxi02")
    assert "settings" not in counters_result.cut(samples, *SPAN, PATH) and samples["settings"] == SETTINGS
    # Samples that an earlier version kept have none.
    assert "iscsi_adapter" not in counters_result.environment(sampled(), LAYERS, "esxi01")


def test_the_settings_of_a_variant_are_those_of_when_it_was_measured(run_dir):
    def add(variant: str, delayed: bool) -> None:
        made = result(f"{variant}.r1", started=SPAN[0] + 3, finished=SPAN[1] + 3, variant=variant)
        (run_dir / "points" / made["point_id"]).mkdir()
        run_folder.write_point(str(run_dir), made["point_id"], made, {})
        points, _missed = action.waiting(str(run_dir), "esxi01")
        own = {name: points[name] for name in (f"{variant}.r1",)}
        settings = {**SETTINGS, "iscsi_adapter": {"DelayedAck": delayed}}
        assert action.add(str(run_dir), "esxi01", sampled(settings=settings), own, False).points == list(own)

    add("on", True)
    add("off", False)
    kept = run_folder.environment(str(run_dir), "esxi01")
    assert {name: host["iscsi_adapter"]["DelayedAck"] for name, host in kept["variants"].items()} == {
        "on": True,
        "off": False,
    }


@pytest.mark.parametrize(
    ("bound", "portals", "expected"),
    [
        (["vmk2"], ["10.0.0.9"], {"vmk2"}),
        ([], ["10.0.0.9", "target.lab"], {"vmk1"}),
        # Reached through a router: any may carry it.
        ([], ["192.0.2.1"], {"vmk0", "vmk1", "vmk2"}),
        ([], [], {"vmk0", "vmk1", "vmk2"}),
    ],
)
def test_the_interfaces_that_iscsi_goes_through(bound, portals, expected):
    places = {"vmk0": ("172.16.0.5", "255.255.0.0"), "vmk1": ("10.0.0.5", "255.255.255.0"), "vmk2": ("", "")}
    assert fingerprint.carrying(places, bound, portals) == expected


def test_points_measured_before_a_host_was_restarted_for_its_options_are_flagged(run_dir):
    def flagged() -> dict:
        return {name: "restart_pending" in result["flags"] for name, result in run_folder.results(str(run_dir))}

    assert action.flag_pending(str(run_dir), "esxi01", False) == []
    known = {
        **LAYERS["initiator-ds1"],
        "detail": {"restart_pending": ["ISCSI.MaxIoSizeKB: 512 is configured, 128 holds"]},
    }
    run_folder.add_layers(str(run_dir), {"initiator-ds1": known})
    before = contents(run_dir)
    expected = {name: name != "elsewhere" for name in flagged()}
    assert action.flag_pending(str(run_dir), "esxi01", True) == sorted(set(expected) - {"elsewhere"})
    assert contents(run_dir) == before
    assert action.flag_pending(str(run_dir), "esxi02", False) == []
    action.flag_pending(str(run_dir), "esxi01", False)
    assert flagged() == expected
    assert action.flag_pending(str(run_dir), "esxi01", False) == []
    # What becomes known later adds to what is known.
    known["detail"]["paths_degraded"] = "paths: 1 active, 1 dead"
    run_folder.add_layers(str(run_dir), {"initiator-ds1": known})
    action.flag_pending(str(run_dir), "esxi01", False)
    assert flagged() == expected
    flags = {name: "paths_degraded" in result["flags"] for name, result in run_folder.results(str(run_dir))}
    assert flags == expected
    assert action.flag_pending(str(run_dir), "esxi01", False) == []


def test_points_get_their_figures_once_and_by_the_clocks_of_all(run_dir):
    points, missed = action.waiting(str(run_dir), "esxi01")
    assert set(points) == {"good", "short", "late", "vague"} and set(missed) == {"unknown", "paused"}
    assert "other" in missed["unknown"] and "pause" in missed["paused"]
    # The host's clock is 2 s behind the controller's, so its samples of the same time end 2 s earlier by it.
    samples = sampled(clock={"offset_s": -2.0, "uncertain_s": 0.02})
    for table_ in (samples["host_samples"], *samples["machines"].values()):
        for row in table_["rows"]:
            row[0] -= 2
    before = contents(run_dir)
    assert (
        action.add(str(run_dir), "esxi01", samples, points, True)[:2] == (["good"], ["short"])
        and contents(run_dir) == before
    )
    measured = {path: content for path, content in before.items() if path.endswith("result.json")}
    added, flagged, unseen, failed = action.add(str(run_dir), "esxi01", samples, points, False)
    assert {path: contents(run_dir)[path] for path in measured} == measured
    assert (added, flagged, set(unseen), failed) == (["good"], ["short"], {"short", "late", "vague"}, {})
    assert "0.82 s" in unseen["vague"]
    found = dict(run_folder.results(str(run_dir)))
    esxi, host = found["good"]["counters"]["esxi"], found["good"]["counters"]["hosts"]["esxi01"]
    assert esxi["gavg_ns"] == pytest.approx(70000 / 9500 * 1e6) and (
        host["clock_offset_s"],
        host["clock_uncertain_s"],
    ) == (-5.0, 0.03)
    assert (
        found["short"]["flags"][-1] == "esxi_interval_too_short"
        and "esxi" not in found["short"]["counters"]
        and "esxi" not in found["late"]["counters"]
    )
    content = (run_dir / "points" / "good" / esxi["raw"]["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == esxi["raw"]["sha256"]
    # The figures can be had from the file alone.
    assert (
        esxi_counters.figures(json.loads(content), SPAN[0] - 2, SPAN[1] - 2)["devices"][DEVICE]["gavg_ns"]
        == esxi["gavg_ns"]
    )
    assert run_folder.environment(str(run_dir), "esxi01")["cpu"] == {"model": "CPU", "cores": 8, "mhz": 2500}
    assert "clocks_differ" in found["good"]["flags"]
    assert set(action.waiting(str(run_dir), "esxi01")[0]) == {"late", "vague"}


def test_a_point_that_the_host_failed_is_named_and_measured_again(run_dir):
    points, _missed = action.waiting(str(run_dir), "esxi01")
    own = {name: points[name] for name in ("good",)}
    host = {**HOST, ("disk.commandsAborted.summation", DEVICE): (0, 0, 5, 0, 0)}
    added = action.add(str(run_dir), "esxi01", sampled(host_samples=table(host)), own, True)
    assert list(added.failed) == ["good"] and "5 commands" in added.failed["good"]
    wanted = [{"point_id": name, "fingerprint": None} for name in ("good", "short")]
    assert set(run_folder.stored(str(run_dir), wanted)) == {"good", "short"}
    assert action.add(str(run_dir), "esxi01", sampled(host_samples=table(host)), own, False) == added
    assert set(run_folder.stored(str(run_dir), wanted)) == {"short"}
    good = dict(run_folder.results(str(run_dir)))["good"]
    assert good["status"] == "failed" and good["failures"][0]["code"] == "commands_aborted"
    assert "good" not in action.waiting(str(run_dir), "esxi01")[0]


def test_damaged_records_are_said_to_be(tmp_path):
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with refused(tmp_path) as caught:
        read_json(str(tmp_path / "x.json"))
    assert caught.value.code == "record_damaged" and read_json(str(tmp_path / "none.json")) is None


# ---------------------------------------------------------------- clocks


class Clocks:
    """A vCenter whose clock is 7 s ahead of ours, and its host with one that is 47 s ahead; fraction: whether they say parts of seconds."""

    def __init__(self, fraction: bool = True) -> None:
        def clock(ahead_s):
            def ask():
                moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ahead_s)
                return moment if fraction else moment.replace(microsecond=0)

            return ask

        self.instance = types.SimpleNamespace(CurrentTime=clock(7))
        self.host = types.SimpleNamespace(
            configManager=types.SimpleNamespace(dateTimeSystem=types.SimpleNamespace(QueryDateTime=clock(47)))
        )

    @contextlib.contextmanager
    def doing(self, _what):
        yield


def test_the_clock_of_samples_is_the_hosts_own_and_not_that_of_its_vcenter():
    clocks = Clocks()
    assert esxi_counters.clock(clocks, clocks.host)["offset_s"] == pytest.approx(47, abs=0.5)
    assert esxi_counters.session_clock(clocks)["offset_s"] == pytest.approx(7, abs=0.5)


def test_a_clock_that_says_whole_seconds_only_is_uncertain_by_them():
    clocks = Clocks(fraction=False)
    ahead = esxi_counters.clock(clocks, clocks.host)
    assert abs(ahead["offset_s"] - 47) <= ahead["uncertain_s"] + 0.001
