# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page cache of a server of the testbed's own: asked for in its export, dropped there and looked at. One folder is both sides here, without NFS."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import threading
from collections.abc import Iterator

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore_plan
from ansible_collections.storlab.testbed.plugins.module_utils.run import observer, server_cache

TESTBED = "cache-test"
SIZE = 1 << 20
BELOW = {"name": "backing-a", "kind": "backing", "detail": {}}
EXPORT = {"name": "target-share", "kind": "target", "detail": {"provider": "nfs"}}


@pytest.fixture
def export(tmp_path):
    """An export with two benchmark files and a file of somebody."""
    folder = tmp_path / "export"
    folder.mkdir()
    for number, name in enumerate(("storlab-benchmark.0.dat", "storlab-benchmark.1.dat", "theirs.img")):
        (folder / name).write_bytes(bytes([number + 1]) * SIZE)
    made = record.Record(TESTBED, "nfs_export", str(tmp_path / "run"))
    made.data["exports"] = {str(folder): ["192.0.2.21"], str(tmp_path / "gone"): ["192.0.2.21"]}
    made.save()
    return folder


@contextlib.contextmanager
def serving(base, look=server_cache.serve) -> Iterator[None]:
    ended = threading.Event()

    def work():
        while not ended.wait(0.01):
            look(str(base), TESTBED)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def used(path) -> Iterator[None]:
    """Pages of a file that no one can drop, because a process has them."""
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as pages:
        assert sum(pages[place] for place in range(0, SIZE, mmap.PAGESIZE))
        yield


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_cache_is_dropped_and_seen_to_be_empty(export, tmp_path):
    before = contents(export)
    with serving(tmp_path / "run"):
        assert server_cache.dropped(str(export))
        assert server_cache.dropped(str(export))
        # A request is answered once, and each has a token of its own.
        with used(export / "storlab-benchmark.1.dat"):
            assert not server_cache.dropped(str(export))
        with used(export / "theirs.img"):
            assert server_cache.dropped(str(export))
    assert contents(export) == before


def test_pages_of_other_files_stay_where_they_are(export, monkeypatch, tmp_path):
    named = []
    real = server_cache._drop
    monkeypatch.setattr(server_cache, "_drop", lambda name, folder: named.append(name) or real(name, folder))
    with serving(tmp_path / "run"):
        assert server_cache.dropped(str(export))
    assert named == ["storlab-benchmark.0.dat", "storlab-benchmark.1.dat"]


def test_without_an_answer_the_cache_is_not_known_and_nothing_is_left(export):
    before = contents(export)
    assert not server_cache.dropped(str(export), wait_s=0.1)
    assert not server_cache.dropped(str(export / "missing"), wait_s=0.1)
    assert contents(export) == before


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff\xfe", b'{"token": "0000000000000000", "files": 2, "resident_bytes": 0}', b"{" * 300]
)
def test_an_answer_to_somebody_else_or_to_no_one_counts_for_nothing(export, tmp_path, content):
    def lie(_base, _testbed):
        with contextlib.suppress(FileNotFoundError):
            os.stat(export / server_cache.REQUEST)
            (export / server_cache.ANSWER).write_bytes(content)

    with serving(tmp_path / "run", lie):
        assert not server_cache.dropped(str(export), wait_s=0.2)


def test_an_export_without_benchmark_files_proves_nothing(export, tmp_path):
    for number in (0, 1):
        (export / f"storlab-benchmark.{number}.dat").unlink()
    with serving(tmp_path / "run"):
        assert not server_cache.dropped(str(export))


@pytest.mark.parametrize("trick", ["link", "twin", "pipe", "folder"])
@pytest.mark.parametrize("name", [server_cache.REQUEST, server_cache.ANSWER])
def test_a_client_that_puts_other_things_there_gets_nothing_written(export, tmp_path, name, trick):
    (export / server_cache.REQUEST).write_bytes(b"0123456789abcdef")
    (export / server_cache.ANSWER).write_bytes(b"")
    victim = tmp_path / "victim"
    victim.write_bytes(b"0123456789abcdef")
    (export / name).unlink()
    make = {
        "link": os.symlink,
        "twin": os.link,
        "pipe": lambda _from, to: os.mkfifo(to),
        "folder": lambda _from, to: os.mkdir(to),
    }
    make[trick](victim, export / name)
    server_cache.serve(str(tmp_path / "run"), TESTBED)
    assert victim.read_bytes() == b"0123456789abcdef"
    if name == server_cache.REQUEST:
        assert (export / server_cache.ANSWER).read_bytes() == b""


@pytest.mark.parametrize("asked", [b"", b"../../etc/passwd", b"0123456789ABCDEF", b"0123456789abcdef0", b"\xff" * 16])
def test_only_a_token_is_answered(export, tmp_path, asked):
    (export / server_cache.REQUEST).write_bytes(asked)
    (export / server_cache.ANSWER).write_bytes(b"")
    server_cache.serve(str(tmp_path / "run"), TESTBED)
    assert (export / server_cache.ANSWER).read_bytes() == b""


def test_what_an_observer_does_while_it_counts(export, tmp_path):
    """The daemon of the server's side, without the daemon."""
    folder = tmp_path / "run" / TESTBED / "observer"
    folder.mkdir()
    (folder / "deadline.json").write_text(json.dumps(1e12), encoding="utf-8")
    one = observer.Observer(str(folder), {})
    thread = threading.Thread(target=_run, args=(one,))
    thread.start()
    try:
        assert server_cache.dropped(str(export), wait_s=60)
    finally:
        one.stopping = True
        thread.join()


def _run(one):
    """Its loop; signals are the main thread's."""
    real, observer.signal.signal = observer.signal.signal, lambda *_given: None
    try:
        one.run()
    finally:
        observer.signal.signal = real


@pytest.mark.parametrize(
    ("below", "answer"),
    [
        ([BELOW], False),
        ([{**EXPORT, "name": "guest-a", "kind": "guest", "detail": {}}, EXPORT, BELOW], True),
        ([{**EXPORT, "detail": {"provider": "lio"}}], False),
        ([{**EXPORT, "detail": None}], False),
        ([], False),
    ],
)
def test_only_an_export_of_the_testbed_is_asked(below, answer):
    assert server_cache.over_own_export(below) is answer


def test_what_a_killed_benchmark_leaves_is_no_file_of_others():
    left = [server_cache.REQUEST, server_cache.ANSWER, "storlab-benchmark.dat", "lost+found"]
    assert datastore_plan.foreign_entries([*left, "theirs.img"]) == ["theirs.img"]
