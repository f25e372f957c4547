# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An export of the embedded lab that is started, looked at and ended. A program that only holds its file open stands in for qemu-nbd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.lab import nbd
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from background import GOES_INTO_THE_BACKGROUND
from unchanged import broken_off

# It forks as qemu-nbd does with --fork, when it serves, and keeps its command line.
HOLDS = """#!/usr/bin/env python3
import os, signal, sys
path = sys.argv[-1]
if path.endswith("refused"):
    sys.exit("qemu-nbd: Address already in use")
held = os.open(path, os.O_RDONLY)
place = sys.argv[sys.argv.index("--pid-file") + 1]
"""
NAME = "storlab-a-guest07"
SECRET = "of-both-sides-0123456789"


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A file that can be served, in a lab whose storage is sound."""
    program, end_process = tmp_path / "bin" / "qemu-nbd", daemon.end_process
    program.parent.mkdir()
    program.write_text(HOLDS + GOES_INTO_THE_BACKGROUND, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(nbd, "RUN_DIR", str(tmp_path / "run" / "nbd"))
    monkeypatch.setattr(nbd, "storage_problem", lambda _path: None)
    path = tmp_path / "disk.raw"
    path.write_bytes(b"x" * 512)
    yield path
    end_process(lambda: nbd.running_pid(NAME), daemon.patience(30))


def start(path: Path, secret: str | None = None) -> None:
    nbd.start(NAME, nbd.build_argv(NAME, str(path), "192.0.2.7", 10817, "threads", bool(secret)), secret)


def test_an_export_is_known_by_what_it_serves_and_ends_without_a_trace(served):
    start(served)
    pid = nbd.running_pid(NAME)
    argv = daemon.read_cmdline(pid)
    assert nbd.read_state(NAME, argv, str(served)) == {"pid": pid, "as_wanted": True, "problem": None, "left": True}
    assert nbd.read_state(NAME, [*argv, "--read-only"], str(served))["as_wanted"] is False
    assert nbd.read_state("storlab-a-guest08", argv, str(served))["pid"] is None
    nbd.stop(NAME, 60)
    # The folder of all exports goes with the last of them.
    assert nbd.running_pid(NAME) is None and not Path(nbd.RUN_DIR).parent.exists()


def test_an_export_with_a_secret_has_it_in_a_private_file_and_in_no_command_line(served):
    start(served, SECRET)
    argv = daemon.read_cmdline(nbd.running_pid(NAME))
    folder = Path(nbd.secret_dir(NAME))
    credentials = f"tls-creds-psk,id=tls,endpoint=server,dir={folder}"
    assert argv[argv.index("--object") :][:4] == ["--object", credentials, "--tls-creds", "tls"]
    assert not any(SECRET in word or SECRET.encode().hex() in word for word in argv)
    assert (folder / "keys.psk").read_text(encoding="ascii") == f"storlab:{SECRET.encode().hex()}\n"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "keys.psk")] == [0o700, 0o600]
    assert nbd.read_state(NAME, argv, str(served), SECRET)["as_wanted"] is True
    nbd.stop(NAME, 60)
    assert not Path(nbd.RUN_DIR).parent.exists()


@pytest.mark.parametrize("change", ["another", "none", "lost", "open"])
def test_an_export_whose_secret_is_another_is_started_anew(served, change):
    start(served, SECRET)
    kept = Path(nbd.secret_dir(NAME), "keys.psk")
    secret = {"another": SECRET[::-1], "none": None}.get(change, SECRET)
    if change == "lost":
        kept.unlink()
    if change == "open":
        kept.chmod(0o644)
    running = daemon.read_cmdline(nbd.running_pid(NAME))
    state = nbd.read_state(NAME, running, str(served), secret)
    assert state["as_wanted"] is False and nbd.plan(state, "present") == ["stop", "start"]
    nbd.stop(NAME, 60)
    start(served, secret)
    assert nbd.read_state(NAME, daemon.read_cmdline(nbd.running_pid(NAME)), str(served), secret)["as_wanted"] is True
    assert kept.exists() is (change != "none")


@pytest.mark.parametrize("secret", [None, SECRET])
def test_the_files_of_an_export_that_was_killed_go_with_it(served, secret):
    start(served, secret)
    pid = nbd.running_pid(NAME)
    os.kill(pid, 9)
    assert daemon.wait_until_gone(lambda: nbd.running_pid(NAME), 60)
    state = nbd.read_state(NAME, [], str(served), secret)
    assert (state["pid"], nbd.plan(state, "released"), nbd.plan(state, "absent")) == (None, [], ["stop"])
    nbd.stop(NAME, 60)
    assert not Path(nbd.RUN_DIR).parent.exists()
    assert nbd.plan(nbd.read_state(NAME, [], str(served), secret), "absent") == []


@pytest.mark.parametrize("secret", ["x" * 19, "x" * 65, "x" * 20 + " ", "x" * 20 + "\n", "\u00fc" * 20])
def test_what_is_no_secret_is_refused_and_not_shown(secret):
    with broken_off() as caught:
        nbd.check_secret("secret", secret)
    assert caught.value.code == "bad_value" and secret not in str(caught.value.as_result())


@pytest.mark.parametrize("secret", [None, "", "x" * 20, "x" * 64])
def test_what_is_a_secret_or_none_is_taken(secret):
    nbd.check_secret("secret", secret)


def test_what_others_keep_beside_an_export_stays(served):
    start(served)
    other = Path(nbd.pid_path("storlab-b-guest01"))
    other.write_text("1", encoding="ascii")
    nbd.stop(NAME, 60)
    assert list(Path(nbd.RUN_DIR).iterdir()) == [other]
    # One that does not run leaves nothing either.
    nbd.stop(NAME, 60)
    assert other.exists()


@pytest.mark.parametrize("replaced", [True, False])
def test_an_export_of_a_file_that_is_gone_or_another_is_told(served, replaced):
    start(served)
    served.unlink()
    if replaced:
        served.write_bytes(b"y" * 512)
    state = nbd.read_state(NAME, [], str(served))
    assert state["problem"] == "it serves a file that is no longer at its path"
    assert nbd.plan(state, "released") == ["stop"]


def test_an_export_on_storage_that_is_gone_is_told(served, monkeypatch):
    start(served)
    monkeypatch.setattr(nbd, "storage_problem", lambda _path: "/dev/sd7 cannot be read")
    assert nbd.read_state(NAME, [], str(served))["problem"] == "/dev/sd7 cannot be read"


@pytest.mark.parametrize(
    ("filesystem", "content", "words"),
    [
        ("ext4", None, "/dev/sd7 cannot be read"),
        ("ext4", b"\0\0", "/dev/sd7 no longer holds the ext4 that is mounted from it"),
        ("ext4", nbd.MAGICS["ext4"][1], None),
        ("tmpfs", None, None),
        (None, None, None),
    ],
)
def test_only_the_disk_itself_tells_that_its_file_system_is_gone(monkeypatch, filesystem, content, words):
    mount = filesystem and {"source": "/dev/sd7", "filesystem": filesystem}
    asked = []
    monkeypatch.setattr(nbd.mounts, "holding", lambda _all, folder: asked.append(folder) or mount)
    monkeypatch.setattr(nbd, "read_direct", lambda *_where: content)
    assert nbd.storage_problem("/srv/disks/d.raw") == words
    assert asked == ["/srv/disks"]


def test_a_disk_that_cannot_be_opened_gives_no_bytes(tmp_path):
    assert nbd.read_direct(str(tmp_path / "none"), 0, 2, 60) is None


def test_an_export_that_does_not_start_says_what_its_program_says(served, tmp_path):
    with broken_off() as caught:
        start(tmp_path / "refused", SECRET)
    assert caught.value.code == "nbd_start" and "qemu-nbd: Address already in use" in str(caught.value)
    assert os.listdir(nbd.RUN_DIR) == []


def test_without_its_program_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(nbd.shutil, "which", lambda _name, path=None: None)
    monkeypatch.setattr(nbd, "RUN_DIR", str(tmp_path / "nbd"))
    with broken_off() as caught:
        start(tmp_path)
    assert caught.value.code == "tool_missing" and "qemu-utils" in str(caught.value)
    assert not (tmp_path / "nbd").exists()


def test_an_export_that_not_even_a_signal_ends_is_named_and_stays_known(served, monkeypatch):
    start(served)
    pid = nbd.running_pid(NAME)
    monkeypatch.setattr(daemon, "end_process", lambda _find, _patience: False)
    with broken_off() as caught:
        nbd.stop(NAME, 1)
    assert caught.value.code == "nbd_stop" and str(pid) in str(caught.value)
    assert Path(nbd.pid_path(NAME)).read_text(encoding="ascii") == str(pid)
