# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder that others could have made is read, its process ended and its contents removed only once it is proven to be ours. What a stranger prepares lies
in a folder with a sticky bit, as in /var/tmp."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import files
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon, own_folder, record, testbed_lock
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server, observer, runner
from unchanged import refused

STRANGER = 54321
PLAN = {"testbed_id": "lab", "run_id": "r7", "points": [], "layers": [], "known_layers": []}
CALLS = {
    "start": lambda base: runner.start(PLAN, base),
    "status": lambda base: runner.status("lab", "r7", base),
    "collect": lambda base: runner.collect("lab", "r7", base=base),
    "stop": lambda base: runner.stop("lab", base=base),
    "stop of a run": lambda base: runner.stop("lab", "r7", base=base),
    "stop and remove": lambda base: runner.stop("lab", remove=True, discard=True, base=base),
    "observer start": lambda base: observer.start("lab", {}, 60, base),
    "observer collect": lambda base: observer.collect("lab", {}, 0.0, base),
    "observer stop": lambda base: observer.stop("lab", base),
    "server stop": lambda base: fio_server.stop("lab", base=base),
    "server running": lambda base: fio_server.running("lab", base),
}
AREAS = {"observer": "observer", "server": "server/8765"}


def parts(call: str) -> list:
    """The folders on the way to what a call looks for, from the base on."""
    return ["base", "lab", *AREAS.get(call.partition(" ")[0], "bench/r7").split("/")]


# Each folder on each way.
PLACES = [(call, depth) for call in CALLS for depth in range(len(parts(call)))]


def give_away(path, monkeypatch) -> None:
    """To a stranger; where this user may not do that, everything is a stranger's."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER)
    else:
        monkeypatch.setattr(own_folder.os, "geteuid", lambda: STRANGER)


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def process():
    child = subprocess.Popen(["sleep", "600"])
    yield child
    assert child.poll() is None, "a process that was none of ours was ended"
    child.kill()
    child.wait()


def prepared(folder, process) -> None:
    """What a stranger leaves: a supervisor that is somebody's process, a plan, results, precious files."""
    folder.mkdir(parents=True)
    known = {"pid": process.pid, "start_ticks": daemon.start_ticks(process.pid)}
    (folder / "supervisor.json").write_text(json.dumps(known), encoding="utf-8")
    (folder / "plan.json").write_text(json.dumps({"plan": PLAN}), encoding="utf-8")
    (folder / "server.json").write_text(json.dumps({"pid": process.pid, "argv": ["sleep", "600"]}), encoding="utf-8")
    (folder / "precious").write_text("41", encoding="utf-8")


def attempt(call, base, everything, process):
    with refused(everything) as caught:
        CALLS[call](str(base))
    assert caught.value.code == "state_dir_foreign" and process.poll() is None
    return caught.value


@pytest.mark.parametrize(("call", "depth"), PLACES)
def test_a_strangers_link_is_not_followed_wherever_it_lies(call, depth, shared, tmp_path, process):
    """Into the caller's own home, which looks like what is expected there."""
    way, home = parts(call), tmp_path / "home"
    prepared(home.joinpath(*way[depth + 1 :]), process)
    (home / "thesis").mkdir(exist_ok=True)
    above = shared.joinpath(*way[:depth])
    above.mkdir(parents=True, exist_ok=True)
    (above / way[depth]).symlink_to(home)
    failure = attempt(call, shared / "base", tmp_path, process)
    assert failure.details["state_dir"] == str(above / way[depth])


@pytest.mark.parametrize(("call", "depth"), PLACES)
def test_what_others_may_write_to_is_neither_read_nor_ended_nor_removed(call, depth, shared, tmp_path, process):
    """As umask 000 left it."""
    prepared(shared.joinpath(*parts(call)), process)
    shared.joinpath(*parts(call)[: depth + 1]).chmod(0o777)
    assert "mode 0777" in str(attempt(call, shared / "base", tmp_path, process))


@pytest.mark.parametrize(("call", "depth"), PLACES)
def test_a_strangers_folder_is_neither_read_nor_ended_nor_removed(call, depth, shared, tmp_path, process, monkeypatch):
    prepared(shared.joinpath(*parts(call)), process)
    give_away(shared.joinpath(*parts(call)[: depth + 1]), monkeypatch)
    assert "so nothing there is read, ended or removed" in str(attempt(call, shared / "base", tmp_path, process))


def test_a_folder_in_one_that_everybody_may_rename_is_refused(shared, tmp_path, process):
    prepared(shared / "base" / "lab" / "bench" / "r7", process)
    shared.chmod(0o777)
    assert "replace its contents" in str(attempt("stop and remove", shared / "base", tmp_path, process))


def test_our_own_is_read_ended_and_removed(shared):
    base = str(shared / "base")
    child = subprocess.Popen(["sleep", "600"])
    folder = own_folder.private_folder(base, "lab", "bench", "r7")
    known = {"pid": child.pid, "start_ticks": daemon.start_ticks(child.pid)}
    files.write_json(os.path.join(folder, "supervisor.json"), known)
    assert runner.status("lab", "r7", base)["alive"] is True
    os.makedirs(os.path.join(folder, "done"))
    reaper = threading.Thread(target=child.wait)
    reaper.start()
    assert runner.stop("lab", remove=True, base=base)["removed"] == [folder]
    reaper.join()
    assert child.returncode and not (shared / "base").exists()


@pytest.mark.parametrize(
    "content", ["7", "[]", "{", '"x"', '{"pid": "1", "start_ticks": "1"}', '{"pid": -1, "start_ticks": "1"}', "{}"]
)
def test_a_supervisors_file_of_another_shape_names_no_process(content, tmp_path):
    (tmp_path / "supervisor.json").write_text(content, encoding="utf-8")
    assert daemon.alive(str(tmp_path)) is False
    daemon.end(str(tmp_path))


@pytest.mark.parametrize("kind", ["link", "pipe", "open to all", "of a stranger"])
def test_a_supervisors_file_that_somebody_else_put_there_is_refused(kind, tmp_path, process, monkeypatch):
    folder, file = tmp_path / "own", tmp_path / "own" / "supervisor.json"
    folder.mkdir()
    known = json.dumps({"pid": process.pid, "start_ticks": daemon.start_ticks(process.pid)})
    if kind == "link":
        (tmp_path / "theirs").write_text(known, encoding="utf-8")
        file.symlink_to(tmp_path / "theirs")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(known, encoding="utf-8")
        if kind == "open to all":
            file.chmod(0o666)
        else:
            give_away(file, monkeypatch)
    for call in (daemon.alive, daemon.end):
        with refused(tmp_path) as caught:
            call(str(folder))
        assert caught.value.code == "state_dir_foreign"


def test_a_record_in_a_folder_that_others_may_write_to_is_not_believed(tmp_path):
    base = str(tmp_path / "run")
    mine = record.Record("lab", "ramdisk", base)
    mine.data = {"disks": {"a": {}}}
    mine.save()
    (tmp_path / "run").chmod(0o777)
    with refused(tmp_path) as caught:
        record.Record("lab", "ramdisk", base)
    assert caught.value.code == "state_dir_foreign"
    # That of another testbed is passed by.
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "run" / "lab").chmod(0o777)
    assert record.Record("other", "ramdisk", base).has_heirs() is False


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(umask, tmp_path):
    before = os.umask(umask)
    try:
        base = str(tmp_path / "state" / "base")
        folder = own_folder.private_folder(base, "lab", "bench", "r7")
        mine = record.Record("lab", "ramdisk", base)
        mine.save()
        testbed_lock.take(f"{base}-lab.lock", {"process": {"pid": 1}})
        files.make_folder(str(tmp_path / "open" / "to" / "all"))
    finally:
        os.umask(before)
    modes = {
        os.path.relpath(path, tmp_path): stat.S_IMODE(os.lstat(path).st_mode)
        for parent, folders, names in os.walk(tmp_path)
        for path in [os.path.join(parent, name) for name in folders + names]
    }
    assert folder == os.path.join(base, "lab/bench/r7")
    assert modes == {
        **dict.fromkeys(
            ("state", "state/base", "state/base/lab", "state/base/lab/bench", "state/base/lab/bench/r7"), 0o700
        ),
        **dict.fromkeys(("state/base/lab/ramdisk.json", "state/base-lab.lock"), 0o600),
        **dict.fromkeys(("open", "open/to", "open/to/all"), 0o755),
    }


# ---------------------------------------------------------------- where


@pytest.fixture
def ordinary(monkeypatch, tmp_path):
    """A user who may not write to /run, with this home."""
    may = os.access
    monkeypatch.setattr(own_folder.os, "access", lambda path, mode: path != "/run" and may(path, mode))
    monkeypatch.setattr(own_folder, "read_text", lambda _path, default: "0f1e2d")
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return home


def test_an_ordinary_user_keeps_state_in_his_home_apart_for_each_host(ordinary, monkeypatch, tmp_path):
    assert own_folder.base_dir() == str(ordinary / ".local/state/storlab-0f1e2d")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert own_folder.base_dir() == str(ordinary / ".local/state/storlab-0f1e2d")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert own_folder.base_dir() == str(tmp_path / "xdg/storlab-0f1e2d")


def test_a_home_that_is_not_the_users_alone_is_not_used(ordinary, monkeypatch):
    ordinary.chmod(0o777)
    assert own_folder.base_dir() == f"/var/tmp/storlab-{os.geteuid()}"
    monkeypatch.setenv("HOME", "/nonexistent")
    may = own_folder.os.access
    monkeypatch.setattr(own_folder.os, "access", lambda path, mode: path != "/" and may(path, mode))
    assert own_folder.base_dir() == f"/var/tmp/storlab-{os.geteuid()}"


def test_root_keeps_it_where_a_reboot_ends_it(monkeypatch):
    monkeypatch.setattr(own_folder.os, "access", lambda path, mode: path == "/run")
    assert own_folder.base_dir() == "/run/storlab"
