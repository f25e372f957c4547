# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload on many hosts at once, by fio's own client and server: the client's arguments, and one result out of what it leaves.

A server is a mapping {host, address, port, version, layer}; ``layer`` is the name of the layer on that host, ``address`` and ``port`` are
where the coordinating host reaches it. fio's manual, "CLIENT / SERVER", has the options.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..core.layers import Layer, lasting_identity, parts, reduces_data
from ..result import result as schema
from ..result.schema import Measured
from ..workload.point import Point, Server
from . import fio

SERVER_KEYS = ("host", "address", "port", "version", "layer")
# The properties that identify a client, and what of it is small enough to be in the result of all.
CLIENT_KEYS = ("status", "failures", "flags", "runtime_s", "cpu", "errors", *schema.PARTS)

# ---------------------------------------------------------------- servers


def version(engine: str) -> str:
    """What ``fio --version`` says, e.g. fio-3.33."""
    done = subprocess.run(
        [engine, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    return done.stdout.strip()


def server_command(engine: str, address: str, port: int) -> list[str]:
    return [engine, f"--server={_where(address, port)}"]


def _where(address: str, port: int) -> str:
    return f"{'ip6' if ':' in address else 'ip'}:{address},{port}"


def check_servers(servers: Sequence[Server]) -> None:
    """The description of the servers is complete and means different ones; Failure 'bad_value' when not."""
    places = [(server.get("address"), server.get("port")) for server in servers]
    for server, place in zip(servers, places):
        missing = [key for key in SERVER_KEYS if not server.get(key)]
        if missing:
            raise bad_value(
                "servers", server, f"Give it {', '.join(missing)}, as module benchmark_server returns them."
            )
        if not re.fullmatch(r"[A-Za-z0-9.:_-]+", str(server["address"])):
            raise bad_value("servers address", server["address"], "Give an address or a host name.")
        if places.count(place) > 1:
            raise bad_value("servers", place, "Name every server once.")


def check_versions(servers: Sequence[Server], engine: str) -> None:
    """fio speaks to its own kind only: another version refuses the connection, or says other things with the same words."""
    own = version(engine) if servers else ""
    others = [f"{server['host']} has {server['version']}" for server in servers if server["version"] != own]
    if others:
        raise Failure(
            "engine_version_differs",
            f"This host coordinates with {own}, but {', '.join(dict.fromkeys(others))}.",
            "Install one version of fio on all of them.",
            own=own,
            servers={server["host"]: server["version"] for server in servers},
        )


def group_layer(name: str | None, layers: list[Layer], coordinator: str) -> Layer:
    """The layer that many layers measured at once are: {name, kind, host, path: null, size_bytes (of all) …}; '<kind>-many' unless it has a name.

    Its identity is that of all its members, whose paths are in ``detail``.
    """
    kinds = sorted({layer["kind"] for layer in layers})
    if len(kinds) > 1:
        raise bad_value(
            "servers",
            [layer["name"] for layer in layers],
            f"Their layers are of kinds {', '.join(kinds)}; measure one kind at a time.",
        )
    unfit = [layer["name"] for layer in layers if layer["purpose"] != "scratch" or layer["path"] is None]
    if unfit:
        raise bad_value(
            "servers", unfit, "Name scratch layers that have a path; what holds data is measured through a file on it."
        )
    several = [layer["name"] for layer in layers if len(parts(layer)) > 1]
    if several:
        raise bad_value(
            "servers", several, "Many hosts at once are measured on one file each; leave out benchmark_files."
        )
    parents = {layer["parent"] for layer in layers}
    return {
        "name": name or f"{kinds[0]}-many",
        "kind": kinds[0],
        "host": coordinator,
        "path": None,
        "parent": parents.pop() if len(parents) == 1 else None,
        "purpose": "scratch",
        "size_bytes": sum(layer["size_bytes"] for layer in layers),
        "identity": {
            "layers": {
                layer["name"]: {
                    **{key: layer[key] for key in ("host", "size_bytes")},
                    "identity": lasting_identity(layer),
                }
                for layer in layers
            }
        },
        "detail": {
            "members": [{key: layer[key] for key in ("name", "host", "path", "size_bytes")} for layer in layers]
        },
    }


# ---------------------------------------------------------------- jobs


def job_files(point: Point, layers: dict[str, Layer]) -> list[str]:
    """The job file for each server of a point, on its own layer."""
    return [fio.job_file(_at(point, layer_of(server, layers), layers)) for server in point["servers"]]


def fill_files(point: Point, layers: dict[str, Layer], **how: int) -> list[str]:
    """The job file for each server that writes every block of its layer; ``how`` is what fio.fill_file takes."""
    return [
        fio.fill_file({**_at(point, layer_of(server, layers), layers), "layer": server["layer"]}, **how)
        for server in point["servers"]
    ]


def layer_of(server: Server, layers: dict[str, Layer]) -> Layer:
    if server["layer"] not in layers:
        raise bad_value("servers layer", server["layer"], "Name a layer that was published.")
    layer: Layer = layers[server["layer"]]
    return layer


def _at(point: Point, layer: Layer, layers: dict[str, Layer]) -> Point:
    reducing = reduces_data(layers, layer)
    return {**point, "path": layer["path"], "size_bytes": layer["size_bytes"], "reduces_data": reducing}


def joined(servers: Sequence[Server], texts: list[str]) -> str:
    """All job files in one, for the record; a comment names the server of each."""
    return "\n".join(f"; {server['host']}, layer {server['layer']}\n{text}" for server, text in zip(servers, texts))


def arguments(servers: Sequence[Server], texts: list[str]) -> tuple[list[str], dict[str, str]]:
    """(the client's arguments, a server followed by its job file each; {name: text} of those files)."""
    files = {f"job.{number}.fio": text for number, text in enumerate(texts, start=1)}
    argv: list[str] = []
    for server, name in zip(servers, files):
        argv += [f"--client={_where(server['address'], server['port'])}", name]
    return argv, files


# ---------------------------------------------------------------- results


def results(text: str, servers: Sequence[Server]) -> list[Measured]:
    """[the result of all servers taken as one, with ``clients``], in place of ``fio.results``.

    Rates and counts are added, histograms merged, means weighted by I/O, deviations pooled. A server that was lost, or that failed, is
    named and makes the whole fail; what the others did stays, and nothing replaces the missing one.
    """
    labels = {server["host"]: 0 for server in servers}
    for server in servers:
        labels[server["host"]] += 1
    named: list[Server] = [
        {**server, "host": f"{server['host']} {server['layer']}" if labels[server["host"]] > 1 else server["host"]}
        for server in servers
    ]
    clients, everybody, _missing = fio.client_results(text, named)
    order = [server["host"] for server in named]
    clients.sort(key=lambda entry: order.index(entry["host"]))
    return [{**everybody, "clients": [client(entry) for entry in clients]}]


def client(result: Measured) -> Measured:
    """The part of one host in the result of all: figures, without the histogram, which only the sum keeps."""
    kept: Any = {key: value for key, value in result.items() if key in CLIENT_KEYS and value not in (None, {}, [])}
    for name in schema.PARTS:
        if name in kept:
            kept[name] = {key: value for key, value in kept[name].items() if key != "histogram"}
    return cast(Measured, {"host": result["host"], "failures": [], **kept})
