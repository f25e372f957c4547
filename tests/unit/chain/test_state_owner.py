# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two labs in one folder: each has a state of its own, or the second one is refused."""

from __future__ import annotations

import json
import shutil

import pytest
import show_testbed
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import new_lab, owner
from unchanged import unchanged

PAGE = "testbed_id: lab\ntestbed: {disks: [{name: bench, size: 64MiB}]}\n"
HOSTS = "targets: {hosts: {t1: {ansible_host: 192.0.2.11}}}\nclients: {hosts: {c1: {ansible_host: 192.0.2.21}}}\n"


def lab(folder, name: str):
    inventory = folder / name
    (inventory / "group_vars").mkdir(parents=True)
    (inventory / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    (inventory / "group_vars/all.yml").write_text(PAGE, encoding="utf-8")
    return inventory


@pytest.mark.ansible
def test_a_state_folder_of_another_inventory_is_refused_and_nothing_changes(tmp_path):
    labs = tmp_path / "labs"
    first, second = lab(labs, "first"), lab(labs, "second")
    # Looking at it makes nothing.
    assert show_testbed.run(second)[0] == 0 and not (labs / "lab-testbed").exists()
    assert show_testbed.run(first, "--check", playbook="check.yml")[0] == 0 and not (labs / "lab-testbed").exists()
    assert show_testbed.run(first, playbook="check.yml")[0] == 0
    state = labs / "lab-testbed/state"
    with unchanged(labs):
        for playbook in ("show.yml", "check.yml"):
            [sentence] = show_testbed.refusal(second, playbook=playbook)
            assert sentence.startswith(
                f"testbed_id is 'lab', whose state folder {state} belongs to the inventory {first}: "
            )
            assert str(state / "inventory.json") in sentence
    assert show_testbed.run(second, "-e", "testbed_id=lab-2", playbook="check.yml")[0] == 0
    # Both moved together, and with one more inventory beside: it is the same lab.
    moved = tmp_path / "moved"
    labs.rename(moved)
    more = moved / "more.yml"
    more.write_text("all: {vars: {benchmark_repetitions: 2}}\n", encoding="utf-8")
    assert show_testbed.run(moved / "first", "-i", str(more), playbook="check.yml")[0] == 0
    assert str(moved / "first") in show_testbed.refusal(moved / "second")[0]
    # An inventory that is gone owns nothing.
    shutil.rmtree(moved / "first")
    assert show_testbed.run(moved / "second", playbook="check.yml")[0] == 0
    kept = json.loads((moved / "lab-testbed/state/inventory.json").read_text())
    assert kept == {"inventories": ["../../second"]}


def test_files_side_by_side_are_inventories_of_their_own(tmp_path):
    for name in ("a.yml", "b.yml"):
        (tmp_path / name).touch()
    hosts = {
        "t1": {"inventory_file": str(tmp_path / "a.yml"), "inventory_dir": str(tmp_path)},
        "c1": {"inventory_file": str(tmp_path / "a.yml"), "inventory_dir": str(tmp_path)},
        "localhost": {"inventory_file": None, "inventory_dir": None},
    }
    state, paths = str(tmp_path / "state"), owner.inventories({"hostvars": hosts})
    assert paths == [str(tmp_path / "a.yml")]
    other = [str(tmp_path / "b.yml")]
    with unchanged(tmp_path):
        assert owner.problems(state, "lab", other) == []
        owner.claim(state, [])
    owner.claim(state, paths)
    with unchanged(tmp_path):
        owner.claim(state, other)
        assert len(owner.problems(state, "lab", other)) == 1
    assert owner.problems(state, "lab", [*other, *paths]) == owner.problems(state, "lab", []) == []
    # By another way to the same file it is the same inventory.
    (tmp_path / "link.yml").symlink_to(tmp_path / "a.yml")
    assert owner.problems(state, "lab", [str(tmp_path / "link.yml")]) == []


@pytest.mark.parametrize("content", ["", "7", "[]", "{}", '{"inventories": "x"}', '{"inventories": [7, ""]}'])
def test_a_damaged_file_names_no_owner(tmp_path, content):
    (tmp_path / owner.FILE).write_text(content, encoding="utf-8")
    assert owner.problems(str(tmp_path), "lab", [str(tmp_path)]) == []


ANSWERS = {"kind": "local", "target": "localhost"}


@pytest.mark.parametrize(
    ("path", "testbed_id"),
    [
        ("my_lab", "my-lab"),
        ("/labs/East Wing 2/", "east-wing-2"),
        ("labs/./b.lab", "b.lab"),
        ("-x-", "x"),
        ("a" * 40, "a" * 32),
        ("b" * 31 + "_c", "b" * 31),
        (None, "lab"),
    ],
)
def test_a_new_lab_is_named_after_its_folder(path, testbed_id):
    assert new_lab.answers({**ANSWERS, "path": path})["testbed_id"] == testbed_id
    assert f"testbed_id: {testbed_id}\n" in new_lab.compose({**ANSWERS, "path": path}, {})["group_vars/all.yml"]
    assert new_lab.answers({**ANSWERS, "path": path, "id": "mine"})["testbed_id"] == "mine"


@pytest.mark.parametrize("path", ["лаборатория", "..", "___"])
def test_a_folder_whose_name_makes_none_is_refused(path):
    with pytest.raises(Failure, match="new_lab_id"):
        new_lab.answers({**ANSWERS, "path": path})
