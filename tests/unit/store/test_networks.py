# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network alone carried is kept beside the run, read again, and told in words."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import networks as words
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import networks, run_folder

LINE = {
    "host": "client01",
    "target": "target01",
    "address": "192.0.2.11",
    "started_utc": "2026-11-23T05:00:00Z",
    "seconds": 3.0,
    "streams": 4,
    "to_target_bits_s": 9412345678,
    "from_target_bits_s": 941234567,
    "round_trip_ns": 81400,
    "round_trip_least_ns": 60100,
}
FAILED = {**{key: LINE[key] for key in networks.WORDS}, "note": "192.0.2.11 port 7 was not reached: timed out"}


def test_a_link_is_read_as_it_was_last_measured_and_a_failure_takes_no_figure_away(tmp_path):
    run = str(tmp_path / "run")
    again = {**LINE, "started_utc": "2026-11-23T06:00:00Z", "round_trip_ns": 92300}
    other = {**LINE, "address": "192.0.2.12"}
    for line in (LINE, other, again, FAILED, LINE):
        run_folder.add_network(run, line)
    assert networks.read(run, json.loads) == ([again, other], [])
    assert run_folder.network_known(run, "client01", "target01", "192.0.2.11") == again
    assert run_folder.network_known(run, "client02", "target01", "192.0.2.11") is None
    assert "network.jsonl" in run_folder.ledger_files(run)
    run_folder.add_network(run, {**FAILED, "host": "client02"})
    assert run_folder.network_known(run, "client02", "target01", "192.0.2.11")["note"] == FAILED["note"]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        json.dumps({**LINE, "host": 5}),
        json.dumps({**LINE, "round_trip_ns": 0}),
        json.dumps({**LINE, "to_target_bits_s": float("inf")}),
        json.dumps({key: value for key, value in LINE.items() if key != "from_target_bits_s"}),
        json.dumps({**FAILED, "note": ""}),
    ],
)
def test_what_is_no_link_is_damaged_and_counts_for_nothing(tmp_path, line):
    (tmp_path / "network.jsonl").write_text(f"{line}\n{json.dumps(LINE)}\n")
    found, damaged = networks.read(str(tmp_path), json.loads)
    assert found == [LINE]
    assert [(each["file"], each["reason"].split(":")[0]) for each in damaged] == [("network.jsonl", "line 1")]


def test_a_run_without_links_has_none(tmp_path):
    assert networks.read(str(tmp_path), json.loads) == ([], [])


def test_a_link_is_told_in_a_sentence():
    assert words.sentence(LINE) == (
        "client01 to target01 (192.0.2.11): the network alone carried 9.41 Gbit/s there and 941 Mbit/s back, in 81.4 µs there and back."
    )
    assert words.sentence(FAILED).endswith("was not measured (192.0.2.11 port 7 was not reached: timed out).")


def test_the_share_is_of_the_direction_in_which_the_bytes_went():
    rates = [
        ("client01", "initiator-a", "128k", "write", 588271604.875),  # half of 9.41 Gbit/s
        ("client01", "datastore-b", "4k", "read", 88240740.65625),  # three quarters of 941 Mbit/s
        ("client01", "initiator-a", "odd", "trim", 9e12),
        ("client02", "initiator-c", "4k", "read", 9e9),
    ]
    most = words.used(LINE, [LINE], rates)
    assert (most["layer"], most["workload"], most["way"], round(most["share"], 6)) == (
        "datastore-b",
        "4k",
        "read",
        0.75,
    )
    assert words.used(LINE, [LINE], rates[:1])["share"] == pytest.approx(0.5)
    assert words.used(LINE, [LINE], rates[2:]) is None


def test_of_several_links_and_of_one_that_was_not_measured_no_share_is_told():
    rates = [("client01", "initiator-a", "128k", "write", 1e8)]
    assert words.used(LINE, [LINE, {**LINE, "address": "192.0.2.12"}], rates) is None
    assert words.used(FAILED, [FAILED], rates) is None
