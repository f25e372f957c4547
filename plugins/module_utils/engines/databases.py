# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The databases that a load is measured on: what is theirs of tables and transactions, and what drives them. ``run/database.py`` has how they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from . import hammerdb_load, pgbench, sysbench, tproc_c_mariadb, tproc_c_postgresql, transactions

DEFAULT = "postgresql"


class Driver(NamedTuple):
    name: str  # and that of its program
    raw: str  # file with what it said
    version_of: Callable[[str], tuple[int, str] | None]  # (what --version says)
    scripts: Callable[[], dict[str, str]]  # {file: text} of what it runs
    environment: Callable[[dict[str, Any]], dict[str, str]]  # (workload)
    argv: Callable[..., list[str]]  # (program, major version, workload, place)
    aborted: Callable[[str], bool]  # (its words): whether it ended early, whatever its exit code
    succeeded: Callable[[str, int], int | None]  # (its words, transactions given up): how many it says were done


class Load(NamedTuple):
    title: str
    driver: Driver
    schema: Callable[[], str]
    rows_of_items: Callable[[], str]
    rows_of: Callable[[int], str]  # (number of a warehouse)
    indexes: str
    statistics: str


LOADS = {
    "postgresql": Load(
        "PostgreSQL",
        Driver(
            pgbench.NAME,
            pgbench.RAW,
            pgbench.version_of,
            pgbench.scripts,
            pgbench.environment,
            pgbench.argv,
            pgbench.aborted,
            pgbench.succeeded,
        ),
        tproc_c_postgresql.schema,
        tproc_c_postgresql.rows_of_items,
        tproc_c_postgresql.rows_of,
        tproc_c_postgresql.INDEXES,
        tproc_c_postgresql.STATISTICS,
    ),
    "mariadb": Load(
        "MariaDB",
        Driver(
            sysbench.NAME,
            sysbench.RAW,
            sysbench.version_of,
            sysbench.scripts,
            sysbench.environment,
            sysbench.argv,
            sysbench.aborted,
            sysbench.succeeded,
        ),
        tproc_c_mariadb.schema,
        tproc_c_mariadb.rows_of_items,
        tproc_c_mariadb.rows_of,
        tproc_c_mariadb.INDEXES,
        tproc_c_mariadb.STATISTICS,
    ),
}
DRIVERS = {load.driver.name: load.driver for load in LOADS.values()}
# {engine: its file}. HammerDB drives any of the databases where the user has it.
RAWS = {**{driver.name: driver.raw for driver in DRIVERS.values()}, hammerdb_load.NAME: hammerdb_load.RAW}


def of_workload(workload: Mapping[str, object]) -> str:
    """The database of a point. The first that there was is not named by its points."""
    return str(workload.get("database", DEFAULT))


def engine_of(workload: Mapping[str, object]) -> str:
    """The driver of a point: the database's own, where none is named."""
    return str(workload.get("driver") or LOADS[of_workload(workload)].driver.name)


def measured(engine: str, raw: dict[str, Any]) -> dict[str, Any]:
    """Keys of a result out of what the host kept."""
    return hammerdb_load.measured(raw) if engine == hammerdb_load.NAME else transactions.measured(raw, DRIVERS[engine])
