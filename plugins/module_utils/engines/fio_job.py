# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's job files out of workloads. A word that fio cannot express is a failure, never left out.

Options and what they do: fio's HOWTO, and fio 3.33 itself, which tests/unit/engines/test_engine_fio_jobs.py runs.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from ..core.failure import Failure, bad_value
from ..result import result as schema
from ..workload.point import Point
from ..workload.workload import (
    Workload,
    block_bounds,
    by_time,
    directions,
    extent,
    mean_block_bytes,
    natural_alignment,
    unsupported,
)

PERCENTILE_LIST = ":".join(f"{percent:g}" for percent in schema.PERCENTILES)
# The null engine needs a size to choose offsets from; nothing of it is ever stored.
CEILING_BYTES = 1 << 30
FILL_BLOCK_BYTES = 1 << 20
# fio takes so many sizes of a mix (BSSPLIT_MAX).
MOST_SIZES = 64
# A rate is split into whole numbers for each worker and direction; this far the sum may be from what was asked for.
RATE_TOLERANCE = 0.01
Rate = Literal["rate_iops", "rate_bytes_s"]
RATES: tuple[Rate, ...] = ("rate_iops", "rate_bytes_s")
# fio adds the kind of log to the name that it is given.
LOG_NAME, WINDOWS_LOG = "windows", "windows_iops.log"
# The errors of a device that fails, is gone or cannot be reached (EIO, ENXIO, ENODEV, ENOLINK, ETIMEDOUT), for reads and for writes as fio takes them. It
# has no names for some. Any other ends a job that goes on over errors, too: a file that is too small is a mistake and no failure of storage.
PATH_ERRORS = ",".join([":".join(map(str, (errno.EIO, errno.ENXIO, errno.ENODEV, errno.ENOLINK, errno.ETIMEDOUT)))] * 2)
DEFAULT_IOENGINE, WINDOWS_IOENGINE = "libaio", "windowsaio"
# ioengine: the options that only it knows. An engine that issues one I/O after the other cannot keep a queue.
ASYNCHRONOUS = {
    "libaio": {"userspace_reap", "nowait", "cmdprio", "cmdprio_bssplit", "cmdprio_class", "cmdprio_percentage"},
    "io_uring": {
        "hipri",
        "fixedbufs",
        "registerfiles",
        "sqthread_poll",
        "sqthread_poll_cpu",
        "nonvectored",
        "uncached",
        "nowait",
        "force_async",
        "cmdprio",
        "cmdprio_bssplit",
        "cmdprio_class",
        "cmdprio_percentage",
    },
    "posixaio": set(),
    WINDOWS_IOENGINE: set(),
}
SYNCHRONOUS = {
    "psync": set(),
    "pvsync2": {"hipri", "hipri_percentage", "uncached", "nowait"},
    "pvsync": set(),
    "vsync": set(),
    "sync": set(),
    "mmap": set(),
}
IOENGINES = {**ASYNCHRONOUS, **SYNCHRONOUS}
ON_WINDOWS = {WINDOWS_IOENGINE, "sync"}
# The options that may be passed through: how I/O is issued. Not where (filename, directory, opendir, mem, lockfile, verify_dump, …), nothing that
# changes the host (exec_*, ioscheduler, cgroup, uid, trim_*, …), and nothing that hides errors or figures (continue_on_error, gtod_reduce,
# output, write_*_log, percentile_list, …). A list of what is forbidden would not know what the next fio brings.
ALLOWED = {
    "buffer_compress_chunk",
    "clocksource",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "dedupe_global",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "fadvise_hint",
    "gtod_cpu",
    "invalidate",
    "io_submit_mode",
    "iodepth_batch",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "latency_percentile",
    "latency_run",
    "latency_target",
    "latency_window",
    "lockmem",
    "max_latency",
    "nice",
    "norandommap",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "prio",
    "prioclass",
    "random_generator",
    "rate_cycle",
    "rate_ignore_thinktime",
    "rw_sequencer",
    "scramble_buffers",
    "serialize_overlap",
    "sync_file_range",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "thinktime_spin",
    "verify_async",
    "verify_fatal",
    "verify_interval",
    "write_barrier",
    "write_hint",
}
# The part of them that fio for Windows answers with 'Your platform does not support', or is built without; and io_submit_mode, whose offload never ends
# there (3.42 under wine).
NOT_ON_WINDOWS = {
    "io_submit_mode",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "prio",
    "prioclass",
    "sync_file_range",
    "write_hint",
}
# fio's name of what a workload says by another.
WORKLOAD_KEYS = {
    "bs": "block_size",
    "blocksize": "block_size",
    "bsrange": "block_size",
    "blocksize_range": "block_size",
    "bssplit": "block_size",
    "ba": "alignment",
    "blockalign": "alignment",
    "rw": "read_percent and random_percent",
    "readwrite": "read_percent and random_percent",
    "rwmixread": "read_percent",
    "rwmixwrite": "read_percent",
    "percentage_random": "random_percent",
    "random_distribution": "distribution",
    "iodepth": "queue_depth",
    "numjobs": "workers",
    "runtime": "runtime_s",
    "timeout": "runtime_s",
    "time_based": "runtime_s",
    "ramp_time": "ramp_s",
    "direct": "direct",
    "buffered": "direct",
    "offset": "range",
    "size": "range",
    "io_size": "io_bytes",
    "io_limit": "io_bytes",
    "loops": "loops",
    "thinktime": "think_time_us",
    "thinktime_blocks": "burst",
    "rate": "rate_bytes_s",
    "rate_iops": "rate_iops",
    "rate_process": "rate_process",
    "sync": "sync",
    "fsync": "sync",
    "fdatasync": "sync",
    "end_fsync": "sync",
    "verify": "verify",
    "continue_on_error": "on_error",
    "buffer_pattern": "data",
    "zero_buffers": "data",
    "refill_buffers": "data",
    "buffer_compress_percentage": "data",
    "dedupe_percentage": "data",
}


def ioengine(path: object, workload: Workload | None = None) -> str:
    """fio's engine for a layer. A layer without a path is the ceiling, what fio itself can do, whatever engine the workload names."""
    return "null" if path is None else _device_engine(path, workload or {})


def passed_through(workload: Workload) -> dict[str, str]:
    options: dict[str, Any] = workload.get("engine_options", {}).get("fio", {})
    return options


def _device_engine(path: Any, workload: Workload) -> str:
    """The engine for a layer's device. For the ceiling: the one that it replaces."""
    engine: str = passed_through(workload).get("ioengine", WINDOWS_IOENGINE if _of_windows(path) else DEFAULT_IOENGINE)
    return engine


def _of_windows(path: Any) -> bool:
    return path is not None and not path.startswith("/")


def job_file(point: Point, log_ms: int | None = None, clock: str | None = None) -> str:
    """The job file of a point: {point_id, path (None = ceiling), size_bytes, workload (normalised), seed, reduces_data, files}.

    reduces_data: its device compresses or deduplicates. files: of a layer with a file per worker.

    log_ms: fio also leaves WINDOWS_LOG in its folder, a line for each window of so many milliseconds in which a worker completed I/O in a direction.
    clock: the clock of the host, unless the workload names another.
    """
    return _render(point["point_id"], _job_options(point, log_ms, clock))


def check(point: Point) -> None:
    """Failure for what fio cannot do of a point (as job_file has it). The text is made where the job is run, and only there."""
    _job_options(point)


def _job_options(point: Point, log_ms: int | None = None, clock: str | None = None) -> dict[str, object]:
    workload, path = point["workload"], point["path"]
    _refuse_options(workload, path)
    offset, size = extent(workload, point["size_bytes"] or CEILING_BYTES)
    slices = workload["workers"] if _sliced(workload) and not point.get("files") else 1
    if slices > 1:
        step = max(block_bounds(workload)[1], workload["alignment_bytes"])
        size = size // slices // step * step
    return {
        **_common(point, point.get("reduces_data", False)),
        "ioengine": ioengine(path, workload),
        **_duration(workload),
        **_random_map(workload, size),
        **_access(workload),
        **_sizes(workload),
        "iodepth": workload["queue_depth"],
        "numjobs": workload["workers"],
        "offset": offset,
        **({"offset_increment": size} if slices > 1 else {}),
        "size": size,
        **_pace(workload),
        **_sync(workload),
        **_verify(workload, path),
        **_on_error(workload, path),
        **({"clocksource": clock} if clock else {}),
        **_options(workload, path),
        **({"write_iops_log": LOG_NAME, "log_avg_msec": log_ms, "per_job_logs": 0} if log_ms else {}),
        # Where I/O may fail, its counts are set beside events on other hosts.
        **({"log_unix_epoch": 1} if log_ms and "on_error" in workload else {}),
    }


def fill_file(point: Point, block_bytes: int = FILL_BLOCK_BYTES, passes: int = 1) -> str:
    """The job file that writes every block of a point's layer, all of its files, in order, with the data that the workload would write.

    Blocks are of block_bytes, or the largest power-of-two share of it that the layer consists of.
    """
    size = point["size_bytes"]
    options = {
        # Nothing is measured at that time, so what is read later may be as good as it gets.
        **_common(point, reduces_data=True),
        "rw": "write",
        "bs": math.gcd(size, block_bytes),
        "iodepth": 4,
        "offset": 0,
        "size": size,
    }
    if point.get("files"):
        options["numjobs"] = len(point["files"])
    if passes > 1:
        options["loops"] = passes
    # Buffered writes that are still on their way would be charged to the first point.
    options["end_fsync"] = 1
    return _render(f"fill-{point['layer']}", options)


def escape(path: str) -> str:
    """The path as fio's filename option wants it. fio has no way to quote some characters, so those are refused."""
    if not re.fullmatch(r"/[A-Za-z0-9/._:+@=,%-]*|\\\\\.\\PhysicalDrive\d{1,4}|[A-Za-z]:(\\[A-Za-z0-9._+-]+)+", path):
        raise bad_value(
            "layer path",
            path,
            "fio cannot be given this path; use one of letters, digits and / . _ : + @ = , % - only, "
            r"on Windows one like T:\name.dat or \\.\PhysicalDrive1.",
        )
    return path.replace(":", "\\:")


def _place(point: Point) -> dict[str, Any]:
    """Where the I/O goes: one file or device for all workers, or a file for each, which fio numbers like its jobs."""
    files = point.get("files")
    if not files:
        return {"filename": escape(point["path"])}
    workers = point["workload"]["workers"]
    if workers > len(files):
        raise unsupported(
            "fio",
            "workers",
            workers,
            f"The layer has {len(files)} files, one for each worker; give its datastore more benchmark_files, or use fewer workers.",
        )
    folder, _slash, name = escape(files[0]).rpartition("/")
    numbered = name.replace(".0.", ".$jobnum.")
    if [f"{folder}/{numbered.replace('$jobnum', str(number))}" for number in range(len(files))] != files:
        raise bad_value("layer files", files, "Several files differ in their number only, which begins with 0.")
    return {"directory": folder, "filename_format": numbered}


def _common(point: Point, reduces_data: bool = False) -> dict[str, Any]:
    path, workload, seed = point["path"], point["workload"], point["seed"]
    options = {
        "ioengine": ioengine(path),
        # Threads, because fio gives every forked worker a session of its own and a killed fio would leave them behind.
        "thread": 1,
        "group_reporting": 1,
        # Another seed in every repetition, or a cache would be shown the same offsets again; recorded, so that a run can be repeated.
        "randrepeat": 0,
        "randseed": seed,
        **_data(workload.get("data", {}), reduces_data),
        "lat_percentiles": 1,
        "clat_percentiles": 0,
        "percentile_list": PERCENTILE_LIST,
    }
    if path is not None:
        options.update({**_place(point), "direct": int(workload["direct"]), "allow_file_create": 0})
        if not workload["direct"]:
            # The contents of the page cache are decided by the preparation; fio would drop it at every start, and no warm cache could be measured.
            options["invalidate"] = 0
    return options


def _data(data: Mapping[str, object], reduces_data: bool) -> dict[str, object]:
    pattern = data.get("pattern", "random")
    if pattern == "zero":
        return {"zero_buffers": 1}
    if pattern == "repeat":
        return {"buffer_pattern": f"0x{data['hex']}"}
    names = {"compress_percent": "buffer_compress_percentage", "dedupe_percent": "dedupe_percentage"}
    shares = {names[key]: data[key] for key in names if key in data}
    if shares or reduces_data or data.get("refill"):
        # Each block is new: one random buffer, however it is scrambled, is a gift to whatever compresses over several blocks or looks for parts that are alike.
        return {"refill_buffers": 1, **shares}
    # Making each block again would cost a fast device more than the I/O itself; no two blocks are equal this way, either.
    return {"scramble_buffers": 1}


def _duration(workload: Workload) -> dict[str, float]:
    options = {"runtime": workload["runtime_s"], "ramp_time": workload["ramp_s"]}
    if by_time(workload):
        return {"time_based": 1, **options}
    if "verify" in workload:
        # At its limit fio would end without a word, nothing compared; so the limit is the runner's, which calls that a failure.
        del options["runtime"]
    if "loops" in workload:
        return {**options, "loops": workload["loops"]}
    return {**options, "io_size": math.ceil(workload["io_bytes"] / workload["workers"])}


def _access(workload: Workload) -> dict[str, Any]:
    read, random = workload["read_percent"], workload["random_percent"]
    names = {0: "write", 100: "read"}
    options: dict[str, Any] = {"rw": ("rand" if random else "") + names.get(read, "rw")}
    if read not in names:
        options["rwmixread"] = read
    if random not in (0, 100):
        options["percentage_random"] = random
    natural = workload["alignment_bytes"] == natural_alignment(workload)
    if not natural and random < 100:
        raise unsupported(
            "fio",
            "alignment",
            workload["alignment_bytes"],
            "It aligns random I/O only; leave alignment to follow from the block size, or set random_percent to 100.",
        )
    # Left alone, fio aligns each direction to that direction's smallest size.
    if not natural or ("block_size_bytes" not in workload and random == 100):
        options["blockalign"] = workload["alignment_bytes"]
    distribution = workload.get("distribution")
    if isinstance(distribution, dict):
        distribution = "zoned:" + ":".join(
            f"{zone['access_percent']}/{zone['space_percent']}" for zone in distribution["zoned"]
        )
    if distribution:
        options["random_distribution"] = distribution
    return options


def _sizes(workload: Workload) -> dict[str, int] | dict[str, str]:
    if "block_size_bytes" in workload:
        return {"bs": workload["block_size_bytes"]}
    if "block_size_range" in workload:
        return {"bsrange": "-".join(map(str, block_bounds(workload)))}
    mixes = workload["block_sizes"]
    for parts in mixes.values():
        if len(parts) > MOST_SIZES:
            raise unsupported("fio", "block_size", f"of {len(parts)} sizes", f"Use at most {MOST_SIZES} sizes.")
    # fio wants reads before writes; a direction without sizes has no I/O, so any do for it.
    both = [mixes.get(name) or next(iter(mixes.values())) for name in ("read", "write")]
    return {
        "bssplit": ",".join(":".join(f"{part['size_bytes']}/{part['percent']}" for part in parts) for parts in both)
    }


def _sliced(workload: Workload) -> bool:
    """Whether each worker has a part of the range to itself.

    Sequential workers on one range would each read what another has just brought in; workers that verify would find what another wrote.
    """
    return workload["random_percent"] < 100 or "verify" in workload


def _pace(workload: Workload) -> dict[str, object]:
    options: dict[str, Any] = {}
    if "think_time_us" in workload:
        options.update({"thinktime": workload["think_time_us"], "thinktime_blocks": workload["burst"]})
    for key in RATES:
        if key in workload:
            options.update(_rate(workload, key))
    if "rate_process" in workload:
        if workload["rate_process"] == "poisson" and "block_size_bytes" not in workload:
            raise unsupported(
                "fio", "rate_process", "poisson with several block sizes", "Use one block size, or rate_process linear."
            )
        options["rate_process"] = workload["rate_process"]
    return options


def _rate(workload: Workload, key: Rate) -> dict[str, Any]:
    """fio limits each worker and each direction by itself, and counts I/Os only where all have one size."""
    share = {"read": workload["read_percent"] / 100, "write": 1 - workload["read_percent"] / 100}
    used = {name: share[name] for name in directions(workload)}
    bytes_each = {name: used[name] * mean_block_bytes(workload, name) for name in used}
    by_count = key == "rate_iops" and "block_size_bytes" in workload
    if by_count:
        wanted = {name: workload[key] * used[name] / workload["workers"] for name in used}
    else:
        ios = workload[key] if key == "rate_iops" else workload[key] / sum(bytes_each.values())
        wanted = {name: ios * bytes_each[name] / workload["workers"] for name in used}
    whole = {name: round(value) for name, value in wanted.items()}
    for name, value in wanted.items():
        if not whole[name] or abs(whole[name] - value) > RATE_TOLERANCE * value:
            raise unsupported(
                "fio",
                key,
                workload[key],
                f"Its {name}s are {value:g} for each of {workload['workers']} workers, and fio takes whole numbers; "
                f"choose {key} so that every worker gets one, or fewer workers.",
            )
    limits = (
        ",".join(str(whole.get(name, "")) for name in ("read", "write")) if len(whole) > 1 else str(*whole.values())
    )
    return {"rate_iops" if by_count else "rate": limits}


def _sync(workload: Workload) -> dict[str, object]:
    sync, options = workload.get("sync", {}), {}
    if "mode" in sync:
        options["sync"] = sync["mode"]
    for key, name in (("fsync_every", "fsync"), ("fdatasync_every", "fdatasync")):
        if key in sync:
            if workload["read_percent"]:
                raise unsupported(
                    "fio",
                    f"sync.{key}",
                    sync[key],
                    "Before 3.38 it counts reads too; set read_percent to 0, or use sync.mode.",
                )
            options[name] = sync[key]
    if "end_fsync" in sync:
        options["end_fsync"] = 1
    return options


def _verify(workload: Workload, path: object) -> dict[str, object]:
    """An amount is written, then read back and compared. Figures are of the writing alone."""
    if "verify" not in workload:
        return {}
    value = workload["verify"]
    if path is None:
        raise unsupported(
            "fio",
            "verify",
            value,
            "The ceiling keeps nothing that could be read back; leave the ceiling out, or verify.",
        )
    if by_time(workload):
        raise unsupported(
            "fio",
            "verify",
            value,
            "It compares when an amount has been written, and its times are wrong when it compares in between; "
            "give io_bytes or loops.",
        )
    if workload["read_percent"]:
        raise unsupported(
            "fio",
            "verify",
            value,
            "It counts the blocks that it reads back as reads of the workload; set read_percent to 0.",
        )
    if "block_size_bytes" not in workload or workload["alignment_bytes"] % workload["block_size_bytes"]:
        raise unsupported(
            "fio",
            "verify",
            value,
            "Blocks that overlap are compared in part only; use one block size, and a multiple of it as alignment.",
        )
    # When two writes to one block are on their way at once, either may be the last. fio would leave a file of its state wherever it was started.
    return {"verify": value, "serialize_overlap": 1, "verify_state_save": 0}


def _random_map(workload: Workload, size: int) -> dict[str, object]:
    """A random map costs what would be charged to the storage. Writes that may fail and are compared need it: fio 3.33 looks for blocks that were written
    twice in a tree, which an error breaks (11 of 60 runs crashed or never ended, with the map none; random_percent 50 is compared wrongly with it)."""
    if "verify" not in workload or "on_error" not in workload:
        return {"norandommap": 1}
    amount = size * workload["loops"] if "loops" in workload else math.ceil(workload["io_bytes"] / workload["workers"])
    if amount > size or workload["random_percent"] not in (0, 100) or "distribution" in workload:
        once = f"use random_percent 0 or 100, no distribution, and for each worker io_bytes of at most {size}"
        why = f"Beside verify no block may be written twice; {once}, or leave verify out."
        raise unsupported("fio", "on_error", workload["on_error"], why)
    return {}


def _on_error(workload: Workload, path: object) -> dict[str, object]:
    """A block that differs when it is read back ends the job all the same. Each error is a line, which shows when the first one came."""
    if "on_error" not in workload or path is None:
        return {}
    if _of_windows(path):
        raise unsupported("fio", "on_error", workload["on_error"], "Errors have other numbers there; leave it out.")
    return {"continue_on_error": "io", "ignore_error": PATH_ERRORS, "error_dump": 1}


def _refuse_options(workload: Workload, path: object) -> None:
    options, where, windows = passed_through(workload), "engine_options.fio.", _of_windows(path)
    engine = _device_engine(path, workload)
    # The null engine of a ceiling is on either.
    had = IOENGINES if path is None else ON_WINDOWS if windows else set(IOENGINES) - {WINDOWS_IOENGINE}
    if engine not in had:
        why = "no other is on this layer's host" if engine in IOENGINES else "others need no device, or reach another"
        raise unsupported("fio", f"{where}ioengine", engine, f"Use one of {', '.join(sorted(had))}: {why}.")
    for name, value in options.items():
        if windows and name in NOT_ON_WINDOWS:
            raise unsupported("fio", f"{where}{name}", value, "It cannot on Windows; leave it out there.")
        if name == "ioengine" or name in ALLOWED or name in IOENGINES[engine]:
            continue
        others = [other for other, own in IOENGINES.items() if name in own]
        if name in WORKLOAD_KEYS:
            remedy = f"The workload's {WORKLOAD_KEYS[name]} says it; use that."
        elif others:
            remedy = f"It is an option of {' and '.join(others)}; set ioengine to that."
        else:
            remedy = (
                "Options that could reach another place, run a command, hide an error or change the record are not passed on; "
                "docs/workloads.md lists what is."
            )
        raise Failure(
            "workload_unsupported",
            f"fio is not given {where}{name} {value!r}.",
            remedy,
            engine="fio",
            variable=f"{where}{name}",
            value=value,
        )
    if engine in SYNCHRONOUS and workload["queue_depth"] > 1:
        raise unsupported(
            "fio",
            "queue_depth",
            workload["queue_depth"],
            f"Its engine {engine} issues one I/O after the other; set queue_depth to 1 and use workers, or use ioengine "
            f"{WINDOWS_IOENGINE if windows else 'io_uring or libaio'}.",
        )
    if workload["direct"] and (engine == "mmap" or (windows and engine == "sync")):
        raise unsupported(
            "fio",
            "direct",
            True,
            f"Its engine {engine} works through the page cache only; set direct to false, or use another ioengine.",
        )
    mode = workload.get("sync", {}).get("mode")
    if windows and mode and (mode, engine) != ("sync", WINDOWS_IOENGINE):
        raise unsupported(
            "fio",
            "sync.mode",
            mode,
            f"On Windows it knows the mode sync only, and that with ioengine {WINDOWS_IOENGINE} only; use those, "
            "or sync.fsync_every.",
        )


def _options(workload: Workload, path: object) -> dict[str, Any]:
    """The options to pass through. The ceiling's null engine does not know those of the engine that it replaces."""
    options = passed_through(workload)
    own = IOENGINES[_device_engine(path, workload)] if path is None else ()
    return {name: value for name, value in options.items() if name != "ioengine" and name not in own}


def _render(name: str, options: Mapping[str, object]) -> str:
    return "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in options.items()), ""])
