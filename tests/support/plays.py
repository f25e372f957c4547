# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs one step as Ansible itself runs it, in a playbook with a configuration of its own, and shipped playbooks with the checkout's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import yaml
from places import ROOT


def report(tmp_path: Path, *options: str, **arguments) -> dict:
    """What the report task returned."""
    return play(tmp_path, {"storlab.testbed.report": arguments}, *options)[0]


def play(tmp_path: Path, step: dict, *options: str) -> list:
    """The result of every task that one step came to, in order; failures too."""
    book = tmp_path / "play.yml"
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [step]}]), encoding="utf-8")
    return run(tmp_path, book, *options)[1]


def run(tmp_path: Path, book: Path, *options: str) -> tuple:
    """(exit code, what localhost answered to each task of the last play) of a playbook."""
    # A configuration of its own: the checkout's adds callbacks that print text after the JSON.
    configuration = tmp_path / "ansible.cfg"
    configuration.write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections:/usr/share/ansible/collections\ninject_facts_as_vars = false\n"
        "stdout_callback = ansible.posix.json\nlocalhost_warning = false\n[inventory]\ninventory_unparsed_warning = false\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["ansible-playbook", *options, str(book)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [entry["hosts"]["localhost"] for entry in json.loads(done.stdout)["plays"][-1]["tasks"]]


def shipped(lab: Path, *books: str, options: tuple = ()) -> tuple[int, str]:
    """(exit code, output) of shipped playbooks on an inventory, one after the other, with the checkout's own configuration."""
    done = subprocess.run(
        ["ansible-playbook", "-i", str(lab), *options, *(str(ROOT / "playbooks" / f"{book}.yml") for book in books)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def outcome(text: str) -> tuple[dict, list]:
    """({host: how many tasks were ok, changed, …}, failures) of what ansible-playbook printed by ansible.posix.json: after each playbook a document of all so
    far. A failure: {host, task, msg, failure, unreachable}; of a loop each item that failed. Raises ValueError where no document is."""
    document = json.JSONDecoder().raw_decode(text, max(text.rfind("\n{\n") + 1, text.find("{")))[0]
    failures = [
        {
            "host": host,
            "task": task["task"]["name"],
            **{key: each.get(key) for key in ("msg", "failure", "unreachable")},
        }
        for play in document["plays"]
        for task in play["tasks"]
        for host, answer in task["hosts"].items()
        for each in _failed(answer)
    ]
    return document["stats"], failures


def _failed(answer: dict) -> list:
    if not (answer.get("failed") or answer.get("unreachable")):
        return []
    # Of a loop as a whole Ansible says only that items failed.
    return [item for item in answer.get("results", []) if item.get("failed") or item.get("unreachable")] or [answer]
