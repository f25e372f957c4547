# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for an ESXi host's software iSCSI adapter, from state and record alone."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.secrets import keep_secret, same_secret
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import adapter as esxi_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import options as host_options
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.adapter import (
    absent_plan,
    entries,
    entry_key,
    plan,
    prove,
)

IQN, OTHER, NAME = "iqn.2026-11.test:a", "iqn.2026-11.test:b", "iqn.2026-11.test:esx"
SEND, STATIC = "send 10.0.0.1:3260", f"static 10.0.0.1:3260 {IQN}"
FRESH = {
    "enabled": False,
    "device": None,
    "iqn": None,
    "alias": "",
    "chap": None,
    "options": {},
    "bound": [],
    "targets": [],
    "luns": [],
    "host_options": {"ISCSI.MaxIoSizeKB": 128},
    "module_options": "",
}
LUN = {
    "iqn": IQN,
    "lun": 3,
    "naa": "6001405a",
    "name": "naa.6001405a",
    "serial": "sn-1",
    "size_bytes": 1 << 30,
    "device": "/d",
    "state": "ok",
}


def target(**changes) -> dict:
    return {
        "iqn": IQN,
        "portal": {"address": "10.0.0.1", "port": 3260},
        "discovery": "dynamic",
        "discovery_chap": False,
        "chap_user": "u",
        "chap_password": "secret-one-11",
        "mutual_chap_user": None,
        "mutual_chap_password": None,
        "luns": [{"lun": 3, "name": "x"}],
        **changes,
    }


def want(**changes) -> dict:
    return {
        "testbed_id": "mine",
        "name": NAME,
        "options": {},
        "host_options": {},
        "queue_depth": None,
        "port_binding": [],
        "adapter_chap": None,
        "targets": [target()],
        **changes,
    }


def built() -> tuple:
    """State and record after a build of want()."""
    chap = {"name": "u", "mutual_name": ""}
    state = {
        **copy.deepcopy(FRESH),
        "enabled": True,
        "device": "vmhba65",
        "iqn": NAME,
        "alias": "storlab-mine",
        "luns": [LUN],
        "targets": [
            {"method": "send", "address": "10.0.0.1", "port": 3260, "iqn": None, "chap": None, "discovered": False},
            {"method": "static", "address": "10.0.0.1", "port": 3260, "iqn": IQN, "chap": chap, "discovered": True},
        ],
    }
    record = {
        "before": {
            **{key: FRESH[key] for key in ("enabled", "iqn", "alias", "options", "module_options", "host_options")},
            "targets": [],
        },
        "targets": [SEND, STATIC],
        "bound": [],
        "options": [],
        "queue_depth": False,
        "secrets": {STATIC: {"chap_password": keep_secret("secret-one-11")}},
    }
    return state, record


def ops(state, wanted, record=None) -> list:
    return [step["op"] for step in plan(state, wanted, record or {})]


def test_first_build():
    wanted = want(
        options={"DelayedAck": False}, host_options={"ISCSI.MaxIoSizeKB": 512}, queue_depth=64, port_binding=["vmk1"]
    )
    assert ops(FRESH, wanted) == [
        "enable",
        "name",
        "alias",
        "options",
        "host_option",
        "queue_depth",
        "bind",
        "add_target",
        "discover",
        "chap_found",
        "rescan",
    ]


def test_second_build_only_looks():
    state, record = built()
    assert ops(state, want(), record) == ["rescan"]


def test_a_changed_secret_is_noticed():
    state, record = built()
    steps = plan(state, want(targets=[target(chap_password="secret-two-22")]), record)
    assert [step["op"] for step in steps] == ["discover", "chap_found", "rescan"]


def test_a_lost_record_of_the_secret_sets_it_again():
    state, record = built()
    record["secrets"] = {}
    assert "chap_found" in ops(state, want(), record)


def test_static_discovery_names_the_target_itself():
    steps = plan(FRESH, want(targets=[target(discovery="static")]), {})
    assert [step["target"] for step in steps if step["op"] in ("add_target", "chap")] == [STATIC, STATIC]
    assert "discover" not in [step["op"] for step in steps]


def test_discovery_with_chap_sets_it_at_the_portal_too():
    steps = plan(FRESH, want(targets=[target(discovery_chap=True)]), {})
    assert [step["target"] for step in steps if step["op"].startswith("chap")] == [SEND, STATIC]


def test_targets_behind_one_portal_must_agree_on_chap_in_discovery():
    with pytest.raises(Failure) as caught:
        entries([target(discovery_chap=True), target(iqn=OTHER, chap_user="v", discovery_chap=True)])
    assert caught.value.code == "bad_value"
    assert len(entries([target(), target(iqn=OTHER, chap_user="v")])) == 3


def test_a_target_that_is_no_longer_wanted_is_removed_and_a_strangers_stays():
    state, record = built()
    state["targets"].append(
        {"method": "send", "address": "10.0.0.9", "port": 3260, "iqn": None, "chap": None, "discovered": False}
    )
    steps = plan(state, want(targets=[]), record)
    assert [step["target"] for step in steps if step["op"] == "remove_target"] == [SEND, STATIC]


def test_the_name_is_not_changed_under_targets_of_others():
    state, record = built()
    state["targets"].append(
        {"method": "send", "address": "10.0.0.9", "port": 3260, "iqn": None, "chap": None, "discovered": False}
    )
    with pytest.raises(Failure) as caught:
        plan(state, want(name="iqn.2026-11.test:new"), record)
    assert caught.value.code == "adapter_in_use"
    assert "send 10.0.0.9:3260" in caught.value.details["targets"]


def test_chap_of_others_at_the_adapter_is_not_overwritten():
    state, record = built()
    state["chap"] = {"name": "theirs", "mutual_name": ""}
    own = {"chap_user": "u", "chap_password": "secret-one-11", "mutual_chap_user": "", "mutual_chap_password": ""}
    with pytest.raises(Failure) as caught:
        plan(state, want(adapter_chap=own), record)
    assert caught.value.code == "adapter_in_use"


@pytest.mark.parametrize(
    "text, value, expected",
    [
        ("", 64, "iscsivmk_LunQDepth=64"),
        ("iscsivmk_LunQDepth=32 other=1", 64, "other=1 iscsivmk_LunQDepth=64"),
        ("other=1 iscsivmk_LunQDepth=32", None, "other=1"),
    ],
)
def test_other_options_of_the_kernel_module_stay(text, value, expected):
    assert host_options.with_option(text, "iscsivmk_LunQDepth", value) == expected


def test_teardown_gives_everything_back_in_the_order_that_the_host_wants():
    state, record = built()
    state["host_options"]["ISCSI.MaxIoSizeKB"] = 512
    state["bound"] = ["vmk1", "vmk9"]
    record["bound"] = ["vmk1"]
    steps = absent_plan(state, record)
    assert [(step["op"], step["target"]) for step in steps] == [
        ("remove_target", STATIC),
        ("remove_target", SEND),
        ("unbind", "vmk1"),
        ("host_option", "ISCSI.MaxIoSizeKB"),
        ("rescan", "vmhba65"),
        ("disable", "vmhba65"),
    ]


def test_teardown_leaves_an_adapter_that_was_enabled_before():
    state, record = built()
    record["before"].update(enabled=True, iqn="iqn.1998-01.com.vmware:was", alias="was")
    steps = absent_plan(state, record)
    assert {step["op"]: step["will"] for step in steps if step["op"] in ("name", "alias")} == {
        "name": "iqn.1998-01.com.vmware:was",
        "alias": "was",
    }
    assert "disable" not in [step["op"] for step in steps]


def test_teardown_leaves_the_adapter_to_a_stranger_who_came_later():
    state, record = built()
    state["targets"].append(
        {"method": "send", "address": "10.0.0.9", "port": 3260, "iqn": None, "chap": None, "discovered": False}
    )
    steps = absent_plan(state, record)
    assert "disable" not in [step["op"] for step in steps]
    assert "send 10.0.0.9:3260" not in [step["target"] for step in steps]


def test_targets_that_the_portal_told_of_besides_are_removed_unless_they_were_there_before():
    state, record = built()
    for iqn in (OTHER, "iqn.2026-11.test:old"):
        state["targets"].append(
            {"method": "static", "address": "10.0.0.1", "port": 3260, "iqn": iqn, "chap": None, "discovered": True}
        )
    record["before"]["targets"] = ["static 10.0.0.1:3260 iqn.2026-11.test:old"]
    gone = [step["target"] for step in absent_plan(state, record) if step["op"] == "remove_target"]
    assert f"static 10.0.0.1:3260 {OTHER}" in gone
    assert "static 10.0.0.1:3260 iqn.2026-11.test:old" not in gone


def test_without_a_record_nothing_is_taken_away():
    assert absent_plan(built()[0], {}) == []


@pytest.mark.parametrize(
    "lun, code",
    [({"serial": "sn-2"}, "wrong_serial"), ({"naa": "6001405b"}, "wrong_naa"), ({"size_bytes": 5}, "wrong_size")],
)
def test_a_lun_must_be_the_device_that_the_target_exports(lun, code):
    with pytest.raises(Failure) as caught:
        prove([target(luns=[{"lun": 3, "name": "x", **lun}])], [LUN])
    assert caught.value.code == code


def test_a_serial_in_other_words_is_told_when_the_identifier_proves_the_device():
    def wanted(**lun):
        return [target(luns=[{"lun": 3, "name": "x", **lun}])]

    odd = wanted(serial="LIO-ORG 77", naa="6001405a")
    proven = prove(odd, [LUN])
    (warning,) = esxi_iscsi.odd_serials(odd, proven)
    assert all(word in warning for word in ("LIO-ORG 77", LUN["serial"], "6001405a", IQN))
    assert esxi_iscsi.odd_serials(wanted(serial="SN-1", naa="6001405a"), proven) == []
    # Without an identifier, expected or told, only the serial proves anything.
    for lun, disk in ((wanted(serial="LIO-ORG 77"), LUN), (odd, {**LUN, "naa": None})):
        with pytest.raises(Failure) as caught:
            prove(lun, [disk])
        assert caught.value.code == "wrong_serial"


@pytest.mark.parametrize("turn", [1, -1])
def test_a_lost_device_that_is_still_listed_is_not_taken_for_the_one_in_its_place(turn):
    lost = {**LUN, "naa": "6001405old", "name": "naa.6001405old", "state": "lostCommunication"}
    wanted = [target(luns=[{"lun": 3, "name": "x", "naa": "6001405a"}])]
    assert prove(wanted, [LUN, lost][::turn])[IQN, 3]["name"] == "naa.6001405a"


def test_serials_are_compared_as_devices_write_them():
    assert (
        prove([target(luns=[{"lun": 3, "name": "x", "serial": "SN-1", "naa": "6001405A"}])], [LUN])[IQN, 3]["name"]
        == "naa.6001405a"
    )


def test_what_is_missing_is_said_with_what_is_there():
    same = esxi_iscsi.lun_missing([(IQN, 7)], [LUN])
    assert "LUN 3 (naa.6001405a, ok)" in str(same)
    assert "LUN 7" in str(same)
    none = esxi_iscsi.lun_missing([(OTHER, 1)], [LUN])
    assert IQN in str(none)
    assert "CHAP" in str(none)


def test_secrets_are_kept_as_salted_digests_only():
    kept = keep_secret("secret-one-11")
    assert same_secret("secret-one-11", kept)
    assert not same_secret("secret-two-22", kept)
    assert not same_secret("secret-one-11", None)
    assert "secret" not in str(kept)
    assert keep_secret("secret-one-11") != kept


def test_entry_keys_tell_targets_of_one_portal_apart():
    keys = [entry_key(entry) for entry in entries([target(), target(iqn=OTHER)])]
    assert keys == [SEND, STATIC, f"static 10.0.0.1:3260 {OTHER}"]
