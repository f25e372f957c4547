# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of an ESXi host's counters for one point, and their additions to its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import layers
from ..core.failure import Failure, Fault
from ..core.names import plain_naa
from ..core.times import unix_s
from ..run import observer
from .counters import overlap_s
from .states import Samples, Table

PATHS_FLAG = "paths_degraded"
# The note of a layer's detail about the host under that name is a flag of what is measured over it.
LAYER_FLAGS = ("restart_pending", PATHS_FLAG)


def cut(samples: Samples, started_s: float, finished_s: float, path: dict[str, Any]) -> Samples:
    """The samples around a time of the host's clock, of processors and of what an I/O passes on its way, see ``behind``."""
    device, store = _device(samples, path), _store(samples, path)
    instances = {"", device, store, *samples["names"]["adapters"].get(device or "", [])}
    disk = _disk(samples, path)
    machines = {
        name: _cut(table, started_s, finished_s, {"", disk[1]} if disk and disk[0] == name else {""})
        for name, table in samples["machines"].items()
    }
    whole = samples.copy()
    whole.pop("settings", None)
    return {
        **whole,
        "host_samples": _cut(samples["host_samples"], started_s, finished_s, instances),
        "machines": {name: table for name, table in machines.items() if table["rows"]},
        "names": {
            "datastores": {key: name for key, name in samples["names"]["datastores"].items() if key == store},
            "adapters": {key: name for key, name in samples["names"]["adapters"].items() if key == device},
            "disks": {disk[0]: {disk[1]: samples["names"]["disks"][disk[0]][disk[1]]}} if disk else {},
        },
    }


def _cut(table: Table, started_s: float, finished_s: float, instances: set[Any]) -> Table:
    kept = [position for position, (_counter, instance) in enumerate(table["columns"]) if instance in instances]
    return {
        "columns": [table["columns"][position] for position in kept],
        "rows": [
            [*row[:2], *(row[2 + position] for position in kept)]
            for row in table["rows"]
            if overlap_s(row, started_s, finished_s) > 0
        ],
    }


def interval(result: dict[str, Any]) -> tuple[Any, ...] | None:
    """(started_s, finished_s) of time that certainly was measured, by the clock of the result's host; None where none is certain.

    Where that host counted nothing itself (Windows), only the start and the end of the engine are known: the latest beginning and the earliest end. Of
    points that shared a run of the engine nothing is known.
    """
    if "clients" in result or "interval_s" in result.get("counters", {}) or "steady_state" in result:
        return observer.measured_interval(result)
    if "started_utc" not in result or "finished_utc" not in result:
        return None
    latest_s = unix_s(result["finished_utc"]) - result["runtime_s"]
    earliest_s = unix_s(result["started_utc"]) + result["workload"].get("ramp_s", 0) + result["runtime_s"]
    return (latest_s, earliest_s) if latest_s < earliest_s else None


def layer_flags(known: dict[str, Any], name: str, host: str) -> list[str]:
    """The notes that the layers of this host below a layer made of it when they were built, as flags of what is measured there. known: layers by name."""
    beneath = [layer for layer in layers.down(known, known.get(name)) if layer["host"] == host]
    return [flag for flag in LAYER_FLAGS if any((layer.get("detail") or {}).get(flag) for layer in beneath)]


def paths_flags(samples: Samples, path: dict[str, Any]) -> list[str]:
    """The flag of a device that has fewer paths than it had, as the host said when its samples were taken."""
    lun = (samples.get("settings") or {}).get("luns", {}).get(_device(samples, path)) or {}
    return [PATHS_FLAG] if lun.get("degraded") else []


def behind(known: dict[str, Any], layer: str, host: str) -> dict[str, Any] | None:
    """The parts of an ESXi host that the I/O of a layer passes: {naa, datastore, serials, machine}; None when it does not come by. known: layers by name."""
    chain = layers.chain(known, layer)
    own = [member["identity"] for member in chain if member["host"] == host]
    if not own:
        return None
    first = {key: next((identity[key] for identity in own if identity.get(key)), None) for key in ("naa", "datastore")}
    return {
        **first,
        "serials": {_plain(chain[0]["identity"][key]) for key in ("serial", "uuid") if chain[0]["identity"].get(key)},
        # A mapped LUN shows the guest a serial that no virtual disk has.
        "machine": (chain[0].get("detail") or {}).get("machine"),
    }


def _plain(serial: object) -> str:
    return str(serial).replace("-", "").replace(" ", "").lower()


def _device(samples: Samples, path: dict[str, Any]) -> str | None:
    names = {instance for _counter, instance in samples["host_samples"]["columns"]} | set(samples["names"]["adapters"])
    return next(
        (name for name in sorted(names) if path["naa"] and plain_naa(name).lower() == path["naa"].lower()), None
    )


def _store(samples: Samples, path: dict[str, Any]) -> str | None:
    return next(
        (instance for instance, name in samples["names"]["datastores"].items() if name == path["datastore"]), None
    )


def _disk(samples: Samples, path: dict[str, Any]) -> tuple[Any, ...] | None:
    """(machine, 'scsi0:1') of the virtual disk that the layer is."""
    return next(
        (
            (machine, place)
            for machine, disks in samples["names"]["disks"].items()
            for place, uuid in disks.items()
            if uuid and _plain(uuid) in path["serials"]
        ),
        None,
    )


def addition(
    result: dict[str, Any],
    host: str,
    counted: dict[str, Any],
    samples: Samples,
    raw: dict[str, object],
    clock: dict[str, object],
    path: dict[str, object],
) -> dict[str, Any]:
    """counters.esxi and counters.hosts.<host> as an addition to the result, and failures where commands did not come back; see docs/results.md.

    reported: the figures of samples, which are cut to the point and kept as the file that raw ({file, sha256}) names.
    clock: {clock_offset_s, clock_uncertain_s} between the host's clock and that of the result's host.
    """
    device, store, disk = _device(samples, path), _store(samples, path), _disk(samples, path)
    of_device = dict(counted.get("devices", {}).get(device, {}))
    simulated = {"simulated": True} if samples["simulated"] else {}
    esxi = {
        "host": host,
        "interval_s": counted["interval_s"],
        "samples": counted["samples"],
        "partial_samples": counted["partial_samples"],
        "raw": raw,
        **simulated,
        **({"device": device, "device_iops": of_device.pop("iops")} if "iops" in of_device else {}),
        **of_device,
    }
    for key, section, name in (
        ("datastore", "datastores", samples["names"]["datastores"].get(store or "")),
        ("virtual_disk", "virtual_disks", ":".join(disk) if disk else None),
    ):
        if name in counted.get(section, {}):
            esxi[key] = {"name": name, **counted[section][name]}
    adapters = {
        name: values
        for name, values in counted.get("adapters", {}).items()
        if name in samples["names"]["adapters"].get(device or "", [])
    }
    if adapters:
        esxi["adapters"] = adapters
    cpu, iops = dict(counted["cpu"]), result["total"].get("iops")
    if iops and "used_mhz" in cpu:
        cpu["mhz_per_iops"] = float(f"{cpu['used_mhz'] / iops:.4g}")
    # VMware's CPU cost: of the guest alone, whatever else runs on the host.
    used = cpu.get("vm_mhz", {}).get(path.get("machine") or (disk[0] if disk else None))
    if iops and used:
        cpu["vm_mhz_per_iops"] = float(f"{used / iops:.4g}")
    hosts = {host: {"interval_s": counted["interval_s"], **clock, **simulated, "cpu": cpu}}
    failures = _failures(host, device, esxi)
    return {"counters": {"hosts": hosts, "esxi": esxi}, **({"failures": failures} if failures else {})}


def _failures(host: str, device: str | None, esxi: Mapping[str, object]) -> list[Fault]:
    """Why this is not a measurement of the device: a command that was given up, or a bus that was reset, holds all others up for seconds."""
    failures = []
    if count := esxi.get("commands_aborted"):
        commands = "1 command" if count == 1 else f"{count} commands"
        message = f"{host} aborted {commands} to {device} while this point was measured."
        failures.append(Failure("commands_aborted", message).as_fault())
    if count := esxi.get("bus_resets"):
        times = "once" if count == 1 else f"{count} times"
        message = f"{host} reset the bus of {device} {times} while this point was measured."
        failures.append(Failure("bus_resets", message).as_fault())
    return failures


def environment(samples: Samples, known: dict[str, Any] | None = None, host: str = "") -> dict[str, object]:
    """The host's fingerprint for hosts/<host>.json, its settings (fingerprint.py) among it.

    known: layers by name; the LUNs of layers on this host are identified by them, as a LUN's own name is a different one each time it is made.
    """
    hardware, settings = samples["hardware"], dict(samples.get("settings") or {})
    luns = {plain_naa(name).lower(): lun for name, lun in settings.pop("luns", {}).items()}
    devices = {
        name: luns[naa]
        for name, layer in (known or {}).items()
        if layer.get("host") == host and (naa := str((layer.get("identity") or {}).get("naa")).lower()) in luns
    }
    return {
        **settings,
        **({"devices": devices} if devices else {}),
        "distribution": samples["product"],
        "cpu": {key: hardware[key] for key in ("model", "cores", "mhz")},
        "memory_bytes": hardware["memory_bytes"],
        "virtualisation": {
            "guest": str(hardware["vendor"]).startswith("VMware"),
            "vendor": hardware["vendor"],
            "product": hardware["product"],
        },
        **({"simulated": f"{samples['product']}; its counters are made up"} if samples["simulated"] else {}),
    }
