# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tgt: reading tgtadm, the plan, and the way secrets take. A real tgtd is tried by the molecule scenario iscsi."""

from __future__ import annotations

import os
import socket
import threading

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import scsi_id, unit_serial
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import tgt

IQN, ONE = "iqn.2026-01.t:target", "iqn.2026-01.t:one"
SHOWN = """Target 4: iqn.2026-01.t:target
    System information:
        Driver: iscsi
        State: ready
    I_T nexus information:
        I_T nexus: 2
            Initiator: iqn.2026-01.t:one alias: hypervisor01
            Connection: 0
                IP Address: 10.0.0.2
    LUN information:
        LUN: 0
            Type: controller
            SCSI ID: IET     00040000
            SCSI SN: beaf40
            Backing store path: None
        LUN: 1
            Type: disk
            SCSI ID: storlab-0123456789abcdef01234567
            SCSI SN: 89abcdef
            Size: 21 MB, Block size: 4096
            Backing store type: rdwr
            Backing store path: /dev/ram0
            Backing store flags: direct
    Account information:
        u1
        m1 (outgoing)
    ACL information:
        10.0.0.9
        iqn.2026-01.t:one
Target 7: iqn.2026-01.t:other
    LUN information:
        LUN: 0
            Backing store path: None
    Account information:
    ACL information:
        ALL
"""


def target(**change):
    return {
        "name": IQN,
        "portals": [{"address": "127.0.0.1", "port": 13291}],
        "luns": [{"lun": 1, "name": "a", "device": "/dev/ram0", "block_bytes": 512}],
        "initiators": [
            {
                "iqn": ONE,
                "luns": None,
                "chap_user": "u1",
                "chap_password": "secret-in-one-1",
                "mutual_chap_user": "m1",
                "mutual_chap_password": "secret-out-one2",
            }
        ],
        **change,
    }


def built():
    lun = {
        "scsi_id": scsi_id("tb", "a"),
        "serial": unit_serial("tb", "a"),
        "device": "/dev/ram0",
        "flags": "direct",
        "block_bytes": 512,
    }
    return {
        "running": True,
        "portals": ["127.0.0.1:13291"],
        "accounts": {"u1", "m1"},
        "targets": {IQN: {"tid": 4, "luns": {1: lun}, "incoming": {"u1"}, "outgoing": {"m1"}, "acl": {ONE}}},
    }


NOTHING = {"running": False, "portals": [], "accounts": set(), "targets": {}}


def ops(steps):
    return [step["op"] for step in steps]


def test_tgtadm_is_read():
    found = tgt.parse_targets(SHOWN)
    assert found[IQN] == {
        "tid": 4,
        "luns": {
            1: {
                "scsi_id": "storlab-0123456789abcdef01234567",
                "serial": "89abcdef",
                "device": "/dev/ram0",
                "flags": "direct",
                "block_bytes": 4096,
            }
        },
        "incoming": {"u1"},
        "outgoing": {"m1"},
        "acl": {"10.0.0.9", ONE},
        "sessions": {ONE: "10.0.0.2"},
    }
    assert found["iqn.2026-01.t:other"] == {
        "tid": 7,
        "luns": {},
        "incoming": set(),
        "outgoing": set(),
        "acl": {"ALL"},
        "sessions": {},
    }
    assert tgt.parse_portals("Portal: 127.0.0.1:13277,1\nPortal: [::1]:3260,1\n") == ["127.0.0.1:13277", "[::1]:3260"]


def test_from_nothing_the_acl_comes_last():
    steps = tgt.plan(NOTHING, [target()], set(), "tb", False)
    assert ops(steps) == [
        "start",
        "add_account",
        "add_account",
        "add_target",
        "add_lun",
        "identify_lun",
        "bind_account",
        "bind_account",
        "admit_initiator",
    ]
    assert "secret-" not in str(steps)


def added(page_cache, current=NOTHING, **lun):
    """The arguments with which LUN 1 is made; None when it is not made."""
    wanted = target(luns=[{**target()["luns"][0], **lun}])
    steps = [step for step in tgt.plan(current, [wanted], set(), "tb", page_cache) if step["op"] == "add_lun"]
    return steps[0]["argv"] if steps else None


def test_luns_bypass_the_page_cache_unless_asked():
    assert "--bsoflags" in added(False) and added(False)[added(False).index("--bsoflags") + 1] == "direct"
    assert "--bsoflags" not in added(True)
    # Direct I/O goes in blocks of the device; through the page cache every size does.
    assert added(False, block_bytes=4096)[added(False, block_bytes=4096).index("--blocksize") + 1] == "4096"
    assert added(True, block_bytes=4096)[added(True, block_bytes=4096).index("--blocksize") + 1] == "512"


def test_a_lun_that_is_opened_otherwise_is_made_anew():
    assert added(False, built()) is None
    steps = tgt.plan(built(), [target()], set(), "tb", True)
    assert ops(steps) == ["remove_lun", "add_lun", "identify_lun"]


def test_what_is_built_needs_no_step():
    assert tgt.plan(built(), [target()], set(), "tb", False) == []


def test_a_lun_of_new_contents_is_made_anew_under_another_serial():
    lun = target()["luns"][0]
    before = built()
    own = {
        **before["targets"][IQN]["luns"][1],
        "scsi_id": scsi_id("tb", "a", "g1"),
        "serial": unit_serial("tb", "a", "g1"),
    }
    before["targets"][IQN]["luns"] = {1: own}
    assert tgt.plan(before, [target(luns=[{**lun, "generation": "g1"}])], set(), "tb", False) == []
    steps = tgt.plan(before, [target(luns=[{**lun, "generation": "g2"}])], set(), "tb", False)
    assert ops(steps) == ["remove_lun", "add_lun", "identify_lun"]
    assert f"scsi_sn={unit_serial('tb', 'a', 'g2')}" in steps[-1]["argv"][-1]
    assert tgt.lun_identity("tb", target(), {**lun, "generation": "g2"})["serial"] == unit_serial("tb", "a", "g2")


def test_a_changed_secret_replaces_the_account_and_binds_it_again():
    steps = tgt.plan(built(), [target()], {"m1"}, "tb", False)
    assert [(step["op"], step["target"]) for step in steps] == [
        ("remove_account", "m1"),
        ("add_account", "m1"),
        ("bind_account", IQN),
    ]
    assert "--outgoing" in steps[-1]["argv"]


def test_extra_things_of_our_tgtd_go():
    now = built()
    now["portals"].append("127.0.0.1:13299")
    now["accounts"].add("u9")
    now["targets"][IQN]["acl"] |= {"ALL", "iqn.2026-01.t:nine"}
    now["targets"][IQN]["luns"][8] = {**now["targets"][IQN]["luns"][1], "scsi_id": "x", "device": "/dev/ram8"}
    now["targets"]["iqn.2026-01.t:nine"] = {"tid": 9, "luns": {}, "incoming": set(), "outgoing": set(), "acl": set()}
    steps = tgt.plan(now, [target()], set(), "tb", False)
    assert sorted(ops(steps)) == [
        "refuse_initiator",
        "refuse_initiator",
        "remove_account",
        "remove_lun",
        "remove_portal",
        "remove_target",
    ]
    assert [step["argv"][-2:] for step in steps if step["op"] == "refuse_initiator"] == [
        ["--initiator-address", "ALL"],
        ["--initiator-name", "iqn.2026-01.t:nine"],
    ]


def test_who_is_logged_in_loses_what_is_removed():
    now = built()
    now["targets"][IQN]["sessions"] = {ONE: "10.0.0.2"}
    now["targets"][IQN]["luns"][8] = {**now["targets"][IQN]["luns"][1], "scsi_id": "x", "device": "/dev/ram8"}
    lost = [{"target": IQN, "initiator": ONE, "address": "10.0.0.2", "lun": 8}]
    assert tgt.lost_luns(now, tgt.plan(now, [target()], set(), "tb", False)) == lost
    assert tgt.lost_luns(built(), tgt.plan(now, [target()], set(), "tb", False)) == []
    both = [{**lost[0], "lun": 1}, *lost]
    assert tgt.lost_luns(now, tgt.plan(now, [target(name="iqn.2026-01.t:new")], set(), "tb", False)) == both
    assert tgt.lost_luns(now, [{"op": "stop"}]) == both
    del now["targets"][IQN]["luns"][8]
    assert tgt.lost_luns(now, tgt.plan(now, [target()], set(), "tb", False)) == []


def test_a_lun_on_another_device_is_made_anew_and_target_numbers_are_not_taken_twice():
    now = built()
    now["targets"][IQN]["luns"][1]["device"] = "/dev/ram5"
    second = target(name="iqn.2026-01.t:second", luns=[{**target()["luns"][0], "name": "b", "device": "/dev/ram1"}])
    steps = tgt.plan(now, [target(), second], set(), "tb", False)
    assert ops(steps)[:3] == ["add_target", "remove_lun", "add_lun"] or ops(steps)[:3] == [
        "remove_lun",
        "add_lun",
        "identify_lun",
    ]
    added = next(step for step in steps if step["op"] == "add_target")
    assert added["argv"][added["argv"].index("--tid") + 1] == "1"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"luns": [{"lun": 0, "name": "a", "device": "/dev/ram0"}]}, "LUN 0"),
        (
            {
                "luns": [{"lun": 1, "name": "a", "device": "x"}, {"lun": 2, "name": "b", "device": "y"}],
                "initiators": [{"iqn": ONE, "luns": [2]}],
            },
            "lio",
        ),
        ({"initiators": [{"iqn": ONE, "chap_user": "u", "chap_password": "secret,with,comma"}]}, "commas"),
        (
            {
                "initiators": [
                    {"iqn": ONE, "chap_user": "u", "chap_password": "secret-number-1"},
                    {"iqn": "iqn.2026-01.t:2", "chap_user": "u", "chap_password": "secret-number-2"},
                ]
            },
            "one secret",
        ),
        (
            {
                "initiators": [
                    {"iqn": ONE, "mutual_chap_user": "m1", "mutual_chap_password": "secret-number-1"},
                    {"iqn": "iqn.2026-01.t:2", "mutual_chap_user": "m2", "mutual_chap_password": "secret-number-2"},
                ]
            },
            "one mutual name",
        ),
    ],
)
def test_what_tgt_cannot_do_is_refused(change, named):
    with pytest.raises(Failure, match=named) as caught:
        tgt.check_targets([target(**change)])
    assert (
        caught.value.code == "bad_value"
        and "secret-number" not in str(caught.value)
        and "secret,with" not in str(caught.value)
    )


def test_the_secret_replaces_its_stand_in_on_the_way(tmp_path):
    """A server and a client stand in for tgtd and tgtadm."""
    real, seen = str(tmp_path / "tgtd.41"), []
    server = socket.socket(socket.AF_UNIX)
    server.bind(real)
    server.listen(1)

    def serve():
        connection, _address = server.accept()
        with connection:
            seen.append(connection.recv(4096))
            connection.sendall(b"done")

    thread = threading.Thread(target=serve)
    thread.start()
    with tgt.secret_in_request(real, str(tmp_path), "secret-in-one-1") as (environment, stand_in):
        assert len(stand_in) == len("secret-in-one-1") and stand_in != "secret-in-one-1"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(environment["TGT_IPC_SOCKET"] + ".41")
            client.sendall(b"\x01\x02")
            client.sendall(f"user=u1,password={stand_in}".encode() + b"\0")
            assert client.recv(4096) == b"done"
    thread.join()
    server.close()
    assert seen == [b"\x01\x02user=u1,password=secret-in-one-1\0"]
    assert sorted(os.listdir(tmp_path)) == ["tgtd.41"]
