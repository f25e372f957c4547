# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.storlab.testbed.plugins.action import layer as publish
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.layers import chain, in_chain_order, validate_layer


def layer(name, kind, parent=None, **more):
    return {"name": name, "kind": kind, "host": "h1", "path": "/dev/x", "parent": parent, "purpose": "scratch",
            "size_bytes": 4096, "identity": {}, **more}


def test_chain_follows_parents_to_the_bottom():
    layers = {item["name"]: item for item in (
        layer("guest-a", "guest", "datastore-a"), layer("datastore-a", "datastore", "backing-a"), layer("backing-a", "backing"))}
    assert [item["name"] for item in chain(layers, "guest-a")] == ["guest-a", "datastore-a", "backing-a"]
    assert [item["name"] for item in in_chain_order(layers)] == ["backing-a", "datastore-a", "guest-a"]


def test_chain_refuses_loops_and_gaps():
    with pytest.raises(Failure) as loop:
        chain({"a": layer("a", "guest", "b"), "b": layer("b", "target", "a")}, "a")
    assert loop.value.code == "layer_loop"
    with pytest.raises(Failure) as gap:
        chain({"a": layer("a", "guest", "lost")}, "a")
    assert gap.value.code == "layer_missing" and "lost" in str(gap.value)


@pytest.mark.parametrize(("change", "word"), [
    ({"kind": "disk"}, "ceiling, backing"), ({"purpose": "mine"}, "scratch or data"), ({"path": "ram0"}, "absolute path")])
def test_validate_names_variable_value_and_remedy(change, word):
    with pytest.raises(Failure) as caught:
        validate_layer({**layer("backing-a", "backing"), **change})
    assert caught.value.code == "bad_value"
    assert repr(next(iter(change.values()))) in str(caught.value) and word in str(caught.value)


def test_validate_names_missing_keys():
    incomplete = layer("backing-a", "backing")
    del incomplete["identity"]
    with pytest.raises(Failure, match="identity"):
        validate_layer(incomplete)


@pytest.mark.parametrize(("check_mode", "path"), [(True, None), (False, "/dev/sdb")])
def test_check_mode_goes_by_what_would_be_published(tmp_path, monkeypatch, check_mode, path):
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

    def run(check: bool, facts: dict, **arguments) -> dict:
        action = publish.ActionModule.__new__(publish.ActionModule)
        action._task = SimpleNamespace(args={"state_dir": str(tmp_path), **arguments}, check_mode=check)
        return action.run(task_vars={"ansible_facts": facts})["ansible_facts"]

    kept = layer("initiator-bench", "initiator", path="/dev/sdb")
    run(False, {}, layers=[kept, layer("initiator-ds1", "initiator")])
    # As after the device was lost: it would come back under a name that is not known yet.
    facts = run(check_mode, {}, layers=[{**kept, "path": None}])
    if not check_mode:
        run(False, {}, layers=[kept])
    found = run(check_mode, facts, state="gathered")["storlab_layers"]
    assert (found["initiator-bench"]["path"], set(found)) == (path, {"initiator-bench", "initiator-ds1"})
