# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layer a guest has whole, as the role works it out: for guests with such a LUN and without, before and after others have published layers."""

from __future__ import annotations

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from places import ROOT

LAYERS = {"initiator-raw": {"name": "initiator-raw", "size_bytes": 1}}


@pytest.mark.parametrize(
    "guest, facts, layer",
    [
        ({}, {}, {}),
        # The guest before it has published its layer.
        ({}, {"storlab_layers": LAYERS}, {}),
        ({"raw_disk": {"layer": "initiator-raw"}}, {"storlab_layers": LAYERS}, LAYERS["initiator-raw"]),
        ({"raw_disk": {"layer": "initiator-gone"}}, {"storlab_layers": LAYERS}, {}),
    ],
)
def test_a_guest_without_a_whole_lun_has_no_layer_of_one(guest, facts, layer):
    words = yaml.safe_load((ROOT / "roles/guest_vm/vars/main.yml").read_text(encoding="utf-8"))
    names = ("__guest_vm_raw", "__guest_vm_raw_layer")
    variables = {name: trust_as_template(words[name]) for name in names}
    templar = Templar(DataLoader(), variables={"__guest_vm_guest": guest, "ansible_facts": facts, **variables})
    assert templar.template(variables["__guest_vm_raw_layer"]) == layer


@pytest.mark.parametrize(
    "number, order", [(1, ["b", "c", "a"]), (2, ["c", "a", "b"]), (3, ["a", "b", "c"]), (4, ["b", "c", "a"])]
)
def test_another_guest_begins_each_round_of_installations(number, order):
    """The first task takes some of them in the order of the play, the second the others."""
    hosts = ["target01", "b", "c", "a"]
    layers = {name: {"name": f"guest-{name}", "kind": "guest", "host": name, "parent": "datastore-x"} for name in "abc"}
    layers["raw"] = {"name": "guest-a-raw", "kind": "guest", "host": "a", "parent": "initiator-x"}
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/os_installation_round.yml").read_text(encoding="utf-8"))
    installed = []
    for task in tasks[:2]:
        for host in hosts:
            words = {name: trust_as_template(text) for name, text in task["vars"].items()}
            known = {
                "inventory_hostname": host,
                "ansible_play_hosts_all": hosts,
                "ansible_facts": {"storlab_layers": layers},
                "os_installation_round": number,
            }
            installed += Templar(DataLoader(), variables={**words, **known}).template(trust_as_template(task["loop"]))
    assert installed == [f"guest-{name}" for name in order]
