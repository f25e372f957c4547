# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine does in another way than the others is kept with each point, and said by the report."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive, load
from fixtures.report import make_fixture

APART = "workers_not_apart"


@pytest.mark.parametrize(("engine", "flags"), [("diskspd", [APART]), ("fio", [])])
def test_every_result_of_a_benchmark_carries_it(engine, flags):
    workload = normalise({"workers": 2, "random_percent": 0})
    point = {"point_id": "a.w.r1", "layer": "a", "workload": workload, "workload_id": "w", "repetition": 1, "seed": 3}
    layer = {"name": "a", "kind": "initiator", "host": "h", "path": "/dev/sdq", "detail": {}}
    found = archive.read_point(point, layer, {"engine": engine, "testbed_id": "t", "run_id": "r"}, {})
    assert found["flags"] == flags


def test_the_report_says_it(tmp_path):
    folder = make_fixture.write_run(str(tmp_path), 1, 1)
    (path,) = (tmp_path / "embedded" / make_fixture.RUN_ID / "points").glob("guest-guest01_*/result.json")
    point = json.loads(path.read_text())
    path.write_text(json.dumps({**point, "flags": [APART]}))
    report = model.build(load.read_run(folder))
    (said,) = [flag for flag in report.flags if "diskspd and IOMeter do not keep them apart" in flag["text"]]
    assert said["text"].startswith("guest-guest01 (")
    pages = render.render(report)
    assert all("do not keep them apart" in pages[name] for name in ("index.html", "report.md"))
