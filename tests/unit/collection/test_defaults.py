# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A default that a role hands to a module is the module's own, so that neither changes alone."""

from __future__ import annotations

import re
from pathlib import Path

import places
import pytest
import yaml
from test_documentation import MODULES, documented

ROLES = sorted(path for path in (places.ROOT / "roles").iterdir() if path.is_dir())
OPTIONS = {path.stem: documented(path)["DOCUMENTATION"].get("options") or {} for path in MODULES}
PASSED = re.compile(r"\{\{ (\w+) \}\}")
# Where the two differ, and why.
DIFFERENT = {
    ("embedded_lab_install_packages", "lab_preflight", "install_packages"): "the module alone installs nothing unasked",
    ("ramdisk_provider", "win_ramdisk", "provider"): "the role is of two platforms, and auto is a word of Linux",
}


def load(path: Path):
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def tasks(items: list | None):
    for item in items or []:
        for key in ("block", "rescue", "always"):
            yield from tasks(item.get(key))
        yield item


def handed(role: Path) -> dict:
    """{(variable, module, option): (the role's default, the module's)} of variables that are handed on as they are."""
    defaults, found = load(role / "defaults" / "main.yml") or {}, {}
    for path in sorted((role / "tasks").glob("*.yml")):
        for task in tasks(load(path)):
            for name, arguments in task.items():
                options = OPTIONS.get(name.removeprefix("storlab.testbed."), {}) if isinstance(arguments, dict) else {}
                for option in set(options) & set(arguments if isinstance(arguments, dict) else ()):
                    passed = PASSED.fullmatch(str(arguments[option]))
                    if passed and passed[1] in defaults and "default" in options[option]:
                        key = (passed[1], name.removeprefix("storlab.testbed."), option)
                        found[key] = (defaults[passed[1]], options[option]["default"])
    return found


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_and_its_module_have_the_same_default(role):
    unlike = {key: values for key, values in handed(role).items() if values[0] != values[1]}
    of_role = {key: reason for key, reason in DIFFERENT.items() if key[0].startswith(f"{role.name}_")}
    assert sorted(unlike) == sorted(of_role)


def test_defaults_that_are_handed_on_are_found(tmp_path):
    for name, text in {
        "defaults/main.yml": "x_provider: zram\nx_other: 1\n",
        "tasks/present.yml": "- block:\n    - storlab.testbed.ramdisk:\n        provider: '{{ x_provider }}'\n        state: '{{ x_other + 1 }}'\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert handed(tmp_path) == {("x_provider", "ramdisk", "provider"): ("zram", "auto")}
    assert sum(len(handed(role)) for role in ROLES) > 40
