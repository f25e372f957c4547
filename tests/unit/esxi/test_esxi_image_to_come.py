# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image for a machine on a datastore that the same build makes: a dry run plans its upload, and takes no other name for such a datastore."""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.guest import datastores_to_come, upload_to_come
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.machine_want import iso_of

LAYERS = {
    "datastore-lab-ds1": {"kind": "datastore", "identity": {"datastore": "lab-ds1"}},
    "initiator-ds2": {"kind": "initiator", "identity": {"datastore": "ds2"}},
    "datastore-ds3": {"kind": "datastore"},
}


def test_only_a_datastore_of_the_testbed_is_one_to_come():
    assert set(datastores_to_come(LAYERS, {"local1": {}})) == {"lab-ds1"}
    assert all(store["accessible"] for store in datastores_to_come(LAYERS, {}).values())
    # One that is there is as the host shows it.
    assert datastores_to_come(LAYERS, {"lab-ds1": {}}) == {}


def test_the_upload_is_planned_from_the_file_alone(tmp_path):
    source = tmp_path / "win.iso"
    source.write_bytes(b"image 4411")
    [step] = upload_to_come(
        iso_of({"src": str(source), "path": "iso/w.iso", "datastore": None}, "vm", "lab-ds1"), "lab"
    )
    assert (step["op"], step["target"], step["was"]) == ("upload_iso", "[lab-ds1] iso/w.iso", None)
    assert hashlib.sha256(b"image 4411").hexdigest() in str(step)


def test_an_image_that_should_be_on_it_already_is_missing():
    with pytest.raises(Failure) as refused:
        upload_to_come(iso_of({"src": None, "path": "w.iso", "datastore": "lab-ds1"}, "vm", "local1"), "lab")
    assert refused.value.code == "iso_missing"
