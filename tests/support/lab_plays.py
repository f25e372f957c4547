# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab that long suites play the shipped playbooks on, again and again, while something is done to it."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import yaml
from places import ROOT
from plays import outcome

# No playbook may take longer, whatever becomes of its hosts. Emulated machines are slow.
PATIENCE_S = 1800


@dataclasses.dataclass
class Played:
    returned: int | None  # None: it did not end
    seconds: float
    changed: int
    failures: list
    moments: list


class Disturbance(Protocol):
    """What happens beside a playbook."""

    def begin(self) -> None: ...

    def finish(self) -> None: ...


class Lab:
    # What ansible-playbook is started by, such as nsenter.
    prefix: tuple = ()
    # What it is told besides, such as --limit, and in its environment.
    options: tuple = ()
    environment: Mapping[str, str] = MappingProxyType({})

    # Of the playbook that runs now.
    running = 0

    def __init__(self, name: str, folder: Path, inventory: dict, configuration: str):
        """name: of its testbed. folder: all that is its own; results lie there, too."""
        self.name, self.folder = name, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.results = folder / "results"
        self.results.mkdir(exist_ok=True)
        self.moments = folder / "moments"
        (folder / "lab.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        (folder / "ansible.cfg").write_text(configuration, encoding="utf-8")

    def play(self, *books: str, strike: Disturbance | None = None, **variables: object) -> Played:
        """Play shipped playbooks in one go. strike: what happens meanwhile."""
        self.moments.unlink(missing_ok=True)
        begun = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [
                    *self.prefix,
                    "ansible-playbook",
                    "-i",
                    str(self.folder / "lab.yml"),
                    *self.options,
                    "-e",
                    json.dumps(variables),
                    *(str(ROOT / "playbooks" / f"{book}.yml") for book in books),
                ],
                cwd=ROOT,
                env={
                    **os.environ,
                    "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
                    "KILL_CONTROLLER_MOMENTS": str(self.moments),
                    **self.environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.running = process.pid
            returned = None
            try:
                if strike:
                    strike.begin()
                returned = process.wait(PATIENCE_S)
            except BaseException as error:
                # Whoever ends the suite ends its playbook, too, which would go on in a session of its own.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
            finally:
                ended = time.monotonic()
                if strike:
                    strike.finish()
            output.seek(0)
            text = output.read().decode(errors="replace")
        (self.folder / "plays").mkdir(exist_ok=True)
        (self.folder / "plays" / f"{time.time_ns()}-{Path(books[0]).name}.json").write_text(text, encoding="utf-8")
        changed, failures = told(text)
        return Played(returned, round(ended - begun, 1), changed, failures, self._moments())

    def _moments(self) -> list:
        return self.moments.read_text(encoding="utf-8").splitlines() if self.moments.exists() else []

    def reached(self) -> int:
        """How many tasks the playbook has come to."""
        return len([line for line in self._moments() if line.startswith("before ")])

    def points(self, run: str) -> list:
        """[(result, fio's own document)] of a run."""
        found = []
        for path in sorted((self.results / self.name / run / "points").glob("*/result.json")):
            raw = path.with_name("fio.json")
            document = raw.read_text(encoding="utf-8", errors="replace") if raw.exists() else ""
            found.append((json.loads(path.read_text(encoding="utf-8")), document))
        return found


def told(text: str) -> tuple:
    """(how many tasks changed something, failures) of what ansible-playbook printed: after each playbook a document of all so far."""
    try:
        stats, failures = outcome(text)
    except ValueError:
        return 0, [{"host": "", "task": "", "msg": text[-2000:]}]
    failures = [
        {**failure, "msg": str(failure["msg"]), "unreachable": bool(failure["unreachable"])} for failure in failures
    ]
    return sum(host["changed"] for host in stats.values()), failures
