# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts

TABLE = """\
22 1 0:20 / / rw - overlay overlay rw
30 22 8:16 / /srv/storlab/ds1 rw,relatime shared:1 - ext4 /dev/sdb rw
31 22 8:32 / /srv/storlab/ds10 rw,relatime - xfs /dev/sdc rw
32 22 8:48 / /srv/with\\040space rw - ext4 /dev/sdd rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/storlab/ds1", ("ext4", "/dev/sdb")),
        ("/srv/storlab/ds1/sub", ("ext4", "/dev/sdb")),
        ("/srv/storlab/ds10", ("xfs", "/dev/sdc")),
        ("/srv/storlab", ("overlay", "overlay")),
        ("/srv/with space/x", ("ext4", "/dev/sdd")),
    ],
)
def test_the_file_system_of_a_path_is_the_innermost(path, expected):
    mount = mounts.holding(mounts.parse(TABLE), path)
    assert (mount["filesystem"], mount["source"]) == expected


def test_of_two_mounts_on_one_point_the_later_is_seen():
    table = mounts.parse(TABLE + "33 22 8:64 / /srv/storlab/ds1 rw - btrfs /dev/sde rw\n")
    assert mounts.holding(table, "/srv/storlab/ds1/x")["source"] == "/dev/sde"
    assert mounts.mounted_at(table, "/srv/storlab/ds1")["source"] == "/dev/sde"
    assert mounts.mounted_at(table, "/srv/storlab") is None and mounts.holding([], "/x") is None


def test_mounts_inside_a_folder_are_told_from_the_folder_itself_and_its_namesakes():
    table = mounts.parse(TABLE)
    assert mounts.inside(table, "/srv/storlab") == ["/srv/storlab/ds1", "/srv/storlab/ds10"]
    assert mounts.inside(table, "/srv/storlab/ds1") == []
    assert mounts.inside(table, "/") == ["/srv/storlab/ds1", "/srv/storlab/ds10", "/srv/with space"]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        # Pairs of what one Linux kernel shows of one mount in mountinfo and in /proc/mounts.
        ("30 22 8:16 / /a rw,noatime shared:1 - ext4 /dev/sdb rw,errors=continue", "rw,noatime,errors=continue"),
        ("30 22 8:16 / /a ro,relatime - ext4 /dev/sdb rw", "ro,relatime"),
        ("30 22 8:16 / /a rw,relatime - ext4 /dev/sdb ro", "ro,relatime"),
        (
            "30 22 8:16 / /a rw,nosuid,noatime - ext4 /dev/sdb rw,sync,lazytime,stripe=4",
            "rw,sync,lazytime,nosuid,noatime,stripe=4",
        ),
    ],
)
def test_options_are_what_mount_shows(line, options):
    assert mounts.parse(line)[0]["options"] == options


def test_names_are_unescaped_and_cut_lines_left_out():
    text = "36 25 8:17 / /mnt/a\\040b\\011c\\134d\\043 rw - ext4 /dev/x\\040y rw\n25 0 0:5 / /dev"
    assert [(mount["numbers"], mount["mount_point"], mount["source"]) for mount in mounts.parse(text)] == [
        ("8:17", "/mnt/a b\tc\\d#", "/dev/x y")
    ]


def test_a_process_that_ended_has_no_mounts(tmp_path):
    assert mounts.read(str(tmp_path / "mountinfo")) == []
    # Not "/": in a container or a changed root it need not be a mount.
    assert "/proc" in [mount["mount_point"] for mount in mounts.read()]


def test_only_what_the_kernel_escapes_ends_a_line_or_a_field(tmp_path):
    table = (
        "21 20 0:53 / /mnt/test rw,relatime shared:212 - tmpfs  rw,size=7k\n"
        "30 22 8:16 / /srv/a\rb\x0cc\u2028d\\040e ro - ext4 /dev/sdb\x0b1 rw,errors=continue\n"
        "31 22 8:17 / /srv/cut rw"
    )
    path = tmp_path / "mountinfo"
    path.write_bytes(table.encode())
    expected = [
        ("0:53", "/mnt/test", "tmpfs", "", "rw,relatime,size=7k"),
        ("8:16", "/srv/a\rb\x0cc\u2028d e", "ext4", "/dev/sdb\x0b1", "ro,errors=continue"),
    ]
    for read in (mounts.parse(table), mounts.read(str(path))):
        assert [
            tuple(mount[key] for key in ("numbers", "mount_point", "filesystem", "source", "options")) for mount in read
        ] == expected


@pytest.mark.parametrize(
    ("source", "devices"),
    [
        ("/dev/sdc1:/dev/sdc2:/dev/mapper/a-b", ["/dev/sdc1", "/dev/sdc2", "/dev/mapper/a-b"]),
        ("/dev/disk/by-path/pci-0000:05:00.0-nvme-1", ["/dev/disk/by-path/pci-0000:05:00.0-nvme-1"]),
        ("192.0.2.1:/export", []),
        ("tmpfs", []),
        ("", []),
    ],
)
def test_the_devices_of_a_file_system(source, devices):
    assert mounts.sources({"source": source}) == devices


def test_swap_spaces_are_read_by_their_names():
    heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    assert mounts.swap_spaces(heading) == mounts.swap_spaces("") == []
    lines = [
        "/dev/dm-2                               partition\t81\t22\t-2",
        "/some/swap\\011file\\040(deleted)            file\t\t11\t0\t-3",
        "/a\\040b\rc file\t\t11\t0\t-4",
    ]
    assert mounts.swap_spaces(heading + "\n".join(lines) + "\n") == ["/dev/dm-2", "/some/swap\tfile", "/a b\rc"]
