# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every word of the description, changed on a testbed that is built: the next build follows, or the change is refused before anything is touched.

The table of docs/changes.md is held against the rows that are tried here.
"""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import built
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.description import OPTIONS, WORDS
from chain_lab import EMBEDDED, expanded
from places import ROOT

LAB = (
    """
all:
  testbed_id: lab
  testbed:
    iqn_prefix: iqn.2026-11.test.one
    disks:
      - {name: bench, size: 1GiB, loopback: true, purpose: scratch}
      - {name: ds1, size: 4GiB, lun: 7, to: [kvm01]}
      - {name: vm, kind: device, path: /dev/sdb, serial: S1, to: [kvm01]}
    datastores:
      - {disk: ds1, name: store, type: ext4, benchmark_file: 512MiB, mount_point: /srv/storlab/one, mount_options: noatime}
    guests: [{name: guest01, host: guest01, datastore: store, disk_size: 1GiB, memory: 1GiB, vcpus: 2, image: /a, image_format: raw,
      taps: [tap1], address: 192.0.2.31, hypervisor: kvm01}]
    chap_password: sixteen-letters1
    mutual_chap_password: fifteen-letter2
targets: {store01: {testbed_address: 192.0.2.11}, store02: {testbed_address: 192.0.2.12, iscsi_target_provider: lio}}
hypervisors: {kvm01: , kvm02: }
guests: {guest01: {ansible_host: 192.0.2.31}}
""".replace("{name: bench,", "{name: bench, targets: [store01],")
    .replace("{name: ds1,", "{name: ds1, targets: [store01],")
    .replace("{name: vm,", "{name: vm, targets: [store01],")
)
ESXI = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 8GiB}, {name: raw, size: 8GiB, to: [esx01]}]
    datastores: [{disk: ds1, version: 6}, {disk: raw, type: rdm, compatibility: physical},
      {name: share, type: nfs, server: nas.example, path: /vol1}]
    guests: [{name: guest01, datastore: ds1, disk_size: 2GiB, memory: 8GiB, vcpus: 4, esxi: {template: win, datastore: local1}}]
targets: {store01: {testbed_address: 192.0.2.11}}
hypervisors: {esx01: {testbed_esxi: {is: set}}}
guests: {guest01: {ansible_host: guest01.lab.example, ansible_connection: psrp}}
"""
WINDOWS = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 6GiB, model: fast}, {name: file, kind: vhdx, path: 'E:\\\\a.vhdx', size: 8GiB, allocation: fixed}]
    datastores: [{disk: ds1}, {disk: file}]
targets: {win01: {testbed_address: 192.0.2.11, ansible_connection: psrp}}
hypervisors: {esx01: {testbed_esxi: {is: set}}}
"""
NFS = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 4GiB, to: []}, {name: ds2, size: 4GiB, to: []}]
    datastores: [{disk: ds1, benchmark_file: 1GiB, hosts: [store01]}, {disk: ds2, benchmark_file: 1GiB, hosts: [store01]}, {name: share, nfs: ds1}]
targets: {store01: {testbed_address: 192.0.2.11}}
clients: {client01: {testbed_address: 192.0.2.21}}
"""
# Without a guest on the datastore.
ALONE = re.sub(r"    guests: .*?hypervisor: kvm01}]\n", "", LAB, flags=re.S)
RAID = "kind: raid, raid: {level: 1, members: [{serial: S1}, {serial: S2}]}"
CACHE = "kind: cache, cache: {origin: {serial: S1}, fast: {serial: S2}}"
FOLLOWS = None
# word: (lab, what stands there, what stands there instead, FOLLOWS or how the refusal begins)
EXISTING = """
all:
  testbed_id: nas
  testbed:
    existing:
      - {name: nas, kind: nfs, server: 192.0.2.10, export: /vms, nfs_version: "3", mount_options: noatime, file: a.img, hosts: [client01]}
      - {name: far, kind: iscsi, portal: 192.0.2.40, iqn: 'iqn.2026-11.test.array:a', lun: 3, chap_user: one, chap_password: sixteen-letters1,
         mutual_chap_user: two, mutual_chap_password: fifteen-letter2, hosts: [client01]}
      - {name: tank, kind: path, path: /tank, 'on': nas}
      - {name: own, kind: path, path: /own, access: write, benchmark_file: 64MiB}
      - {name: pool, kind: smb, server: 192.0.2.50, share: pool1, smb_version: "3.0", user: five, password: six-letters, domain: SEVEN}
      - {name: lun, kind: device, serial: S1, naa: "6001", wwid: eui.01, uuid: LVM-1}
      - {name: array, kind: disk, unique_id: U-1}
clients: {client01: {ansible_host: 192.0.2.21}, client02: {ansible_host: 192.0.2.22},
  win01: {ansible_host: 192.0.2.23, testbed_windows: true}}
"""
# {word: (what of EXISTING, what in its place)}: nothing of the testbed stands on what it only reads.
OF_EXISTING = {
    "name": ("name: lun", "name: other"),
    "kind": (
        'kind: nfs, server: 192.0.2.10, export: /vms, nfs_version: "3", mount_options: noatime',
        "kind: path, path: /vms",
    ),
    "hosts": ("[client01]", "[client02]"),
    "on": (", 'on': nas", ""),
    "path": ("/tank", "/other"),
    "access": ("path: /tank", "access: write, path: /tank"),
    "benchmark_file": ("file: 64MiB", "file: 96MiB"),
    "serial": ("S1", "S2"),
    "naa": ("6001", "6002"),
    "wwid": ("eui.01", "eui.02"),
    "uuid": ("LVM-1", "LVM-2"),
    "unique_id": ("U-1", "U-2"),
    "server": ("192.0.2.10", "192.0.2.20"),
    "export": ("/vms", "/others"),
    "nfs_version": ('"3"', '"4.1"'),
    "mount_options": ("noatime", "relatime"),
    "file": ("a.img", "b.img"),
    "share": ("pool1", "pool2/folder"),
    "smb_version": ('"3.0"', '"3.1.1"'),
    "user": ("user: five", "user: eight"),
    "password": ("six-letters", "ten-letters"),
    "domain": ("SEVEN", "NINE"),
    "portal": ("192.0.2.40", "192.0.2.41"),
    "iqn": ("array:a", "array:b"),
    "lun": ("lun: 3", "lun: 4"),
    "chap_user": ("chap_user: one", "chap_user: three"),
    "chap_password": ("sixteen-letters1", "sixteen-letters9"),
    "mutual_chap_user": ("mutual_chap_user: two", "mutual_chap_user: four"),
    "mutual_chap_password": ("fifteen-letter2", "fifteen-letter9"),
}
CHANGES = {
    **{f"testbed.existing[].{word}": (EXISTING, *change, FOLLOWS) for word, change in OF_EXISTING.items()},
    "testbed_id": (LAB, "testbed_id: lab", "testbed_id: lab2", FOLLOWS),
    "testbed_address, one more": (LAB, "192.0.2.11}", "[192.0.2.11, 192.0.2.99]}", FOLLOWS),
    "testbed_address, another": (
        LAB,
        "192.0.2.11}",
        "192.0.2.99}",
        "testbed_address of store01 or testbed.port has changed the portals from 192.0.2.11:3260 to 192.0.2.99:3260",
    ),
    "groups, one host more": (LAB, "kvm02: }", "kvm02: , kvm03: }", FOLLOWS),
    "groups, one host less": (LAB, ", kvm02: ", "", "group hypervisors no longer has kvm02"),
    "testbed.protocol": (
        LAB,
        "    chap_password",
        "    protocol: nvme\n    chap_password",
        "iscsi_target_provider of store01 is 'nvmet', but the built testbed has 'lio'",
    ),
    "testbed.port": (
        LAB,
        "    chap_password",
        "    port: 3261\n    chap_password",
        "testbed_address of store01 or testbed.port has changed",
    ),
    "testbed.iqn_prefix": (
        LAB,
        "test.one",
        "test.two",
        "testbed has lost the target iqn.2026-11.test.one:store01 on store01",
    ),
    "testbed.chap": (LAB, "    chap_password", "    chap: one_way\n    chap_password", FOLLOWS),
    "testbed.access": (
        WINDOWS,
        "  testbed:\n",
        "  testbed:\n    access: address\n",
        "testbed.disks has taken iqn.2026-11.test.storlab:lab:esx01 on win01",
    ),
    "testbed.chap_password": (LAB, "sixteen-letters1", "sixteen-letters9", FOLLOWS),
    "testbed.nbd": (EMBEDDED, "nbd: plain", "nbd: tls", FOLLOWS),
    "testbed.mutual_chap_password": (LAB, "fifteen-letter2", "fifteen-letter9", FOLLOWS),
    "testbed.disks, one more": (
        LAB,
        "    datastores:",
        "      - {name: more, size: 1GiB, targets: [store02], to: [kvm02]}\n    datastores:",
        "testbed.disks has a new more on store02, whose RAM disks are built as one unit",
    ),
    "testbed.disks, one more device": (
        LAB,
        "    datastores:",
        "      - {name: more, kind: device, path: /dev/sdc, serial: S2, targets: [store01], to: [kvm01]}\n    datastores:",
        FOLLOWS,
    ),
    "testbed.disks[].name": (LAB, "name: bench", "name: other", "testbed.disks has lost bench on store01"),
    "testbed.disks[].size": (
        LAB,
        "size: 1GiB, loop",
        "size: 2GiB, loop",
        "testbed.disks has changed size_mib of bench from 1024 to 2048 on store01",
    ),
    "testbed.disks[].kind": (
        LAB,
        "{name: bench,",
        "{name: bench, kind: device, path: /dev/sdd, naa: '6001',",
        "testbed.disks has lost bench on store01",
    ),
    "testbed.disks[].raid": (
        LAB.replace("kind: device, path: /dev/sdb, serial: S1", RAID),
        "level: 1",
        "level: 0",
        "testbed.disks has changed level of the array vm from 1 to 0 on store01",
    ),
    "testbed.disks[].cache": (
        LAB.replace("kind: device, path: /dev/sdb, serial: S1", CACHE),
        "fast: {serial: S2}",
        "fast: {serial: S3}",
        "testbed.disks has changed fast of the cache tier vm from {'serial': 'S2'} to {'serial': 'S3'} on store01",
    ),
    "testbed.disks[].path": (
        LAB,
        "/dev/sdb",
        "/dev/sdc",
        "testbed.disks has changed device of the LUN vm from '/dev/sdb' to '/dev/sdc' on store01",
    ),
    "testbed.disks[].serial": (LAB, "serial: S1", "serial: S2", FOLLOWS),
    "testbed.disks[].naa": (LAB, "serial: S1", "serial: S1, naa: '6001'", FOLLOWS),
    "testbed.disks[].wwid": (LAB, "serial: S1", "serial: S1, wwid: naa.6001", FOLLOWS),
    "testbed.disks[].uuid": (LAB, "serial: S1", "serial: S1, uuid: LVM-a", FOLLOWS),
    "testbed.disks[].purpose": (
        LAB,
        "serial: S1,",
        "serial: S1, purpose: scratch,",
        "testbed.disks has changed purpose of the LUN vm from 'data' to 'scratch' on store01",
    ),
    "testbed.disks[].loopback": (
        LAB,
        "loopback: true",
        "loopback: false",
        "testbed.disks has taken iqn.2026-11.test.one:store01-loopback on store01",
    ),
    "testbed.disks[].lun": (
        LAB,
        "lun: 7",
        "lun: 8",
        "testbed.disks has changed lun of the LUN ds1 from 7 to 8 on store01",
    ),
    "testbed.disks[].to, one more": (LAB, "serial: S1, to: [kvm01]", "serial: S1, to: [kvm01, kvm02]", FOLLOWS),
    "testbed.disks[].to, one less": (
        LAB,
        "purpose: scratch}",
        "purpose: scratch, to: [kvm01]}",
        "testbed.disks has taken iqn.2026-11.test.one:kvm02 on store01",
    ),
    "testbed.disks[].targets": (
        LAB,
        "name: bench, targets: [store01]",
        "name: bench, targets: [store02]",
        "testbed.disks has lost bench on store01",
    ),
    "testbed.disks[].model": (
        WINDOWS,
        "model: fast",
        "model: slow",
        "testbed.disks has changed model of ds1 from 'fast' to 'slow' on win01",
    ),
    "testbed.disks[].allocation": (
        WINDOWS,
        "allocation: fixed",
        "allocation: dynamic",
        "testbed.disks has changed vhdx of the LUN file",
    ),
    "testbed.datastores, one more": (
        LAB,
        "    guests:",
        "      - {disk: vm, hosts: [kvm01]}\n    guests:",
        FOLLOWS,
    ),
    "testbed.datastores[].disk": (
        LAB,
        "{disk: ds1, name",
        "{disk: vm, name",
        "testbed.disks has changed purpose of ds1",
    ),
    "testbed.datastores[].name": (
        ALONE,
        "name: store,",
        "name: shop,",
        "testbed.datastores has lost the datastore store on kvm01",
    ),
    "testbed.datastores[].type": (
        LAB,
        "type: ext4",
        "type: xfs",
        "testbed.datastores has changed filesystem of the datastore store",
    ),
    "testbed.datastores[].benchmark_file": (LAB, "512MiB", "256MiB", FOLLOWS),
    "testbed.datastores[].benchmark_files": (LAB, "512MiB", "128MiB, benchmark_files: 3", FOLLOWS),
    "testbed.datastores[].mount_point": (
        LAB,
        "/srv/storlab/one",
        "/srv/storlab/two",
        "testbed.datastores has changed mount_point of the datastore store",
    ),
    "testbed.datastores[].mount_options": (LAB, "mount_options: noatime", "mount_options: relatime", FOLLOWS),
    "testbed.datastores[].hosts": (
        ALONE.replace("lun: 7, to: [kvm01]", "lun: 7, to: [kvm01, kvm02]").replace(
            "type: ext4,", "type: ext4, hosts: [kvm01],"
        ),
        "hosts: [kvm01],",
        "hosts: [kvm02],",
        "testbed.datastores has lost the datastore store on kvm01",
    ),
    "testbed.datastores[].nfs": (
        NFS,
        "nfs: ds1",
        "nfs: ds2",
        "testbed.datastores has changed export of the datastore share",
    ),
    "testbed.datastores[].nfs_version": (NFS, "nfs: ds1", "nfs: ds1, nfs_version: '3'", FOLLOWS),
    "testbed.datastores[].nconnect": (NFS, "nfs: ds1", "nfs: ds1, nconnect: 4", FOLLOWS),
    "testbed.datastores[].version": (
        ESXI,
        "version: 6",
        "version: 5",
        "testbed.datastores has changed version of the datastore lab-ds1",
    ),
    "testbed.datastores[].compatibility": (
        ESXI,
        "physical",
        "virtual",
        "testbed.datastores has changed compatibility of the datastore",
    ),
    "testbed.datastores[].server": (
        ESXI,
        "nas.example",
        "nas2.example",
        "testbed.datastores has changed server of the datastore share",
    ),
    "testbed.datastores[].path": (ESXI, "/vol1", "/vol2", "testbed.datastores has changed path of the datastore share"),
    "testbed.guests[].name": (
        LAB,
        "{name: guest01,",
        "{name: other,",
        "testbed.guests has lost the guest guest01 on kvm01",
    ),
    "testbed.guests[].host": (
        LAB.replace("guests: {guest01:", "guests: {guest02: {ansible_host: 192.0.2.32}, guest01:"),
        "host: guest01,",
        "host: guest02,",
        "testbed.guests has changed host of the guest guest01 from 'guest01' to 'guest02' on kvm01",
    ),
    "testbed.guests[].datastore": (
        LAB.replace("    guests:", "      - {disk: vm, hosts: [kvm01]}\n    guests:"),
        "datastore: store",
        "datastore: vm",
        "testbed.guests has changed disk datastore_layer of the guest guest01",
    ),
    "testbed.guests[].hypervisor": (LAB, ", hypervisor: kvm01", "", FOLLOWS),
    "testbed.guests[].disk_size": (
        LAB,
        "disk_size: 1GiB",
        "disk_size: 2GiB",
        "testbed.guests has changed disk size_mib of the guest guest01 from 1024 to 2048",
    ),
    "testbed.guests[].raw": (
        LAB,
        "hypervisor: kvm01}",
        "hypervisor: kvm01, raw: vm}",
        "testbed.guests has changed raw LUN of the guest guest01 from 'none' to 'initiator-vm'",
    ),
    "testbed.guests[].memory": (LAB, "memory: 1GiB", "memory: 2GiB", FOLLOWS),
    "testbed.guests[].vcpus": (LAB, "vcpus: 2", "vcpus: 3", FOLLOWS),
    "testbed.guests[].address": (LAB, "address: 192.0.2.31, hyp", "address: 192.0.2.32, hyp", FOLLOWS),
    "testbed.guests[].image": (LAB, "image: /a", "image: /b", FOLLOWS),
    "testbed.guests[].image_format": (LAB, "image_format: raw", "image_format: qcow2", FOLLOWS),
    "testbed.guests[].taps": (LAB, "taps: [tap1]", "taps: [tap2]", FOLLOWS),
    "testbed.guests[].esxi": (ESXI, "template: win,", "template: win2,", FOLLOWS),
}


def refusals(before: str, after: str) -> list:
    # As it is read back.
    kept = json.loads(json.dumps(built.record(expanded(before))))
    return [problem.sentence() for problem in built.problems(kept, expanded(after), "/state/built.json")]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_followed_or_refused(name):
    lab, was, now, refusal = CHANGES[name]
    assert lab.count(was) >= 1
    found = refusals(lab, lab.replace(was, now, 1))
    if refusal is FOLLOWS:
        assert found == []
    else:
        assert found and found[0].startswith(refusal), found
        assert all("change it back and run teardown, then change it and build" in one for one in found)


@pytest.mark.parametrize("lab", [LAB, ESXI, WINDOWS], ids=["linux", "esxi", "windows"])
def test_nothing_changed_is_nothing_refused_and_no_secret_is_kept(lab):
    assert refusals(lab, lab) == []
    text = json.dumps(built.record(expanded(lab)))
    assert "letter" not in text and "chap_user" in text


def test_a_build_of_some_hosts_keeps_these_beside_what_was():
    fresh = built.record(expanded(LAB))
    first, others = "kvm01", sorted(set(fresh["hosts"]) - {"kvm01"})
    names = [first, *others]
    alone = built.added(None, fresh, [first])
    assert sorted(alone["hosts"]) == [first] and alone["hosts"][first] == fresh["hosts"][first]
    assert {name for members in alone["groups"].values() for name in members} == {first}
    later = {**fresh, "hosts": {name: {"ramdisk_provider": f"of {name}"} for name in names}}
    both = built.added(alone, later, others)
    assert both["hosts"] == {first: fresh["hosts"][first], **{name: later["hosts"][name] for name in others}}
    assert {group: sorted(members) for group, members in both["groups"].items()} == {
        group: sorted(members) for group, members in fresh["groups"].items()
    }
    # Of a whole build nothing older is left.
    assert built.added(both, fresh, [*names, "localhost"]) == fresh


def test_a_teardown_of_some_hosts_leaves_the_rest_on_record():
    whole = built.record(expanded(LAB))
    names = sorted({name for members in whole["groups"].values() for name in members})
    left = whole
    for number, name in enumerate(names, start=1):
        left = built.removed(left, [name])
        assert (left is None) == (number == len(names))
        assert left is None or (
            name not in left["hosts"] and all(name not in members for members in left["groups"].values())
        )
        assert left is None or all(left["hosts"][other] == whole["hosts"][other] for other in names[number:])
    assert built.removed(None, names) is None and built.removed(whole, ["nobody"]) == whole


def test_a_changed_size_is_refused_without_any_layer():
    """A user may remove the file of a published layer; the size of the last build is in built.json."""
    before = json.loads(json.dumps(built.record(expanded(LAB, published={}))))
    assert built.problems(before, expanded(LAB, published={}), "/built.json") == []
    (problem,) = built.problems(before, expanded(LAB.replace("1GiB, loop", "2GiB, loop"), published={}), "/built.json")
    assert problem.why.startswith("has changed size_mib of bench from 1024 to 2048 on store01")


@pytest.mark.parametrize("host", ["store01", "kvm01"])
def test_a_change_is_refused_on_the_hosts_that_are_built_alone(host):
    """disk a lies on store01, and its file system on kvm01."""
    kept = built.added(None, json.loads(json.dumps(built.record(expanded(LAB)))), [host])
    changes = {"store01": LAB.replace("size: 1GiB", "size: 3GiB", 1), "kvm01": LAB.replace("ext4", "xfs", 1)}
    for changed, lab in changes.items():
        assert lab != LAB
        problems = built.problems(kept, expanded(lab), "/state/built.json")
        assert bool(problems) == (changed == host), changed


EXPORT = """
all:
  testbed_id: lab
  testbed: {disks: [{name: a, size: 1GiB}, {name: b, size: 1GiB}]}
  iscsi_target_targets:
    - name: iqn.2026-11.test.one:own
      portals: [{address: 192.0.2.11}]
      luns: [{lun: 4, name: a, layer: backing-a}, {lun: 6, name: b, layer: backing-b}]
      initiators: [{iqn: "iqn.2026-11.test.one:kvm01", LUNS chap_user: u1, chap_password: sixteen-letters1}]
targets: {store01: {testbed_address: 192.0.2.11}}
hypervisors: {kvm01: {iscsi_initiator_name: "iqn.2026-11.test.one:kvm01"}}
"""


@pytest.mark.parametrize(
    ("was", "now", "lost"),
    [
        ("", "luns: [6],", "LUN 4"),
        ("luns: [6, 4],", "luns: [4],", "LUN 6"),
        ("luns: [4, 6],", "", None),
        ("luns: [6],", "", None),
        ("", "luns: [4, 6],", None),
        ("luns: [4],", "luns: [6, 4],", None),
    ],
)
def test_an_initiator_that_names_no_luns_sees_all_of_its_target(was, now, lost):
    found = refusals(EXPORT.replace("LUNS", was), EXPORT.replace("LUNS", now))
    if lost is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(
            f"iscsi_target_targets of store01 has taken {lost} from iqn.2026-11.test.one:kvm01 on store01"
        )


def words(options: dict, prefix: str = "testbed") -> set:
    found = set()
    for name, option in options.items():
        here = f"{prefix}.{name}" + ("[]" if option.get("elements") == "dict" else "")
        inner = option.get("suboptions")
        found |= words(inner, here) if inner and option.get("elements") == "dict" else {here}
    return found


def test_every_word_of_the_description_is_a_row_here_and_in_the_documentation():
    known = words(OPTIONS)
    tried = {name.split(",")[0] for name in CHANGES}
    assert known - tried == set() and {"testbed_id", "testbed_address"} <= set(WORDS)
    page = (ROOT / "docs" / "changes.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([^`|]+)`(, [^|]+)? \| (followed|refused)", page, re.M)
    said = {f"{word}{more.strip()}": answer for word, more, answer in table}
    assert said == {name: "followed" if change[3] is FOLLOWS else "refused" for name, change in CHANGES.items()}
