# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor says what a lab lacks before a build, and the command that mends it."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.action.host_probe import ahead_s
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import doctor
from chain_lab import ESXI, TWO_LINUX, expanded

WELL = {
    "system": "Debian GNU/Linux 12",
    "kernel": "6.1.0-9",
    "root": True,
    "package_manager": "apt-get",
    "missing_commands": [],
    "missing_modules": [],
    "memory_mib": 8000,
    "memory_available_mib": 7000,
    "clock_ahead_s": 0.0,
    "addresses": ["192.0.2.11"],
    "peers": [],
    "devices": {},
    "kvm": True,
}
PEER = {"address": "192.0.2.11", "port": 3260, "way": "refused", "mtu_bytes": 9000, "mtu_passes": True}


def lines(text: str, **probes) -> list:
    return doctor.findings(expanded(text), probes)


def test_needs_of_each_host_follow_from_what_it_does():
    testbed = expanded(TWO_LINUX)
    assert doctor.needs(testbed, "store01") == {
        "commands": ["modprobe", "iscsiadm", "fio", "blkid"],
        "modules": ["brd|zram|loop", "target_core_mod", "iscsi_target_mod", "iscsi_tcp"],
        "peers": [{"address": "192.0.2.11", "port": 3260}],
        "devices": [],
    }
    client = doctor.needs(testbed, "client01")
    assert client["commands"] == ["iscsiadm", "mkfs.ext4", "fio", "blkid"] and client["modules"] == ["iscsi_tcp"]
    tgt = expanded(TWO_LINUX.replace("192.0.2.11}", "192.0.2.11, iscsi_target_provider: tgt}"))
    assert {"tgtd", "tgtadm"} <= set(doctor.needs(tgt, "store01")["commands"])
    # Nor does it log in to itself.
    assert doctor.needs(tgt, "store01")["modules"] == ["brd|zram|loop"]


def test_arrays_need_mdadm_and_the_modules_of_their_levels():
    raid = "kind: raid, raid: {level: 6, members: [{serial: a}, {path: /dev/sdx, serial: b}, {serial: c}, {serial: d}]}"
    needs = doctor.needs(expanded(TWO_LINUX.replace("name: bench, size: 1GiB", f"name: bench, {raid}")), "store01")
    assert "mdadm" in needs["commands"] and "raid456" in needs["modules"] and needs["devices"] == ["/dev/sdx"]
    assert doctor.PACKAGES["mdadm"] == ("mdadm", "mdadm")


def test_cache_tiers_need_dmsetup_and_dm_cache():
    cache = "kind: cache, cache: {origin: {serial: a}, fast: {path: /dev/sdx, serial: b}}"
    needs = doctor.needs(expanded(TWO_LINUX.replace("name: bench, size: 1GiB", f"name: bench, {cache}")), "store01")
    assert "dmsetup" in needs["commands"] and "dm_cache_smq" in needs["modules"] and needs["devices"] == ["/dev/sdx"]
    assert doctor.PACKAGES["dmsetup"] == ("dmsetup", "device-mapper")
    for provider, command, module in (("lvm", "lvm", "dm_cache"), ("bcache", "dmsetup", "bcache")):
        lab = TWO_LINUX.replace(
            "name: bench, size: 1GiB", "name: bench, " + cache.replace("origin", f"provider: {provider}, origin", 1)
        )
        needs = doctor.needs(expanded(lab), "store01")
        assert command in needs["commands"] and module in needs["modules"]
        assert ("dm_cache" in needs["modules"], "lvm" in needs["commands"]) == (provider == "lvm", provider == "lvm")


def test_a_well_lab_lacks_nothing():
    client = {**WELL, "addresses": ["192.0.2.21"], "peers": [PEER]}
    found = lines(TWO_LINUX, store01=WELL, client01=client)
    assert all(line["good"] and not line["command"] for line in found)
    assert doctor.as_markdown(found, [])[-1] == "| client01 | MTU to 192.0.2.11 | yes | 9000 bytes pass unfragmented |"
    assert {line["what"] for line in found if line["host"] == "store01"} == {
        "reached",
        "rights",
        "programs",
        "kernel modules",
        "memory",
        "time",
    }


@pytest.mark.parametrize(
    ("change", "what", "said", "command"),
    [
        (
            {"missing_commands": ["iscsiadm", "fio"]},
            "programs",
            "iscsiadm, fio missing",
            "apt-get install --yes fio open-iscsi",
        ),
        (
            {"missing_commands": ["iscsiadm"], "package_manager": "dnf"},
            "programs",
            "iscsiadm missing",
            "dnf install -y iscsi-initiator-utils",
        ),
        (
            {"missing_modules": ["iscsi_tcp"]},
            "kernel modules",
            "iscsi_tcp missing in 6.1.0-9",
            "apt-get install --yes linux-image-amd64, and start it",
        ),
        (
            {"missing_modules": ["iscsi_tcp"], "system": "Ubuntu 24.04"},
            "kernel modules",
            "iscsi_tcp missing in 6.1.0-9",
            "apt-get install --yes linux-modules-extra-6.1.0-9",
        ),
        (
            {"memory_available_mib": 3000},
            "memory",
            "3000 of 8000 MiB free, RAM disks take 3072 MiB",
            "end what uses memory on store01, or make testbed.disks smaller",
        ),
        (
            {"clock_ahead_s": -7.25},
            "time",
            "-7.2 s off the controller's",
            "timedatectl set-ntp true, or chronyc makestep",
        ),
        ({"root": False}, "rights", "not root", "set ansible_user: root, or ansible_become: true"),
        (
            {"peers": [{**PEER, "way": "filtered", "mtu_passes": None}]},
            "way to 192.0.2.11:3260",
            "no answer: a firewall is in the way",
            "on store01: firewall-cmd --permanent --add-port=3260/tcp && firewall-cmd --reload, or ufw allow 3260/tcp",
        ),
        (
            {"peers": [{**PEER, "way": "unreachable", "mtu_passes": None}]},
            "way to 192.0.2.11:3260",
            "no way there",
            "ip route get 192.0.2.11, and give store01 an address in that network",
        ),
        (
            {"peers": [{**PEER, "mtu_passes": False}]},
            "MTU to 192.0.2.11",
            "9000 bytes do not pass unfragmented",
            "ip link set <interface> mtu 9000 on store01 and on every switch between, or mtu 1500 on store01",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_mends_it(change, what, said, command):
    bad = [line for line in lines(TWO_LINUX, store01={**WELL, **change}) if not line["good"]]
    assert bad == [{"host": "store01", "what": what, "good": False, "said": said, "command": command}]
    assert doctor.as_markdown(bad, [])[-1] == f"- store01: {what}: {said}. {command}"


def test_ram_disks_of_an_earlier_build_are_no_foreign_memory():
    built = {**WELL, "memory_available_mib": 3000, "published": [{"kind": "backing"}]}
    assert all(line["good"] for line in lines(TWO_LINUX, store01=built))


def test_hosts_that_do_not_answer():
    [line] = lines(TWO_LINUX, client01=None)
    assert (line["what"], line["good"]) == ("reached", False) and line[
        "command"
    ] == "ansible client01 -i <inventory> -m ping -vvv"


def test_sectors_and_sizes_that_esxi_refuses():
    text = ESXI.replace(
        "{name: ds1, size: 8GiB}", "{name: ds1, kind: device, path: /dev/sdb, serial: S}, {name: small, size: 512MiB}"
    )
    text = text.replace("datastores: [{disk: ds1}]", "datastores: [{disk: ds1}, {disk: small}]")
    esxi = {"product": "VMware ESXi 8.0.3", "version": "8.0.3"}
    devices = {"/dev/sdb": {"size_bytes": 1 << 40, "sector_bytes": 4096}}
    bad = {
        line["what"]: line
        for line in lines(text, target01={**WELL, "memory_available_mib": 20000, "devices": devices}, esxi01=esxi)
        if not line["good"]
    }
    assert set(bad) == {"/dev/sdb", "room for VMFS on small"}
    assert bad["/dev/sdb"]["said"] == "sectors of 4096 bytes, which esxi01 refuses"
    assert bad["room for VMFS on small"]["command"] == "write size: 1331MiB or more for the disk small in testbed.disks"
    # What it calls itself is no proof.
    assert not all(line["good"] for line in lines(text, esxi01={**esxi, "product": "VMware ESXi 8 (simulated)"}))
    simulated = {**esxi, "stand_in": "esxsim"}
    assert all(line["good"] for line in lines(text, esxi01=simulated)) and any(
        "simulation" in line["said"] for line in lines(text, esxi01=simulated)
    )
    assert [line["what"] for line in lines(text, esxi01={**esxi, "version": "6.0.0"}) if not line["good"]] == [
        "version",
        "room for VMFS on small",
    ]


def test_clocks_are_judged_by_what_is_certain():
    assert ahead_s(100.0, 103.0, 101.5) == 0.0
    assert ahead_s(100.0, 103.0, 95.0) == -5.0
    assert ahead_s(100.0, 103.0, 110.0) == 7.0


def test_facts_are_those_of_hosts_that_were_reached():
    assert doctor.facts({"a": WELL, "b": None, "c": {"product": "ESXi"}}) == {
        "a": {"addresses": ["192.0.2.11"], "memory_mib": 8000}
    }
