# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of all runs in a real browser, on SYNTHETIC results."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest
from test_report_browser import BACKGROUND, CUT_OFF, TIP

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))
WORKLOAD = "4k-r70-rnd100-qd8-w1"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """Three runs with a change of the environment before the last; the second has a report."""
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import index
    from run_history import testbed

    folder = testbed(tmp_path_factory.mktemp("lab"), "2026-11-19", "2026-11-20", "2026-11-21")
    for name, text in index.files(index.build(str(folder), {"run-2026-11-20"})).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "index.html"


def choose(browser, name: str, value: str) -> None:
    browser.run(f"""((select) => {{ select.value = {json.dumps(value)}; select.dispatchEvent(new Event('change', {{bubbles: true}})); }})(
                    document.getElementById({json.dumps(name)}))""")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 360])
def test_nothing_goes_wrong_and_nothing_is_cut_off(browser, page, width, theme):
    browser.open(page, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


def test_one_run_shows_numbers_and_another_layer_can_be_chosen(browser, tmp_path):
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import index
    from run_history import testbed

    folder = testbed(tmp_path, "2026-11-19")
    for name, text in index.files(index.build(str(folder), set())).items():
        (folder / name).write_text(text, encoding="utf-8")
    text = "document.querySelector('#drawn').innerText"
    browser.open(folder / "index.html", scripts=False)
    served = browser.run(text)
    browser.open(folder / "index.html")
    assert browser.run(text) == served and "a trend needs two runs" in served
    choose(browser, "layer", "backing-bench")
    other = browser.run(text)
    choose(browser, "layer", "guest-guest01")
    # What the script writes is what the page was made with.
    assert browser.run(text) == served != other and browser.troubles() == []
    assert browser.run("document.querySelectorAll('#drawn svg').length") == 0


def test_readable_with_scripts_off(browser, page):
    browser.open(page, scripts=False)
    assert browser.run("document.getElementById('choose').hidden") is True
    assert browser.run("document.querySelectorAll('.runs tbody tr').length") == 3
    assert browser.run("document.querySelector('.plot').getBoundingClientRect().height") > 200
    assert browser.run("document.querySelectorAll('.plot circle title').length") == 3
    assert "6.1.0-51" in browser.run("document.querySelector('.changes').innerText")


def test_another_trend_is_drawn_with_its_own_figures(browser, page):
    browser.open(page)
    trends = json.loads((page.parent / "index.json").read_text(encoding="utf-8"))["trends"][WORKLOAD]
    for layer, metric, factor in (
        ("guest-guest01", "iops", 1),
        ("target-bench", "latency_mean_ns", 1),
        ("backing-bench", "latency_p99_ns", 1),
    ):
        choose(browser, "layer", layer)
        choose(browser, "figure", metric)
        line = trends[layer][metric]
        values = browser.run("[...document.querySelectorAll('#numbers tbody data')].map((cell) => Number(cell.value))")
        assert values[::3] == pytest.approx([point[1] * factor for point in line], rel=1e-3)
        heights = browser.run(
            "[...document.querySelectorAll('.plot circle')].map((dot) => 260 - parseFloat(dot.getAttribute('cy')))"
        )
        assert heights == pytest.approx([heights[0] * point[1] / line[0][1] for point in line], rel=2e-3)
        assert browser.run("document.querySelector('#trended h3').textContent").endswith(layer)
        assert browser.run("document.querySelectorAll('.plot .changed').length") == 1
    assert browser.troubles() == []


def test_what_is_drawn_anew_looks_like_what_was_there(browser, page):
    """The same trend from the server and from the script: the same ticks, dots and words."""
    seen = """(() => {
      const chart = document.querySelector('.plot');
      const at = (list, name) => [...chart.querySelectorAll(list)].map((one) => Math.round(parseFloat(one.getAttribute(name))));
      const said = (list) => [...chart.querySelectorAll(list)].map((text) => text.textContent);
      return {ups: said('.ups text'), y: at('.ups text', 'y'), cx: at('circle', 'cx'), cy: at('circle', 'cy'), ticks: said('.ticks text'),
              from: at('.changed line', 'x1'), label: said('.axis .up')};
    })()"""
    browser.open(page)
    before = browser.run(seen)
    choose(browser, "figure", "latency_mean_ns")
    assert browser.run(seen)["ups"] != before["ups"]
    choose(browser, "figure", "iops")
    assert browser.run(seen) == before


def test_a_dot_tells_its_figure_under_the_pointer_before_and_after(browser, page):
    browser.open(page)
    for metric, unit in (("iops", "k"), ("latency_mean_ns", "ms")):
        choose(browser, "figure", metric)
        box = browser.box(".plot .area")
        browser.point(box, 0.5, 0.3)
        assert browser.run(TIP).startswith("11-20: ") and unit in browser.run(TIP)
    browser.run("document.querySelector('.plot').focus(); 0")
    browser.press("ArrowRight")
    assert browser.run(TIP).startswith("11-19: ")


def test_what_was_not_measured_cannot_be_chosen(browser, page):
    browser.open(page)
    assert browser.run(
        "[...document.getElementById('figure').options].filter((option) => option.disabled).map((option) => option.value)"
    ) == ["us_per_io"]


def test_the_runs_sort_and_lead_to_their_reports(browser, page):
    browser.open(page)
    names = "[...document.querySelectorAll('.runs tbody th')].map((cell) => cell.textContent)"
    assert browser.run(names) == ["run-2026-11-21", "run-2026-11-20", "run-2026-11-19"]
    browser.run("document.querySelector('.runs thead button').click()")
    assert browser.run(names) == ["run-2026-11-19", "run-2026-11-20", "run-2026-11-21"]
    assert browser.run("[...document.querySelectorAll('.runs a')].map((link) => link.getAttribute('href'))") == [
        "run-2026-11-20/report/index.html"
    ]


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_axe_finds_no_serious_violation(browser, page, width, theme):
    browser.open(page, width, theme)
    assert browser.violations() == []


def test_paper_is_light_and_has_the_chart(browser, page):
    browser.open(page, width=1040, theme="dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    assert (
        browser.run(
            "[...document.querySelectorAll('#theme, #choose, .tools')].filter((element) => element.getClientRects().length > 0).length"
        )
        == 0
    )
    assert browser.run("document.querySelector('.plot').getBoundingClientRect().height") > 100
    assert len(base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])) > 20_000
