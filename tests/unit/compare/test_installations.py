# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installations in Linux guests: as they are kept, what other hosts counted of the datastores, and the verdict on their times."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import installations as compare_installations
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import additions, installations


def layer(name: str, kind: str, parent: str | None, **changes) -> dict:
    return {
        "name": name,
        "kind": kind,
        "host": "h1",
        "path": f"/dev/{name}",
        "parent": parent,
        "identity": {},
        **changes,
    }


LAYERS = {
    "guest-g1": layer("guest-g1", "guest", "datastore-ds1", host="g1", detail={"emulated": True}),
    "datastore-ds1": layer("datastore-ds1", "datastore", "initiator-ds1", path="/srv/ds1/file.dat"),
    "initiator-ds1": layer("initiator-ds1", "initiator", "target-ds1"),
    "target-ds1": layer("target-ds1", "target", None, host="t1", path=None),
}
MEASURED = {
    "started_utc": "2026-01-01T00:00:00.000Z",
    "finished_utc": "2026-01-01T00:00:12.500Z",
    "duration_s": 12.5,
    "phases": {"filesystem_s": 0.5, "retrieve_s": 2.0, "extract_s": 4.0, "install_s": 5.5, "sync_s": 0.5},
    "packages": 26,
    "package_bytes": 12200000,
    "installed_bytes": 70000000,
    "counters": {"interval_s": 12.5, "cpu": {}, "device": {}},
}


def kept(**changes) -> dict:
    params = {"testbed_id": "lab", "run_id": "r", "repetition": 2, "medium": {"index_sha256": "m"}}
    return {**installations.of_debian(params, LAYERS["guest-g1"], dict(MEASURED)), **changes}


def test_what_is_kept_says_where_it_was_and_how_it_is_scaled_down():
    timed = kept()
    assert (timed["guest"], timed["host"], timed["datastore"], timed["repetition"]) == ("g1", "g1", "ds1", 2)
    assert timed["iso"] == "Debian scaled down to 26 packages, 12.2 MB" and timed["emulated"] is True
    assert installations.line(timed) == (
        "g1 on ds1, repetition 2: installed in 12.5 s (filesystem 0.5 s, retrieve 2.0 s, extract 4.0 s, install 5.5 s, sync 0.5 s)"
    )
    assert "counters_missed" not in timed


def test_a_clock_that_was_set_leaves_the_time_and_no_counters_of_others(tmp_path):
    params = {"testbed_id": "lab", "run_id": "r", "repetition": 1, "medium": {"index_sha256": "m"}}
    timed = installations.of_debian(params, LAYERS["guest-g1"], {**MEASURED, "clock_stepped": True})
    assert timed["duration_s"] == 12.5 and timed["counters_missed"] and "clock_stepped" not in timed


def test_the_first_disk_below_the_guest_is_what_carries_the_datastore():
    assert installations.storage_of(LAYERS, kept())["name"] == "initiator-ds1"
    assert (
        installations.storage_of(
            {**LAYERS, "initiator-ds1": layer("initiator-ds1", "initiator", None, path=None)}, kept()
        )
        is None
    )
    assert installations.storage_of({}, kept()) is None


def test_samples_lie_in_the_installation_as_a_whole():
    asked = installations.intervals(kept())
    begin = asked["whole"][0]
    assert asked["whole"] == [begin, begin + 12.5]
    assert asked["0"] == [begin, begin + 5] and asked["1"] == [begin + 5, begin + 10] and len(asked) == 3


def counted(reads: int, writes: int, interval_s: float) -> dict:
    device = {
        "name": "sdb",
        "interval_s": interval_s,
        "read": {"ios": reads, "bytes": 0},
        "write": {"ios": writes, "bytes": 0},
    }
    return {"interval_s": interval_s, "cpu": {}, "layers": {"initiator-ds1": device, "initiator-other": device}}


def test_commands_a_second_are_of_the_datastores_device_alone():
    observed = {"whole": counted(300, 700, 10.0), "0": counted(10, 30, 4.0), "1": counted(200, 200, 5.0)}
    addition = installations.addition("h1", LAYERS["initiator-ds1"], observed)
    assert addition["counters"]["datastore"] == {
        "host": "h1",
        "layer": "initiator-ds1",
        "commands_s": {"mean": 100.0, "p95": 80.0, "max": 80.0},
    }
    assert addition["counters"]["samples"] == 2
    assert list(addition["counters"]["hosts"]["h1"]["layers"]) == ["initiator-ds1"]
    timed = kept()
    merged = additions.merged(timed, [{**addition, "of": additions.measurement(timed)}])
    assert merged["counters"]["interval_s"] == 12.5 and merged["counters"]["datastore"]["commands_s"]["mean"] == 100.0


def test_a_host_that_counted_nothing_of_it_adds_nothing():
    assert installations.addition("h1", LAYERS["target-ds1"], {"whole": counted(1, 1, 1.0)}) is None
    assert installations.addition("h1", LAYERS["initiator-ds1"], {}) is None


@pytest.mark.parametrize(
    "file, changes, right",
    [
        ("installations/g1.r2.json", {}, True),
        ("installations/g1.r1.json", {}, False),
        ("installations/g1.r2.json", {"repetition": True}, False),
        ("installations/g1.r2.json", {"repetition": "2"}, False),
        ("installations/g1.r2.json", {"layer": None}, False),
        ("installations/ram.json", {"repetition": None}, True),
        # Of a machine on ESXi the layer is its datastore, so the file has the name of the guest.
        ("installations/on-ram.r2.json", {"guest": "on-ram", "layer": "datastore-ds1"}, True),
        ("installations/ds1.r2.json", {"guest": "on-ram", "layer": "datastore-ds1"}, False),
    ],
)
def test_a_number_of_repetition_is_there_once(file, changes, right):
    assert installations.named(file, kept(**changes)) is right


# ---------------------------------------------------------------- the verdict


def series(times: dict[str, list[float]], medium: str = "m", apart_s: int = 100) -> list[dict]:
    """In turns, from another datastore each round."""
    made, clock = [], 0
    for number in range(max(map(len, times.values()))):
        for name in sorted(times, reverse=bool(number % 2)):
            clock += apart_s
            made.append(
                {
                    "layer": f"guest-{name}",
                    "datastore": name,
                    "medium": medium,
                    "repetition": number + 1,
                    "duration_s": times[name][number],
                    "started_utc": f"2026-01-01T{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.000Z",
                    "testbed_id": "lab",
                    "run_id": "r",
                }
            )
    return made


def around(middle: float, count: int, seed: int) -> list[float]:
    generator = random.Random(seed)  # noqa: S311
    return [middle * math.exp(generator.gauss(0, 0.01)) for _number in range(count)]


@pytest.mark.parametrize("ram, verdict", [(40.0, "better"), (60.0, "worse"), (50.0, "no_difference")])
def test_a_shorter_time_is_better_and_the_interval_holds_the_truth(ram, verdict):
    (row,) = compare_installations.verdicts(series({"raid": around(50.0, 8, 1), "ram": around(ram, 8, 2)}))
    assert row["verdict"] == verdict
    assert row["change_low_percent"] - 1 < 100 * (ram / 50 - 1) < row["change_high_percent"] + 1
    assert row["baseline"]["datastore"] == "raid" and row["candidate"]["datastore"] == "ram"
    assert row["candidate"]["repetitions"] == 8
    assert row["sentence"].startswith("ram against raid: installed in ") and "Measured in turns" in row["sentence"]


def test_too_few_repetitions_are_said_and_no_verdict():
    (row,) = compare_installations.verdicts(series({"raid": [50.0, 51.0], "ram": [20.0, 21.0]}))
    assert row["verdict"] == "no_verdict" and "2 of at least 4 repetitions, run 2 more" in row["sentence"]
    (row,) = compare_installations.verdicts(series({"raid": [50.0], "ram": [20.0]}))
    assert row["verdict"] == "no_verdict" and "run 3 more" in row["sentence"]


def test_times_that_scatter_more_than_they_differ_cannot_tell():
    (row,) = compare_installations.verdicts(series({"raid": [50.0, 90.0, 40.0, 70.0], "ram": [60.0, 45.0, 85.0, 52.0]}))
    assert row["verdict"] == "cannot_tell"


def test_one_block_after_the_other_is_no_verdict_of_the_datastore():
    blocks = series({"ram": around(20.0, 5, 3)}) + [
        {**timed, "started_utc": timed["started_utc"].replace("2026-01-01", "2026-01-02")}
        for timed in series({"raid": around(50.0, 5, 4)})
    ]
    (row,) = compare_installations.verdicts(blocks)
    # Two and a half times as long is more than time explains, a fifth is not.
    assert row["verdict"] == "better" and "more than time explains" in row["sentence"]
    near = series({"ram": around(20.0, 5, 3)}) + [
        {**timed, "started_utc": timed["started_utc"].replace("2026-01-01", "2026-01-02")}
        for timed in series({"raid": around(24.0, 5, 4)})
    ]
    (row,) = compare_installations.verdicts(near)
    assert row["verdict"] in ("different", "cannot_tell") and "may be drift" in row["sentence"]


def test_only_the_same_packages_are_compared():
    other = series({"ram": [20.0, 21.0, 20.0, 21.0]}, medium="other")
    assert compare_installations.verdicts(series({"raid": [50.0, 51.0, 50.0, 51.0]}) + other) == []
    assert compare_installations.verdicts([{"guest": "xp", "datastore": "raid", "duration_s": 5.0}]) == []


def test_each_of_several_datastores_is_set_against_the_first_one():
    rows = compare_installations.verdicts(
        series({"a": around(50.0, 6, 5), "b": around(50.0, 6, 6), "c": around(90.0, 6, 7)})
    )
    assert [(row["candidate"]["datastore"], row["verdict"]) for row in rows][1] == ("c", "worse")
    assert rows[0]["confidence_percent"] == pytest.approx(97.5)


def test_machines_that_differ_by_more_than_their_datastore_are_not_compared():
    timed = series({"raid": around(50.0, 4, 1), "ram": around(40.0, 4, 2)})
    alike = [{**one, "vm": {"name": one["datastore"], "vcpus": 1, "disk": {"controller": "ide"}}} for one in timed]
    (row,) = compare_installations.verdicts(alike)
    assert row["verdict"] == "better"
    for one in alike:
        one["vm"] = {**one["vm"], "disk": {"controller": "ide" if one["datastore"] == "ram" else "lsilogic"}}
    assert compare_installations.verdicts(alike) == []
    assert compare_installations.verdicts([{**one, "vm": "?"} for one in timed])[0]["verdict"] == "better"
