# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One point of the load on a private database: pgbench beside the host's counters, then the conditions of the data.

What is kept is ``raw``, which the figures are made of (``engines/pgbench.measured``), and ``meta``, what the host noted.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.times import utc
from ..engines import pgbench, tproc_c
from ..linux import counters, postgres
from ..linux.daemon import patience
from ..linux.host import as_user, run
from ..linux.meter import Meter
from ..linux.postgres import DATABASE, MOST_USERS, Cluster

ISOLATION = {
    "read_committed": "read committed",
    "repeatable_read": "repeatable read",
    "serializable": "serializable",
}
# What the driver may take beyond its time to end its last transactions.
GRACE_S = 120
# The log of transactions lies in memory; the host needs some of it for itself.
LEAST_FREE_BYTES = 32 << 20
POLL_S = 0.1
STEPPED_S = 0.5

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
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


def load_texts(warehouses: int) -> Iterator[tuple[str, str]]:
    """(what, SQL) of all that makes a new database one that can be measured."""
    yield "the tables", tproc_c.schema()
    yield "the items", tproc_c.rows_of_items()
    for number in range(1, warehouses + 1):
        yield f"warehouse {number} of {warehouses}", tproc_c.rows_of(number)
    yield "the indexes", tproc_c.INDEXES
    yield "the statistics", "VACUUM ANALYZE; CHECKPOINT;"


def ensure(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module database_load: a database that runs and whose rows were found to meet every condition, or none."""
    result = postgres.ensure(params, check_mode, load_texts)
    if any(step["op"] == "load" for step in result["steps"]) and not check_mode:
        refuse_wrong_rows(Cluster(params["testbed_id"]))
    return result


def refuse_wrong_rows(cluster: Cluster) -> None:
    """Raises database_inconsistent when what was loaded does not meet the conditions."""
    broken = [
        check for check in tproc_c.read_consistency(cluster.sql(tproc_c.consistency(loaded=True))) if not check["ok"]
    ]
    if broken:
        first = broken[0]
        raise Failure(
            "database_inconsistent",
            f"Of the rows as loaded condition {first['condition']} does not hold ({first['text']}), such as {first.get('example')}.",
            "Remove the database and load it again.",
            conditions=broken,
        )


def measure(params: dict[str, Any]) -> dict[str, Any]:
    """{raw, meta}. What goes wrong while it runs is in raw['failures']; Failure is for what keeps it from beginning."""
    check_values(params)
    cluster = Cluster(params["testbed_id"])
    stamp = cluster.stamp(cluster.folder) if cluster.folder else None
    if not stamp or not stamp.get("loaded") or not cluster.pid():
        raise Failure(
            "database_missing",
            f"Testbed {params['testbed_id']} has no database on this host that runs.",
            "Run the role database_load with state present first.",
        )
    if stamp["loaded"] != params["warehouses"]:
        raise bad_value(
            "database_load_warehouses",
            params["warehouses"],
            f"The database on this host has {stamp['loaded']}; run the role database_load with state present first.",
        )
    version = pgbench.version_of(run([cluster.program("pgbench"), "--version"]).stdout)
    if version is None:
        raise Failure("postgresql_missing", "pgbench does not say its version.", "Install the package postgresql.")
    scratch = os.path.join(cluster.run_dir, "point")
    shutil.rmtree(scratch, ignore_errors=True)
    os.mkdir(scratch, mode=0o700)
    os.chown(scratch, cluster.user.pw_uid, cluster.user.pw_gid)
    try:
        return _measured(cluster, params, version, scratch, stamp["settings"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _measured(
    cluster: Cluster, workload: dict[str, Any], version: tuple[int, str], scratch: str, settings: dict[str, str]
) -> dict[str, Any]:
    for kind, text in tproc_c.SCRIPTS.items():
        path = os.path.join(scratch, f"{kind}.sql")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(path, 0o644)
    place = {
        "socket_dir": cluster.run_dir,
        "database": DATABASE,
        "scripts": scratch,
        "log": os.path.join(scratch, "transactions"),
        "processors": len(os.sched_getaffinity(0)),
    }
    argv = pgbench.argv(cluster.program("pgbench"), version[0], workload, place)
    raw: dict[str, Any] = {
        "version": version[1],
        "runtime_s": workload["runtime_s"],
        "settings": {name: value for name, value in settings.items() if name != "unix_socket_directories"},
        # Without folders of this host.
        "arguments": [
            os.path.basename(word) if word.startswith("/") else word.replace(scratch, ".") for word in argv[1:]
        ],
        "failures": [],
    }
    # What was written before is not to be written during the point.
    raw["placed_before"] = int(cluster.sql("CHECKPOINT;\n" + tproc_c.PLACED))
    meta: dict[str, Any] = {}
    raw.update(_driven(cluster, argv, workload, scratch, meta, raw["failures"]))
    trouble = cluster.trouble(raw["said_errors"]) if raw["exit_code"] else None
    if trouble:
        raw["failures"].insert(0, dict(zip(("code", "message"), trouble)))
    else:
        try:
            raw["placed_after"] = int(cluster.sql(tproc_c.PLACED))
            raw["consistency"] = tproc_c.read_consistency(cluster.sql(tproc_c.consistency(loaded=False)))
        except Failure as failure:
            raw["failures"].append({"code": failure.code, "message": failure.what})
    return {"raw": raw, "meta": meta}


def _driven(
    cluster: Cluster,
    argv: list[str],
    workload: dict[str, Any],
    scratch: str,
    meta: dict[str, Any],
    failures: list[Any],
) -> dict[str, Any]:
    """Run the driver to its end: {exit_code, said, said_errors, log}; fills meta with what the host counted."""
    ramp_s, runtime_s = workload["ramp_s"], workload["runtime_s"]
    out, errors = (os.path.join(scratch, name) for name in ("stdout", "stderr"))
    options = f"-c default_transaction_isolation={ISOLATION[workload['isolation']]}".replace(
        "read ", "read\\ "
    ).replace("repeatable ", "repeatable\\ ")
    meter = Meter(counters.device_number(cluster.folder), ramp_s, runtime_s)
    begun_s, begun_unix_s = time.monotonic(), time.time()
    with open(out, "wb") as stdout, open(errors, "wb") as stderr:
        driver = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "LC_ALL": "C", "PGOPTIONS": options, "PGUSER": "storlab"},
            **as_user(cluster.user),
        )
        try:
            deadline = begun_s + ramp_s + runtime_s + GRACE_S
            while driver.poll() is None:
                meter.look(driver.pid)
                disk = os.statvfs(scratch)
                if disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES:
                    failures.append(
                        {"code": "log_incomplete", "message": f"The log of transactions has filled {cluster.run_dir}."}
                    )
                elif time.monotonic() > deadline:
                    failures.append(
                        {"code": "too_long", "message": f"pgbench did not end within {GRACE_S} s of its time."}
                    )
                if failures:
                    break
                time.sleep(min(POLL_S, meter.next_s()))
        finally:
            _end(driver)
            meter.end()
    meta.update(started_utc=utc(begun_unix_s), finished_utc=utc(time.time()))
    if abs(time.time() - begun_unix_s - (time.monotonic() - begun_s)) > STEPPED_S:
        failures.append({"code": "clock_stepped", "message": "The host's clock was set while the point was measured."})
    changed = meter.changed()
    if changed:
        meta["counters"] = counters.figures_of(changed)
    begin_us = int((begun_unix_s + ramp_s) * 1e6)
    log = pgbench.read_log(_lines(scratch), begin_us, begin_us + runtime_s * 1_000_000)
    return {
        "exit_code": driver.returncode,
        "said": _text(out).replace(scratch, "."),
        "said_errors": _text(errors).replace(scratch, "."),
        "log": log,
    }


def _end(driver: subprocess.Popen[bytes]) -> None:
    """Nothing outlives a point, whatever ended it."""
    for number, timeout_s in patience(10).items():
        if driver.poll() is not None:
            return
        driver.send_signal(signal.Signals(number))
        try:
            driver.wait(timeout_s)
        except subprocess.TimeoutExpired:
            continue


def _lines(scratch: str) -> Iterator[str]:
    for path in sorted(glob.glob(os.path.join(glob.escape(scratch), "transactions.*"))):
        with open(path, encoding="ascii", errors="replace") as handle:
            yield from handle


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return re.sub(r"[ \t]+\n", "\n", handle.read())[-8000:]
