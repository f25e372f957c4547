# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every role: the argument specification says what the defaults are, and the variables are the role's own."""

from __future__ import annotations

import re
from pathlib import Path

import places
import pytest
import yaml

ROLES = sorted(path for path in (places.ROOT / "roles").iterdir() if path.is_dir())


def load(path: Path):
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def options(role: Path) -> dict:
    return load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_equal_the_argument_specification(role):
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert load(role / "defaults" / "main.yml") == specified


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_required_or_has_a_default(role):
    assert [
        name for name, option in options(role).items() if not option.get("required") and "default" not in option
    ] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_options_are_described_and_carry_the_roles_name(role):
    for name, option in options(role).items():
        assert name.startswith(f"{role.name}_"), name
        assert option.get("description"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_has_states(role):
    states = options(role)[f"{role.name}_state"]["choices"]
    assert states[:2] == ["present", "absent"]
    for state in states:
        assert (role / "tasks" / f"{state}.yml").is_file()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_uses_only_its_own_variables(role):
    """No groups, no hostvars, no facts as variables, no other role's or the lab's variables."""
    names = "|".join(other.name for other in ROLES if other != role)
    foreign = re.compile(rf"\b(?:groups|hostvars)\b|(?<![\w.])(?:__)?(?:testbed|{names})_[a-z]\w*(?=[ |}}\[.])")
    for path in (
        sorted(role.glob("tasks/*.yml")) + sorted(role.glob("handlers/*.yml")) + sorted(role.glob("vars/*.yml"))
    ):
        for expression in re.findall(
            r"\{\{.*?\}\}|(?:when|that|until|failed_when|changed_when):.*", path.read_text(encoding="utf-8"), re.S
        ):
            assert not foreign.search(expression), f"{path}: {expression}"
            assert not re.search(
                r"\bansible_(?!facts|check_mode|diff_mode|loop|play_hosts_all|playbook_python|version)\w+", expression
            ), f"{path}: {expression}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_calls_no_role(role):
    for path in role.glob("tasks/*.yml"):
        assert not re.search(r"\b(?:include|import)_role\b", path.read_text(encoding="utf-8")), path


def loops_over_guests(tasks: object) -> list[str]:
    """The loops of tasks over whole descriptions of guests, at any depth."""
    if isinstance(tasks, list):
        return [loop for task in tasks for loop in loops_over_guests(task)]
    if not isinstance(tasks, dict):
        return []
    own = str(tasks.get("loop", ""))
    bad = re.search(r"_guests\b", own) and not re.search(r"map\(attribute='name'\)\s*\}\}", own)
    return [*([own] if bad else []), *(loop for part in tasks.values() for loop in loops_over_guests(part))]


def test_no_loop_gives_the_secrets_of_guests_to_callbacks():
    """Callbacks write down the items of a loop, and a guest's description has the password of its answer file."""
    whole = {"block": [{"loop": "{{ guest_vm_guests }}"}, {"loop": "{{ guest_vm_guests | map(attribute='name') }}"}]}
    assert loops_over_guests([whole]) == ["{{ guest_vm_guests }}"]
    books = [*(places.ROOT / "playbooks").rglob("*.yml"), *(places.ROOT / "roles").glob("*/tasks/*.yml")]
    assert len(books) > 100
    assert {book.name: loops for book in books if (loops := loops_over_guests(load(book)))} == {}
