# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A database whose making is cut, or meets a full file system, at each of its changes: the failure names the file, and the next run mends or removes it.

Small stands in for a database: its server is a number, its data are files. Real servers are in tests/integration."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import cluster_folder, database
from unchanged import broken_off, refused

USER = pwd.getpwuid(os.getuid()).pw_name
WANTED = {"warehouses": 3, "version": "15", "settings": {"a": "1"}, "user": USER, "programs": {}, "driver": None}
FULL = "initdb: could not write to file: No space left on device"


class Small(database.Cluster):
    NAME, TITLE = "postgresql", "PostgreSQL"
    FULL_WORDS = ("No space left on device",)

    def make_data(self) -> None:
        for name in ("base", "log"):
            cluster_folder.replace(os.path.join(self.data, name), "7", self.user)
        os.mkdir(os.path.join(self.data, "rows"))

    def start_server(self, settings: dict) -> dict:
        cluster_folder.replace(os.path.join(self.data, "own.conf"), str(settings), self.user)
        return {"pid": 4711}

    def stop(self) -> None:
        for key in ("pid", "start_ticks", "starting"):
            self.record.data.pop(key, None)
        self.record.save()

    def keep_private(self) -> None:
        pass


class Host:
    """strikes: called with a name before each change."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.place, self.run_dir = root / "mnt", root / "run"
        self.place.mkdir(parents=True)
        self.folder = str(self.place / database.FOLDER)
        self.strike: Callable[[str], None] = lambda _path: None
        patch.setattr(database, "Record", lambda testbed, area: record.Record(testbed, area, str(self.run_dir)))
        patch.setattr(database, "RUN_DIR", str(root / "run-database"))
        patch.setattr(database, "start_ticks", lambda pid: f"ticks-{pid}")
        patch.setattr(database.mounts, "read", list)
        for name in ("mkdir", "makedirs", "chmod", "chown", "unlink", "rmdir"):
            inner = getattr(os, name)
            patch.setattr(os, name, lambda path, *rest, _inner=inner, **named: self._changed(_inner, path, rest, named))
        for name in ("write_json", "replace"):
            inner = getattr(database, name)
            patch.setattr(
                database, name, lambda path, *rest, _inner=inner, **named: self._changed(_inner, path, rest, named)
            )

    def _changed(self, inner: Callable, path: object, rest: tuple, named: dict) -> object:
        if str(path).startswith((str(self.place), database.RUN_DIR)):
            self.strike(str(path))
        return inner(path, *rest, **named)

    def build(self) -> list:
        cluster = Small("lab")
        steps = database.plan("PostgreSQL", cluster.current(self.folder), WANTED)
        cluster.apply(self.folder, WANTED, steps, lambda there: cluster_folder.replace(f"{there.data}/rows/w", "3"))
        return [step["op"] for step in steps]

    def remove(self) -> None:
        Small("lab").remove()

    def left(self) -> list:
        return sorted(map(str, [*self.place.rglob("*"), *self.run_dir.rglob("*"), *Path(database.RUN_DIR).rglob("*")]))


class Killed(BaseException):
    pass


def strikes(number: int, error: Callable[[str], BaseException]) -> Callable[[str], None]:
    """The so-many-th change fails."""
    count = 0

    def strike(path: str) -> None:
        nonlocal count
        count += 1
        if count >= number:
            raise error(path)

    return strike


def no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


@pytest.mark.parametrize("next_run", ["absent", "present"])
@pytest.mark.parametrize("error", [no_space, Killed], ids=["full", "killed"])
@pytest.mark.parametrize("struck", ["build", "remove"])
def test_what_was_cut_at_any_change_is_mended_or_removed(tmp_path, struck, error, next_run):
    number, ended = 0, False
    while not ended:
        number += 1
        with pytest.MonkeyPatch.context() as patch:
            host = Host(patch, tmp_path / str(number))
            if struck == "remove":
                host.build()
            host.strike = strikes(number, error)
            try:
                getattr(host, struck)()
                ended = True
            except OSError as full:
                # The module says so with the file that the system names.
                assert str(full.filename).startswith(str(tmp_path)), number
            except (Failure, Killed):
                pass
            host.strike = lambda _path: None
            if next_run == "present":
                host.build()
                assert host.build() == [], number
            host.remove()
            assert host.left() == [], number
    assert number > 4


def test_a_folder_that_somebody_else_made_stays(tmp_path, monkeypatch):
    """Empty or not: nothing was recorded before it was there."""
    host = Host(monkeypatch, tmp_path)
    os.mkdir(host.folder)
    with refused(host.left) as caught:
        host.build()
    assert caught.value.code == "database_foreign"
    host.remove()
    assert os.path.isdir(host.folder)


def test_what_somebody_put_into_a_folder_without_its_stamp_stays(tmp_path, monkeypatch):
    host = Host(monkeypatch, tmp_path)
    host.strike = strikes(2, no_space)
    with pytest.raises(OSError, match="No space"):
        host.build()
    host.strike = lambda _path: None
    Path(host.folder, "theirs").write_text("7", encoding="utf-8")
    for run in (host.build, host.remove):
        with refused(host.left) as caught:
            run()
        assert caught.value.code == "database_foreign"


@pytest.mark.parametrize("op", ["make_data", "start_server"])
def test_a_program_that_finds_no_space_says_which_file_system_is_full(tmp_path, monkeypatch, op):
    host = Host(monkeypatch, tmp_path)

    def fails(*_arguments: object) -> None:
        raise Failure("command_failed", f"The cluster cannot be made: {FULL}.", "See that user may enter.")

    with monkeypatch.context() as patch:
        patch.setattr(Small, op, fails)
        with broken_off() as caught:
            host.build()
    assert caught.value.code == database.FULL
    assert f"The file system of {host.folder} is full." in str(caught.value)
    assert host.build()[-3:] == ["make", "start", "load"]


@pytest.mark.parametrize(("side", "free"), [("folder", {"data": 0}), ("run_dir", {"run": 5}), ("folder", {})])
def test_the_full_side_is_named(tmp_path, monkeypatch, side, free):
    """The log and the scripts are on the host's own file system, and not on the layer."""
    host = Host(monkeypatch, tmp_path)
    host.build()
    cluster = Small("lab")

    def statvfs(path: str) -> SimpleNamespace:
        blocks = free.get("run" if path == cluster.run_dir else "data", 9000)
        return SimpleNamespace(f_bavail=blocks, f_frsize=4096)

    monkeypatch.setattr(database.os, "statvfs", statvfs)
    code, sentence = cluster.trouble("ERROR: No space left on device") or ("", "")
    assert (code, sentence) == (database.FULL, f"The file system of {getattr(cluster, side)} is full.")
