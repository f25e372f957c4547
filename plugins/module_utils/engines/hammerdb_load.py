# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HammerDB, the user's own copy, as the driver of a private database: the scripts it is given, and a result out of what it said.

Its command line is ``hammerdbcli auto script.tcl``, begun in its own folder (https://www.hammerdb.com/docs). It makes rows and transactions by itself, counts
in minutes, and says two rates, which are the database's own counts; it has no log of transactions. It was not tried against a real copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure
from . import hammerdb
from .transactions import consistent, orders_kept

NAME = "hammerdb"
RAW = "hammerdb.json"
PROGRAM = "hammerdbcli"
MINUTE_S = 60
# The role that owns its rows in PostgreSQL.
OWNER = "tpcc"
# Those of clause 3.3.2 that a TPC-C result has to show; HammerDB's own rows and transactions are held to no more.
CONDITIONS = (1, 2, 3, 4)


def _settings(database: str, place: Mapping[str, object]) -> list[tuple[str, str, object]]:
    """[(dictionary, key, value)]. The private socket lets the system's user in without a password, so what is said as one is never asked for."""
    if database == "postgresql":
        return [
            ("connection", "pg_host", place["socket_dir"]),
            ("connection", "pg_port", 5432),
            ("connection", "pg_sslmode", "disable"),
            ("tpcc", "pg_superuser", "storlab"),
            ("tpcc", "pg_superuserpass", "none"),
            ("tpcc", "pg_defaultdbase", "postgres"),
            ("tpcc", "pg_user", OWNER),
            ("tpcc", "pg_pass", "none"),
            ("tpcc", "pg_dbase", place["database"]),
            ("tpcc", "pg_storedprocs", "true"),
        ]
    return [
        ("connection", "maria_host", "localhost"),
        ("connection", "maria_socket", f"{place['socket_dir']}/socket"),
        ("tpcc", "maria_user", place["user"]),
        ("tpcc", "maria_pass", "none"),
        ("tpcc", "maria_dbase", place["database"]),
        ("tpcc", "maria_storage_engine", "innodb"),
    ]


def _script(database: str, place: Mapping[str, object], more: Mapping[str, object], steps: list[str]) -> str:
    name = {"postgresql": "pg", "mariadb": "maria"}[database]
    settings = [*_settings(database, place), *(("tpcc", f"{name}_{key}", value) for key, value in more.items())]
    lines = [f"diset {dictionary} {key} {{{value}}}" for dictionary, key, value in settings]
    return "\n".join([f"dbset db {name}", "dbset bm TPC-C", *lines, *steps, ""])


def build(database: str, place: dict[str, Any], warehouses: int) -> str:
    """The script that makes the rows, by as many users as there are processors. place: {socket_dir, user, database, processors}."""
    users = min(warehouses, place["processors"])
    return _script(database, place, {"count_ware": warehouses, "num_vu": users}, ["buildschema"])


def drive(database: str, place: Mapping[str, object], workload: dict[str, Any]) -> str:
    minutes = {"rampup": workload["ramp_s"] // MINUTE_S, "duration": workload["runtime_s"] // MINUTE_S}
    more = {"count_ware": workload["warehouses"], "driver": "timed", **minutes, "timeprofile": "false"}
    steps = ["loadscript", f"vuset vu {workload['virtual_users']}", "vucreate", "vurun", "vudestroy"]
    return _script(database, place, more, steps)


def measured(raw: dict[str, Any]) -> dict[str, Any]:
    """Keys of a result, as transactions.measured has them, without transactions by kind, which HammerDB does not report."""
    failures: list[dict[str, Any]] = list(raw.get("failures", ()))
    result: dict[str, Any] = {"engine": {"name": NAME}, "failures": failures, "runtime_s": raw["runtime_s"]}
    if "database" in raw:
        result["database"] = raw["database"]
    consistent(raw, result, failures)
    try:
        run = hammerdb.results(raw.get("said", ""))[-1]
    except Failure as failure:
        if not failures:
            failures.append({"code": failure.code, "message": failure.what})
        return result
    result["engine"] = run["engine"]
    failures += run["failures"]
    if not failures and raw["exit_code"]:
        failures.append({"code": "engine_exit", "message": f"HammerDB ended with exit code {raw['exit_code']}."})
    if "runtime_s" in run and run["runtime_s"] != raw["runtime_s"] and not failures:
        message = f"HammerDB measured {run['runtime_s']} s in the place of {raw['runtime_s']} s."
        failures.append({"code": "log_incomplete", "message": message})
    if "nopm" in run:
        # A rate that is rounded down, of the measured time alone.
        orders_kept(raw, run["nopm"] * raw["runtime_s"] // MINUTE_S, result, failures)
    if not failures:
        result.update({name: float(run[name]) for name in ("tpm", "nopm") if name in run})
    return result
