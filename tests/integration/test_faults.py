# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some faults and a trial that need no emulated machine, other ones in each run: on Windows and ESXi stand-ins, and on this machine. `make faults` and
`make trials` take all."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import fault_stand_ins
import pytest
from places import ROOT, TESTS


def sampled(tool: str) -> str:
    """What a sample of a suite says; it has come through. SAMPLE_SEED=number repeats a run."""
    seed = int(os.environ.get("SAMPLE_SEED") or random.SystemRandom().randrange(1 << 32))
    done = subprocess.run(
        [sys.executable, str(TESTS / "tools" / tool), "--sample", "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"SAMPLE_SEED={seed}", done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    return done.stdout


def test_some_faults_come_through():
    assert sampled("faults.py").count(": ok, ") >= 1, "none of them struck"


def test_a_trial_that_needs_no_machine_comes_through():
    assert sampled("trials.py").count(": ok after ") == 1


def test_a_lab_that_does_not_come_up_leaves_no_process(tmp_path, monkeypatch):
    def no_simulator(_lab, action):
        if action == "start":
            raise OSError("there is none")

    monkeypatch.setattr(fault_stand_ins.Esxi, "_simulator", no_simulator)
    lab = fault_stand_ins.Esxi(tmp_path)
    with pytest.raises(OSError, match="there is none"):
        lab.__enter__()
    assert lab.network.poll() is not None
