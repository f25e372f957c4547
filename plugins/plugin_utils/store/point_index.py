# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of a run's points: the parts that their readers need of each, so that ten thousand results need not be read again to be listed or reported.

``index.sqlite`` is in the run's folder. It is a cache and never the truth: its words about a file hold while size, inode, time of the last change and the
time that no program can set (ctime) are what they were when the file was read. So it may be deleted, copied or damaged. A new one is written beside
it and takes its place whole: whoever reads goes on with the one that was opened, and of two writers the last one wins. Where nothing can be
written, the same is made in a temporary database. The verification of results (verify.py) does not use it, but reports where it says something else.

Each row carries the SHA-256 of its result.json, which the ledger knows, and a seal over all of it. A row that was edited in place is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import marshal
import os
import sqlite3
import sys
import tempfile
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast
from urllib.request import pathname2url

from ...module_utils.workload import words

T = TypeVar("T")
FILE = "index.sqlite"
# Sums of bins are kept in the byte order of the machine.
SCHEMA = f"storlab.index/7 {sys.byteorder}"
# Names are bytes (``key``), as a file's may be no Unicode, and bytes sort as names do. identity: of result.json, null when it may not be trusted again.
# sha256: of result.json, null when it could not be read. seal: over all other columns.
# measurement: the identity of a measurement in additions.py. flags: a JSON list, null when there are none. rest, more: null until a report was made of them.
# row: a line for each key, see lines_of. more: the lines that a report adds to them, or the whole result where these are not all that differs.
# cells: of its line in results.csv, see csv_cells.py; null until a report was made of it, and of a point whose line is made each time.
# files: path and identity of each file beside result.json, null where one is to be read again.
NAMES = ("layer", "layer_kind", "host", "workload_id", "variant", "status", "measurement")
SETTINGS = words.indexed()  # of the workload
FIGURES = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p99_ns", "ios")  # of all directions together
SHORT = ("point", "identity", "reason", "elsewhere", *NAMES, "started_s", "flags", *SETTINGS, *FIGURES)
COLUMNS = (*SHORT, "cells", "row", "rest", "more", "files", "sha256", "seal")
TABLES = {
    "about": "CREATE TABLE about (schema)",
    "point": f"CREATE TABLE point ({', '.join(COLUMNS)}, PRIMARY KEY (point))",
    # Whoever needs nothing long finds all of it here, and the long texts are never read.
    "short": f"CREATE INDEX short ON point ({', '.join(SHORT)})",
    # of: what it is the sum of, so that it holds for exactly these files.
    "sums": "CREATE TABLE sums (of, direction, points, edges, counts, seal, PRIMARY KEY (of, direction))",
}
# A file may change twice within one tick of the file system's clock. A file that changed this shortly before it was read is read again next time;
# whole seconds are what file systems with a coarse clock give.
TICK_NS, COARSE_TICK_NS = 20_000_000, 2_000_000_000
SEPARATOR = ",\n"  # of the lines of a row


def key(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def name_of(point: bytes) -> str:
    return point.decode("utf-8", "surrogatepass")


def sealed(values: Sequence[object]) -> str:
    """A seal over the columns of a row. It is not a secret: it shows an edit of a row that did not renew it, and verify.py shows the others."""
    # Without references, so that equal values have equal bytes, and at a tenth of the time of their repr.
    return hashlib.sha256(marshal.dumps(cast("tuple[str, ...]", tuple(values)), 2)).hexdigest()


_encoded = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def lines_of(result: Mapping[str, object]) -> list[str]:
    """A line of JSON for each key, in their order. No line is broken, because JSON has no line break within a text."""
    return [f"{_encoded(name)}: {_encoded(result[name])}" for name in sorted(result)]


def text_of(lines: Iterable[str]) -> str:
    """The lines as one value of JSON that a database takes: half a character is escaped."""
    text = f"{{{SEPARATOR.join(lines)}}}"
    return text if has_bytes(text) else json.dumps(json.loads(text), sort_keys=True)


def lacking(lines: list[str] | None, result: Mapping[str, object]) -> str:
    """What ``composed`` makes of a row of these lines a whole result. None: of no row, so that the result is in it as a whole."""
    known, wanted = set(lines or ()), lines_of(result)
    more = [line for line in wanted if line not in known]
    if lines and sorted([*lines, *more]) == wanted and has_bytes(SEPARATOR.join(wanted)):
        return SEPARATOR.join(more)
    return json.dumps(result, sort_keys=True)


def has_bytes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def composed(row: str, more: str) -> str:
    """The whole result as JSON on one line; as results.json writes it where ``more`` is lines."""
    if is_whole(more):
        return more
    lines = row[1:-1].split(SEPARATOR)
    for line in more.split(SEPARATOR):
        insort(lines, line)
    return f"{{{', '.join(lines)}}}"


def is_whole(more: str) -> bool:
    """Whether ``more`` is a whole result, and not lines that its row lacks."""
    return more[:1] == "{"


def identity(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"


# The argument is a list of keys of points; the answer has the texts of those that have one.
Written = Callable[[list[bytes]], dict[bytes, str]]


class Texts:
    """The texts of points, from the index on the disk while it is the one that they were read from."""

    def __init__(self, path: str, stamp: tuple[int, ...]) -> None:
        self.path, self.stamp = path, stamp

    def results(self) -> contextlib.AbstractContextManager[Written]:
        """Whole results as JSON."""
        return self._opened("row, more", lambda row, more: None if is_whole(more) else composed(row, more))

    def cells(self) -> contextlib.AbstractContextManager[Written]:
        """Their cells, as csv_cells.py makes them."""
        return self._opened("cells", lambda cells: cells if isinstance(cells, str) else None)

    @contextlib.contextmanager
    def _opened(self, columns: str, made: Callable[..., str | None]) -> Iterator[Written]:
        database = _read_only(self.path) if _stamp(self.path) == self.stamp else None
        same = _stamp(self.path) == self.stamp

        def written(points: list[bytes]) -> dict[bytes, str]:
            try:
                if database and same and points:
                    statement = f"SELECT point, {columns} FROM point WHERE point IN ({', '.join('?' * len(points))})"  # noqa: S608 (words of our own)
                    rows = database.execute(statement, points)
                    return {point: text for point, *values in rows if (text := made(*values)) is not None}
            except (sqlite3.Error, ValueError, TypeError, AttributeError):
                pass  # whoever asks has the results, and can write them
            return {}

        try:
            yield written
        finally:
            if database:
                database.close()


def _stamp(path: str) -> tuple[int, ...] | None:
    """Which file this is. Its name may be new, so that ctime is left out."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _read_only(path: str) -> sqlite3.Connection | None:
    try:
        # Immutable, because it is never changed in place: no lock is taken, and none is needed on a disk that cannot be written.
        return sqlite3.connect(f"file:{pathname2url(path)}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error:
        return None


class Index:
    """The points of one run, as on the disk at the time of ``refresh``. A context: unsaved changes are gone afterwards."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.abspath(os.path.join(folder, FILE))
        self.temporary: str | None = None
        self.stamp: tuple[int, ...] | None = None  # of the file that is open under its name
        self.changed = False
        self._clock: int | None = None
        self.db = self._kept() or self._empty()

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.db.close()
        if self.temporary:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)
            self.temporary = None

    # ------------------------------------------------------------ what is known

    def identities(self) -> dict[bytes, str | None]:
        """{key of a point: identity of its result}, None where the row is not what was written."""
        rows = self.db.execute(f"SELECT {', '.join(COLUMNS)} FROM point")  # noqa: S608 (words of our own)
        return {row[0]: row[1] if row[-1] == sealed(row[:-1]) else None for row in rows}

    def sums(self) -> Iterator[tuple[Any, ...]]:
        """(of, direction, points, edges, counts) of the sums that are as they were written."""
        rows = self.db.execute("SELECT of, direction, points, edges, counts, seal FROM sums")
        return (row[:-1] for row in rows if row[-1] == sealed(row[:-1]))

    def select(self, columns: str, where: str = "1", values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """These columns of the points for which ``where`` holds, by name. values: of the question marks in it."""
        statement = f"SELECT {columns} FROM point WHERE {where} ORDER BY point"  # noqa: S608 (words of our own)
        return iter(self.db.execute(statement, values))

    def texts(self) -> Texts | None:
        """The texts of this index for later, once it is saved; None where it is not on the disk."""
        return Texts(self.path, self.stamp) if self.stamp else None

    def trusted(self, status: os.stat_result) -> str | None:
        """The identity of a file that was read after this status was taken; None when it could change without being seen."""
        stamps = (status.st_mtime_ns, status.st_ctime_ns)
        now = self._clock_ns()
        settled = all(stamp < now - (TICK_NS if stamp % 1_000_000_000 else COARSE_TICK_NS) for stamp in stamps)
        return identity(status) if settled else None

    def _clock_ns(self) -> int:
        """When this index was first asked, by the clock of the file system, which may be another machine's.

        0, so that nothing is trusted, where nothing can be written.
        """
        if self._clock is None:
            try:
                with tempfile.TemporaryFile(dir=self.folder) as probe:
                    self._clock = os.fstat(probe.fileno()).st_mtime_ns
            except OSError:
                self._clock = 0
        return self._clock

    # ------------------------------------------------------------ changing it

    def replace(self, gone: Iterable[bytes], entries: Iterable[Mapping[str, object]]) -> None:
        """Forget these points (keys), and put what was read of others."""
        self._write()
        self.db.executemany("DELETE FROM point WHERE point = ?", ((name,) for name in gone))
        self.db.executemany(
            f"INSERT OR REPLACE INTO point VALUES ({', '.join('?' * len(COLUMNS))})",  # noqa: S608 (question marks)
            ((*values, sealed(values)) for values in (tuple(map(entry.get, COLUMNS[:-1])) for entry in entries)),
        )

    def keep_sums(self, rows: Iterable[tuple[object, ...]], current: Iterable[bytes]) -> None:
        """Put (of, direction, points, edges, counts), and forget the sums that are not of what is current."""
        self._write()
        whole = ((*row, sealed(row)) for row in rows)
        self.db.executemany("INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?, ?, ?)", whole)
        known = {of for (of,) in self.db.execute("SELECT DISTINCT of FROM sums")}
        self.db.executemany("DELETE FROM sums WHERE of = ?", ((of,) for of in known.difference(current)))

    def save(self) -> None:
        """Let others have it, where the folder can be written."""
        if not self.changed:
            return
        self.db.commit()
        self.changed = False
        if self.temporary:
            try:
                os.chmod(self.temporary, 0o644)
                stamp = _stamp(self.temporary)
                os.replace(self.temporary, self.path)
            except OSError:
                return
            self.temporary, self.stamp = None, stamp

    def _write(self) -> None:
        """From now on in a database of our own: what is on the disk is never changed in place."""
        if self.changed:
            return
        old, self.db = self.db, self._empty(beside=True)
        old.backup(self.db)
        old.close()
        self.changed, self.stamp = True, None

    def _empty(self, beside: bool = False) -> sqlite3.Connection:
        """A database of no points: in memory, or in a file beside the one that it is to replace, where that can be."""
        place = ""
        if beside:
            with contextlib.suppress(OSError):
                # Not by write_whole: SQLite itself writes this file, and save gives it its name.
                handle, place = tempfile.mkstemp(dir=self.folder, prefix=f".{FILE}.", suffix=".new")
                os.close(handle)
                self.temporary = place
        database = sqlite3.connect(place)
        # No one sees it before it is whole, so there is nothing to roll back.
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        if not beside:
            for statement in TABLES.values():
                database.execute(statement)
            database.execute("INSERT INTO about VALUES (?)", (SCHEMA,))
            database.commit()
        return database

    def _kept(self) -> sqlite3.Connection | None:
        """The one on the disk, if it is ours and whole."""
        if not os.path.isfile(self.path):
            return None
        stamp, database = _stamp(self.path), _read_only(self.path)
        if not database:
            return None
        try:
            database.execute("PRAGMA trusted_schema = OFF")
            tables = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
            if tables == TABLES and database.execute("SELECT schema FROM about").fetchall() == [(SCHEMA,)]:
                self.stamp = stamp if stamp == _stamp(self.path) else None
                return database
        except sqlite3.Error:
            pass  # a cache that is damaged is recreated
        database.close()
        return None


def retried(folder: str, use: Callable[[Index], T]) -> T:
    """What ``use`` makes of the run's index; with an empty one in its place when the one on the disk proves damaged on the way."""
    try:
        with Index(folder) as index:
            return use(index)
    except (sqlite3.Error, ValueError, KeyError, TypeError, IndexError):
        with Index(folder) as index:
            index.db.close()
            index.db, index.stamp = index._empty(), None
            return use(index)


def refresh(
    index: Index,
    points: str,
    names: Iterable[str],
    describe: Callable[[str, os.stat_result], Mapping[str, object]],
    unknown: Collection[bytes] = (),
) -> list[str]:
    """Bring the index up to date with the folders ``names`` in ``points``; those that hold no result.

    describe: an entry of a point by its name and the status its result.json had before it was read.
    unknown: keys of points that are read again, whatever is known.
    """
    known = index.identities()
    missing, stale = [], []
    for name in names:
        try:
            status = os.stat(f"{points}/{name}/result.json")
        except OSError:
            missing.append(name)
            continue
        point = key(name)
        if known.pop(point, None) != identity(status) or point in unknown:
            stale.append((name, status))
    if stale or known:
        index.replace(known, (describe(name, status) for name, status in stale))
    return missing
