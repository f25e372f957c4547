# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was about to be made on a host: kept before the call, on disk, and matched exactly."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.kept_record import KeptRecord
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.intentions import Intentions

WANT = {"name": "ds1", "type": "vmfs", "naa": "6001405aa", "server": None, "path": None, "state": "present"}
SHARE = {**WANT, "name": "ds2", "type": "nfs", "naa": None, "server": "h", "path": "/x"}
MADE = {"name": "ds1", "naa": ["6001405aa"], "remote": None}
MOUNTED = {"name": "ds2", "naa": [], "remote": "h:/x"}


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make(tmp_path, clock):
    """Those of a host, read from the disk as the next run does."""
    return lambda host="esx1": Intentions(KeptRecord(str(tmp_path), "datastore-lab", "esx1"), host, clock)


def test_an_intention_is_on_disk_before_the_call_and_says_device_name_time_and_host(make, tmp_path):
    make().keep(WANT)
    kept = json.loads((tmp_path / "esxi" / "datastore-lab-esx1.json").read_text())["intended"]
    assert kept == {"ds1": {"name": "ds1", "naa": "6001405aa", "remote": None, "host": "esx1", "time_s": 1_700_000_000}}
    assert make().matching(MADE) == kept["ds1"]
    make().keep(SHARE)
    assert make().matching(MOUNTED)["remote"] == "h:/x"


@pytest.mark.parametrize(
    "other",
    [
        {**MADE, "name": "ds10"},
        {**MADE, "name": "DS1"},
        {**MADE, "naa": ["6001405ab"]},
        {**MADE, "naa": ["6001405aa", "6001405ab"]},
        {**MADE, "naa": [], "remote": "h:/x"},
        {**MOUNTED, "remote": "h:/x2"},
        {**MOUNTED, "name": "ds1"},
    ],
)
def test_what_differs_in_anything_does_not_come_of_it(make, other):
    make().keep(WANT)
    make().keep(SHARE)
    assert make().matching(other) is None
    assert make().matching(MADE) and make().matching(MOUNTED)


def test_the_intention_for_another_host_is_none_here(make):
    make("esx2").keep(WANT)
    assert make().matching(MADE) is None


def test_a_host_is_waited_for_until_it_shows_it_or_its_time_is_over(make, clock):
    nothing, there = {"volumes": []}, {"volumes": [MADE]}
    assert not make().awaited(nothing, WANT, 900)
    make().keep(WANT)
    assert make().awaited(nothing, WANT, 900)
    assert make().awaited({"volumes": [{**MADE, "naa": ["6001405ab"]}]}, WANT, 900)
    assert not make().awaited(there, WANT, 900)
    assert not make().awaited(nothing, SHARE, 900)
    clock.now += 901
    assert not make().awaited(nothing, WANT, 900)


def test_it_is_forgotten_when_nothing_can_come_of_it_any_more(make, clock, tmp_path):
    gone = {**WANT, "state": "absent"}
    make().keep(WANT)
    make().settle({"volumes": []}, [(gone, [])], 900)
    assert make().kept, "the host may still make it, and the next teardown must know whose it is"
    make().settle({"volumes": []}, [(gone, [{"op": "destroy"}])], 900)
    assert not make().kept, "it came, and was destroyed"
    make().keep(WANT)
    clock.now += 901
    make().settle({"volumes": []}, [(gone, [])], 900)
    assert not make().kept
    make().keep(WANT)
    make().settle({"volumes": [MADE]}, [(WANT, [])], 900)
    assert "intended" not in json.loads((tmp_path / "esxi" / "datastore-lab-esx1.json").read_text())
    make().keep(WANT)
    make().settle({"volumes": []}, [(SHARE, [])], 900)
    assert list(make().kept) == ["ds1"]


def test_without_a_place_to_keep_it_there_is_none():
    nowhere = Intentions(None, "esx1")
    nowhere.keep(WANT)
    nowhere.drop("ds1")
    assert (nowhere.kept, nowhere.matching(MADE)) == ({}, None)
