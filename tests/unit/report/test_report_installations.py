# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installations of a run in its report. The run is SYNTHETIC."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render, scrub
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(synthetic_run.write_run(str(tmp_path), "chain", 1))


def files(folder: Path) -> dict:
    return render.render(model.build(load.read_run(str(folder))))


def change(folder: Path, file: str, **values) -> None:
    path = folder / "installations" / f"{file}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def rows(page: str) -> dict:
    """{guest: (figures, row)} of the table of installations."""
    table = page[page.index('id="installations"') :].partition("</table>")[0]
    found = {row.partition("<td")[0].rpartition(">")[2]: row for row in table.split("<tr")[2:]}
    return {
        guest: ([float(value) for value in re.findall(r'<data value="([^"]+)"', row)], row)
        for guest, row in found.items()
    }


def test_both_datastores_stand_beside_each_other(folder):
    made = files(folder)
    found = rows(made["index.html"])
    assert found["ram (simulated)"][0] == [512.25, 211.5, 381.5, 401.5, 24]
    assert found["raid (simulated)"][0] == [1490.5, 187, 357, 377, 73]
    assert (
        '<a href="../installations/samples/ram.json">' in found["ram (simulated)"][1]
        and "<em" not in found["ram (simulated)"][1]
    )
    assert "| raid (simulated) | lab-raid | 1490 s | 187 | 357 | 377 | \\[lab-raid\\] setup.iso |" in made["report.md"]
    assert [timed["duration_s"] for timed in json.loads(made["results.json"])["installations"]] == [1490.5, 512.25]


def test_what_was_not_counted_is_a_dash_and_what_was_changed_is_said(folder):
    change(folder, "ram", counters=None, counters_missed="It was too short.", simulated=False)
    (folder / "installations" / "samples" / "raid.json").write_text("{}")
    found = rows(files(folder)["index.html"])
    assert found["ram"][0] == [512.25] and found["ram"][1].count("absent") == 4
    assert "differs" in found["raid (simulated)"][1]


def test_files_are_looked_for_in_the_run_only(folder):
    change(folder, "ram", counters={"raw": {"file": "../../../secret.json", "sha256": "0"}})
    (folder.parents[2] / "secret.json").write_text("{}")
    row = rows(files(folder)["index.html"])["ram (simulated)"][1]
    assert "<a " not in row and "missing" in row


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "no json",
        '{"schema": "storlab.installation/1"}',
        json.dumps({"schema": "other/1", "guest": "x", "datastore": "y", "iso": "z", "ended_by": "w", "duration_s": 1}),
        json.dumps(
            {
                "schema": "storlab.installation/1",
                "guest": "x",
                "datastore": "y",
                "iso": "z",
                "ended_by": "w",
                "duration_s": "long",
            }
        ),
        json.dumps(
            {
                "schema": "storlab.installation/1",
                "guest": "x",
                "datastore": "y",
                "iso": "z",
                "ended_by": "w",
                "duration_s": 1,
                "counters": "none",
            }
        ),
    ],
)
def test_a_damaged_file_is_named_and_the_others_are_shown(folder, text):
    (folder / "installations" / "ram.json").write_text(text)
    run = load.read_run(str(folder))
    assert [timed["guest"] for timed in run.installations] == ["raid"]
    assert [entry["file"] for entry in run.damaged] == ["installations/ram.json"]


def test_a_run_without_installations_has_no_such_section(tmp_path):
    made = files(Path(make_fixture.write_run(str(tmp_path), 1, 1)))
    assert "installations" not in made["index.html"] and "Installations" not in made["report.md"]


def test_names_are_scrubbed_there_too(folder):
    change(
        folder,
        "ram",
        guest="grandmaster-xp",
        host="hypervisor01",
        vm={"name": f"storlab-{synthetic_run.TESTBED}-grandmaster-xp"},
    )
    run = load.read_run(str(folder))
    names = scrub.Pseudonyms([run])
    made = render.render(names.unlinked(model.build(names.run(run))))
    for text in made.values():
        assert "grandmaster" not in text and "../installations" not in text
    assert sorted(figures[0] for figures, _row in rows(made["index.html"]).values()) == [512.25, 1490.5]
