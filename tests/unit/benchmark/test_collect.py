# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What interrupted runs have finished is on the controller's disk before a teardown removes it from the host.

The host is a folder with what the supervisor leaves there; its shell and the functions of the module that runs there are the real ones.
"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import tarfile
import time

import actions
import places
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import benchmark_collect
from ansible_collections.storlab.testbed.plugins.module_utils.core import times
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server, observer, runner
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import linux_runner, theirs
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan as plans
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark.keep import keep_of_others
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder
from test_engine_action import LAYERS, args, point_files
from unchanged import refused, unchanged

ASKED = plans.validate(args(workload={"read_percent": 50, "runtime_s": 1, "ramp_s": 0}, repetitions=3))
POINTS = plans.planned(ASKED, [LAYERS["backing-bench"]])
PLAN = {
    "points": POINTS,
    "layers": [LAYERS["backing-bench"]],
    "known_layers": [],
    **{key: ASKED[key] for key in ("prepare", "steady_state")},
}
REQUEST = {"engine": "fio", "testbed_id": "embedded", "run_id": "first"}


def packed(point: dict, **noted: str) -> bytes:
    whole = io.BytesIO()
    noted = {"started_utc": times.utc(), "finished_utc": times.utc(), **noted}
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        files = {f"points/{point['point_id']}/{name}": content for name, content in point_files(**noted).items()}
        for name, content in {"host.json": b'{"kernel": {"release": "6.1"}}', **files}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


class Host:
    def __init__(self, folder, monkeypatch):
        self.base, self.results = folder / "host", folder / "results"
        self.run_dir = self.results / "embedded" / "first"
        (folder / "boot_id").write_text("boot-7\n", encoding="ascii")
        monkeypatch.setattr(linux_runner, "BOOT_ID", str(folder / "boot_id"))
        self.folder = self.base / "embedded" / "bench" / "first"
        (self.folder / "done").mkdir(parents=True)
        (self.folder / "plan.json").write_text(json.dumps({"plan": PLAN, "boot_id": "boot-7"}), encoding="ascii")
        (self.folder / "state.json").write_text('{"status": "stopped"}', encoding="ascii")
        (self.folder / "supervisor.log").write_text("it was asked to end\n", encoding="ascii")
        for number, point in enumerate(POINTS[:2], start=1):
            (self.folder / "done" / str(number)).write_bytes(base64.encodebytes(packed(point)))

    def ask(self):
        """The run's folder on the controller, as the call that began it left it."""
        run_folder.add_request(str(self.run_dir), {"testbed_id": "embedded", "run_id": "first"}, {}, "target01")
        run_folder.add_layers(str(self.run_dir), LAYERS)

    def _module(self, module_name, module_args, task_vars):
        asked = {key: value for key, value in module_args.items() if key != "action"}
        return getattr(runner, module_args["action"])(**asked, base=str(self.base))

    @staticmethod
    def _command(text, sudoable):
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def collect(self, check=False) -> dict:
        given = {"testbed_id": "embedded", "results_dir": str(self.results)}
        task = actions.make(benchmark_collect, given, check=check)
        task._execute_module, task._low_level_execute_command = self._module, self._command
        return task.run(task_vars={"inventory_hostname": "target01"})

    def remove(self) -> dict:
        return runner.stop("embedded", remove=True, base=str(self.base))


@pytest.fixture
def host(tmp_path, monkeypatch):
    return Host(tmp_path, monkeypatch)


def test_finished_points_are_here_before_the_run_is_removed_there(host):
    host.ask()
    with refused(host.base) as caught:
        host.remove()
    assert caught.value.code == "run_uncollected"
    answer = host.collect()
    assert (answer.get("failed"), answer["taken"], answer["left"]) == (None, {"first": 2}, {})
    kept = run_folder.stored(str(host.run_dir), POINTS)
    assert list(kept) == [one["point_id"] for one in POINTS[:2]]
    assert json.loads((host.run_dir / "hosts/target01.json").read_text(encoding="utf-8"))["kernel"] == {
        "release": "6.1"
    }
    assert (host.run_dir / "hosts/target01.log").read_text(encoding="utf-8") == "it was asked to end\n"
    assert not host.folder.exists()
    # Now, and when there was nothing, nothing is in the way of a teardown.
    assert host.collect()["changed"] is False
    assert host.remove()["removed"] == []


def test_a_run_that_nobody_here_knows_is_left_and_refused(host):
    with unchanged(host.base):
        assert (host.collect()["left"], host.run_dir.exists()) == ({"first": 2}, False)
    with refused(host.base) as caught:
        host.remove()
    assert caught.value.code == "run_uncollected"


def test_check_mode_takes_nothing_and_says_what_it_would(host, tmp_path):
    host.ask()
    with unchanged(tmp_path):
        answer = host.collect(check=True)
    assert (answer["changed"], answer["taken"]) == (True, {"first": 2})


def test_what_cannot_be_kept_is_a_failure_and_stays_there(host, monkeypatch):
    host.ask()

    def full(*_arguments):
        raise Failure("results_unwritable", "The disk is full.", "Free some of it.")

    monkeypatch.setattr(benchmark_collect, "keep_of_others", full)
    with unchanged(host.base):
        assert host.collect()["failure"]["code"] == "results_unwritable"


def test_a_measured_point_is_never_written_over(host):
    host.ask()
    host.collect()
    path = host.run_dir / "points" / POINTS[0]["point_id"] / "result.json"
    before = path.read_bytes(), path.stat().st_mtime_ns
    keep_of_others(str(host.run_dir), "target01", REQUEST, packed(POINTS[0]), PLAN, span())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    filled = {**ASKED, "prepare": {**ASKED["prepare"], "fill": not ASKED["prepare"]["fill"]}}
    other = {**PLAN, "points": plans.planned(filled, [LAYERS["backing-bench"]]), "prepare": filled["prepare"]}
    with refused(host.run_dir / "points") as caught:
        keep_of_others(str(host.run_dir), "target01", REQUEST, packed(POINTS[0]), other, span())
    assert caught.value.code == "run_exists"


def span(begun_s: float | None = None) -> theirs.Span:
    seen = theirs.Span("target01", begun_s)
    seen.shows(time.time(), time.time())
    return seen


OF_ANOTHER = plans.planned(ASKED, [LAYERS["initiator-bench"]])
CLAIMED = {**LAYERS["initiator-bench"], "host": "target01"}
HOSTILE = {
    "the layer of another host": (OF_ANOTHER, OF_ANOTHER[0]["point_id"]),
    "that layer said to be its own": (plans.planned(ASKED, [CLAIMED]), OF_ANOTHER[0]["point_id"]),
    "a layer that nobody published": (
        plans.planned(ASKED, [{**LAYERS["backing-bench"], "name": "backing-x"}]),
        "backing-x.r1",
    ),
    "another size than it was published with": (
        plans.planned(ASKED, [{**LAYERS["backing-bench"], "size_bytes": 1 << 27}]),
        None,
    ),
    "another identity": (plans.planned(ASKED, [{**LAYERS["backing-bench"], "identity": {"serial": "y"}}]), None),
    "a way out of the folder": ([{**POINTS[0], "point_id": "../../x"}], "../../x"),
    "the folder itself": ([{**POINTS[0], "point_id": ".."}], ".."),
    "another workload than its name says": (
        [{**POINTS[0], "workload": {**POINTS[0]["workload"], "read_percent": 5}}],
        None,
    ),
    "no workload": ([{**POINTS[0], "workload": {"block_size_bytes": "x"}}], None),
    "another seed": ([{**POINTS[0], "seed": 1}], None),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_a_host_speaks_for_its_own_layers_alone(host, kind):
    host.ask()
    points, name = HOSTILE[kind]
    theirs_there = {**PLAN, "points": points, "layers": [CLAIMED, {**LAYERS["backing-bench"], "name": "backing-x"}]}
    (host.folder / "plan.json").write_text(json.dumps({"plan": theirs_there, "boot_id": "boot-7"}), encoding="ascii")
    (host.folder / "done" / "1").write_bytes(base64.encodebytes(packed({"point_id": name or POINTS[0]["point_id"]})))
    with unchanged(host.base), unchanged(host.run_dir):
        answer = host.collect()
    assert (answer["failure"]["code"], answer["failed"]) == ("foreign_points", True)
    assert "target01" in answer["msg"]


@pytest.mark.parametrize(
    "noted", [{"started_utc": "2026-01-02T03:04:05.678Z"}, {"finished_utc": "2999-01-02T03:04:05Z"}]
)
def test_a_point_of_another_time_is_not_of_this_run(host, noted):
    host.ask()
    (host.folder / "done" / "2").write_bytes(base64.encodebytes(packed(POINTS[1], **noted)))
    with unchanged(host.base):
        answer = host.collect()
    assert answer["failure"]["code"] == "foreign_points" and POINTS[1]["point_id"] in answer["msg"]
    assert run_folder.stored(str(host.run_dir), [POINTS[1]]) == {}


@pytest.mark.parametrize("ahead_s", [-86400, 86400])
# The controller's own clock was a day ahead when the run began, and was set right since.
@pytest.mark.parametrize("begun_s", [-60, 86400])
def test_a_host_whose_clock_is_wrong_is_believed_by_its_own_clock(host, ahead_s, begun_s):
    """A day off from the beginning, and set right while it measured: both are times that the host has shown."""
    host.ask()
    seen = theirs.Span("target01", time.time() + begun_s)
    seen.shows(time.time() + ahead_s, time.time())
    seen.shows(time.time(), time.time())
    by_host = times.utc(time.time() + ahead_s)
    for number, noted in enumerate([{"started_utc": by_host, "finished_utc": by_host}, {}]):
        keep_of_others(str(host.run_dir), "target01", REQUEST, packed(POINTS[number], **noted), PLAN, seen)
    assert set(run_folder.stored(str(host.run_dir), POINTS)) == {one["point_id"] for one in POINTS[:2]}
    with refused(host.run_dir) as caught:
        keep_of_others(
            str(host.run_dir),
            "target01",
            REQUEST,
            packed(POINTS[2], started_utc=times.utc(time.time() + 3 * 86400)),
            PLAN,
            seen,
        )
    assert caught.value.code == "foreign_points"


def test_a_host_does_not_choose_whose_fingerprint_it_gives(host):
    host.ask()
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        content = b'{"host": "hypervisor01", "variants": {"x": {}}, "cpu": {"model": "own"}}'
        member = tarfile.TarInfo("host.json")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    keep_of_others(str(host.run_dir), "target01", REQUEST, whole.getvalue(), PLAN, span())
    assert json.loads((host.run_dir / "hosts/target01.json").read_text(encoding="utf-8")) == {
        "host": "target01",
        "cpu": {"model": "own"},
    }


def test_the_answer_tells_what_else_there_is_to_end_on_the_host(host):
    """The role asks the host for nothing that this answer tells to be missing: each question takes seconds on a slow machine."""
    host.ask()
    assert host.collect()["areas"] == ["bench"]
    host.remove()
    assert not (host.base / "embedded").exists() and host.collect()["areas"] == []
    # Where each of the three keeps what it has; made as those make it.
    places_of = {"server": fio_server.servers_dir, "observer": observer.observer_dir}
    for number, (area, place) in enumerate(places_of.items(), start=1):
        (host.base / "embedded").mkdir(parents=True, exist_ok=True)
        (host.base / place("embedded", str(host.base))).mkdir()
        assert area in host.collect()["areas"] and len(host.collect()["areas"]) == number
    tasks = yaml.safe_load((places.ROOT / "roles/benchmark/tasks/absent.yml").read_text(encoding="utf-8"))
    asked = {word for task in tasks for word in runner.AREAS if f"'{word}' in (" in str(task.get("when"))}
    assert asked == set(runner.AREAS)
