# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``datastore``: file systems on LUNs and disks, and NFS mounts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.layers import Layer
from ....module_utils.linux.clients import datastore as datastore_module
from ....module_utils.linux.clients import datastore_plan
from ....module_utils.linux.params import DatastoresDatastoreOption
from ..changes import Change, Changes, each, entries_kept, word_of
from ..description import size_text
from ..device import FORMATTED, Device, given_of
from ..finding import line
from ..identifiers import CASELESS, same_case, shared
from ..nouns import Finding, Kept, Lab, Probe
from ..shape import Problem, did_you_mean, repeated, shown
from ..stage import Find, Judge, LookAhead, Needs, Stage
from ..testbed import OVERRIDDEN, Context, Disk, Host, Store, Testbed, addresses_of, is_exported, layer_of, mappings
from . import existing_storage
from .nfs_export import NFS_VERSION

CLUSTER_FILE_SYSTEMS = ("vmfs", "nfs", "rdm")
# Metadata and journal of a file system, at least.
FILE_SYSTEM_OVERHEAD_PERCENT = 5
FILE_SYSTEMS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "nfs": "mount.nfs"}
# ESXi makes no VMFS on less than 1.3 GB.
VMFS_MIB = 1331
# The type of a datastore of an ESXi host that was there before, for its role.
THERE = "existing"
ONLY_READ = "datastore of the host, which was there before, only read"
WITH_GUESTS = "datastore of the host, which was there before, with disks of guests"
PROVIDERS = {"linux": "filesystem", "esxi": "esxi", "windows": "ntfs"}


class Datastore(Stage):
    name = "datastore"
    floor = 4
    describes = "datastore_datastores"
    kept = ("datastore_datastores",)
    packages: ClassVar = {
        "mkfs.ext4": ("e2fsprogs", "e2fsprogs"),
        "mkfs.xfs": ("xfsprogs", "xfsprogs"),
        "mount.nfs": ("nfs-common", "nfs-utils"),
    }
    variables = (
        "datastore_datastores",
        "datastore_esxi_hosts",
        "datastore_layer_suffix",
        "datastore_provider",
    )

    def describe(self, context: Context) -> None:
        _stores(context)
        context.testbed.stores += existing_storage.datastores(context.testbed)

    def derive(self, context: Context) -> None:
        for name in context.testbed.targets + context.testbed.initiators:
            _datastores(context, context.testbed.hosts[name])

    def runs_on(self, context: Context, host: Host) -> bool:
        # A target has datastores only where that is described, or was when it was built.
        if host.name in context.testbed.initiators and not host.only_reads:
            return True
        built = any(layer["kind"] == "datastore" for layer in context.published(host))
        members = context.testbed.targets + context.testbed.initiators
        return host.name in members and bool(host.variables["datastore_datastores"] or built)

    def layers(self, host: Host) -> list[Layer]:
        suffix, layers = host.variables.get("datastore_layer_suffix", ""), []
        for store in mappings(host.variables.get("datastore_datastores")):
            what = store.get("filesystem") or store.get("type") or ("VMFS" if host.platform == "esxi" else "NTFS")
            where = f" at {store['mount_point']}" if store.get("mount_point") else ""
            name = f"{store.get('name')}{suffix}"
            purpose = "scratch"
            if what == THERE:
                purpose, what = ("data", WITH_GUESTS) if store.get("access") == "write" else ("read", ONLY_READ)
            layers.append(layer_of("datastore", name, host, store.get("layer"), purpose, f"{what}{where}"))
        return layers

    def check_disk(self, testbed: Testbed, disk: Disk) -> list[Problem]:
        carrying = [store.name for store in testbed.stores if store.disk is disk]
        if not carrying or disk.purpose != "scratch":
            return []
        why = f"but the datastore {carrying[0]} is on it, which a raw benchmark would destroy"
        remedy = "remove purpose, or put the datastore on another disk"
        return [Problem(f"testbed.disks[{disk.index}].purpose", "'scratch'", why, remedy)]

    def checks(self) -> dict[str, Judge]:
        return {
            "names": _store_names,
            "datastores": _unfit_stores,
            "mount points": _doubled_mount_point,
            "labels": _doubled_label,
        }

    def changes(self) -> dict[str, Changes]:
        return {"datastores": _stores_kept}

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _named(testbed, host)

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        kinds = [store.get("filesystem") for store in mappings(host.variables["datastore_datastores"])]
        return [FILE_SYSTEMS[kind] for kind in kinds if kind in FILE_SYSTEMS], []

    def mount_points(self, testbed: Testbed, host: Host) -> list[tuple[str, str]]:
        return _mount_points(testbed, host)

    def findings(self) -> dict[str, Find]:
        return {"esxi": _room_for_vmfs}

    def looks_ahead(self) -> list[LookAhead]:
        return [("datastore_datastores", datastore_module.SPEC["datastores"], _check_stores)]


def _stores(context: Context) -> None:
    testbed = context.testbed
    for index, entry in enumerate(context.description.get("datastores", [])):
        variable = f"testbed.datastores[{index}]"
        if entry.get("nfs"):
            continue
        if entry.get("type") == "nfs":
            hosts = context.resolve(
                f"{variable}.hosts",
                entry.get("hosts", testbed.initiators),
                testbed.initiators,
                "host of this inventory",
            )
            name = entry.get("name") or entry["type"]
            testbed.stores.append(Store(name, name, entry, index, None, hosts))
            continue
        on = entry.get("disk")
        disks = [disk for disk in testbed.disks if on in (disk.name, disk.entry["name"])]
        if not disks:
            context.problem(
                f"{variable}.disk",
                on,
                "which is not a disk" if on else "is not set",
                did_you_mean(on or "", [disk.name for disk in testbed.disks]),
            )
        for disk in disks:
            local = is_exported(context.testbed, entry) or not testbed.initiators
            hosts = disk.hosts or ([disk.target] if local else [])
            if "hosts" in entry:
                hosts = context.resolve(
                    f"{variable}.hosts",
                    entry["hosts"],
                    [*disk.hosts, disk.target],
                    f"host that has the disk {disk.name}",
                )
            name = entry.get("name") or disk.name
            if entry.get("name") and len(disks) > 1:
                name = f"{name}-{disk.target}"
            esxi = any(testbed.hosts[host].platform == "esxi" for host in hosts)
            label = f"{testbed.testbed_id}-{name}" if esxi and not entry.get("name") else name
            testbed.stores.append(Store(name, label, entry, index, disk, hosts))


def _datastores(context: Context, host: Host) -> None:
    suffix = host.variables["iscsi_initiator_layer_suffix"]
    context.derive(host, "datastore_layer_suffix", suffix, "iscsi_initiator_layer_suffix")
    stores = [store for store in context.testbed.stores if host.name in store.hosts]
    context.derive(
        host,
        "datastore_provider",
        PROVIDERS[host.platform],
        f"{host.name} runs {host.platform.capitalize()}",
    )
    described = [_store(context, host, store, place) for place, store in enumerate(stores)]
    context.derive(host, "datastore_datastores", described, "testbed.datastores")
    context.derive(
        host,
        "datastore_esxi_hosts",
        _esxi_names(context) if host.platform == "esxi" else [],
        "the ESXi hosts of the testbed",
    )


def _store(context: Context, host: Host, store: Store, place: int) -> dict[str, Any]:
    """A datastore for the role."""
    if store.over:
        return _store_over_nfs(context, store, store.over)
    if store.there:
        below = existing_storage.below_datastore(context.testbed, store, host.name)
        access = {"access": "write"} if existing_storage.written(store.entry) else {}
        return {"name": store.label, "type": THERE, **access, **({"layer": below} if below else {})}
    return _STORES[host.platform](_below(store, host), store, place)


def _esxi_names(context: Context) -> list[str]:
    """The names by which the testbed's ESXi hosts are reached: they alone may mount its datastores."""
    hosts = [host for host in context.testbed.hosts.values() if host.platform == "esxi"]
    return sorted({host.own["testbed_esxi"]["host"] for host in hosts if host.own["testbed_esxi"].get("host")})


def _store_over_nfs(context: Context, store: Store, base: Store) -> dict[str, Any]:
    """The benchmark files are those that the target has made. base: the datastore that this one is over NFS."""
    target, below, entry = context.testbed.hosts[base.target], base.entry, store.entry
    address = next((address for address, _port in addresses_of(target.own)), None)
    described = _linux_store(f"target-{store.label}", store, 0)
    return {
        **described,
        "filesystem": "nfs",
        "server": address,
        "export": below.get("mount_point", f"/srv/storlab/{base.label}"),
        "nfs_version": entry.get("nfs_version", NFS_VERSION),
        **({"nconnect": entry["nconnect"]} if "nconnect" in entry else {}),
        "benchmark_file_mib": below.get("benchmark_file", 0),
        "benchmark_files": below.get("benchmark_files", 1),
    }


def _below(store: Store, host: Host) -> str | None:
    """The layer below a datastore."""
    if store.disk is None:
        return None
    if store.disk.target == host.name:
        return f"backing-{store.disk.name}"
    return f"initiator-{store.disk.name}{host.variables['iscsi_initiator_layer_suffix']}"


def _linux_store(layer: str | None, store: Store, _place: int) -> dict[str, Any]:
    entry = store.entry
    return {
        "name": store.label,
        "layer": layer,
        "filesystem": entry.get("type", "ext4"),
        "mount_point": entry.get("mount_point", f"/srv/storlab/{store.label}"),
        **({"mount_options": entry["mount_options"]} if "mount_options" in entry else {}),
        **({"benchmark_file_mib": entry["benchmark_file"]} if "benchmark_file" in entry else {}),
        **({"benchmark_files": entry["benchmark_files"]} if "benchmark_files" in entry else {}),
    }


def volume_of(context: Context, host: Host, path: str) -> tuple[str, Store | None] | None:
    """The layer of the Windows host's datastore that a file is on, with its description where the inventory does not set the datastores itself."""
    stores: list[tuple[Any, Any, Store | None]] = [
        (store.get("mount_point"), store.get("name"), None) for store in mappings(host.own.get("datastore_datastores"))
    ]
    if "datastore_datastores" not in host.own:
        mine = [store for store in context.testbed.stores if host.name in store.hosts]
        stores = [(_drive(store, place), store.label, store) for place, store in enumerate(mine)]
    for mount_point, name, described in stores:
        if str(mount_point)[:2].upper() == path[:2].upper():
            return f"datastore-{name}{host.variables.get('datastore_layer_suffix') or ''}", described
    return None


def _drive(store: Store, place: int) -> str:
    return str(store.entry.get("mount_point", f"{chr(ord('T') + place % 7)}:"))


def _windows_store(layer: str | None, store: Store, place: int) -> dict[str, str]:
    entry = store.entry
    return {
        "name": store.label,
        "layer": layer,
        "mount_point": _drive(store, place),
        **({"benchmark_file_mib": entry["benchmark_file"]} if "benchmark_file" in entry else {}),
    }


def _esxi_store(layer: str | None, store: Store, _place: int) -> dict[str, Any]:
    entry, kind = store.entry, store.entry.get("type", "vmfs")
    if kind == "nfs":
        return {"name": store.label, "type": "nfs", "server": entry.get("server"), "path": entry.get("path")}
    if kind == "rdm":
        return {
            "name": store.label,
            "type": "rdm",
            "layer": layer,
            "compatibility": entry.get("compatibility", "physical"),
        }
    return {"name": store.label, "layer": layer, "version": entry.get("version", 6)}


_STORES = {"linux": _linux_store, "windows": _windows_store, "esxi": _esxi_store}


def _store_names(_lab: Lab, testbed: Testbed) -> list[Problem]:
    """A datastore's name is in the UUID of its file system, so it is one in the whole testbed."""
    doubled = set(repeated(disk.name for disk in testbed.disks))
    # What lies on a disk that is there twice, is there twice for that alone.
    stores = [store for store in testbed.stores if not (store.disk and store.disk.name in doubled)]
    problems = []
    for name in repeated(store.label for store in stores):
        hosts = repeated(host for store in stores if store.label == name for host in store.hosts)
        where = f" on {hosts[0]}" if hosts else ""
        remedy = "give each a name of its own"
        problems.append(Problem("testbed.datastores", f"a list with {shown(name)} twice{where}", "", remedy))
    return problems


def _unfit_stores(_lab: Lab, testbed: Testbed) -> list[Problem]:
    problems = []
    for store in testbed.stores:
        variable = store.variable
        if store.over or store.there:
            continue
        kinds = {testbed.hosts[name].platform for name in store.hosts}
        kind = store.entry.get("type") or {"linux": "ext4", "windows": "ntfs", "esxi": "vmfs"}.get(
            next(iter(kinds), "linux")
        )
        if len(store.hosts) > 1 and kind not in CLUSTER_FILE_SYSTEMS:
            problems.append(
                Problem(
                    f"{variable}.hosts",
                    ", ".join(store.hosts),
                    f"but {kind} is not a cluster file system and would be destroyed",
                    "name one host, or give each a disk of its own",
                )
            )
        fits = {"linux": ("ext4", "xfs"), "windows": ("ntfs",), "esxi": ("vmfs", "rdm", "nfs")}
        for name in store.hosts:
            platform = testbed.hosts[name].platform
            if kind not in fits[platform]:
                problems.append(
                    Problem(
                        f"{variable}.type",
                        shown(kind),
                        f"which {name} cannot make",
                        f"use {' or '.join(fits[platform])}",
                    )
                )
        if "benchmark_files" in store.entry and kinds - {"linux"}:
            problems.append(
                Problem(
                    f"{variable}.benchmark_files",
                    shown(store.entry["benchmark_files"]),
                    "but only Linux hosts measure a file per worker",
                    "leave it out",
                )
            )
        if kind == "nfs":
            problems += [
                Problem(f"{variable}.{key}", None, "is not set", "name the NFS server and the path that it exports")
                for key in ("server", "path")
                if not store.entry.get(key)
            ]
        if not store.hosts and store.disk:
            problems.append(
                Problem(
                    f"{variable}.on",
                    shown(store.entry.get("disk")),
                    "a disk that no host logs in to",
                    "add a host to hypervisors or clients",
                )
            )
        problems += _room(testbed, store, variable)
    return problems


def _room(testbed: Testbed, store: Store, variable: str) -> list[Problem]:
    """What is to lie on the datastore fits on it."""
    size = store.disk.entry.get("size") if store.disk else None
    guests = [
        entry
        for entry in testbed.description.get("guests", [])
        if entry.get("datastore") in (store.name, store.label) and not (entry.get("esxi") or {}).get("disks")
    ]
    files = store.entry.get("benchmark_file", 0) * max(1, store.entry.get("benchmark_files", 1))
    wanted = files + sum(entry.get("disk_size", 0) for entry in guests)
    if (
        not store.disk
        or not size
        or store.entry.get("type") == "rdm"
        or wanted <= size * (100 - FILE_SYSTEM_OVERHEAD_PERCENT) // 100
    ):
        return []
    return [
        Problem(
            f"testbed.disks[{store.disk.index}].size",
            size_text(size),
            f"but {size_text(wanted)} are needed on the datastore {store.name}, whose file system needs some space too",
            "make the disk larger, or the files on it smaller",
        )
    ]


def _doubled_mount_point(_lab: Lab, _testbed: Testbed, host: Host) -> Iterator[Problem]:
    points = [
        (posixpath.normpath(same_case(host, store["mount_point"])), str(store.get("name")))
        for store in mappings(host.variables.get("datastore_datastores"))
        if store.get("mount_point")
    ]
    for point, names in shared(points):
        # Names that are there twice are a problem of their own.
        if len(set(names)) > 1:
            yield Problem(
                f"mount_point of the datastores {' and '.join(names)} on {host.name}",
                shown(point),
                "which only one can have",
                "set mount_point of one in testbed.datastores",
            )


def _doubled_label(_lab: Lab, testbed: Testbed, host: Host) -> Iterator[Problem]:
    if host.platform not in CASELESS:
        return
    labels = [(same_case(host, store.label), store.label) for store in testbed.stores if host.name in store.hosts]
    for _label, names in shared(labels):
        if len(set(names)) > 1:
            yield Problem(
                "testbed.datastores",
                f"a list with {' and '.join(names)}",
                f"which {host.name} does not distinguish",
                "give each a name that differs in more than capitals",
            )


def _stores_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    keys = ("layer", "filesystem", "type", "mount_point", "server", "path", "export", "version", "compatibility")
    return [
        change
        for host, was, now in each(before, after, "datastore_datastores")
        for change in entries_kept(
            word_of(testbed, host, "datastore_datastores", "testbed.datastores"), "datastore", was, now, keys, host
        )
    ]


def _named(_testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, store in enumerate(mappings(host.variables.get("datastore_datastores"))):
        if store.get("device"):
            what = f"{store.get('filesystem', 'a file system')} of the datastore {store.get('name')}"
            variable = f"datastore_datastores[{place}] of {host.name}"
            layer = f"datastore-{store.get('name')}"
            yield Device(host.name, variable, "device", given_of(store, "device"), FORMATTED, what, layer)


def _mount_points(testbed: Testbed, host: Host) -> list[tuple[str, str]]:
    """[(variable, path)] of the mount points of a host's datastores, by the words that set them."""
    points = []
    by_hand = host.because.get("datastore_datastores") == OVERRIDDEN
    for place, store in enumerate(mappings(host.variables.get("datastore_datastores"))):
        own = next((other for other in testbed.stores if other.label == store.get("name")), None)
        variable = f"testbed.datastores[{own.index}].mount_point" if own and not by_hand else ""
        if store.get("mount_point") and host.platform == "linux":
            variable = variable or f"datastore_datastores[{place}].mount_point of {host.name}"
            points.append((variable, str(store["mount_point"])))
    return points


def _room_for_vmfs(testbed: Testbed, host: Host, about: Probe) -> list[Finding]:
    lines = []
    simulated = bool(about.get("stand_in"))
    for store in testbed.stores:
        size = store.disk.entry.get("size") if store.disk else None
        if host.name in store.hosts and size and store.entry.get("type", "vmfs") == "vmfs":
            good = size >= VMFS_MIB or simulated
            text = f"{size} MiB" + (" (the simulation takes less than ESXi)" if simulated and size < VMFS_MIB else "")
            lines.append(
                line(
                    host.name,
                    f"room for VMFS on {store.disk.name}",
                    good,
                    text,
                    f"write size: {VMFS_MIB}MiB or more for the disk {store.disk.name} in testbed.disks",
                )
            )
    return lines


def _check_stores(_testbed: Testbed, _host: Host, stores: list[DatastoresDatastoreOption]) -> None:
    params: Any = {"datastores": stores, "layers": {}}
    datastore_plan.resolve(params)
