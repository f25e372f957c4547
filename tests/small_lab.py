# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An embedded lab that long suites keep up: machines target01 and hypervisor01, one RAM disk, one session, one datastore."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

import yaml
from places import ROOT, TESTS
from plays import outcome

MACHINES = ("target01", "hypervisor01")
# No playbook may take longer, whatever becomes of its hosts. Emulated machines are slow.
PATIENCE_S = 1800
WORKLOAD = {"block_size": "4k", "read_percent": 60, "queue_depth": 4, "ramp_s": 1, "runtime_s": 6}
REPETITIONS = 2


def inventory(name: str, folder: Path) -> dict:
    """The lab as an inventory. folder: where its results go."""
    lab = ROOT / ".cache" / "lab" / name
    here = {
        "testbed_id": name,
        "testbed_state_dir": str(ROOT / ".cache" / "testbeds" / name),
        "testbed_results_dir": str(folder / "results"),
        "testbed": {
            "disks": [{"name": "ds1", "size": "32MiB"}],
            "datastores": [{"disk": "ds1", "benchmark_file": "8MiB"}],
        },
        "embedded_lab_dir": str(lab),
        "embedded_lab_image_dir": str(ROOT / ".cache" / "images"),
        "embedded_lab_netns": "{{ embedded_lab_dir | storlab.testbed.lab_netns(testbed_id) }}",
        "benchmark_workloads": [WORKLOAD],
        "benchmark_repetitions": REPETITIONS,
        "benchmark_ceiling": False,
        "benchmark_beat": False,
        "benchmark_networks": [],
    }
    machines = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/local/bin/python-client",
        "ansible_ssh_common_args": f'-F "{lab}/ssh/config"',
        "ansible_control_path_dir": "/run/storlab/{{ embedded_lab_netns }}/cp",
    }
    controller = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "testbed_verify_ignore": ["^(?!.*(/storlab/|storlab-{{ testbed_id }}))"],
    }
    children = {
        "controllers": {"hosts": {"controller01": None}, "vars": controller},
        "embedded_controllers": {"hosts": {"controller01": None}},
        "machines": {"vars": machines, "children": {"targets": None, "hypervisors": None}},
        "targets": {"hosts": {"target01": None}},
        "hypervisors": {"hosts": {"hypervisor01": None}},
    }
    return {"all": {"vars": here, "children": children}}


CONFIGURATION = f"""[defaults]
collections_path = {ROOT}/.cache/collections
callback_plugins = {TESTS}/kill_controller
inject_facts_as_vars = false
gathering = explicit
interpreter_python = auto_silent
forks = 10
timeout = 30
stdout_callback = ansible.posix.json
[ssh_connection]
pipelining = true
ssh_args = -o ControlMaster=auto -o ControlPersist=120s -o ServerAliveInterval=15
retries = 2
"""


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
    def __init__(self, name: str):
        """name: of its testbed, and of its folder in .cache."""
        self.name, self.folder = name, ROOT / ".cache" / name
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        self.results = folder / "results"
        self.results.mkdir(exist_ok=True)
        self.moments = folder / "moments"
        (folder / "lab.yml").write_text(yaml.safe_dump(inventory(name, folder)), encoding="utf-8")
        (folder / "ansible.cfg").write_text(CONFIGURATION, encoding="utf-8")

    def play(self, *books: str, strike: Disturbance | None = None, **variables: object) -> Played:
        """Play shipped playbooks in one go. strike: what happens meanwhile."""
        self.moments.unlink(missing_ok=True)
        begun = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [
                    "ansible-playbook",
                    "-i",
                    str(self.folder / "lab.yml"),
                    "-e",
                    json.dumps(variables),
                    *(str(ROOT / "playbooks" / f"{book}.yml") for book in books),
                ],
                cwd=ROOT,
                env={
                    **os.environ,
                    "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
                    "KILL_CONTROLLER_MOMENTS": str(self.moments),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if strike:
                strike.begin()
            returned = None
            try:
                returned = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            finally:
                ended = time.monotonic()
                if strike:
                    strike.finish()
            output.seek(0)
            text = output.read().decode(errors="replace")
        (self.folder / "plays").mkdir(exist_ok=True)
        (self.folder / "plays" / f"{time.time_ns()}-{books[0]}.json").write_text(text, encoding="utf-8")
        changed, failures = told(text)
        reached = self.moments.read_text(encoding="utf-8").splitlines() if self.moments.exists() else []
        return Played(returned, round(ended - begun, 1), changed, failures, reached)

    def pid(self, machine: str) -> int:
        [path] = Path("/run/storlab").glob(f"storlab-{self.name}-*/vm/{machine}/pid")
        return int(path.read_text(encoding="utf-8"))

    def network(self, *command: str) -> None:
        [name] = Path("/run/storlab").glob(f"storlab-{self.name}-*/net")
        subprocess.run(["nsenter", f"--net={name}", *command], check=True)

    def tap(self, machine: str) -> str:
        return re.findall(r"ifname=([^,]+)", Path(f"/proc/{self.pid(machine)}/cmdline").read_text(encoding="utf-8"))[0]

    def shell(self, machine: str, script: str) -> subprocess.Popen:
        """A script on a machine, in a connection of its own. It sees the end of its input when nobody waits for it any more."""
        config = ROOT / ".cache" / "lab" / self.name / "ssh" / "config"
        options = ["-T", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ConnectTimeout=60"]
        return subprocess.Popen(
            ["ssh", "-F", str(config), *options, machine, "bash -c " + shlex.quote(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, machine: str, script: str) -> str:
        with self.shell(machine, script) as process:
            output = process.communicate(timeout=PATIENCE_S)[0]
        if process.returncode:
            raise RuntimeError(f"{machine}: {script!r} ended with {process.returncode}: {output}")
        return output

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
