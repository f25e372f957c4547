# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference beat on the report's page: each host over the rounds, and a sentence where the host itself changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    html_page,
    markdown,
    model,
    nouns,
    render,
    results_json,
    scrub,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture
from report_page import Page

STEADY = [2_001_000, 1_990_000, 2_010_000, 1_998_000, 2_004_000, 1_996_000]
FALLING = [2_000_000, 1_930_000, 1_880_000, 1_790_000, 1_740_000, 1_670_000]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 1, 2))


def lines(host: str, values: list) -> list:
    return [
        {
            "host": host,
            "round": number,
            "started_utc": f"2026-11-21T14:{number:02}:00Z",
            "null_iops": value,
            "memory_copy_bytes_s": 8_100_000_000,
        }
        for number, value in enumerate(values, start=1)
    ]


def built(stored, beats: list) -> nouns.Report:
    return model.build(replace(stored, beats=beats))


def section(page: str) -> str:
    """The words of the section, empty where the page has none."""
    return Page(page.partition('<section id="beats">')[2].partition("</section>")[0]).text


def test_a_run_without_beats_has_no_section(stored):
    report = built(stored, [])
    page = html_page.html(report)
    assert 'id="beats"' not in page and 'href="#beats"' not in page
    assert "beats" not in json.loads("".join(results_json.results_json(report)))


def test_a_host_that_became_slower_is_said_in_every_form(stored):
    report = built(stored, [*lines("target01", STEADY), *lines("hypervisor01", FALLING)])
    said = "hypervisor01 itself became slower while the run was measured: fio's null engine issued 1"
    warned = [flag["text"] for flag in report.flags if flag["level"] == "warning" and "itself became" in flag["text"]]
    assert len(warned) == 1 and warned[0].startswith(said)
    page = html_page.html(report)
    assert said in section(page) and 'href="#beats"' in page
    assert said in markdown.markdown(report).replace("\\", "")
    kept = json.loads("".join(results_json.results_json(report)))["beats"]
    assert {(one["host"], one["figure"]): one["verdict"] for one in kept} == {
        ("target01", "null_iops"): "steady",
        ("target01", "memory_copy_bytes_s"): "steady",
        ("hypervisor01", "null_iops"): "slower",
        ("hypervisor01", "memory_copy_bytes_s"): "steady",
    }


def test_hosts_that_stood_still_are_said_to_have(stored):
    report = built(stored, lines("target01", STEADY))
    assert not any("itself became" in flag["text"] for flag in report.flags)
    words = section(html_page.html(report))
    assert "No host became slower or faster than its own spread allows." in words
    assert "no trend" in words and "8,100 MB/s" in words


def test_few_rounds_tell_nothing(stored):
    words = section(html_page.html(built(stored, lines("target01", FALLING[:3]))))
    assert "At least 4 rounds are needed" in words and "too few rounds" in words and "No host became" not in words


def test_what_was_not_played_is_said_once_a_host(stored):
    note = "fio's null engine was not measured: fio says <b>no</b>"
    beats = [{"host": "guest01", "note": "no beat is played on Windows hosts"}] + [
        {"host": "target01", "round": number, "started_utc": "x", "note": note, "memory_copy_bytes_s": 7e9}
        for number in (1, 2)
    ]
    report = built(stored, beats)
    page = html_page.html(report)
    assert page.count("&lt;b&gt;no&lt;/b&gt;") == 1 and "<b>no</b>" not in page
    assert "guest01: no beat is played on Windows hosts." in section(page)
    assert markdown.markdown(report).count("Reference check of ") == 2


def test_no_host_is_named_in_a_scrubbed_report(stored):
    named = replace(stored, beats=lines("vault-only-in-beats", FALLING))
    report = model.build(scrub.Pseudonyms([named]).run(named))
    for text in render.render(report).values():
        assert "vault-only-in-beats" not in text
    assert any("itself became slower" in flag["text"] for flag in report.flags)
