# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One point of the load on a private database: its driver beside the host's counters, then the conditions of the data.

The point keeps ``raw``, which the figures are made of (``engines/transactions.measured``), and ``meta``, the host's notes.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import write_whole
from ..core.names import check_testbed_id
from ..core.times import utc
from ..engines import databases, hammerdb_load, tproc_c, transactions
from ..linux.daemon import patience
from ..linux.host import as_user, run
from ..linux.loads import database as linux
from ..linux.loads.database import DATABASE, MOST_USERS, Cluster
from ..linux.loads.database_mariadb import Mariadb
from ..linux.loads.database_postgresql import Postgresql
from ..linux.record import Record
from ..linux.watch import counters
from ..linux.watch.meter import Meter

# A database more is a line here and one in engines/databases.py.
CLUSTERS: dict[str, type[Cluster]] = {"postgresql": Postgresql, "mariadb": Mariadb}
ISOLATION = ("read_committed", "repeatable_read", "serializable")
# The time that the driver may need beyond its own to end its last transactions.
GRACE_S = 120
# The log of transactions is in memory; the host needs some of it for itself.
LEAST_FREE_BYTES = 32 << 20
POLL_S = 0.1
# HammerDB may take so long for a warehouse, and says some lines for each user.
BUILD_S = 3600
MOST_OUTPUT = 64_000
STEPPED_S = 0.5

_DATABASE = {"database": {"type": "str", "choices": list(CLUSTERS), "default": databases.DEFAULT}}
LOAD_SPEC: dict[str, Any] = {**linux.SPEC, **_DATABASE}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    **_DATABASE,
    "hammerdb_dir": {"type": "path"},
    "warehouses": {"type": "int", "default": 1},
    "virtual_users": {"type": "int", "default": 4},
    "ramp_s": {"type": "int", "default": 60},
    "runtime_s": {"type": "int", "default": 300},
    "isolation": {"type": "str", "choices": list(ISOLATION), "default": "read_committed"},
}


def check_values(params: dict[str, Any]) -> None:
    """Raises bad_value."""
    for name, least, most in (("virtual_users", 1, MOST_USERS), ("ramp_s", 0, 86400), ("runtime_s", 1, 7 * 86400)):
        if not least <= params[name] <= most:
            raise bad_value(f"database_load_{name}", params[name], f"Give a number from {least} to {most}.")
        if params["hammerdb_dir"] and name != "virtual_users" and params[name] % hammerdb_load.MINUTE_S:
            raise bad_value(f"database_load_{name}", params[name], "HammerDB counts in minutes; give a multiple of 60.")
    if params["hammerdb_dir"] and params["isolation"] != "read_committed":
        raise bad_value("database_load_isolation", params["isolation"], "HammerDB decides on it; leave it out.")


def check_hammerdb(folder: str | None) -> None:
    """Raises hammerdb_missing."""
    if folder and not os.access(os.path.join(folder, hammerdb_load.PROGRAM), os.X_OK):
        raise Failure(
            "hammerdb_missing",
            f"{hammerdb_load.PROGRAM} is not in {folder}.",
            "Say in database_load_hammerdb_dir where your copy of HammerDB is on this host, or leave it out.",
            path=folder,
        )


def hammerdb_argv(folder: str, script: str) -> list[str]:
    """It finds its own parts only from its own folder."""
    return ["sh", "-c", 'cd "$0" && exec "$@"', folder, f"./{hammerdb_load.PROGRAM}", "auto", script]


def build_by_hammerdb(cluster: Cluster, params: dict[str, Any]) -> None:
    """Raises hammerdb_failed when the rows are not there afterwards, whatever it said."""
    place = {**_place(cluster), "processors": len(os.sched_getaffinity(0))}
    scratch = _scratch(cluster)
    try:
        script = _written(scratch, "build.tcl", hammerdb_load.build(cluster.NAME, place, params["warehouses"]))
        output = run(
            hammerdb_argv(params["hammerdb_dir"], script),
            user=cluster.user,
            environment={"TMP": scratch},
            timeout_s=BUILD_S * params["warehouses"],
            what="HammerDB did not make its rows",
        ).stdout
    except Failure as failure:
        raise cluster.explained(failure) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    try:
        there = cluster.sql("SELECT count(*) FROM warehouse").strip()
    except Failure as failure:
        there = failure.what
    if there != str(params["warehouses"]):
        raise Failure(
            "hammerdb_failed",
            f"HammerDB made no {params['warehouses']} warehouses ({there}); it said: {' '.join(output.split())[-300:]}",
            "See that your copy of HammerDB is of version 4.6 or later and has its library for this database.",
        )


def load_texts(database: str, warehouses: int) -> Iterator[tuple[str, str]]:
    """(what, SQL) of all that makes a new database one that can be measured."""
    load = databases.LOADS[database]
    yield "the tables", load.schema()
    yield "the items", load.rows_of_items()
    for number in range(1, warehouses + 1):
        yield f"warehouse {number} of {warehouses}", load.rows_of(number)
    yield "the indexes", load.indexes
    yield "the statistics", load.statistics


def cluster_of(testbed_id: str, otherwise: str) -> Cluster:
    """The database that a testbed has on this host, of whatever kind; where it has none, one of the kind that is asked for."""
    return CLUSTERS[Record(testbed_id, "database").data.get("database", otherwise)](testbed_id)


class Area(linux.Area):
    """For the module database_load: a database that runs and whose rows were found to meet every condition, or none."""

    def cluster_wanted(self) -> Cluster:
        params = self.params
        check_testbed_id("database_load_testbed_id", params["testbed_id"])
        if not self.present:
            return cluster_of(params["testbed_id"], params["database"])
        check_hammerdb(params["hammerdb_dir"])
        self.driver = hammerdb_load.NAME if params["hammerdb_dir"] else None
        return CLUSTERS[params["database"]](params["testbed_id"])

    def load(self, cluster: Cluster) -> None:
        if self.driver:
            build_by_hammerdb(cluster, self.params)
        else:
            cluster.load(load_texts(cluster.NAME, self.params["warehouses"]))
        # Before its stamp calls it loaded.
        refuse_wrong_rows(cluster, hammerdb_load.CONDITIONS if self.driver else tproc_c.CONDITIONS)


def refuse_wrong_rows(cluster: Cluster, conditions: Collection[int] = tproc_c.CONDITIONS) -> None:
    """Raises database_inconsistent when what was loaded does not meet the conditions."""
    rows = cluster.sql(tproc_c.consistency(loaded=True, only=conditions))
    broken = [check for check in tproc_c.read_consistency(rows) if not check["ok"]]
    if broken:
        first = broken[0]
        raise Failure(
            "database_inconsistent",
            f"Condition {first['condition']} does not hold for the rows as loaded ({first['text']}), such as {first.get('example')}.",
            "Remove the database and load it again.",
            conditions=broken,
        )


def measure(params: dict[str, Any]) -> dict[str, Any]:
    """{raw, meta}. A fault while it runs is in raw['failures']; Failure is for a fault that keeps it from beginning."""
    check_values(params)
    cluster = cluster_of(params["testbed_id"], params["database"])
    stamp = cluster.stamp(cluster.folder) if cluster.folder else None
    if not stamp or not stamp.get("loaded") or not cluster.pid():
        raise Failure(
            "database_missing",
            f"Testbed {params['testbed_id']} has no database on this host that runs.",
            "Run the role database_load with state present first.",
        )
    if params["database"] != cluster.NAME:
        raise bad_value(
            "database_load_database",
            params["database"],
            f"The database on this host is {cluster.TITLE}; run the role database_load with state absent and then present first.",
        )
    if stamp["loaded"] != params["warehouses"]:
        raise bad_value(
            "database_load_warehouses",
            params["warehouses"],
            f"The database on this host has {stamp['loaded']}; run the role database_load with state present first.",
        )
    if (stamp.get("driver") == hammerdb_load.NAME) != bool(params["hammerdb_dir"]):
        raise bad_value(
            "database_load_hammerdb_dir",
            params["hammerdb_dir"],
            f"The rows on this host are {'' if stamp.get('driver') else 'not '}HammerDB's; run the role database_load with state present first.",
        )
    check_hammerdb(params["hammerdb_dir"])
    scratch = _scratch(cluster)
    try:
        return _measured(cluster, params, scratch, stamp)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch(cluster: Cluster) -> str:
    scratch = os.path.join(cluster.run_dir, "point")
    shutil.rmtree(scratch, ignore_errors=True)
    cluster.own_folder(scratch)
    return scratch


def _written(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    write_whole(path, text.encode())
    return path


def _place(cluster: Cluster) -> dict[str, object]:
    return {"socket_dir": cluster.run_dir, "user": cluster.user.pw_name, "database": DATABASE}


def _prepared(
    cluster: Cluster, workload: dict[str, Any], scratch: str
) -> tuple[str, str | None, list[str], dict[str, str]]:
    """(name of the driver, its version where it prints one before, command line, environment)."""
    if workload["hammerdb_dir"]:
        script = _written(scratch, "run.tcl", hammerdb_load.drive(cluster.NAME, _place(cluster), workload))
        return hammerdb_load.NAME, None, hammerdb_argv(workload["hammerdb_dir"], script), {"TMP": scratch}
    driver = databases.LOADS[cluster.NAME].driver
    version = driver.version_of(run([cluster.program(driver.name), "--version"]).stdout)
    if version is None:
        raise Failure(
            "command_failed", f"{driver.name} does not say its version.", f"Install {cluster.PACKAGES} again."
        )
    for name, text in driver.scripts().items():
        _written(scratch, name, text)
    place = {
        **_place(cluster),
        "scripts": scratch,
        "log": os.path.join(scratch, "transactions"),
        "processors": len(os.sched_getaffinity(0)),
    }
    argv = driver.argv(cluster.program(driver.name), version[0], workload, place)
    return driver.name, version[1], argv, driver.environment(workload)


def _measured(cluster: Cluster, workload: dict[str, object], scratch: str, stamp: dict[str, Any]) -> dict[str, Any]:
    name, version, argv, environment = _prepared(cluster, workload, scratch)
    raw: dict[str, Any] = {
        **({"version": version} if version else {}),
        "database": {"name": cluster.TITLE, "version": cluster.version(cluster.record.data["programs"])},
        "runtime_s": workload["runtime_s"],
        "settings": {name: value for name, value in stamp["settings"].items() if cluster.run_dir not in value},
        # Without folders of this host.
        "arguments": [_without_folders(word, scratch, cluster.run_dir) for word in argv[1:]],
        "failures": [],
    }
    # Data from before must not be written during the point.
    cluster.settle()
    raw["placed_before"] = int(cluster.sql(tproc_c.PLACED))
    meta: dict[str, Any] = {}
    raw.update(_driven(cluster, name, argv, environment, workload, scratch, meta, raw["failures"]))
    trouble = cluster.trouble(raw["said_errors"]) if raw["exit_code"] else None
    if trouble:
        raw["failures"].insert(0, dict(zip(("code", "message"), trouble)))
    else:
        try:
            conditions = hammerdb_load.CONDITIONS if name == hammerdb_load.NAME else tproc_c.CONDITIONS
            raw["placed_after"] = int(cluster.sql(tproc_c.PLACED))
            raw["consistency"] = tproc_c.read_consistency(
                cluster.sql(tproc_c.consistency(loaded=False, only=conditions))
            )
        except Failure as failure:
            raw["failures"].append(failure.as_fault())
    return {"raw": raw, "meta": meta}


def _without_folders(word: str, scratch: str, run_dir: str) -> str:
    return os.path.basename(word) if word.startswith("/") else word.replace(scratch, ".").replace(run_dir, ".")


def _driven(
    cluster: Cluster,
    name: str,
    argv: list[str],
    environment: dict[str, str],
    workload: dict[str, Any],
    scratch: str,
    meta: dict[str, Any],
    failures: list[Any],
) -> dict[str, object]:
    """Run the driver to its end: {exit_code, said, said_errors, log}; fills meta with what the host counted."""
    ramp_s, runtime_s = workload["ramp_s"], workload["runtime_s"]
    out, errors = (os.path.join(scratch, name) for name in ("stdout", "stderr"))
    meter = Meter(counters.device_number(cluster.folder), ramp_s, runtime_s)
    begun_s, begun_unix_s = time.monotonic(), time.time()
    with open(out, "wb") as stdout, open(errors, "wb") as stderr:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "LC_ALL": "C", **environment},
            **as_user(cluster.user),
        )
        try:
            deadline = begun_s + ramp_s + runtime_s + GRACE_S
            while process.poll() is None:
                meter.look(process.pid)
                disk = os.statvfs(scratch)
                if disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES:
                    failures.append(
                        Failure("log_incomplete", f"The log of transactions has filled {cluster.run_dir}.").as_fault()
                    )
                elif time.monotonic() > deadline:
                    failures.append(
                        Failure("too_long", f"{name} did not end within {GRACE_S} s of its time.").as_fault()
                    )
                if failures:
                    break
                time.sleep(min(POLL_S, meter.next_s()))
        finally:
            _end(process)
            meter.end()
    meta.update(started_utc=utc(begun_unix_s), finished_utc=utc(time.time()))
    if abs(time.time() - begun_unix_s - (time.monotonic() - begun_s)) > STEPPED_S:
        failures.append(Failure("clock_stepped", "The host's clock was set while the point was measured.").as_fault())
    changed = meter.changed()
    if changed:
        meta["counters"] = counters.figures_of(changed)
    kept = {
        "exit_code": process.returncode,
        "said": _text(out).replace(scratch, "."),
        "said_errors": _text(errors).replace(scratch, "."),
    }
    if name == hammerdb_load.NAME:
        return kept  # which has no log of transactions
    begin_us = int((begun_unix_s + ramp_s) * 1e6)
    return {
        **kept,
        "log": transactions.read_log(_lines(scratch), begin_us, begin_us + runtime_s * 1_000_000),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing outlives a point, whatever ended it."""
    for number, timeout_s in patience(10).items():
        if process.poll() is not None:
            return
        process.send_signal(signal.Signals(number))
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            continue


def _lines(scratch: str) -> Iterator[str]:
    for path in sorted(glob.glob(os.path.join(glob.escape(scratch), "transactions.*"))):
        with open(path, encoding="ascii", errors="replace") as handle:
            yield from handle


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return re.sub(r"[ \t]+\n", "\n", handle.read())[-MOST_OUTPUT:]
