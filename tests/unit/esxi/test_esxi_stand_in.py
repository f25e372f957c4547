# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in for ESXi is known by the option with which it announces itself, and by nothing that it is called."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.session import STAND_IN, Session
from pyVmomi import vim

ABOUT = {
    "fullName": "VMware ESXi 8.0.3 build-1 (simulated by somebody)",
    "version": "8.0.3",
    "build": "1",
    "apiVersion": "8.0.3.0",
    "apiType": "HostAgent",
}


def session(answer) -> Session:
    """A session with a service whose options answer so: a list of (key, value), or a fault."""

    def query(_name: str) -> list:
        if isinstance(answer, Exception):
            raise answer
        return [vim.option.OptionValue(key=key, value=value) for key, value in answer]

    made = Session({"hostname": "esxi01.lab.example", "port": 443})
    made.content = SimpleNamespace(
        about=SimpleNamespace(**ABOUT), setting=None if answer is None else SimpleNamespace(QueryOptions=query)
    )
    made.stand_in = made._stand_in()
    return made


@pytest.mark.parametrize(
    "answer",
    [None, [], [(f"{STAND_IN}.other", "esxsim")], vim.fault.InvalidName(), vim.fault.NoPermission()],
    ids=["no options", "none of them", "another of its group", "no such option", "not permitted"],
)
def test_a_host_is_no_stand_in_whatever_it_is_called(answer):
    real = session(answer)
    assert real.stand_in is None and "stand_in" not in real.about
    assert real.about["product"] == ABOUT["fullName"]


def test_a_stand_in_announces_itself():
    assert session([("storlab.standIn", "esxsim")]).about["stand_in"] == "esxsim"
