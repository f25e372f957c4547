# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that change a disk, a partition or a volume: one cmdlet each."""

from __future__ import annotations

from cases import PAST_INT, WILD, Case, Like, call, refused

ONE = [
    # Without RemoveData a disk with partitions is not cleared; without Confirm it would wait for an answer.
    Case(
        "disk_clear", "clears one disk", {"Number": 3}, [call("Clear-Disk", Number=[3], RemoveData=True, Confirm=False)]
    ),
    Case(
        "disk_initialize",
        "with an MBR",
        {"Number": 4, "Style": "MBR"},
        [call("Initialize-Disk", Number=[4], PartitionStyle="MBR", Confirm=False)],
    ),
    Case("disk_offline", "sets one disk offline", {"Number": 5}, [call("Set-Disk", Number=5, IsOffline=True)]),
    Case("disk_online", "brings one disk online", {"Number": 6}, [call("Set-Disk", Number=6, IsOffline=False)]),
    Case("disk_read_only", "makes one disk read-only", {"Number": 7}, [call("Set-Disk", Number=7, IsReadOnly=True)]),
    Case("disk_writable", "makes one disk writable", {"Number": 8}, [call("Set-Disk", Number=8, IsReadOnly=False)]),
    Case("disk_rescan", "asks for disks that came since", {}, [call("Update-HostStorageCache")]),
    Case(
        "partition_new",
        "takes the whole disk",
        {"Number": 9, "Letter": "E"},
        [call("New-Partition", DiskNumber=[9], UseMaximumSize=True, DriveLetter="E")],
    ),
    Case(
        "volume_format",
        "with NTFS and the label",
        {"Letter": "F", "Label": "storlab-12345678"},
        [
            call(
                "Format-Volume",
                DriveLetter=["F"],
                FileSystem="NTFS",
                NewFileSystemLabel="storlab-12345678",
                Force=True,
                Confirm=False,
            )
        ],
    ),
]
CASES = [
    *ONE,
    *(case for one in ONE for case in refused(one)),
    Case(
        "disk_initialize",
        "with a GPT",
        {"Number": 2, "Style": "GPT"},
        [call("Initialize-Disk", Number=[2], PartitionStyle="GPT", Confirm=False)],
    ),
    Case(
        "disk_initialize",
        "with a style that Windows does not know",
        {"Number": 2, "Style": "APM"},
        [],
        error=Like(r".*APM.*PartitionStyle.*|.*PartitionStyle.*APM.*"),
    ),
    Case(
        "disk_online",
        "numbers past 2^31",
        {"Number": PAST_INT},
        [call("Set-Disk", Number=PAST_INT, IsOffline=False)],
    ),
    Case(
        "volume_format",
        "a label that looks like a script",
        {"Letter": "G", "Label": WILD},
        [
            call(
                "Format-Volume",
                DriveLetter=["G"],
                FileSystem="NTFS",
                NewFileSystemLabel=WILD,
                Force=True,
                Confirm=False,
            )
        ],
    ),
]
