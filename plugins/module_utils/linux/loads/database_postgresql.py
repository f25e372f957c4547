# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private PostgreSQL: how its cluster is made, started, asked and ended. database.py has what all databases share."""

from __future__ import annotations

import glob
import os
import re
import signal
from collections.abc import Mapping
from typing import Any, ClassVar

from ..host import read_text, run
from ..params import DatabaseLoadParams
from .cluster_folder import append, replace
from .database import DATABASE, MOST_USERS, Cluster, missing, plain

PROGRAMS = ("initdb", "pg_ctl", "postgres", "psql", "pgbench")
# Where distributions have them, beside the newest of PostgreSQL's own.
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin")


class Postgresql(Cluster):
    NAME = "postgresql"
    SERVER = "postgres"
    TITLE = "PostgreSQL"
    WHERE = "together in one folder of this host"
    PACKAGES = "the package postgresql (Debian, Ubuntu) or postgresql-server and postgresql-contrib (others)"
    USERS = ("postgres", "nobody")
    OWN_SETTINGS = frozenset(
        {
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
    )
    # With PostgreSQL 15: an empty cluster has 38 MiB beside its log, items 14 MiB, a warehouse 103 MiB after loading.
    EMPTY_MIB, WAREHOUSE_MIB = 64, 110
    # Two segments of 16 MiB are the least that the server starts with.
    LEAST_BUFFERS_MIB, LEAST_LOG_MIB = 1, 32
    # Clients are sent away and all is written; ended at once, as if the power were gone; and the last resort.
    PATIENCE_S: ClassVar[dict[signal.Signals, float]] = {signal.SIGINT: 120, signal.SIGQUIT: 20, signal.SIGKILL: 20}
    FULL_WORDS = ("No space left on device",)

    @classmethod
    def find_programs(cls, bin_dir: str | None, places: tuple[str, ...] = PLACES) -> dict[str, str]:
        """All PROGRAMS in one folder, of several versions the newest."""
        folders = (
            [bin_dir]
            if bin_dir
            else [path for place in places for path in sorted(glob.glob(place), key=_numbers)[::-1]]
        )
        for folder in folders:
            if all(os.access(os.path.join(folder, name), os.X_OK) for name in PROGRAMS):
                return {name: os.path.join(folder, name) for name in PROGRAMS}
        lacks = [name for name in PROGRAMS if not bin_dir or not os.access(os.path.join(bin_dir, name), os.X_OK)]
        raise missing(cls, lacks, bin_dir, folders or list(places))

    @classmethod
    def version(cls, programs: Mapping[str, str]) -> str:
        """'15.18' of 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'."""
        text = run([programs["postgres"], "--version"]).stdout
        match = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)*)", text)
        return match.group(1) if match else text.strip()

    @staticmethod
    def settings_of(params: DatabaseLoadParams, run_dir: str) -> dict[str, str]:
        return {
            **{name: plain(value) for name, value in sorted(params["settings"].items())},
            "listen_addresses": "",
            "unix_socket_directories": run_dir,
            "unix_socket_permissions": "0700",
            "dynamic_shared_memory_type": "mmap",
            "max_connections": str(MOST_USERS + 20),
            "shared_buffers": f"{params['shared_buffers_mib']}MB",
            "max_wal_size": f"{params['max_wal_mib']}MB",
            "log_destination": "stderr",
            "logging_collector": "off",
            # A transaction that is tried again is not news, and thousands of them would fill memory.
            "log_min_messages": "fatal",
        }

    def make_data(self) -> None:
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
        # The system's user is the database's, and the owner of HammerDB's rows; no other gets in.
        names = "".join(f"storlab {self.user.pw_name} {name}\n" for name in ("storlab", "tpcc"))
        append(os.path.join(self.data, "pg_ident.conf"), names)
        replace(os.path.join(self.data, "pg_hba.conf"), "local all all peer map=storlab\n")
        append(os.path.join(self.data, "postgresql.conf"), "include 'storlab.conf'\n")

    def start_server(self, settings: dict[str, str]) -> dict[str, Any]:
        # The remains of one that was killed, whose locks name a process that was looked for and is gone.
        pid_file = os.path.join(self.data, "postmaster.pid")
        if os.path.exists(pid_file):
            os.unlink(pid_file)
        # Memory that processes share: not on what is measured, and not in /dev/shm, where it would outlive a server that was killed.
        memory, place = os.path.join(self.run_dir, "memory"), os.path.join(self.data, "pg_dynshmem")
        self.own_folder(memory)
        if not os.path.islink(place):
            os.rmdir(place)
            os.symlink(memory, place)
        replace(os.path.join(self.data, "storlab.conf"), configuration(settings), self.user)
        run(
            [self.program("pg_ctl"), *("-D", self.data, "-l", self.server_log, "-w", "-t", "120", "-s", "start")],
            user=self.user,
            timeout_s=180,
        )
        return self.known_of(int(read_text(pid_file).split()[0]))

    def known_of(self, pid: int) -> dict[str, Any]:
        return {"pid": pid, "segments": segments_of(pid)}

    def make_database(self) -> None:
        run(
            [self.program("psql"), *self._connection("postgres"), "-c", f"CREATE DATABASE {DATABASE}"],
            user=self.user,
            what="The database cannot be made",
        )

    def _connection(self, database: str = DATABASE) -> list[str]:
        return ["-h", self.run_dir, "-U", "storlab", "-d", database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]

    def client(self, script: str) -> list[Any]:
        return [self.program("psql"), *self._connection(), "-f", script]

    def settle(self) -> None:
        self.sql("CHECKPOINT;")

    def clear(self) -> None:
        if self.record.data.get("segments"):
            free_segments(self.record.data["segments"], self.user.pw_uid)


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def configuration(settings: dict[str, str]) -> str:
    return "".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items())


# ---- memory that outlives a server that was killed

_SEGMENT = re.compile(r"/SYSV[0-9a-f]{8} ")


def segments_of(pid: int) -> list[int]:
    """Ids of the System V segments that a server has mapped; other shared memory is in files of its private folder."""
    maps = read_text(f"/proc/{pid}/maps", default="").splitlines()
    return sorted({int(line.split()[4]) for line in maps if _SEGMENT.search(line)})


def free_segments(segments: list[int], uid: int) -> None:
    """The remains of a server that no process uses. Numbers are used again, so owner and users are looked at."""
    table = [line.split() for line in read_text("/proc/sysvipc/shm", default="").splitlines()[1:]]
    left = {int(fields[1]) for fields in table if fields[6] == "0" and int(fields[7]) == uid}
    for segment in segments:
        if segment in left:
            run(["ipcrm", "-m", str(segment)], ok=(0, 1))
