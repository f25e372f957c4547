# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters: figures computed by hand, and the kernel's own against work of known size."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import signal
import subprocess
import time

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_mapper
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from ansible_collections.storlab.testbed.plugins.module_utils.result.derived import cpu_cost

BEFORE = {
    "monotonic_s": 100.0,
    "unix_s": 5000.0,
    "interrupts": 40,
    "context_switches": 1000,
    "cpu_ticks": {"all": [10, 0, 5, 100, 2, 0, 1, 0], "0": [4, 0, 2, 50, 1, 0, 1, 0], "1": [6, 0, 3, 50, 1, 0, 0, 0]},
    "network": {"lo": [7, 7], "eth0": [1000, 50], "gone0": [1, 2]},
    "device": {"name": "sda", "counts": [10, 0, 80, 5, 20, 1, 160, 9, 0, 30, 14, 0, 0, 0, 0, 0, 0]},
    "engine_ticks": {"all": 3, "71": 1, "72": 2},
}
# 2 s later, on two cores of 100 ticks a second: 400 ticks in all, of which 60 user, 30 system, 10 softirq are busy and 20 stolen.
AFTER = {
    "monotonic_s": 102.0,
    "unix_s": 5002.0,
    "interrupts": 47,
    "context_switches": 1090,
    "cpu_ticks": {
        "all": [70, 0, 35, 370, 12, 0, 11, 20],
        "0": [59, 0, 22, 160, 5, 0, 11, 0],
        "1": [11, 0, 13, 210, 7, 0, 0, 20],
    },
    "network": {"lo": [7, 7], "eth0": [4000, 250], "new0": [5, 5]},
    "device": {"name": "sda", "counts": [110, 0, 1680, 45, 60, 1, 480, 29, 3, 1530, 74, 0, 0, 0, 0, 0, 0]},
    "engine_ticks": {"all": 63, "71": 11, "72": 52, "73": 9},
}


def test_figures_of_an_interval(monkeypatch):
    monkeypatch.setattr(counters, "TICKS_S", 100)
    assert counters.delta(BEFORE, AFTER) == {
        "interval_s": 2.0,
        "cpu": {
            "host_busy_s": 1.0,
            "host_busy_percent": 25.0,
            "host_steal_percent": 5.0,
            "cores": 2,
            # core 0: 55 + 20 + 10 = 85 of 199 ticks; core 1: 15 of 201
            "busiest_core_percent": 42.7,
            "engine_busy_s": 0.6,
            "busiest_thread_percent": 25.0,
        },
        # 100 reads of 1600 sectors, 40 writes of 320; 60 ms in 140 requests; 1.5 of 2 s busy
        "device": {
            "name": "sda",
            "read": {"ios": 100, "bytes": 819200},
            "write": {"ios": 40, "bytes": 163840},
            "busy_percent": 75.0,
            "latency_mean_ns": 428571,
        },
        "network": {"eth0": {"rx_bytes": 3000, "tx_bytes": 200}},
        "interrupts": 7,
        "context_switches": 90,
    }


def test_differences_add_up():
    middle = counters.combine(BEFORE, AFTER, lambda one, other: (one + other) / 2)
    whole = counters.total([counters.difference(BEFORE, middle), counters.difference(middle, AFTER)])
    assert counters.figures_of(whole) == counters.delta(BEFORE, AFTER)


def test_what_was_not_there_both_times_is_absent():
    without = {key: value for key, value in AFTER.items() if key not in ("device", "engine_ticks", "interrupts")}
    found = counters.delta(BEFORE, without)
    assert "device" not in found
    assert "interrupts" not in found
    assert "engine_busy_s" not in found["cpu"]
    # Another disk that got the number meanwhile.
    assert "device" not in counters.delta(BEFORE, {**AFTER, "device": {**AFTER["device"], "name": "sdb"}})


def test_layers_of_an_interval():
    """Device raid: 40 reads of 320 sectors in 300 ms, 5 writes of 64 in 100 ms with 3 merged into them, in 2 s: 0.2 in flight. The other device was not
    there before, or is another disk now."""
    before = {"monotonic_s": 10.0, "layers": {"raid": {"name": "md0", "counts": [5, 9, 8, 7, 6, 1, 4, 3, 2, 50, 77]}}}
    after = {
        "monotonic_s": 12.0,
        "layers": {
            "raid": {"name": "md0", "counts": [45, 9, 328, 307, 11, 4, 68, 103, 2, 550, 999]},
            "fresh": {"name": "sdb", "counts": [45, 9, 328, 307, 11, 4, 68, 103, 2, 550, 999]},
        },
    }
    assert counters.delta(before, after)["layers"] == {
        "raid": {
            "name": "md0",
            "interval_s": 2.0,
            "read": {"ios": 40, "bytes": 163840},
            "write": {"ios": 5, "bytes": 32768},
            "merged_ios": 3,
            "in_flight": 0.2,
            "busy_percent": 25.0,
            "latency_mean_ns": 8888889,
        }
    }
    after["layers"]["raid"]["name"] = "md1"
    assert "layers" not in counters.delta(before, after)


def test_what_is_no_device_is_not_counted(tmp_path):
    (tmp_path / "file").write_text("x")
    paths = {"file": str(tmp_path / "file"), "gone": str(tmp_path / "gone"), "null": "/dev/null"}
    assert counters.layer_devices(paths) == {}


def test_cpu_cost_by_hand():
    # 1.5 of 2 cores busy (3 s in 2 s) at 50000 IOPS: 30 us an I/O; 1.5 x 2600 MHz / 50000 = 0.078 MHz each
    assert cpu_cost({"host_busy_s": 3.0}, 2.0, 50000, 2600) == {"us_per_io": 30.0, "mhz_per_iops": 0.078}
    assert cpu_cost({"host_busy_s": 3.0}, 2.0, 50000) == {"us_per_io": 30.0}
    assert cpu_cost({}, 2.0, 50000, 2600) == {}
    assert cpu_cost({"host_busy_s": 3.0}, 2.0, 0, 2600) == {}


def test_a_busy_process_is_seen():
    before = counters.sample(pid=os.getpid())
    spent = time.process_time()
    while time.process_time() - spent < 0.3:
        hashlib.sha256(bytes(1 << 20)).digest()
    cpu = counters.delta(before, counters.sample(pid=os.getpid()))["cpu"]
    assert 0.25 <= cpu["engine_busy_s"] <= 0.5
    assert cpu["host_busy_s"] >= 0.25
    assert cpu["cores"] == os.cpu_count()


def test_a_process_that_is_gone():
    done = subprocess.Popen(["true"])
    done.wait()
    assert "engine_ticks" not in counters.sample(pid=done.pid)


def test_without_a_device_and_a_process_the_host_is_sampled():
    assert sorted(counters.sample().keys() - {"caches"}) == [
        "context_switches",
        "cpu_ticks",
        "interrupts",
        "monotonic_s",
        "network",
        "unix_s",
    ]


def cached(counts: list, levels: list, **more) -> dict:
    return {**BEFORE, **more, "caches": {"lab:e4": {"counts": counts, "levels": levels}}}


def test_hits_and_misses_of_caches_are_differences_and_what_is_dirty_is_that_of_the_end():
    # read hits and misses, write hits and misses, demotions, promotions; dirty and used blocks, of 200, of 64 KiB
    first = cached([100, 50, 10, 5, 1, 40], [9, 60, 200, 65536])
    middle = cached([160, 60, 30, 15, 1, 42], [3, 61, 200, 65536], monotonic_s=101.0)
    last = cached([260, 70, 40, 15, 4, 50], [7, 66, 200, 65536], monotonic_s=103.0)
    expected = {
        "read_hits": 160,
        "read_misses": 20,
        "write_hits": 30,
        "write_misses": 10,
        "demotions": 3,
        "promotions": 10,
        # (160 + 30) of 220
        "hit_percent": 86.36,
        "dirty_bytes": 7 * 65536,
        "used_percent": 33.0,
    }
    assert counters.delta(first, last)["caches"] == {"lab:e4": expected}
    pieces = [counters.difference(first, middle), counters.difference(middle, last)]
    assert counters.figures_of(counters.total(pieces))["caches"] == {"lab:e4": expected}
    assert counters.hit_percent(pieces[0]) == 80.0


def test_a_cache_that_was_asked_nothing_has_no_hit_rate_and_one_that_was_put_in_anew_no_figures():
    quiet = cached([100, 50, 10, 5, 1, 40], [0, 60, 200, 65536])
    assert "hit_percent" not in counters.delta(quiet, {**quiet, "monotonic_s": 101.0})["caches"]["lab:e4"]
    anew = cached([3, 2, 1, 0, 0, 4], [0, 4, 200, 65536], monotonic_s=101.0)
    assert "caches" not in counters.delta(quiet, anew) and "caches" not in counters.delta(BEFORE, AFTER)
    assert counters.hit_percent(counters.difference(quiet, anew)) is None


def test_caches_of_testbeds_are_found_among_the_mappings_of_a_host(monkeypatch):
    files = {
        "/sys/block/dm-0/dm/uuid": "STORLAB-CACHE:lab:e4:00ff\n",
        "/sys/block/dm-0/dev": "253:0\n",
        # its origin alone, a part of one, and somebody else's
        "/sys/block/dm-1/dm/uuid": "STORLAB-CACHE:lab:plain:01ff\n",
        "/sys/block/dm-1/dev": "253:1\n",
        "/sys/block/dm-2/dm/uuid": "STORLAB-CACHE-PART:lab:e4:blocks:00ff\n",
        "/sys/block/dm-3/dm/uuid": "LVM-0123\n",
    }
    status = "8 27/1280 128 31/272 101 17 203 19 5 36 11 2 metadata2 writeback 2 migration_threshold 2048 smq 0 rw -"
    other = status.replace("101", "999")
    answers = {
        "253:0": [{"type": "cache", "text": status}],
        # Its origin is a cached volume of the host's own.
        "253:1": [{"type": "linear", "text": "253:3 0"}],
        "253:3": [{"type": "cache", "text": other}],
        # By LVM, and by bcache.
        "253:4": [{"type": "linear", "text": "253:5 0"}],
        "253:5": [{"type": "cache", "text": status.replace("101", "55")}],
        "253:6": [{"type": "linear", "text": "252:0 0"}],
        # The origin is a bcache of the host's own.
        "253:8": [{"type": "linear", "text": "252:128 0"}],
    }
    files |= {
        "/sys/dev/block/253:3/dm/name": "vg-data\n",
        "/sys/block/dm-4/dm/uuid": "STORLAB-CACHE:lab:volume:02ff\n",
        "/sys/block/dm-4/dev": "253:4\n",
        "/sys/dev/block/253:5/dm/name": "storlab_02ff-device\n",
        "/sys/block/dm-6/dm/uuid": "STORLAB-CACHE:lab:buckets:03ff\n",
        "/sys/block/dm-6/dev": "253:6\n",
        "/sys/dev/block/253:6/stat": "   768  0 6144 140 64 0 8192 36 0 176 176 0 0 0 0 0 0\n",
        "/real/dm-7/dm/uuid": "STORLAB-CACHE-PART:lab:buckets:backing:03ff\n",
        "/real/dm-7/stat": "   423  0 98992 2772 7 0 168 20 0 2184 2792 0 0 0 0 0 0\n",
        "/real/dm-7/bcache/dirty_data": "3.9M\n",
        "/sys/block/dm-8/dm/uuid": "STORLAB-CACHE:lab:over:04ff\n",
        "/sys/block/dm-8/dev": "253:8\n",
        "/real/sdq/stat": "   1  0 1 1 1 0 1 1 0 1 1 0 0 0 0 0 0\n",
        "/real/sdq/bcache/dirty_data": "1.0M\n",
    }
    links = {"/sys/dev/block/252:0/bcache": "/real/dm-7/bcache", "/sys/dev/block/252:128/bcache": "/real/sdq/bcache"}
    monkeypatch.setattr(counters, "_read", files.get)
    monkeypatch.setattr(
        counters.glob, "glob", lambda pattern: [path for path in files if fnmatch.fnmatch(path, pattern)]
    )
    monkeypatch.setattr(counters.os.path, "realpath", lambda path: links.get(path, path))
    monkeypatch.setattr(device_mapper, "targets", lambda number, table=False: answers[number])
    assert counters._caches() == {
        "lab:e4": {"counts": [101, 17, 203, 19, 5, 36], "levels": [11, 31, 272, 65536]},
        "lab:volume": {"counts": [55, 17, 203, 19, 5, 36], "levels": [11, 31, 272, 65536]},
        "lab:buckets": {"reads": [768, 423], "levels": [round(3.9 * 2**20)]},
    }


def through_bcache(reads: list, dirty_bytes: int, **more) -> dict:
    return {**BEFORE, **more, "caches": {"lab:e4": {"reads": reads, "levels": [dirty_bytes]}}}


def test_of_bcache_reads_that_did_not_ask_the_origin_are_hits_and_what_it_does_not_count_is_absent():
    first, last = through_bcache([100, 40], 4096), through_bcache([300, 90], 8192, monotonic_s=101.0)
    expected = {"read_hits": 150, "read_misses": 50, "hit_percent": 75.0, "dirty_bytes": 8192}
    assert counters.delta(first, last)["caches"] == {"lab:e4": expected}
    assert counters.hit_percent(counters.difference(first, last)) == 75.0
    # A read in two pieces that are both missing.
    pieces = through_bcache([101, 42], 0, monotonic_s=101.0)
    assert counters.delta(first, pieces)["caches"]["lab:e4"]["read_hits"] == 0
    quiet = counters.delta(first, {**first, "monotonic_s": 101.0})["caches"]["lab:e4"]
    assert "hit_percent" not in quiet


def test_a_bcache_that_was_put_in_meanwhile_has_no_figures():
    first = through_bcache([100, 40], 0)
    for later in (through_bcache([300, 7], 0), cached([1, 1, 1, 1, 1, 1], [0, 1, 2, 3])):
        assert "caches" not in counters.delta(first, {**later, "monotonic_s": 101.0})


def test_load_and_memory_in_use_are_what_proc_says(monkeypatch):
    files = {
        "/proc/loadavg": "3.07 1.10 0.55 2/345 6789\n",
        "/proc/meminfo": "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    5000000 kB\n",
    }
    monkeypatch.setattr(counters, "_read", files.get)
    assert counters.levels() == {
        "load_1min": 3.07,
        "load_5min": 1.1,
        "load_15min": 0.55,
        "memory_used_percent": 37.5,
    }


@pytest.mark.parametrize("meminfo", [None, "", "MemTotal: 8000000 kB\n", "MemTotal: 0 kB\nMemAvailable: 0 kB\n"])
def test_memory_that_is_not_told_is_absent(monkeypatch, meminfo):
    monkeypatch.setattr(counters, "_read", {"/proc/meminfo": meminfo}.get)
    assert counters.levels() == {}


def test_load_and_memory_of_this_host_are_read():
    known = counters.levels()
    assert known["load_1min"] >= 0 and 0 < known["memory_used_percent"] < 100


def test_a_process_that_is_stopped_is_told_from_one_that_waits():
    """A real process: asleep, stopped by a signal, going on, and gone."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            assert not counters.stopped(process.pid)
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            assert counters.stopped(process.pid)
            process.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, process.pid, os.WCONTINUED)
            assert not counters.stopped(process.pid)
        finally:
            process.kill()
    assert not counters.stopped(process.pid)
