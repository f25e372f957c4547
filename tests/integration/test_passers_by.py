# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The other people's work that goes on beside the tests: it bears the first `ip netns add` of a computer. In a mount namespace of the test's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import TESTS
from waiting import until

RUN = Path("/run").stat().st_dev
PASSERS_BY = TESTS / "standins" / "passers_by.py"
# They go on until a line comes in; then: with what they ended, and the names that are left.
SCRIPT = f"mount -t tmpfs run /run; {sys.executable} {PASSERS_BY} & read line; kill $!; wait $!; echo $?; ls /run/netns"


@pytest.fixture
def passing():
    """Passers-by where nobody has made a network namespace yet."""
    argv = ["unshare", "--mount", "--propagation", "private", "bash", "-c", SCRIPT]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_the_first_namespace_of_somebody_else_ends_no_passer_by(passing):
    place = Path("/proc", str(passing.pid), "root/run/netns")

    def names() -> set:
        return {path.name for path in place.iterdir()} if place.is_dir() and place.stat().st_dev != RUN else set()

    until(names)
    before = names()
    subprocess.run(["nsenter", "--mount", f"--target={passing.pid}", "ip", "netns", "add", "others"], check=True)
    until(lambda: not before & names())
    output = passing.communicate("\n", timeout=60)[0].splitlines()
    assert output[1:] == ["0", "others"] and '"namespaces": ' in output[0]
