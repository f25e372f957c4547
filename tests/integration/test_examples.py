# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of the manual that need no machine are run as they stand; the molecule scenarios use the other modules."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys

import pytest
import yaml

PLACE = "/tmp/storlab-example"


def examples(root, module: str) -> str:
    tree = ast.parse((root / "plugins" / "modules" / f"{module}.py").read_text(encoding="utf-8"))
    return next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXAMPLES"
    )


def play(root, folder, tasks: str, *options: str) -> str:
    """Run the tasks on a host called target01, with the examples' folder put elsewhere."""
    plays = [
        {
            "name": "Examples",
            "hosts": "target01",
            "gather_facts": False,
            "tasks": yaml.safe_load(tasks.replace(PLACE, str(folder))),
        }
    ]
    (folder / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
    command = [
        "ansible-playbook",
        "-i",
        "target01,",
        "-c",
        "local",
        "-e",
        json.dumps({"ansible_python_interpreter": sys.executable}),
        *options,
        folder / "play.yml",
    ]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.parametrize("module", ["layer", "storage_state", "storage_baseline", "benchmark_run"])
def test_examples_run(root, tmp_path, module):
    tasks = examples(root, module)
    if module == "benchmark_run":
        # There is no run to ask about: stopping is all that can be done twice.
        tasks = yaml.safe_dump(yaml.safe_load(tasks)[:1])
    play(root, tmp_path, tasks)


def test_examples_of_report_run(root, tmp_path):
    sys.path.insert(0, str(root / "tests" / "unit"))
    from fixtures.report import make_fixture

    make_fixture.write_run(str(tmp_path / "results"), 1, 2)
    play(root, tmp_path, examples(root, "report"))
    page = next((tmp_path / "results").rglob("report/index.html")).read_text()
    assert "Before the change of the queue depth" in page


def test_examples_of_results_export_run(root, tmp_path):
    sys.path.insert(0, str(root / "tests" / "unit"))
    from fixtures.report import make_fixture

    make_fixture.write_run(str(tmp_path / "results"), 1, 2)
    play(root, tmp_path, examples(root, "results_export"))
    assert (tmp_path / "results.csv").read_text().startswith("testbed_id,run_id,point_id,")
    assert "# TYPE storlab_iops gauge\n" in (tmp_path / "storlab.prom").read_text()


def test_examples_of_results_query_run(root, tmp_path):
    sys.path.insert(0, str(root / "tests" / "unit"))
    from fixtures.report import make_fixture

    make_fixture.write_run(str(tmp_path / "results"), 1, 2)
    shown = play(root, tmp_path, examples(root, "results_query"), "-v")
    assert "block_size_bytes" in shown and '"matched": 0' not in shown


def test_examples_of_compare_run(root, tmp_path):
    sys.path.insert(0, str(root / "tests" / "unit"))
    from fixtures.compare import make_runs

    workload = next(iter(make_runs.WORKLOADS))
    for seed, run_id in enumerate(("before", "after", "a1", "b1", "a2", "b2", "a3", "b3")):
        rates = {("target-bench", workload): 9000, ("initiator-bench", workload): 5000}
        results = make_runs.results(5, rates, seed=seed, run_id=run_id, start=3600 * (1 + seed))
        folder = make_runs.write_run(tmp_path / "made", results)
        shutil.copytree(folder, tmp_path / "results" / "embedded" / run_id)
    kinds = [
        {**result, "variant": variant, "point_id": f"{result['point_id']}.{variant}"}
        for variant, rate in (("brd", 9100), ("zram", 9900), ("tmpfs", 9500), ("file", 9300))
        for result in make_runs.results(5, {("target-bench", workload): rate}, run_id="kinds")
    ]
    folder = make_runs.write_run(tmp_path / "made", kinds)
    shutil.copytree(folder, tmp_path / "results" / "embedded" / "kinds")
    play(root, tmp_path, examples(root, "compare"))
    assert sorted(path.name for path in (tmp_path / "results" / "embedded" / "compare").iterdir()) == [
        "after-vs-before",
        "after.initiator-bench-vs-after.target-bench",
        "b1_b2_b3-vs-a1_a2_a3",
        # The last run, and all before it: fewer than a history takes, so that there is no verdict.
        "b3-vs-kinds_before_after_a1_b1_a2_b2_a3",
        "kinds.zram_kinds.tmpfs_kinds.file-vs-kinds.brd",
    ]


def test_examples_of_benchmark_list_their_points(root, tmp_path):
    shown = play(root, tmp_path, yaml.safe_dump(yaml.safe_load(examples(root, "benchmark"))[1:]), "--check", "-v")
    assert shown.count("4k-r100-rnd100-qd32-w1.r3") >= 1 and "4k-r0-rnd100-qd4-w1.r1" in shown


def test_examples_of_fio_results_run(root, tmp_path):
    shutil.copy(root / "tests" / "unit" / "fixtures" / "fio" / "four_records.json", tmp_path / "fio.json")
    documentation = yaml.safe_load((root / "plugins" / "filter" / "fio_results.yml").read_text(encoding="utf-8"))
    shown = play(root, tmp_path, documentation["EXAMPLES"])
    assert shown.count("    - ") == 4
