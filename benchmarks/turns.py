#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a turn where hosts take turns: from the last point of one to the first of the next, and processor time. See overhead.md.

The hosts are simulated: all are this machine, each with a /run of its own. Each has one point of fio's null engine in every round. Needs root, for the mounts.

--ssh: they are reached by a real SSH server (dropbear), each at an address of its own, in a network namespace in which nothing else is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each command on a "host" has a /run of its own.
SHELL = """#!/bin/bash
exec unshare --mount bash -c 'mount --bind "$0" /run && exec /bin/sh "$@"' {run} "$@"
"""


# $1: the folder. Only here root's home is in it, so that no key is added to the user's own.
SERVE = """set -eu
mount --make-rprivate /
ip link set lo up
mount --bind "$1/passwd" /etc/passwd
dropbear -F -E -s -r "$1/host_key" -P "$1/pid" -p 2222 2>"$1/dropbear.log" &
server=$!
trap 'kill $server; wait $server || true' EXIT
shift
"$@"
"""


def serve(folder: Path) -> dict[str, object]:
    """Keys and a home for the SSH server; the variables by which all hosts are reached."""
    home = folder / "home" / ".ssh"
    home.mkdir(parents=True, mode=0o700)
    for command in (
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")],
        ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host_key")],
    ):
        subprocess.run(command, check=True, capture_output=True)
    (home / "authorized_keys").write_bytes((folder / "key.pub").read_bytes())
    (folder / "passwd").write_text(f"root:x:0:0:root:{folder}/home:/bin/sh\n", encoding="utf-8")
    options = f"-i {folder}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
    return {
        "ansible_connection": "ssh",
        "ansible_user": "root",
        "ansible_port": 2222,
        "ansible_ssh_common_args": options,
        "ansible_control_path_dir": str(folder / "cp"),
        "ansible_ssh_transfer_method": "piped",
    }


def prepare(folder: Path, hosts: int, rounds: int, runtime_s: int, reached: dict[str, object]) -> Path:
    names = {}
    for number in range(hosts):
        place = folder / f"host{number}"
        (place / "run").mkdir(parents=True)
        shell = place / "shell"
        shell.write_text(SHELL.format(run=place / "run"), encoding="utf-8")
        shell.chmod(0o755)
        names[place.name] = {"ansible_shell_executable": str(shell), "ansible_host": f"127.0.0.{number + 2}"}
    everywhere = {
        **reached,
        "ansible_python_interpreter": sys.executable,
        "benchmark_testbed_id": "turns",
        "benchmark_run_id": "turns",
        "benchmark_results_dir": str(folder / "results"),
        "benchmark_state_dir": str(folder / "state"),
        "benchmark_repetitions": rounds,
        "benchmark_workloads": [{"ramp_s": 0, "runtime_s": runtime_s}],
        "benchmark_progress": "none",
    }
    role = {"ansible.builtin.import_role": {"name": "storlab.testbed.benchmark"}, "throttle": 1}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": names, "vars": everywhere}}), encoding="utf-8")
    path = folder / "play.yml"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [role]}]), encoding="utf-8")
    return path


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=3, help="hosts that take turns (default 3)")
    parser.add_argument("--rounds", type=int, default=4, help="turns of each host (default 4)")
    parser.add_argument("--runtime-s", type=int, default=1, help="measured seconds of a point (default 1)")
    parser.add_argument("--ssh", action="store_true", help="reach the hosts by SSH; needs dropbear")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        reached = serve(folder) if options.ssh else {"ansible_connection": "local"}
        play = prepare(folder, options.hosts, options.rounds, options.runtime_s, reached)
        command = ["ansible-playbook", "-i", str(folder / "hosts.json"), str(play)]
        if options.ssh:
            command = ["unshare", "--mount", "--net", "sh", "-c", SERVE, "sh", str(folder), *command]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        used = os.times()
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        points = [json.loads(path.read_bytes()) for path in (folder / "results").glob("*/*/points/*/result.json")]
    points.sort(key=lambda point: point["started_utc"])
    gaps = [
        (moment(late["started_utc"]) - moment(early["finished_utc"])).total_seconds()
        for early, late in zip(points, points[1:])
        if early["host"] != late["host"]
    ]
    # The measuring itself is not in it: that runs in processes of the hosts that outlive the commands.
    spent_s = (used.children_user + used.children_system) / len(points)
    print(
        f"{len(points)} turns of {options.hosts} hosts{' over SSH' if options.ssh else ''}; processor time of the whole command {spent_s:.2f} s for each"
    )
    print(
        f"from one host's point to the next host's: {statistics.median(gaps):.1f} s (median of {len(gaps)}, "
        f"{min(gaps):.1f} to {max(gaps):.1f})"
    )


if __name__ == "__main__":
    main()
