# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection of docs/molecule.md beside the built and installed artefact, as somebody has it who copies it from there: all that needs no machine."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml
from built_collection import build, install, run

SCENARIOS = {"default": ["controller01", "hypervisor01", "target01"], "stand_ins": ["esx01", "win01", "win02"]}
SEQUENCE = ["destroy", "syntax", "create", "prepare", "converge", "idempotence", "verify", "side_effect", "destroy"]


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collections")
    return install(build(root, tmp_path_factory.mktemp("artifact")), folder)


@pytest.fixture
def copy(installed):
    """The example in an empty folder of its own beside the artefact."""
    folder = installed / "ansible_collections/acme/storage"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(installed / "ansible_collections/storlab/testbed/docs/examples/acme_storage", folder)
    return folder


@pytest.fixture
def molecule(root, copy, tmp_path):
    def call(*arguments):
        # What Molecule remembers of other runs lies there, by the name of the folder.
        environment = {"ANSIBLE_HOME": str(tmp_path / "ansible"), "NO_COLOR": "1"}
        return run(copy, "molecule", *arguments, check=False, STORLAB_CHECKOUT=str(root), **environment)

    return call


@pytest.fixture
def play(copy, installed):
    def call(scenario, *arguments, **environment):
        folder = copy / "extensions/molecule" / scenario
        environment = {"ANSIBLE_COLLECTIONS_PATH": str(installed), "ANSIBLE_LOCALHOST_WARNING": "false", **environment}
        return run(copy, "ansible-playbook", "-i", folder / "inventory", *arguments, check=False, **environment)

    return call


def test_molecule_takes_both_scenarios(molecule):
    answer = molecule("list", "--format", "yaml")
    assert answer.returncode == 0, answer.stderr
    listed = [(entry["Instance Name"], entry["Scenario Name"]) for entry in yaml.safe_load(answer.stdout)]
    assert sorted(listed) == sorted((host, name) for name, hosts in SCENARIOS.items() for host in hosts)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_step_of_a_scenario_is_skipped_for_want_of_its_playbook(molecule, copy, scenario):
    answer = molecule("matrix", "--scenario-name", scenario, "test")
    assert answer.returncode == 0, answer.stderr
    steps = re.findall(r"[├└]─ (\w+) (.*)", answer.stdout)
    # The stand-ins' scenario changes nothing that a second run could change again.
    sequence = [step for step in SEQUENCE if scenario == "default" or step != "idempotence"]
    assert [step for step, _playbook in steps] == sequence
    folder = copy / "extensions/molecule" / scenario
    # These two run converge.yml.
    own = {step for step in sequence if step not in ("syntax", "idempotence")}
    assert {step: playbook for step, playbook in steps if step in own} == {
        step: str(folder / f"{step}.yml") for step in own
    }
    assert {path.stem for path in folder.glob("*.yml")} == own | {"molecule"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_molecule_checks_the_syntax(molecule, scenario):
    answer = molecule("syntax", "--scenario-name", scenario)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_playbook_passes_the_syntax_check(play, copy, scenario):
    books = [path for path in (copy / "extensions/molecule" / scenario).glob("*.yml") if path.stem != "molecule"]
    answer = play(scenario, "--syntax-check", *sorted(books))
    assert answer.returncode == 0, answer.stderr


def test_a_playbook_that_the_artefact_does_not_have_is_noticed(play, copy):
    book = copy / "extensions/molecule/default/prepare.yml"
    book.write_text(book.read_text(encoding="utf-8").replace("storlab.testbed.build", "storlab.testbed.biuld"))
    answer = play("default", "--syntax-check", book)
    assert answer.returncode != 0 and "biuld" in answer.stderr


@pytest.mark.parametrize(
    ("scenario", "disks"), [("default", {"bench": 32, "other": 32}), ("stand_ins", {"bench": 64})], ids=SCENARIOS
)
def test_the_inventory_is_accepted_and_keeps_to_its_own_folders(play, copy, scenario, disks):
    answer = play(scenario, "storlab.testbed.show", ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    document = json.JSONDecoder().raw_decode(answer.stdout[answer.stdout.index("{") :])[0]
    result = document["plays"][0]["tasks"][0]["hosts"]["localhost"]
    assert answer.returncode == 0, result.get("msg")
    target, initiator = ("win01", "win02") if scenario == "stand_ins" else ("target01", "hypervisor01")
    hosts = {"backing": target, "target": target, "initiator": initiator}
    assert {(layer["name"], layer["host"]) for layer in result["layers"]} >= {
        (f"{kind}-{name}", hosts[kind]) for kind in ("backing", "initiator") for name in disks
    }
    assert f"RAM disk, {next(iter(disks.values()))} MiB" in "\n".join(result["drawing"])
    home = copy / "extensions/molecule" / scenario / ".lab"
    assert (result["state_dir"], result["results_dir"]) == (str(home / "state"), str(home / "results"))
    # Left out of the repository and of the artefact of whoever copies the example.
    assert (copy / ".gitignore").read_text(encoding="utf-8") == ".lab/\n" and not home.exists()


def test_a_wrong_inventory_is_refused(play, copy):
    path = copy / "extensions/molecule/default/inventory/group_vars/all.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("name: other, size", "name: other, siez"))
    answer = play("default", "storlab.testbed.show")
    assert answer.returncode != 0 and "siez" in answer.stdout + answer.stderr


@pytest.mark.long
def test_the_scenario_of_the_stand_ins_runs_to_its_end(molecule, copy):
    """Against the stand-ins of this checkout, with the plugins of the artefact; the scenario of the machines needs QEMU and is run by hand."""
    answer = molecule("test", "--scenario-name", "stand_ins")
    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr[-2000:]
    assert "Missing playbook" not in answer.stdout + answer.stderr
    assert not (copy / "extensions/molecule/stand_ins/.lab").exists()


@pytest.mark.long
def test_a_role_that_does_not_do_its_work_fails_the_scenario_and_leaves_no_stand_in(molecule, copy):
    role = copy / "roles/storage_policy/tasks/main.yml"
    role.write_text("---\n- name: Refuse nothing\n  ansible.builtin.debug:\n", encoding="utf-8")
    answer = molecule("test", "--scenario-name", "stand_ins")
    assert answer.returncode != 0 and "It went unnoticed." in answer.stdout + answer.stderr
    assert not (copy / "extensions/molecule/stand_ins/.lab").exists()


def test_what_is_built_of_the_example_is_its_roles(copy, tmp_path):
    run(copy, "ansible-galaxy", "collection", "build", "--output-path", tmp_path)
    assert [path.name for path in tmp_path.glob("*.tar.gz")] == ["acme-storage-1.0.0.tar.gz"]
