# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long flushes took: pooled over repetitions, shown beside a published limit, judged by targets, compared and exported."""

from __future__ import annotations

import copy
import csv
import io
import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import units
from ansible_collections.storlab.testbed.plugins.module_utils.result import targets
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    model,
    nouns,
    render,
    terminal,
    verdicts,
    views,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import export, load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import store as stores
from fixtures.report import make_fixture

GUEST, WRITES = "guest-guest01", "4k-r0-rnd100-qd1-w1"
LIMIT = {"metric": "sync_latency_p99", "value": 10, "unit": "ms", "where": "etcd's advice", "limit": "at_most"}
PAGES = ("index.html", "report.md", "results.csv", "results.json")


def sync_of(point: dict, ios: int, mean_ns: float) -> dict:
    part = make_fixture.from_bins(make_fixture.bins(ios, mean_ns, 0.5), point["runtime_s"], 0)
    return {key: value for key, value in part.items() if key not in ("bytes", "iops", "bandwidth_bytes_s")}


def write(base, ios: int = 2000, factor: float = 1.0, repetitions: int = 3) -> str:
    """A run whose points of writes flush: at the guest a mean of 3, 3.3, 3.6 … ms times factor."""
    folder = make_fixture.write_run(str(base), 3, repetitions)
    for path in sorted((base / "embedded" / make_fixture.RUN_ID / "points").glob(f"*_{WRITES}_*/result.json")):
        point = json.loads(path.read_text())
        if point["layer_kind"] != "ceiling":
            mean = {GUEST: 3e6}.get(point["layer"], 0.7e6) * (0.9 + 0.1 * point["repetition"]) * factor
            point["sync"] = sync_of(point, ios, mean)
        path.write_text(json.dumps(point))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> load.Run:
    return load.read_run(write(tmp_path_factory.mktemp("results")))


def with_limit(run: load.Run, *figures: dict) -> nouns.Report:
    asked = {"requests": [{"profile": {"name": "etcd_fsync", "published": list(figures or (LIMIT,))}}]}
    return model.build(load.Run(**{**vars(run), "record": asked}))


def of_guest(run: load.Run) -> dict:
    """Percentiles of all repetitions by nearest rank, apart from the code under test."""
    folder = f"{run.folder}/points/{GUEST}_{WRITES}_"
    total: dict = {}
    for repetition in (1, 2, 3):
        with open(f"{folder}{repetition}/result.json", encoding="utf-8") as handle:
            for edge, count in json.load(handle)["sync"]["histogram"]["bins"].items():
                total[edge] = total.get(edge, 0) + count
    return {percent: make_fixture.percentile(total, percent) for percent in (50, 95, 99)}


def test_repetitions_are_pooled_by_their_histograms(run):
    report = model.build(run)
    (waterfall,) = [one for one in report.waterfalls if one.workload_id == WRITES]
    cell = next(step.cell for step in waterfall.steps if step.cell.layer == GUEST)
    wanted = of_guest(run)
    for percent, name in ((50, "p50"), (95, "p95"), (99, "p99")):
        assert cell.value(f"latency_{name}_ns", "sync") == wanted[percent]
    assert cell.value("latency_p99_ns", "sync") != cell.value("latency_p99_ns")
    assert cell.value("iops", "sync") is None


def test_flushes_are_a_table_of_their_workload_with_the_published_limit_below(run):
    report = with_limit(run)
    waterfall = next(one for one in report.waterfalls if one.workload_id == WRITES)
    table = views.flushes.table(waterfall, report, views.base.Choices(report))
    rows = {first: dict(zip([name for name, _number in table.head[1:]], fields)) for _css, first, fields in table.rows}
    assert rows[GUEST]["p99"].value == of_guest(run)[99]
    assert rows["etcd's advice"]["p99"] == (f"at most {units.latency(1e7)}", 1e7, "n", "", "")
    assert rows["etcd's advice"]["p95"].value is None
    assert not any("ceiling" in first for first in rows)
    others = [one for one in report.waterfalls if one.workload_id != WRITES]
    assert others and not any(views.flushes.table(one, report, views.base.Choices(report)) for one in others)


def test_the_published_limit_stands_beside_what_was_measured_in_its_unit(run):
    report = with_limit(run, {**LIMIT, "workload": {"read_percent": 0}})
    table = views.published.table(report, views.base.Choices(report))
    names = [name for name, _number in table.head[1:]]
    (row,) = table.rows
    fields = dict(zip(names, row[2]))
    assert row[1] == "p99 of flushes, ms" and fields["Published"].text == "at most 10"
    assert fields[GUEST].value == pytest.approx(of_guest(run)[99] / 1e6)


def test_every_form_of_the_report_has_them(run):
    report = with_limit(run)
    pages, p99 = render.render(report), units.latency(of_guest(run)[99])
    assert "<h3>Flushes</h3>" in pages["index.html"] and "except where one is a limit" in pages["index.html"]
    assert f"{GUEST}, flushes: mean" in pages["report.md"].replace("\\", "") and p99 in pages["report.md"]
    rows = list(csv.DictReader(io.StringIO(pages["results.csv"])))
    flushing = {row["layer"] for row in rows if row["sync_latency_p99_ns"]}
    assert GUEST in flushing and "ceiling-target01" not in flushing
    assert "sync_iops" not in rows[0]
    point = next(one for one in json.loads(pages["results.json"])["points"] if one.get("sync"))
    assert "histogram" not in point["sync"] and point["sync"]["latency_p99_ns"] > 0
    lines = [line for line in terminal.table(report) if f"{GUEST}, flushes:" in line]
    assert len(lines) == 1 and f"p99 {p99}" in lines[0]


def test_a_run_without_flushes_says_nothing_of_them(tmp_path):
    pages = render.render(model.build(load.read_run(make_fixture.write_run(str(tmp_path), 3, 2))))
    assert not any(word in pages[name] for name in PAGES for word in ("lushes", "sync_", '"sync"'))


def test_a_percentile_of_too_few_flushes_is_none(tmp_path):
    report = with_limit(load.read_run(write(tmp_path, ios=300)))
    waterfall = next(one for one in report.waterfalls if one.workload_id == WRITES)
    cell = next(step.cell for step in waterfall.steps if step.cell.layer == GUEST)
    # 900 of three repetitions: p95 needs 200, p99 1000.
    assert cell.value("latency_p95_ns", "sync") and cell.value("latency_p99_ns", "sync") is None
    assert any(f"{GUEST} did 900 flushes in all, too few for p99" in note for note in waterfall.notes)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("sync p99 <= 20 ms on guest under " + WRITES, "met"),
        ("sync p99 <= 2 ms on guest under " + WRITES, "missed"),
        ("sync p99 <= 20 ms on guest under 4k-r70-rnd100-qd8-w1", "not shown"),
    ],
)
def test_a_target_can_be_of_flushes(run, text, verdict):
    target = targets.parse(text)
    assert (target.metric, target.part) == ("latency_p99_ns", "sync")
    assert [one["verdict"] for one in verdicts.judge(model.build(run), [target])] == [verdict]


def test_flushes_are_compared(run, tmp_path):
    slower = load.read_run(write(tmp_path, factor=3.0))
    sides = [copy.deepcopy([one for one in each.results if one["layer"] == GUEST]) for each in (run, slower)]
    found = comparison.compare(*sides)
    rows = {row["metric"]: row for row in found["rows"] if WRITES in row["point"]}
    assert rows["sync.latency_p99_ns"]["baseline"]["value"] == of_guest(run)[99]
    ratio = rows["sync.latency_p99_ns"]["candidate"]["value"] / rows["sync.latency_p99_ns"]["baseline"]["value"]
    assert ratio == pytest.approx(3, rel=0.03)
    assert rows["sync.latency_mean_ns"]["better"] == "lower"
    assert not any(row["metric"].startswith("sync") for row in found["rows"] if WRITES not in row["point"])


def test_flushes_are_exported_after_the_columns_that_came_earlier(run):
    rows = [row for row in stores.open_run(run.folder).rows if row["layer"] == GUEST]
    head, *lines = list(csv.reader(io.StringIO(export.as_csv(rows).decode())))
    named = [dict(zip(head, line)) for line in lines]
    assert head[-3:] == ["sync_latency_p99_99_ns", "stall_total_s", "stall_longest_s"]
    assert head.index("sync_ios") > head.index("raw_sha256")
    assert [bool(row["sync_ios"]) for row in named] == [row["workload_id"] == WRITES for row in named]
    metrics = export.as_prometheus(rows).decode()
    assert 'direction="sync"' in metrics and not [
        line for line in metrics.splitlines() if line.startswith("storlab_iops{") and 'direction="sync"' in line
    ]
