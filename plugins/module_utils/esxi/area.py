# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An area of an ESXi host for ``converge``: it works over one login."""

from __future__ import annotations

from typing import Any

from ..core import converge
from ..core.steps import Step
from .session import Session


class HostArea(converge.Area):
    """A module gives ``partial(Area, session)`` to converge. The plan is pure and refuses by itself; a guard is for answers that only the host has."""

    def __init__(self, session: Session, params: dict[str, Any], check_mode: bool) -> None:
        super().__init__(params, check_mode)
        self.session = session

    def guard(self, steps: list[Step]) -> None:
        """Nothing more to refuse."""
