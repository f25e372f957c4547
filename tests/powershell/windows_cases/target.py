# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts of the iSCSI target server and of services: one cmdlet each."""

from __future__ import annotations

from cases import LARGE, PAST_UINT, WILD, Case, Like, call, refused, wild

IQN, OUT = "iqn.2026-11.org.example:a", ("target-user", "second-secret2")
NAME = {"Name": "storlab-a"}
HERE = {"ComputerName": "localhost"}
TARGET = {**HERE, "TargetName": "storlab-a"}
ONE = [
    Case("service_start", "one service", {"Name": "MSiSCSI"}, [call("Start-Service", Name=["MSiSCSI"])]),
    # With those that depend on it.
    Case("service_stop", "one service", {"Name": "MSiSCSI"}, [call("Stop-Service", Name=["MSiSCSI"], Force=True)]),
    Case(
        "portal_set",
        "an address that shall listen",
        {"Address": "192.0.2.1", "Port": 3261, "Enable": True},
        [call("Set-IscsiTargetServerSetting", **HERE, IP="192.0.2.1", Port=3261, Enable=True)],
    ),
    Case(
        "target_new",
        "for one initiator",
        {**NAME, "Initiators": [f"IQN:{IQN}"]},
        [call("New-IscsiServerTarget", **TARGET, InitiatorIds=[f"IQN:{IQN}"])],
    ),
    Case(
        "target_initiators",
        "of two kinds, in their order",
        {**NAME, "Initiators": ["IPAddress:192.0.2.9", f"IQN:{IQN}"]},
        [call("Set-IscsiServerTarget", **TARGET, InitiatorIds=["IPAddress:192.0.2.9", f"IQN:{IQN}"])],
    ),
    Case(
        "target_name",
        "its IQN and its mark",
        {**NAME, "Iqn": IQN, "Description": "storlab testbed t1"},
        [call("Set-IscsiServerTarget", **TARGET, TargetIqn=IQN, Description="storlab testbed t1")],
    ),
    Case("target_enable", "is turned on", NAME, [call("Set-IscsiServerTarget", **TARGET, Enable=True)]),
    Case("target_remove", "one target", NAME, [call("Remove-IscsiServerTarget", **TARGET)]),
    Case(
        "target_chap",
        "is turned on with its credential",
        NAME,
        [call("Set-IscsiServerTarget", **TARGET, EnableChap=True, Chap="credential target-user second-secret2")],
        secret=OUT,
    ),
    Case("target_chap_off", "is turned off", NAME, [call("Set-IscsiServerTarget", **TARGET, EnableChap=False)]),
    Case(
        "target_reverse_chap",
        "is turned on with its credential",
        NAME,
        [
            call(
                "Set-IscsiServerTarget",
                **TARGET,
                EnableReverseChap=True,
                ReverseChap="credential target-user second-secret2",
            )
        ],
        secret=OUT,
    ),
    Case(
        "target_reverse_chap_off",
        "is turned off",
        NAME,
        [call("Set-IscsiServerTarget", **TARGET, EnableReverseChap=False)],
    ),
    Case(
        "lun_map",
        "under its number",
        {**NAME, "Path": "ramdisk:a.vhdx", "Lun": 5},
        [call("Add-IscsiVirtualDiskTargetMapping", **TARGET, Path="ramdisk:a.vhdx", Lun=5)],
    ),
    Case(
        "lun_unmap",
        "by its path",
        {**NAME, "Path": "ramdisk:a.vhdx"},
        [call("Remove-IscsiVirtualDiskTargetMapping", **TARGET, Path="ramdisk:a.vhdx")],
    ),
    # ESXi takes sectors of 512 bytes; of a disk in memory Windows takes no other parameters than these.
    Case(
        "vdisk_new",
        "in memory, larger than 32 bits",
        {"Path": "ramdisk:a.vhdx", "SizeBytes": PAST_UINT, "Description": "storlab testbed t1: a"},
        [
            call(
                "New-IscsiVirtualDisk",
                **HERE,
                Path="ramdisk:a.vhdx",
                SizeBytes=PAST_UINT,
                LogicalSectorSizeBytes=512,
                Description="storlab testbed t1: a",
            )
        ],
    ),
    Case(
        "vdisk_new_fixed",
        "all of it is written, larger than 43 bits",
        {"Path": "C:\\lab\\a.vhdx", "SizeBytes": LARGE, "Description": "storlab testbed t1: b"},
        [
            call(
                "New-IscsiVirtualDisk",
                **HERE,
                Path="C:\\lab\\a.vhdx",
                SizeBytes=LARGE,
                UseFixed=True,
                LogicalSectorSizeBytes=512,
                Description="storlab testbed t1: b",
            )
        ],
    ),
    Case(
        "vdisk_remove",
        "by its path",
        {"Path": "C:\\lab\\a.vhdx"},
        [call("Remove-IscsiVirtualDisk", **HERE, Path="C:\\lab\\a.vhdx")],
    ),
]
CASES = [
    *ONE,
    *(case for one in ONE for case in refused(one)),
    *(
        wild(one, *(name for name in ("Name", "Path", "Description") if name in one.given))
        for one in ONE
        if one.script != "portal_set"
    ),
    Case(
        "lun_map",
        "the last number",
        {**NAME, "Path": "D:\\b.vhdx", "Lun": 255},
        [call("Add-IscsiVirtualDiskTargetMapping", **TARGET, Path="D:\\b.vhdx", Lun=255)],
    ),
    Case(
        "portal_set",
        "an address that shall not listen",
        {"Address": "2001:db8::1", "Port": 3260, "Enable": False},
        [call("Set-IscsiTargetServerSetting", **HERE, IP="2001:db8::1", Port=3260, Enable=False)],
    ),
    # Nobody is let in: an empty list is one, too.
    Case(
        "target_initiators",
        "none",
        {**NAME, "Initiators": []},
        [call("Set-IscsiServerTarget", **TARGET, InitiatorIds=[])],
    ),
    Case(
        "target_new",
        "for nobody yet",
        {**NAME, "Initiators": []},
        [call("New-IscsiServerTarget", **TARGET, InitiatorIds=[])],
    ),
    Case(
        "target_new",
        "an initiator without its kind",
        {**NAME, "Initiators": [IQN]},
        [],
        error=Like(r".*InitiatorIds.*"),
    ),
    Case(
        "target_chap",
        "a credential that looks like a script",
        {"Name": WILD},
        [call("Set-IscsiServerTarget", **HERE, TargetName=WILD, EnableChap=True, Chap=f"credential u`s$er {WILD}")],
        secret=("u`s$er", WILD),
    ),
    Case(
        "vdisk_new",
        "a size below nothing",
        {"Path": "ramdisk:a.vhdx", "SizeBytes": -1, "Description": ""},
        [],
        error=Like(r".*SizeBytes.*"),
    ),
]
