# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import netns
from unchanged import broken_off

NOTHING = {"folder": False, "netns": False, "bridge": False, "addresses": [], "taps": [], "down": []}
WANTED = {"netns": True, "address": "10.213.0.1/24", "taps": ["tap-a", "tap-b"]}
COMPLETE = {
    "folder": True,
    "netns": True,
    "bridge": True,
    "addresses": ["10.213.0.1/24"],
    "taps": ["tap-a", "tap-b"],
    "down": [],
}


def test_two_checkouts_with_a_lab_of_one_name_never_meet():
    one, two = (
        netns.netns_name("embedded", "/home/a/.cache/lab/embedded"),
        netns.netns_name("embedded", "/home/b/.cache/lab/embedded"),
    )
    assert one.startswith("storlab-embedded-")
    assert one != two
    assert one == netns.netns_name("embedded", "/home/a//.cache/lab/embedded/")


def test_the_longest_name_leaves_room_for_a_control_socket():
    name = netns.netns_name("l" * 32, "/x")
    assert len(f"{netns.run_dir(name)}/vm/{'m' * 30}/qmp") <= 107


@pytest.mark.parametrize(
    ("name", "folder", "variable"),
    [
        ("", "/x", "lab name"),
        ("Lab", "/x", "lab name"),
        ("a/../b", "/x", "lab name"),
        ("a" * 33, "/x", "lab name"),
        ("lab", "relative", "lab folder"),
    ],
)
def test_a_name_no_namespace_can_have_is_refused(name, folder, variable):
    with pytest.raises(Failure) as caught:
        netns.netns_name(name, folder)
    assert caught.value.details["variable"] == variable


def test_addresses_of_cards_differ_by_machine_and_stay_the_same():
    addresses = {seed: netns.mac_address(seed) for seed in ("a target01", "a hypervisor01", "b target01")}
    assert len(set(addresses.values())) == 3
    assert all(address.startswith("52:54:00:") and len(address) == 17 for address in addresses.values())
    assert netns.mac_address("a target01") == addresses["a target01"]


def test_a_bridge_address_is_taken_with_its_prefix():
    assert netns.check_address("address", "10.213.0.1/24") == "10.213.0.1/24"


@pytest.mark.parametrize(
    "value",
    ["10.213.0.1", "10.213.0.0/24", "10.213.0.255/24", "10.213.0.1/32", "10.213.0.256/24", "fd00::1/64", "", "bridge"],
)
def test_what_is_no_bridge_address_is_refused(value):
    with pytest.raises(Failure) as caught:
        netns.check_address("address", value)
    assert caught.value.details == {"variable": "address", "value": value}


def test_everything_is_made_where_nothing_is():
    assert netns.plan(NOTHING, WANTED) == [
        ("add namespace",),
        ("add bridge",),
        ("add address", "10.213.0.1/24"),
        ("add tap", "tap-a"),
        ("add tap", "tap-b"),
        ("set up", "lo"),
        ("set up", netns.BRIDGE),
        ("set up", "tap-a"),
        ("set up", "tap-b"),
    ]


def test_nothing_is_done_where_all_is_there():
    assert netns.plan(COMPLETE, WANTED) == []


def test_drift_is_repaired_and_nothing_else_touched():
    drifted = {**COMPLETE, "addresses": ["10.99.0.1/24"], "taps": ["tap-a", "tap-old"], "down": ["lo", "tap-a", "sit0"]}
    assert netns.plan(drifted, WANTED) == [
        ("remove address", "10.99.0.1/24"),
        ("add address", "10.213.0.1/24"),
        ("remove tap", "tap-old"),
        ("add tap", "tap-b"),
        ("set up", "tap-b"),
        ("set up", "lo"),
        ("set up", "tap-a"),
    ]


@pytest.mark.parametrize(
    ("current", "steps"),
    [
        (COMPLETE, [("remove namespace",), ("remove folder",)]),
        ({**NOTHING, "folder": True}, [("remove folder",)]),
        (NOTHING, []),
    ],
)
def test_removing_takes_what_is_there(current, steps):
    assert netns.plan(current, {"netns": False}) == steps


def test_the_state_is_read_from_what_ip_prints():
    links = [
        {"ifname": "lo", "flags": ["LOOPBACK"], "addr_info": []},
        {
            "ifname": netns.BRIDGE,
            "flags": ["BROADCAST", "UP"],
            "addr_info": [
                {"family": "inet", "local": "10.213.0.1", "prefixlen": 24},
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
            ],
        },
        {"ifname": "tap-a", "flags": ["UP"], "master": netns.BRIDGE, "addr_info": []},
        {"ifname": "tap-loose", "flags": ["UP"], "addr_info": []},
    ]
    assert netns.parse_state(links) == {
        "netns": True,
        "bridge": True,
        "addresses": ["10.213.0.1/24"],
        "taps": ["tap-a"],
        "down": ["lo"],
    }


def test_every_command_on_interfaces_runs_inside_the_namespace():
    for step in netns.plan(NOTHING, WANTED)[1:]:
        for argv in netns.commands(step, "storlab-a-1a2b3c"):
            assert argv[:3] == ["nsenter", "--net=/run/storlab/storlab-a-1a2b3c/net", "--"]


def test_an_ordinary_file_is_not_a_namespace(tmp_path):
    (tmp_path / "net").write_text("")
    assert netns.is_namespace(str(tmp_path / "net")) is False
    assert netns.is_namespace(str(tmp_path / "none")) is False
    assert netns.is_namespace("/proc/self/ns/net") is True


def test_without_a_namespace_nothing_is_put_before_a_command():
    assert netns.enter_argv(None) == []
    assert netns.enter_argv("") == []
    assert netns.enter_argv("/run/netns/x") == ["nsenter", "--net=/run/netns/x", "--"]


@pytest.fixture
def slow_server():
    """Its port: it begins to greet in every connection anew, and takes its time; how often it was asked."""
    asked, over = [], threading.Event()

    def greet(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            over.wait(0.4)
            client.sendall(b"SSH-2.0-slow\r\n")

    def serve() -> None:
        while True:
            try:
                client, _address = server.accept()
            except OSError:
                return
            asked.append(client)
            threading.Thread(target=greet, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], asked
        over.set()


def test_a_server_that_is_slow_to_greet_is_waited_for(slow_server):
    """Tries of the same short time would never see the end of it, and take its time away."""
    port, asked = slow_server
    assert netns.wait_for_banner(None, "127.0.0.1", port, time.monotonic() + 60, patience_s=0.05)
    assert len(asked) > 1, "the first try was too short"


def test_a_server_that_greets_otherwise_is_not_the_one(slow_server):
    port, _asked = slow_server
    assert not netns.wait_for_banner(None, "127.0.0.1", port, time.monotonic() + 1, expected="HTTP")


# ---------------------------------------------------------------- the tools


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A tool in place of those of iproute2 and util-linux; it is found by the name that a test gives it."""

    def make(name: str, script: str) -> None:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(netns, "RUN_ROOT", str(tmp_path / "run"))
    return make


def test_a_tool_that_fails_is_told_with_what_it_says(tool):
    tool("lab-ip", 'test "$LC_ALL" = C && test "$1" = link && echo "two lines"; test "$1" = link')
    assert netns.command(["lab-ip", "link"]) == "two lines\n"
    tool("lab-ip", "echo 'RTNETLINK answers: Operation not permitted' >&2; exit 2")
    with broken_off() as caught:
        netns.command(["lab-ip", "link", "add"])
    assert (caught.value.code, caught.value.details["argv"]) == ("network", ["lab-ip", "link", "add"])
    assert "lab-ip link add failed: RTNETLINK answers: Operation not permitted." in str(caught.value)


def test_a_tool_that_is_missing_is_told_with_its_package():
    with pytest.raises(Failure) as caught:
        netns.command(["lab-no-such-tool"])
    assert (caught.value.code, caught.value.details["tool"]) == ("tool_missing", "lab-no-such-tool")
    assert "iproute2" in str(caught.value)


def test_what_is_left_of_a_namespace_after_a_reboot_is_only_its_folder(tool):
    assert netns.read_state("lab-7") == NOTHING
    folder = netns.run_dir("lab-7")
    netns.os.makedirs(folder)
    with open(f"{folder}/net", "w", encoding="utf-8"):
        pass
    assert netns.read_state("lab-7") == {**NOTHING, "folder": True}


def test_a_namespace_that_is_there_is_asked_for_its_links(tool, monkeypatch):
    monkeypatch.setattr(netns, "is_namespace", lambda path: path == netns.namespace_path("lab-7"))
    tool("nsenter", 'test "$3" = ip && echo \'[{"ifname": "lo", "flags": ["UP"]}, {"ifname": "tap-a", "flags": []}]\'')
    state = netns.read_state("lab-7")
    assert (state["folder"], state["netns"], state["bridge"], state["down"]) == (True, True, False, ["tap-a"])
    assert netns.read_state("lab-8")["netns"] is False


def test_folders_are_made_before_a_namespace_and_removed_after_it(tool, monkeypatch):
    calls = []
    monkeypatch.setattr(netns, "command", calls.append)
    monkeypatch.setattr(netns, "close_connections", lambda folder: calls.append(["close", folder]))
    for name in ("lab-7", "lab-8"):
        netns.apply([("add namespace",)], name)
        assert netns.os.path.isfile(netns.namespace_path(name))
        assert netns.os.stat(netns.run_dir(name)).st_mode & 0o77 == 0
    calls.clear()
    netns.apply([("remove namespace",), ("remove folder",)], "lab-7")
    # Connections are closed while their machines may still answer.
    assert calls == [["close", f"{netns.run_dir('lab-7')}/cp"], ["umount", netns.namespace_path("lab-7")]]
    # The folder of all labs goes with the last of them.
    assert netns.os.listdir(netns.RUN_ROOT) == ["lab-8"]
    netns.apply([("remove folder",)], "lab-8")
    assert not netns.os.path.exists(netns.RUN_ROOT)


def test_a_namespace_that_cannot_be_made_stops_the_steps(tool):
    tool("unshare", "echo 'unshare failed: Operation not permitted' >&2; exit 1")
    tool("nsenter", "exit 7")
    with broken_off() as caught:
        netns.apply([("add namespace",), ("add bridge",)], "lab-7")
    assert caught.value.code == "network" and "unshare failed" in str(caught.value)


def test_connections_are_closed_by_their_sockets_and_none_is_left(tool, tmp_path):
    folder = tmp_path / "cp"
    netns.close_connections(str(folder))  # there never was one
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text("", encoding="utf-8")
    # One master removes its socket itself, the other has ended before.
    tool("ssh", f'echo "$4 $6" >> {tmp_path}/asked; test "$4" != {folder}/a || rm {folder}/a')
    netns.close_connections(str(folder))
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == [f"{folder}/a exit", f"{folder}/b exit"]
    assert list(folder.iterdir()) == []


def test_a_namespace_that_may_not_be_entered_is_a_failure_that_says_so(tool, tmp_path, monkeypatch):
    refuses = [True, False, False]
    monkeypatch.setattr(netns.ctypes, "CDLL", lambda *_given, **_how: _Libc(refuses))
    (tmp_path / "net").write_text("", encoding="utf-8")
    with broken_off() as caught, netns.entered(str(tmp_path / "net")):
        raise AssertionError("it was not entered")
    assert caught.value.code == "netns" and "as root" in str(caught.value)
    # It is left again, whatever happens inside.
    with pytest.raises(ZeroDivisionError), netns.entered(str(tmp_path / "net")):
        assert refuses == [False]
        raise ZeroDivisionError
    assert refuses == []


class _Libc:
    """setns(2) of a process that may or may not enter; the answers are taken one after the other."""

    def __init__(self, refuses: list) -> None:
        self.refuses = refuses

    def setns(self, _handle: int, kind: int) -> int:
        assert kind == netns.CLONE_NEWNET
        return -1 if self.refuses.pop(0) else 0
