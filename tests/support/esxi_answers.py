# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations of ESXi hosts of several versions, as parts of HostConfigInfo: the form and the odd places are those of real answers, the rest is made up."""

from __future__ import annotations

from typing import Any

from api_objects import Of, option

# ---------------------------------------------------------------- hosts: storage


def disk(name: str, size_blocks: int, key: str, **more: Any) -> Of:
    return Of(
        "HostScsiDisk",
        deviceName=f"/vmfs/devices/disks/{name}",
        key=f"key-vim.host.ScsiDisk-{key}",
        uuid=key,
        canonicalName=name,
        lunType="disk",
        capacity={"blockSize": 512, "block": size_blocks},
        **more,
    )


def behind(name: str, target: int, *luns: tuple[int, str]) -> Of:
    """A target of the topology, and the numbers and keys of its LUNs."""
    transport = Of("HostInternetScsiTargetTransport", iScsiName=name, iScsiAlias="", address=["192.0.2.9:3260"])
    entries = [{"key": f"l{number}", "lun": number, "scsiLun": f"key-vim.host.ScsiDisk-{key}"} for number, key in luns]
    return Of("HostScsiTopologyTarget", key=f"t{target}", target=target, lun=entries, transport=transport)


def face(device: str, *targets: Of) -> Of:
    kind = "InternetScsiHba" if targets and targets[0]["transport"].kind.startswith("HostInternet") else "BlockHba"
    key = f"key-vim.host.{kind}-{device}"
    return Of("HostScsiTopologyInterface", key=key, adapter=key, target=list(targets))


SOFTWARE = {
    "bus": 7,
    "status": "online",
    "model": "iSCSI Software Adapter",
    "driver": "iscsi_vmk",
    "isSoftwareBased": True,
}
# A host of 4.1 has no descriptors, no serials and no states; its disks have names of every kind.
ESX4 = {
    "storageDevice": {
        "hostBusAdapter": [
            Of(
                "HostBlockHba",
                key="key-vim.host.BlockHba-vmhba1",
                device="vmhba1",
                bus=1,
                status="unknown",
                model="IDE",
            ),
            Of(
                "HostInternetScsiHba",
                key="key-vim.host.InternetScsiHba-vmhba34",
                device="vmhba34",
                iScsiName="iqn.1998-01.com.vmware:localhost-0a1b2c3d",
                iScsiAlias="",
                **SOFTWARE,
            ),
        ],
        "scsiLun": [
            Of("ScsiLun", deviceName="/vmfs/devices/cdrom/mpx.vmhba1:C0:T0:L0", key="key-vim.host.ScsiLun-5", uuid="5")
            | {"canonicalName": "mpx.vmhba1:C0:T0:L0", "lunType": "cdrom"},
            disk("eui.0a1b2c3d4e5f6071", 4096, "0101"),
            disk("t10.E4143500000000000000000010000000B823000000000100", 6144, "0102"),
            disk("naa.60a98000aabbccdd00112233445566aa", 8192, "0203"),
            disk("t10.ATA_____MAKER_DISK2D18B7A0________________________MK2DABCDE012345", 10240, "0104"),
        ],
        "scsiTopology": {
            "adapter": [
                face(
                    "vmhba1",
                    Of(
                        "HostScsiTopologyTarget",
                        key="t0",
                        target=0,
                        lun=[{"key": "l", "lun": 0, "scsiLun": "key-vim.host.ScsiDisk-0104"}],
                        transport=Of("HostBlockAdapterTargetTransport"),
                    ),
                ),
                face(
                    "vmhba34",
                    behind("iqn.2008-08.com.starwindsoftware:store.example.com-temp1", 21, (0, "0101")),
                    behind("iqn.2001-04.com.example:ietd", 2, (3, "0102")),
                    behind("iqn.1992-08.com.netapp:sn.101010101", 4, (5, "0203")),
                ),
            ]
        },
    },
}


# The options of the adapter of ESXi 7: (type, bounds, whether nobody may set it, value).
OPTIONS = {
    "NoopInterval": ("Int", (1, 60), False, 15),
    "LoginRetryMax": ("Int", (0, 64), True, 4),
    "MaxBurstLength": ("Int", (512, 16777215), False, 262144),
    "ImmediateData": ("Bool", None, True, False),
}


def defined(key: str, kind: str, bounds: tuple[int, int] | None, fixed: bool, default: Any) -> dict[str, Any]:
    numbers = {"min": bounds[0], "max": bounds[1]} if bounds else {"supported": True}
    return {
        "label": key,
        "summary": "",
        "key": key,
        "optionType": Of(f"{kind}Option", valueIsReadonly=fixed, **numbers, defaultValue=default),
    }


INHERITED = {
    "chapAuthEnabled": False,
    "chapAuthenticationType": "chapProhibited",
    "chapInherited": True,
    "mutualChapAuthenticationType": "chapProhibited",
    "mutualChapInherited": True,
}
ESXI7 = {
    "storageDevice": {
        "hostBusAdapter": Of(
            "HostInternetScsiHba",
            key="key-vim.host.InternetScsiHba-vmhba64",
            device="vmhba64",
            iScsiName="iqn.1998-01.com.vmware:esx7.example.com:1234567890:64",
            iScsiAlias="",
            authenticationProperties={**INHERITED, "chapInherited": None, "mutualChapInherited": None},
            configuredSendTarget={
                "address": "192.0.2.9",
                "port": 3260,
                "authenticationProperties": INHERITED,
                "parent": "vmhba64",
            },
            configuredStaticTarget={
                "address": "192.0.2.8",
                "port": 3260,
                "iScsiName": "iqn.2010-06.com.purestorage:flasharray.0123456789abcdef",
                "discoveryMethod": "sendTargetMethod",
                "authenticationProperties": INHERITED,
                "parent": "192.0.2.9:3260",
            },
            supportedAdvancedOptions=[defined(key, *facts) for key, facts in OPTIONS.items()],
            advancedOptions=[
                Of(
                    "HostInternetScsiHbaParamValue",
                    **option(key, "boolean" if kind == "Bool" else "int", value),
                    isInherited=True,
                )
                for key, (kind, _bounds, _fixed, value) in OPTIONS.items()
            ],
            **SOFTWARE,
        ),
        "softwareInternetScsiEnabled": True,
    },
}


def volume(
    kind: str, of: str, name: str, capacity: int, path: str = "", readonly: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "mountInfo": {
            "path": f"/vmfs/volumes/{path or name}",
            "accessMode": "readOnly" if readonly else "readWrite",
            "mounted": True,
            "accessible": True,
        },
        "volume": Of(kind, type=of, name=name, capacity=capacity, **more),
    }


def vmfs(of: str, name: str, capacity: int, major: int, uuid: str, extent: str, part: int) -> dict[str, Any]:
    return volume(
        "HostVmfsVolume",
        of,
        name,
        capacity,
        blockSizeMb=1,
        maxBlocks=262144,
        majorVersion=major,
        version=f"{major}.00",
        uuid=uuid,
        extent={"diskName": extent, "partition": part},
        vmfsUpgradable=False,
    )


def ways(key: str, device: str, policy: Of, states: tuple[str, ...] = ("active",), **more: Any) -> dict[str, Any]:
    path = [
        {
            "key": f"p{number}",
            "name": f"{device}:C0:T{number}:L0",
            "pathState": state,
            "state": state,
            "isWorkingPath": state == "active",
            "adapter": f"key-vim.host.PcieHba-{device}",
            "lun": f"u{key}",
        }
        for number, state in enumerate(states)
    ]
    return {"key": f"u{key}", "id": key, "lun": f"key-vim.host.ScsiDisk-{key}", "path": path, "policy": policy, **more}


RAID, NVME = "6b8ca3a0aabbccdd0011223344556677", "eui.0123456789abcdef000c29aabbccdd00"
# A server with a RAID controller: VMFS 6 on a partition of its boot disk, four boot volumes, an NFS datastore.
ESXI67 = {
    "storageDevice": {
        "scsiLun": [
            Of("ScsiLun", deviceName="/vmfs/devices/cdrom/mpx.vmhba0:C0:T4:L0", key="key-vim.host.ScsiLun-5", uuid="5")
            | {"canonicalName": "mpx.vmhba0:C0:T4:L0", "lunType": "cdrom", "operationalState": "ok"}
            | {"vStorageSupport": "vStorageUnsupported"},
            disk(
                f"naa.{RAID}",
                1169686528,
                "02aa",
                devicePath=f"/vmfs/devices/disks/naa.{RAID}",
                descriptor=[
                    {"quality": "highQuality", "id": f"naa.{RAID}"},
                    {"quality": "highQuality", "id": f"vml.02{RAID}"},
                ],
                serialNumber="unavailable",
                queueDepth=128,
                operationalState="ok",
                vStorageSupport="vStorageUnsupported",
            ),
        ],
        "multipathInfo": {
            "lun": ways(
                "02aa",
                "vmhba1",
                Of("HostMultipathInfoFixedLogicalUnitPolicy", policy="VMW_PSP_FIXED", prefer="vmhba1:C2:T0:L0"),
                storageArrayTypePolicy={"policy": "VMW_SATP_LOCAL"},
            )
        },
    },
    "fileSystemVolume": {
        "volumeTypeList": ["VMFS", "NFS", "OTHER"],
        "mountInfo": [
            vmfs("VMFS", "datastore1", 590826438656, 6, "5b8fc7a1-01020304-0506-0a0b0c0d0e0f", f"naa.{RAID}", 3),
            volume("HostNasVolume", "NFS", "Filer", 86704652288, remoteHost="192.0.2.12", remotePath="/filer"),
            volume("HostVfatVolume", "OTHER", "", 261853184, "5b8fc7a2-02030405-0607-0a0b0c0d0e0f", True),
        ],
    },
}
# One with NVMe disks of the hypervisor below it and vSAN; its boot disk carries a VMFS that is no datastore.
ESXI8 = {
    "storageDevice": {
        "scsiLun": [
            disk(
                NVME,
                94371840,
                "0601",
                devicePath=f"/vmfs/devices/disks/{NVME}",
                descriptor=[
                    {"quality": "highQuality", "id": NVME},
                    {"quality": "highQuality", "id": f"vml.06{NVME[4:]}"},
                    {"quality": "highQuality", "id": f"06{NVME[4:]}"},
                ],
                queueDepth=128,
                operationalState="ok",
                vStorageSupport="vStorageUnsupported",
            ),
            disk("mpx.vmhba0:C0:T0:L0", 67108864, "0002", devicePath="/vmfs/devices/disks/mpx.vmhba0:C0:T0:L0")
            | {"queueDepth": 1024, "operationalState": "ok", "vStorageSupport": "vStorageUnsupported"},
        ],
        "multipathInfo": {
            "lun": ways("0601", "vmhba1", Of("HostMultipathInfoHppLogicalUnitPolicy", policy="FIXED", path="none"))
        },
    },
    "fileSystemVolume": {
        "volumeTypeList": ["VMFS", "NFS", "vsan", "OTHER"],
        "mountInfo": [
            vmfs(
                "OTHER",
                "OSDATA-65aabbcc-01020304-0506-0a0b0c0d0e0f",
                8321499136,
                6,
                "65aabbcc-01020304-0506-0a0b0c0d0e0f",
                "mpx.vmhba0:C0:T0:L0",
                7,
            ),
            volume("HostVfatVolume", "OTHER", "BOOTBANK1", 4293591040, readonly=True),
            volume(
                "HostFileSystemVolume",
                "vsan",
                "vsanDatastore",
                11399981015040,
                "vsan:5201020304050607-08090a0b0c0d0e0f",
            ),
        ],
    },
}


# ---------------------------------------------------------------- hosts: network and settings


def group(name: str, switch: str, vlan: int, **teaming: Any) -> dict[str, Any]:
    return {
        "key": f"key-vim.host.PortGroup-{name}",
        "vswitch": f"key-vim.host.VirtualSwitch-{switch}",
        "computedPolicy": {"security": {"allowPromiscuous": False}, **teaming},
        "spec": {"name": name, "vlanId": vlan, "vswitchName": switch, "policy": {}},
    }


def nic(device: str, address: str, mask: str, portgroup: str, **spec: Any) -> dict[str, Any]:
    return {
        "device": device,
        "key": f"key-vim.host.VirtualNic-{device}",
        "portgroup": portgroup,
        "spec": {"ip": {"dhcp": False, "ipAddress": address, "subnetMask": mask}, **spec},
    }


def management(*vnics: dict[str, Any], selected: str) -> dict[str, Any]:
    candidates = [{**each, "key": f"management.{each['key']}"} for each in vnics]
    return {
        "netConfig": [
            {"nicType": "vmotion", "multiSelectAllowed": True, "candidateVnic": candidates},
            {
                "nicType": "management",
                "multiSelectAllowed": True,
                "candidateVnic": candidates,
                "selectedVnic": selected,
            },
        ]
    }


def pnic(device: str, driver: str | None = None, speed: int | None = None) -> dict[str, Any]:
    return {
        "key": f"key-vim.host.PhysicalNic-{device}",
        "device": device,
        "pci": "00:11.0",
        "driver": driver,
        "linkSpeed": {"speedMb": speed, "duplex": True} if speed else None,
    }


OLD_NIC = nic("vmk0", "192.0.2.115", "255.255.254.0", "Management Network")
# 4.1 tells of no order of adapters, no bridge and no MTU of an interface.
ESX4_NETWORK = {
    "network": {
        "vswitch": {
            "name": "vSwitch0",
            "key": "key-vim.host.VirtualSwitch-vSwitch0",
            "numPorts": 128,
            "numPortsAvailable": 120,
            "mtu": 1500,
            "pnic": "key-vim.host.PhysicalNic-vmnic0",
            "spec": {"numPorts": 128},
        },
        "portgroup": [group("VM Network", "vSwitch0", 0), group("Management Network", "vSwitch0", 7)],
        "pnic": pnic("vmnic0"),
        "vnic": OLD_NIC,
    },
    "virtualNicManagerInfo": management(OLD_NIC, selected="management.key-vim.host.VirtualNic-vmk0"),
}
NIC = nic(
    "vmk0", "192.0.2.32", "255.255.240.0", "", mtu=1500, distributedVirtualPort={"switchUuid": "50 1b", "portKey": "k1"}
)
FAST = nic(
    "vmk1",
    "192.0.2.132",
    "255.255.255.128",
    "",
    mtu=9000,
    distributedVirtualPort={"switchUuid": "50 1b", "portKey": "k2"},
)
# All interfaces of a host of VMware Cloud are on one distributed switch, and have no name of a port group.
ESXI8_NETWORK = {
    "network": {
        "proxySwitch": {
            "dvsUuid": "50 1b",
            "dvsName": "hostswitch",
            "key": "DvsPortset-0",
            "numPorts": 9216,
            "numPortsAvailable": 9191,
            "mtu": 9000,
            "pnic": "key-vim.host.PhysicalNic-vmnic0",
            "spec": {},
        },
        "pnic": pnic("vmnic0", "ena", 25000),
        "vnic": [NIC, FAST],
    },
    "virtualNicManagerInfo": management(NIC, FAST, selected="management.key-vim.host.VirtualNic-vmk0"),
}


def policy(key: int, name: str) -> dict[str, Any]:
    return {"key": key, "name": f"PowerPolicy.{name}.name", "shortName": name, "description": ""}


def service(key: str, running: bool, how: str | None = None) -> dict[str, Any]:
    return {"key": key, "label": key, "required": False, "uninstallable": False, "running": running, "policy": how}


POWER = {
    "powerSystemCapability": {
        "availablePolicy": [policy(1, "static"), policy(2, "dynamic"), policy(3, "low"), policy(4, "custom")]
    },
    "powerSystemInfo": {"currentPolicy": policy(2, "dynamic")},
}
