# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sysbench as the driver of a TPROC-C style load on a MariaDB, with a script of our own that writes the log of transactions.py.

sysbench 1.0 knows no ramp, so what ended before the measured time is left out when the log is read.
"""

from __future__ import annotations

import re
from typing import Any

from . import tproc_c_mariadb
from .transactions import MOST_TRIES

NAME = "sysbench"
RAW = "sysbench.json"
_VERSION = re.compile(r"sysbench (\d+)(\S*)")
_EVENTS = re.compile(r"total number of events:\s+(\d+)")
# Deadlock, lock waited for too long, and a row that was changed since it was read: the transaction was rolled back whole.
_REFUSED = "1213,1205,1020"


def version_of(text: str) -> tuple[int, str] | None:
    """(1, '1.0.20') of ``sysbench --version``."""
    match = _VERSION.search(text)
    return (int(match.group(1)), match.group(1) + match.group(2)) if match else None


def scripts() -> dict[str, str]:
    return {"tproc_c.lua": tproc_c_mariadb.SCRIPT}


def environment(_workload: dict[str, Any]) -> dict[str, str]:
    return {}


def argv(program: str, _major: int, workload: dict[str, Any], place: dict[str, object]) -> list[str]:
    """place: {socket_dir, user, database, scripts: folder of them, log: prefix of the log, processors}."""
    return [
        program,
        f"{place['scripts']}/tproc_c.lua",
        *("--db-driver=mysql", f"--mysql-socket={place['socket_dir']}/socket", f"--mysql-user={place['user']}"),
        *(f"--mysql-db={place['database']}", f"--mysql-ignore-errors={_REFUSED}"),
        *(
            f"--threads={workload['virtual_users']}",
            "--events=0",
            f"--time={workload['ramp_s'] + workload['runtime_s']}",
        ),
        *(f"--warehouses={workload['warehouses']}", f"--isolation={workload['isolation'].replace('_', ' ')}"),
        *(f"--tries={MOST_TRIES}", f"--log={place['log']}", "run"),
    ]


def aborted(output: str) -> bool:
    """Whether its words show that it ended early, whatever its exit code."""
    return "FATAL:" in output


def succeeded(output: str, failed: int) -> int | None:
    """How many transactions it says were done; None where it does not say it. failed: those that were given up, which are events to it, too."""
    match = _EVENTS.search(output)
    return int(match.group(1)) - failed if match else None
