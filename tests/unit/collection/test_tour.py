# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tour: its pictures are of its commands, and what it shows is what the commands take."""

from __future__ import annotations

import re

import pictures
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
