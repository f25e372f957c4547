# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an I/O costs on a file over what it costs on a whole LUN: which layers are compared, of which counters, and beside which published figure."""

from __future__ import annotations

import math
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import html_page, model, nouns, ratios, views
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.load import Run
from fixtures.report import make_fixture

RANDOM, SEQUENTIAL = (
    {"block_size_bytes": 4096, "random_percent": share, "read_percent": 100, "queue_depth": 16, "workers": 1}
    for share in (100, 0)
)
FIGURES = [
    {"metric": "cpu_cost_ratio", "value": 1.05, "unit": "ratio", "where": "there", "workload": {"random_percent": 100}},
    {"metric": "cpu_cost_ratio", "value": 1.08, "unit": "ratio", "where": "there", "workload": {"random_percent": 0}},
]


def layer(name, kind, host, parent, **detail):
    return {"name": name, "kind": kind, "host": host, "parent": parent, "path": "/dev/vdb", "detail": detail}


LAYERS = [
    layer("initiator-e3", "initiator", "h1", None),
    layer("initiator-e3-raw", "initiator", "h1", None),
    layer("datastore-e3", "datastore", "h1", "initiator-e3", provider="filesystem"),
    layer("guest-e3", "guest", "g1", "datastore-e3", provider="qemu"),
    layer("guest-e3-raw", "guest", "g1", "initiator-e3-raw", provider="qemu"),
]
ESXI = [
    layer("initiator-e3", "initiator", "esx1", None),
    layer("datastore-e3-vmfs", "datastore", "esx1", "initiator-e3", provider="vmfs"),
    layer("datastore-e3-rdm", "datastore", "esx1", "initiator-e3", provider="rdm"),
    layer("guest-e3-vmfs", "guest", "g1", "datastore-e3-vmfs", provider="esxi"),
    layer("guest-e3-rdm", "guest", "g1", "datastore-e3-rdm", provider="esxi"),
]
# {(layer, workload, repetition): cost}: pairwise distinct; the second repetition of the sequential ones lacks a side.
COSTS = {
    ("guest-e3", "rnd", 1): 53.0,
    ("guest-e3-raw", "rnd", 1): 50.0,
    ("guest-e3", "rnd", 2): 66.0,
    ("guest-e3-raw", "rnd", 2): 61.0,
    ("guest-e3", "rnd", 3): 44.0,
    ("guest-e3-raw", "rnd", 3): 43.0,
    ("guest-e3", "seq", 1): 27.0,
    ("guest-e3-raw", "seq", 1): 24.0,
    ("guest-e3", "seq", 2): 99.0,
}


def results(costs=COSTS, host="h1", metric="us_per_io"):
    part = make_fixture.from_bins(make_fixture.bins(400, 1e6, 0.5), 2, 4096)
    return [
        {
            "point_id": f"{name}.{workload}.r{repetition}",
            "layer": name,
            "layer_kind": "guest",
            "host": "g1",
            "path": "/dev/vdb",
            "workload_id": workload,
            "workload": RANDOM if workload == "rnd" else SEQUENTIAL,
            "repetition": repetition,
            "status": "measured",
            "failures": [],
            "flags": [],
            "files": {},
            "engine": {"name": "fio"},
            "started_utc": f"2026-11-23T05:00:0{repetition}Z",
            "read": part,
            # What the guest itself counted, and what a host counted that has nothing to do with it, are other figures.
            "cpu": {"us_per_io": 7.0 * repetition},
            "counters": {"hosts": {host: {"cpu": {metric: cost}}, "t1": {"cpu": {metric: 3.0 + cost * repetition}}}},
        }
        for (name, workload, repetition), cost in costs.items()
    ]


def test_the_ratio_is_the_geometric_mean_of_pairs_with_the_interval_of_student():
    (found,) = ratios.ratios(LAYERS, results(), {"rnd"})
    logs = [math.log(53 / 50), math.log(66 / 61), math.log(44 / 43)]
    # The 97.5th percentile of Student's t with 2 degrees of freedom, from a table.
    reach = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    assert (found.on_files, found.whole, found.metric, found.pairs) == ("guest-e3", "guest-e3-raw", "us_per_io", 3)
    assert found.value == pytest.approx(math.exp(statistics.fmean(logs)))
    wanted = [math.exp(statistics.fmean(logs) + sign * reach) for sign in (-1, 1)]
    assert list(found.between) == pytest.approx(wanted, rel=1e-5)


def test_a_single_pair_has_no_interval_and_half_a_pair_is_none():
    (found,) = ratios.ratios(LAYERS, results(), {"seq"})
    assert (found.value, found.between, found.pairs) == (pytest.approx(27 / 24), None, 1)
    assert ratios.ratios(LAYERS, results(), {"other"}) == []


def test_on_esxi_a_mapped_lun_is_the_whole_one_and_the_machine_counts():
    names = {"guest-e3": "guest-e3-vmfs", "guest-e3-raw": "guest-e3-rdm"}
    costs = {(names[name], *rest): cost for (name, *rest), cost in COSTS.items()}
    (found,) = ratios.ratios(ESXI, results(costs, "esx1", "vm_mhz_per_iops"), {"rnd", "seq"})
    assert (found.on_files, found.whole, found.metric) == ("guest-e3-vmfs", "guest-e3-rdm", "vm_mhz_per_iops")
    assert found.pairs == 4


@pytest.mark.parametrize(
    "layers",
    [
        LAYERS[:4],
        [*LAYERS[:4], {**LAYERS[4], "host": "g2"}],
        # Of a layer whose parent nobody knows, nobody knows what it is.
        [*LAYERS[:4], {**LAYERS[4], "parent": "initiator-gone"}],
        [{**one, "detail": {"provider": "rdm"}} if one["name"] == "datastore-e3" else one for one in LAYERS],
    ],
)
def test_there_is_no_ratio_without_both_sides_in_one_guest(layers):
    assert ratios.ratios(layers, results(), {"rnd"}) == []


def measured(figures=FIGURES) -> nouns.Report:
    """The report of a run whose profile has these published figures."""
    asked = {"requests": [{"profile": {"name": "e3", "published": figures}}]}
    layers = {one["name"]: {**one, "purpose": "scratch", "size_bytes": 1 << 20, "identity": {}} for one in LAYERS}
    run = Run(folder="", testbed_id="e3", run_id="r", record=asked, results=results(), layers=layers, environments={})
    return model.build(run)


def test_the_published_ratio_stands_beside_the_measured_one_of_its_workloads():
    report = measured()
    table = views.published.table(report, views.base.Choices(report))
    names = [name for name, _number in table.head[1:]]
    random, sequential = (dict(zip(names, fields)) for _css, _first, fields in table.rows)
    assert [first for _css, first, _fields in table.rows] == ["CPU cost per I/O on a file relative to a whole LUN"] * 2
    logs = [math.log(53 / 50), math.log(66 / 61), math.log(44 / 43)]
    assert random["guest-e3"].value == pytest.approx(math.exp(statistics.fmean(logs)))
    assert "to guest-e3-raw, 3 pairs, CPU time of the hypervisor" in random["guest-e3"].text
    assert random["Published"].text == "1.05" and random["guest-e3-raw"].value is None
    assert sequential["Published"].text == "1.08"
    assert sequential["guest-e3"].text.startswith("1.12 (no interval) to guest-e3-raw, 1 pair,")
    assert "1.12 (no interval) to guest-e3-raw" in html_page.html(report)
