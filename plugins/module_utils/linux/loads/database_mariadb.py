# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private MariaDB: how its data are made, how it is started, asked and ended. database.py has what all databases share."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from typing import Any, ClassVar

from ...core.failure import Failure
from ..daemon import read_pid, start_ticks
from ..host import run, wait_for
from ..params import DatabaseLoadParams
from .cluster_folder import replace
from .database import DATABASE, MOST_USERS, Cluster, missing, plain

SERVER = ("mariadbd", "mariadb-install-db", "mariadb")
DRIVER = "sysbench"
PLACES = ("/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin")
START_S, SETTLE_S = 120, 600
# A process of its own session, whose pid is known at once, and whose words go to the log.
_DETACHED = 'echo $$ >"$1"; shift; exec "$@" >>"$0" 2>&1 </dev/null'


class Mariadb(Cluster):
    NAME = "mariadb"
    SERVER = "mariadbd"
    TITLE = "MariaDB"
    WHERE = "on this host"
    PACKAGES = "the packages mariadb-server-core, mariadb-client-core and sysbench (Debian, Ubuntu) or mariadb-server and sysbench (others)"
    USERS = ("mysql", "nobody")
    OWN_SETTINGS = frozenset(
        {
            "basedir",
            "bind_address",
            "datadir",
            "extra_port",
            "init_file",
            "innodb_buffer_pool_size",
            "innodb_data_file_path",
            "innodb_data_home_dir",
            "innodb_log_file_size",
            "innodb_log_group_home_dir",
            "innodb_max_dirty_pages_pct",
            "innodb_max_dirty_pages_pct_lwm",
            "innodb_temp_data_file_path",
            "innodb_undo_directory",
            "log_bin",
            "log_error",
            "log_warnings",
            "max_connections",
            "pid_file",
            "plugin_dir",
            "plugin_load",
            "plugin_load_add",
            "port",
            "skip_grant_tables",
            "skip_networking",
            "socket",
            "tmpdir",
            "user",
        }
    )
    # With MariaDB 10.11, beside its log: 112 MiB of system, undo and temporary files after loading, items 18 MiB, a warehouse 145 MiB.
    EMPTY_MIB, WAREHOUSE_MIB = 160, 150
    LEAST_BUFFERS_MIB, LEAST_LOG_MIB = 8, 16
    # It ends in good order, or as if the power were gone.
    PATIENCE_S: ClassVar[dict[signal.Signals, float]] = {signal.SIGTERM: 120, signal.SIGKILL: 20}
    FULL_WORDS = ("No space left on device", "Errcode: 28", "is full", "Disk full", "Disk is full")

    @classmethod
    def find_programs(cls, bin_dir: str | None, places: tuple[str, ...] = PLACES) -> dict[str, str]:
        """The server's in bin_dir, where it is said; each of the others wherever it is found first."""
        programs: dict[str, str] = {}
        for name in (*SERVER, DRIVER):
            folders = (bin_dir,) if bin_dir and name in SERVER else places
            paths = [os.path.join(folder, name) for folder in folders]
            there = [path for path in paths if os.access(path, os.X_OK)]
            if there:
                programs[name] = there[0]
        lacks = [name for name in (*SERVER, DRIVER) if name not in programs]
        if lacks:
            # The driver is looked for in all places, whatever bin_dir says.
            raise missing(cls, lacks, bin_dir if lacks != [DRIVER] else None, [bin_dir] if bin_dir else list(places))
        return programs

    @classmethod
    def version(cls, programs: Mapping[str, str]) -> str:
        """'10.11.14' of 'mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (Debian 12)'."""
        text = run([programs["mariadbd"], "--no-defaults", "--version"]).stdout
        match = re.search(r"\bVer (\d+(?:\.\d+)*)", text)
        return match.group(1) if match else text.strip()

    @staticmethod
    def settings_of(params: DatabaseLoadParams, run_dir: str) -> dict[str, str]:
        return {
            **{name: plain(value) for name, value in sorted(params["settings"].items())},
            "skip_networking": "on",
            "socket": os.path.join(run_dir, "socket"),
            "max_connections": str(MOST_USERS + 20),
            "innodb_buffer_pool_size": f"{params['shared_buffers_mib']}M",
            "innodb_log_file_size": f"{params['max_wal_mib']}M",
            # A client that was ended is not news.
            "log_warnings": "1",
        }

    @property
    def configuration(self) -> str:
        return os.path.join(self.data, "storlab.cnf")

    @property
    def pid_file(self) -> str:
        return os.path.join(self.run_dir, "server.pid")

    def make_data(self) -> None:
        run(
            [
                self.program("mariadb-install-db"),
                # No file of the host's is read. The log has its size from the first start on; until then it is small.
                *("--no-defaults", f"--datadir={self.data}", "--innodb-log-file-size=16M"),
                # The system's user is the database's.
                *("--auth-root-authentication-method=socket", f"--auth-root-socket-user={self.user.pw_name}"),
                *("--skip-test-db", "--skip-name-resolve"),
            ],
            user=self.user,
            timeout_s=600,
            what=f"The database cannot be made in {self.data}",
            remedy=f"See that user {self.user.pw_name} may enter every folder above it.",
        )

    def start_server(self, settings: dict[str, str]) -> dict[str, Any]:
        # In the data's own folder it would be a database.
        temporary = os.path.join(self.folder, "temporary")
        if not os.path.isdir(temporary):
            self.own_folder(temporary)
        own = {"datadir": self.data, "tmpdir": temporary, "pid_file": self.pid_file}
        replace(self.configuration, configuration({**settings, **own}), self.user)
        run(
            [
                *("setsid", "--fork", "sh", "-c", _DETACHED, self.server_log, self.pid_file),
                *(self.program("mariadbd"), f"--defaults-file={self.configuration}"),
            ],
            user=self.user,
        )
        pid = wait_for(lambda: read_pid(self.pid_file), 10)
        if not pid:
            raise Failure("command_failed", "mariadbd was not started.", "Start the role again.")
        # On record at once, so that it is ended whatever happens to this module.
        self.keep_server({"pid": pid})
        wait_for(lambda: start_ticks(pid) is None or self._answers(), START_S)
        if not self._answers():
            raise Failure("command_failed", f"mariadbd does not answer within {START_S} s.", "See its log.")
        return {"pid": pid}

    def _client(self) -> list[Any]:
        socket, user = f"--socket={self.run_dir}/socket", f"--user={self.user.pw_name}"
        return [self.program("mariadb"), "--no-defaults", socket, user, "--batch", "--raw"]

    def _answers(self) -> bool:
        return run([*self._client(), "-e", "SELECT 1"], user=self.user, ok=(0, 1)).returncode == 0

    def keep_private(self) -> None:
        # The server makes root of its own, too; no other than the system's user gets in.
        run([*self._client(), "-e", "DROP USER root@localhost"], user=self.user, what="Its root cannot be removed")

    def make_database(self) -> None:
        # Names and texts are compared byte by byte, as PostgreSQL's are.
        made = f"CREATE DATABASE `{DATABASE}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        run([*self._client(), "-e", made], user=self.user, what="The database cannot be made")

    def client(self, script: str) -> list[Any]:
        return [*self._client(), "--skip-column-names", DATABASE, "-e", f"source {script}"]

    def settle(self) -> None:
        """As PostgreSQL's CHECKPOINT: the server writes all pages that were changed, and what it does is what it would do later anyway."""
        before = self.sql("SELECT @@innodb_max_dirty_pages_pct, @@innodb_max_dirty_pages_pct_lwm").split()
        self.sql("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0; SET GLOBAL innodb_max_dirty_pages_pct = 0;")
        try:
            if not wait_for(lambda: self.dirty_pages() == 0, SETTLE_S, 0.5):
                raise Failure(
                    "database_hung",
                    f"The server of {self.data} has {self.dirty_pages()} pages to write after {SETTLE_S} s.",
                    "Its device is too slow, or does not answer; repair it.",
                    path=self.data,
                )
        finally:
            self.sql(
                f"SET GLOBAL innodb_max_dirty_pages_pct = {before[0]}; SET GLOBAL innodb_max_dirty_pages_pct_lwm = {before[1]};"
            )

    def dirty_pages(self) -> int:
        return int(self.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").split()[1])


def configuration(settings: dict[str, str]) -> str:
    return "[mariadbd]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items())
