# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One stage of the chain: each method is one question. A stage leaves the questions that do not concern it to this class.

expand.py, check.py, built.py, doctor.py, devices.py, drawing.py and role_values.py put these questions to every stage of stages/__init__.py.
"""

from __future__ import annotations

from typing import Any

from ...module_utils.core.layers import Layer
from .testbed import Context, Disk, Host, Testbed


class Stage:
    """``kinds``: of testbed.disks that it makes a backing layer of. ``floor``: the place of its layers in the list, bottom first."""

    name = ""
    kinds: tuple[str, ...] = ()
    floor = 0

    def describe(self, context: Context) -> None:
        """Turn its part of the description into records of the testbed."""

    def emulated(self, disk: Disk) -> list[dict[str, Any]]:
        """The disks that the embedded lab makes for one of testbed.disks."""
        return []

    def derive(self, context: Context) -> None:
        """Set the variables of its role on every host, with ``context.derive``; ``context.problem`` refuses."""

    def runs_on(self, context: Context, host: Host) -> bool:
        """Whether the playbooks run its role on the host."""
        return False

    def stands_on(self, testbed: Testbed, host: Host) -> list[str]:
        """The hosts that have to be there before it can run on this one."""
        return []

    def layers(self, host: Host) -> list[Layer]:
        """The layers that it is going to publish on the host."""
        return []
