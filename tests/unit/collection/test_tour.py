# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour: its pictures are of its commands, and what it shows is what the commands take."""

from __future__ import annotations

import re
from pathlib import Path

import pictures
import play_tour
import pytest
import show_testbed
import yaml
from places import ROOT

TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "docs" / "examples" / "tour"


def test_every_picture_of_the_tour_is_there_and_has_its_command():
    named = re.findall(r"!\[[^]]+\]\(img/([\w-]+\.\w+)\)", TOUR)
    assert len(named) >= 7
    assert [name for name in named if not (ROOT / "docs" / "img" / name).is_file()] == []
    assert [name for name in named if name.endswith(".svg") and name[:-4] not in pictures.shown(TOUR)] == []
    for name, command in pictures.shown(TOUR).items():
        drawing = (ROOT / "docs" / "img" / f"{name}.svg").read_text(encoding="utf-8")
        typed = re.sub(r"&#160;|\s", "", re.sub(r"<[^>]+>", "", drawing)).replace("&#x27;", "'")
        assert re.sub(r"\s", "", f"$ {command}") in typed, name


def test_the_tour_shows_the_files_that_its_commands_take():
    blocks = re.findall(r"^```yaml\n(.*?)^```", TOUR, re.DOTALL | re.MULTILINE)
    shown = [
        yaml.safe_load(part) for block in blocks for part in re.split(r"^# inventory/.*$", block, flags=re.MULTILINE)
    ]
    files = ("inventory/hosts.yml", "inventory/group_vars/all.yml", "verdict.yml")
    taken = [yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8")) for name in files]
    assert [document for document in shown if document] == taken
    assert "-e @tour/verdict.yml" in TOUR and "-i tour/inventory" in TOUR


def test_all_commands_of_the_tour_are_played_and_two_of_them_otherwise_than_shown():
    blocks = play_tour.blocks(TOUR)
    played = [play_tour.played(block, Path("/a b/c.tar.gz")) for block in blocks]
    assert [(one, other) for one, other in zip(blocks[1:], played[1:]) if one != other] == []
    assert played[0].splitlines() == [
        "apt-get -qq -y install fio",
        "python3 -m venv venv && . venv/bin/activate",
        "pip install ansible-core",
        "ansible-galaxy collection install --no-deps --offline '/a b/c.tar.gz'",
    ]
    # Files that the page shows are no commands, and the playbooks are all there.
    assert not any("benchmark_workloads" in block or "testbed_baseline" in block for block in blocks)
    names = re.findall(r"storlab\.testbed\.(\w+)", "\n".join(blocks[1:]))
    assert names == ["show", "doctor", "build", "benchmark", "report", "compare", "site", "teardown", "verify_clean"]


def test_a_tour_says_what_its_reader_misses(tmp_path):
    results = tmp_path / "tour" / "tour-testbed" / "results" / "tour"
    (results / "one" / "report").mkdir(parents=True)
    (results / "one" / "report" / "index.html").write_text("")
    before = play_tour.mounts()
    wrong = play_tour.problems(tmp_path, before - {"/"})
    assert [sentence.removeprefix(f"{results} has no ") for sentence in wrong] == [
        "*/report/results.csv.",
        "index.html.",
        "compare/*/index.html.",
        "/ is still mounted.",
    ]


def test_a_tour_refuses_a_picture_that_the_page_does_not_have_and_a_folder_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(play_tour, "MEASURED", tmp_path)
    assert "has no picture tour-none. It has tour-build, " in play_tour.play(tmp_path / "a", ["tour-none"])[0]
    assert "Move it away" in play_tour.play(tmp_path / "a", ["tour-show"])[0]
    assert tmp_path.is_dir()


@pytest.mark.ansible
def test_the_example_of_the_tour_is_a_testbed_that_is_only_read():
    expansion = show_testbed.expansion(EXAMPLES / "inventory", "-e", "testbed_state_dir=/nowhere/state")
    [layer] = [layer for layer in expansion["layers"] if layer["kind"] != "ceiling"]
    assert (layer["name"], layer["host"], layer["purpose"]) == ("datastore-data", "here", "read")


def test_pictures_of_pages_are_small():
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "img").iterdir()}
    assert {name: size for name, size in sizes.items() if size > 200_000} == {}


def test_terminals_of_pictures_have_no_line_break_as_text():
    for path in (ROOT / "docs" / "img").glob("*.svg"):
        assert "\\n" not in path.read_text(encoding="utf-8"), path.name
