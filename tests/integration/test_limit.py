# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped benchmark with --limit to one host, whose names are all this computer: real fio on its null engine."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.action.layer import write_layer

HOSTS = {"target01": "127.0.0.1", "client01": "127.0.0.2", "client02": "127.0.0.3"}
LAYERS = {
    "backing-bench": ("backing", "target01", None),
    "target-bench": ("target", "target01", "backing-bench"),
    "initiator-bench": ("initiator", "client01", "target-bench"),
    "initiator-bench-client02": ("initiator", "client02", "target-bench"),
}


def inventory(folder: Path, name: str) -> Path:
    def group(*hosts: str) -> dict:
        return {"hosts": {host: {"ansible_host": HOSTS[host], "testbed_address": HOSTS[host]} for host in hosts}}

    content = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "testbed_id": name,
            "testbed": {"disks": [{"name": "bench", "size": "16MiB"}]},
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            "benchmark_workloads": [{"ramp_s": 0, "runtime_s": 1}],
            "benchmark_repetitions": 1,
            "benchmark_beat": False,
            "benchmark_networks": [],
        },
        "children": {"targets": group("target01"), "clients": group("client01", "client02")},
    }
    path = folder / "lab.yml"
    path.write_text(yaml.safe_dump({"all": content}), encoding="utf-8")
    return path


def test_one_host_is_measured_and_what_is_left_out_is_named(tmp_path):
    name = f"limit-{uuid.uuid4().hex[:8]}"
    lab = inventory(tmp_path, name)
    for layer, (kind, host, parent) in LAYERS.items():
        place = {"name": layer, "kind": kind, "host": host, "parent": parent, "path": None}
        write_layer(str(tmp_path / "state"), {**place, "purpose": "scratch", "size_bytes": 16 << 20, "identity": {}})
    rc, document, _said = show_testbed.run(
        lab, "--limit", "client01", "-e", "testbed_run_id=one", playbook="benchmark.yml"
    )
    assert rc == 0 and set(document["stats"]) == {"client01"}, document
    run = tmp_path / "results" / name / "one"
    results = [json.loads(path.read_text(encoding="utf-8")) for path in run.glob("points/*/result.json")]
    assert [(result["layer"], result["host"], result["status"]) for result in results] == [
        ("ceiling-client01", "client01", "measured")
    ]
    assert [path.stem for path in run.glob("hosts/*.json")] == ["client01"]
    assert (tmp_path / "results" / name / "index.html").exists()
    [sentence] = [
        result["msg"]
        for play in document["plays"]
        for task in play["tasks"]
        for result in task["hosts"].values()
        if task["task"]["name"] == "Report what --limit leaves out"
    ]
    assert sentence == (
        "--limit client01 leaves out target01, client02: what they count is not recorded, and these layers are not measured: "
        "backing-bench, target-bench, initiator-bench-client02."
    )
    # Nobody holds the testbed any more, here or on the host.
    assert not (tmp_path / "state" / "lock").exists() and not os.path.exists(f"/run/storlab/{name}")
    # The ledger covers what was kept, and a report of it is made under the same limit.
    for playbook in ("verify_results.yml", "report.yml"):
        assert show_testbed.run(lab, "--limit", "client01", playbook=playbook)[0] == 0
    assert "ceiling-client01" in (run / "report" / "report.md").read_text(encoding="utf-8")


def test_a_host_whose_layers_are_not_built_is_refused(tmp_path):
    name = f"limit-{uuid.uuid4().hex[:8]}"
    lab = inventory(tmp_path, name)
    rc, document, _said = show_testbed.run(lab, "--limit", "client02", playbook="benchmark.yml")
    assert rc == 2 and "None of the described layers is built: initiator-bench-client02." in json.dumps(document)
    assert not (tmp_path / "results").exists()
