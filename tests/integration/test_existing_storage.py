# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage of others on this computer's kernel: a folder with files and a loop device are made readable, read by a real fio, and are as they were."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import run_plan
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_engine
from ansible_collections.storlab.testbed.plugins.module_utils.linux import landlock
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import attached
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety, reading_guard
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from loop_device import attached as loop_on
from loop_device import layer as loop_layer
from plays import shipped
from unchanged import refused
from waiting import until

SIZE = 4 << 20
TESTBED = "existing-test"


def entry(**given):
    plain = {key: option.get("default") for key, option in attached.SPEC["entries"]["options"].items()}
    return {**plain, "layer_kind": "datastore", **given}


def ensure(*entries, state="present", layers=()):
    return converge(
        attached.Area,
        {"testbed_id": TESTBED, "state": state, "entries": list(entries), "layers": list(layers), "below": []},
        False,
    )


@pytest.fixture
def share(tmp_path):
    """A folder with other people's files."""
    folder = tmp_path / "share"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "vm.img").write_bytes(os.urandom(SIZE))
    (folder / "letter.txt").write_text("theirs", encoding="utf-8")
    yield folder
    ensure(state="absent")


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    folder = tmp_path / "state"
    yield str(folder)
    for testbed in os.listdir(folder) if folder.exists() else ():
        runner.stop(testbed, remove=True, base=str(folder), discard=True)


def digests(*paths):
    return lambda: [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths]


def plan_of(layer, **workload):
    wanted = normalise({"ramp_s": 0, "loops": 1, "block_size": "64k", "read_percent": 100, **workload})
    return run_plan.plan([layer], [run_plan.point(layer["name"], wanted)], testbed_id=TESTBED)


def measured(plan, base):
    runner.start(plan, base)
    until(lambda: not runner.status(TESTBED, "one", base)["alive"])
    folder = Path(runner.state_dir(TESTBED, "one", base), "points", plan["points"][0]["point_id"])
    return json.loads((folder / "meta.json").read_text(encoding="utf-8")), json.loads((folder / "fio.json").read_text())


def test_a_folder_is_read_through_a_mount_that_the_kernel_holds_read_only(share, base):
    before = sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share)))["layers"]
    layer["host"] = "here"
    assert layer["detail"]["file"] == "deep/vm.img" and layer["size_bytes"] == SIZE
    with pytest.raises(OSError) as caught, open(layer["path"], "r+b"):
        pass
    assert caught.value.errno == errno.EROFS
    meta, output = measured(plan_of(layer), base)
    assert (meta["exit_code"], meta["failures"]) == (0, [])
    assert meta["preparation"] == {
        "access": "read",
        "zero_percent": 0,
        "wall": "read_only_mount",
        "storage_cache": "unknown",
        "page_cache": "not_used",
    }
    assert "cache_unknown" in meta["flags"] and "not_filled" not in meta["flags"]
    assert output["jobs"][0]["read"]["io_bytes"] == SIZE and output["jobs"][0]["write"]["io_bytes"] == 0
    assert not Path(runner.state_dir(TESTBED, "one", base), "preparation").exists()
    gone = ensure(state="absent")
    assert gone["changed"] and not os.path.exists(layer["path"]) and not os.path.exists(f"{attached.PLACE}/{TESTBED}")
    assert (sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()) == before


def test_a_file_of_our_own_is_written_and_nothing_else_of_the_folder(share, base):
    before = sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share), access="write", benchmark_file_mib=3))["layers"]
    layer["host"] = "here"
    own = share / f"storlab.{TESTBED}+nas" / "storlab-benchmark.dat"
    first = digests(own)()
    meta, output = measured(plan_of(layer, read_percent=0), base)
    assert (meta["exit_code"], meta["failures"]) == (0, [])
    assert meta["preparation"]["filled"] and meta["preparation"]["storage_cache"] == "unknown"
    assert "cache_unknown" in meta["flags"] and "not_filled" not in meta["flags"]
    assert output["jobs"][0]["write"]["io_bytes"] == 3 << 20 == own.stat().st_size
    assert digests(own)() != first
    assert digests(share / "deep" / "vm.img", share / "letter.txt")() == before[1]
    gone = ensure(state="absent")
    assert gone["changed"] and gone["kept"] == []
    assert (sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()) == before


@pytest.mark.parametrize("trick", ["twin", "link"])
def test_nothing_is_written_through_a_link(share, base, trick):
    """Somebody puts a file of theirs in the place of ours after the build."""
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share), access="write", benchmark_file_mib=3))["layers"]
    layer["host"] = "here"
    own = share / f"storlab.{TESTBED}+nas" / "storlab-benchmark.dat"
    own.unlink()
    theirs = share / "theirs.img"
    theirs.write_bytes(os.urandom(3 << 20))
    os.link(theirs, own) if trick == "twin" else own.symlink_to(theirs)
    with refused(share) as caught:
        runner.start(plan_of(layer, read_percent=0), base)
    assert caught.value.code == ("file_linked" if trick == "twin" else "wrong_mount")
    before = digests(theirs)()
    assert ensure(state="absent")["kept"] == [str(own)]
    assert digests(theirs)() == before and own.exists()


@pytest.mark.parametrize("moment", ["mkdir", "_write_stamp", "_write_file"])
def test_the_records_of_a_build_that_is_killed_while_it_writes_are_enough(share, moment):
    before = sorted(os.walk(share))
    pid = os.fork()
    if not pid:
        module = attached.own_file.os if moment == "mkdir" else attached.own_file
        real = getattr(module, moment)

        def cut(*given, **more):
            if moment != "mkdir" or ("storlab." in str(given[0]) and "+" in str(given[0])):
                if moment != "_write_file":
                    real(*given, **more)
                else:
                    handle = os.open(attached.own_file.PARTIAL, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=given[0])
                    os.write(handle, b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **more)

        setattr(module, moment, cut)
        ensure(entry(name="nas", kind="path", folder=str(share), access="write", benchmark_file_mib=3))
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert sorted(os.walk(share)) != before
    assert ensure(state="absent")["kept"] == []
    assert sorted(os.walk(share)) == before


def test_a_workload_that_writes_is_refused_by_the_host_itself(share, base):
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share)))["layers"]
    layer["host"] = "here"
    with refused(share, match="would write") as caught:
        runner.start(plan_of(layer, read_percent=99), base)
    assert caught.value.code == "layer_read_only"


def test_the_kernel_refuses_what_all_checks_would_let_pass(share, base, monkeypatch):
    """The wall behind the walls: a fio that writes whatever it is given."""
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share)))["layers"]
    layer["host"] = "here"
    monkeypatch.setattr(reading_guard, "refuse_writing_points", lambda *_given: None)
    image = digests(share / "deep" / "vm.img")
    before = image()
    runner.start(plan_of(layer, read_percent=0), base)
    until(lambda: not runner.status(TESTBED, "one", base)["alive"])
    assert runner.status(TESTBED, "one", base)["state"]["failed"] == 1
    assert image() == before


def test_a_file_that_was_replaced_is_not_read(share):
    (layer,) = ensure(entry(name="nas", kind="path", folder=str(share)))["layers"]
    layer["host"] = "here"
    (share / "new").write_bytes(os.urandom(SIZE))
    os.replace(share / "new", share / "deep" / "vm.img")
    with refused(share) as caught:
        reading_guard.guard(layer)
    assert caught.value.code == "file_replaced"


def test_a_disk_that_is_mounted_is_read_and_not_touched(tmp_path, base):
    image = tmp_path / "disk"
    with loop_on(image, 16 << 20) as path:
        subprocess.run(["mkfs.ext4", "-q", path], check=True)
        place = tmp_path / "mnt"
        place.mkdir()
        subprocess.run(["mount", path, str(place)], check=True)
        try:
            (place / "theirs").write_bytes(os.urandom(1 << 20))
            os.sync()
            subprocess.run(["fsfreeze", "--freeze", str(place)], check=True)
            number = os.stat(path).st_rdev
            layer = {
                "name": "initiator-lun",
                "kind": "initiator",
                "host": "here",
                "path": path,
                "parent": None,
                "purpose": "read",
                "size_bytes": 16 << 20,
                "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"},
            }
            before = digests(image)()
            with refused(digests(image)):
                device_safety.guard({**layer, "purpose": "scratch"}, (path,))
            meta, output = measured(plan_of(layer), base)
            assert (meta["exit_code"], meta["failures"]) == (0, [])
            assert output["jobs"][0]["read"]["io_bytes"] == 16 << 20
            # A new file system is nearly all zeros.
            assert meta["preparation"]["zero_percent"] > 50 and "not_filled" in meta["flags"]
            assert digests(image)() == before
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=False)
            subprocess.run(["umount", str(place)], check=True)


def test_the_records_of_a_killed_build_are_enough_to_undo_it(share):
    """A build that is killed right behind its mount(8)."""
    pid = os.fork()
    if not pid:
        attached.Attached._refuse_writable = staticmethod(lambda _place: os.kill(os.getpid(), signal.SIGKILL))
        ensure(entry(name="nas", kind="path", folder=str(share)))
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    place = attached.mount_point(TESTBED, "nas")
    assert attached.mounts.mounted_at(attached.mounts.read(), place)
    ensure(state="absent")
    assert not attached.mounts.mounted_at(attached.mounts.read(), place) and not os.path.exists(place)


# ---------------------------------------------------------------- by the shipped playbooks


def of_loop(path):
    return loop_layer(path, 16 << 20, name="initiator-lun", kind="initiator", purpose="read")


@pytest.mark.parametrize("walls", [True, False])
def test_the_kernel_refuses_a_write_to_a_disk_that_all_checks_would_let_pass(tmp_path, base, monkeypatch, walls):
    """A real fio with a job that writes, and a disk without a user. Without the wall it does write, so the wall alone saves the disk."""
    if walls and not landlock.holds(str(tmp_path)):
        pytest.skip("The kernel of the tests has no Landlock.")
    monkeypatch.setattr(reading_guard, "refuse_writing_points", lambda *_given: None)
    start = fio_engine.Fio._start
    # Without fio's own --readonly.
    monkeypatch.setattr(
        fio_engine.Fio,
        "_start",
        lambda self, text, limit_s, windows, _only_read=False: start(self, text, limit_s, windows),
    )
    if not walls:
        monkeypatch.setattr(landlock, "holds", lambda _folder: False)
    image = tmp_path / "disk"
    with loop_on(image, 16 << 20) as path:
        before = digests(path)()
        plan = plan_of(of_loop(path), read_percent=0)
        runner.start(plan, base)
        until(lambda: not runner.status(TESTBED, "one", base)["alive"])
        assert runner.status(TESTBED, "one", base)["state"]["failed"] == int(walls)
        assert (digests(path)() == before) == walls
        folder = Path(runner.state_dir(TESTBED, "one", base), "points", plan["points"][0]["point_id"])
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        assert meta["preparation"]["wall"] == ("landlock" if walls else "read_only_open")
        words = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
        assert ("ermission denied" in words) == walls


def test_the_owner_takes_the_disk_while_it_is_read(tmp_path, base):
    """Nothing of the testbed claims the disk: its owner makes a file system on it and mounts it while an engine reads."""
    image, place = tmp_path / "disk", tmp_path / "mnt"
    place.mkdir()
    with loop_on(image, 16 << 20) as path:
        plan = plan_of(of_loop(path), loops=1000, queue_depth=1)
        runner.start(plan, base)
        until(lambda: runner.status(TESTBED, "one", base)["state"].get("phase") == "measure")
        subprocess.run(["mkfs.ext4", "-q", path], check=True)
        subprocess.run(["mount", path, str(place)], check=True)
        try:
            assert runner.status(TESTBED, "one", base)["alive"]
            (place / "theirs").write_text("theirs", encoding="ascii")
        finally:
            subprocess.run(["umount", str(place)], check=True)
            runner.stop(TESTBED, "one", base=base)


@pytest.mark.long
def test_playbooks_keep_what_others_put_into_the_folder_of_the_testbed_and_name_it(share, tmp_path):
    """Builds, a teardown that leaves a file of others, a build that does not take what was left for its own, and one on a place that is free again."""
    before = sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()
    described = [{"name": "nas", "kind": "path", "path": str(share), "access": "write", "benchmark_file": "2MiB"}]
    content = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "testbed_id": TESTBED,
            "testbed": {"existing": described},
            "testbed_state_dir": str(tmp_path / "kept"),
            "testbed_results_dir": str(tmp_path / "results"),
        },
        "children": {"clients": {"hosts": {"client01": {"ansible_host": "127.0.0.1"}}}},
    }
    lab = tmp_path / "lab.yml"
    lab.write_text(yaml.safe_dump({"all": content}), encoding="utf-8")
    own = share / f"storlab.{TESTBED}+nas"
    rc, text = shipped(lab, "build", "build")
    assert rc == 0, text
    assert (own / "storlab-benchmark.dat").stat().st_size == 2 << 20
    theirs = own / "theirs.txt"
    theirs.write_text("put here by somebody", encoding="utf-8")
    rc, text = shipped(lab, "teardown")
    assert rc == 0 and str(theirs) in text, text
    assert (
        sorted(os.listdir(own)) == [".storlab-owner.json", "theirs.txt"]
        and theirs.read_text() == "put here by somebody"
    )
    left = sorted(os.walk(own)), (own / ".storlab-owner.json").read_bytes()
    rc, text = shipped(lab, "build")
    assert (
        rc == 2 and "was there before" in text and "choose another name in testbed.existing" in " ".join(text.split())
    )
    assert (sorted(os.walk(own)), (own / ".storlab-owner.json").read_bytes()) == left
    shutil.rmtree(own)
    rc, text = shipped(lab, "build", "teardown", "verify_clean")
    assert rc == 0, text
    assert (sorted(os.walk(share)), digests(share / "deep" / "vm.img", share / "letter.txt")()) == before
