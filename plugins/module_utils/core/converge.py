# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one order in which a module brings a host to what is wanted: plan, guard, apply, answer. No area calls its own methods; ``converge`` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .steps import Step, shown


class Area:
    """One kind of thing that a testbed has on a host, in one task of its module."""

    def __init__(self, params: dict[str, Any], check_mode: bool) -> None:
        # Each area knows the type of its own.
        self.params: Any = params
        self.check_mode = check_mode
        self.present = params["state"] == "present"

    def plan(self) -> list[Step]:
        """Checks the arguments and reads the host; returns what is to be done. Changes nothing."""
        raise NotImplementedError

    def guard(self, steps: list[Step]) -> None:
        """Raises a Failure where a step must not be done: something is in use, unproven or too small. Changes nothing."""
        raise NotImplementedError

    def apply(self, steps: list[Step]) -> None:
        """Carries the steps out. Without steps it repairs the records."""
        raise NotImplementedError

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        """The result of the task."""
        return shown(steps)


def converge(
    area: Callable[[dict[str, Any], bool], Area], params: dict[str, object], check_mode: bool
) -> dict[str, object]:
    """The result of a module. In check mode the same plan meets the same guard, and nothing is applied."""
    work = area(params, check_mode)
    steps = work.plan()
    work.guard(steps)
    if not check_mode:
        work.apply(steps)
    return work.answer(steps)
