# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Percentiles of which only bounds are known, and clients that made a point together."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import units
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    html_page,
    model,
    render,
    rows,
    terminal,
    views,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import Cell
from fixtures.report import make_fixture

LAYER, WORKLOAD = "target-bench", "4k-r70-rnd100-qd8-w1"


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(make_fixture.write_run(str(tmp_path), 1, 2))


def change(run: Path, layer: str, repetition: int, how) -> None:
    path = run / "points" / f"{layer}_{WORKLOAD}_{repetition}" / "result.json"
    result = json.loads(path.read_text())
    how(result)
    path.write_text(json.dumps(result), encoding="utf-8")


def bounded(lower_ms: float, upper_ms: float):
    """Without histograms, and the p99 between these."""

    def how(result: dict) -> None:
        for part in (result["read"], result["write"], result["total"]):
            part.pop("histogram")
            part.pop("latency_p99_ns")
            part.update(latency_p99_lower_ns=lower_ms * 1e6, latency_p99_upper_ns=upper_ms * 1e6)

    return how


def without_histogram(p99_ms: float):
    def how(result: dict) -> None:
        for part in (result["read"], result["write"], result["total"]):
            part.pop("histogram")
            part["latency_p99_ns"] = p99_ms * 1e6

    return how


def cell_of(run: Path) -> Cell:
    report = model.build(load.read_run(str(run)))
    return next(step.cell for step in report.waterfalls[0].steps if step.cell.layer == LAYER)


def test_bounds_of_one_repetition_are_its_own(run):
    change(run, LAYER, 1, bounded(2, 5))
    (run / "points" / f"{LAYER}_{WORKLOAD}_2" / "result.json").unlink()
    cell = cell_of(run)
    assert cell.between("latency_p99_ns") == (2e6, 5e6) and cell.value("latency_p99_ns") is None
    assert cell.value("latency_p50_ns") is not None and cell.between("latency_p50_ns") is None


@pytest.mark.parametrize(
    ("second", "expected"),
    [(bounded(3, 7.5), (2e6, 7.5e6)), (without_histogram(1.25), (1.25e6, 5e6)), (without_histogram(9), (2e6, 9e6))],
)
def test_of_several_repetitions_the_widest_are(run, second, expected):
    change(run, LAYER, 1, bounded(2, 5))
    change(run, LAYER, 2, second)
    assert cell_of(run).between("latency_p99_ns") == expected


def test_exact_percentiles_without_histograms_bound_that_of_all_together(run):
    """Whatever the repetitions were, the percentile of all their I/Os lies between the least and the greatest of theirs."""
    change(run, LAYER, 1, without_histogram(4))
    change(run, LAYER, 2, without_histogram(6))
    cell = cell_of(run)
    assert (
        cell.between("latency_p99_ns") == (4e6, 6e6)
        and cell.value("latency_p99_ns") is None
        and "percentiles_not_mergeable" in cell.flags
    )


def test_a_repetition_of_which_nothing_is_known_leaves_no_bounds(run):
    change(run, LAYER, 1, bounded(2, 5))
    change(
        run,
        LAYER,
        2,
        lambda result: [
            result[part].pop(key) for part in ("read", "write", "total") for key in ("histogram", "latency_p99_ns")
        ],
    )
    cell = cell_of(run)
    assert cell.between("latency_p99_ns") is None and cell.value("latency_p99_ns") is None


def test_histograms_need_no_bounds(run):
    assert cell_of(run).bounds == {}


def test_bounds_stand_in_every_form(run):
    for repetition in (1, 2):
        change(run, LAYER, repetition, bounded(2, 5))
    report = model.build(load.read_run(str(run)))
    files, row = render.render(report), next(row for row in rows.summary(report) if row["layer"] == LAYER)
    assert (row["latency_p99_lower_ns"], row["latency_p99_upper_ns"]) == (2e6, 5e6) and "latency_p99_ns" not in row
    page = files["index.html"]
    waterfall = page.split(f'data-layer="{LAYER}"')[1].split("</tr>")[0]
    assert re.search(r'data-metric="latency_p99_ns"><span class="bounds">2–5 ms</span>', waterfall)
    assert "a histogram is missing" in page and page.split('id="points"')[1].count('<td class="n bounds">2–5 ms') == 2
    assert "| 2–5 ms |" in files["report.md"] and any("2–5 ms" in line for line in terminal.table(report))
    lines_of = [row for row in csv.DictReader(io.StringIO(files["results.csv"])) if row["layer"] == LAYER]
    columns = ("total_latency_p99_lower_ns", "read_latency_p99_upper_ns", "total_latency_p99_ns")
    assert [[row[column] for column in columns] for row in lines_of] == [["2000000.0", "5000000.0", ""]] * 2
    said = json.loads(files["results.json"])["workloads"][0]["layers"]
    assert next(layer for layer in said if layer["layer"] == LAYER)["latency_p99_upper_ns"] == 5e6


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(2e6, 5e6, "2–5 ms"), (9e5, 2e6, "900 µs–2 ms"), (1.25e6, 1.25e6, "1.25 ms"), (1.5e6, 1.504e6, "1.5 ms")],
)
def test_bounds_in_words(low, high, text):
    assert units.latency_between((low, high)) == text


def test_no_bounds_are_a_dash():
    assert units.latency_between(None) == units.ABSENT


# -- clients ----------------------------------------------------------------------------------------------------------


def together(*rates):
    """Clients of these rates; one without a rate is lost."""
    clients = []
    for number, rate in enumerate(rates):
        clients.append({"host": f"vm-{number}", "status": "measured", "failures": []})
        if rate:
            clients[-1]["total"] = {"iops": rate, "latency_p99_lower_ns": 1e6, "latency_p99_upper_ns": 3e6}
        else:
            clients[-1].update(status="failed", failures=[{"code": "client_lost", "message": "lost <it>"}])
    return lambda result: result.update(clients=clients)


def clients_of(run: Path) -> list:
    """[[text of each field]] of the table."""
    page = html_page.html(model.build(load.read_run(str(run))))
    if 'id="clients"' not in page:
        return []
    table = page.split('<section id="clients">')[1].split("</table>")[0].split("<tbody>")[1]
    return [
        [re.sub(r"<[^>]+>", "", field).strip() for field in re.split(r"<t[dh][^>]*>", row)[1:]]
        for row in table.split("<tr")[1:]
    ]


def test_every_client_of_a_point_is_listed_with_its_part(run):
    assert clients_of(run) == []
    change(run, LAYER, 1, together(1500.5, None, 2750))
    assert clients_of(run) == [
        [LAYER, WORKLOAD, "1", "vm-0", "measured", "1.50k", "–", "–", "1–3 ms"],
        [LAYER, WORKLOAD, "1", "vm-1", "failed: lost &lt;it&gt;", "–", "–", "–", "–"],
        [LAYER, WORKLOAD, "1", "vm-2", "measured", "2.75k", "–", "–", "1–3 ms"],
    ]


def test_of_many_clients_each_point_says_how_many_and_the_ends(run, monkeypatch):
    monkeypatch.setattr(views.clients, "CLIENTS_SHOWN", 3)
    change(run, LAYER, 1, together(1500.5, None, 2750))
    change(run, LAYER, 2, together(800, 700))
    assert clients_of(run) == [
        [LAYER, WORKLOAD, "1", "3", "1", "vm-0 1.50k", "vm-2 2.75k"],
        [LAYER, WORKLOAD, "2", "2", "0", "vm-1 700", "vm-0 800"],
    ]
