# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a test ran, from local times without a zone: IOMeter writes one before the first test and one after the results of each."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from ...module_utils.core import times
from ...module_utils.core.failure import bad_value

_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d) (\d\d):(\d\d):(\d\d)(?::(\d{1,3}))?")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
# IOMeter's clock and its count of run time are read apart.
_SLACK_S = 1.0


def zone_of(name: str) -> datetime.tzinfo:
    """The zone of this name; Failure 'bad_value' when there is none."""
    offset = _OFFSET.fullmatch(name)
    if offset and int(offset[2]) < 24 and int(offset[3]) < 60:
        ahead = datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return datetime.timezone(-ahead if offset[1] == "-" else ahead)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        remedy = "Give a name that the controller knows, such as Europe/Berlin or UTC, or an offset such as +01:00."
        raise bad_value("time_zone", name, remedy) from error


def dated(entries: list[dict[str, Any]], zone: datetime.tzinfo) -> list[dict[str, Any]]:
    """The entries of import_files.read, with ``started_utc`` and ``finished_utc`` where their local times allow it."""
    return [
        {**entry, "parsed": {**entry["parsed"], **_span(entry["parsed"], zone)}} if "parsed" in entry else entry
        for entry in entries
    ]


def _span(parsed: Mapping[str, Any], zone: datetime.tzinfo) -> dict[str, str]:
    """Absent where the file has one stamp, the zone has the hour twice or not at all, or the run time does not fit between the stamps."""
    stamps, runtime_s = parsed.get("stamps"), parsed.get("runtime_s")
    if not stamps or not runtime_s:
        return {}
    before_s, after_s = (_unix_s(stamp, zone) for stamp in stamps)
    if before_s is None or after_s is None or after_s - before_s < runtime_s - _SLACK_S:
        return {}
    return {"started_utc": times.utc(after_s - runtime_s), "finished_utc": times.utc(after_s)}


def _unix_s(stamp: str, zone: datetime.tzinfo) -> float | None:
    match = _STAMP.fullmatch(stamp)
    if not match:
        return None
    *whole, thousandths = match.groups()
    try:
        year, month, day, hour, minute, second = map(int, whole)
        local = datetime.datetime(year, month, day, hour, minute, second, int(thousandths or 0) * 1000, tzinfo=zone)
        # In the hour that a zone has twice the two differ; one that it leaves out is another hour on the way back.
        if local.utcoffset() != local.replace(fold=1).utcoffset():
            return None
        return local.timestamp()
    except (ValueError, OverflowError):
        return None
