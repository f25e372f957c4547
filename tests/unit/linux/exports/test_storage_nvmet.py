# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe targets of the kernel: the plan, and the way from the build to the teardown in a configfs made of files. The real one is in molecule/nvme."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import INITIATOR_KEYS
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target, nvmet, provider_nvmet
from rooted import Rooted
from unchanged import broken_off, refused

CONFIG = "/sys/kernel/config/nvmet"
IQN, CLIENT, OTHER = "iqn.2026-11.test:t", "iqn.2026-11.test:c", "iqn.2026-11.test:d"
SUBSYSTEM = f"{CONFIG}/subsystems/nqn.2026-11.test:t"
HEAD = "  sl  local_address rem_address   st\n"
# 10.0.0.1:4420 and 10.0.0.9:50000 as /proc/net/tcp of a little-endian machine has them; 01 is established, 0A listens.
CONNECTED = f"{HEAD}   0: 0100000A:1144 00000000:0000 0A\n   1: 0100000A:1144 0900000A:C350 01\n"
LAYERS = {
    f"backing-{name}": {
        "name": f"backing-{name}",
        "kind": "backing",
        "host": "h",
        "path": path,
        "parent": None,
        "purpose": "data",
        "size_bytes": 3 << 20,
        "identity": {"size_bytes": 3 << 20},
        "detail": {"generation": f"g-{name}"},
    }
    for name, path in (("a", "/dev/ram1"), ("b", "/dev/ram2"))
}


class Kernel(Rooted):
    """without_keys: a kernel whose NVMe target has no authentication. busy: addresses that somebody else listens on."""

    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, nvmet, record)
        self.made, self.mounted, self.reasons, self.without_keys, self.busy = set(), False, [], False, set()
        self.available |= {"configfs", *nvmet.MODULES}
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        monkeypatch.setattr(nvmet, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab"))
        monkeypatch.setattr(
            nvmet.mounts, "read", lambda: [{"mount_point": nvmet.mounts.CONFIGFS}] if self.mounted else []
        )
        monkeypatch.setattr(provider_nvmet, "wait_for", lambda condition, *_patience, **_more: condition())
        monkeypatch.setattr(iscsi_target.device_safety, "inspect", lambda path: {"path": path})
        monkeypatch.setattr(iscsi_target.device_safety, "refusals", lambda *_facts, **_more: self.reasons)
        monkeypatch.setattr(block_device, "size_bytes", lambda path: 3 << 20)

    def command(self, argv: list):
        if argv == ["modprobe", "configfs"]:
            self.folder(nvmet.mounts.CONFIGFS)
        elif argv == ["modprobe", "nvmet"]:
            for name in ("hosts", "ports", "subsystems"):
                self.folder(f"{CONFIG}/{name}")
        elif argv[0] in ("mount", "umount"):
            self.mounted = argv[0] == "mount"
        else:
            assert argv[0] == "modprobe", argv

    def unload_modules(self, names: list) -> None:
        super().unload_modules(names)
        if "nvmet" not in self.modules:
            self.remove(CONFIG)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        super().mkdir(path, mode)
        self.made.add(path)
        kind = path.split("/")[-2]
        attributes = {
            "hosts": {} if self.without_keys else {"dhchap_key": "", "dhchap_ctrl_key": ""},
            "subsystems": {"attr_allow_any_host": "0", "attr_serial": "0123"},
            "namespaces": {"device_path": "(null)", "device_uuid": "random", "enable": "0"},
            "ports": {"addr_trtype": "", "addr_adrfam": "pcie", "addr_traddr": "", "addr_trsvcid": ""},
        }
        for name, text in attributes[kind].items():
            self.write(f"{path}/{name}", text)
        for name in {"subsystems": ("namespaces", "allowed_hosts"), "ports": ("subsystems",)}.get(kind, ()):
            self.folder(f"{path}/{name}")

    def rmdir(self, path: str) -> None:
        if path not in self.made:
            super().rmdir(path)
            return
        links = [
            os.path.join(folder, name)
            for folder, names, files in os.walk(self.real(CONFIG))
            for name in names + files
            if os.path.islink(os.path.join(folder, name))
        ]
        held = [
            link for link in links if os.readlink(link) == self.real(path) or link.startswith(self.real(path) + "/")
        ]
        if held or [name for name in self.made if name.startswith(f"{path}/")]:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self.made.discard(path)
        shutil.rmtree(self.real(path))

    def _symlink(self, source: str, path: str) -> None:
        if "/ports/" in path and self.read_text(f"{path.rpartition('/subsystems/')[0]}/addr_traddr") in self.busy:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        super()._symlink(source, path)

    def wrote(self, path: str, text: str) -> None:
        if not self.has(path):
            raise FileNotFoundError(errno.ENOENT, "no such attribute", path)
        super().wrote(path, text)

    def configuration(self) -> set:
        return {
            os.path.relpath(os.path.join(folder, name), self.real(CONFIG))
            for folder, names, files in os.walk(self.real(CONFIG))
            for name in names + files
            if os.path.islink(os.path.join(folder, name)) or self.shown(os.path.join(folder, name)) in self.made
        }


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    return Kernel(monkeypatch, tmp_path)


def lun(number: int, name: str) -> dict:
    empty = dict.fromkeys(("device", *iscsi_target.device_safety.PROOFS, "purpose"))
    return {**empty, "lun": number, "name": name, "layer": f"backing-{name}"}


def initiator(iqn: str, **chap) -> dict:
    none = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))
    return {**dict.fromkeys(INITIATOR_KEYS), "luns": None, "iqn": iqn, **none, **chap}


def target(**more) -> dict:
    return {
        "name": IQN,
        "portals": [{"address": "10.0.0.1", "port": 4420}],
        "luns": [lun(1, "a"), lun(2, "b")],
        "initiators": [initiator(CLIENT), initiator(OTHER)],
        **more,
    }


SECRET = {"chap_user": "u", "chap_password": "secret-in-one-1"}


def call(*targets, state="present", check_mode=False, **more) -> dict:
    given = {"testbed_id": "unit", "state": state, "layers": LAYERS, "uses": {}, "targets": list(targets)}
    given.update(allow_no_chap=True, allow_any_address=False)
    return converge(provider_nvmet.Area, {**given, **more}, check_mode)


def test_subsystems_come_and_go_with_the_kernels_modules(kernel):
    foreseen = call(target(), check_mode=True)
    assert foreseen["changed"] and not kernel.made and kernel.modules == {"ext4"}
    made = call(target())
    assert [step["path"] for step in made["steps"]] == [step["path"] for step in foreseen["steps"]]
    assert kernel.configuration() == {
        "hosts/nqn.2026-11.test:c",
        "hosts/nqn.2026-11.test:d",
        "subsystems/nqn.2026-11.test:t",
        "subsystems/nqn.2026-11.test:t/namespaces/1",
        "subsystems/nqn.2026-11.test:t/namespaces/2",
        "subsystems/nqn.2026-11.test:t/allowed_hosts/nqn.2026-11.test:c",
        "subsystems/nqn.2026-11.test:t/allowed_hosts/nqn.2026-11.test:d",
        "ports/1",
        "ports/1/subsystems/nqn.2026-11.test:t",
    }
    assert [kernel.read_text(f"{CONFIG}/ports/1/{name}") for name in nvmet.PORT_ATTRIBUTES] == [
        "tcp",
        "ipv4",
        "10.0.0.1",
        "4420",
    ]
    assert kernel.read_text(f"{SUBSYSTEM}/attr_allow_any_host") == "0"
    # No one can connect before all is described.
    assert made["steps"][-1]["path"] == "ports/1/subsystems/nqn.2026-11.test:t"
    layers = {entry["name"]: entry for entry in made["layers"]}
    shown = kernel.read_text(f"{SUBSYSTEM}/namespaces/1/device_uuid")
    assert layers["target-a"]["identity"] == {"target_iqn": IQN, "lun": 1, "wwid": f"uuid.{shown}"}
    assert layers["target-a"]["detail"]["provider"] == "nvmet" and layers["target-b"]["size_bytes"] == 3 << 20
    again = call(target())
    assert (again["changed"], again["layers"]) == (False, made["layers"])
    assert call(state="absent", check_mode=True)["changed"] and kernel.has(SUBSYSTEM)
    call(state="absent")
    assert (kernel.modules, kernel.made, kernel.mounted) == ({"ext4"}, set(), False)
    assert not kernel.has("/run/storlab") and call(state="absent")["changed"] is False


def test_what_others_have_in_the_kernel_stays(kernel):
    kernel.mounted = True
    for module in ("configfs", *nvmet.MODULES):
        kernel.load_module(module, intend=lambda names: None)
    for path in (f"{CONFIG}/ports/1", f"{CONFIG}/hosts/nqn.x", f"{CONFIG}/subsystems/nqn.y"):
        kernel.mkdir(path)
    theirs = set(kernel.made)
    call(target())
    assert kernel.has(f"{CONFIG}/ports/2/subsystems/nqn.2026-11.test:t")
    call(state="absent")
    assert (kernel.made, kernel.mounted) == (theirs, True) and set(nvmet.MODULES) <= kernel.modules


@pytest.mark.parametrize("name", ["subsystems/nqn.2026-11.test:t", "hosts/nqn.2026-11.test:d"])
def test_names_that_others_have_are_refused(kernel, name):
    kernel.mounted = True
    for module in ("configfs", *nvmet.MODULES):
        kernel.load_module(module, intend=lambda names: None)
    kernel.mkdir(f"{CONFIG}/{name}")
    with refused(kernel.configuration) as caught:
        call(target())
    assert (caught.value.code, caught.value.details["target"]) == ("foreign_target", name.partition("/")[2])


def test_drift_and_a_killed_build_are_repaired(kernel):
    call(target())
    before = kernel.configuration()
    # Somebody lets everybody in, shuts one host out, and takes the port away; a build was killed when it had made a namespace.
    kernel.write(f"{SUBSYSTEM}/attr_allow_any_host", "1")
    os.unlink(kernel.real(f"{SUBSYSTEM}/allowed_hosts/nqn.2026-11.test:c"))
    os.unlink(kernel.real(f"{CONFIG}/ports/1/subsystems/nqn.2026-11.test:t"))
    kernel.rmdir(f"{CONFIG}/ports/1")
    for name, text in {"device_path": "(null)", "device_uuid": "random", "enable": "0"}.items():
        kernel.write(f"{SUBSYSTEM}/namespaces/2/{name}", text)
    steps = call(target())["steps"]
    assert kernel.configuration() == before and call(target())["changed"] is False
    assert kernel.read_text(f"{SUBSYSTEM}/attr_allow_any_host") == "0"
    assert kernel.read_text(f"{SUBSYSTEM}/namespaces/2/device_path") == "/dev/ram2"
    assert not [step for step in steps if "namespaces/1" in step["path"]]


def test_a_namespace_of_new_contents_is_made_anew_under_another_uuid(kernel):
    call(target())
    before = kernel.read_text(f"{SUBSYSTEM}/namespaces/1/device_uuid")
    other = {**LAYERS["backing-a"], "detail": {"generation": "g-2"}}
    steps = call(target(), layers={**LAYERS, "backing-a": other})["steps"]
    assert {step["path"].split("/")[3] for step in steps} == {"1"}
    assert kernel.read_text(f"{SUBSYSTEM}/namespaces/1/device_uuid") != before


def initiator_layer(number: int, iqn: str = OTHER) -> dict:
    return {
        "name": f"initiator-{number}",
        "kind": "initiator",
        "host": "client07",
        "path": "/dev/nvme0n1",
        "purpose": "data",
        "identity": {"target_iqn": IQN, "lun": number},
        "detail": {"initiator_iqn": iqn},
    }


def test_a_namespace_in_use_is_not_taken_away(kernel):
    call(target())
    kernel.write("/proc/net/tcp", CONNECTED)
    less, layers = target(luns=[lun(1, "a")]), {**LAYERS, "initiator-2": initiator_layer(2)}
    with refused(kernel.configuration) as caught:
        call(less, layers=layers)
    assert (caught.value.code, caught.value.details["initiators"]) == ("target_in_use", [OTHER])
    assert "/dev/nvme0n1" in str(caught.value) and caught.value.details["withdrawn"][0]["address"] == "10.0.0.9"
    with refused(kernel.configuration) as caught:
        call(state="absent", layers=layers)
    # Nobody published the other one: it may be any of them.
    assert caught.value.details["initiators"] == [CLIENT, OTHER]
    # Its own host says that nothing uses it there.
    assert call(less, layers=layers, uses={f"{IQN} {OTHER} 2": []})["changed"]
    assert not kernel.has(f"{SUBSYSTEM}/namespaces/2") and kernel.has(f"{SUBSYSTEM}/namespaces/1")
    # A connection to another port, and one that only listens, is none to this testbed.
    kernel.write("/proc/net/tcp", CONNECTED.replace("1144 09", "1145 09"))
    assert call(state="absent")["changed"] and not kernel.made


def test_what_a_host_had_that_was_not_taken_down_stays(kernel):
    call(target())
    with refused(kernel.configuration) as caught:
        call(state="absent", layers={**LAYERS, "initiator-2": initiator_layer(2)})
    assert caught.value.code == "target_in_use" and 'iscsi_target_gone_hosts: ["client07"]' in str(caught.value)


def test_keys_are_made_of_the_secrets_and_shown_to_nobody(kernel):
    wanted = target(initiators=[initiator(CLIENT, **SECRET)])
    made = call(wanted, allow_no_chap=False)
    key = kernel.read_text(f"{CONFIG}/hosts/nqn.2026-11.test:c/dhchap_key")
    assert key.startswith("DHHC-1:00:")
    told = json.dumps(made) + kernel.read_text("/run/storlab/unit/nvme_target.json")
    assert key not in told and "secret-in-one-1" not in told and "(secret)" in told
    # Another secret cuts off who is connected; without one the host is made anew, because a key cannot be taken back.
    kernel.write("/proc/net/tcp", CONNECTED)
    with refused(kernel.configuration) as caught:
        call(target(initiators=[initiator(CLIENT, **{**SECRET, "chap_password": "secret-in-two-2"})]))
    assert caught.value.code == "target_in_use" and "chap_password" in str(caught.value)
    kernel.remove("/proc/net/tcp")
    call(target(initiators=[initiator(CLIENT)]))
    assert kernel.read_text(f"{CONFIG}/hosts/nqn.2026-11.test:c/dhchap_key") == ""


def test_a_kernel_without_authentication_says_so(kernel):
    kernel.without_keys = True
    with broken_off() as caught:
        call(target(initiators=[initiator(CLIENT, **SECRET)]))
    assert caught.value.code == "authentication_missing" and "testbed.chap: none" in str(caught.value)
    assert not kernel.has(f"{CONFIG}/ports/1")
    # By their names alone they are let in, and all of both goes.
    assert call(target(initiators=[initiator(CLIENT)]))["changed"] and kernel.has(f"{CONFIG}/ports/1")
    call(state="absent")
    assert not kernel.made and not kernel.has("/run/storlab")


def test_a_port_that_somebody_else_has_is_named(kernel):
    kernel.busy.add("10.0.0.1")
    with broken_off() as caught:
        call(target())
    assert caught.value.code == "portal_unavailable" and "10.0.0.1:4420" in str(caught.value)
    call(state="absent")
    assert not kernel.made


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"luns": [lun(0, "a"), lun(2, "b")]}, "lun a"),
        ({"initiators": [{**initiator(CLIENT), "luns": [1]}]}, "whole subsystems"),
        ({"name": "eui.0123456789abcdef"}, "begins with iqn."),
    ],
    ids=["namespace 0", "some LUNs", "another kind of name"],
)
def test_what_nvme_cannot_do_is_refused(kernel, change, word):
    with refused(kernel.configuration) as caught:
        call(target(**change))
    assert caught.value.code == "bad_value" and word in str(caught.value)


def test_one_host_has_one_secret(kernel):
    second = target(name=f"{IQN}2", luns=[lun(3, "b")], initiators=[initiator(CLIENT, **SECRET)])
    first = target(luns=[lun(1, "a")], initiators=[initiator(CLIENT, **{**SECRET, "chap_password": "secret-in-two-2"})])
    with refused(kernel.configuration) as caught:
        call(first, second)
    assert caught.value.code == "bad_value" and "secret-" not in str(caught.value)


def test_connections_over_ipv6_are_seen():
    table = f"{HEAD} 0: 00000000000000000000000001000000:1144 000000000000000000000000FF000000:C350 01\n"
    portals = [{"address": "::1", "port": 4420}]
    assert nvmet.connected(portals, [table]) == {"[::1]:4420": {"::ff"}}
    assert nvmet.connected(portals, [table.replace(" 01\n", " 06\n")]) == {"[::1]:4420": set()}
