# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An embedded lab that long suites keep up: machines target01 and hypervisor01, one RAM disk, one session, one datastore."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import lab_plays
from lab_plays import PATIENCE_S
from places import ROOT, TESTS

MACHINES = ("target01", "hypervisor01")
WORKLOAD = {"block_size": "4k", "read_percent": 60, "queue_depth": 4, "ramp_s": 1, "runtime_s": 6}
REPETITIONS = 2


def inventory(name: str, folder: Path, guest: bool = False) -> dict:
    """The lab as an inventory. folder: where its results go. guest: the datastore carries the disk of guest01 in place of a file that is measured."""
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
    }
    children = {
        "controllers": {"hosts": {"controller01": None}, "vars": controller},
        "embedded_controllers": {"hosts": {"controller01": None}},
        "machines": {"vars": machines, "children": {"targets": None, "hypervisors": None}},
        "targets": {"hosts": {"target01": None}},
        "hypervisors": {"hosts": {"hypervisor01": None}},
    }
    if guest:
        here["testbed"] = {
            "disks": [{"name": "ds1", "size": "64MiB"}],
            "datastores": [{"disk": "ds1"}],
            "guests": [{"name": "guest01", "datastore": "ds1", "disk_size": "16MiB", "memory": "320MiB"}],
        }
        children["guests"] = {"hosts": {"guest01": None}}
        children["machines"]["children"]["guests"] = None
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


class Lab(lab_plays.Lab):
    def __init__(self, name: str, guest: bool = False):
        """name: of its testbed, and of its folder in .cache."""
        folder = ROOT / ".cache" / name
        super().__init__(name, folder, inventory(name, folder, guest), CONFIGURATION)

    @property
    def netns(self) -> str:
        """A pattern for the name of its network namespace, which that of a lab `name-more` must not match."""
        return f"storlab-{self.name}-{'[0-9a-f]' * 6}"

    def pid(self, machine: str) -> int:
        """0 for one that does not run."""
        for path in Path("/run/storlab").glob(f"{self.netns}/vm/{machine}/pid"):
            text = path.read_text(encoding="utf-8")
            if text.strip() and Path("/proc", text.strip()).exists():
                return int(text)
        return 0

    def network(self, *command: str) -> None:
        [name] = Path("/run/storlab").glob(f"{self.netns}/net")
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
