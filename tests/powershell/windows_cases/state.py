# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state: what the plans know of a host. The hosts are worlds/server.ps1 and worlds/client.ps1, and what is changed of them here."""

from __future__ import annotations

import copy

from cases import Case, at, call

WMI = {"Namespace": "root/wmi"}
SERVICES, FIREWALL = "Name='WinTarget' OR Name='MSiSCSI'", "Name='mpssvc' AND State='Running'"
BEGIN = [
    call("Assert-WindowsPowerShell"),
    call("Get-CimInstance", ClassName="Win32_OperatingSystem"),
    call("Get-CimInstance", ClassName="Win32_Service", Filter=SERVICES),
]
FEATURE = [call("Get-WindowsFeature", Name=["FS-iSCSITarget-Server"])]
TARGET = [
    call("Get-IscsiVirtualDisk", ComputerName="localhost"),
    call("Get-CimInstance", **WMI, ClassName="WT_Host"),
    call("Get-IscsiServerTarget", ComputerName="localhost"),
    call("Get-IscsiTargetServerSetting", ComputerName="localhost"),
]
INITIATOR = [
    call("Get-CimInstance", **WMI, ClassName="MSiSCSIInitiator_MethodClass"),
    call("Get-IscsiTargetPortal"),
    call("Get-IscsiSession"),
    call("Get-Disk", iSCSISession="<session one>"),
    call("Get-Disk", iSCSISession="<session two>"),
]
DISKS = [
    call("Get-CimInstance", ClassName="Win32_PageFileUsage"),
    call("Get-CimInstance", ClassName="Win32_DiskDrive"),
    call("Get-Partition"),
    call("Get-Disk"),
    call("Get-Volume"),
    call("Get-CimInstance", ClassName="Win32_Service", Filter=FIREWALL),
]
RULES = [call("Get-NetFirewallRule", DisplayName=["storlab*"])]
END = [call("Read-HostValue", Key="SOFTWARE\\Microsoft\\iSCSI Target", Name="AllowLoopBack")]
ALL = [*BEGIN, *FEATURE, *TARGET, *INITIATOR, *DISKS, *RULES, *END]


def partition(number: int, kind: str, size_bytes: int, letter: str = "", folders: tuple = ()) -> dict:
    return {"number": number, "type": kind, "size_bytes": size_bytes, "letter": letter, "folders": list(folders)}


def disk(number: int, name: str, size_bytes: int, partitions: tuple = (), **changed) -> dict:
    return {
        "number": number,
        "lun": 0,
        "name": name,
        "serial": "",
        "unique_id": f"X{number}",
        "size_bytes": size_bytes,
        "sector_bytes": 512,
        "bus": "SATA",
        "style": "GPT",
        "offline": False,
        "read_only": False,
        "boot": False,
        "system": False,
        "clustered": False,
        "offline_reason": "",
        "page_file": False,
        "partitions": list(partitions),
        **changed,
    }


SERVER = {
    "about": {"product": "Windows Server 2022 Standard", "version": "10.0.20348", "boot": "2026-11-02T03:04:05Z"},
    "feature": "Installed",
    "services": [
        {"name": "MSiSCSI", "state": "Running", "start_mode": "Manual"},
        {"name": "WinTarget", "state": "Running", "start_mode": "Auto"},
    ],
    "virtual_disks": [
        {
            "path": "ramdisk:storlab-a.vhdx",
            "size_bytes": 8589934592,
            "description": "storlab testbed t1: a",
            "status": "Connected",
            "serial": "ABCD-1",
        },
        {
            "path": "D:\\lab\\b.vhdx",
            "size_bytes": 8796093022720,
            "description": "",
            "status": "NotConnected",
            "serial": "ABCD-2",
        },
    ],
    "targets": [
        {
            "name": "storlab-a",
            "iqn": "iqn.2026-11.org.example:a",
            "description": "storlab testbed t1",
            "status": "Connected",
            "initiators": [
                "IQN:iqn.1991-05.com.microsoft:box",
                "DNSName:client.lab.example",
                "IPAddress:192.0.2.9",
                "MACAddress:00-1A-2B-3C-4D-5E",
                "IQN:iqn.2026-11.org.example:client",
                "IPv6Address:2001:db8::9",
            ],
            "luns": [{"path": "ramdisk:storlab-a.vhdx", "lun": 5}, {"path": "D:\\lab\\b.vhdx", "lun": 7}],
            "chap": True,
            "chap_user": "user-in",
            "reverse_chap": True,
            "reverse_chap_user": "user-out",
            "sessions": ["iqn.1991-05.com.microsoft:box", "iqn.2026-11.org.example:client"],
        },
        {
            "name": "storlab-none",
            "iqn": "iqn.2026-11.org.example:none",
            "description": "",
            "status": "NotConnected",
            "initiators": [],
            "luns": [],
            "chap": False,
            "chap_user": "",
            "reverse_chap": False,
            "reverse_chap_user": "",
            "sessions": [],
        },
        {
            "name": "other",
            "iqn": "iqn.1991-05.com.microsoft:box-other-target",
            "description": "by hand",
            "status": "Disabled",
            "initiators": [],
            "luns": [],
            "chap": False,
            "chap_user": "",
            "reverse_chap": True,
            "reverse_chap_user": "theirs",
            "sessions": [],
        },
    ],
    "portals": [
        {"address": "192.0.2.1", "port": 3260, "enabled": True},
        {"address": "2001:db8::1", "port": 3261, "enabled": False},
    ],
    "loopback": 1,
    "firewall_rules": ["storlab t1 iSCSI target", "storlab t2 iSCSI target"],
    "initiator": {
        "iqn": "iqn.1991-05.com.microsoft:box",
        "portals": [{"address": "192.0.2.1", "port": 3260}, {"address": "198.51.100.1", "port": 3262}],
        "sessions": [
            {
                "id": "ffff-1",
                "iqn": "iqn.2026-11.org.example:a",
                "connected": True,
                "persistent": False,
                "authentication": "ONEWAYCHAP",
                "disks": [1, 4],
            },
            {
                "id": "ffff-2",
                "iqn": "iqn.2026-11.org.example:none",
                "connected": False,
                "persistent": True,
                "authentication": "NONE",
                "disks": [],
            },
        ],
    },
    "disks": [
        disk(
            0,
            "System disk",
            68719476736,
            (
                partition(1, "Reserved", 16777216),
                partition(2, "Basic", 68702699520, "C", ("D:\\mnt\\",)),
                partition(4, "Recovery", 1073741824),
            ),
            serial="SYS0",
            boot=True,
        ),
        disk(
            1,
            "MSFT Virtual HD",
            8589934592,
            serial="ABCD-1",
            lun=5,
            sector_bytes=4096,
            bus="iSCSI",
            style="RAW",
            offline=True,
            read_only=True,
            offline_reason="Policy",
        ),
        disk(
            2,
            "With an MBR",
            8796093022720,
            (partition(1, "IFS", 8796091973632, "D"),),
            lun=None,
            bus="SAS",
            style="MBR",
            read_only=True,
            system=True,
            page_file=True,
        ),
        disk(
            3,
            "Dynamic",
            2199023255552,
            (partition(1, "Unknown", 1048576), partition(2, "Unknown", 2199021158400)),
            serial="DYN",
            lun=None,
            bus="RAID",
            clustered=True,
        ),
    ],
    "volumes": [
        {"letter": "C", "label": "", "filesystem": "NTFS", "size_bytes": 68702699520, "entries": []},
        {
            "letter": "Q",
            "label": "storlab-12345678",
            "filesystem": "NTFS",
            "size_bytes": 8589934592,
            "entries": [
                {"name": "below", "size_bytes": None},
                {"name": ".hidden", "size_bytes": 3},
                {"name": "storlab-benchmark.dat", "size_bytes": 11},
            ],
        },
        {"letter": "D", "label": "Data of others", "filesystem": "ReFS", "size_bytes": 8796091973632, "entries": []},
    ],
    "files": [],
}
CLIENT = {
    "about": {"product": "Windows 11 Pro", "version": "10.0.26100", "boot": "2025-01-31T23:59:58Z"},
    "feature": None,
    "services": [{"name": "MSiSCSI", "state": "Stopped", "start_mode": "Disabled"}],
    "virtual_disks": [],
    "targets": [],
    "portals": [],
    "loopback": None,
    "firewall_rules": [],
    "initiator": {"iqn": None, "portals": [], "sessions": []},
    "disks": [
        disk(
            0,
            "NVMe disk",
            512110190592,
            (partition(3, "Basic", 511000000000, "C"),),
            serial="0025_3888",
            unique_id="eui.0025",
            bus="NVMe",
            boot=True,
            system=True,
        )
    ],
    "volumes": [{"letter": "C", "label": "Windows", "filesystem": "NTFS", "size_bytes": 511000000000, "entries": []}],
    "files": [],
}
VOLUME = {"volume/.hidden": "hid", "volume/storlab-benchmark.dat": "eleven char", "volume/below/deeper.txt": "not seen"}


def server(what: str, change: str = "", calls: list | None = None, files: tuple = (), error=None, **changed) -> Case:
    """The server as it is, but for what the change makes of it. changed: keys of the state that differ then."""
    result = {**copy.deepcopy(SERVER), **changed} if error is None else {}
    more = {"check": changed.pop("check")} if "check" in changed else {}
    if more:
        result.pop("check")
    return Case(
        "state",
        what,
        {"Files": list(files)},
        ALL if calls is None else calls,
        result,
        False,
        error,
        change=change,
        files=VOLUME,
        world="server",
        **more,
    )


def answer(cmdlet: str, block: str) -> str:
    return f"$global:StandIn.Answers['{cmdlet}'] = {{ param($Bound, $Name) {block} }}\n"


def instead(class_name: str, block: str) -> str:
    """One class of CIM objects is another, or is refused."""
    return (
        "$global:StandIn.Before = $global:StandIn.Answers['Get-CimInstance']\n"
        f"$global:StandIn.Answers['Get-CimInstance'] = {{ param($Bound, $Name) if ($Bound.ClassName -eq '{class_name}') {{ {block} }} "
        "else { & ($global:StandIn.Before) $Bound $Name } }\n"
    )


DENIED = 'Deny-Call -Message "$Name is denied."'
MISSING = "Deny-Call -Message 'No objects found.' -Category ObjectNotFound"


def until(name: str, **parameters) -> list:
    """The calls up to this one, which is the last."""
    for position, (cmdlet, given) in enumerate(ALL):
        if cmdlet == name and parameters.items() <= given.items():
            return ALL[: position + 1]
    raise LookupError(name)


def sixty_four() -> tuple:
    """Disks 0 to 63, the last ones with numbers of two digits, and what the state says of them."""
    block = (
        "if ($Bound.ContainsKey('iSCSISession')) { return }\n"
        "foreach ($number in 0..63) { New-Thing 'MSFT_Disk' @{ Number = [uint32]$number; FriendlyName = \"Disk $number\"; SerialNumber = ''; "
        'UniqueId = "X$number"; '
        "Size = [uint64](1048576 * ($number + 1)); LogicalSectorSize = [uint32]512; BusType = 'SATA'; PartitionStyle = 'GPT'; "
        "IsOffline = $false; IsReadOnly = $false; IsBoot = $false; "
        "IsSystem = $false; IsClustered = $false; OfflineReason = $null } }"
    )
    change = (
        answer("Get-Disk", block)
        + answer(
            "Get-Partition",
            "New-Thing 'MSFT_Partition' @{ DiskNumber = [uint32]63; PartitionNumber = [uint32]1; Type = 'Basic'; "
            "Size = [uint64]512; DriveLetter = [char]'Z'; AccessPaths = @('Z:\\') }",
        )
        + instead(
            "Win32_DiskDrive",
            "foreach ($number in 0..63) { New-Thing 'Win32_DiskDrive' @{ Index = [uint32]$number; SCSILogicalUnit = [uint16](63 - $number) } }",
        )
    )
    disks = [disk(number, f"Disk {number}", 1048576 * (number + 1), lun=63 - number) for number in range(64)]
    disks[63]["partitions"] = [partition(1, "Basic", 512, "Z")]
    return change, disks


MANY, SIXTY_FOUR = sixty_four()
NO_DISKS = copy.deepcopy(SERVER["initiator"])
for one in NO_DISKS["sessions"]:
    one["disks"] = []
WITHOUT_TARGETS = {"virtual_disks": [], "targets": [], "portals": []}
STOPPED = [
    {"name": "MSiSCSI", "state": "Running", "start_mode": "Manual"},
    {"name": "WinTarget", "state": "Stopped", "start_mode": "Auto"},
]
CASES = [
    server("of a server"),
    server("in check mode, too", check=True),
    Case(
        "state",
        "and those of the asked files that are there",
        {"Files": [at("volume", "storlab-benchmark.dat"), at("none"), at("volume", "below")]},
        ALL,
        {**SERVER, "files": [at("volume", "storlab-benchmark.dat"), at("volume", "below")]},
        False,
        files=VOLUME,
        world="server",
    ),
    Case("state", "of a client", {"Files": []}, [*BEGIN, *DISKS, *END], CLIENT, False, world="client"),
    server("of 64 disks", MANY, disks=SIXTY_FOUR, initiator=NO_DISKS),
    server(
        "without targets and virtual disks",
        answer("Get-IscsiServerTarget", "") + answer("Get-IscsiVirtualDisk", ""),
        targets=[],
        virtual_disks=[],
    ),
    server(
        "whose target server does not run",
        instead(
            "Win32_Service",
            "if ($Bound.Filter -like '*mpssvc*') { & ($global:StandIn.Before) $Bound $Name } else { "
            "New-Thing 'Win32_Service' @{ Name = 'MSiSCSI'; State = 'Running'; StartMode = 'Manual' }; "
            "New-Thing 'Win32_Service' @{ Name = 'WinTarget'; State = 'Stopped'; StartMode = 'Auto' } }",
        ),
        [*BEGIN, *FEATURE, *INITIATOR, *DISKS, *RULES, *END],
        services=STOPPED,
        **WITHOUT_TARGETS,
    ),
    server(
        "without sessions and portals of its own",
        answer("Get-IscsiSession", "") + answer("Get-IscsiTargetPortal", ""),
        [one for one in ALL if "iSCSISession" not in one[1]],
        initiator={"iqn": "iqn.1991-05.com.microsoft:box", "portals": [], "sessions": []},
    ),
    server(
        "with names that look like a script",
        instead(
            "WT_Host", "New-Thing 'WT_Host' @{ HostName = 'storlab-a'; TargetIQN = 'a''b\"c $env:PATH $(exit) `d`' }"
        ),
        targets=[{**one, "iqn": iqn} for one, iqn in zip(SERVER["targets"], ("a'b\"c $env:PATH $(exit) `d`", "", ""))],
    ),
    server("none of the firewall's rules is a testbed's", answer("Get-NetFirewallRule", MISSING), firewall_rules=[]),
    server("the host may not be its own initiator", answer("Read-HostValue", ""), loopback=None),
    server("a value of the registry that is not 1", answer("Read-HostValue", "[int]0"), loopback=0),
    # To see nothing of what may not be seen would make a disk look blank, or a target look gone.
    *(
        server(f"{cmdlet} is denied", answer(cmdlet, DENIED), until(cmdlet), error=f"{cmdlet} is denied.")
        for cmdlet in (
            "Get-WindowsFeature",
            "Get-IscsiVirtualDisk",
            "Get-IscsiServerTarget",
            "Get-IscsiTargetServerSetting",
            "Get-IscsiTargetPortal",
            "Get-IscsiSession",
            "Get-Partition",
            "Get-Volume",
            "Get-NetFirewallRule",
        )
    ),
    *(
        server(
            f"{name} is denied",
            instead(name, DENIED),
            until("Get-CimInstance", ClassName=name),
            error="Get-CimInstance is denied.",
        )
        for name in (
            "Win32_OperatingSystem",
            "Win32_Service",
            "WT_Host",
            "MSiSCSIInitiator_MethodClass",
            "Win32_PageFileUsage",
            "Win32_DiskDrive",
        )
    ),
    server(
        "the disks of a session may not be seen",
        answer("Get-Disk", DENIED),
        until("Get-Disk", iSCSISession="<session one>"),
        error="Get-Disk is denied.",
    ),
    server("no partition is seen", answer("Get-Partition", MISSING), until("Get-Partition"), error="No objects found."),
    server(
        "another PowerShell",
        answer("Assert-WindowsPowerShell", "Deny-Call -Message 'Another one is needed.' -Terminating"),
        BEGIN[:1],
        error="Another one is needed.",
    ),
]
