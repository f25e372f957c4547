# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
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
