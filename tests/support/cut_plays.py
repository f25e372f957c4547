# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks that are killed at a moment, and the wait until no process of theirs is left."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from places import ROOT
from waiting import until


def play_until(folder: Path, arguments: Sequence[str], at: str) -> tuple[int, str, list[str]]:
    """(return code, output, moments that were reached) of ansible-playbook with lab.yml and ansible.cfg of a folder. at: where to kill it, empty: nowhere.

    The callback of tests/kill_controller, which ansible.cfg names, writes the moments and kills. Returns when nothing of it runs any more.
    """
    moments = folder / "moments"
    moments.unlink(missing_ok=True)
    mark = {"KILL_CONTROLLER_MOMENTS": str(moments)}
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            ["ansible-playbook", "-i", str(folder / "lab.yml"), *arguments],
            cwd=ROOT,
            env={**os.environ, **mark, "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "KILL_CONTROLLER_AT": at},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        until(lambda: not list(marked(mark)))
        output.seek(0)
        text = output.read().decode(errors="replace")
    return done.returncode, text, moments.read_text(encoding="utf-8").splitlines() if moments.exists() else []


def marked(mark: dict) -> Iterator[int]:
    """The processes that were given this environment: those that Ansible began have sessions of their own."""
    wanted = [f"{key}={value}".encode() for key, value in mark.items()]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                content = Path("/proc", entry, "environ").read_bytes().split(b"\0")
                ended = Path("/proc", entry, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            if all(line in content for line in wanted) and not ended:
                yield int(entry)
