# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a host reaches another one: sockets that answer as a test says, so that no packet leaves and no right is needed."""

from __future__ import annotations

import socket as real
import struct
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import probe

PEER = "192.0.2.7"


class Raw:
    """A raw socket whose network lets packets of ``most`` bytes pass, after what strangers sent; noise: {sender, kind} before each answer."""

    def __init__(self, most: int = 1500, noise: tuple = (), silent: bool = False, denied: bool = False) -> None:
        self.most, self.noise, self.silent, self.denied, self.answers, self.sizes = most, noise, silent, denied, [], []

    def __call__(self, *_kind):
        if self.denied:
            raise PermissionError(1, "Operation not permitted")
        return self

    def close(self) -> None:
        pass

    def settimeout(self, seconds) -> None:
        assert seconds > 0

    def setsockopt(self, level, option, value) -> None:
        assert (level, option, value) == (real.IPPROTO_IP, 10, 2)

    def sendto(self, body, address) -> None:
        assert address == (PEER, 0) and probe.checksum(body) == 0
        self.sizes.append(len(body) + 20)
        if self.sizes[-1] > self.most:
            raise OSError(90, "Message too long")
        header = b"\x46" + bytes(23)  # six words: one of options
        self.answers = [(header + bytes([kind]) + bytes(3) + body[4:8], (sender, 0)) for sender, kind in self.noise]
        if not self.silent:
            self.answers.append((header + b"\x00" + bytes(3) + body[4:8], (PEER, 0)))

    def recvfrom(self, _size):
        if not self.answers:
            raise TimeoutError("timed out")
        return self.answers.pop(0)


def network(monkeypatch, answers) -> None:
    names = {
        name: getattr(real, name)
        for name in ("AF_INET", "SOCK_RAW", "SOCK_DGRAM", "IPPROTO_ICMP", "IPPROTO_IP", "inet_ntoa")
    }
    monkeypatch.setattr(probe, "socket", SimpleNamespace(**names, socket=answers))


@pytest.mark.parametrize(
    ("answers", "passes"),
    [
        (Raw(most=9000), True),
        (Raw(most=1500), False),
        (Raw(silent=True), None),
        (Raw(denied=True), None),
        # Answers of others, and what is no answer to an echo, are passed over.
        (Raw(most=9000, noise=(("192.0.2.9", 0), (PEER, 3))), True),
        (Raw(silent=True, noise=(("192.0.2.9", 0), (PEER, 3))), None),
    ],
)
def test_whether_a_packet_passes_whole(monkeypatch, answers, passes):
    network(monkeypatch, answers)
    assert probe.packet_passes(PEER, 9000) is passes
    assert answers.sizes == {True: [36, 9000], False: [36, 9000], None: [] if answers.denied else [36]}[passes]


def test_no_answer_within_the_time(monkeypatch):
    network(monkeypatch, Raw())
    assert probe.packet_passes(PEER, 1500, timeout_s=0) is None


def test_a_device_by_its_size(monkeypatch):
    texts = {"/sys/class/block/sdq/size": "2048", "/sys/class/block/sdq/queue/logical_block_size": "4096"}
    monkeypatch.setattr(probe, "read_text", lambda path, default=None: texts.get(path, default))
    monkeypatch.setattr(probe.os.path, "isdir", lambda path: path == "/sys/class/block/sdq")
    assert probe.device("/dev/sdq") == {"size_bytes": 1 << 20, "sector_bytes": 4096}
    assert probe.device("/dev/sdr") == {}


class Datagram:
    """A socket by which the kernel says from which of its addresses it would send."""

    def __init__(self, own: str | None) -> None:
        self.own = own

    def __call__(self, *_kind):
        return self

    def close(self) -> None:
        pass

    def fileno(self) -> int:
        return 3

    def connect(self, address) -> None:
        if self.own is None:
            raise OSError(101, "Network is unreachable")
        assert address == (PEER, 9)

    def getsockname(self):
        return self.own, 4711


@pytest.mark.parametrize(
    ("own", "expected"), [("192.0.2.1", 9000), ("192.0.2.2", 1400), ("192.0.2.3", 1400), (None, 1400)]
)
def test_the_interface_that_leads_there(monkeypatch, own, expected):
    import fcntl

    def of_interface(_handle, _number, request):
        name = request.rstrip(b"\0").decode()
        if name == "eth9":
            raise OSError(99, "Cannot assign requested address")
        return bytes(20) + real.inet_aton({"eth0": "192.0.2.1", "eth1": "192.0.2.2"}[name]) + bytes(232)

    network(monkeypatch, Datagram(own))
    monkeypatch.setattr(fcntl, "ioctl", of_interface)
    interfaces = {"eth9": 1500, "eth0": 9000, "eth1": 1400}
    assert probe._mtu_towards(PEER, interfaces) == expected
    assert struct.calcsize("256s") == 256 and probe._mtu_towards(PEER, {}) == 1500


def test_peers_are_told_with_what_passes(monkeypatch):
    ways = {"192.0.2.7": "open", "192.0.2.8": "filtered", "fd00::7": "open"}
    monkeypatch.setattr(probe, "reach", lambda address, _port: ways[address])
    monkeypatch.setattr(probe, "mtus", lambda: {"eth0": 400})
    monkeypatch.setattr(probe, "_mtu_towards", lambda address, _interfaces: 400)
    asked = []
    monkeypatch.setattr(probe, "packet_passes", lambda address, size: asked.append((address, size)) or True)
    monkeypatch.setattr(probe, "module_available", lambda name: name == "b")
    result = probe.probe(
        ["sh", "no-such-program"], ["a|b", "a|c"], [{"address": address, "port": 3} for address in ways], ["/dev/none"]
    )
    assert [(peer["way"], peer["mtu_passes"]) for peer in result["peers"]] == [
        ("open", True),
        ("filtered", None),
        ("open", None),
    ]
    # Every network carries 576 bytes.
    assert asked == [("192.0.2.7", 576)]
    assert (result["missing_commands"], result["missing_modules"]) == (["no-such-program"], ["a|c"])
    assert result["devices"] == {"/dev/none": {}}
