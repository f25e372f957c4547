# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two testbeds at once on this computer, with loop devices on tmpfs and a tgtd each, built and taken down in every order: each is clean by itself, while
others come and go (tests/standins/passers_by.py). The actions of the playbooks run with the modules in this process."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import actions
import pytest
import tgt_process
import waiting
from ansible_collections.storlab.testbed.plugins.action import storage_baseline, testbed_claims
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import RUN_DIR
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import claims
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.storage_state import examine
from places import TESTS

MIB = 1 << 20


class Built:
    """A testbed of this test: its name begins like that of the other one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.state = name, folder / name
        self.port, self.control = tgt_process.free_numbers()

    def play(self, module: object, **arguments: object) -> dict:
        task = actions.make(module, {"testbed_id": self.name, "state_dir": str(self.state / "state"), **arguments})
        task._execute_module = self._module
        task._low_level_execute_command = self._command
        task._connection.transport = "local"
        answer = task.run(task_vars={"inventory_hostname": "here"})
        assert not answer.get("failed") or answer["failure"]["code"] == "not_clean", answer
        return answer

    def _module(self, module_name: str, module_args: dict, task_vars: dict) -> dict:
        given = json.loads(json.dumps(module_args))
        if module_name.endswith("storage_state"):
            made = claims.still(given["made"])
            seen = examine(testbed_id=self.name, own_names=given["own_names"], made=made)
            return {"storage_state": seen.lines, "ours": seen.ours, "boot_id": claims.boot_id()}
        return {"changed": False, "claims": claims.kept(self.name)}

    @staticmethod
    def _command(text: str, sudoable: bool) -> dict:
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def claim(self, state: str) -> None:
        self.play(testbed_claims, state=state, results_dir=str(self.state / "results"))

    def build(self) -> None:
        self.claim("restored")
        self.play(storage_baseline, state="captured")
        disks, sizes = ramdisk.RamDisks(self.name), {"bench": 3 * MIB}
        disks.apply(ramdisk.plan(disks.current(), {"provider": "tmpfs", "disks": sizes}), "tmpfs", sizes)
        target = {
            "name": f"iqn.2026-11.test.storlab:{self.name}",
            "portals": [{"address": "127.0.0.1", "port": self.port}],
            "luns": [{"lun": 1, "name": "bench", "device": self.device(), "block_bytes": 512}],
            "initiators": [{"iqn": "iqn.2026-11.test.storlab:i", "luns": None}],
        }
        server = tgt.TgtTarget(self.name, self.control)
        server.apply(tgt.plan(server.current(), [target], set(), self.name, False), [target], {})
        self.claim("kept")

    def device(self) -> str:
        return str(ramdisk.RamDisks(self.name).record.data["disks"]["bench"]["path"])

    def teardown(self) -> None:
        self.claim("restored")
        self.take_down()
        self.claim("forgotten")

    def take_down(self) -> None:
        for thing in (tgt.TgtTarget(self.name, self.control), ramdisk.RamDisks(self.name)):
            if thing.record.data:
                thing.remove_all()

    def proof(self) -> dict:
        answer = self.play(storage_baseline, state="verified")
        return answer["failure"]["details"] if answer.get("failed") else answer


@pytest.fixture
def testbeds(tmp_path):
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    several = [Built(tmp_path, f"two-{os.getpid()}"), Built(tmp_path, f"two-{os.getpid()}-2")]
    yield several
    for testbed in several:
        testbed.take_down()
        assert not os.path.exists(os.path.join(RUN_DIR, testbed.name))


STEPS = ("build", "teardown")
ORDERS = sorted(set(itertools.permutations((0, 0, 1, 1))))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join("ab"[number] for number in order))
def test_each_is_clean_by_itself_whatever_the_other_one_does(testbeds, order):
    turns = [list(STEPS), list(STEPS)]
    for who in order:
        step = turns[who].pop(0)
        getattr(testbeds[who], step)()
        if step == "build":
            assert os.path.exists(f"/sys/block/{os.path.basename(testbeds[who].device())}/loop/backing_file")
            continue
        proof = testbeds[who].proof()
        assert proof["strays"] == []
        assert not any(testbed.name in note for note in proof["notes"] for testbed in testbeds)
        # The other one still serves, if it did.
        other = testbeds[1 - who]
        if len(turns[1 - who]) == 1:
            assert tgt.TgtTarget(other.name, other.control).pid() and os.path.exists(other.device())


def test_what_one_leaves_is_named_and_the_next_build_heals_it(testbeds, tmp_path):
    """A disk whose record is lost when all that named it is gone from the host, and a loop device of somebody else that goes meanwhile."""
    mine, other = testbeds
    theirs = tmp_path / "theirs.img"
    theirs.write_bytes(bytes(MIB))
    loop = subprocess.run(
        ["losetup", "--find", "--show", str(theirs)], check=True, capture_output=True, text=True
    ).stdout.strip()
    mine.build()
    other.build()
    subprocess.run(["losetup", "--detach", loop], check=True)
    tgt.TgtTarget(mine.name, mine.control).remove_all()
    device, folder = mine.device(), Path(RUN_DIR, mine.name)
    (folder / "ramdisk.json").rename(tmp_path / "ramdisk.json")
    mine.claim("forgotten")
    for _twice in range(2):
        proof = mine.proof()
        left = [line for line in proof["strays"] if line.startswith("block devices:")]
        assert len(left) == 1 and os.path.basename(device) in left[0] and left[0].endswith("(is left of the testbed)")
        assert all(mine.name in line and other.name not in line for line in proof["strays"])
        assert any(str(theirs) in line and line.endswith("(is gone)") for line in proof["notes"])
    other.teardown()
    assert other.proof()["strays"] == []
    shutil.copy(tmp_path / "ramdisk.json", folder)
    mine.build()
    mine.teardown()
    proof = mine.proof()
    assert proof["strays"] == [] and not any(str(theirs) in line for line in proof["notes"])


def test_others_pass_by_and_leave_nothing():
    """The process itself: it makes each kind, and ends with all of it gone."""
    with subprocess.Popen(
        [sys.executable, TESTS / "standins" / "passers_by.py"], stdout=subprocess.PIPE, text=True
    ) as process:
        mark = f"passers-by-{process.pid}-"

        def there() -> str:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8")
            loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
            return "\n".join([mounts, *loops, *(os.listdir("/run/netns") if os.path.isdir("/run/netns") else [])])

        waiting.until(lambda: there().count(mark) >= 6)
        process.terminate()
        made = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0 and set(made) == {"loop devices", "mounts", "namespaces", "machines"}
    assert all(made.values())
    waiting.until(lambda: mark not in there())
