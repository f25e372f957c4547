# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run with events has a view of them, with the figures of each round; a run without has none, and the figures are compared."""

from __future__ import annotations

import copy
import re

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import points
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page, model, views
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load

EVENT = {
    "kind": "target_off",
    "for_s": 10.0,
    "uncertain_s": 0.05,
    "window_s": 0.5,
    "from_s": -20.0,
    "counts": [25] * 40 + [0] * 22 + [25] * 60,
    "failed_ios": 0,
    "affected": True,
    "stall_least_s": 11.0,
    "stall_most_s": 12.0,
    "stalled_s": 11.5,
    "recovered_s": 11.0,
    "missing_ios": 550.0,
    "verified": True,
    "host": "target01",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load.read_run(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 2))


def with_events(run, *events: dict):
    """The run with an event in each of the first points of one layer and workload."""
    results = copy.deepcopy(run.results)
    first = next(result for result in results if result["layer_kind"] == "initiator")
    alike = [result for result in results if all(result[key] == first[key] for key in ("layer", "workload_id"))]
    for result, event in zip(alike, events):
        result["event"] = event
    return load.Run(**{**vars(run), "results": results})


def test_a_run_without_events_has_no_view_of_them(run):
    assert "events" not in [view.id for view in views.of_run(model.build(run), views.base.Choices(model.build(run)))]


def test_the_view_has_the_rounds_with_their_figures(run):
    later = {**EVENT, "stalled_s": 21.0, "failed_ios": 7, "error_s": 5.2}
    del later["recovered_s"]
    report = model.build(with_events(run, EVENT, later))
    view = next(view for view in views.of_run(report, views.base.Choices(report)) if view.id == "events")
    (panel,) = view.panels
    assert (
        "11.5 s to 21.0 s, median 16.2 s, in 2 rounds. 7 I/Os failed. In 1 the old rate did not come back" in panel.note
    )
    assert panel.note.endswith("were read back and are right.")
    rows = {first: [field.text for field in fields] for _css, first, fields in panel.table.rows}
    assert rows["1"][0] == "11.5 s" and rows["2"][3:5] == ["5.2 s", "7"]
    page = html_page.html(report)
    assert "Lost way" in page and "from the event until it was undone" in page


def test_a_line_stands_at_the_event_whenever_its_load_began(run):
    early = {**EVENT, "from_s": -25.0, "counts": [25] * 50 + [0] * 22 + [25] * 60}
    report = model.build(with_events(run, EVENT, early))
    view = next(view for view in views.of_run(report, views.base.Choices(report)) if view.id == "events")
    (title,) = {picture.chart.title for panel in view.panels for picture in panel.charts}
    assert re.match("IOPS around the event, ", title)
    courses = [views.events._course("c0", point, 25.0) for point in report.points if point.get("event")]
    stalled = [[t_s for t_s, value in course.pieces[0] if value == 0] for course in courses]
    assert stalled[0] == stalled[1] == [25.25 + place * 0.5 for place in range(22)]


def test_data_that_differ_are_named(run):
    report = model.build(with_events(run, {**EVENT, "verified": False}))
    view = next(view for view in views.of_run(report, views.base.Choices(report)) if view.id == "events")
    assert view.panels[0].note == "The longest stall is 11.5 s. No I/O failed. In 1 the data were not verified."


def test_the_figures_of_an_event_are_compared():
    known = {metric.name: metric for metric in points.wanted_metrics(None)}
    assert known["event_stalled_s"].path == ("event", "stalled_s") and not known["event_stalled_s"].higher_is_better
    assert {"event_recovered_s", "event_missing_ios", "event_failed_ios"} <= known.keys()
