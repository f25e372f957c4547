# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which PowerShell runs the scripts: --pwsh, else the variable PWSH, else pwsh on the search path; without one the tests are skipped, and say so."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import Bench


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--pwsh", default=os.environ.get("PWSH") or "pwsh", help="PowerShell 7.4 or later, or Windows PowerShell 5.1"
    )
    parser.addoption("--scripts", default=None, help="a folder with other scripts than the collection's")


@pytest.fixture(scope="session")
def bench(request) -> Bench:
    pwsh = request.config.getoption("--pwsh")
    if not shutil.which(pwsh):
        pytest.skip(f"no PowerShell: {pwsh} is not on the search path (--pwsh or PWSH names one)")
    return Bench(pwsh, request.config.getoption("--scripts"))
