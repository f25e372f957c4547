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
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import adapter_plan
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import options as host_options
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.adapter import prove
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.adapter_plan import (
    absent_plan,
    entries,
    entry_key,
    plan,
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
    "limits": {},
    "host_limits": {},
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


LIMITS = {
    "LoginTimeout": {"read_only": False, "min": 1, "max": 60, "at_start": False},
    "MaxCommands": {"read_only": True, "min": 2, "max": 2048, "at_start": False},
    "DelayedAck": {"read_only": False, "min": None, "max": None, "at_start": False},
    "InitR2T": {"read_only": True, "min": None, "max": None, "at_start": False},
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"LoginTimeout": "61"}, ("LoginTimeout", "61", "1 to 60")),
        ({"LoginTimeout": 0}, ("LoginTimeout", "0", "1 to 60")),
        ({"MaxCommands": 64}, ("MaxCommands", "64", "128")),
        ({"InitR2T": "yes"}, ("InitR2T", "False")),
        ({"NoopOutInterval": 20}, ("NoopOutInterval", "LoginTimeout")),
    ],
)
def test_what_the_host_would_not_take_is_refused_with_its_bounds(options, words):
    state, record = built()
    state.update(options={"LoginTimeout": 5, "MaxCommands": 128, "DelayedAck": True, "InitR2T": False}, limits=LIMITS)
    with pytest.raises(Failure) as caught:
        plan(state, want(options=options), record)
    assert caught.value.code == "bad_value" and all(word in str(caught.value) for word in words)
    # The bounds themselves, and what nobody may set as it is already.
    fitting = {"LoginTimeout": 60, "MaxCommands": "128", "DelayedAck": "no", "InitR2T": "no"}
    (step,) = [step for step in plan(state, want(options=fitting), record) if step["op"] == "options"]
    assert step["will"] == {"LoginTimeout": 60, "DelayedAck": False}


def test_a_hosts_option_outside_its_bounds_is_refused():
    state, record = built()
    state["host_limits"] = {"ISCSI.MaxIoSizeKB": {"read_only": False, "min": 128, "max": 512, "at_start": True}}
    for value in (127, "513"):
        with pytest.raises(Failure) as caught:
            plan(state, want(host_options={"ISCSI.MaxIoSizeKB": value}), record)
        assert caught.value.code == "bad_value" and "128 to 512" in str(caught.value)
    assert "host_option" in ops(state, want(host_options={"ISCSI.MaxIoSizeKB": 512}), record)


@pytest.mark.parametrize(
    ("key", "text", "at_start"),
    [
        ("ISCSI.MaxIoSizeKB", "The maximum I/O size of software iSCSI in KB. Requires rebooting the host.", True),
        ("Net.TcpipMaxNetstackInstances", "Most stacks. Requires rebooting the host.", True),
        ("Net.TcpipHeapMax", "Max megabytes that the heap can grow to. (REQUIRES REBOOT!)", True),
        ("Net.TcpipHeapSize", "Size of the heap in megabytes (requires reboot)", True),
        ("Net.TcpipRxDispatchQueues", "For low memory systems, this should be minimum value(REQUIRES REBOOT!)", True),
        ("ScratchConfig.ConfiguredScratchLocation", "The folder for scratch. Changes will take effect on next reboot.", True),
        ("UserVars.AuditApiCallEnabled", "A reboot is required for this setting to take affect.", True),
        ("VMkernel.Boot.netNetqueueEnabled", "Enable/Disable NetQueue support.", True),
        ("ISCSI.SocketRcvBufLenKB", "Socket receive buffer length in KB for iSCSI connections", False),
        ("Net.TcpipLogPackets", "(Takes effect during vmknic creation time)", False),
        ("Misc.RebootMethod", "Preferred reboot method (any, psci, acpi, kb)", False),
        ("Scsi.ScsiRestartStalledQueueLatency", "Delay in ms before restarting a stalled queue", False),
        ("UserVars.ESXiShellTimeOut", "Takes effect after the services are restarted.", False),
    ],
)  # fmt: skip
def test_an_options_own_text_says_whether_it_needs_a_restart(key, text, at_start):
    assert host_options.needs_restart(key, text) is at_start


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
    elsewhere = discovered(IQN, "10.0.0.1:3260", address="10.0.0.77")
    state["targets"] += [elsewhere, discovered(OTHER, "10.0.0.9:3260")]
    steps = plan(state, want(targets=[]), record)
    gone = [step["target"] for step in steps if step["op"] == "remove_target"]
    assert gone == [SEND, STATIC, entry_key(elsewhere)]


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
        # A host does not let go of an interface while sessions go through it.
        ("end_sessions", "vmhba65"),
        ("unbind", "vmk1"),
        ("host_option", "ISCSI.MaxIoSizeKB"),
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


def discovered(iqn: str, parent: str | None, address: str = "10.0.0.1") -> dict:
    entry = {"method": "static", "address": address, "port": 3260, "iqn": iqn}
    return {**entry, "chap": None, "discovered": True, "parent": parent}


def send(address: str) -> dict:
    entry = {"method": "send", "address": address, "port": 3260, "iqn": None}
    return {**entry, "chap": None, "discovered": False, "parent": "vmhba65"}


def removed(state: dict, record: dict) -> list:
    return [step["target"] for step in absent_plan(state, record) if step["op"] == "remove_target"]


def test_what_a_send_target_of_ours_reported_besides_is_removed_unless_it_was_there_before():
    state, record = built()
    old, second = "iqn.2026-11.test:old", "static 10.0.0.77:3260 iqn.2026-11.test:a"
    state["targets"] += [discovered(OTHER, "10.0.0.1:3260"), discovered(old, "10.0.0.1:3260")]
    state["targets"] += [discovered(IQN, "10.0.0.1:3260", address="10.0.0.77")]
    record["before"]["targets"] = [f"static 10.0.0.1:3260 {old}"]
    assert set(removed(state, record)) == {SEND, STATIC, f"static 10.0.0.1:3260 {OTHER}", second}


@pytest.mark.parametrize("parent", ["10.0.0.9:3260", "10.0.0.11:3260", "10.0.0.1:32600", None, "vmhba65"])
def test_what_somebody_elses_send_target_reported_stays_whatever_portal_it_names(parent):
    state, record = built()
    state["targets"] += [send("10.0.0.9"), discovered(OTHER, parent)]
    assert set(removed(state, record)) == {SEND, STATIC}


def test_our_own_target_that_others_report_is_theirs():
    state, record = built()
    # Their portal reports the same target by the same address, and the host lists it once.
    state["targets"][1]["parent"] = "10.0.0.9:3260"
    state["targets"].append(send("10.0.0.9"))
    assert removed(state, record) == [SEND]


@pytest.mark.parametrize("parent", ["[fd00::1]:3260", "fd00::1:3260", "fd00::1"])
def test_a_parent_with_an_address_of_ipv6_is_known_however_it_is_written(parent):
    state, record = built()
    record["targets"] = ["send [fd00::1]:3260"]
    state["targets"] = [discovered(OTHER, parent, address="fd00::1")]
    assert removed(state, record) == [f"static [fd00::1]:3260 {OTHER}"]


def shared() -> tuple:
    """State and record of a built testbed whose adapter an administrator has since added an array to."""
    state, record = built()
    state.update(bound=["vmk1", "vmk9"], options={"DelayedAck": False, "LoginTimeout": 17}, chap={"name": "u7"})
    record.update(bound=["vmk1"], options=["DelayedAck"], queue_depth=True)
    record["before"].update(
        iqn="iqn.1998-01.com.vmware:esx", alias="was", options={"DelayedAck": True, "LoginTimeout": 5}
    )
    record["secrets"][adapter_plan.ADAPTER] = {}
    state["module_options"] = "iscsivmk_LunQDepth=64"
    state["targets"] += [send("10.0.0.9"), discovered(OTHER, "10.0.0.9:3260", address="10.0.0.9")]
    return state, record


def test_what_others_use_of_the_adapter_is_kept_and_named():
    state, record = shared()
    steps = absent_plan(state, record)
    # Host options and kernel modules are the host's, not the adapter's.
    assert [(step["op"], step["target"]) for step in steps] == [
        ("remove_target", STATIC),
        ("remove_target", SEND),
        ("end_sessions", "vmhba65"),
        ("queue_depth", "iscsi_vmk"),
    ]
    assert {item["setting"]: (item["value"], item["before"]) for item in adapter_plan.kept(state, record)} == {
        "name": (NAME, "iqn.1998-01.com.vmware:esx"),
        "alias": ("storlab-mine", "was"),
        "CHAP": ("u7", None),
        "option DelayedAck": (False, True),
        "bound vmk1": ("bound", None),
        "adapter": ("enabled", "disabled"),
    }


@pytest.mark.parametrize("before", [["send 10.0.0.9:3260"], ["send 10.0.0.9:3260", f"static 10.0.0.9:3260 {OTHER}"]])
def test_those_who_were_there_before_get_back_what_they_had(before):
    state, record = shared()
    record["before"]["targets"] = before
    assert adapter_plan.kept(state, record) == []
    ops = [step["op"] for step in absent_plan(state, record)]
    assert {"name", "alias", "options", "chap", "unbind"} <= set(ops) and "disable" not in ops


# ---- two testbeds on one host


def beside(iqn: str = NAME) -> tuple:
    """What another testbed sees of the adapter that testbed "mine" has built."""
    state, _record = built()
    state.update(iqn=iqn, options={"DelayedAck": False})
    return state, want(testbed_id="other", targets=[target(iqn=OTHER, portal={"address": "10.0.0.2", "port": 3260})])


def test_a_second_testbed_of_another_name_is_refused_naming_both():
    state, wanted = beside(iqn="iqn.2026-11.test:first")
    with pytest.raises(Failure) as caught:
        plan(state, wanted, {})
    assert caught.value.code == "adapter_in_use" and caught.value.details["testbeds"] == ["mine", "other"]
    assert all(word in str(caught.value) for word in ("testbed mine", "testbed other", "iqn.2026-11.test:first", NAME))
    # Where nothing is left of the first but its stamp, the adapter is free.
    assert "name" in ops({**state, "targets": []}, wanted)


def test_testbeds_of_one_name_share_the_adapter_and_none_flips_what_the_other_set():
    state, wanted = beside()
    steps = ops(state, wanted)
    assert "add_target" in steps and not {"name", "alias", "options"} & set(steps)
    assert "alias" in ops({**state, "targets": []}, wanted)
    assert not {"options"} & set(ops(state, {**wanted, "options": {"DelayedAck": "no"}}))
    with pytest.raises(Failure) as caught:
        plan(state, {**wanted, "options": {"DelayedAck": True}}, {})
    assert caught.value.code == "adapter_in_use" and caught.value.details["testbeds"] == ["mine", "other"]
    assert "DelayedAck" in str(caught.value)


def test_an_adapter_with_a_stamp_that_is_only_alike_is_no_testbeds():
    state, wanted = beside()
    for alias in ("storlab", "storlab-", "Storlab-x", "storlabx", "", "mine"):
        assert adapter_plan.held_by({**state, "alias": alias}, "other") is None
    assert adapter_plan.held_by({**state, "alias": "storlab-other"}, "other") is None
    assert adapter_plan.held_by({**state, "alias": "storlab-other-2"}, "other") == "other-2"
    assert "alias" in ops({**state, "alias": "an administrator's"}, wanted)


# ---- a host removes a target whatever is on it


def used(datastores: tuple = (), iqn: str = IQN, name: str = LUN["name"]) -> dict:
    return {**LUN, "iqn": iqn, "name": name, "uuid": "02aa", "datastores": list(datastores)}


@pytest.mark.parametrize(
    ("luns", "mapped", "user"),
    [
        ([used(["theirs"])], {}, "the datastore theirs"),
        ([used()], {"02aa": ["vm7"]}, "the machine vm7"),
        ([used(["theirs"]), used(["theirs"])], {}, "the datastore theirs"),
    ],
)
def test_a_lun_that_carries_something_is_not_logged_out_of(luns, mapped, user):
    state, record = built()
    state["luns"] = luns
    with pytest.raises(Failure) as caught:
        adapter_plan.refuse_used(state, absent_plan(state, record), mapped)
    assert caught.value.code == "in_use" and user in str(caught.value)


def test_a_lun_that_nobody_uses_or_that_has_another_way_is_logged_out_of():
    state, record = built()
    steps = absent_plan(state, record)
    for luns, mapped in (
        ([used()], {}),
        ([used()], {"02bb": ["vm7"]}),
        # Of another target that stays; and the same device through a target that stays.
        ([used(["theirs"], iqn=OTHER)], {}),
        ([used(["theirs"]), used(["theirs"], iqn=OTHER)], {"02aa": ["vm7"]}),
    ):
        adapter_plan.refuse_used({**state, "luns": luns}, steps, mapped)
    # Nothing is removed: whatever is on it is not touched.
    adapter_plan.refuse_used({**state, "luns": [used(["theirs"])]}, [], {"02aa": ["vm7"]})


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
