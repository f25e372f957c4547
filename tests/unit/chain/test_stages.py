# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage is one class in one list: one more is derived, checked, run, drawn and shown without another line of the chain."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, drawing, expand, testbed
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stage import Stage
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import STAGES
from chain_lab import TWO_LINUX, expanded, lab_of


class Shredder(Stage):
    """On the target that the inventory names; its own variable can be wrong."""

    name = "shredder"
    floor = 7

    def derive(self, context):
        for host in context.testbed.hosts.values():
            if host.name in context.testbed.targets:
                context.derive(host, "shredder_teeth", 7, "the teeth of the test")
                if host.variables["shredder_teeth"] > 9:
                    context.problem(
                        f"shredder_teeth of {host.name}", host.variables["shredder_teeth"], "", "use 1 to 9"
                    )

    def runs_on(self, context, host):
        return "shredder_teeth" in host.variables

    def stands_on(self, testbed, host):
        return ["client01"] if host.name == "store01" else []

    def layers(self, host):
        if "shredder_teeth" not in host.variables:
            return []
        return [testbed.layer_of("backing", "shreds", host, "backing-bench", "scratch", "shreds of the test")]


@pytest.fixture
def one_more():
    STAGES.append(Shredder())
    yield
    del STAGES[-1]


def test_a_stage_of_one_class_is_derived_run_drawn_and_shown(one_more):
    lab = lab_of(TWO_LINUX)
    made = expand.expand(lab)
    assert [str(problem) for problem in check.check(lab, made)] == []
    store, client = made.hosts["store01"], made.hosts["client01"]
    assert (store.variables["shredder_teeth"], store.because["shredder_teeth"]) == (7, "the teeth of the test")
    assert "shredder" in store.stages and store.depends_on == ["client01"]
    assert "shredder" not in client.stages and "shredder_teeth" not in client.variables
    assert made.layers[-1]["name"] == "backing-shreds"
    assert any("backing-shreds on store01: shreds of the test" in line for line in drawing.draw(made))
    assert "  # from: the teeth of the test\n  shredder_teeth: 7\n" in drawing.as_yaml(made)


def test_what_such_a_stage_refuses_is_refused(one_more):
    lab = lab_of(TWO_LINUX)
    lab["hosts"]["store01"]["shredder_teeth"] = 11
    wrong = [str(problem) for problem in expand.expand(lab).problems]
    assert wrong == ["shredder_teeth of store01 is 11: use 1 to 9."]


def test_without_it_nothing_of_it_is_there():
    made = expanded(TWO_LINUX)
    assert "shredder" not in repr((made.hosts, made.layers, drawing.as_yaml(made)))


def test_no_name_is_there_twice_and_each_has_its_file():
    names = [stage.name for stage in STAGES]
    assert len(set(names)) == len(names)
    assert [type(stage).__module__.rpartition(".")[2] for stage in STAGES] == names


def test_a_provider_says_itself_where_its_luns_begin_and_who_sees_them():
    lab = lab_of(TWO_LINUX)
    numbers = {}
    for provider in ("lio", "tgt"):
        described = copy.deepcopy(lab)
        described["hosts"]["store01"]["iscsi_target_provider"] = provider
        numbers[provider] = [(disk.lun, disk.loopback) for disk in expand.expand(described).disks]
    assert numbers == {"lio": [(0, True), (1, False)], "tgt": [(1, False), (2, False)]}
