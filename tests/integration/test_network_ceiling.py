# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network between two hosts as Ansible measures it. Both are this machine, so nothing is said of what it carries."""

from __future__ import annotations

import errno
import json
import socket
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import plays
import waiting

TOKEN = "0123456789abcdef" * 2


def link(folder: Path, **more) -> dict:
    return {
        "storlab.testbed.network_ceiling": {
            "testbed_id": "tb-net",
            "run_id": "first",
            "results_dir": str(folder / "results"),
            "host": "client01",
            "target": "localhost",
            "address": "127.0.0.1",
            "token": TOKEN,
            **more,
        }
    }


def lines(folder: Path) -> list:
    return [json.loads(line) for line in (folder / "results/tb-net/first/network.jsonl").read_text().splitlines()]


def nobody_listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_a_link_is_measured_once_a_run_and_nothing_goes_on_listening(tmp_path):
    (listening,) = plays.play(tmp_path, link(tmp_path, state="listening"))
    port = listening["port"]
    (measured,) = plays.play(tmp_path, link(tmp_path, state="measured", listening={"port": port}))
    assert measured["changed"] is True and TOKEN not in json.dumps({**measured, "invocation": None})
    assert lines(tmp_path) == [measured["network"]]
    assert {"to_target_bits_s", "from_target_bits_s", "round_trip_ns"} < set(measured["network"])
    waiting.until(lambda: nobody_listens(port))
    (again,) = plays.play(tmp_path, link(tmp_path, state="listening"))
    assert "port" not in again and again["network"] == measured["network"]


def test_what_cannot_be_measured_is_noted_and_fails_nothing(tmp_path):
    (listening,) = plays.play(tmp_path, link(tmp_path, state="listening", address="192.0.2.77"))
    assert not listening.get("failed") and "192.0.2.77" in listening["note"]
    (measured,) = plays.play(tmp_path, link(tmp_path, state="measured", address="192.0.2.77", listening=listening))
    assert not measured.get("failed")
    assert [line["note"] for line in lines(tmp_path)] == [listening["note"]]
