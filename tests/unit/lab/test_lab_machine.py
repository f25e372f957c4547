# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of the embedded lab that is started, found running, ended and removed. A program that only waits stands in for QEMU.

It is known by the pid file in its command line, as QEMU is, and listens at the control socket where a test wants it to.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import machine, qemu
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from background import GOES_INTO_THE_BACKGROUND
from unchanged import broken_off, refused, tree, unchanged
from waiting import until

# Goes into the background as QEMU does with -daemonize, with the same command line, and then waits.
WAITS = """
import os, signal, sys
arguments = sys.argv[1:]
def of(option):
    return arguments[arguments.index(option) + 1]
if "refuse" in of("-name"):
    sys.exit("qemu: the tap is busy")
{deaf}
place = of("-pidfile")
"""


class Lab:
    """A folder for machines, and a program in place of QEMU."""

    def __init__(self, top: Path, monkeypatch) -> None:
        self.top, self.run_dir, self.program = top, top / "vm", top / "qemu"
        self.behaves()
        monkeypatch.setattr(qemu, "find_qemu", lambda: str(self.program))
        self.params = {name: option.get("default") for name, option in machine.SPEC.items()}
        self.params.update(name="target01", run_dir=str(self.run_dir), accel="tcg", stop_timeout_s=30)

    def behaves(self, deaf: bool = False) -> None:
        text = (
            WAITS.replace("{deaf}", "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else "")
            + GOES_INTO_THE_BACKGROUND
        )
        self.program.write_text("#!/usr/bin/env python3\n" + text, encoding="utf-8")
        self.program.chmod(0o755)

    def ensure(self, check_mode: bool = False, **more) -> dict:
        return machine.ensure({**self.params, **more}, check_mode)

    def pid(self) -> int | None:
        return qemu.running_pid(str(self.run_dir))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    made, end_process = Lab(tmp_path, monkeypatch), daemon.end_process
    yield made
    end_process(made.pid, daemon.patience(30))


def disk(lab: Lab, **more) -> dict:
    return {"file": str(lab.top / "disks" / "d.raw"), "url": None, "serial": "s1", "size_mib": 3, **more}


# ---------------------------------------------------------------- started and ended


def test_a_machine_is_started_once_and_removed_with_its_folder(lab):
    first = lab.ensure(disks=[disk(lab)])
    until(lab.pid)
    assert (first["steps"], first["vm"]["emulated"]) == (["start"], True)
    assert (lab.top / "disks/d.raw").stat().st_size == 3 << 20
    assert os.stat(lab.run_dir).st_mode & 0o77 == 0
    pid = lab.pid()
    second = lab.ensure(disks=[disk(lab)])
    assert (second["changed"], second["vm"]["pid"], lab.pid()) == (False, pid, pid)
    assert second["vm"]["definition"] == first["vm"]["definition"]
    gone = lab.ensure(state="absent")
    assert (gone["steps"], lab.pid(), lab.run_dir.exists()) == (["stop", "remove"], None, False)
    assert lab.ensure(state="absent")["changed"] is False
    # Its disk is not the machine's to remove.
    assert (lab.top / "disks/d.raw").exists()


def test_another_definition_starts_another_machine_and_keeps_its_disk(lab):
    lab.ensure(disks=[disk(lab)])
    pid = lab.pid()
    (lab.top / "disks/d.raw").write_bytes(b"kept")
    with unchanged(lab.top):
        assert lab.ensure(check_mode=True, disks=[disk(lab)], memory_mib=1024)["steps"] == ["stop", "start"]
    assert lab.pid() == pid
    assert lab.ensure(disks=[disk(lab)], memory_mib=1024)["steps"] == ["stop", "start"]
    assert lab.pid() not in (None, pid) and (lab.top / "disks/d.raw").read_bytes() == b"kept"


def test_check_mode_starts_and_removes_nothing(lab):
    with unchanged(lab.top):
        result = lab.ensure(check_mode=True)
        assert result["steps"] == ["start"] and "pid" not in result["vm"]
        assert result["diff"]["after"] == "start target01\n"
    lab.ensure()
    pid, before = lab.pid(), tree(lab.run_dir)
    assert lab.ensure(check_mode=True, state="absent")["steps"] == ["stop", "remove"]
    assert (lab.pid(), tree(lab.run_dir)) == (pid, before)


def test_a_machine_that_does_not_end_when_asked_is_made_to(lab):
    lab.behaves(deaf=True)
    lab.ensure()
    assert lab.ensure(state="absent", stop_timeout_s=0.2)["changed"] is True
    assert lab.pid() is None


def test_a_machine_that_not_even_a_signal_ends_is_named(lab, monkeypatch):
    lab.ensure()
    monkeypatch.setattr(daemon, "end_process", lambda _find, _patience: False)
    with refused(lab.run_dir) as caught:
        lab.ensure(state="absent", stop_timeout_s=0.2)
    assert caught.value.code == "vm_stop" and str(lab.pid()) in str(caught.value)


def test_a_machine_is_asked_to_end_so_that_it_flushes_its_disks(lab, monkeypatch):
    lab.ensure()
    signals = []
    monkeypatch.setattr(daemon, "end_process", lambda *_given: signals.append(True))
    process, words = lab.pid(), []

    def serve(server) -> None:
        connection, _address = server.accept()
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            stream.write('{"QMP": {}}\n')
            stream.flush()
            for _command in range(2):
                words.append(json.loads(stream.readline())["execute"])
                stream.write('{"return": {}}\n')
                stream.flush()
        os.kill(process, 15)

    with qemu.socket.socket(qemu.socket.AF_UNIX) as server:
        server.bind(str(lab.run_dir / "qmp"))
        server.listen(1)
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        qemu.stop(str(lab.run_dir), 60)
        thread.join()
    assert (words, signals, lab.pid()) == (["qmp_capabilities", "quit"], [], None)


def test_a_machine_that_was_killed_is_started_anew(lab):
    lab.ensure()
    pid = lab.pid()
    daemon.end_process(lab.pid, {signal.SIGKILL: 30})
    assert (lab.run_dir / "pid").exists()
    assert lab.ensure()["steps"] == ["start"] and lab.pid() not in (None, pid)


# ---------------------------------------------------------------- what fails


def test_a_machine_that_does_not_start_says_what_qemu_says(lab):
    (lab.top / "console.log").write_text("BIOS\nno boot disk\n", encoding="utf-8")
    with broken_off() as caught:
        lab.ensure(name="refuse01", console_log=str(lab.top / "console.log"))
    assert caught.value.code == "vm_start" and "qemu: the tap is busy" in str(caught.value)
    assert caught.value.details["console"] == ["BIOS", "no boot disk"]
    # The next call starts it.
    assert lab.ensure(console_log=str(lab.top / "console.log"))["steps"] == ["start"] and lab.pid()


def test_without_qemu_its_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(qemu.shutil, "which", lambda _name: None)
    with broken_off() as caught:
        qemu.find_qemu()
    assert caught.value.code == "tool_missing" and "qemu-system-x86" in str(caught.value)


def test_a_disk_that_is_a_layer_is_proven_before_the_machine_gets_it(lab, monkeypatch):
    layer, proven = {"name": "datastore-raw"}, []

    def prove(given, testbed_id, layers):
        proven.append((given, testbed_id, layers))
        raise Failure("device_mounted", "It is mounted.", "Unmount it.")

    monkeypatch.setattr(machine.device_safety, "prove_whole", prove)
    with refused(lab.top) as caught:
        lab.ensure(disks=[disk(lab, layer=layer, size_mib=None)], testbed_id="tb", layers={"a": 1})
    assert (caught.value.code, proven, lab.pid()) == ("device_mounted", [(layer, "tb", {"a": 1})], None)


def test_what_is_refused_is_refused_before_the_running_machine_is_ended(lab):
    lab.ensure()
    pid = lab.pid()
    with refused(lab.top) as caught:
        lab.ensure(nics=[{"tap": "much-too-long-a-name", "mac": None}])
    assert caught.value.details["variable"] == "nics tap" and lab.pid() == pid


# ---------------------------------------------------------------- waited for

SERVER = {"address": "192.0.2.7", "port": 22, "timeout_s": 7}


def test_a_machine_that_answers_is_done(lab, monkeypatch):
    asked = []
    monkeypatch.setattr(machine, "wait_for_banner", lambda *given, **_more: asked.append(given[:3]) or True)
    assert lab.ensure(wait_for=SERVER, netns="storlab-7", check_mode=True)["changed"] and asked == []
    monkeypatch.setattr(qemu, "enter_argv", lambda _netns: [])
    assert lab.ensure(wait_for=SERVER, netns="storlab-7")["vm"]["pid"] == lab.pid()
    assert asked == [("storlab-7", "192.0.2.7", 22)]


@pytest.mark.parametrize("ends", [True, False])
def test_a_machine_that_does_not_answer_is_told_from_one_that_ended(lab, monkeypatch, ends):
    console = lab.top / "console.log"

    def nobody(*_given, still_alive):
        assert still_alive()
        console.write_text("one\ntwo\nKernel panic\nhalted\n", encoding="utf-8")
        if ends:
            daemon.end_process(lab.pid, daemon.patience(30))
            assert not still_alive()
        return False

    monkeypatch.setattr(machine, "wait_for_banner", nobody)
    with broken_off() as caught:
        lab.ensure(wait_for=SERVER, console_log=str(console))
    assert caught.value.code == "vm_unreachable" and "two | Kernel panic | halted" in str(caught.value)
    words = "ended while it started" if ends else "did not answer at 192.0.2.7:22 within 7 s"
    assert words in str(caught.value) and (lab.pid() is None) is ends


def test_connections_that_lead_to_another_machine_from_now_on_are_closed(lab, monkeypatch):
    closed = []
    monkeypatch.setattr(machine, "close_connections", closed.append)
    lab.ensure(ssh_control_dir="/run/c7", check_mode=True)
    assert closed == []
    lab.ensure(ssh_control_dir="/run/c7")
    lab.ensure(ssh_control_dir="/run/c7")
    assert closed == ["/run/c7"]


# ---------------------------------------------------------------- the accelerator


def test_kvm_is_not_tried_for_a_machine_that_runs_and_not_in_check_mode(lab, monkeypatch):
    tried = []
    verdict = {"accel": "tcg", "reason": "tried"}
    monkeypatch.setattr(qemu, "probe_kvm", lambda kernel: tried.append(kernel) or verdict)
    assert "not tried in check mode" in lab.ensure(check_mode=True, accel="auto")["vm"]["accel_reason"]
    assert tried == []
    assert lab.ensure(accel="auto")["vm"]["accel_reason"] == "tried"
    assert lab.ensure(accel="auto")["changed"] is False and len(tried) == 1


def test_without_a_kernel_there_is_nothing_to_try_kvm_with(monkeypatch):
    monkeypatch.setattr(qemu.os.path, "exists", lambda path: path == "/dev/kvm")
    with pytest.raises(Failure) as caught:
        qemu.probe_kvm(None)
    assert caught.value.details["variable"] == "accel"
    monkeypatch.setattr(qemu.os.path, "exists", lambda _path: False)
    assert qemu.probe_kvm(None)["reason"] == "emulated (TCG): this host has no /dev/kvm"


@pytest.mark.parametrize(
    ("script", "accel", "words"),
    [
        (f"echo 'Kernel panic: {qemu.PROBE_MARKER}'; exit 0", "kvm", "a trial start of the kernel worked"),
        ("echo 'failed to initialize kvm: Permission denied' >&2; exit 1", "tcg", "Permission denied"),
        ("exit 9", "tcg", "QEMU ended with 9"),
        ("exec sleep 600", "tcg", "did not end in time"),
    ],
)
def test_kvm_is_what_a_trial_start_says(lab, monkeypatch, script, accel, words):
    lab.program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    there = os.path.exists
    monkeypatch.setattr(qemu.os.path, "exists", lambda path: path == "/dev/kvm" or there(path))
    # One that ends is waited for as long as it takes.
    verdict = qemu.probe_kvm("/img/vmlinuz", timeout_s=0.3 if "sleep" in script else 60)
    assert verdict["accel"] == accel and words in verdict["reason"]


def test_a_process_of_another_folder_is_not_this_machine(lab):
    lab.ensure()
    other = lab.top / "vm2"
    other.mkdir()
    (other / "pid").write_text(str(lab.pid()), encoding="ascii")
    assert qemu.read_state(str(other))["pid"] is None
    assert qemu.read_state(str(lab.run_dir))["pid"] == lab.pid()


# ---------------------------------------------------------------- disks by TLS


SECRET = "of-both-sides-0123456789"


def served(scheme: str = "nbds") -> dict:
    return {"url": f"{scheme}://10.213.0.12:10809/e1", "file": None, "serial": "s1"}


def test_a_machine_with_a_disk_by_tls_has_the_secret_in_a_private_file_alone(lab):
    first = lab.ensure(disks=[served()], nbd_secret=SECRET)
    until(lab.pid)
    words = daemon.read_cmdline(lab.pid())
    kept = lab.run_dir / "tls/keys.psk"
    assert kept.read_text(encoding="ascii") == f"storlab:{SECRET.encode().hex()}\n"
    assert [path.stat().st_mode & 0o777 for path in (kept.parent, kept)] == [0o700, 0o600]
    told = json.dumps([words, first, (lab.run_dir / "machine.json").read_text(encoding="utf-8")])
    assert SECRET not in told and SECRET.encode().hex() not in told
    credentials = json.loads(words[words.index("-object") + 1])
    assert (credentials["qom-type"], credentials["endpoint"], credentials["dir"]) == (
        "tls-creds-psk",
        "client",
        str(kept.parent),
    )
    node = json.loads(words[words.index("-blockdev") + 1])
    assert node["file"]["tls-creds"] == credentials["id"]
    assert lab.ensure(disks=[served()], nbd_secret=SECRET)["changed"] is False
    lab.ensure(state="absent")
    assert not lab.run_dir.exists()


def test_a_machine_is_started_anew_with_another_secret_and_with_none(lab):
    lab.ensure(disks=[served()], nbd_secret=SECRET)
    until(lab.pid)
    assert lab.ensure(disks=[served()], nbd_secret=SECRET[::-1])["steps"] == ["stop", "start"]
    assert SECRET[::-1].encode().hex() in (lab.run_dir / "tls/keys.psk").read_text(encoding="ascii")
    # A disk that is not reached by TLS needs none, so none is kept.
    assert lab.ensure(disks=[served("nbd")], nbd_secret=SECRET)["steps"] == ["stop", "start"]
    assert not (lab.run_dir / "tls").exists() and lab.ensure(disks=[served("nbd")])["changed"] is False


@pytest.mark.parametrize(
    ("secret", "words"),
    [(None, "Give the secret of the export: nbds://10.213.0.12:10809/e1"), ("short", "it has 5 characters")],
)
def test_a_disk_by_tls_without_a_good_secret_is_refused_before_anything_is_made(lab, secret, words):
    with broken_off() as caught:
        lab.ensure(disks=[served()], nbd_secret=secret)
    assert words in str(caught.value.as_result()) and not lab.run_dir.exists()
