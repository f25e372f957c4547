# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS exports of the kernel's server (nfsd): what is there, and the steps of the plan (nfs_plan.py).

The mount point is exported of a datastore of this host, so that the clients' file system is proven to be the testbed's file system: its UUID is the
``fsid`` of the export, and clients find it in /proc/fs/nfsfs/volumes. The exports are in a file of the testbed's own below /etc/exports.d, and are
announced and withdrawn one by one: ``exportfs -r`` would drop what others announced by hand.

A server that runs is used as it is. One that does not is started, and stopped by the last testbed that uses it.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import re
from collections.abc import Iterable
from typing import Any

from ...core import converge
from ...core.failure import Failure
from ...core.files import naming
from ...core.layers import Layer
from ...core.names import check_testbed_id
from ...core.steps import Step, shown
from .. import mounts
from ..clients import filesystem
from ..daemon import end_process, patience, read_cmdline, start_ticks
from ..host import load_module, loaded_modules, modules_that_need, read_text, run, wait_for, write_text
from ..record import Record
from .nfs_plan import (
    VERSIONS,
    argument,
    check_server,
    mountd_argv,
    parse_etab,
    parse_states,
    parse_versions,
    plan,
    resolve,
    server_argv,
    table,
)

EXPORTS_DIR = "/etc/exports.d"
ETAB = "/var/lib/nfs/etab"
# So much of the table an export takes at most, and a block that the file system needs beside it.
EXPORT_BYTES, BLOCK_BYTES = 512, 4096
NFSD = "/proc/fs/nfsd"

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "layers": {"type": "dict", "default": {}},
    "addresses": {"type": "list", "elements": "str", "default": []},
    "versions": {"type": "list", "elements": "str", "choices": list(VERSIONS), "default": ["4.2"]},
    "threads": {"type": "int", "default": 8},
    "exports": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "layer": {"type": "str", "required": True},
            "clients": {"type": "list", "elements": "str", "required": True},
            "sync": {"type": "bool", "default": True},
            "read_only": {"type": "bool", "default": False},
        },
    },
}


class Exports:
    """The exports of one testbed on this host."""

    def __init__(self, testbed_id: str) -> None:
        self.testbed_id = testbed_id
        self.record = Record(testbed_id, "nfs_export")
        self.file = os.path.join(EXPORTS_DIR, f"storlab-{testbed_id}.exports")

    @property
    def ours(self) -> set[tuple[str, str]]:
        return {(path, client) for path, clients in self.record.data.get("exports", {}).items() for client in clients}

    def current(self) -> dict[str, Any]:
        etab = parse_etab(read_text(ETAB, default=""))
        return {
            "threads": int(read_text(f"{NFSD}/threads", default="0") or 0),
            "versions": parse_versions(read_text(f"{NFSD}/versions", default="")),
            "started": self.record.data.get("server"),
            "file": read_file(self.file),
            "etab": etab,
            "ours": self.ours,
            "others": self._others(etab),
        }

    def _others(self, etab: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Announcements that no testbed claims, without the ones from the start of the server: no one relied on these."""
        before = self.record.data.get("announced_before")
        if before is None or self.record.has_heirs():
            return set()
        return {key for key in set(etab) - self.ours if argument(*key) not in before}

    # -- refuse

    @staticmethod
    def refuse_unproven(wanted: list[Any]) -> None:
        """The export must be the file system that the layer names, mounted where it says."""
        for entry in wanted:
            mount = mounts.mounted_at(mounts.read(), entry["path"])
            shows = (
                filesystem.read_superblock(mount["source"])["uuid"]
                if mount and mount["source"].startswith("/")
                else None
            )
            if shows != entry["uuid"]:
                raise Failure(
                    "export_unproven",
                    f"{entry['path']} of export {entry['name']} "
                    + (
                        f"holds the file system {shows or 'of ' + mount['source']}, the layer"
                        if mount
                        else "is not a mount point, the layer"
                    )
                    + f" {entry['layer']} is {entry['uuid']}.",
                    "Build the datastore again.",
                    path=entry["path"],
                )

    def refuse_used(self, steps: list[Step], patience_s: float = 5) -> None:
        """Raises export_in_use when a client has files open on what would be withdrawn."""
        withdrawn = {step["key"] for step in steps if step["op"] == "withdraw"}

        def users() -> list[tuple[str, str]]:
            table_of_mounts, open_files = mounts.read(), []
            for path, client in sorted(withdrawn):
                mount = mounts.mounted_at(table_of_mounts, path)
                if mount and mount["numbers"] in open_on(client):
                    open_files.append((path, client))
            return open_files

        wait_for(lambda: not users(), patience_s, interval_s=0.5)
        open_files = users()
        if open_files:
            raise Failure(
                "export_in_use",
                f"{' and '.join(f'{client} has files open on {path}' for path, client in open_files)}.",
                "Unmount it on the client first; of a client that died the server forgets the files within 90 s.",
                exports=[{"path": path, "client": client} for path, client in open_files],
            )

    @staticmethod
    def refuse_full(steps: list[Step]) -> None:
        """Raises export_table_full where exportfs has no room for its table: it would leave an empty one, report no error, and take away all exports of
        this host, whoever made them."""
        changes = [step for step in steps if step["op"] in ("export", "withdraw")]
        folder = os.path.dirname(ETAB)
        if not changes or not os.path.isdir(folder):
            return
        disk = os.statvfs(folder)
        free = disk.f_bfree * disk.f_frsize
        table_bytes = os.path.getsize(ETAB) if os.path.exists(ETAB) else 0
        needed = table_bytes + EXPORT_BYTES * len(changes) + BLOCK_BYTES
        if free < needed:
            raise Failure(
                "export_table_full",
                f"{ETAB} has no room to be written again: {free} bytes are free and {needed} are needed. With less, exportfs empties it, and the exports of "
                "others on this host are gone, too.",
                f"Make room in {folder}.",
                path=ETAB,
                needed_bytes=needed,
                available_bytes=free,
            )

    # -- change

    def apply(self, steps: list[Step], wanted: list[Any], server: dict[str, Any] | None) -> None:
        operations = {
            "withdraw": self._withdraw,
            "write_file": self._write_file,
            "remove_file": lambda _step: self.remove_file(),
            "stop_server": lambda _step: self._stop(),
            "leave_server": lambda _step: self._leave(),
            "start_server": lambda _step: self._start(server or {}),
            "export": self._export,
        }
        self._take_started()
        claimed = self.record.data.setdefault("exports", {})
        for entry in wanted:
            claimed[entry["path"]] = sorted({*claimed.get(entry["path"], []), *entry["clients"]})
        self.record.save()
        for step in steps:
            operations[step["op"]](step)
        self.record.data["exports"] = {entry["path"]: entry["clients"] for entry in wanted}
        self.record.save()

    def _export(self, step: Step) -> None:
        run(
            ["exportfs", "-o", step["options"], argument(*step["key"])],
            what=f"{step['target']} cannot be exported",
            remedy="Look at the message; the root file system of the host must be one that NFS can export.",
        )
        if step["key"] not in parse_etab(read_text(ETAB, default="")):
            raise Failure(
                "export_not_announced",
                f"{step['target']} is not in {ETAB}, although exportfs reported no error.",
                f"Look whether the file system of {os.path.dirname(ETAB)} is full, and at the system log of the host.",
                path=step["key"][0],
                client=step["key"][1],
            )

    @staticmethod
    def _withdraw(step: Step) -> None:
        run(["exportfs", "-u", argument(*step["key"])], what=f"The export of {step['target']} cannot be withdrawn")
        # The kernel's memory of it would keep the file system mounted.
        run(["exportfs", "-f"], what="The kernel's table of exports cannot be flushed")

    def _write_file(self, step: Step) -> None:
        if not os.path.isdir(EXPORTS_DIR):
            self.record.data["folder"] = EXPORTS_DIR
            self.record.save()
            os.mkdir(EXPORTS_DIR, mode=0o755)
        # Not by write_whole: under a name of this testbed's own, by which its teardown removes what a kill leaves in the host's folder.
        with naming(self.file), open(f"{self.file}.new", "w", encoding="utf-8") as stream:
            stream.write(step["will"])
        os.replace(f"{self.file}.new", self.file)

    def remove_file(self) -> None:
        for path in (self.file, f"{self.file}.new"):
            if os.path.exists(path):
                os.unlink(path)
        folder = self.record.data.get("folder")
        if folder and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)

    def _start(self, server: dict[str, Any]) -> None:
        before = loaded_modules()
        self.record.data["server"] = server
        announced = set(parse_etab(read_text(ETAB, default="")))
        self.record.data["announced_before"] = sorted(argument(*key) for key in announced - self.ours)
        self.record.save()
        try:
            load_module("nfsd", intend=self.record.intend_modules, provides=NFSD)
            if not os.path.exists(f"{NFSD}/threads"):
                self.record.data["mounted"] = True
                self.record.save()
                run(["mount", "-t", "nfsd", "nfsd", NFSD], what=f"{NFSD} cannot be mounted")
            if "3" in server["versions"]:
                self._daemon(
                    "rpcbind", ["rpcbind", *[word for address in server["addresses"] for word in ("-h", address)]]
                )
            self._daemon("rpc.mountd", mountd_argv(server))
            run(
                server_argv(server),
                what="The NFS server cannot be started",
                remedy=f"Look at the message, at the kernel log of the host, and at what listens on port 2049 of {', '.join(server['addresses'])}.",
            )
            if os.path.exists(f"{NFSD}/v4_end_grace") and "4.2" in server["versions"]:
                # No one has to wait for clients that cannot exist.
                write_text(f"{NFSD}/v4_end_grace", "Y\n")
        finally:
            self.record.note_modules(before)

    def _daemon(self, name: str, argv: list[str]) -> None:
        """Start a daemon that goes to the background by itself, unless one of its name runs; ours is on record with its pid."""
        if pids_of(name):
            return
        # On record before it runs: which process it becomes is known only when it does.
        self.record.data.setdefault("starting", {})[name] = {"argv": argv, "ticks": ticks_now()}
        self.record.save()
        run(argv, what=f"{name} cannot be started")
        pids = wait_for(lambda: pids_of(name), timeout_s=10)
        if not pids:
            raise Failure(
                "daemon_not_started",
                f"{name} did not stay when it was started.",
                "Look at the system log of the host.",
                command=name,
            )
        self._own(name, pids)

    def _own(self, name: str, pids: list[int]) -> None:
        daemons = self.record.data.setdefault("daemons", {})
        if pids:
            daemons[name] = [{"pid": pid, "start_ticks": start_ticks(pid)} for pid in pids]
        self.record.data["starting"].pop(name)
        if not self.record.data["starting"]:
            del self.record.data["starting"]
        self.record.save()

    def _take_started(self) -> None:
        """Own the daemons that a killed run had started: those with its very command line, and not older than its intention."""
        for name, begun in dict(self.record.data.get("starting", {})).items():
            same = [pid for pid in pids_of(name) if read_cmdline(pid) == begun["argv"]]
            self._own(name, [pid for pid in same if int(start_ticks(pid) or 0) >= begun["ticks"]])

    def _stop(self) -> None:
        """Stop what was started; what other testbeds still use becomes theirs to stop."""
        kept = {
            key: self.record.data[key]
            for key in ("server", "daemons", "mounted", "announced_before")
            if self.record.data.get(key)
        }
        if self.record.has_heirs():
            self.record.bequeath(**kept)
        else:
            # Where none runs any more it fails. Without threads it may still listen.
            if self.current()["threads"] or read_text(f"{NFSD}/portlist", default="").strip():
                run(["rpc.nfsd", "0"], what="The NFS server cannot be stopped")
            for processes in kept.get("daemons", {}).values():
                for process in processes:
                    self._end(process)
            if kept.get("mounted") and os.path.exists(f"{NFSD}/threads"):
                run(["umount", NFSD], what=f"{NFSD} cannot be unmounted")
        for key in kept:
            del self.record.data[key]
        self.record.save()

    def _leave(self) -> None:
        """Take the server for somebody else's: it runs on, with what it was mounted and loaded for."""
        for key in ("server", "daemons", "mounted", "announced_before", "modules"):
            self.record.data.pop(key, None)
        self.record.save()

    @staticmethod
    def _end(process: dict[str, Any]) -> None:
        pid, ticks = process["pid"], process["start_ticks"]
        if not end_process(lambda: pid if start_ticks(pid) == ticks else None, patience(10)):
            raise Failure(
                "daemon_hung", f"Process {pid} cannot be ended.", "Look at the kernel log of the host.", pid=pid
            )

    def forget(self) -> None:
        # When a client asks, the kernel loads more by itself, such as rpcsec_gss_krb5. It needs what came with the server, so it came later, and
        # what came with the server cannot go before it. Things in use stay.
        ours = set(self.record.data.get("modules", []))
        self.record.data["modules"] = sorted(ours | modules_that_need(ours))
        self.record.unload_modules()
        self.record.remove()


def read_file(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def ticks_now() -> int:
    """The time since the host's start in the unit of ``start_ticks``."""
    return int(float(read_text("/proc/uptime").split()[0]) * os.sysconf("SC_CLK_TCK"))


def pids_of(name: str) -> list[int]:
    """Processes of a program's name."""
    numbers = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    # The kernel keeps 15 characters of a name.
    return [pid for pid in numbers if read_text(f"/proc/{pid}/comm", default="") == name[:15] and start_ticks(pid)]


def open_on(client: str) -> set[str]:
    """File systems that the clients of an address or network have files open on, by version 4; version 3 does not say."""
    network, systems = ipaddress.ip_network(client), set()
    for folder in glob.glob(f"{NFSD}/clients/*"):
        info = read_text(f"{folder}/info", default="")
        match = re.search(r'^address: "\[?([0-9a-fA-F.:]+?)\]?:\d+"', info, re.M)
        courtesy = re.search(r"^status: courtesy", info, re.M)
        if match and not courtesy and ipaddress.ip_address(match[1]) in network:
            systems |= parse_states(read_text(f"{folder}/states", default=""))
    return systems


def layers_of(wanted: list[Any], server: dict[str, Any]) -> list[Layer]:
    """The exports as layers, without their host; none can be measured where it is made."""
    return [
        {
            "name": f"target-{entry['name']}",
            "kind": "target",
            "path": None,
            "parent": entry["parent"],
            "purpose": "data",
            "size_bytes": None,
            "identity": {"uuid": entry["uuid"], "export": entry["path"]},
            "detail": {
                "provider": "nfs",
                "versions": server["versions"],
                "sync": entry["sync"],
                "read_only": entry["read_only"],
            },
        }
        for entry in wanted
    ]


class Area(converge.Area):
    """The NFS exports of a testbed, for the module nfs_export."""

    def plan(self) -> list[Step]:
        self.exports = Exports(check_testbed_id("nfs_export_testbed_id", self.params["testbed_id"]))
        self.wanted = resolve(self.params) if self.present else []
        self.server = check_server(self.params) if self.wanted else None
        wanted_table = table(self.exports.testbed_id, self.wanted) if self.wanted else None
        return plan(self.exports.current(), self.wanted, self.server, wanted_table)

    def guard(self, steps: list[Step]) -> None:
        to_come = self.check_mode and not all(os.path.ismount(entry["path"]) for entry in self.wanted)
        if self.wanted and not to_come:
            self.exports.refuse_unproven(self.wanted)
        self.exports.refuse_full(steps)
        self.exports.refuse_used(steps)

    def apply(self, steps: list[Step]) -> None:
        if self.wanted or steps:
            self.exports.apply(steps, self.wanted, self.server)
        if not self.wanted:
            self.exports.forget()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        layers = layers_of(self.wanted, self.server) if self.server else []
        return {**shown(steps), **({"layers": layers} if self.present else {})}
