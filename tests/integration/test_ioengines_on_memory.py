# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner with a real fio: what the ways of issuing I/O reach is measured before the first point, goes with it, and is not measured again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.result import choices as judged
from ansible_collections.storlab.testbed.plugins.module_utils.run import choices, runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from loop_device import attached
from loop_device import layer as layer_of
from waiting import until

SIZE = 4 << 20


@pytest.fixture
def disk():
    # In memory, so that the way of issuing is most of what is measured.
    path = Path("/dev/shm") / f"ioengines-{os.getpid()}"
    try:
        with attached(path, SIZE) as device:
            yield layer_of(device, SIZE)
    finally:
        path.unlink(missing_ok=True)


def test_a_real_fio_has_a_figure_for_each_choice_and_leaves_nothing(tmp_path):
    known = choices.play(runner.find_engine(), str(tmp_path), runtime_s=0.1)
    assert {"psync_1", "libaio_1", "libaio_32", "libaio_32_batch_8"} <= set(known)
    assert set(known) <= {choice.name for choice in judged.CHOICES}
    assert all(figure > 100 for figure in known.values())
    assert list(tmp_path.iterdir()) == []


def test_the_choices_of_a_host_are_measured_once_and_set_against_its_points(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    base = str(tmp_path / "state")
    workload = normalise({"ramp_s": 0, "runtime_s": 1, "queue_depth": 1, "read_percent": 100})
    plan = run_plan.plan([disk], [run_plan.point(disk["name"], workload)], beat=True)
    try:
        runner.start(plan, base)
        until(lambda: not runner.status("t", "one", base)["alive"], 60)
        folder = Path(runner.state_dir("t", "one", base))
        host = json.loads((folder / "host.json").read_text(encoding="utf-8"))
        figures = host["fio_choices"]
        assert {"psync_1", "libaio_1", "libaio_32"} <= set(figures) <= {choice.name for choice in judged.CHOICES}
        assert all(figure > 100 for figure in figures.values())
    finally:
        runner.stop("t", remove=True, base=base, discard=True)
