# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that was there before: an inventory of one client and a NAS is a testbed, and what is wrong in it has a sentence."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import (
    check,
    devices,
    doctor,
    drawing,
    expand,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import existing_storage
from chain_lab import TWO_LINUX, expanded, lab_of

NAS = """
all:
  testbed_id: nas
  testbed:
    existing:
      - {name: nas, kind: nfs, server: 192.0.2.10, export: /volume1/vms}
      - {name: tank, kind: path, path: /tank/vms, file: big.img, on: nas}
      - {name: lun, kind: device, naa: 6001405aa}
clients: {client01: {ansible_host: 192.0.2.21}}
"""
GUESTS = """
all: {testbed_id: vms, testbed: {existing: [{name: disk, kind: guest, serial: S7}, {name: data, kind: guest, path: /data, on: disk}]}}
guests: {vm01: {ansible_host: 192.0.2.31}, vm02: {ansible_host: 192.0.2.32}}
"""


def entries(testbed, host):
    return testbed.hosts[host].variables["existing_storage_entries"]


def test_a_nas_and_a_client_are_a_testbed():
    testbed = expanded(NAS)
    nas, tank, lun = entries(testbed, "client01")
    assert nas == {
        "name": "nas",
        "kind": "nfs",
        "layer_kind": "datastore",
        "server": "192.0.2.10",
        "export": "/volume1/vms",
    }
    assert (tank["folder"], tank["file"], tank["parent"]) == ("/tank/vms", "big.img", "datastore-nas")
    assert (lun["layer_kind"], lun["naa"]) == ("initiator", "6001405aa") and "parent" not in lun
    assert testbed.hosts["client01"].stages == ["existing_storage", "benchmark"]
    assert {layer["name"]: layer["purpose"] for layer in testbed.layers} == {
        "datastore-nas": "read",
        "datastore-tank": "read",
        "initiator-lun": "read",
    }


def test_the_drawing_has_no_word_about_targets():
    lines = drawing.draw(expanded(NAS))
    assert not any("target" in line for line in lines) and not any(
        "lost" in line or "overwritten" in line for line in lines
    )
    assert any("datastore-nas on client01: NFS export 192.0.2.10:/volume1/vms" in line for line in lines)
    assert any(line.startswith("│  └─ datastore-tank") and "declared" in line for line in lines)


def test_hosts_that_share_it_have_layers_of_their_own():
    testbed = expanded(NAS.replace("192.0.2.21}}", "192.0.2.21}, client02: {ansible_host: 192.0.2.22}}"))
    assert [entry["name"] for entry in entries(testbed, "client01")] == ["nas", "tank", "lun"]
    assert [entry["name"] for entry in entries(testbed, "client02")] == [
        "nas-client02",
        "tank-client02",
        "lun-client02",
    ]
    assert entries(testbed, "client02")[1]["parent"] == "datastore-nas-client02"


def test_machines_that_somebody_else_runs_are_guests():
    testbed = expanded(GUESTS)
    assert [entry["layer_kind"] for entry in entries(testbed, "vm01")] == ["guest", "guest"]
    assert entries(testbed, "vm02")[1]["parent"] == "guest-disk-vm02"
    assert testbed.hosts["vm01"].stages == ["existing_storage", "benchmark"]


def test_a_guest_on_a_lun_of_its_host_is_drawn_on_it():
    text = NAS.replace(
        "{name: lun, kind: device, naa: 6001405aa}",
        "{name: lun, kind: device, naa: 6001405aa, hosts: [client01]}\n      - {name: inside, kind: guest, path: /d, 'on': lun}",
    )
    testbed = expanded(text + "guests: {vm01: {ansible_host: 192.0.2.31}}\n")
    (inside,) = entries(testbed, "vm01")
    assert (inside["layer_kind"], inside["parent"]) == ("guest", "initiator-lun")


SHARE = """
all:
  testbed_id: nas
  testbed:
    existing:
      - {name: nas, kind: smb, server: nas.example, share: vms/images, user: reader, password: a-password-of-mine, domain: LAB}
clients: {client01: {ansible_host: 192.0.2.21}}
"""


def test_a_share_is_mounted_with_a_login_that_show_does_not_show():
    testbed = expanded(SHARE)
    (share,) = entries(testbed, "client01")
    assert (share["kind"], share["share"], share["layer_kind"]) == ("smb", "vms/images", "datastore")
    lines = drawing.draw(testbed)
    assert any("SMB share //nas.example/vms/images, which was there before, only read" in line for line in lines)
    assert "a-password-of-mine" not in drawing.as_yaml(testbed) and "reader" in drawing.as_yaml(testbed)
    wanted = doctor.needs(testbed, "client01")
    assert "mount.cifs" in wanted["commands"] and "mount.nfs" not in wanted["commands"] and "cifs" in wanted["modules"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", share: vms/images", "", ["existing[0].share is not set", "smb needs it"]),
        ("vms/images", "'a,b'", ["existing[0] cannot be mounted. Give the name of the share"]),
        ("nas.example", "'2001:db8::7'", ["existing[0] cannot be mounted", "IPv4"]),
        (", password: a-password-of-mine", "", ["existing[0].password is not set", "beside user"]),
        ("user: reader, ", "", ["existing[0].user is not set", "beside password"]),
        ("a-password-of-mine", '"a\\nb"', ["existing[0].password contains", "control character"]),
        ("domain: LAB", "smb_version: '1.0'", ["existing[0].smb_version is '1.0'", "3.0"]),
        ("domain: LAB", "export: /a", ["existing[0].export is not a word", "kind nfs"]),
    ],
)
def test_a_wrong_share_has_a_sentence(old, new, words):
    assert old in SHARE
    lines = sentences(SHARE.replace(old, new))
    assert lines and all(any(word in line for line in lines) for word in words), lines
    assert not any("a-password-of-mine" in line for line in lines)


def test_a_guest_has_a_disk_or_a_folder():
    disk, data = entries(expanded(GUESTS), "vm01")
    assert (disk["kind"], disk["serial"], data["kind"], data["folder"]) == ("device", "S7", "path", "/data")
    assert {layer["purpose"] for layer in expanded(GUESTS).layers} == {"read"}
    written = GUESTS.replace("serial: S7", "serial: S7, access: write")
    assert [device.fate for device in devices.lost(expanded(written))] == ["OVERWRITTEN", "OVERWRITTEN"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", serial: S7", "", ["existing[0] does not say what of the guest is measured", "serial"]),
        (", serial: S7", ", serial: S7, path: /d", ["existing[0].path is '/d'", "beside serial"]),
        (", serial: S7", ", serial: S7, file: a", ["existing[0].file is not a word for a disk"]),
        (", serial: S7", ", serial: S7, access: write, benchmark_file: 9MiB", ["existing[0].benchmark_file", "disk"]),
        ("path: /data", "path: data", ["existing[1].path is 'data'", "absolute"]),
        ("path: /data", "path: /data, file: a, access: write", ["existing[1].file is 'a'"]),
        ("path: /data", "path: /data, server: a", ["existing[1].server is not a word", "kind nfs"]),
        ("disk, kind: guest", "disk, kind: device", ["existing[0].kind is 'device'", "vm01", "use kind guest"]),
        ("data, kind: guest", "data, kind: path", ["existing[1].kind is 'path'", "vm01", "use kind guest"]),
        ("guests:", "clients:", ["existing[0] has no Linux host", "group guests"]),
    ],
)
def test_a_wrong_entry_of_a_guest_has_a_sentence(old, new, words):
    assert old in GUESTS
    lines = sentences(GUESTS.replace(old, new, 1))
    assert lines and all(any(word in line for line in lines) for word in words), lines


def test_a_guest_is_in_its_group():
    text = GUESTS.replace("serial: S7", "serial: S7, hosts: [client01]") + "clients: {client01: {}}\n"
    assert any("client01 is not in the group guests" in line for line in sentences(text))


def test_it_may_stand_beside_a_testbed_of_its_own():
    plain = expanded(TWO_LINUX)
    both = expanded(
        TWO_LINUX.replace(
            "testbed_id: lab\n  testbed:\n",
            "testbed_id: lab\n  testbed:\n    existing: [{name: nas, kind: path, path: /n}]\n",
        )
    )
    assert [layer["name"] for layer in both.layers] == [*(layer["name"] for layer in plain.layers), "datastore-nas"]
    client = both.hosts["client01"].stages
    assert [stage for stage in client if stage != "existing_storage"] == plain.hosts["client01"].stages
    assert "existing_storage_entries" not in both.hosts["store01"].variables


def test_what_an_earlier_build_attached_is_let_go_of():
    """An entry that is not described any more has a stage still, so that a build or teardown takes it back."""
    published = {
        "client01": [{"name": "datastore-old", "kind": "datastore", "host": "client01", "provider": "existing"}]
    }
    testbed = expanded(TWO_LINUX, published=published)
    assert entries(testbed, "client01") == [] and "existing_storage" in testbed.hosts["client01"].stages
    assert "existing_storage" not in testbed.hosts["store01"].stages


def test_hosts_are_asked_for_what_it_needs():
    wanted = doctor.needs(expanded(NAS), "client01")
    assert {"mount.nfs", "blkid", "fio"} <= set(wanted["commands"]) and "iscsiadm" not in wanted["commands"]
    assert wanted["peers"] == [{"address": "192.0.2.10", "port": 2049}]


def sentences(text, **more):
    lab = lab_of(text, **more)
    return [problem.sentence() for problem in check.check(lab, expand.expand(lab))]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("export: /volume1/vms", "expert: /volume1/vms", ["expert is not a known key", "did you mean export?"]),
        ("export: /volume1/vms", "export: volume1", ["existing[0].export is 'volume1'", "absolute path"]),
        (", export: /volume1/vms", "", ["existing[0].export is not set", "nfs needs it"]),
        ("path: /tank/vms, ", "", ["existing[1].path is not set"]),
        (
            "kind: path,",
            "kind: folder,",
            ["existing[1].kind is 'folder'", "device, disk, esxi_datastore, guest, iscsi, nfs, path, smb, volume"],
        ),
        ("naa: 6001405aa", "path: /dev/sdb", ["existing[2].path is '/dev/sdb'", "does not identify", "serial"]),
        (", naa: 6001405aa", "", ["existing[2] does not identify a disk"]),
        ("naa: 6001405aa", "naa: 6001405aa, server: x", ["existing[2].server is not a word", "use kind nfs"]),
        ("on: nas", "on: nass", ["existing[1].on is 'nass'", "did you mean nas?"]),
        ("on: nas", "on: tank", ["existing[1].on is 'tank'", "on itself"]),
        ("name: tank", "name: nas", ["existing[1].name is 'nas'", "twice"]),
        ("file: big.img", "hosts: [client02]", ["existing[1].hosts is 'client02'", "did you mean client01?"]),
        ("name: tank", "name: ../x", ["existing[1].name", "without /"]),
    ],
)
def test_a_wrong_entry_has_a_sentence(old, new, words):
    assert old in NAS
    lines = sentences(NAS.replace(old, new))
    assert lines and all(any(word in line for line in lines) for word in words), lines


def test_a_host_of_another_system_is_refused():
    windows = NAS.replace("ansible_host: 192.0.2.21", "ansible_host: 192.0.2.21, ansible_connection: psrp")
    assert any("has no Linux host" in line for line in sentences(windows))
    named = windows.replace("naa: 6001405aa", "naa: 6001405aa, hosts: [clients]")
    assert any(
        "client01 runs Windows, and storage of kind device is of Linux hosts" in line for line in sentences(named)
    )


def test_two_layers_of_one_name_are_refused():
    text = TWO_LINUX.replace(
        "testbed_id: lab\n  testbed:\n",
        "testbed_id: lab\n  testbed:\n    existing: [{name: ds1, kind: path, path: /n}]\n",
    )
    assert any("second layer datastore-ds1" in line for line in sentences(text))


@pytest.mark.parametrize(("read_percent", "refused"), [(100, False), (99, True), (0, True)])
def test_a_workload_that_writes_is_refused_before_anything_is_touched(read_percent, refused):
    lines = sentences(NAS, workloads={"client01": [normalise({"read_percent": read_percent})]})
    assert bool(lines) is refused
    assert not refused or ("client01" in lines[0] and "existing_read" in lines[0])


def test_yaml_reads_the_word_on_as_a_truth_value():
    """YAML 1.1 does, and Ansible makes a text of it."""
    for key in (True, "True", "on"):
        described = existing_storage.with_words({"existing": [{"name": "a", key: "b"}], "disks": []})
        assert described == {"existing": [{"name": "a", "on": "b"}], "disks": []}
    for other in (None, "text", {"existing": "text"}, {"existing": ["text"]}):
        assert existing_storage.with_words(other) == other


LUNS = """
all:
  testbed_id: array
  testbed:
    existing:
      - {name: far, kind: iscsi, portal: '192.0.2.40:3261', iqn: 'iqn.2026-11.test.array:a', lun: 3, naa: 6001405bb}
      - {name: near, kind: iscsi, portal: '192.0.2.40:3261', iqn: 'iqn.2026-11.test.array:a'}
      - {name: shut, kind: iscsi, portal: '[2001:db8::40]', iqn: 'iqn.2026-11.test.array:b', chap_user: reader, chap_password: sixteen-letters1,
         hosts: [client02]}
clients: {client01: {ansible_host: 192.0.2.21}, client02: {ansible_host: 192.0.2.22}}
"""


def test_a_lun_of_others_is_logged_in_to_and_only_read():
    testbed = expanded(LUNS)
    (session,) = testbed.hosts["client01"].variables["iscsi_initiator_targets"]
    assert (session["iqn"], session["portal"]) == ("iqn.2026-11.test.array:a", {"address": "192.0.2.40", "port": 3261})
    assert [(lun["name"], lun["lun"], lun["purpose"], lun.get("naa")) for lun in session["luns"]] == [
        ("far", 3, "read", "6001405bb"),
        ("near", 0, "read", None),
    ]
    both = testbed.hosts["client02"].variables["iscsi_initiator_targets"]
    assert [(entry["portal"], entry.get("chap_user")) for entry in both] == [
        ({"address": "192.0.2.40", "port": 3261}, None),
        ({"address": "2001:db8::40", "port": 3260}, "reader"),
    ]
    assert {layer["name"]: layer["purpose"] for layer in testbed.layers} == dict.fromkeys(
        (
            "initiator-far",
            "initiator-near",
            "initiator-far-client02",
            "initiator-near-client02",
            "initiator-shut-client02",
        ),
        "read",
    )
    assert "iscsi_initiator" in testbed.hosts["client01"].stages
    assert {"address": "2001:db8::40", "port": 3260} in doctor.needs(testbed, "client02")["peers"]
    assert "sixteen" not in drawing.as_yaml(testbed) and not any("lost" in line for line in drawing.draw(testbed))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "portal: '192.0.2.40:3261', iqn: 'iqn.2026-11.test.array:a', lun: 3",
            "iqn: 'iqn.2026-11.test.array:a'",
            ["existing[0].portal is not set"],
        ),
        (
            "192.0.2.40:3261', iqn: 'iqn.2026-11.test.array:a', lun: 3",
            "a b', iqn: 'iqn.2026-11.test.array:a'",
            ["existing[0].portal is 'a b'", "3260"],
        ),
        ("'[2001:db8::40]'", "'2001:db8::40'", ["existing[2].portal"]),
        ("iqn.2026-11.test.array:b", "array", ["existing[2].iqn is 'array'"]),
        (", chap_password: sixteen-letters1", "", ["existing[2].chap_password is not set", "beside chap_user"]),
        ("lun: 3, naa: 6001405bb", "lun: three", ["existing[0].lun is 'three'"]),
        ("lun: 3, naa: 6001405bb", "lun: 3, 'on': near", ["existing[0].on is 'near'", "remove it"]),
        ("lun: 3, naa: 6001405bb", "server: x", ["existing[0].server is not a word", "nfs"]),
    ],
)
def test_a_wrong_lun_has_a_sentence(old, new, words):
    assert old in LUNS
    lines = sentences(LUNS.replace(old, new))
    assert lines and all(any(word in line for line in lines) for word in words), lines


def test_guests_do_not_log_in():
    text = LUNS.replace("hosts: [client02]", "hosts: [vm01]") + "guests: {vm01: {ansible_host: 192.0.2.31}}\n"
    assert any("vm01 is neither in clients nor in hypervisors" in line for line in sentences(text))


def test_workloads_that_write_are_refused_for_luns_too():
    lines = sentences(LUNS, workloads={"client01": [normalise({"read_percent": 50})]})
    assert len(lines) == 1 and "client01" in lines[0]


def test_a_folder_on_a_lun_of_others_names_the_layer_that_its_host_publishes():
    folder = "      - {name: files, kind: path, path: /mnt/files, 'on': near}\nclients:"
    testbed = expanded(LUNS.replace("clients:", folder))
    parents = {layer["name"]: layer["parent"] for layer in testbed.layers if layer["kind"] == "datastore"}
    assert parents == {"datastore-files": "initiator-near", "datastore-files-client02": "initiator-near-client02"}
    assert {*parents.values()} < {layer["name"] for layer in testbed.layers}
    # A LUN of one host alone has its plain name.
    alone = LUNS.replace("'}\n", "', hosts: [client01]}\n").replace(
        "lun: 3, naa: 6001405bb", "lun: 3, hosts: [client01]"
    )
    folder = "      - {name: files, kind: path, path: /mnt/files, 'on': shut, hosts: [client02]}\nclients:"
    testbed = expanded(alone.replace("clients:", folder))
    assert {layer["name"]: layer["parent"] for layer in testbed.layers} == {
        "initiator-far": None,
        "initiator-near": None,
        "initiator-shut": None,
        "datastore-files": "initiator-shut",
    }


WRITE = NAS.replace("export: /volume1/vms}", "export: /volume1/vms, access: write, benchmark_file: 96MiB}").replace(
    "naa: 6001405aa", "naa: 6001405aa, access: write"
)


def test_what_may_be_written_to_is_told_and_a_disk_is_announced():
    testbed = expanded(WRITE)
    nas, _tank, lun = entries(testbed, "client01")
    assert (nas["access"], nas["benchmark_file_mib"], lun["access"]) == ("write", 96, "write")
    assert {layer["name"]: layer["purpose"] for layer in testbed.layers} == {
        "datastore-nas": "scratch",
        "datastore-tank": "read",
        "initiator-lun": "scratch",
    }
    lines = drawing.draw(testbed)
    assert any("datastore-nas" in line and "written to in a file of its own" in line for line in lines)
    assert (
        "- OVERWRITTEN: a disk with naa 6001405aa on client01 (testbed.existing[2]): measured raw as initiator-lun"
        in lines
    )
    (device,) = devices.wanted(testbed, "client01")
    assert (device["naa"], device["fate"]) == ("6001405aa", "OVERWRITTEN")


def test_hosts_that_share_a_disk_name_the_same_entry():
    testbed = expanded(WRITE.replace("192.0.2.21}}", "192.0.2.21}, client02: {ansible_host: 192.0.2.22}}"))
    assert [(device.host, device.variable) for device in devices.lost(testbed)] == [
        ("client01", "testbed.existing[2]"),
        ("client02", "testbed.existing[2]"),
    ]


@pytest.mark.parametrize("others", ["", "reads"])
def test_workloads_that_write_are_refused_while_anything_is_only_read(others):
    text = WRITE if others else WRITE.replace("path: /tank/vms, file: big.img", "path: /tank/vms, access: write")
    lines = sentences(text, workloads={"client01": [normalise({"read_percent": 50})]})
    assert bool(lines) is bool(others)
    assert not others or "access: write" in lines[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "export: /volume1/vms",
            "export: /volume1/vms, benchmark_file: 7MiB",
            ["existing[0].benchmark_file is '7MiB'", "access: write"],
        ),
        ("file: big.img", "file: big.img, access: write", ["existing[1].file is 'big.img'", "no file of others"]),
        (
            "file: big.img",
            "access: write, benchmark_file: 0MiB",
            ["existing[1].benchmark_file is '0MiB'", "a size with its unit"],
        ),
        ("file: big.img", "access: rw", ["existing[1].access is 'rw'", "read, write"]),
        (
            "naa: 6001405aa",
            "naa: 6001405aa, access: write, benchmark_file: 7MiB",
            ["existing[2].benchmark_file is not a word"],
        ),
        (", naa: 6001405aa", ", access: write", ["existing[2] does not identify a disk"]),
    ],
)
def test_what_does_not_go_with_writing_has_a_sentence(old, new, words):
    lines = sentences(NAS.replace(old, new))
    assert lines and all(any(word in line for line in lines) for word in words), lines


def test_a_lun_that_is_overwritten_needs_its_identity():
    bare = LUNS.replace("iqn: 'iqn.2026-11.test.array:a'}", "iqn: 'iqn.2026-11.test.array:a', access: write}")
    assert any("existing[1] does not identify the LUN" in line for line in sentences(bare))
    proven = LUNS.replace("naa: 6001405bb}", "naa: 6001405bb, access: write}")
    assert sentences(proven) == []
    testbed = expanded(proven)
    purposes = {layer["name"]: layer["purpose"] for layer in testbed.layers}
    assert (purposes["initiator-far"], purposes["initiator-near"]) == ("scratch", "read")
    assert any(device.fate == "OVERWRITTEN" and "6001405bb" in device.text() for device in devices.lost(testbed))
    # One LUN of the session is still only read.
    assert sentences(proven, workloads={"client01": [normalise({"read_percent": 50})]})
