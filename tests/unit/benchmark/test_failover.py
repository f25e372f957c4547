# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of failover: every setting with every event, a load that lasts long enough, and no target but an own one; the figures in results."""

from __future__ import annotations

import json

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import path_event
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import failover
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder

IQN = "iqn.2026-01.lab.example:bench"


def layers(**changes) -> dict:
    target = {
        "name": "target-bench",
        "kind": "target",
        "host": "target01",
        "detail": {"provider": "open_iscsi"},
        "identity": {},
    }
    disk = {
        "name": "initiator-bench",
        "kind": "initiator",
        "host": "hypervisor01",
        "parent": "target-bench",
        "purpose": "scratch",
        "detail": {"provider": "open_iscsi"},
        "identity": {"target_iqn": IQN, "lun": 0},
        "size_bytes": 32 << 20,
    }
    return {
        "target-bench": {**target, **changes.get("target", {})},
        "initiator-bench": {**disk, **changes.get("disk", {})},
    }


def test_a_disk_that_would_be_written_twice_is_refused():
    # By hand: 50 I/Os of 4 KiB for 20 + 20 + 40 s.
    enough = 50 * 4096 * 80
    failover.plan({}, layers(disk={"size_bytes": enough}))
    with pytest.raises(Failure) as caught:
        failover.plan({}, layers(disk={"size_bytes": enough - 4096}))
    assert "testbed_failover.rate_iops is 50" in str(caught.value) and f"{enough} bytes" in str(caught.value)


def test_every_setting_is_measured_with_every_event():
    words = {"settings": {"5s": {"replacement_timeout_s": 5}, "20s": {"replacement_timeout_s": 20}}}
    plan = failover.plan({**words, "events": {"dropped": {}, "away": {"for_s": 30}}}, layers())
    assert {
        entry["name"]: (entry["vars"]["event"]["for_s"], entry["vars"]["setting"]) for entry in plan["variants"]
    } == {
        "dropped-5s": (0, {"replacement_timeout_s": 5}),
        "dropped-20s": (0, {"replacement_timeout_s": 20}),
        "away-5s": (30, {"replacement_timeout_s": 5}),
        "away-20s": (30, {"replacement_timeout_s": 20}),
    }
    assert (plan["layer"], plan["host"], plan["target"], plan["target_host"]) == (
        "initiator-bench",
        "hypervisor01",
        IQN,
        "target01",
    )


def test_the_load_lasts_from_before_the_longest_event_until_after_it():
    plan = failover.plan({"events": {"away": {"for_s": 30}}, "before_s": 15, "rest_s": 25, "rate_iops": 40}, layers())
    workload = normalise(plan["workload"])
    assert workload["io_bytes"] == 40 * (15 + 30 + 25) * 4096
    assert (workload["verify"], workload["on_error"], workload["rate_process"]) == ("crc32c", "continue", "poisson")
    assert [entry["name"] for entry in plan["variants"]] == ["away"]
    assert plan["before_s"] == 15 and plan["deadline_s"] > 70


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        ({"layers": "x"}, "testbed_failover.layers"),
        ({"rounds": 0}, "testbed_failover.rounds"),
        ({"rounds": True}, "testbed_failover.rounds"),
        ({"before_s": 2}, "testbed_failover.before_s"),
        ({"events": {}}, "testbed_failover.events"),
        ({"events": {"A b": {}}}, "testbed_failover.events"),
        ({"events": {"a": {"kind": "power_off"}}}, "testbed_failover.events.a.kind"),
        ({"events": {"a": {"for_s": -1}}}, "testbed_failover.events.a.for_s"),
        ({"events": {"a": {"for": 1}}}, "testbed_failover.events.a.for"),
        ({"settings": {"a": {"path_policy": "x"}}}, "testbed_failover.settings.a.path_policy"),
        ({"settings": {"a": {"replacement_timeout_s": 0}}}, "testbed_failover.settings.a.replacement_timeout_s"),
        ({"layer": "target-bench"}, "testbed_failover.layer"),
        ({"block_size": "4q"}, "testbed_failover.block_size"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_its_name(words, variable):
    with pytest.raises(Failure) as caught:
        failover.plan(words, layers())
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


@pytest.mark.parametrize(
    "changes",
    [
        {"disk": {"purpose": "data"}},
        {"disk": {"kind": "datastore"}},
        {"disk": {"parent": None}},
        {"disk": {"detail": {"provider": "nvme_tcp"}}},
        # Storage that was there before the testbed has no layer of the testbed's target below it.
        {"disk": {"parent": "theirs"}},
    ],
)
def test_a_disk_whose_target_is_not_the_testbeds_own_is_refused(changes):
    with pytest.raises(Failure, match="this testbed has none"):
        failover.plan({}, layers(**changes))


def test_of_several_disks_one_has_to_be_named():
    two = {**layers(), "initiator-two": {**layers()["initiator-bench"], "name": "initiator-two"}}
    with pytest.raises(Failure, match="initiator-bench, initiator-two"):
        failover.plan({}, two)
    assert failover.plan({"layer": "initiator-two"}, two)["layer"] == "initiator-two"


def test_a_target_with_a_disk_that_keeps_data_is_not_switched_off():
    kept = {**layers()["initiator-bench"], "name": "initiator-ds1", "purpose": "data"}
    with pytest.raises(Failure, match="also has initiator-ds1, which keeps data"):
        failover.plan({}, {**layers(), "initiator-ds1": kept})
    elsewhere = {**kept, "identity": {"target_iqn": "iqn.2026-01.lab.example:other", "lun": 0}}
    assert failover.plan({}, {**layers(), "initiator-ds1": elsewhere})["layer"] == "initiator-bench"


# ---------------------------------------------------------------- the results


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with one point: 50 I/Os a second, none for 10 s from the 20th second on."""
    run_dir = tmp_path / "lab" / "first"
    point = run_dir / "points" / "initiator-bench.p.away.r2"
    point.mkdir(parents=True)
    result = {
        "schema": "storlab.result/1",
        "point_id": point.name,
        "host": "hypervisor01",
        "variant": "away",
        "repetition": 2,
        "started_utc": "2026-11-29T08:00:00.000Z",
        "errors": {"total": 3},
        "status": "measured",
        "workload": {"verify": "crc32c"},
        "total": {"ios": 3500},
    }
    (point / "result.json").write_text(json.dumps(result), encoding="utf-8")
    counts = [25] * 40 + [0] * 20 + [25] * 80
    windows = {
        "counts_window_s": 0.5,
        "counts": counts,
        "counts_from_unix_s": 1000.0,
        "first_error_unix_s": [1024.9, 1025.1],
    }
    (point / "meta.json").write_text(json.dumps({"windows": [windows]}), encoding="utf-8")
    run_folder.remember_clock(str(run_dir), "target01", {"offset_s": 100.0, "uncertain_s": 0.02})
    run_folder.remember_clock(str(run_dir), "hypervisor01", {"offset_s": -50.0, "uncertain_s": 0.03})
    event = {"kind": "target_off", "for_s": 10, "begun_unix_s": [1170.0, 1170.0], "undone_unix_s": [1180.0, 1180.0]}
    made = {"away.r2": event, "away.r1": event}
    monkeypatch.setattr(path_event.ActionModule, "_module", lambda *_arguments: {"changed": False, "events": made})
    return run_dir


def collected(run, **more) -> dict:
    args = {"state": "collected", "testbed_id": "lab", "run_id": run.name, "results_dir": str(run.parents[1])}
    action = actions.make(path_event, {**args, **more})
    return action.run(task_vars={"inventory_hostname": "target01"})


def test_a_result_gets_the_figures_of_the_event_of_its_turn(run):
    answer = collected(run)
    assert (answer["changed"], answer["added"], answer["missed"]) == (True, ["initiator-bench.p.away.r2"], {})
    ((_name, result),) = run_folder.results(str(run))
    event = result["event"]
    assert (event["host"], event["failed_ios"], event["verified"], event["uncertain_s"]) == ("target01", 3, True, 0.05)
    assert event["stall_least_s"] <= 10.0 <= event["stall_most_s"]
    assert event["error_least_s"] <= 5.0 <= event["error_most_s"]


def test_without_the_clock_of_a_host_nothing_is_added(run):
    (run / "clocks.json").write_text(json.dumps({"target01": {"offset_s": 1.0, "uncertain_s": 0.1}}), encoding="utf-8")
    answer = collected(run)
    assert (answer["changed"], answer["added"]) == (False, [])
    assert "start the observer on both" in answer["missed"]["initiator-bench.p.away.r2"]
    assert "event" not in next(result for _name, result in run_folder.results(str(run)))
