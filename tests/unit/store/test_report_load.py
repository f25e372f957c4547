# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be read of a run is read, what cannot is named."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import pool
from fixtures.report import make_fixture
from unchanged import refused


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(make_fixture.write_run(str(tmp_path / "results"), 1, 1))


def change(run: Path, point: str, **values) -> None:
    path = run / "points" / point / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}), encoding="utf-8")


POINT = "target-bench_4k-r70-rnd100-qd8-w1_1"


def test_reads_every_result_layer_and_host(run):
    found = load.read_run(str(run))
    assert (found.testbed_id, found.run_id) == ("embedded", "20261121T133616Z")
    assert len(found.results) == 6 and len(found.layers) == 9
    assert sorted(found.environments) == ["guest01", "hypervisor01", "target01"]
    assert found.damaged == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"schema": ', "cannot be read"),
        ("[]", "not a result"),
        ('{"schema": "other/2"}', "'other/2'"),
        ('{"schema": "storlab.result/1"}', "lacks testbed_id"),
    ],
)
def test_a_damaged_result_is_listed_and_the_rest_is_read(run, text, reason):
    (run / "points" / POINT / "result.json").write_text(text, encoding="utf-8")
    found = load.read_run(str(run))
    assert len(found.results) == 5
    assert [entry["file"] for entry in found.damaged] == [f"points/{POINT}/result.json"]
    assert reason in found.damaged[0]["reason"]


@pytest.mark.parametrize(
    ("total", "reason"),
    [
        ({"iops": "many"}, "total iops is 'many'"),
        ({"iops": True}, "total iops is True"),
        ([], "total is a list"),
        ({"histogram": {"unit": "ns", "bins": {"1e3": 4}}}, "histogram"),
        ({"histogram": {"unit": "ns", "bins": {"1000": -4}}}, "histogram"),
        ({"histogram": {"unit": "ns", "bins": {"1000": 3, "": 4}}}, "histogram"),
    ],
)
def test_a_result_with_figures_that_are_none_is_damaged(run, total, reason):
    change(run, POINT, total=total)
    assert reason in load.read_run(str(run)).damaged[0]["reason"]


def test_a_lost_layers_file_and_a_broken_host_file_are_listed(run):
    (run / "layers.json").unlink()
    (run / "hosts" / "guest01.json").write_bytes(b"\xff\xfe not json")
    found = load.read_run(str(run))
    assert [entry["file"] for entry in found.damaged] == ["layers.json", "hosts/guest01.json"]
    assert len(found.results) == 6


def test_layers_may_be_a_list(run):
    layers = json.loads((run / "layers.json").read_text())
    (run / "layers.json").write_text(json.dumps(list(layers.values())), encoding="utf-8")
    assert load.read_run(str(run)).layers == layers


def test_checksums_are_compared_with_the_files(run):
    (run / "points" / POINT / "fio.json").write_text("altered", encoding="utf-8")
    (run / "points" / POINT / "job.fio").unlink()
    found = {result["point_id"]: result["files"] for result in load.read_run(str(run)).results}
    assert found[POINT]["raw"]["state"] == "differs"
    assert found[POINT]["job"]["state"] == "missing" and found[POINT]["job"]["path"] is None
    assert {files["raw"]["state"] for point, files in found.items() if point != POINT} == {"matches"}


@pytest.mark.parametrize("name", ["../../../../etc/passwd", "/etc/passwd", "javascript:alert(1)"])
def test_a_raw_file_outside_the_run_is_no_link(run, name):
    change(run, POINT, raw={"file": name, "sha256": "0" * 64})
    found = next(result for result in load.read_run(str(run)).results if result["point_id"] == POINT)
    assert found["files"]["raw"]["path"] is None and found["files"]["raw"]["state"] == "missing"


def test_a_run_without_results_fails_with_a_remedy(run):
    shutil.rmtree(run / "points")
    (run / "points" / "a").mkdir(parents=True)
    with refused(run) as caught:
        load.read_run(str(run))
    assert caught.value.code == "run_empty" and caught.value.details["damaged"][0]["reason"] == "it is missing"


def test_latest_is_the_run_that_started_last_whatever_its_name(tmp_path):
    first = make_fixture.write_run(str(tmp_path), 1, 1)
    second = os.path.join(os.path.dirname(first), "a-later-run")
    shutil.copytree(first, second)
    for point in Path(second, "points").iterdir():
        path = point / "result.json"
        path.write_text(path.read_text().replace("2026-11-21T", "2026-11-22T"), encoding="utf-8")
    assert load.find_run(str(tmp_path), "embedded", "latest") == second
    assert load.find_run(str(tmp_path), "embedded", "20261121T133616Z") == first


def test_an_unknown_run_names_those_there_are(tmp_path):
    make_fixture.write_run(str(tmp_path), 1, 1)
    with refused(tmp_path) as caught:
        load.find_run(str(tmp_path), "embedded", "yesterday")
    assert caught.value.code == "run_missing" and "20261121T133616Z" in str(caught.value)


@pytest.mark.parametrize(
    ("testbed", "run_id", "named"),
    [("../embedded", "latest", "testbed_id"), ("embedded", "../../etc", "run_id"), ("embedded", "..", "run_id")],
)
def test_names_are_not_paths(tmp_path, testbed, run_id, named):
    make_fixture.write_run(str(tmp_path), 1, 1)
    with refused(tmp_path) as caught:
        load.find_run(str(tmp_path), testbed, run_id)
    assert caught.value.code == "bad_value" and caught.value.details["variable"] == named


def test_no_run_at_all(tmp_path):
    with refused(tmp_path) as caught:
        load.find_run(str(tmp_path), "embedded", "latest")
    assert caught.value.code == "run_missing" and "Run benchmark first" in str(caught.value)


def test_histograms_of_a_cell_are_added_up_while_reading(tmp_path):
    """Each repetition's bins differ; what stands in its points is one sum, and a subset of the points gets none of it."""
    folder = Path(synthetic_run.write_run(str(tmp_path), "small", 3))
    own = {}
    for path in folder.glob("points/*/result.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        for direction in ("read", "write", "total"):
            if result.get(direction, {}).get("histogram"):
                cell = own.setdefault((result["layer"], result["workload_id"], direction), Counter())
                cell.update({int(edge): count for edge, count in result[direction]["histogram"]["bins"].items()})
    cells: dict = {}
    for result in load.read_run(str(folder)).results:
        cells.setdefault((result["layer"], result["workload_id"]), []).append(result)
    assert own and {cell[:2] for cell in own} <= set(cells)
    for (layer, workload_id, direction), expected in own.items():
        results = cells[layer, workload_id]
        assert len({id(result[direction]["histogram"]) for result in results}) == 1
        assert {int(edge): count for edge, count in results[0][direction]["histogram"]["bins"].items()} == expected
    results = cells[layer, workload_id]
    assert sum(pool(results).bins.values()) == sum(own[layer, workload_id, "total"].values())
    assert pool(results[:2]).bins == {}


def test_a_total_that_is_not_its_only_direction_is_kept_out_of_the_sum(tmp_path):
    folder = Path(synthetic_run.write_run(str(tmp_path), "small", 1))
    path = next(
        path
        for path in sorted(folder.glob("points/*/result.json"))
        if json.loads(path.read_text(encoding="utf-8"))["workload"]["read_percent"] == 100
    )
    result = json.loads(path.read_text(encoding="utf-8"))
    result["total"]["histogram"] = {"bins": {"7": 3}}
    path.write_text(json.dumps(result), encoding="utf-8")
    found = next(one for one in load.read_run(str(folder)).results if one["point_id"] == result["point_id"])
    assert (found["total"]["histogram"]["bins"], found["read"]["histogram"]["bins"]) == (
        {"7": 3},
        result["read"]["histogram"]["bins"],
    )
    assert pool([found]).bins == {"7": 3}


def test_a_result_that_is_nested_deeply_is_read_like_any_other(tmp_path):
    folder = Path(synthetic_run.write_run(str(tmp_path), "chain", 1))
    path = sorted(folder.glob("points/*/result.json"))[0]
    result = json.loads(path.read_text(encoding="utf-8"))
    deep = json.loads('{"a": [' * 300 + "7" + "]}" * 300)
    path.write_text(json.dumps({**result, "counters": deep}), encoding="utf-8")
    found = next(one for one in load.read_run(str(folder)).results if one["point_id"] == result["point_id"])
    assert found["counters"] == deep


def test_what_results_have_in_common_is_in_memory_once_and_nothing_changes(run):
    names = sorted(path.name for path in (run / "points").iterdir())
    # Equal to the other's number, but another text in a file.
    own = json.loads((run / "points" / names[1] / "result.json").read_text())["workload"]
    change(run, names[1], workload={**own, "direct": 1})
    stored = {name: json.loads((run / "points" / name / "result.json").read_text()) for name in names}
    found = {result["point_id"]: result for result in load.read_run(str(run)).results}
    assert sorted(found) == names
    for name, result in found.items():
        for key, value in stored[name].items():
            if key not in ("read", "write", "total"):
                assert json.dumps(result[key]) == json.dumps(value), (name, key)
            else:
                assert {**result[key], "histogram": 0} == {**value, "histogram": 0}, (name, key)
                assert [part for part in result[key] if part != "histogram"] == [
                    part for part in value if part != "histogram"
                ]
    first, third = found[names[0]], found[names[2]]
    assert type(found[names[1]]["workload"]["direct"]) is int and first["workload"]["direct"] is True
    assert first["schema"] is third["schema"] and first["run_id"] is third["run_id"]
    assert all(one is other for one, other in zip(first, third)) and list(first) == list(third)


def test_a_result_without_what_is_optional_has_it_empty(run):
    """A ceiling has no path; each reader may ask for it all the same."""
    name = sorted(path.name for path in (run / "points").iterdir())[0]
    path = run / "points" / name / "result.json"
    optional = {"path": None, "flags": [], "failures": [], "errors": {}, "finished_utc": ""}
    result = {key: part for key, part in json.loads(path.read_text()).items() if key not in optional}
    path.write_text(json.dumps(result))
    for _time in ("from the file", "by the index"):
        found = next(one for one in load.read_run(str(run)).results if one["point_id"] == name)
        assert {key: found[key] for key in optional} == optional
