# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/molecule.md shows the files of the example as they are, and these use what there is. What Molecule and Ansible say of them: tests/integration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_pages
import world
import yaml
from places import ROOT

PAGE = (ROOT / "docs" / "molecule.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "acme_storage"
SCENARIOS = EXAMPLE / "extensions" / "molecule"
# What the inventories of the example name besides what the collection knows.
OWN = {"checkout", "esx_password"}


def shown(page: str) -> dict:
    """{path: text} of the blocks of YAML of a page that stand below the name of their file; the others by their number."""
    blocks = re.findall(r"(?:^`([^`\n]+)`:\n\n)?^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return {name or str(number): text for number, (name, text) in enumerate(blocks)}


def differing(page: str, example: Path) -> list:
    """Blocks of a page that are no file of the example, or not as it is."""
    return [
        name
        for name, text in shown(page).items()
        if not (example / name).is_file() or (example / name).read_text(encoding="utf-8") != f"---\n{text}"
    ]


def entries(value: object) -> list:
    """Each play and each task of a playbook or of a file of tasks."""
    if isinstance(value, list):
        return [entry for item in value for entry in entries(item)]
    if not isinstance(value, dict):
        return []
    inner = [value[key] for key in ("tasks", "block", "rescue", "always") if key in value]
    return [value, *entries(inner)]


def unknown(content: object) -> list:
    """What a playbook calls of this collection, or of the example, that there is not."""
    found = []
    for entry in entries(content):
        playbook = entry.get("ansible.builtin.import_playbook", "")
        if playbook and playbook.removeprefix("storlab.testbed.") not in test_pages.PLAYBOOKS:
            found.append(playbook)
        role = entry.get("ansible.builtin.include_role", {}).get("name", "acme.storage.read_ahead")
        if not (EXAMPLE / "roles" / role.removeprefix("acme.storage.") / "tasks/main.yml").is_file():
            found.append(role)
        # Arguments that are a variable as a whole are known only when it runs.
        given = {key: value if isinstance(value, dict) else {} for key, value in entry.items()}
        found += [fault for fault in test_pages.of_entry(given) if "missing required" not in fault]
    return found


def test_every_block_is_the_file_that_it_names():
    assert differing(PAGE, EXAMPLE) == []


def test_the_scenario_on_machines_is_shown_as_a_whole():
    files = {str(path.relative_to(EXAMPLE)) for path in (SCENARIOS / "default").rglob("*.yml")}
    assert len(files) == 9 and files <= shown(PAGE).keys()


def test_a_block_that_differs_is_noticed(tmp_path):
    (tmp_path / "a.yml").write_text("---\na: 1\n", encoding="utf-8")
    page = "`a.yml`:\n\n```yaml\na: {}\n```\n"
    assert differing(page.format(1), tmp_path) == []
    assert differing(page.format(2), tmp_path) == ["a.yml"]
    assert differing("So:\n\n```yaml\na: 1\n```\n", tmp_path) == ["0"]


@pytest.mark.parametrize("scenario", ["default", "stand_ins"])
def test_the_description_is_one_that_the_collection_knows(scenario):
    content = yaml.safe_load((SCENARIOS / scenario / "inventory/group_vars/all.yml").read_text(encoding="utf-8"))
    assert test_pages.faults({name: value for name, value in content.items() if name not in OWN}) == []


@pytest.mark.parametrize(
    "path",
    [path for pattern in ("**/molecule/*/*.yml", "roles/*/tasks/*.yml") for path in sorted(EXAMPLE.glob(pattern))],
    ids=lambda path: "-".join(path.parts[-2:]),
)
def test_playbooks_call_what_there_is(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, list) or path.name == "molecule.yml"
    assert unknown(content) == []


def test_what_there_is_not_is_noticed():
    wrong = [
        {"ansible.builtin.import_playbook": "storlab.testbed.biuld"},
        {"tasks": [{"block": [{"storlab.testbed.win_stat": None}, {"storlab.testbed.layer": {"state": "gone"}}]}]},
        {"tasks": [{"ansible.builtin.include_role": {"name": "acme.storage.nothing"}}]},
    ]
    biuld, stat, gone, nothing = unknown(wrong)
    assert biuld == "storlab.testbed.biuld" and stat == "there is no module storlab.testbed.win_stat"
    assert "gone" in gone and nothing == "acme.storage.nothing"


def test_scenarios_differ_only_where_the_page_says_so():
    for name in ("prepare.yml", "side_effect.yml"):
        texts = [
            re.sub(r"- name: .*", "", (SCENARIOS / scenario / name).read_text(encoding="utf-8"))
            for scenario in ("default", "stand_ins")
        ]
        assert texts[0] == texts[1]


def test_the_page_names_the_modules_that_the_stand_in_for_windows_answers():
    answered = {name.removeprefix("module_") for name in dir(world.Host) if name.startswith("module_")}
    assert set(re.findall(r"`(win_\w+|ping)`", PAGE)) == answered and len(answered) > 5
