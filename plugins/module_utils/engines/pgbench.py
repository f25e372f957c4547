# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pgbench as the driver of a TPROC-C style load on a PostgreSQL; it writes the log of transactions.py by itself.

pgbench knows no ramp, so what ended before the measured time is left out when the log is read.
"""

from __future__ import annotations

import re
from typing import Any

from . import tproc_c_postgresql
from .tproc_c import KINDS, WEIGHTS
from .transactions import MOST_TRIES

NAME = "pgbench"
RAW = "pgbench.json"
# Since this version it retries what the database refused for the sake of isolation; before, such a virtual user ends.
RETRIES_SINCE = 15
_VERSION = re.compile(r"pgbench \(PostgreSQL\) (\d+)(\S*)")
_PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
_ABORTED = re.compile(r"Run was aborted")


def version_of(text: str) -> tuple[int, str] | None:
    """(15, '15.8') of ``pgbench --version``."""
    match = _VERSION.search(text)
    return (int(match.group(1)), match.group(1) + match.group(2)) if match else None


def scripts() -> dict[str, str]:
    """{file: text} of what it runs."""
    return {f"{kind}.sql": text for kind, text in tproc_c_postgresql.SCRIPTS.items()}


def environment(workload: dict[str, Any]) -> dict[str, str]:
    isolation = workload["isolation"].replace("_", "\\ ")
    return {"PGOPTIONS": f"-c default_transaction_isolation={isolation}", "PGUSER": "storlab"}


def argv(program: str, major: int, workload: dict[str, Any], place: dict[str, Any]) -> list[str]:
    """place: {socket_dir, user, database, scripts: folder with <kind>.sql, log: prefix of the log, processors}."""
    users = workload["virtual_users"]
    files = [word for kind in KINDS for word in ("-f", f"{place['scripts']}/{kind}.sql@{WEIGHTS[kind]}")]
    return [
        program,
        *("-h", place["socket_dir"], "-n", "-c", str(users), "-j", str(min(users, place["processors"]))),
        *("-T", str(workload["ramp_s"] + workload["runtime_s"]), "-D", f"warehouses={workload['warehouses']}"),
        *("-l", f"--log-prefix={place['log']}"),
        *((f"--max-tries={MOST_TRIES}",) if major >= RETRIES_SINCE else ()),
        *files,
        place["database"],
    ]


def aborted(output: str) -> bool:
    """Whether its words show that it ended early, whatever its exit code."""
    return bool(_ABORTED.search(output))


def succeeded(output: str, _failed: int) -> int | None:
    """How many transactions it says were done, without those that were given up; None where it does not say it."""
    match = _PROCESSED.search(output)
    return int(match.group(1)) if match else None
