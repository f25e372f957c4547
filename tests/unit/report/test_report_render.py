# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every form of the report says the same figures, and says them safely."""

from __future__ import annotations

import copy
import csv
import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import hostile_run
import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.module_utils.core import units
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    chain_chart,
    charts,
    html_page,
    markdown,
    markup,
    model,
    render,
    rows,
    terminal,
    theme,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.series import Curve
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import alike, load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import Figure
from fixtures.report import make_fixture

EVIL = '<script>alert("x")</script>|`${7*7}{{ 7*7 }}<img src=x onerror=alert(1)>'


POINT_COLUMNS = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p50_ns", "latency_p99_ns")


class Page(HTMLParser):
    """What a reader or a script finds: figures by layer and by point, links, ids, and every element there is."""

    def __init__(self, text: str):
        super().__init__()
        self.elements, self.ids, self.links, self.figures, self.points, self.texts = [], [], [], {}, {}, []
        self.workload = self.layer = self.metric = None
        self.column = self.row = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"])
        if "data-workload" in attributes:
            self.workload = attributes["data-workload"]
        if tag == "tr":
            self.layer = attributes.get("data-layer")
            self.column, self.row = -1, {}
        if tag in ("th", "td") and self.column is not None:
            self.column += int(attributes.get("colspan", 1))
        if tag == "a" and attributes["href"].startswith("../points/") and self.row is not None:
            # A row of the last table: its raw file says which point it is.
            self.points.update(
                {(unquote(attributes["href"]).split("/")[2], metric): value for metric, value in self.row.items()}
            )
        self.metric = attributes.get("data-metric", self.metric if tag == "data" else None)
        if tag == "data" and self.metric and self.layer:
            self.figures[self.workload, self.layer, self.metric] = float(attributes["value"])
        if tag == "data" and self.row is not None and 3 <= self.column < 8:
            self.row[POINT_COLUMNS[self.column - 3]] = float(attributes["value"])

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 2, 3))


@pytest.fixture(scope="module")
def report(stored):
    return model.build(stored)


@pytest.fixture(scope="module")
def files(report):
    return render.render(report)


@pytest.fixture(scope="module")
def page(files):
    return Page(files["index.html"])


# -- the same figures everywhere -------------------------------------------------------------------------------------


def test_the_page_holds_the_figures_of_the_results(page, stored):
    for result in stored.results:
        for metric in ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p50_ns", "latency_p99_ns"):
            assert page.points[result["point_id"], metric] == pytest.approx(result["total"][metric], abs=0.0005)


def test_the_waterfall_holds_the_figures_of_the_model(page, report):
    for waterfall in report.waterfalls:
        for step in waterfall.steps:
            for metric in ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p50_ns", "latency_p99_ns"):
                assert page.figures[waterfall.workload_id, step.cell.layer, metric] == pytest.approx(
                    step.cell.value(metric), abs=0.0005
                )
            added = page.figures.get((waterfall.workload_id, step.cell.layer, "added_mean_ns"))
            assert added == (pytest.approx(step.added_mean_ns, abs=0.0005) if step.comparable else None)


def test_csv_has_one_row_a_point_with_full_precision(files, stored):
    header = next(csv.reader(io.StringIO(files["results.csv"])))
    assert len(set(header)) == len(header) and {"runtime_s", "workload_runtime_s"} <= set(header)
    rows = {row["point_id"]: row for row in csv.DictReader(io.StringIO(files["results.csv"]))}
    assert len(rows) == len(stored.results) == 36
    for result in stored.results:
        row = rows[result["point_id"]]
        assert float(row["total_iops"]) == result["total"]["iops"]
        for metric, least in (("latency_p99_ns", 1_000), ("latency_p99_9_ns", 10_000)):
            # Ten I/Os have to be beyond it.
            known = str(result["total"][metric]) if result["total"]["ios"] >= least else ""
            assert row[f"total_{metric}"] == known
        assert row["raw_sha256"] == result["raw"]["sha256"] and row["raw_state"] == "matches"
        assert int(row["queue_depth"]) == result["workload"]["queue_depth"]


def test_csv_leaves_empty_what_was_not_measured(files):
    rows = [
        row for row in csv.DictReader(io.StringIO(files["results.csv"])) if row["workload_id"] == "64k-r100-rnd0-qd4-w1"
    ]
    assert rows and {row["write_iops"] for row in rows} == {""} and "0" not in {row["write_ios"] for row in rows}


def test_json_says_what_the_model_says(files, report):
    content = json.loads(files["results.json"])
    assert content["schema"] == "storlab.report/1" and content["verdict"] == report.verdict
    layer = next(layer for layer in content["workloads"][0]["layers"] if layer["layer"] == "initiator-bench")
    step = next(step for step in report.waterfalls[0].steps if step.cell.layer == "initiator-bench")
    assert (
        layer["iops"] == step.cell.value("iops")
        and layer["added_mean_ns"] == step.added_mean_ns
        and layer["below"] == "target-bench"
    )
    assert layer["figures"]["total"]["iops"] == {
        "value": step.cell.value("iops"),
        "low": step.cell.figure("iops").low,
        "high": step.cell.figure("iops").high,
    }
    assert "histogram" not in files["results.json"]


def test_markdown_and_terminal_say_the_same_as_the_page(files, report):
    table = "\n".join(terminal.table(report))
    for step in report.waterfalls[0].steps:
        shown = (
            units.iops(step.cell.value("iops")),
            units.latency(step.cell.value("latency_mean_ns")),
            units.latency(step.cell.value("latency_p99_ns")),
        )
        row = next(line for line in files["report.md"].splitlines() if line.startswith(f"| {step.cell.layer}"))
        line = next(line for line in table.splitlines() if line.strip().startswith(step.cell.layer))
        for text in shown:
            assert f"| {text} |" in row and text in line


def test_terminal_lines_are_aligned_and_have_no_trailing_blanks(report):
    lines = terminal.table(report)
    assert all(line == line.rstrip() for line in lines)
    start = lines.index(next(line for line in lines if line.startswith("  layer")))
    rows = lines[start : start + 7]
    at = rows[0].index("IOPS against")
    assert {row[at - 2 : at] for row in rows} == {"  "}


def test_a_layer_without_one_below_it_is_shown_without_columns_for_it(report):
    waterfall = report.waterfalls[0]
    alone = dataclasses.replace(report, waterfalls=[dataclasses.replace(waterfall, steps=waterfall.steps[:1])])
    [head, row] = terminal.table(alone)[1:3]
    assert waterfall.steps[0].below is None and head.split() == ["layer", "host", "IOPS", "MB/s", "mean", "p50", "p99"]
    assert units.ABSENT not in row and "adds" in terminal.table(report)[1]


def test_summary_rows_hold_no_nulls_and_no_bins(report):
    summary = rows.summary(report)
    assert len(summary) == 12
    assert all(value is not None for row in summary for value in row.values())
    assert "below" not in summary[0] and summary[1]["below"] == "ceiling-target01" and summary[1]["comparable"] is False


# -- determinism, safety, links --------------------------------------------------------------------------------------


def test_the_same_results_give_the_same_bytes(stored, files):
    assert render.render(model.build(load.read_run(stored.folder))) == files


def test_order_of_reading_does_not_matter(stored, files):
    run = copy.deepcopy(stored)
    run.results.reverse()
    run.layers = dict(reversed(run.layers.items()))
    assert render.render(model.build(run)) == files


def test_nothing_from_outside_becomes_markup(stored):
    built = model.build(hostile_run.poisoned(stored, EVIL), EVIL)
    html = html_page.html(built)
    page = Page(html)
    assert [tag for tag, _attributes in page.elements].count("script") == 1
    assert not [tag for tag, _attributes in page.elements if tag == "img"]
    assert not [name for _tag, attributes in page.elements for name in attributes if name.startswith("on")]
    assert '<script>alert("x")</script>' in "".join(page.texts), "shown as text"
    assert "{{ 7*7 }}" in "".join(page.texts), "and not computed"


def test_hostile_kinds_of_layers_reach_no_attribute(stored):
    run = copy.deepcopy(stored)
    for layer in run.layers.values():
        layer["kind"] = '"><script>alert(2)</script>'
    page = Page(html_page.html(model.build(run)))
    assert [tag for tag, _attributes in page.elements].count("script") == 1


def test_markdown_keeps_text_as_text(stored):
    text = markdown.markdown(model.build(hostile_run.poisoned(stored, EVIL), EVIL))
    outside_code = re.sub(r"`[^`]*`", "", re.sub(r"\\.", "", text))
    assert "alert" in outside_code and "<" not in outside_code
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {11}


def test_every_link_leads_somewhere(page, stored):
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids, link
        elif link.startswith("../"):
            assert (Path(stored.folder) / "report" / unquote(link)).resolve().is_file(), link
        else:
            assert link in render.FILES, link


def test_ids_are_unique(page):
    assert len(page.ids) == len(set(page.ids))


def test_every_point_shows_its_checksum_and_links_raw_and_job(page, files, stored):
    for result in stored.results:
        assert result["raw"]["sha256"] in files["index.html"]
        assert f"../points/{result['point_id']}/fio.json" in page.links


def test_files_beside_the_raw_one_are_named_when_they_are_not_as_recorded(stored):
    """As usual they are linked by the page's script, from what the class of the field says is there."""
    run = copy.deepcopy(stored)
    lost, changed, usual = run.results[:3]
    lost["files"]["job"].update(state="missing", path=None)
    changed["files"]["job"]["state"] = "differs"
    rows = {
        unquote(row.split("../points/")[1].split("/")[0]): row
        for row in html_page.html(model.build(run)).split("<tr")
        if "../points/" in row
    }
    assert 'job.fio <em class="missing">missing</em>' in rows[lost["point_id"]]
    assert (
        f'<a href="../points/{changed["point_id"]}/job.fio">job.fio</a> <em class="differs">differs</em>'
        in rows[changed["point_id"]]
    )
    assert "job.fio" not in rows[usual["point_id"]] and '<td class="job">' in rows[usual["point_id"]]


def test_nothing_is_loaded_from_elsewhere(page, files):
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            address = attributes.get(name, "")
            assert not re.match(r"(?:[a-z]+:)?//", address or ""), (tag, address)
            assert name == "href" or not address
    assert "@import" not in files["index.html"] and not re.search(r"url\((?!#)", files["index.html"])


# -- what is missing or failed ---------------------------------------------------------------------------------------


def test_an_unmeasured_metric_is_a_dash_in_every_form(stored):
    run = copy.deepcopy(stored)
    for result in run.results:
        if result["layer"] == "target-bench":
            for direction in ("read", "write", "total"):
                for metric in ("latency_mean_ns", "latency_p50_ns", "latency_p99_ns", "histogram"):
                    result.get(direction, {}).pop(metric, None)
    built = model.build(run)
    page = Page(html_page.html(built))
    key = "4k-r70-rnd100-qd8-w1", "target-bench"
    assert (
        (*key, "iops") in page.figures
        and (*key, "latency_mean_ns") not in page.figures
        and (*key, "added_mean_ns") not in page.figures
    )
    row = next(line for line in markdown.markdown(built).splitlines() if line.startswith("| target-bench"))
    assert row.count("| – ") == 3
    assert "latency_mean_ns" not in next(row for row in rows.summary(built) if row["layer"] == "target-bench")


def test_failed_points_and_damaged_files_are_listed_with_the_reason(stored):
    run = copy.deepcopy(stored)
    for result in run.results[:2]:
        for direction in ("read", "write", "total"):
            result.pop(direction, None)
        result.update(status="failed", failures=[{"code": "no_io", "message": f"No I/O at {result['point_id']}."}])
    run.damaged = [{"file": "points/x/result.json", "reason": "it is missing"}]
    found = render.render(model.build(run))
    text = "".join(Page(found["index.html"]).texts)
    for name in ("index.html", "report.md", "results.csv", "results.json"):
        assert run.results[0]["failures"][0]["message"].split(" at ")[0] in found[name]
    assert "34 of 36" in text and "points/x/result.json" in text and "it is missing" in text
    assert "34 of 36 points measured" in found["report.md"] and "points/x/result.json" in found["report.md"]
    assert [row["status"] for row in csv.DictReader(io.StringIO(found["results.csv"]))].count("failed") == 2


def test_a_run_in_which_nothing_was_measured_renders(stored):
    run = copy.deepcopy(stored)
    for result in run.results:
        for direction in ("read", "write", "total"):
            result.pop(direction, None)
        result.update(status="failed", failures=[])
    found = render.render(model.build(run))
    assert "Nothing was measured" in found["index.html"] and "Nothing was measured" in found["report.md"]
    assert "<polyline" not in found["index.html"]


def test_one_point_is_enough(stored):
    run = copy.deepcopy(stored)
    run.results, run.layers, run.environments = run.results[:1], {}, {}
    found = render.render(model.build(run))
    assert run.results[0]["layer"] in found["index.html"]


def test_a_name_with_blanks_and_umlauts_keeps_its_link(tmp_path):
    folder = make_fixture.write_run(str(tmp_path), 1, 1)
    content = make_fixture.result(make_fixture.LAYERS[1], make_fixture.WORKLOADS[0], 2, 9)
    make_fixture.save_result(folder, {**content, "point_id": "prüf punkt #1"})
    page = Page(html_page.html(model.build(load.read_run(folder))))
    link = next(link for link in page.links if "pr%C3%BCf" in link and link.endswith("fio.json"))
    assert link == "../points/pr%C3%BCf%20punkt%20%231/fio.json"


def test_a_thousand_results_with_everything_fit_one_page(tmp_path):
    """With samples, steady states, checks and CPU cost in every point; benchmarks/report.md has the time it takes."""
    folder = synthetic_run.write_run(str(tmp_path), "large", 5)
    found = render.render(model.build(load.read_run(folder)))
    assert len(list(csv.DictReader(io.StringIO(found["results.csv"])))) == 1020
    assert len(found["index.html"].encode()) < 1_500_000


def test_no_file_that_grows_with_the_points_is_whole_in_memory(report):
    """Each is made in pieces while it is written; the page's longest piece is a section."""
    texts = render.files(report)
    grow = {name for name, text in texts.items() if callable(text)}
    assert grow == {"index.html", "results.csv", "results.json"}
    for name in grow:
        pieces = list(texts[name]())
        assert len(pieces) > 20 and max(map(len, pieces)) < sum(map(len, pieces)) / 2, name


def test_points_in_order_are_written_as_those_that_are_sorted(stored):
    """Points that nothing was added to come sorted from the index, and are not sorted again."""
    report = model.build(stored)
    assert {type(point) for point in report.points} == {alike.Ordered}
    text = "".join(render.results_json(report))
    loose = [dict(reversed(point.items())) for point in report.points]
    assert "".join(render.results_json(dataclasses.replace(report, points=loose))) == text
    for line in text.splitlines():
        if '"point_id"' in line:
            point = json.loads(line.strip("[,"))
            assert json.dumps(point, sort_keys=True, ensure_ascii=False) == line.strip("[,")


# -- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(599, 3_690_000, [100, 1000, 10_000, 100_000, 1e6, 1e7]), (1000, 1000, [1000, 10_000]), (100, 900, [100, 1000])],
)
def test_decades_enclose_the_values(low, high, ticks):
    assert charts.log_ticks(low, high) == ticks


def test_equal_ratios_are_equal_distances_on_the_log_axis():
    ticks = charts.log_ticks(10, 1_000_000)
    positions = [charts.log_position(value, ticks) for value in (10, 100, 1000, 10_000, 1_000_000)]
    assert positions == pytest.approx([0, 0.2, 0.4, 0.6, 1.0])


def test_marks_stand_where_the_values_are():
    dot = parsed(charts.rate_mark(Figure(1000, 100, 10_000), [10, 100, 1000, 10_000, 100_000]))
    assert dot.find("circle").get("cx") == "50.00%"
    assert [(line.get("x1"), line.get("x2")) for line in dot.findall("line") if "spread" in line.get("class")] == [
        ("25.00%", "75.00%")
    ]
    bars = parsed(charts.added_mark(1000.0, 3000.0, 4000.0, True)).findall("rect")
    assert [(bar.get("x"), bar.get("width")) for bar in bars] == [("0", "25.00%"), ("25.00%", "50.00%")]


def test_percentile_curve_passes_through_the_histogram():
    curve = charts.percentile_curve({"100": 50, "200": 40, "9000": 10})
    assert curve[0] == (0.0, 100.0) and curve[-1] == (0.995, 9000.0)
    assert (0.5, 200.0) in curve and (0.9, 9000.0) in curve
    assert [share for share, _edge in curve] == sorted(share for share, _edge in curve)


def test_percentile_curve_is_thin_enough_for_a_page():
    bins = make_fixture.bins(500_000, 2_000_000, 0.6)
    assert len(bins) > 250 and len(charts.percentile_curve(bins)) < 110


def parsed(chart) -> ElementTree.Element:
    """A chart as it stands in a page, or a mark."""
    svg = chart if isinstance(chart, str) else markup.shapes().chart(chart)
    return ElementTree.fromstring(svg)  # noqa: S314 - it was drawn a line ago


def drawn(page_text: str, css: str) -> list:
    """Every chart of the page, with the pictures nested in it."""
    found, depth, begin = [], 0, 0
    for tag in re.finditer(r"<svg[^>]*>|</svg>", page_text):
        if tag.group() == "</svg>":
            depth -= 1
            if not depth:
                found.append(page_text[begin : tag.end()])
        else:
            begin = begin if depth else tag.start()
            depth += 1
    return [parsed(svg) for svg in found if svg.startswith(f'<svg class="chart {css}')]


def test_pictures_are_well_formed_and_named(files):
    for svg in drawn(files["index.html"], ""):
        assert svg.find("title").text and svg.find("desc").text
        assert svg.get("aria-labelledby") == f"{svg.find('title').get('id')} {svg.find('desc').get('id')}"


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_the_chain_shows_every_layer_and_every_parent(files, stored, width):
    svg = next(svg for svg in drawn(files["index.html"], f"chain {width}"))
    nodes = {group.find("title").text.split(":")[0]: group.get("class") for group in svg.findall("g")}
    assert set(nodes) == set(stored.layers)
    assert {name for name, css in nodes.items() if "dim" in css} == {"backing-ds1", "target-ds1", "initiator-ds1"}
    assert len(svg.findall("path")) == sum(1 for layer in stored.layers.values() if layer["parent"]) == 6
    assert [text.text for text in svg.findall("text") if text.get("class") == "hostname"] == [
        "target01",
        "hypervisor01",
        "guest01",
    ]


def test_an_array_is_named_by_its_level_and_members_in_the_chain(stored):
    layers = copy.deepcopy(model.build(stored).layers)
    backing = next(layer for layer in layers if layer["name"] == "backing-bench")
    backing["detail"] = {"provider": "raid", "raid": {"level": 6, "members": [{}] * 5}}
    texts = [text.text for text in parsed(chain_chart.chain_chart("c", layers, {}, 1040)).iter("text")]
    [text] = [text for text in texts if text and "RAID" in text]
    assert text.startswith("RAID 6 of 5 · ") and text.endswith(backing["path"][-4:])


@pytest.mark.parametrize(("count", "figure"), [(2, "20.9k IOPS · 184 µs"), (6, "20.9k · 184 µs")])
def test_the_figures_of_a_box_are_whole_in_the_chain(stored, count, figure):
    """Narrow boxes leave out the unit, not the end of a latency."""
    backing = stored.layers["backing-bench"]
    chain = [{**backing, "name": f"layer-{at}", "parent": f"layer-{at - 1}" if at else None} for at in range(count)]
    svg = parsed(chain_chart.chain_chart("c", chain, {"layer-1": "20.9k IOPS · 184 µs"}, 1040))
    texts = [text.text for text in svg.iter("text")]
    assert figure in texts, [text for text in texts if text and "·" in text]


@pytest.mark.parametrize("width", [1040, 360])
def test_boxes_of_the_chain_do_not_overlap_and_stay_inside(stored, width):
    layers = model.build(stored).layers
    svg = parsed(chain_chart.chain_chart("c", layers, {}, width))
    right, bottom = (float(number) for number in svg.get("viewBox").split()[2:])
    boxes = []
    for group in svg.findall("g"):
        box = [float(group.find("rect").get(key)) for key in ("x", "y", "width", "height")]
        assert box[0] >= 0 and box[1] >= 0 and box[0] + box[2] <= right and box[1] + box[3] <= bottom
        for other in boxes:
            assert (
                box[0] >= other[0] + other[2]
                or other[0] >= box[0] + box[2]
                or box[1] >= other[1] + other[3]
                or other[1] >= box[1] + box[3]
            )
        boxes.append(box)


@pytest.mark.parametrize("width", [1040, 360])
def test_no_arrow_of_the_chain_runs_through_a_box(stored, width):
    """Not even with a ceiling on every host, where there is least room."""
    ceiling = next(layer for layer in stored.layers.values() if layer["kind"] == "ceiling")
    layers = [
        *({**ceiling, "name": f"ceiling-{host}", "host": host} for host in ("target01", "hypervisor01", "guest01")),
        *(layer for layer in model.build(stored).layers if layer["kind"] != "ceiling"),
    ]
    svg = parsed(chain_chart.chain_chart("c", layers, {}, width))
    boxes = [
        [float(group.find("rect").get(key)) for key in ("x", "y", "width", "height")] for group in svg.findall("g")
    ]
    assert len(boxes) == 11
    for arrow in svg.findall("path"):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", arrow.get("d"))]
        start, end = numbers[:2], numbers[-2:]
        assert start[0] == end[0] or start[1] == end[1], "these chains are straight"
        for left, top, wide, high in boxes:
            across = left < (start[0] + end[0]) / 2 < left + wide and top < (start[1] + end[1]) / 2 < top + high
            between = start[0] == end[0] and left < start[0] < left + wide and start[1] < top and top + high < end[1]
            assert not across and not between


def test_a_chain_that_skips_a_kind_keeps_its_lane_free_between():
    """i2 goes straight to b2; t3, a target of its own, must not stand on the way."""

    def layer(name, kind, host, parent=None):
        return {"name": name, "kind": kind, "host": host, "parent": parent, "path": "/dev/x", "detail": {}}

    layers = [
        layer("b1", "backing", "a"),
        layer("b2", "backing", "a"),
        layer("t1", "target", "a", "b1"),
        layer("t3", "target", "a"),
        layer("i1", "initiator", "b", "t1"),
        layer("i2", "initiator", "b", "b2"),
    ]
    svg = parsed(chain_chart.chain_chart("c", layers, {}, 1040))
    place = {
        group.find("title").text.split(":")[0]: (float(group.find("rect").get("x")), float(group.find("rect").get("y")))
        for group in svg.findall("g")
    }
    assert place["i2"][1] == place["b2"][1] != place["i1"][1] == place["t1"][1] == place["b1"][1], (
        "each chain in a lane of its own"
    )
    assert place["b2"][0] < place["t3"][0] < place["i2"][0] and place["t3"][1] not in (place["b2"][1], place["b1"][1])


@pytest.mark.parametrize(("width", "along"), [(1040, 0), (360, 1)])
def test_a_layer_stands_beyond_the_one_that_it_stands_on_whatever_their_kinds(width, along):
    """An export over NFS is of the kind target, and stands on a datastore of the same host."""
    chain = (
        ("backing-e2", "backing", "a", None),
        ("target-e2-nfs", "target", "a", "datastore-e2"),
        ("datastore-e2", "datastore", "a", "backing-e2"),
        ("datastore-e2-nfs", "datastore", "b", "target-e2-nfs"),
    )
    layers = [
        {"name": name, "kind": kind, "host": host, "parent": parent, "path": "/x", "detail": {}}
        for name, kind, host, parent in chain
    ]
    svg = parsed(chain_chart.chain_chart("c", layers, {}, width))
    place = {
        group.find("title").text.split(":")[0]: [float(group.find("rect").get(key)) for key in ("x", "y")][along]
        for group in svg.findall("g")
    }
    upwards = ["backing-e2", "datastore-e2", "target-e2-nfs", "datastore-e2-nfs"]
    # Wide, the backing is on the left; narrow, at the bottom.
    assert sorted(place, key=place.get, reverse=along == 1) == upwards and len(set(place.values())) == 4


def test_names_at_the_ends_of_lines_do_not_cover_each_other():
    series = [Curve(f"layer-{index}", "target", [(0.0, 100.0), (0.99, 1000.0 + index)]) for index in range(6)]
    svg = parsed(charts.percentile_chart("c", "t", series))
    heights = sorted(float(text.get("y")) for text in svg.find("svg[@class='ends']").iter("text"))
    assert len(heights) == 6 and all(second - first >= 14.9 for first, second in zip(heights, heights[1:]))


def test_text_on_colours_can_be_read():
    """WCAG AA: 4.5 for text; the colours of layers also name lines, so they count as text."""
    for colours in (theme.LIGHT, theme.DARK):
        for ink in (
            "ink",
            "dim",
            "link",
            "warn",
            "bad",
            "good",
            "ceiling",
            "backing",
            "target",
            "initiator",
            "datastore",
            "guest",
        ):
            for ground in ("page", "panel"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        assert contrast(colours["warn"], colours["warn-bg"]) >= 4.5


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
