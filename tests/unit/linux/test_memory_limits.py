# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Available memory is the least of the host's and of what each control group above the process leaves: trees of files as kernels of both versions have them."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.memory_limits import memory

MIB = 1 << 20
MEMINFO = "MemTotal: 8388608 kB\nMemFree: 7 kB\nMemAvailable: 6291456 kB\n"
NO_LIMIT_V1 = "9223372036854771712\n"
TOP = "/sys/fs/cgroup"
V2 = f"40 31 0:38 / {TOP} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    f"32 31 0:29 / {TOP}/cpu rw - cgroup cgroup rw,cpu\n35 31 0:32 / {TOP}/memory rw,relatime - cgroup cgroup rw,memory\n"
    f"41 31 0:38 / {TOP}/unified rw,relatime - cgroup2 cgroup2 rw\n"
)


def host(files: dict, closed: tuple = ()):
    def read(path, default):
        if path in closed:
            raise PermissionError(13, "Permission denied", path)
        return {"/proc/meminfo": MEMINFO, **files}.get(path, default).strip()

    return read


def v2(groups: dict, path: str = "/system.slice/ssh.service/x") -> dict:
    """groups: {folder below the top: {file: text}}."""
    files = {f"{TOP}{folder}/{name}": text for folder, entry in groups.items() for name, text in entry.items()}
    return {"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": V2, **files}


def v1(groups: dict, path: str = "/user/ann") -> dict:
    files = {f"{TOP}/memory{folder}/{name}": text for folder, entry in groups.items() for name, text in entry.items()}
    return {
        "/proc/self/cgroup": f"9:name=systemd:/\n4:memory:{path}\n2:cpuacct,cpu:/a\n0::/\n",
        "/proc/self/mountinfo": V1,
        **files,
    }


def test_without_groups_the_host_decides():
    for files in ({}, {"/proc/self/cgroup": "0::/\n"}, {"/proc/self/mountinfo": V2}):
        there = memory(host(files))
        assert there == (8192 * MIB, 6144 * MIB, "", 0)
        assert there.words() == "this host has 6144 MiB available" and there.remedy() == "give the host more memory"


@pytest.mark.parametrize("folder", ["/system.slice/ssh.service/x", "/system.slice/ssh.service", "/system.slice", ""])
def test_the_limit_of_the_group_or_of_any_above_it_counts(folder):
    stat = f"anon 5\nfile 300\ninactive_file {70 * MIB}\nactive_file {30 * MIB}\nshmem 9\n"
    entry = {"memory.max": f"{600 * MIB}\n", "memory.current": f"{350 * MIB}\n", "memory.stat": stat}
    there = memory(host(v2({"/system.slice/ssh.service/x": {"memory.max": "max\n"}, folder: entry})))
    # 250 MiB are used by more than the page cache.
    assert there == (600 * MIB, 350 * MIB, f"{TOP}{folder}/memory.max", 600 * MIB)
    assert (
        there.words()
        == f"the control group of the task has 350 MiB available of its limit of 600 MiB ({TOP}{folder}/memory.max)"
    )
    assert there.remedy() == "raise that limit"


def test_the_least_of_several_is_taken_and_the_host_where_it_has_less():
    groups = {
        "/a/b": {"memory.max": str(5000 * MIB), "memory.current": str(11 * MIB)},
        "/a": {"memory.max": str(900 * MIB), "memory.high": str(700 * MIB), "memory.current": str(13 * MIB)},
        "": {"memory.max": "max"},
    }
    assert memory(host(v2(groups, "/a/b"))) == (700 * MIB, 687 * MIB, f"{TOP}/a/memory.high", 700 * MIB)
    groups["/a"] = {"memory.max": str(7000 * MIB)}
    # What is available of it is less on the host, which has less in all than neither.
    assert memory(host(v2({"/a": groups["/a"]}, "/a/b"))) == (7000 * MIB, 6144 * MIB, "", 0)


def test_a_group_that_is_full_leaves_nothing():
    entry = {"memory.max": str(300 * MIB), "memory.current": str(301 * MIB)}
    assert memory(host(v2({"/a": entry}, "/a"))).available_bytes == 0


@pytest.mark.parametrize("folder", ["/user/ann", "/user", ""])
def test_version_1_is_read_as_well(folder):
    stat = f"cache 4\ninactive_file 1\ntotal_inactive_file {20 * MIB}\ntotal_active_file {10 * MIB}\n"
    entry = {"memory.limit_in_bytes": f"{400 * MIB}\n", "memory.usage_in_bytes": f"{130 * MIB}\n", "memory.stat": stat}
    unlimited = {"memory.limit_in_bytes": NO_LIMIT_V1, "memory.usage_in_bytes": f"{50 * MIB}\n"}
    there = memory(host(v1({"/user/ann": unlimited, "": unlimited, folder: entry})))
    assert there == (400 * MIB, 300 * MIB, f"{TOP}/memory{folder}/memory.limit_in_bytes", 400 * MIB)
    assert memory(host(v1({"/user/ann": unlimited, "": unlimited}))).limit == ""


def test_a_containers_own_group_is_found_where_the_host_calls_it_otherwise():
    entry = {"memory.limit_in_bytes": str(256 * MIB), "memory.usage_in_bytes": "0"}
    assert memory(host(v1({"": entry}, "/docker/1f2e3d"))).available_bytes == 256 * MIB
    assert memory(host(v2({"": {"memory.max": str(128 * MIB)}}, "/../../other"))).available_bytes == 128 * MIB


def test_what_cannot_be_read_or_is_of_another_shape_is_no_limit():
    closed = (f"{TOP}/a/memory.max",)
    files = v2({"/a": {"memory.max": "12"}, "": {"memory.max": "many", "memory.current": "x"}}, "/a")
    assert memory(host(files, closed)).limit == ""
    assert memory(host({"/proc/meminfo": "MemFree: 4 kB\n"})) == (None, None, "", 0)
