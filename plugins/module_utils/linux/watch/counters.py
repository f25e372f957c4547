# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of a Linux kernel while I/O is done: processors, one block device, network interfaces, and the threads of one process.

A *sample* is one reading: numbers that only grow, JSON-able, in the kernel's units. Samples can be combined number by number,
so the difference of two is the work between them, and differences add up. Only ``delta`` and ``told`` turn them into figures.

Formats: proc(5) (/proc/stat, /proc/net/dev, /proc/[pid]/stat) and the kernel's Documentation/block/stat.rst and admin-guide/iostats.rst.
"""

from __future__ import annotations

import glob
import operator
import os
import re
import stat
import time
from typing import Any, Literal, TypedDict

from ..backing import cache_bcache
from ..disks import device_mapper
from .probe import memory_mib

TICKS_S = os.sysconf("SC_CLK_TCK")
# /proc/stat: user nice system idle iowait irq softirq steal. Guest time is part of user, so what follows would count twice.
PROCESSOR_FIELDS = 8
IDLE, IOWAIT, STEAL = 3, 4, 7
# Block statistics count in these, whatever the device's own sector size.
SECTOR_BYTES = 512
# Where a direction's fields of the block statistics begin: I/O done, merged into others, sectors, milliseconds.
Direction = Literal["read", "write"]
DIRECTIONS: dict[Direction, int] = {"read": 0, "write": 4}
BUSY_MS = 9
# The first letters of the UUIDs of a cache tier and of its parts (cache_tier), and the parts of its status that do not only grow.
CACHE_UUID, CACHE_PART = "STORLAB-CACHE", "STORLAB-CACHE-PART"
CACHE_COUNTS = ("read_hits", "read_misses", "write_hits", "write_misses", "demotions", "promotions")
CACHE_LEVELS = ("dirty", "used", "blocks", "block_bytes")


class Counts(TypedDict, total=False):
    """The block statistics of a device, or their difference."""

    name: str
    counts: list[int]


class CacheCounts(TypedDict, total=False):
    """counts as CACHE_COUNTS and levels as CACHE_LEVELS; with bcache reads in place of counts, see ``_bcache``."""

    counts: list[int]
    reads: list[int]
    levels: list[int]


class Sample(TypedDict, total=False):
    """One reading of a host, see ``sample``, or the difference of two."""

    monotonic_s: float
    unix_s: float
    cpu_ticks: dict[str, list[int]]
    interrupts: int
    context_switches: int
    network: dict[str, list[int]]
    device: Counts
    layers: dict[str, Counts]
    engine_ticks: dict[str, int]
    caches: dict[str, CacheCounts]


class Moved(TypedDict):
    """Counts of reads or writes."""

    ios: int
    bytes: int


class DeviceFigures(TypedDict, total=False):
    """A device's figures; a layer alone has the last three, see ``layer_figures``."""

    name: str
    read: Moved
    write: Moved
    busy_percent: float
    latency_mean_ns: int
    interval_s: float
    merged_ios: int
    in_flight: float


class HostFigures(TypedDict, total=False):
    """See ``figures_of``."""

    interval_s: float
    cpu: dict[str, float]
    device: DeviceFigures
    layers: dict[str, DeviceFigures]
    network: dict[str, dict[str, int]]
    caches: dict[str, dict[str, float]]
    interrupts: int
    context_switches: int
    edges: str


# ---------------------------------------------------------------- reading


def sample(device: str | None = None, pid: int | None = None, layers: dict[str, str] | None = None) -> Sample:
    """One reading of this host, and of block devices ('major:minor'; the devices of layers by the layer's name) and of a process where they are given and still
    there.

    {monotonic_s, unix_s, cpu_ticks: {all: […], '0': […]}, interrupts, context_switches, network: {name: [received, sent]},
    device: {name, counts: […]}, layers: {<layer>: {name, counts: […]}}, engine_ticks: {all, <thread>: …},
    caches: {<testbed>:<name>: {counts: […], levels: […]}, with bcache {reads: […], levels: […]}}}
    """
    reading: Sample = {
        "monotonic_s": time.monotonic(),
        "unix_s": time.time(),
        **_processors(),
        "network": _network(),
    }
    caches = _caches()
    if caches:
        reading["caches"] = caches
    counts = device_counts(device) if device else None
    if counts:
        reading["device"] = counts
    counted = {layer: counts for layer, number in (layers or {}).items() if (counts := device_counts(number))}
    if counted:
        reading["layers"] = counted
    ticks = _threads(pid) if pid else None
    if ticks:
        reading["engine_ticks"] = ticks
    return reading


# In the order in which the kernel writes them.
LOADS = ("load_1min", "load_5min", "load_15min")


def levels() -> dict[str, float]:
    """{load_1min, load_5min, load_15min, memory_used_percent} of this host as they are now, which are not counts.

    Memory in use is what the kernel could not give to others without swapping
    (MemTotal less MemAvailable, proc(5)); the contents of RAM disks are part of it."""
    known: dict[str, float] = {}
    load = (_read("/proc/loadavg") or "").split()
    known |= {name: float(value) for name, value in zip(LOADS, load)}
    total, available = memory_mib(_read("/proc/meminfo") or "")
    if total and available:
        known["memory_used_percent"] = round(100 * (1 - available / total), 1)
    return known


def device_number(path: str | None) -> str | None:
    """'major:minor' of the block device that a path is, or of the one below the file; None where no one device is (RAM, network, several)."""
    if path is None:
        return None
    status = os.stat(path)
    number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    return name if os.path.exists(f"/sys/dev/block/{name}/stat") else None


def layer_devices(paths: dict[str, str]) -> dict[str, str]:
    """{layer: 'major:minor'} of the layers whose path is a block device of this host that has statistics.

    Files are left out: the layers between a file and the device below it would be counted as if it took no time.
    """
    numbers = {}
    for layer, path in paths.items():
        try:
            if stat.S_ISBLK(os.stat(path).st_mode) and (number := device_number(path)):
                numbers[layer] = number
        except OSError:
            continue  # nothing is there, e.g. because nobody is logged in
    return numbers


def device_counts(number: str) -> Counts | None:
    """{name, counts} of a block device; None when it is gone or counts nothing (RAM disks of some kernels, statistics switched off)."""
    folder = os.path.realpath(f"/sys/dev/block/{number}")
    text = _read(f"{folder}/stat")
    # A partition has no queue of its own.
    switch = _read(f"{folder}/queue/iostats") or _read(f"{os.path.dirname(folder)}/queue/iostats")
    counts = [int(field) for field in (text or "").split()]
    if not any(counts) or (switch or "1").strip() == "0":
        return None
    return {"name": os.path.basename(folder), "counts": counts}


def unsplit_bytes(number: str) -> int | None:
    """The largest request that a block device takes whole, however its memory is laid out; None when nothing shows it."""
    folder = os.path.realpath(f"/sys/dev/block/{number}")
    queue = f"{folder}/queue" if os.path.isdir(f"{folder}/queue") else f"{os.path.dirname(folder)}/queue"
    sectors, segments, chunk = (
        _read(f"{queue}/{name}") for name in ("max_sectors_kb", "max_segments", "chunk_sectors")
    )
    if not sectors or not segments:
        return None
    # 0 means that there is no limit of this kind. Each segment may be a single page.
    limits = (int(sectors) << 10, int(segments) * os.sysconf("SC_PAGESIZE"), int(chunk or 0) * SECTOR_BYTES)
    return min(filter(None, limits), default=None)


def nominal_mhz() -> float | None:
    """The clock rate that the processor is sold with; None when nothing shows it.

    What the processor's name says is nominal; base_frequency is too (intel_pstate). /proc/cpuinfo's 'cpu MHz' is the rate of the moment,
    which is a constant near the nominal one only where the kernel does not scale it, as in most virtual machines.
    """
    base = _read("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")
    if base:
        return int(base) / 1000
    text = _read("/proc/cpuinfo") or ""
    named = re.search(r"^model name\s*:.*@\s*([\d.]+)\s*GHz", text, re.MULTILINE)
    if named:
        return float(named.group(1)) * 1000
    if os.path.exists("/sys/devices/system/cpu/cpu0/cpufreq"):
        return None
    now = re.search(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)
    return float(now.group(1)) if now else None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


def _processors() -> Sample:
    times: Sample = {"cpu_ticks": {}}
    for line in (_read("/proc/stat") or "").splitlines():
        # The line of interrupts has one number for each of thousands of sources; the first is their sum.
        name, _space, rest = line.partition(" ")
        if name.startswith("cpu"):
            times["cpu_ticks"][name[3:] or "all"] = [int(field) for field in rest.split()[:PROCESSOR_FIELDS]]
        elif name == "intr":
            times["interrupts"] = int(rest.split(" ", 1)[0])
        elif name == "ctxt":
            times["context_switches"] = int(rest)
    return times


def _caches() -> dict[str, CacheCounts]:
    """The counts of the caches of testbeds, and how full they are: {counts: as CACHE_COUNTS, levels: as CACHE_LEVELS}, for bcache see ``_bcache``."""
    caches = {}
    for path in glob.glob("/sys/block/dm-*/dm/uuid"):
        words = (_read(path) or "").strip().split(":")
        if words[0] == CACHE_UUID and len(words) == 4:
            number = (_read(f"{os.path.dirname(os.path.dirname(path))}/dev") or "").strip()
            active = device_mapper.targets(number) if number else []
            linear = [target["type"] for target in active] == ["linear"]
            cache = _cache_below(number, words) if linear else _cache_counts(active)
            if cache:
                caches[":".join(words[1:3])] = cache
    return caches


def _cache_counts(active: list[dict[str, Any]]) -> CacheCounts | None:
    """{counts, levels} of a mapping that is a cache."""
    cached = [target["type"] for target in active] == ["cache"]
    status = device_mapper.cache_status(active[0]["text"]) if cached else None
    return {"counts": status["counts"], "levels": [status[name] for name in CACHE_LEVELS]} if status else None


def _cache_below(number: str, words: list[str]) -> CacheCounts | None:
    """What LVM or bcache counts of a tier that goes through its device. None of a tier without its cache, whose origin may be somebody else's cache."""
    table = device_mapper.targets(number, table=True)
    if not table:
        return None  # gone meanwhile
    below = table[0]["text"].split()[0]
    if (_read(f"/sys/dev/block/{below}/dm/name") or "").strip() == f"storlab_{words[3]}-device":
        return _cache_counts(device_mapper.targets(below))
    backing = os.path.dirname(os.path.realpath(f"/sys/dev/block/{below}/bcache"))
    mapped = (_read(f"{backing}/dm/uuid") or "").strip().split(":")
    return _bcache(number, backing) if mapped[:3] == [CACHE_PART, *words[1:3]] else None


def _bcache(number: str, backing: str) -> CacheCounts | None:
    """{reads: [of the tier, of its origin], levels: [dirty bytes]}.

    bcache renews its own counts of hits and misses each 14 s only (stats.c: accounting_delay), too seldom for a point. Requests to the tier that its
    origin did not get came from the cache. Nothing shows it for writes: dirty data is written to the origin later.
    """
    reads = [(_read(f"{folder}/stat") or "").split() for folder in (f"/sys/dev/block/{number}", backing)]
    dirty_bytes = cache_bcache.read_size((_read(f"{backing}/bcache/dirty_data") or "").strip())
    if not all(reads) or dirty_bytes is None:
        return None
    return {"reads": [int(fields[0]) for fields in reads], "levels": [dirty_bytes]}


def _network() -> dict[str, list[int]]:
    interfaces = {}
    for line in (_read("/proc/net/dev") or "").splitlines():
        name, colon, rest = line.partition(":")
        if colon:
            fields = rest.split()
            interfaces[name.strip()] = [int(fields[0]), int(fields[8])]
    return interfaces


def _threads(pid: int) -> dict[str, int] | None:
    """Processor ticks (user and system) of a process, with the ticks of threads that ended, and of each thread that lives; None when it is gone."""
    whole = _ticks(f"/proc/{pid}/stat")
    if whole is None:
        return None
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    threads = {name: _ticks(f"/proc/{pid}/task/{name}/stat") for name in names}
    return {"all": whole, **{name: ticks for name, ticks in threads.items() if ticks is not None}}


def stopped(pid: int) -> bool:
    """Whether a process is held by a signal or by a debugger (states T and t of proc(5))."""
    return (_read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()[:1] in (["T"], ["t"])


def _ticks(path: str) -> int | None:
    # The name in parentheses may itself hold spaces and parentheses.
    fields = (_read(path) or "").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else None


# ---------------------------------------------------------------- pure


def combine(left: Any, other: Any, operation: Any) -> Any:
    """Two samples or differences taken together number by number. A number that only one of them has is left out: it cannot be known for both."""
    if isinstance(left, dict):
        pairs = {key: combine(value, other[key], operation) for key, value in left.items() if key in other}
        return {key: value for key, value in pairs.items() if value is not None}
    if isinstance(left, list):
        return [combine(first, second, operation) for first, second in zip(left, other)]
    if isinstance(left, str):
        return left if left == other else None
    return operation(left, other)


def difference(before: Sample, after: Sample) -> Sample:
    """The difference of two samples, still in the kernel's units."""
    changed: Sample = combine(after, before, operator.sub)
    return _at_the_end(changed, after)


def total(differences: list[Sample]) -> Sample:
    """Several differences taken as one."""
    together: Sample = differences[0]
    for other in differences[1:]:
        together = _at_the_end(combine(together, other, operator.add), other)
    return together


def _at_the_end(changed: Sample, last: Sample) -> Sample:
    """How full a cache is does not add up: what it was at the end holds."""
    for name, cache in changed.get("caches", {}).items():
        cache["levels"] = last["caches"][name]["levels"]
    return changed


def delta(before: Sample, after: Sample) -> HostFigures:
    """The figures of what happened between two samples, see ``figures_of``."""
    return figures_of(difference(before, after))


def figures_of(changed: Sample) -> HostFigures:
    """The figures of a difference.

    {interval_s, cpu: {host_busy_s, host_busy_percent, host_steal_percent, cores, busiest_core_percent, engine_busy_s, busiest_thread_percent},
    device: {name, read: {ios, bytes}, write: {ios, bytes}, busy_percent, latency_mean_ns}, layers: {<layer>: see ``layer_figures``},
    network: {name: {rx_bytes, tx_bytes}},
    caches: {<testbed>:<name>: {read_hits, read_misses, write_hits, write_misses, demotions, promotions, hit_percent, dirty_bytes, used_percent}},
    interrupts, context_switches}. Percentages of ``cpu`` are of all cores' time, except for one core or thread. The device's latency is from the
    request's submission to its completion, to whole milliseconds a request: a mean over few requests is coarse. Hits and misses of a cache are I/Os,
    promotions and demotions blocks, dirty_bytes the data that only it has at the end. For bcache there are hits and misses of reads, and dirty_bytes.
    """
    interval_s = changed["monotonic_s"]
    figures: HostFigures = {"interval_s": round(interval_s, 3), "cpu": _cpu_figures(changed, interval_s)}
    if "counts" in changed.get("device", {}) and "name" in changed["device"]:
        figures["device"] = _device_figures(changed["device"], interval_s)
    layers = layer_figures(changed)
    if layers:
        figures["layers"] = layers
    moved = {
        name: {"rx_bytes": received, "tx_bytes": sent}
        for name, (received, sent) in changed.get("network", {}).items()
        if received or sent
    }
    if moved:
        figures["network"] = moved
    caches = {name: _cache_figures(cache) for name, cache in changed.get("caches", {}).items()}
    if any(caches.values()):
        figures["caches"] = {name: cache for name, cache in caches.items() if cache}
    if "interrupts" in changed:
        figures["interrupts"] = changed["interrupts"]
    if "context_switches" in changed:
        figures["context_switches"] = changed["context_switches"]
    return figures


def _cache_figures(cache: CacheCounts) -> dict[str, float]:
    """Empty for a cache that was put in again since, whose counts began at 0."""
    if "reads" in cache:
        return _bcache_figures(*(round(count) for count in (*cache["reads"], *cache["levels"])))
    if "counts" not in cache:
        return {}  # another provider put it in meanwhile
    counts = dict(zip(CACHE_COUNTS, (round(count) for count in cache["counts"])))
    if min(counts.values()) < 0:
        return {}
    figures: dict[str, float] = dict(counts)
    hits, seen = (
        sum(counts[f"{way}_{what}"] for way in DIRECTIONS for what in whats)
        for whats in (("hits",), ("hits", "misses"))
    )
    if seen:
        figures["hit_percent"] = round(100 * hits / seen, 2)
    dirty, used, blocks, block_bytes = (round(level) for level in cache["levels"])
    figures.update(dirty_bytes=dirty * block_bytes, used_percent=round(100 * used / blocks, 1) if blocks else 0.0)
    return figures


def _bcache_figures(reads: int, of_origin: int, dirty_bytes: int) -> dict[str, float]:
    if min(reads, of_origin) < 0:
        return {}
    # A read that is cached in pieces asks the origin for each piece that is missing.
    misses = min(of_origin, reads)
    figures: dict[str, float] = {"read_hits": reads - misses, "read_misses": misses}
    if reads:
        figures["hit_percent"] = round(100 * (reads - misses) / reads, 2)
    return {**figures, "dirty_bytes": dirty_bytes}


def hit_percent(changed: Sample) -> float | None:
    """For all caches of the host together, weighted by I/Os; None where none was asked."""
    figures = [_cache_figures(cache) for cache in changed.get("caches", {}).values()]
    hits, misses = (
        sum(cache.get(f"{way}_{what}", 0) for cache in figures for way in DIRECTIONS) for what in ("hits", "misses")
    )
    return round(100 * hits / (hits + misses), 1) if hits + misses else None


def _cpu_figures(changed: Sample, interval_s: float) -> dict[str, float]:
    ticks = {name: _split(spent) for name, spent in changed.get("cpu_ticks", {}).items()}
    busy, steal, whole = ticks.pop("all", (0, 0, 0))
    if whole <= 0 or interval_s <= 0:
        return {}
    figures: dict[str, float] = {
        "host_busy_s": round(busy / TICKS_S, 2),
        "host_busy_percent": round(100 * busy / whole, 2),
        "host_steal_percent": round(100 * steal / whole, 2),
    }
    shares = [100 * spent / of for spent, _stolen, of in ticks.values() if of > 0]
    if shares:
        figures.update({"cores": len(ticks), "busiest_core_percent": round(max(shares), 1)})
    engine = dict(changed.get("engine_ticks", {}))
    if "all" in engine:
        figures["engine_busy_s"] = round(engine.pop("all") / TICKS_S, 2)
    if engine:
        figures["busiest_thread_percent"] = round(100 * max(engine.values()) / TICKS_S / interval_s, 1)
    return figures


def _split(spent: list[int]) -> tuple[int, int, int]:
    """(busy, stolen, all) ticks. Time that the hypervisor gave to others was not spent by this host, but it was part of the time."""
    whole = sum(spent)
    return whole - spent[IDLE] - spent[IOWAIT] - spent[STEAL], spent[STEAL], whole


def _device_figures(device: Counts, interval_s: float) -> DeviceFigures:
    counts = device["counts"]
    moved = direction_counts(counts)
    figures: DeviceFigures = {"name": device["name"], "read": moved["read"], "write": moved["write"]}
    if interval_s > 0:
        figures["busy_percent"] = round(min(100 * counts[BUSY_MS] / 1000 / interval_s, 100), 1)
    ios, spent_ms = (sum(counts[start + field] for start in DIRECTIONS.values()) for field in (0, 3))
    # None that took a whole millisecond together: too fast for this clock.
    if ios and spent_ms:
        figures["latency_mean_ns"] = round(1e6 * spent_ms / ios)
    return figures


def layer_figures(changed: Sample) -> dict[str, DeviceFigures]:
    """{layer: {name, interval_s, read: {ios, bytes}, write: {ios, bytes}, merged_ios, in_flight, busy_percent, latency_mean_ns}} of a difference.

    ``ios`` are requests to the device, ``merged_ios`` the requests that were merged into them. ``in_flight`` is how many requests were in flight on
    average: the milliseconds that all requests together took, over the time, which is Little's law. It is made of the two fields of reads and writes, and
    not of field 11 (weighted time), which counts discards and flushes too.
    """
    interval_s = changed["monotonic_s"]
    layers: dict[str, DeviceFigures] = {}
    for layer, device in changed.get("layers", {}).items():
        if "name" not in device or "counts" not in device or interval_s <= 0:
            continue
        merged, spent_ms = (sum(device["counts"][start + field] for start in DIRECTIONS.values()) for field in (1, 3))
        layers[layer] = {
            **_device_figures(device, interval_s),
            "interval_s": round(interval_s, 3),
            "merged_ios": merged,
            "in_flight": round(spent_ms / 1000 / interval_s, 6),
        }
    return layers


def direction_counts(counts: list[int]) -> dict[Direction, Moved]:
    """{read: {ios, bytes}, write: {ios, bytes}} of block statistics."""
    return {
        name: {"ios": counts[start], "bytes": counts[start + 2] * SECTOR_BYTES} for name, start in DIRECTIONS.items()
    }
