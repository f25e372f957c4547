# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboard for Grafana asks for what results_export writes for Prometheus, and draws no failed point."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import export, load
from places import ROOT
from prometheus_client.parser import text_string_to_metric_families

FILE = ROOT / "docs/examples/grafana/storlab_testbed.json"
DASHBOARD = json.loads(FILE.read_text(encoding="utf-8"))
QUERIES = {panel["title"]: panel["targets"][0]["expr"] for panel in DASHBOARD["panels"]}


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict:
    """{metric: {label: its values}} of a run of the whole chain."""
    run = load.read_run(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "chain", 2))
    text = export.as_prometheus(list(run.results)).decode()
    metrics: dict = {}
    for sample in itertools.chain.from_iterable(family.samples for family in text_string_to_metric_families(text)):
        for label, content in sample.labels.items():
            metrics.setdefault(sample.name, {}).setdefault(label, set()).add(content)
    return metrics


def lacking(query: str, exported: dict) -> list:
    """What a query names that no export has: metrics, labels to choose by, values of `direction`, labels to sum by."""
    wrong = []
    for metric, chosen in re.findall(r"(storlab_\w+)(?:\{([^}]*)\})?", query):
        labels = exported.get(metric)
        if labels is None:
            wrong.append(metric)
            continue
        for label, content in re.findall(r'(\w+)=~?"([^"]*)"', chosen):
            if label not in labels or not (content.startswith("$") or set(content.split("|")) <= labels[label]):
                wrong.append(f"{metric}: {label}={content}")
        for label in re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))):
            if label not in labels and metric != "storlab_measured":
                wrong.append(f"{metric} by {label}")
    return wrong


@pytest.mark.parametrize("title", QUERIES)
def test_a_panel_asks_for_what_is_exported(exported, title):
    assert "storlab_" in QUERIES[title] and lacking(QUERIES[title], exported) == []


def test_what_is_not_exported_is_noticed(exported):
    query = 'max by (colour) (storlab_iops{testbed_id="$testbed", direction="trim", size="1"}) + storlab_speed'
    assert lacking(query, exported) == [
        "storlab_iops: direction=trim",
        "storlab_iops: size=1",
        "storlab_iops by colour",
        "storlab_speed",
    ]


def test_figures_are_of_points_that_were_measured():
    figures = {title: query for title, query in QUERIES.items() if "$workload" in query}
    assert len(figures) == 6
    assert {title for title, query in figures.items() if "(storlab_measured == 1)" not in query} == set()


def test_its_variables_are_those_that_it_uses():
    variables = DASHBOARD["templating"]["list"]
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(DASHBOARD)))
    assert used == {variable["name"] for variable in variables}
    assert [variable["name"] for variable in variables] == ["datasource", "testbed", "workload"]


def test_panels_lie_beside_each_other():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(QUERIES) == 10
    fields = [
        {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        for place in (panel["gridPos"] for panel in panels)
    ]
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(fields, 2))
    assert max(x for x, _y in set.union(*fields)) == 23
