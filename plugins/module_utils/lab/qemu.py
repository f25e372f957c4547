# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU machines: what a machine is (its command line), whether it runs, starting and ending it.

A machine's folder (``run_dir``) holds ``pid``, ``qmp`` (control socket), ``machine.json`` (the definition it was started from) and, unless
it is kept elsewhere, ``console.log``. A process is the machine's only when its command line names that folder's pid file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import naming, read_json, write_json
from ..linux import daemon
from . import nbd
from .netns import enter_argv

QEMU = "qemu-system-x86_64"
# The words of a Linux kernel without a root disk: it got through its whole own start.
PROBE_MARKER = "Unable to mount root fs"
SOCKET_PATH_LIMIT = 107
TB_SIZE_MIB = 96


def check_definition(vm: dict[str, Any]) -> None:
    """Refuse, before anything is started, what QEMU would refuse or misread."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", vm["name"]):
        raise bad_value("name", vm["name"], "Use up to 63 letters, digits, dots, _ and -.")
    if len(os.path.join(vm["run_dir"], "qmp").encode()) > SOCKET_PATH_LIMIT:
        raise bad_value(
            "run_dir",
            vm["run_dir"],
            f"The path of the control socket in it may have {SOCKET_PATH_LIMIT} bytes, give a shorter folder.",
        )
    nbd.check_secret("nbd_secret", vm.get("nbd_secret"))
    if needs_secret(vm) and not vm.get("nbd_secret"):
        urls = [disk["url"] for disk in vm["disks"] if disk.get("url")]
        raise bad_value("nbd_secret", None, f"Give the secret of the export: {', '.join(urls)} is reached by TLS.")
    for disk in vm["disks"]:
        if bool(disk.get("file")) == bool(disk.get("url")):
            raise bad_value("disks", disk, "Give each disk a file or a url.")
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,20}", disk.get("serial") or ""):
            raise bad_value(
                "disks serial",
                disk.get("serial"),
                "Give each disk a serial of up to 20 letters, digits, dots, _ and -.",
            )
        for key in ("size_mib", "iops", "mib_s"):
            if disk.get(key) is not None and disk[key] < 1:
                raise bad_value(f"disks {disk['serial']} {key}", disk[key], "Give 1 or more, or leave it out.")
    serials = [disk["serial"] for disk in vm["disks"]]
    if len(set(serials)) != len(serials):
        raise bad_value("disks serial", serials, "Give each disk a serial of its own.")
    for nic in vm["nics"]:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", nic.get("tap") or ""):
            raise bad_value(
                "nics tap", nic.get("tap"), "Name a tap interface of up to 15 letters, digits, dots, _ and -."
            )
        if not re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", nic.get("mac") or ""):
            raise bad_value("nics mac", nic.get("mac"), "Give an address such as 52:54:00:12:34:56.")


def parse_nbd_url(url: str) -> dict[str, object]:
    """nbd://host:port/export as QEMU's block layer wants it; with nbds it refuses a server that does not speak TLS."""
    match = re.fullmatch(r"nbd(s?)://([A-Za-z0-9.-]+):([0-9]{1,5})/([^\s]+)", url)
    if not match:
        raise bad_value("disks url", url, "Give nbd://host:port/export, or nbds:// for TLS.")
    server = {"server": {"type": "inet", "host": match[2], "port": match[3]}, "export": match[4]}
    return {**server, **({"tls-creds": "nbd"} if match[1] else {})}


def needs_secret(vm: dict[str, Any]) -> bool:
    return any((disk.get("url") or "").startswith("nbds:") for disk in vm["disks"])


def secret_dir(run_dir: str) -> str:
    return os.path.join(run_dir, "tls")


def blockdev(disk: dict[str, Any], number: int) -> dict[str, object]:
    """A disk as QEMU's -blockdev takes it."""
    cache = {"direct": disk.get("cache", "none") == "none", "no-flush": False}
    read_only = bool(disk.get("readonly"))
    if disk.get("url"):
        # After an outage QEMU tries again for this long and then gives the guest an I/O error; it never hangs for good.
        storage = {"driver": "nbd", **parse_nbd_url(disk["url"]), "reconnect-delay": 10}
    else:
        driver = "host_device" if disk["file"].startswith("/dev/") else "file"
        storage = {"driver": driver, "filename": disk["file"], "aio": disk.get("aio", "threads")}
    storage.update({"read-only": read_only, "cache": cache})
    image = {"driver": disk.get("format", "raw"), "read-only": read_only, "cache": cache, "file": storage}
    if limits(disk):
        image = {"driver": "throttle", "throttle-group": f"limits{number}", "read-only": read_only, "file": image}
    return {"node-name": f"disk{number}", **image}


def limits(disk: dict[str, Any]) -> dict[str, object]:
    """What QEMU lets a disk do, as its ThrottleLimits; empty when it may do what it can."""
    throttle = {"iops-total": disk.get("iops"), "bps-total": (disk.get("mib_s") or 0) << 20}
    return {key: value for key, value in throttle.items() if value}


def build_argv(vm: dict[str, Any], accel: str) -> list[str]:
    """The command line of a machine."""
    # The cache of translated code is memory of the host: without a limit it grows to a gigabyte.
    processor = {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", f"tcg,thread=multi,tb-size={TB_SIZE_MIB}", "-cpu", "max"],
    }[accel]
    run_dir = vm["run_dir"]
    argv = [
        QEMU,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-name",
        vm["name"],
        "-machine",
        "pc",
        *processor,
        "-m",
        str(vm["memory_mib"]),
        "-smp",
        str(vm["vcpus"]),
        "-rtc",
        "base=utc",
        "-no-reboot",
        "-pidfile",
        os.path.join(run_dir, "pid"),
        "-qmp",
        f"unix:{os.path.join(run_dir, 'qmp')},server=on,wait=off",
        "-chardev",
        f"file,id=console,path={vm['console_log']}",
        "-serial",
        "chardev:console",
    ]
    if vm.get("kernel"):
        argv += ["-kernel", vm["kernel"]]
        argv += ["-initrd", vm["initrd"]] if vm.get("initrd") else []
        argv += ["-append", vm["append"]] if vm.get("append") else []
    if needs_secret(vm):
        credentials = {
            "qom-type": "tls-creds-psk",
            "id": "nbd",
            "endpoint": "client",
            "dir": secret_dir(run_dir),
            "username": nbd.USER,
        }
        argv += ["-object", json.dumps(credentials, sort_keys=True)]
    for number, disk in enumerate(vm["disks"]):
        if limits(disk):
            group = {"qom-type": "throttle-group", "id": f"limits{number}", "limits": limits(disk)}
            argv += ["-object", json.dumps(group, sort_keys=True)]
        argv += ["-blockdev", json.dumps(blockdev(disk, number), sort_keys=True)]
        argv += ["-device", f"virtio-blk-pci,drive=disk{number},serial={disk['serial']}"]
    for number, nic in enumerate(vm["nics"]):
        argv += ["-netdev", f"tap,id=net{number},ifname={nic['tap']},script=no,downscript=no"]
        argv += ["-device", f"virtio-net-pci,netdev=net{number},mac={nic['mac']},romfile="]
    return argv


def definition_hash(argv: list[str], netns: str | None, generation: str) -> str:
    """Identity of a machine: its arguments, and all else whose change must start it again."""
    return hashlib.sha256(json.dumps([argv, netns, generation]).encode()).hexdigest()


def running_pid(run_dir: str) -> int | None:
    """Process of the machine of that folder; None when it does not run."""
    return daemon.running_pid("-pidfile", os.path.join(run_dir, "pid"))


def read_state(run_dir: str) -> dict[str, Any]:
    # Without a note it was never started, or killed while it was: it has no definition and is started from the wanted one.
    shape = {"definition": str, "accel": str, "accel_reason": str}
    note = _note(os.path.join(run_dir, "machine.json"), shape)
    known = {key: note.get(key) for key in shape}
    # The note is about the definition alone: which process runs, and that the folder is there, is looked at.
    return {"exists": os.path.isdir(run_dir), "pid": running_pid(run_dir), **known}


def _note(path: str, shape: object) -> dict[str, Any]:
    """A note that was written earlier; empty where there is none of this shape."""
    try:
        return read_json(path, kind=shape) or {}
    except Failure:
        return {}


def plan(current: dict[str, Any], desired: str | None) -> list[str]:
    """Steps from what is to the wanted definition (None: no machine)."""
    if desired is None:
        return ["stop"] * bool(current["pid"]) + ["remove"] * current["exists"]
    if current["pid"] and current["definition"] == desired:
        return []
    return ["stop"] * bool(current["pid"]) + ["start"]


def console_tail(path: str, lines: int = 12) -> list[str]:
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.path.getsize(path) - 8192))
            return stream.read().decode("utf-8", "replace").replace("\r", "").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def find_qemu() -> str:
    path = shutil.which(QEMU)
    if not path:
        raise Failure(
            "tool_missing",
            f"The command {QEMU} is not on this host.",
            "Install the package qemu-system-x86.",
            tool=QEMU,
        )
    return path


def start(vm: dict[str, Any], argv: Sequence[str], netns: str | None, definition: str, accel: dict[str, Any]) -> None:
    run_dir = vm["run_dir"]
    os.makedirs(run_dir, mode=0o700, exist_ok=True)
    os.makedirs(os.path.dirname(vm["console_log"]), exist_ok=True)
    for name in ("pid", "qmp", "machine.json"):
        if os.path.exists(os.path.join(run_dir, name)):
            os.unlink(os.path.join(run_dir, name))
    nbd.forget_secret(secret_dir(run_dir))
    if needs_secret(vm):
        nbd.keep_secret(secret_dir(run_dir), vm["nbd_secret"])
    for disk in vm["disks"]:
        if disk.get("size_mib") and not os.path.exists(disk["file"]):
            os.makedirs(os.path.dirname(disk["file"]), mode=0o700, exist_ok=True)
            with naming(disk["file"]), open(disk["file"], "xb") as stream:
                stream.truncate(disk["size_mib"] << 20)
    # Written first: a machine that runs without it would be taken for a stranger's definition and started twice.
    write_json(
        os.path.join(run_dir, "machine.json"),
        {"name": vm["name"], "definition": definition, "accel": accel["accel"], "accel_reason": accel["reason"]},
    )
    done = subprocess.run(
        [*enter_argv(netns), find_qemu(), *argv[1:], "-daemonize"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0 or not running_pid(run_dir):
        raise Failure(
            "vm_start",
            f"Machine {vm['name']} did not start: {done.stderr.strip() or 'QEMU said nothing'}.",
            "Correct its definition or free what it needs, and run this again.",
            name=vm["name"],
            console=console_tail(vm["console_log"]),
        )


def qmp_quit(path: str, timeout_s: float = 2.0) -> bool:
    """Ask QEMU to flush its disks and end; False when it does not listen."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(path)
            stream = client.makefile("rw", encoding="utf-8")
            stream.readline()
            for name in ("qmp_capabilities", "quit"):
                stream.write(json.dumps({"execute": name}) + "\n")
                stream.flush()
                stream.readline()
            return True
    except OSError:
        return False


def stop(run_dir: str, timeout_s: float) -> None:
    """End the machine: by its control socket, which flushes its disks, then by signals."""

    def find() -> int | None:
        return running_pid(run_dir)

    if qmp_quit(os.path.join(run_dir, "qmp")) and daemon.wait_until_gone(find, timeout_s):
        return
    if not daemon.end_process(find, daemon.patience(timeout_s)):
        raise Failure(
            "vm_stop",
            f"The QEMU process {find()} of {run_dir} does not end, not even killed.",
            "Free the storage it waits for, or restart this host.",
            run_dir=run_dir,
        )


def kvm_verdict(device: bool, output: str, returncode: int | None) -> dict[str, object]:
    """The output of the trial start of a kernel under KVM."""
    if not device:
        return {"accel": "tcg", "reason": "emulated (TCG): this host has no /dev/kvm"}
    if PROBE_MARKER in output:
        return {"accel": "kvm", "reason": "accelerated (KVM): a trial start of the kernel worked"}
    if returncode is None:
        message = "the trial start of a kernel did not end in time"
    else:
        message = next(
            (line.strip() for line in output.splitlines() if "error" in line.lower() or "failed" in line.lower()),
            f"QEMU ended with {returncode}",
        )
    return {"accel": "tcg", "reason": f"emulated (TCG): /dev/kvm is there but does not work: {message}"}


def probe_kvm(kernel: str | None, timeout_s: float = 20.0) -> dict[str, object]:
    """Try KVM by starting a kernel without any disk; the device node alone proves nothing."""
    if not os.path.exists("/dev/kvm"):
        return kvm_verdict(False, "", None)
    if not kernel:
        raise bad_value("accel", "auto", "Give kvm or tcg: without a kernel to start there is nothing to try KVM with.")
    argv = [
        find_qemu(),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-m",
        "128",
        "-no-reboot",
        "-serial",
        "stdio",
        "-kernel",
        kernel,
        "-append",
        "console=ttyS0 panic=-1",
    ]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        trial = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            returncode = trial.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            trial.kill()
            trial.wait()
            returncode = None
        output.seek(0)
        return kvm_verdict(True, output.read(), returncode)


def choose_accel(wanted: str, kernel: str | None, cache: str | None) -> dict[str, object]:
    """The accelerator and why; what ``auto`` found out is kept in the cache file, for this QEMU and this kernel."""
    if wanted != "auto":
        return {"accel": wanted, "reason": f"{'accelerated (KVM)' if wanted == 'kvm' else 'emulated (TCG)'}: asked for"}
    qemu = find_qemu()
    key = f"{qemu} {os.stat(qemu).st_mtime_ns} {kernel} {os.path.exists('/dev/kvm')}"
    # Where nothing is known yet, or the note is damaged, it is tried.
    known = _note(cache, {"key": str, "accel": str, "reason": str}) if cache else {}
    if known.get("key") == key:
        return {"accel": known["accel"], "reason": known["reason"]}
    verdict = probe_kvm(kernel)
    if cache:
        os.makedirs(os.path.dirname(cache), exist_ok=True)
        write_json(cache, {"key": key, **verdict})
    return verdict
