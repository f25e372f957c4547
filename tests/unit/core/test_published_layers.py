# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published layers on the controller's disk: what was changed there by hand is noticed before anything is overwritten."""

from __future__ import annotations

import json

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import layer as action
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory
from unchanged import refused

LAYER = {
    "name": "backing-bench",
    "kind": "backing",
    "host": "target01",
    "path": "/dev/ram0",
    "size_bytes": 1 << 27,
    "identity": {"serial": "S-17"},
    "detail": {"numbers": {7: "seven"}},
}


@pytest.fixture
def path(tmp_path):
    action.write_layer(str(tmp_path), LAYER)
    return tmp_path / "layers" / "backing-bench.json"


def change(path, /, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def test_what_is_published_is_read_as_it_was(path, tmp_path):
    (found,) = action.read_layers(str(tmp_path)).values()
    assert found == json.loads(json.dumps(LAYER))
    # Laid out otherwise, it says the same.
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=7), encoding="utf-8")
    assert action.read_layers(str(tmp_path)) == {"backing-bench": found}


@pytest.mark.parametrize("changes", [{"path": "/dev/sda"}, {"identity": {}}, {"size_bytes": 1}, {"sha256": "0" * 64}])
def test_what_was_changed_by_hand_is_refused(path, tmp_path, changes):
    change(path, **changes)
    with refused(tmp_path) as caught:
        action.read_layers(str(tmp_path))
    assert (caught.value.code, caught.value.details["path"]) == ("layer_edited", str(path))


def test_what_is_published_anew_may_have_been_changed(path, tmp_path):
    change(path, path="/dev/sda")
    assert list(action.read_layers(str(tmp_path), trusted=("backing-bench",))) == ["backing-bench"]
    with refused(tmp_path):
        action.read_layers(str(tmp_path), trusted=("backing-ds1",))


def test_a_checksum_that_was_removed_is_told(path, tmp_path):
    path.write_text(json.dumps({**LAYER, "path": "/dev/sda"}), encoding="utf-8")
    with refused(tmp_path) as caught:
        action.read_layers(str(tmp_path))
    assert (caught.value.code, caught.value.details["path"]) == ("layer_edited", str(path))
    assert "a version before 1.0 published it, or it was edited. Remove it." in str(caught.value)


WRONG = [
    "7",
    '"x"',
    "[]",
    "{}",
    "true",
    "no json",
    '{"a":' * 5000,
    '{"name": 7}',
    '{"name": "backing-bench", "identity": "x"}',
]


@pytest.mark.parametrize("text", WRONG)
def test_a_layer_of_a_wrong_shape_is_named_and_stops_no_teardown(path, tmp_path, text):
    path.write_text(text, encoding="utf-8")
    with refused(tmp_path) as caught:
        action.read_layers(str(tmp_path))
    assert (caught.value.code, caught.value.details["path"]) == ("record_damaged", str(path))
    assert inventory.published(str(tmp_path)) == {}
    other = {**LAYER, "name": "backing-ds1"}
    action.write_layer(str(tmp_path), other)
    task = {"state": "absent", "state_dir": str(tmp_path), "names": ["backing-bench"]}
    answer = actions.make(action, task).run(task_vars={})
    assert not answer.get("failed") and list(answer["ansible_facts"]["storlab_layers"]) == ["backing-ds1"]
    assert not path.exists() and (path.parent / "backing-ds1.json").exists()


@pytest.mark.parametrize(
    ("described", "missing"),
    [
        ([], []),
        (["backing-bench"], []),
        (["backing-bench", "target-bench", "backing-ds1"], ["target-bench", "backing-ds1"]),
    ],
)
def test_what_is_described_and_not_built_is_named(path, tmp_path, described, missing):
    task = {"state": "gathered", "state_dir": str(tmp_path), "described": described}
    result = actions.answer(actions.make(action, task), {}, tmp_path)
    assert result["unbuilt"] == missing and list(result["ansible_facts"]["storlab_layers"]) == ["backing-bench"]
    assert result.get("warnings", []) == (
        [f"These layers are described and not built, so they are not measured: {', '.join(missing)}."]
        if missing
        else []
    )


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        (["target-ds2"], "None of the described layers is built: target-ds2."),
        (["target-ds2", "guest-g3"], "None of the described layers is built: target-ds2, guest-g3."),
    ],
)
def test_nothing_of_the_description_is_a_failure(path, tmp_path, described, sentence):
    task = {"state": "gathered", "state_dir": str(tmp_path), "described": described}
    result = actions.answer(actions.make(action, task), {}, tmp_path)
    assert result["failed"] and result["failure"]["code"] == "nothing_built"
    assert result["msg"] == f"{sentence} Build the testbed first, with the playbook storlab.testbed.build."
