# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of all runs: what each found, how figures went from run to run, and where the environment changed."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import units
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import index, model
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from plays import report as task
from run_history import change, testbed

WORKLOAD = "4k-r70-rnd100-qd8-w1"


@pytest.fixture
def folder(tmp_path) -> Path:
    return testbed(tmp_path, "2026-11-19", "2026-11-20", "2026-11-21")


def test_every_run_with_what_its_report_says(folder):
    found = index.build(str(folder), {"run-2026-11-20"})
    assert [run["name"] for run in found["runs"]] == ["run-2026-11-19", "run-2026-11-20", "run-2026-11-21"]
    for run in found["runs"]:
        assert run["verdict"] == model.build(load.read_run(str(folder / run["name"]))).verdict
        assert (run["points"], run["measured"], run["failed"]) == (18, 18, 0)
    assert [run.get("report") for run in found["runs"]] == [None, "run-2026-11-20/report/index.html", None]
    page = index.html(found)
    assert page.count('href="run-') == 1 and all(run["verdict"] in page.replace("&gt;", ">") for run in found["runs"])


def test_trends_are_medians_with_the_range_of_the_repetitions(folder):
    found = index.build(str(folder), set())
    for at, run in enumerate(found["runs"]):
        for layer in ("backing-bench", "guest-guest01"):
            results = [
                json.loads(path.read_text()) for path in folder.glob(f"{run['name']}/points/{layer}_*/result.json")
            ]
            for metric in ("iops", "latency_p99_ns"):
                values = [result["total"][metric] for result in results]
                assert len(values) == 3
                assert found["trends"][WORKLOAD][layer][metric][at] == [
                    at,
                    statistics.median(values),
                    min(values),
                    max(values),
                ]
    # What nobody measured is not there.
    assert "us_per_io" not in found["trends"][WORKLOAD]["backing-bench"]


def test_the_chart_has_a_dot_a_run_at_its_place_and_says_its_figures(folder):
    found = index.build(str(folder), set())
    page = index.html(found)
    assert "guest-guest01</h3>" in page  # the top of the chain is what the page begins with
    dots = [
        (float(left), float(up)) for left, up in re.findall(r'<circle class="dot" cx="([\d.]+)%" cy="([\d.]+)"', page)
    ]
    medians = [median for _at, median, _low, _high in found["trends"][WORKLOAD]["guest-guest01"]["iops"]]
    assert [left for left, _up in dots] == pytest.approx([100 / 6, 50, 500 / 6], abs=0.01)
    # Linear from zero: heights are in the ratio of the figures.
    assert [260 - up for _left, up in dots] == pytest.approx(
        [(260 - dots[0][1]) * median / medians[0] for median in medians], rel=0.01
    )
    shown = [
        float(value)
        for value in re.findall(
            r'<td class="n"><data value="([\d.]+)"', page.split('id="numbers"')[1].split("</table>")[0]
        )
    ]
    assert shown[::3] == pytest.approx(medians, rel=1e-6)


def test_a_changed_environment_is_marked_and_named(folder):
    found = index.build(str(folder), set())
    assert [run["changed"] for run in found["runs"]] == [
        {},
        {},
        {"hosts.target01.kernel.release": ["6.1.0-50-cloud-amd64", "6.1.0-51-cloud-amd64"]},
    ]
    page = index.html(found)
    assert page.count('class="changed"') == 1 and '<line x1="66.67%"' in page
    assert "hosts.target01.kernel.release: 6.1.0-50-cloud-amd64 → 6.1.0-51-cloud-amd64" in page


def test_what_never_matters_and_what_was_not_told_is_no_change(folder):
    run = folder / "run-2026-11-20"
    change(run, "target01", lambda facts: facts.update(load_1min=17.5, boot_id="another"))
    change(run, "target01", lambda facts: facts.pop("distribution"))
    (run / "hosts" / "guest01.json").unlink()
    assert index.build(str(folder), set())["runs"][1]["changed"] == {}
    # But it is remembered from before: what comes back changed is a change.
    change(folder / "run-2026-11-21", "guest01", lambda facts: facts["kernel"].update(release="6.2"))
    assert "hosts.guest01.kernel.release" in index.build(str(folder), set())["runs"][2]["changed"]


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(folder):
    for path in (folder / "run-2026-11-20").glob("points/*/result.json"):
        path.write_text("{", encoding="utf-8")
    (folder / "run-0" / "points").mkdir(parents=True)
    found = index.build(str(folder), set())
    reasons = {run["name"]: run["reason"] for run in found["runs"] if "reason" in run}
    assert reasons == {
        "run-2026-11-20": "none of its 18 results can be read",
        "run-0": "none of its 0 results can be read",
    }
    assert "none of its 18 results can be read" in index.html(found)


@pytest.mark.parametrize(
    "content", ["5", '"text"', "[1]", "null", "[{}]", '{"a": 1}', '{"requests": [3], "unread": 4}']
)
def test_files_of_another_shape_are_no_reason_to_fail(folder, content):
    for name in ("layers.json", "hosts/target01.json", "run.json"):
        (folder / "run-2026-11-20" / name).write_text(content, encoding="utf-8")
    found = index.build(str(folder), set())
    assert [run["measured"] for run in found["runs"]] == [18, 18, 18] and "Runs of embedded" in index.html(found)
    load.read_run(str(folder / "run-2026-11-20"))


@pytest.mark.parametrize("repetitions", [1, 3])
def test_a_trend_of_one_run_is_a_number(tmp_path, repetitions):
    folder = testbed(tmp_path, "2026-11-19")
    for path in (folder / "run-2026-11-19" / "points").glob("*"):
        if json.loads((path / "result.json").read_text())["repetition"] > repetitions:
            shutil.rmtree(path)
    page = index.html(index.build(str(folder), set())).partition("<script")[0]
    assert '<svg class="chart plot' not in page and '<circle class="dot"' not in page
    text = re.search(r'<p class="single">(.*?)</p>', page, re.DOTALL)[1]
    values = sorted(
        json.loads(path.read_text())["total"]["iops"]
        for path in folder.glob("run-2026-11-19/points/guest-guest01_*/result.json")
    )
    assert len(values) == repetitions
    assert f"<strong>{units.iops(statistics.median(values))}</strong> IOPS" in text
    assert (f"<small>{units.iops(values[0])}–{units.iops(values[-1])}</small>" in text) == (repetitions > 1)
    assert "Only run-2026-11-19 has it; a trend needs two runs." in text and "There is one run so far." in page
    # The figures of the table stay.
    assert 'id="numbers"' in page


def test_the_page_of_no_readable_run_has_no_trend(tmp_path):
    (tmp_path / "lab" / "run-0" / "points").mkdir(parents=True)
    page = index.html(index.build(str(tmp_path / "lab"), set()))
    assert "Runs of lab" in page and 'id="over-runs"' not in page


def test_names_out_of_files_stay_text(folder):
    run = folder / "run-2026-11-21"
    (run / "run.json").write_text(
        json.dumps({"requests": [{"profile": {"name": "</script><script>alert(1)</script>", "version": "1"}}]})
    )
    for path in run.glob("points/backing-bench_*/result.json"):
        path.write_text(path.read_text().replace('"backing-bench"', '"</script><b>"'))
    page = index.html(index.build(str(folder), set()))
    assert "<b>" not in page.split("<tbody>")[-1] and page.count("</script>") == 2 and "alert(1)</script>" not in page


def test_a_page_carries_what_most_runs_have_and_says_when_that_is_not_all(folder, monkeypatch):
    monkeypatch.setattr(index, "FIGURES_EMBEDDED", 12)
    found = index.build(str(folder), set())
    page = index.html(found)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert list(data["trends"][WORKLOAD]) == ["guest-guest01"] and data["chosen"][1] == "guest-guest01"
    assert "There is too much for one page" in page and len(found["trends"][WORKLOAD]) == 6


def test_the_same_runs_give_the_same_bytes(folder):
    assert index.files(index.build(str(folder), {"run-2026-11-20"})) == index.files(
        index.build(str(folder), {"run-2026-11-20"})
    )


# -- with the task ----------------------------------------------------------------------------------------------------


def test_the_task_keeps_the_page_and_takes_it_away_with_the_last_report(tmp_path, folder):
    first = task(tmp_path, results_dir=str(folder.parent), testbed_id=folder.name, run_id="run-2026-11-19")
    page = Path(first["runs"])
    assert (
        page == folder / "index.html"
        and str(page) in first["written"]
        and page.read_text().count("/report/index.html") == 1
    )
    # A second run of the task changes nothing; another report changes the page.
    assert task(tmp_path, run_dir=str(folder / "run-2026-11-19"))["written"] == []
    second = task(tmp_path, results_dir=str(folder.parent), testbed_id=folder.name)
    assert {str(folder / name) for name in index.FILES} < set(second["written"]) and page.read_text().count(
        "/report/index.html"
    ) == 2
    gone = task(tmp_path, run_dir=str(folder / "run-2026-11-19"), state="absent")
    assert str(page) in gone["removed"] and page.read_text().count("/report/index.html") == 1
    task(tmp_path, run_dir=str(folder / "run-2026-11-21"), state="absent")
    assert not page.exists() and not (folder / "index.json").exists()


def test_runs_without_a_report_are_listed(tmp_path, folder):
    where = {"results_dir": str(folder.parent), "testbed_id": folder.name}
    assert task(tmp_path, **where, state="listed", run_id="latest")["written"] == [
        str(folder / name) for name in sorted(index.FILES)
    ]
    page = (folder / "index.html").read_text()
    assert all(name in page for name in ("run-2026-11-19", "run-2026-11-20", "run-2026-11-21"))
    assert page.count("/report/index.html") == 0
    assert task(tmp_path, **where, state="listed")["changed"] is False
    task(tmp_path, **where, run_id="run-2026-11-20")
    # A report's link stays when another run comes.
    shutil.copytree(folder / "run-2026-11-21", folder / "run-2026-11-22")
    task(tmp_path, **where, state="listed")
    page = (folder / "index.html").read_text()
    assert "run-2026-11-22" in page and page.count('href="run-2026-11-20/report/index.html"') == 1


def test_what_has_no_run_gets_no_page(tmp_path):
    (tmp_path / "results" / "lab").mkdir(parents=True)
    answer = task(tmp_path, results_dir=str(tmp_path / "results"), testbed_id="lab", state="listed")
    assert answer["changed"] is False and list((tmp_path / "results" / "lab").iterdir()) == []


@pytest.mark.parametrize("arguments", [{"index": False}, {}])
def test_no_page_where_it_is_not_wanted_or_the_folder_is_not_the_testbeds(tmp_path, folder, arguments):
    run = folder / "run-2026-11-21"
    if not arguments:
        run = run.rename(tmp_path / "somewhere")
    found = task(tmp_path, run_dir=str(run), **arguments)
    assert found["changed"] and "runs" not in found
    assert not (run.parent / "index.html").exists() and not (run.parent / "index.json").exists()
