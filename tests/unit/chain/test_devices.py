# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of the user: what becomes of them is said before, and what is not there is found before anything is touched."""

from __future__ import annotations

import os
import sys

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, devices, doctor, drawing, expand
from chain_lab import ESXI, TWO_LINUX, expanded, lab_of

DEVICE = "{name: slow, kind: device, path: /dev/nvme1n1, serial: S77, purpose: scratch}"
BENCH = "{name: bench, size: 1GiB}"
DS1 = "{name: ds1, size: 2GiB}"
DS1_DEVICE = "{name: ds1, kind: device, path: /dev/sdq, naa: '6001405'}"
RAID = "{name: ten, kind: raid, raid: {level: 1, members: [{serial: M1}, {path: /dev/sdm, wwid: W2}]}}"
TIER = "{name: tier, kind: cache, cache: {origin: {serial: O1}, fast: {path: /dev/sdf, uuid: U2}}}"
QEMU = TWO_LINUX.replace(
    "datastores: [",
    "guests: [{name: g1, datastore: ds1, disk_size: 64MiB, memory: 256MiB, image: /i, taps: [t0], raw: bench}]\n    datastores: [",
).replace("clients:\n  client01", "guests: {g1: {ansible_host: 192.0.2.31}}\nhypervisors:\n  client01")
BY_HAND = """
all:
  testbed_id: lab
clients:
  client01:
    iscsi_initiator_targets:
      - iqn: iqn.2026-11.test.others:array
        portal: {address: 192.0.2.99}
        luns:
          - {lun: 3, name: raw, serial: X9, purpose: scratch, layer_kind: initiator}
          - {lun: 4, name: fs, purpose: data, layer_kind: initiator}
          - {lun: 5, name: kept, purpose: data, layer_kind: initiator}
    datastore_datastores:
      - {name: fs, layer: initiator-fs, filesystem: ext4, mount_point: /srv/fs}
      - {name: own, device: /dev/sdx, serial: D4, filesystem: xfs, mount_point: /srv/own}
"""


def told(text: str) -> list:
    return [device.sentence() for device in devices.lost(expanded(text))]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (TWO_LINUX, []),
        # A device without a datastore is kept, unless the user calls it scratch.
        (TWO_LINUX.replace(BENCH, DEVICE.replace(", purpose: scratch", "")), []),
        (
            TWO_LINUX.replace(BENCH, DEVICE),
            [
                "OVERWRITTEN: /dev/nvme1n1, serial S77 on store01 (testbed.disks[0]): measured raw as target-slow and initiator-slow"
            ],
        ),
        (
            TWO_LINUX.replace(DS1, DS1_DEVICE),
            ["FORMATTED: /dev/sdq, naa 6001405 on store01 (testbed.disks[1]): ext4 at /srv/storlab/ds1 on client01"],
        ),
        (
            TWO_LINUX.replace(BENCH, RAID),
            [
                "OVERWRITTEN: a disk with serial M1 on store01 (testbed.disks[0].raid.members[0]): becomes part of the RAID array ten",
                "OVERWRITTEN: /dev/sdm, wwid W2 on store01 (testbed.disks[0].raid.members[1]): becomes part of the RAID array ten",
            ],
        ),
        (
            TWO_LINUX.replace(BENCH, TIER),
            [
                "OVERWRITTEN: a disk with serial O1 on store01 (testbed.disks[0].cache.origin): measured raw as backing-tier and target-tier and "
                "initiator-tier",
                "OVERWRITTEN: /dev/sdf, uuid U2 on store01 (testbed.disks[0].cache.fast): caches for the disk tier",
            ],
        ),
        (
            TWO_LINUX.replace(
                BENCH, TIER.replace("origin:", "cached: false, origin:").replace("cache, ", "cache, purpose: data, ")
            ),
            [
                # The origin's data stay.
                "OVERWRITTEN: /dev/sdf, uuid U2 on store01 (testbed.disks[0].cache.fast): caches for the disk tier once it is put in",
            ],
        ),
        (
            QEMU.replace(BENCH, DEVICE.replace("slow", "bench").replace(", purpose: scratch", "")),
            ["OVERWRITTEN: /dev/nvme1n1, serial S77 on store01 (testbed.disks[0]): measured raw as guest-g1-raw"],
        ),
        (
            ESXI.replace("{name: ds1, size: 8GiB}", DS1_DEVICE),
            ["FORMATTED: /dev/sdq, naa 6001405 on target01 (testbed.disks[1]): VMFS on esxi01"],
        ),
        (
            ESXI.replace("{name: ds1, size: 8GiB}", DS1_DEVICE).replace("{disk: ds1}", "{disk: ds1, type: rdm}"),
            ["OVERWRITTEN: /dev/sdq, naa 6001405 on target01 (testbed.disks[1]): measured raw as guest-guest01"],
        ),
        (
            BY_HAND,
            [
                "FORMATTED: /dev/sdx, serial D4 on client01 (datastore_datastores[1] of client01): xfs of the datastore own",
                "OVERWRITTEN: LUN 3 of iqn.2026-11.test.others:array, serial X9 on client01 (iscsi_initiator_targets[0].luns[0] of client01): "
                "measured raw as initiator-raw",
                "FORMATTED: LUN 4 of iqn.2026-11.test.others:array on client01 (iscsi_initiator_targets[0].luns[1] of client01): "
                "ext4 at /srv/fs on client01",
            ],
        ),
    ],
    ids=["none", "kept", "raw", "formatted", "raid", "cache", "uncached", "guest", "vmfs", "rdm", "by_hand"],
)
def test_every_device_whose_contents_go_is_told_with_its_path_and_proof(text, sentences):
    assert told(text) == sentences
    drawn = drawing.draw(expanded(text))
    assert drawn[len(drawn) - len(sentences) :] == [f"- {sentence}" for sentence in sentences] or not sentences
    assert any("will be lost" in line for line in drawn) == bool(sentences)


def test_the_drawing_names_the_device_at_its_lun():
    drawn = drawing.draw(expanded(TWO_LINUX.replace(BENCH, DEVICE)))
    [line] = [line for line in drawn if "target-slow on store01" in line]
    assert line.endswith("LUN 0 of iqn.2026-11.test.storlab:lab:store01, /dev/nvme1n1, serial S77: OVERWRITTEN")


def test_a_variable_of_a_role_is_named_where_that_says_it():
    target = {
        "name": "iqn.2026-11.test.mine:t",
        "portals": [{"address": "192.0.2.11"}],
        "luns": [{"lun": 0, "name": "bench", "device": "/dev/sdy", "serial": "Y1", "purpose": "scratch"}],
        "initiators": [{"iqn": "iqn.2026-11.test.storlab:lab:client01"}],
    }
    lab = lab_of(TWO_LINUX)
    lab["hosts"]["store01"] |= {"iscsi_target_targets": [target], "iscsi_target_allow_no_chap": True}
    lab["hosts"]["client01"]["testbed"] = lab["hosts"]["store01"]["testbed"] = {
        "disks": [{"name": "bench", "size": "1GiB"}]
    }
    testbed = expand.expand(lab)
    [device] = devices.lost(testbed)
    assert device.sentence().startswith(
        "OVERWRITTEN: /dev/sdy, serial Y1 on store01 (iscsi_target_targets[0].luns[0] of store01): "
    )
    [entry] = devices.wanted(testbed, "store01")
    [problem] = devices.missing("store01", [{**entry, "type": "missing", "paths": [], "shows": {}}])
    assert problem.sentence().startswith(
        "iscsi_target_targets[0].luns[0].device of store01 is '/dev/sdy', which is not a block device: "
    )


def probe_of(text: str, host: str, **answers) -> list:
    """The sentences about a host whose named disks are as ``answers`` have them, by their path or serial."""
    testbed = expanded(text)
    named = [
        {
            **entry,
            **answers.get(entry.get("path") or entry["serial"], {"type": "block", "paths": ["/dev/sdz"], "shows": {}}),
        }
        for entry in devices.wanted(testbed, host)
    ]
    return [problem.sentence() for problem in doctor.unfit(testbed, {host: {"named": named, "folders": {}}})]


# A host that lacks nothing.
WELL = {
    "package_manager": "apt-get",
    "root": True,
    "kernel": "6.1",
    "missing_commands": [],
    "missing_modules": [],
    "memory_mib": 9000,
    "memory_available_mib": 9000,
    "peers": [],
    "devices": {},
}


@pytest.mark.parametrize(
    ("text", "answers", "sentences"),
    [
        (TWO_LINUX.replace(BENCH, DEVICE), {}, []),
        (
            TWO_LINUX.replace(BENCH, DEVICE),
            {"/dev/nvme1n1": {"type": "missing", "paths": [], "shows": {}}},
            [
                "testbed.disks[0].path is '/dev/nvme1n1', which is not a block device of store01: correct it; "
                "on store01, lsblk --output PATH,SIZE,SERIAL,WWN lists what there is."
            ],
        ),
        (
            TWO_LINUX.replace(BENCH, DEVICE),
            {"/dev/nvme1n1": {"type": "block", "paths": [], "shows": {"serial": "S78", "wwid": "eui.9"}}},
            [
                "testbed.disks[0].path is '/dev/nvme1n1', which shows serial S78, wwid eui.9, and not serial S77: name the right device."
            ],
        ),
        (
            TWO_LINUX.replace(BENCH, RAID),
            {"M1": {"type": "", "paths": [], "shows": {}}},
            [
                "testbed.disks[0].raid.members[0] is not a disk of store01: none has serial M1: attach it, or correct this."
            ],
        ),
        (
            TWO_LINUX.replace(BENCH, RAID),
            {"M1": {"type": "", "paths": ["/dev/sdb", "/dev/sdc"], "shows": {}}},
            [
                "testbed.disks[0].raid.members[0] is not one disk: /dev/sdb and /dev/sdc of store01 show serial M1: add path to it."
            ],
        ),
        (
            TWO_LINUX.replace(BENCH, TIER),
            {"/dev/sdf": {"type": "file", "paths": [], "shows": {}}},
            [
                "testbed.disks[0].cache.fast.path is '/dev/sdf', which is not a block device of store01: correct it; "
                "on store01, lsblk --output PATH,SIZE,SERIAL,WWN lists what there is."
            ],
        ),
    ],
    ids=["there", "missing", "another", "serial", "twice", "no_device"],
)
def test_a_device_that_is_not_there_is_told_by_its_variable(text, answers, sentences):
    assert probe_of(text, "store01", **answers) == sentences
    lines = doctor.findings(
        expanded(text),
        {
            "store01": {
                **WELL,
                "named": [
                    {
                        **entry,
                        "contents": "blank",
                        **answers.get(
                            entry.get("path") or entry["serial"], {"type": "block", "paths": ["/dev/sdz"], "shows": {}}
                        ),
                    }
                    for entry in devices.wanted(expanded(text), "store01")
                ],
            }
        },
    )
    assert len([line for line in lines if not line["good"]]) == len(sentences)
    # What a build would refuse is to be mended in the same words.
    table = doctor.printed(lines, [])
    assert (
        table[table.index("To fix it:") + 1 :] == [f"- {text}" for text in sentences]
        if sentences
        else ("To fix it:" not in table)
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, None),
        (
            {"problem": "read_only", "at": "/srv"},
            "and /srv on client01 is mounted read-only: name another mount_point, or mount",
        ),
        ({"problem": "below_file", "at": "/srv/storlab"}, "and /srv/storlab on client01 is not a folder: "),
        (
            {"problem": "not_empty", "at": "/srv/storlab/ds1"},
            "and /srv/storlab/ds1 on client01 is a folder with something in it: ",
        ),
        ({"problem": "not_permitted", "at": "/srv"}, "and the user of the task may not make it in /srv on client01: "),
        ({"problem": "no_folders", "at": "/proc"}, "and in /proc of client01 no folder can be created: "),
        ({"problem": "unusable", "at": "/srv"}, "and client01 cannot make it below /srv: "),
    ],
)
def test_a_mount_point_that_cannot_be_is_told_before_anything_is_made(answer, why):
    testbed = expanded(TWO_LINUX)
    assert doctor.needs(testbed, "client01")["folders"] == ["/srv/storlab/ds1"]
    probes = {"client01": {"named": [], "folders": {"/srv/storlab/ds1": answer}}}
    sentences = [problem.sentence() for problem in doctor.unfit(testbed, probes)]
    assert len(sentences) == bool(why)
    assert not why or sentences[0].startswith(f"testbed.datastores[0].mount_point is '/srv/storlab/ds1', {why}")
    findings = doctor.findings(testbed, {"client01": {**WELL, **probes["client01"]}})
    assert doctor.printed(findings, [])[len(findings) + 3 :] == [f"- {text}" for text in sentences]


def test_a_machine_with_two_names_is_mended_in_the_words_of_a_build():
    testbed = expanded(TWO_LINUX)
    probes = {name: {**WELL, "machine_id": "m1", "boot_id": "b1"} for name in ("store01", "client01")}
    [sentence] = [problem.sentence() for problem in doctor.unfit(testbed, probes)]
    table = doctor.printed(doctor.findings(testbed, probes), [])
    assert table[table.index("To fix it:") + 1 :] == [f"- {sentence}"]
    assert sentence.startswith("hosts store01 and client01 are one machine, ")


def inventory_of(folder, page: dict) -> str:
    hosts = {
        "targets": {
            "hosts": {
                "t1": {
                    "testbed_address": "192.0.2.11",
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                }
            }
        }
    }
    (folder / "mine" / "group_vars").mkdir(parents=True)
    (folder / "mine" / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}), encoding="utf-8")
    (folder / "mine" / "group_vars" / "all.yml").write_text(yaml.safe_dump(page), encoding="utf-8")
    return str(folder / "mine")


def test_a_build_stops_before_it_makes_anything_and_doctor_says_the_same(tmp_path):
    """On this machine, which has no such device, and on which the mount point would lie below a file."""
    (tmp_path / "file").write_text("somebody's", encoding="utf-8")
    page = {
        "testbed_id": f"before-{os.getpid()}",
        "testbed": {
            "disks": [
                {"name": "a", "size": "64MiB"},
                {
                    "name": "b",
                    "kind": "raid",
                    "raid": {"level": 1, "members": [{"serial": "NO-SUCH-1"}, {"serial": "NO-SUCH-2"}]},
                },
            ],
            "datastores": [{"disk": "a", "mount_point": f"{tmp_path}/file/ds1"}],
        },
    }
    inventory = inventory_of(tmp_path, page)
    # A check takes no lock, so that it needs no rights here; what it looks at, a build looks at.
    rc, document, said = show_testbed.run(inventory, "--check", playbook="build.yml")
    assert rc == 2, said
    [failed] = [
        result
        for play in document["plays"]
        for task in play["tasks"]
        for result in task["hosts"].values()
        if result.get("failed")
    ]
    assert failed.get("failure", {}).get("code") == "description_wrong", failed["msg"]
    sentences = [line[2:] for line in failed["msg"].splitlines() if line.startswith("- ")]
    assert [sentence.partition(" is ")[0] for sentence in sentences] == [
        "testbed.disks[1].raid.members[0]",
        "testbed.disks[1].raid.members[1]",
        "testbed.datastores[0].mount_point",
    ]
    assert f"{tmp_path}/file on t1 is not a folder" in sentences[2]
    plays = [play["name"] for play in yaml.safe_load((show_testbed.ROOT / "playbooks" / "build.yml").read_text())]
    changing = [
        "State before the build",
        "Backing devices and iSCSI target",
        "Logins of initiators over iSCSI",
        "Datastores",
    ]
    assert all(plays.index("Compare the hosts with the description") < plays.index(name) for name in changing)
    _rc, document, _said = show_testbed.run(inventory, playbook="doctor.yml")
    tasks = {task["task"]["name"]: task["hosts"] for play in document["plays"] for task in play["tasks"]}
    (doctors,) = tasks["Evaluate the probes"].values()
    mending = doctors["table"][doctors["table"].index("To fix it:") + 1 :]
    assert [f"- {sentence}" for sentence in sentences] == [line for line in mending if line.startswith("- testbed.")]


def test_a_build_stops_where_two_names_are_one_machine(tmp_path):
    """On this machine, under its name and as localhost; nothing is there afterwards that was not there before."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    page = {"testbed_id": f"twice-{os.getpid()}", "testbed": {"disks": [{"name": "a", "size": "64MiB"}]}}
    inventory = inventory_of(tmp_path, page)
    groups = {
        "targets": {"hosts": {"t1": {**here, "testbed_address": "192.0.2.11"}}},
        "clients": {"hosts": {"localhost": here}},
    }
    (tmp_path / "mine" / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    rc, document, said = show_testbed.run(inventory, "--check", playbook="build.yml")
    assert rc == 2, said
    tasks = {task["task"]["name"]: task["hosts"] for play in document["plays"] for task in play["tasks"]}
    [failed] = [result for hosts in tasks.values() for result in hosts.values() if result.get("failed")]
    sentences = [line[2:] for line in failed["msg"].splitlines() if line.startswith("- hosts ")]
    assert failed["failure"]["code"] == "description_wrong" and len(sentences) == 1
    assert sentences[0].startswith("hosts t1 and localhost are one machine, ")
    assert "RAM disks" not in tasks and not os.path.exists(f"/run/storlab/{page['testbed_id']}")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_check_alone_does_not_look_at_hosts():
    lab = lab_of(TWO_LINUX.replace(BENCH, DEVICE))
    assert check.check(lab, expand.expand(lab)) == []
