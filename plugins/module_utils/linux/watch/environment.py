# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fingerprint of a host: what a figure measured on it depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from ...core.layers import only_read
from .. import mounts
from ..disks.device_safety import inspect
from ..disks.system import System

# The words in the firmware of virtual machines for a vendor or a product.
GUEST_MAKERS = (
    "QEMU",
    "KVM",
    "Virtual Machine",
    "VMware",
    "VirtualBox",
    "Xen",
    "Bochs",
    "OpenStack",
    "Google Compute Engine",
)
QUEUE = (
    "scheduler",
    "nr_requests",
    "max_sectors_kb",
    "rotational",
    "write_cache",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "io_poll",
    "read_ahead_kb",
    "logical_block_size",
    "physical_block_size",
)
DEVICE = (
    "type",
    "resolved",
    "size_bytes",
    "major_minor",
    "serial",
    "naa",
    "wwid",
    "model",
    "mount_point",
    "filesystem",
    "uuid",
    "source",
)
# Attributes of scsi_device, of scsi_disk and of the queue in which the kernel keeps the answers of a disk to INQUIRY and its VPD pages.
INQUIRY = ("vendor", "model", "rev", "scsi_level")
ALUA = ("access_state", "preferred_path", "dh_state")
PROVISIONING = ("thin_provisioning", "provisioning_mode", "zeroing_mode", "cache_type", "protection_type")
LIMITS = ("max_hw_sectors_kb", "minimum_io_size", "optimal_io_size", "discard_granularity", "discard_max_bytes")
MOUNT_STATS = "/proc/self/mountstats"
CIFS_DATA = "/proc/fs/cifs/DebugData"
# The agreement of initiator and target at login, and its cost per I/O: names of scsi_transport_iscsi's attributes.
ISCSI_SESSION = (
    "initial_r2t",
    "immediate_data",
    "first_burst_len",
    "max_burst_len",
    "max_outstanding_r2t",
    "data_pdu_in_order",
    "data_seq_in_order",
    "erl",
)
ISCSI_CONNECTION = ("header_digest", "data_digest", "max_recv_dlength", "max_xmit_dlength")


def fingerprint(layers: Any = (), engine_path: str | None = None, system: System | None = None) -> dict[str, object]:
    """Kernel, processor, memory, engine and the devices of the layers; values that the host does not have are absent."""
    system = system or System()
    return _known(
        {
            "kernel": {
                "release": platform.release(),
                "version": platform.version(),
                "command_line": system.read("/proc/cmdline"),
                "machine": platform.machine(),
            },
            "distribution": _distribution(system),
            "cpu": _cpu(system),
            "memory_bytes": _memory(system),
            "virtualisation": _virtualisation(system),
            "load_1min": float((system.read("/proc/loadavg") or "0").split()[0]),
            "clocksource": system.read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "python": platform.python_version(),
            "engine": _engine(system, engine_path) if engine_path else None,
            "network": network(system),
            "devices": {
                layer["name"]: {
                    **device(layer["path"], system),
                    **(of_others(layer["path"], system) if only_read(layer) else {}),
                }
                for layer in layers
                if layer["path"]
            },
        }
    )


def device(path: str, system: System | None = None) -> dict[str, Any]:
    """Identity, queue settings and mount of what a path names."""
    system = system or System()
    facts = inspect(path, system=system)
    fingerprint_of = {"path": path, **{key: facts.get(key) for key in DEVICE}}
    if facts["type"] == "block":
        whole = f"/sys/block/{os.path.basename(facts['whole_device'])}"
        fingerprint_of["queue"] = {key: system.read(f"{whole}/queue/{key}") for key in QUEUE}
        fingerprint_of["driver_queue_depth"] = system.read(f"{whole}/device/queue_depth")
        fingerprint_of["iscsi"] = _iscsi(whole, system)
    if facts.get("mount_point"):
        mount = mounts.mounted_at(mounts.parse(system.read(mounts.TABLE) or ""), facts["mount_point"])
        fingerprint_of["mount_options"] = mounts.without_user(mount["options"]) if mount else None
        if mount and mount["filesystem"].startswith("nfs") and "nconnect=" in mount["options"]:
            # The option says how many were asked for.
            fingerprint_of["nfs_connections"] = nfs_connections(system.read(MOUNT_STATS) or "", mount["mount_point"])
    return _known(fingerprint_of)


def of_others(path: str, system: System) -> dict[str, Any]:
    """Facts that storage of others states about itself: over SCSI (INQUIRY, block limits, thin provisioning, ALUA), over NFS and over SMB."""
    facts = inspect(path, system=system)
    if facts["type"] == "block":
        return _known(scsi_statement(f"/sys/block/{os.path.basename(facts['whole_device'])}", system))
    if str(facts.get("filesystem", "")).startswith("nfs"):
        return _known({"nfs": nfs_statement(system.read(MOUNT_STATS) or "", str(facts["mount_point"]))})
    if facts.get("filesystem") in ("cifs", "smb3"):
        return _known({"smb": smb_statement(system.read(CIFS_DATA) or "", str(facts.get("source")))})
    return {}


def scsi_statement(whole: str, system: System) -> dict[str, dict[str, str | None]]:
    """Answers of a disk to INQUIRY, about its paths, its provisioning and its limits, as the kernel keeps them. whole: its folder in sysfs."""
    disk = next((f"{whole}/device/scsi_disk/{name}" for name in system.names(f"{whole}/device/scsi_disk")), None)
    return {
        "inquiry": {key: system.read(f"{whole}/device/{key}") for key in INQUIRY},
        "alua": {key: system.read(f"{whole}/device/{key}") for key in ALUA},
        "provisioning": {key: system.read(f"{disk}/{key}") for key in PROVISIONING} if disk else {},
        "limits": {key: system.read(f"{whole}/queue/{key}") for key in LIMITS},
    }


def nfs_statement(text: str, mount_point: str) -> dict[str, str]:
    """Capabilities, security and implementation of the server of a mount, of /proc/self/mountstats (nfs_show_stats in fs/nfs/super.c)."""
    lines = dict(re.findall(r"^\s+(caps|sec|nfsv4|impl_id):\s*(.*)$", _of_nfs_mount(text, mount_point), re.MULTILINE))
    # The rest of a lease differs at every look.
    return {key: re.sub(r",lease_expired=[^,]*", "", value) for key, value in lines.items() if value}


def nfs_connections(text: str, mount_point: str) -> int:
    """The connections of a mount, each a line of /proc/self/mountstats (rpc_clnt_show_stats in net/sunrpc/stats.c); 0 when it is not there."""
    return len(re.findall(r"^\s+xprt:", _of_nfs_mount(text, mount_point), re.MULTILINE))


def _of_nfs_mount(text: str, mount_point: str) -> str:
    """The lines of a mount in /proc/self/mountstats. The last mount on a mount point is the one that is seen."""
    head = rf"^device .* mounted on {re.escape(mount_point)} with fstype nfs\S*.*\n"
    return next(reversed(re.findall(rf"{head}((?:[ \t]+.*\n?)*)", text, re.MULTILINE)), "")


def smb_statement(text: str, source: str) -> dict[str, str]:
    """Dialect, signing, encryption and channels of a share, of /proc/fs/cifs/DebugData (cifs_debug_data_proc_show in fs/smb/client/cifs_debug.c).

    source: as the mount table has it, //server/share with a folder behind it.
    """
    share = "\\".join(["", *source.split("/")[1:4]]).lower()
    for server in re.split(r"^(?=\d+\) )", text, flags=re.MULTILINE)[1:]:
        head, *sessions = re.split(r"^\t(?=\d+\) (?:Address|Name): )", server, flags=re.MULTILINE)
        for session in sessions:
            shares = re.findall(r"^\t\d+\) (\\\\.+?) Mounts: \d+ (.*\n.*)$", session, re.MULTILINE)
            mount = next((more for name, more in shares if name.lower() == share), None)
            dialect = re.search(r"\bDialect (0x[0-9a-f]+)(.*)", head)
            if mount is None or dialect is None:
                continue
            security = re.search(r"Security type: (\S+)(.*)", session)
            of_session = security[2] if security else ""
            channels = re.search(r"Extra Channels: (\d+)", session)
            interfaces = re.search(r"Server interfaces: (\d+)", session)
            guest = re.search(r"Session Status: \d+ (Guest|Anonymous)", session)
            return {
                "dialect": dialect[1],
                "signed": "yes" if " signed" in dialect[2] + of_session else "no",
                "encrypted": "yes" if " encrypted" in of_session or " Encrypted" in mount else "no",
                "channels": str(1 + int(channels[1]) if channels else 1),
                **({"server_interfaces": interfaces[1]} if interfaces else {}),
                **({"security": security[1]} if security else {}),
                **({"logged_in_as": guest[1].lower()} if guest else {}),
            }
    return {}


def network(system: System) -> dict[str, Any]:
    """{interface: {mtu, speed_mbit_s, driver}} of interfaces with hardware, be it virtual, and of bonds; without interfaces that programs make and rename."""
    interfaces = {}
    for name in system.names("/sys/class/net"):
        folder = f"/sys/class/net/{name}"
        driver = system.read_link(f"{folder}/device/driver")
        bond = bool(system.names(f"{folder}/bonding"))
        if not driver and not bond:
            continue
        speed = system.read(f"{folder}/speed")
        interfaces[name] = {
            "mtu": system.read(f"{folder}/mtu"),
            # -1 is what a driver says that does not know.
            "speed_mbit_s": speed if speed and speed.isdigit() else None,
            "driver": os.path.basename(driver) if driver else "bonding",
        }
    return interfaces


def _iscsi(whole: str, system: System) -> dict[str, object]:
    """The agreement for the session through which a disk is reached; empty where it is not a disk of iSCSI."""
    session = re.search(r"/session(\d+)/", system.resolve(whole))
    if not session:
        return {}
    places = (
        (f"/sys/class/iscsi_session/session{session[1]}", ISCSI_SESSION),
        (f"/sys/class/iscsi_connection/connection{session[1]}:0", ISCSI_CONNECTION),
    )
    return {key: system.read(f"{place}/{key}") for place, keys in places for key in keys}


def _known(facts: Mapping[str, object]) -> dict[str, object]:
    """Without the values that the host did not have, at every depth."""
    return {
        key: _known(value) if isinstance(value, dict) else value
        for key, value in facts.items()
        if value not in (None, "", {})
    }


def _cpu(system: System) -> dict[str, object]:
    text = system.read("/proc/cpuinfo") or ""
    folder = "/sys/devices/system/cpu"
    vulnerable = system.names(f"{folder}/vulnerabilities")
    return {
        "model": processor(text),
        "cores": os.cpu_count(),
        "governor": system.read(f"{folder}/cpu0/cpufreq/scaling_governor"),
        "idle_driver": system.read(f"{folder}/cpuidle/current_driver"),
        "idle_governor": system.read(f"{folder}/cpuidle/current_governor"),
        "microcode": (re.search(r"^microcode\s*:\s*(.+)$", text, re.MULTILINE) or ["", None])[1],
        "mitigations": {name: system.read(f"{folder}/vulnerabilities/{name}") for name in vulnerable},
    }


def processor(text: str) -> str | None:
    """The processor as /proc/cpuinfo names it, which each architecture does in its own way; several kinds in one machine are all named."""
    fields = re.findall(r"^(\S[^:\n]*?)[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE)
    for key in ("model name", "cpu model", "cpu"):
        names = [value for name, value in fields if name == key]
        if names:
            return " + ".join(dict.fromkeys(names))
    # ARM says numbers, which its manuals write as r3p1.
    line = r"^CPU implementer\s*: (\w+)\n(?:.+\n)*?CPU variant\s*: (\w+)\nCPU part\s*: (\w+)\nCPU revision\s*: (\d+)$"
    parts = [
        f"ARM implementer {implementer}, part {part}, r{int(variant, 16)}p{revision}"
        for implementer, variant, part, revision in re.findall(line, text, re.MULTILINE)
    ]
    parts = parts or [
        f"IBM/S390 machine {machine}"
        for machine in re.findall(r"^processor \d+:.*machine = (\w+)$", text, re.MULTILINE)
    ]
    boards = [value for name, value in fields if name == "Model"]
    return " + ".join(dict.fromkeys(parts or boards)) or None


def _memory(system: System) -> object:
    match = re.search(r"^MemTotal:\s+(\d+) kB", system.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _distribution(system: System) -> object:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', system.read("/etc/os-release") or "", re.MULTILINE)
    return match.group(1) if match else None


def _virtualisation(system: System) -> dict[str, object]:
    text = system.read("/proc/cpuinfo") or ""
    return {
        "guest": _is_guest(system, text),
        # QEMU names its software processor so. Figures of an emulated machine say nothing about real hardware.
        "emulated": "QEMU TCG" in text,
        "vendor": system.read("/sys/class/dmi/id/sys_vendor"),
        "product": system.read("/sys/class/dmi/id/product_name"),
    }


def _is_guest(system: System, cpuinfo: str) -> bool:
    """Whether this is a virtual machine: x86 has a flag for it, POWER a platform, s390x a line, others have nodes and makers that only guests see."""
    if re.search(r"^flags\s*:.*\bhypervisor\b|^platform\s*: pSeries\b", cpuinfo, re.MULTILINE):
        return True
    if system.names("/proc/device-tree/hypervisor") or "VM00 Control Program" in (system.read("/proc/sysinfo") or ""):
        return True
    vendor, product = (system.read(f"/sys/class/dmi/id/{key}") or "" for key in ("sys_vendor", "product_name"))
    # Amazon's machines without a hypervisor have its name, too.
    rented = vendor == "Amazon EC2" and ".metal" not in product
    return rented or vendor.startswith(GUEST_MAKERS) or product.startswith(GUEST_MAKERS)


def _version(printed: str) -> str:
    """The line with the version: some programs print their name before it, and how they were built behind it."""
    lines = [line.strip(" *\t") for line in printed.strip().splitlines()]
    return next((line for line in lines if re.search(r"\d", line)), printed.strip())


def _engine(system: System, path: str) -> dict[str, object]:
    """A supervisor that stays between the turns of its host asks once, as long as the file is the same: an emulated processor takes a second for it."""
    status = os.stat(path)
    stamp = (path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    engine = _engines.get(stamp) or _engine_of_file(system, path)
    if engine["version"]:
        _engines[stamp] = engine
    return dict(engine)


_engines: dict[tuple[str | int, ...], dict[str, object]] = {}


def _engine_of_file(system: System, path: str) -> dict[str, object]:
    done = system.run([path, "--version"])
    with open(path, "rb") as handle:
        digest = hashlib.sha256(handle.read()).hexdigest()
    return {
        "name": os.path.basename(path),
        "version": _version(done[1]) if done else None,
        "path": path,
        "sha256": digest,
    }
