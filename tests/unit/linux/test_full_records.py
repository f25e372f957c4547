# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds on a host whose file system of the records is full: one sentence, nothing is changed after it, and the next build or teardown puts it right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import cache_tier, raid, ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore, open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio, nfs_export, tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database
from cache_kernel import Kernel, apply, caches_on, wanted
from killed import Full

sys.path += [str(Path(__file__).parent / room) for room in ("backing", "clients", "exports", "loads")]

import test_datastore_life as of_datastores
import test_full_databases as of_databases
import test_lio_life as of_lio
import test_open_iscsi_life as of_sessions
import test_ramdisk_life as of_ramdisks
import test_storage_nfs as of_exports
import test_storage_raid as of_arrays
import test_tgt_life as of_tgt


class Tgtd(of_tgt.Tgtd):
    """tgtd looks for RDMA, for which the kernel loads a module."""

    def missing_modules(self, name: str) -> set:
        return {"ib_core"} - self.modules if name == "rdma_ucm" else super().missing_modules(name)


class Beside:
    """A host whose records are in a folder of their own. It is the one of the build that runs now, and loads no modules."""

    now: Any

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        type(self).now, self.run_dir, self.modules = self, root / "run", set()
        root.mkdir(parents=True)
        patch.setattr(record, "loaded_modules", set)
        patch.setattr(record, "unload_modules", lambda _names: None)
        self.prepare(patch, root)

    def prepare(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        raise NotImplementedError

    def has(self, _path: str) -> bool:
        return self.run_dir.exists()


class Exporting(Beside):
    """The kernel's server follows the commands."""

    def prepare(self, patch, root):
        of_exports.noting(patch, root)
        noted, threads = nfs_export.run, root / "nfsd" / "threads"

        def run(argv, **_more):
            noted(argv)
            if argv[0] == "rpc.nfsd":
                threads.write_text(f"{argv[-1]}\n", encoding="utf-8")

        patch.setattr(nfs_export, "run", run)

    @staticmethod
    def call(state: str) -> None:
        converge(nfs_export.Area, of_exports.params(state=state), check_mode=False)


class Striped(Beside):
    def prepare(self, patch, root):
        host = of_arrays.Host(root / "host")
        self.arrays = of_arrays.arrays_on(host, self.run_dir, patch)
        of_arrays.with_mdadm(host, patch)

    @classmethod
    def build(cls) -> None:
        of_arrays.apply(cls.now.arrays, [of_arrays.wanted(0, 2, chunk_kib=64)])

    @classmethod
    def remove(cls) -> None:
        of_arrays.apply(cls.now.arrays, [], present=False).forget()


class Cached(Beside):
    def prepare(self, patch, root):
        self.caches = caches_on(Kernel(root / "host"), self.run_dir, patch)

    @classmethod
    def build(cls) -> None:
        apply(cls.now.caches, [wanted()])

    @classmethod
    def remove(cls) -> None:
        apply(cls.now.caches, [], present=False)
        cls.now.caches().forget()


class Loaded(Beside):
    def prepare(self, patch, root):
        self.host = of_databases.Host(patch, root)

    def has(self, _path: str) -> bool:
        return bool(self.host.left())


class Area(NamedTuple):
    host: Callable[..., Any]
    build: Callable[[], Any]
    remove: Callable[[], Any]
    module: ModuleType
    fewest_records: int


AREAS = {
    "nfs_export": Area(Exporting, partial(Exporting.call, "present"), partial(Exporting.call, "absent"), nfs_export, 6),
    "raid": Area(Striped, Striped.build, Striped.remove, raid, 2),
    "cache_tier": Area(Cached, Cached.build, Cached.remove, cache_tier, 1),
    "database": Area(Loaded, lambda: Loaded.now.host.build(), lambda: Loaded.now.host.remove(), database, 3),
    "ramdisk": Area(of_ramdisks.Kernel, of_ramdisks.call, partial(of_ramdisks.call, state="absent"), ramdisk, 3),
    "lio_target": Area(
        of_lio.Kernel, lambda: of_lio.call(of_lio.target()), partial(of_lio.call, state="absent"), lio, 5
    ),
    "tgt_target": Area(Tgtd, lambda: of_tgt.call(of_tgt.target()), partial(of_tgt.call, state="absent"), tgt, 4),
    "iscsi_session": Area(of_sessions.Host, of_sessions.built, lambda: of_sessions.ours().remove_all(), open_iscsi, 5),
    "datastore": Area(
        of_datastores.Host,
        lambda: of_datastores.call(of_datastores.entry(filesystem="xfs")),
        partial(of_datastores.call, state="absent"),
        datastore,
        3,
    ),
}


@pytest.mark.parametrize("next_run", ["absent", "present"])
@pytest.mark.parametrize("area", AREAS)
def test_a_build_on_a_full_file_system(tmp_path, area, next_run):
    """Full at each of the records of a build in turn."""
    host_of, build, remove, module, fewest = AREAS[area]
    number, ended = 0, False
    while not ended:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            host = host_of(standin, tmp_path / str(number))
            before = set(host.modules)
            with pytest.MonkeyPatch.context() as patch:
                full = Full(patch, number, (module,))
                try:
                    build()
                    ended = True
                except Failure as failure:
                    assert failure.code == "record_unwritable", (number, failure)
                    assert f"{area}.json cannot be written: No space left on device." in str(failure)
                    assert "Make room there" in str(failure)
            # What began before may be read or undone; nothing is made.
            assert full.changes == [], (number, full.changes)
            if next_run == "present":
                build()
            remove()
            assert set(host.modules) == before and not host.has("/run/storlab"), number
    assert number > fewest


@pytest.mark.parametrize("kind", ["file", "nothing"])
def test_a_record_is_not_written_through_a_link(tmp_path, kind):
    """Root's own link, as one to a larger file system: what it names is somebody else's."""
    theirs = tmp_path / "theirs.json"
    if kind == "file":
        theirs.write_text("7", encoding="utf-8")
    before = theirs.read_bytes() if theirs.exists() else None
    folder = tmp_path / "run" / "lab"
    folder.mkdir(parents=True, mode=0o700)
    if kind == "nothing":
        (folder / "raid.json").symlink_to(theirs)
    kept = record.Record("lab", "raid", str(tmp_path / "run"))
    if kind == "file":
        (folder / "raid.json").symlink_to(theirs)
    kept.data = {"arrays": {"r": {"uuid": "u-1"}}}
    kept.save()
    assert (theirs.read_bytes() if theirs.exists() else None) == before
    assert not (folder / "raid.json").is_symlink()
    assert record.Record("lab", "raid", str(tmp_path / "run")).data["arrays"] == {"r": {"uuid": "u-1"}}
