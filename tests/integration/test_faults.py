# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Twelve faults that need no emulated machine, other ones in each run: on Windows and ESXi stand-ins, and on this machine. `make faults` takes all."""

from __future__ import annotations

import os
import random
import subprocess
import sys

from places import ROOT, TESTS


def test_twelve_faults_come_through():
    """FAULTS_SEED=number repeats a run."""
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(1 << 32))
    done = subprocess.run(
        [sys.executable, str(TESTS / "faults.py"), "--sample", "--seed", str(seed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"FAULTS_SEED={seed}", done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    assert done.stdout.count(": ok, ") >= 6, "most of them never struck"
