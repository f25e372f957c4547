# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows a run of a Linux host from the controller and takes each point as soon as it is finished.

The supervisor on the host (module_utils/run/runner.py) leaves every finished point in ``done``. Each look at the host lists what is there; it is brought here,
written to disk by whoever follows, and only then removed from the host. So a host that dies takes nothing with it but the point that it was measuring.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
import time
from collections.abc import Callable
from typing import Any, TypedDict

from ansible.errors import AnsibleConnectionFailure

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import naming
from ...module_utils.run import standby
from . import theirs

ENDED = ("finished", "stopped", "crashed", "waiting", "refused")
POLL_S = 2.0
LAST_POLL_S = 0.2
# The supervisor speaks every second; after this silence it is asked whether it lives.
SILENCE_S = 20.0
# One that lives and says nothing for so long is stopped, or waits for a device that does not answer.
SILENT_PATIENCE_S = 300.0
# A connection may be gone for so long before the task gives up.
CONNECTION_PATIENCE_S = 120.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# So many points are fetched at once.
BATCH = 8
# The kernel takes 128 KiB for one word of a command. The start of a supervisor is nothing beside a turn of so many points.
LARGEST_PLAN_CHARACTERS = 96 << 10
# The limit of one file of the run, and of the supervisor's log; a host that is asked for less may still send more.
LARGEST_BYTES, LARGEST_LOG_BYTES = 256 << 20, 1 << 20
NUMBER = re.compile(r"[0-9]{1,9}")


class Runner(TypedDict):
    """A supervisor on a host: its folder, the start of the host on which it was begun, and its process (0: unknown)."""

    state_dir: str
    boot_id: str
    pid: int


def _claim(runner: Runner) -> str:
    """A command that takes a waiting supervisor for oneself, in its folder; it fails where that process is gone, or another has its place."""
    return (
        f'cd {shlex.quote(runner["state_dir"])} && [ "$(cat {BOOT_ID})" = {shlex.quote(runner["boot_id"])} ] && '
        # The state of the process and, as the twentieth of the fields from there on, when it started; a corpse has both.
        f'set -- $(sed \'s/.*) //\' /proc/{int(runner["pid"])}/stat) && [ "$1" != Z ] && grep -q "\\"${{20}}\\"" supervisor.json && '
        f"mv {standby.WAITING} {standby.CLAIMED}"
    )


class LinuxRun:
    """One run on one host.

    module(arguments): what benchmark_run answers, Failures raised. agreed(): called once the host has agreed to measure.
    command(text): {rc, stdout, stderr} of a shell command on the host, and nothing that others print there. take(archive, plan): keep the points of a
    packed part of the run; plan is the host's own when another call had begun it, else None. tell(state): called at each look. span: gets to know the
    host's clock.
    """

    def __init__(
        self,
        host: str,
        run_dir: str,
        module: Callable[[dict[str, Any]], dict[str, Any]],
        agreed: Callable[[], None],
        command: Callable[[str], dict[str, Any]],
        take: Callable[[bytes, dict[str, Any] | None], None],
        tell: Callable[[dict[str, Any]], None],
        span: theirs.Span,
    ) -> None:
        self.host, self.run_dir = host, run_dir
        self.module, self.agreed, self.command, self.take, self.tell = module, agreed, command, take, tell
        self.span = span
        self.taken = 0
        # The supervisor that waits for the host's next turn.
        self.runner: Runner | None = None

    def run(self, plan: dict[str, object], expected_s: float, runner: Runner | None = None) -> bool:
        """Start the plan, or join what is there, and take everything until it has ended. Returns whether it was joined: then points may be missing.

        runner: a supervisor that may wait for this turn, and is given the plan in place of a new start.
        """
        if runner and self._claimed(plan, runner):
            self._follow(runner, False, True, expected_s)
            if self.status != "refused":
                return False
            # The module refuses it with the reason.
        started = self.module({"action": "start", "plan": plan})
        begun: Runner = {
            "state_dir": started["state_dir"],
            "boot_id": started["boot_id"],
            "pid": started.get("pid") or 0,
        }
        self._follow(begun, started["joined"], started["alive"], expected_s)
        return bool(started["joined"])

    def _follow(self, runner: Runner, joined: bool, alive: bool, expected_s: float) -> None:
        self.agreed()
        self.folder, self.boot_id = runner["state_dir"], runner["boot_id"]
        # Another call may have begun it, for other points.
        self.plan = theirs.plan(self.host, self._file("plan.json")) if joined else None
        if alive:
            self._watch(expected_s)
        self._take_rest()
        self.runner = runner if self.status == "waiting" and runner["pid"] else None

    def _claimed(self, plan: dict[str, object], runner: Runner) -> bool:
        """Whether the supervisor that waits took the plan; it may have ended since, as any process."""
        text = standby.packed(plan)
        self.folder = runner["state_dir"]
        if len(text) > LARGEST_PLAN_CHARACTERS:
            return False
        state = shlex.quote(json.dumps({"status": "running", "phase": "start"}))
        done = self._answer_to(
            f"({_claim(runner)} && printf %s {state} > state.new && printf %s {text} > plan.new && "
            f"mv state.new state.json && mv plan.new {standby.NEXT})"
        )
        return not done["rc"]

    def dismiss(self, runner: Runner) -> None:
        """End a supervisor that waits for a turn that does not come, and remove its run from the host."""
        self.folder = runner["state_dir"]
        if not self._answer_to(f"({_claim(runner)} && kill {int(runner['pid'])})")["rc"]:
            self._cleared()

    def take_left(self, folder: str) -> None:
        """Take what a run has left that another call began, and that has ended. folder: of the run on the host."""
        self.folder = folder
        self.boot_id = str(self._answer_to(f"cat {BOOT_ID}")["stdout"]).strip()
        self.plan = theirs.plan(self.host, self._file("plan.json"))
        self._take_rest()

    def _take_rest(self) -> None:
        seen = self._look(asks_clock=True)
        self.status = seen["state"]["status"]
        self._collect(seen["done"])
        log = self._log_so_far() if self.status == "waiting" else self._cleared()
        if log:
            self._keep_log(log)

    def _keep_log(self, log: str) -> None:
        folder = os.path.join(self.run_dir, "hosts")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{self.host}.log")
        with naming(path), open(path, "a", encoding="utf-8") as handle:
            handle.write(f"{log}\n")

    def _watch(self, expected_s: float) -> None:
        """Until the run has ended: read its state now and then, say it, and take what is finished."""
        interval = max(POLL_S, min(expected_s / 200, 10))
        spoken, heard = None, time.monotonic()
        silent_since = heard
        while True:
            # The clock is asked together with what is heard first.
            seen = self._look(asks_clock=spoken is None)
            state = seen["state"]
            self._collect(seen["done"])
            if state["status"] in ENDED:
                return
            self.tell(state)
            if state.get("updated") != spoken:
                spoken, heard = state.get("updated"), time.monotonic()
                silent_since = heard
            elif time.monotonic() - heard > SILENCE_S:
                if not self.module({"action": "status"})["alive"]:
                    return
                heard = time.monotonic()
                if heard - silent_since > SILENT_PATIENCE_S:
                    raise Failure(
                        "run_silent",
                        f"The run on {self.host} lives and has said nothing for {SILENT_PATIENCE_S:.0f} s; {self._kept()}.",
                        "Look at the host's processes and kernel log; then run the same task again, which goes on with it, or end it by a teardown.",
                        state_dir=self.folder,
                        taken=self.taken,
                    )
            # Not beyond the expected end, so that a short run is not waited for.
            # Before its first point a host does not say so yet, and plays the beat, which looks at it at every moment would disturb.
            left = state["remaining_s"] - (time.monotonic() - heard) if "remaining_s" in state else expected_s
            time.sleep(min(interval, max(left, LAST_POLL_S)))

    def _look(self, asks_clock: bool = False) -> dict[str, Any]:
        """{state, done: numbers of the finished points that are there}, from the very start of the host on which the run was begun."""
        folder, sent_s = shlex.quote(self.folder), time.time()
        # One program is started: each takes an emulated processor, which measures at that time, a quarter of a second.
        listing = self._answer_to(
            f"{'date +%s; ' if asks_clock else ''}cat {BOOT_ID} {folder}/state.json; echo; cd {folder}/done && printf '%s\\n' *"
        )
        rest = str(listing["stdout"])
        if asks_clock:
            now, _newline, rest = rest.partition("\n")
            self.span.shows(theirs.clock(self.host, now), sent_s)
        boot_id, _newline, rest = rest.partition("\n")
        if boot_id.strip() != self.boot_id:
            raise Failure(
                "run_lost",
                f"{self.host} was restarted while it measured; {self._kept()}.",
                "Run the same task again: it measures the others.",
                state_dir=self.folder,
                taken=self.taken,
            )
        text, _newline, names = rest.partition("\n")
        if not text.strip():
            raise Failure(
                "run_lost",
                f"The run on {self.host} is gone ({listing['stderr'].strip()}); {self._kept()}.",
                "Somebody removed it there; run the same task again: it measures the others.",
                state_dir=self.folder,
                taken=self.taken,
            )
        done = sorted(int(name) for name in names.split() if NUMBER.fullmatch(name))
        return {"state": theirs.state(self.host, text), "done": done}

    def _kept(self) -> str:
        return f"the {self.taken} points that were finished and fetched are kept in {self.run_dir}"

    def _collect(self, numbers: list[int]) -> None:
        while numbers:
            batch, numbers = numbers[:BATCH], numbers[BATCH:]
            # A line of its own between two of them; none has a dot.
            contents = self._file(*(f"done/{number}" for number in batch)).split(".")
            for number, text in zip(batch, contents):
                try:
                    archive = base64.b64decode(text)
                except binascii.Error as error:
                    raise Failure(
                        "transfer_damaged",
                        f"Point {number} of the run on {self.host} arrived damaged: {error}.",
                        "Run the task again; the host still has it.",
                    ) from error
                self.take(archive, self.plan)
                self.taken += 1
            # Only now: until the results are on the controller's disk, the host has the only copy.
            self._answer_to("rm -f -- " + " ".join(self._path(f"done/{number}") for number in batch))

    def _path(self, name: str) -> str:
        return shlex.quote(os.path.join(self.folder, name))

    def _file(self, *names: str) -> str:
        """The content of files of the run, a dot in a line of its own between two."""
        done = self._answer_to(
            " && echo . && ".join(f"head -c {LARGEST_BYTES} -- {self._path(name)}" for name in names)
        )
        if done["rc"]:
            raise Failure(
                "run_lost",
                f"{names[0]} of the run on {self.host} cannot be read ({done['stderr'].strip()}); {self._kept()}.",
                "Run the same task again: it measures the others.",
                state_dir=self.folder,
                taken=self.taken,
            )
        return str(done["stdout"])

    def _log_so_far(self) -> str:
        """The supervisor's log, which is empty after that."""
        path = self._path("supervisor.log")
        return str(self._answer_to(f"tail -c {LARGEST_LOG_BYTES} -- {path}; : > {path}")["stdout"]).strip()

    def _cleared(self) -> str:
        """Remove the run from the host, unless something is left in it that was not taken; what the supervisor's log said."""
        folder, above = shlex.quote(self.folder), shlex.quote(os.path.dirname(self.folder))
        done = self._answer_to(
            f"tail -c {LARGEST_LOG_BYTES} -- {folder}/supervisor.log; "
            f'if [ -z "$(ls -A {folder}/done)" ]; then rm -rf -- {folder} && rmdir -p --ignore-fail-on-non-empty -- {above}; fi'
        )
        return str(done["stdout"]).strip()

    def _answer_to(self, command: str) -> dict[str, Any]:
        """The answer to a command, waiting for a host that is out of reach for a while."""
        deadline = time.monotonic() + CONNECTION_PATIENCE_S
        while True:
            try:
                return self.command(command)
            except Failure as failure:
                # The user's rights are gone; what the host still has can be taken once they are back.
                what = f"{failure.what} Of its run {self._kept()}."
                details = {"state_dir": self.folder, "taken": self.taken}
                raise Failure("command_refused", what, failure.remedy, **{**failure.details, **details}) from failure
            except AnsibleConnectionFailure as error:
                if time.monotonic() > deadline:
                    raise Failure(
                        "host_unreachable",
                        f"{self.host} has not been reached for {CONNECTION_PATIENCE_S:.0f} s ({error}), so it is unknown whether it still measures; "
                        f"{self._kept()}.",
                        "Run the same task again: it continues a run that is still going on, and measures lost points again.",
                        state_dir=self.folder,
                        taken=self.taken,
                    ) from error
                time.sleep(POLL_S)
