# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe connections from the first to the last, on a host made of files: its controllers and their disks. A real target and host are in molecule/nvme."""

from __future__ import annotations

import errno
import json
import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.nvme_names import host_id
from ansible_collections.storlab.testbed.plugins.module_utils.linux import host as host_module
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import nvme_sessions, nvme_tcp
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from rooted import Rooted
from unchanged import broken_off, refused

IQN, NAME = "iqn.2026-11.test:a", "iqn.2026-11.test:client"
NQN, HOST = "nqn.2026-11.test:a", "nqn.2026-11.test:client"
UUID = "6f1d3b0e-52a4-5c1e-9a57-73746f726c6{}"
SIZE = 7 << 20
FABRICS = "/dev/nvme-fabrics"
NOTHING = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))


class Host(Rooted):
    """offers: {namespace: UUID} of the target. refuses: the error of a connection. joins: whether the kernel joins paths."""

    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, nvme_tcp, record, block_device, host_module)
        self.available |= {"nvme_tcp"}
        self.offers, self.refuses, self.joins, self.reaches = {4: UUID.format(4)}, 0, True, True
        self.uses: dict[str, list] = {}
        self.asked: list[dict] = []
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        self.folder("/sys/class/nvme")
        self.folder("/sys/block")
        monkeypatch.setattr(
            nvme_tcp, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab")
        )
        monkeypatch.setattr(block_device, "users", lambda path, with_openers=True: self.uses.get(path, []))
        monkeypatch.setattr(nvme_tcp.socket, "create_connection", self._reach)

    def _reach(self, address, timeout):
        if not self.reaches:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return type("Connection", (), {"close": lambda _self: None})()

    def command(self, argv: list):
        assert argv == ["modprobe", "nvme_tcp"], argv
        self.write(FABRICS)

    def wrote(self, path: str, text: str) -> None:
        if path == FABRICS:
            if self.refuses:
                raise OSError(self.refuses, os.strerror(self.refuses))
            options = dict(word.partition("=")[::2] for word in text.split(","))
            self.asked.append(options)
            self.connect(options["nqn"], options["hostnqn"], options["trsvcid"], options["fast_io_fail_tmo"])
        elif path.endswith("/delete_controller"):
            self.disconnect(path.split("/")[-2])
        elif path.endswith("/rescan_controller"):
            self.scan()
        else:
            super().wrote(path, text)

    def connect(self, nqn: str, host: str, port: str = "4420", fail: str = "11") -> str:
        number = next(n for n in range(9) if not self.has(f"/sys/class/nvme/nvme{n}"))
        values = {
            "transport": "tcp",
            "address": f"traddr=10.0.0.1,trsvcid={port},src_addr=10.0.0.9",
            "subsysnqn": nqn,
            "hostnqn": host,
            "state": "live",
            "fast_io_fail_tmo": fail,
            "delete_controller": "",
            "rescan_controller": "",
        }
        for name, text in values.items():
            self.write(f"/sys/class/nvme/nvme{number}/{name}", text)
        self.scan()
        return f"nvme{number}"

    def controllers(self) -> dict:
        names = sorted(os.listdir(self.real("/sys/class/nvme")))
        return {name: self.read_text(f"/sys/class/nvme/{name}/subsysnqn") for name in names}

    def scan(self) -> None:
        """The disks of each subsystem, below it where the kernel joins paths, else below each controller."""
        for name in os.listdir(self.real("/sys/block")):
            self.remove(f"/sys/block/{name}")
        self.remove("/sys/devices")
        for nqn, place in enumerate(dict.fromkeys(self.controllers().values())):
            for controller in [name for name, its in self.controllers().items() if its == place]:
                above = (
                    f"/sys/devices/virtual/nvme-subsystem/nvme-subsys{nqn}"
                    if self.joins
                    else f"/sys/devices/ctl/{controller}"
                )
                self.write(f"{above}/subsysnqn", place)
                for number, uuid in self.offers.items():
                    disk = f"nvme{nqn}n{number}" if self.joins else f"{controller}n{number}"
                    self.write(f"{above}/{disk}/nsid", str(number))
                    self.write(f"{above}/{disk}/wwid", f"uuid.{uuid}")
                    self.write(f"/sys/class/block/{disk}/size", str(SIZE // 512))
                    self.write(f"/dev/{disk}")
                    if not self.has(f"/sys/block/{disk}"):
                        self._symlink(f"{above}/{disk}", f"/sys/block/{disk}")
                    # The path to a joined disk, which has no node.
                    if self.joins:
                        self.folder(f"/sys/block/nvme{nqn}c{controller[4:]}n{number}")

    def disconnect(self, name: str) -> None:
        self.remove(f"/sys/class/nvme/{name}")
        self.scan()


@pytest.fixture
def host(monkeypatch, tmp_path):
    return Host(monkeypatch, tmp_path)


def lun(number: int = 4) -> dict:
    return {
        "lun": number,
        "name": f"d{number}",
        "parent": f"target-d{number}",
        "purpose": "data",
        "layer_kind": "initiator",
        **dict.fromkeys(("serial", "naa", "size_bytes")),
    }


def target(*others: int, **more) -> dict:
    portals = [{"address": "10.0.0.1", "port": port} for port in (4420, *others)]
    return {"iqn": IQN, "portal": portals[0], "other_portals": portals[1:], "luns": [lun()], **NOTHING, **more}


def exported(uuid: str = UUID.format(4), size: int = SIZE) -> dict:
    identity = {"target_iqn": IQN, "lun": 4, "wwid": f"uuid.{uuid}"}
    return {
        "target-d4": {
            "name": "target-d4",
            "kind": "target",
            "host": "store",
            "path": None,
            "parent": "backing-d4",
            "purpose": "data",
            "size_bytes": size,
            "identity": identity,
            "detail": {"generation": "g"},
        }
    }


def call(*targets, state="present", check_mode=False, **more) -> dict:
    given = {"testbed_id": "unit", "state": state, "initiator_name": NAME, "layers": exported(), "targets": targets}
    tuning = {"queue_depth": 32, "replacement_timeout_s": 11, "login_timeout_s": 7}
    tuning.update(noop_interval_s=5, noop_timeout_s=3)
    return converge(nvme_sessions.Area, {**given, **tuning, **more}, check_mode)


def test_a_connection_comes_and_goes_with_its_module(host):
    foreseen = call(target(), check_mode=True)
    assert foreseen["changed"] and foreseen["layers"][0]["path"] is None and host.modules == {"ext4"}
    made = call(target())
    asked = host.asked[0]
    assert {key: asked[key] for key in ("transport", "traddr", "trsvcid", "nqn", "hostnqn", "hostid")} == {
        "transport": "tcp",
        "traddr": "10.0.0.1",
        "trsvcid": "4420",
        "nqn": NQN,
        "hostnqn": HOST,
        "hostid": host_id(HOST),
    }
    # I/O waits as long as is said, and the kernel never gives the target up.
    assert (asked["fast_io_fail_tmo"], asked["ctrl_loss_tmo"], asked["keep_alive_tmo"]) == ("11", "-1", "8")
    layer = made["layers"][0]
    assert (layer["path"], layer["size_bytes"], layer["parent"]) == ("/dev/nvme0n4", SIZE, "target-d4")
    assert layer["identity"] == {"target_iqn": IQN, "lun": 4, "wwid": f"uuid.{UUID.format(4)}"}
    assert (layer["detail"]["initiator_iqn"], layer["detail"]["provider"]) == (NAME, "nvme_tcp")
    again = call(target())
    assert (again["changed"], again["layers"]) == (False, made["layers"])
    assert call(target(), check_mode=True)["layers"] == made["layers"]
    call(state="absent", check_mode=True)
    assert host.controllers() == {"nvme0": NQN}
    assert call(state="absent")["changed"] and host.controllers() == {}
    assert host.modules == {"ext4"} and not host.has("/run/storlab")
    assert call(state="absent")["changed"] is False


def test_connections_of_others_stay(host):
    theirs = host.connect("nqn.2014-08.test:his", "nqn.2014-08.test:he")
    call(target())
    call(state="absent")
    assert host.controllers() == {theirs: "nqn.2014-08.test:his"}


def test_a_subsystem_that_others_are_connected_to_is_refused(host):
    host.connect(NQN, "nqn.2014-08.test:he")
    with refused(host.controllers) as caught:
        call(target())
    assert caught.value.code == "session_foreign" and "nvme0" in str(caught.value)
    # Under the testbed's own name, too: its record does not have it.
    host.disconnect("nvme0")
    host.connect(NQN, HOST)
    with refused(host.controllers) as caught:
        call(target())
    assert caught.value.code == "session_foreign" and not host.has("/run/storlab")


@pytest.mark.parametrize(
    ("layers", "code"),
    [(exported(UUID.format(5)), "wrong_wwid"), (exported(size=SIZE + 512), "wrong_size")],
    ids=["another disk", "another size"],
)
def test_a_disk_that_is_not_the_exported_one_is_not_taken(host, layers, code):
    with broken_off() as caught:
        call(target(), layers=layers)
    assert caught.value.code == code
    call(state="absent")
    assert host.controllers() == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [({"reaches": False}, "portal_unreachable"), ({"refuses": errno.EIO}, "login_refused")],
    ids=["nobody there", "refused"],
)
def test_a_first_connection_that_fails_leaves_nothing(host, change, code):
    vars(host).update(change)
    with broken_off() as caught:
        call(target())
    assert caught.value.code == code
    assert host.controllers() == {} and host.modules == {"ext4"} and not host.has("/run/storlab")


def test_a_namespace_that_the_target_does_not_show_is_named(host):
    host.offers = {5: UUID.format(5)}
    with broken_off() as caught:
        call(target())
    assert (caught.value.code, caught.value.details["missing"]) == ("lun_missing", [4])


def test_several_portals_are_paths_to_one_disk(host):
    made = call(target(4421))
    assert sorted(host.controllers()) == ["nvme0", "nvme1"] and made["warnings"] == []
    assert made["layers"][0]["detail"]["paths"] == ["10.0.0.1:4420", "10.0.0.1:4421"]
    assert made["layers"][0]["path"] == "/dev/nvme0n4" and call(target(4421))["changed"] is False
    # A path goes while its disk is used through the other one.
    host.uses["/dev/nvme0n4"] = ["mounted on /srv"]
    assert call(target())["changed"] and sorted(host.controllers()) == ["nvme0"]
    with refused(host.controllers) as caught:
        call(state="absent")
    assert caught.value.code == "device_mounted"


def test_where_the_kernel_joins_no_paths_the_first_is_used(host):
    host.joins = False
    made = call(target(4421))
    assert made["layers"][0]["path"] == "/dev/nvme0n4" and "nvme_core.multipath" in made["warnings"][0]


def test_a_broken_connection_is_waited_for_and_made_again(host):
    call(target())
    host.write("/sys/class/nvme/nvme0/state", "connecting")
    # It is used, so it is not taken away: the kernel goes on trying.
    host.uses["/dev/nvme0n4"] = ["mounted on /srv"]
    with refused(host.controllers) as caught:
        call(target())
    assert caught.value.code == "device_mounted" and "does not come back" in str(caught.value)
    host.uses.clear()
    assert [step["op"] for step in call(target())["steps"]] == ["recover"]
    assert host.read_text("/sys/class/nvme/nvme0/state") == "live" and len(host.asked) == 2
    # One that somebody has ended.
    host.disconnect("nvme0")
    assert [step["op"] for step in call(target())["steps"]] == ["connect"]
    assert call(target())["changed"] is False


def test_a_target_that_does_not_answer_is_named_before_anything_is_taken_away(host):
    call(target())
    host.write("/sys/class/nvme/nvme0/state", "connecting")
    host.reaches = False
    with refused(host.controllers) as caught:
        call(target())
    assert caught.value.code == "portal_unreachable"


def test_settings_change_in_place_or_with_a_new_connection(host):
    call(target())
    assert [step["op"] for step in call(target(), replacement_timeout_s=20)["steps"]] == ["set_replacement_timeout"]
    assert host.read_text("/sys/class/nvme/nvme0/fast_io_fail_tmo") == "20"
    more = {"replacement_timeout_s": 20, "queue_depth": 64}
    host.uses["/dev/nvme0n4"] = ["mounted on /srv"]
    assert call(target(), **more)["changed"] is False
    host.uses.clear()
    assert [step["op"] for step in call(target(), **more)["steps"]] == ["reconnect"]
    assert host.asked[-1]["queue_size"] == "64" and call(target(), **more)["changed"] is False


SECRET = {"chap_user": "u", "chap_password": "secret-in-one-1"}


def test_keys_go_to_the_kernel_alone(host):
    made = call(target(**SECRET))
    key = host.asked[0]["dhchap_secret"]
    assert key.startswith("DHHC-1:00:") and "dhchap_ctrl_secret" not in host.asked[0]
    told = json.dumps(made) + host.read_text("/run/storlab/unit/nvme_session.json")
    assert key not in told and "secret-in-one-1" not in told
    # Another secret is another connection, which is not made beneath whoever uses the disk.
    other = target(**{**SECRET, "chap_password": "secret-in-two-2"})
    host.uses["/dev/nvme0n4"] = ["mounted on /srv"]
    with refused(host.controllers) as caught:
        call(other)
    assert caught.value.code == "relogin_pending" and "secret-" not in str(caught.value)
    host.uses.clear()
    assert [step["op"] for step in call(other)["steps"]] == ["reconnect"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.EINVAL, "authentication_missing"), (errno.EKEYREJECTED, "chap_rejected"), (errno.EIO, "login_refused")],
)
def test_a_key_that_is_refused_is_named(host, number, code):
    host.refuses = number
    with broken_off() as caught:
        call(target(**SECRET))
    assert caught.value.code == code and host.controllers() == {}


def test_another_name_of_the_host_makes_the_connections_anew(host):
    call(target())
    steps = call(target(), initiator_name=f"{NAME}2")["steps"]
    assert [step["op"] for step in steps] == ["set_initiator_name", "connect"]
    assert host.asked[-1]["hostnqn"] == f"{HOST}2" and len(host.controllers()) == 1
    assert call(target(), initiator_name=f"{NAME}2")["changed"] is False


def test_a_target_that_is_not_wanted_any_more_is_disconnected(host):
    call(target())
    host.uses["/dev/nvme0n4"] = ["mounted on /srv"]
    with refused(host.controllers) as caught:
        call()
    assert caught.value.code == "device_mounted"
    host.uses.clear()
    assert [step["op"] for step in call()["steps"]] == ["disconnect"] and host.controllers() == {}
