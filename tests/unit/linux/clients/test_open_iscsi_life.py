# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""open-iscsi from the first login to the last logout, on a host made of files: its daemon, its records, its sessions and their disks.

A real target and initiator are in molecule/iscsi.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device, multipath
from rooted import Rooted
from unchanged import broken_off, refused

IQN, NAME = "iqn.2026-11.test:a", "iqn.2026-11.test:client"
TUNING = {
    "queue_depth": 32,
    "replacement_timeout_s": 11,
    "login_timeout_s": 7,
    "noop_interval_s": 5,
    "noop_timeout_s": 3,
}
NAA = "6001405" + "0123456789abcdef0" + "12345678"
TARGET = {
    "iqn": IQN,
    "portal": {"address": "10.0.0.1", "port": 3260},
    "luns": [{"lun": 4, "serial": "sn-4", "naa": NAA, "wwid": f"naa.{NAA}", "size_bytes": 7 << 20}],
    **dict.fromkeys(open_iscsi.CHAP),
}
NODE = f"/var/lib/iscsi/nodes/{IQN}/10.0.0.1,3260,1/storlab-unit"


class Host(Rooted):
    """fails: {a part of a command: its exit code}; offers: what discovery prints."""

    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, open_iscsi, record, multipath, block_device)
        self.fails, self.answers, self.connects = {}, True, True
        # Whose records iscsiadm (2.1.8, seen in a machine) leaves empty, without an error, because the file system is full.
        self.full = ""
        self.offers = f"10.0.0.1:3260,1 {IQN}\n10.0.0.9:3260,2 iqn.2026-11.test:b\n"
        self.luns = {4: "sdc"}
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        self.write("/proc/net/unix", "Num Path\n")
        self.write("/etc/multipath/wwids", "# comment\n/3600000000000000000000000000000001/\n")
        # The distribution's own folder of records, with one in it.
        self.write("/etc/iscsi/ifaces/theirs", "iface.initiatorname = iqn.theirs\n")
        monkeypatch.setattr(
            open_iscsi, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab")
        )
        monkeypatch.setattr(block_device, "users", lambda path, with_openers=True: self.uses.get(path, []))
        monkeypatch.setattr(open_iscsi.socket, "create_connection", self._connect)
        monkeypatch.setattr(open_iscsi, "write_whole", lambda path, data, **how: self.write(path, data.decode()))
        monkeypatch.setattr(multipath, "write_whole", lambda path, data, **how: self.write(path, data.decode()))
        self.uses = {}

    def _connect(self, address, timeout):
        if not self.connects:
            raise ConnectionRefusedError("refused")
        return type("Connection", (), {"close": lambda _self: None})()

    def daemon(self, runs: bool) -> None:
        self.write("/proc/net/unix", "@ISCSIADM_ABSTRACT_NAMESPACE\n" if runs else "Num Path\n")
        self.write("/proc/77/comm", "iscsid" if runs else "bash")

    def log_in(self) -> None:
        session = "/sys/class/iscsi_session/session5"
        for name, text in {
            "ifacename": "storlab-unit",
            "targetname": IQN,
            "state": "LOGGED_IN",
            "recovery_tmo": "120",
            "initiatorname": NAME,
        }.items():
            self.write(f"{session}/{name}", text)
        self.folder("/sys/devices/host9/session5")
        self._symlink("/sys/devices/host9/session5", f"{session}/device")
        for name, text in {"address": "10.0.0.1", "port": "3260"}.items():
            self.write(f"/sys/class/iscsi_connection/connection5:0/persistent_{name}", text)
        self.modules.add("sg")
        for number, disk in self.luns.items():
            self.disk(number, disk)

    def disk(self, number: int, name: str) -> None:
        folder = f"/sys/devices/host9/session5/target9:0:0/9:0:0:{number}"
        for key, text in {"state": "running", "queue_depth": "32", "wwid": f"naa.{NAA}", "rescan": ""}.items():
            self.write(f"{folder}/{key}", text)
        self.folder(f"{folder}/block/{name}")
        self.folder(f"/sys/class/scsi_device/9:0:0:{number}")
        pages = {
            "vpd_pg80": b"\x00\x80" + struct.pack(">H", 4) + f"sn-{number}".encode(),
            "vpd_pg83": b"\x00\x83" + struct.pack(">H", 20) + b"\x01\x03\x00\x10" + bytes.fromhex(NAA),
        }
        for page, data in pages.items():
            with open(self.real(f"{folder}/{page}"), "wb") as handle:
                handle.write(data)
        self.write(f"/dev/{name}")
        self.write(f"/sys/class/block/{name}/size", str((7 << 20) // 512))

    def wrote(self, path: str, text: str) -> None:
        if path == "/sys/class/scsi_host/host9/scan":
            self.disk(4, "sdc")
        super().wrote(path, text)

    def command(self, argv: list):
        line = " ".join(argv)
        code = next((code for part, code in self.fails.items() if part in line), 0)
        if code:
            return code, ""
        if argv[0] in ("modprobe", "udevadm"):
            return None
        if argv[0] == "multipath":
            return self.remove("/sys/class/block/dm-3")
        if argv == ["iscsid"] or argv == ["systemctl", "start", "iscsid.service"]:
            return self.daemon(self.answers)
        if argv == ["iscsiadm", "-k", "0"] or argv == ["systemctl", "stop", "iscsid.service"]:
            return self.daemon(False)
        assert argv[0] == "iscsiadm", line
        if " iface " in line:
            path = "/etc/iscsi/ifaces/storlab-unit"
            if line.endswith("-o new"):
                self.write(path, "" if self.full == "iface" else "iface.transport_name = tcp\n")
            elif line.endswith("-o delete"):
                self.remove(path)
            elif self.read_text(path) == "":
                # "Cound not locate transport for iface".
                return 7, ""
            else:
                self.write(path, f"# BEGIN\niface.initiatorname = {argv[-1]}\n# END\n")
        elif " discovery " in line:
            return self.offers
        elif line.endswith("-o new"):
            self.write(
                NODE,
                ""
                if self.full == "node"
                else f"node.name = {IQN}\nnode.conn[0].address = 10.0.0.1\nnode.conn[0].port = 3260\nnode.startup = automatic\n# END RECORD\n",
            )
        elif line.endswith("-o delete"):
            if not self.has(NODE) or self.read_text(NODE) == "":
                return 21, ""
            self.remove("/var/lib/iscsi/nodes")
        elif line.endswith("--login"):
            self.log_in()
        elif line.endswith("--logout"):
            self.remove("/sys/class/iscsi_session/session5")
            self.remove("/sys/devices/host9")
            for number in self.luns:
                self.remove(f"/sys/class/scsi_device/9:0:0:{number}")
        return None


@pytest.fixture
def host(monkeypatch, tmp_path):
    return Host(monkeypatch, tmp_path)


def ours() -> open_iscsi.OpenIscsi:
    return open_iscsi.OpenIscsi("unit", TUNING)


def built(target=TARGET) -> open_iscsi.OpenIscsi:
    mine = ours()
    mine.prepare(NAME)
    mine.apply(open_iscsi.plan(mine.current(target), target, TUNING), target)
    return mine


def kept(host) -> dict:
    return json.loads(host.read_text("/run/storlab/unit/iscsi_session.json"))


@pytest.mark.parametrize("systemd", [False, True])
def test_a_session_comes_and_goes_with_all_that_was_made_for_it(host, systemd):
    if systemd:
        host.folder("/run/systemd/system")
    mine = built()
    assert mine.iface_name() == NAME and mine.daemon_runs()
    assert kept(host)["daemon"] == ("systemd" if systemd else "process")
    values = open_iscsi.parse_record(host.read_text(NODE))
    assert (values["node.startup"], values["node.session.queue_depth"]) == ("manual", "32")
    assert "node.session.auth.username" not in values
    disk = mine.disks(TARGET)[4]
    assert (disk["path"], disk["serial"], disk["naa"], disk["initiator_iqn"]) == ("/dev/sdc", "sn-4", NAA, NAME)
    assert mine.seen([TARGET])[(IQN, 4)]["path"] == "/dev/sdc"
    # What differs from what is wanted is set in the running session.
    again = ours()
    steps = open_iscsi.plan(again.current(TARGET), TARGET, TUNING)
    assert [(step["op"], step["was"], step["will"]) for step in steps] == [("set_replacement_timeout", "120", "11")]
    again.apply(steps, TARGET)
    assert open_iscsi.plan(ours().current(TARGET), TARGET, TUNING) == []
    assert again.records() == [{"iqn": IQN, "portal": TARGET["portal"]}]
    ours().remove_all()
    assert not host.has("/run/storlab") and not ours().daemon_runs() and ours().iface_name() is None
    assert host.modules == {"ext4"} and ours().sessions() == []
    assert host.read_text("/etc/iscsi/ifaces/theirs") == "iface.initiatorname = iqn.theirs"


def test_a_target_is_logged_in_to_by_the_name_as_its_portal_writes_it(host):
    """Records and the kernel know it by that name alone."""
    given = {**TARGET, "iqn": IQN.replace("test:a", "Test:A")}
    mine = built(given)
    assert given["iqn"] == IQN and mine.session(given)["sid"] == "5"
    assert mine.records() == [{"iqn": IQN, "portal": TARGET["portal"]}]
    mine.remove_all()
    assert mine.records() == [] and mine.sessions() == []


def test_what_was_there_before_stays(host):
    host.daemon(True)
    host.modules |= {"sg", "iscsi_tcp"}
    host.folder("/sys/class/scsi_device/0:0:0:0")
    built()
    assert "daemon" not in kept(host) and kept(host)["modules"] == ["sd_mod"]
    host.done.clear()
    ours().remove_all()
    assert ours().daemon_runs() and host.modules == {"ext4", "sg", "iscsi_tcp"}
    assert "iscsiadm -k 0" not in host.done


def test_disks_of_others_that_came_meanwhile_keep_their_module(host):
    built()
    assert "sg" in kept(host)["modules"]
    host.folder("/sys/class/scsi_device/0:0:0:0")
    ours().remove_all()
    assert host.modules == {"ext4", "sg"}


def test_a_daemon_that_others_use_goes_on(host):
    built()
    host.write("/sys/class/iscsi_session/session8/ifacename", "default")
    ours().remove_all()
    assert ours().daemon_runs() and ours().sessions() == []


def test_folders_of_records_that_were_not_there_go(host):
    built()
    assert {"/etc/iscsi/nodes", "/var/lib/iscsi"} <= set(kept(host)["folders"])
    assert not {"/etc/iscsi", "/etc/iscsi/ifaces"} & set(kept(host)["folders"])
    host.folder("/etc/iscsi/nodes")
    host.write("/etc/iscsi/slp/theirs")
    ours().remove_all()
    assert not host.has("/etc/iscsi/nodes") and not host.has("/var/lib/iscsi") and host.has("/etc/iscsi/slp/theirs")


def test_a_daemon_that_does_not_answer(host):
    host.answers = False
    with broken_off() as caught:
        ours().prepare(NAME)
    assert caught.value.code == "iscsid_missing" and ours().iface_name() is None
    # Its record says who started it.
    assert kept(host)["daemon"] == "process"


def test_a_module_that_cannot_be_loaded_leaves_those_that_can_in_the_record(host):
    host.available.discard("sd_mod")
    with broken_off(match="sd_mod"):
        ours().prepare(NAME)
    assert kept(host)["modules"] == ["iscsi_tcp"]


def test_another_name_is_written_into_the_interface(host):
    built()
    host.done.clear()
    ours().prepare(f"{NAME}2")
    assert [line for line in host.done if "iface" in line] == [
        f"iscsiadm -m iface -I storlab-unit -o update -n iface.initiatorname -v {NAME}2"
    ]
    assert ours().iface_name() == f"{NAME}2"


def test_a_portal_where_nobody_answers(host):
    host.connects = False
    with broken_off() as caught:
        built()
    assert (caught.value.code, caught.value.details["portal"]) == ("portal_unreachable", "10.0.0.1:3260")
    assert not host.has(NODE)


@pytest.mark.parametrize(
    ("offers", "code", "says"),
    [
        ("", 24, "CHAP authentication failed"),
        ("", 21, "it offers none"),
        ("10.0.0.1:3260,1 iqn.2026-11.test:z\n", 0, "it offers iqn.2026-11.test:z"),
        # At another portal it is of no use.
        (f"10.0.0.2:3260,1 {IQN}\n", 0, "it offers none"),
    ],
)
def test_a_target_that_is_not_offered(host, offers, code, says):
    host.offers = offers
    host.fails = {"discovery": code} if code else {}
    with broken_off() as caught:
        built()
    assert (caught.value.code, caught.value.details["exit_code"]) == ("target_missing", code)
    assert says in str(caught.value)


def test_a_name_that_iscsiadm_does_not_read_hides_no_target_behind_it(host):
    """As iscsiadm 2.1.8 answers at a target where somebody else exports `…:mby_7:open`."""
    host.offers = "10.0.0.1:3260,1 iqn.2026-11.test:z\n"
    host.complains = "iscsiadm: Discovery TargetName invalid, ignoring\niscsiadm: failed to add target record\n"
    built()
    assert host.has(NODE) and json.loads(host.read_text("/run/storlab/unit/iscsi_session.json"))


@pytest.mark.parametrize(("code", "expected"), [(8, "login_timeout"), (24, "chap_rejected"), (19, "login_refused")])
def test_a_login_that_fails_leaves_no_record(host, code, expected):
    host.fails = {"--login": code}
    mine = ours()
    mine.prepare(NAME)
    with broken_off() as caught:
        mine.apply(open_iscsi.plan(mine.current(TARGET), TARGET, TUNING), TARGET)
    assert (caught.value.code, caught.value.details["exit_code"]) == (expected, code)
    assert host.has(NODE)
    mine.undo(TARGET, None)
    assert not host.has(NODE)
    mine.undo(TARGET, None)


def test_a_record_that_was_there_comes_back_after_a_login_that_failed(host):
    mine = built()
    before = host.read_text(NODE)
    changed = {**TARGET, "chap_user": "me", "chap_password": "another-secret"}
    mine.apply([{"op": "update_record"}], changed)
    assert "another-secret" in host.read_text(NODE)
    mine.undo(changed, before)
    assert host.read_text(NODE) == before


def test_iscsiadm_that_makes_no_record(host):
    mine = built()
    host.remove("/var/lib/iscsi/nodes")
    with pytest.raises(FileNotFoundError, match="iscsiadm made no record"):
        mine.apply([{"op": "update_record"}], TARGET)


def test_a_session_that_does_not_end(host):
    mine = built()
    host.fails = {"--logout": 21}
    with broken_off() as caught:
        mine.remove([TARGET])
    assert caught.value.code == "logout_failed" and host.has(NODE)


def test_a_session_that_does_not_come_back_is_made_anew(host):
    mine = built()
    host.write("/sys/class/iscsi_session/session5/state", "FAILED")
    steps = open_iscsi.plan(mine.current(TARGET), TARGET, TUNING)
    assert [step["op"] for step in steps] == ["recover"]
    host.done.clear()
    mine.apply(steps, TARGET)
    assert [line.rpartition(" ")[2] for line in host.done] == ["--logout", "--login"]
    # One that came back meanwhile is left alone.
    host.done.clear()
    mine.apply(steps, TARGET)
    assert host.done == []


def test_the_depth_of_a_queue_is_set_where_it_is_another(host):
    mine = built()
    host.write("/sys/devices/host9/session5/target9:0:0/9:0:0:4/queue_depth", "128")
    [_timeout, step] = open_iscsi.plan(mine.current(TARGET), TARGET, TUNING)
    assert (step["op"], step["lun"], step["was"]) == ("set_queue_depth", 4, "128")
    mine.apply([step], TARGET)
    assert mine.luns(mine.session(TARGET))[4]["queue_depth"] == "32"


def test_a_lun_that_appears_after_a_scan(host):
    host.luns = {}
    mine = built()
    assert mine.disks(TARGET)[4]["path"] == "/dev/sdc"
    assert "- - - > /sys/class/scsi_host/host9/scan" in host.done


def test_a_lun_that_is_not_shown(host):
    mine = built()
    wanted = {**TARGET, "luns": [{"lun": 6}, {"lun": 4}, {"lun": 8}]}
    with broken_off() as caught:
        mine.disks(wanted)
    assert (caught.value.code, caught.value.details["missing"], caught.value.details["found"]) == (
        "lun_missing",
        [6, 8],
        [4],
    )


@pytest.mark.parametrize("ended", [["iscsi_session/session5"], ["iscsi_session/session5", "scsi_device/9:0:0:4"]])
def test_a_session_that_somebody_ends_meanwhile_is_said_to_be_lost(host, monkeypatch, ended):
    mine, facts = built(), open_iscsi.OpenIscsi._facts

    def end(*_arguments) -> None:
        for place in ended:
            host.remove(f"/sys/class/{place}")

    def ended_while_read(this, disk, session):
        end()
        host.remove("/sys/devices/host9")
        return facts(this, disk, session)

    monkeypatch.setattr(open_iscsi.OpenIscsi, "_facts", ended_while_read)
    with broken_off() as caught:
        mine.disks(TARGET)
    assert (caught.value.code, caught.value.details["target_iqn"]) == ("session_lost", IQN)
    step = {"op": "set_replacement_timeout", "will": "7"}
    for broken in (lambda: mine.disks(TARGET), lambda: mine.apply([step], TARGET)):
        with broken_off() as caught:
            broken()
        assert caught.value.code == "session_lost" and "logged it out" in str(caught.value)


def test_a_disk_that_the_kernel_gave_up_is_known(host):
    mine = built()
    assert mine.offline(TARGET) is False
    host.write("/sys/devices/host9/session5/target9:0:0/9:0:0:4/state", "offline")
    assert mine.offline(TARGET) is True
    # One that is not there at all is looked for elsewhere.
    assert mine.offline({**TARGET, "luns": [{"lun": 9}]}) is False


def test_a_unit_without_pages_has_no_identity(host):
    mine = built()
    for page in ("vpd_pg80", "vpd_pg83"):
        host.remove(f"/sys/devices/host9/session5/target9:0:0/9:0:0:4/{page}")
    with broken_off() as caught:
        mine.disks(TARGET)
    assert (caught.value.code, caught.value.details["expected"]) == ("wrong_serial", "sn-4")
    assert mine.disks({**TARGET, "luns": [{"lun": 4}]})[4]["naa"] == ""


def test_disks_in_use_are_not_logged_out(host):
    mine = built()
    host.uses = {"/dev/sdc": ["mounted on /srv"]}
    for attempt in (mine.remove_all, lambda: mine.refuse_used([TARGET])):
        with refused(Path(host.root), host.done) as caught:
            attempt()
        assert (caught.value.code, caught.value.details["path"]) == ("device_mounted", "/dev/sdc")
    assert mine.session(TARGET)["state"] == "LOGGED_IN" and host.has(NODE)


def test_multipathd_that_runs_is_told_to_forget(host):
    host.write("/proc/88/comm", "multipathd")
    built()
    assert kept(host)["multipath"]["files"]["/etc/multipath/wwids"] == ["3600000000000000000000000000000001"]
    data = kept(host)
    data["multipath"]["wwids"] = [f"3{NAA}"]
    host.write("/run/storlab/unit/iscsi_session.json", json.dumps(data))
    host.write("/etc/multipath/wwids", f"# comment\n/3600000000000000000000000000000001/\n/3{NAA}/\n")
    ours().remove_all()
    assert host.read_text("/etc/multipath/wwids").splitlines() == ["# comment", "/3600000000000000000000000000000001/"]


def joined(host, *disks: str) -> None:
    """multipathd has made one device of these disks."""
    host.write("/sys/class/block/dm-3/dm/uuid", f"mpath-3{NAA}")
    host.write("/sys/class/block/dm-3/dm/name", "mpatha")
    for name in disks:
        host.write(f"/sys/class/block/{name}/holders/dm-3")
        host.write(f"/sys/class/block/dm-3/slaves/{name}")


def test_a_device_of_paths_goes_with_the_last_of_them(host):
    mine = built()
    joined(host, "sdc", "sdd")
    assert mine.current(TARGET)["multipath"] is True
    # Another portal's path is left, and with it the device and what stands on it.
    host.uses = {"/dev/sdc": ["mounted on /srv"]}
    host.done.clear()
    mine.refuse_used([TARGET])
    mine.remove([TARGET])
    assert not any(line.startswith("multipath") for line in host.done) and host.has("/sys/class/block/dm-3")


def test_a_device_of_paths_is_taken_away_before_its_last_path(host):
    mine = built()
    joined(host, "sdc")
    host.done.clear()
    mine.remove([TARGET])
    assert host.done[0] == "multipath -f mpatha" and host.done[1].endswith("--logout")
    # One that was logged out already has nothing to end, and no secret is kept of it.
    assert kept(host)["logins"] == {}
    host.done.clear()
    mine.remove([TARGET])
    assert host.done == []


# ---- a full file system of iscsiadm's records

IFACE = "/etc/iscsi/ifaces/storlab-unit"
RECORDS = {"iface": IFACE, "node": NODE}


@pytest.mark.parametrize("next_run", ["absent", "present"])
@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_iscsiadm_leaves_empty_is_no_record(host, what, next_run):
    host.full = what
    with broken_off() as caught:
        built()
    assert caught.value.code == "record_unwritable"
    assert f"{RECORDS[what]} is empty, although iscsiadm reported no error" in str(caught.value)
    # It would stop each later build, and has no target that a teardown could read in it.
    assert not host.has(RECORDS[what])
    host.full = ""
    if next_run == "present":
        assert built().session(TARGET)["sid"] == "5"
    ours().remove_all()
    assert not host.has("/run/storlab") and not host.has("/var/lib/iscsi") and not host.has(IFACE)


@pytest.mark.parametrize("next_run", ["absent", "present"])
def test_empty_records_of_a_run_that_was_cut_go_and_those_of_others_stay(host, next_run):
    """Killed between the call and the look at what it has left; nobody else has an interface of that name."""
    built()
    ours().remove(ours().records())
    theirs = NODE.replace("storlab-unit", "theirs")
    for path in (IFACE, NODE, theirs):
        host.write(path, "")
    assert ours().records() == [] and ours().iface_name() is None and ours().current(TARGET)["record"] is None
    if next_run == "present":
        assert built().session(TARGET)["sid"] == "5"
    else:
        ours().remove_all()
        assert not host.has(IFACE) and not host.has(NODE)
    assert host.has(theirs)
