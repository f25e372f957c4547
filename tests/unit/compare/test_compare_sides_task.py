# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several candidates against one baseline, by the task and by the playbook."""

from __future__ import annotations

import json
import os
from pathlib import Path

import places
import plays
import pytest
import yaml
from fixtures.compare import make_runs
from test_compare_sides import SMALL, measured


def task(tmp_path: Path, **arguments) -> dict:
    return plays.play(tmp_path, {"storlab.testbed.compare": arguments})[0]


@pytest.fixture
def here(tmp_path) -> dict:
    """A baseline and three candidates as runs in a folder of results."""
    for place, (name, factor) in enumerate((("brd", 1.0), ("zram", 1.3), ("file", 1.0), ("loop", 0.7))):
        make_runs.write_run(tmp_path / "results", measured(name, factor, place=place))
    return {"results_dir": str(tmp_path / "results"), "testbed_id": "synthetic"}


def test_the_task_writes_one_folder_and_fails_where_a_side_is_worse(tmp_path, here):
    given = {
        "baseline": {**here, "run_id": "brd"},
        "candidates": [{"name": f"kind {name}", **here, "run_id": name} for name in ("zram", "file", "loop")],
    }
    first = task(tmp_path, **given)
    folder = Path(here["results_dir"], "synthetic", "compare", "zram_file_loop-vs-brd")
    assert first["changed"] and first["compare_dir"] == str(folder)
    assert (
        sorted(os.listdir(folder))
        == ["comparison.csv", "comparison.json", "github.txt", "index.html", "junit.xml", "report.md"]
        and "rows" not in first
    )
    assert [(mine["name"], mine["verdict"]) for mine in first["sides"]] == [
        ("kind zram", "better"),
        ("kind file", "no_difference"),
        ("kind loop", "worse"),
    ]
    assert json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["schema"] == "storlab.sides/1"
    stopped = task(tmp_path, **given, fail_on=["iops regression"])
    assert stopped["failed"] and stopped["failure"]["code"] == "regression"
    assert stopped["msg"].startswith(
        f"1 figures of kind loop meet fail_on, first iops of backing-a {SMALL}: worse, by "
    )
    again = task(tmp_path, **given)
    assert again["changed"]  # The gate stands on the page.
    assert not task(tmp_path, **given)["changed"]
    scrubbed = task(tmp_path, **given, scrub=True, output_dir=str(tmp_path / "out"))
    page = Path(scrubbed["index"]).read_text(encoding="utf-8")
    assert "target01" not in page and "synthetic" not in page and "kind zram" in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidate": {"run_dir": "/x"}}, "testbed_candidates) are both given. Give candidate for one side"),
        ({"candidates": None}, "both missing"),
        ({"candidates": []}, "candidates is []."),
        ({"candidates": ["zram"]}, "candidates is ['zram']. Give each candidate a name"),
        ({"candidates": [{"name": "a", "run_dir": "/x"}, {"name": "a", "run_dir": "/y"}]}, "name is 'a'. Listed twice"),
        ({"candidates": [{"name": "a", "run_id": "x"}]}, "candidates.a is "),
    ],
)
def test_candidates_that_cannot_be_are_refused(tmp_path, here, changes, words):
    given = {"baseline": {**here, "run_id": "brd"}, "candidates": [{"name": "a", **here, "run_id": "zram"}], **changes}
    refused = task(tmp_path, **{key: value for key, value in given.items() if value is not None})
    assert refused["failed"] and refused["failure"]["code"] == "bad_value" and words in refused["msg"]
    assert not Path(here["results_dir"], "synthetic", "compare").exists()


def test_the_playbook_takes_candidates_by_name(tmp_path, here):
    words = {
        "testbed_id": "synthetic",
        "testbed_results_dir": here["results_dir"],
        "testbed_baseline": "brd",
        "testbed_candidates": {
            "zram": "zram",
            "copy": {"run_dir": f"{here['results_dir']}/synthetic/file"},
            "loop": {"run_id": "loop"},
        },
    }
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump(
            {"controllers": {"hosts": {"localhost": {"ansible_connection": "local"}}, "vars": words}}, sort_keys=False
        ),
        encoding="utf-8",
    )
    book = places.ROOT / "playbooks" / "compare.yml"
    code, steps = plays.run(tmp_path, book, "-i", str(inventory))
    lines = steps[-1]["msg"].splitlines()
    assert code == 0 and lines[0].split()[:4] == ["metric", "side", "baseline", "candidate"]
    assert [line.split()[:2] for line in lines[2:5]] == [["IOPS", "zram"], ["IOPS", "copy"], ["IOPS", "loop"]]
    assert lines[-1].endswith("/synthetic/compare/zram_file_loop-vs-brd/index.html")
    for more, text in (
        ({"testbed_candidate": "file"}, "both given"),
        ({"testbed_candidates": ["zram", "file"]}, "Give each candidate a name"),
    ):
        code, steps = plays.run(tmp_path, book, "-i", str(inventory), "-e", json.dumps(more))
        assert code == 2 and text in steps[0]["msg"]
