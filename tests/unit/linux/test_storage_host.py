# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's record on a host, commands, and who uses a device."""

from __future__ import annotations

import json
import stat

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.names import check_testbed_id
from ansible_collections.storlab.testbed.plugins.module_utils.linux import host
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from unchanged import refused


def test_a_record_is_private_kept_and_removed_with_its_folder(tmp_path):
    run_dir = tmp_path / "storlab"
    record, other = Record("tb", "one", str(run_dir)), Record("tb", "two", str(run_dir))
    record.data["made"] = ["x"]
    record.save()
    other.save()
    assert stat.S_IMODE((run_dir / "tb/one.json").stat().st_mode) == 0o600
    assert Record("tb", "one", str(run_dir)).data["made"] == ["x"]
    record.remove()
    assert [path.name for path in (run_dir / "tb").iterdir()] == ["two.json"]
    other.remove()
    assert not run_dir.exists()


def test_a_record_of_an_earlier_boot_is_void(tmp_path):
    (tmp_path / "tb").mkdir()
    (tmp_path / "tb/one.json").write_text(json.dumps({"boot_id": "another", "made": ["x"]}))
    assert Record("tb", "one", str(tmp_path)).data == {}


def test_what_two_testbeds_share_is_left_to_the_other(tmp_path):
    first, second, other_area = (Record(*name, str(tmp_path)) for name in (("a", "one"), ("b", "one"), ("c", "two")))
    second.data["modules"] = ["m2"]
    for record in (first, second, other_area):
        record.save()
    first.bequeath(modules=["m1"], daemon="process", folders=[])
    assert {key: value for key, value in Record("b", "one", str(tmp_path)).data.items() if key != "boot_id"} == {
        "modules": ["m1", "m2"],
        "daemon": "process",
    }
    second.remove()
    Record("b", "one", str(tmp_path)).remove()
    first.bequeath(modules=["m1"], daemon="process")
    # Modules may be in use by any layer; of the rest only the same area knows what it means.
    assert {key: value for key, value in Record("c", "two", str(tmp_path)).data.items() if key != "boot_id"} == {
        "modules": ["m1"]
    }


def test_a_damaged_record_is_said_to_be_one(tmp_path):
    (tmp_path / "tb").mkdir()
    (tmp_path / "tb/one.json").write_text("{")
    with refused(tmp_path) as caught:
        Record("tb", "one", str(tmp_path))
    assert caught.value.code == "record_damaged"


def test_commands_fail_with_a_code():
    assert host.run(["sh", "-c", "echo $LC_ALL"]).stdout == "C\n"
    for argv, code in (
        (["no-such-command-here"], "command_missing"),
        (["sh", "-c", "echo sorry >&2; exit 3"], "command_failed"),
    ):
        with pytest.raises(Failure) as caught:
            host.run(argv)
        assert caught.value.code == code
    assert "sorry" in str(caught.value) and caught.value.details["exit_code"] == 3
    assert host.run(["sh", "-c", "exit 3"], ok=(0, 3)).returncode == 3


def test_a_command_that_was_ended_is_said_to_have_been():
    """As tgtadm is, by SIGPIPE, when the daemon is killed that it talks to."""
    with pytest.raises(Failure) as caught:
        host.run(["sh", "-c", "kill -PIPE $$"])
    assert "sh failed: was ended by signal 13 (Broken pipe), no message" in str(caught.value)


@pytest.mark.parametrize("testbed", ["", "A", "a/b", "../a", "-a", "a-", "a" * 33, "a b"])
def test_bad_testbed_ids(testbed):
    with pytest.raises(Failure, match="ramdisk_testbed_id"):
        check_testbed_id("ramdisk_testbed_id", testbed)


def test_users_have_codes():
    assert block_device.in_use("x", "/dev/a", ["mounted on /mnt"]).code == "device_mounted"
    assert block_device.in_use("x", "/dev/a", ["held by dm-0"]).code == "device_in_use"


LAYERS = {"backing-a": {"name": "backing-a", "path": "/dev/ram0", "size_bytes": 4096, "identity": {}}}


def target(**change):
    return {
        "name": "iqn.2026-01.t:a",
        "portals": [{"address": "10.0.0.1", "port": 3260}],
        "luns": [{"lun": 0, "name": "a", "layer": "backing-a", "device": None, "purpose": "data"}],
        "initiators": [{"iqn": "iqn.2026-01.t:i", "luns": None, "chap_user": "u1", "chap_password": "secret-in-one-1"}],
        **change,
    }


@pytest.mark.parametrize(
    ("given", "beneath", "result"), [(None, "data", "data"), (None, "scratch", "scratch"), (None, None, "data")]
)
def test_luns_have_the_purpose_of_their_layer(given, beneath, result):
    layers = {"backing-a": {**LAYERS["backing-a"], "purpose": beneath}}
    luns = [{"lun": 0, "name": "a", "layer": "backing-a", "device": None, "purpose": given}]
    assert iscsi_target.check_targets([target(luns=luns)], layers)[0]["luns"][0]["purpose"] == result


def test_a_lun_that_contradicts_its_layer_is_refused():
    layers = {"backing-a": {**LAYERS["backing-a"], "purpose": "data"}}
    luns = [{"lun": 0, "name": "a", "layer": "backing-a", "device": None, "purpose": "scratch"}]
    with pytest.raises(Failure, match=r"iscsi_target_targets iqn.2026-01.t:a lun a purpose is 'scratch'"):
        iscsi_target.check_targets([target(luns=luns)], layers)


def test_targets_get_their_devices():
    lun = iscsi_target.check_targets([target()], LAYERS)[0]["luns"][0]
    assert (lun["device"], lun["parent"]) == ("/dev/ram0", "backing-a")


def test_a_lun_carries_the_generation_of_the_disk_beneath_it():
    below = {**LAYERS["backing-a"], "parent": None, "detail": {"generation": "g7"}}
    cache = {"name": "cache-a", "path": "/dev/dm-3", "size_bytes": 4096, "identity": {}, "parent": "backing-a"}
    on_cache = target(luns=[{"lun": 0, "name": "a", "layer": "cache-a", "device": None, "purpose": "data"}])
    device = target(luns=[{"lun": 0, "name": "a", "layer": None, "device": "/dev/null", "purpose": "data"}])
    layers = {"backing-a": below, "cache-a": cache}
    for wanted, generation in ((target(), "g7"), (on_cache, "g7"), (device, None)):
        checked = iscsi_target.check_targets([wanted], layers)
        assert checked[0]["luns"][0]["generation"] == generation
        published = iscsi_target.layers_of(checked, {}, lambda _target, _lun: {}, "lio")[0]
        assert published["detail"].get("generation") == generation


@pytest.mark.parametrize(
    "change",
    [
        {"portals": []},
        {"portals": [{"address": "0.0.0.0", "port": 3260}]},  # noqa: S104
        {"portals": [{"address": "10.0.0.1", "port": 3260}] * 2},
        {"initiators": []},
        {
            "initiators": [
                {"iqn": "iqn.2026-01.t:i", "luns": [4], "chap_user": "u1", "chap_password": "secret-in-one-1"}
            ]
        },
        {"initiators": [{"iqn": "iqn.2026-01.t:i", "luns": None, "chap_user": None}]},
        {"luns": [{"lun": 0, "name": "a", "layer": None, "device": None, "purpose": "data"}]},
        {"luns": [{"lun": 0, "name": "a", "layer": "backing-a", "device": None, "purpose": "data"}] * 2},
    ],
)
def test_bad_targets(change):
    with pytest.raises(Failure) as caught:
        iscsi_target.check_targets([target(**change)], LAYERS)
    assert caught.value.code == "bad_value"


def test_a_loopback_login_keeps_its_path_for_the_same_lun_only():
    identity = {"target_iqn": "iqn.2026-01.t:a", "lun": 0, "serial": "s1"}
    targets = iscsi_target.check_targets([target()], LAYERS)
    before = {"target-a": {"path": "/dev/sdq", "identity": {**identity, "wwid": "naa.6"}, "detail": {"queue_depth": 9}}}
    kept = iscsi_target.layers_of(targets, before, lambda _target, _lun: identity, "lio")[0]
    assert (
        kept["path"] == "/dev/sdq"
        and kept["identity"]["wwid"] == "naa.6"
        and kept["detail"]["queue_depth"] == 9
        and kept["size_bytes"] == 4096
    )
    other = iscsi_target.layers_of(targets, before, lambda _target, _lun: {**identity, "serial": "s2"}, "lio")[0]
    assert other["path"] is None and other["identity"]["serial"] == "s2"


ONE, TWO = "iqn.2026-01.t:one", "iqn.2026-01.t:two"
INITIATOR = {
    "name": "initiator-a",
    "host": "hypervisor01",
    "path": "/dev/sdc",
    "identity": {"target_iqn": "iqn.2026-01.t:a", "lun": 0},
    "detail": {"initiator_iqn": ONE},
}
LOST = [{"target": "iqn.2026-01.t:a", "initiator": ONE, "address": "10.0.0.12", "lun": 0}]
KEY = f"iqn.2026-01.t:a {ONE} 0"


def in_use(uses, layers=None, lost=LOST, wanted=()):
    """The failure for the lost LUNs, None when they may go."""
    found = iscsi_target.withdrawn(lost, list(wanted), {"initiator-a": INITIATOR} if layers is None else layers)
    try:
        iscsi_target.refuse_withdrawn(found, uses)
    except Failure as failure:
        assert failure.code == "target_in_use"
        return failure
    return None


def test_a_lun_goes_only_when_its_initiator_says_that_nothing_uses_it():
    assert in_use({}, lost=[]) is None
    assert in_use({KEY: []}) is None
    assert in_use({f"iqn.2026-01.t:a {TWO} 0": [], f"iqn.2026-01.t:a {ONE} 1": []}) is not None
    two = [*LOST, {**LOST[0], "initiator": TWO}]
    assert in_use({KEY: []}, lost=two).details["initiators"] == [TWO]


def test_a_lun_in_use_is_named_with_host_mount_and_variable():
    wanted = [{"name": "iqn.2026-01.t:a", "luns": [{"lun": 0}], "initiators": [{"iqn": ONE, "luns": []}]}]
    text = str(in_use({KEY: ["mounted on /srv/storlab/ds1"]}, wanted=wanted))
    for part in (
        "LUN 0",
        "hypervisor01",
        "/dev/sdc",
        "mounted on /srv/storlab/ds1",
        f"{KEY.split()[0]} initiator {ONE} luns",
    ):
        assert part in text
    # Of an initiator that nobody has published there is its name and its address only.
    unknown = in_use({}, layers={"initiator-a": {**INITIATOR, "detail": {"initiator_iqn": TWO}}})
    assert "10.0.0.12" in str(unknown) and unknown.details["withdrawn"][0]["host"] is None


@pytest.mark.parametrize(
    ("wanted", "variable"),
    [
        ([], "iscsi_target_targets"),
        ([{"luns": [{"lun": 1}], "initiators": []}], "iscsi_target_targets iqn.2026-01.t:a luns"),
        ([{"luns": [{"lun": 0}], "initiators": [{"iqn": TWO}]}], "iscsi_target_targets iqn.2026-01.t:a initiators"),
        ([{"luns": [{"lun": 0}], "initiators": [{"iqn": ONE, "luns": None}]}], "iscsi_target_targets iqn.2026-01.t:a"),
    ],
)
def test_the_variable_that_takes_a_lun_away(wanted, variable):
    wanted = [{"name": "iqn.2026-01.t:a", **target} for target in wanted]
    assert in_use({}, wanted=wanted).details["withdrawn"][0]["variable"] == variable


def test_modules_that_need_others_are_told_through_others_too(tmp_path):
    needs = {
        "sunrpc": ["nfsd", "auth_rpcgss"],
        "auth_rpcgss": ["nfsd", "rpcsec_gss_krb5"],
        "nfsd": [],
        "brd": ["other"],
    }
    for name, holders in needs.items():
        for holder in holders:
            (tmp_path / "sys/module" / name / "holders" / holder).mkdir(parents=True)
    assert host.modules_that_need(["sunrpc"], str(tmp_path)) == {"nfsd", "auth_rpcgss", "rpcsec_gss_krb5"}
    assert host.modules_that_need(["auth_rpcgss", "nfsd"], str(tmp_path)) == {"nfsd", "rpcsec_gss_krb5"}
    assert host.modules_that_need(["rpcsec_gss_krb5", "absent"], str(tmp_path)) == set()
