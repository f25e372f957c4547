# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions as Ansible makes and runs them: with a task, and with nothing of what checks a task's arguments left out.

A test says what stands in for the host (connection, `_execute_module`); it never builds an action without its constructor, and never replaces
Ansible's own part of `run`. tests/unit/collection/test_refusals.py holds that.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from unchanged import Watch


def make(action: ModuleType, arguments: dict, check: bool = False, windows: bool = False, **of_the_task):
    """The action of a task with these arguments. windows: the connection says that PowerShell answers there. of_the_task: delegate_to and the like."""
    task = Task()
    for name, value in {
        "action": f"storlab.testbed.{action.__name__.rpartition('.')[2]}",
        "args": arguments,
        "check_mode": check,
        **of_the_task,
    }.items():
        setattr(task, name, value)
    shell = SimpleNamespace(tmpdir=None, **({"_IS_WINDOWS": True} if windows else {}))
    return action.ActionModule(
        task=task,
        connection=SimpleNamespace(_shell=shell),
        play_context=None,
        loader=DataLoader(),
        templar=None,
        shared_loader_obj=None,
    )


def checked(action: ModuleType, **arguments) -> dict:
    """What perform(params) of this action gets for these arguments: checked, converted and complete; Failure as the task would fail."""
    return make(action, arguments).parameters()


def answer(action, variables: dict, *could_change, broke_off: tuple = ()) -> dict:
    """What the task answers. Where it is a failure, what could change is as it was before.

    broke_off: the codes of failures that are no refusals: a step that had been begun did not succeed.
    """
    watch = Watch(*could_change)
    result = action.run(task_vars=variables)
    if result.get("failed") and result.get("failure", {}).get("code") not in broke_off:
        watch.assert_unchanged()
    return result
