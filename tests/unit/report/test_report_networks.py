# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network alone carried, on the report's page and in its files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    html_page,
    model,
    render,
    results_json,
    scrub,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture
from report_page import Page

LINK = {
    "host": "hypervisor01",
    "target": "target01",
    "address": "10.66.7.171",
    "started_utc": "2026-11-21T14:00:00Z",
    "seconds": 3.0,
    "streams": 4,
    "to_target_bits_s": 7_310_000_000,
    "from_target_bits_s": 6_420_000_000,
    "round_trip_ns": 53_100,
    "round_trip_least_ns": 41_000,
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 1, 2))


def section(page: str) -> str:
    return Page(page.partition('<section id="networks">')[2].partition("</section>")[0]).text


def test_a_run_without_links_has_no_section(stored):
    report = model.build(stored)
    page = html_page.html(report)
    assert 'id="networks"' not in page and 'href="#networks"' not in page
    assert "networks" not in json.loads("".join(results_json.results_json(report)))


def test_the_link_stands_with_the_layer_that_used_most_of_it(stored):
    report = model.build(replace(stored, networks=[LINK]))
    page = html_page.html(report)
    told = section(page)
    for words in ("target01 (10.66.7.171)", "7.31 Gbit/s", "6.42 Gbit/s", "53.1 µs"):
        assert words in told
    assert 'href="#networks"' in page
    (kept,) = json.loads("".join(results_json.results_json(report)))["networks"]
    over = [
        (8 * figures["bandwidth_bytes_s"].value / LINK[way], step.cell.layer)
        for waterfall in report.waterfalls
        for step in waterfall.steps
        if step.cell.host == "hypervisor01" and step.cell.kind in ("initiator", "datastore")
        for way, figures in (
            ("from_target_bits_s", step.cell.figures.get("read", {})),
            ("to_target_bits_s", step.cell.figures.get("write", {})),
        )
        if "bandwidth_bytes_s" in figures
    ]
    assert over and (kept["used"]["share"], kept["used"]["layer"]) == (pytest.approx(max(over)[0]), max(over)[1])
    assert max(over)[1] in told


def test_a_link_that_was_not_measured_says_why(stored):
    line = {key: LINK[key] for key in ("host", "target", "address", "started_utc")}
    report = model.build(replace(stored, networks=[{**line, "note": "port 7 was not reached"}]))
    assert "port 7 was not reached" in section(html_page.html(report))


def test_names_and_addresses_are_scrubbed(stored):
    named = replace(stored, networks=[{**LINK, "host": "vault-only-there"}])
    report = model.build(scrub.Pseudonyms([named]).run(named))
    for text in render.render(report).values():
        assert "vault-only-there" not in text and "10.66.7.171" not in text
