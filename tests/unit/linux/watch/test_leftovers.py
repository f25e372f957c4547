# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a difference is, and what becomes of a proof: on a folder that stands for a host, with others who come and go."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import storage_baseline as action
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import claims, leftovers
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.storage_state import examine
from test_storage_state import gather, host, mounted, process, session, write
from unchanged import unchanged

ENDINGS = (" (was not there before)", " (is gone)", " (is left of the testbed)")


def passers_by(root: Path, number: int) -> None:
    """What other people's work brings to a computer: none of it is on any record."""
    write(root, f"sys/block/loop{number}/size", "4096\n")
    write(root, f"sys/block/loop{number}/loop/backing_file", f"/home/alex/storlab/{number}.img\n")
    write(root, f"sys/block/zram{number}/size", "2048\n")
    write(root, f"sys/block/sd{chr(97 + number)}/size", "2048\n")
    mounted(root, f"/dev/loop{number}", f"/mnt/alex{number}")
    process(root, 5000 + number, "qemu-system-x86", "-name", f"guest{number}")
    process(root, 6000 + number, "tgtd", "-C", str(number))
    write(root, f"run/netns/alex{number}")
    write(root, f"etc/systemd/system/alex{number}.service", "[Unit]\n")


def two_hosts(tmp_path: Path) -> tuple:
    for name in ("before", "after"):
        host(tmp_path / name)
    return tmp_path / "before", tmp_path / "after"


MADE = {
    "areas": ["ramdisk", "lio_target", "tgt_target", "iscsi_session", "datastore", "nfs_export", "raid", "cache_tier"]
}


@pytest.mark.parametrize("goes", [False, True], ids=["come", "go"])
def test_what_passes_by_is_a_note(tmp_path, goes):
    before, after = two_hosts(tmp_path)
    passers_by(before if goes else after, 7)
    for name in ("before", "after"):
        write(tmp_path / name, "proc/modules", "ext4 999 1 - Live 0x0\n")
    seen = examine(str(after), testbed_id="lab", made=MADE)
    verdict = leftovers.judge(gather(str(before), testbed_id="lab"), seen.lines, seen.ours, MADE)
    assert verdict.strays == [] and len(verdict.notes) == 8
    assert all(line.endswith(ENDINGS[goes]) for line in verdict.notes)


# {section: (what was there, how it is called, what the testbed has made on that host)}
TAKEN = {
    "mounts": ("/dev/sdb on /srv/ds1 type xfs", {"mount_points": ["/srv/ds1"]}),
    "block_devices": ("ram3 1048576 bytes", {"devices": ["ram3"]}),
    "kernel_modules": ("nbd", {"modules": ["nbd"]}),
    "iscsi_sessions": ("iqn.a at 10.0.0.9:3260, session 4", {"areas": ["iscsi_session"]}),
    "targets": ("LIO target iqn.b", {"areas": ["lio_target"]}),
    "raid": ("superblocks of home:r, UUID 1:2", {"areas": ["raid"]}),
    "cache_stamps": ("stamp of cache other/e4 on sdc", {"areas": ["cache_tier"]}),
    "configuration_files": ("/etc/iscsi/nodes/iqn.a/p sha256 12", {"areas": ["iscsi_session"]}),
    "processes": ("iscsid running", {"areas": ["iscsi_session"]}),
}


@pytest.mark.parametrize("section", TAKEN)
def test_what_the_testbed_may_have_taken_must_be_there(section):
    line, made = TAKEN[section]
    nobody = {other: lines for other, (_line, lines) in TAKEN.items() if other != section and lines != made}
    before = {section: [line], "swaps": ["/dev/sda2"]}
    text = f"{section.replace('_', ' ')}: {line} (is gone)"
    none: dict = {name: [] for name in (*TAKEN, "swaps")}
    assert leftovers.judge(before, {}, none, made) == ([text], ["swaps: /dev/sda2 (is gone)"])
    for other, names in nobody.items():
        assert leftovers.judge(before, {}, none, names).strays == [], other
    # A restart takes all but what is on disks.
    lasting = section in ("raid", "cache_stamps", "configuration_files")
    assert leftovers.judge(before, {}, none, made, restarted=True).strays == ([text] if lasting else [])
    assert leftovers.judge(before, {}, none, made, ignore=["gone"]) == ([], [])


def test_a_file_that_was_changed_is_told_in_both_its_states_and_others_are_notes():
    before = {"configuration_files": ["/etc/iscsi/a sha256 1", "/etc/fstab sha256 1"]}
    after = {"configuration_files": ["/etc/iscsi/a sha256 2", "/etc/fstab sha256 2", "/etc/iscsi/b sha256 3"]}
    verdict = leftovers.judge(before, after, {"configuration_files": []}, {"areas": ["iscsi_session"]})
    assert [line.split()[2] for line in verdict.strays] == ["/etc/iscsi/a"] * 2
    assert [line.split()[2] for line in verdict.notes] == ["/etc/fstab", "/etc/iscsi/b", "/etc/fstab"]


def test_what_is_left_of_the_testbed_is_a_stray_though_it_was_there_before():
    """A build after a failed proof starts from what there is, leftovers included."""
    state = {"mounts": ["a on /b type c", "d on /e type f"]}
    verdict = leftovers.judge(state, state, {"mounts": ["a on /b type c"]}, {})
    assert verdict == (["mounts: a on /b type c (is left of the testbed)"], [])


def test_where_nothing_tells_owners_every_difference_may_be_ours():
    """A section that tells them is judged by them, and what is gone may be taken where there are no records."""
    before = {"disks": ["a"], "virtual machines": ["his"]}
    after = {"disks": ["b"], "virtual machines": ["new", "ours"]}
    verdict = leftovers.judge(before, after, {"virtual machines": ["ours"]})
    assert verdict.strays == [
        "disks: b (was not there before)",
        "disks: a (is gone)",
        "virtual machines: ours (is left of the testbed)",
        "virtual machines: his (is gone)",
    ]
    assert verdict.notes == ["virtual machines: new (was not there before)"]
    assert leftovers.judge(before, after).notes == []


def test_modules_that_somebody_else_uses_stay_for_him(tmp_path):
    """brd is used by a mount; libiscsi is used by iscsi_tcp alone, which nobody uses."""
    host(tmp_path)
    table = "ext4 9 1 - Live 0\nbrd 9 1 - Live 0\niscsi_tcp 9 0 - Live 0\nlibiscsi 9 1 iscsi_tcp, Live 0\nsg 9 1 ext4, Live 0\n"
    write(tmp_path, "proc/modules", table)
    made = {"modules": ["brd", "iscsi_tcp", "libiscsi", "sg"]}
    assert examine(str(tmp_path), testbed_id="lab", made=made).ours["kernel_modules"] == ["iscsi_tcp", "libiscsi"]
    write(tmp_path, "proc/modules", table.replace("iscsi_tcp 9 0", "iscsi_tcp 9 2"))
    assert examine(str(tmp_path), testbed_id="lab", made=made).ours["kernel_modules"] == []


def test_a_server_that_others_export_by_is_theirs(tmp_path):
    host(tmp_path)
    process(tmp_path, 91, "nfsd")
    mounted(tmp_path, "nfsd", "/proc/fs/nfsd")
    made = {"daemons": ["nfsd"], "mount_points": ["/proc/fs/nfsd"]}
    ours = examine(str(tmp_path), testbed_id="lab", made=made).ours
    assert ours["processes"] == ["nfsd running"] and len(ours["mounts"]) == 1
    write(tmp_path, "var/lib/nfs/etab", "/home\t10.0.0.7(rw,sync)\n")
    theirs = examine(str(tmp_path), testbed_id="lab", made=made).ours
    assert theirs["processes"] == theirs["mounts"] == []


def test_an_iscsi_daemon_that_somebody_elses_session_needs_is_his(tmp_path):
    host(tmp_path)
    process(tmp_path, 90, "iscsid")
    made = {"daemons": ["iscsid"]}
    assert examine(str(tmp_path), testbed_id="lab", made=made).ours["processes"] == ["iscsid running"]
    session(tmp_path, 4, "iqn.theirs", "default")
    assert examine(str(tmp_path), testbed_id="lab", made=made).ours["processes"] == []


# ---- two testbeds on one host


class Built:
    """What a testbed does to a host, as far as its state and its records go. Its records are kept by the product's own class."""

    def __init__(self, root: Path, name: str, number: int) -> None:
        self.root, self.name, self.number = root, name, number
        self.made: dict = {}
        self.before: dict = {}

    def record(self, area: str) -> Record:
        return Record(self.name, area, str(self.root / "run/storlab"))

    def capture(self) -> None:
        self.before = gather(str(self.root), testbed_id=self.name)

    def build(self) -> None:
        before = record.loaded_modules()
        disks = self.record("ramdisk")
        path = f"/dev/ram{self.number}"
        disks.data = {"disks": {"d": {"path": path, "whole": path}}}
        disks.save()
        load(self.root, "brd")
        write(self.root, f"sys/block/ram{self.number}/size", "2048\n")
        disks.note_modules(before)
        before = record.loaded_modules()
        target = self.record("lio_target")
        core = f"core/iblock_{self.number}/storlab-{self.name}-d"
        target.data = {"targets": [f"iqn.x:{self.name}"], "core": {core: ["7"]}}
        target.save()
        load(self.root, "target_core_mod")
        write(self.root, f"sys/kernel/config/target/{core}/udev_path", path)
        write(self.root, f"sys/kernel/config/target/iscsi/iqn.x:{self.name}/param")
        target.note_modules(before)
        login = self.record("iscsi_session")
        login.data = {} if (self.root / "proc/700").exists() else {"daemon": "process"}
        login.save()
        process(self.root, 700, "iscsid")
        session(self.root, self.number, f"iqn.x:{self.name}", f"storlab-{self.name}")
        write(self.root, f"etc/iscsi/ifaces/storlab-{self.name}", "iface")
        disk = f"sys/class/iscsi_session/session{self.number}/device/target3:0:0/3:0:0:1/block/sd{self.number}/x"
        write(self.root, disk)
        write(self.root, f"sys/block/sd{self.number}/size", "2048\n")
        store = self.record("datastore")
        store.data = {"datastores": {"d": {"mount_point": f"/srv/{self.name}"}}}
        store.save()
        mounted(self.root, f"/dev/sd{self.number}", f"/srv/{self.name}")
        self.made = claims.made(claims.kept(self.name, str(self.root / "run/storlab")), self.made)

    def teardown(self, misses: str = "") -> None:
        table = self.root / "proc/self/mountinfo"
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join(line for line in lines if f" /srv/{self.name} " not in line))
        self.record("datastore").remove()
        for path in (f"sys/class/iscsi_session/session{self.number}", f"sys/block/sd{self.number}"):
            shutil.rmtree(self.root / path)
        os.unlink(self.root / f"etc/iscsi/ifaces/storlab-{self.name}")
        login = self.record("iscsi_session")
        if login.data.get("daemon") and not list(self.root.glob("sys/class/iscsi_session/session*")):
            shutil.rmtree(self.root / "proc/700")
        login.bequeath(daemon=login.data.get("daemon") if (self.root / "proc/700").exists() else None)
        login.remove()
        paths = {
            "store": f"sys/kernel/config/target/core/iblock_{self.number}",
            "target": f"sys/kernel/config/target/iscsi/iqn.x:{self.name}",
            "disk": f"sys/block/ram{self.number}",
        }
        for what, path in paths.items():
            if what != misses:
                shutil.rmtree(self.root / path)
        for area in ("lio_target", "ramdisk"):
            kept = self.record(area)
            kept.unload_modules()
            kept.remove()

    def verify(self) -> leftovers.Verdict:
        seen = examine(str(self.root), testbed_id=self.name, made=claims.still(self.made))
        return leftovers.judge(self.before, seen.lines, seen.ours, self.made)


def load(root: Path, module: str) -> None:
    path = root / "proc/modules"
    if module not in path.read_text():
        path.write_text(path.read_text() + f"{module} 16384 0 - Live 0x0\n")


USED_BY = {"brd": "sys/block/ram*", "target_core_mod": "sys/kernel/config/target/core/*"}


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Path:
    """A host without any testbed, whose modules are used by what is made with them."""
    host(tmp_path)
    write(tmp_path, "proc/modules", "ext4 999 1 - Live 0x0\n")

    def loaded() -> set:
        return {line.split()[0] for line in (tmp_path / "proc/modules").read_text().splitlines()}

    def unload(names: list) -> None:
        idle = {name for name in names if not list(tmp_path.glob(USED_BY[name]))}
        path = tmp_path / "proc/modules"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if line.split()[0] not in idle))

    monkeypatch.setattr(record, "loaded_modules", loaded)
    monkeypatch.setattr(record, "unload_modules", unload)
    return tmp_path


STEPS = ("capture", "build", "teardown", "verify")
# In which of all steps the first of the two testbeds has its turn.
ORDERS = list(itertools.combinations(range(2 * len(STEPS)), len(STEPS)))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join(map(str, order)))
@pytest.mark.parametrize("misses", ["", "target"], ids=["clean", "left"])
def test_two_testbeds_at_once_are_clean_each_by_itself(shared, order, misses):
    """In every order of their steps, while others come and go; what the one leaves is named by its own proof alone."""
    testbeds = (Built(shared, "lab", 1), Built(shared, "lab-2", 2))
    turns = [list(STEPS), list(STEPS)]
    verdicts: dict = {}
    for number in range(2 * len(STEPS)):
        who = 0 if number in order else 1
        step = turns[who].pop(0)
        if step == "teardown" and who == 0:
            testbeds[0].teardown(misses)
        else:
            verdicts[who] = getattr(testbeds[who], step)()
        # loop3 to loop10 come one after another, and each goes two steps later.
        passers_by(shared, 3 + number)
        if number > 1:
            shutil.rmtree(shared / f"sys/block/loop{1 + number}")
            shutil.rmtree(shared / f"proc/{5001 + number}")
    left = ["targets: LIO target iqn.x:lab (is left of the testbed)"] if misses else []
    assert [verdict.strays for verdict in (verdicts[0], verdicts[1])] == [left, []]
    mine = [line for verdict in verdicts.values() for line in verdict.notes if "lab" in line and "alex" not in line]
    assert mine == [] if not misses else set(mine) <= {f"targets: LIO target iqn.x:lab{end}" for end in ENDINGS}


# ---- the action: a proof, and what becomes of it


class Proof:
    """The action on a host that is a folder; the module runs in this process."""

    def __init__(self, tmp_path: Path) -> None:
        self.root, self.state = tmp_path / "host", tmp_path / "state"
        self.boot = "boot-1"
        host(self.root)

    def play(self, state: str, check: bool = False) -> dict:
        arguments = {"state": state, "testbed_id": "lab", "state_dir": str(self.state)}
        task = actions.make(action, arguments, check=check)
        task._execute_module = self._module
        task._connection.transport = "local"
        return task.run(task_vars={"inventory_hostname": "t1"})

    def _module(self, _name: str, module_args: dict, task_vars: dict) -> dict:
        options = {key: module_args[key] for key in ("testbed_id", "own_names", "made")}
        seen = examine(str(self.root), **json.loads(json.dumps(options)))
        return {"storage_state": seen.lines, "ours": seen.ours, "boot_id": self.boot}

    def made(self, **names: list) -> None:
        write(self.state, "made/t1.json", json.dumps({"areas": [], **names}))

    def kept(self) -> dict:
        return json.loads((self.state / "before/t1.json").read_text())


@pytest.fixture
def proof(tmp_path) -> Proof:
    return Proof(tmp_path)


def test_a_failed_proof_is_healed_by_the_next_build_teardown_and_proof(proof):
    session(proof.root, 3, "iqn.theirs", "default")
    proof.play("captured")
    proof.made(areas=["iscsi_session"], devices=["ram3"])
    write(proof.root, "sys/block/ram3/size", "2048\n")
    shutil.rmtree(proof.root / "sys/class/iscsi_session/session3")
    passers_by(proof.root, 9)
    strays = [
        "block devices: ram3 1048576 bytes (is left of the testbed)",
        "iscsi sessions: iqn.theirs at 10.0.0.9:3261, session 3 (is gone)",
    ]
    for _twice in range(2):
        answer = proof.play("verified")
        assert answer["failure"]["code"] == "not_clean" and answer["failure"]["details"]["strays"] == strays
        assert "loop9" in str(answer["failure"]["details"]["notes"]) and "loop9" not in answer["msg"]
    # The build starts from what there is. What is left of the testbed is none of it.
    proof.play("captured")
    assert "ram3" not in str(proof.kept())
    assert proof.play("verified")["failure"]["details"]["strays"] == strays[:1]
    proof.play("captured")
    shutil.rmtree(proof.root / "sys/block/ram3")
    answer = proof.play("verified")
    assert answer["strays"] == [] and not answer.get("failed") and not (proof.state / "made/t1.json").exists()
    assert proof.kept()["verified"] is True and proof.kept()["failed"] is False


def test_a_state_that_was_not_proven_stays_over_a_second_build(proof):
    proof.play("captured")
    kept = proof.kept()
    passers_by(proof.root, 9)
    with unchanged(proof.state):
        proof.play("captured")
    assert proof.kept() == kept


def test_check_mode_keeps_nothing(proof):
    with unchanged(proof.state):
        proof.play("captured", check=True)
    proof.play("captured")
    proof.made(devices=["ram3"], areas=["ramdisk"])
    with unchanged(proof.state):
        assert proof.play("verified", check=True)["strays"] == []
        write(proof.root, "sys/block/ram3/size", "2048\n")
        assert proof.play("verified", check=True)["failure"]["code"] == "not_clean"


def test_a_restart_takes_what_does_not_outlive_it(proof):
    session(proof.root, 3, "iqn.theirs", "default")
    proof.play("captured")
    proof.made(areas=["iscsi_session"])
    shutil.rmtree(proof.root / "sys/class/iscsi_session/session3")
    os.unlink(proof.root / "etc/iscsi/nodes/iqn.a/portal")
    proof.boot = "boot-2"
    details = proof.play("verified")["failure"]["details"]
    assert len(details["strays"]) == 1 and "/etc/iscsi/nodes/iqn.a/portal" in details["strays"][0]
    assert details["notes"] == ["iscsi sessions: iqn.theirs at 10.0.0.9:3261, session 3 (is gone)"]


def test_without_a_state_from_before_what_carries_the_name_is_listed(proof):
    """The records and the controller's folder are lost: what the testbed left still has its name."""
    passers_by(proof.root, 9)
    with unchanged(proof.root, proof.state):
        answer = proof.play("verified")
    assert answer["failure"]["code"] == "no_baseline" and answer["failure"]["details"]["named"] == []
    assert "Nothing on t1 carries the name of the testbed." in answer["msg"] and "un build first" not in answer["msg"]
    write(proof.root, "sys/kernel/config/target/core/iblock_0/storlab-lab-bench/udev_path", "/dev/ram0")
    write(proof.root, "sys/kernel/config/target/core/iblock_0/storlab-labour-bench/udev_path", "/dev/ram1")
    session(proof.root, 4, "iqn.x", "storlab-lab")
    process(proof.root, 90, "fio", "--output=/run/storlab/lab/out.json")
    write(proof.root, "etc/iscsi/ifaces/storlab-lab", "iface")
    # Another testbed's record names what only begins like ours.
    other = {"core": {"core/iblock_1/storlab-lab-2-bench": []}}
    write(proof.root, "run/storlab/lab-2/lio_target.json", json.dumps(other))
    write(proof.root, "sys/kernel/config/target/core/iblock_1/storlab-lab-2-bench/udev_path", "/dev/ram2")
    with unchanged(proof.root, proof.state):
        answer = proof.play("verified")
    named = answer["failure"]["details"]["named"]
    assert [line.split(" sha256")[0] for line in named] == [
        "configuration files: /etc/iscsi/ifaces/storlab-lab",
        "iscsi sessions: iqn.x at 10.0.0.9:3261, session 4",
        "processes: fio of storlab lab running",
        "targets: LIO backstore storlab-lab-bench",
    ]
    assert all(line in answer["msg"] for line in named)


@pytest.mark.parametrize("name", ["before", "made"])
@pytest.mark.parametrize(
    "content", ["[]", "7", '{"verified": true}', '{"state": [], "verified": true}', '{"areas": [', ""]
)
def test_what_is_kept_in_another_shape_is_named(proof, name, content):
    write(proof.state, f"{name}/t1.json", content)
    for state in ("captured", "verified"):
        with unchanged(proof.state):
            answer = proof.play(state)
        assert answer["failure"]["code"] == "record_damaged" and str(proof.state / f"{name}/t1.json") in answer["msg"]
