# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording holds nothing that names the lab, and no secret: each is planted where a host would show it, and looked for in the whole result."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import recording as esxi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import recording as linux
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import recording as windows

KEY = b"a key of the tests"

ESXI = {
    "a note of a machine": ("<annotation>Ring Zaphod on 7</annotation>", "Zaphod"),
    "a setting of a machine": (
        "<extraConfig><key>guestinfo.userdata</key><value xsi:type='xsd:string'>sesame-open</value></extraConfig>",
        "sesame-open",
    ),
    "a property of an appliance": (
        "<vAppConfig xsi:type='VmConfigInfo'><property><id>pw</id><value>marvin-pw</value></property></vAppConfig>",
        "marvin-pw",
    ),
    "a licence": ("<licenseKey>ABCDE-FGHIJ-KLMNO-PQRST-UVWXY</licenseKey>", "ABCDE"),
    "a serial number": ("<serialNumber>TRILLIAN42</serialNumber>", "TRILLIAN42"),
    "a CHAP name": ("<chapName>ford-chap</chapName>", "ford-chap"),
    "a name of a machine": (
        "<propSet><name>name</name><val xsi:type='xsd:string'>arthur-vm</val></propSet>",
        "arthur-vm",
    ),
    "a name of an NFS server": ("<remoteHost>slartibartfast</remoteHost>", "slartibartfast"),
    "a name of a port group": ("<spec><name>Dent-Network</name><vlanId>7</vlanId></spec>", "Dent-Network"),
    "a host with its domain": ("<server>time.magrathea.local</server>", "magrathea"),
    "an address": ("<ipAddress>10.42.42.42</ipAddress>", "10.42.42.42"),
    "a MAC address": ("<mac>00:50:56:9a:42:77</mac>", "9a:42:77"),
}


@pytest.mark.parametrize("what", ESXI)
def test_of_an_esxi_host(what):
    answer, secret = ESXI[what]
    twice = (
        f"<x>{answer}<y>in a text: {secret} and on</y></x>" if what in ("a name of a machine", "an address") else answer
    )
    recording = {"version": "v", "calls": [{"request": "<r/>", "answer": twice, "status": 200}]}
    text = json.dumps(esxi.scrubbed(recording, KEY, set()))
    assert secret not in text, text


def test_a_name_that_was_asked_for_alone_is_known():
    request = "<soapenv:Body><Fetch><_this type='Network'>n-7</_this><prop xsi:type='xsd:string'>name</prop></Fetch>"
    calls = [
        {"request": request, "answer": "<returnval xsi:type='xsd:string'>Vogon Fleet</returnval>", "status": 200},
        {"request": "<r/>", "answer": "<summary>on Vogon Fleet</summary>", "status": 200},
    ]
    scrubbed = esxi.scrubbed({"version": "v", "calls": calls}, KEY, set())
    assert "Vogon" not in json.dumps(scrubbed)
    # One replacement in both places, or a replay would not find its answers.
    [alone] = re.findall(r">([^<]+)</returnval>", scrubbed["calls"][0]["answer"])
    assert f"on {alone}" in scrubbed["calls"][1]["answer"]


def test_a_machine_that_is_called_as_the_api_calls_something_breaks_nothing():
    answer = "<obj type='VirtualMachine'>vm-1</obj><propSet><name>name</name><val xsi:type='xsd:string'>config</val></propSet>"
    answer += "<propSet>\n <name>config</name><val><config>config</config></val></propSet>"
    request = "<pathSet>config</pathSet>"
    calls = [{"request": request, "answer": answer, "status": 200}]
    scrubbed = esxi.scrubbed({"version": "v", "calls": calls}, KEY, set())["calls"][0]
    assert scrubbed["request"] == request and "\n <name>config</name><val><config>" in scrubbed["answer"]
    assert "<name>name</name>" in scrubbed["answer"] and ">config</val>" not in scrubbed["answer"]


def test_what_the_api_is_called_stays():
    answer = "<Envelope xmlns='http://schemas.xmlsoap.org/soap/envelope/' xmlns:x='http://www.w3.org/2001/XMLSchema'>"
    answer += "<fullName>VMware ESXi 8.0.3 build-24280767</fullName></Envelope>"
    recording = {"version": "v", "calls": [{"request": "<r/>", "answer": answer, "status": 200}]}
    assert esxi.scrubbed(recording, KEY, set())["calls"][0]["answer"] == answer


LINUX_FILES = {
    "etc/exports": "/srv/a heartofgold(rw) deepthought.magrathea.local(ro)\n",
    "var/lib/nfs/etab": "/srv/a\tbetelgeuse(rw,sync)\n",
    "proc/self/mountinfo": "40 1 0:50 / /mnt rw - nfs4 krikkit:/vol1 rw,addr=10.42.42.43\n",
    "sys/devices/sda/device/serial": "ZX81SERIAL7\n",
    "sys/devices/sda/device/vpd_pg80": {"latin1": "\0\x80\0\x0bZX81SERIAL7"},
    "sys/devices/sda/device/vpd_pg83": {
        "latin1": "\0\x83\0\x14\x01\x03\0\x10" + bytes.fromhex("600508b1001c7a6f3b2e9d4c5a6b7c8d").decode("latin1")
    },
    "sys/devices/sda/device/wwid": "naa.600508b1001c7a6f3b2e9d4c5a6b7c8d\n",
    "etc/iscsi/initiatorname.iscsi": "InitiatorName=iqn.1994-05.com.redhat:eccentrica\n",
}
LINUX_OUTPUTS = {
    "uname -a": "Linux wowbagger 6.1.0 #1 SMP x86_64 GNU/Linux\n",
    "lsblk -J -O -b": '{"blockdevices": [{"name": "sda", "serial": "LSBLKSER99"}]}',
    "exportfs -v": "/srv/a        \theartofgold(rw)\n",
}


def test_of_a_linux_host():
    recording = {
        "files": LINUX_FILES,
        "outputs": {line: {"rc": 0, "out": text} for line, text in LINUX_OUTPUTS.items()},
    }
    scrubbed = linux.scrubbed(recording, KEY, set())
    text = json.dumps(scrubbed)
    for secret in (
        "heartofgold", "deepthought", "magrathea", "betelgeuse", "krikkit", "10.42.42.43", "ZX81SERIAL7", "LSBLKSER99", "eccentrica", "wowbagger",
        "1c7a6f3b2e9d4c5a6b7c8d",
    ):  # fmt: skip
        assert secret not in text, secret
    # The page of vital product data says the same as the text that is made of it.
    page = scrubbed["files"]["sys/devices/sda/device/vpd_pg83"]["latin1"].encode("latin1")
    assert (
        scrubbed["files"]["sys/devices/sda/device/wwid"] == f"naa.{page[8:].hex()}\n"
        and page[:8] == b"\0\x83\0\x14\x01\x03\0\x10"
    )
    assert scrubbed["files"].keys() == LINUX_FILES.keys()


def test_secrets_of_a_linux_host_are_not_even_read(tmp_path):
    acl = tmp_path / "sys/kernel/config/target/iscsi/iqn.x/tpgt_1/acls/iqn.y"
    (acl / "auth").mkdir(parents=True)
    (acl / "auth" / "password").write_text("babelfish")
    (acl / "auth" / "userid").write_text("babelfish")
    (acl / "info").write_text("No active iSCSI Session")
    (tmp_path / "sys/kernel/config/nvmet/hosts/nqn.z").mkdir(parents=True)
    (tmp_path / "sys/kernel/config/nvmet/hosts/nqn.z/dhchap_key").write_text("babelfish")
    recording = linux.record(str(tmp_path))
    assert any(path.endswith("/info") for path in recording["files"])
    assert "babelfish" not in json.dumps(recording)


def test_of_a_windows_host():
    state = {
        "about": {"product": "Windows Server 2022 Standard", "version": "10.0.20348"},
        "disks": [
            {"number": 1, "serial": "ZX81SERIAL7", "unique_id": "600508B1001C7A6F3B2E9D4C5A6B7C8D", "size_bytes": 7}
        ],
        "volumes": [{"letter": "D", "label": "Zaphod-Data"}],
        "targets": [
            {
                "name": "t",
                "iqn": "iqn.1991-05.com.microsoft:zaphod-t",
                "chap_user": "ford-chap",
                "description": "of Zaphod-Data",
            }
        ],
        "portals": [{"address": "10.42.42.42", "port": 3260}],
    }
    text = json.dumps(windows.scrubbed(state, KEY, {"wowbagger"}))
    for secret in ("ZX81SERIAL7", "7A6F3B2E", "Zaphod", "zaphod", "ford-chap", "10.42.42.42"):
        assert secret not in text, secret
    assert '"product": "Windows Server 2022 Standard", "version": "10.0.20348"' in text and '"size_bytes": 7' in text
