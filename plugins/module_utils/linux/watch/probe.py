# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts on a Linux host that a testbed needs: commands, kernel modules, memory, addresses, and how it reaches others. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import struct
import sys
import time
from typing import Any

from .. import memory_limits
from ..host import module_available, read_text

PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
PACKAGE_MANAGERS = ("apt-get", "dnf", "yum", "zypper", "apk")
ICMP_HEADERS_BYTES = 28
# Not in Python's socket module everywhere.
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2


def local_addresses(fib_trie: str) -> list[Any]:
    """The host's own IPv4 addresses, without loopback, as the text of /proc/net/fib_trie has them."""
    addresses = re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", fib_trie)
    return sorted({address for address in addresses if not address.startswith("127.")}, key=addresses.index)


def memory_mib(meminfo: str) -> tuple[Any, ...]:
    """(total, available) of the text of /proc/meminfo."""
    values = dict(re.findall(r"^(\w+):\s+(\d+) kB", meminfo, re.M))
    return int(values.get("MemTotal", 0)) >> 10, int(values.get("MemAvailable", 0)) >> 10


def mtus(root: str = "/sys/class/net") -> dict[str, Any]:
    """{interface: bytes} of all interfaces but loopback."""
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return {
        name: int(read_text(f"{root}/{name}/mtu", default="0"))
        for name in names
        if name != "lo" and os.path.isfile(f"{root}/{name}/mtu")
    }


def reach(address: str, port: int, timeout_s: float = 2.0) -> str:
    """How a TCP connection goes: open, refused (nobody listens, and nothing is in the way), filtered, or unreachable."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect((address, port))
        except ConnectionRefusedError:
            return "refused"
        except (socket.timeout, TimeoutError):
            return "filtered"
        except OSError:
            return "unreachable"
    return "open"


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet_passes(address: str, size_bytes: int, timeout_s: float = 1.0) -> bool | None:
    """Whether an IPv4 packet of this size comes back unfragmented. None when no one answers at all, or it cannot be tried."""

    def echo(length: int) -> bool:
        body = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, length & 0xFFFF) + b"s" * (
            length - ICMP_HEADERS_BYTES
        )
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)) as raw:
            raw.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            end = time.monotonic() + timeout_s
            try:
                raw.sendto(body, (address, 0))
                while time.monotonic() < end:
                    raw.settimeout(max(0.01, end - time.monotonic()))
                    answer, sender = raw.recvfrom(65535)
                    header = (answer[0] & 15) * 4
                    if sender[0] == address and answer[header] == 0 and answer[header + 4 : header + 8] == body[4:8]:
                        return True
            except OSError:
                return False
        return False

    try:
        if not echo(ICMP_HEADERS_BYTES + 8):
            return None
        return echo(size_bytes)
    except PermissionError:
        return None


def device(path: str) -> dict[str, Any]:
    """The kind of a block device, as far as sysfs shows it; {} when there is none."""
    name = os.path.basename(os.path.realpath(path))
    folder = f"/sys/class/block/{name}"
    if not os.path.isdir(folder):
        return {}
    return {
        "size_bytes": int(read_text(f"{folder}/size", default="0")) * 512,
        "sector_bytes": int(read_text(f"{folder}/queue/logical_block_size", default="512")),
    }


def machine(root: str = "/") -> dict[str, str]:
    """The identity of this machine: ``machine_id``, which clones of one image share, and ``boot_id``, which containers of one machine share.

    Without a machine-id, as on Alpine, the namespace of its processes stands for it: containers have one of their own.
    """
    names = ("etc/machine-id", "var/lib/dbus/machine-id")
    texts = [read_text(os.path.join(root, name), default="").strip() for name in names]
    # systemd leaves the word "uninitialized" there until the first start is over.
    known = next((text for text in texts if re.fullmatch(r"[0-9a-f]{32}", text)), "")
    if not known:
        with contextlib.suppress(OSError):
            known = os.readlink(os.path.join(root, "proc/self/ns/pid"))
    boot_id = read_text(os.path.join(root, "proc/sys/kernel/random/boot_id"), default="").strip()
    return {"machine_id": known, "boot_id": boot_id}


def probe(commands: list[Any], modules: list[Any], peers: list[Any], devices: list[Any]) -> dict[str, Any]:
    """All of it at once, but for disks and folders that are looked for (wanted_disks.py). peers: [{address, port}]."""
    there = memory_limits.memory(read_text)
    interfaces = mtus()
    reached = []
    for peer in peers:
        way = reach(peer["address"], peer["port"])
        passes = None
        if way in ("open", "refused") and ":" not in peer["address"]:
            passes = packet_passes(peer["address"], max(_mtu_towards(peer["address"], interfaces), 576))
        reached.append(
            {**peer, "way": way, "mtu_bytes": _mtu_towards(peer["address"], interfaces), "mtu_passes": passes}
        )
    return {
        **machine(),
        "addresses": local_addresses(read_text("/proc/net/fib_trie", default="")),
        "memory_mib": (there.total_bytes or 0) >> 20,
        "memory_available_mib": (there.available_bytes or 0) >> 20,
        "mtus": interfaces,
        "missing_commands": [name for name in commands if shutil.which(name, path=PATH) is None],
        "missing_modules": [
            "|".join(names)
            for names in (entry.split("|") for entry in modules)
            if not any(map(module_available, names))
        ],
        "package_manager": next((name for name in PACKAGE_MANAGERS if shutil.which(name, path=PATH)), ""),
        "peers": reached,
        "devices": {path: device(path) for path in devices},
        "kvm": os.path.exists("/dev/kvm"),
        "root": os.geteuid() == 0,
        "python": ".".join(map(str, sys.version_info[:3])),
        "kernel": os.uname().release,
        "system": dict(re.findall(r'^(\w+)="?(.*?)"?$', read_text("/etc/os-release", default=""), re.M)).get(
            "PRETTY_NAME", "Linux"
        ),
        "utc_s": time.time(),
    }


def _mtu_towards(address: str, interfaces: dict[str, int]) -> int:
    """The MTU of the interface that leads to the address, as the kernel's routing says."""
    with contextlib.suppress(OSError), contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as way:
        way.connect((address, 9))
        own = way.getsockname()[0]
        for name in interfaces:
            if own in _interface_addresses(name):
                return interfaces[name]
    return min(interfaces.values(), default=1500)


def _interface_addresses(name: str) -> list[object]:
    import fcntl

    with (
        contextlib.suppress(OSError),
        contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as any_socket,
    ):
        # SIOCGIFADDR
        answer = fcntl.ioctl(any_socket.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
        return [socket.inet_ntoa(answer[20:24])]
    return []
