#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills the controller before and after each task of build, benchmark and teardown, and looks whether one more run puts all right.

The hosts are the stand-ins of tests/fake_windows: a server and a client with a datastore. They are one file, which is the judge: after a teardown they
are as they were before the first build, after a build as after one that nobody interrupted. What the collection says of itself is asked beside that.

Many tasks leave the same behind. What follows is a matter of what was left and not of the task, so what was left is compared, and each different state is
continued once.

    python tests/tools/interrupted.py --seed 5 --cells 20        # 20 moments, drawn by that seed; without --cells all of them, in the order that it gives
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins", "fake_windows")]

from cut_plays import play_until
from places import ROOT, TESTS
from plays import outcome
from unchanged import differences
from world import World, lasting

RUN = "interrupted"
# What each begins with, and what it ends with.
STAGES = {"build": ("nothing", "built"), "benchmark": ("built", "measured"), "teardown": ("measured", "removed")}
# With which playbooks somebody may go on where one of them was interrupted.
CONTINUED = {"build": ("build", "teardown"), "benchmark": ("benchmark", "teardown"), "teardown": ("teardown", "build")}
SERVER, CLIENT = (f"iqn.1991-05.com.microsoft:{name}" for name in ("win01", "win02"))
DISKSPD = "C:\\tools\\diskspd.exe"
HOSTS: dict = {
    "win01": {"reboot_after_feature": True, "initiator": {"iqn": SERVER, "portals": [], "sessions": {}}},
    "win02": {
        "server": False,
        "feature": None,
        "addresses": ["192.0.2.21"],
        "initiator": {"iqn": CLIENT, "portals": [], "sessions": {}},
    },
}


def target(name: str, lun: int, disk: str, purpose: str, initiator: str) -> dict:
    return {
        "name": f"iqn.2026-11.test.storlab.interrupted:{name}",
        "portals": [{"address": "192.0.2.11", "port": 3260}],
        "luns": [{"lun": lun, "name": disk, "layer": f"backing-{disk}", "purpose": purpose}],
        "initiators": [{"iqn": initiator, "chap_user": f"user-{name}", "chap_password": f"secret-{name}-1"}],
    }


VARIABLES = {
    "ansible_connection": "fake_windows",
    "testbed_windows": True,
    "testbed_id": "interrupted",
    "testbed": {
        "disks": [
            {"name": "ds1", "size": "192MiB"},
            {"name": "own", "size": "64MiB", "to": [], "loopback": True},
        ],
        "datastores": [{"disk": "ds1", "benchmark_file": "48MiB"}],
    },
    "iscsi_target_targets": [target("data", 2, "ds1", "data", CLIENT), target("self", 1, "own", "scratch", SERVER)],
    "iscsi_target_windows_networks": ["192.0.2.0/24"],
    "iscsi_initiator_windows_wait_s": 1,
    "benchmark_engine": "diskspd",
    "benchmark_windows": {"program": DISKSPD},
    "benchmark_ceiling": False,
    "benchmark_prepare": {"fill": False},
    "benchmark_workloads": [{"block_size": "4k", "read_percent": 60, "queue_depth": 3, "ramp_s": 0, "runtime_s": 1}],
}


@dataclasses.dataclass
class Played:
    returned: int
    moments: list
    changed: int
    failures: list


class Lab:
    """A testbed of stand-ins, all of it in one folder; what a run changes lies in ``live`` there, and can be kept and brought back."""

    def __init__(self, folder: Path):
        self.folder, self.live = folder, folder / "live"
        self.world = World(self.live / "world.json")
        with self.world.open():
            for name, settings in HOSTS.items():
                self.world.add(name, programs={DISKSPD: {"engine": "diskspd", "version": "2.2.0"}}, **settings)
        places = {
            "ansible_fake_windows_world": str(self.world.path),
            "testbed_state_dir": str(self.live / "state"),
            "testbed_results_dir": str(self.live / "results"),
        }
        groups = {"targets": {"hosts": {"win01": None}}, "hypervisors": {"hosts": {"win02": None}}}
        inventory = {"all": {"vars": {**VARIABLES, **places}, "children": groups}}
        (folder / "lab.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        (folder / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {TESTS}/fake_windows/connection\n"
            f"callback_plugins = {TESTS}/kill_controller\ninject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n",
            encoding="utf-8",
        )

    def play(self, *books: str, at: str = "", run_id: str = RUN) -> Played:
        """Play shipped playbooks in one go; at: where to kill it. Returns when nothing of it runs any more."""
        arguments = ["-e", f"testbed_run_id={run_id}", *(str(ROOT / "playbooks" / f"{book}.yml") for book in books)]
        returned, text, reached = play_until(self.folder, arguments, at)
        if returned == -signal.SIGKILL:
            return Played(returned, reached, 0, [])
        stats, failures = outcome(text)
        changed = sum(counts["changed"] for host, counts in stats.items() if host in HOSTS)
        return Played(returned, reached, changed, failures)

    def hosts(self) -> dict:
        return lasting(json.loads(self.world.path.read_text(encoding="utf-8"))["hosts"])

    def keep(self, place: Path) -> None:
        """A copy of what is there now."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.live, place)

    def bring_back(self, place: Path) -> None:
        shutil.rmtree(self.live)
        shutil.copytree(place, self.live)

    def left(self) -> list:
        """What of the testbed the controller still remembers after a teardown."""
        state = self.live / "state"
        kept = [state / "lock", state / "built.json", *(state / "windows").glob("*"), *(state / "layers").glob("*")]
        return [f"{path.relative_to(self.live)} is left" for path in kept if path.exists()]

    def results(self, run_id: str = RUN) -> dict:
        """{point: status} of the run."""
        points = (self.live / "results" / VARIABLES["testbed_id"] / run_id / "points").glob("*/result.json")
        return {path.parent.name: json.loads(path.read_text(encoding="utf-8"))["status"] for path in points}

    def image(self) -> str:
        """A digest of what is there now, but for what differs from run to run: times, salted digests, what was measured, and who held the lock."""
        parts = {"hosts": json.dumps(self.hosts(), sort_keys=True)}
        for path in self.live.rglob("*"):
            name = str(path.relative_to(self.live))
            if path.is_file() and not name.startswith(("world.json", "results/interrupted/ledger.")):
                told = name.startswith("state/") and name != "state/lock"
                parts[name] = path.read_text(encoding="utf-8") if told else ""
        parts = {name: VARYING.sub("", text) for name, text in parts.items()}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


# Times of the clock, Unix times with a fraction, digests and salts, serials and ids of disks, ids of sessions.
VARYING = re.compile(
    r"20\d\d-\d\d-\d\d[T ][\d:.]+Z?|\b\d{10}\.\d+|\b([0-9a-f]{32,128}|[0-9A-F]{32}|[0-9a-f]{16})\b|session-[0-9a-f]{8}-\d+"
)


class Suite:
    """What happened when nobody interrupted it, and what became of what was left where somebody did."""

    def __init__(self, folder: Path):
        self.folder, self.moments = folder, {}
        self.continued: dict = {}
        self.lock = threading.Lock()
        lab = Lab(folder / "whole")
        self.hosts, self.results = {"nothing": lab.hosts()}, {}
        lab.keep(folder / "nothing")
        for stage, (_start, end) in STAGES.items():
            played = lab.play(stage)
            assert played.returned == 0, played.failures
            self.moments[stage] = played.moments
            self.hosts[end], self.results[end] = lab.hosts(), lab.results()
            lab.keep(folder / end)
        # Without these nothing below would be tested.
        assert self.hosts["removed"] == self.hosts["nothing"] != self.hosts["built"] == self.hosts["measured"]
        assert set(self.results["measured"].values()) == {"measured"}

    def cells(self) -> list:
        return [(stage, *line.split(" ", 2)) for stage, lines in self.moments.items() for line in lines]

    def run(self, lab: Lab, cell: tuple, ways: tuple = ()) -> tuple:
        """(digest of what was left, problems) of one cell. ways: with which playbooks to go on, in place of all that there are."""
        stage, moment, number, _name = cell
        lab.bring_back(self.folder / STAGES[stage][0])
        played = lab.play(stage, at=f"{moment} {number}")
        if played.returned != -signal.SIGKILL:
            return "", [f"it was not killed but ended with {played.returned}: {played.failures}"]
        image, problems = lab.image(), []
        place = lab.folder / "left"
        lab.keep(place)
        for name in ways or CONTINUED[stage]:
            key = (stage, name, image)
            with self.lock:
                known = self.continued.get(key)
            if known is None:
                lab.bring_back(place)
                known = [f"{name}: {problem}" for problem in getattr(self, name)(lab)]
                with self.lock:
                    self.continued[key] = known
            problems += known
        return image, problems

    # ---- one more run

    def build(self, lab: Lab) -> list:
        first = lab.play("build")
        if first.returned:
            return [f"it fails: {first.failures}"]
        problems = differences(self.hosts["built"], lab.hosts())
        second = lab.play("build")
        return problems + ([f"a second one: {second}"] if second.returned or second.changed else [])

    def benchmark(self, lab: Lab) -> list:
        played = lab.play("benchmark", "verify_results")
        if played.returned:
            return [f"it fails: {played.failures}"]
        return differences(self.results["measured"], lab.results()) + differences(self.hosts["measured"], lab.hosts())

    def teardown(self, lab: Lab) -> list:
        """The state before the build is not kept of a host that no build has come to; there is nothing to compare then, and nothing to differ."""
        played = lab.play("teardown", "verify_clean")
        untouched = {host for host in HOSTS if not (lab.live / "state" / "before" / f"{host}.json").exists()}
        failures = [
            failure
            for failure in played.failures
            if failure["host"] not in untouched or (failure["failure"] or {}).get("code") != "no_baseline"
        ]
        problems = [f"it fails: {failures}"] if failures or (played.returned and not played.failures) else []
        return problems + lab.left() + differences(self.hosts["nothing"], lab.hosts())


def drawn(cells: list, seed: int, number: int | None = None) -> list:
    return random.Random(seed).sample(cells, len(cells) if number is None else min(number, len(cells)))  # noqa: S311 no secret


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Kills the controller at the tasks of build, benchmark and teardown, against stand-ins."
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--cells", type=int, help="how many moments, of all stages (all)")
    parser.add_argument("--stage", choices=list(STAGES), action="append", help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="interrupted-") as folder:
        suite = Suite(Path(folder))
        cells = [cell for cell in suite.cells() if cell[0] in (given.stage or STAGES)]
        waiting, bad, images = iter(enumerate(drawn(cells, given.seed, given.cells), start=1)), [], {}
        total = len(cells) if given.cells is None else min(given.cells, len(cells))

        def work(number: int) -> None:
            lab = Lab(Path(folder) / f"lab{number}")
            while True:
                with suite.lock:
                    place, cell = next(waiting, (0, None))
                if cell is None:
                    return
                try:
                    image, problems = suite.run(lab, cell)
                except Exception as error:
                    image, problems = "", [repr(error)]
                with suite.lock:
                    images[(cell[0], image)] = cell
                    bad.extend([cell] if problems else [])
                    print(
                        f"{place}/{total} {' '.join(cell)}: {'FAILED' if problems else 'ok'}",
                        *problems,
                        sep="\n  ",
                        flush=True,
                    )

        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(work, range(given.jobs)))
    print(
        f"{total} of {len(suite.cells())} moments, {len(images)} different states left, {len(bad)} failed (seed {given.seed})"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
