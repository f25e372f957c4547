# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action accepts is what ansible-doc says of it: names, types, choices, defaults, and the same below each option."""

from __future__ import annotations

import copy
import importlib
import json
import subprocess

import pytest
from places import ROOT

PLUGINS = "ansible_collections.storlab.testbed.plugins"
# Their arguments are those of the module that they start, which checks them itself.
OF_THEIR_MODULE = {"esxi_counters", "esxi_installation", "host_probe", "lab_image"}
# Its option testbed is the description of the testbed, which plugin_utils/chain checks as a whole.
OF_THE_DESCRIPTION = {"chain"}
NAMES = sorted(path.stem for path in (ROOT / "plugins" / "action").glob("*.py"))
CHECKED = [name for name in NAMES if name not in OF_THEIR_MODULE | OF_THE_DESCRIPTION]


# Read before any test runs: Ansible looks for the C library with a program when it is imported, and tests start none but those of their recipe.
SPECIFICATIONS = {name: importlib.import_module(f"{PLUGINS}.action.{name}").ActionModule.SPEC for name in CHECKED}


@pytest.fixture(scope="module")
def documented() -> dict:
    """{action: its options} as ansible-doc prints them."""
    done = subprocess.run(
        ["ansible-doc", "--json", "--type", "module", *(f"storlab.testbed.{name}" for name in CHECKED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return {name: found[f"storlab.testbed.{name}"]["doc"]["options"] for name in CHECKED}


def differences(spec: dict, options: dict, above: str = "") -> list:
    """Every respect in which a specification and a documentation disagree, in words."""
    found = [
        f"{above}{name} is only {'accepted' if name in spec else 'documented'}" for name in set(spec) ^ set(options)
    ]
    for name in set(spec) & set(options):
        one, other = spec[name], options[name]
        for key, empty in (("type", "str"), ("elements", None), ("required", False), ("default", None)):
            if one.get(key, empty) != other.get(key, empty):
                found.append(f"{above}{name}: {key} is {one.get(key, empty)!r}, documented {other.get(key, empty)!r}")
        if set(one.get("choices") or ()) != set(other.get("choices") or ()):
            found.append(f"{above}{name}: choices are {one.get('choices')!r}, documented {other.get('choices')!r}")
        below = f"{above}{name}."
        found += differences(one.get("options") or {}, other.get("suboptions") or {}, below)
    return sorted(found)


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_accepted_is_documented_and_the_other_way_round(name, documented):
    assert differences(SPECIFICATIONS[name], documented[name]) == []


def test_a_difference_anywhere_is_seen(documented):
    spec = SPECIFICATIONS["benchmark"]
    for change in (
        lambda one: one["prepare"]["options"]["drop_caches"].update(default=False),
        lambda one: one["search"]["options"]["knee"]["options"].pop("refine"),
        lambda one: one["steady_state"]["options"]["metric"]["choices"].remove("iops"),
        lambda one: one["order"].update(type="raw"),
        lambda one: one.update(more={"type": "str"}),
    ):
        other = copy.deepcopy(spec)
        change(other)
        assert len(differences(other, documented["benchmark"])) == 1
