# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of exports over NFS: pure functions of the kernel's table and of what is wanted."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, cast

from ...core.failure import Failure, bad_value
from ...core.names import check_name
from ...core.steps import Step
from .. import mounts
from ..clients import nfs_mount
from ..params import NfsExportParams

VERSIONS = ("3", "4.2")
# Clients of an earlier start have no locks to claim back: what they mounted was a RAM disk that is gone.
GRACE_S = 10


def check_client(name: str, client: str) -> str:
    """The address or network as the kernel's table writes it; raises bad_value for what would be open to all, and for names."""
    remedy = (
        "Name the addresses of the clients, or a network of theirs such as 10.0.5.0/24: an export is never open to all."
    )
    try:
        network = ipaddress.ip_network(client, strict=True)
    except ValueError:
        raise bad_value(f"nfs_export_exports {name} clients", client, remedy) from None
    if network.prefixlen == 0:
        raise bad_value(f"nfs_export_exports {name} clients", client, remedy)
    whole = network.prefixlen == network.max_prefixlen
    return str(network.network_address if whole else network)


def options(entry: dict[str, Any]) -> str:
    """Options of exports(5). Benchmark files belong to root, hence no_root_squash; hence, too, no client that is not named."""
    return ",".join(
        [
            "ro" if entry["read_only"] else "rw",
            "sync" if entry["sync"] else "async",
            "no_subtree_check",
            "no_root_squash",
            "sec=sys",
            f"fsid={entry['uuid']}",
        ]
    )


def resolve(params: NfsExportParams) -> list[Any]:
    """The exports with path, UUID of the file system and options; raises bad_value or layer_missing."""
    wanted: list[Any] = []
    for entry in params["exports"]:
        name = check_name("nfs_export_exports name", entry["name"])
        if any(name == other["name"] for other in wanted):
            raise bad_value("nfs_export_exports name", name, "Give every export another name.")
        layer = params["layers"].get(entry["layer"])
        if not layer:
            raise Failure(
                "layer_missing",
                f"Export {name} is on layer {entry['layer']}, which was never published on this host.",
                "Run the role datastore first, on this host.",
                layer=entry["layer"],
            )
        path, uuid = (layer["identity"].get(key) for key in ("mount_point", "uuid"))
        if layer["kind"] != "datastore" or not path or not uuid or (layer.get("detail") or {}).get("server"):
            raise bad_value(
                f"nfs_export_exports {name} layer", entry["layer"], "Use the layer of a file system on this host."
            )
        if not nfs_mount.EXPORT.fullmatch(path):
            raise bad_value(
                f"nfs_export_exports {name} layer",
                entry["layer"],
                f"Mount it at a path of letters, digits, dots, dashes and underscores instead of {path}.",
            )
        if any(path == other["path"] for other in wanted):
            raise bad_value(
                f"nfs_export_exports {name} layer", entry["layer"], "Export it once, to all the clients that have it."
            )
        if not entry["clients"]:
            raise bad_value(
                f"nfs_export_exports {name} clients", [], "Name the addresses of the clients, or a network of theirs."
            )
        clients = list(dict.fromkeys(check_client(name, client) for client in entry["clients"]))
        wanted.append({**entry, "clients": clients, "path": path, "uuid": uuid, "parent": layer["name"]})
    for entry in wanted:
        entry["options"] = options(entry)
    return wanted


def check_server(params: NfsExportParams) -> dict[str, Any]:
    """{versions, addresses, threads} as they are given to a server that is started; raises bad_value."""
    addresses = []
    for address in params["addresses"]:
        try:
            addresses.append(str(ipaddress.ip_address(address)))
        except ValueError:
            raise bad_value("nfs_export_addresses", address, "Name addresses of the target.") from None
        if ipaddress.ip_address(address).is_unspecified:
            raise bad_value(
                "nfs_export_addresses", address, "Name addresses of the target: it never listens on all of them."
            )
    if not addresses:
        raise bad_value(
            "nfs_export_addresses", [], "Name the target's addresses in the storage network; testbed_address says them."
        )
    if not params["versions"]:
        raise bad_value("nfs_export_versions", [], f"Name one of {', '.join(VERSIONS)} at least.")
    if not 1 <= params["threads"] <= 1024:
        raise bad_value("nfs_export_threads", params["threads"], "Give a number from 1 to 1024.")
    return {"versions": sorted(set(params["versions"])), "addresses": addresses, "threads": params["threads"]}


def table(testbed_id: str, wanted: list[Any]) -> str:
    """The testbed's file of exports."""
    lines = [f"# Made by storlab.testbed for the testbed {testbed_id}, whose teardown removes it."]
    for entry in wanted:
        lines.append(" ".join([entry["path"], *(f"{client}({entry['options']})" for client in entry["clients"])]))
    return "\n".join(lines) + "\n"


def parse_etab(text: str) -> dict[tuple[str, str], set[str]]:
    """{(path, client): options} of what is announced (/var/lib/nfs/etab)."""
    announced = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+)\s+(\S+?)\((.*)\)", line.strip())
        if match:
            announced[mounts.unescape(match[1]), match[2].strip("[]")] = set(match[3].split(","))
    return announced


def parse_versions(text: str) -> set[str]:
    """Versions that a server speaks, of /proc/fs/nfsd/versions such as '-2 +3 +4 +4.1 +4.2'."""
    return {word[1:] for word in text.split() if word.startswith("+")}


def parse_states(text: str) -> set[str]:
    """Device numbers 'major:minor' of the file systems that a client has files open on (/proc/fs/nfsd/clients/<n>/states)."""
    numbers = re.findall(r'superblock: "([0-9a-f]+):([0-9a-f]+):', text)
    return {f"{int(major, 16)}:{int(minor, 16)}" for major, minor in numbers}


def plan(current: dict[str, Any], wanted: list[Any], server: dict[str, Any] | None, text: str | None) -> list[Step]:
    """Steps for all exports.

    current: {threads, versions, started: as recorded or None, file, etab, ours: {(path, client)}, others: {(path, client)} that came since the server
    was started and that no testbed claims}.
    """
    steps: list[Step] = []

    def add(op: str, target: str, was: object, will: object, **more: Any) -> None:
        steps.append(cast(Step, {"op": op, "target": target, "was": was, "will": will, **more}))

    described = {(entry["path"], client): entry for entry in wanted for client in entry["clients"]}
    foreign = sorted(path for path, client in current["etab"] if (path, client) not in current["ours"])
    for entry in wanted:
        if entry["path"] in foreign:
            raise Failure(
                "export_foreign",
                f"{entry['path']} of export {entry['name']} is already exported, and not by this testbed.",
                "Withdraw that export first (exportfs -v shows it), or mount the datastore elsewhere.",
                path=entry["path"],
            )
    started, runs = current["started"], current["threads"] > 0
    if server and runs and not started:
        missing = [version for version in server["versions"] if version not in current["versions"]]
        if missing:
            raise Failure(
                "nfs_version_off",
                f"The NFS server of this host runs without version {' and '.join(missing)}, which nfs_export_versions asks for.",
                "Turn it on in /etc/nfs.conf and start the server again, or ask for another version.",
                versions=sorted(current["versions"]),
            )
    changed = bool(server and started and runs and started != server)
    stops = bool(started and (changed or not server))
    left = bool(stops and not server and current["others"])
    if stops and current["others"] and not left:
        shared = " and ".join(f"{path} to {client}" for path, client in sorted(current["others"]))
        raise Failure(
            "nfs_server_shared",
            f"The NFS server that this testbed started would be restarted, but {shared} is exported through it by someone else.",
            "Withdraw that export first (exportfs -u), or leave the server as it is.",
            exports=[{"path": path, "client": client} for path, client in sorted(current["others"])],
        )
    for path, client in sorted(current["ours"] - set(described)):
        if (path, client) in current["etab"]:
            add(
                "withdraw",
                f"{path} to {client}",
                ",".join(sorted(current["etab"][path, client])),
                None,
                key=(path, client),
            )
    if current["file"] != text:
        add("write_file" if text else "remove_file", "file of exports", current["file"], text)
    if left:
        # Those who export by it would lose it; from now on it is theirs.
        users = " and ".join(f"{path} to {client}" for path, client in sorted(current["others"]))
        add("leave_server", "NFS server", _server_text(started), f"kept for {users}")
    elif stops:
        add("stop_server", "NFS server", _server_text(started), None)
    if server and (changed or not runs):
        add("start_server", "NFS server", None, _server_text(server))
    for key, entry in described.items():
        there = current["etab"].get(key)
        if there is None or not set(entry["options"].split(",")) <= there:
            was = ",".join(sorted(there)) if there is not None else None
            add("export", f"{key[0]} to {key[1]}", was, entry["options"], key=key, options=entry["options"])
    return steps


def _server_text(server: dict[str, Any]) -> str:
    versions, addresses = ", ".join(server["versions"]), ", ".join(server["addresses"])
    return f"version {versions} on {addresses}, {server['threads']} threads"


def argument(path: str, client: str) -> str:
    """The name of an export in exportfs(8)."""
    return f"[{client}]:{path}" if ":" in client else f"{client}:{path}"


def server_argv(server: dict[str, Any]) -> list[str]:
    off = [word for version in VERSIONS if version not in server["versions"] for word in ("-N", version.split(".")[0])]
    hosts = [word for address in server["addresses"] for word in ("-H", address)]
    return ["rpc.nfsd", "-G", str(GRACE_S), *off, *hosts, str(server["threads"])]


def mountd_argv(server: dict[str, Any]) -> list[str]:
    """Version 4 alone is served without a port of its own, and needs no rpcbind."""
    return ["rpc.mountd", *([] if "3" in server["versions"] else ["-N", "2", "-N", "3"])]
