# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads of a database in a report and a comparison. The points are made up, their files too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.module_utils.engines import pgbench, transactions
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import junit, model, render, scrub
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import database, load, run_folder, verify

BEGIN_S = 1_700_000_000
ASKED = {
    "database": "postgresql",
    "hammerdb_dir": None,
    "warehouses": 3,
    "virtual_users": 5,
    "ramp_s": 0,
    "runtime_s": 60,
    "isolation": "read_committed",
}


def files_of(orders: int, payments: int, broken: bool = False) -> dict:
    """What a host keeps of a minute with so many transactions; the payments take 3 ms, the orders 2 ms, one in ten of them 40 ms."""
    lines = [f"0 {n} {40000 if n % 10 == 0 else 2000} 0 {BEGIN_S + 30} {n} {n == 1:d}" for n in range(orders)]
    lines += [f"0 {n} 3000 2 {BEGIN_S + 40} {n} 0" for n in range(payments)]
    raw = {
        "version": "15.8",
        "runtime_s": 60,
        "settings": {"shared_buffers": "64MB"},
        "exit_code": 0,
        "said": f"number of transactions actually processed: {orders + payments}\n",
        "said_errors": "",
        "log": transactions.read_log(lines, BEGIN_S * 10**6, (BEGIN_S + 60) * 10**6),
        "placed_before": 0,
        "placed_after": orders,
        "consistency": [{"condition": "3.3.2.3", "text": "open orders", "ok": not broken, "broken": int(broken)}],
    }
    counters = {
        "interval_s": 50,
        "cpu": {"host_busy_percent": 41.5},
        "device": {"name": "sdq", "read": {"ios": 100, "bytes": 409600}, "write": {"ios": 5000, "bytes": 50 << 20}},
    }
    meta = {"started_utc": "2026-03-01T10:15:00.000Z", "finished_utc": "2026-03-01T10:16:00.000Z", "counters": counters}
    return {pgbench.RAW: json.dumps(raw).encode(), "meta.json": json.dumps(meta).encode()}


def write(folder: str, values: list, layer: str = "datastore-ds1", variant: str | None = None) -> None:
    for repetition, (orders, payments, broken) in enumerate(values, 1):
        point = database.point_of({**ASKED, "layer": layer, "variant": variant, "repetition": repetition})
        planned = database.planned(
            point,
            {"kind": "datastore", "host": "hypervisor01", "identity": {"mount_point": "/srv/ds1"}},
            Path(folder).parent.name,
            Path(folder).name,
        )
        files = {**files_of(orders, payments, broken), run_folder.POINT: json.dumps(planned).encode()}
        result = database.read_point(planned["point"], planned["layer"], planned["asked"], files)
        run_folder.write_point(folder, point["point_id"], result, files)


VALUES = [(300, 290, False), (310, 280, False), (400, 270, False), (320, 260, False), (330, 500, True)]


@pytest.fixture
def folder(tmp_path) -> str:
    made = str(tmp_path / "lab" / "run1")
    write(made, VALUES)
    return made


def rendered(folder: str) -> dict:
    return render.render(model.build(load.read_run(folder)))


def section(page: str) -> str:
    return page[page.index('<section id="databases">') :].partition("</section>")[0]


def test_a_run_of_transactions_alone_is_reported(folder):
    made = rendered(folder)
    # Medians of the four that were measured; the fifth failed.
    figures = [float(value) for value in re.findall(r'<data value="([^"]+)"', section(made["index.html"]))]
    orders = transactions.bin_of(40000)
    assert figures == [590, 315, 300, 400, transactions.bin_of(3000), orders, orders, 4, 0, 2, 100, float(1 << 20), 4]
    assert "3 warehouses, 5 virtual users" in section(made["index.html"])
    assert "datastore-ds1 does 590 TPM and 315 NOPM" in made["index.html"]
    assert "| datastore-ds1 | tproc\\_c-w3-vu5 | 590 | 315 |" in made["report.md"]
    assert "Condition 3.3.2.3 does not hold" in made["index.html"]
    results = json.loads(made["results.json"])
    assert [row["nopm"] for row in results["databases"]] == [315]
    assert [point["status"] for point in results["points"]] == ["measured"] * 4 + ["failed"]
    assert ' failures="1"' in junit.junit(model.build(load.read_run(folder)))


def test_it_stands_beside_io_which_stays_as_it_was(tmp_path):
    folder = synthetic_run.write_run(str(tmp_path), "chain", 1)
    before = rendered(folder)["index.html"]
    assert '<section id="databases">' not in before
    write(folder, VALUES[:2], "datastore-ds1")
    after = rendered(folder)["index.html"]
    assert "305 NOPM" not in after and "<h2>Database loads</h2>" in after

    def chain(page: str) -> str:
        return page[page.index('<section id="chain"') :].partition("</section>")[0]

    assert chain(after) == chain(before)


def test_variants_are_rows_of_their_own(tmp_path):
    folder = str(tmp_path / "lab" / "run1")
    write(folder, VALUES[:2], variant="baseline")
    write(folder, VALUES[2:4], variant="cached")
    loads = model.build(load.read_run(folder)).databases
    assert [(row["layer"], row["nopm"]) for row in loads] == [
        ("datastore-ds1 (baseline)", 305),
        ("datastore-ds1 (cached)", 360),
    ]


def test_what_others_published_stands_below_what_was_measured(tmp_path):
    figures = [
        {"metric": "tpm", "value": 17790, "unit": "TPM", "where": "lab without cache", "note": "by HammerDB"},
        {"metric": "nopm", "value": 7845, "unit": "NOPM", "where": "lab without cache", "note": "by HammerDB"},
        {"metric": "nopm", "value": 12128, "unit": "NOPM", "where": "lab with cache"},
        {"metric": "iops", "value": 99999, "unit": "IOPS", "where": "lab with cache"},
    ]
    folder = str(tmp_path / "lab" / "run1")
    for variant in ("baseline", "cached"):
        write(folder, VALUES[:2], variant=variant)
    asked = {"requests": [{"variant": variant, "published": figures} for variant in ("baseline", "cached")]}
    report = model.build(load.read_run(folder))
    report.record = {**report.record, **asked}
    made = render.render(report)
    values = [float(value) for value in re.findall(r'<data value="([^"]+)"', section(made["index.html"]))]
    # Each once, whatever the variants, and behind all that was measured.
    assert values[-3:] == [17790, 7845, 12128] and 99999 not in values and len(values) == 2 * 13 + 3
    assert "| lab without cache | published; by HammerDB | 17790 | 7845 |" in made["report.md"]
    assert "| lab with cache | published |  | 12128 |" in made["report.md"]
    assert "not goals" in section(made["index.html"])
    report.databases = []
    assert "17790" not in render.render(report)["index.html"]


def test_a_run_without_published_figures_says_nothing_of_them(folder):
    made = rendered(folder)
    assert "published" not in section(made["index.html"]) and "published" not in made["report.md"]


def test_pseudonyms_reach_it(folder):
    run = load.read_run(folder)
    names = scrub.Pseudonyms([run])
    page = render.render(names.unlinked(model.build(names.run(run))))["index.html"]
    assert "hypervisor01" not in page


def test_tpm_and_nopm_have_a_verdict(tmp_path):
    before, after = str(tmp_path / "lab" / "a"), str(tmp_path / "lab" / "b")
    write(before, [(300 + n, 300 - n, False) for n in range(5)])
    write(after, [(450 + n, 440 - n, False) for n in range(5)])
    compared = comparison.compare(load.read_run(before).results, load.read_run(after).results)
    rows = {row["metric"]: row for row in compared["rows"]}
    assert rows["nopm"]["baseline"]["value"] == 302 and rows["nopm"]["candidate"]["value"] == 452
    assert rows["nopm"]["change_percent"] == pytest.approx(49.7, abs=0.2)
    assert {rows[name]["better"] for name in ("tpm", "nopm")} == {"higher"}
    assert rows["nopm"]["verdict"] != "no_verdict"


def test_a_result_follows_from_its_files_and_an_edited_one_does_not(folder):
    assert verify.verify(folder)["verdict"] == "follows"
    path = Path(folder, "points", "datastore-ds1.tproc_c-w3-vu5.r2", "result.json")
    path.write_text(path.read_text().replace('"nopm": 310.0', '"nopm": 910.0'))
    found = verify.verify(folder)
    assert found["verdict"] == "differs"
    assert [(finding["field"], finding["found"]) for finding in found["findings"] if "field" in finding] == [
        ("nopm", 910.0)
    ]
