# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of a file that is imported: a reader's results, each with its place. Jobs and servers that are one load are one entry."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal, TypedDict, cast

from ...module_utils.core.failure import Failure
from ...module_utils.core.times import unix_s
from ...module_utils.engines import diskspd, fio, iometer
from ...module_utils.result import result as schema
from ...module_utils.result.schema import Measured, Series
from ...module_utils.workload.workload import Workload

# Beyond this a file is not a result but something else, and reading it whole would take the memory of the controller.
MOST_BYTES = 256 << 20
_CLIENT_FILES = (
    re.compile(r"(?P<client>(?P<stem>.+)-\d+-\d+)\.json"),
    re.compile(r"(?P<stem>json_output)\.(?P<client>\d+\..+)"),
    re.compile(r"(?P<stem>result-b\d+t\d+o\d+w\d+p[^-]*)-(?P<client>.+)\.xml"),
)
# Suffixes of files that are expected to hold results, so that one without is worth a word.
_EXPECTED = (".json", ".csv", ".xml")
_READERS = (
    ("fio", re.compile(r"^\d+;fio-\d|^fio-\d+\.\d+\S*\s*$|^Starting \d+ (?:process|thread)", re.MULTILINE), fio),
    ("diskspd", re.compile(r"<Results>|^\s*Command Line:[^\n]*diskspd", re.MULTILINE | re.IGNORECASE), diskspd),
    (
        "iometer",
        re.compile(r"^\s*'(?:Test Type,|Results\s*$|Iometer Output)|'Target Type[,;\t]", re.MULTILINE),
        iometer,
    ),
)
MOMENTS: tuple[Literal["started_utc", "finished_utc"], ...] = ("started_utc", "finished_utc")
_HEAD_CHARS = 64 << 10


class Entry(TypedDict, total=False):
    """One load of a file: its place, and the reader's result; a file of IOMeter's updates has nothing but these."""

    file: str
    sha256: str
    folder: str
    parsed: Measured
    job: str | None
    workload: Workload | None
    clients: list[Measured]
    series: Series
    updates: list[Series]
    sources: list[dict[str, str]]
    # Parts of the names of files that several clients left, one each.
    stem: str
    client: str


def decode(content: bytes) -> str:
    """The text of a file. Windows' shells redirect in UTF-16; bytes that are not UTF-8 are kept, so that their place can be reported."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    # The same without a mark: text begins with a character that has one byte.
    if 0 in content[:2] and len(content) > 1 and content[0] != content[1]:
        return content.decode("utf-16-be" if content[0] == 0 else "utf-16-le", "replace")
    return content.decode("utf-8-sig", "surrogateescape")


def read(name: str, content: bytes) -> list[Entry]:
    """The entries of one file: [{job, workload, parsed, ...}], see _entry, or [{updates}] of an inst file.

    name: its path, relative to the folder that is imported, with /.
    An empty list for a file that is not taken for a result. Failure for one that is, or ought to be, and cannot be used.
    """
    text = decode(content)
    engine, reader = _reader(text)
    if reader is None:
        if name.lower().endswith(_EXPECTED):
            raise Failure(
                "no_result",
                "It holds no result of fio, IOMeter or diskspd.",
                "Nothing needs to be done when it is something else.",
            )
        return []
    folder, base = name.rpartition("/")[::2]
    origin: Entry = {"file": name, "sha256": hashlib.sha256(content).hexdigest(), "folder": folder}
    if engine == "iometer" and re.search(r"^\s*TimeStamp,'Target Type", text, re.MULTILINE):
        return [{**origin, "updates": iometer.series(text)}]
    entries = _fio_entries(text) if engine == "fio" else _plain_entries(reader, text)
    match = next(filter(None, (pattern.fullmatch(base) for pattern in _CLIENT_FILES)), None)
    for entry in entries:
        entry.update(origin)
        if match:
            entry["stem"], entry["client"] = match["stem"], match["client"]
    return entries


def _reader(text: str) -> tuple[str, ModuleType] | tuple[None, None]:
    """(engine, its module), (None, None) for what is of none. fio's document may come after any amount of messages, the others begin the file."""
    if re.search(r'"fio version"\s*:', text):
        return "fio", fio
    return next(
        ((engine, reader) for engine, mark, reader in _READERS if mark.search(text, 0, _HEAD_CHARS)), (None, None)
    )


def _entry(
    parsed: Measured,
    clients: list[Measured] | None = None,
    series: Series | None = None,
) -> Entry:
    return {
        "parsed": parsed,
        "job": parsed.get("job_name"),
        "workload": parsed.get("workload"),
        **({"clients": clients} if clients else {}),
        **({"series": series} if series and series.get("rows") and series.get("interval_s") else {}),
    }


def _plain_entries(reader: ModuleType, text: str) -> list[Entry]:
    rows = reader.results(text)
    samples = reader.series(text) if reader is diskspd else [None] * len(rows)
    return [_entry(parsed, series=series) for parsed, series in zip(rows, samples)]


def _fio_entries(text: str) -> list[Entry]:
    """One entry a job of each run: what numjobs or several servers made of a job is one load."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    lost: list[Measured] = []
    for parsed in fio.results(text):
        if any(failure["code"] == "client_lost" for failure in parsed["failures"]):
            lost.append(parsed)
        else:
            key = (
                parsed.get("run"),
                parsed.get("group"),
                parsed.get("job_name"),
                json.dumps(parsed.get("workload"), sort_keys=True),
            )
            groups.setdefault(key, []).append(parsed)
    # When no server answered there is nothing but their names.
    entries = [] if groups else [_entry(parsed) for parsed in lost]
    for rows in groups.values():
        hosts: dict[tuple[Any, Any], list[Measured]] = {}
        for parsed in rows:
            hosts.setdefault((parsed.get("host"), parsed.get("port")), []).append(parsed)
        first: Any = {
            **{key: value for key, value in rows[0].items() if key in ("workload", "job_name")},
            **times_of(rows),
        }
        each: list[Measured] = [
            {
                **_combined(of_host),
                "host": host if len({name for name, _port in hosts}) == len(hosts) else f"{host}:{port}",
            }
            for (host, port), of_host in hosts.items()
        ]
        if len(each) + len(lost) == 1:
            entries.append(_entry({**_combined(rows), **first}))
        else:
            entries.append(_entry({**all_of(each + lost), **first}, clients=each + lost))
    return entries


def times_of(parts: list[Measured]) -> dict[str, str]:
    """{started_utc, finished_utc}, as far as known: when the first of several that are one began, and when the last ended."""
    times = {}
    began, ended = ([str(part[key]) for part in parts if part.get(key)] for key in MOMENTS)
    if began:
        times["started_utc"] = min(began, key=unix_s)
    if ended:
        times["finished_utc"] = max(ended, key=unix_s)
    return times


def all_of(clients: list[Measured]) -> Measured:
    """Clients that ran at the same time, taken as one."""
    parsed = _combined(
        [
            {
                **client,
                "failures": [
                    {**failure, "message": f"{client['host']}: {failure['message']}"} for failure in client["failures"]
                ],
            }
            for client in clients
        ],
        concurrent=True,
    )
    parsed.pop("host", None)
    return parsed


def _combined(rows: list[Measured], concurrent: bool | None = None) -> Measured:
    """Results taken as one (see fio.together); percentiles exactly where there are histograms, else as bounds."""
    parsed: Any = fio.together(rows, concurrent)
    targets = sorted({target for row in rows for target in row.get("targets", ())})
    extents = [row.get("working_set") for row in rows]
    parsed.update({"targets": targets} if targets else {})
    parsed.update({"working_set": extents[0]} if extents[0] and extents.count(extents[0]) == len(extents) else {})
    for name in schema.PARTS:
        if name in parsed:
            parsed[name] = {**parsed[name], **bounds([row[name] for row in rows if name in row], parsed[name])}
    return cast(Measured, parsed)


def bounds(parts: Sequence[Mapping[str, object]], merged: Mapping[str, object]) -> dict[str, object]:
    """latency_p99_lower_ns, latency_p99_upper_ns … for the percentiles that merging had to leave out, or the percentile where both are one.

    The percentile of all I/O is between the lowest and the highest of the parts: below the lowest no part has its share yet, up to the highest all have.
    """
    percentiles = {}
    for name in schema.PERCENTILES.values():
        stem = name[: -len("_ns")]
        lower: list[Any] = [part.get(name, part.get(f"{stem}_lower_ns")) for part in parts]
        upper: list[Any] = [part.get(name, part.get(f"{stem}_upper_ns")) for part in parts]
        if not {name, f"{stem}_lower_ns"} & set(merged) and len(parts) > 1 and None not in lower and None not in upper:
            low, high = min(lower), max(upper)
            percentiles.update({name: low} if low == high else {f"{stem}_lower_ns": low, f"{stem}_upper_ns": high})
    return percentiles
