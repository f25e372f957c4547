# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The doctor says what a lab lacks before a build, and the command that mends it."""

from __future__ import annotations

import json
import re
import sys

import pytest
import show_testbed
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
        "named": [],
        "folders": [],
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
    table = doctor.printed(found, [])
    assert re.split(" {2,}", table[-1]) == ["client01", "MTU to 192.0.2.11", "yes", "9000 bytes pass unfragmented"]
    # Columns begin at one place in every line.
    assert {row.index(column) for row, column in zip(table[1:], [" yes "] * len(found))} == {table[0].index(" good")}
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
            "free memory on store01, or make testbed.disks smaller",
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
            "no route to it",
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
    assert doctor.printed(bad, [])[-1] == f"- store01: {what}: {said}. {command}"


def machine(machine_id: str, boot_id: str) -> dict:
    return {**WELL, "machine_id": machine_id, "boot_id": boot_id}


def test_two_names_of_one_machine_are_refused_in_one_sentence():
    testbed = expanded(TWO_LINUX)
    probes = {"store01": machine("m-1", "b-1"), "client01": machine("m-1", "b-1")}
    [problem] = doctor.unfit(testbed, probes)
    assert problem.sentence() == (
        "hosts store01 and client01 are one machine, because their machine-id and their boot-id are the same: "
        "name it once, and put that name into every group that it belongs to; containers need a machine-id each."
    )
    [bad] = [line for line in doctor.findings(testbed, probes) if not line["good"]]
    assert (bad["host"], bad["what"]) == ("store01", "hosts store01 and client01")
    [sentence] = [line for line in doctor.printed([bad], []) if line.startswith("- ")]
    assert "are one machine" in sentence and "name it once" in sentence


@pytest.mark.parametrize(
    ("store", "client"),
    [
        pytest.param(("m-1", "b-1"), ("m-2", "b-1"), id="containers of one machine"),
        pytest.param(("m-1", "b-1"), ("m-1", "b-2"), id="clones of one image"),
        pytest.param(("m-1", "b-1"), ("m-2", "b-2"), id="two machines"),
        pytest.param(("m-1", ""), ("m-1", ""), id="no boot-id"),
        pytest.param(("", "b-1"), ("", "b-1"), id="no machine-id"),
    ],
)
def test_machines_that_share_one_of_both_are_two(store, client):
    testbed = expanded(TWO_LINUX)
    probes = {"store01": machine(*store), "client01": machine(*client), "esxi01": None}
    assert doctor.unfit(testbed, probes) == []
    assert all(line["good"] for line in doctor.findings(testbed, probes))


def test_three_names_of_one_machine_are_one_problem():
    testbed = expanded(ESXI)
    probes = {name: machine("m-1", "b-1") for name in ("target01", "esxi01", "esxi02", "somebody")}
    [problem] = doctor.unfit(testbed, probes)
    assert problem.variable == "hosts target01, esxi01 and esxi02"


def test_ram_disks_of_an_earlier_build_are_no_foreign_memory():
    built = {**WELL, "memory_available_mib": 3000, "published": [{"kind": "backing"}]}
    assert all(line["good"] for line in lines(TWO_LINUX, store01=built))


@pytest.mark.parametrize(
    ("reason", "text", "command"),
    [
        # As Ansible 2.21 gives them.
        (
            "Task failed: Failed to connect to the host via ssh: admin@192.0.2.21: Permission denied (publickey,password).",
            "Failed to connect to the host via ssh: admin@192.0.2.21: Permission denied (publickey,password)",
            "correct ansible_user and its key or password; try: ssh 192.0.2.21",
        ),
        ("Task failed: Missing sudo password", "Missing sudo password", "give the password with --ask-become-pass"),
        ("Task failed: Incorrect sudo password", "Incorrect sudo password", "correct ansible_become_password"),
        (
            "Task failed: Duplicate become password prompt encountered waiting for become success.\n>>> Standard Error\n"
            "[sudo via ansible, key=lzfxadup] password:Sorry, try again.\n[sudo via ansible, key=lzfxadup] password:",
            "Duplicate become password prompt encountered waiting for become success. >>> Standard Error Sorry, try again",
            "correct ansible_become_password",
        ),
        (
            "Error rendering template: Attempt to use undecryptable variable: Attempting to decrypt but no vault secrets found.",
            "Error rendering template: Attempt to use undecryptable variable: Attempting to decrypt but no vault secrets found",
            "give the password of the vault with --ask-vault-pass or --vault-password-file",
        ),
        (
            "Failed to connect to the host via ssh: ssh: connect to host 192.0.2.21 port 22: No route to host",
            "Failed to connect to the host via ssh: ssh: connect to host 192.0.2.21 port 22: No route to host",
            "ansible client01 -i <inventory> -m ping -vvv",
        ),
        ("x" * 500, "x" * 399 + "…", "ansible client01 -i <inventory> -m ping -vvv"),
    ],
)
def test_a_host_that_was_not_reached_has_ansibles_own_sentence(reason, text, command):
    [line] = lines(TWO_LINUX, client01={"unreached": reason})
    assert (line["what"], line["good"], line["said"]) == ("reached", False, text)
    assert line["command"].startswith(command)
    assert doctor.printed([line], [])[1] == f"client01  reached  NO    {text}"


def test_what_an_esxi_host_lacks_is_in_the_modules_sentence():
    """The controller is asked about it, which always answers a ping."""
    reason = "The Python library pyVmomi is not installed where this task runs. Install it there: pip install pyvmomi."
    [line] = lines(ESXI, esxi01={"unreached": reason})
    assert (line["good"], line["said"], line["command"]) == (False, reason[:-1], "")
    assert doctor.printed([line], [])[-1] == f"- esxi01: reached: {reason}"


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


def test_a_licence_that_lets_nothing_be_changed_is_found_before_a_build():
    esxi = {"product": "VMware ESXi 8.0.3", "version": "8.0.3"}
    (bad,) = (
        line for line in lines(ESXI, esxi01={**esxi, "read_only_licence": "Free Thing 8"}) if line["what"] == "licence"
    )
    assert (bad["good"], bad["said"]) == (False, "Free Thing 8 makes the API of the host read-only")
    assert "licence whose API may change it" in bad["command"]
    assert all(line["good"] for line in lines(ESXI, esxi01=esxi) if line["what"] == "licence")


def test_clocks_are_judged_by_what_is_certain():
    assert ahead_s(100.0, 103.0, 101.5) == 0.0
    assert ahead_s(100.0, 103.0, 95.0) == -5.0
    assert ahead_s(100.0, 103.0, 110.0) == 7.0


def test_facts_are_those_of_hosts_that_were_reached():
    assert doctor.facts({"a": WELL, "b": None, "c": {"product": "ESXi"}}) == {
        "a": {"addresses": ["192.0.2.11"], "memory_mib": 8000}
    }


SSH = """#!/bin/sh
echo "admin@192.0.2.11: Permission denied (publickey,password)." >&2
exit 255
"""
SUDO = """#!/bin/sh
echo "sudo: a password is required" >&2
exit 1
"""


def test_the_table_of_the_playbook_has_the_sentence_for_each_host(tmp_path):
    """ssh that refuses the user, sudo that wants a password, an ESXi host without pyVmomi, and a secret of a vault that is not open."""
    for name, text in (("ssh", SSH), ("sudo", SUDO)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o700)
    # A Python that has no other packages than its own.
    venv = tmp_path / "python"
    venv.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n', encoding="utf-8")
    venv.chmod(0o700)
    (tmp_path / "lab.yml").write_text(
        f"""
all:
  vars:
    testbed_id: doc
    testbed: {{disks: [{{name: one, size: 64MiB, to: [c1]}}]}}
    testbed_state_dir: {tmp_path}/state
    ansible_python_interpreter: {venv}
  children:
    targets: {{hosts: {{t1: {{ansible_host: 192.0.2.11, ansible_ssh_executable: {tmp_path}/ssh, ansible_user: admin}}}}}}
    clients: {{hosts: {{c1: {{ansible_connection: local, ansible_become: true, ansible_become_exe: {tmp_path}/sudo}}}}}}
    hypervisors:
      vars: {{ansible_connection: local, testbed_esxi: {{hostname: 127.0.0.1, username: root, password: '{{{{ own }}}}'}}}}
      hosts: {{e1: {{own: x}}, e2: {{own: !vault "$ANSIBLE_VAULT;1.1;AES256\\n35323931"}}}}
""",
        encoding="utf-8",
    )
    rc, document, _error = show_testbed.run(
        tmp_path / "lab.yml", playbook="doctor.yml", environment={"ANSIBLE_BECOME_ALLOW_SAME_USER": "true"}
    )
    tasks = {task["task"]["name"]: task["hosts"] for play in document["plays"] for task in play["tasks"]}
    (judged,) = tasks["Evaluate the probes"].values()
    said = {line["host"]: line["said"] for line in judged["findings"] if not line["good"]}
    assert rc == 2 and "does not answer" not in json.dumps(judged)
    assert "admin@192.0.2.11: Permission denied (publickey,password)" in said["t1"]
    assert "sudo: a password is required" in said["c1"]
    assert (
        said["e1"]
        == "The Python library pyVmomi is not installed where this task runs. Install it there: pip install pyvmomi"
    )
    assert said["e2"].endswith("Attempting to decrypt but no vault secrets found")
    mended = [line for line in judged["table"] if line.startswith("- e2:")]
    assert mended and mended[0].endswith("--ask-vault-pass or --vault-password-file")
