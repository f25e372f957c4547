# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of a lab: what the module takes, and that it goes only without machines."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import netns, network
from unchanged import refused

WANTED = {"state": "present", "netns": "storlab-embedded-012345", "address": "10.213.0.1/24", "taps": ["tap-a"]}
ABSENT = {**WANTED, "state": "absent"}
THERE = {"folder": True, "netns": True, "bridge": True, "addresses": ["10.213.0.1/24"], "taps": ["tap-a"], "down": []}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with this network: what is read of it, and what it is told to do."""
    done: list = []
    monkeypatch.setattr(netns, "RUN_ROOT", str(tmp_path))
    monkeypatch.setattr(netns, "read_state", lambda name: THERE)
    monkeypatch.setattr(netns, "apply", lambda steps, name: done.extend((name, *step) for step in steps))
    return done


def test_what_is_wanted():
    assert network.desired(WANTED) == {"netns": True, "address": "10.213.0.1/24", "taps": ["tap-a"]}
    assert network.desired({**ABSENT, "address": None}) == {"netns": False}


@pytest.mark.parametrize(
    ("wrong", "variable"),
    [
        ({"netns": "embedded"}, "netns"),
        ({"netns": "storlab-../x"}, "netns"),
        ({"netns": "storlab-x", "taps": ["Tap"]}, "taps"),
        ({"taps": ["tap-a", "a234567890123456"]}, "taps"),
        ({"address": "10.213.0.1"}, "address"),
    ],
)
def test_what_no_network_can_have_is_refused(wrong, variable):
    with pytest.raises(Failure) as caught:
        network.desired({**WANTED, **wrong})
    assert caught.value.details["variable"] == variable


def test_a_network_that_is_there_is_left_alone(host):
    result = network.ensure(WANTED, check_mode=False)
    assert (result["changed"], result["steps"], result["diff"]["after"]) == (False, [], "")
    assert host == []


def test_only_what_is_missing_is_made_and_only_said_in_check_mode(host):
    more = {**WANTED, "taps": ["tap-a", "tap-b"]}
    result = network.ensure(more, check_mode=True)
    assert result["steps"] == ["add tap tap-b", "set up tap-b"]
    assert host == []
    assert network.ensure(more, check_mode=False)["steps"] == result["steps"]
    assert host == [(WANTED["netns"], "add tap", "tap-b"), (WANTED["netns"], "set up", "tap-b")]


def test_a_network_goes_only_without_machines(host, tmp_path, monkeypatch):
    for name in ("guest01", "target01"):
        (tmp_path / WANTED["netns"] / "vm" / name).mkdir(parents=True)
    monkeypatch.setattr(network.qemu, "running_pid", lambda folder: 7 if folder.endswith("guest01") else None)
    with refused(host) as caught:
        network.ensure(ABSENT, check_mode=False)
    assert (caught.value.code, caught.value.details["machines"]) == ("machines_running", ["guest01"])
    monkeypatch.setattr(network.qemu, "running_pid", lambda folder: None)
    assert network.ensure(ABSENT, check_mode=False)["changed"]
    assert host == [(WANTED["netns"], "remove namespace"), (WANTED["netns"], "remove folder")]
