# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts as files: complete in themselves, the same marks as in the page, and drawn anew only when they are others."""

from __future__ import annotations

import os
import re
import shutil
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page, model, nouns, static, theme
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture
from plays import report as task

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> nouns.Report:
    return model.build(load.read_run(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 2)))


@pytest.fixture(scope="module")
def page(report) -> str:
    return html_page.html(report)


def pictures(report: nouns.Report) -> dict:
    return {name: text for name, text in static.files(report, ["svg"]).items() if name.endswith(".svg")}


@pytest.fixture(scope="module")
def drawn(report) -> dict:
    return pictures(report)


def parsed(svg: str):
    return ElementTree.fromstring(svg)  # noqa: S314 - it was drawn a line ago


def test_each_chart_of_the_page_and_each_waterfall_has_a_file(report, page, drawn):
    charts = re.findall(r'<svg class="chart (?!chain narrow)', page)
    assert len(drawn) == len(charts) + sum(1 for waterfall in report.waterfalls if waterfall.steps) > 60
    assert all(re.fullmatch(r"charts/[a-z0-9-]+\.svg", name) for name in drawn)
    assert (
        "charts/the-chain-of-layers.svg" in drawn
        and "charts/layer-waterfall-4-kib-random-70-read-queue-depth-8-1-worker.svg" in drawn
    )


def test_the_same_run_gives_the_same_files(report, drawn):
    assert pictures(report) == drawn


def test_nothing_comes_from_outside_and_nothing_is_left_to_a_browser(drawn):
    for name, svg in drawn.items():
        root = parsed(svg)
        assert root.tag == f"{SVG}svg" and float(root.get("width")) > 300 and float(root.get("height")) > 100, name
        assert not re.search(r"var\(|color-mix|--|url\((?!#)|href|@import|<script|calc\(", svg.replace("<!--", "")), (
            name
        )


def test_every_colour_is_of_the_light_theme(drawn):
    light = {colour for colour in theme.LIGHT.values() if re.fullmatch("#[0-9a-f]{6}", colour)}
    assert len(light) > 15
    for name, svg in drawn.items():
        assert set(re.findall(r"#[0-9a-f]{6}", svg)) <= light, name


def test_each_picture_has_its_title_and_its_source(drawn):
    for svg in drawn.values():
        first, last = [text.text for text in parsed(svg).findall(f"{SVG}text")]
        assert len(first) > 5 and last == "synthetic · 20261121T140000Z"


def test_each_class_that_has_a_colour_in_the_page_has_it_in_the_picture(drawn):
    svg = drawn["charts/latency-distribution-4-kib-random-70-read-queue-depth-8-1-worker.svg"]
    rules = {
        selector.strip(): declarations
        for selectors, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", parsed(svg).find(f"{SVG}style").text)
        for selector in selectors.split(",")
    }
    lines = {line.get("class").split()[1] for line in parsed(svg).iter(f"{SVG}polyline")}
    assert len(lines) == 6 and len({rules[f".{css}"] for css in lines}) == 6
    assert "stroke: currentColor" in rules[".chart .line"]


def test_the_lines_are_those_of_the_page(page, drawn):
    for points in re.findall(r'<polyline class="line [^"]*" points="([^"]+)"', page):
        assert any(points in svg for svg in drawn.values())


def test_the_waterfall_says_what_the_report_says(report, drawn):
    waterfall = report.headline
    svg = drawn["charts/layer-waterfall-4-kib-random-70-read-queue-depth-8-1-worker.svg"]
    said = [text.text for text in parsed(svg).iter(f"{SVG}text")]
    for step in waterfall.steps:
        for word in (step.cell.layer, step.cell.host):
            assert word in said
    assert [text for text in said if text.startswith("+")] == ["+118 µs", "+113 µs", "+28.6 µs", "+201 µs"]
    widths = [
        float(bar.get("width").rstrip("%"))
        for bar in parsed(svg).iter(f"{SVG}rect")
        if "added" in (bar.get("class") or "")
    ]
    means = [step.cell.value("latency_mean_ns") for step in waterfall.steps]
    added = [after - before for before, after in zip(means[1:], means[2:])]
    assert widths[2:] == pytest.approx([100 * value / means[-1] for value in added], abs=0.01)


def test_two_charts_of_one_title_have_two_files(report, monkeypatch):
    charts = html_page.drawn(html_page.content(report))
    monkeypatch.setattr(static.html_page, "drawn", lambda _content: charts + charts)
    names = list(pictures(report))
    assert "charts/the-chain-of-layers-2.svg" in names and len(names) == len(set(names))


def test_page_and_file_paint_by_the_same_rules(page, drawn):
    """Where the page mixes colours and names variables, the file has colours of its own: nothing else differs."""

    def rules(css: str) -> dict:
        return {
            selector.strip(): [part.partition(":")[0].strip() for part in declarations.split(";") if part.strip()]
            for selector, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", css)
        }

    svg = drawn["charts/the-chain-of-layers.svg"]
    alone = rules(parsed(svg).find(f"{SVG}style").text)
    in_page = rules(page[page.index("<style>") : page.index("</style>")])
    painted = {selector: names for selector, names in alone.items() if not re.fullmatch(r"\.([kcL]-?\w+)", selector)}
    assert len(painted) > 40
    for selector, names in painted.items():
        assert [name for name in names if name != "fill-opacity"] == in_page[selector], selector


def test_each_chart_has_a_caption_and_a_line_to_cite(report, drawn):
    text = static.files(report, ["svg"])["charts/captions.md"]
    sections = text.split("\n## ")[1:]
    assert [section.split("`")[1] for section in sections] == [Path(name).stem for name in drawn]
    assert all(section.count("Source: Testbed synthetic, run 20261121T140000Z, ") == 1 for section in sections)
    assert all("2 repetitions per layer" in section and len(section.split("\n")[2]) > 20 for section in sections)
    assert static.files(report, []) == {}


def test_a_png_remembers_what_it_was_made_of():
    png = static.PNG_SIGNATURE + struct.pack(">I", 0) + b"IEND" + bytes.fromhex("ae426082")
    assert static.source_of(png) is None
    marked = static.with_source(png, "ab" * 32)
    assert static.source_of(marked) == "ab" * 32 and marked.endswith(png[8:])
    assert static.source_of(b"no picture " + marked) is None


# -- with the task ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(make_fixture.write_run(str(tmp_path / "results"), 1, 1))


def test_svg_files_come_and_go_with_the_option(tmp_path, run):
    first = task(tmp_path, run_dir=str(run), static=["svg"])
    charts = sorted(name for name in first["files"] if name.startswith("charts/"))
    assert (
        charts == sorted(f"charts/{path.name}" for path in (run / "report" / "charts").iterdir()) and len(charts) == 5
    )
    assert task(tmp_path, run_dir=str(run), static=" svg, svg")["written"] == []
    (run / "report" / "charts" / "of-an-older-report.svg").write_text("<svg/>", encoding="utf-8")
    assert task(tmp_path, run_dir=str(run), static=["svg"])["changed"]
    assert sorted(os.listdir(run / "report" / "charts")) == [name.partition("/")[2] for name in charts]
    task(tmp_path, run_dir=str(run))
    assert not (run / "report" / "charts").exists()


def test_absent_takes_the_pictures_too(tmp_path, run):
    task(tmp_path, run_dir=str(run), static=["svg"])
    task(tmp_path, run_dir=str(run), state="absent")
    assert not (run / "report").exists()


def test_png_without_a_browser_is_a_failure_that_names_it(tmp_path, run, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ansible-playbook", "sh", "env", "python3"):
        os.symlink(shutil.which(name), tools / name)
    monkeypatch.setenv("PATH", str(tools))
    found = task(tmp_path, run_dir=str(run), static=["png"])
    assert (
        found["failed"]
        and found["failure"]["code"] == "browser_missing"
        and "chromium" in found["msg"]
        and not (run / "report").exists()
    )


@pytest.mark.parametrize(
    ("option", "value"), [("static", ["gif"]), ("static", {"svg": True}), ("scrub", "perhaps"), ("index", [])]
)
def test_values_that_are_none_are_refused(tmp_path, run, option, value):
    found = task(tmp_path, run_dir=str(run), **{option: value})
    assert (
        found["failed"]
        and found["failure"]["code"] == "bad_value"
        and option in found["msg"]
        and not (run / "report").exists()
    )
