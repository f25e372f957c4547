# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When an installation has begun and ended, what is refused, and what the host counted meanwhile: worked out by hand."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import installation as util
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import installation_plan

WANT = {
    "testbed_id": "lab",
    "name": "vm01",
    "run_id": "run-1",
    "until": "powered_off",
    "installation_timeout_s": 600,
    "settle_s": 20,
    "reconnect_s": 60,
    "join": False,
    "power_off_at_timeout": False,
}
STATE = {
    "owner": "lab",
    "building": False,
    "accessible": True,
    "lost": [],
    "power": "off",
    "path": "[lab-ds1] vm01/vm01.vmx",
    "extra": {},
    "disks": [{"key": 2000, "path": "[lab-ds1] vm01/vm01.vmdk"}],
    "cdroms": [{"key": 3000, "iso": "[lab-ds1] xp.iso"}],
}
# 2026-11-21T12:00:00Z; samples end at whole 20 s.
NOON = 1795262400


def state(record: dict | None = None, **changes) -> dict:
    return {**STATE, "extra": {installation_plan.RECORD_KEY: json.dumps(record)} if record else {}, **changes}


def code(act, *arguments) -> str:
    with pytest.raises(Failure) as caught:
        act(*arguments)
    return caught.value.code


def ops(steps: list) -> list:
    return [step["op"] for step in steps]


# ---------------------------------------------------------------- planning


def test_the_disk_that_is_installed_on_came_with_the_machine():
    spot = {"controller": "ide", "bus": 0, "chain": []}
    theirs = {**spot, "key": 2000, "unit": 0, "uuid": "u-0", "path": "[golden] data.vmdk"}
    ours = {**spot, "key": 2001, "unit": 1, "uuid": "u-1", "path": "[lab-ds1] vm01/vm01.vmdk"}
    recorded = state(disks=[theirs, ours], extra={"storlab.disk.system": "ide 0:1 thin u-1"})
    assert installation_plan.system_disk(recorded) is ours
    assert installation_plan.system_disk(state()) is STATE["disks"][0]


def test_each_stage_of_an_installation_is_taken_up_where_it_was_left():
    assert ops(installation_plan.plan(state(), WANT)) == ["remember", "power_on", "wait"]
    assert ops(installation_plan.plan(state(power="on"), {**WANT, "join": True})) == ["remember", "wait"]
    armed, going = (
        {"run_id": "run-1", "armed_utc": "2026-11-21T12:00:00Z"},
        {"run_id": "run-1", "started_utc": "2026-11-21T12:00:01Z"},
    )
    assert ops(installation_plan.plan(state(armed), WANT)) == ["power_on", "wait"]
    assert ops(installation_plan.plan(state(armed, power="on"), WANT)) == ["wait"]
    # It may have ended while nobody looked: it is never turned on again.
    assert (
        ops(installation_plan.plan(state(going), WANT))
        == ops(installation_plan.plan(state(going, power="on"), WANT))
        == ["wait"]
    )
    assert (
        installation_plan.plan(
            state({**going, "finished_utc": "2026-11-21T12:09:00Z", "ended_by": "powered_off"}), WANT
        )
        == []
    )


@pytest.mark.parametrize(
    ("given", "want", "expected"),
    [
        (None, {}, "vm_missing"),
        (state(owner="other"), {}, "vm_foreign"),
        (state(owner=None), {}, "vm_foreign"),
        (state(building=True), {}, "vm_incomplete"),
        (state(accessible=False), {}, "vm_lost"),
        (state(lost=["lab-ds1"]), {}, "vm_lost"),
        (state(disks=[]), {}, "disk_missing"),
        (state(cdroms=[]), {}, "iso_missing"),
        (state(cdroms=[{"key": 1, "iso": None}]), {}, "iso_missing"),
        (state(cdroms=[{"key": 1, "iso": "/vmfs/devices/cdrom/x"}]), {}, "iso_missing"),
        (state(power="on"), {}, "vm_running"),
        (state(power="suspended"), {}, "vm_running"),
        (state({"run_id": "run-0", "started_utc": "x"}, power="on"), {}, "installation_running"),
        # Joining is for machines that remember nothing.
        (state({"run_id": "run-0", "started_utc": "x"}, power="on"), {"join": True}, "installation_running"),
        (state({"run_id": "run-0", "started_utc": "x", "finished_utc": "y"}), {}, "already_installed"),
        (state({"run_id": "run-0", "started_utc": "x", "given_up_utc": "y"}), {}, "already_installed"),
        (state({"run_id": "run-1", "started_utc": "x", "given_up_utc": "y"}), {}, "installation_given_up"),
        (state(extra={installation_plan.RECORD_KEY: "run-1"}), {}, "record_damaged"),
        (state(extra={installation_plan.RECORD_KEY: "[]"}), {}, "record_damaged"),
        (state(extra={installation_plan.RECORD_KEY: "{}"}), {}, "record_damaged"),
    ],
)
def test_machines_that_cannot_be_timed_are_refused(given, want, expected):
    assert code(installation_plan.plan, given, {**WANT, **want}) == expected


@pytest.mark.parametrize(
    ("key", "value"), [("run_id", ""), ("installation_timeout_s", 0), ("settle_s", -1), ("reconnect_s", -1)]
)
def test_bad_values_are_refused_before_a_host_is_asked(key, value):
    params = {**WANT, "repetition": None}
    assert installation_plan.check(params) == WANT
    assert code(installation_plan.check, {**params, key: value}) == "bad_value"


# ---------------------------------------------------------------- when it began


def test_start_is_the_first_time_that_the_machine_was_turned_on_for_it():
    events = [("on", 500.0), ("off", 900.0), ("on", 1003.5), ("off", 1200.0), ("on", 1210.0)]
    assert util.began(events, boot_s=1210.5, armed_s=1003.0, now_s=1300.0) == 1003.5
    # A host that has lost its events knows since when it runs; else it is the look after it was turned on.
    assert util.began([], boot_s=1004.25, armed_s=1003.0, now_s=1005.0) == 1004.25
    assert util.began([("on", 500.0)], boot_s=None, armed_s=1003.0, now_s=1005.0) == 1005.0
    assert util.began([], boot_s=501.0, armed_s=1003.0, now_s=1005.0) == 1005.0


def test_start_of_a_machine_that_ran_already_is_its_last():
    assert (
        util.began([("on", 500.0), ("off", 900.0), ("on", 1003.5)], boot_s=1003.0, armed_s=None, now_s=1300.0) == 1003.5
    )
    assert util.began([("off", 900.0)], boot_s=1003.0, armed_s=None, now_s=1300.0) == 1003.0
    assert code(util.began, [("off", 900.0)], None, None, 1300.0) == "start_unknown"


# ---------------------------------------------------------------- when it ended


def seen(now_s: float, power: str = "on", **changes) -> dict:
    look = {"from_s": now_s, "now_s": now_s, "power": power, "clean": None, "tools": False, "address": None}
    return {**look, "question": None, **changes}


def watched(looks: list, events: list = (), started_s: float = 1000.0, alive_s: float | None = 1000.0, **want) -> tuple:
    """(what the looks have led to, how often events were asked for)."""
    watch, asked, found = util.Watch({**WANT, **want}, started_s, alive_s), [], None

    def ask():
        asked.append(True)
        return events

    for look in looks:
        assert found is None, "it ended before the last look"
        found = watch.look(look, ask)
    return found, len(asked)


def test_a_slow_look_makes_the_end_less_certain():
    """A machine that was on when the look began may have gone off before the host was asked for the time."""
    looks = [seen(1050, from_s=1047.5), seen(1052, "off"), seen(1072, "off")]
    assert watched(looks)[0] == {"ended_by": "powered_off", "finished_s": 1052, "uncertain_s": 4.5}


def test_the_end_is_the_event_of_the_power_off_that_lasted():
    events = [("on", 1000.0), ("off", 1100.25), ("on", 1110.0), ("off", 1399.75)]
    looks = [
        seen(1050),
        seen(1101, "off"),
        seen(1109, "off"),
        seen(1111),
        seen(1400, "off"),
        seen(1419, "off"),
        seen(1420, "off"),
    ]
    assert watched(looks, events) == ({"ended_by": "powered_off", "finished_s": 1399.75}, 1)
    assert watched(looks[:-1], events) == (None, 0)


def test_without_events_the_end_is_where_it_was_first_seen_off():
    assert watched([seen(1050), seen(1052), seen(1053.5, "off"), seen(1080, "off")]) == (
        {"ended_by": "powered_off", "finished_s": 1053.5, "uncertain_s": 1.5},
        1,
    )
    # Of a joined run nobody knows when that was, and an event of before its start does not help.
    for events in ([], [("off", 999.0)], [("off", 2000.0)]):
        assert code(watched, [seen(1500, "off"), seen(1521, "off")], events, 1000.0, None) == "end_unseen"
    assert watched([seen(1500, "off"), seen(1521, "off")], [("off", 1321.0)], alive_s=None)[0]["finished_s"] == 1321.0


@pytest.mark.parametrize(("until", "sign"), [("tools_running", {"tools": True}), ("address", {"address": "10.0.0.9"})])
def test_signs_of_the_guest_end_it_when_they_are_what_is_waited_for(until, sign):
    assert watched([seen(1200), seen(1201.5, **sign)], until=until) == (
        {"ended_by": until, "finished_s": 1201.5, "uncertain_s": 1.5},
        0,
    )
    assert watched([seen(1200), seen(1201.5, **sign)])[0] is None
    other = {"tools_running": "address", "address": "tools_running"}[until]
    assert watched([seen(1200), seen(1201.5, **sign)], until=other)[0] is None
    assert code(lambda: watched([seen(1200, **sign)], alive_s=None, until=until)) == "end_unseen"
    # Of a machine that is suspended they are of before.
    assert watched([seen(1200), seen(1201.5, "suspended", **sign)], until=until)[0] is None


def test_power_off_before_the_sign_or_by_a_crash_is_no_end():
    looks = [seen(1050), seen(1100, "off"), seen(1121, "off")]
    assert code(lambda: watched(looks, [("off", 1099.5)], until="tools_running")) == "installation_broken"
    crashed = [seen(1050), seen(1100, "off", clean=False), seen(1121, "off", clean=False)]
    assert code(lambda: watched(crashed, [("off", 1099.5)])) == "installation_broken"
    assert watched([*looks[:2], seen(1121, "off", clean=True)], [("off", 1099.5)])[0]["finished_s"] == 1099.5
    # A restart is none either.
    assert watched([*looks[:2], seen(1119)], until="tools_running")[0] is None


def test_question_and_time_are_told():
    with pytest.raises(Failure, match="Out of space") as caught:
        watched([seen(1050), seen(1060, question="Out of\n space.")])
    assert caught.value.code == "vm_asks"
    assert watched([seen(1600)])[0] is None
    assert code(lambda: watched([seen(1600), seen(1601)])) == "installation_timeout"
    assert code(lambda: watched([seen(1601, "suspended")])) == "installation_timeout"
    # What is off by then has its time to settle, and has ended in time.
    assert watched([seen(1599), seen(1601, "off"), seen(1621, "off")], [("off", 1600.5)])[0]["finished_s"] == 1600.5


# ---------------------------------------------------------------- what the host counted


def samples(reads: tuple, writes: tuple, **changes) -> dict:
    columns = {
        ("cpu.usagemhz.average", ""): tuple(1000 + 100 * place for place in range(len(reads))),
        ("datastore.numberReadAveraged.average", "5f-uuid"): reads,
        ("datastore.numberWriteAveraged.average", "5f-uuid"): writes,
        ("datastore.numberReadAveraged.average", "6a"): tuple(9999 for _read in reads),
    }
    return {
        "host": "esxi01",
        "product": "VMware ESXi 8.0.2",
        "simulated": False,
        "clock": {"offset_s": 0.0, "uncertain_s": 0.001},
        "sample_s": 20,
        "hardware": {"cores": 8, "mhz": 2500},
        "names": {"datastores": {"5f-uuid": "lab-ds1", "6a": "other"}, "adapters": {}, "disks": {}},
        "machines": {},
        "host_samples": {
            "columns": [list(column) for column in columns],
            "rows": [
                [NOON + 20 * place, 20, *(values[place] for values in columns.values())] for place in range(len(reads))
            ],
        },
        **changes,
    }


def test_commands_are_of_the_samples_that_lie_in_it_as_a_whole():
    # Rows end at noon, 12:00:20, …; from 12:00:05 to 12:01:59 those that end from 12:00:40 to 12:01:40 lie in it.
    told = util.counted(
        samples((7, 7, 100, 200, 400, 300, 7), (7, 7, 11, 12, 13, 14, 7)), NOON + 5, NOON + 119, "lab-ds1"
    )
    assert (told["samples"], told["interval_s"], told["sample_s"], told["cpu"]["used_mhz"]) == (4, 80, 20, 1350)
    store = told["datastore"]
    assert (store["name"], store["read_iops"], store["write_iops"]) == ("lab-ds1", 250, 12.5)
    # 111, 212, 413 and 314; of four the 95th percentile is the highest.
    assert store["commands_s"] == {"mean": 262.5, "p95": 413, "max": 413}
    assert (
        "simulated" not in told
        and util.counted(samples((1, 2), (3, 4), simulated=True), NOON, NOON + 20, "lab-ds1")["simulated"] is True
    )


def test_p95_of_many_samples_is_not_their_highest():
    reads = tuple(range(1, 41))
    told = util.counted(samples(reads, (0,) * 40), NOON - 20, NOON + 780, "lab-ds1")["datastore"]["commands_s"]
    assert told == {"mean": 20.5, "p95": 38, "max": 40}


def test_what_is_not_known_is_left_out():
    assert code(util.counted, samples((1, 2), (3, 4)), NOON + 1, NOON + 20, "lab-ds1") == "interval_too_short"
    assert util.counted(samples((1, 2), (3, 4)), NOON, NOON + 20, "nowhere")["datastore"] == {"name": "nowhere"}
    gap = samples((1, None, 3), (4, 5, 6))
    assert "commands_s" not in util.counted(gap, NOON - 20, NOON + 40, "lab-ds1")["datastore"]
    lost = samples((1, 2, 3, 4), (5, 6, 7, 8))
    del lost["host_samples"]["rows"][1]
    assert code(util.counted, lost, NOON - 20, NOON + 60, "lab-ds1") == "not_observed"


def test_line_says_how_long_and_how_busy():
    timed = {
        "guest": "vm01",
        "datastore": "lab-ds1",
        "duration_s": 512.34,
        "counters": {
            "samples": 25,
            "sample_s": 20,
            "datastore": {"commands_s": {"mean": 211.6, "p95": 391, "max": 402}},
        },
    }
    assert util.line(timed) == (
        "vm01 on lab-ds1: installed in 512.3 s; 212 commands/s on average, 95 % of samples at most 391, highest 402 "
        "(25 samples of 20 s)"
    )
    assert "simulated" in util.line({**timed, "counters": {**timed["counters"], "simulated": True}})
    assert util.line(
        {"guest": "vm01", "datastore": "ds", "duration_s": 9, "uncertain_s": 1.04, "counters_missed": "No samples."}
    ) == ("vm01 on ds: installed in 9.0 s (up to 1.0 s less); no counters: No samples.")


def test_a_machine_remembers_for_which_repetition_it_was_installed():
    assert installation_plan.check({**WANT, "repetition": None})["run_id"] == "run-1"
    second = installation_plan.check({**WANT, "repetition": 2})
    assert second["run_id"] == "run-1.r2"
    over = {"run_id": "run-1.r2", "started_utc": "2026-11-21T12:00:01Z", "finished_utc": "2026-11-21T12:10:01Z"}
    assert installation_plan.plan(state(over), second) == []
    assert code(installation_plan.plan, state({**over, "run_id": "run-1.r1"}), second) == "already_installed"
    assert code(installation_plan.check, {**WANT, "repetition": 0}) == "bad_value"


def test_the_line_of_an_installation_names_its_repetition():
    timed = {"guest": "ram", "datastore": "ds1", "duration_s": 512.34}
    assert util.line(timed) == "ram on ds1: installed in 512.3 s"
    assert util.line({**timed, "repetition": 3}) == "ram on ds1, repetition 3: installed in 512.3 s"
