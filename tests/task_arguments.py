# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of a task as its action gets them: checked, converted and complete. No test goes round that."""

from __future__ import annotations

from types import SimpleNamespace


def checked(action, **given) -> dict:
    """What perform(params) of this action module gets for these arguments; raises Failure as the task would fail."""
    made = action.ActionModule.__new__(action.ActionModule)
    made._task = SimpleNamespace(args=given, action=f"storlab.testbed.{action.__name__.rpartition('.')[2]}")
    return made.parameters()
