# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task whose playbook was killed does nothing more to the host, where the next playbook may be at work already."""

# A fixture of another file is used by its name.
# ruff: noqa: F811

from __future__ import annotations

import json
import os
import time
from itertools import islice

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import win_iscsi_target
from test_windows_actions import bench  # noqa: F401
from world import Host, World


def play(bench, deadly: str | None) -> None:
    """The task in a process of its own, which another one has begun: that one is gone as soon as the script `deadly` has run. Returns when both ended."""
    heard, told = os.pipe()
    playbook = os.fork()
    if playbook == 0:
        task = os.fork()
        if task == 0:
            try:
                work(bench, deadly, told)
            finally:
                os._exit(0)
        os.close(told)
        if not (deadly and os.read(heard, 1)):
            os.waitpid(task, 0)
        os._exit(0)
    os.close(told)
    os.waitpid(playbook, 0)
    # The end of the pipe: the task has it for as long as it lives.
    while os.read(heard, 1):
        pass
    os.close(heard)


def work(bench, deadly: str | None, told: int) -> None:
    given = {
        "targets": bench.targets,
        "layers": bench.layers,
        "testbed_id": "t1",
        "state_dir": str(bench.folder / "state"),
    }
    action, playbook = actions.make(win_iscsi_target, given, windows=True), os.getppid()

    def execute(module_name: str, module_args: dict, task_vars: dict) -> dict:
        with bench.world.open():
            answer = Host(bench.world, "server").module(module_name, json.loads(json.dumps(module_args)), False)
            script = bench.world.data["calls"][-1]["script"]
        if script == deadly:
            os.write(told, b"!")
            while os.getppid() == playbook:
                time.sleep(0.01)
        return answer

    action._execute_module = execute
    action.run(task_vars={"inventory_hostname": "server"})


def scripts(bench) -> list:
    world = World(bench.world.path)
    with world.open():
        return [call["script"] for call in world.data["calls"] if call["script"] != "state"]


@pytest.mark.parametrize("deadly", ["target_new", "target_chap", "lun_map"])
def test_it_ends_after_the_step_that_it_was_at(bench, deadly):
    list(islice(bench.build(), 2))
    before = scripts(bench)
    play(bench, deadly)
    done = scripts(bench)[len(before) :]
    assert done[-1] == deadly
    assert done.count(deadly) == 1
    assert [result["changed"] for result in bench.build()] == [False, False, True, True, True]
    assert not any(result["changed"] for result in bench.build())


def test_it_goes_on_while_its_playbook_does(bench):
    list(islice(bench.build(), 2))
    play(bench, None)
    assert "portal_set" in scripts(bench)
    assert [result["changed"] for result in islice(bench.build(), 3)] == [False] * 3
