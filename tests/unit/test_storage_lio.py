# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for LIO, and reading and applying it on a folder that stands for configfs."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import lio
from ansible_collections.storlab.testbed.plugins.module_utils.iscsi_names import unit_serial
from ansible_collections.storlab.testbed.plugins.module_utils.lio import DIR, Link

IQN, ONE, TWO = "iqn.2026-01.t:target", "iqn.2026-01.t:one", "iqn.2026-01.t:two"
TPG = f"iscsi/{IQN}/tpgt_1"


def target(**change):
    return {
        "name": IQN,
        "portals": [{"address": "10.0.0.1", "port": 3260}],
        "luns": [{"lun": 0, "name": "a", "device": "/dev/ram0"}, {"lun": 5, "name": "b", "device": "/dev/ram1"}],
        "initiators": [
            {
                "iqn": ONE,
                "luns": None,
                "chap_user": "u1",
                "chap_password": "secret-one-in-1",
                "mutual_chap_user": "m1",
                "mutual_chap_password": "secret-one-out2",
            },
            {"iqn": TWO, "luns": [5], "chap_user": "u2", "chap_password": "secret-two-in-3"},
        ],
        **change,
    }


def entries(*targets):
    return lio.wanted_entries("tb", list(targets), "iblock_3")


def built(*targets):
    return {entry.path: entry.value for entry in entries(*targets)}


def test_from_nothing_everything_is_made_in_order():
    steps = lio.plan({}, entries(target()))
    paths = [step["path"] for step in steps]
    assert [step["op"] for step in steps].count("rmdir") == 0
    assert paths.index("core/iblock_3/storlab-tb-a") < paths.index(f"{TPG}/lun/lun_0/storlab-tb-a") < paths.index(f"{TPG}/acls/{ONE}/lun_0/lun_0")
    # Nobody can log in before everything is described.
    assert paths[-2:] == [f"{TPG}/np/10.0.0.1:3260", f"{TPG}/enable"]


def test_what_is_built_needs_no_step():
    assert lio.plan(built(target()), entries(target())) == []


def test_demo_mode_is_off_and_authentication_on():
    made = built(target())
    assert (made[f"{TPG}/attrib/authentication"], made[f"{TPG}/attrib/generate_node_acls"], made[f"{TPG}/attrib/demo_mode_discovery"]) == ("1", "0", "0")
    assert built(target(initiators=[{"iqn": ONE, "luns": None}]))[f"{TPG}/attrib/authentication"] == "0"


def test_an_initiator_sees_its_luns_only():
    made = built(target())
    assert made[f"{TPG}/acls/{ONE}/lun_0/lun_0"] == Link(f"{TPG}/lun/lun_0")
    assert f"{TPG}/acls/{TWO}/lun_5" in made and f"{TPG}/acls/{TWO}/lun_0" not in made


def test_drift_is_repaired_and_secrets_are_masked():
    now = {**built(target()), f"{TPG}/acls/{ONE}/auth/password": "changed-by-hand", f"{TPG}/attrib/generate_node_acls": "1"}
    steps = lio.plan(now, entries(target()))
    assert [(step["op"], step["path"].rpartition("/")[2], step["was"], step["will"]) for step in steps] == [
        ("write", "generate_node_acls", "1", "0"),
        ("write", "password", "(secret)", "(secret)"),
    ]
    assert "changed-by-hand" not in str(steps) and "secret-one-in-1" not in str(lio.plan({}, entries(target())))


def test_chap_that_is_no_longer_wanted_is_cleared():
    steps = lio.plan(
        built(target()),
        entries(target(initiators=[{**target()["initiators"][0], "mutual_chap_user": None, "mutual_chap_password": None}, target()["initiators"][1]])),
    )
    assert [(step["path"].rpartition("/")[2], step["will"]) for step in steps] == [("userid_mutual", ""), ("password_mutual", "")]


def test_extra_lun_acl_and_portal_of_our_target_go():
    extra = target(portals=[*target()["portals"], {"address": "10.0.0.2", "port": 3261}])
    fewer = target(luns=target()["luns"][:1], initiators=target()["initiators"][:1])
    steps = lio.plan(built(extra), entries(fewer))
    gone = [step["path"] for step in steps if step["will"] is None]
    assert {step["op"] for step in steps} == {"rmdir", "unlink"}
    assert f"{TPG}/np/10.0.0.2:3261" in gone and f"{TPG}/acls/{TWO}" in gone and "core/iblock_3/storlab-tb-b" in gone
    assert gone.index(f"{TPG}/acls/{ONE}/lun_5/lun_5") < gone.index(f"{TPG}/acls/{ONE}/lun_5") < gone.index(f"{TPG}/lun/lun_5/storlab-tb-b")
    assert gone.index(f"{TPG}/lun/lun_5") < gone.index("core/iblock_3/storlab-tb-b")


def test_a_backstore_on_another_device_is_made_anew_with_what_hangs_on_it():
    moved = target(luns=[{"lun": 0, "name": "a", "device": "/dev/ram7"}, target()["luns"][1]])
    steps = lio.plan(built(target()), entries(moved))
    paths = [(step["op"], step["path"]) for step in steps]
    assert ("rmdir", "core/iblock_3/storlab-tb-a") in paths and ("mkdir", "core/iblock_3/storlab-tb-a") in paths
    assert ("unlink", f"{TPG}/acls/{ONE}/lun_0/lun_0") in paths and ("symlink", f"{TPG}/acls/{ONE}/lun_0/lun_0") in paths
    assert not any("storlab-tb-b" in path for _op, path in paths)


def test_absent_removes_everything_target_first_disabled():
    steps = lio.plan(built(target()), [])
    paths = [step["path"] for step in steps]
    assert paths.index(f"{TPG}/enable") < paths.index(TPG) < paths.index(f"iscsi/{IQN}") < paths.index("core/iblock_3/storlab-tb-a")
    assert paths[-1] == "core/iblock_3"
    assert {path for path, value in built(target()).items() if value == DIR or isinstance(value, Link)} == {
        step["path"] for step in steps if step["op"] != "write"
    }


def test_foreign_targets():
    ours = built(target())
    assert not lio.foreign_target(ours, IQN, "tb", [])
    assert not lio.foreign_target({}, IQN, "tb", [])
    strangers = {f"iscsi/{IQN}": DIR, TPG: DIR, f"{TPG}/lun/lun_0/x": Link("core/iblock_0/theirs")}
    assert lio.foreign_target(strangers, IQN, "tb", [])
    assert lio.foreign_target({f"iscsi/{IQN}": DIR}, IQN, "tb", [])
    assert not lio.foreign_target({f"iscsi/{IQN}": DIR}, IQN, "tb", [IQN])


@pytest.fixture
def configfs(tmp_path):
    def put(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def store(hba, name, serial, device):
        put(f"core/{hba}/{name}/wwn/vpd_unit_serial", f"T10 VPD Unit Serial Number: {serial}\n")
        put(f"core/{hba}/{name}/info", f"Status: ACTIVATED  Max Queue Depth: 0\n        iBlock device: ram0  UDEV PATH: {device} readonly: 0\n")

    put("core/iblock_0/hba_info", "HBA Index: 1\n")
    store("iblock_0", "storlab-tb-a", unit_serial("tb", "a"), "/dev/ram0")
    store("iblock_0", "theirs", "77", "/dev/sdz")
    # The name would fit testbed tb, the serial says that it is testbed tb-x's.
    store("iblock_1", "storlab-tb-x-a", unit_serial("tb-x", "a"), "/dev/ram3")
    return lio.Configfs(str(tmp_path))


def test_only_our_backstores_are_read(configfs):
    found = configfs.stores("tb")
    assert {path for path, value in found.items() if value == DIR} == {"core/iblock_0/storlab-tb-a"}
    assert found["core/iblock_0/storlab-tb-a/udev_path"] == "/dev/ram0"
    assert configfs.stores("tb-x")["core/iblock_1"] == DIR
    assert configfs.free_hba() == "iblock_2"


def test_a_plan_without_secrets_in_it_still_writes_them(tmp_path):
    configfs, wanted = lio.Configfs(str(tmp_path)), [lio.Entry("acl/auth/password", "secret-one-in-1"), lio.Entry("acl/auth/userid", "")]
    os.makedirs(tmp_path / "acl/auth")
    for name in ("password", "userid"):
        (tmp_path / "acl/auth" / name).write_text("")
    configfs.apply([{"op": "write", "path": "acl/auth/password", "will": "(secret)"}, {"op": "write", "path": "acl/auth/userid", "will": ""}], wanted)
    assert (tmp_path / "acl/auth/password").read_text() == "secret-one-in-1"
    assert (tmp_path / "acl/auth/userid").read_text() == "NULL"


def test_a_refused_portal_is_explained(tmp_path):
    with pytest.raises(lio.Failure) as caught:
        lio.Configfs(str(tmp_path)).apply([{"op": "mkdir", "path": "iscsi/x/tpgt_1/np/10.9.9.9:3260", "will": DIR}], [])
    assert caught.value.code == "portal_unavailable" and "10.9.9.9:3260" in str(caught.value)
