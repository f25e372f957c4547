# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose records are gone, with real loop devices on tmpfs and a real tgtd: nothing is found without them, and all of it with the controller's copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import actions
import pytest
import show_testbed
import tgt_process
import yaml
from ansible_collections.storlab.testbed.plugins.action import testbed_claims as action
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon, mounts, record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import claims
from loop_device import attach_again
from places import ROOT
from unchanged import differences, refused

MIB = 1 << 20
TESTBED, IQN, INITIATOR = "lost-records", "iqn.2026-11.test.storlab:lost-records:t1", "iqn.2026-11.test.storlab:i1"
SECRET = "secret-of-this-test-1"


class Lab:
    """A RAM disk that a tgtd serves; the records in a folder of the test."""

    def __init__(self, folder: Path):
        self.run_dir, self.folder = folder / "run", folder
        self.port, self.control = tgt_process.free_numbers()

    def loops(self) -> dict:
        """{file: [loop device]} of the files of this test, as the kernel shows them: others have loop devices, too."""
        result: dict = {}
        for path in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
            try:
                file = path.read_text(encoding="utf-8").rstrip("\n")
            except OSError:  # somebody has just detached it
                continue
            if file.startswith(f"{self.folder}/"):
                result.setdefault(file, []).append(path.parent.parent.name)
        return result

    def seen(self) -> dict:
        """What is there of its targets and disks, asked of the kernel only."""
        # tgtd is several processes of one command line.
        commands = [daemon.read_cmdline(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
        daemons = {" ".join(command) for command in commands if command[:1] == ["tgtd"]}
        mounted = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
        return {
            "loops": self.loops(),
            "tgtd": sorted(command for command in daemons if str(self.run_dir) in command),
            "tmpfs": sorted(line for line in mounted if f"storlab-{TESTBED} " in line),
            "sockets": [path.name for path in tgt_process.control_files(self.control) if path.exists()],
        }

    def disks(self) -> ramdisk.RamDisks:
        return ramdisk.RamDisks(TESTBED)

    def target(self) -> tgt.TgtTarget:
        return tgt.TgtTarget(TESTBED, self.control)

    def build(self) -> str:
        sizes = {"bench": 3 * MIB, "ds1": 5 * MIB}
        self.disks().apply(ramdisk.plan(self.disks().current(), {"provider": "tmpfs", "disks": sizes}), "tmpfs", sizes)
        device = self.disks().record.data["disks"]["bench"]["path"]
        target = {
            "name": IQN,
            "portals": [{"address": "127.0.0.1", "port": self.port}],
            "luns": [{"lun": 1, "name": "bench", "device": device, "block_bytes": 512}],
            "initiators": [{"iqn": INITIATOR, "luns": None, "chap_user": "u1", "chap_password": SECRET}],
        }
        server = self.target()
        server.apply(tgt.plan(server.current(), [target], set(), TESTBED, False), [target], {"u1": SECRET})
        return str(device)

    def take_down(self) -> None:
        """As the roles do: the targets first."""
        if self.target().record.data:
            self.target().remove_all()
        if self.disks().record.data:
            self.disks().remove_all()

    def play(self, state: str) -> dict:
        places = {"state_dir": str(self.folder / "state"), "results_dir": str(self.folder / "results")}
        task = actions.make(action, {"state": state, "testbed_id": TESTBED, **places})
        task._low_level_execute_command = self._command
        task._execute_module = self._module
        return task.run(task_vars={"inventory_hostname": "t1"})

    def _module(self, module_name: str, module_args: dict, task_vars: dict) -> dict:
        given = json.loads(json.dumps(module_args))
        if "claims" not in given:
            return {"changed": False, "claims": claims.kept(TESTBED, str(self.run_dir))}
        answer = claims.restore(TESTBED, given["claims"], run_dir=str(self.run_dir))
        return {**answer, "changed": bool(answer["restored"]), "claims": claims.kept(TESTBED, str(self.run_dir))}

    def _command(self, text: str, sudoable: bool) -> dict:
        text = text.replace(record.RUN_DIR, str(self.run_dir))
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout.replace(str(self.run_dir), record.RUN_DIR)}

    def written(self) -> str:
        return "".join(
            path.read_text(encoding="utf-8")
            for name in ("state", "results")
            for path in (self.folder / name).rglob("*.json*")
        )


@pytest.fixture
def testbed(monkeypatch):
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    # The path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="lost-"))
    testbed = Lab(folder)
    before = testbed.seen()
    for module in (ramdisk, tgt):
        monkeypatch.setattr(module, "Record", lambda name, area: record.Record(name, area, str(testbed.run_dir)))
    yield testbed
    testbed.play("restored")
    testbed.take_down()
    assert differences(before, testbed.seen()) == []
    shutil.rmtree(folder)


def lose(testbed: Lab, how: str) -> None:
    folder = testbed.run_dir / TESTBED
    if how == "damaged":
        for path in folder.glob("*.json"):
            path.write_bytes(path.read_bytes()[:-7])
    elif how == "records":
        for path in folder.glob("*.json"):
            path.unlink()
    else:
        # The folder is a mount point in part, which stays; the files of the disks go.
        shutil.rmtree(folder, ignore_errors=True)
        assert not list(folder.rglob("*.img"))


@pytest.mark.parametrize("how", ["damaged", "records", "everything"])
def test_what_a_host_has_lost_is_taken_down_from_the_controllers_copy(testbed, how):
    before = testbed.seen()
    device = testbed.build()
    built = testbed.seen()
    assert len(built["loops"]) == len(before["loops"]) + 2 and len(built["tgtd"]) == len(before["tgtd"]) + 1
    assert testbed.play("kept") == {"changed": False}
    lose(testbed, how)
    if how != "damaged":
        # Without the copy a teardown finds nothing to remove, which is why there is one.
        there = testbed.seen()
        testbed.take_down()
        assert differences(there, testbed.seen()) == []
    answer = testbed.play("restored")
    assert answer["restored"] == ["ramdisk", "tgt_target"] and len(answer["warnings"]) == 1
    # The disk is served still, so it is not the one that goes first.
    with refused(testbed.seen) as caught:
        testbed.disks().remove_all()
    assert caught.value.code == "device_in_use" and device in str(caught.value)
    testbed.take_down()
    assert differences(before, testbed.seen()) == [] and not testbed.run_dir.exists()
    # And it is claimed no more.
    testbed.play("kept")
    assert testbed.play("restored")["restored"] == []
    assert SECRET not in testbed.written() and "salt" not in testbed.written()


def test_a_disk_of_somebody_else_that_has_the_number_of_ours_stays(testbed):
    device = testbed.build()
    testbed.play("kept")
    testbed.take_down()
    file = testbed.folder / "theirs.img"
    file.write_bytes(bytes(3 * MIB))
    attach_again(device, file)
    try:
        there = testbed.seen()
        answer = testbed.play("restored")
        assert "bench" in " ".join(answer["warnings"]) and "ds1" in " ".join(answer["warnings"])
        testbed.take_down()
        assert differences(there, testbed.seen()) == [] and testbed.loops()[str(file)] == [os.path.basename(device)]
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        assert mounts.mounted_at(mounts.read(), str(testbed.run_dir / TESTBED / "ramdisk")) is None


@pytest.fixture
def claimed():
    """A record that nothing stands behind, of a testbed of this test alone."""
    kept = record.Record(f"claims-{os.getpid()}", "raid")
    kept.data = {"arrays": {"r": {"uuid": "u-1"}}}
    kept.save()
    yield kept
    kept.remove()


def test_the_playbooks_part_keeps_restores_and_forgets(claimed, tmp_path):
    """As teardown asks for it: after all of it nothing is claimed any more, after a part of it the rest is."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    lab = {
        "testbed_id": os.path.basename(claimed.folder),
        "testbed": {"disks": [{"name": "one", "size": "1MiB"}]},
        "testbed_state_dir": str(tmp_path / "state"),
        "testbed_results_dir": str(tmp_path / "results"),
    }
    hosts = {"targets": {"hosts": {"t1": {"testbed_address": "127.0.0.1"}}}, "clients": {"hosts": {"c1": None}}}
    inventory = tmp_path / "lab.yml"
    inventory.write_text(yaml.safe_dump({"all": {"vars": {**local, **lab}, "children": hosts}}), encoding="utf-8")
    teardown = yaml.safe_load((ROOT / "playbooks" / "teardown.yml").read_text(encoding="utf-8"))
    asked = [
        entry["vars"]["claims_state"]
        for entry in teardown
        if entry.get("ansible.builtin.import_playbook") == "claims.yml"
    ]
    assert asked[0] == "restored" and len(asked) == 2
    book = tmp_path / "book.yml"

    def play(state: str, *options: str) -> str:
        parts = [{"import_playbook": str(ROOT / "playbooks" / f"{name}.yml")} for name in ("check", "claims")]
        book.write_text(yaml.safe_dump([parts[0], {**parts[1], "vars": {"claims_state": state}}]), encoding="utf-8")
        returned, document, errors = show_testbed.run(inventory, *options, playbook=str(book))
        assert returned == 0, (document, errors)
        return json.dumps(document)

    copies = [tmp_path / "state" / "claims" / f"{host}.json" for host in ("c1", "t1")]
    play("kept")
    assert all(path.is_file() for path in copies)
    os.unlink(claimed.path)
    # Both hosts are this machine, so the first one that comes finds that it is lost.
    assert '"restored": ["raid"]' in play("restored") and os.path.exists(claimed.path)
    play(asked[1], "--tags", "target")
    assert all(path.is_file() for path in copies)
    play(asked[1])
    assert not any(path.exists() for path in copies)


def test_a_number_with_a_socket_that_a_killed_tgtd_left_is_not_taken(monkeypatch, tmp_path):
    """The product removes the socket of its own number: one that was there before would count as a change."""
    drawn = iter((41641, 41641, 40873))
    monkeypatch.setattr(tgt_process, "SOCKETS", tmp_path)
    monkeypatch.setattr(tgt_process, "_free_port", lambda: next(drawn))
    (tmp_path / "socket.8873.lock").touch()
    assert tgt_process.free_numbers() == (40873, 8105)
