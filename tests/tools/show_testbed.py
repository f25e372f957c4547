# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook show says of an inventory, for tests."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(inventory, *options: str, playbook: str = "show.yml", cwd=None, environment=None) -> tuple:
    """(rc, the documents of the JSON callback, standard error) of a playbook on an inventory."""
    source = [] if inventory is None else ["-i", str(inventory)]
    done = subprocess.run(
        ["ansible-playbook", *source, *options, str(ROOT / "playbooks" / playbook)],
        cwd=cwd or ROOT,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            **({"ANSIBLE_INVENTORY": "/dev/null"} if inventory is None else {}),
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    document, _end = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])
    return done.returncode, document, done.stderr


def expansion(inventory, *options: str) -> dict:
    """The result of storlab.testbed.chain with show; fails with what is wrong."""
    rc, document, _said = run(inventory, *options)
    result = next(iter(document["plays"][0]["tasks"][0]["hosts"].values()))
    assert rc == 0, result.get("msg")
    return result


def refusal(inventory, *options: str, playbook: str = "show.yml") -> list:
    """The sentences with which an inventory is refused."""
    rc, document, _said = run(inventory, *options, playbook=playbook)
    assert rc == 2
    result = next(iter(document["plays"][0]["tasks"][0]["hosts"].values()))
    assert result["failure"]["code"] == "description_wrong"
    return [line[2:] for line in result["msg"].splitlines() if line.startswith("- ")]
