# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks under --limit: the hosts that are left out, and the refusals."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import limit
from chain_lab import EMBEDDED, TWO_LINUX, expanded, lab_of
from places import ROOT
from plays import run

GROUPS = lab_of(TWO_LINUX)["groups"]
BELOW = {"backing-bench", "backing-ds1", "target-bench", "target-ds1"}


def refusal(scope: str, playing: list, built: set = frozenset(), text: str = TWO_LINUX) -> str:
    """The sentences of the failure, or nothing."""
    try:
        limit.refuse(expanded(text), scope, lab_of(text)["groups"], "L", playing, built.__contains__)
    except Failure as failure:
        assert failure.code == "limit_unfit" and failure.details == {"limit": "L"}
        return f"{failure.what} {failure.remedy}"
    return ""


@pytest.mark.parametrize("scope", sorted(limit.SCOPES))
def test_a_limit_that_leaves_nobody_out_is_none(scope):
    everybody = ["store01", "client01"]
    # There is no group of machines or guests to leave out, either.
    assert refusal(scope, everybody) == "" and limit.left_out(expanded(TWO_LINUX), GROUPS, everybody) == {}


@pytest.mark.parametrize("scope", ["benchmark", "teardown", "any"])
@pytest.mark.parametrize("host", ["store01", "client01"])
def test_a_host_alone_is_enough_for_what_stands_on_nothing(scope, host):
    assert refusal(scope, [host]) == ""


def test_what_is_left_out_is_named_with_its_layers():
    assert limit.left_out(expanded(TWO_LINUX), GROUPS, ["client01"]) == {
        "store01": ["backing-bench", "backing-ds1", "target-bench", "target-ds1"]
    }
    names = limit.left_out(expanded(TWO_LINUX), GROUPS, ["store01"])["client01"]
    assert "initiator-bench" in names and "datastore-ds1" in names and not BELOW & set(names)


def test_a_client_is_built_alone_only_on_what_is_built():
    assert refusal("build", ["client01"]) == (
        "--limit L leaves out store01, whose backing-bench, backing-ds1, target-bench, target-ds1 client01 needs and no build has made yet; "
        "nothing was touched. Build store01 first, name it in --limit, too, or leave --limit out."
    )
    assert "whose target-ds1 client01" in refusal("build", ["client01"], BELOW - {"target-ds1"})
    assert refusal("build", ["client01"], BELOW) == "" == refusal("build", ["store01"])


def test_where_no_host_is_left_the_ones_that_would_do_are_named():
    for scope in ("benchmark", "build", "teardown"):
        assert refusal(scope, ["localhost"]) == (
            "--limit L leaves this playbook no host to work on; nothing was touched. Name some of store01, client01 in it, or leave --limit out."
        )
    # Its hypervisor makes and removes a guest, which can be measured alone.
    assert "Name some of t1, h1, c1 in it" in refusal("build", ["g1"], text=EMBEDDED)
    assert "Name some of t1, h1, c1 in it" in refusal("teardown", ["g1"], text=EMBEDDED)
    assert "Name some of c1 in it" in refusal("machines", ["t1", "h1", "g1"], text=EMBEDDED)
    assert refusal("benchmark", ["g1"], text=EMBEDDED) == refusal("machines", ["c1"], text=EMBEDDED) == ""


def test_what_works_on_the_whole_leaves_nobody_out():
    assert refusal("whole", ["client01"]) == (
        "--limit L leaves out store01, and this playbook works on the whole testbed; nothing was touched. Leave --limit out."
    )


@pytest.mark.ansible
def test_a_host_that_a_limit_leaves_out_is_asked_by_its_own_variables(tmp_path):
    """The target asks its client whether it uses the LUNs: what the client's connection needs may follow from the words of the testbed."""
    inventory = {
        "all": {
            "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
            "hosts": {
                "localhost": {"ansible_connection": "local"},
                "client01": {
                    "ansible_connection": "{{ {'lab7 /state /results': 'local'}[where] }}",
                    "where": "{{ testbed_id }} {{ testbed_state_dir }} {{ testbed_results_dir }}",
                },
            },
        }
    }
    words = {"testbed_id": "lab7", "state_dir": "/state", "results_dir": "/results"}
    tasks = [
        {"ansible.builtin.set_fact": {"__testbed": words}},
        {
            "ansible.builtin.ping": None,
            "delegate_to": "{{ item }}",
            "loop": ["client01"],
            "loop_control": {"label": "{{ item }}"},
        },
    ]
    book = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    book["vars_files"] = [str(ROOT / "playbooks" / "vars" / "testbed.yml")]
    (tmp_path / "lab.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([book]), encoding="utf-8")
    code, answers = run(tmp_path, tmp_path / "play.yml", "-i", str(tmp_path / "lab.yml"), "--limit", "localhost")
    assert (code, answers[-1]["results"][0].get("ping")) == (0, "pong"), answers[-1]
