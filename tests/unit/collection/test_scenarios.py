# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every molecule scenario drives the playbooks that users run; scenarios differ by their inventory, their variables and their checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from places import ROOT

MOLECULE = ROOT / "molecule"
SCENARIOS = sorted(path.parent.name for path in MOLECULE.glob("*/molecule.yml"))
# Makes and takes away the machines of the others, by the shipped playbook embedded_lab.yml; it has no testbed.
MACHINES = "default"
# Runs the commands of a page instead, which call the shipped playbooks by their names.
PAGE = "first_lab"
# Run what a stranger with the built artefact runs on storage that was there, by the names of the playbooks.
STRANGERS = ("existing", "existing_guests", "existing_whole")
# Run a published experiment, which builds and takes down its testbeds itself.
EXPERIMENTS = [name for name in SCENARIOS if re.fullmatch(r"e[0-9]+", name)]
OTHERS = [name for name in SCENARIOS if name not in (MACHINES, PAGE, *STRANGERS, *EXPERIMENTS)]
# The step of a scenario, and the shipped playbooks that it must consist of.
STEPS = {"converge.yml": {"build.yml"}, "cleanup.yml": {"teardown.yml", "verify_clean.yml"}}
# What a scenario must run in whatever step. WITHOUT: `make test` has a lab check of stand-ins, and on machines most scenarios that it leaves out have one.
ANYWHERE = {"lab_check.yml"}
WITHOUT = {"bystanders", "engine"}


def plays(path: Path) -> list:
    """The plays of a playbook and of those beside it that it imports; an import of a shipped playbook stays as it is."""
    entries: list = []
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else []
    # A file of variables beside the playbooks has no plays.
    for play in content if isinstance(content, list) else []:
        target = play.get("ansible.builtin.import_playbook")
        if target and "playbooks" not in Path(target).parts:
            entries += plays((path.parent / target).resolve())
        else:
            entries.append(play)
    return entries


def shipped(path: Path) -> set:
    """Names of the shipped playbooks that a playbook of a scenario imports."""
    return {
        Path(play["ansible.builtin.import_playbook"]).name
        for play in plays(path)
        if "ansible.builtin.import_playbook" in play
    }


def roles_called(value: object) -> list:
    """The collection's roles that are called anywhere in plays or tasks."""
    if isinstance(value, list):
        return [name for item in value for name in roles_called(item)]
    if not isinstance(value, dict):
        return []
    called = [
        value[key]["name"]
        for key in ("ansible.builtin.include_role", "ansible.builtin.import_role")
        if isinstance(value.get(key), dict)
    ]
    return called + [name for item in value.values() for name in roles_called(item)]


def deviations(folder: Path) -> list:
    """What a scenario does itself of what the shipped playbooks are there for; empty when it only uses them."""
    found = []
    for step, needed in STEPS.items():
        path = folder / step
        found += [f"{step} does not run {name}" for name in sorted(needed - shipped(path))]
        found += [f"{step} calls the role {name}" for name in roles_called(plays(path))]
    return found


def called(path: Path) -> set:
    """Names of the shipped playbooks that a playbook of a scenario runs as users do, by ansible-playbook."""
    return set(re.findall(r"'/playbooks/(\w+\.yml)'", path.read_text(encoding="utf-8")))


def missing(folder: Path) -> list:
    """The shipped playbooks that no step of a scenario runs."""
    run = {name for path in folder.glob("*.yml") for name in shipped(path) | called(path)}
    return [f"no step runs {name}" for name in sorted(ANYWHERE - run)]


def named_files(value: object) -> list:
    """The files that plays and tasks name, as they name them; not those whose names are worked out."""
    if isinstance(value, list):
        return [name for item in value for name in named_files(item)]
    if not isinstance(value, dict):
        return []
    named = list(value.get("vars_files", []))
    for key in ("import_playbook", "include_tasks", "import_tasks"):
        target = value.get(f"ansible.builtin.{key}")
        named += [target["file"] if isinstance(target, dict) else target] if target else []
    return named + [name for item in value.values() for name in named_files(item)]


def lost_files(folder: Path) -> list:
    """What the playbooks of a scenario name and is not there."""
    found = []
    for path in sorted(folder.glob("*.yml")):
        named = [name for name in named_files(yaml.safe_load(path.read_text(encoding="utf-8"))) if "{{" not in name]
        found += [f"{path.name} names {name}" for name in named if not (folder / name).exists()]
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_scenarios_name_is_there(scenario):
    assert lost_files(MOLECULE / scenario) == []


def test_a_file_that_is_not_there_is_noticed(tmp_path):
    (tmp_path / "converge.yml").write_text(
        "- hosts: all\n  vars_files: [vars.yml, '{{ other }}.yml']\n  tasks:\n    - block:\n"
        "        - ansible.builtin.include_tasks: {file: tasks/a.yml}\n        - ansible.builtin.include_tasks: b.yml\n"
        "- ansible.builtin.import_playbook: ../build.yml\n"
    )
    (tmp_path / "b.yml").write_text("[]")
    assert lost_files(tmp_path) == [
        "converge.yml names vars.yml",
        "converge.yml names tasks/a.yml",
        "converge.yml names ../build.yml",
    ]


@pytest.mark.parametrize("scenario", OTHERS)
def test_scenarios_drive_the_shipped_playbooks(scenario):
    assert deviations(MOLECULE / scenario) == []


@pytest.mark.parametrize("scenario", [name for name in OTHERS if name not in WITHOUT])
def test_scenarios_run_the_lab_check(scenario):
    assert missing(MOLECULE / scenario) == []


def test_the_scenario_of_the_first_page_runs_all_of_its_commands_and_nothing_else():
    page = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    named = re.findall(r"^ansible-playbook (?:-i my_lab )?storlab[.]testbed[.](\w+)", page, re.MULTILINE)
    # One of both ways to call it asks questions.
    assert named.count("new_lab") == 2 and {"site", "teardown", "verify_clean"} < set(named)
    steps = yaml.safe_load((MOLECULE / PAGE / "vars.yml").read_text(encoding="utf-8"))["first_lab_steps"]
    assert steps["converge"] + steps["cleanup"] == list(dict.fromkeys(named))
    assert all((ROOT / "playbooks" / f"{name}.yml").exists() for name in named)
    for step in steps:
        content = plays(MOLECULE / PAGE / f"{step}.yml")
        assert roles_called(content) == [] and content[0]["vars"] == {"first_lab_step": step}
        included = [task["ansible.builtin.include_tasks"] for task in content[0]["tasks"] if len(task) == 2]
        assert included[-1] == "tasks/commands.yml"


@pytest.mark.parametrize("scenario", EXPERIMENTS)
def test_the_scenario_of_an_experiment_runs_it_as_users_do_with_less_of_everything(scenario):
    content = plays(MOLECULE / scenario / "converge.yml")
    assert [list(play) for play in content] == [["name", "ansible.builtin.import_playbook"]]
    assert shipped(MOLECULE / scenario / "converge.yml") == {"all.yml"}
    quick = yaml.safe_load((MOLECULE / scenario / "vars.yml").read_text(encoding="utf-8"))
    assert quick["testbed_experiments"] == [scenario] and f"/molecule-{scenario}/" in quick["testbed_results_dir"]
    assert quick.keys() - {"testbed_experiments", "testbed_results_dir"} == {f"testbed_{scenario}"}


def test_every_experiment_has_a_scenario_that_make_test_leaves_out():
    playbook = yaml.safe_load((ROOT / "playbooks/experiments/all.yml").read_text(encoding="utf-8"))
    named = next(play["vars"]["__experiments"] for play in playbook if "__experiments" in play.get("vars", {}))
    assert sorted(experiment["name"] for experiment in named) == EXPERIMENTS
    (left_out,) = re.findall(r"^LEFT_OUT := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(EXPERIMENTS) < set(left_out.split()) <= set(SCENARIOS)


def test_every_playbook_of_a_testbeds_life_is_driven_by_a_scenario():
    driven = set()
    for path in MOLECULE.glob("*/*.yml"):
        driven |= shipped(path)
    needed = {"build.yml", "teardown.yml", "rebuild.yml", "verify_clean.yml", "lab_check.yml", "embedded_lab.yml"}
    assert needed - driven == set()


def test_the_scenarios_are_found():
    assert set(SCENARIOS) >= {MACHINES, "chain", "engine", "esxi", "iscsi", "ramdisk", "windows"}


def test_a_scenario_with_a_sequence_of_its_own_is_noticed(tmp_path):
    (tmp_path / "converge.yml").write_text(
        "- ansible.builtin.import_playbook: ../../playbooks/build.yml\n"
        "- hosts: all\n  tasks:\n    - block:\n        - ansible.builtin.include_role: {name: storlab.testbed.raid}\n"
    )
    (tmp_path / "cleanup.yml").write_text("- ansible.builtin.import_playbook: more.yml\n")
    (tmp_path / "more.yml").write_text("- ansible.builtin.import_playbook: ../../playbooks/teardown.yml\n")
    assert deviations(tmp_path) == [
        "converge.yml calls the role storlab.testbed.raid",
        "cleanup.yml does not run verify_clean.yml",
    ]
    assert missing(tmp_path) == ["no step runs lab_check.yml"]


def test_a_scenario_may_share_a_playbook_with_others(tmp_path):
    scenario, common = tmp_path / "one", tmp_path / "common"
    scenario.mkdir()
    common.mkdir()
    shared = ["build.yml", "teardown.yml", "verify_clean.yml", "lab_check.yml"]
    (common / "all.yml").write_text(
        "".join(f"- ansible.builtin.import_playbook: ../../playbooks/{name}\n" for name in shared)
    )
    for step in ("converge.yml", "cleanup.yml"):
        (scenario / step).write_text("- ansible.builtin.import_playbook: ../common/all.yml\n")
    assert deviations(scenario) == missing(scenario) == []
