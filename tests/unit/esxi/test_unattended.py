# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer file of an unattended Windows Setup, by the names of Microsoft's reference, and the image that carries it. No Windows reads it here."""

from __future__ import annotations

import io
import struct
import sys
from xml.etree import ElementTree as ET

import pycdlib
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import machine_places, unattended
from test_esxi_vm import DISK, RAW, machine, params, want

PASSWORD = "sl-<Win>&\"pw'-7K3"
KEY = "AAAA1-BBBB2-CCCC3-DDDD4-EEEE5"
GIVEN = {
    "administrator_password": PASSWORD,
    "product_key": KEY,
    "image_name": "Windows Server 2012 R2 SERVERSTANDARD",
    "image_index": None,
    "host_name": "RAM01",
    "language": "en-US",
    "locale": "de-AT",
    "time_zone": "W. Europe Standard Time",
    "address": "192.0.2.11/26",
    "gateway": "192.0.2.1",
    "dns": ["192.0.2.2", "192.0.2.3"],
    "reachable_from": ["198.51.100.0/24"],
}
SYSTEM = {**DISK, "name": "system", "controller": "ide"}
ISO = {"src": None, "path": "w.iso", "datastore": None}
NAMES = {"u": unattended.UNATTEND}


def words(**more) -> dict:
    return unattended.check(params(unattended={**GIVEN, **more}))


def component(root: ET.Element, phase: str, name: str) -> ET.Element:
    [each] = root.findall(f"u:settings[@pass='{phase}']/u:component[@name='{name}']", NAMES)
    return each


def text(parent: ET.Element, path: str) -> str | None:
    return parent.findtext("/".join(f"u:{name}" for name in path.split("/")), namespaces=NAMES)


def test_the_answers_are_where_microsofts_reference_has_them():
    root = ET.fromstring(unattended.answer_file(words()))  # noqa: S314 written two lines above
    setup = component(root, "windowsPE", "Microsoft-Windows-Setup")
    assert text(setup, "ImageInstall/OSImage/InstallFrom/MetaData/Key") == "/IMAGE/NAME"
    assert text(setup, "ImageInstall/OSImage/InstallFrom/MetaData/Value") == GIVEN["image_name"]
    assert text(setup, "ImageInstall/OSImage/InstallTo/PartitionID") == "2"
    assert (text(setup, "UserData/AcceptEula"), text(setup, "UserData/ProductKey/Key")) == ("true", KEY)
    disks = setup.findall("u:DiskConfiguration/u:Disk", NAMES)
    assert [text(disk, "DiskID") for disk in disks] == ["0"]
    assert disks[0].get(f"{{{unattended.WCM}}}action") == "add"
    created = disks[0].findall("u:CreatePartitions/u:CreatePartition", NAMES)
    assert [(text(each, "Order"), text(each, "Size"), text(each, "Extend")) for each in created] == [
        ("1", "500", None),
        ("2", None, "true"),
    ]
    shell = component(root, "specialize", "Microsoft-Windows-Shell-Setup")
    assert (text(shell, "ComputerName"), text(shell, "TimeZone")) == ("RAM01", GIVEN["time_zone"])
    logon = component(root, "oobeSystem", "Microsoft-Windows-Shell-Setup")
    assert text(logon, "UserAccounts/AdministratorPassword/Value") == PASSWORD
    assert (text(logon, "AutoLogon/LogonCount"), text(logon, "AutoLogon/Password/Value")) == ("1", PASSWORD)
    language = component(root, "oobeSystem", "Microsoft-Windows-International-Core")
    assert (text(language, "UILanguage"), text(language, "UserLocale")) == ("en-US", "de-AT")
    command = text(logon, "FirstLogonCommands/SynchronousCommand/CommandLine")
    assert unattended.SCRIPT in command and len(command) < 1024 and PASSWORD not in command


def test_without_a_key_there_is_none_and_an_image_may_have_a_number():
    root = ET.fromstring(unattended.answer_file(words(product_key=None, image_name=None, image_index=3)))  # noqa: S314
    setup = component(root, "windowsPE", "Microsoft-Windows-Setup")
    assert setup.find("u:UserData/u:ProductKey", NAMES) is None
    assert text(setup, "ImageInstall/OSImage/InstallFrom/MetaData/Key") == "/IMAGE/INDEX"
    assert text(setup, "ImageInstall/OSImage/InstallFrom/MetaData/Value") == "3"


def test_the_script_opens_winrm_over_https_alone_and_holds_no_secret():
    script = unattended.first_logon(words()).decode("ascii")
    assert "New-SelfSignedCertificate" in script and "-LocalPort 5986 -RemoteAddress @('198.51.100.0/24')" in script
    assert "-IPAddress '192.0.2.11' -PrefixLength 26 -DefaultGateway '192.0.2.1'" in script
    assert "@('192.0.2.2', '192.0.2.3')" in script
    assert PASSWORD not in script and KEY not in script
    by_dhcp = unattended.first_logon(words(address=None, gateway=None)).decode("ascii")
    assert "New-NetIPAddress" not in by_dhcp and "Set-DnsClientServerAddress" not in by_dhcp


def test_the_image_is_read_back_as_it_was_written():
    written = unattended.image_of(words())
    # ISO 9660: the primary descriptor in sector 16, the one of Joliet (level 3) after it, each as long as the image says.
    first, second = written[16 * 2048 :], written[17 * 2048 :]
    assert (first[:6], second[:6]) == (b"\x01CD001", b"\x02CD001")
    assert first[40:72].decode().strip() == "STORLAB" and second[88:91] == b"%/E"
    assert struct.unpack("<I", first[80:84])[0] * 2048 == len(written)
    image = pycdlib.PyCdlib()
    image.open_fp(io.BytesIO(written))
    names = {
        child.file_identifier().decode("utf-16-be")
        for child in image.list_children(joliet_path="/")
        if not child.is_dot() and not child.is_dotdot()
    }
    assert names == {"autounattend.xml", "storlab.ps1"}
    for name, content in (("autounattend.xml", unattended.answer_file), ("storlab.ps1", unattended.first_logon)):
        read = io.BytesIO()
        image.get_file_from_iso_fp(read, joliet_path=f"/{name}")
        assert read.getvalue() == content(words())
    image.close()


def test_without_the_library_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycdlib", None)
    with pytest.raises(Failure) as caught:
        unattended.image_of(words())
    assert caught.value.code == "pycdlib_missing" and "pip install pycdlib" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host_name", "sixteen-letters1"),
        ("host_name", "1234"),
        ("host_name", "a_b"),
        ("administrator_password", "lowercase-only"),
        ("administrator_password", "Ab1-"),
        ("administrator_password", "Ab1-line\nbreak"),
        ("product_key", "AAAA1-BBBB2"),
        ("image_index", 2),
        ("image_name", None),
        ("locale", "english"),
        ("address", "192.0.2.11"),
        ("address", "192.0.2.256/24"),
        ("gateway", "router'; calc"),
        ("dns", ["192.0.2"]),
        ("reachable_from", ["Any'"]),
        ("reachable_from", []),
    ],
)
def test_answers_that_setup_would_not_take_are_refused_without_secrets(key, value):
    with pytest.raises(Failure) as caught:
        words(**{key: value})
    assert caught.value.code == "bad_value" and "unattended." in str(caught.value)
    assert PASSWORD not in str(caught.value) and KEY not in str(caught.value)
    if key in ("administrator_password", "product_key"):
        assert value not in str(caught.value) + str(caught.value.details)


@pytest.mark.parametrize(
    "more",
    [
        {"iso": None},
        {"disks": []},
        {"disks": [SYSTEM, DISK]},
        {"disks": [RAW]},
        {"disks": [{**SYSTEM, "controller": "pvscsi"}]},
        {"nics": [{"network": "VM Network", "type": "vmxnet3"}]},
        {"template": "gold"},
    ],
    ids=["no image", "no disk", "two disks", "a LUN", "no driver", "no card's driver", "a template"],
)
def test_a_machine_that_setup_could_not_take_or_would_wipe_too_much_of_is_refused(more):
    fits = {"iso": ISO, "disks": [SYSTEM], "nics": [{"network": "VM Network", "type": "e1000e"}]}
    unattended.check_machine(params(**fits))
    with pytest.raises(Failure) as caught:
        unattended.check_machine(params(**{**fits, **more}))
    assert caught.value.code == "bad_value"


def test_the_summary_shows_no_secret():
    shown = unattended.summary(words())
    assert PASSWORD not in shown and KEY not in shown and "RAM01" in shown and "WIPED" in shown


def test_each_image_has_a_drive_of_its_own_and_keeps_it():
    asked = {**want(iso=ISO), "answers": unattended.answers_of("tb", "vm1", "ds1")}
    places, missing = machine_places.place(asked, machine())
    assert (places, [(each["bus"], each["unit"]) for each in missing]) == ({}, [(0, 0), (0, 1)])
    backings = ["[ds1] w.iso", "[ds1] storlab-tb/vm1-answers.iso"]
    drives = [
        {"key": 3000 + number, "controller": "ide", "bus": 0, "unit": number, "iso": backing}
        for number, backing in enumerate(backings)
    ]
    assert machine_places.place(asked, machine(cdroms=drives))[1] == []
    assert [drive["key"] for _image, drive in machine_places.drives(asked, machine(cdroms=drives))] == [3000, 3001]
    emptied = [drives[0], {**drives[1], "iso": None}]
    assert machine_places.drives(asked, machine(cdroms=emptied))[1][1] == emptied[1]
    # A drive with somebody else's image is not taken.
    others = [drives[0], {**drives[1], "iso": "[ds1] others.iso"}]
    assert machine_places.drives(asked, machine(cdroms=others))[1][1] is None
