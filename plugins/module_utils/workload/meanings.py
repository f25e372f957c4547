# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between engines in the same workload. They are flags of a result, so that no such difference is taken for one of the storage.

- *think time* with several I/Os in flight: fio waits until all of them have ended before it pauses (io_u_quiesce of its backend.c).
- *workers* whose I/O is sequential, in whole or in part: fio gives each a part of the range. IOMeter's all begin where the range does; diskspd's
  begin in a part each and run on through the parts of the others, and share the range where a part of the I/O is random.
- *reads and writes* that are mixed and sequential, in whole or in part: fio knows where the last one of each direction ended (last_pos of its io_u.c),
  IOMeter (TargetDisk::Seek) and diskspd (ThreadTargetState of its Common.h) know where the last one ended, whatever it was. Half of fio's sequential
  I/Os of an even mix therefore lie elsewhere than the I/O before them, and none of theirs.
"""

from __future__ import annotations

from .workload import Workload

DIFFERENCES = {
    "think_time_in_flight": "the workload pauses with several I/Os in flight: fio lets all of them end first, diskspd and IOMeter do not, so compare it with "
    "results of the same engine only",
    "workers_not_apart": "several workers have sequential I/O, in whole or in part: fio gives each a part of the range, diskspd and IOMeter do not keep them "
    "apart, so compare it with results of the same engine only",
    "directions_apart": "reads and writes are mixed and sequential, in whole or in part: fio's go on from where the last of their own direction ended, "
    "diskspd's and IOMeter's from where the last I/O ended, so compare it with results of the same engine only",
    "several_targets": "a worker had several targets at the same time, and its queue depth applies to all of them together",
}


def meanings(workload: Workload, workers_apart: bool) -> list[str]:
    """The flags (keys of DIFFERENCES) of a workload that an engine has run or is to run.

    workers_apart: whether that engine gives each of several workers with sequential I/O a part of the range.
    """
    flags = []
    if workload.get("think_time_us") and workload.get("queue_depth", 1) > 1:
        flags.append("think_time_in_flight")
    if not workers_apart and workload.get("workers", 1) > 1 and workload.get("random_percent", 100) < 100:
        flags.append("workers_not_apart")
    if 0 < workload.get("read_percent", 100) < 100 and workload.get("random_percent", 100) < 100:
        flags.append("directions_apart")
    return flags
