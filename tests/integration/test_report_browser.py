# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a real browser: both themes, phone width, print, scripts off; no errors, no network, nothing cut off."""

from __future__ import annotations

import base64
import json
import statistics
from pathlib import Path

import pytest
import synthetic_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """The waterfall alone."""
    return rendered(synthetic_run.make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 3, 2))


@pytest.fixture(scope="module")
def views(tmp_path_factory) -> Path:
    """Every view that there is."""
    return rendered(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 2))


def rendered(run: str) -> Path:
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render
    from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load

    folder = Path(run)
    (folder / "report").mkdir()
    for name, text in render.render(model.build(load.read_run(str(folder)))).items():
        (folder / "report" / name).write_text(text, encoding="utf-8")
    return folder / "report" / "index.html"


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# Elements that reach beyond the page and are not inside something that scrolls.
CUT_OFF = """[...document.querySelectorAll('main *')].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.right > document.documentElement.clientWidth + 1 && !element.closest('.scroll');
}).map((element) => element.tagName + '.' + element.getAttribute('class'))"""


def test_long_words_beside_a_published_figure_push_no_column_out_of_sight(browser, tmp_path, monkeypatch):
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page

    monkeypatch.syspath_prepend(ROOT / "tests" / "unit" / "report")
    from test_report_ratios import FIGURES, measured

    # As long as those of the shipped profile.
    said = {"where": "VMFS to RDM on ESX Server 3.5", "note": "sequential; about; CPU cycles per I/O"}
    page = tmp_path / "index.html"
    page.write_text(html_page.html(measured([{**figure, **said} for figure in FIGURES])), encoding="utf-8")
    browser.open(page)
    hidden = (
        "((table) => table.scrollWidth - table.closest('.scroll').clientWidth)(document.querySelector('.published'))"
    )
    assert browser.run("document.querySelectorAll('.published tbody tr').length") == 2
    assert browser.run(hidden) <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 400, 360])
def test_nothing_goes_wrong_and_nothing_is_cut_off(browser, index, width, theme):
    browser.open(index, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


def test_the_theme_follows_the_system_and_the_button(browser, index):
    browser.open(index, theme="light")
    light = browser.run(BACKGROUND)
    browser.open(index, theme="dark")
    dark = browser.run(BACKGROUND)
    assert light != dark
    press = "document.getElementById('theme').click(); document.getElementById('theme').textContent"
    assert browser.run(press) == "Theme: light" and browser.run(BACKGROUND) == light
    assert browser.run(press) == "Theme: dark" and browser.run(BACKGROUND) == dark
    assert browser.run(press) == "Theme: auto"


def test_print_is_light_and_has_no_buttons(browser, index):
    browser.open(index, theme="dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.getElementById('theme')).display") == "none"


def test_readable_with_scripts_off(browser, index):
    browser.open(index, scripts=False)
    # The debugger may still ask; only the page's own script is off.
    assert browser.run("document.getElementById('theme').hidden") is True
    assert browser.run("document.querySelectorAll('.waterfall tbody tr').length") == 18
    assert (
        browser.run(
            "[...document.querySelectorAll('svg.chart.wide')].every((chart) => chart.getBoundingClientRect().height > 100)"
        )
        is True
    )
    assert browser.run("document.querySelector('.waterfall data').textContent") == browser.run(
        "document.querySelector('.waterfall data').innerText"
    )


@pytest.mark.parametrize(("width", "seen", "hidden"), [(1280, "wide", "narrow"), (400, "narrow", "wide")])
def test_each_width_has_its_own_pictures(browser, index, width, seen, hidden):
    browser.open(index, width)
    heights = "[...document.querySelectorAll('svg.chart.%s')].map((chart) => chart.getBoundingClientRect().height)"
    assert min(browser.run(heights % seen)) > 100 and max(browser.run(heights % hidden)) == 0


def test_text_in_pictures_is_big_enough_on_a_phone(browser, index):
    browser.open(index, 380)
    smallest = """Math.min(...[...document.querySelectorAll('svg.chart.narrow text')].map((text) =>
      parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""
    assert browser.run(smallest) >= 9


def test_names_in_the_chain_stay_in_their_boxes(browser, index):
    for width in (1280, 400):
        browser.open(index, width)
        outside = """[...document.querySelectorAll('.chain .node')].filter((node) => node.getBoundingClientRect().width > 0).flatMap((node) => {
          const box = node.querySelector('rect').getBoundingClientRect();
          return [...node.querySelectorAll('text')].filter((text) => text.getBoundingClientRect().right > box.right + 1).map((text) => text.textContent);
        })"""
        assert browser.run(outside) == []


def test_tables_sort_by_the_exact_number(browser, index):
    browser.open(index)
    browser.run(
        "[...document.querySelectorAll('.points thead button')].find((button) => button.textContent === 'IOPS').click()"
    )
    values = browser.run(
        "[...document.querySelectorAll('.points tbody tr')].map((row) => Number(row.cells[3].querySelector('data').value))"
    )
    assert len(values) == 36 and values == sorted(values)
    assert browser.run("document.querySelector('.points th[aria-sort]').textContent") == "IOPS"


def test_a_curve_tells_its_value_under_the_pointer(browser, index):
    browser.open(index)
    browser.run("document.querySelector('.distribution').scrollIntoView()")
    browser.point(browser.box(".distribution .plot"), 1 / 3, 1 / 3)
    assert "% within" in browser.run("document.getElementById('tip').textContent")
    assert browser.run("document.getElementById('tip').hidden") is False
    assert browser.troubles() == []


def test_accessible_names_and_order_of_headings(browser, index):
    browser.open(index)
    assert browser.run("document.documentElement.lang") == "en"
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3')].map((heading) => Number(heading.tagName[1]))")
    assert (
        levels[0] == 1
        and levels.count(1) == 1
        and all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    )
    assert (
        browser.run(
            "[...document.querySelectorAll('svg[role=img]')].filter((chart) => !chart.querySelector('title').textContent).length"
        )
        == 0
    )
    assert (
        browser.run(
            "[...document.querySelectorAll('a, button')].filter((element) => !element.textContent.trim()).length"
        )
        == 0
    )
    assert (
        browser.run("[...document.querySelectorAll('.scroll')].filter((element) => element.tabIndex !== 0).length") == 0
    )


# -- every view ------------------------------------------------------------------------------------------------------

SECTIONS = (
    "chain",
    "overview",
    "w1",
    "blocks",
    "workers",
    "matrix",
    "load",
    "installations",
    "published",
    "steady",
    "findings",
    "environment",
    "points",
    "reading",
)
TIP = "document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 390])
def test_every_view_fits_and_says_nothing_wrong(browser, views, width, theme):
    browser.open(views, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []
    assert browser.run(f"{json.dumps(SECTIONS)}.filter((id) => !document.getElementById(id))") == []
    assert (
        browser.run(
            "Math.min(...[...document.querySelectorAll('svg.plot')].map((chart) => Math.min(chart.clientHeight, chart.clientWidth)))"
        )
        >= 90
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_of_an_axis_stand_apart(browser, views, width):
    browser.open(views, width)
    close = """[...document.querySelectorAll('.plot .ticks, .plot .ups')].flatMap((axis) => {
      const boxes = [...axis.querySelectorAll('text')].map((text) => text.getBoundingClientRect()).filter((box) => box.width > 0);
      return boxes.filter((box, index) => boxes.some((other, place) => place > index && box.left < other.right && other.left < box.right
        && box.top + 2 < other.bottom && other.top + 2 < box.bottom)).map(() => axis.textContent);
    })"""
    assert browser.run(close) == []


def test_scripts_off_leaves_every_view_readable(browser, views):
    browser.open(views, scripts=False)
    assert (
        browser.run(
            f"{json.dumps(SECTIONS)}.filter((id) => document.getElementById(id).getBoundingClientRect().height < 60)"
        )
        == []
    )
    assert browser.run("document.getElementById('choose').hidden") is True
    assert (
        browser.run(
            "[...document.querySelectorAll('#blocks circle, #load circle.dot')].filter((dot) => !dot.querySelector('title')).length"
        )
        == 0
    )


def test_the_figures_of_the_sweeps_are_those_of_the_results(browser, views):
    """Worked out here from the files of the points, by other means than the report's."""
    browser.open(views)
    results = [
        json.loads(path.read_text(encoding="utf-8")) for path in (views.parent.parent / "points").glob("*/result.json")
    ]
    wanted_of = {"read_percent": 100, "random_percent": 100, "queue_depth": 16, "workers": 1}
    sweep = [
        result
        for result in results
        if result["layer"] == "target-bench"
        and all(result["workload"][key] == value for key, value in wanted_of.items())
    ]
    wanted = sorted(
        (
            size,
            statistics.median(
                result["total"]["iops"] for result in sweep if result["workload"]["block_size_bytes"] == size
            ),
        )
        for size in {result["workload"]["block_size_bytes"] for result in sweep}
    )
    assert len(wanted) == 3
    seen = browser.run("""[...document.querySelector('#blocks figure table').tBodies[0].rows].filter((row) => row.cells[0].textContent === 'target-bench')
      .map((row) => [Number(row.cells[1].querySelector('data').value), Number(row.cells[3].querySelector('data').value)])""")
    assert [pair[0] for pair in sorted(seen)] == [size for size, _iops in wanted]
    assert [pair[1] for pair in sorted(seen)] == pytest.approx([iops for _size, iops in wanted], abs=0.0005)


def test_the_knee_is_where_the_synthetic_device_has_it(browser, views):
    """A layer that does limit · N / (N + parallel) has its greatest IOPS over latency at N = parallel: 8 for the initiator, of 1, 4, 8, 16 and 64."""
    browser.open(views)
    notes = browser.run("[...document.querySelectorAll('#load figcaption')].map((caption) => caption.textContent)")
    assert any("target-bench at queue depth 8" in note and "backing-bench at queue depth 4" in note for note in notes)
    assert browser.run("document.querySelectorAll('#load circle.knee').length") >= 2


@pytest.mark.parametrize(
    ("chart", "said"),
    [
        ("#blocks .M-iops .plot", "KiB: "),
        ("#load .plot", "IOPS at"),
        (".times .M-iops .plot", "IOPS"),
        (".times .M-latency_mean_ns .plot", "s, "),
    ],
)
def test_charts_tell_the_value_under_the_pointer_and_by_keys(browser, views, chart, said):
    browser.open(views)
    box = browser.box(chart)
    browser.point(box, 0.5, 0.5)
    assert said in browser.run(TIP) and ": " in browser.run(TIP)
    browser.point(box, 0.5, -2)
    assert browser.run(TIP) is None
    browser.run(f"document.querySelector({json.dumps(chart)}).focus()")
    browser.press("ArrowRight")
    first = browser.run(TIP)
    browser.press("ArrowRight")
    assert first and browser.run(TIP) and browser.run(TIP) != first
    assert browser.troubles() == []


def test_what_is_said_of_a_dot_is_what_stands_in_it_without_scripts(browser, views):
    browser.open(views, scripts=False)
    titles = browser.run(
        "[...document.querySelectorAll('#load .plot circle.dot title')].map((title) => title.textContent)"
    )
    browser.open(views)
    browser.run("document.querySelector('#load .plot').focus()")
    browser.press("ArrowRight")
    assert browser.run(TIP) in titles


def test_layers_patterns_and_metrics_can_be_chosen(browser, views):
    browser.open(views)
    visible = "[...document.querySelectorAll('%s')].filter((element) => element.getClientRects().length > 0).length"
    choose = """((element, value) => { if (element.type === 'checkbox') { element.checked = value; } else { element.value = value; }
      element.dispatchEvent(new Event('change', {bubbles: true})); })(%s)"""
    number = browser.run(
        "[...document.querySelectorAll('#choose input')].find((box) => box.parentNode.textContent.trim() === 'target-bench').value"
    )
    before = browser.run(visible % f"main .{number}:not(label)")
    browser.run(choose % f"document.querySelector('#choose input[value={number}]'), false")
    assert before > 20 and browser.run(visible % f"main .{number}:not(label)") == 0
    browser.run(choose % f"document.querySelector('#choose input[value={number}]'), true")
    assert browser.run(visible % f"main .{number}:not(label)") == before
    browser.run(choose % "document.getElementById('metric'), 'M-iops'")
    assert browser.run(visible % ".M-bandwidth_bytes_s") == 0 and browser.run(visible % "#blocks .M-iops") == 2
    pattern = browser.run(
        "[...document.getElementById('pattern').options].find((option) => option.textContent === 'random write').value"
    )
    browser.run(choose % f"document.getElementById('pattern'), '{pattern}'")
    assert browser.run(visible % "#blocks .M-iops") == 1
    left = """[...document.querySelectorAll('#blocks figure')].filter((figure) => figure.getClientRects().length)
      .map((figure) => figure.querySelector('h3').textContent)"""
    assert [heading.split(",")[0] for heading in browser.run(left)] == ["random write"]


def test_a_drag_zooms_and_the_button_shows_all_again(browser, views):
    browser.open(views)
    chart = ".times .M-iops .plot"
    box = browser.box(chart)
    browser.point(box, 0.4, 0.5, "mousePressed", button="left", clickCount=1)
    browser.point(box, 0.5, 0.5, buttons=1)
    browser.point(box, 0.6, 0.5, buttons=1)
    browser.point(box, 0.6, 0.5, "mouseReleased", button="left", clickCount=1)
    area = browser.run(f"document.querySelector('{chart} .area').getAttribute('viewBox')").split()
    assert [float(number) for number in area] == pytest.approx([400, 0, 200, 9999], abs=6)
    ticks = f"""[...document.querySelector('{chart}').querySelectorAll('.ticks text')].filter((text) => text.style.visibility !== 'hidden')
      .map((text) => text.textContent)"""
    assert browser.run(ticks) == ["10", "15"]
    browser.run("document.querySelector('.reset').click()")
    assert (
        browser.run(ticks)[0] == "0"
        and browser.run(f"document.querySelector('{chart} .area').getAttribute('viewBox')") == "0 0 1000 9999"
    )


def test_tables_are_copied_as_exact_tab_separated_values(browser, views):
    browser.open(views)
    browser.run(
        "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); };"
        "document.querySelector('#blocks details').open = true;"
        "document.querySelector('#blocks .tools button').click()"
    )
    lines = [line.split("\t") for line in browser.run("copied").split("\n")]
    assert (
        lines[0][:4] == ["Layer", "Block size", "MB/s", "IOPS"]
        and len({len(line) for line in lines}) == 1
        and len(lines) == 7
    )
    assert {line[1] for line in lines[1:]} == {"4096", "32768", "262144"} and all(
        float(line[3]) > 1000 for line in lines[1:]
    )


def test_raw_job_and_samples_are_linked_at_every_point(browser, views):
    browser.open(views)
    links = browser.run("""[...document.querySelectorAll('.points tbody tr')].map((row) =>
      [...row.cells[row.cells.length - 1].querySelectorAll('a')].map((link) => link.getAttribute('href')))""")
    assert links and all(len(found) == 3 for found in links)
    assert all((views.parent / link).is_file() for found in links for link in found)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_axe_finds_no_serious_violation(browser, index, views, width, theme):
    for page in (index, views) if width == 1280 and theme == "light" else (views,):
        browser.open(page, width, theme)
        # What repeats is looked at once; axe compares the colours of everything with everything and takes minutes otherwise.
        browser.run("""document.querySelectorAll('.workload ~ .workload, .view figure ~ figure, :is(#points, #overview) tbody tr:nth-child(n+4)')
          .forEach((element) => element.remove()); 0""")
        assert browser.violations() == []


def test_paper_shows_every_section_and_no_tools(browser, views):
    browser.open(views, width=1040, theme="dark", media="print")
    assert (
        browser.run(
            f"{json.dumps(SECTIONS)}.filter((id) => document.getElementById(id).getBoundingClientRect().height < 40)"
        )
        == []
    )
    assert (
        browser.run(
            "[...document.querySelectorAll('#theme, #choose, .tools')].filter((element) => element.getClientRects().length > 0).length"
        )
        == 0
    )
    heads = "[...document.querySelectorAll('#steady thead th, #points thead th')].filter((head) => !head.getClientRects().length || !head.innerText).length"
    assert browser.run(heads) == 0
    assert len(base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])) > 50_000
