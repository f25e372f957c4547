# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The latency of a layer split by what the devices below counted, against chains whose every I/O was simulated."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render, split, terminal, views
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture

BLOCK = 4096
# Mean time of an I/O in each part of the chain, in ns: what fio and the guest's kernel take, then what lies between devices.
TRUTH = {"engine": 11_000, "guest": 83_000, "datastore": 29_000, "initiator": 167_000, "target": 47_000, "raid": 61_000}
CHAIN = [
    {"name": "guest-a", "kind": "guest", "host": "vm", "parent": "datastore-a"},
    {"name": "datastore-a", "kind": "datastore", "host": "hyp", "parent": "initiator-a"},
    {"name": "initiator-a", "kind": "initiator", "host": "hyp", "parent": "target-a"},
    {"name": "target-a", "kind": "target", "host": "san", "parent": "backing-a"},
    {"name": "backing-a", "kind": "backing", "host": "san", "parent": None},
]
DEVICES = {"guest-a": ("vm", "vdb"), "initiator-a": ("hyp", "sdc"), "backing-a": ("san", "md7")}
# What of TRUTH an I/O still has before it when it reaches the device.
BELOW = {
    "guest-a": ("guest", "datastore", "initiator", "target", "raid"),
    "initiator-a": ("initiator", "target", "raid"),
    "backing-a": ("raid",),
}


def counted(device, requests, spent_ns, seconds, size=BLOCK):
    return {
        "name": device,
        "interval_s": seconds,
        "read": {"ios": requests, "bytes": requests * size},
        "write": {"ios": 0, "bytes": 0},
        "merged_ios": 0,
        "in_flight": round(spent_ns / 1e9 / seconds, 6),
    }


def measured(repetition, truth=None, devices=DEVICES, ios=4000, noise=0.05):
    """A result as four loops of one I/O each would leave it; every part of every I/O takes an exponential time around its truth, which differs a
    little from one repetition to the next. Observers count three quarters of the time."""
    dice, truth = random.Random(f"{repetition}"), {**TRUTH, **(truth or {})}  # noqa: S311
    shift = {part: 1 + noise * dice.uniform(-1, 1) for part in truth}
    times = [{part: dice.expovariate(1 / (mean * shift[part])) for part, mean in truth.items()} for _ in range(ios)]
    whole_ns = sum(sum(one.values()) for one in times)
    seconds = whole_ns / 4 / 1e9
    own, others = {}, {}
    for layer, (host, device) in devices.items():
        part = times if host == "vm" else times[: ios * 3 // 4]
        spent = sum(one[name] for one in part for name in BELOW[layer])
        span = seconds * sum(sum(one.values()) for one in part) / whole_ns
        (own if host == "vm" else others.setdefault(host, {"layers": {}})["layers"])[layer] = counted(
            device, len(part), spent, span
        )
    return {
        "layer": "guest-a",
        "host": "vm",
        "repetition": repetition,
        "total": {
            "ios": ios,
            "iops": ios / seconds,
            "bandwidth_bytes_s": BLOCK * ios / seconds,
            "latency_mean_ns": whole_ns / ios,
        },
        "counters": {"layers": own, "hosts": others},
    }


def told(**more):
    return split.split([measured(number, **more) for number in range(1, 6)], CHAIN)


def own_of(found):
    return {part.layers[0]: part.own_ns for part in found.parts}


# -- the formula -----------------------------------------------------------------------------------------------------


def test_every_part_is_found_within_its_interval():
    found = told()
    assert [(part.layers, part.device, part.host) for part in found.parts] == [
        (["guest-a", "datastore-a"], "vdb", "vm"),
        (["initiator-a", "target-a"], "sdc", "hyp"),
        (["backing-a"], "md7", "san"),
    ]
    guest = TRUTH["engine"] + TRUTH["guest"] + TRUTH["datastore"]
    truth = [guest, TRUTH["initiator"] + TRUTH["target"], TRUTH["raid"]]
    for part, expected in zip(found.parts, truth):
        low, high = part.own_between_ns
        assert low < expected < high and high - low < 0.5 * expected
        assert part.ios_per_io == pytest.approx(1, abs=0.1)
    assert sum(part.own_ns for part in found.parts) == pytest.approx(found.latency_mean_ns)
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    assert found.parts[0].above_ns == pytest.approx(TRUTH["engine"], rel=0.1)
    assert found.notes == []


@pytest.mark.parametrize(
    ("delayed", "at"),
    [("engine", "guest-a"), ("datastore", "guest-a"), ("initiator", "initiator-a"), ("raid", "backing-a")],
)
def test_a_delay_is_found_at_its_layer_with_its_size_and_nowhere_else(delayed, at):
    plain, slow = own_of(told(noise=0.0)), told(truth={delayed: TRUTH[delayed] + 900_000}, noise=0.0)
    grown = {layer: value - plain[layer] for layer, value in own_of(slow).items()}
    assert grown.pop(at) == pytest.approx(900_000, rel=0.05)
    assert all(abs(value) < 20_000 for value in grown.values())
    part = next(part for part in slow.parts if part.layers[0] == at)
    low, high = part.own_between_ns
    assert low < 900_000 + plain[at] < high


def test_seconds_in_which_the_engine_did_nothing_take_nothing_away():
    """The devices counted for twice as long as the engine was at work, all of them alike."""
    result, late = measured(1), measured(1)
    for figures in (late["counters"], *late["counters"]["hosts"].values()):
        for device in figures["layers"].values():
            device.update(interval_s=2 * device["interval_s"], in_flight=device["in_flight"] / 2)
    shares = split.split([late], CHAIN)
    assert own_of(shares) == pytest.approx(own_of(split.split([result], CHAIN)))
    assert shares.notes == []


def test_seconds_of_no_io_at_all_are_no_measurement_of_the_devices():
    results = [measured(number) for number in range(1, 4)]
    results[1]["counters"]["layers"]["guest-a"].update(in_flight=0.0, read={"ios": 0, "bytes": 0})
    shares = split.split(results, CHAIN)
    assert shares.repetitions == 2 and own_of(shares) == own_of(split.split([results[0], results[2]], CHAIN))


def test_one_repetition_has_no_interval():
    (first, *_others) = split.split([measured(1)], CHAIN).parts
    assert first.own_ns is not None and first.own_between_ns is None


# -- what did not count ----------------------------------------------------------------------------------------------


def test_a_device_without_statistics_is_told_together_with_what_lies_above_it():
    found = told(devices={name: DEVICES[name] for name in ("guest-a", "initiator-a")})
    assert [part.layers for part in found.parts] == [
        ["guest-a", "datastore-a"],
        ["initiator-a", "target-a", "backing-a"],
    ]
    rest = TRUTH["initiator"] + TRUTH["target"] + TRUTH["raid"]
    assert found.parts[1].own_ns == pytest.approx(rest, rel=0.05)


def test_without_a_device_at_the_top_the_engine_alone_begins():
    found = told(devices={name: DEVICES[name] for name in ("initiator-a", "backing-a")})
    assert (found.parts[0].device, found.parts[0].above_ns) == ("", None)
    assert found.parts[0].own_ns == pytest.approx(TRUTH["engine"] + TRUTH["guest"] + TRUTH["datastore"], rel=0.05)


@pytest.mark.parametrize("devices", [{}, {"guest-a": DEVICES["guest-a"]}])
def test_nothing_is_told_where_no_device_below_counted(devices):
    assert told(devices=devices) is None


def test_the_login_of_the_target_itself_is_not_on_the_way():
    result = measured(1)
    result["counters"]["hosts"]["san"]["layers"]["target-a"] = counted("sdz", 0, 0, 1.0)
    assert [part.layers[0] for part in split.split([result], CHAIN).parts] == ["guest-a", "initiator-a", "backing-a"]
    # Measured by itself it is the top.
    own = {"backing-a": counted("md7", 900, 9e7, 1.0), "target-a": counted("sdz", 900, 27e7, 1.0)}
    at_target = {**result, "host": "san", "layer": "target-a", "counters": {"layers": own}}
    at_target["total"] = {"ios": 900, "iops": 900.0, "bandwidth_bytes_s": 900.0 * BLOCK, "latency_mean_ns": 350_000}
    assert own_of(split.split([at_target], CHAIN[3:])) == pytest.approx({"target-a": 250_000, "backing-a": 100_000})


def test_two_layers_on_one_device_count_once_as_the_lower():
    result = measured(1)
    layers = result["counters"]["hosts"]["hyp"]["layers"]
    layers["datastore-a"] = dict(layers["initiator-a"])
    assert split.split([result], CHAIN).parts[0].layers == ["guest-a", "datastore-a"]


def test_repetitions_in_which_something_else_counted_are_left_out_and_said():
    results = [measured(number) for number in range(1, 6)]
    del results[2]["counters"]["hosts"]["san"]
    found = split.split(results, CHAIN)
    assert (found.repetitions, len(found.parts)) == (4, 3)
    assert found.notes == ["4 of 5 repetitions are used; in the others a different set of devices counted."]


def test_an_esxi_host_tells_by_its_own_counters():
    result = measured(1, devices={"backing-a": DEVICES["backing-a"]})
    iops = result["total"]["iops"]
    result["counters"]["esxi"] = {"host": "hyp", "device": "naa.6001", "gavg_ns": 300_000, "device_iops": iops}
    parts = split.split([result], CHAIN).parts
    assert (parts[1].device, parts[1].at_ns) == ("naa.6001", pytest.approx(300_000))
    result["counters"]["esxi"].update(simulated=True)
    assert split.split([result], CHAIN).parts[1].device == "naa.6001 (simulated)"


# -- counts that disagree --------------------------------------------------------------------------------------------


def with_disk(requests, spent_share, size):
    """A chain whose disk was given other requests: so many for each I/O, of this size, which took that share of 100 us for each I/O."""
    total = {"ios": 1000, "iops": 1000.0, "bandwidth_bytes_s": 1000.0 * BLOCK, "latency_mean_ns": 100_000}
    disk = counted("md7", requests, spent_share * 1000 * 100_000, 1.0, size)
    counters = {"layers": {}, "hosts": {"san": {"layers": {"backing-a": disk}}}}
    result = {"layer": "guest-a", "host": "vm", "repetition": 1, "total": total, "counters": counters}
    return split.split([result], CHAIN)


@pytest.mark.parametrize(
    ("requests", "size", "words"),
    [
        (
            3000,
            BLOCK // 3,
            "given 3.00 requests for each I/O. They may be served in parallel, so the time shown is an upper bound",
        ),
        (
            250,
            BLOCK * 4,
            "given 0.25 requests for each I/O. I/Os that share a request wait for all of it, so the time shown is a lower bound",
        ),
        (400, BLOCK, "moved 0.40 bytes for each byte"),
        (0, BLOCK, "Hardly any I/O reached md7 on san"),
    ],
)
def test_counts_that_are_not_those_of_the_workload_are_normalised_and_said(requests, size, words):
    found = with_disk(requests, 0.4 if requests else 0, size)
    assert own_of(found) == pytest.approx(
        {"guest-a": 60_000, "backing-a": 40_000} if requests else {"guest-a": 100_000, "backing-a": 0}
    )
    assert len(found.notes) == 1 and words in found.notes[0]


def test_more_time_below_than_above_is_refused():
    found = with_disk(3000, 2.5, BLOCK // 3)
    assert own_of(found) == {"guest-a": None, "backing-a": None}
    assert "More time was counted at md7 on san than above it" in found.notes[-1]
    assert found.verdict == ""


# -- beside the waterfall --------------------------------------------------------------------------------------------


def beside(results, initiator, backing):
    """Means of the waterfall at two layers, by repetition; those of the top are the results' own."""
    tops = {result["repetition"]: result["total"]["latency_mean_ns"] for result in results}
    values = {"guest-a": tops, "initiator-a": initiator(tops), "backing-a": backing(tops)}
    return {layer: (sum(means.values()) / len(means), means) for layer, means in values.items()}


def noisy(truth, name):
    dice = random.Random(name)  # noqa: S311
    return lambda tops: {number: truth * dice.uniform(0.97, 1.03) for number in tops}


def test_a_waterfall_that_agrees_is_said_to_agree():
    results = [measured(number) for number in range(1, 6)]
    waterfall = beside(results, noisy(275_000, "initiator"), noisy(61_000, "backing"))
    found = split.split(results, CHAIN, waterfall)
    assert sum(part.waterfall_ns for part in found.parts) == pytest.approx(found.latency_mean_ns, rel=0.01)
    assert found.elsewhere < 0.05
    assert found.verdict.endswith("the rest is within the variation of the repetitions.")


def test_of_waterfalls_that_agree_one_in_twenty_is_said_to_differ():
    wrong = 0
    for seed in range(40):
        results = [{**measured(100 * seed + number, ios=600), "repetition": number} for number in range(1, 6)]
        waterfall = beside(results, noisy(275_000, f"i{seed}"), noisy(61_000, f"b{seed}"))
        wrong += any(part.apart for part in split.split(results, CHAIN, waterfall).parts)
    assert wrong <= 6, "2 are expected; more than 6 would come by chance in 3 of 1000 trials"


def test_a_waterfall_that_puts_time_at_another_layer_is_said_to_differ_there():
    """Measured by itself the initiator took 100 us more than while the guest used it."""
    results = [measured(number) for number in range(1, 6)]
    found = split.split(results, CHAIN, beside(results, noisy(375_000, "i"), noisy(61_000, "b")))
    guest, initiator, backing = found.parts
    assert guest.against_ns == pytest.approx(100_000, rel=0.15)
    assert initiator.against_ns == pytest.approx(-100_000, rel=0.15)
    assert backing.against_between_ns[0] < 0 < backing.against_between_ns[1]
    assert found.elsewhere == pytest.approx(100_000 / found.latency_mean_ns, rel=0.1)
    assert (
        "they differ by more than repetitions vary at guest-a, datastore-a and at initiator-a, target-a."
        in found.verdict
    )


def test_a_layer_that_was_not_measured_by_itself_leaves_no_verdict():
    results = [measured(number) for number in range(1, 6)]
    waterfall = beside(results, noisy(275_000, "i"), noisy(61_000, "b"))
    del waterfall["backing-a"]
    found = split.split(results, CHAIN, waterfall)
    assert [part.waterfall_ns is None for part in found.parts] == [False, True, True]
    assert (found.elsewhere, found.verdict) == (None, "")


# -- the report ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The fixture's run, whose guest's points have counters: 40 % of each mean latency at the LUN, 10 % at the disk."""
    run = load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 1, 3))
    for result in run.results:
        if result["layer"] == "guest-guest01":
            total = result["total"]
            held = total["iops"] * total["latency_mean_ns"]

            def device(name, share, held=held, total=total):
                found = counted(name, round(total["iops"] * 2), share * held * 2, 2.0)
                found["read"]["bytes"] = round(total["bandwidth_bytes_s"] * 2)
                return found

            result["counters"] = {
                "layers": {},
                "hosts": {
                    "hypervisor01": {"layers": {"initiator-ds1": device("sdq", 0.4)}},
                    "target01": {"layers": {"backing-ds1": device("md9", 0.1)}},
                },
            }
    return run


def test_the_report_tells_the_split_in_every_form(stored):
    report = model.build(stored)
    (waterfall,) = report.waterfalls
    (found,) = waterfall.splits
    assert [round(part.share, 3) for part in found.parts] == [0.6, 0.3, 0.1]
    # The twins of the data LUN's layers stand for them.
    added = {step.cell.layer: step.cell.value("latency_mean_ns") for step in waterfall.steps}
    assert found.parts[0].waterfall_ns == pytest.approx(added["guest-guest01"] - added["initiator-bench"])
    assert found.parts[2].waterfall_ns == pytest.approx(added["backing-bench"])
    files = render.render(report)
    (content,) = json.loads(files["results.json"])["workloads"][0]["splits"]
    assert content["parts"][1]["own_ns"] == found.parts[1].own_ns
    for name in ("index.html", "report.md"):
        assert "sdq on hypervisor01" in files[name] and "md9 on target01" in files[name]
        assert found.verdict and found.verdict in files[name]
    assert any(found.verdict in line for line in terminal.table(report))


def test_without_counters_the_report_is_as_before(tmp_path):
    run = load.read_run(make_fixture.write_run(str(tmp_path), 1, 2))
    report = model.build(run)
    assert report.waterfalls[0].splits == [] and views.counters.tables(report.waterfalls[0]) == []
    files = render.render(report)
    assert "splits" not in files["results.json"] and "split by" not in files["report.md"]
