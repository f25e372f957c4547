# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event is made once I/O arrives, is undone whoever ends it, and is never made on a target of others. Folders stand in for configfs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from ansible_collections.storlab.testbed.plugins.module_utils.run import path_event
from unchanged import refused
from waiting import until

OURS, THEIRS = "iqn.2026-01.lab.example:bench", "iqn.2026-01.lab.example:theirs"


class Host:
    def __init__(self, top: Path) -> None:
        self.base, self.root = str(top / "run"), top / "target"
        for name in (OURS, THEIRS):
            statistics = self.root / "iscsi" / name / "tpgt_1" / "lun" / "lun_0" / "statistics" / "scsi_tgt_port"
            statistics.mkdir(parents=True)
            (statistics / "in_cmds").write_text("5\n", encoding="ascii")
            self.enable(name).write_text("1\n", encoding="ascii")
        record = Record("lab", "lio_target", self.base)
        record.data["targets"] = [OURS]
        record.save()

    def enable(self, name: str = OURS) -> Path:
        return self.root / "iscsi" / name / "tpgt_1" / "enable"

    def is_on(self, name: str = OURS) -> bool:
        # The kernel takes one digit, and the file keeps what stood behind it.
        return self.enable(name).read_text(encoding="ascii").startswith("1")

    def arrive(self, number: int) -> None:
        path = self.root / "iscsi" / OURS / "tpgt_1" / "lun" / "lun_0" / "statistics" / "scsi_tgt_port" / "in_cmds"
        path.write_text(f"{number}\n", encoding="ascii")

    def folder(self) -> Path:
        return Path(self.base) / "lab" / "event"

    def lines(self) -> list:
        path = self.folder() / "events.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def asked(**changes) -> dict:
    return {
        "name": "away.r1",
        "kind": "target_off",
        "target": OURS,
        "after_s": 5,
        "for_s": 20,
        "deadline_s": 60,
        **changes,
    }


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    monkeypatch.setattr(path_event, "Configfs", lambda: lio.Configfs(str(made.root)))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)
    path_event.stop("lab", made.base)


class Played:
    """A clock that a test lets go on; ``at`` is called with each time."""

    def __init__(self, at) -> None:
        self.now_s, self.at = 0.0, at

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.at(self.now_s)

    def clock(self) -> path_event.Clock:
        return path_event.Clock(lambda: 1000 + self.now_s, lambda: self.now_s, self.sleep)


def played(host: Host, at, **changes) -> list:
    """The lines of a daemon that is played in this process."""
    host.folder().mkdir(parents=True, exist_ok=True)
    event = path_event.TargetOff("lab", OURS, host.base, lio.Configfs(str(host.root)))
    runs = path_event.Daemon(str(host.folder()), asked(**changes), event, Played(lambda now_s: at(now_s, runs)).clock())
    runs.run()
    return host.lines()


def test_the_event_comes_when_io_has_arrived_for_its_time_and_is_undone(host):
    states = {}

    def at(now_s, _runs):
        # I/O from the 3rd second on.
        host.arrive(5 if now_s < 3 else int(now_s * 10))
        states[round(now_s, 1)] = host.is_on()

    (line,) = played(host, at)
    least, most = line["begun_unix_s"]
    assert 1008 <= least <= most <= 1008.3
    assert line["undone_unix_s"][0] - most == pytest.approx(20, abs=0.01)
    assert (line["name"], line["kind"], line["for_s"]) == ("away.r1", "target_off", 20)
    assert states[7.9] and not states[8.5] and not states[27.9]
    assert host.is_on()
    assert not (host.folder() / "undo.json").exists()


def test_io_that_pauses_does_not_count(host):
    def at(now_s, _runs):
        # A short look at the device every 4 s.
        host.arrive(int(now_s / 4))
        assert host.is_on()

    (line,) = played(host, at)
    assert line["missed"] == "At no time I/O arrived at the target for 5 s without a pause."
    assert host.is_on()


def test_a_daemon_that_is_ended_undoes_its_event_at_once(host):
    def at(now_s, runs):
        host.arrive(int(now_s * 10))
        if now_s > 8:
            runs._on_signal(signal.SIGTERM, None)

    (line,) = played(host, at)
    assert line["undone_unix_s"][1] - line["begun_unix_s"][0] < 4
    assert host.is_on()


def test_one_that_is_ended_before_its_event_makes_none(host):
    (line,) = played(host, lambda _now_s, runs: runs._on_signal(signal.SIGTERM, None))
    assert line["missed"].startswith("It was ended before I/O arrived")
    assert host.is_on()


@pytest.mark.parametrize("target", [THEIRS, "iqn.2026-01.lab.example:none"])
def test_a_target_of_others_is_not_switched_off(host, tmp_path, target):
    with refused("foreign_target", tmp_path):
        path_event.arm("lab", asked(target=target), host.base)


@pytest.mark.parametrize("change", [{"kind": "power_off"}, {"after_s": 0}, {"for_s": -1}, {"deadline_s": 0}])
def test_what_makes_no_event_is_refused(host, tmp_path, change):
    with refused("bad_value", tmp_path):
        path_event.arm("lab", asked(**change), host.base)


def test_in_check_mode_nothing_is_armed(host):
    assert path_event.arm("lab", asked(), host.base, dry_run=True) == {"changed": True}
    assert not host.folder().exists()


def test_a_daemon_that_is_killed_leaves_what_stop_undoes(host):
    path_event.arm("lab", asked(after_s=1, for_s=3600), host.base)
    numbers = iter(range(10, 1_000_000))

    def goes_off() -> bool:
        host.arrive(next(numbers))
        return not host.is_on()

    until(goes_off)
    os.kill(daemon.supervisor_of(str(host.folder()))["pid"], signal.SIGKILL)
    until(lambda: not daemon.alive(str(host.folder())))
    assert not host.is_on()
    assert path_event.stop("lab", host.base, dry_run=True) == {"changed": True, "undone": True}
    assert not host.is_on()
    assert path_event.stop("lab", host.base) == {"changed": True, "undone": True}
    assert host.is_on() and not host.folder().exists()
    assert path_event.stop("lab", host.base) == {"changed": False, "undone": False}


def test_what_was_left_of_a_target_that_is_not_ours_any_more_is_left_alone(host):
    host.folder().mkdir(parents=True)
    (host.folder() / "undo.json").write_text(json.dumps({"kind": "target_off", "target": THEIRS}), encoding="utf-8")
    host.enable(THEIRS).write_text("0\n", encoding="ascii")
    path_event.stop("lab", host.base)
    assert not host.is_on(THEIRS)


def test_the_next_event_keeps_what_is_known_of_the_one_before(host):
    host.folder().mkdir(parents=True)
    known = {"name": "away.r1", "kind": "target_off", "for_s": 2, "begun_unix_s": [1, 2], "undone_unix_s": [3, 4]}
    (host.folder() / "events.jsonl").write_text(json.dumps(known) + "\n", encoding="utf-8")
    path_event.arm("lab", asked(name="away.r2", after_s=3600), host.base)
    made = path_event.events("lab", host.base)["events"]
    assert made == {"away.r1": {key: value for key, value in known.items() if key != "name"}}
