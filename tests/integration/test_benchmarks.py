# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every benchmark starts, and all but those of other people's programs do their work once, as small as can be."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import own_folder

FOLDER = places.ROOT / "benchmarks"
# What each is given, and a word of what it prints then.
SMALL = {
    "choices.py": (["--rounds", "1", "--runtime-s", "0.1"], "| psync | 1 | 1 |"),
    "esxtop.py": (["--columns", "700", "--samples", "4"], "700 columns, 3 samples"),
    "many_hosts.py": (["--hosts", "1", "--points", "1"], "   1 hosts x 1 points: "),
    "metering.py": (["--runtime-s", "1", "--workers", "1"], "runner beside fio with 1 threads: "),
    "overhead.py": (["--rounds", "1", "--runtime-s", "1", "--depths", "2", "--sizes", "4k"], "round 1: 3 points, "),
    "query.py": (["--points", "6", "--rounds", "1"], "from then on"),
    "read_results.py": (["--points", "24"], "read_store        24 points"),
    "report.py": (["--points", "2"], "again"),
    "runs_index.py": (["--runs", "2", "--points", "2"], "from then on"),
    "show.py": (["--sizes", "4x4"], "4 hosts, 4 disks: "),
    "turns.py": (["--hosts", "2", "--rounds", "2"], "4 turns of 2 hosts; "),
    "verdicts.py": (["--only", "bins", "--trials", "1"], "| 0.1 % |"),
}
# It needs the simulated ESXi, and community.vmware, for minutes: that it starts is all that is looked at.
STARTED = ("esxi_modules.py",)
# It installs other people's programs; its own part is run below.
IN_PART = ("side_by_side.py",)


# A benchmark that starts a run of its own meets no other one there: /run/storlab is an empty folder for it alone.
PRIVATE = 'mkdir -p "$0" && mount -t tmpfs -o mode=755 tmpfs "$0" && exec "$@"'
ALONE = ("unshare", "--mount", "--propagation", "private", "sh", "-c", PRIVATE, own_folder.RUN_DIR)


def loaded(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *options: str) -> subprocess.CompletedProcess:
    command = [*ALONE, sys.executable, str(FOLDER / name), *options]
    return subprocess.run(command, cwd=places.ROOT, capture_output=True, text=True, check=False)


def test_turns_are_timed_over_ssh_too():
    if not shutil.which("dropbear"):
        pytest.skip("needs dropbear")
    done = run("turns.py", "--ssh", "--hosts", "2", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    assert (
        "4 turns of 2 hosts over SSH; " in done.stdout and "from one host's point to the next host's: " in done.stdout
    )


def test_a_share_has_an_interval_that_may_hold_the_truth():
    """R. G. Newcombe, Stat. Med. 17 (1998), 857, table I, method 3."""
    verdicts = loaded("verdicts")
    assert [round(100 * edge, 1) for edge in verdicts.wilson(81, 263)] == [25.5, 36.6]
    assert [round(100 * edge, 1) for edge in verdicts.wilson(0, 10)] == [0.0, 27.8]


def test_no_benchmark_is_left_out():
    assert {path.name for path in FOLDER.glob("*.py")} == {*SMALL, *STARTED, *IN_PART}


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_does_its_work(name):
    options, words = SMALL[name]
    done = run(name, *options)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    refused = run(name, "--no-such-option")
    assert refused.returncode == 2 and refused.stdout == ""


@pytest.mark.parametrize("name", STARTED)
def test_a_benchmark_starts(name):
    done = run(name, "--help")
    assert done.returncode == 0 and "usage: " in done.stdout, done.stderr


def test_what_fio_writes_for_the_comparison_of_tools_is_imported_and_compared(tmp_path, monkeypatch):
    side_by_side = loaded("side_by_side")
    for name, value in (("PATTERNS", ("randread",)), ("DEPTHS", (2,)), ("WORKERS", (1,))):
        monkeypatch.setattr(side_by_side, name, value)
    assert side_by_side.measure_files(tmp_path, 1) == 2
    seconds, peak = side_by_side.ours(tmp_path)
    assert seconds > 0 and peak > 1e6
    assert list((tmp_path / "ours").glob("*-vs-*/comparison.json"))
