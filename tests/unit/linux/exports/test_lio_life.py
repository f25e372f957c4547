# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of the kernel from the build to the teardown, in a configfs made of files: a folder that is made has its attributes, and one that is not empty stays.

The real one is in molecule/iscsi.
"""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import INITIATOR_KEYS
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target, lio, provider_lio
from rooted import Rooted

CONFIG = "/sys/kernel/config/target"
IQN, CLIENT, OTHER = "iqn.2026-11.test:t", "iqn.2026-11.test:c", "iqn.2026-11.test:d"
TPG = f"{CONFIG}/iscsi/{IQN}/tpgt_1"


def layer(name: str, path: str, size: int) -> dict:
    return {
        "name": f"backing-{name}",
        "kind": "backing",
        "host": "h",
        "path": path,
        "parent": None,
        "purpose": "data",
        "size_bytes": size,
        "identity": {"size_bytes": size, **({"whole_device": "/dev/ram2"} if name == "b" else {})},
        "detail": {"generation": f"g-{name}"},
    }


LAYERS = {"backing-a": layer("a", "/dev/ram1", 3 << 20), "backing-b": layer("b", "/dev/ram2p1", 5 << 20)}


class Kernel(Rooted):
    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, lio, record)
        self.made, self.mounted, self.reasons, self.refuses = set(), False, [], {}
        self.available |= {"configfs", *lio.LioTarget.MODULES}
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        monkeypatch.setattr(lio, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab"))
        monkeypatch.setattr(lio.mounts, "read", lambda: [{"mount_point": lio.mounts.CONFIGFS}] if self.mounted else [])
        monkeypatch.setattr(iscsi_target.device_safety, "inspect", lambda path: {"path": path})
        monkeypatch.setattr(iscsi_target.device_safety, "refusals", lambda *_facts, **_more: self.reasons)
        monkeypatch.setattr(block_device, "size_bytes", lambda path: {"/dev/ram1": 3 << 20}.get(path))

    def command(self, argv: list):
        if argv == ["modprobe", "configfs"]:
            self.folder(lio.mounts.CONFIGFS)
        elif argv == ["modprobe", "target_core_mod"]:
            self.folder(f"{CONFIG}/core")
        elif argv[0] in ("mount", "umount"):
            self.mounted = argv[0] == "mount"
        else:
            assert argv[0] == "modprobe", argv

    def unload_modules(self, names: list) -> None:
        super().unload_modules(names)
        if "target_core_mod" not in self.modules:
            self.remove(CONFIG)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        name = path[len(CONFIG) + 1 :]
        if name in self.refuses:
            raise OSError(self.refuses[name], os.strerror(self.refuses[name]))
        super().mkdir(path, mode)
        self.made.add(path)
        parts = name.split("/")
        if name == "iscsi":
            self.folder(f"{path}/discovery_auth")
        elif parts[0] == "core" and len(parts) == 3:
            for attribute in ("info", "udev_path", "enable", "control", "wwn/vpd_unit_serial"):
                self.write(f"{path}/{attribute}")
            self.write(f"{path}/attrib/block_size", "512")
        elif parts[0] == "iscsi" and len(parts) == 3:
            for attribute in ("enable", *(f"attrib/{key}" for key in ("authentication", *lio.TPG_ATTRIBUTES))):
                self.write(f"{path}/{attribute}", "0")
            self.write(f"{path}/attrib/default_cmdsn_depth", "64")
            for folder in ("np", "lun", "acls"):
                self.folder(f"{path}/{folder}")
        elif parts[-2:-1] == ["acls"]:
            for key in lio.AUTH:
                self.write(f"{path}/auth/{key}", "NULL")
            self.write(f"{path}/info", "No active iSCSI Session")

    def rmdir(self, path: str) -> None:
        if path in self.made:
            below = [name for name in self.made if name.startswith(f"{path}/")]
            links = [name for name in os.listdir(self.real(path)) if os.path.islink(self.real(f"{path}/{name}"))]
            if below or links:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
            self.made.discard(path)
            shutil.rmtree(self.real(path))
        else:
            super().rmdir(path)

    def wrote(self, path: str, text: str) -> None:
        name = path[len(CONFIG) + 1 :]
        if name in self.refuses:
            raise OSError(self.refuses[name], os.strerror(self.refuses[name]))
        folder = path.rpartition("/")[0]
        if path.endswith("/control"):
            self.write(f"{folder}/info", f"Status: DEACTIVATED UDEV PATH: {text.partition('=')[2]} readonly: 0")
        elif name.startswith("core/") and path.endswith("/enable"):
            info = self.read_text(f"{folder}/info")
            self.write(f"{folder}/info", info.replace("DEACTIVATED", "ACTIVATED"))
        elif path.endswith("/vpd_unit_serial"):
            text = f"T10 VPD Unit Serial Number: {text}"
        super().wrote(path, text)


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    return Kernel(monkeypatch, tmp_path)


def lun(number: int, name: str, **more) -> dict:
    empty = dict.fromkeys(("device", *iscsi_target.device_safety.PROOFS, "purpose"))
    return {**empty, "lun": number, "name": name, "layer": f"backing-{name}", **more}


def target(**more) -> dict:
    initiator = {"iqn": CLIENT, "address": None, "luns": [4]}
    chap = {
        "chap_user": "me",
        "chap_password": "secret-in-one-1",
        "mutual_chap_user": None,
        "mutual_chap_password": None,
    }
    empty = dict.fromkeys(INITIATOR_KEYS)
    return {
        "name": IQN,
        "portals": [{"address": "10.0.0.1", "port": 3260}],
        "luns": [lun(4, "a"), lun(6, "b")],
        "initiators": [{**empty, **initiator, **chap}, {**empty, **initiator, **chap, "iqn": OTHER, "luns": None}],
        **more,
    }


def call(*targets, state="present", check_mode=False, **more) -> dict:
    given = {"testbed_id": "unit", "state": state, "layers": LAYERS, "uses": {}, "targets": list(targets)}
    given.update(allow_no_chap=False, allow_any_address=False)
    return converge(provider_lio.Area, {**given, **more}, check_mode)


def refusal(*targets, **more) -> Failure:
    with pytest.raises(Failure) as caught:
        call(*targets, **more)
    return caught.value


def log_in(kernel, initiator: str, address: str) -> None:
    kernel.write(f"{TPG}/acls/{initiator}/info", f"InitiatorName: {initiator}\n Address {address} TCP\n")


def test_a_target_comes_and_goes_with_the_kernels_modules(kernel):
    foreseen = call(target(), check_mode=True)
    assert foreseen["changed"] and not kernel.made and kernel.modules == {"ext4"}
    made = call(target())
    assert [step["path"] for step in made["steps"]] == [step["path"] for step in foreseen["steps"]]
    stores = sorted(os.listdir(kernel.real(f"{CONFIG}/core/iblock_0")))
    assert stores == ["storlab-unit-a", "storlab-unit-b"]
    assert "Status: ACTIVATED UDEV PATH: /dev/ram2p1" in kernel.read_text(f"{CONFIG}/core/iblock_0/storlab-unit-b/info")
    assert kernel.read_text(f"{TPG}/acls/{CLIENT}/auth/password") == "secret-in-one-1"
    assert kernel.read_text(f"{TPG}/acls/{CLIENT}/auth/password_mutual") == "NULL"
    mapped = {
        name: sorted(part for part in os.listdir(kernel.real(f"{TPG}/acls/{name}")) if part[:4] == "lun_")
        for name in (CLIENT, OTHER)
    }
    assert mapped == {CLIENT: ["lun_4"], OTHER: ["lun_4", "lun_6"]}
    assert kernel.read_text(f"{TPG}/enable") == "1" and kernel.has(f"{TPG}/np/10.0.0.1:3260")
    assert "secret-in-one-1" not in json.dumps(made)
    layers = {entry["name"]: entry for entry in made["layers"]}
    # Of what the kernel shows no size, the layer's own.
    assert {name: entry["size_bytes"] for name, entry in layers.items()} == {"target-a": 3 << 20, "target-b": 5 << 20}
    assert layers["target-a"]["detail"]["lio"] == {"block_size": "512", "default_cmdsn_depth": "64"}
    assert layers["target-b"]["detail"]["generation"] == "g-b"
    again = call(target())
    assert (again["changed"], again["layers"]) == (False, made["layers"])
    assert call(state="absent", check_mode=True)["changed"] and kernel.has(TPG)
    call(state="absent")
    assert (kernel.modules, kernel.made, kernel.mounted) == ({"ext4"}, set(), False)
    assert not kernel.has("/run/storlab") and call(state="absent")["changed"] is False


def test_what_others_have_in_the_kernel_stays(kernel):
    kernel.command(["modprobe", "configfs"])
    kernel.mounted = True
    for module in ("configfs", "target_core_mod"):
        kernel.load_module(module, intend=lambda names: None)
    for path in (
        f"{CONFIG}/core/iblock_0",
        f"{CONFIG}/core/iblock_0/theirs",
        f"{CONFIG}/iscsi",
        f"{CONFIG}/iscsi/iqn.2026-11.test:x",
    ):
        kernel.mkdir(path)
    theirs = set(kernel.made)
    call(target())
    assert kernel.has(f"{CONFIG}/core/iblock_1/storlab-unit-a")
    call(state="absent")
    assert (kernel.made, kernel.mounted) == (theirs, True) and {"configfs", "target_core_mod"} <= kernel.modules


def test_names_that_others_have_are_refused(kernel):
    call(target())
    kernel.remove("/run/storlab")
    failure = refusal(target())
    assert (failure.code, failure.details["target"]) == ("foreign_target", IQN)
    failure = refusal(target(name=f"{IQN}2"))
    assert (failure.code, failure.details["backstore"]) == ("foreign_backstore", "storlab-unit-a")


def test_a_lun_in_use_is_not_taken_away(kernel):
    call(target())
    log_in(kernel, OTHER, "10.0.0.9")
    less = target(luns=[lun(4, "a")])
    less["initiators"][1]["luns"] = [4]
    failure = refusal(less)
    assert (failure.code, failure.details["initiators"]) == ("target_in_use", [OTHER])
    assert "iscsi_target_targets iqn.2026-11.test:t luns" in str(failure) and "10.0.0.9" in str(failure)
    assert refusal(state="absent").code == "target_in_use" and kernel.has(f"{TPG}/lun/lun_6")
    # Its own host says that nothing uses it there.
    assert call(less, uses={f"{IQN} {OTHER} 6": []})["changed"]
    assert not kernel.has(f"{TPG}/lun/lun_6") and kernel.has(f"{TPG}/lun/lun_4")
    failure = refusal(state="absent", uses={f"{IQN} {OTHER} 4": ["mounted on /srv"]})
    assert "it is mounted on /srv there" in str(failure)
    log_in(kernel, OTHER, "10.0.0.9")
    kernel.write(f"{TPG}/acls/{OTHER}/info", "No active iSCSI Session")
    assert call(state="absent")["changed"] and not kernel.made


def initiator_layer(number: int, host: str = "client07", **more) -> dict:
    """As the role of the initiator publishes it, and forgets it in a teardown."""
    identity = {"target_iqn": IQN.upper(), "lun": number}
    shape = {"kind": "initiator", "host": host, "path": "/dev/sdq", "detail": {"initiator_iqn": OTHER}}
    return {"name": f"initiator-{number}", **shape, "identity": identity, **more}


def test_what_a_host_had_that_was_not_taken_down_stays(kernel):
    """It was cut off for longer than its session lives, so nobody is logged in."""
    call(target())
    before = set(kernel.made)
    layers = {**LAYERS, "initiator-6": initiator_layer(6)}
    failure = refusal(state="absent", layers=layers)
    assert (failure.code, failure.details["hosts"]) == ("target_in_use", ["client07"])
    assert "LUN 6" in str(failure) and 'iscsi_target_gone_hosts: ["client07"]' in str(failure)
    key = failure.details["withdrawn"][0]["key"]
    failure = refusal(state="absent", layers=layers, uses={key: ["mounted on /srv"]})
    assert "mounted on /srv there" in str(failure) and kernel.made == before
    assert call(state="absent", layers=layers, check_mode=True)["changed"]
    # The layers of others, and of LUNs that this target does not have.
    foreign = initiator_layer(6, identity={"target_iqn": "iqn.2026-11.test:x", "lun": 6})
    guest = initiator_layer(4, kind="guest")
    harmless = {**LAYERS, "a": foreign, "b": initiator_layer(5), "c": guest}
    assert call(state="absent", layers=harmless)["changed"] and not kernel.made
    # A target that has gone with a restart takes nothing away.
    assert call(state="absent", layers=layers)["changed"] is False


def test_what_its_own_host_says_is_free_goes(kernel):
    call(target())
    layers = {**LAYERS, "initiator-6": initiator_layer(6)}
    assert call(state="absent", layers=layers, uses={f"{IQN} {OTHER} 6": []})["changed"] and not kernel.made


@pytest.mark.parametrize(
    "change",
    [
        {"chap_password": "secret-in-two-2"},
        {"chap_user": "me-too"},
        {"mutual_chap_user": "you", "mutual_chap_password": "secret-out-33"},
    ],
    ids=["secret", "name", "mutual"],
)
def test_chap_changes_only_when_its_initiator_says_that_nothing_uses_the_luns(kernel, change):
    call(target())
    log_in(kernel, CLIENT, "10.0.0.8")
    log_in(kernel, OTHER, "10.0.0.9")
    wanted = target()
    wanted["initiators"][1].update(change)
    before = {key: kernel.read_text(f"{TPG}/acls/{OTHER}/auth/{key}") for key in lio.AUTH}
    for uses in ({}, {f"{IQN} {OTHER} 4": [], f"{IQN} {OTHER} 6": ["mounted on /srv"]}):
        failure = refusal(wanted, uses=uses)
        assert (failure.code, failure.details["initiators"]) == ("target_in_use", [OTHER])
        assert f"initiator {OTHER} chap_user, chap_password" in str(failure) and "secret-" not in str(failure)
        assert "10.0.0.9" in str(failure) and "10.0.0.8" not in str(failure)
        # Check mode says the same, and nothing is changed.
        assert refusal(wanted, uses=uses, check_mode=True).code == "target_in_use"
        assert {key: kernel.read_text(f"{TPG}/acls/{OTHER}/auth/{key}") for key in lio.AUTH} == before
    assert call(target())["changed"] is False
    assert call(wanted, uses={f"{IQN} {OTHER} {number}": [] for number in (4, 6)})["changed"]
    assert {key: kernel.read_text(f"{TPG}/acls/{OTHER}/auth/{key}") for key in lio.AUTH} != before
    # Who is not logged in is cut off from nothing.
    kernel.write(f"{TPG}/acls/{OTHER}/info", "No active iSCSI Session")
    assert call(target())["changed"]


def test_what_somebody_wrote_over_the_secrets_is_repaired_beneath_sessions(kernel):
    """They logged in with what the testbed had set."""
    call(target())
    log_in(kernel, CLIENT, "10.0.0.8")
    kernel.write(f"{TPG}/acls/{CLIENT}/auth/password", "changed-by-hand")
    kernel.write(f"{TPG}/attrib/authentication", "0")
    assert call(target())["changed"]
    assert kernel.read_text(f"{TPG}/acls/{CLIENT}/auth/password") == "secret-in-one-1"
    assert "secret-in-one-1" not in kernel.read_text("/run/storlab/unit/lio_target.json")
    # Of another secret nobody knows whether the session has it.
    wanted = target()
    wanted["initiators"][0].update(chap_password="secret-in-two-2")
    assert refusal(wanted).code == "target_in_use"


def test_chap_is_not_switched_off_beneath_sessions(kernel):
    call(target())
    log_in(kernel, CLIENT, "10.0.0.8")
    without = target()
    for initiator in without["initiators"]:
        initiator.update(chap_user=None, chap_password=None)
    failure = refusal(without, allow_no_chap=True)
    assert failure.code == "target_in_use" and kernel.read_text(f"{TPG}/attrib/authentication") == "1"
    assert call(without, allow_no_chap=True, uses={f"{IQN} {CLIENT} 4": []})["changed"]
    assert kernel.read_text(f"{TPG}/attrib/authentication") == "0"


@pytest.mark.parametrize(
    ("what", "variable"),
    [
        (lambda wanted: wanted["initiators"].pop(), "initiators, or end"),
        (lambda wanted: wanted["initiators"][1].update(luns=[4]), f"initiator {OTHER} luns"),
        (lambda wanted: wanted["portals"][0].update(port=3261), "iscsi_target_targets iqn.2026-11.test:t, or end"),
        (lambda wanted: wanted.update(name=f"{IQN}2"), "iscsi_target_targets, or end"),
    ],
)
def test_the_variable_that_takes_a_lun_away_is_named(kernel, what, variable):
    call(target())
    log_in(kernel, OTHER, "10.0.0.9")
    wanted = target()
    what(wanted)
    failure = refusal(wanted)
    assert failure.code == "target_in_use" and variable in str(failure)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"iscsi/{IQN}/tpgt_1/np/10.0.0.1:3260", "portal_unavailable"),
        ("core/iblock_0/storlab-unit-b/enable", "backstore_refused"),
        (f"iscsi/{IQN}/tpgt_1/acls/{OTHER}", "configfs_refused"),
    ],
)
def test_what_the_kernel_refuses_is_explained_and_goes(kernel, path, code):
    kernel.refuses = {path: errno.EINVAL}
    failure = refusal(target())
    assert failure.code == code and "Invalid argument" in str(failure)
    kernel.refuses = {}
    call(state="absent")
    assert not kernel.made and kernel.modules == {"ext4"} and not kernel.has("/run/storlab")


def test_the_guard_is_asked_before_anything_is_made(kernel):
    kernel.reasons = [Failure("device_mounted", "It is mounted.", "Look.")]
    assert (refusal(target()).code, kernel.made, kernel.done) == ("device_mounted", set(), [])
    # What the testbed itself has made carries its signature, and may be a partition of its own.
    kernel.reasons = [Failure("signature_present", "It is so.", "Look.")]
    assert call(target())["changed"]
    call(state="absent")
    kernel.reasons = [Failure("device_partitioned", "It is so.", "Look.")]
    assert refusal(target()).code == "device_partitioned"
    assert call(target(luns=[lun(6, "b")], initiators=target()["initiators"][1:]))["changed"]


def test_a_device_by_name_needs_a_proof(kernel):
    named = lun(4, "a", layer=None, device="/dev/sdz", purpose="data")
    assert "/dev/sdz" in str(refusal(target(luns=[named, lun(6, "b")]))) and not kernel.made
    assert refusal(target(luns=[lun(4, "a", device="/dev/sdz"), lun(6, "b")])).code == "bad_value"
    assert refusal(target(luns=[lun(4, "a", layer="backing-z"), lun(6, "b")])).code == "layer_missing"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"portals": []}, "at least one of portals"),
        ({"portals": [{"address": "10.0.0.1", "port": 3260}] * 2}, "isted twice"),
        ({"luns": [lun(4, "a"), lun(4, "b")]}, "isted twice"),
        ({"luns": [lun(4, "a"), lun(6, "a")]}, "another name"),
        ({"luns": [lun(6, "b")]}, "Name LUNs of this target"),
    ],
)
def test_descriptions_that_contradict_themselves(kernel, change, says):
    failure = refusal(target(**change))
    assert (failure.code, kernel.made) == ("bad_value", set()) and says in str(failure)


def test_initiators_are_told_apart_by_their_names(kernel):
    wanted = target()
    wanted["initiators"][0].update(iqn=None, address="10.0.0.9")
    failure = refusal(wanted)
    assert failure.code == "bad_value" and "Give its iqn" in str(failure)
    wanted = target()
    wanted["initiators"][0].update(chap_user=None, chap_password=None)
    failure = refusal(wanted, allow_no_chap=True)
    assert failure.code == "bad_value" and "to all initiators of a target, or to none" in str(failure)
