# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to datastores, and what never is."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.esxi_datastore import check, fits, layer_of, plan
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure

NAA, OTHER = "6001405aa", "6001405bb"
DISKS = {NAA: {"device": f"/vmfs/devices/disks/naa.{NAA}", "size_bytes": 4 << 30, "state": "ok"},
         OTHER: {"device": f"/vmfs/devices/disks/naa.{OTHER}", "size_bytes": 3 << 30, "state": "ok"}}


def want(**changes) -> dict:
    return {"name": "ds1", "type": "vmfs", "naa": NAA, "version": 6, "server": None, "path": None, "state": "present", "testbed_id": "mine",
            "check_mode": False, **changes}


def volume(**changes) -> dict:
    return {"name": "ds1", "type": "VMFS", "uuid": "u-1", "naa": [NAA], "remote": None, "mounted": True, "accessible": True, "version": 6, "vms": [],
            "size_bytes": 1 << 30, **changes}


def ops(volumes, wanted, owner="mine", disks=None) -> list:
    return [step["op"] for step in plan({"volumes": volumes, "disks": DISKS if disks is None else disks}, wanted, lambda _name: owner)]


def refused(volumes, wanted, owner="mine", disks=None) -> str:
    with pytest.raises(Failure) as caught:
        ops(volumes, wanted, owner, disks)
    return caught.value.code


@pytest.mark.parametrize("volumes, wanted, expected", [
    pytest.param([], want(), ["create_vmfs"], id="nothing there"),
    pytest.param([volume()], want(), [], id="there and ours"),
    pytest.param([volume(mounted=False, accessible=False)], want(), ["mount"], id="unmounted"),
    pytest.param([volume(accessible=False)], want(), ["forget_lost", "create_vmfs"], id="its disk was replaced"),
    pytest.param([volume(name="elsewhere", naa=[OTHER])], want(), ["create_vmfs"], id="another datastore on another disk"),
    pytest.param([volume()], want(state="unmounted"), ["unmount"], id="unmount"),
    pytest.param([volume(mounted=False)], want(state="unmounted"), [], id="unmounted already"),
    pytest.param([volume()], want(state="absent"), ["destroy"], id="destroy"),
    pytest.param([volume(mounted=False, accessible=False)], want(state="absent"), ["mount", "destroy"], id="destroy what is unmounted"),
    pytest.param([volume(accessible=False)], want(state="absent"), ["destroy"], id="destroy what is lost"),
    pytest.param([], want(state="absent"), [], id="gone already"),
    pytest.param([], want(type="nfs", naa=None, server="10.0.0.5", path="/x"), ["create_nfs"], id="NFS"),
    pytest.param([volume(type="NFS", naa=[], remote="10.0.0.5:/x")], want(type="nfs", naa=None, server="10.0.0.5", path="/x"), [], id="NFS there"),
    pytest.param([volume(type="NFS", naa=[], remote="10.0.0.5:/x")], want(type="nfs", naa=None, server="10.0.0.5", path="/x", state="absent"), ["release_nfs"],
                 id="let go of NFS"),
])
def test_steps(volumes, wanted, expected):
    assert ops(volumes, wanted) == expected


@pytest.mark.parametrize("volumes, wanted, owner, code", [
    pytest.param([volume()], want(), None, "datastore_foreign", id="there, without a stamp"),
    pytest.param([volume()], want(), "theirs", "datastore_foreign", id="another testbed's"),
    pytest.param([volume(naa=[OTHER])], want(), "mine", "datastore_name_taken", id="the name is taken on another disk"),
    pytest.param([volume(name="theirs")], want(), "mine", "device_in_use", id="the disk carries another datastore"),
    pytest.param([volume(type="NFS", naa=[], remote="h:/x")], want(), "mine", "datastore_name_taken", id="the name is an NFS datastore's"),
    pytest.param([volume(type="NFS", naa=[], remote="h:/x")], want(type="nfs", naa=None, server="h", path="/y"), "mine", "datastore_name_taken",
                 id="NFS from elsewhere"),
    pytest.param([volume()], want(state="absent"), "theirs", "datastore_foreign", id="not ours to destroy"),
    pytest.param([volume()], want(state="absent"), None, "datastore_foreign", id="no stamp, not destroyed"),
    pytest.param([volume(naa=[OTHER])], want(state="absent"), "mine", "datastore_foreign", id="same name on another disk is not destroyed"),
    pytest.param([volume(naa=[OTHER])], want(state="unmounted"), "mine", "datastore_foreign", id="nor unmounted"),
    pytest.param([volume(vms=["b", "a"])], want(state="absent"), "mine", "datastore_in_use", id="machines lie on it"),
    pytest.param([], want(naa="6001405cc"), "mine", "lun_missing", id="no such device"),
])
def test_refusals(volumes, wanted, owner, code):
    assert refused(volumes, wanted, owner) == code


def test_a_lost_device_is_not_formatted():
    lost = {NAA: {**DISKS[NAA], "state": "lostCommunication"}}
    assert refused([], want(), disks=lost) == "lun_missing"
    assert refused([volume(accessible=False)], want(), disks=lost) == "lun_missing"


def test_check_mode_before_anything_is_logged_in():
    assert ops([], want(naa=None, check_mode=True), disks={}) == ["create_vmfs"]
    assert refused([], want(naa=None), disks={}) == "lun_missing"


ENTRY = {"name": "ds1", "type": "vmfs", "layer": "initiator-ds1", "version": 6, "server": None, "path": None, "compatibility": "physical"}
LAYERS = {"initiator-ds1": {"identity": {"naa": NAA}}, "backing-ds1": {"identity": {}}}


@pytest.mark.parametrize("entry, words", [
    ({**ENTRY, "layer": None}, "layer"), ({**ENTRY, "layer": "initiator-x"}, "initiator-ds1"), ({**ENTRY, "layer": "backing-ds1"}, "NAA"),
    ({**ENTRY, "version": 4}, "5 or 6"), ({**ENTRY, "name": "a/b"}, "name"), ({**ENTRY, "name": "x" * 43}, "42"),
    ({**ENTRY, "type": "nfs"}, "server"), ({**ENTRY, "type": "nfs", "server": "h"}, "path"),
])
def test_bad_input_is_one_sentence(entry, words):
    with pytest.raises(Failure) as caught:
        check(entry, LAYERS, "datastore_datastores", "mine", "present")
    assert caught.value.code == "bad_value"
    assert words in str(caught.value)


def test_absent_needs_no_layer():
    assert check({**ENTRY, "layer": None}, {}, "datastore_datastores", "mine", "absent")["naa"] is None
    assert fits(volume(), want(naa=None))


def test_layer_of_a_raw_mapping_names_the_lun_and_how_it_is_seen():
    entry = {**ENTRY, "type": "rdm", "compatibility": "virtual"}
    layer = layer_of(check(entry, LAYERS, "datastore_datastores", "mine", "present"), None, "initiator-ds1")
    assert layer["identity"] == {"naa": NAA, "datastore": "ds1"}
    assert layer["detail"] == {"provider": "rdm", "compatibility": "virtual"}
    assert layer["path"] is None
