# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private PostgreSQL cluster whose data lie on a layer of the testbed: what is there, the plan, its steps.

It is nobody else's: made by initdb as a user without rights, in a folder of its own, reached through a socket in a private folder and through no
network, and ended by its pid. The distribution's own clusters are not looked at.

    <mount point>/storlab-database/storlab.json   whose it is {testbed_id, …}
    <mount point>/storlab-database/data/          the cluster
    /run/storlab-database/<testbed_id>/           socket, log of the server, scripts and log of pgbench: nothing of it lies on what is measured
"""

from __future__ import annotations

import glob
import os
import pwd
import re
import shutil
import signal
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import read_json, write_json
from ..core.names import check_testbed_id
from ..core.steps import shown
from . import datastore, mounts, nfs_mount
from .daemon import end_process, start_ticks, wait_until_gone
from .host import read_text, run
from .record import Record

FOLDER = "storlab-database"
RUN_DIR = "/run/storlab-database"
DATABASE = "load"
PROGRAMS = ("initdb", "pg_ctl", "postgres", "psql", "pgbench")
# Where distributions have them, beside the newest of PostgreSQL's own.
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin")
USERS = ("postgres", "nobody")
MOST_WAREHOUSES = 10_000
MOST_USERS = 256
MIB = 1 << 20
# With PostgreSQL 15: an empty cluster has 38 MiB beside its log, items 14 MiB, a warehouse 103 MiB after loading.
EMPTY_MIB, WAREHOUSE_MIB = 64, 110
FULL, DIED = "database_full", "database_died"
# Of the settings these keep the cluster private; the rest is the user's.
OWN_SETTINGS = {
    "listen_addresses",
    "port",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
    "dynamic_shared_memory_type",
    "data_directory",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "max_connections",
    "shared_buffers",
    "max_wal_size",
    "log_destination",
    "log_min_messages",
    "logging_collector",
    "include",
    "include_dir",
    "include_if_exists",
    "shared_preload_libraries",
}
# As signals for the server: clients are sent away and all is written; ended at once, as if the power were gone; and its last resort.
PATIENCE_S: dict[signal.Signals, float] = {signal.SIGINT: 120, signal.SIGQUIT: 20, signal.SIGKILL: 20}

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
    "user": {"type": "str", "default": ""},
}


# ---------------------------------------------------------------- what is wanted


def check_values(params: dict[str, Any]) -> None:
    """Raises bad_value."""
    for name, least, most in (
        ("warehouses", 1, MOST_WAREHOUSES),
        ("shared_buffers_mib", 1, 1 << 20),
        # Two segments of 16 MiB are the least that the server starts with.
        ("max_wal_mib", 32, 1 << 20),
    ):
        if not least <= params[name] <= most:
            raise bad_value(f"database_load_{name}", params[name], f"Give a number from {least} to {most}.")
    for name, value in params["settings"].items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)) or name in OWN_SETTINGS:
            raise bad_value(
                "database_load_settings",
                name,
                "Name parameters of PostgreSQL, and none that the cluster's privacy or another variable of this role decides.",
            )
        if isinstance(value, (dict, list)) or "\n" in str(value):
            raise bad_value(f"database_load_settings {name}", value, "Give a single value.")


def mount_of(params: dict[str, Any]) -> str:
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
            f"{point} of layer {name} is no mount point.",
            "Build the datastore again.",
            path=point,
        )
    if (layer.get("detail") or {}).get("server"):
        proven = nfs_mount.fsid_of(mount) in nfs_mount.fsids(uuid)
    else:
        proven = mount["source"].startswith("/") and datastore.read_superblock(mount["source"])["uuid"] == uuid
    if not proven:
        raise Failure(
            "database_unproven",
            f"{point} holds another file system than layer {name} ({uuid}), from {mount['source']}.",
            "Build the datastore again.",
            path=point,
        )
    return str(point)


def find_programs(bin_dir: str | None, places: tuple[str, ...] = PLACES) -> str:
    """The folder that has all PROGRAMS, of several versions the newest; raises postgresql_missing."""
    folders = (
        [bin_dir] if bin_dir else [path for place in places for path in sorted(glob.glob(place), key=_numbers)[::-1]]
    )
    for folder in folders:
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in PROGRAMS):
            return folder
    lacks = [name for name in PROGRAMS if not bin_dir or not os.access(os.path.join(bin_dir, name), os.X_OK)]
    raise Failure(
        "postgresql_missing",
        f"PostgreSQL's {', '.join(lacks)} are not {'in ' + bin_dir if bin_dir else 'together in one folder of this host'}.",
        "Install the package postgresql (Debian, Ubuntu) or postgresql-server and postgresql-contrib (others), or say in database_load_bin_dir where they are.",
        looked_in=folders or list(places),
    )


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def user_of(name: str) -> pwd.struct_passwd:
    """The user that the server runs as; raises bad_value. It refuses to run as root."""
    for candidate in [name] if name else USERS:
        try:
            user = pwd.getpwnam(candidate)
        except KeyError:
            continue
        if user.pw_uid != 0:
            return user
    raise bad_value("database_load_user", name, "Name a user of this host other than root.")


def needed_mib(params: dict[str, Any]) -> int:
    return EMPTY_MIB + int(params["warehouses"]) * WAREHOUSE_MIB + int(params["max_wal_mib"])


def refuse_full(free_bytes: int, params: dict[str, Any], place: str) -> None:
    """Raises database_no_space with the arithmetic."""
    needed = needed_mib(params)
    if free_bytes < needed * MIB:
        raise Failure(
            "database_no_space",
            f"{params['warehouses']} warehouses need {needed} MiB ({EMPTY_MIB} MiB for an empty database, {WAREHOUSE_MIB} MiB per warehouse, "
            f"{params['max_wal_mib']} MiB of log), and {place} has {free_bytes // MIB} MiB free.",
            "Lower database_load_warehouses or database_load_max_wal_mib, or make the layer larger.",
            needed_mib=needed,
            free_mib=free_bytes // MIB,
        )


def settings_of(params: dict[str, Any], socket_dir: str) -> dict[str, str]:
    """What the server is told beside PostgreSQL's defaults."""
    return {
        **{name: _plain(value) for name, value in sorted(params["settings"].items())},
        "listen_addresses": "",
        "unix_socket_directories": socket_dir,
        "unix_socket_permissions": "0700",
        "dynamic_shared_memory_type": "mmap",
        "max_connections": str(MOST_USERS + 20),
        "shared_buffers": f"{params['shared_buffers_mib']}MB",
        "max_wal_size": f"{params['max_wal_mib']}MB",
        "log_destination": "stderr",
        "logging_collector": "off",
        # A transaction that is tried again is no news, and thousands of them would fill memory.
        "log_min_messages": "fatal",
    }


def _plain(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def configuration(settings: dict[str, str]) -> str:
    return "".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items())


# ---------------------------------------------------------------- the plan


def plan(current: dict[str, Any], wanted: dict[str, Any]) -> list[Any]:
    """Steps to {warehouses, version, settings}. current: {made, loaded, version, settings, running} as the stamp tells, and whether it runs."""
    steps: list[Any] = []

    def add(op: str, target: str, was: Any, will: Any) -> None:
        steps.append({"op": op, "target": target, "was": was, "will": will})

    # What was interrupted while it was loaded holds rows, and nobody knows which: it says that none are loaded.
    whole = current["made"] and current["loaded"] == wanted["warehouses"] and current["version"] == wanted["version"]
    if current["running"] and (not whole or current["settings"] != wanted["settings"]):
        add("stop", "server", _settings_text(current["settings"]), None)
    if current["made"] and not whole:
        add("remove", "cluster", _rows(current["loaded"]), None)
    if not whole:
        add("make", "cluster", None, f"PostgreSQL {wanted['version']}")
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
    """The database of one testbed on this host."""

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
        return os.path.join(self.record.data["bin_dir"], name)

    # -- what is there

    def pid(self) -> int | None:
        """The server that this testbed started; None when it does not run."""
        pid = self.record.data.get("pid")
        return pid if pid and start_ticks(pid) == self.record.data["start_ticks"] else None

    def stamp(self, folder: str) -> dict[str, Any] | None:
        """What the folder says whose it is; raises database_foreign when it is not this testbed's."""
        if not os.path.lexists(folder):
            return None
        stamp = None if os.path.islink(folder) else read_json(os.path.join(folder, "storlab.json"))
        if not stamp or stamp.get("testbed_id") != self.testbed_id:
            raise Failure(
                "database_foreign",
                f"{folder} is not the database of testbed {self.testbed_id}"
                + (f", but of {stamp['testbed_id']}." if stamp and "testbed_id" in stamp else "."),
                "Remove it if nobody needs it, or use another datastore.",
                path=folder,
            )
        return dict(stamp)

    def current(self, folder: str) -> dict[str, Any]:
        stamp = self.stamp(folder)
        known = stamp or {}
        return {
            "made": stamp is not None,
            "loaded": known.get("loaded", 0),
            "version": known.get("version", ""),
            "settings": known.get("settings", {}),
            "running": self.pid() is not None,
        }

    # -- steps

    def apply(self, folder: str, wanted: dict[str, Any], steps: list[Any], sql: Any) -> None:
        """sql: () -> texts to load one after another, each with how it is called."""
        if not steps:
            return
        self.record.data.update(folder=folder, user=wanted["user"], bin_dir=wanted["bin_dir"])
        self.record.save()
        for step in steps:
            if step["op"] == "stop":
                self.stop()
            elif step["op"] == "remove":
                remove_tree(folder)
            elif step["op"] == "make":
                self._make(wanted)
            elif step["op"] == "start":
                self.start(wanted["settings"])
            elif step["op"] == "load":
                self._load(wanted, sql())
        self._write_stamp(
            {"loaded": wanted["warehouses"], "version": wanted["version"], "settings": wanted["settings"]}
        )

    def _write_stamp(self, more: dict[str, Any]) -> None:
        write_json(os.path.join(self.folder, "storlab.json"), {"testbed_id": self.testbed_id, **more})

    def _make(self, wanted: dict[str, Any]) -> None:
        os.mkdir(self.folder)
        # The server's user goes through it, whatever this process's umask is.
        os.chmod(self.folder, 0o711)  # noqa: S103, names in it are known to all, and what it holds is private
        self._write_stamp({"loaded": 0, "version": wanted["version"], "settings": {}})
        os.mkdir(self.data, mode=0o700)
        os.chown(self.data, self.user.pw_uid, self.user.pw_gid)
        run(
            [
                self.program("initdb"),
                *("--pgdata", self.data, "--username", "storlab", "--encoding", "UTF8", "--locale", "C"),
                *("--auth-local", "peer", "--auth-host", "reject"),
            ],
            user=self.user,
            timeout_s=600,
            what=f"The cluster cannot be made in {self.data}",
            remedy=f"See that user {self.user.pw_name} may enter every folder above it.",
        )
        # The system's user is the database's; no other gets in.
        _append(os.path.join(self.data, "pg_ident.conf"), f"storlab {self.user.pw_name} storlab\n")
        hba = os.path.join(self.data, "pg_hba.conf")
        _replace(hba, "local all all peer map=storlab\n")
        _append(os.path.join(self.data, "postgresql.conf"), "include 'storlab.conf'\n")

    def start(self, settings: dict[str, str]) -> None:
        # What is left of one that was killed, whose locks name a process that was looked for and is gone.
        self.stop()
        if os.path.exists(os.path.join(self.data, "postmaster.pid")):
            os.unlink(os.path.join(self.data, "postmaster.pid"))
        if os.path.isdir(self.run_dir):
            remove_tree(self.run_dir)
        os.makedirs(RUN_DIR, mode=0o755, exist_ok=True)
        memory = os.path.join(self.run_dir, "memory")
        for folder in (self.run_dir, memory):
            os.mkdir(folder, mode=0o700)
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        # Memory that processes share: not on what is measured, and not in /dev/shm, where it would outlive a server that was killed.
        place = os.path.join(self.data, "pg_dynshmem")
        if not os.path.islink(place):
            os.rmdir(place)
            os.symlink(memory, place)
        _replace(os.path.join(self.data, "storlab.conf"), configuration(settings), self.user)
        _replace(self.server_log, "", self.user)
        try:
            run(
                [self.program("pg_ctl"), *("-D", self.data, "-l", self.server_log, "-w", "-t", "120", "-s", "start")],
                user=self.user,
                timeout_s=180,
            )
        except Failure as failure:
            raise Failure(
                "database_not_started",
                f"The server did not start in {self.data}: {self.log_tail() or failure.what}",
                "Correct what it complains of, such as database_load_settings or too little memory.",
                path=self.data,
            ) from None
        pid = int(read_text(os.path.join(self.data, "postmaster.pid")).split()[0])
        self.record.data.update(pid=pid, start_ticks=start_ticks(pid), segments=segments_of(pid))
        self.record.save()

    def _load(self, wanted: dict[str, Any], texts: Any) -> None:
        run(
            [self.program("psql"), *self._connection("postgres"), "-c", f"CREATE DATABASE {DATABASE}"],
            user=self.user,
            what="The database cannot be made",
        )
        for what, text in texts:
            self.sql(text, what=f"Loading {what} failed", timeout_s=3600)

    def _connection(self, database: str = DATABASE) -> list[str]:
        return ["-h", self.run_dir, "-U", "storlab", "-d", database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]

    def sql(self, text: str, what: str = "The database did not answer", timeout_s: float = 600) -> str:
        """What psql prints, columns apart by |."""
        script = os.path.join(self.run_dir, "script.sql")
        _replace(script, text, self.user)
        try:
            done = run(
                [self.program("psql"), *self._connection(), "-f", script],
                user=self.user,
                timeout_s=timeout_s,
                what=what,
            )
        except Failure as failure:
            raise self.explained(failure) from None
        finally:
            os.unlink(script)
        return done.stdout

    def explained(self, failure: Failure) -> Failure:
        """The failure of a client in the light of what became of the server."""
        trouble = self.trouble(failure.what)
        if trouble is None:
            return failure
        code, reason = trouble
        return Failure(code, f"{failure.what} {reason}", "Make the layer larger, or see why the server ended.")

    def trouble(self, words: str = "") -> tuple[str, str] | None:
        """(code, sentence): why the server cannot go on; None when nothing is known of it. words: a client's words."""
        tail = self.log_tail()
        if "No space left on device" in tail + words:
            return FULL, f"The file system of {self.folder} is full."
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
        if not end_process(self.pid, PATIENCE_S) or not wait_until_gone(lambda: processes_in(self.data), 60):
            raise Failure(
                "database_hung",
                f"The server of {self.data} cannot be ended.",
                "Its device does not answer; repair or detach the device.",
                path=self.data,
            )
        if self.record.data.get("segments"):
            free_segments(self.record.data["segments"], self.user.pw_uid)
        for key in ("pid", "start_ticks", "segments"):
            self.record.data.pop(key, None)
        self.record.save()

    def find(self, params: dict[str, Any]) -> None:
        """Know it by its stamp where the record is lost, as after a reboot of a host whose layer kept its data."""
        if self.folder or params["layer"] not in params["layers"]:
            return
        try:
            folder = os.path.join(mount_of(params), FOLDER)
            if self.stamp(folder) is not None:
                self.record.data["folder"] = folder
        except Failure:
            return  # nothing of this testbed's is there

    def plan_absent(self) -> list[Any]:
        if not self.folder:
            return []
        steps = []
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
            remove_tree(self.folder)
        if os.path.isdir(self.run_dir):
            remove_tree(self.run_dir)
        if os.path.isdir(RUN_DIR) and not os.listdir(RUN_DIR):
            os.rmdir(RUN_DIR)
        self.record.remove()


def _replace(path: str, text: str, user: pwd.struct_passwd | None = None) -> None:
    """A small file whose owner stays, or becomes the user. The folder is the database's alone, so nobody puts a link there."""
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
    if user:
        os.chown(path, user.pw_uid, user.pw_gid)


def _append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as handle:
        handle.write(text)


def remove_tree(path: str) -> None:
    """The folder with all in it; what is mounted below is another file system's, and refused."""
    inside = mounts.inside(mounts.read(), os.path.realpath(path))
    if inside:
        raise Failure(
            "database_foreign",
            f"{inside[0]} is mounted in {path}.",
            "Unmount it first.",
            path=path,
            mount_point=inside[0],
        )
    shutil.rmtree(path)


def processes_in(folder: str) -> list[int]:
    """Processes that work in a folder, which is where those of a PostgreSQL server are."""
    pids = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                place = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if place == os.path.realpath(folder) or place.startswith(os.path.realpath(folder) + os.sep):
                pids.append(int(entry))
    return pids


# ---- memory that outlives a server that was killed

_SEGMENT = re.compile(r"/SYSV[0-9a-f]{8} ")


def segments_of(pid: int) -> list[int]:
    """Ids of the System V segments that a server has mapped; other shared memory lies in files of its private folder."""
    maps = read_text(f"/proc/{pid}/maps", default="").splitlines()
    return sorted({int(line.split()[4]) for line in maps if _SEGMENT.search(line)})


def free_segments(segments: list[int], uid: int) -> None:
    """Of what a server had, what is left and nobody uses. Numbers are used again, so owner and users are looked at."""
    table = [line.split() for line in read_text("/proc/sysvipc/shm", default="").splitlines()[1:]]
    left = {int(fields[1]) for fields in table if fields[6] == "0" and int(fields[7]) == uid}
    for segment in segments:
        if segment in left:
            run(["ipcrm", "-m", str(segment)], ok=(0, 1))


# ---------------------------------------------------------------- the module


def ensure(params: dict[str, Any], check_mode: bool, load: Any) -> dict[str, Any]:
    """The result of the module. load: (warehouses) -> [(what, SQL)] that loads them."""
    check_testbed_id("database_load_testbed_id", params["testbed_id"])
    cluster = Cluster(params["testbed_id"])
    if params["state"] == "absent":
        cluster.find(params)
        steps = cluster.plan_absent()
        if not check_mode:
            cluster.remove()
        return shown(steps)
    check_values(params)
    bin_dir, user = find_programs(params["bin_dir"]), user_of(params["user"])
    folder = os.path.join(mount_of(params), FOLDER)
    if cluster.folder and cluster.folder != folder:
        raise Failure(
            "database_elsewhere",
            f"Testbed {params['testbed_id']} has its database in {cluster.folder} already, not on layer {params['layer']}.",
            "Run the role with database_load_state absent first; a host has one database of a testbed.",
            path=cluster.folder,
        )
    version = _version(bin_dir)
    wanted = {
        "warehouses": params["warehouses"],
        "version": version.split(".")[0],
        "settings": settings_of(params, cluster.run_dir),
        "user": user.pw_name,
        "bin_dir": bin_dir,
    }
    current = cluster.current(folder)
    steps = plan(current, wanted)
    if any(step["op"] == "make" for step in steps) and not current["made"]:
        disk = os.statvfs(os.path.dirname(folder))
        refuse_full(disk.f_bavail * disk.f_frsize, params, os.path.dirname(folder))
    if not check_mode:
        cluster.apply(folder, wanted, steps, lambda: load(params["warehouses"]))
    return {**shown(steps), "database": {"version": version, "warehouses": params["warehouses"], "folder": folder}}


def _version(bin_dir: str) -> str:
    """'15.18' of 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'."""
    text = run([os.path.join(bin_dir, "postgres"), "--version"]).stdout
    match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)*)", text)
    return match.group(1) if match else text.strip()
