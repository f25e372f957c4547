# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a run too large for a section per workload and a row per point: nothing is lost, only said more briefly."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page, model, views
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture


@pytest.fixture
def run(tmp_path) -> Path:
    """Five workloads at six layers, two repetitions; one point failed and one file is not what it was."""
    folder = Path(make_fixture.write_run(str(tmp_path), 5, 2))
    failed = folder / "points" / "target-bench_64k-r100-rnd0-qd4-w1_2" / "result.json"
    failed.write_text(
        json.dumps(
            {
                **json.loads(failed.read_text()),
                "status": "failed",
                "failures": [{"code": "io_errors", "message": "3 errors"}],
            }
        )
    )
    (folder / "points" / "backing-bench_4k-r0-rnd100-qd1-w1_1" / "fio.json").write_text("{}")
    return folder


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(views.base, "SECTIONS", 2)
    monkeypatch.setattr(views.base, "POINTS_APART", 50)


def page_of(run: Path) -> tuple:
    report = model.build(load.read_run(str(run)))
    return report, html_page.html(report)


def test_a_small_run_has_a_section_a_workload_and_a_row_a_point(run):
    _report, page = page_of(run)
    assert page.count('class="workload ') == 5 and 'id="further"' not in page and page.count("<code>") > 60


def test_what_has_no_section_has_a_row_a_layer_with_its_figures(run, large):
    report, page = page_of(run)
    assert page.count('class="workload ') == 2
    table = page.split('id="further"')[1].split("</table>")[0]
    apart = set(re.findall(r'data-workload="([^"]+)"', page))
    expected = {
        (step.cell.layer, waterfall.workload_id): step.cell
        for waterfall in report.waterfalls
        for step in waterfall.steps
        if waterfall.workload_id not in apart
    }
    rows = {}
    for row in re.findall(r"<tr class=.*?(?=<tr|</table>|$)", table, re.DOTALL):
        layer, workload = re.search(r'<th scope="row">([^<]+)<td[^>]*>([^<]+)', row).groups()
        rows[layer, workload] = [float(value) for value in re.findall(r'<data value="([^"]+)"', row)]
    assert set(rows) == set(expected) and len(rows) == 18
    metrics = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p50_ns", "latency_p99_ns")
    for place, cell in expected.items():
        assert rows[place] == pytest.approx([cell.value(metric) for metric in metrics], rel=1e-6)


def test_every_raw_file_is_still_one_link_away(run, large):
    report, page = page_of(run)
    linked = {unquote(path) for path in re.findall(r'href="\.\./([^"]+)"', page)}
    assert linked == {point["files"]["raw"]["path"] for point in report.points} and len(linked) == 60
    assert all((run / path).is_file() for path in linked)


def test_what_is_wrong_with_a_point_is_said_where_its_file_is(run, large):
    _report, page = page_of(run)
    table = page.split('id="points"')[1]
    assert re.search(r'target-bench_64k-r100-rnd0-qd4-w1_2/fio\.json">2 failed</a>', table)
    assert re.search(r'backing-bench_4k-r0-rnd100-qd1-w1_1/fio\.json">1</a> <em class="differs">differs</em>', table)


@pytest.mark.parametrize("small", [True, False])
def test_every_link_within_the_page_leads_somewhere(run, request, small):
    if not small:
        request.getfixturevalue("large")
    _report, page = page_of(run)
    named = {unescape(name) for name in re.findall(r'\bid="([^"]+)"', page)}
    links = {unescape(name) for name in re.findall(r'href="#([^"]+)"', page)}
    assert links <= named and len(links) > 20
