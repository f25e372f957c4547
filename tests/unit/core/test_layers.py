# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import layer as publish
from ansible_collections.storlab.testbed.plugins.module_utils.core import layers
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.layers import (
    chain,
    generation,
    lasting_identity,
    validate_layer,
)


def layer(name, kind, parent=None, **more):
    return {
        "name": name,
        "kind": kind,
        "host": "h1",
        "path": "/dev/x",
        "parent": parent,
        "purpose": "scratch",
        "size_bytes": 4096,
        "identity": {},
        **more,
    }


def test_generation_comes_from_the_disk_below():
    layers = {
        "b": {"name": "b", "parent": None, "detail": {"generation": "g7"}},
        "t": {"name": "t", "parent": "b", "detail": {}},
        "i": {"name": "i", "parent": "t"},
    }
    assert generation(layers, layers["i"]) == "g7"
    assert generation({"x": {"name": "x", "parent": "x"}}, {"name": "x", "parent": "x"}) is None
    assert generation(layers, None) is None


def test_what_goes_with_the_contents_is_no_part_of_the_identity_that_lasts():
    identity = {"serial": "s1", "naa": "6001", "wwid": "naa.6001", "target_iqn": "iqn.2026-01.t:a", "lun": 3}
    made = layer("initiator-a", "initiator", identity=identity, detail={"generation": "g7"})
    assert lasting_identity(made) == {"target_iqn": "iqn.2026-01.t:a", "lun": 3}
    # A disk that the testbed did not make keeps its serial whatever is on it.
    for detail in ({}, {"generation": None}):
        assert lasting_identity(layer("initiator-a", "initiator", identity=identity, detail=detail)) == identity


def test_chain_follows_parents_to_the_bottom():
    layers = {
        item["name"]: item
        for item in (
            layer("guest-a", "guest", "datastore-a"),
            layer("datastore-a", "datastore", "backing-a"),
            layer("backing-a", "backing"),
        )
    }
    assert [item["name"] for item in chain(layers, "guest-a")] == ["guest-a", "datastore-a", "backing-a"]


def test_chain_refuses_loops_and_gaps():
    with pytest.raises(Failure) as loop:
        chain({"a": layer("a", "guest", "b"), "b": layer("b", "target", "a")}, "a")
    assert loop.value.code == "layer_loop"
    with pytest.raises(Failure) as gap:
        chain({"a": layer("a", "guest", "lost")}, "a")
    assert gap.value.code == "layer_missing" and "lost" in str(gap.value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "disk"}, "ceiling, backing"),
        ({"purpose": "mine"}, "scratch, data, read"),
        ({"path": "ram0"}, "absolute path"),
    ],
)
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
def test_check_mode_goes_by_what_would_be_published(tmp_path, check_mode, path):
    def run(check: bool, facts: dict, **arguments) -> dict:
        action = actions.make(publish, {"state_dir": str(tmp_path), **arguments}, check)
        return action.run(task_vars={"ansible_facts": facts})["ansible_facts"]

    kept = layer("initiator-bench", "initiator", path="/dev/sdb")
    run(False, {}, layers=[kept, layer("initiator-ds1", "initiator")])
    # As after the device was lost: it would come back under a name that is not known yet.
    facts = run(check_mode, {}, layers=[{**kept, "path": None}])
    if not check_mode:
        run(False, {}, layers=[kept])
    found = run(check_mode, facts, state="gathered")["storlab_layers"]
    assert (found["initiator-bench"]["path"], set(found)) == (path, {"initiator-bench", "initiator-ds1"})


def test_what_another_host_has_forgotten_since_is_not_known(tmp_path):
    """A target reads the layer of an initiator early in a teardown, and reads again when the initiator has gone."""

    def run(facts: dict, **arguments) -> dict:
        action = actions.make(publish, {"state_dir": str(tmp_path), **arguments})
        return action.run(task_vars={"ansible_facts": facts})["ansible_facts"]

    early = run({}, layers=[layer("initiator-ds1", "initiator", path="/dev/sdb"), layer("backing-ds1", "backing")])
    run({}, state="absent", names=["initiator-ds1"])
    for facts in (run(early, state="gathered"), run(early, state="absent", names=["target-ds1"])):
        assert set(facts["storlab_layers"]) == {"backing-ds1"}
    assert not (tmp_path / "layers" / "initiator-ds1.json").exists()


def test_what_nobody_calls_scratch_holds_data():
    assert layers.purpose_of("x", None, None) == "data"
    assert layers.purpose_of("x", "scratch", None) == "scratch"


@pytest.mark.parametrize("purpose", ["scratch", "data"])
def test_the_purpose_is_that_of_the_layer_beneath(purpose):
    beneath = {"name": "backing-a", "purpose": purpose}
    assert layers.purpose_of("x", None, beneath) == layers.purpose_of("x", purpose, beneath) == purpose


@pytest.mark.parametrize(("given", "beneath"), [("scratch", "data"), ("data", "scratch")])
def test_a_purpose_that_contradicts_the_layer_beneath_is_refused(given, beneath):
    with pytest.raises(Failure) as caught:
        layers.purpose_of("ramdisk_disks a", given, {"name": "backing-a", "purpose": beneath})
    assert caught.value.code == "bad_value"
    for part in ("ramdisk_disks a purpose", repr(given), "backing-a", beneath):
        assert part in str(caught.value)
