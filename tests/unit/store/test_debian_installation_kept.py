# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller does about an installation in a Linux guest: packages brought once, times kept once, counters of the datastore's host added."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

import actions
import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.action import benchmark_observer, debian_installation
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import installations, load, run_folder

MEDIUM = {"path": "/cache/m.medium", "index_sha256": "m", "bytes": 4096, "packages": []}


def layer(name: str, kind: str, host: str, parent: str | None, path: str | None) -> dict:
    return {
        "name": name,
        "kind": kind,
        "host": host,
        "path": path,
        "parent": parent,
        "purpose": "scratch",
        "size_bytes": 1 << 27,
        "identity": {"serial": name},
    }


LAYERS = {
    "guest-g1": layer("guest-g1", "guest", "g1", "datastore-ds1", "/dev/vdb"),
    "datastore-ds1": layer("datastore-ds1", "datastore", "h1", "initiator-ds1", "/srv/ds1/file.dat"),
    "initiator-ds1": layer("initiator-ds1", "initiator", "h1", None, "/dev/sda"),
}
VARIABLES = {"inventory_hostname": "g1", "ansible_facts": {"storlab_layers": LAYERS}}
MEASURED = {
    "started_utc": "2026-01-01T00:00:00.000Z",
    "finished_utc": "2026-01-01T00:00:20.000Z",
    "duration_s": 20.0,
    "phases": {"filesystem_s": 20.0},
    "packages": 26,
    "package_bytes": 12200000,
    "installed_bytes": 70000000,
    "counters": {"interval_s": 20.0, "cpu": {}},
}


class Host:
    """Answers for the module on the guest, and remembers what it was asked to do."""

    def __init__(self, there: bool, fails: dict | None = None) -> None:
        self.there, self.fails, self.calls = there, fails, []

    def __call__(self, module_name, module_args, task_vars):
        assert module_args["layer"] == LAYERS["guest-g1"]
        self.calls.append((module_args["action"], module_args.get("source")))
        if module_args["action"] == "look":
            return {"there": self.there}
        if module_args["action"] == "put":
            self.there = True
            return {"there": True}
        answer = {"installation": copy.deepcopy(MEASURED), "log": "Setting up dash", "environment": {"kernel": "6.1"}}
        return self.fails or answer


@pytest.fixture
def install(tmp_path, monkeypatch):
    """install(host, check=False, broke_off=(), **arguments): what the task answers."""

    def run(host, check=False, broke_off=(), variables=VARIABLES, **changes):
        arguments = {
            "testbed_id": "lab",
            "run_id": "r",
            "results_dir": str(tmp_path),
            "layer": "guest-g1",
            "medium": MEDIUM,
            **changes,
        }
        action = actions.make(debian_installation, arguments, check=check)
        action._connection._shell.tmpdir = "/tmp/task"
        action._connection._shell.join_path = lambda *parts: "/".join(parts)
        monkeypatch.setattr(action, "_execute_module", host)
        monkeypatch.setattr(action, "_transfer_file", lambda local, remote: host.calls.append((local, remote)))
        return actions.answer(action, variables, tmp_path, host.calls, broke_off=broke_off)

    return run


def kept(tmp_path: Path, name: str = "g1.r1") -> dict:
    return json.loads((tmp_path / "lab/r/installations" / f"{name}.json").read_text())


def test_the_packages_are_brought_once_and_each_time_is_kept(install, tmp_path):
    host = Host(there=False)
    answer = install(host)
    assert answer["changed"] and answer["line"].startswith("g1 on ds1, repetition 1: installed in 20.0 s")
    brought = [("look", None), ("/cache/m.medium", "/tmp/task/packages"), ("put", "/tmp/task/packages")]
    assert host.calls == [*brought, ("install", None)]
    timed = kept(tmp_path)
    assert timed["duration_s"] == 20.0 and timed["medium"] == "m"
    raw = tmp_path / "lab/r/installations" / timed["counters"]["raw"]["file"]
    assert hashlib.sha256(raw.read_bytes()).hexdigest() == timed["counters"]["raw"]["sha256"]
    assert json.loads(raw.read_text())["log"] == "Setting up dash"
    host.calls.clear()
    assert install(host, repetition=2)["changed"] and host.calls == [("look", None), ("install", None)]
    host.calls.clear()
    again = install(host, repetition=2)
    assert not again["changed"] and again["installation"]["repetition"] == 2 and not host.calls


def test_one_that_fails_is_no_time(install, tmp_path):
    fails = {"failed": True, **Failure("installation_failed", "The disk is full.").as_result()}
    answer = install(Host(True, fails), broke_off=("installation_failed",))
    assert answer["failed"] and answer["failure"]["code"] == "installation_failed" and "full" in answer["msg"]
    assert not list((tmp_path / "lab").rglob("installations"))


@pytest.mark.parametrize(
    "changes, code, words",
    [
        ({"layer": "guest-g2"}, "layer_missing", "'guest-g2'"),
        ({"layer": "initiator-ds1"}, "layer_missing", "'initiator-ds1'"),
        ({"repetition": 0}, "bad_value", "repetition is 0"),
        ({"run_id": "a/b"}, "bad_value", "run_id"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_done(install, changes, code, words):
    answer = install(Host(True), **changes)
    assert answer["failure"]["code"] == code and words in answer["msg"]


def test_other_packages_are_not_joined_to_a_run(install):
    install(Host(True))
    answer = install(Host(True), medium={**MEDIUM, "index_sha256": "other"})
    assert answer["failure"]["code"] == "installation_differs"


def test_check_mode_says_what_would_be_installed(install, tmp_path):
    assert install(Host(True), check=True)["changed"] and not list(tmp_path.iterdir())
    install(Host(True))
    assert not install(Host(True), check=True)["changed"]


# ---------------------------------------------------------------- what other hosts counted


def counted(commands: int, seconds: float) -> dict:
    device = {
        "name": "sda",
        "interval_s": seconds,
        "read": {"ios": commands, "bytes": 0},
        "write": {"ios": 0, "bytes": 0},
    }
    return {"interval_s": seconds, "cpu": {}, "layers": {"initiator-ds1": device}}


@pytest.fixture
def collect(tmp_path, monkeypatch):
    """collect(host, observed): what the observer's task answers on this host, whose observer answers so."""

    def run(host="h1", observed=None, missed=None):
        action = actions.make(
            benchmark_observer, {"state": "collected", "testbed_id": "lab", "run_id": "r", "results_dir": str(tmp_path)}
        )
        orders = []

        def module(module_name, module_args, task_vars):
            orders.append(module_args)
            return {"observed": observed or {}, "missed": missed or {}}

        monkeypatch.setattr(action, "_execute_module", module)
        return actions.answer(action, {"inventory_hostname": host}, tmp_path), orders

    return run


def clocks(tmp_path: Path, **offsets: float) -> None:
    for host, offset_s in offsets.items():
        run_folder.remember_clock(str(tmp_path / "lab/r"), host, {"offset_s": offset_s, "uncertain_s": 0.01})


def test_what_the_datastores_host_counted_is_added_once(install, collect, tmp_path):
    install(Host(True))
    clocks(tmp_path, g1=0.5, h1=2.0, t1=0.0)
    observed = {"whole": counted(2000, 20.0), "0": counted(1000, 5.0), "1": counted(100, 5.0)}
    answer, orders = collect(observed=observed)
    assert answer["added"] == ["installation.g1.r1"] and answer["missed"] == {}
    (order,) = orders
    assert order["clock_offset_s"] == 1.5 and order["intervals"]["whole"][1] - order["intervals"]["whole"][0] == 20
    assert len(order["intervals"]) == 5
    assert "datastore" not in kept(tmp_path)["counters"]
    answer, orders = collect(observed=observed)
    assert answer["added"] == [] and not orders
    assert collect("t1")[0]["added"] == []


def test_why_nothing_was_counted_is_said(install, collect, tmp_path):
    install(Host(True))
    clocks(tmp_path, h1=0.0)
    assert "clock of g1 is not known" in collect()[0]["missed"]["installation.g1.r1"]
    clocks(tmp_path, g1=0.0)
    assert collect(missed={"whole": "A gap."})[0]["missed"] == {"installation.g1.r1": "A gap."}
    assert (
        "initiator-ds1 was not counted"
        in collect(observed={"whole": {"interval_s": 1, "cpu": {}}})[0]["missed"]["installation.g1.r1"]
    )


def test_the_report_has_each_time_the_commands_beside_it_and_the_verdict(tmp_path):
    folder = Path(synthetic_run.write_run(str(tmp_path), "chain", 1))
    for path in (folder / "installations").rglob("*.json"):
        path.unlink()
    for number in range(1, 5):
        for place, (name, seconds) in enumerate((("slow", 80.0), ("fast", 40.0))):
            params = {"testbed_id": "lab", "run_id": "r", "repetition": number, "medium": MEDIUM}
            where = {**LAYERS["guest-g1"], "name": f"guest-{name}", "parent": f"datastore-{name}"}
            timed = installations.of_debian(params, where, copy.deepcopy(MEASURED))
            timed.update(duration_s=seconds + 0.1 * number, started_utc=f"2026-01-01T0{number}:{place}0:00.000Z")
            (folder / installations.file_of(f"{name}.r{number}")).write_text(json.dumps(timed))
            addition = installations.addition("h1", LAYERS["initiator-ds1"], {"whole": counted(600 + number, 2.0)})
            run_folder.add(str(folder), "observer.h1", {timed["point_id"]: timed}, {timed["point_id"]: addition})
    (folder / "installations/fast.r9.json").write_text((folder / "installations/fast.r1.json").read_text())
    run = load.read_run(str(folder))
    assert len(run.installations) == 8
    assert [entry["file"] for entry in run.damaged] == ["installations/fast.r9.json"]
    made = render.render(model.build(run))
    sentence = "slow against fast: installed in 80.2 s (80.1 to 80.4) against 40.2 s (40.1 to 40.4): worse, by "
    assert sentence in made["index.html"] and "Measured in turns (4 repetitions per side)" in made["index.html"]
    assert "slow against fast" in made["report.md"]
    assert (
        "| fast 2 | fast | 40.2 s | 301 | 301 | 301 | Debian scaled down to 26 packages, 12.2 MB |" in made["report.md"]
    )
    (row,) = json.loads(made["results.json"])["installation_verdicts"]
    assert row["verdict"] == "worse" and row["candidate"]["repetitions"] == 4
