# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for LIO, and reading and applying it on a folder that stands for configfs."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import unit_serial
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target, lio
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports.lio import DIR, Link
from unchanged import refused

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
    assert (
        paths.index("core/iblock_3/storlab-tb-a")
        < paths.index(f"{TPG}/lun/lun_0/storlab-tb-a")
        < paths.index(f"{TPG}/acls/{ONE}/lun_0/lun_0")
    )
    # Nobody can log in before everything is described.
    assert paths[-2:] == [f"{TPG}/np/10.0.0.1:3260", f"{TPG}/enable"]


def test_what_is_built_needs_no_step():
    assert lio.plan(built(target()), entries(target())) == []


def test_a_backstore_of_new_contents_is_made_anew_under_another_serial():
    def with_generations(a, b):
        luns = [{**lun, "generation": own} for lun, own in zip(target()["luns"], (a, b))]
        return target(luns=luns)

    before, after = with_generations("g1", "g2"), with_generations("g3", "g2")
    assert lio.plan(built(before), entries(before)) == []
    changed = [step for step in lio.plan(built(before), entries(after)) if step["path"].startswith("core/")]
    serial = "core/iblock_3/storlab-tb-a/wwn/vpd_unit_serial"
    assert {step["path"].split("/")[2] for step in changed} == {"storlab-tb-a"}
    assert [step["op"] for step in changed][:2] == ["rmdir", "mkdir"]
    assert [step["will"] for step in changed if step["path"] == serial] == [unit_serial("tb", "a", "g3")]
    naas = {lio.lun_identity("tb", before, lun)["naa"] for lun in (before["luns"][0], after["luns"][0])}
    assert len(naas) == 2


def test_demo_mode_is_off_and_authentication_on():
    made = built(target())
    assert (
        made[f"{TPG}/attrib/authentication"],
        made[f"{TPG}/attrib/generate_node_acls"],
        made[f"{TPG}/attrib/demo_mode_discovery"],
    ) == ("1", "0", "0")
    assert built(target(initiators=[{"iqn": ONE, "luns": None}]))[f"{TPG}/attrib/authentication"] == "0"


def test_an_initiator_sees_its_luns_only():
    made = built(target())
    assert made[f"{TPG}/acls/{ONE}/lun_0/lun_0"] == Link(f"{TPG}/lun/lun_0")
    assert f"{TPG}/acls/{TWO}/lun_5" in made and f"{TPG}/acls/{TWO}/lun_0" not in made


def test_drift_is_repaired_and_secrets_are_masked():
    now = {
        **built(target()),
        f"{TPG}/acls/{ONE}/auth/password": "changed-by-hand",
        f"{TPG}/attrib/generate_node_acls": "1",
    }
    steps = lio.plan(now, entries(target()))
    assert [(step["op"], step["path"].rpartition("/")[2], step["was"], step["will"]) for step in steps] == [
        ("write", "generate_node_acls", "1", "0"),
        ("write", "password", "(secret)", "(secret)"),
    ]
    assert "changed-by-hand" not in str(steps) and "secret-one-in-1" not in str(lio.plan({}, entries(target())))


def test_chap_that_is_no_longer_wanted_is_cleared():
    steps = lio.plan(
        built(target()),
        entries(
            target(
                initiators=[
                    {**target()["initiators"][0], "mutual_chap_user": None, "mutual_chap_password": None},
                    target()["initiators"][1],
                ]
            )
        ),
    )
    assert [(step["path"].rpartition("/")[2], step["will"]) for step in steps] == [
        ("userid_mutual", ""),
        ("password_mutual", ""),
    ]


def test_extra_lun_acl_and_portal_of_our_target_go():
    extra = target(portals=[*target()["portals"], {"address": "10.0.0.2", "port": 3261}])
    fewer = target(luns=target()["luns"][:1], initiators=target()["initiators"][:1])
    steps = lio.plan(built(extra), entries(fewer))
    gone = [step["path"] for step in steps if step["will"] is None]
    assert {step["op"] for step in steps} == {"rmdir", "unlink"}
    assert f"{TPG}/np/10.0.0.2:3261" in gone and f"{TPG}/acls/{TWO}" in gone and "core/iblock_3/storlab-tb-b" in gone
    assert (
        gone.index(f"{TPG}/acls/{ONE}/lun_5/lun_5")
        < gone.index(f"{TPG}/acls/{ONE}/lun_5")
        < gone.index(f"{TPG}/lun/lun_5/storlab-tb-b")
    )
    assert gone.index(f"{TPG}/lun/lun_5") < gone.index("core/iblock_3/storlab-tb-b")


def test_a_backstore_on_another_device_is_made_anew_with_what_hangs_on_it():
    moved = target(luns=[{"lun": 0, "name": "a", "device": "/dev/ram7"}, target()["luns"][1]])
    steps = lio.plan(built(target()), entries(moved))
    paths = [(step["op"], step["path"]) for step in steps]
    assert ("rmdir", "core/iblock_3/storlab-tb-a") in paths and ("mkdir", "core/iblock_3/storlab-tb-a") in paths
    assert ("unlink", f"{TPG}/acls/{ONE}/lun_0/lun_0") in paths and (
        "symlink",
        f"{TPG}/acls/{ONE}/lun_0/lun_0",
    ) in paths
    assert not any("storlab-tb-b" in path for _op, path in paths)


def test_absent_removes_everything_target_first_disabled():
    steps = lio.plan(built(target()), [])
    paths = [step["path"] for step in steps]
    assert (
        paths.index(f"{TPG}/enable")
        < paths.index(TPG)
        < paths.index(f"iscsi/{IQN}")
        < paths.index("core/iblock_3/storlab-tb-a")
    )
    assert paths[-1] == "core/iblock_3"
    assert {path for path, value in built(target()).items() if value == DIR or isinstance(value, Link)} == {
        step["path"] for step in steps if step["op"] != "write"
    }


def refusal(current, existing, recorded=()):
    """Code of the refusal of the target with LUNs a and b; None when nothing is foreign."""
    try:
        lio.refuse_foreign({"targets": [], "stores": [], **existing}, current, [target()], "tb", list(recorded))
    except lio.Failure as failure:
        return failure.code
    return None


def test_a_target_that_the_record_does_not_hold_is_foreign_whatever_it_exports():
    assert refusal({}, {}) is None
    assert refusal({}, {"targets": [IQN]}, [IQN]) is None
    assert refusal({}, {"targets": [IQN]}) == "foreign_target"
    assert refusal(built(target()), {"targets": [IQN]}) == "foreign_target"
    # Another name, however alike, is nobody's business.
    assert refusal({}, {"targets": [f"{IQN}-2", IQN[:-1]]}) is None


def test_a_backstore_of_a_wanted_name_that_is_not_ours_is_refused():
    assert refusal(built(target()), {"stores": ["storlab-tb-a", "storlab-tb-b"]}) is None
    assert refusal({}, {"stores": ["storlab-tb-b"]}) == "foreign_backstore"
    assert refusal({}, {"stores": ["storlab-tb-b2", "storlab-tb", "storlab-tb-2-b"]}) is None


def test_the_guard_sees_every_device_that_is_newly_exported():
    def seen(now, *wanted):
        steps = lio.plan(now, entries(*wanted))
        return [lun["device"] for _target, lun in lio.newly_exported(now, steps, list(wanted), "tb")]

    moved = target(luns=[{"lun": 0, "name": "a", "device": "/dev/sdz"}, target()["luns"][1]])
    assert seen({}, target()) == ["/dev/ram0", "/dev/ram1"]
    assert seen(built(target()), target()) == []
    # A backstore that is made anew on another device was not looked at before.
    assert seen(built(target()), moved) == ["/dev/sdz"]
    drifted = {**built(target()), "core/iblock_3/storlab-tb-a/wwn/vpd_unit_serial": "77"}
    assert seen(drifted, target()) == []


LOGGED_IN = {IQN: {ONE: "10.0.0.12", TWO: "10.0.0.13"}}


def lost(wanted, sessions=None):
    """(initiator, LUN) of what is lost when the built target becomes the wanted ones."""
    now = built(target())
    steps = lio.plan(now, entries(*wanted))
    return [
        (item["initiator"], item["lun"])
        for item in lio.lost_luns(now, steps, LOGGED_IN if sessions is None else sessions)
    ]


def narrowed(**change):
    return target(initiators=[{**target()["initiators"][0], **change}, target()["initiators"][1]])


def test_a_lun_that_leaves_an_acl_is_lost_by_who_is_logged_in():
    assert lost([narrowed(luns=[5])]) == [(ONE, 0)]
    assert lost([narrowed(luns=[5])], {IQN: {TWO: ""}}) == []
    assert lost([narrowed(luns=[5])], {}) == []


def test_what_changes_without_taking_a_lun_away_is_no_loss():
    assert lost([target()]) == []
    assert lost([narrowed(chap_password="secret-one-in-9", mutual_chap_user=None, mutual_chap_password=None)]) == []
    more = [*target()["luns"], {"lun": 9, "name": "c", "device": "/dev/ram2"}]
    assert lost([target(luns=more, portals=[*target()["portals"], {"address": "10.0.0.2", "port": 3260}])]) == []


def test_luns_acls_targets_portals_and_devices_that_go_are_losses():
    assert lost([target(luns=target()["luns"][:1], initiators=target()["initiators"][:1])]) == [(ONE, 5), (TWO, 5)]
    assert lost([target(initiators=target()["initiators"][:1])]) == [(TWO, 5)]
    everything = [(ONE, 0), (ONE, 5), (TWO, 5)]
    assert lost([]) == everything
    assert lost([target(portals=[{"address": "10.0.0.9", "port": 3260}])]) == everything
    assert lost([target(luns=[{**target()["luns"][0], "device": "/dev/ram7"}, target()["luns"][1]])]) == [(ONE, 0)]
    # One that came in without an ACL sees all LUNs.
    assert lost([], {IQN: {"iqn.2026-01.t:stranger": ""}}) == [
        ("iqn.2026-01.t:stranger", 0),
        ("iqn.2026-01.t:stranger", 5),
    ]


# As LIO of Linux 6.1 shows it.
SESSION = """InitiatorName: iqn.2026-01.t:one
InitiatorAlias: hypervisor01
LIO Session ID: 4   ISID: 0x00 02 3d 00 00 00  TSIH: 4  SessionType: Normal
Session State: TARG_SESS_STATE_LOGGED_IN
---------------------[iSCSI Session Values]-----------------------
  CmdSN/WR  :  CmdSN/WC  :  ExpCmdSN  :  MaxCmdSN  :     ITT    :     TTT
 0x00000010   0x00000010   0x00000024   0x00000034   0x00000000   0x00000009
----------------------[iSCSI Connections]-------------------------
CID: 0  Connection State: TARG_CONN_STATE_LOGGED_IN
   Address 10.0.0.12 TCP  StatSN: 0xed1fa4ef
"""


def test_sessions_are_read(configfs):
    def put(path, text):
        folder = pathlib.Path(configfs.root, TPG, path)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text(text)

    put(f"acls/{ONE}/info", SESSION)
    put(f"acls/{TWO}/info", f"No active iSCSI Session for Initiator Endpoint: {TWO}\n")
    assert configfs.sessions(IQN) == {ONE: "10.0.0.12"}
    put("dynamic_sessions", "iqn.2026-01.t:stranger\n\0")
    assert configfs.sessions(IQN) == {"iqn.2026-01.t:stranger": "", ONE: "10.0.0.12"}
    assert configfs.sessions("iqn.2026-01.t:nothing") == {}


@pytest.fixture
def configfs(tmp_path):
    def put(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def store(hba, name, serial, device):
        put(f"core/{hba}/{name}/wwn/vpd_unit_serial", f"T10 VPD Unit Serial Number: {serial}\n")
        put(
            f"core/{hba}/{name}/info",
            f"Status: ACTIVATED  Max Queue Depth: 0\n        iBlock device: ram0  UDEV PATH: {device} readonly: 0\n",
        )

    put("core/iblock_0/hba_info", "HBA Index: 1\n")
    store("iblock_0", "storlab-tb-a", unit_serial("tb", "a"), "/dev/ram0")
    store("iblock_0", "theirs", "77", "/dev/sdz")
    # The names would fit testbed tb. The first is testbed tb-2's, the second another's that has no serial yet.
    store("iblock_1", "storlab-tb-2-a", unit_serial("tb-2", "a"), "/dev/ram3")
    store("iblock_2", "storlab-tb-2-b", "", "/dev/ram4")
    return lio.Configfs(str(tmp_path))


OURS = {"core/iblock_0": [], "core/iblock_0/storlab-tb-a": [unit_serial("tb", "a")]}


def own(configfs, recorded):
    return {path for path, value in configfs.stores(recorded).items() if value == DIR}


def test_only_recorded_backstores_are_ours(configfs):
    found = configfs.stores(OURS)
    assert own(configfs, OURS) == {"core/iblock_0/storlab-tb-a"}
    assert found["core/iblock_0/storlab-tb-a/udev_path"] == "/dev/ram0"
    assert own(configfs, {}) == set()
    # An adapter goes with its last store, and only when it was made by the testbed.
    theirs = {"core/iblock_1": [], "core/iblock_1/storlab-tb-2-a": ["before", unit_serial("tb-2", "a")]}
    assert own(configfs, theirs) == set(theirs)
    assert "core/iblock_1" not in own(configfs, {path: theirs[path] for path in list(theirs)[1:]})
    assert configfs.free_hba() == "iblock_3"


def test_a_recorded_store_without_serial_was_killed_at_birth_and_one_with_another_is_not_ours(configfs):
    store = "core/iblock_2/storlab-tb-2-b"
    assert own(configfs, {store: [unit_serial("tb-2", "b")]}) == {store}
    assert own(configfs, {"core/iblock_0/theirs": [unit_serial("tb", "theirs")]}) == set()


def test_a_teardown_leaves_every_store_that_only_looks_like_ours(configfs):
    everything = sorted(str(path) for path in pathlib.Path(configfs.root).rglob("*"))
    gone = [step["path"] for step in lio.plan(configfs.stores(OURS), [])]
    assert gone == ["core/iblock_0/storlab-tb-a"]
    # Planning has touched nothing; a record of nothing removes nothing.
    assert sorted(str(path) for path in pathlib.Path(configfs.root).rglob("*")) == everything
    assert lio.plan(configfs.stores({}), []) == []


def test_everything_that_exists_is_listed(configfs):
    assert configfs.existing() == {
        "targets": [],
        "stores": ["storlab-tb-a", "theirs", "storlab-tb-2-a", "storlab-tb-2-b"],
    }


def test_what_figures_depend_on_is_read_and_becomes_a_fact_of_the_layer(configfs):
    """Two runs whose backstores differ in it are then told apart by their layers."""
    attrib = pathlib.Path(configfs.root, "core/iblock_0/storlab-tb-a/attrib")
    other = pathlib.Path(configfs.root, "core/iblock_0/theirs/attrib")
    tpg = pathlib.Path(configfs.root, TPG, "attrib")
    for folder, content in (
        (attrib, {"emulate_write_cache": "0\n", "block_size": "512\n", "alua_support": "1\n"}),
        (other, {"emulate_write_cache": "1\n"}),
        (tpg, {"default_cmdsn_depth": "64\n"}),
    ):
        folder.mkdir(parents=True)
        for name, text in content.items():
            (folder / name).write_text(text)

    def detail() -> dict:
        lun = {"name": "a", "device": None, "expected": None, "parent": "backing-a", "purpose": "data", "lun": 0}
        target = {"name": IQN, "portals": [], "luns": [lun]}
        own = lio.LioTarget("tb")
        own.configfs = configfs
        (layer,) = iscsi_target.layers_of([target], {}, lambda *_: {"serial": "1"}, "lio", facts=own.facts)
        return layer["detail"]

    expected = {"emulate_write_cache": "0", "block_size": "512", "default_cmdsn_depth": "64"}
    assert detail() == {"provider": "lio", "page_cache": "bypassed", "portals": [], "lio": expected}
    (attrib / "emulate_write_cache").write_text("1\n")
    assert detail()["lio"] == {**expected, "emulate_write_cache": "1"}
    # Before anything is made nothing is known.
    assert configfs.facts("iqn.2026-01.t:nothing", "storlab-tb-new") == {}


def test_the_record_holds_what_is_made(configfs):
    assert lio.made_below_core(entries(target())) == {
        "core/iblock_3": [],
        "core/iblock_3/storlab-tb-a": [unit_serial("tb", "a")],
        "core/iblock_3/storlab-tb-b": [unit_serial("tb", "b")],
    }


def test_a_plan_without_secrets_in_it_still_writes_them(tmp_path):
    configfs, wanted = (
        lio.Configfs(str(tmp_path)),
        [lio.Entry("acl/auth/password", "secret-one-in-1"), lio.Entry("acl/auth/userid", "")],
    )
    os.makedirs(tmp_path / "acl/auth")
    for name in ("password", "userid"):
        (tmp_path / "acl/auth" / name).write_text("")
    configfs.apply(
        [
            {"op": "write", "path": "acl/auth/password", "will": "(secret)"},
            {"op": "write", "path": "acl/auth/userid", "will": ""},
        ],
        wanted,
    )
    assert (tmp_path / "acl/auth/password").read_text() == "secret-one-in-1"
    assert (tmp_path / "acl/auth/userid").read_text() == "NULL"


def test_a_refused_portal_is_explained(tmp_path):
    with refused(tmp_path) as caught:
        lio.Configfs(str(tmp_path)).apply([{"op": "mkdir", "path": "iscsi/x/tpgt_1/np/10.9.9.9:3260", "will": DIR}], [])
    assert caught.value.code == "portal_unavailable" and "10.9.9.9:3260" in str(caught.value)
