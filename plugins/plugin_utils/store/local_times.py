# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a test ran, from local times without a zone: IOMeter writes one before the first test and one after the results of each."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from ...module_utils.core import times
from ...module_utils.core.failure import bad_value

_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d) (\d\d):(\d\d):(\d\d)(?::(\d{1,3}))?")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")
# IOMeter's clock and its count of run time are read apart.
_SLACK_S = 1.0
# Zones are whole quarters of an hour from UTC, from -12:00 to +14:00.
_QUARTER_S = 900
_LEAST_S, _MOST_S = -12 * 3600, 14 * 3600


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


def of_run(tests: Sequence[Mapping[str, Any]], began_utc: str, ended_utc: str) -> list[dict[str, str]]:
    """{started_utc, finished_utc} of each test of one run, whose host says when the run began and ended: the zone is the only one in which all stamps fit
    in between. A run that broke off shows it by the tests that it had finished. Empty where none fits, or several do."""
    zone = _zone_between([stamp for test in tests for stamp in test.get("stamps") or []], began_utc, ended_utc)
    return [_span(test, zone) if zone else {} for test in tests]


def _zone_between(stamps: Sequence[str], began_utc: str, ended_utc: str) -> datetime.tzinfo | None:
    local_s = [_unix_s(stamp, datetime.timezone.utc) for stamp in stamps]
    known_s = [stamp_s for stamp_s in local_s if stamp_s is not None]
    # Stamps that go back are of a clock that was set, or of the night in which the zone changed.
    if not (known_s and known_s == local_s == sorted(known_s) and began_utc and ended_utc):
        return None
    # IOMeter may prepare a disk before its first stamp, or be ended long after its last one: so much is left open.
    least_s = max(known_s[-1] - times.unix_s(ended_utc) - _SLACK_S, _LEAST_S)
    most_s = min(known_s[0] - times.unix_s(began_utc) + _SLACK_S, _MOST_S)
    first, last = math.ceil(least_s / _QUARTER_S), math.floor(most_s / _QUARTER_S)
    return datetime.timezone(datetime.timedelta(seconds=first * _QUARTER_S)) if first == last else None


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
