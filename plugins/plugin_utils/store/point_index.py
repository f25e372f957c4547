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
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.request import pathname2url

from ...module_utils.workload import words

T = TypeVar("T")
FILE = "index.sqlite"
# Sums of bins are kept in the byte order of the machine.
SCHEMA = f"storlab.index/5 {sys.byteorder}"
# Names are bytes (``key``), as a file's may be no Unicode, and bytes sort as names do. identity: of result.json, null when it may not be trusted again.
# sha256: of result.json, null when it could not be read. seal: over all other columns.
# measurement: the identity of a measurement in additions.py. flags: a JSON list, null when there are none. rest, files: null until a report was made of them.
NAMES = ("layer", "layer_kind", "host", "workload_id", "variant", "status", "measurement")
SETTINGS = words.indexed()  # of the workload
FIGURES = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p99_ns", "ios")  # of all directions together
SHORT = ("point", "identity", "reason", "elsewhere", *NAMES, "started_s", "flags", *SETTINGS, *FIGURES)
COLUMNS = (*SHORT, "row", "rest", "files", "sha256", "seal")
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


def key(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def name_of(point: bytes) -> str:
    return point.decode("utf-8", "surrogatepass")


def sealed(values: Sequence[object]) -> str:
    """A seal over the columns of a row. It is not a secret: it shows an edit of a row that did not renew it, and verify.py shows the others."""
    return hashlib.sha256(repr(tuple(values)).encode("utf-8", "surrogatepass")).hexdigest()


def identity(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"


class Index:
    """The points of one run, as on the disk at the time of ``refresh``. A context: unsaved changes are gone afterwards."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.temporary: str | None = None
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
                os.replace(self.temporary, os.path.join(self.folder, FILE))
            except OSError:
                return
            self.temporary = None

    def _write(self) -> None:
        """From now on in a database of our own: what is on the disk is never changed in place."""
        if self.changed:
            return
        old, self.db = self.db, self._empty(beside=True)
        old.backup(self.db)
        old.close()
        self.changed = True

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
        path = os.path.abspath(os.path.join(self.folder, FILE))
        if not os.path.isfile(path):
            return None
        database = None
        try:
            # Immutable, because it is never changed in place: no lock is taken, and none is needed on a disk that cannot be written.
            database = sqlite3.connect(f"file:{pathname2url(path)}?mode=ro&immutable=1", uri=True)
            database.execute("PRAGMA trusted_schema = OFF")
            tables = dict(database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
            if tables == TABLES and database.execute("SELECT schema FROM about").fetchall() == [(SCHEMA,)]:
                return database
        except sqlite3.Error:
            pass  # a cache that is damaged is recreated
        if database:
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
            index.db = index._empty()
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
