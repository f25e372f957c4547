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
