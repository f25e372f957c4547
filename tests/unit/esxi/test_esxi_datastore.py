# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to datastores, and what never is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.datastore import (
    behind,
    check,
    layer_of,
    mounting,
    remembered,
)
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.datastore_contents import others
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.datastore_plan import fits, plan

NAA, OTHER = "6001405aa", "6001405bb"
BLANK = {"available": True, "partitions": [], "unresolved": None}
DISKS = {
    NAA: {"device": f"/vmfs/devices/disks/naa.{NAA}", "size_bytes": 4 << 30, "state": "ok", **BLANK},
    OTHER: {"device": f"/vmfs/devices/disks/naa.{OTHER}", "size_bytes": 3 << 30, "state": "ok", **BLANK},
}
# What the controller's record says of the volume u-1.
OURS = {"u-1": {"name": "ds1", "naa": [NAA], "layer": "initiator-ds1"}}


def want(**changes) -> dict:
    return {
        "name": "ds1",
        "type": "vmfs",
        "naa": NAA,
        "version": 6,
        "server": None,
        "path": None,
        "state": "present",
        "testbed_id": "mine",
        "layer": "initiator-ds1",
        "allowed": False,
        "exported": True,
        "discard": False,
        "hosts": [],
        "remembers": True,
        "check_mode": False,
        **changes,
    }


def volume(**changes) -> dict:
    return {
        "name": "ds1",
        "type": "VMFS",
        "uuid": "u-1",
        "naa": [NAA],
        "remote": None,
        "mounted": True,
        "accessible": True,
        "version": 6,
        "vms": [],
        "vms_here": [],
        "hosts": [],
        "reason": "",
        "size_bytes": 1 << 30,
        **changes,
    }


def steps_of(volumes, wanted, owner="mine", disks=None, recorded=(), entries=(), intention=None) -> list:
    offered = {each["name"]: {"type": "VMFS", "accessible": each["accessible"]} for each in volumes}
    state = {"volumes": volumes, "disks": DISKS if disks is None else disks, "stores": offered}
    look = SimpleNamespace(stamp=lambda _name: owner, entries=lambda _name: list(entries))
    return plan(state, wanted, look, dict(recorded), lambda _volume: intention)


def ops(*arguments, **changes) -> list:
    return [step["op"] for step in steps_of(*arguments, **changes)]


def failure(*arguments, **changes) -> Failure:
    with pytest.raises(Failure) as caught:
        ops(*arguments, **changes)
    return caught.value


def refused(*arguments, **changes) -> str:
    return failure(*arguments, **changes).code


def disks(naa: str = NAA, **changes) -> dict:
    return {**DISKS, naa: {**DISKS[naa], **changes}}


@pytest.mark.parametrize(
    "volumes, wanted, expected",
    [
        pytest.param([], want(), ["create_vmfs"], id="nothing there"),
        pytest.param([volume()], want(), [], id="there and ours"),
        pytest.param([volume(mounted=False, accessible=False)], want(), ["mount"], id="unmounted"),
        pytest.param(
            [volume(name="elsewhere", naa=[OTHER])], want(), ["create_vmfs"], id="another datastore on another disk"
        ),
        pytest.param([volume()], want(state="unmounted"), ["unmount"], id="unmount"),
        pytest.param([volume(mounted=False)], want(state="unmounted"), [], id="unmounted already"),
        pytest.param([volume()], want(state="absent"), ["destroy"], id="destroy"),
        pytest.param(
            [volume(mounted=False, accessible=False)],
            want(state="absent"),
            ["mount", "destroy"],
            id="destroy what is unmounted",
        ),
        pytest.param([], want(state="absent"), [], id="gone already"),
        pytest.param([], want(type="nfs", naa=None, server="10.0.0.5", path="/x"), ["create_nfs"], id="NFS"),
        pytest.param(
            [volume(type="NFS", naa=[], remote="10.0.0.5:/x")],
            want(type="nfs", naa=None, server="10.0.0.5", path="/x"),
            [],
            id="NFS there",
        ),
        pytest.param(
            [volume(type="NFS", naa=[], remote="10.0.0.5:/x")],
            want(type="nfs", naa=None, server="10.0.0.5", path="/x", state="absent", remembers=False),
            ["release_nfs"],
            id="let go of NFS",
        ),
    ],
)
def test_steps(volumes, wanted, expected):
    assert ops(volumes, wanted) == expected


@pytest.mark.parametrize(
    "volumes, wanted, owner, code",
    [
        pytest.param([volume()], want(), None, "datastore_foreign", id="there, without a stamp"),
        pytest.param([volume()], want(), "theirs", "datastore_foreign", id="another testbed's"),
        pytest.param(
            [volume(naa=[OTHER])], want(), "mine", "datastore_name_taken", id="the name is taken on another disk"
        ),
        pytest.param([volume(name="theirs")], want(), "mine", "device_in_use", id="the disk carries another datastore"),
        pytest.param(
            [volume(type="NFS", naa=[], remote="h:/x")],
            want(),
            "mine",
            "datastore_name_taken",
            id="the name is an NFS datastore's",
        ),
        pytest.param(
            [volume(type="NFS", naa=[], remote="h:/x")],
            want(type="nfs", naa=None, server="h", path="/y"),
            "mine",
            "datastore_name_taken",
            id="NFS from elsewhere",
        ),
        pytest.param([volume()], want(state="absent"), "theirs", "datastore_foreign", id="not ours to destroy"),
        pytest.param([volume()], want(state="absent"), None, "datastore_foreign", id="no stamp, not destroyed"),
        pytest.param(
            [volume(naa=[OTHER])],
            want(state="absent"),
            "mine",
            "datastore_foreign",
            id="same name on another disk is not destroyed",
        ),
        pytest.param([volume(naa=[OTHER])], want(state="unmounted"), "mine", "datastore_foreign", id="nor unmounted"),
        pytest.param(
            [volume(vms=["b", "a"])], want(state="absent"), "mine", "datastore_in_use", id="machines lie on it"
        ),
        pytest.param([], want(naa="6001405cc"), "mine", "lun_missing", id="no such device"),
    ],
)
def test_refusals(volumes, wanted, owner, code):
    assert refused(volumes, wanted, owner) == code


def test_a_lost_device_is_not_formatted():
    lost = {NAA: {**DISKS[NAA], "state": "lostCommunication"}}
    assert refused([], want(), disks=lost) == "lun_missing"
    assert refused([volume(accessible=False)], want(), disks=lost, recorded=OURS) == "datastore_inaccessible"


# ---------------------------------------------------------------- a disk is blank when three things say so


@pytest.mark.parametrize(
    "changes, code, words",
    [
        pytest.param({"partitions": ["1 linuxNative"]}, "device_not_blank", "1 linuxNative", id="has a partition"),
        pytest.param({"partitions": None}, "device_not_blank", "cannot be read", id="table cannot be read"),
        pytest.param({"unresolved": "theirs"}, "device_not_blank", "theirs", id="copy of a volume"),
        pytest.param({"available": False}, "device_in_use", "not free", id="the host does not name it as free"),
    ],
)
def test_a_disk_that_is_not_proven_blank_is_not_formatted(changes, code, words):
    found = failure([], want(), disks=disks(**changes))
    assert found.code == code
    assert words in str(found)
    # Contents of another disk say nothing about this one.
    assert ops([], want(), disks=disks(OTHER, **changes)) == ["create_vmfs"]


@pytest.mark.parametrize("changes", [{"partitions": ["1 linuxNative"]}, {"partitions": None}, {"unresolved": "theirs"}])
def test_naming_the_device_overwrites_it_and_says_so(changes):
    found = failure([], want(), disks=disks(**changes))
    assert f"datastore_allow_device: [naa.{NAA}]" in str(found)
    (step,) = steps_of([], want(allowed=True), disks=disks(**changes))
    assert step["op"] == "create_vmfs"
    assert step["was"]


def test_naming_the_device_does_not_help_against_a_datastore_on_it():
    assert refused([], want(allowed=True), disks=disks(available=False)) == "device_in_use"
    assert refused([volume(name="theirs")], want(allowed=True)) == "device_in_use"


def test_devices_are_named_by_path_or_identifier():
    for name in (NAA, f"naa.{NAA}", f"/vmfs/devices/disks/naa.{NAA}"):
        assert check(ENTRY, LAYERS, "datastore_datastores", "mine", "present", allow_device=[name])["allowed"] is True
    for name in (OTHER, NAA[:-1], f"{NAA}0"):
        assert check(ENTRY, LAYERS, "datastore_datastores", "mine", "present", allow_device=[name])["allowed"] is False


# ---------------------------------------------------------------- inaccessible is not lost


LOST = {"accessible": False, "reason": "PermanentDeviceLoss"}
DOWN = {"accessible": False, "reason": "AllPathsDown_Start"}


@pytest.mark.parametrize("reason", ["", "AllPathsDown_Start", "AllPathsDown_Timeout", "PermanentDeviceLoss"])
@pytest.mark.parametrize("contents", [{"partitions": ["1 vmfs"]}, {"partitions": None}, {"unresolved": "ds1"}])
def test_an_inaccessible_datastore_on_a_disk_that_holds_something_stays(reason, contents):
    there = disks(available=False, **{"partitions": [], **contents})
    for owner, recorded in (("mine", OURS), (None, ())):
        found = failure([volume(accessible=False, reason=reason)], want(), owner=owner, disks=there, recorded=recorded)
        assert found.code == "datastore_inaccessible"
        assert all(word in str(found) for word in ("unregister", "unmount", "rescan"))


def test_a_disk_that_is_blank_again_is_given_its_datastore_again():
    blank = disks(available=False)
    lost = volume(accessible=False)
    assert ops([lost], want(), owner=None, disks=blank, recorded=OURS) == ["release", "create_vmfs"]
    assert refused([lost], want(), owner=None, disks=blank) == "datastore_inaccessible"
    assert refused([{**lost, "vms": ["a"]}], want(), owner=None, disks=blank, recorded=OURS) == "datastore_in_use"
    other = {"u-1": {**OURS["u-1"]}, "u-2": {}}
    assert (
        refused([{**lost, "uuid": "u-3"}], want(), owner=None, disks=blank, recorded=other) == "datastore_inaccessible"
    )


@pytest.mark.parametrize(
    "found, there, expected",
    [
        pytest.param(LOST, disks(state="off"), ["release"], id="lost for good"),
        pytest.param(DOWN, {OTHER: DISKS[OTHER]}, ["release"], id="no such device any more"),
        pytest.param({"accessible": False, "reason": ""}, disks(available=False), ["release"], id="blank again"),
    ],
)
def test_what_is_lost_is_released_and_not_destroyed(found, there, expected):
    gone = want(state="absent")
    assert ops([volume(**found)], gone, owner=None, disks=there, recorded=OURS) == expected
    # Without the record nothing says whose it is, and with machines on it nothing is done.
    assert refused([volume(**found)], gone, owner=None, disks=there) == "datastore_inaccessible"
    assert refused([volume(**found, vms=["a"])], gone, owner=None, disks=there, recorded=OURS) == "datastore_in_use"


@pytest.mark.parametrize(
    "found, there",
    [
        pytest.param(DOWN, disks(state="lostCommunication"), id="all paths down"),
        pytest.param(
            {"accessible": False, "reason": ""}, disks(available=False, partitions=["1 vmfs"]), id="it answers"
        ),
        pytest.param(LOST, disks(available=False, partitions=["1 ntfs"]), id="it answers with other contents"),
    ],
)
def test_what_may_come_back_is_not_destroyed(found, there):
    gone = want(state="absent")
    assert refused([volume(**found)], gone, owner=None, disks=there, recorded=OURS) == "datastore_inaccessible"


# ---------------------------------------------------------------- the same LUN with new contents has another identifier


OLD = {"naa": ["6001405old"], "accessible": False}
OURS_OLD = {"u-1": {"name": "ds1", "naa": ["6001405old"], "layer": "initiator-ds1"}}
OLD_DISK = {"device": "/vmfs/devices/disks/naa.6001405old", "size_bytes": 4 << 30}


@pytest.mark.parametrize("reason", ["AllPathsDown_Start", "PermanentDeviceLoss"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("mounted", [True, False])
def test_a_rebuilt_lun_takes_over_the_name_of_the_datastore(reason, listed, mounted):
    there = {**DISKS, **({"6001405old": {**OLD_DISK, "state": "lostCommunication"}} if listed else {})}
    found = volume(**OLD, reason=reason, mounted=mounted)
    assert ops([found], want(), owner=None, disks=there, recorded=OURS_OLD) == ["release", "create_vmfs"]
    assert refused([{**found, "vms": ["a"]}], want(), owner=None, disks=there, recorded=OURS_OLD) == "datastore_in_use"
    assert refused([found], want(), owner=None, disks=there) == "datastore_name_taken"
    assert ops([found], want(state="absent"), owner=None, disks=there, recorded=OURS_OLD) == ["release"]


def test_a_datastore_of_another_layer_may_come_back():
    there = {**DISKS, "6001405old": {**OLD_DISK, "state": "lostCommunication"}}
    found = volume(**OLD, reason="AllPathsDown_Start")
    elsewhere = {"u-1": {**OURS_OLD["u-1"], "layer": "initiator-ds2"}}
    assert refused([found], want(), owner=None, disks=there, recorded=elsewhere) == "datastore_name_taken"


def test_a_datastore_on_a_device_that_works_is_not_released():
    there = {**DISKS, "6001405old": {**OLD_DISK, "state": "ok"}}
    for found in (volume(**OLD), volume(**{**OLD, "accessible": True})):
        assert refused([found], want(), owner="mine", disks=there, recorded=OURS_OLD) == "datastore_name_taken"
        absent = want(state="absent")
        assert refused([found], absent, owner="mine", disks=there, recorded=OURS_OLD) == "datastore_foreign"


def test_the_new_disk_must_be_blank_as_well():
    there = disks(partitions=["1 ntfs"])
    found = volume(**OLD, reason="PermanentDeviceLoss")
    assert refused([found], want(), owner=None, disks=there, recorded=OURS_OLD) == "device_not_blank"


# ---------------------------------------------------------------- machines


def test_registered_machines_of_this_host_hold_a_datastore_mounted():
    found = volume(vms=["elsewhere", "off"], vms_here=["off"])
    refusal = failure([found], want(state="unmounted"))
    assert (refusal.code, refusal.details["vms"]) == ("datastore_in_use", ["off"])
    assert ops([volume(vms=["elsewhere"])], want(state="unmounted")) == ["unmount"]


def test_machines_of_any_host_keep_a_datastore_from_being_destroyed():
    assert failure([volume(vms=["elsewhere"])], want(state="absent")).details["vms"] == ["elsewhere"]
    nfs = volume(type="NFS", naa=[], remote="h:/x", vms=["a"], vms_here=["a"])
    gone = want(type="nfs", naa=None, server="h", path="/x", state="absent")
    assert refused([nfs], gone, recorded=OURS) == "datastore_in_use"


def test_machines_that_vcenter_runs_for_itself_get_their_own_remedy():
    plain, own = (
        str(failure([volume(vms=[name], vms_here=[name])], want(state="unmounted"))) for name in ("a", "vCLS-77")
    )
    assert "vSphere Cluster Services" in own
    assert "vSphere Cluster Services" not in plain


@pytest.mark.parametrize("state", ["absent", "unmounted"])
def test_what_is_not_ours_stays_mounted(state):
    for owner in (None, "theirs"):
        assert refused([volume()], want(state=state), owner=owner, recorded=OURS) == "datastore_foreign"
    assert refused([volume(accessible=False)], want(state=state), owner=None) == "datastore_inaccessible"


def test_check_mode_before_anything_is_logged_in():
    assert ops([], want(naa=None, check_mode=True), disks={}) == ["create_vmfs"]
    assert refused([], want(naa=None), disks={}) == "lun_missing"


ENTRY = {
    "name": "ds1",
    "type": "vmfs",
    "layer": "initiator-ds1",
    "version": 6,
    "server": None,
    "path": None,
    "compatibility": "physical",
}
LAYERS = {"initiator-ds1": {"identity": {"naa": NAA}}, "backing-ds1": {"identity": {}}}


@pytest.mark.parametrize(
    "entry, words",
    [
        ({**ENTRY, "layer": None}, "layer"),
        ({**ENTRY, "layer": "initiator-x"}, "initiator-ds1"),
        ({**ENTRY, "layer": "backing-ds1"}, "NAA"),
        ({**ENTRY, "version": 4}, "5 or 6"),
        ({**ENTRY, "name": "a/b"}, "name"),
        ({**ENTRY, "name": "x" * 43}, "42"),
        ({**ENTRY, "type": "nfs"}, "server"),
        ({**ENTRY, "type": "nfs", "server": "h"}, "path"),
    ],
)
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


def test_only_what_was_proven_is_remembered_as_ours():
    state = {"volumes": [volume(), volume(name="theirs", uuid="u-2"), volume(name="ds2", uuid="u-3", naa=[OTHER])]}
    assert remembered({}, [want()], state) == OURS
    kept = {"u-3": {"name": "ds2", "naa": [OTHER], "layer": "initiator-ds2"}}
    assert remembered(kept, [want()], state) == {**OURS, **kept}
    # Not everything of that name is ours: nothing was proven about it.
    for state_wanted in ("absent", "unmounted"):
        assert remembered({}, [want(state=state_wanted)], state) == {}
        assert remembered(OURS, [want(state=state_wanted, layer=None)], state) == OURS
    assert remembered({}, [want(type="rdm")], state) == {}
    # What is gone, or another volume now, is no longer ours.
    assert remembered(OURS, [want(state="absent")], {"volumes": []}) == {}
    assert remembered(OURS, [want()], {"volumes": [volume(uuid="u-9")]}) == {"u-9": OURS["u-1"]}


@pytest.mark.parametrize(
    "partitions, volumes, unresolved, late",
    [
        # Another host has made a volume, and this one does not show it yet.
        (["1 vmfs"], [], None, True),
        # A copy is not going to be mounted, and other contents are no volume.
        (["1 vmfs"], [], "tb-ds", False),
        (["1 ntfs"], [], None, False),
        ([], [], None, False),
        (["1 vmfs"], [(True, True)], None, False),
        # Another host has destroyed it.
        ([], [(True, True)], None, True),
        ([], [(True, False)], None, False),
        # Nothing is known of a device that does not answer.
        (None, [], None, False),
    ],
)
def test_a_host_is_waited_for_only_when_it_shows_something_else_than_the_device(partitions, volumes, unresolved, late):
    state = {
        "disks": {"6001": {"partitions": partitions, "unresolved": unresolved}},
        "volumes": [
            {"name": "tb-ds", "naa": ["6001"], "mounted": mounted, "accessible": reached}
            for mounted, reached in volumes
        ],
    }
    want = {"type": "vmfs", "name": "tb-ds", "naa": "6001"}
    assert behind(state, want) is late
    assert not behind(state, {**want, "naa": "6002"})
    assert not behind(state, {**want, "type": "rdm"})
    # A teardown may know the name only.
    assert behind(state, {**want, "naa": None}) is (late and bool(volumes))
    assert not behind(state, {**want, "naa": None, "name": "other"})


# ---------------------------------------------------------------- what others have on it


def test_what_others_have_in_the_root_keeps_a_datastore_from_being_destroyed():
    gone = want(state="absent")
    refusal = failure([volume()], gone, entries=["web01", "thesis.vmdk"])
    assert (refusal.code, refusal.details["entries"]) == ("datastore_not_empty", ["web01", "thesis.vmdk"])
    assert "web01, thesis.vmdk" in str(refusal) and "datastore_discard_contents" in str(refusal)
    (step,) = steps_of([volume()], want(state="absent", discard=True), entries=["web01", "thesis.vmdk"])
    assert (step["op"], step["was"]) == ("destroy", f"VMFS on {NAA} with web01, thesis.vmdk")
    # It is looked at only where something would be destroyed.
    for kept in (want(), want(state="unmounted")):
        assert "destroy" not in ops([volume()], kept, entries=["web01"])


def test_discarding_what_lies_on_it_discards_no_machine_no_stranger_and_no_foreign_datastore():
    gone = want(state="absent", discard=True)
    assert refused([volume(vms=["a"])], gone) == "datastore_in_use"
    assert refused([volume(hosts=["esx9"])], gone) == "datastore_shared"
    assert refused([volume()], gone, owner="theirs") == "datastore_foreign"


def test_only_hosts_of_the_testbed_may_mount_what_is_destroyed():
    shared = volume(hosts=["esx2", "esx9"])
    refusal = failure([shared], want(state="absent", hosts=["esx1", "esx2"]))
    assert (refusal.code, refusal.details["hosts"]) == ("datastore_shared", ["esx9"])
    assert ops([shared], want(state="absent", hosts=["esx9", "esx2"])) == ["destroy"]
    # Unmounted here it may still be mounted there.
    unmounted = {**shared, "mounted": False, "accessible": False}
    assert refused([unmounted], want(state="absent")) == "datastore_shared"
    # Who else mounts it keeps nobody from using it, nor from unmounting it here.
    assert ops([shared], want()) == []
    assert ops([shared], want(state="unmounted")) == ["unmount"]


def test_a_complete_teardown_leaves_the_stamp_and_what_vmfs_keeps_for_itself():
    own = [".fbb.sf", ".fdc.sf", ".pb2.sf", ".sdd.sf", ".vh.sf", ".iormstats.sf", ".storlab.json"]
    assert others(own) == []
    foreign = ["web01", ".dvsData", ".vSphere-HA", "notes.sf", ".sf", "golden.vmdk", ".storlab.json.old", ".hidden"]
    assert others(own + foreign) == sorted(foreign)


def test_files_of_high_availability_have_their_own_remedy():
    plain = str(failure([volume()], want(state="absent"), entries=["web01"]))
    own = str(failure([volume()], want(state="absent"), entries=[".vSphere-HA"]))
    assert "heartbeat" in own and "heartbeat" not in plain


def test_hosts_that_mount_it_are_named_by_what_is_known_of_them():
    here, there, unseen, off = "host-1", "host-2", "'vim.HostSystem:host-3'", "host-4"

    def mount(key, mounted):
        return SimpleNamespace(key=key, mountInfo=SimpleNamespace(mounted=mounted))

    mounts = [mount(here, True), mount(there, None), mount(unseen, True), mount(off, False)]
    assert mounting(mounts, {here: "esx1", there: "esx2", off: "esx4"}, here) == ["esx2", "vim.HostSystem:host-3"]


# ---------------------------------------------------------------- what was there before, and what a cut call has left


def test_a_share_that_was_there_before_the_testbed_stays_when_it_goes():
    share = volume(type="NFS", naa=[], remote="h:/x", uuid="nfs h:/x")
    gone = want(type="nfs", naa=None, server="h", path="/x", state="absent")
    assert ops([share], gone) == []
    assert ops([share], gone, recorded={"nfs h:/x": {"name": "ds1", "naa": [], "layer": None}}) == ["release_nfs"]
    assert ops([share], gone, intention={"time_s": 7}) == ["release_nfs"]
    # Where nothing is kept nobody can say.
    assert ops([share], {**gone, "remembers": False}) == ["release_nfs"]


def test_a_share_is_remembered_only_when_it_was_made():
    share = volume(type="NFS", naa=[], remote="h:/x", uuid="nfs h:/x")
    wanted = want(type="nfs", naa=None, server="h", path="/x", layer=None)
    made = {"nfs h:/x": {"name": "ds1", "naa": [], "layer": None}}
    assert remembered({}, [wanted], {"volumes": [share]}) == {}
    assert remembered({}, [wanted], {"volumes": [share]}, made=("ds1",)) == made
    assert remembered(made, [wanted], {"volumes": [share]}) == made
    assert remembered(made, [{**wanted, "state": "absent"}], {"volumes": []}) == {}
    # A VMFS of that name is none.
    assert remembered({}, [wanted], {"volumes": [volume()]}, made=("ds1",)) == {}


CUT = {"name": "ds1", "naa": NAA, "remote": None, "host": "esx1", "time_s": 1_700_000_000}


def test_what_a_cut_call_has_left_is_taken_when_it_is_empty():
    (step,) = steps_of([volume()], want(), owner=None, intention=CUT)
    assert (step["op"], step["was"]) == ("stamp", "begun at 2023-11-14T22:13:20.000Z and cut off")
    assert ops([volume()], want(state="unmounted"), owner=None, intention=CUT) == ["stamp", "unmount"]
    assert ops([volume()], want(state="absent"), owner=None, intention=CUT) == ["destroy"]
    # Its stamp was written, and the record was not.
    assert ops([volume()], want(), owner="mine", intention=CUT) == []


@pytest.mark.parametrize("state", ["present", "unmounted", "absent"])
@pytest.mark.parametrize(
    "there, owner, entries, intention",
    [
        pytest.param({}, None, [], None, id="no intention"),
        pytest.param({}, "theirs", [], CUT, id="another's stamp"),
        pytest.param({}, None, ["web01"], CUT, id="files"),
        pytest.param({"vms": ["a"]}, None, [], CUT, id="a machine"),
        pytest.param({"hosts": ["esx9"]}, None, [], CUT, id="another host"),
    ],
)
def test_what_is_not_empty_or_not_intended_is_somebody_elses(state, there, owner, entries, intention):
    wanted = want(state=state, discard=True)
    assert refused([volume(**there)], wanted, owner=owner, entries=entries, intention=intention) == "datastore_foreign"


# ---------------------------------------------------------------- a LUN that this testbed did not export


def test_a_lun_of_others_is_formatted_only_when_it_is_named():
    refusal = failure([], want(exported=False))
    assert refusal.code == "device_unproven" and f"datastore_allow_device: [naa.{NAA}]" in str(refusal)
    (step,) = steps_of([], want(exported=False, allowed=True))
    assert (step["op"], step["was"]) == ("create_vmfs", "anything on it without a partition table")
    # What is seen on it is said first, and besides.
    there = disks(partitions=["1 ntfs"])
    assert refused([], want(exported=False), disks=there) == "device_not_blank"
    (step,) = steps_of([], want(exported=False, allowed=True), disks=there)
    assert step["was"] == "partitions (1 ntfs) and anything on it without a partition table"
    # Naming it does not help against a datastore on it, and a datastore that is there needs no name.
    assert refused([], want(exported=False, allowed=True), disks=disks(available=False)) == "device_in_use"
    assert ops([volume()], want(exported=False)) == []


PLACE = {"target_iqn": "iqn.t:a", "lun": 3}


@pytest.mark.parametrize(
    "beneath, exported",
    [
        pytest.param({"kind": "target", "identity": PLACE}, True, id="its own export"),
        pytest.param(None, False, id="not published"),
        pytest.param({"kind": "backing", "identity": PLACE}, False, id="no export"),
        pytest.param({"kind": "target", "identity": {**PLACE, "lun": 4}}, False, id="another LUN"),
        pytest.param({"kind": "target", "identity": {**PLACE, "target_iqn": "iqn.t:ab"}}, False, id="another target"),
        pytest.param({"kind": "target", "identity": {}}, False, id="an export that says nothing"),
    ],
)
def test_only_what_the_testbeds_own_target_has_published_counts_as_its_export(beneath, exported):
    layers = {"initiator-ds1": {"parent": "target-ds1", "identity": {"naa": NAA, **PLACE}}}
    if beneath:
        layers["target-ds1"] = beneath
    assert check(ENTRY, layers, "datastore_datastores", "mine", "present")["exported"] is exported


def test_a_layer_that_names_no_place_or_no_export_is_not_exported():
    nowhere = {"kind": "target", "identity": {}}
    for layer in (
        {"parent": "target-ds1", "identity": {"naa": NAA}},
        {"parent": None, "identity": {"naa": NAA, **PLACE}},
    ):
        wanted = check(
            ENTRY, {"initiator-ds1": layer, "target-ds1": nowhere}, "datastore_datastores", "mine", "present"
        )
        assert wanted["exported"] is False


@pytest.mark.parametrize("owner", [None, "mine", "theirs"])
@pytest.mark.parametrize("state", ["present", "unmounted", "absent"])
def test_a_datastore_that_was_there_before_is_never_changed(state, owner):
    wanted = want(type="existing", naa=None, layer=None, state=state, discard=True)
    for there in (volume(), volume(type="NFS", naa=[], remote="nas:/vol7")):
        assert steps_of([there], wanted, owner=owner, recorded=OURS) == []
    assert remembered({}, [wanted], {"volumes": [volume()], "disks": DISKS}, made=("ds1",)) == {}


@pytest.mark.parametrize(
    ("there", "code"),
    [
        ([], "datastore_missing"),
        ([volume(name="ds10")], "datastore_missing"),
        ([volume(accessible=False, reason="AllPathsDown_Start")], "datastore_inaccessible"),
    ],
    ids=["none", "another name", "unreachable"],
)
def test_a_datastore_that_was_there_before_must_be_there(there, code):
    wanted = want(type="existing", naa=None, layer=None)
    with pytest.raises(Failure) as refused:
        steps_of(there, wanted)
    assert refused.value.code == code and "ds1" in refused.value.what
    # A teardown has nothing to do with it, whatever became of it.
    assert steps_of(there, {**wanted, "state": "absent"}) == []


def test_the_layer_of_a_datastore_that_was_there_before_says_so():
    wanted = check({"name": "ds1", "type": "existing", "layer": None, "version": 6}, {}, "d", "mine", "present")
    vmfs, nfs = (layer_of(wanted, each, None) for each in (volume(version=5), volume(type="NFS", remote="nas:/vol7")))
    other = layer_of(wanted, None, None, {"type": "vsan", "accessible": True, "size_bytes": 7 << 40, "free_bytes": 9})
    assert (other["detail"], other["size_bytes"]) == ({"provider": "existing", "filesystem": "vsan"}, 7 << 40)
    assert vmfs["identity"] == {"naa": "6001405aa", "uuid": "u-1", "datastore": "ds1"} and nfs["identity"] == {
        "datastore": "ds1"
    }
    assert vmfs["detail"] == {"provider": "existing", "filesystem": "VMFS 5"}
    assert nfs["detail"] == {"provider": "existing", "filesystem": "NFS", "remote": "nas:/vol7"}
    # Two disks below one volume name none of them.
    both = layer_of(wanted, volume(naa=["6001405aa", "6001405bb"]), None)
    assert "naa" not in both["identity"]
    assert vmfs["purpose"] == nfs["purpose"] == other["purpose"] == "read"
    assert layer_of({**wanted, "access": "write"}, volume(), None)["purpose"] == "data"
