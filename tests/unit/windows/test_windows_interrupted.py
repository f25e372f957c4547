# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build and teardown of Windows hosts that are killed before and after every single change to a host: one more run puts it right.

What a killed task leaves is what the hosts and its records are at that moment, so one run that is copied at each change gives all of these states.
The stand-ins' own data is the judge.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.action import (
    win_datastore,
    win_iscsi_session,
    win_iscsi_target,
    win_ramdisk,
    win_target_server,
)
from test_windows_actions import CLIENT, Bench
from unchanged import differences
from world import Host, lasting


class HalfRemoved(Exception):
    """A build does not overwrite a file, be it one that a teardown was about to remove; it says what to do."""


class Chain(Bench):
    """As the roles order it, on a server that has to restart after its role was installed."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        with self.world.open():
            self.host()["reboot_after_feature"] = True
        self.parts = {
            "server": ("server", win_target_server, {"networks": ["192.0.2.0/24"]}),
            "disks": ("server", win_ramdisk, {"disks": self.disks}),
            "target": ("server", win_iscsi_target, {"targets": self.targets}),
            "session": ("client", win_iscsi_session, {"targets": self.sessions, "initiator_name": CLIENT, "wait_s": 0}),
            "datastore": ("client", win_datastore, {"datastores": self.datastores}),
        }

    def play(self, part: str, state: str) -> bool:
        """Whether it changed anything."""
        host, module, given = self.parts[part]
        arguments = {**given, "layers": self.layers} if part in ("target", "session", "datastore") else given
        result = self.run(host, module, **({"state": "absent"} if state == "absent" else arguments))
        if "run teardown once more" in result.get("msg", ""):
            raise HalfRemoved
        assert not result.get("failed"), (part, state, result)
        if result.get("reboot_required"):
            with self.world.open():
                Host(self.world, host).restart()
            if result.get("unfinished"):
                return self.play(part, state) or True
        return result["changed"]

    def present(self) -> bool:
        return sum(self.play(part, "present") for part in self.parts) > 0

    def absent(self) -> bool:
        parts = ("datastore", "session", "target", "server", "disks", "server")
        return sum(self.play(part, "absent") for part in parts) > 0

    def changing(self) -> dict:
        return lasting(self.world.data["hosts"])

    def keep(self, place: Path) -> Path:
        """A copy of what is there now, also in the midst of a call."""
        self.world.path.write_text(json.dumps(self.world.data), encoding="utf-8")
        shutil.copytree(self.folder, place)
        return place

    def bring_back(self, place: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(place, self.folder)
        with self.world.open():
            pass


@pytest.fixture
def chain(tmp_path) -> Chain:
    (tmp_path / "live").mkdir()
    return Chain(tmp_path / "live")


def cut(chain: Chain, play: Callable, monkeypatch) -> list:
    """[(moment, place of a copy)] of what was there before and after each change that play makes to a host."""
    whole, copies = Host.module, []

    def module(host, name: str, arguments: dict, check_mode: bool) -> dict:
        before = chain.changing()
        place = chain.keep(chain.folder.parent / f"{len(copies)} before")
        answer = whole(host, name, arguments, check_mode)
        if chain.changing() == before:
            shutil.rmtree(place)
            return answer
        script = chain.world.data["calls"][-1]["script"] or name
        copies.append((f"before {script}", place))
        copies.append((f"after {script}", chain.keep(chain.folder.parent / f"{len(copies)} after")))
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Host, "module", module)
        play()
    return copies


def problems(chain: Chain, copies: list, go_on: Callable) -> list:
    seen = []
    for moment, place in copies:
        chain.bring_back(place)
        try:
            seen += [f"{moment}: {line}" for line in go_on()]
        except AssertionError as error:
            seen.append(f"{moment}: {error}"[:600])
    return seen


@pytest.mark.parametrize("interrupted", ["build", "teardown"])
@pytest.mark.parametrize("way", ["build", "teardown"])
def test_one_more_run_puts_it_right(chain, interrupted, way, monkeypatch):
    nothing = chain.changing()
    if interrupted == "teardown":
        chain.present()
    copies = cut(chain, chain.present if interrupted == "build" else chain.absent, monkeypatch)
    assert len(copies) > 20
    if interrupted == "build":
        assert not chain.present()
        built = chain.changing()
        chain.absent()
    assert chain.changing() == nothing
    if interrupted == "teardown":
        chain.present()
        built = chain.changing()

    refused = []

    def build() -> list:
        try:
            chain.present()
        except HalfRemoved:
            refused.append(list(chain.host()["files"]))
            chain.absent()
            chain.present()
        again = chain.present()
        return differences(built, chain.changing()) + (["a second build changes something"] if again else [])

    def teardown() -> list:
        chain.absent()
        records = [f"{path.name} is left" for path in (chain.folder / "state" / "windows").glob("*")]
        return records + differences(nothing, chain.changing())

    lines = problems(chain, copies, build if way == "build" else teardown)
    assert not lines, "\n".join(lines)
    # Between the two steps that it takes to remove a virtual disk with its file, and nowhere else.
    assert refused == ([["C:\\lab\\file.vhdx"]] * 2 if (interrupted, way) == ("teardown", "build") else [])
