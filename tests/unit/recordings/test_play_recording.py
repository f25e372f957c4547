# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/play_recording.py on small recordings of each kind, made for these tests."""

from __future__ import annotations

import json

import play_recording
import pytest

TREE = {
    "proc/self/mountinfo": "25 1 8:17 / /srv rw - ext4 /dev/sdb1 rw\n",
    "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sdb2  partition\t1048572\t0\t-2\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: Made Up CPU 7\n",
    "sys/block/sdb": {"link": "../devices/sdb"},
    "sys/class/block/sdb": {"link": "../../devices/sdb"},
    "sys/devices/sdb/size": "2097152\n",
    "sys/devices/sdb/dev": "8:16\n",
    "sys/devices/sdb/removable": "0\n",
    "sys/devices/sdb/ro": "0\n",
    "etc/unknown/file": "x",
}
HOST = """<ObjectContent xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><obj type="HostSystem">host-7</obj><propSet><name>config</name>
<val xsi:type="HostConfigInfo"><storageDevice><hostBusAdapter xsi:type="HostInternetScsiHba"><key>k</key><device>vmhba64</device><bus>3</bus>
<status>online</status>
<model>iSCSI Software Adapter</model><driver>iscsi_vmk</driver><isSoftwareBased>true</isSoftwareBased><iScsiName>iqn.1998-01.com.vmware:esx-made-up</iScsiName>
<configuredSendTarget><address>192.0.2.77</address><port>3261</port></configuredSendTarget>
<configuredStaticTarget><address>192.0.2.77</address><port>3261</port><iScsiName>iqn.2001-05.com.example:array</iScsiName><discoveryMethod>sendTarget</discoveryMethod>
<parent>[192.0.2.77:3261]</parent></configuredStaticTarget></hostBusAdapter><softwareInternetScsiEnabled>true</softwareInternetScsiEnabled></storageDevice></val></propSet>
<propSet><name>somethingElse</name><val xsi:type="xsd:string" xmlns:xsd="http://www.w3.org/2001/XMLSchema">text</val></propSet></ObjectContent>"""


@pytest.fixture
def played(tmp_path):
    def play(content, name="recording.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return json.loads(play_recording.as_json(play_recording.answer_of(path)))

    return play


def test_a_tree_shows_what_the_readers_see_and_leave(played):
    result = played(TREE)
    assert result["kind"] == "linux tree"
    assert result["seen"]["storage_state"]["mounts"] == ["/srv /dev/sdb1 ext4"] or any(
        "/srv" in line for line in result["seen"]["storage_state"]["mounts"]
    )
    assert result["seen"]["storage_state"]["swaps"] == ["/dev/sdb2"]
    assert result["seen"]["fingerprint"]["cpu"]["model"] == "Made Up CPU 7"


def test_a_tree_laid_out_in_a_folder_is_the_same(tmp_path, played):
    play_recording.lay_out(TREE, str(tmp_path / "tree"))
    folder = json.loads(play_recording.as_json(play_recording.answer_of(tmp_path / "tree")))
    assert folder["seen"]["storage_state"] == played(TREE)["seen"]["storage_state"]


def test_a_tree_that_leads_out_of_its_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit):
        play_recording.lay_out({"../outside": "x"}, str(tmp_path / "tree"))
    assert not (tmp_path / "outside").exists()


def test_an_object_of_the_api_gives_state_and_plan(played):
    result = played(HOST, "host.xml")
    state = result["seen"]["HostSystem 0"]["adapter"]
    assert (state["device"], state["iqn"]) == ("vmhba64", "iqn.1998-01.com.vmware:esx-made-up")
    assert [(target["method"], target["parent"]) for target in state["targets"]] == [
        ("send", None),
        ("static", "[192.0.2.77:3261]"),
    ]
    # The adapter carries targets of others, so its name stays and a build is refused.
    assert result["plan"]["HostSystem 0"]["failure"]["code"] == "adapter_in_use"
    assert "HostSystem 0 somethingElse" in result["unread"]


@pytest.mark.parametrize(
    ("text", "reader", "value"),
    [
        ("-2 +3 +4 -4.0 +4.1 +4.2", "nfs_plan.parse_versions", {"3", "4", "4.1", "4.2"}),
        ("MD_LEVEL=raid1\nMD_DEVICES=2\n", "raid.parse_export", None),
        ("MemTotal:       16384000 kB\nMemAvailable:   8192000 kB\n", "probe.memory_mib", [16000, 8000]),
    ],
)
def test_a_text_goes_to_its_reader(played, text, reader, value):
    result = played(text, "answer.txt")
    assert list(result["seen"]) == [reader] and result["unread"] == []
    if value is not None:
        assert sorted(map(str, result["seen"][reader])) == sorted(map(str, value))


def test_what_nothing_reads_is_named(played):
    assert played("Total devices 3\n", "vgs.txt")["unread"] == ["vgs.txt"]
    assert played([1, 2], "list.json") == {"kind": "unknown", "seen": {}, "plan": {}, "unread": ["list.json"]}


def test_counters_that_a_vcenter_lacks_are_named(played):
    result = played("key\tgroup\tname\trollup\n1\tdatastore\tread\taverage\n", "counters.tsv")
    assert (
        result["seen"]["used"] == ["datastore.read.average"] and "datastore.write.average" in result["plan"]["missing"]
    )
