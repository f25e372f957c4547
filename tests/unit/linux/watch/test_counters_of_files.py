# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host counts and what it says of its devices and processors, read of a host made of files. Real counts are in tests/integration."""

from __future__ import annotations

import os
import stat
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_mapper
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from rooted import Rooted

CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
STAT = "11 0 22 3 44 0 55 6 0 7 8"


@pytest.fixture
def host(monkeypatch, tmp_path):
    made = Rooted(monkeypatch, tmp_path, counters)
    monkeypatch.setattr(counters, "_read", lambda path: made.read_text(path, "") or None)
    monkeypatch.setattr(counters, "_caches", dict)
    return made


def device(host, number: str, name: str, **more: str) -> None:
    for key, text in {"stat": STAT, **more}.items():
        host.write(f"/sys/devices/{name}/{key}", text)
    host.folder("/sys/dev/block")
    host._symlink(f"/sys/devices/{name}", f"/sys/dev/block/{number}")


def test_devices_that_count_are_told_by_the_names_of_their_layers(host):
    device(host, "8:16", "sdb")
    device(host, "8:32", "sdc", **{"queue/iostats": "0"})
    device(host, "1:0", "ram0", stat="0 0 0 0 0 0 0 0 0 0 0")
    # A partition goes by the switch of its disk.
    device(host, "8:33", "sdc/sdc1")
    reading = counters.sample("8:16", layers={"a": "8:16", "b": "8:32", "c": "1:0", "d": "8:33", "e": "9:9"})
    counts = {"name": "sdb", "counts": [11, 0, 22, 3, 44, 0, 55, 6, 0, 7, 8]}
    assert (reading["device"], reading["layers"]) == (counts, {"a": counts})
    nothing = counters.sample("8:32", layers={"b": "8:32"})
    assert not {"device", "layers", "caches", "engine_ticks"} & set(nothing)


def test_caches_and_threads_are_told_where_there_are_some(host, monkeypatch):
    monkeypatch.setattr(counters, "_caches", lambda: {"tb:a": {"counts": [1], "levels": [2]}})
    monkeypatch.setattr(counters, "_threads", lambda pid: {"all": pid})
    reading = counters.sample(pid=7)
    assert (reading["caches"]["tb:a"]["levels"], reading["engine_ticks"]) == ([2], {"all": 7})


def test_layers_on_block_devices_of_this_host(host, monkeypatch):
    device(host, "8:16", "sdb")
    nodes = {
        "/dev/sdb": SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=os.makedev(8, 16), st_dev=0),
        "/dev/sdz": SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=os.makedev(8, 99), st_dev=0),
        "/mnt/file": SimpleNamespace(st_mode=stat.S_IFREG, st_rdev=0, st_dev=os.makedev(8, 16)),
    }

    def look(path):
        if path not in nodes:
            raise FileNotFoundError(path)
        return nodes[path]

    vars(counters.os)["stat"] = look
    paths = {"a": "/dev/sdb", "b": "/dev/sdz", "c": "/mnt/file", "d": "/dev/gone"}
    assert counters.layer_devices(paths) == {"a": "8:16"}
    # Of a file it is the device beneath.
    assert [counters.device_number(path) for path in ("/mnt/file", "/dev/sdz", None)] == ["8:16", None, None]


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({"max_sectors_kb": "1280", "max_segments": "128"}, 512 << 10),
        ({"max_sectors_kb": "64", "max_segments": "128", "chunk_sectors": "0"}, 64 << 10),
        ({"max_sectors_kb": "1280", "max_segments": "256", "chunk_sectors": "16"}, 8 << 10),
        ({"max_sectors_kb": "1280"}, None),
        ({"max_segments": "128"}, None),
        ({"max_sectors_kb": "0", "max_segments": "0"}, None),
    ],
)
def test_the_largest_request_that_goes_whole(host, monkeypatch, queue, expected):
    vars(counters.os)["sysconf"] = lambda name: {"SC_PAGESIZE": 4096}[name]
    device(host, "8:16", "sdb", **{f"queue/{name}": text for name, text in queue.items()})
    device(host, "8:17", "sdb/sdb1")
    assert counters.unsplit_bytes("8:16") == counters.unsplit_bytes("8:17") == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({f"{CPUFREQ}/base_frequency": "2600000", "/proc/cpuinfo": "model name : X @ 3.10GHz\n"}, 2600.0),
        ({"/proc/cpuinfo": "model name\t: X CPU @ 3.10GHz\ncpu MHz\t\t: 1200.5\n"}, 3100.0),
        # Where the kernel scales it, the rate of the moment says nothing.
        ({f"{CPUFREQ}/scaling_governor": "x", "/proc/cpuinfo": "cpu MHz : 1200.5\n"}, None),
        ({"/proc/cpuinfo": "model name : X\ncpu MHz : 2194.75\n"}, 2194.75),
        ({"/proc/cpuinfo": "processor : 0\n"}, None),
        ({}, None),
    ],
)
def test_the_rate_that_a_processor_is_sold_with(host, files, expected):
    for path, text in files.items():
        host.write(path, text)
    assert counters.nominal_mhz() == expected


def test_bcache_tells_what_it_read_itself(host):
    device(host, "252:1", "dm-1", stat="90 0")
    host.write("/sys/backing/stat", "20 0")
    host.write("/sys/backing/bcache/dirty_data", "3.5k")
    assert counters._bcache("252:1", "/sys/backing") == {"reads": [90, 20], "levels": [3584]}
    host.remove("/sys/backing/stat")
    assert counters._bcache("252:1", "/sys/backing") is None
    host.write("/sys/backing/stat", "20 0")
    host.remove("/sys/backing/bcache")
    assert counters._bcache("252:1", "/sys/backing") is None


def test_a_tier_that_went_away_has_no_cache(host, monkeypatch):
    monkeypatch.setattr(device_mapper, "targets", lambda number, table=False: [])
    assert counters._cache_below("252:1", ["storlab", "tb", "a", "id"]) is None


def test_networks_are_read_without_the_heading(host):
    host.write(
        "/proc/net/dev",
        "Inter-|   Receive\n face |bytes\n  eth0: 7 1 0 0 0 0 0 0 9 1 0\n    lo:3 1 0 0 0 0 0 0 5 1 0\n",
    )
    assert counters._network() == {"eth0": [7, 9], "lo": [3, 5]}
