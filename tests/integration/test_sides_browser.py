# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of several candidates against one baseline in a real browser, on SYNTHETIC results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from test_report_browser import BACKGROUND, CUT_OFF

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
NAMES = ["zram", "file on ext4, direct", "write-back", "a name of forty characters, no more at all"[:40], "raid 10"]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Five sides that took turns but for the last, a gate that was met, a point that is lacking; and comparison.json beside it."""
    from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import gate, sides
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import sides_render
    from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
    from fixtures.compare import make_runs

    base = tmp_path_factory.mktemp("results")
    small, large = make_runs.WORKLOADS
    rates = {
        ("backing-a", small): 20_000,
        ("backing-a", large): 7_000,
        ("backing-b", small): 900_000,
        ("backing-b", large): 3_000,
    }
    factors = (1.0, 1.4, 0.7, 1.0, 1.02, 1.3)
    given = []
    for place, factor in enumerate(factors):
        medians = {**rates, ("backing-a", small): 20_000 * factor}
        results = make_runs.results(
            8, medians, 8.0 if place == 3 else 1.0, place, f"run{place}", 3600 + 36_000 * (place == 5)
        )
        results = results[: -1 if place == 2 else None]
        run = load.read_run(str(make_runs.write_run(base, results)))
        given.append({"runs": [run], "selector": dict.fromkeys(("layer", "variant", "workload")), "label": run.run_id})
    compared = sides.compare_sides(given[0], dict(zip(NAMES, given[1:])), ["hosts.*.kernel.release"])
    rules = ["regression > 5 %"]
    wanted = gate.rules(rules)
    compared.update(gate.concluded(rules, sides.hits(compared, wanted), sides.unjudged(compared, wanted)))
    assert {row["verdict"] for side in compared["sides"] for row in side["rows"]} >= {
        "better",
        "worse",
        "different",
        "cannot_tell",
        "no_difference",
    }
    for name, text in sides_render.render(compared).items():
        (base / name).write_text(text, encoding="utf-8")
    return base / "index.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 360])
def test_nothing_goes_wrong_and_nothing_is_cut_off(browser, page, width, theme):
    browser.open(page, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


def test_the_page_says_what_the_comparison_says(browser, page):
    browser.open(page)
    compared = json.loads((page.parent / "comparison.json").read_text(encoding="utf-8"))
    cells = browser.run("""[...document.querySelectorAll('.effects td[data-side]')].map((cell) => [cell.closest('section').dataset.metric,
      cell.closest('tr').dataset.point, cell.dataset.side, cell.dataset.verdict, Number(cell.querySelector('.change').value)])""")
    wanted = {
        (row["metric"], row["row"], side["name"]): (row["verdict"], row["change_percent"])
        for side in compared["sides"]
        for row in side["rows"]
    }
    shown = {(metric, point, side): (verdict, change) for metric, point, side, verdict, change in cells}
    assert shown.keys() == wanted.keys() and len(shown) == 7 * 4 * 5
    assert all(verdict == wanted[key][0] for key, (verdict, _change) in shown.items())
    assert all(change == pytest.approx(wanted[key][1]) for key, (_verdict, change) in shown.items())
    counts = (
        "[...document.querySelectorAll('.of-sides tbody tr')].map((row) => Number(row.querySelector('td data').value))"
    )
    assert browser.run(counts) == [side["counts"]["worse"] for side in compared["sides"]]


@pytest.mark.parametrize("width", [1280, 360])
def test_what_stands_in_a_chart_stands_apart(browser, page, width):
    """Names left of the plot, titles of points and figures right of it: no two of them overlap, none leaves its panel."""
    browser.open(page, width)
    wrong = """[...document.querySelectorAll('svg.plot.sides')].flatMap((chart) => {
      const panel = chart.closest('figure').getBoundingClientRect();
      const boxes = [...chart.querySelectorAll('text')].filter((text) => text.textContent && text.getClientRects().length)
        .map((text) => ({text: text.textContent, box: text.getBoundingClientRect()}));
      const out = boxes.filter(({box}) => box.left < panel.left || box.right > panel.right);
      const over = boxes.filter((a, i) => boxes.some((b, j) => j > i && a.box.left < b.box.right - 1 && b.box.left < a.box.right - 1
        && a.box.top < b.box.bottom - 4 && b.box.top < a.box.bottom - 4));
      return [...out, ...over].map(({text}) => text);
    })"""
    assert browser.run("document.querySelectorAll('svg.plot.sides circle').length") == 7 * 4 * 6
    assert browser.run(wrong) == []


def test_readable_with_scripts_off_and_in_print(browser, page):
    browser.open(page, scripts=False)
    hidden = "[...document.querySelectorAll('.verdict-cell, svg.plot')].filter((part) => part.getBoundingClientRect().height < 10).length"
    assert browser.run(hidden) == 0
    browser.open(page, theme="dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_axe_finds_no_serious_violation(browser, page, width, theme):
    browser.open(page, width, theme)
    assert browser.violations() == []
