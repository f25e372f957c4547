# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets by tgt from the build to the teardown, against a tgtd that is told by tgtadm's commands and shows itself in tgtadm's words.

The real one is in molecule/iscsi and tests/integration.
"""

from __future__ import annotations

import contextlib
import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import INITIATOR_KEYS
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target, provider_tgt, tgt
from rooted import Rooted

IQN, CLIENT, PORTAL = "iqn.2026-11.test:t", "iqn.2026-11.test:c", "10.0.0.1:3260"
LAYERS = {
    "backing-a": {
        "name": "backing-a",
        "kind": "backing",
        "host": "h",
        "path": "/dev/ram1",
        "parent": None,
        "purpose": "data",
        "size_bytes": 3 << 20,
        "identity": {"size_bytes": 3 << 20},
    }
}
SHOW = """Target {tid}: {name}
    System information:
        Driver: iscsi
    I_T nexus information:
{sessions}    LUN information:
        LUN: 0
            Type: controller
{luns}    Account information:
{accounts}    ACL information:
{acl}"""
LUN = """        LUN: {lun}
            SCSI ID: {scsi_id}
            SCSI SN: {scsi_sn}
            Size: 3 MB, Block size: {blocksize}
            Backing store path: {path}
            Backing store flags: {flags}
"""


class Tgtd(Rooted):
    """fails: {a part of a command: its exit code}; stubborn: it does not end, whatever it is told."""

    def __init__(self, monkeypatch, root) -> None:
        super().__init__(monkeypatch, root, tgt, record, provider_tgt)
        self.process, self.foreign, self.stubborn, self.bound = None, False, False, True
        self.fails, self.portals, self.accounts, self.targets, self.ended = {}, [], [], {}, []
        self.write("/proc/sys/kernel/random/boot_id", "boot-1")
        monkeypatch.setattr(tgt, "Record", lambda testbed, area: record.Record(testbed, area, f"{root}/run/storlab"))
        monkeypatch.setattr(tgt, "secret_in_request", self._secret)
        monkeypatch.setattr(tgt.TgtTarget, "answers", lambda _self: bool(self.process or self.foreign))
        monkeypatch.setattr(tgt.daemon, "running_pid", lambda *_options: self.process)
        monkeypatch.setattr(tgt.daemon, "wait_until_gone", lambda find, _timeout: not find())
        monkeypatch.setattr(tgt.daemon, "end_process", self._end)
        monkeypatch.setattr(iscsi_target.device_safety, "inspect", lambda path: {"path": path})
        monkeypatch.setattr(iscsi_target.device_safety, "refusals", lambda *_facts, **_more: [])
        monkeypatch.setattr(block_device, "size_bytes", lambda path: 3 << 20)
        monkeypatch.setattr(block_device, "logical_block_bytes", lambda path: 4096)

    @contextlib.contextmanager
    def _secret(self, _socket, _folder, secret):
        yield {"secret": secret}, "x" * len(secret)

    def _end(self, _find, patience) -> bool:
        self.ended.append(sorted(patience))
        if not self.stubborn:
            self.process = None
        return not self.stubborn

    def command(self, argv: list):
        line = " ".join(argv)
        code = next((code for part, code in self.fails.items() if part in line), 0)
        if code:
            return code, ""
        if argv[0] == "tgtd":
            self.process, self.portals = 4711, [argv[-1].partition("=")[2]] if self.bound else []
            self.modules |= {"ib_core"}
            self.write("/var/run/tgtd/socket.3260")
            return None
        assert argv[:5] == ["tgtadm", "-C", "3260", "--lld", "iscsi"], line
        words = [word for word in argv[5:] if word not in ("--outgoing", "--force")]
        given = dict(zip(words[::2], words[1::2]))
        mode, operation = given["--mode"], given["--op"]
        return getattr(self, f"_{mode}")(operation, given, "--outgoing" in argv)

    def _of(self, given: dict) -> dict:
        return next(target for target in self.targets.values() if str(target["tid"]) == given["--tid"])

    def _system(self, _operation, _given, _outgoing) -> None:
        if not self.stubborn:
            self.process = None

    def _portal(self, operation, given, _outgoing):
        if operation == "show":
            return "".join(f"Portal: {portal},1\n" for portal in self.portals)
        portal = given["--param"].partition("=")[2]
        return self.portals.append(portal) if operation == "new" else self.portals.remove(portal)

    def _account(self, operation, given, outgoing):
        if operation == "show":
            return "Account list:\n" + "".join(f"    {user}\n" for user in self.accounts)
        user = given["--user"]
        if operation == "new":
            assert set(given["--password"]) == {"x"}
            return self.accounts.append(user)
        if operation == "delete":
            for target in self.targets.values():
                target["accounts"] = [bound for bound in target["accounts"] if bound[0] != user]
            return self.accounts.remove(user)
        bound = self._of(given)["accounts"]
        return bound.append((user, outgoing)) if operation == "bind" else bound.remove((user, outgoing))

    def _target(self, operation, given, _outgoing):
        if operation == "show":
            return "".join(map(self._shown, self.targets.values()))
        if operation == "new":
            made = {
                "tid": int(given["--tid"]),
                "name": given["-T"],
                "luns": {},
                "accounts": [],
                "acl": [],
                "sessions": {},
            }
            self.targets[given["-T"]] = made
        elif operation == "delete":
            del self.targets[self._of(given)["name"]]
        else:
            name = given.get("--initiator-name") or given["--initiator-address"]
            acl = self._of(given)["acl"]
            (acl.append if operation == "bind" else acl.remove)(name)
        return None

    def _logicalunit(self, operation, given, _outgoing):
        luns, number = self._of(given)["luns"], given["--lun"]
        if operation == "new":
            luns[number] = {
                "lun": number,
                "path": given["-b"],
                "blocksize": given["--blocksize"],
                # What tgtd calls a LUN that nobody has named.
                "scsi_id": "IET     00010001",
                "scsi_sn": "beaf11",
                "flags": given.get("--bsoflags", ""),
            }
        elif operation == "delete":
            del luns[number]
        else:
            luns[number].update(pair.split("=") for pair in given["--params"].split(","))

    @staticmethod
    def _shown(target: dict) -> str:
        nexus = "        I_T nexus: 1\n            Initiator: {} alias: none\n            Connection: 0\n                IP Address: {}\n"
        return SHOW.format(
            **{key: target[key] for key in ("tid", "name")},
            sessions="".join(nexus.format(*session) for session in target["sessions"].items()),
            luns="".join(LUN.format(**lun) for lun in target["luns"].values()),
            accounts="".join(f"        {user}{' (outgoing)' if out else ''}\n" for user, out in target["accounts"]),
            acl="".join(f"        {entry}\n" for entry in target["acl"]),
        )


@pytest.fixture
def tgtd(monkeypatch, tmp_path):
    return Tgtd(monkeypatch, tmp_path)


def target(**more) -> dict:
    chap = {
        "chap_user": "me",
        "chap_password": "secret-in-one-1",
        "mutual_chap_user": "you",
        "mutual_chap_password": "secret-out-one2",
    }
    empty = dict.fromkeys((*INITIATOR_KEYS, "luns"))
    proofs = dict.fromkeys(("device", *iscsi_target.device_safety.PROOFS, "purpose"))
    return {
        "name": IQN,
        "portals": [{"address": "10.0.0.1", "port": 3260}],
        "luns": [{**proofs, "lun": 4, "name": "a", "layer": "backing-a"}],
        "initiators": [{**empty, **chap, "iqn": CLIENT}],
        **more,
    }


def call(*targets, state="present", check_mode=False, **more) -> dict:
    given = {"testbed_id": "unit", "state": state, "layers": LAYERS, "uses": {}, "targets": list(targets)}
    given.update(allow_no_chap=False, allow_any_address=False, control_port=3260, page_cache=False)
    return converge(provider_tgt.Area, {**given, **more}, check_mode)


def refusal(*targets, **more) -> Failure:
    with pytest.raises(Failure) as caught:
        call(*targets, **more)
    return caught.value


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


def test_a_target_comes_and_goes_with_its_tgtd(tgtd):
    foreseen = call(target(), check_mode=True)
    assert ops(foreseen)[0] == "start" and tgtd.done == [] and not tgtd.has("/run/storlab")
    made = call(target())
    assert ops(made) == ops(foreseen)
    assert tgtd.targets[IQN]["accounts"] == [("me", False), ("you", True)] and tgtd.targets[IQN]["acl"] == [CLIENT]
    [lun] = tgtd.targets[IQN]["luns"].values()
    # What bypasses the page cache goes in blocks of the device.
    assert (lun["path"], lun["flags"], lun["blocksize"]) == ("/dev/ram1", "direct", "4096")
    kept = json.loads(tgtd.read_text("/run/storlab/unit/tgt_target.json"))
    assert kept["modules"] == ["ib_core"] and set(kept["accounts"]) == {"me", "you"}
    assert "secret-in-one-1" not in json.dumps([kept, made, tgtd.done])
    assert made["layers"][0]["detail"]["page_cache"] == "bypassed"
    again = call(target())
    assert (again["changed"], again["layers"]) == (False, made["layers"])
    cached = call(target(), page_cache=True)
    assert (
        ops(cached) == ["remove_lun", "add_lun", "identify_lun"]
        and cached["layers"][0]["detail"]["page_cache"] == "used"
    )
    assert call(state="absent", check_mode=True)["steps"][0]["op"] == "stop" and tgtd.process
    call(state="absent")
    assert (tgtd.process, tgtd.targets, tgtd.modules, tgtd.ended) == (None, {}, {"ext4"}, [])
    assert not tgtd.has("/run/storlab") and not tgtd.has("/var/run/tgtd")
    assert call(state="absent")["changed"] is False


def test_secrets_portals_and_initiators_change_while_it_runs(tgtd):
    call(target())
    wanted = target(portals=[{"address": "10.0.0.1", "port": 3260}, {"address": "10.0.0.2", "port": 3261}])
    wanted["initiators"][0].update(iqn=f"{CLIENT}2", chap_password="secret-in-two-2")
    result = call(wanted)
    assert tgtd.portals == [PORTAL, "10.0.0.2:3261"] and tgtd.targets[IQN]["acl"] == [f"{CLIENT}2"]
    assert {"remove_account", "add_account", "bind_account"} <= set(ops(result))
    assert sorted(tgtd.targets[IQN]["accounts"]) == [("me", False), ("you", True)]
    assert call(wanted)["changed"] is False
    # What somebody let in by his address goes, too.
    tgtd.targets[IQN]["acl"].append("10.0.0.99")
    assert (
        ops(call(wanted)) == ["refuse_initiator"] and "--initiator-address 10.0.0.99" in tgtd.done[-1] + tgtd.done[-2]
    )
    assert ops(call(target())).count("remove_portal") == 1 and tgtd.portals == [PORTAL]


def test_a_tgtd_of_somebody_else_is_left_alone(tgtd):
    tgtd.foreign = True
    failure = refusal(target())
    assert (failure.code, failure.details["control_port"], tgtd.done) == ("foreign_tgtd", 3260, [])


@pytest.mark.parametrize("made_before", [False, True])
def test_a_portal_that_cannot_be_had(tgtd, made_before):
    if made_before:
        tgtd.write("/var/run/tgtd/socket.9", "theirs")
    tgtd.bound = False
    failure = refusal(target())
    assert (failure.code, failure.details["portal"], tgtd.process) == ("portal_unavailable", PORTAL, None)
    assert tgtd.has("/var/run/tgtd") is made_before
    tgtd.bound = True
    call(target())
    tgtd.fails = {"--param portal=10.0.0.2:3261": 22}
    failure = refusal(target(portals=[{"address": "10.0.0.1", "port": 3260}, {"address": "10.0.0.2", "port": 3261}]))
    assert (failure.code, failure.details["portal"]) == ("portal_unavailable", "10.0.0.2:3261")
    call(state="absent")
    assert tgtd.has("/var/run/tgtd") is made_before


def test_what_tgtd_refuses_is_told(tgtd):
    tgtd.fails = {"--mode logicalunit": 5}
    failure = refusal(target())
    assert (failure.code, failure.details) == ("tgt_refused", {"operation": "add_lun", "target": IQN})
    tgtd.fails = {}
    call(state="absent")
    assert tgtd.process is None and not tgtd.has("/run/storlab")


def test_a_tgtd_that_does_not_end_by_itself_is_ended(tgtd):
    call(target())
    tgtd.fails = {"--mode system": 0}
    tgtd._system = lambda *_rest: None
    call(state="absent")
    assert len(tgtd.ended) == 1 and tgtd.process is None


def test_a_tgtd_that_does_not_end_at_all_is_told(tgtd):
    call(target())
    tgtd.stubborn = True
    failure = refusal(state="absent")
    assert (failure.code, failure.details["pid"]) == ("tgtd_stays", 4711)
    # Its record stays, so that the next teardown knows it.
    assert tgtd.has("/run/storlab/unit/tgt_target.json")


def test_a_lun_in_use_is_not_taken_away(tgtd):
    call(target())
    tgtd.targets[IQN]["sessions"] = {CLIENT: "10.0.0.9"}
    for attempt in ({"state": "absent"}, {"page_cache": True}):
        failure = refusal(*([] if "state" in attempt else [target()]), **attempt)
        assert (failure.code, failure.details["initiators"]) == ("target_in_use", [CLIENT])
    assert tgtd.targets[IQN]["luns"]["4"]["flags"] == "direct"
    assert call(state="absent", uses={f"{IQN} {CLIENT} 4": []})["changed"] and tgtd.process is None


def test_what_a_host_had_that_was_not_taken_down_stays(tgtd):
    call(target())
    layer = {"name": "initiator-a", "kind": "initiator", "host": "esxi07", "path": None, "identity": {}, "detail": {}}
    ours = {**LAYERS, "initiator-a": {**layer, "identity": {"target_iqn": IQN, "lun": 4}}}
    failure = refusal(state="absent", layers=ours)
    assert (failure.code, failure.details["hosts"], failure.details["initiators"]) == ("target_in_use", ["esxi07"], [])
    assert tgtd.process is not None and "4" in tgtd.targets[IQN]["luns"]
    other = {**LAYERS, "initiator-a": {**layer, "identity": {"target_iqn": IQN, "lun": 9}}}
    assert call(state="absent", layers=other)["changed"] and tgtd.process is None


@pytest.mark.parametrize(
    "change",
    [
        {"chap_password": "secret-in-two-2"},
        {"chap_user": "me-too"},
        {"mutual_chap_password": "secret-out-33"},
        {"mutual_chap_user": None, "mutual_chap_password": None},
    ],
    ids=["secret", "name", "mutual secret", "no mutual"],
)
def test_chap_changes_only_when_its_initiator_says_that_nothing_uses_the_luns(tgtd, change):
    call(target())
    tgtd.targets[IQN]["sessions"] = {CLIENT: "10.0.0.9"}
    wanted = target()
    wanted["initiators"][0].update(change)
    before = (sorted(tgtd.targets[IQN]["accounts"]), tgtd.read_text("/run/storlab/unit/tgt_target.json"))
    for uses in ({}, {f"{IQN} {CLIENT} 4": ["swap"]}):
        failure = refusal(wanted, uses=uses)
        assert (failure.code, failure.details["initiators"]) == ("target_in_use", [CLIENT])
        assert f"initiator {CLIENT} chap_user, chap_password" in str(failure) and "secret-" not in str(failure)
        assert refusal(wanted, uses=uses, check_mode=True).code == "target_in_use"
        assert (sorted(tgtd.targets[IQN]["accounts"]), tgtd.read_text("/run/storlab/unit/tgt_target.json")) == before
    assert call(wanted, uses={f"{IQN} {CLIENT} 4": []})["changed"]
    assert call(wanted)["changed"] is False
    tgtd.targets[IQN]["sessions"] = {}
    assert call(target())["changed"]


def test_accounts_come_back_beneath_sessions_that_logged_in_with_them(tgtd):
    """Neither an account that somebody removed nor a record that was lost changes what the sessions logged in with."""
    call(target())
    tgtd.targets[IQN]["sessions"] = {CLIENT: "10.0.0.9"}
    tgtd.accounts.remove("me")
    tgtd.targets[IQN]["accounts"].remove(("me", False))
    assert {"add_account", "bind_account"} <= set(ops(call(target())))
    kept = json.loads(tgtd.read_text("/run/storlab/unit/tgt_target.json"))
    tgtd.write("/run/storlab/unit/tgt_target.json", json.dumps({**kept, "accounts": {}}))
    assert ops(call(target())).count("add_account") == 2 and call(target())["changed"] is False


def test_a_device_by_name_needs_a_proof(tgtd):
    lun = {**target()["luns"][0], "layer": None, "device": "/dev/sdz", "purpose": "data"}
    assert "/dev/sdz" in str(refusal(target(luns=[lun]))) and tgtd.process is None
