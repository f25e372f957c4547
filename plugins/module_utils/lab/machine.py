# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One QEMU machine of the embedded lab: what the module qemu_vm takes and does."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

from ..core.failure import Failure
from ..core.steps import shown_words
from ..linux.disks import device_safety
from . import nbd, qemu
from .netns import close_connections, mac_address, wait_for_banner

DISK: dict[str, Any] = {
    "file": {"type": "path"},
    "url": {"type": "str"},
    "serial": {"type": "str", "required": True},
    "format": {"type": "str", "choices": ["raw", "qcow2"], "default": "raw"},
    "readonly": {"type": "bool", "default": False},
    "cache": {"type": "str", "choices": ["none", "writeback"], "default": "none"},
    "aio": {"type": "str", "choices": ["threads", "native", "io_uring"], "default": "threads"},
    "size_mib": {"type": "int"},
    "iops": {"type": "int"},
    "mib_s": {"type": "int"},
    "layer": {"type": "dict"},
}
SERVER: dict[str, Any] = {
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "default": 22},
    "timeout_s": {"type": "int", "default": 60},
}
SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "run_dir": {"type": "path", "required": True},
    "netns": {"type": "str"},
    "accel": {"type": "str", "choices": ["auto", "kvm", "tcg"], "default": "auto"},
    "accel_cache": {"type": "path"},
    "memory_mib": {"type": "int", "default": 512},
    "vcpus": {"type": "int", "default": 1},
    "kernel": {"type": "path"},
    "initrd": {"type": "path"},
    "append": {"type": "str"},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": DISK},
    "nics": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"tap": {"type": "str", "required": True}, "mac": {"type": "str"}},
    },
    "nbd_secret": {"type": "str", "no_log": True},
    "console_log": {"type": "path"},
    "generation": {"type": "str", "default": ""},
    "ssh_control_dir": {"type": "path"},
    "wait_for": {"type": "dict", "options": SERVER},
    "stop_timeout_s": {"type": "int", "default": 10},
    "testbed_id": {"type": "str", "default": ""},
    "layers": {"type": "dict", "default": {}},
}


def complete(params: dict[str, Any]) -> dict[str, Any]:
    """The definition with every default filled in."""
    vm = dict(params)
    for key in ("kernel", "initrd"):
        vm[key] = os.path.realpath(vm[key]) if vm[key] else None
    vm["console_log"] = vm["console_log"] or os.path.join(vm["run_dir"], "console.log")
    vm["disks"] = [{**disk, "file": os.path.realpath(disk["file"]) if disk["file"] else None} for disk in vm["disks"]]
    vm["nics"] = [{**nic, "mac": nic["mac"] or mac_address(f"{vm['run_dir']} {nic['tap']}")} for nic in vm["nics"]]
    qemu.check_definition(vm)
    return vm


def wait(vm: dict[str, Any]) -> None:
    target, run_dir = vm["wait_for"], vm["run_dir"]
    deadline = time.monotonic() + target["timeout_s"]
    if not wait_for_banner(
        vm["netns"],
        target["address"],
        target["port"],
        deadline,
        still_alive=lambda: qemu.running_pid(run_dir) is not None,
    ):
        tail = qemu.console_tail(vm["console_log"])
        what = "ended while it started"
        if qemu.running_pid(run_dir):
            what = f"did not answer at {target['address']}:{target['port']} within {target['timeout_s']} s"
        raise Failure(
            "vm_unreachable",
            f"Machine {vm['name']} {what}; its console ended with: {' | '.join(tail[-3:])}.",
            f"Read {vm['console_log']}, give it more memory or time, and run this again.",
            name=vm["name"],
            console=tail,
        )


def apply(vm: dict[str, Any], steps: list[Any], argv: list[Any], definition: str | None, accel: dict[str, Any]) -> None:
    if steps and vm["ssh_control_dir"]:
        close_connections(vm["ssh_control_dir"])
    for step in steps:
        if step == "stop":
            qemu.stop(vm["run_dir"], vm["stop_timeout_s"])
        elif step == "start" and definition is not None:
            for disk in vm["disks"]:
                if disk.get("layer"):
                    device_safety.prove_whole(disk["layer"], vm["testbed_id"], vm["layers"])
            qemu.start(vm, argv, vm["netns"], definition, accel)
        elif step == "remove":
            shutil.rmtree(vm["run_dir"])


def pick_accel(vm: dict[str, Any], current: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    if vm["accel"] == "auto" and current["pid"] and current["accel"]:
        # A machine that runs needs no trial.
        return {"accel": current["accel"], "reason": current["accel_reason"]}
    if vm["accel"] == "auto" and check_mode:
        return {"accel": "tcg", "reason": "emulated (TCG): KVM is not tried in check mode"}
    return qemu.choose_accel(vm["accel"], vm["kernel"], vm["accel_cache"])


def ensure(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    current = qemu.read_state(params["run_dir"])
    vm, argv, definition = params, [], None
    accel: dict[str, Any] = {}
    if params["state"] == "present":
        vm = complete(params)
        accel = pick_accel(vm, current, check_mode)
        argv = qemu.build_argv(vm, accel["accel"])
        definition = qemu.definition_hash(argv, vm["netns"], vm["generation"])
        wanted = vm["nbd_secret"] if qemu.needs_secret(vm) else None
        if not nbd.secret_is_kept(qemu.secret_dir(vm["run_dir"]), wanted):
            current["definition"] = None
    steps = qemu.plan(current, definition)
    result = shown_words(steps, vm["name"])
    if not check_mode:
        apply(vm, steps, argv, definition, accel)
        if definition and vm["wait_for"]:
            wait(vm)
    if definition:
        result["vm"] = {
            "accel": accel["accel"],
            "accel_reason": accel["reason"],
            "emulated": accel["accel"] != "kvm",
            "definition": definition,
        }
        pid = qemu.running_pid(vm["run_dir"])
        if pid:
            result["vm"]["pid"] = pid
    return result
