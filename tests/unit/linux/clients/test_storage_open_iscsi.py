# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""open-iscsi: node records and the plan for a session."""

from __future__ import annotations

import io
import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.luns import expected, layers_of, paths_of, unwanted
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record as record_of_host
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import multipath
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from unchanged import refused

TUNING = {
    "queue_depth": 24,
    "replacement_timeout_s": 90,
    "login_timeout_s": 11,
    "noop_interval_s": 6,
    "noop_timeout_s": 7,
}
TARGET = {
    "iqn": "iqn.2026-01.t:target",
    "portal": {"address": "10.0.0.1", "port": 3261},
    "chap_user": "u1",
    "chap_password": "secret-in-one-1",
    "mutual_chap_user": "m1",
    "mutual_chap_password": "secret-out-one2",
    "luns": [{"lun": 3, "name": "a", "layer_kind": "initiator", "parent": "target-a", "purpose": "data"}],
}
RECORD = """# BEGIN RECORD 2.1.8
node.name = iqn.2026-01.t:target
node.tpgt = 1
node.startup = automatic
iface.iscsi_ifacename = storlab-tb
node.session.auth.authmethod = None
node.session.auth.chap_algs = MD5
node.session.queue_depth = 32
# END RECORD
"""


def current(**change):
    """A session as it should be."""
    return {
        "record": open_iscsi.node_settings(TARGET, TUNING),
        "session": {"sid": "1", "state": "LOGGED_IN", "recovery_tmo": "90"},
        "luns": {3: {"queue_depth": "24"}},
        "multipath": False,
        "busy": [],
        "in_force": True,
        **change,
    }


def ops(found):
    return [step["op"] for step in open_iscsi.plan(found, TARGET, TUNING)]


@pytest.fixture
def database(tmp_path, monkeypatch):
    """An open-iscsi database in a folder; ``database(address, port, iface)`` adds a node record and returns its path."""
    monkeypatch.setattr(open_iscsi, "DATABASES", (str(tmp_path),))

    def add(address, port, iface="storlab-tb", iqn=TARGET["iqn"]):
        path = tmp_path / "nodes" / iqn / f"{address},{port},1" / iface
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"node.name = {iqn}\nnode.conn[0].address = {address}\nnode.conn[0].port = {port}\n")
        return str(path)

    return add


def test_a_node_record_is_found_by_its_exact_portal_and_interface(database):
    iscsi = open_iscsi.OpenIscsi("tb", TUNING)
    short = {**TARGET, "portal": {"address": "10.0.0.1", "port": 326}}
    database("10.0.0.1", 32610)
    database("10.0.0.1", 3261, iface="storlab-tb-2")
    assert iscsi.record_file(TARGET) is None and iscsi.record_file(short) is None
    path = database("10.0.0.1", 3261)
    assert iscsi.record_file(TARGET) == path
    assert iscsi.record_file(short) is None
    assert sorted(record["portal"]["port"] for record in iscsi.records()) == [3261, 32610]


def test_record_is_edited_in_place():
    text = open_iscsi.edit_record(RECORD, open_iscsi.node_settings(TARGET, TUNING))
    values = open_iscsi.parse_record(text)
    assert (
        values["node.startup"] == "manual"
        and values["node.session.auth.password"] == "secret-in-one-1"
        and values["node.session.auth.password_in"] == "secret-out-one2"
    )
    assert values["node.name"] == "iqn.2026-01.t:target" and values["node.session.auth.chap_algs"] == "MD5"
    assert text.splitlines()[0].startswith("# BEGIN") and text.splitlines()[-1] == "# END RECORD"
    assert open_iscsi.edit_record(text, open_iscsi.node_settings(TARGET, TUNING)) == text


def test_chap_that_is_no_longer_wanted_leaves_the_record():
    text = open_iscsi.edit_record(RECORD, open_iscsi.node_settings(TARGET, TUNING))
    plain = {**TARGET, "chap_user": None, "chap_password": None, "mutual_chap_user": None, "mutual_chap_password": None}
    text = open_iscsi.edit_record(text, open_iscsi.node_settings(plain, TUNING))
    assert "secret-" not in text and "username" not in text and "authmethod = None" in text


@pytest.mark.parametrize(("depth", "commands"), [(1, "128"), (128, "128"), (129, "256"), (1000, "1024")])
def test_a_session_has_room_for_its_queue(depth, commands):
    assert open_iscsi.node_settings(TARGET, {**TUNING, "queue_depth": depth})["node.session.cmds_max"] == commands


def test_what_is_there_needs_no_step():
    assert ops(current()) == []


def test_from_nothing():
    nothing = {"record": None, "session": None, "luns": {}, "busy": [], "in_force": None}
    steps = open_iscsi.plan(nothing, TARGET, TUNING)
    assert [step["op"] for step in steps] == ["create_record", "login"]
    assert "secret-in-one-1" not in str(steps) and "secret-out-one2" not in str(steps)


def test_a_dead_session_is_recovered():
    assert ops(current(session={"sid": "1", "state": "FAILED", "recovery_tmo": "90"})) == ["recover"]


FORMER = {**open_iscsi.node_settings(TARGET, TUNING), "node.session.auth.password": "secret-before-0"}


@pytest.mark.parametrize("state", ["LOGGED_IN", "FAILED"])
@pytest.mark.parametrize(
    "change",
    [
        {"record": FORMER, "in_force": False},
        # The record was changed while the session went on with what it had.
        {"in_force": False},
        # A session of a version that remembered nothing.
        {"record": FORMER, "in_force": None},
    ],
)
def test_a_session_that_logged_in_with_another_secret_logs_in_anew(change, state):
    found = current(**change, session={"sid": "1", "state": state, "recovery_tmo": "90"})
    assert ops(found) == [*(["update_record"] if "record" in change else []), "relogin"]
    assert "secret-before-0" not in str(open_iscsi.plan(found, TARGET, TUNING))


@pytest.mark.parametrize(
    "change", [{"record": FORMER, "in_force": False}, {"record": FORMER, "in_force": None}, {"in_force": False}]
)
def test_a_session_in_use_that_would_end_with_its_connection_is_told(change):
    with pytest.raises(Failure, match="mounted on /srv/x") as caught:
        open_iscsi.plan(current(**change, busy=["mounted on /srv/x"]), TARGET, TUNING)
    assert caught.value.code == "relogin_pending"
    assert not any(secret in str(caught.value) for secret in ("secret-before-0", "secret-in-one-1", "secret-out-one2"))


def test_the_former_secret_again_is_the_one_in_force():
    assert ops(current(record=FORMER, in_force=True, busy=["mounted on /srv/x"])) == ["update_record"]


def test_what_is_no_matter_of_chap_waits_for_the_next_login_of_a_session_in_use():
    record = {**current()["record"], "node.conn[0].timeo.login_timeout": "99"}
    assert ops(current(record=record)) == ["update_record", "relogin"]
    assert ops(current(record=record, busy=["mounted on /srv/x"])) == ["update_record"]


class Host:
    """A host with iscsiadm: its sessions are folders as in sysfs, and go on with what they logged in with."""

    def __init__(self, root, monkeypatch, accepted):
        self.root, self.accepted, self.number, self.busy = root, accepted, 0, []
        monkeypatch.setattr(open_iscsi, "DATABASES", (str(root / "database"),))
        monkeypatch.setattr(open_iscsi, "SESSIONS", str(root / "class"))
        monkeypatch.setattr(open_iscsi, "run", self.run)
        read = open_iscsi.read_text
        monkeypatch.setattr(
            open_iscsi,
            "read_text",
            lambda path, **default: read(
                path.replace("/sys/class/iscsi_connection", str(root / "connection")), **default
            ),
        )
        self.node = root / "database/nodes" / TARGET["iqn"] / "10.0.0.1,3261,1" / "storlab-tb"
        self.node.parent.mkdir(parents=True)
        self.node.write_text("node.name = iqn.2026-01.t:target\n# END RECORD\n", encoding="utf-8")

    def run(self, argv, ok=(0,), **_how):
        rc = 0
        if "--login" in argv:
            record = open_iscsi.parse_record(self.node.read_text(encoding="utf-8"))
            rc = 0 if record["node.session.auth.password"] == self.accepted else 24
            if rc == 0:
                self.log_in()
        elif "--logout" in argv:
            for folder in (self.root / "class").iterdir():
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()
        assert rc in ok
        return subprocess.CompletedProcess(argv, rc, "", "")

    def log_in(self):
        self.number += 1
        session = self.root / f"class/session{self.number}"
        connection = self.root / f"connection/connection{self.number}:0"
        for folder, values in (
            (
                session,
                {"ifacename": "storlab-tb", "targetname": TARGET["iqn"], "state": "LOGGED_IN", "recovery_tmo": "90"},
            ),
            (connection, {"persistent_address": "10.0.0.1", "persistent_port": "3261"}),
        ):
            folder.mkdir(parents=True)
            for name, value in values.items():
                (folder / name).write_text(value, encoding="utf-8")

    def build(self, **change):
        """One more build, by a process that knows only what is kept: the operations, and the session afterwards."""
        target = {**TARGET, "luns": [], **change}
        iscsi = open_iscsi.OpenIscsi("tb", TUNING)
        iscsi.record = Record("tb", "iscsi_session", str(self.root / "run"))
        steps = open_iscsi.plan({**iscsi.current(target), "busy": self.busy}, target, TUNING)
        iscsi.apply(steps, target)
        return [step["op"] for step in steps], iscsi.session(target)["sid"]


def test_a_rotated_secret_is_in_force_after_the_same_build(tmp_path, monkeypatch):
    host = Host(tmp_path, monkeypatch, accepted="secret-in-one-1")
    assert host.build() == (["update_record", "login"], "1")
    assert host.build() == ([], "1")
    host.accepted = "secret-anew-222"
    assert host.build(chap_password="secret-anew-222") == (["update_record", "relogin"], "2")
    assert host.build(chap_password="secret-anew-222") == ([], "2")
    kept = (tmp_path / "run/tb/iscsi_session.json").read_text(encoding="utf-8")
    assert not any(secret in kept for secret in ("secret-in-one-1", "secret-anew-222", "secret-out-one2"))


def test_a_mutual_secret_counts_as_well(tmp_path, monkeypatch):
    host = Host(tmp_path, monkeypatch, accepted="secret-in-one-1")
    host.build()
    assert host.build(mutual_chap_password="secret-anew-333") == (["update_record", "relogin"], "2")


def test_no_build_is_green_while_a_session_in_use_has_the_former_secret(tmp_path, monkeypatch):
    host = Host(tmp_path, monkeypatch, accepted="secret-in-one-1")
    host.build()
    host.accepted, host.busy = "secret-anew-222", ["mounted on /srv/x"]
    for _twice in range(2):
        with refused(tmp_path) as caught:
            host.build(chap_password="secret-anew-222")
        assert caught.value.code == "relogin_pending"
    # The record alone was changed, by hand or by an earlier version.
    text = host.node.read_text(encoding="utf-8")
    host.node.write_text(text.replace("secret-in-one-1", "secret-anew-222"), encoding="utf-8")
    with refused(tmp_path) as caught:
        host.build(chap_password="secret-anew-222")
    assert caught.value.code == "relogin_pending"
    host.busy = []
    assert host.build(chap_password="secret-anew-222") == (["relogin"], "2")


def test_what_somebody_else_logged_in_is_taken_for_what_the_record_says(tmp_path, monkeypatch):
    host = Host(tmp_path, monkeypatch, accepted="secret-in-one-1")
    host.build()
    host.run(["--logout"])
    host.log_in()
    assert host.build() == ([], "2")
    host.accepted = "secret-anew-222"
    assert host.build(chap_password="secret-anew-222") == (["update_record", "relogin"], "3")


@pytest.mark.parametrize(
    ("returncode", "listed", "answer"),
    [
        (0, "10.0.0.11:3260,1 iqn.2026-11.test:other\n", "(it offers iqn.2026-11.test:other)"),
        (0, "10.0.0.12:3260,1 iqn.2026-11.test:tgt\n", "(it offers none)"),
        (21, "", "(it offers none)"),
        # Nobody was told what it offers.
        (5, "", "(asked for its targets,  the target refused the login)"),
        (24, "", "(asked for its targets,  CHAP authentication failed)"),
    ],
)
def test_a_portal_that_does_not_offer_the_target_is_quoted(monkeypatch, returncode, listed, answer):
    monkeypatch.setattr(open_iscsi.socket, "create_connection", lambda *_where, **_how: io.StringIO())
    monkeypatch.setattr(
        open_iscsi, "run", lambda argv, **_how: subprocess.CompletedProcess(argv, returncode, stdout=listed, stderr="")
    )
    target = {"iqn": "iqn.2026-11.test:tgt", "portal": {"address": "10.0.0.11", "port": 3260}}
    with pytest.raises(Failure) as caught:
        open_iscsi.OpenIscsi("tb", TUNING)._discover(target)
    assert (caught.value.code, caught.value.details["exit_code"]) == ("target_missing", returncode)
    assert answer in str(caught.value)


def test_live_tuning_needs_no_new_login():
    record = {**current()["record"], "node.session.queue_depth": "32"}
    assert ops(current(record=record, luns={3: {"queue_depth": "32"}})) == ["update_record", "set_queue_depth"]
    assert ops(current(session={"sid": "1", "state": "LOGGED_IN", "recovery_tmo": "120"})) == [
        "set_replacement_timeout"
    ]


def test_the_timeout_of_paths_that_multipathd_joined_is_left_to_it():
    """It sets 5 s of its own, and would again after each build."""
    session = {"sid": "1", "state": "LOGGED_IN", "recovery_tmo": "5"}
    assert ops(current(session=session, multipath=True)) == []
    assert ops(current(session=session, multipath=True, luns={3: {"queue_depth": "32"}})) == ["set_queue_depth"]


def test_identity_is_proven():
    found = {"path": "/dev/sdq", "serial": "s1", "naa": "6001", "wwid": "naa.6001", "size_bytes": 4096}
    lun = {"lun": 3, "serial": "s1", "naa": "6001", "wwid": "naa.6001", "size_bytes": 4096}
    open_iscsi.check_identity(lun, found, TARGET)
    for key, code in (
        ("serial", "wrong_serial"),
        ("naa", "wrong_naa"),
        ("wwid", "wrong_wwid"),
        ("size_bytes", "wrong_size"),
    ):
        with pytest.raises(Failure) as caught:
            open_iscsi.check_identity(lun, {**found, key: 7}, TARGET)
        assert caught.value.code == code and "/dev/sdq" in str(caught.value)


def test_what_the_target_published_is_expected():
    layers = {
        "target-a": {
            "size_bytes": 8192,
            "identity": {"target_iqn": TARGET["iqn"], "lun": 3, "serial": "s9", "naa": "6009"},
        }
    }
    lun = expected(TARGET["luns"][0], TARGET["iqn"], layers)
    assert (lun["serial"], lun["naa"], lun["size_bytes"]) == ("s9", "6009", 8192)
    assert "serial" not in expected(TARGET["luns"][0], "iqn.2026-01.t:other", layers)
    assert expected({**TARGET["luns"][0], "serial": "given"}, TARGET["iqn"], layers)["serial"] == "given"


def test_what_the_disk_was_made_as_is_published_with_it():
    identity = {"target_iqn": TARGET["iqn"], "lun": 3, "serial": "s9"}
    layers = {"target-a": {"size_bytes": 8192, "identity": identity, "detail": {"generation": "g7"}}}
    wanted = {**TARGET, "luns": [expected(TARGET["luns"][0], TARGET["iqn"], layers)]}
    assert layers_of([wanted], {})[0]["detail"]["generation"] == "g7"
    assert "generation" not in layers_of([TARGET], {})[0]["detail"]


EXPORT = {"name": "target-a", "identity": {"target_iqn": TARGET["iqn"], "lun": 3}, "size_bytes": 4096}


def purpose(given=None, parent=None, exported=None, named="target-a"):
    """Purpose of LUN 3 when its named parent and its export have these purposes."""
    layers = {"backing-a": {"name": "backing-a", "purpose": parent}} if parent else {}
    layers.update({"target-a": {**EXPORT, "purpose": exported}} if exported else {})
    lun = {"lun": 3, "name": "a", "parent": named, "purpose": given}
    return expected(lun, TARGET["iqn"], layers)["purpose"]


def test_a_lun_has_the_purpose_of_its_export_and_of_its_parent():
    assert purpose() == "data" and purpose("scratch") == "scratch"
    assert purpose(exported="data") == "data" and purpose(exported="scratch") == "scratch"
    assert purpose(parent="scratch", named="backing-a") == "scratch"
    # Another export of that name has nothing to do with it.
    other = {"target-a": {**EXPORT, "purpose": "data", "identity": {"target_iqn": "iqn.2026-01.t:other", "lun": 3}}}
    lun = {"lun": 3, "name": "a", "parent": "target-b", "purpose": "scratch"}
    assert expected(lun, TARGET["iqn"], other)["purpose"] == "scratch"


@pytest.mark.parametrize(
    "contradiction",
    [
        {"given": "scratch", "exported": "data"},
        {"given": "data", "exported": "scratch"},
        {"given": "scratch", "parent": "data", "named": "backing-a"},
        {"parent": "scratch", "exported": "data", "named": "backing-a"},
    ],
)
def test_a_lun_that_contradicts_what_is_beneath_is_refused(contradiction):
    with pytest.raises(Failure, match=r"iscsi_initiator_targets .* lun a purpose") as caught:
        purpose(**contradiction)
    assert caught.value.code == "bad_value"


def test_layers():
    disk = {"path": "/dev/sdq", "size_bytes": 4096, "serial": "s1", "naa": "", "wwid": "naa.6002", "queue_depth": 24}
    layer = layers_of([TARGET], {(TARGET["iqn"], 3): disk})[0]
    assert (layer["name"], layer["path"], layer["parent"], layer["purpose"], layer["size_bytes"]) == (
        "initiator-a",
        "/dev/sdq",
        "target-a",
        "data",
        4096,
    )
    assert layer["identity"] == {"serial": "s1", "wwid": "naa.6002", "target_iqn": TARGET["iqn"], "lun": 3}
    assert layers_of([TARGET], {})[0]["path"] is None


def test_targets_that_are_no_longer_asked_for():
    moved = {"iqn": TARGET["iqn"], "portal": {"address": "10.0.0.2", "port": 3261}}
    assert unwanted([TARGET, moved], [TARGET]) == [moved]


# ---------------------------------------------------------------- several portals


TWO_PORTALS = {**TARGET, "other_portals": [{"address": "10.0.1.1", "port": 3262}]}
NAA = "6001405aaaabbbbccccddddeeeeffff0"


def test_each_portal_is_a_path_and_a_portal_that_went_is_unwanted():
    paths = paths_of(TWO_PORTALS)
    assert [path["portal"] for path in paths] == [
        {"address": "10.0.0.1", "port": 3261},
        {"address": "10.0.1.1", "port": 3262},
    ]
    assert {path["iqn"] for path in paths} == {TARGET["iqn"]} and paths_of(TARGET)[0]["portal"] == TARGET["portal"]
    assert unwanted(paths, paths_of(TARGET)) == [paths[1]]


class Daemon:
    """multipathd and the commands it comes with, on a sysfs in a folder."""

    def __init__(self, root, monkeypatch, running=True, joins="sdb sdc", strict=False):
        self.root, self.joins, self.strict, self.said = root, joins.split(), strict, []
        self.wwids = root / "wwids"
        for name in ("sdb", "sdc"):
            (root / "sys/class/block" / name / "holders").mkdir(parents=True)
        look = multipath.map_of
        monkeypatch.setattr(multipath, "map_of", lambda path, _root="/": look(path, str(root)))
        monkeypatch.setattr(multipath, "runs", lambda: running)
        monkeypatch.setattr(multipath, "run", self.run)
        monkeypatch.setattr(multipath, "FILES", (str(self.wwids), str(root / "bindings")))
        monkeypatch.setattr(multipath.block_device, "users", self.users)
        monkeypatch.setattr(record_of_host, "missing_modules", lambda name: set())
        for module in (open_iscsi, record_of_host):
            monkeypatch.setattr(module, "loaded_modules", lambda: {"dm_multipath"} if self.made() else set())
        self.mounted = {}

    def made(self):
        return (self.root / "sys/class/block/dm-7").exists()

    def make(self):
        base = self.root / "sys/class/block/dm-7"
        (base / "dm").mkdir(parents=True)
        (base / "dm/name").write_text("mpathk\n")
        (base / "dm/uuid").write_text(f"mpath-3{NAA}\n")
        for name in self.joins:
            (base / "slaves" / name).mkdir(parents=True)
            (self.root / "sys/class/block" / name / "holders/dm-7").mkdir(parents=True)

    def users(self, path, with_openers=True, system=None):
        held = list((self.root / "sys/class/block" / path.split("/")[-1] / "holders").iterdir())
        openers = ["open in multipathd (pid 77)", "open in udev-worker (pid 78)"] if with_openers else []
        return [f"held by {one.name}" for one in held] + self.mounted.get(path, openers)

    def run(self, argv, ok=(0,), **_how):
        self.said.append(argv)
        if argv[:2] == ["multipath", "-a"]:
            self.wwids.write_text("# Multipath wwids\n/3600theirs/\n" + f"/3{NAA}/\n")
        if argv[:3] == ["multipathd", "add", "map"] and not (self.strict and not self.wwids.exists()):
            self.make()
        return subprocess.CompletedProcess(argv, 0, "", "")


def joined(tmp_path, daemon, count=2):
    iscsi, steps, warnings = open_iscsi.OpenIscsi("tb", {**TUNING, "login_timeout_s": 0.2}), [], []
    iscsi.record = Record("tb", "iscsi_session", str(tmp_path / "run"))
    portals = [path["portal"] for path in paths_of(TWO_PORTALS)]
    disks = [
        {"path": path, "naa": NAA, "serial": "s1", "portal": portal}
        for path, portal in zip(("/dev/sdb", "/dev/sdc"), portals)
    ]
    return iscsi.join(TARGET, TARGET["luns"][0], disks[:count], steps, warnings), steps, warnings, iscsi


@pytest.mark.parametrize("strict", [False, True])
def test_paths_become_the_device_of_multipathd(tmp_path, monkeypatch, strict):
    daemon = Daemon(tmp_path, monkeypatch, strict=strict)
    disk, steps, warnings, iscsi = joined(tmp_path, daemon)
    assert (disk["path"], disk["uuid"], disk["multipath"]) == ("/dev/dm-7", f"mpath-3{NAA}", "mpathk")
    assert disk["paths"] == ["10.0.0.1:3261", "10.0.1.1:3262"] and warnings == []
    assert [step["op"] for step in steps] == ["join_paths"]
    # The second time it is there.
    assert joined(tmp_path, daemon)[1] == []
    assert iscsi.record.data["modules"] == ["dm_multipath"]
    layer = layers_of([TARGET], {(TARGET["iqn"], 3): {**disk, "size_bytes": 5}})[0]
    assert layer["identity"]["uuid"] == f"mpath-3{NAA}" and layer["identity"]["serial"] == "s1"
    assert layer["detail"]["paths"] == disk["paths"] and layer["detail"]["multipath"] == "mpathk"
    # Only what came with the testbed leaves multipathd's files.
    kept = iscsi.record.data["multipath"]
    multipath.forget(kept["files"], kept["wwids"])
    assert daemon.wwids.read_text() == "# Multipath wwids\n/3600theirs/\n"
    daemon.wwids.write_text(f"# Multipath wwids\n/3{NAA}/\n")
    multipath.forget(kept["files"], kept["wwids"])
    assert not daemon.wwids.exists()


def test_a_lun_that_multipathd_knew_before_stays_known(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, monkeypatch)
    daemon.wwids.write_text(f"/3{NAA}/\n")
    kept = joined(tmp_path, daemon)[3].record.data["multipath"]
    before = daemon.wwids.read_text()
    multipath.forget(kept["files"], kept["wwids"])
    assert daemon.wwids.read_text() == before and NAA in before


def test_without_multipathd_it_is_said_which_path_is_used(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, monkeypatch, running=False)
    disk, steps, warnings, _iscsi = joined(tmp_path, daemon)
    assert disk["path"] == "/dev/sdb" and "uuid" not in disk and steps == [] and daemon.said == []
    [sentence] = warnings
    assert sentence.startswith(
        "LUN 3 of iqn.2026-01.t:target is used through 10.0.0.1:3261 alone (/dev/sdb), because no multipathd runs on this host; "
        "10.0.1.1:3262 is logged in to and not used."
    )
    # One portal, one path: nothing to say.
    assert joined(tmp_path, daemon, count=1)[2] == []


def test_a_disk_in_use_is_left_alone(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, monkeypatch)
    daemon.mounted["/dev/sdb"] = ["mounted on /srv/a"]
    disk, steps, warnings, _iscsi = joined(tmp_path, daemon)
    assert (
        disk["path"] == "/dev/sdb"
        and steps == []
        and daemon.said == []
        and "in use through /dev/sdb alone" in warnings[0]
    )


@pytest.mark.parametrize(("joins", "code"), [("sdb sdc sdz", "multipath_differs"), ("", "multipath_missing")])
def test_a_device_of_other_disks_is_not_taken(tmp_path, monkeypatch, joins, code):
    daemon = Daemon(tmp_path, monkeypatch, joins=joins)
    with pytest.raises(Failure) as caught:
        joined(tmp_path, daemon)
    assert caught.value.code == code


def test_users_of_a_path_are_those_of_the_device_above(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, monkeypatch)
    daemon.make()
    assert multipath.users("/dev/sdb") == ["open in udev-worker (pid 78)"]
    assert multipath.users("/dev/sdb", with_openers=False) == []
    daemon.mounted["/dev/sdb"] = ["mounted on /srv/a", "open in qemu (pid 5)"]
    assert multipath.users("/dev/sdb") == ["mounted on /srv/a", "open in qemu (pid 5)"]


def test_bindings_are_read_by_their_last_word():
    text = "# Multipath bindings\nmpatha 3600a\nmpathb 3600b\n"
    assert multipath.wwids_of("/etc/multipath/bindings", text) == ["3600a", "3600b"]
    assert multipath.without("/etc/multipath/bindings", text, {"3600b"}) == "# Multipath bindings\nmpatha 3600a\n"


def test_in_check_mode_the_disks_that_are_there_are_known(tmp_path, monkeypatch):
    """Without them all that stands on them would seem to be missing. Nothing is written, not even to read a disk anew."""
    monkeypatch.setattr(open_iscsi, "SESSIONS", str(tmp_path))
    iscsi = open_iscsi.OpenIscsi("tb", TUNING)
    monkeypatch.setattr(
        iscsi, "session", lambda path: {"sid": "9", "initiator": "iqn.t:h"} if path["portal"]["port"] == 3261 else None
    )
    folder = tmp_path / "session9" / "device" / "target5:0:0" / "5:0:0:3"
    (folder / "block" / "sdq").mkdir(parents=True)
    for name, text in (("state", "running"), ("queue_depth", "24"), ("wwid", "naa.6001")):
        (folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(open_iscsi.block_device, "size_bytes", lambda path: {"/dev/sdq": 4711}[path])
    monkeypatch.setattr(open_iscsi, "write_text", lambda *arguments: pytest.fail(f"written: {arguments}"))
    hidden = {**TARGET, "luns": [*TARGET["luns"], {**TARGET["luns"][0], "lun": 5}]}
    elsewhere = {**TARGET, "iqn": "iqn.2026-01.t:other", "portal": {"address": "10.0.0.1", "port": 3262}}
    found = iscsi.seen([hidden, elsewhere])
    assert list(found) == [(TARGET["iqn"], 3)]
    (disk,) = found.values()
    assert (disk["path"], disk["size_bytes"], disk["queue_depth"], disk["wwid"]) == ("/dev/sdq", 4711, 24, "naa.6001")
    assert disk["initiator_iqn"] == "iqn.t:h" and "paths" not in disk
