# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``nfs_export``: datastores of targets that others have over NFS."""

from __future__ import annotations

from typing import ClassVar

from ....module_utils.core.layers import Layer
from ..nouns import Lab
from ..shape import Problem, did_you_mean, shown
from ..stage import Judge, Needs, Stage
from ..testbed import Context, Host, Store, Testbed, addresses_of, is_address, layer_of, mappings

NFS_VERSION = "4.2"
# The commands of a server.
SERVER = ("exportfs", "rpc.nfsd", "rpc.mountd")
BECAUSE = "the datastores with nfs in testbed.datastores"


class NfsExport(Stage):
    name = "nfs_export"
    floor = 3
    packages: ClassVar = {
        **dict.fromkeys(SERVER, ("nfs-kernel-server", "nfs-utils")),
        "rpcbind": ("rpcbind", "rpcbind"),
    }
    variables = (
        "nfs_export_addresses",
        "nfs_export_exports",
        "nfs_export_versions",
    )

    def describe(self, context: Context) -> None:
        _over_nfs(context)

    def derive(self, context: Context) -> None:
        for name in context.testbed.targets:
            _exports(context, context.testbed.hosts[name])

    def runs_on(self, context: Context, host: Host) -> bool:
        # The state of a build shows at its clients: an export has no path that could be measured.
        published = context.lab.get("published", {}).values()
        over_nfs = any(layer.get("provider") == "nfs" for layers in published for layer in layers)
        linux = host.name in context.testbed.targets and host.platform == "linux"
        return linux and bool(host.variables["nfs_export_exports"] or over_nfs)

    def stands_on(self, testbed: Testbed, host: Host) -> list[str]:
        return [store.over.target for store in testbed.stores if store.over and host.name in store.hosts]

    def layers(self, host: Host) -> list[Layer]:
        layers = []
        for export in mappings(host.variables.get("nfs_export_exports")):
            clients = ", ".join(str(client) for client in export.get("clients") or [])
            what = f"over NFS to {clients}"
            layers.append(layer_of("target", export.get("name"), host, export.get("layer"), "data", what))
        return layers

    def checks(self) -> dict[str, Judge]:
        return {"datastores": _unfit_stores}

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        return [*SERVER, *(["rpcbind"] if "3" in host.variables["nfs_export_versions"] else [])], ["nfsd"]


def _over_nfs(context: Context) -> None:
    """The datastores that are others over NFS, once these are known."""
    testbed = context.testbed
    bases = [store for store in testbed.stores if store.disk and store.disk.target in store.hosts]
    for index, entry in enumerate(context.description.get("datastores", [])):
        if not entry.get("nfs"):
            continue
        variable = f"testbed.datastores[{index}]"
        base = next((store for store in bases if entry["nfs"] in (store.name, store.label)), None)
        if base is None:
            names = [store.name for store in bases]
            context.problem(
                f"{variable}.nfs",
                entry["nfs"],
                "which is not a datastore of a target",
                did_you_mean(entry["nfs"], names),
            )
            continue
        hosts = context.resolve(
            f"{variable}.hosts",
            entry.get("hosts", testbed.initiators),
            testbed.initiators,
            "host of this inventory",
        )
        name = entry.get("name") or f"{base.name}-nfs"
        testbed.stores.append(Store(name, name, entry, index, None, hosts, base))


def _exports(context: Context, host: Host) -> None:
    """The exports of a target that clients have over NFS."""
    stores = [store for store in context.testbed.stores if store.over and store.over.target == host.name]
    exports = [
        {
            "name": store.label,
            "layer": f"datastore-{store.over.label}",
            "clients": [
                address for name in store.hosts for address, _port in addresses_of(context.testbed.hosts[name].own)
            ],
        }
        for store in stores
    ]
    versions = sorted({store.entry.get("nfs_version", NFS_VERSION) for store in stores}) or [NFS_VERSION]
    context.derive(host, "nfs_export_exports", exports, f"{BECAUSE}, and testbed_address of their hosts")
    context.derive(host, "nfs_export_versions", versions, BECAUSE)
    context.derive(
        host,
        "nfs_export_addresses",
        [address for address, _port in addresses_of(host.own)],
        f"testbed_address of {host.name}",
    )


def _unfit(testbed: Testbed, store: Store, base: Store, variable: str) -> list[Problem]:
    """A datastore that is another one (base) over NFS."""
    problems = []
    for key in ("disk", "type", "benchmark_file", "benchmark_files", "version", "compatibility", "server", "path"):
        if key in store.entry:
            remedy = f"leave it out: it is set for the datastore {base.name}"
            problems.append(Problem(f"{variable}.{key}", shown(store.entry[key]), "is set beside nfs", remedy))
    if "benchmark_file" not in base.entry:
        remedy = "write the size of the file on it that clients measure, such as 2GiB"
        problems.append(
            Problem(
                f"testbed.datastores[{base.index}].benchmark_file",
                None,
                f"is not set, but {store.name} is measured on it",
                remedy,
            )
        )
    for name in (base.target, *store.hosts):
        if testbed.hosts[name].platform != "linux":
            platform = {"esxi": "ESXi", "windows": "Windows"}[testbed.hosts[name].platform]
            remedy = "name Linux hosts" if name in store.hosts else "use a disk of a Linux target"
            problems.append(
                Problem(f"{variable}.nfs", shown(store.entry["nfs"]), f"but {name} runs {platform}", remedy)
            )
            continue
        for address in [address for address, _port in addresses_of(testbed.hosts[name].own)] or [""]:
            if not is_address(address):
                remedy = "write its address in the storage network: NFS is exported from address to address"
                problems.append(
                    Problem(
                        f"testbed_address of {name}",
                        shown(address) if address else None,
                        "" if address else "is not set",
                        remedy,
                    )
                )
    if not store.hosts:
        remedy = "add a host to hypervisors or clients"
        problems.append(Problem(f"{variable}.nfs", shown(store.entry["nfs"]), "which no host mounts over NFS", remedy))
    others = [other for other in testbed.stores if other.over is base]
    if others[0] is not store:
        remedy = "write it once, with all its hosts"
        problems.append(Problem(f"{variable}.nfs", shown(store.entry["nfs"]), f"as {others[0].name} has it", remedy))
    return problems


def _unfit_stores(_lab: Lab, testbed: Testbed) -> list[Problem]:
    over_nfs = [(store, store.over) for store in testbed.stores if store.over]
    alone = [
        Problem(
            f"testbed.datastores[{index}].nconnect",
            shown(entry["nconnect"]),
            "is set without nfs",
            "leave it out, or name the datastore that this one is over NFS",
        )
        for index, entry in enumerate(testbed.description.get("datastores", []))
        if "nconnect" in entry and not entry.get("nfs")
    ]
    return alone + [
        problem
        for store, base in over_nfs
        for problem in _unfit(testbed, store, base, f"testbed.datastores[{store.index}]")
    ]
