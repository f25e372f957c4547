# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views appear when the data have their shape, and stand where the figures are."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import statistics
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.module_utils.core import units
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    charts,
    html_page,
    markup,
    model,
    plot,
    render,
    views,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import Figure


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load.read_run(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 2))


@pytest.fixture(scope="module")
def report(run):
    return model.build(run)


@pytest.fixture(scope="module")
def choices(report):
    return views.base.Choices(report)


def part_of(run, keep):
    return model.build(
        load.Run(
            **{**vars(run), "results": [result for result in copy.deepcopy(run.results) if keep(result["workload"])]}
        )
    )


# -- which views there are -------------------------------------------------------------------------------------------


def names(report) -> list:
    return [view.id for view in views.of_run(report, views.base.Choices(report))]


def test_a_run_of_every_shape_has_every_view(report):
    assert names(report) == ["blocks", "workers", "matrix", "load"]


@pytest.mark.parametrize(
    ("keep", "wanted"),
    [
        (
            lambda workload: (
                workload["queue_depth"] == 16 and workload["workers"] == 1 and workload["read_percent"] in (0, 100)
            ),
            ["blocks"],
        ),
        (lambda workload: workload["block_size_bytes"] == 8192, ["workers", "load"]),
        (lambda workload: workload["read_percent"] == 70, ["load"]),
        (lambda workload: workload["read_percent"] == 70 and workload["queue_depth"] < 5, []),
        (lambda workload: workload["block_size_bytes"] == 4096 and workload["read_percent"] == 100, ["matrix", "load"]),
    ],
)
def test_a_view_needs_its_shape(run, keep, wanted):
    assert names(part_of(run, keep)) == wanted


def test_workloads_without_a_single_block_size_make_no_sweep_and_no_error(run):
    mixed = copy.deepcopy(run)
    for result in mixed.results:
        workload = dict(result["workload"])  # which results of one workload share
        size = workload.pop("block_size_bytes")
        workload["block_sizes"] = {
            "read": [{"size_bytes": size, "percent": 60}, {"size_bytes": 2 * size, "percent": 40}],
            "write": [],
        }
        result["workload"] = workload
    report = model.build(mixed)
    assert "blocks" not in names(report)
    assert "60 %" in html_page.html(report)


def test_a_family_differs_in_nothing_but_its_key(report):
    for common, points in views.base.families(report.waterfalls, ("block_size_bytes",)):
        assert "block_size_bytes" not in common and len(points) >= 3
        assert all(waterfall.workload[key] == value for waterfall in points.values() for key, value in common.items())
        assert list(points) == sorted(points)


# -- charts stand where the figures are ------------------------------------------------------------------------------


def parsed(chart) -> ElementTree.Element:
    """A chart as it stands in a page, or a mark."""
    svg = chart if isinstance(chart, str) else markup.shapes().chart(chart)
    return ElementTree.fromstring(svg)  # noqa: S314 - it was drawn a line ago


def test_dots_of_a_sweep_stand_at_their_values(report, choices):
    panel = next(panel for panel in views.blocks.view(report, choices).panels if "random read" in panel.title)
    svg = parsed(next(chart.chart for chart in panel.charts if chart.css == "M-iops"))
    kind, low, high, _unit = svg.get("data-y").split(" ")
    assert kind == "log"
    height = float(re.search(r"height:(\d+)px", svg.get("style")).group(1))
    step = next(
        step
        for waterfall in report.waterfalls
        for step in waterfall.steps
        if step.cell.layer == "target-bench" and waterfall.workload_id == "32k-r100-rnd100-qd16-w1"
    )
    dot = next(dot for dot in svg.iter("circle") if dot.find("title").text.startswith("target-bench, 32 KiB: "))
    share = 1 - float(dot.get("cy")) / height
    assert float(low) * (float(high) / float(low)) ** share == pytest.approx(step.cell.value("iops"), rel=0.01)


def test_a_heat_map_has_a_field_a_pair_and_marks_the_most(report, choices):
    panels = views.matrix.view(report, choices).panels
    assert [panel.title.split(":")[0] for panel in panels] == ["backing-bench", "target-bench"]
    svg = parsed(panels[0].charts[0].chart)
    texts = [
        text.text
        for text in svg.iter("text")
        if (text.get("class") or "").startswith("cell") and "below" not in text.get("class")
    ]
    wanted = [
        units.iops(step.cell.value("iops"))
        for waterfall in report.waterfalls
        for step in waterfall.steps
        if step.cell.layer == "backing-bench"
        and waterfall.workload["block_size_bytes"] == 4096
        and waterfall.workload["read_percent"] == 100
        and waterfall.workload["random_percent"] == 0
    ]
    assert len(texts) == 9 and sorted(texts) == sorted(wanted)
    assert sum(1 for text in svg.iter("text") if "best" in (text.get("class") or "")) == 1


@pytest.fixture
def run_both_ways(run):
    """The run with the matrix of backing-bench once more through the page cache, where the figures of a pair are those of the pair mirrored."""
    both = copy.deepcopy(run)
    matrix = {
        (result["workload"]["queue_depth"], result["workload"]["workers"], result["repetition"]): result
        for result in both.results
        if result["layer"] == "backing-bench"
        and result["workload"]["read_percent"] == 100
        and result["workload"]["random_percent"] == 0
    }
    assert len(matrix) == 18
    mirror = {1: 16, 4: 4, 16: 1}
    for (depth, workers, repetition), result in matrix.items():
        twin = copy.deepcopy(matrix[mirror[depth], mirror[workers], repetition])
        twin["workload"] = {**result["workload"], "direct": False}
        twin["workload_id"] = result["workload_id"] + "-cached"
        twin["point_id"] = f"backing-bench.{twin['workload_id']}.r{repetition}"
        both.results.append(twin)
    return both


@pytest.fixture
def both_ways(run_both_ways):
    return model.build(run_both_ways)


def test_both_surfaces_stand_side_by_side_with_what_lies_between_them(both_ways):
    panel = views.matrix.view(both_ways, views.base.Choices(both_ways)).panels[0]
    assert panel.title.startswith("backing-bench: ") and panel.title.endswith("direct and through the page cache")
    assert [one.title for one in panel.charts] == [
        "Direct",
        "Through the page cache",
        "Through the page cache over direct",
    ]
    iops = {
        (waterfall.workload["queue_depth"], waterfall.workload["workers"]): waterfall.steps[0].cell.value("iops")
        for waterfall in both_ways.waterfalls
        if waterfall.workload["random_percent"] == 0
        and waterfall.workload["read_percent"] == 100
        and waterfall.workload["direct"]
        and waterfall.steps[0].cell.layer == "backing-bench"
    }
    mirror = {1: 16, 4: 4, 16: 1}
    wanted = [iops[mirror[depth], mirror[workers]] / iops[depth, workers] for depth, workers in sorted(iops)]
    shown = [row[2][3].value for row in panel.table.rows]
    assert shown == pytest.approx(wanted) and len(shown) == 9
    between = parsed(panel.charts[2].chart)
    fields = [one.get("class") for one in between.iter("rect") if (one.get("class") or "").startswith("field")]
    assert fields.count("field less") == sum(ratio < 1 for ratio in wanted) == 4
    # What is the same on both surfaces has the palest shade; the least and the most of both the same shades in both.
    direct, cached = (
        {
            one.get("fill-opacity")
            for one in parsed(panel.charts[number].chart).iter("rect")
            if one.get("class") == "field"
        }
        for number in (0, 1)
    )
    assert {"0.06", "0.50"} <= direct == cached


def test_how_far_the_repetitions_of_both_surfaces_are_apart_is_said(run_both_ways):
    both_ways = model.build(run_both_ways)
    panel = views.matrix.view(both_ways, views.base.Choices(both_ways)).panels[0]
    wanted: dict = {True: {}, False: {}}
    for result in run_both_ways.results:
        workload = result["workload"]
        if (result["layer"], workload["read_percent"], workload["random_percent"]) == ("backing-bench", 100, 0):
            field = (workload["queue_depth"], workload["workers"])
            wanted[workload["direct"]].setdefault(field, []).append(result["read"]["iops"])
    spans = {
        direct: [(max(rates) - min(rates)) / statistics.median(rates) for _field, rates in sorted(fields.items())]
        for direct, fields in wanted.items()
    }
    assert len(spans[True]) == 9 and spans[True] != spans[False]
    for column, direct in ((4, True), (5, False)):
        assert [row[2][column].value for row in panel.table.rows] == pytest.approx(spans[direct])
    said = [f"{100 * statistics.median(spans[direct]):.2g} %" for direct in (True, False)]
    assert panel.note.endswith(
        f"Slowest and fastest repetition are {said[0]} apart direct and {said[1]} through the page cache (median of the fields)."
    )


def test_a_single_repetition_is_not_called_constant(run_both_ways):
    run_both_ways.results = [result for result in run_both_ways.results if result["repetition"] == 1]
    once = model.build(run_both_ways)
    panel = views.matrix.view(once, views.base.Choices(once)).panels[0]
    assert "repetition" not in panel.note
    assert {row[2][column].value for row in panel.table.rows for column in (4, 5)} == {None}


def test_a_matrix_that_was_measured_one_way_has_no_second_surface(report, choices):
    assert not any("page cache" in panel.title for panel in views.matrix.view(report, choices).panels)


# -- number of drives ------------------------------------------------------------------------------------------------


def arrays(run, counts: dict, level: int = 0):
    """The run with a block size of backing-bench measured on arrays of so many drives, a variant each: {variant: drives}."""
    made = copy.deepcopy(run)
    wanted = [result for result in made.results if result["workload_id"] == "32k-r100-rnd100-qd16-w1"]
    wanted = [result for result in wanted if result["layer"] == "backing-bench"]
    others = [result for result in made.results if result["workload"]["block_size_bytes"] == 4096][:2]
    made.results = list(others)
    variants = {}
    for variant, count in counts.items():
        raid = {"level": level, "chunk_bytes": 524288, "members": [{"serial": f"e5-{n}"} for n in range(count)]}
        variants[variant] = {**made.layers["backing-bench"], "detail": {"raid": raid}}
        made.results += [
            {**copy.deepcopy(one), "variant": variant, "point_id": f"{one['point_id']}.{variant}"} for one in wanted
        ]
    # As the last turn left it, with all that it was before.
    made.layers["backing-bench"] = {**variants[list(counts)[-1]], "variants": variants}
    return model.build(made)


def test_bandwidth_stands_against_the_number_of_drives(run):
    built = arrays(run, {"b": 3, "a": 2, "c": 7})
    view = views.drives.view(built, views.base.Choices(built))
    (panel,) = view.panels
    assert panel.title == "RAID 0 on target01"
    of = next(waterfall for waterfall in built.waterfalls if waterfall.workload["block_size_bytes"] == 32768)
    cells = {step.cell.layer: step.cell for step in of.steps}
    assert [(row[2][0].value, row[2][1].value) for row in panel.table.rows] == [
        (count, cells[f"backing-bench ({variant})"].value("bandwidth_bytes_s"))
        for variant, count in (("a", 2), ("b", 3), ("c", 7))
    ]
    assert "drives" in names(built)


def test_arrays_of_one_number_of_drives_make_no_axis(run):
    built = arrays(run, {"a": 2, "b": 2})
    assert views.drives.view(built, views.base.Choices(built)) is None


@pytest.mark.parametrize(
    ("rates", "waits", "wanted"),
    [
        ([100, 190, 300, 320], [10, 10.5, 13, 25], 2),  # power 10, 18.1, 23.1, 12.8
        ([100, 101, 102], [10, 20, 30], None),  # saturated from the first load on
        ([100, 200, 400], [10, 10, 10], None),
    ],
)  # not saturated by the last
def test_the_knee_is_the_greatest_power_inside_the_loads(rates, waits, wanted):
    line = [
        (str(rate), Figure(rate, rate, rate), Figure(wait * 1e6, wait * 1e6, wait * 1e6))
        for rate, wait in zip(rates, waits)
    ]
    assert views.load.knee(line) == wanted


def test_the_knee_of_a_synthetic_device_is_at_its_parallel(report, choices):
    notes = " ".join(panel.note for panel in views.load.view(report, choices).panels)
    assert "backing-bench at queue depth 4" in notes and "target-bench at queue depth 8" in notes


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([23_000, 81_000], ["20k", "50k", "100k"]),
        ([120, 90_000_000], ["100", "1k", "10k", "100k", "1M", "10M", "100M"]),
        ([500, 500], ["200", "500", "1k"]),
    ],
)
def test_log_axes_have_readable_ticks_that_enclose_the_values(values, ticks):
    axis = plot.log_axis(values, lambda value: units.tick(units.iops(value)), "IOPS")
    found = [label for _value, label in axis.ticks]
    if values[0] != values[1]:
        assert found == ticks
    assert axis.low <= min(values) and axis.high >= max(values) and axis.low < axis.high


def test_linear_axes_start_at_zero_in_round_steps():
    axis = plot.linear_axis(434, str, "ns")
    assert [value for value, _label in axis.ticks] == [0, 100, 200, 300, 400, 500] and axis.ticks[0][1] == "0"


def test_labels_that_would_touch_are_left_out_but_not_the_ends():
    kept = plot._thinned([(index / 20, "1000 KiB") for index in range(21)], 300)
    assert kept[0][0] == 0 and kept[-1][0] == 1 and 2 < len(kept) < 8
    assert all((after[0] - before[0]) * 300 >= 8 * plot.CHARACTER for before, after in zip(kept, kept[1:]))


def test_a_histogram_shows_every_io_once():
    columns = charts.histogram_columns({"1000": 3, "1010": 1, "1000000": 4})
    assert sum(columns.values()) == pytest.approx(1) and sorted(columns.values()) == [0.5, 0.5]


# -- time ------------------------------------------------------------------------------------------------------------


def test_series_show_the_ramp_the_stall_and_the_gap(report, choices):
    waterfall = report.headline
    found = views.over_time.pictures("x", waterfall, report, choices, 300)
    assert (
        found["ramp"]
        and found["window"]
        and [chart.css for chart in found["charts"]] == ["M-iops", "M-latency_mean_ns", "M-cpu_busy_percent"]
    )
    svg = parsed(found["charts"][0].chart)
    ramp = next(rect for rect in svg.iter("rect") if rect.get("class") == "ramp")
    assert (float(ramp.get("x")), float(ramp.get("width"))) == (0, pytest.approx(1000 * 5 / 25, abs=1))
    lines = [
        line for line in svg.iter("polyline") if line.get("class").startswith(f"line {choices.only('target-bench')}")
    ]
    assert len(lines) == 2, "second 12 is not known"
    lowest = max(
        (pair.split(",") for line in lines for pair in line.get("points").split()), key=lambda pair: int(pair[1])
    )
    assert int(lowest[0]) == 680, "second 17 of 25 stalls"


def test_load_and_memory_of_the_host_are_drawn_where_they_were_sampled(report, choices, monkeypatch):
    waterfall = report.headline
    cell = waterfall.steps[0].cell
    kept = report.samples[cell.shown]
    more = {
        **kept,
        "columns": [*kept["columns"], "load_1min", "load_5min", "load_15min", "memory_used_percent"],
        "rows": [[*row, 1.5 + index / 10, 1.25, 0.5 + index / 100, 37.5] for index, row in enumerate(kept["rows"])],
    }
    monkeypatch.setattr(report, "samples", {**report.samples, cell.shown: more})
    found = views.over_time.pictures("x", waterfall, report, choices, 300)
    more_charts = found["charts"][3:]
    assert [chart.css for chart in more_charts] == [
        f"M-{name}" for name in ("load_1min", "load_5min", "load_15min", "memory_used_percent")
    ]
    for chart in more_charts:
        lines = [line for line in parsed(chart.chart).iter("polyline") if "line" in line.get("class")]
        assert len(lines) == 1, "only one layer's host told them"
    # Its axis has marks at quarters, which one digit would tell wrong.
    assert [views.over_time.COLUMNS["load_1min"][1](value) for value in (0.25, 1.0, 12.5)] == ["0.25", "1", "12.5"]


def test_thinning_keeps_the_stall_and_the_peak():
    samples = [(second, 100.0) for second in range(5000)]
    samples[1234], samples[4321] = (1234, 3.0), (4321, 900.0)
    kept = [sample for piece in views.over_time._pieces(samples, 100) for sample in piece]
    assert (1234, 3.0) in kept and (4321, 900.0) in kept and len(kept) <= 102 and kept == sorted(kept)


def test_one_sample_is_no_course(report, choices):
    waterfall = report.headline
    short = {point: {**series, "rows": series["rows"][:1]} for point, series in report.samples.items()}
    assert short
    assert views.over_time.pictures("x", waterfall, dataclasses.replace(report, samples=short), choices, 300) is None


def test_the_ceiling_has_no_latency_against_load(report, choices):
    """Neither as a line of a family nor as a panel of a matrix, where it would be drawn as if waiting for a device."""
    layer = next(name for name in choices.layers if name.startswith("backing"))
    assert any(layer in str(panel.title) for panel in views.load.view(report, choices).panels)
    called = views.base.Choices(report)
    called.kinds = {**called.kinds, layer: "ceiling"}
    found = views.load.view(report, called).panels
    assert found and not any(layer in panel.title or layer in written(panel.table) for panel in found)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"columns": ["t_s"], "rows": [[1, 2]]}',
        '{"columns": ["iops"], "rows": []}',
        '{"columns": 5, "rows": []}',
    ],
)
def test_samples_that_are_none_are_left_out(run, tmp_path, content):
    (tmp_path / "series.json").write_text(content, encoding="utf-8")
    assert load.read_series(str(tmp_path), {"files": {"series": {"path": "series.json", "state": "matches"}}}) is None


def test_samples_that_are_not_numbers_are_gaps():
    series = {"interval_s": 1, "columns": ["t_s", "iops"], "rows": [[1, "many"], [2, True], [3, None], [4, 7.5]]}
    assert views.over_time.column_of(series, "iops") == [None, None, None, 7.5]


# -- CPU, hypervisor, verdicts, published ----------------------------------------------------------------------------


def written(table) -> str:
    """A table as it stands in a page."""
    return markup.templates().get_template("table.html.j2").module.grid(table)


def numbers(table) -> list:
    table = table if isinstance(table, str) else written(table)
    return [float(value) for value in re.findall(r'<data value="([^"]+)"', table)]


def test_cpu_cost_is_the_median_at_each_end(run, report, choices):
    waterfall = report.headline
    table = views.cpu.table(waterfall, choices)
    mine = [
        result
        for result in run.results
        if result["workload_id"] == waterfall.workload_id and result["layer"] == "guest-guest01"
    ]
    own = statistics.median(result["cpu"]["us_per_io"] for result in mine)
    other = statistics.median(result["counters"]["hosts"]["target01"]["cpu"]["us_per_io"] for result in mine)
    assert pytest.approx(own, abs=0.001) in numbers(table) and pytest.approx(other, abs=0.001) in numbers(table)


def test_what_the_hypervisor_counts_is_shown_and_absent_without_it(run, report, choices):
    assert numbers(views.esxi.table(report.headline, choices))
    bare = copy.deepcopy(run)
    for result in bare.results:
        result.pop("counters", None)
        result["cpu"] = {}
    built = model.build(bare)
    assert (
        views.esxi.table(built.headline, views.base.Choices(built)) is None
        and views.cpu.table(built.headline, views.base.Choices(built)) is None
    )


def test_a_simulated_hypervisor_is_named_as_one_and_what_is_below_its_milliseconds_too(run):
    changed = copy.deepcopy(run)
    for result in changed.results:
        told = (result.get("counters") or {}).get("esxi")
        if told:
            told.update(simulated=True, below_resolution=["qavg_ns"])
            del told["qavg_ns"]
            result["counters"]["hosts"]["esxi01"] = {"simulated": True, "cpu": {"mhz_per_iops": 0.0375}}
    built = model.build(changed)
    split, cost = (
        written(view(built.headline, views.base.Choices(built))) for view in (views.esxi.table, views.cpu.table)
    )
    assert "guest-guest01 (simulated)" in split and split.count("&lt; 1 ms") == 1
    assert "esxi01 (simulated)" in cost and 0.0375 in numbers(cost) and "target01 (simulated)" not in cost


def test_verdicts_and_checks_are_counted(run, report, choices):
    steady = views.steady.of_run(report, choices)
    judged = [result["steady_state"]["steady"] for result in run.results if "steady_state" in result]
    assert (steady["steady"], steady["judged"]) == (sum(judged), len(judged))
    checked = views.checks.of_run(report)
    failed = [result["point_id"] for result in run.results if not result["checks"][0]["ok"]]
    assert (
        checked["made"] == len(run.results)
        and [point["point_id"] for point, _name, _figures in checked["failed"]] == failed
        and failed
    )


def test_published_figures_stand_beside_those_of_their_workload(report, choices):
    table = written(views.published.table(report, choices))
    rows = table.split("<tr")[2:]
    step = next(step for step in report.headline.steps if step.cell.layer == "target-bench")
    assert report.headline.workload_id == "4k-r70-rnd100-qd8-w1"
    assert "80000" in rows[0] and pytest.approx(step.cell.value("iops"), abs=0.001) in numbers(rows[0])
    assert "5469" in rows[1] and numbers(rows[1]) == [], "nothing of this run is like it"


@pytest.mark.parametrize(("search", "shown"), [(None, 8), ({"kind": "max_iops", "key": "queue_depth"}, 64)])
def test_of_profiles_that_share_a_run_each_figure_stands_beside_its_own_workload(run, search, shown):
    """The figure says nothing of the workload: who asked for it does. A search varies a key, and found the most."""
    figure = {"metric": "iops", "value": 3136000, "unit": "IOPS", "where": "24 SSDs"}
    asked = copy.deepcopy(run)
    base = synthetic_run.workload(4096, 70, 100, shown if search is None else 1)
    asked.record = {
        "requests": [
            {"profile": {"name": "other", "published": []}, "workloads": [synthetic_run.workload(8192, 0, 0, 4, 1)]},
            {
                "profile": {"name": "most", "published": [figure]},
                "workloads": [base],
                **({"search": search} if search else {}),
            },
        ]
    }
    built = model.build(asked)
    of = next(one for one in built.waterfalls if one.workload_id == f"4k-r70-rnd100-qd{shown}-w1")
    ((load, found),) = views.figures.measured_for(figure, built)
    assert len(of.steps) >= 2 and load == ""
    assert [found[step.cell.layer] for step in of.steps] == [step.cell for step in of.steps]
    # Without who asked, any workload would do, and none is the one.
    asked.record = {"requests": [{"profile": {"name": "most", "published": [figure]}}]}
    assert views.figures.measured_for(figure, model.build(asked)) == []


def test_where_only_the_load_differs_each_load_has_a_row_beside_the_published_figure(run):
    """Few publish the queue depth; a profile may sweep it."""
    figure = {"metric": "iops", "value": 3000, "unit": "IOPS", "note": "about", "where": "RAID 10"}
    depths = sorted(
        one.workload["queue_depth"]
        for one in model.build(run).waterfalls
        if one.workload_id.startswith("4k-r70-rnd100-")
    )
    assert len(depths) >= 2
    asked = copy.deepcopy(run)
    workloads = [synthetic_run.workload(4096, 70, 100, depth) for depth in reversed(depths)]
    asked.record = {"requests": [{"profile": {"name": "array", "published": [figure]}, "workloads": workloads}]}
    built = model.build(asked)
    rows = written(views.published.table(built, views.base.Choices(built))).split("<tr")[2:]
    assert len(rows) == len(depths)
    for row, depth in zip(rows, depths):
        assert f"about; here queue depth {depth}<" in row and "3000" in row
        of = next(one for one in built.waterfalls if one.workload_id == f"4k-r70-rnd100-qd{depth}-w1")
        measured = [step.cell.value("iops") for step in of.steps if step.cell.kind != "ceiling"]
        assert numbers(row)[-len(measured) :] == pytest.approx(measured, abs=0.001)
    # Two that differ in more than that: neither is the published one.
    asked.record["requests"][0]["workloads"] = [
        synthetic_run.workload(4096, 70, 100, depths[0]),
        synthetic_run.workload(4096, 100, 100, 16),
    ]
    built = model.build(asked)
    assert len(built.waterfalls) > 1 and views.figures.measured_for(figure, built) == []


def test_published_figures_that_make_no_sense_are_shown_as_they_stand(run):
    odd = load.Run(
        **{
            **vars(run),
            "record": {
                "requests": [
                    {
                        "profile": {
                            "name": "x",
                            "published": [
                                {"metric": "tpm", "value": 17790, "unit": "TPM", "where": "<b>lab</b>"},
                                "no mapping",
                                {"metric": "iops", "unit": "IOPS", "workload": []},
                            ],
                        }
                    }
                ]
            },
        }
    )
    built = model.build(odd)
    table = written(views.published.table(built, views.base.Choices(built)))
    assert "17790" in table and "&lt;b&gt;lab" in table and numbers(table) == []


# -- variants --------------------------------------------------------------------------------------------------------


def test_variants_of_a_layer_are_never_pooled(run):
    varied = copy.deepcopy(run)
    varied.results = [result for result in varied.results if result["workload_id"] == "4k-r70-rnd100-qd8-w1"]
    for result in varied.results:
        if result["layer"] in ("target-bench", "initiator-bench"):
            result["variant"] = "AB"[result["repetition"] - 1]
    built = model.build(varied)
    steps = {step.cell.layer: step for step in built.headline.steps}
    assert steps["target-bench (A)"].cell.repetitions == steps["target-bench (B)"].cell.repetitions == 1
    assert "target-bench" not in steps and steps["initiator-bench (B)"].below.layer == "target-bench (B)"
    assert steps["target-bench (A)"].below.layer == "backing-bench"


def test_hostile_names_stay_text_in_every_view(run):
    evil = '"><script>alert(1)</script>'
    poisoned = copy.deepcopy(run)
    for layer in poisoned.layers.values():
        layer.update(
            name=layer["name"] + evil,
            host=layer["host"] + evil,
            parent=layer["parent"] + evil if layer["parent"] else None,
        )
    poisoned.layers = {layer["name"]: layer for layer in poisoned.layers.values()}
    for result in poisoned.results:
        result.update(
            layer=result["layer"] + evil, host=result["host"] + evil, workload_id=result["workload_id"] + evil
        )
        result["checks"] = [{"name": evil, "ok": False, evil: evil}]
        if "steady_state" in result:
            result["steady_state"]["metric"] = evil
    poisoned.record = json.loads(json.dumps(poisoned.record).replace("somebody", evil.replace('"', "'")))
    text = html_page.html(model.build(poisoned))
    assert text.count("<script") == 1 and evil not in text


def test_bytes_do_not_depend_on_the_order_of_reading(run):
    turned = copy.deepcopy(run)
    turned.results.reverse()
    assert render.render(model.build(turned)) == render.render(model.build(run))


def test_every_picture_is_well_formed_and_says_what_it_shows(run):
    text = html_page.html(model.build(run))
    for ident in re.findall(r'aria-labelledby="(\S+) (\S+)"', text):
        for name in ident:
            assert re.search(rf'id="{re.escape(name)}">[^<]{{3,}}<', text), name


def test_the_run_folder_of_the_fixture_says_that_it_is_synthetic(run):
    assert "synthetic" in (Path(run.folder) / "hosts" / "target01.json").read_text(encoding="utf-8")
