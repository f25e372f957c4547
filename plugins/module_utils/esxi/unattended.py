# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer file of an unattended Windows Setup, and the small ISO image that carries it.

The words are from Microsoft's "Unattended Windows Setup Reference": the components Microsoft-Windows-Setup, -International-Core and -Shell-Setup. Setup looks
for autounattend.xml in the root of each removable medium. No real Setup has read one of these files.

pycdlib is imported when an image is made, so that everything else does without it.
"""

from __future__ import annotations

import io
import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from ..core.failure import Failure, bad_value
from .params import VmParams, VmUnattendedOption
from .states import IsoWant

ANSWERS = "autounattend.xml"
SCRIPT = "storlab.ps1"
UNATTEND = "urn:schemas-microsoft-com:unattend"
WCM = "http://schemas.microsoft.com/WMIConfig/2002/State"
SPEC: dict[str, Any] = {
    "administrator_password": {"type": "str", "required": True, "no_log": True},
    "product_key": {"type": "str", "no_log": True},
    "image_name": {"type": "str"},
    "image_index": {"type": "int"},
    "host_name": {"type": "str"},
    "language": {"type": "str", "default": "en-US"},
    "locale": {"type": "str"},
    "time_zone": {"type": "str", "default": "UTC"},
    "address": {"type": "str"},
    "gateway": {"type": "str"},
    "dns": {"type": "list", "elements": "str", "default": []},
    "reachable_from": {"type": "list", "elements": "str", "default": ["LocalSubnet"]},
}
# Controllers and cards that Windows Server 2012 R2 and later have a driver for on their own medium.
CONTROLLERS = ("ide", "nvme")
CARDS = ("e1000e", "e1000")
KINDS = (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]")


# ---------------------------------------------------------------- what is wanted


def answers_of(testbed_id: str, name: str, datastore: str) -> IsoWant:
    """Where the image lies: in the testbed's folder of the machine's datastore, so that a teardown finds it without the machine."""
    path = f"storlab-{testbed_id}/{name}-answers.iso"
    return {
        "src": ANSWERS,
        "path": path,
        "datastore": datastore,
        "sidecar": f"{path}.storlab.json",
        "backing": f"[{datastore}] {path}",
    }


def check(params: VmParams) -> dict[str, Any]:
    """The words of the answer file; raises bad_value before anything is asked of the host."""
    given: VmUnattendedOption = params["unattended"]
    name = params["name"]
    words: dict[str, Any] = {**given, "locale": given["locale"] or given["language"]}
    words["host_name"] = given["host_name"] or name

    def refuse(key: str, value: object, remedy: str) -> Failure:
        return bad_value(f"unattended.{key} of {name}", value, remedy)

    if not re.fullmatch(r"(?!\d+$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,13}[A-Za-z0-9])?", words["host_name"]):
        raise refuse(
            "host_name", words["host_name"], "Windows takes 1 to 15 letters, digits and dashes, and not digits alone."
        )
    password = given["administrator_password"]
    fits = sum(bool(re.search(kind, password)) for kind in KINDS) >= 3 and 8 <= len(password) <= 127
    if not fits or not password.isprintable():
        raise refuse(
            "administrator_password",
            "(not shown)",
            "Windows Server takes 8 to 127 characters of three kinds: capital and small letters, digits, others.",
        )
    if given["product_key"] and not re.fullmatch(r"[A-Z0-9]{5}(-[A-Z0-9]{5}){4}", given["product_key"]):
        raise refuse("product_key", "(not shown)", "Give five groups of five, such as AAAAA-BBBBB-CCCCC-DDDDD-EEEEE.")
    if bool(given["image_name"]) == (given["image_index"] is not None):
        raise refuse("image_name", given["image_name"], "Give either image_name or image_index of the install image.")
    if given["image_index"] is not None and given["image_index"] < 1:
        raise refuse("image_index", given["image_index"], "Images are numbered from 1.")
    for key in ("language", "locale"):
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]{4})?-[A-Z]{2}", words[key]):
            raise refuse(key, words[key], "Give a language and a country, such as en-US.")
    _check_network(words, refuse)
    return words


def _check_network(words: Mapping[str, Any], refuse: Any) -> None:
    if words["gateway"] and not words["address"]:
        raise refuse("gateway", words["gateway"], "Give address, too; without it DHCP gives both.")
    for key, read, values in (
        ("address", ipaddress.ip_interface, [words["address"]]),
        ("gateway", ipaddress.ip_address, [words["gateway"]]),
        ("dns", ipaddress.ip_address, words["dns"]),
        ("reachable_from", ipaddress.ip_network, set(words["reachable_from"]) - {"Any", "LocalSubnet"}),
    ):
        for value in filter(None, values):
            try:
                read(value)
            except ValueError:
                raise refuse(key, value, "Give an address, with its prefix where it is a network's.") from None
    if words["address"] and "/" not in words["address"]:
        raise refuse("address", words["address"], "Give it with its prefix, such as 192.0.2.11/24.")
    if not words["reachable_from"]:
        raise refuse("reachable_from", [], "Name a network, LocalSubnet or Any: nothing could reach the machine.")


def check_machine(params: VmParams) -> None:
    """Setup numbers the disks by itself, and wipes disk 0: a machine to be installed has one disk, whose controller Windows has a driver for."""
    name = params["name"]
    if params["template"] or params["ova"]:
        raise bad_value(
            f"unattended of {name}", "template or ova", "A template and an OVA are installed; leave it out."
        )
    if not params["iso"]:
        raise bad_value(f"iso of {name}", None, "Name the image of Windows Server, which is yours to provide.")
    if len(params["disks"]) != 1 or params["disks"][0]["rdm"]:
        raise bad_value(
            f"disks of {name}",
            ", ".join(disk["name"] for disk in params["disks"]),
            "Give one disk, other than a LUN, until Windows is installed: Setup wipes the disk that it numbers 0. Others can be added afterwards.",
        )
    controller = params["disks"][0]["controller"]
    if controller not in CONTROLLERS:
        raise bad_value(
            f"controller of disk {params['disks'][0]['name']} of {name}",
            controller,
            "Use ide or nvme: Windows Server has no driver of its own for pvscsi and lsilogic.",
        )
    for nic in params["nics"]:
        if nic["type"] not in CARDS:
            raise bad_value(
                f"nics of {name}", nic["type"], "Use e1000e: Windows Server has no driver of its own for vmxnet3."
            )


def summary(words: Mapping[str, Any]) -> str:
    """The words of the answer file as steps show them: without what is secret."""
    image = words["image_name"] or f"number {words['image_index']}"
    key = "with a product key, which is not shown" if words["product_key"] else "without a product key"
    return (
        f"{ANSWERS}: image {image}, host name {words['host_name']}, {words['language']}, {words['locale']}, {words['time_zone']}, "
        f"address {words['address'] or 'by DHCP'}, {key}, WinRM over HTTPS from {', '.join(words['reachable_from'])}, disk 0 WIPED; "
        "the password is not shown"
    )


# ---------------------------------------------------------------- the answer file


def _add(parent: ET.Element, values: Mapping[str, Any]) -> None:
    """Puts a tree of values below an element; a list is its elements, each to be added by Setup."""
    for key, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            child = ET.SubElement(parent, f"{{{UNATTEND}}}{key}")
            if isinstance(value, list):
                child.set(f"{{{WCM}}}action", "add")
            if isinstance(each, Mapping):
                _add(child, each)
            else:
                child.text = str(each).lower() if isinstance(each, bool) else str(each)


def _disks() -> dict[str, Any]:
    """The layout for BIOS, which a host gives a machine: a small partition to start from, and Windows on the rest."""
    return {
        "WillShowUI": "OnError",
        "Disk": [
            {
                "DiskID": 0,
                "WillWipeDisk": True,
                "CreatePartitions": {
                    "CreatePartition": [
                        {"Order": 1, "Type": "Primary", "Size": 500},
                        {"Order": 2, "Type": "Primary", "Extend": True},
                    ]
                },
                "ModifyPartitions": {
                    "ModifyPartition": [
                        {"Order": 1, "PartitionID": 1, "Active": True, "Format": "NTFS", "Label": "System"},
                        {"Order": 2, "PartitionID": 2, "Format": "NTFS", "Label": "Windows", "Letter": "C"},
                    ]
                },
            }
        ],
    }


def passes(words: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{pass: {component: its settings}}, by the names of Microsoft's reference."""
    international = {
        "InputLocale": words["locale"],
        "SystemLocale": words["locale"],
        "UILanguage": words["language"],
        "UserLocale": words["locale"],
    }
    image = (
        {"Key": "/IMAGE/NAME", "Value": words["image_name"]}
        if words["image_name"]
        else {"Key": "/IMAGE/INDEX", "Value": words["image_index"]}
    )
    user: dict[str, Any] = {"AcceptEula": True, "FullName": "Administrator", "Organization": "storlab"}
    if words["product_key"]:
        user["ProductKey"] = {"Key": words["product_key"], "WillShowUI": "OnError"}
    password = {"Value": words["administrator_password"], "PlainText": True}
    # The letter of the drive is known only to the machine. The copies that Setup keeps of the answer file go with it.
    started = (
        f"cmd /c for %d in (D E F G H) do if exist %d:\\{SCRIPT} "
        f"powershell -NoProfile -ExecutionPolicy Bypass -File %d:\\{SCRIPT}"
    )
    return {
        "windowsPE": {
            "Microsoft-Windows-International-Core-WinPE": {
                "SetupUILanguage": {"UILanguage": words["language"]},
                **international,
            },
            "Microsoft-Windows-Setup": {
                "DiskConfiguration": _disks(),
                "ImageInstall": {
                    "OSImage": {
                        "InstallFrom": {"MetaData": [image]},
                        "InstallTo": {"DiskID": 0, "PartitionID": 2},
                        "WillShowUI": "OnError",
                    }
                },
                "UserData": user,
            },
        },
        "specialize": {
            "Microsoft-Windows-Shell-Setup": {"ComputerName": words["host_name"], "TimeZone": words["time_zone"]}
        },
        "oobeSystem": {
            "Microsoft-Windows-International-Core": international,
            "Microsoft-Windows-Shell-Setup": {
                "OOBE": {"HideEULAPage": True, "ProtectYourPC": 3},
                "UserAccounts": {"AdministratorPassword": password},
                # Once: commands of the first logon need one, and IOMeter needs a user at the console.
                "AutoLogon": {"Enabled": True, "LogonCount": 1, "Username": "Administrator", "Password": password},
                "FirstLogonCommands": {
                    "SynchronousCommand": [
                        {"Order": 1, "Description": "WinRM over HTTPS", "CommandLine": started},
                    ]
                },
            },
        },
    }


def answer_file(words: Mapping[str, Any]) -> bytes:
    ET.register_namespace("", UNATTEND)
    ET.register_namespace("wcm", WCM)
    root = ET.Element(f"{{{UNATTEND}}}unattend")
    for name, components in passes(words).items():
        settings = ET.SubElement(root, f"{{{UNATTEND}}}settings", {"pass": name})
        for component, values in components.items():
            attributes = {
                "name": component,
                "processorArchitecture": "amd64",
                "publicKeyToken": "31bf3856ad364e35",
                "language": "neutral",
                "versionScope": "nonSxS",
            }
            _add(ET.SubElement(settings, f"{{{UNATTEND}}}component", attributes), values)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def first_logon(words: Mapping[str, Any]) -> bytes:
    """The script of the first logon. Every value in it has been checked: none holds a quote."""
    lines = ["$ErrorActionPreference = 'Stop'"]
    if words["address"]:
        interface = ipaddress.ip_interface(words["address"])
        gateway = f" -DefaultGateway '{words['gateway']}'" if words["gateway"] else ""
        lines += [
            "$card = Get-NetAdapter -Physical | Sort-Object ifIndex | Select-Object -First 1",
            f"New-NetIPAddress -InterfaceIndex $card.ifIndex -IPAddress '{interface.ip}' "
            f"-PrefixLength {interface.network.prefixlen}{gateway}",
        ]
    if words["address"] and words["dns"]:
        servers = ", ".join(f"'{server}'" for server in words["dns"])
        lines.append(f"Set-DnsClientServerAddress -InterfaceIndex $card.ifIndex -ServerAddresses @({servers})")
    sources = ", ".join(f"'{source}'" for source in words["reachable_from"])
    lines += [
        "$made = New-SelfSignedCertificate -DnsName $env:COMPUTERNAME -CertStoreLocation Cert:\\LocalMachine\\My",
        "Enable-PSRemoting -Force -SkipNetworkProfileCheck",
        "Get-ChildItem WSMan:\\localhost\\Listener | Where-Object { $_.Keys -contains 'Transport=HTTP' } | Remove-Item -Recurse",
        "New-Item -Path WSMan:\\localhost\\Listener -Transport HTTPS -Address * -CertificateThumbPrint $made.Thumbprint -Force",
        "Disable-NetFirewallRule -Name 'WINRM-HTTP-In-TCP*'",
        "New-NetFirewallRule -Name storlab-winrm-https -DisplayName 'WinRM over HTTPS (storlab)' -Direction Inbound -Protocol TCP "
        f"-LocalPort 5986 -RemoteAddress @({sources}) -Action Allow",
        'Remove-Item -Force -ErrorAction SilentlyContinue -Path "$env:WINDIR\\Panther\\unattend.xml", '
        '"$env:WINDIR\\Panther\\Unattend\\unattend.xml", "$env:WINDIR\\System32\\Sysprep\\unattend.xml"',
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


# ---------------------------------------------------------------- the image


def image_of(words: Mapping[str, Any]) -> bytes:
    """An ISO 9660 image with the answer file and the script; Joliet has their names as Windows reads them."""
    try:
        import pycdlib
    except ImportError:
        raise Failure(
            "pycdlib_missing",
            "The Python library pycdlib is not installed where this task runs, so the image with the answer file cannot be made.",
            "Install it there: pip install pycdlib.",
        ) from None
    image, written = pycdlib.PyCdlib(), io.BytesIO()
    image.new(interchange_level=3, joliet=3, vol_ident="STORLAB")
    for name, content in ((ANSWERS, answer_file(words)), (SCRIPT, first_logon(words))):
        image.add_fp(io.BytesIO(content), len(content), iso_path=f"/{name.upper()};1", joliet_path=f"/{name}")
    image.write_fp(written)
    image.close()
    return written.getvalue()
