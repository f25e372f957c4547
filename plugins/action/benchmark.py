# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures layers; documentation in plugins/modules/benchmark.py."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import yaml
from ansible.utils.display import Display

from ..module_utils.core.failure import Failure
from ..module_utils.core.visible import visible
from ..module_utils.engines.catalogue import ENGINES, check_host
from ..module_utils.result import result as schema
from ..module_utils.result import steady_state
from ..module_utils.run import duration, preparation
from ..module_utils.workload import profile
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.benchmark import plan, progress, search, theirs
from ..plugin_utils.benchmark.keep import keep
from ..plugin_utils.benchmark.linux_runner import LinuxRun
from ..plugin_utils.benchmark.outcome import points_failed
from ..plugin_utils.benchmark.windows_runner import WindowsRun
from ..plugin_utils.store import load, run_folder
from ..plugin_utils.store.archive import unpack
from ..plugin_utils.windows import engines as windows_engines

ARGUMENTS = {
    "testbed_id": {"type": "str", "required": True},
    "run_id": {"type": "str", "required": True},
    "results_dir": {"type": "path", "required": True},
    "layers": {"type": "raw"},
    "servers": {"type": "list", "elements": "dict", "default": []},
    "servers_layer": {"type": "str"},
    "profile": {"type": "str"},
    "profile_dirs": {"type": "list", "elements": "path", "default": []},
    "workload": {"type": "dict"},
    "workloads": {"type": "list", "elements": "dict"},
    "sweep": {"type": "dict"},
    "exclude": {"type": "list", "elements": "dict", "default": []},
    "repetitions": {"type": "int", "default": 1},
    "only_repetitions": {"type": "list", "elements": "int", "default": []},
    "order": {"type": "str", "choices": list(plan.ORDERS), "default": "interleaved"},
    "seed": {"type": "int"},
    "variant": {"type": "str"},
    "engine": {"type": "str", "default": "fio"},
    "windows": {"type": "dict", "default": {}, "options": windows_engines.SPEC},
    "prepare": {"type": "dict", "default": {}, "options": preparation.OPTIONS},
    "steady_state": {"type": "dict", "options": steady_state.OPTIONS},
    "series": {"type": "bool", "default": True},
    "beat": {"type": "bool", "default": True},
    "search": {"type": "dict", "options": search.OPTIONS},
    "allow_device": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "runner": {
        "type": "dict",
        "options": {
            "state_dir": {"type": "str", "required": True},
            "boot_id": {"type": "str", "required": True},
            "pid": {"type": "int", "required": True},
        },
    },
    "progress": {"type": "str", "choices": ["auto", "bar", "line", "none"], "default": "auto"},
}
RUN_MODULE = "storlab.testbed.benchmark_run"
COLLECTION = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_BEAT = "no beat is played on Windows hosts: what plays it needs fio's null engine and Python on the host"
# Asked when Ansible loads this, in the main process: the processes that run tasks have no terminal.
TERMINAL = bool(sys.stdout and sys.stdout.isatty())

display = Display()


def say(text: str) -> None:
    """To the terminal, which obeys nothing that a host may have put in it."""
    display.display(visible(text))


def warn(text: str) -> None:
    display.warning(visible(text))


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS

    def run(self, tmp=None, task_vars=None):
        if self._task.async_val:
            failure = Failure(
                "async_unsupported",
                "The task has async, and benchmark cannot run in the background of a host.",
                "Remove async; the run goes on by itself when the connection or the playbook ends, and the same task picks it up again.",
            )
            return {"failed": True, "changed": False, **failure.as_result()}
        return super().run(tmp, task_vars)

    def arguments(self) -> dict:
        given = super().arguments()
        return {**given, "steady_state": plan.steady_argument(given.get("steady_state"))}

    def parameters(self) -> dict:
        params, given = super().parameters(), self.arguments()
        if params["steady_state"] is not None:
            # A value that was not given follows from each workload.
            params["steady_state"] = {key: params["steady_state"][key] for key in given["steady_state"]}
        return params

    def perform(self, params: dict) -> dict:
        return self._benchmark(params, self.task_vars)

    def _benchmark(self, args: dict, task_vars: dict) -> dict:
        self.args, self.vars, self.host = args, task_vars, task_vars["inventory_hostname"]
        self.windows = getattr(self._connection._shell, "_IS_WINDOWS", False)
        check_host(args, self.windows)
        self.profile = self._profile()
        self.options = plan.validate({**args, "beat": args["beat"] and not self.windows}, self.profile)
        facts = task_vars.get("ansible_facts", {})
        known = facts.get("storlab_layers", {})
        self.layers = (
            plan.choose_servers(args["servers"], args["servers_layer"], args["layers"], known, self.host)
            if args["servers"]
            else plan.choose_layers(args["layers"], known, self.host, ENGINES[args["engine"]].ceiling)
        )
        plan.refuse_writers(self.options, self.layers["measured"])
        self.run_dir = os.path.join(self._loader.path_dwim(args["results_dir"]), args["testbed_id"], args["run_id"])
        answer = {
            "changed": False,
            "run_id": args["run_id"],
            "run_dir": self.run_dir,
            "skipped_layers": self.layers["skipped"],
        }
        if not self.layers["measured"]:
            return {**answer, "points": [], "estimated_s": 0, "msg": f"{self.host} has no layer to measure."}
        # The process that waits on the host for this turn, and then for the next one.
        self.runner = args["runner"]
        points, results = self._measure_all()
        answer.update(self._leave_runner())
        if self.measured:
            results = self._against_ceiling(results)
        missing = [point for point in points if point["point_id"] not in results]
        answer.update(changed=bool(self.measured or missing), estimated_s=round(self.estimated_s, 1))
        answer["points"] = [plan.shown(point, self.options, self._status(point, results)) for point in points]
        failed = {name: result["failures"] for name, result in results.items() if result["status"] == "failed"}
        if self.options["search"] and not missing and not failed:
            answer["search"] = self._answers(results)
        if self.options["search"]:
            answer["estimated_most_s"] = round(plan.most_s(self.options, self.layers["measured"]), 1)
        if self._task.check_mode:
            self._list(answer)
            return answer
        if failed:
            failure = points_failed(self.host, self.run_dir, failed, len(results))
            # Ansible takes no facts from a task that failed; it would only print them.
            return {**answer, "failed": True, **failure.as_result()}
        answer["ansible_facts"] = {
            "storlab_benchmarks": merged_facts(facts.get("storlab_benchmarks", {}), args, self.run_dir, results)
        }
        return answer

    def _profile(self) -> dict | None:
        if self.args["profile"] is None:
            return None
        folders = [
            os.path.join(COLLECTION, "roles", "benchmark", "files", "profiles"),
            *map(self._loader.path_dwim, self.args["profile_dirs"]),
        ]
        return profile.find(self.args["profile"], folders, yaml.safe_load)

    def _status(self, point: dict, results: dict) -> str:
        name = point["point_id"]
        if name not in results:
            return "planned"
        return "stored" if self._task.check_mode and name not in self.measured else results[name]["status"]

    # ------------------------------------------------------------ what to measure

    def _measure_all(self) -> tuple:
        """(points, {point_id: result}): everything the plan wants, or what it wants next when it is not to be measured now or has failed."""
        self.measured: set = set()
        self.agreed = False
        self.estimated_s = 0.0
        results: dict = {}
        points: list = []
        if not self.options["search"]:
            points = plan.planned(self.options, self.layers["measured"])
            self._fetch(points, results)
            return points, {
                point["point_id"]: results[point["point_id"]] for point in points if point["point_id"] in results
            }
        while True:
            wanted = plan.searched(self.options, self.layers["measured"], results)
            new = plan.numbered([point for point in wanted if point["point_id"] not in results], len(results) + 1)
            points += new
            if not new or not self._fetch(new, results):
                return points, results

    def _fetch(self, points: list, results: dict) -> bool:
        """Add the results of these points, those that are stored and, unless in check mode, those that are not. Returns whether all are there and good."""
        kept = {} if self.args["force"] else run_folder.stored(self.run_dir, points)
        results.update(kept)
        missing = [point for point in points if point["point_id"] not in kept]
        host_plan = self._host_plan(missing)
        expected_s = duration.plan_s(host_plan)
        self.estimated_s += expected_s
        if missing and not self._task.check_mode:
            self._announce(missing, expected_s)
            results.update(self._measure(missing, host_plan, expected_s))
            self.measured.update(point["point_id"] for point in missing)
        return all(results.get(point["point_id"], {}).get("status") == "measured" for point in points)

    def _leave_runner(self) -> dict:
        """{runner} of the supervisor that stays for the host's next turn; without another turn it is ended."""
        if self.runner and not self._stays() and not self._task.check_mode:
            self._linux_run(lambda _archive, _plan: None, lambda _state: None, theirs.Span(self.host, None)).dismiss(
                self.runner
            )
            self.runner = None
        return {"runner": self.runner} if self.runner else {}

    def _stays(self) -> bool:
        """Whether this host has a turn after this one. Between variants the host is changed, and nothing of ours is to run there."""
        turns = self.args["only_repetitions"]
        return (
            bool(turns) and max(turns) < self.options["repetitions"] and not (self.windows or self.options["variant"])
        )

    def _host_plan(self, points: list) -> dict:
        return {
            **({"stays": True} if self._stays() else {}),
            **plan.for_host(self.options, self.layers, points, run_folder.prepared(self.run_dir)),
            **plan.same_host(run_folder.environment(self.run_dir, self.host)),
        }

    def _list(self, answer: dict) -> None:
        """Check mode: the points in their order, and how long all of them take."""
        if self.args["progress"] == "none":
            return
        for line in progress.listed(self.host, answer["points"], self.options["repetitions"]):
            say(line)
        missing = [point for point in answer["points"] if point["status"] == "planned"]
        say(progress.ahead(self.host, len(missing), answer["estimated_s"], None))
        if missing and self.options["search"]:
            say(progress.at_most(self.host, answer["estimated_most_s"]))

    def _announce(self, points: list, expected_s: float) -> None:
        batch, forks = len(self.vars.get("ansible_play_batch", ())), self.vars.get("ansible_forks")
        if forks and batch > int(forks) and not self._task.throttle and self.host == self.vars["ansible_play_batch"][0]:
            warn(
                f"{batch} hosts are to measure at once, but forks is {forks}: they take turns. Raise forks, or set serial to say so."
            )
        if self.args["progress"] != "none":
            end = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + expected_s))
            say(progress.ahead(self.host, len(points), expected_s, end))

    def _answers(self, results: dict) -> list:
        answers = [
            {"layer": layer["name"], **search.answer(self.options["search"], base, plan.measured_on(layer, results))}
            for base in self.options["workloads"]
            for layer in self.layers["measured"]
        ]
        if not self._task.check_mode:
            names = [
                ".".join(
                    [
                        answer["layer"],
                        answer["workload_id"],
                        *([self.options["variant"]] if self.options["variant"] else []),
                        answer["search"]["kind"],
                    ]
                )
                for answer in answers
            ]
            run_folder.add_answers(self.run_dir, dict(zip(names, answers)))
        if self.args["progress"] != "none":
            for answer in answers:
                say(progress.answered(self.host, answer))
        return answers

    def _against_ceiling(self, results: dict) -> dict:
        """The results with the checks that need the other points of the host: what the generator alone can do is one of them."""
        judged = schema.against_ceiling(results, run_folder.environment(self.run_dir, self.host))
        return {**results, **run_folder.add(self.run_dir, f"ceiling.{self.host}", results, judged)}

    # ------------------------------------------------------------ on the host

    def _measure(self, points: list, host_plan: dict, expected_s: float) -> dict:
        # Before anything runs: results that cannot be kept need not be measured.
        run_folder.refuse_unfit(self.run_dir)
        begun = time.monotonic()
        try:
            results = (self._on_windows if self.windows else self._on_linux)(points, host_plan, expected_s)
        except Failure as failure:
            if self.agreed:
                run_folder.note(self.run_dir, "fault", host=self.host, code=failure.code)
            raise
        load.keep_index(self.run_dir)
        good = sum(result["status"] == "measured" for result in results.values())
        if self.args["progress"] != "none":
            say(f"[{self.host}] {good} of {len(results)} points measured in {time.monotonic() - begun:.0f} s")
        return results

    def _keep_request(self) -> None:
        """The request, once the host has agreed to measure it: a run that was refused leaves nothing that looks like one."""
        run_folder.add_request(
            self.run_dir,
            {key: self.options[key] for key in ("testbed_id", "run_id")} | {"collection_version": collection_version()},
            plan.request(self.options, self.profile),
            self.host,
        )
        run_folder.add_layers(
            self.run_dir,
            {layer["name"]: layer for layer in self.layers["known"]},
            self.options["variant"],
            {layer["name"] for layer in self.layers["measured"]},
        )
        run_folder.note(self.run_dir, "started", host=self.host)
        self.agreed = True

    def _on_linux(self, points: list, host_plan: dict, expected_s: float) -> dict:
        """All points are handed over at once, and each is taken as soon as it is finished."""
        lines = progress.Lines(self.host, progress.style(self.args["progress"], TERMINAL), say)
        results: dict = {}
        span = theirs.Span(self.host, theirs.first_seen_s(os.path.dirname(self.run_dir), self.args["run_id"]))

        def take(archive: bytes, plan_there: dict | None) -> None:
            results.update(self._take(archive, plan_there, points, span))

        run = self._linux_run(take, lambda state: lines.show(state, time.monotonic()), span)
        runner, self.runner = self.runner, None
        while run.run(host_plan, expected_s, runner):
            self.runner, runner = run.runner, None
            # It was begun by another call, so something else may be missing, and what failed in it is measured again as in every further call.
            missing = [point for point in points if results.get(point["point_id"], {}).get("status") != "measured"]
            if not missing:
                return results
            host_plan = self._host_plan(missing)
            expected_s = duration.plan_s(host_plan)
        self.runner = run.runner
        # The run was stopped before these.
        return {**results, **self._keep([point for point in points if point["point_id"] not in results], {}, {})}

    def _linux_run(self, take: Callable, tell: Callable, span: theirs.Span) -> LinuxRun:
        return LinuxRun(self.host, self.run_dir, self._module, self._keep_request, self.on_host, take, tell, span)

    def _take(self, archive: bytes, plan_there: dict | None, points: list, span: theirs.Span) -> dict:
        """Keep what a packed part of a run has, and return the results of these points. plan_there: the host's plan when another call made it.

        Its points may be none of these, or others of the same name: they are kept as what they were measured as, and never written over a measured one.
        """
        layers = {layer["name"]: layer for layer in self.layers["measured"]}
        known = {point["point_id"]: (point, layers[point["layer"]]) for point in points}
        if plan_there is not None:
            given = [*self.layers["known"], *self.layers["measured"]]
            known = theirs.points(self.host, plan_there, self.options, theirs.known_layers(self.run_dir, given))
            layers = {point["layer"]: layer for point, layer in known.values()}
        files, preparations, environment, beat = unpack(archive, set(known))
        span.refuse_outside(files)
        taken = [known[name][0] for name in files]
        if plan_there is not None:
            run_folder.stored(self.run_dir, taken)
        run_folder.write_host(self.run_dir, self.host, environment, self.options["variant"])
        run_folder.add_beat(self.run_dir, self.host, beat)
        results = self._keep(taken, files, preparations, layers)
        wanted = {point["point_id"]: point["fingerprint"] for point in points}
        return {
            point["point_id"]: results[point["point_id"]]
            for point in taken
            if wanted.get(point["point_id"]) == point["fingerprint"]
        }

    def _on_windows(self, points: list, host_plan: dict, _expected_s: float) -> dict:
        """One run of the engine after another, each kept before the next begins."""
        lines = progress.Lines(self.host, progress.style(self.args["progress"], TERMINAL), say)
        spoken = say if self.args["progress"] != "none" else lambda _text: None
        run = WindowsRun(
            self._execute_module,
            self._connection.reset,
            self.vars,
            self.options,
            self.args["windows"],
            lambda state: lines.show(state, time.monotonic()),
            spoken,
            warn,
        )
        environment = run.begin(host_plan)
        self._keep_request()
        run_folder.write_host(self.run_dir, self.host, environment, self.options["variant"])
        if self.args["beat"]:
            run_folder.add_beat(self.run_dir, self.host, {"note": NO_BEAT})
        results: dict = {}
        for files, preparations in run.measure():
            results.update(self._keep([point for point in points if point["point_id"] in files], files, preparations))
        return results

    def _keep(self, points: list, files: dict, preparations: dict, layers: dict | None = None) -> dict:
        """The results of these points, once they and the files they were made of are on the controller's disk."""
        layers = layers or {layer["name"]: layer for layer in self.layers["measured"]}
        return keep(self.run_dir, self.options, points, layers, files, preparations)

    def _module(self, module_args: dict) -> dict:
        done = self._execute_module(
            module_name=RUN_MODULE,
            module_args={**module_args, "testbed_id": self.args["testbed_id"], "run_id": self.args["run_id"]},
            task_vars=self.vars,
        )
        if done.get("failed"):
            raise Failure.of_result(done)
        return done


def collection_version() -> str | None:
    """The version of the installed collection by its manifest, and of a checkout by galaxy.yml."""
    try:
        with open(os.path.join(COLLECTION, "MANIFEST.json"), encoding="utf-8") as handle:
            return json.load(handle)["collection_info"]["version"]
    except FileNotFoundError:
        with open(os.path.join(COLLECTION, "galaxy.yml"), encoding="utf-8") as handle:
            return str(yaml.safe_load(handle)["version"])


def merged_facts(earlier: dict, args: dict, run_dir: str, results: dict) -> dict:
    """All runs this host knows of: a fact replaces the earlier fact of its name, so the earlier ones are part of it."""
    points = earlier.get(args["run_id"], {}).get("points", {})
    run = {
        "testbed_id": args["testbed_id"],
        "run_id": args["run_id"],
        "run_dir": run_dir,
        "points": {**points, **{name: schema.summary(result) for name, result in results.items()}},
    }
    return {**earlier, args["run_id"]: run}
