# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of an ESXi host and its machines, read as real-time samples over the API and weighted to the time in which something was measured.

Samples, JSON-able::

    {host, product, simulated: bool, clock: {offset_s, uncertain_s}, sample_s, hardware: {cores, mhz, model, vendor, product, memory_bytes},
     names: {datastores: {uuid: name}, adapters: {device: [vmhba]}, disks: {machine: {'scsi0:1': uuid}}},
     host_samples: table, machines: {name: table}}

A table is {columns: [[counter, instance]], rows: [[end_s, length_s, value…]]}: each row ends at end_s (seconds since 1970, the host's clock) and is of the
length_s before. A value is the API's integer, or null where there was none.

Counters, their units and roll-ups: "Performance Counters Reference" of the vSphere Web Services API, groups cpu, disk, storageAdapter, datastore and
virtualDisk. Their meaning: GAVG (totalLatency) = KAVG (kernelLatency) + DAVG (deviceLatency), QAVG (queueLatency) is part of KAVG.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..core.failure import Failure
from ..core.times import unix_s
from ..run import observer
from . import scsi
from .session import Session
from .states import HostSystem, Samples, Table

# In addition to the connection's.
SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["collected", "recorded"], "default": "collected"},
    "run_dir": {"type": "path"},
    "started_utc": {"type": "str"},
    "finished_utc": {"type": "str"},
    "wait_s": {"type": "int", "default": 60},
}
_MS, _US, _KIB = 1_000_000, 1_000, 1024
_RATES = {
    "numberReadAveraged.average": ("read_iops", 1),
    "numberWriteAveraged.average": ("write_iops", 1),
    "read.average": ("read_bandwidth_bytes_s", _KIB),
    "write.average": ("write_bandwidth_bytes_s", _KIB),
}
_COMMANDS = {"commandsAveraged.average": ("iops", 1)}
# The counters of a host when an I/O did not come back in time. They are sums of a sample, of devices alone: {counter: key}.
_TROUBLE = {"commandsAborted.summation": "commands_aborted", "busResets.summation": "bus_resets"}
_DEVICES = "disk"
# (counter, key, ns in its unit, the counter that its mean is weighted by); of several with one key the first that says something is taken.
_SIDES = (
    ("totalReadLatency.average", "read_latency_mean_ns", _MS, "numberReadAveraged.average"),
    ("totalWriteLatency.average", "write_latency_mean_ns", _MS, "numberWriteAveraged.average"),
)
# section: (group of counters, rates, latencies)
_HOST = {
    "devices": (
        _DEVICES,
        {**_COMMANDS, **_RATES},
        tuple(
            (f"{name}Latency.average", key, _MS, "commandsAveraged.average")
            for name, key in (("total", "gavg_ns"), ("kernel", "kavg_ns"), ("device", "davg_ns"), ("queue", "qavg_ns"))
        ),
    ),
    "adapters": ("storageAdapter", {**_COMMANDS, **_RATES}, _SIDES),
    "datastores": ("datastore", _RATES, _SIDES),
}
_MACHINE = {
    "virtual_disks": (
        "virtualDisk",
        _RATES,
        (
            ("readLatencyUS.latest", "read_latency_mean_ns", _US, "numberReadAveraged.average"),
            ("writeLatencyUS.latest", "write_latency_mean_ns", _US, "numberWriteAveraged.average"),
            *_SIDES,
        ),
    ),
}
_MHZ, _USAGE = "cpu.usagemhz.average", "cpu.usage.average"
# cpu.usage counts hundredths of a percent.
_USAGE_PERCENT = 0.01
# Time stamps of samples are whole seconds.
TIMESTAMP_S = 1.0
CLOCK_EXCHANGES = 5
# A sample appears some seconds after it ended.
POLL_S = 2.0
SHORT_FLAG = "esxi_interval_too_short"

# ---------------------------------------------------------------- reading


def read(session: Session, host: HostSystem, started_s: float, finished_s: float, wait_s: float) -> Samples:
    """The samples since started_s, in one request; it is repeated until the sample around finished_s is there, or until wait_s after it.

    started_s, finished_s: seconds since 1970 by this machine's clock.
    """
    ahead = clock(session, host)
    manager, vim = session.content.perfManager, session.vim
    with session.doing("read its counters"):
        counters = {
            f"{info.groupInfo.key}.{info.nameInfo.key}.{info.rollupType}": info.key for info in manager.perfCounter
        }
        sample_s = manager.QueryPerfProviderSummary(host).refreshRate
        summary = host.summary
        # A vCenter may have thousands of machines, so no more is asked of all than what identifies the machines.
        machines = {
            values["name"]: machine
            for machine, values in session.all(vim.VirtualMachine, "name", "runtime.host", "runtime.powerState")
            if values.get("runtime.host") == host and values.get("runtime.powerState") == "poweredOn"
        }
        disks = {name: _disks(vim, machine.config.hardware.device) for name, machine in machines.items()}
    names = {key: name for name, key in counters.items()}
    since = _utc(started_s + ahead["offset_s"] - sample_s)

    def query(entity: Any, sections: dict[str, Any], cpu: tuple[Any, ...]) -> Any:
        wanted = [(name, "") for name in cpu] + [
            (f"{group}.{counter}", "*")
            for group, rates, latencies in sections.values()
            for counter in [*rates, *(latency[0] for latency in latencies), *(_TROUBLE if group == _DEVICES else ())]
        ]
        ids = [
            vim.PerformanceManager.MetricId(counterId=counters[name], instance=instance)
            for name, instance in wanted
            if name in counters
        ]
        return vim.PerformanceManager.QuerySpec(
            entity=entity, metricId=ids, intervalId=sample_s, startTime=since, format="csv"
        )

    specs = [query(host, _HOST, (_MHZ, _USAGE))] + [query(machine, _MACHINE, (_MHZ,)) for machine in machines.values()]

    def ask() -> Samples:
        with session.doing("read its counters"):
            by_entity = {metrics.entity: table_of(metrics, names) for metrics in manager.QueryPerf(querySpec=specs)}
        return {
            "host_samples": by_entity.get(host, {"columns": [], "rows": []}),
            "machines": {name: by_entity[machine] for name, machine in machines.items() if machine in by_entity},
        }

    tables = complete(ask, finished_s + ahead["offset_s"], finished_s + wait_s)
    product = summary.config.product.fullName if summary.config.product else None
    return {
        "host": summary.config.name,
        "product": product or session.about["product"],
        "simulated": bool(session.stand_in),
        "clock": ahead,
        "sample_s": sample_s,
        "hardware": {
            "cores": summary.hardware.numCpuCores,
            "mhz": summary.hardware.cpuMhz,
            "model": summary.hardware.cpuModel,
            "vendor": summary.hardware.vendor,
            "product": summary.hardware.model,
            "memory_bytes": summary.hardware.memorySize,
        },
        "names": {"datastores": _datastores(session, host), "adapters": _adapters(session, host), "disks": disks},
        **tables,
    }


def complete(ask: Callable[[], Samples], finished_s: float, until_s: float) -> Samples:
    """The answer of ask() when its newest sample is of finished_s (the host's clock) or later, or of until_s (this machine's)."""
    while True:
        tables = ask()
        newest_s = max((row[0] for row in tables["host_samples"]["rows"]), default=0)
        if newest_s >= finished_s or time.time() >= until_s:
            return tables
        time.sleep(POLL_S)


def _utc(moment_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(moment_s, datetime.timezone.utc)


def clock(session: Session, host: HostSystem) -> dict[str, Any]:
    """How far the host's own clock is ahead of ours, {offset_s, uncertain_s}. Samples carry that clock, which is not the vCenter's."""
    with session.doing("read the host's clock"):
        system = host.configManager.dateTimeSystem
    return _ahead(session, system.QueryDateTime)


def session_clock(session: Session) -> dict[str, Any]:
    """The same of the clock of what we are logged in to: the host, or its vCenter. Events carry it."""
    return _ahead(session, session.instance.CurrentTime)


def _ahead(session: Session, ask: Callable[[], Any]) -> dict[str, object]:
    exchanges = []
    with session.doing("read its clock"):
        for _exchange in range(CLOCK_EXCHANGES):
            sent = time.time()
            theirs = ask().timestamp()
            exchanges.append((sent, theirs, time.time()))
    if all(theirs == int(theirs) for _sent, theirs, _received in exchanges):
        # Whole seconds only: the moment may have been any time of that second.
        exchanges = [(sent - 1.0, theirs, received) for sent, theirs, received in exchanges]
    offset_s, uncertain_s = observer.clock_offset(exchanges)
    return {"offset_s": round(offset_s, 4), "uncertain_s": round(uncertain_s, 4)}


def table_of(metrics: Any, names: Mapping[object, str]) -> Table:
    """One entity's samples (PerfEntityMetricCSV) as a table. The API says -1 where a sample has no value; samples come in any order."""
    stamps = (metrics.sampleInfoCSV or "").split(",")
    # 'length,end,length,end…'
    samples = [(round(unix_s(end)), int(length_s)) for length_s, end in zip(stamps[::2], stamps[1::2])]
    series = {
        (names[column.id.counterId], column.id.instance): [
            int(value) if value else -1 for value in column.value.split(",")
        ]
        for column in metrics.value or []
        if column.id.counterId in names and column.value
    }
    # Values whose number is not that of the samples cannot be matched to them.
    series = {column: values for column, values in series.items() if len(values) == len(samples)}
    rows = {
        end_s: [end_s, length_s, *(values[position] if values[position] >= 0 else None for values in series.values())]
        for position, (end_s, length_s) in enumerate(samples)
    }
    return {"columns": [list(column) for column in series], "rows": [rows[end_s] for end_s in sorted(rows)]}


def _datastores(session: Session, host: HostSystem) -> dict[str, Any]:
    """{instance: name}: a datastore's counters go by its UUID, which is the last part of where it is mounted, or by its volume's."""
    with session.doing("list the datastores"):
        infos = [store.info for store in host.datastore]
    return {
        getattr(getattr(info, "vmfs", None), "uuid", None) or info.url.rstrip("/").rsplit("/", 1)[-1]: info.name
        for info in infos
    }


def _adapters(session: Session, host: HostSystem) -> dict[str, Any]:
    """{device: [vmhba]} of the devices that are reached through adapters."""
    with session.doing("read the devices"):
        seen = scsi.Devices(session, host, "luns", "faces")
    devices = {lun.key: lun.canonicalName for lun in seen.luns}
    adapters: dict[str, list[str]] = {}
    for face in seen.faces:
        luns = [entry.scsiLun for target in face.target or [] for entry in target.lun or []]
        for name in {devices[lun] for lun in luns if lun in devices} - {None}:
            adapters.setdefault(name, []).append(face.key.rpartition("-")[2])
    return {name: sorted(faces) for name, faces in adapters.items()}


def _disks(vim: Any, hardware: Any) -> dict[str, Any]:
    """{'scsi0:1': uuid} of a machine's disks, named as their counters are."""
    families = (
        (vim.vm.device.VirtualSCSIController, "scsi"),
        (vim.vm.device.VirtualIDEController, "ide"),
        (vim.vm.device.VirtualAHCIController, "sata"),
        (vim.vm.device.VirtualNVMEController, "nvme"),
    )
    buses = {
        device.key: f"{family}{device.busNumber}"
        for device in hardware
        for kind, family in families
        if isinstance(device, kind)
    }
    return {
        f"{buses[device.controllerKey]}:{device.unitNumber}": getattr(device.backing, "uuid", None)
        for device in hardware
        if isinstance(device, vim.vm.device.VirtualDisk) and device.controllerKey in buses
    }


# ---------------------------------------------------------------- samples, pure


def merge(older: Samples | None, newer: Samples) -> Samples:
    """Samples that were read twice taken together; what is in both is the newer's."""
    if not older:
        return newer
    machines = {
        name: _merged(older["machines"].get(name), newer["machines"].get(name))
        for name in {**older["machines"], **newer["machines"]}
    }
    names = {key: {**older["names"][key], **newer["names"][key]} for key in newer["names"]}
    return {
        **newer,
        "names": names,
        "host_samples": _merged(older["host_samples"], newer["host_samples"]),
        "machines": machines,
    }


def _merged(older: Table | None, newer: Table | None) -> Table:
    if not older or not newer:
        return newer or older or {}
    columns = [
        list(column)
        for column in dict.fromkeys(tuple(column) for table in (older, newer) for column in table["columns"])
    ]
    rows = {}
    for table in (older, newer):
        for row in table["rows"]:
            values = {tuple(column): value for column, value in zip(table["columns"], row[2:])}
            rows[row[0]] = [row[0], row[1], *(values.get(tuple(column)) for column in columns)]
    return {"columns": columns, "rows": [rows[end_s] for end_s in sorted(rows)]}


def overlap_s(row: list[Any], started_s: float, finished_s: float) -> float:
    return float(min(row[0], finished_s) - max(row[0] - row[1], started_s))


# ---------------------------------------------------------------- figures, pure


def figures(samples: Samples, started_s: float, finished_s: float) -> dict[str, Any]:
    """The figures of exactly this time of the host's clock; each sample counts with the seconds that it has in common with it.

    {interval_s, samples, partial_samples, cpu: {used_mhz, host_busy_percent, cores, mhz, vm_mhz: {machine: MHz}}, devices, adapters, datastores,
    virtual_disks}, the last four {instance: {iops, …, below_resolution: [key]}}. Latencies are means of commands. Counters of whole milliseconds say 0
    of a value below one: a mean that is less is left out and named in below_resolution. A series with a gap in this time is left out, too.
    Failure 'interval_too_short' when it contains no whole sample, 'not_observed' when the samples do not cover it.
    """
    sample_s, rows = samples["sample_s"], samples["host_samples"]["rows"]
    gap_s = _gap_s(rows, started_s, finished_s)
    if gap_s:
        raise Failure(
            "not_observed",
            f"The host has no samples of {gap_s:.0f} s of the measured {finished_s - started_s:.0f} s.",
            "It keeps them for an hour: read them before, see docs/counters.md.",
        )
    whole = sum(1 for row in rows if overlap_s(row, started_s, finished_s) >= row[1])
    if not whole:
        raise Failure(
            "interval_too_short",
            f"In the measured {finished_s - started_s:.1f} s there is no complete sample of {sample_s} s.",
            f"Measure for at least {2 * sample_s} s.",
        )
    measured: dict[str, Any] = {
        "interval_s": round(finished_s - started_s, 3),
        "samples": whole,
        "partial_samples": sum(1 for row in rows if 0 < overlap_s(row, started_s, finished_s) < row[1]),
    }
    columns = _columns(samples["host_samples"], started_s, finished_s)
    hardware = samples["hardware"]
    busy = _mean(columns.get((_USAGE, "")))
    mhz = {
        name: _mean(_columns(table, started_s, finished_s).get((_MHZ, "")))
        for name, table in samples["machines"].items()
        if not _gap_s(table["rows"], started_s, finished_s)
    }
    measured["cpu"] = {
        key: value
        for key, value in (
            ("used_mhz", _mean(columns.get((_MHZ, "")))),
            ("host_busy_percent", None if busy is None else busy * _USAGE_PERCENT),
            ("cores", hardware["cores"]),
            ("mhz", hardware["mhz"]),
            ("vm_mhz", {name: value for name, value in mhz.items() if value is not None} or None),
        )
        if value is not None
    }
    for section, by_instance in _sections(_HOST, columns).items():
        names = samples["names"]["datastores"] if section == "datastores" else {}
        measured[section] = {names.get(instance, instance): values for instance, values in by_instance.items()}
    for name, table in samples["machines"].items():
        if not _gap_s(table["rows"], started_s, finished_s):
            disks = _sections(_MACHINE, _columns(table, started_s, finished_s)).get("virtual_disks", {})
            measured.setdefault("virtual_disks", {}).update(
                {f"{name}:{instance}": values for instance, values in disks.items()}
            )
    return measured


def _gap_s(rows: list[Any], started_s: float, finished_s: float) -> float:
    """How much of this time no sample is of; 0 when it is less than time stamps resolve."""
    gap_s = finished_s - started_s - sum(max(0, overlap_s(row, started_s, finished_s)) for row in rows)
    return gap_s if gap_s > TIMESTAMP_S else 0


def _columns(table: Table, started_s: float, finished_s: float) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """{(counter, instance): [(value, seconds)]} of the samples that have to do with this time."""
    rows = [(row, overlap_s(row, started_s, finished_s)) for row in table["rows"]]
    return {
        (counter, instance): [(row[2 + position], seconds) for row, seconds in rows if seconds > 0]
        for position, (counter, instance) in enumerate(table["columns"])
    }


def _sections(sections: dict[str, Any], columns: dict[tuple[str, str], list[tuple[float, float]]]) -> dict[str, Any]:
    by_section = {}
    for section, (group, rates, latencies) in sections.items():
        instances = dict.fromkeys(instance for counter, instance in columns if counter.split(".", 1)[0] == group)
        by_instance = {}
        for instance in instances:
            mine = {
                counter.split(".", 1)[1]: pairs
                for (counter, of), pairs in columns.items()
                if of == instance and counter.split(".", 1)[0] == group
            }
            values = {
                key: value * factor
                for counter, (key, factor) in rates.items()
                if (value := _mean(mine.get(counter))) is not None
            }
            by_instance[instance] = {
                **values,
                **_latencies(mine, latencies),
                **{key: count for counter, key in _TROUBLE.items() if (count := _sum(mine.get(counter))) is not None},
            }
        by_instance = {instance: values for instance, values in by_instance.items() if values}
        if by_instance:
            by_section[section] = by_instance
    return by_section


def _latencies(mine: dict[str, Any], latencies: tuple[Any, ...]) -> dict[str, object]:
    latency, below = {}, []
    for counter, key, unit_ns, weight in latencies:
        if key in latency or counter not in mine or weight not in mine:
            continue
        commands = [None if count is None else count * seconds for count, seconds in mine[weight]]
        mean = _mean([(value, count) for (value, _seconds), count in zip(mine[counter], commands)])
        if mean is None:
            continue
        if mean < 1:
            below.append(key)
        else:
            latency[key] = mean * unit_ns
    below = [key for key in dict.fromkeys(below) if key not in latency]
    return {**latency, **({"below_resolution": below} if below else {})}


def _mean(pairs: list[Any] | None) -> float | None:
    """Weighted; None when there is nothing, when something is missing, or when there was nothing to weigh by."""
    if not pairs or any(value is None or weight is None for value, weight in pairs):
        return None
    whole = sum(weight for _value, weight in pairs)
    return sum(value * weight for value, weight in pairs) / whole if whole else None


def _sum(pairs: list[Any] | None) -> int | None:
    """Counts whole samples, because it is unknown where in a sample it was; the least that it can be where some are missing, None when that is nothing."""
    known = [value for value, _seconds in pairs or () if value is not None]
    total, missing = sum(known), len(known) < len(pairs or ())
    return None if not known or (missing and not total) else total
