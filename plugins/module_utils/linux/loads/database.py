# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private database whose data are on a layer of the testbed: the state, the plan, its steps. database_<name>.py has what is special of each.

It is private: made by a user without rights, in a folder of its own, reached through a socket in a private folder and through no
network, and ended by its pid. The distribution's own databases are not looked at.

    <mount point>/storlab-database/storlab.json   whose it is {testbed_id, …}
    <mount point>/storlab-database/data/          the cluster
    /run/storlab-database/<testbed_id>/           socket, log of the server, scripts and log of the driver: nothing of it is on the measured layer
"""

from __future__ import annotations

import os
import pwd
import re
import signal
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from ...core import converge
from ...core.failure import Failure, bad_value
from ...core.files import read_json, write_json
from ...core.steps import Step, shown
from .. import mounts
from ..clients import filesystem
from ..daemon import end_process, read_stat, start_ticks, wait_until_gone
from ..disks import nfs_volumes
from ..host import run
from ..params import DatabaseLoadParams
from ..record import Record
from .cluster_folder import MIB, STAMP, free_bytes, processes_in, remove_cluster, remove_tree, replace, runs_as, user_of

FOLDER = "storlab-database"
RUN_DIR = "/run/storlab-database"
DATABASE = "load"
MOST_WAREHOUSES = 10_000
MOST_USERS = 256
FULL, DIED = "database_full", "database_died"
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "layers": {"type": "dict", "default": {}},
    "layer": {"type": "str", "default": ""},
    "warehouses": {"type": "int", "default": 1},
    "shared_buffers_mib": {"type": "int", "default": 128},
    "max_wal_mib": {"type": "int", "default": 1024},
    "settings": {"type": "dict", "default": {}},
    "bin_dir": {"type": "path"},
    "hammerdb_dir": {"type": "path"},
    "user": {"type": "str", "default": ""},
}


# ---------------------------------------------------------------- what is wanted


def check_values(cluster: type[Cluster], params: DatabaseLoadParams) -> None:
    """Raises bad_value."""
    for name, least, most in (
        ("warehouses", 1, MOST_WAREHOUSES),
        ("shared_buffers_mib", cluster.LEAST_BUFFERS_MIB, 1 << 20),
        ("max_wal_mib", cluster.LEAST_LOG_MIB, 1 << 20),
    ):
        number = cast("dict[str, Any]", params)[name]
        if not least <= number <= most:
            raise bad_value(f"database_load_{name}", number, f"Give a number from {least} to {most}.")
    for name, value in params["settings"].items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)) or name in cluster.OWN_SETTINGS:
            raise bad_value(
                "database_load_settings",
                name,
                f"Name parameters of {cluster.TITLE}, and none that the cluster's privacy or another variable of this role decides.",
            )
        if isinstance(value, (dict, list)) or "\n" in str(value):
            raise bad_value(f"database_load_settings {name}", value, "Give a single value.")


def mount_of(params: DatabaseLoadParams) -> str:
    """The mount point of the layer's file system; raises layer_missing, bad_value or database_unproven."""
    name = params["layer"]
    layer = params["layers"].get(name)
    if not layer:
        raise Failure(
            "layer_missing",
            f"database_load_layer is {name!r}, which was never published on this host.",
            "Run the role datastore first, on this host.",
            layer=name,
        )
    identity = layer.get("identity") or {}
    point, uuid = identity.get("mount_point"), identity.get("uuid")
    if layer.get("kind") != "datastore" or not point or not uuid:
        raise bad_value("database_load_layer", name, "Use the layer of a datastore that is mounted on this host.")
    mount = mounts.mounted_at(mounts.read(), point)
    if mount is None:
        raise Failure(
            "database_unproven",
            f"{point} of layer {name} is not a mount point.",
            "Build the datastore again.",
            path=point,
        )
    if (layer.get("detail") or {}).get("server"):
        proven = nfs_volumes.fsid_of(mount) in nfs_volumes.fsids(uuid)
    else:
        proven = mount["source"].startswith("/") and filesystem.read_superblock(mount["source"])["uuid"] == uuid
    if not proven:
        raise Failure(
            "database_unproven",
            f"{point} holds another file system than layer {name} ({uuid}), from {mount['source']}.",
            "Build the datastore again.",
            path=point,
        )
    return str(point)


def missing(cluster: type[Cluster], lacks: list[str], bin_dir: str | None, looked_in: list[str]) -> Failure:
    """The sentence about missing programs."""
    return Failure(
        f"{cluster.NAME}_missing",
        f"{cluster.TITLE}'s {', '.join(lacks)} are not {'in ' + bin_dir if bin_dir else cluster.WHERE}.",
        f"Install {cluster.PACKAGES}, or say in database_load_bin_dir where they are.",
        looked_in=looked_in,
    )


def refuse_full(cluster: type[Cluster], free_bytes: int, params: DatabaseLoadParams, place: str) -> None:
    """Raises database_no_space with the arithmetic."""
    needed = cluster.EMPTY_MIB + int(params["warehouses"]) * cluster.WAREHOUSE_MIB + int(params["max_wal_mib"])
    if free_bytes < needed * MIB:
        raise Failure(
            "database_no_space",
            f"{params['warehouses']} warehouses need {needed} MiB ({cluster.EMPTY_MIB} MiB for an empty database, {cluster.WAREHOUSE_MIB} MiB per warehouse, "
            f"{params['max_wal_mib']} MiB of log), and {place} has {free_bytes // MIB} MiB free.",
            "Lower database_load_warehouses or database_load_max_wal_mib, or make the layer larger.",
            needed_mib=needed,
            free_mib=free_bytes // MIB,
        )


def plain(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- the plan


def plan(title: str, current: dict[str, Any], wanted: dict[str, Any]) -> list[Step]:
    """Steps to {warehouses, version, settings}. current: {made, loaded, version, settings, running} as in the stamp, and whether it runs."""
    steps: list[Step] = []

    def add(op: str, target: str, was: object, will: object) -> None:
        steps.append({"op": op, "target": target, "was": was, "will": will})

    # A database that was interrupted while it was loaded holds unknown rows: it says that none are loaded.
    whole = current["made"] and all(
        current[key] == wanted[wish]
        for key, wish in (("loaded", "warehouses"), ("version", "version"), ("driver", "driver"))
    )
    if current["running"] and (not whole or current["settings"] != wanted["settings"]):
        add("stop", "server", _settings_text(current["settings"]), None)
    if current["made"] and not whole:
        add("remove", "cluster", _rows(current["loaded"]), None)
    if not whole:
        add("make", "cluster", None, f"{title} {wanted['version']}")
    if not whole or current["settings"] != wanted["settings"] or not current["running"]:
        add("start", "server", None, _settings_text(wanted["settings"]))
    if not whole:
        add("load", "warehouses", None, _rows(wanted["warehouses"]))
    return steps


def _rows(warehouses: int) -> str:
    return f"{warehouses} warehouses"


def _settings_text(settings: dict[str, str]) -> str:
    return ", ".join(f"{name} {value or 'none'}" for name, value in settings.items())


# ---------------------------------------------------------------- the cluster


class Cluster:
    """The database of one testbed on this host; its subclasses say what is special of each."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    # Which of its programs is the server.
    SERVER: ClassVar[str]
    # For programs that are not there: where they have to be, and the package that has them.
    WHERE: ClassVar[str]
    PACKAGES: ClassVar[str]
    USERS: ClassVar[tuple[str, ...]]
    # These settings keep the cluster private, or belong to another variable; the rest is the user's.
    OWN_SETTINGS: ClassVar[frozenset[str]]
    # The size of an empty cluster beside its log, and of a warehouse after loading.
    EMPTY_MIB: ClassVar[int]
    WAREHOUSE_MIB: ClassVar[int]
    LEAST_BUFFERS_MIB: ClassVar[int]
    LEAST_LOG_MIB: ClassVar[int]
    # How the server is ended: asked to write all that it holds, and in the end as if the power were gone.
    PATIENCE_S: ClassVar[dict[signal.Signals, float]]
    # Words by which the server or a client says that the file system is full.
    FULL_WORDS: ClassVar[tuple[str, ...]]

    # -- what each does in its own way

    @classmethod
    def find_programs(cls, bin_dir: str | None) -> dict[str, str]:
        """{name: path} of all that is needed; raises what missing() makes."""
        raise NotImplementedError

    @classmethod
    def version(cls, programs: Mapping[str, str]) -> str:
        raise NotImplementedError

    @staticmethod
    def settings_of(params: DatabaseLoadParams, run_dir: str) -> dict[str, str]:
        """The server's settings beside its own defaults."""
        raise NotImplementedError

    def make_data(self) -> None:
        """Fill self.data, an empty folder that the server's user owns."""
        raise NotImplementedError

    def start_server(self, settings: dict[str, str]) -> dict[str, Any]:
        """Start it and wait until it answers; {pid, …} for the record. Raises Failure with the words of what failed."""
        raise NotImplementedError

    def keep_private(self) -> None:
        """Take away who else would get into a new server."""

    def make_database(self) -> None:
        """An empty database in the server that runs."""
        raise NotImplementedError

    def client(self, script: str) -> list[Any]:
        """The client's command line that runs a file of SQL, stops at the first error, and prints bare rows, columns apart by |."""
        raise NotImplementedError

    def settle(self) -> None:
        """Let what was written before not be written during a point."""
        raise NotImplementedError

    def clear(self) -> None:
        """Take away what the server that is gone left outside of its folders."""

    # -- what all have

    def __init__(self, testbed_id: str) -> None:
        self.testbed_id = testbed_id
        self.record = Record(testbed_id, "database")
        self.run_dir = os.path.join(RUN_DIR, testbed_id)

    @property
    def folder(self) -> str:
        """Where the cluster lies; empty when there is none."""
        return str(self.record.data.get("folder", ""))

    @property
    def data(self) -> str:
        return os.path.join(self.folder, "data")

    @property
    def user(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.record.data["user"])

    @property
    def server_log(self) -> str:
        return os.path.join(self.run_dir, "server.log")

    def program(self, name: str) -> str:
        return str(self.record.data["programs"][name])

    # -- what is there

    def pid(self) -> int | None:
        """The server that this testbed started; None when it does not run."""
        pid = self.record.data.get("pid")
        return pid if pid and start_ticks(pid) == self.record.data.get("start_ticks") else None

    def stamp(self, folder: str) -> dict[str, Any] | None:
        """The owner that the folder names; raises database_foreign when it is not this testbed's."""
        if not os.path.lexists(folder):
            return None
        stamp = None if os.path.islink(folder) else read_json(os.path.join(folder, STAMP))
        if stamp is None and self._begun(folder):
            return {"testbed_id": self.testbed_id, "database": self.record.data.get("database", self.NAME)}
        if not stamp or stamp.get("testbed_id") != self.testbed_id:
            raise Failure(
                "database_foreign",
                f"{folder} is not the database of testbed {self.testbed_id}"
                + (f", but of {stamp['testbed_id']}." if stamp and "testbed_id" in stamp else "."),
                "Remove it if it is not needed, or use another datastore.",
                path=folder,
            )
        return dict(stamp)

    def _begun(self, folder: str) -> bool:
        """Whether it is the folder that was on record before it was made, and holds nothing: a run that was cut had not come to its stamp, or had just
        taken that away."""
        if folder != self.folder or not os.path.isdir(folder) or os.path.islink(folder):
            return False
        return all(name.startswith(f".{STAMP}.") and name.endswith(".new") for name in os.listdir(folder))

    def current(self, folder: str) -> dict[str, Any]:
        stamp = self.stamp(folder)
        known = stamp or {}
        return {
            "database": known.get("database", self.NAME),
            "driver": known.get("driver"),
            "made": stamp is not None,
            "loaded": known.get("loaded", 0),
            "version": known.get("version", ""),
            "settings": known.get("settings", {}),
            "running": self.pid() is not None,
        }

    # -- steps

    def apply(self, folder: str, wanted: dict[str, Any], steps: list[Step], load: Any) -> None:
        """load: (cluster) fills the server, which runs."""
        if not steps:
            return
        self.record.data.update(database=self.NAME, folder=folder, user=wanted["user"], programs=wanted["programs"])
        self.record.save()
        for step in steps:
            if step["op"] == "stop":
                self.stop()
            elif step["op"] == "remove":
                remove_cluster(folder)
            elif step["op"] == "make":
                self._make(wanted)
            elif step["op"] == "start":
                self.start(wanted["settings"])
            elif step["op"] == "load":
                self._fill(load)
        self._write_stamp(
            {
                "loaded": wanted["warehouses"],
                "version": wanted["version"],
                "settings": wanted["settings"],
                **({"driver": wanted["driver"]} if wanted["driver"] else {}),
            }
        )

    def _fill(self, load: Any) -> None:
        try:
            self.keep_private()
            load(self)
        except Failure as failure:
            raise self.explained(failure) from None

    def _write_stamp(self, more: dict[str, Any]) -> None:
        stamp = {"testbed_id": self.testbed_id, "database": self.NAME, **more}
        write_json(os.path.join(self.folder, STAMP), stamp)

    def _make(self, wanted: dict[str, Any]) -> None:
        os.mkdir(self.folder)
        # The server's user goes through it, whatever this process's umask is.
        os.chmod(self.folder, 0o711)  # noqa: S103, names in it are known to all, and what it holds is private
        self._write_stamp({"loaded": 0, "version": wanted["version"], "settings": {}})
        os.mkdir(self.data, mode=0o700)
        os.chown(self.data, self.user.pw_uid, self.user.pw_gid)
        try:
            self.make_data()
        except Failure as failure:
            raise self._full(failure.what) or failure from None

    def start(self, settings: dict[str, str]) -> None:
        self.stop()
        if os.path.isdir(self.run_dir):
            remove_tree(self.run_dir)
        os.makedirs(RUN_DIR, mode=0o755, exist_ok=True)
        self.own_folder(self.run_dir)
        replace(self.server_log, "", self.user)
        # On record before it runs: which process it becomes is known only when it does.
        self.record.data["starting"] = True
        self.record.save()
        try:
            known = self.start_server(settings)
        except Failure as failure:
            words = self.log_tail() or failure.what
            self.stop()
            raise self._full(words) or Failure(
                "database_not_started",
                f"The server did not start in {self.data}: {words}",
                "Correct the cause, such as database_load_settings or too little memory.",
                path=self.data,
            ) from None
        self.keep_server(known)

    def own_folder(self, path: str) -> None:
        os.mkdir(path, mode=0o700)
        os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def keep_server(self, known: dict[str, Any]) -> None:
        """Which process the server is: {pid, …}."""
        self.record.data.update(known, start_ticks=start_ticks(known["pid"]))
        self.record.data.pop("starting", None)
        self.record.save()

    def known_of(self, pid: int) -> dict[str, Any]:
        """{pid, …} of a server that runs."""
        return {"pid": pid}

    def _take_started(self) -> None:
        """Know the server that a killed run had started: the program of this cluster, in its data, of its user, that no other of these has started."""
        if not self.record.data.get("starting") or self.pid() is not None:
            return
        mine = [
            pid
            for pid in processes_in(self.data)
            if runs_as(pid, os.path.realpath(self.program(self.SERVER)), self.user.pw_uid)
        ]
        parents = {pid: (read_stat(pid) or ["", ""])[1] for pid in mine}
        leaders = [pid for pid, parent in parents.items() if parent not in {str(other) for other in mine}]
        if len(leaders) == 1:
            self.keep_server(self.known_of(leaders[0]))

    def load(self, texts: Any) -> None:
        """texts: [(what, SQL)], one after another."""
        self.make_database()
        for what, text in texts:
            self.sql(text, what=f"Loading {what} failed", timeout_s=3600)

    def sql(self, text: str, what: str = "The database did not answer", timeout_s: float = 600) -> str:
        """The client's output, columns apart by |."""
        script = os.path.join(self.run_dir, "script.sql")
        replace(script, text, self.user)
        try:
            done = run(self.client(script), user=self.user, timeout_s=timeout_s, what=what)
        except Failure as failure:
            raise self.explained(failure) from None
        finally:
            os.unlink(script)
        return done.stdout

    def explained(self, failure: Failure) -> Failure:
        """The failure of a client in the light of what became of the server."""
        trouble = self.trouble(failure.what) if failure.code not in (FULL, DIED) else None
        if trouble is None:
            return failure
        code, reason = trouble
        return Failure(code, f"{failure.what} {reason}", "Make the layer larger, or see why the server ended.")

    def _full(self, words: str) -> Failure | None:
        """The failure of a program that found no space, by its own words."""
        if not any(full in words for full in self.FULL_WORDS):
            return None
        return Failure(
            "database_full",
            f"{words} {self._full_side()}",
            "Make room there, or make the layer larger.",
            path=self.folder,
        )

    def _full_side(self) -> str:
        """The log, the scripts and the socket are not on the layer."""
        sides = [path for path in (self.folder, self.run_dir) if free_bytes(path) < MIB]
        return f"The file system of {' and of '.join(sides) or self.folder} is full."

    def trouble(self, words: str = "") -> tuple[str, str] | None:
        """(code, sentence): why the server cannot go on; None when nothing is known of it. words: a client's words."""
        tail = self.log_tail()
        if any(full in tail + words for full in self.FULL_WORDS):
            return FULL, self._full_side()
        if self.pid() is None:
            return DIED, f"The server does not run any more; its log ends with: {tail[-300:] or 'nothing'}"
        return None

    def log_tail(self) -> str:
        try:
            with open(self.server_log, encoding="utf-8", errors="replace") as handle:
                return " ".join(handle.read()[-4000:].split())
        except FileNotFoundError:
            return ""

    def stop(self) -> None:
        """End the server, all its processes, and what the kernel keeps for it in memory."""
        self._take_started()
        if not end_process(self.pid, self.PATIENCE_S) or not wait_until_gone(lambda: processes_in(self.data), 60):
            raise Failure(
                "database_hung",
                f"The server of {self.data} cannot be ended.",
                "Its device does not answer; repair or detach the device.",
                path=self.data,
            )
        self.clear()
        for key in ("pid", "start_ticks", "segments", "starting"):
            self.record.data.pop(key, None)
        self.record.save()

    def find(self, params: DatabaseLoadParams) -> None:
        """Know it by its stamp where the record is lost, as after a reboot of a host whose layer kept its data."""
        if self.folder or params["layer"] not in params["layers"]:
            return
        try:
            folder = os.path.join(mount_of(params), FOLDER)
            if self.stamp(folder) is not None:
                self.record.data["folder"] = folder
        except Failure:
            return  # nothing of this testbed's is there

    def plan_absent(self) -> list[Step]:
        if not self.folder:
            return []
        steps: list[Step] = []
        if self.pid():
            steps.append({"op": "stop", "target": "server", "was": "running", "will": None})
        steps.append({"op": "remove", "target": "cluster", "was": self.folder, "will": None})
        return steps

    def remove(self) -> None:
        if not self.folder:
            return
        self.stop()
        # Where it lay may be gone with its layer.
        if os.path.isdir(os.path.dirname(self.folder)) and self.stamp(self.folder) is not None:
            remove_cluster(self.folder)
        if os.path.isdir(self.run_dir):
            remove_tree(self.run_dir)
        if os.path.isdir(RUN_DIR) and not os.listdir(RUN_DIR):
            os.rmdir(RUN_DIR)
        self.record.remove()


# ---------------------------------------------------------------- the module


class Area(converge.Area):
    """The database of a testbed on a host, and its rows."""

    # The one that makes rows of its own, if any.
    driver: str | None = None

    def cluster_wanted(self) -> Cluster:
        """Checks what only some kinds of databases and drivers know."""
        raise NotImplementedError

    def load(self, cluster: Cluster) -> None:
        """Fills the server, which runs."""
        raise NotImplementedError

    def plan(self) -> list[Step]:
        params = self.params
        self.cluster = cluster = self.cluster_wanted()
        if not self.present:
            cluster.find(params)
            return cluster.plan_absent()
        check_values(type(cluster), params)
        programs, user = cluster.find_programs(params["bin_dir"]), user_of(params["user"], cluster.USERS)
        self.folder = os.path.join(mount_of(params), FOLDER)
        self.current = cluster.current(self.folder)
        refuse_elsewhere(cluster, self.folder, self.current["database"], params)
        self.version = cluster.version(programs)
        self.wanted = {
            "warehouses": params["warehouses"],
            "version": self.version.split(".")[0],
            "settings": cluster.settings_of(params, cluster.run_dir),
            "user": user.pw_name,
            "programs": programs,
            "driver": self.driver,
        }
        return plan(cluster.TITLE, self.current, self.wanted)

    def guard(self, steps: list[Step]) -> None:
        if self.present and any(step["op"] == "make" for step in steps) and not self.current["made"]:
            place = os.path.dirname(self.folder)
            disk = os.statvfs(place)
            refuse_full(type(self.cluster), disk.f_bavail * disk.f_frsize, self.params, place)

    def apply(self, steps: list[Step]) -> None:
        if self.present:
            self.cluster.apply(self.folder, self.wanted, steps, self.load)
        else:
            self.cluster.remove()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        if not self.present:
            return shown(steps)
        facts = {"version": self.version, "warehouses": self.params["warehouses"], "folder": self.folder}
        return {**shown(steps), "database": facts}


def refuse_elsewhere(cluster: Cluster, folder: str, kind: str | None, params: DatabaseLoadParams) -> None:
    elsewhere = cluster.folder and cluster.folder != folder
    if elsewhere or kind != cluster.NAME:
        raise Failure(
            "database_elsewhere",
            f"Testbed {params['testbed_id']} has its database in {cluster.folder or folder} already, not "
            + (f"on layer {params['layer']}." if elsewhere else f"as {cluster.TITLE}."),
            "Run the role with database_load_state absent first; a host has one database of a testbed.",
            path=cluster.folder or folder,
        )
