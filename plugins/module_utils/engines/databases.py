# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The databases that a load is measured on: what is theirs of tables and transactions, and what drives them. ``run/database.py`` has how they are run."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import pgbench, sysbench, tproc_c_mariadb, tproc_c_postgresql

DEFAULT = "postgresql"


class Load(NamedTuple):
    title: str
    sql: Any  # module with schema(), rows_of_items(), rows_of(warehouse), INDEXES, STATISTICS
    driver: Any  # module with NAME, RAW, version_of, scripts, environment, argv, aborted, succeeded


LOADS = {
    "postgresql": Load("PostgreSQL", tproc_c_postgresql, pgbench),
    "mariadb": Load("MariaDB", tproc_c_mariadb, sysbench),
}
DRIVERS = {load.driver.NAME: load.driver for load in LOADS.values()}


def of_workload(workload: dict[str, Any]) -> str:
    """The database of a point. The first that there was is not named by its points."""
    return str(workload.get("database", DEFAULT))
