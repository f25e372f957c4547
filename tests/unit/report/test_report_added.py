# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places that a chart or a sentence more touches: a view is its own file and one entry, a sentence is one function in sentences.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    charts,
    html_page,
    model,
    plot,
    sentences,
    static,
    views,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.render import render
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.series import Line
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.tables import Table, cell
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.views.base import Panel, Picture, View
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import Figure
from fixtures.report import make_fixture
from places import ROOT


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 2, 2))


def dummy(report, choices) -> View:
    """The file of a new view has such a function."""
    series = [Line("a dummy line", "c0", [(3, Figure(70.5, 70.5, 70.5)), (5, Figure(110.25, 110.25, 110.25))])]
    x, y = plot.steps_axis([3, 5], str, "dummies"), charts.value_axis([70.5, 110.25], str, "dummy figure", "")
    chart = charts.sweep_chart("dummy0", "Dummy against dummies", x, y, series, lambda figure: f"{figure.value}")
    table = Table(
        "Dummies", [("Line", False), ("dummy figure", True)], [("", "a dummy line", [cell(110.25, "110.25")])]
    )
    return View("dummies", "Dummies", "A dummy lead.", [Panel("Dummy", "", [Picture("", "", chart)], [], table)])


def test_a_view_more_is_its_file_and_one_entry(run, monkeypatch):
    before = render(model.build(run))["index.html"]
    monkeypatch.setattr(views, "OF_RUN", (*views.OF_RUN, dummy))
    report = model.build(run)
    page = render(report)["index.html"]
    assert '<a href="#dummies">Dummies</a>' in page and '<section id="dummies"' in page
    assert "A dummy lead." in page and ">110.25</data>" in page
    assert [chart.title for chart in html_page.drawn(html_page.content(report))].count("Dummy against dummies") == 1
    assert "charts/dummy-against-dummies.svg" in static.files(report, ["svg"])
    assert "ummies" not in before


def test_every_view_of_several_workloads_is_one_file_and_in_the_list():
    folder = ROOT / "plugins" / "plugin_utils" / "report" / "views"
    listed = {make.__module__.rpartition(".")[2] for make in views.OF_RUN}
    having = {path.stem for path in folder.glob("*.py") if re.search(r"^def view\(", path.read_text(), re.M)}
    assert listed == having and len(listed) == len(views.OF_RUN)


def test_a_finding_more_is_one_function(run, monkeypatch):
    before = render(model.build(run))
    monkeypatch.setattr(
        sentences,
        "FINDINGS",
        (
            *sentences.FINDINGS,
            lambda report, environments: [{"level": "warning", "text": f"A dummy of {len(report.points)} points."}],
        ),
    )
    files = render(model.build(run))
    text = f"A dummy of {len(run.results)} points."
    for name in ("index.html", "report.md", "results.json"):
        assert text in files[name] and text not in before[name], name


def test_a_note_more_is_one_function(run, monkeypatch):
    monkeypatch.setattr(
        sentences, "NOTES", (*sentences.NOTES, lambda step, below, layers, between: f"Dummy below: {below.layer}.")
    )
    files = render(model.build(run))
    assert all("Dummy below: backing-bench." in files[name] for name in ("index.html", "report.md", "results.json"))


def test_no_sentence_of_findings_is_written_beside_sentences():
    """The model computes; a reader who looks for a finding's words finds them in one file."""
    folder = Path(sentences.__file__).parent
    for name in ("model.py", "waterfall.py", "html_page.py"):
        assert not re.search(r'"level": "(warning|note)"|_(warning|note)\(', (folder / name).read_text()), name
