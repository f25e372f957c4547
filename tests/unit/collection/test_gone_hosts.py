# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which initiators a teardown of targets takes for gone: what is on their LUNs goes."""

from __future__ import annotations

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from places import ROOT

ABSENT = ROOT / "roles" / "iscsi_target" / "tasks" / "absent.yml"
LAYERS = {
    "initiator-a": {"name": "initiator-a", "host": "client1"},
    "initiator-b": {"name": "initiator-b", "host": "client10"},
    "backing-a": {"name": "backing-a", "host": "target01"},
}


def kept(gone: object) -> set[str]:
    """The hosts whose layers the module is given."""
    tasks = yaml.safe_load(ABSENT.read_text(encoding="utf-8"))
    (expression,) = [task["vars"]["__iscsi_target_layers"] for task in tasks if "vars" in task]
    known = {"ansible_facts": {"storlab_layers": LAYERS}, "iscsi_target_gone_hosts": gone}
    layers = Templar(loader=DataLoader(), variables=known).template(trust_as_template(expression))
    return {layer["host"] for layer in layers.values()}


@pytest.mark.parametrize(
    ("gone", "hosts"),
    [
        ([], {"client1", "client10", "target01"}),
        (["client10"], {"client1", "target01"}),
        (["client1", "client10"], {"target01"}),
        # As -e gives it without braces: a word, of which a host's name may be a part.
        ("client10", {"client1", "target01"}),
        ("client1,other", {"client1", "client10", "target01"}),
    ],
)
def test_a_host_is_gone_by_its_whole_name(gone, hosts):
    assert kept(gone) == hosts
