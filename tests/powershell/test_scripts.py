# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every case of windows_cases/ in a real PowerShell, against stand-ins for Windows' cmdlets: what Windows is asked, and what the controller is told."""

from __future__ import annotations

import os

import pytest
from windows_cases import CASES

pytestmark = pytest.mark.powershell
# What asks for Windows itself is in test_windows.py.
HERE = [case for case in CASES if os.name != "nt" or not (case.linux or case.core)]


@pytest.fixture(scope="session")
def outcomes(bench) -> dict:
    """All at once: starting a PowerShell takes longer than a case."""
    return dict(zip([case.name for case in HERE], bench.run(HERE)))


@pytest.mark.parametrize("name", [case.name for case in HERE])
def test_script(outcomes, name):
    assert outcomes[name] == []
