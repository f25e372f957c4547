# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real ESXi hosts and vCenters answer, in one table: system, reader, answer, and what the reader must make of it; see test_linux_answers.py.

The answers are written for these tests in the XML of the API, and pyVmomi reads them: their form and their odd places are those of real ones, which were
looked at on the system that a row names; names, numbers and lengths are made up. docs/support.md lists the readers for which no real answer was looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import places
import play_recording
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import (
    adapter,
    counters,
    datastore,
    fingerprint,
    machine_state,
    network,
    options,
    recording,
    scsi,
    settings,
)
from api_objects import Of, Ref, element, object_content, option
from esxi_answers import ESX4, ESX4_NETWORK, ESXI7, ESXI8, ESXI8_NETWORK, ESXI67, NVME, POWER, RAID, defined, service
from pyVmomi import SoapAdapter, vim

ESXI = places.ROOT / "plugins" / "module_utils" / "esxi"


class Row(NamedTuple):
    system: str
    reader: str
    right: Any
    answer: Callable[[], Any]


def answered(kind: str, **properties: Any) -> dict[str, Any]:
    """The properties of one object as pyVmomi reads them."""
    values = play_recording.objects(object_content(f"{kind}:number-7", **properties))
    assert [name for name, _values in values] == [kind]
    return values[0][1]


def some(state: Any, *names: str) -> dict[str, Any]:
    return {name: state[name] for name in names}


def host(**config: Any) -> Any:
    """A host with this configuration, and whose managers answer from it."""
    return play_recording.as_host(answered("HostSystem", config=Of("HostConfigInfo", **config), name="esx-7"))


def of_host(read: Callable[..., Any], *more: Any, **config: Any) -> Any:
    return read(play_recording.Offline(), host(**config), *more)


def machine_of(**config: Any) -> Any:
    return answered("VirtualMachine", config=Of("VirtualMachineConfigInfo", **config))["config"]


def hardware(*devices: Of, **config: Any) -> dict[str, Any]:
    own = machine_of(
        **{
            "guestId": "otherLinux64Guest",
            "hardware": {"numCPU": 3, "memoryMB": 640, "device": list(devices)},
            **config,
        }
    )
    return machine_state.hardware(play_recording.Offline(), play_recording.as_host({}), own, own.hardware.device)


# ---------------------------------------------------------------- what readers make of them


def lun(iqn: str, number: int, name: str, size_bytes: int, uuid: str) -> dict[str, Any]:
    short = name.removeprefix("naa.")
    return {
        "iqn": iqn,
        "lun": number,
        "naa": short,
        "designators": [short],
        "name": name,
        "serial": None,
        "size_bytes": size_bytes,
        "uuid": uuid,
        "datastores": [],
        "state": "",
        "ways": {},
    }


def store(name: str, kind: str, size_bytes: int, uuid: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "uuid": uuid,
        "naa": [],
        "remote": None,
        "version": None,
        "size_bytes": size_bytes,
        "mounted": True,
        "accessible": True,
        "reason": "",
        "vms": [],
        "vms_here": [],
        "hosts": [],
        **more,
    }


LIMITS = {"read_only": False, "at_start": False}


# ---------------------------------------------------------------- machines


def drive(key: int, at: int, unit: int, size_kb: int, **backing: Any) -> Of:
    return Of(
        "VirtualDisk",
        key=key,
        backing=Of("VirtualDiskFlatVer2BackingInfo", diskMode="persistent", **backing),
        controllerKey=at,
        unitNumber=unit,
        capacityInKB=size_kb,
        capacityInBytes=size_kb * 1024,
    )


def controller(kind: str, key: int, bus: int) -> Of:
    return Of(f"Virtual{kind}Controller", key=key, busNumber=bus)


UUID = "6000C29F-0102-0304-0506-0708090A0B0C"


def layers(number: int) -> dict[str, Any]:
    """The backing below a snapshot's disk, and those below that."""
    name = f"vm-00000{number}.vmdk" if number else "vm.vmdk"
    return {
        "fileName": f"[WorkloadDatastore] c956b759-0102/{name}",
        "thinProvisioned": True,
        "eagerlyScrub": False,
        "uuid": UUID,
        "parent": {"diskMode": "persistent", **layers(number - 1)} if number else None,
    }


EMPTY_PART = {"disks": [], "cdroms": [], "nics": [], "files": []}


def table(text: str, names: dict[int, str]) -> dict[str, Any]:
    part = f'<returnval {XSI_VIM} xsi:type="PerfEntityMetricCSV">{text}</returnval>'
    return counters.table_of(SoapAdapter.Deserialize(part.encode()), names)


XSI_VIM = 'xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'


def series(counter: int, instance: str, values: str) -> str:
    return element("value", {"id": {"counterId": counter, "instance": instance}, "value": values})


def about(**parts: str) -> dict[str, Any]:
    session = play_recording.Offline()
    session.stand_in = None
    session.content = SimpleNamespace(
        about=answered("ServiceInstance", content=Of("ServiceContent", about=parts))["content"].about
    )
    return dict(session.about)


ROWS = [
    # ---- adapter and LUNs
    Row(
        "ESX 4.1, software iSCSI to arrays that have no NAA names",
        "adapter.luns",
        [
            lun("iqn.1992-08.com.netapp:sn.101010101", 5, "naa.60a98000aabbccdd00112233445566aa", 8192 * 512, "0203"),
            lun(
                "iqn.2001-04.com.example:ietd",
                3,
                "t10.E4143500000000000000000010000000B823000000000100",
                6144 * 512,
                "0102",
            ),
            lun(
                "iqn.2008-08.com.starwindsoftware:store.example.com-temp1",
                0,
                "eui.0a1b2c3d4e5f6071",
                4096 * 512,
                "0101",
            ),
        ],
        lambda: [
            {key: value for key, value in each.items() if key not in ("device", "adapter")}
            for each in of_host(adapter.read, **ESX4)["luns"]
        ],
    ),
    Row(
        "ESX 4.1, whose adapter was enabled and has no target of its own",
        "adapter.read",
        {
            "device": "vmhba34",
            "iqn": "iqn.1998-01.com.vmware:localhost-0a1b2c3d",
            "alias": "",
            "targets": [],
            "options": {},
        },
        lambda: some(of_host(adapter.read, **ESX4), "device", "iqn", "alias", "targets", "options"),
    ),
    Row(
        "ESXi 7, a send target of an array and what it has reported",
        "adapter.read",
        [
            {
                "method": "send",
                "address": "192.0.2.9",
                "port": 3260,
                "chap": None,
                "iqn": None,
                "discovered": False,
                "parent": "vmhba64",
            },
            {
                "method": "static",
                "address": "192.0.2.8",
                "port": 3260,
                "chap": None,
                "iqn": "iqn.2010-06.com.purestorage:flasharray.0123456789abcdef",
                "discovered": True,
                "parent": "192.0.2.9:3260",
            },
        ],
        lambda: of_host(adapter.read, **ESXI7)["targets"],
    ),
    Row(
        "ESXi 7, options with their bounds, two of which nobody may set",
        "adapter.read",
        {
            "options": {"NoopInterval": 15, "LoginRetryMax": 4, "MaxBurstLength": 262144, "ImmediateData": False},
            "limits": {
                "NoopInterval": {**LIMITS, "min": 1, "max": 60},
                "LoginRetryMax": {**LIMITS, "min": 0, "max": 64, "read_only": True},
                "MaxBurstLength": {**LIMITS, "min": 512, "max": 16777215},
                "ImmediateData": {**LIMITS, "min": None, "max": None, "read_only": True},
            },
            "enabled": True,
        },
        lambda: some(of_host(adapter.read, **ESXI7), "options", "limits", "enabled"),
    ),
    Row(
        "ESXi 6.7 without iSCSI",
        "adapter.read",
        {"device": None, "iqn": None, "enabled": False, "luns": [], "host_options": {"ISCSI.MaxIoSizeKB": 128}},
        lambda: some(
            of_host(
                adapter.read,
                adapter.HOST_OPTIONS,
                **ESXI67,
                option=[option("ISCSI.MaxIoSizeKB", "long", 128), option("Disk.MaxLUN", "long", 1024)],
            ),
            "device",
            "iqn",
            "enabled",
            "luns",
            "host_options",
        ),
    ),
    Row(
        "ESX 4.1, which has no such option and whose adapter is read nevertheless",
        "adapter.read",
        {"device": "vmhba34", "host_options": {"Disk.MaxLUN": 256}},
        lambda: some(
            adapter.read(
                play_recording.Offline(),
                host(**ESX4, option=[option("Disk.MaxLUN", "long", 256)]),
                ("Disk.MaxLUN",),
                adapter.HOST_OPTIONS,
            ),
            "device",
            "host_options",
        ),
    ),
    Row(
        "ESX 4.1, which has no such option",
        "adapter.host_option",
        None,
        lambda: adapter.host_option(
            play_recording.Offline(), host(option=[option("Disk.MaxLUN", "long", 256)]), "ISCSI.MaxIoSizeKB"
        ),
    ),
    Row(
        "ESXi 8 and 9, options that hold from the next start on, and one of sockets that does not",
        "adapter.host_limits",
        {
            "ISCSI.MaxIoSizeKB": {"read_only": False, "min": 128, "max": 512, "at_start": True},
            "ISCSI.SocketRcvBufLenKB": {"read_only": False, "min": 256, "max": 6144, "at_start": False},
            "Net.TcpipMaxNetstackInstances": {"read_only": False, "min": 48, "max": 513, "at_start": True},
        },
        lambda: of_host(
            adapter.host_limits,
            ("ISCSI.MaxIoSizeKB", "ISCSI.SocketRcvBufLenKB", "Net.TcpipMaxNetstackInstances"),
            optionDef=[
                {**defined(key, "Long", bounds, False, bounds[0]), "summary": text}
                for key, bounds, text in (
                    ("ISCSI.MaxIoSizeKB", (128, 512), "Maximum I/O size of software iSCSI in KB (REQUIRES REBOOT!)"),
                    ("ISCSI.SocketRcvBufLenKB", (256, 6144), "Receive buffer of a socket in KB"),
                    ("Net.TcpipMaxNetstackInstances", (48, 513), "Most network stacks. Requires reboot to take effect"),
                    ("Net.TcpipHeapMax", (32, 3070), "Most memory in MB; takes effect on next reboot"),
                )
            ],
        ),
    ),
    Row(
        "ESXi 8.0.3, a disk with names beside the one that it goes by",
        "scsi.designators",
        [NVME],
        lambda: scsi.designators(host(**ESXI8).config.storageDevice.scsiLun[0]),
    ),
    Row(
        "ESX 4.1, which says no state",
        "scsi.state_of",
        "",
        lambda: scsi.state_of(host(**ESX4).config.storageDevice.scsiLun[1]),
    ),
    # ---- datastores
    Row(
        "ESXi 6.7, VMFS beside the boot volumes of one disk, and NFS",
        "datastore.read",
        {
            "volumes": [
                store(
                    "datastore1",
                    "VMFS",
                    590826438656,
                    "5b8fc7a1-01020304-0506-0a0b0c0d0e0f",
                    naa=[RAID],
                    version=6,
                ),
                store("Filer", "NFS", 86704652288, "nfs 192.0.2.12:/filer", remote="192.0.2.12:/filer"),
            ],
            "disks": {
                RAID: {"device": f"/vmfs/devices/disks/naa.{RAID}", "size_bytes": 1169686528 * 512, "state": "ok"}
            },
            "stores": {},
        },
        lambda: of_host(datastore.read, **ESXI67),
    ),
    Row(
        "ESXi 8.0.3, whose system's own volume is a VMFS, beside boot banks and vSAN",
        "datastore.read",
        {
            "volumes": [
                store(
                    "OSDATA-65aabbcc-01020304-0506-0a0b0c0d0e0f",
                    "VMFS",
                    8321499136,
                    "65aabbcc-01020304-0506-0a0b0c0d0e0f",
                    naa=["mpx.vmhba0:C0:T0:L0"],
                    version=6,
                )
            ],
            "disks": {
                NVME: {"device": f"/vmfs/devices/disks/{NVME}", "size_bytes": 94371840 * 512, "state": "ok"},
                "mpx.vmhba0:C0:T0:L0": {
                    "device": "/vmfs/devices/disks/mpx.vmhba0:C0:T0:L0",
                    "size_bytes": 67108864 * 512,
                    "state": "ok",
                },
            },
            "stores": {},
        },
        lambda: of_host(datastore.read, **ESXI8),
    ),
    Row(
        "vCenter 6.5, a datastore of several hosts, of which one says neither that it is mounted nor that it is not",
        "datastore.mounting",
        ["lab-12", "vim.HostSystem:host-9"],
        lambda: _mounting("host-7", ("host-7", True), ("host-9", None), ("host-12", True), ("host-13", False)),
    ),
    # ---- network and settings
    Row(
        "ESX 4.1, which tells no order of adapters and no MTU of interfaces",
        "network.read",
        {
            "port_groups": {
                "VM Network": {"switch": "vSwitch0", "vlan": 0, "active": [], "standby": []},
                "Management Network": {"switch": "vSwitch0", "vlan": 7, "active": [], "standby": []},
            },
            "interfaces": {
                "vmk0": {
                    "port_group": "Management Network",
                    "address": "192.0.2.115",
                    "netmask": "255.255.254.0",
                    "mtu": None,
                }
            },
            "management": ["vmk0"],
            "nics": ["vmnic0"],
        },
        lambda: some(
            of_host(network.read, storageDevice=ESX4["storageDevice"], **ESX4_NETWORK),
            "port_groups",
            "interfaces",
            "management",
            "nics",
        ),
    ),
    Row(
        "ESXi 8.0.1 with a distributed switch alone",
        "network.read",
        {
            "switches": {},
            "port_groups": {},
            "interfaces": {
                "vmk0": {"port_group": None, "address": "192.0.2.32", "netmask": "255.255.240.0", "mtu": 1500},
                "vmk1": {"port_group": None, "address": "192.0.2.132", "netmask": "255.255.255.128", "mtu": 9000},
            },
            "management": ["vmk0"],
        },
        lambda: some(
            of_host(network.read, storageDevice=ESXI8["storageDevice"], **ESXI8_NETWORK),
            "switches",
            "port_groups",
            "interfaces",
            "management",
        ),
    ),
    Row(
        "ESX 4.1, without power policies and time servers, and with services that say no policy",
        "settings.read",
        {
            "host": "esx-7",
            "power_policy": None,
            "power_policies": [],
            "ntp_servers": None,
            "ntp_service": {"running": True, "policy": ""},
        },
        lambda: _settings_of_old(),
    ),
    Row(
        "ESXi 6.7",
        "settings.read",
        {
            "host": "esx-7",
            "power_policy": "balanced",
            "power_policies": ["high-performance", "balanced", "low-power", "custom"],
            "ntp_servers": ["time.example.com"],
            "ntp_service": {"running": True, "policy": "on"},
        },
        lambda: of_host(
            settings.read,
            **POWER,
            dateTimeInfo={"timeZone": {"key": "UTC", "name": "UTC", "description": "UTC", "gmtOffset": 0}}
            | {"ntpConfig": {"server": "time.example.com", "configFile": ["restrict -6 ::1"]}},
            service={"service": [service("TSM", False, "off"), service("ntpd", True, "on")]},
        ),
    ),
    Row(
        "ESXi 8.0.1 with NVMe, whose paths have a policy and no type of array",
        "fingerprint.read",
        {
            "host_options": {"ISCSI.MaxIoSizeKB": 128},
            "power_policy": "dynamic",
            "network": {
                "vmk0": {"mtu": 1500},
                "vmk1": {"mtu": 9000},
                "hostswitch": {"mtu": 9000},
                "vmnic0": {"driver": "ena", "speed_mbit_s": 25000},
            },
            "luns": {
                NVME: {"path_policy": "FIXED", "paths": 1, "queue_depth": 128, "vaai": "unsupported"},
                "mpx.vmhba0:C0:T0:L0": {"queue_depth": 1024, "vaai": "unsupported"},
            },
        },
        lambda: of_host(
            fingerprint.read, **ESXI8, **ESXI8_NETWORK, **POWER, option=[option("ISCSI.MaxIoSizeKB", "long", 128)]
        ),
    ),
    Row(
        "ESXi 6.7 with a RAID controller",
        "fingerprint.read",
        {
            "mpx.vmhba0:C0:T4:L0": {"vaai": "unsupported"},
            f"naa.{RAID}": {
                "path_policy": "VMW_PSP_FIXED",
                "array_type": "VMW_SATP_LOCAL",
                "paths": 1,
                "queue_depth": 128,
                "vaai": "unsupported",
            },
        },
        lambda: of_host(fingerprint.read, **ESXI67, **ESX4_NETWORK)["luns"],
    ),
    # ---- machines
    Row(
        "ESXi 6.7, disks that do not say whether they were zeroed",
        "machine_state.hardware",
        [("lsilogic", 0, 0, "thin", 12582912 * 1024), ("lsilogic", 1, 3, "lazy", 1934336 * 1024)],
        lambda: [
            (each["controller"], each["bus"], each["unit"], each["provisioning"], each["size_bytes"])
            for each in hardware(
                controller("LsiLogic", 1000, 0),
                controller("LsiLogic", 1001, 1),
                drive(2000, 1000, 0, 12582912, fileName="[a] vm/vm.vmdk", thinProvisioned=True, uuid=UUID),
                drive(2016, 1001, 3, 1934336, fileName="[a] vm/vm_1.vmdk", thinProvisioned=False, uuid=UUID),
            )["disks"]
        ],
    ),
    Row(
        "ESXi 8.0.1 under KVM, disks at SATA and NVMe beside SCSI controllers of four kinds",
        "machine_state.hardware",
        {
            "controllers": ["lsilogic 0", "lsisas 1", "buslogic 2", "sata 0", "nvme 0"],
            "disks": [("lsilogic", 0, 0), ("sata", 0, 2), ("nvme", 0, 1)],
        },
        lambda: _places(
            controller("LsiLogic", 1000, 0),
            controller("LsiLogicSAS", 1001, 1),
            controller("BusLogic", 1002, 2),
            controller("AHCI", 15000, 0),
            controller("NVME", 31000, 0),
            drive(2000, 1000, 0, 8388608, fileName="[a] vm/vm.vmdk", uuid=UUID),
            drive(16002, 15000, 2, 2097152, fileName="[a] vm/vm_1.vmdk", uuid=UUID),
            drive(32001, 31000, 1, 1048576, fileName="[a] vm/vm_2.vmdk", uuid=UUID),
        ),
    ),
    Row(
        "ESXi 8.0.1 under KVM, drives of the client's: a CD-ROM, a floppy and a serial port that have no file",
        "machine_state.hardware",
        {**EMPTY_PART, "cdroms": [{"key": 3002, "controller": "ide", "bus": 1, "unit": 0, "iso": None}]},
        lambda: some(
            hardware(
                controller("IDE", 201, 1),
                Of("VirtualKeyboard", key=600, controllerKey=300, unitNumber=0),
                Of(
                    "VirtualCdrom",
                    key=3002,
                    backing=Of(
                        "VirtualCdromRemotePassthroughBackingInfo", deviceName="CD/DVD drive 0", exclusive=False
                    ),
                    controllerKey=201,
                    unitNumber=0,
                ),
                Of(
                    "VirtualFloppy", key=8000, backing=Of("VirtualFloppyRemoteDeviceBackingInfo", deviceName="Floppy 0")
                ),
                Of(
                    "VirtualSerialPort",
                    key=9000,
                    backing=Of("VirtualSerialPortDeviceBackingInfo", deviceName="Serial 3"),
                )
                | {"yieldOnPoll": False},
            ),
            *EMPTY_PART,
        ),
    ),
    Row(
        "vCenter 8.0.1, a machine with snapshots, an ISO image at SATA and a card at a distributed port",
        "machine_state.hardware",
        {
            "chain": ["vm-000002.vmdk", "vm-000001.vmdk", "vm.vmdk"],
            "iso": "[WorkloadDatastore] iso/debian.iso",
            "nics": [{"key": 4000, "type": "vmxnet3", "network": None}],
        },
        lambda: _with_snapshots(),
    ),
    Row(
        "ESXi 6.7, the vCenter's own appliance",
        "machine_state.read",
        {
            "power": "on",
            "owner": None,
            "accessible": False,
            "lost": ["datastore1"],
            "path": "[datastore1] VMware vCenter Server Appliance/VMware vCenter Server Appliance.vmx",
            "extra": {"svga.present": "TRUE", "sched.swap.derivedName": ""},
            "snapshots": [],
            "layout": [{"path": "[datastore1] VMware vCenter Server Appliance/vmware.log", "type": "log"}],
        },
        lambda: some(_appliance(), "power", "owner", "accessible", "lost", "path", "extra", "snapshots", "layout"),
    ),
    # ---- counters
    Row(
        "vCenter 9.0.1, samples of two hours, with a counter that nobody asked about",
        "counters.table_of",
        {
            "columns": [["cpu.usage.average", ""], ["cpu.usagemhz.average", ""]],
            "rows": [[1776765600, 7200, 242, 55], [1776772800, 7200, 237, None], [1776780000, 7200, 245, 56]],
        },
        lambda: table(
            "<entity type='VirtualMachine'>vm-7</entity>"
            "<sampleInfoCSV>7200,2026-04-21T10:00:00Z,7200,2026-04-21T12:00:00Z,7200,2026-04-21T14:00:00Z</sampleInfoCSV>"
            + series(2, "", "242,237,245")
            + series(6, "", "55,-1,56")
            + series(163, "", "3670577,3677777,3684977"),
            {2: "cpu.usage.average", 6: "cpu.usagemhz.average"},
        ),
    ),
    Row(
        "vCenter 9.0.1, real-time samples of single disks, processors and cards",
        "counters.table_of",
        {
            "columns": [
                ["virtualDisk.read.average", "scsi0:0"],
                ["cpu.usagemhz.average", ""],
                ["cpu.usagemhz.average", "1"],
            ],
            "rows": [[1778006460, 20, 7, 91, 44], [1778006480, 20, 0, 92, 45]],
        },
        lambda: table(
            "<entity type='VirtualMachine'>vm-7</entity>"
            "<sampleInfoCSV>20,2026-05-05T18:41:00Z,20,2026-05-05T18:41:20Z</sampleInfoCSV>"
            + series(178, "scsi0:0", "7,0")
            + series(6, "", "91,92")
            + series(6, "1", "44,45")
            + series(143, "vmnic4", "1,2"),
            {178: "virtualDisk.read.average", 6: "cpu.usagemhz.average"},
        ),
    ),
    Row(
        "ESXi 8.0.1 under KVM, what counters call disks at NVMe and SATA",
        "counters._disks",
        {"scsi0:0": UUID, "sata0:2": UUID, "nvme0:1": UUID},
        lambda: counters._disks(
            vim,
            machine_of(
                hardware={
                    "numCPU": 1,
                    "memoryMB": 64,
                    "device": [
                        controller("LsiLogic", 1000, 0),
                        controller("AHCI", 15000, 0),
                        controller("NVME", 31000, 0),
                        drive(2000, 1000, 0, 8, fileName="[a] vm/vm.vmdk", uuid=UUID),
                        drive(16002, 15000, 2, 9, fileName="[a] vm/vm_1.vmdk", uuid=UUID),
                        drive(32001, 31000, 1, 10, fileName="[a] vm/vm_2.vmdk", uuid=UUID),
                    ],
                }
            ).hardware.device,
        ),
    ),
    Row(
        "vCenter 8.0.1, its counters and how long a real-time sample is",
        "recording._counters",
        {"counters": {"cpu.usage.average": 2, "virtualDisk.readLatencyUS.latest": 445}, "sample_s": 20},
        lambda: _known_counters(),
    ),
    Row(
        "vCenter 9.0.1, whose API has another version than its product",
        "session.about",
        {
            "product": "VMware vCenter Server 9.0.1 build-24000000",
            "version": "9.0.1",
            "build": "24000000",
            "api": "9.0.0.0",
            "kind": "VirtualCenter",
        },
        lambda: about(
            name="VMware vCenter Server",
            fullName="VMware vCenter Server 9.0.1 build-24000000",
            vendor="VMware, Inc.",
            version="9.0.1",
            patchLevel="0",
            build="24000000",
            osType="linux-x64",
            productLineId="vpx",
            apiType="VirtualCenter",
            apiVersion="9.0.0.0",
        ),
    ),
]


def _mounting(own: str, *mounts: tuple[str, bool | None]) -> list[str]:
    text = object_content(
        "Datastore:datastore-7",
        host=Of(
            "ArrayOfDatastoreHostMount",
            DatastoreHostMount=[
                {"key": Ref(f"HostSystem:{key}"), "mountInfo": {"accessMode": "readWrite", "mounted": mounted}}
                for key, mounted in mounts
            ],
        ),
    )
    shown = play_recording.objects(text)[0][1]["host"]
    by_name = {mount.key._moId: mount.key for mount in shown}
    return datastore.mounting(shown, {by_name["host-12"]: "lab-12"}, by_name[own])


def _settings_of_old() -> dict[str, Any]:
    return of_host(settings.read, service={"service": [service("TSM", False), service("ntpd", True)]})


def _places(*devices: Of) -> dict[str, Any]:
    state = hardware(*devices)
    return {
        "controllers": [f"{each['kind']} {each['bus']}" for each in state["controllers"]],
        "disks": [(each["controller"], each["bus"], each["unit"]) for each in state["disks"]],
    }


def _with_snapshots() -> dict[str, Any]:
    port = {"switchUuid": "50 1b", "portgroupKey": "dvportgroup-46", "portKey": "b457"}
    state = hardware(
        controller("AHCI", 15000, 0),
        Of("ParaVirtualSCSIController", key=1000, busNumber=0),
        drive(2000, 1000, 0, 16777216, **layers(2)),
        Of(
            "VirtualCdrom",
            key=16000,
            backing=Of("VirtualCdromIsoBackingInfo", fileName="[WorkloadDatastore] iso/debian.iso"),
            controllerKey=15000,
            unitNumber=0,
        ),
        Of("VirtualVmxnet3", key=4000, backing=Of("VirtualEthernetCardDistributedVirtualPortBackingInfo", port=port)),
    )
    return {
        "chain": [path.rpartition("/")[2] for path in state["disks"][0]["chain"]],
        "iso": state["cdroms"][0]["iso"],
        "nics": state["nics"],
    }


def _appliance() -> Any:
    folder = "[datastore1] VMware vCenter Server Appliance"
    values = answered(
        "VirtualMachine",
        config=Of(
            "VirtualMachineConfigInfo",
            changeVersion="1",
            modified="2026-01-02T03:04:05Z",
            name="appliance",
            guestFullName="Other",
            version="vmx-10",
            uuid="564d0102-0304-0506-0708-090a0b0c0d0e",
            template=False,
            guestId="other3xLinux64Guest",
            files={"vmPathName": f"{folder}/VMware vCenter Server Appliance.vmx"},
            hardware={
                "numCPU": 2,
                "memoryMB": 10240,
                "device": [
                    controller("LsiLogic", 1000, 0),
                    drive(
                        2000, 1000, 0, 12582912, fileName=f"{folder}/VMware vCenter Server Appliance.vmdk", uuid=UUID
                    ),
                ],
            },
            extraConfig=[option("svga.present", "string", "TRUE"), option("sched.swap.derivedName", "string", "")],
        ),
        runtime=Of(
            "VirtualMachineRuntimeInfo", connectionState="connected", powerState="poweredOn", numMksConnections=0
        ),
        layoutEx=Of(
            "VirtualMachineFileLayoutEx",
            file={"key": 4, "name": f"{folder}/vmware.log", "type": "log", "size": 7},
            timestamp="2026-01-02T03:04:05Z",
        ),
    )
    session = play_recording.Offline()
    session.own = {name: values[name] for name in ("layoutEx",)}
    vm = SimpleNamespace(name="appliance", snapshot=None, **values)
    return machine_state.read(session, play_recording.as_host({}), vm)


def _known_counters() -> dict[str, object]:
    values = answered(
        "PerformanceManager",
        perfCounter=Of(
            "ArrayOfPerfCounterInfo",
            PerfCounterInfo=[
                {
                    "key": number,
                    "nameInfo": {"label": name, "summary": "", "key": name},
                    "groupInfo": {"label": "", "summary": "", "key": kind},
                    "unitInfo": {"label": "", "summary": "", "key": "percent"},
                    "rollupType": rollup,
                    "statsType": "rate",
                }
                for number, kind, name, rollup in (
                    (2, "cpu", "usage", "average"),
                    (445, "virtualDisk", "readLatencyUS", "latest"),
                )
            ],
        ),
    )
    session = play_recording.Offline()
    summary = SimpleNamespace(refreshRate=20)
    session.content = SimpleNamespace(
        perfManager=SimpleNamespace(perfCounter=values["perfCounter"], QueryPerfProviderSummary=lambda _host: summary)
    )
    return recording._counters(session, object())


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.reader} {row.system}" for row in ROWS])
def test_a_reader_makes_of_an_answer_what_is_right(row):
    seen = row.answer()
    assert seen == row.right
    # A number in place of a truth value would be equal.
    assert repr(seen) == repr(row.right) or isinstance(seen, dict)


@pytest.mark.parametrize(("value", "words"), [(0, "takes 1 to 60"), (61, "takes 1 to 60"), (60, None), (15, None)])
def test_what_a_host_says_of_an_option_decides_what_it_may_be_set_to(value, words):
    state = of_host(adapter.read, **ESXI7)
    before = repr(state)

    def allowed(key: str, value: Any) -> Any:
        return options.allowed("iscsi_initiator_esxi_options", key, value, state["options"][key], state["limits"][key])

    if words is None:
        assert allowed("NoopInterval", value) == value
    else:
        with pytest.raises(Failure, match=words):
            allowed("NoopInterval", value)
    with pytest.raises(Failure, match="does not allow this option to be set"):
        allowed("LoginRetryMax", 5)
    assert repr(state) == before


def test_a_named_option_that_a_host_does_not_have_is_refused():
    with pytest.raises(Failure, match=r"ISCSI\.MaxIoSizeKB"):
        of_host(adapter.read, adapter.HOST_OPTIONS, **ESX4, option=[option("Disk.MaxLUN", "long", 256)])


# ---------------------------------------------------------------- the list


def readers() -> set[str]:
    """The functions of the room, without those of its own use, that call a method of the API that looks, or say to their session that they look.

    What carries a plan out reads to know that it has come true; the functions of a play and of an area only call others, and read the host's name.
    """
    own = {name for name in vars(converge.Area) if not name.startswith("_")} | {"begin"}
    names = set()
    for path in ESXI.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for holder in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            area = any(ast.unparse(base) == "HostArea" for base in getattr(holder, "bases", []))
            for node in holder.body:
                if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or (area and node.name in own):
                    continue
                if _reads(node):
                    names.add(f"{path.stem}.{node.name}")
    return names


def _reads(function: ast.FunctionDef) -> bool:
    given = {argument.arg for argument in function.args.args}
    return not given & {"params", "check_mode", "step", "_step"} and any(_looks(call) for call in ast.walk(function))


def _looks(call: ast.AST) -> bool:
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    if call.func.attr != "doing":
        return bool(re.match(r"(Query|Retrieve|Search|Fetch|CurrentTime)", call.func.attr))
    text = call.args[0].values[0] if isinstance(call.args[0], ast.JoinedStr) else call.args[0]
    return isinstance(text, ast.Constant) and bool(re.match(r"(read|look|list)\b", str(text.value)))


def test_every_reader_has_a_recorded_answer_or_is_named_in_the_documentation():
    page = (places.ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    part = page.partition("### Answers of real ESXi hosts\n")[2].partition("\n#")[0]
    proven = {row.reader for row in ROWS}
    assert readers() - proven == set(re.findall(r"`(\w+\.\w+)`", part))
    assert {"adapter.read", "datastore.read", "machine_state.read"} <= proven & readers()
