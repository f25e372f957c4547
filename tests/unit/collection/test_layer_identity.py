# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the manual of storlab.testbed.layer says of identities is what the device guards do, on Linux and on Windows."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import verdicts
from ansible_collections.storlab.testbed.plugins.modules import layer as module
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import device_safety as windows

TEXTS = yaml.safe_load(module.DOCUMENTATION)["options"]["layers"]["description"]
SHOWN = {"serial": "S-17", "naa": "naa.6001405abc", "wwid": "t10.ABC", "major_minor": "1:0"}


def keys(beginning: str) -> set:
    """The keys of an identity that the line beginning so names before its kinds are over."""
    (text,) = [text for text in TEXTS if text.startswith(beginning)]
    return set(re.findall(r"C\((\w+)\)", text)) - {"path"}


def codes(identity: dict, **facts) -> set:
    layer = {"name": "backing-bench", "identity": identity}
    known = {"path": "/dev/sdx", "mapped": False, "mapped_uuid": None, **SHOWN, **facts}
    return {refusal.code for refusal in verdicts.identity_refusals(known, layer)}


def test_each_documented_key_proves_a_disk_and_must_hold():
    documented = keys("A disk on Linux")
    assert documented == set(SHOWN)
    for key in documented:
        assert codes({key: SHOWN[key]}) == set()
        (wrong,) = codes({key: "another"})
        assert wrong.startswith("wrong_")
        # One that holds does not outweigh one that does not.
        assert codes({**SHOWN, key: "another"}) == {wrong}


@pytest.mark.parametrize("key", ["stamp", "size_bytes", "target_iqn", "lun", "datastore", "export", "uuid"])
def test_what_only_says_what_it_was_proves_no_disk(key):
    assert codes({key: "x"}) == {"identity_missing"}


def test_a_uuid_proves_what_is_mapped_alone():
    assert "uuid" in keys("A RAID, LVM")
    assert codes({"uuid": "LVM-1"}, mapped=True, mapped_uuid="LVM-1") == set()


def test_a_file_on_linux_needs_both():
    both = {"mount_point": "/srv/a", "uuid": "u-1"}
    assert keys("A file on Linux") == set(both)
    facts = {"path": "/srv/a/f", "mount_point": "/srv/a", "uuid": "u-1", "resolved": "/srv/a/f"}
    layer = {"name": "datastore-a", "path": "/srv/a/f"}
    assert verdicts.file_refusals(facts, {**layer, "identity": both}) == []
    for key in both:
        lacking = {name: value for name, value in both.items() if name != key}
        assert verdicts.file_refusals(facts, {**layer, "identity": lacking}) != []
        assert verdicts.file_refusals(facts, {**layer, "identity": {**both, key: "other"}}) != []


def test_on_windows_a_disk_has_a_unique_id_and_a_file_a_label():
    assert keys("A disk on Windows") == {"unique_id", "serial"}
    assert keys("A file on Windows") == {"mount_point", "stamp"}
    layer = {"name": "datastore-a", "path": "E:\\f", "identity": {"mount_point": "E:\\"}}
    (refusal,) = windows._file({"path": "E:\\f", "volume": {"label": "x"}}, layer, "", [])
    assert refusal.code == "identity_missing"


def test_the_examples_of_the_manual_prove_what_they_publish():
    for task in yaml.safe_load(module.EXAMPLES):
        for layer in task["storlab.testbed.layer"].get("layers", []):
            proofs = keys("A file on Linux") if layer["kind"] == "datastore" else keys("A disk on Linux")
            needed = (
                proofs <= set(layer["identity"]) if layer["kind"] == "datastore" else proofs & set(layer["identity"])
            )
            assert needed, layer["name"]
