# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role esxi_network with the real modules of community.vmware against a simulated ESXi. What has happened is read with pyVmomi."""

from __future__ import annotations

import contextlib
import io
import json
import os
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_network
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
from places import ROOT
from unchanged import unchanged

PASSWORD = "sl-esxsim-pw-4417"
# UPSTREAM_COLLECTIONS=folder has the modules of another community.vmware than the one that is installed.
UPSTREAM = os.environ.get("UPSTREAM_COLLECTIONS", "").split()
SWITCH = {"name": "storage", "uplinks": ["vmnic2", "vmnic3"], "mtu": 9000}
FIRST = {
    "port_group": "storage-a",
    "switch": "storage",
    "uplink": "vmnic2",
    "address": "192.0.2.21/24",
    "vlan": 31,
    "mtu": 8000,
}
SECOND = {"port_group": "storage-b", "switch": "storage", "uplink": "vmnic3", "address": "192.0.2.22/25", "mtu": 9000}


class Host:
    def __init__(self, home: Path, ready: dict):
        self.home, self.ready = home, ready
        name, port = ready["address"].split(":")
        self.login = {
            "hostname": name,
            "port": int(port),
            "username": "root",
            "password": PASSWORD,
            "thumbprint": ready["thumbprint"],
        }
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=name, port=int(port), user="root", pwd=PASSWORD, sslContext=context)
        content = self.instance.RetrieveContent()
        hosts = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view
        self.hosts = sorted(hosts, key=lambda host: host.name)
        self.changes = esxsim_process.changes(ready)

    def system(self, number: int = 0):
        return self.hosts[number].configManager.networkSystem

    def network(self, number: int = 0) -> dict:
        """Everything that a user sees of the host's network."""
        info = self.system(number).networkInfo
        groups = {}
        for group in info.portgroup:
            order = group.computedPolicy.nicTeaming.nicOrder
            groups[group.spec.name] = (
                group.spec.vswitchName,
                group.spec.vlanId,
                list(order.activeNic),
                list(order.standbyNic),
            )
        return {
            "switches": {switch.name: (list(switch.spec.bridge.nicDevice), switch.mtu) for switch in info.vswitch},
            "groups": groups,
            "nics": {
                nic.device: (nic.spec.portgroup, nic.spec.ip.ipAddress, nic.spec.ip.subnetMask, nic.spec.mtu)
                for nic in info.vnic
            },
        }

    def settings(self, number: int = 0) -> tuple:
        """Power policy, time servers, and whether the time service runs and how it is started."""
        manager = self.hosts[number].configManager
        ntpd = next(each for each in manager.serviceSystem.serviceInfo.service if each.key == "ntpd")
        servers = list(manager.dateTimeSystem.dateTimeInfo.ntpConfig.server)
        return manager.powerSystem.info.currentPolicy.shortName, servers, ntpd.running, ntpd.policy

    def serve(self, servers: list, number: int = 0) -> None:
        """Have the host's clock go by these servers, as its administrator would."""
        config = vim.host.DateTimeConfig(ntpConfig=vim.host.NtpConfig(server=servers))
        self.hosts[number].configManager.dateTimeSystem.UpdateDateTimeConfig(config=config)

    def play(
        self,
        state: str,
        *arguments: str,
        switches=(SWITCH,),
        ports=(FIRST, SECOND),
        login=None,
        number: int = 0,
        **settings,
    ):
        """Play the role; (counts, failures). What it warned of is kept as ``warned``."""
        login = {**(login or self.login), "esxi_host": self.hosts[number].name}
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable},
            "module_defaults": {"group/storlab.testbed.esxi": login},
            "roles": [
                {
                    "role": "storlab.testbed.esxi_network",
                    "vars": {
                        "esxi_network_state": state,
                        "esxi_network_testbed_id": "tb-net",
                        "esxi_network_state_dir": str(self.home / "state"),
                        "esxi_network_login": login,
                        "esxi_network_switches": list(switches),
                        "esxi_network_ports": list(ports),
                        "esxi_network_wait_s": 5,
                        **{f"esxi_network_{name}": value for name, value in settings.items()},
                    },
                }
            ],
        }
        book = self.home / "play.json"
        book.write_text(json.dumps([play]))
        done = subprocess.run(
            ["ansible-playbook", "-i", "localhost,", str(book), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([*UPSTREAM, str(ROOT / ".cache" / "collections")]),
            },
        )
        assert PASSWORD not in done.stdout + done.stderr
        document = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]
        results = [
            task["hosts"]["localhost"]
            for each in document["plays"]
            for task in each["tasks"]
            if task["hosts"].get("localhost")
        ]
        failed = [result for result in results if result.get("failed")]
        self.warned = [str(text) for result in results for text in result.get("warnings", [])]
        return document["stats"]["localhost"], failed

    def built(self, *arguments: str, **changes) -> int:
        """Play the role to an end that is good; how many tasks changed something."""
        counts, failed = self.play("present", *arguments, **changes)
        assert not failed, [each["msg"] for each in failed]
        return counts["changed"]

    def answer(
        self, state: str = "present", switches=(SWITCH,), ports=(FIRST, SECOND), login=None, check=False, **settings
    ) -> dict:
        """What the role's first task, which alone looks at what is asked for, says to it. It plans only."""
        given = {
            **(login or self.login),
            "testbed_id": "tb-net",
            "state": state,
            "state_dir": str(self.home / "state"),
            "switches": list(switches),
            "ports": list(ports),
            **settings,
            "_ansible_check_mode": check,
            "_ansible_remote_tmp": str(self.home),
        }
        output = io.StringIO()
        with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
            esxi_network.main()
        return json.loads(output.getvalue())

    def refused(self, *arguments, **changes) -> dict:
        self.changes()  # begins to count
        with unchanged(self.changes, self.network, self.settings):
            answer = self.answer(*arguments, **changes)
        assert answer.get("failed"), answer
        return {**answer["failure"], "msg": answer["msg"]}

    def order(self, path: str, **asked) -> None:
        request = urllib.request.Request(
            f"http://{self.ready['control']}/{path}", data=json.dumps(asked).encode(), method="POST"
        )
        urllib.request.urlopen(request, timeout=30).read()  # noqa: S310


@pytest.fixture
def host(tmp_path):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD) as ready:
        found = Host(tmp_path, ready)
        yield found
        Disconnect(found.instance)


@pytest.mark.long
def test_a_network_is_made_as_described_once_and_taken_away_to_the_last_port_group(host):
    before = host.network()
    counts, _ = host.play("present", "--check")
    assert counts["changed"] == 1
    assert host.network() == before
    assert not (host.home / "state" / "esxi" / "network-tb-net-localhost.localdomain.json").exists()
    assert host.built() > 0
    made = host.network()
    assert made["switches"]["storage"] == (["vmnic2", "vmnic3"], 9000)
    assert made["groups"]["storage-a"] == ("storage", 31, ["vmnic2"], [])
    assert made["groups"]["storage-b"] == ("storage", 0, ["vmnic3"], [])
    assert made["nics"]["vmk1"] == ("storage-a", "192.0.2.21", "255.255.255.0", 8000)
    assert made["nics"]["vmk2"] == ("storage-b", "192.0.2.22", "255.255.255.128", 9000)
    assert {key: made["nics"][key] for key in before["nics"]} == before["nics"]
    host.changes()
    assert host.built() == 0
    assert (host.changes(), host.network()) == ({}, made)
    counts, failed = host.play("absent", "--check")
    assert (counts["changed"], failed, host.network()) == (1, [], made)
    assert host.play("absent")[1] == []
    assert host.network() == before
    counts, failed = host.play("absent")
    assert (counts["changed"], failed) == (0, [])
    assert not list((host.home / "state" / "esxi").glob("network-*"))


@pytest.mark.long
def test_what_is_described_anew_is_changed_in_an_order_that_the_host_takes(host):
    """It refuses an interface with a larger MTU than its switch, and an uplink in use that leaves the switch."""
    before = host.network()
    host.built(ports=[SECOND])
    port = {**SECOND, "uplink": "vmnic2", "mtu": 1580, "address": "192.0.2.99/24"}
    host.built(switches=[{**SWITCH, "uplinks": ["vmnic2"], "mtu": 1600}], ports=[port])
    assert host.network()["switches"]["storage"] == (["vmnic2"], 1600)
    assert host.network()["groups"]["storage-b"] == ("storage", 0, ["vmnic2"], [])
    assert host.network()["nics"]["vmk1"] == ("storage-b", "192.0.2.99", "255.255.255.0", 1580)
    host.built(ports=[FIRST])
    assert set(host.network()["groups"]) == {*before["groups"], "storage-a"}
    assert host.network()["switches"]["storage"] == (["vmnic2", "vmnic3"], 9000)
    host.play("absent")
    assert host.network() == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"switches": [{"name": "storage", "uplinks": ["vmnic0"]}], "ports": []}, "vmnic0"),
        (
            {"switches": [], "ports": [{**FIRST, "port_group": "Management Network", "switch": "vSwitch0", "uplink": "vmnic0", "mtu": 1500}]},
            "vmk0",
        ),
        ({"switches": [SWITCH], "ports": [{**FIRST, "address": "127.0.0.1/8"}]}, "127.0.0.1"),
    ],
    ids=["its last uplink", "its port group", "its address"],
)  # fmt: skip
def test_the_management_network_is_never_touched(host, changes, named):
    failure = host.refused(**changes)
    assert failure["code"] == "management_network"
    assert named in failure["msg"] and "management network" in failure["msg"]


def test_a_port_group_beside_the_management_network_leaves_its_switch_as_it_is(host):
    before = host.network()
    host.built(switches=[], ports=[{**FIRST, "switch": "vSwitch0", "uplink": "vmnic0", "mtu": 1500}])
    assert host.network()["switches"] == before["switches"]
    assert host.network()["nics"]["vmk0"] == before["nics"]["vmk0"]
    host.play("absent")
    assert host.network() == before


def foreign_group(host, **changes) -> None:
    order = vim.host.NetworkPolicy.NicTeamingPolicy(
        nicOrder=vim.host.NetworkPolicy.NicOrderPolicy(activeNic=changes.pop("active", ["vmnic2"]))
    )
    policy = vim.host.NetworkPolicy(nicTeaming=order)
    spec = {"name": "storage-a", "vlanId": 31, "vswitchName": "storage", "policy": policy, **changes}
    host.system().AddPortGroup(portgrp=vim.host.PortGroup.Specification(**spec))


def test_what_was_there_before_is_used_and_stays(host):
    bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=["vmnic2", "vmnic3"])
    host.system().AddVirtualSwitch(
        "storage", vim.host.VirtualSwitch.Specification(numPorts=64, mtu=9000, bridge=bridge)
    )
    foreign_group(host)
    before = host.network()
    host.built()
    assert host.network()["nics"]["vmk1"][0] == "storage-a"
    host.play("absent")
    assert host.network() == before


def test_what_was_there_before_and_is_otherwise_is_refused(host):
    bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=["vmnic2", "vmnic3"])
    host.system().AddVirtualSwitch(
        "storage", vim.host.VirtualSwitch.Specification(numPorts=64, mtu=8500, bridge=bridge)
    )
    failure = host.refused()
    assert failure["code"] == "network_foreign" and "8500" in failure["msg"]
    foreign_group(host, active=["vmnic2", "vmnic3"])
    failure = host.refused(switches=[], ports=[{**FIRST, "switch": "storage"}])
    assert failure["code"] == "network_foreign" and "storage-a" in failure["msg"]


def test_a_switch_on_which_others_have_put_something_stays(host):
    host.built(ports=[])
    foreign_group(host, name="theirs")
    failure = host.refused("absent")
    assert failure["code"] == "in_use" and "theirs" in failure["msg"]
    host.system().RemovePortGroup("theirs")
    assert host.play("absent")[1] == []
    assert "storage" not in host.network()["switches"]


def test_a_build_that_broke_off_goes_on_and_is_taken_away_whole(host):
    before = host.network()
    host.order("fault", method="AddVirtualNic", fault="HostConfigFault", times=1, skip=1)
    _counts, failed = host.play("present")
    assert len(failed) == 1
    assert [name for name in host.network()["nics"] if name not in before["nics"]] == ["vmk1"]
    host.order("clear")
    assert host.play("absent")[1] == []
    assert host.network() == before
    host.order("fault", method="AddPortGroup", fault="HostConfigFault", times=1, skip=1)
    assert len(host.play("present")[1]) == 1
    host.order("clear")
    host.built()
    assert {"vmk1", "vmk2"} < set(host.network()["nics"])
    host.play("absent")
    assert host.network() == before


def test_the_modules_of_others_check_the_certificate_that_is_pinned(host):
    """Another one with the right name is refused; so is the right one under another name, which they would look at."""
    login = {**host.login, "thumbprint": "ab" * 32}
    assert host.refused(login=login)["code"] == "certificate_untrusted"
    failure = host.refused(login={**host.login, "hostname": "127.0.0.1"})
    assert failure["code"] == "certificate_untrusted" and "community.vmware" in failure["msg"]


@pytest.mark.long
def test_hosts_of_one_vcenter_have_port_groups_of_the_same_name(tmp_path):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, "vpx") as ready:
        lab = Host(tmp_path, ready)
        before = [lab.network(0), lab.network(1)]
        lab.built(number=1)
        assert lab.network(0) == before[0]
        lab.built(number=0, ports=[{**SECOND, "address": "192.0.2.23/24"}])
        assert lab.network(0)["nics"]["vmk1"][1] == "192.0.2.23"
        assert lab.network(1)["nics"]["vmk2"][1] == "192.0.2.22"
        lab.play("absent", number=1)
        assert "storage-b" in lab.network(0)["groups"]
        lab.play("absent", number=0)
        assert [lab.network(0), lab.network(1)] == before
        Disconnect(lab.instance)


BARE = {"switches": [], "ports": []}
WANTED = {"power_policy": "high-performance", "ntp_servers": ["192.0.2.5", "time.lab.example"]}


def test_policy_and_clock_are_set_once_and_given_back(host):
    """On a host whose clock goes by nothing, so that an empty list is what is given back."""
    before = host.settings()
    assert before == ("dynamic", [], False, "off")
    host.changes()
    counts, failed = host.play("present", "--check", **BARE, **WANTED)
    assert (counts["changed"], failed, host.settings(), host.changes()) == (1, [], before, {})
    record = host.home / "state" / "esxi" / "network-tb-net-localhost.localdomain.json"
    assert not record.exists()
    assert host.built(**BARE, **WANTED) > 0
    assert host.settings() == ("static", ["192.0.2.5", "time.lab.example"], True, "on")
    host.changes()
    assert host.built(**BARE, **WANTED) == 0
    assert host.changes() == {}
    assert host.answer("absent", **BARE, check=True)["changed"]
    assert host.play("absent")[1] == []
    assert (host.settings(), host.warned) == (before, [])
    assert not host.answer("absent", **BARE, check=True)["changed"]
    assert not record.exists()


def test_a_clock_that_goes_already_is_put_right_and_what_others_change_is_left(tmp_path):
    """The second host of a vCenter: its service runs, so that it must read the servers anew."""
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, "vpx") as ready:
        lab = Host(tmp_path, ready)
        services = lab.hosts[1].configManager.serviceSystem
        services.UpdateServicePolicy(id="ntpd", policy="automatic")
        services.StartService(id="ntpd")
        lab.serve(["192.0.2.9"], 1)
        before = [lab.settings(0), lab.settings(1)]
        lab.changes()
        assert lab.built(number=1, **BARE, **WANTED) > 0
        assert lab.changes() == {"ConfigurePowerPolicy": 1, "UpdateDateTimeConfig": 1, "RestartService": 1}
        assert lab.settings(1) == ("static", ["192.0.2.5", "time.lab.example"], True, "automatic")
        assert lab.settings(0) == before[0]
        # Somebody else saves power by now.
        lab.hosts[1].configManager.powerSystem.ConfigurePowerPolicy(key=3)
        lab.changes()
        assert lab.play("absent", number=1)[1] == []
        assert lab.settings(1) == ("low", *before[1][1:])
        assert lab.changes() == {"UpdateDateTimeConfig": 1, "RestartService": 1}
        assert [
            text for text in lab.warned if "low-power" in text and "high-performance" in text and "balanced" in text
        ]
        assert not list((lab.home / "state" / "esxi").glob("network-*"))
        Disconnect(lab.instance)


def test_a_clock_that_was_set_half_is_given_back(host):
    """The servers are there and the service has not started when it breaks off."""
    before = host.settings()
    host.order("fault", method="StartService", fault="HostConfigFault", times=1)
    _counts, failed = host.play("present", **BARE, ntp_servers=["192.0.2.5"])
    assert len(failed) == 1 and "start the time service" in failed[0]["msg"]
    assert host.settings()[1:3] == (["192.0.2.5"], False)
    host.order("clear")
    (step,) = host.answer(**BARE, ntp_servers=["192.0.2.5"], check=True)["steps"]
    assert step["target"] == "time service"
    assert host.play("absent")[1] == []
    assert host.settings() == before


def test_settings_that_cannot_be_or_belong_to_another_testbed_are_refused(host):
    failure = host.refused(**BARE, ntp_servers=["192.0.2.5", "nowhere at all"])
    assert failure["code"] == "bad_value" and "nowhere at all" in failure["msg"]
    record = host.home / "state" / "esxi" / "network-other-localhost.localdomain.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    setting = {"power_policy": {"was": "low-power", "ours": ["balanced"], "done": True}}
    name = host.hosts[0].name
    record.write_text(json.dumps({"settings": setting, "host": name, "testbed_id": "other"}))
    failure = host.refused(**BARE, power_policy="high-performance")
    assert failure["code"] == "setting_foreign" and "other" in failure["msg"] and "balanced" in failure["msg"]
    # What the other has set may be wanted alike; then it is the other that gives it back.
    assert not host.answer(**BARE, power_policy="balanced")["changed"]
    record.write_text(json.dumps({"settings": setting, "host": f"{name}.example", "testbed_id": "other"}))
    assert host.answer(**BARE, power_policy="high-performance", check=True)["changed"]
