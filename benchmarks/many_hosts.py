#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller needs for many hosts with many points each. See many_hosts.md.

The hosts are simulated: all are this machine, each with a /run of its own, and in place of fio stands a script that copies a stored output at once.
Everything else is real: Ansible, its modules, the runner and its supervisor, the results on disk. Needs root, for the mounts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "tests" / "unit" / "fixtures" / "fio" / "mixed_group.json"
FAKE_FIO = f"""#!/bin/sh
# NOT fio: a stand-in that measures nothing. It hands out a stored output of fio.
for argument; do
    case $argument in
        --version) echo fio-3.33; exit ;;
        --output=*) cp {OUTPUT} "${{argument#--output=}}" ;;
    esac
done
"""
# What runs on a "host" runs with its own /run, and is charged to the host and not to the controller.
SHELL = """#!/bin/bash
unshare --mount bash -c 'mount --bind "$0" /run && exec /bin/sh "$@"' {run} "$@"
code=$?
times >> {cpu}
exit $code
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--hosts", type=int, nargs="+", default=[25, 50, 100], help="numbers of hosts to try (default 25 50 100)"
    )
    parser.add_argument("--points", type=int, default=36, help="points of each host (default 36)")
    return parser.parse_args()


def prepare(folder: Path, hosts: int, points: int) -> Path:
    (folder / "bin").mkdir()
    fake = folder / "bin" / "fio"
    fake.write_text(FAKE_FIO, encoding="utf-8")
    fake.chmod(0o755)
    inventory = {}
    for number in range(hosts):
        place = folder / f"host{number}"
        (place / "run").mkdir(parents=True)
        shell = place / "shell"
        shell.write_text(SHELL.format(run=place / "run", cpu=place / "cpu"), encoding="utf-8")
        shell.chmod(0o755)
        inventory[f"host{number}"] = {
            "ansible_connection": "local",
            "ansible_shell_executable": str(shell),
            "ansible_python_interpreter": sys.executable,
        }
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": inventory}}), encoding="utf-8")
    layer = {
        "name": "ceiling-{{ inventory_hostname }}",
        "kind": "ceiling",
        "host": "{{ inventory_hostname }}",
        "path": None,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 1 << 30,
        "identity": {},
    }
    task = {
        "storlab.testbed.benchmark": {
            "testbed_id": "many",
            "run_id": "many",
            "results_dir": str(folder / "results"),
            "layers": [layer],
            "progress": "none",
            "workload": {"read_percent": 70, "ramp_s": 0, "runtime_s": 1, "queue_depth": list(range(1, points + 1))},
        }
    }
    size = {
        "ansible.builtin.copy": {
            "dest": f"{folder}/facts-{{{{ inventory_hostname }}}}.json",
            "mode": "0600",
            "content": "{{ ansible_facts | to_json }}",
        },
        "when": "inventory_hostname == 'host0'",
    }
    path = folder / "play.yml"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task, size]}]), encoding="utf-8")
    return path


def host_seconds(folder: Path) -> float:
    """The `times` of bash: two lines a call, user and system time as 0m0.012s, the shell's own and its children's."""
    return sum(
        60 * int(minutes) + float(rest)
        for path in folder.glob("host*/cpu")
        for minutes, rest in re.findall(r"(\d+)m([\d.]+)s", path.read_text(encoding="utf-8"))
    )


def measure(hosts: int, points: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = prepare(folder, hosts, points)
        environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer",
        }
        begun = time.monotonic()
        with open(folder / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                ["ansible-playbook", "-i", str(folder / "hosts.json"), "--forks", str(hosts), str(path)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            _pid, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        stored = len(list((folder / "results").glob("many/many/points/*/result.json")))
        if status or stored != hosts * points:
            raise SystemExit(
                (folder / "log").read_text(encoding="utf-8")[-3000:] + f"\n{stored} of {hosts * points} results"
            )
        facts = json.loads((folder / "facts-host0.json").read_text(encoding="utf-8"))["storlab_benchmarks"]["many"][
            "points"
        ]
        largest = max(len(json.dumps(point)) for point in facts.values())
        on_hosts = host_seconds(folder)
        controller = used.ru_utime + used.ru_stime - on_hosts
        print(
            f"{hosts:>4} hosts x {points} points: {wall:6.1f} s, {wall / hosts:.2f} s a host; controller {controller:6.1f} s CPU, "
            f"{controller / hosts:.2f} a host; hosts {on_hosts / hosts:.2f} s CPU each; largest process {used.ru_maxrss / 1024:.0f} MB; "
            f"largest fact of a point {largest} bytes",
            flush=True,
        )


def main() -> None:
    options = arguments()
    for hosts in options.hosts:
        measure(hosts, options.points)


if __name__ == "__main__":
    sys.exit(main())
