# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of docs/imports.md is executed: two folders of fio's files become two runs, which are compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import actions
import places
import pytest
from ansible_collections.storlab.testbed.plugins.action import import_results
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load

FILE = places.FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-1.json"
# How much longer an I/O took in each run than in the file above.
TIMES = {"before": (1.0, 1.01, 0.99, 1.02, 0.985), "after": (0.8, 0.806, 0.79, 0.818, 0.785)}


def blocks() -> list:
    """The example's folders, its commands and what they print."""
    text = (places.ROOT / "docs" / "imports.md").read_text(encoding="utf-8")
    section = text.partition("## Before and after: an example\n")[2].partition("\n## ")[0]
    return re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def write(path: Path, factor: float, minute: int) -> None:
    """fio's file of a second in which every I/O took longer by this factor, written that many minutes later."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    document["timestamp"] += 60 * minute
    document["timestamp_ms"] += 60_000 * minute
    read = document["jobs"][0]["read"]
    ios = round(read["total_ios"] / factor)
    read.update(total_ios=ios, io_bytes=4096 * ios, io_kbytes=4 * ios, iops=1000 * ios / read["runtime"])
    read.update(bw_bytes=round(4096 * read["iops"]), bw=round(4 * read["iops"]))
    for name in ("clat_ns", "lat_ns"):
        read[name].update({key: read[name][key] * factor for key in ("min", "max", "mean")}, N=ios)
    percentiles = read["clat_ns"]["percentile"]
    percentiles.update({key: round(value * factor) for key, value in percentiles.items()})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    for hour, (side, factors) in enumerate(TIMES.items()):
        for number, factor in enumerate(factors, 1):
            write(tmp_path / side / f"run{number}.json", factor, 60 * hour + number)
    return tmp_path


def shell(folder: Path, script: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    paths = {"ANSIBLE_COLLECTIONS_PATH": str(places.ROOT / ".cache" / "collections"), "ANSIBLE_INVENTORY": "/dev/null"}
    return subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env={**kept, **paths, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_example_does_what_the_page_says(folder):
    folders, commands, printed = blocks()
    assert folders == "before/run1.json … before/run5.json\nafter/run1.json … after/run5.json\n"
    before = {path: path.read_bytes() for path in folder.rglob("run*.json")}
    # A shell joins what the page breaks inside of quotes.
    done = shell(folder, commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed in done.stdout, done.stdout
    assert {path: path.read_bytes() for path in before} == before
    for side in TIMES:
        assert len(list((folder / "imported" / side / "points").iterdir())) == 5
        assert (folder / "imported" / side / "report" / "index.html").is_file()
    # IOPS are those of the files: a quarter more.
    ((baseline, candidate),) = re.findall(r"^ +IOPS .*?([\d.]+)k +([\d.]+)k", printed, re.MULTILINE)
    assert 1.24 < float(candidate) / float(baseline) < 1.26

    compare = re.sub(r', "layer": "\w+"', "", commands[commands.index("ansible-playbook storlab.testbed.compare") :])
    assert compare not in commands
    done = shell(folder, compare)
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    assert "Name the layers to compare: layer: before for the baseline, layer: after for the candidate." in text


def test_one_name_at_import_makes_runs_that_are_compared_as_they_are(folder):
    runs = {}
    for side in TIMES:
        task = {"path": str(folder / side), "run_dir": str(folder / "imported" / side), "layer": "array"}
        assert actions.make(import_results, task).run(task_vars={})["layers"] == ["array"]
        selector = {"layer": None, "variant": None, "workload": None}
        runs[side] = {"runs": [load.read_run(task["run_dir"])], "selector": selector, "label": side}
    compared = comparison.compare_runs(runs["before"], runs["after"], [], metrics=["iops"])
    assert [row["point"] for row in compared["rows"]] == ["array 4k-r100-rnd100-qd1-w1-097539"]


def test_a_layer_that_names_no_folder_is_refused_before_anything_is_written(folder):
    task = {"path": str(folder / "before"), "run_dir": str(folder / "imported"), "layer": "../array"}
    result = actions.answer(actions.make(import_results, task), {}, folder)
    assert result["failure"]["code"] == "bad_value" and "layer is '../array'" in result["msg"]
    assert not (folder / "imported").exists()
