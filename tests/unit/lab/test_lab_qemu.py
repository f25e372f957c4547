# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import qemu
from unchanged import refused


@pytest.fixture
def vm() -> dict:
    return {
        "name": "target01",
        "run_dir": "/run/storlab/storlab-a-1a2b3c/vm/target01",
        "console_log": "/srv/lab/console/target01.log",
        "memory_mib": 640,
        "vcpus": 3,
        "kernel": "/img/vmlinuz",
        "initrd": "/img/initrd.img",
        "append": "quiet storlab.hostname=target01",
        "disks": [
            {
                "file": "/img/root,1.ext4",
                "serial": "storlab-root",
                "readonly": True,
                "cache": "writeback",
                "format": "raw",
                "aio": "threads",
            },
            {"url": "nbd://10.213.0.12:10810/storlab-a-guest01", "serial": "storlab-0123456789ab"},
        ],
        "nics": [{"tap": "tap-target01", "mac": "52:54:00:aa:bb:cc"}],
    }


def option(argv: list, name: str) -> list:
    return [value for word, value in zip(argv, argv[1:]) if word == name]


def test_the_command_line_carries_every_part_of_the_definition(vm):
    argv = qemu.build_argv(vm, "tcg")
    assert option(argv, "-m") == ["640"]
    assert option(argv, "-smp") == ["3"]
    assert option(argv, "-kernel") == ["/img/vmlinuz"]
    assert option(argv, "-initrd") == ["/img/initrd.img"]
    assert option(argv, "-append") == ["quiet storlab.hostname=target01"]
    assert option(argv, "-pidfile") == ["/run/storlab/storlab-a-1a2b3c/vm/target01/pid"]
    assert option(argv, "-cpu") == ["max"]
    assert "tap,id=net0,ifname=tap-target01,script=no,downscript=no" in argv
    assert "virtio-net-pci,netdev=net0,mac=52:54:00:aa:bb:cc,romfile=" in argv
    assert "virtio-blk-pci,drive=disk1,serial=storlab-0123456789ab" in argv


def test_kvm_takes_the_hosts_processor(vm):
    argv = qemu.build_argv(vm, "kvm")
    assert (option(argv, "-accel"), option(argv, "-cpu")) == (["kvm"], ["host"])


def test_disks_are_json_so_that_a_comma_in_a_path_stays_one(vm):
    first, second = (json.loads(text) for text in option(qemu.build_argv(vm, "tcg"), "-blockdev"))
    cache = {"direct": False, "no-flush": False}
    assert first["file"] == {
        "driver": "file",
        "filename": "/img/root,1.ext4",
        "aio": "threads",
        "read-only": True,
        "cache": cache,
    }
    assert second["file"]["server"] == {"type": "inet", "host": "10.213.0.12", "port": "10810"}
    assert second["file"]["export"] == "storlab-a-guest01"
    assert second["cache"]["direct"] is True
    assert second["read-only"] is False


def test_a_slow_disk_is_one_of_its_own(vm):
    """Each limited disk has a throttle group of its own: one for all would share the limit."""
    first, second = vm["disks"]
    disks = [{**first, "iops": 300, "mib_s": 5}, {**second, "serial": "s2", "iops": 70}, {"file": "/c", "serial": "s3"}]
    argv = qemu.build_argv({**vm, "disks": disks}, "tcg")
    assert [json.loads(text) for text in option(argv, "-object")] == [
        {"qom-type": "throttle-group", "id": "limits0", "limits": {"iops-total": 300, "bps-total": 5 << 20}},
        {"qom-type": "throttle-group", "id": "limits1", "limits": {"iops-total": 70}},
    ]
    slow, other, free = (json.loads(text) for text in option(argv, "-blockdev"))
    assert (slow["driver"], slow["node-name"], slow["throttle-group"]) == ("throttle", "disk0", "limits0")
    assert slow["file"]["file"]["filename"] == "/img/root,1.ext4" and other["throttle-group"] == "limits1"
    assert (free["driver"], free["node-name"]) == ("raw", "disk2")
    assert "virtio-blk-pci,drive=disk0,serial=storlab-root" in argv


def test_a_machine_without_a_kernel_boots_its_first_disk(vm):
    argv = qemu.build_argv({**vm, "kernel": None}, "tcg")
    assert not {"-kernel", "-initrd", "-append"} & set(argv)


@pytest.mark.parametrize(
    "other",
    [
        ("argv", ["qemu", "-m", "513"], "net", "g"),
        ("netns", ["qemu", "-m", "512"], "net2", "g"),
        ("generation", ["qemu", "-m", "512"], "net", "g2"),
    ],
)
def test_a_change_of_anything_changes_the_definition(other):
    one = qemu.definition_hash(["qemu", "-m", "512"], "net", "g")
    assert one == qemu.definition_hash(["qemu", "-m", "512"], "net", "g")
    assert qemu.definition_hash(*other[1:]) != one


@pytest.mark.parametrize(
    ("current", "desired", "steps"),
    [
        ({"pid": None, "definition": None, "exists": False}, "d1", ["start"]),
        ({"pid": None, "definition": "d1", "exists": True}, "d1", ["start"]),
        ({"pid": 7, "definition": "d1", "exists": True}, "d1", []),
        ({"pid": 7, "definition": "d2", "exists": True}, "d1", ["stop", "start"]),
        ({"pid": 7, "definition": None, "exists": True}, "d1", ["stop", "start"]),
        ({"pid": 7, "definition": "d1", "exists": True}, None, ["stop", "remove"]),
        ({"pid": None, "definition": "d1", "exists": True}, None, ["remove"]),
        ({"pid": None, "definition": None, "exists": False}, None, []),
    ],
)
def test_the_plan_leads_from_what_is_to_what_is_wanted(current, desired, steps):
    assert qemu.plan(current, desired) == steps


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"name": "a b"}, "name"),
        ({"run_dir": "/run/" + "x" * 100}, "run_dir"),
        ({"disks": [{"serial": "s"}]}, "disks"),
        ({"disks": [{"file": "/a", "serial": "s", "iops": 0}]}, "disks s iops"),
        ({"disks": [{"file": "/a", "serial": "s", "size_mib": -3}]}, "disks s size_mib"),
        ({"disks": [{"file": "/a", "url": "nbd://h:1/e", "serial": "s"}]}, "disks"),
        ({"disks": [{"file": "/a", "serial": "s" * 21}]}, "disks serial"),
        ({"disks": [{"file": "/a", "serial": "s1,drive=x"}]}, "disks serial"),
        ({"disks": [{"file": "/a", "serial": "s1"}, {"file": "/b", "serial": "s1"}]}, "disks serial"),
        ({"nics": [{"tap": "tap-with-too-long-a-name", "mac": "52:54:00:00:00:01"}]}, "nics tap"),
        ({"nics": [{"tap": "tap0", "mac": "52:54:00:00:01"}]}, "nics mac"),
    ],
)
def test_what_qemu_would_misread_is_refused_by_name(vm, change, variable):
    with refused(vm) as caught:
        qemu.check_definition({**vm, **change})
    assert caught.value.code == "bad_value"
    assert caught.value.details["variable"] == variable


def test_a_good_definition_is_accepted(vm):
    qemu.check_definition(vm)


@pytest.mark.parametrize(
    "url", ["nbd://host/export", "nbd://host:10809/", "http://host:10809/e", "nbd://host:port/e", "nbd://host:1/a b"]
)
def test_a_url_that_names_no_export_is_refused(url):
    with pytest.raises(Failure, match="nbd://host:port/export"):
        qemu.parse_nbd_url(url)


def test_kvm_is_taken_only_after_a_kernel_ran_under_it():
    ran = "[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"
    broken = "qemu-system-x86_64: error: failed to set MSR 0x10a to 0x4a"
    assert qemu.kvm_verdict(True, ran, 0)["accel"] == "kvm"
    assert qemu.kvm_verdict(False, ran, 0) == {"accel": "tcg", "reason": "emulated (TCG): this host has no /dev/kvm"}
    refused = qemu.kvm_verdict(True, broken, 1)
    assert refused["accel"] == "tcg"
    assert "failed to set MSR 0x10a" in refused["reason"]
    assert "did not end in time" in qemu.kvm_verdict(True, "Linux version 6.1", None)["reason"]
    assert "QEMU ended with 3" in qemu.kvm_verdict(True, "", 3)["reason"]


def test_a_verdict_is_kept_for_the_kernel_it_was_found_with(tmp_path, monkeypatch):
    verdicts = iter([{"accel": "tcg", "reason": "first"}, {"accel": "kvm", "reason": "second"}])
    monkeypatch.setattr(qemu, "find_qemu", lambda: __file__)
    monkeypatch.setattr(qemu, "probe_kvm", lambda kernel: next(verdicts))
    cache = str(tmp_path / "lab" / "accel.json")
    assert qemu.choose_accel("auto", "/img1/vmlinuz", cache)["reason"] == "first"
    assert qemu.choose_accel("auto", "/img1/vmlinuz", cache)["reason"] == "first"
    assert qemu.choose_accel("auto", "/img2/vmlinuz", cache)["reason"] == "second"
    assert qemu.choose_accel("kvm", "/img1/vmlinuz", cache)["accel"] == "kvm"


def test_a_damaged_note_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(qemu, "find_qemu", lambda: __file__)
    monkeypatch.setattr(qemu, "probe_kvm", lambda kernel: {"accel": "tcg", "reason": "tried again"})
    (tmp_path / "accel.json").write_text('{"accel": "kv')
    assert qemu.choose_accel("auto", "/k", str(tmp_path / "accel.json"))["reason"] == "tried again"


def test_the_console_ends_with_its_last_lines(tmp_path):
    log = tmp_path / "console.log"
    log.write_bytes(b"".join(b"line %d\r\n" % number for number in range(3000)))
    assert qemu.console_tail(str(log), 2) == ["line 2998", "line 2999"]
    assert qemu.console_tail(str(tmp_path / "none")) == []


def test_a_machine_with_half_a_note_has_no_definition(tmp_path):
    (tmp_path / "machine.json").write_text('{"definition": "d')
    unknown = {"definition": None, "accel": None, "accel_reason": None}
    assert qemu.read_state(str(tmp_path)) == {"exists": True, "pid": None, **unknown}


@pytest.fixture
def bystander():
    """A process of somebody else, which a note must not make the machine's."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("shape", ["a mapping", "7", '"text"', "[1]", '{"definition": 5, "accel": ["kvm"]}'])
def test_a_note_names_neither_a_process_nor_a_machine(tmp_path, bystander, shape):
    """Whoever writes into the folder could have any process taken for the machine, and it would be ended in its place."""
    note = json.dumps({"pid": bystander.pid, "exists": False, "definition": "d1", "accel": "tcg", "accel_reason": "r1"})
    (tmp_path / "machine.json").write_text(note if shape == "a mapping" else shape, encoding="utf-8")
    (tmp_path / "pid").write_text(f"{bystander.pid}\n", encoding="utf-8")
    state = qemu.read_state(str(tmp_path))
    assert (state["exists"], state["pid"]) == (True, None)
    known = ("d1", "tcg", "r1") if shape == "a mapping" else (None, None, None)
    assert (state["definition"], state["accel"], state["accel_reason"]) == known
    qemu.stop(str(tmp_path), 1)
    assert bystander.poll() is None


@pytest.mark.parametrize("text", ["-1", "0", "1", "-0", "99999999999999999999999", "1 2", "\u0664\u0662", "x" * 5000])
def test_a_pid_file_is_a_hint_alone(tmp_path, text):
    (tmp_path / "pid").write_text(text, encoding="utf-8")
    assert qemu.running_pid(str(tmp_path)) is None


@pytest.mark.parametrize("text", ["7", "[]", '"kvm"', '{"key": 1}', "null"])
def test_a_note_of_another_shape_is_tried_again(tmp_path, monkeypatch, text):
    monkeypatch.setattr(qemu, "find_qemu", lambda: __file__)
    monkeypatch.setattr(qemu, "probe_kvm", lambda kernel: {"accel": "tcg", "reason": "tried again"})
    (tmp_path / "accel.json").write_text(text, encoding="utf-8")
    assert qemu.choose_accel("auto", "/k", str(tmp_path / "accel.json"))["reason"] == "tried again"
