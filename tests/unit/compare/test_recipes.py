# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipes of docs/comparison.md for the three designs, word for word: YAML and commands are taken from the page, and ansible-playbook runs them.

The gate lists its turns, as no runner is there; the other two judge synthetic runs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import places
import pytest
from fixtures.compare import make_runs

SMALL, _LARGE = make_runs.WORKLOADS
HISTORY = 8


def section(title: str, end: str) -> str:
    page = (places.ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    return page.split("### A gate", 1)[1].split(title, 1)[1].split(end, 1)[0]


def commands(text: str) -> list[list[str]]:
    """The words of each ansible-playbook of a page, whose lines may go on in the next one."""
    lines = re.findall(r"^    (ansible-playbook .*(?:\n      {3,}.*)*)", text, re.MULTILINE)
    return [shlex.split(line.replace("$(date +%F)", "tonight")) for line in lines]


def played(folder: Path, words: list[str], *more: str) -> subprocess.CompletedProcess:
    (folder / "my_lab").write_text("[clients]\nclient01 ansible_connection=local\n", encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    assert words[0] == "ansible-playbook"
    given = ["-e", "testbed_id=synthetic", "-e", f"testbed_results_dir={folder / 'results'}"]
    return subprocess.run(
        [str(Path(sys.executable).parent / words[0]), *words[1:], *given, *more],
        cwd=folder,
        env={
            **environment,
            "ANSIBLE_COLLECTIONS_PATH": str(places.ROOT / ".cache" / "collections"),
            "PWD": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def measured(folder: Path, name: str, iops: float, start: int) -> None:
    run = make_runs.results(4, {("backing-a", SMALL): iops}, run_id=name, start=start)
    make_runs.write_run(folder / "results", run, asked={"run_id": name, "testbed_id": "synthetic"})


def test_the_gate_of_the_page_takes_turns(tmp_path):
    text = section("**In turns in one job.**", "**A history.**")
    (recipe,) = re.findall(r"```yaml\n# gate.yml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "gate.yml").write_text(recipe, encoding="utf-8")
    (words,) = commands(text)
    done = played(tmp_path, words, "--check", "-e", "testbed_run_id=g1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    turns = re.findall(r"round (\d), (baseline|candidate): ./switch_build (old|new), then (\S+)", done.stdout)
    assert len(turns) == 12 and {turn[3] for turn in turns} == {"storlab.testbed.benchmark"}
    assert {turn[1:3] for turn in turns} == {("baseline", "old"), ("candidate", "new")}
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("iops", "code", "last"), [(20_000, 0, "Passed"), (10_000, 2, "Failed: regression > 5 % ")])
def test_the_history_of_the_page_is_judged(tmp_path, iops, code, last):
    for night in range(HISTORY):
        measured(tmp_path, f"nightly-{night}", 20_000 + 100 * (night % 3), 3600 * night)
    measured(tmp_path, "tonight", iops, 3600 * HISTORY)
    benchmark, compare = commands(section("**A history.**", "**One block against one block.**"))
    assert "storlab.testbed.benchmark" in benchmark and "testbed_run_id=nightly-tonight" in benchmark
    done = played(tmp_path, compare)
    assert done.returncode == code and last in done.stdout, done.stdout[-3000:] + done.stderr


@pytest.mark.parametrize(
    ("iops", "code", "last"), [(9_000, 2, "Failed: regression > 5 % "), (16_000, 0, "Inconclusive")]
)
def test_the_block_of_the_page_fails_beyond_what_time_explains(tmp_path, iops, code, last):
    measured(tmp_path, "before", 20_000, 0)
    measured(tmp_path, "after", iops, 3600)
    (compare,) = commands(section("**One block against one block.**", "## The methods"))
    done = played(tmp_path, compare)
    assert done.returncode == code and last in done.stdout, done.stdout[-3000:] + done.stderr
