# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event on the way to a layer, made on the host of the target while another host is measured through it.

A daemon waits until I/O has arrived for a while without a pause, makes the event, and undoes it after its time; its times are by the clock of this host.
Nothing has to reach this host at that time. A record of the undoing is written first, and whoever finds it undoes the event: the
daemon itself, also when it is ended, ``stop`` when the daemon was killed, and a second build, which wants every target of the testbed on.

    <base>/<testbed_id>/event/supervisor.json wanted.json undo.json events.jsonl supervisor.log
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from ..core.failure import Failure, bad_value
from ..core.files import naming, read_json, write_json
from ..linux.daemon import alive, detach, end, remove_empty
from ..linux.exports.lio import Configfs
from ..linux.host import read_text, write_text
from ..linux.own_folder import base_dir, private_folder, proven
from ..linux.record import Record

LOOK_S = 0.1
# I/O that pauses for longer does not arrive steadily.
MOST_PAUSE_S = 1.0
UNDO = "undo.json"


class Clock(NamedTuple):
    """The time of this host, and how a daemon lets it pass."""

    unix_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class TargetOff:
    """The target takes no logins and ends its sessions, as if its server had gone, and is back later. It is a target of the kernel's iSCSI server."""

    def __init__(self, testbed_id: str, target: str, base: str | None = None, configfs: Configfs | None = None) -> None:
        self.configfs = configfs or Configfs()
        self.place = f"iscsi/{target}/tpgt_1"
        record = Record(testbed_id, "lio_target", base) if base else Record(testbed_id, "lio_target")
        if target not in record.data.get("targets", []) or not os.path.isdir(self.configfs.at(self.place)):
            raise Failure(
                "foreign_target",
                f"{target} is not a target of the kernel's iSCSI server that testbed {testbed_id} made on this host.",
                "Name a target of the testbed; nothing of others is switched off.",
                target=target,
            )

    def traffic(self) -> int:
        """Commands that have arrived at its LUNs."""
        below = f"{self.place}/lun"
        counted = (
            read_text(self.configfs.at(f"{below}/{lun}/statistics/scsi_tgt_port/in_cmds"), default="0")
            for lun in self.configfs.subfolders(below, "lun_")
        )
        return sum(int(text) for text in counted if text.isdigit())

    def do(self) -> None:
        write_text(self.configfs.at(f"{self.place}/enable"), "0")

    def undo(self) -> None:
        write_text(self.configfs.at(f"{self.place}/enable"), "1")


EVENTS = {"target_off": TargetOff}
# An event as argument specs have it.
SPEC: dict[str, Any] = {
    "kind": {"type": "str", "choices": list(EVENTS), "default": "target_off"},
    "target": {"type": "str"},
    "after_s": {"type": "float", "default": 10.0},
    "for_s": {"type": "float", "default": 0.0},
    "deadline_s": {"type": "float", "default": 600.0},
}


def event_dir(testbed_id: str, base: str | None = None) -> str:
    return proven(base or base_dir(), testbed_id, "event")


# ---------------------------------------------------------------- the module's actions


def arm(testbed_id: str, wanted: dict[str, Any], base: str | None = None, dry_run: bool = False) -> dict[str, object]:
    """Leave a daemon that makes one event.

    wanted: {name, kind, target, after_s, for_s, deadline_s}: once I/O has arrived for after_s without a pause, for so long; given up after deadline_s.
    """
    if wanted["kind"] not in EVENTS:
        raise bad_value("kind", wanted["kind"], f"Use one of {', '.join(EVENTS)}.")
    for key, least in (("after_s", 1), ("for_s", 0), ("deadline_s", 1)):
        if wanted[key] < least:
            raise bad_value(key, wanted[key], f"Give at least {least} s.")
    event = EVENTS[wanted["kind"]](testbed_id, wanted["target"], base)
    if dry_run:
        return {"changed": True}
    folder = event_dir(testbed_id, base)
    _end(testbed_id, folder, base)
    private_folder(base or base_dir(), testbed_id, "event")
    write_json(os.path.join(folder, "wanted.json"), wanted)
    detach(lambda: Daemon(folder, wanted, event).run(), folder)
    return {"changed": True}


def events(testbed_id: str, base: str | None = None) -> dict[str, object]:
    """{events: {name: {kind, for_s, begun_unix_s: [least, most], undone_unix_s: […]}}} of this host so far; of one that was not made {kind, missed: why}."""
    path, made = os.path.join(event_dir(testbed_id, base), "events.jsonl"), {}
    if os.path.exists(path):
        with naming(path), open(path, encoding="utf-8") as handle:
            for line in handle:
                entry = json.loads(line)
                made[entry.pop("name")] = entry
    return {"changed": False, "events": made}


def stop(testbed_id: str, base: str | None = None, dry_run: bool = False) -> dict[str, object]:
    """End the daemon, undo what it left done, and remove its folder: {changed, undone}."""
    folder = event_dir(testbed_id, base)
    if not os.path.isdir(folder):
        return {"changed": False, "undone": False}
    if dry_run:
        return {"changed": True, "undone": os.path.exists(os.path.join(folder, UNDO))}
    undone = _end(testbed_id, folder, base)
    shutil.rmtree(folder)
    remove_empty(os.path.dirname(folder), os.path.dirname(os.path.dirname(folder)))
    return {"changed": True, "undone": undone}


def _end(testbed_id: str, folder: str, base: str | None) -> bool:
    """Whether something was left to be undone. A target that is not ours any more stays as it is."""
    if alive(folder):
        end(folder)
    path = os.path.join(folder, UNDO)
    left = read_json(path, kind={"kind": str, "target": str})
    if left is None:
        return False
    try:
        EVENTS[left["kind"]](testbed_id, left["target"], base).undo()
    except Failure as failure:
        if failure.code != "foreign_target":
            raise
    os.unlink(path)
    return True


# ---------------------------------------------------------------- the daemon


class Daemon:
    def __init__(self, folder: str, wanted: dict[str, Any], event: TargetOff, clock: Clock | None = None) -> None:
        self.folder, self.wanted, self.event, self.clock = folder, wanted, event, clock or Clock()
        self.stopping = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        entry = {key: self.wanted[key] for key in ("name", "kind", "for_s")}
        if not self._wait_for_traffic():
            what = f"I/O arrived at the target for {self.wanted['after_s']:g} s without a pause"
            why = f"It was ended before {what}." if self.stopping else f"At no time {what}."
            self._note({**entry, "missed": why})
            return
        path = os.path.join(self.folder, UNDO)
        write_json(path, {"kind": self.wanted["kind"], "target": self.wanted["target"]})
        try:
            begun = self._timed(self.event.do)
            self._wait(self.wanted["for_s"])
        finally:
            undone = self._timed(self.event.undo)
            os.unlink(path)
        self._note({**entry, "begun_unix_s": begun, "undone_unix_s": undone})

    def _wait_for_traffic(self) -> bool:
        """Whether I/O has arrived for long enough, before the deadline and before this daemon was asked to end."""
        now_s = self.clock.monotonic_s()
        deadline_s, begun_s, last_s, seen = now_s + self.wanted["deadline_s"], now_s, now_s, self.event.traffic()
        while not self.stopping and now_s < deadline_s:
            self.clock.sleep(LOOK_S)
            now_s, counted = self.clock.monotonic_s(), self.event.traffic()
            if now_s - last_s > MOST_PAUSE_S:
                begun_s = now_s
            if counted != seen:
                last_s, seen = now_s, counted
                if now_s - begun_s >= self.wanted["after_s"]:
                    return True
        return False

    def _wait(self, seconds: float) -> None:
        until_s = self.clock.monotonic_s() + seconds
        while not self.stopping and (left_s := until_s - self.clock.monotonic_s()) > 0:
            self.clock.sleep(min(left_s, LOOK_S))

    def _timed(self, act: Callable[[], None]) -> list[float]:
        """Between which times it was done."""
        begun_s = self.clock.unix_s()
        act()
        return [round(begun_s, 3), round(self.clock.unix_s(), 3)]

    def _note(self, entry: dict[str, object]) -> None:
        path = os.path.join(self.folder, "events.jsonl")
        with naming(path), open(path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(entry, sort_keys=True) + "\n")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True
