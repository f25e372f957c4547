# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of others at the iSCSI adapter of an ESXi host, at the same address or of the same stem, stay; all of ours go, and the adapter only with the last."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.module_utils.esxi import adapter
from hypothesis import given, settings
from hypothesis import strategies as st

ENTRIES = st.tuples(
    st.sampled_from(("static", "send")),
    st.sampled_from(("10.0.0.1", "10.0.0.11", "10.0.0.2")),
    st.sampled_from((3260, 32600)),
    st.sampled_from(("iqn.t:id", "iqn.t:id2", "iqn.t:id-2", "iqn.t:id:one", "iqn.t:i")),
)


def entry(one: tuple) -> dict:
    method, address, port, iqn = one
    return {
        "method": method,
        "address": address,
        "port": port,
        "iqn": iqn if method == "static" else "",
        "discovered": False,
    }


@settings(max_examples=500, deadline=None)
@given(ours=st.lists(ENTRIES, max_size=3), foreign=st.lists(ENTRIES, max_size=6), was_enabled=st.booleans())
def test_targets(ours, foreign, was_enabled):
    mine = {adapter.entry_key(entry(one)): entry(one) for one in ours}
    others = {adapter.entry_key(entry(one)): entry(one) for one in foreign}
    others = {key: one for key, one in others.items() if key not in mine}
    state = {
        "targets": [*others.values(), *mine.values()],
        "bound": ["vmk1", "vmk11"],
        "chap": None,
        "options": {},
        "device": "vmhba64",
        "iqn": "iqn.a",
        "alias": "",
        "host_options": {},
        "module_options": "",
        "luns": [],
        "enabled": True,
    }
    before = {
        "targets": sorted(others),
        "options": {},
        "iqn": "iqn.a",
        "alias": "",
        "host_options": {},
        "enabled": was_enabled,
    }
    steps = adapter.absent_plan(state, {"before": before, "targets": sorted(mine), "bound": ["vmk1"]})
    assert {step["target"] for step in steps if step["op"] == "remove_target"} == set(mine)
    assert [step["target"] for step in steps if step["op"] == "unbind"] == ["vmk1"]
    assert any(step["op"] == "disable" for step in steps) == (not was_enabled and not others)
