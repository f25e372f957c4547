# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error of a full disk names no file by itself, because it comes from the write: whatever writes in the plugins gives it the file's name."""

from __future__ import annotations

import ast
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.answer import refused_by_system
from ansible_collections.storlab.testbed.plugins.module_utils.lab import disk_image
from ansible_collections.storlab.testbed.plugins.module_utils.linux import host, testbed_lock
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import own_file
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import nfs_export
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import cluster_folder, package_medium
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import ledger
from places import ROOT

BY_NUMBER = ("write", "writev", "pwrite", "pwritev", "posix_fallocate", "fsync", "ftruncate")
# {function: why no name is given there}.
WITHOUT = {
    "lab/image.py locked": "nothing is written: the file is a lock",
    "lab/netns.py apply": "nothing is written: a namespace is mounted on the file",
    "linux/clients/benchmark_file.py fill": "whoever calls it has the name",
    "linux/clients/own_file.py _write_stamp": "whoever calls it has the name",
    "linux/daemon.py _become_daemon": "a pipe",
    "linux/loads/debian_installation.py timed": "a device, whose error is the measurement's",
    "linux/loads/debian_installation.py _installed": "a device, whose error is the measurement's",
    "linux/loads/debian_installation.py _clean": "a device, whose error is the measurement's",
    "linux/loads/debian_installation.py _prepare_root": "empty files, whose opening has the name",
    "linux/loads/debian_packages.py _downloaded": "an empty file, whose opening has the name",
    "run/database.py _driven": "a program writes, whose words are kept",
    "run/execution.py _started": "a program writes, whose words are kept",
    "run/net_ceiling.py in_child": "a pipe",
    "run/server_cache.py _drop": "nothing is written: the file is written back",
    "run/server_cache.py _serve_export": "an error is no answer, and no one reads it",
    "run/server_cache.py _write_new": "without the file there is no request, and no one reads the error",
    "plugin_utils/store/ledger.py _write": "whoever calls it has the name",
}


def writes(call: ast.Call) -> bool:
    function = call.func
    by_attribute = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    module, name = (function.value.id, function.attr) if by_attribute else ("", getattr(function, "id", ""))
    if module == "os" and name in BY_NUMBER:
        return True
    if (module, name) not in (("", "open"), ("os", "fdopen"), ("io", "open"), ("gzip", "open")):
        return False
    modes = [call.args[1]] if len(call.args) > 1 else [word.value for word in call.keywords if word.arg == "mode"]
    return any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes)


def nameless(node: ast.AST, function: str = "") -> Iterator[str]:
    """The functions with a write outside of a naming block."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        function = node.name
    if isinstance(node, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and getattr(item.context_expr.func, "id", "") == "naming"
        for item in node.items
    ):
        return
    if isinstance(node, ast.Call) and writes(node):
        yield function
    for child in ast.iter_child_nodes(node):
        yield from nameless(child, function)


def test_every_write_names_its_file():
    seen = {
        f"{str(path.relative_to(ROOT / 'plugins')).replace('module_utils/', '')} {function}"
        for path in (ROOT / "plugins").rglob("*.py")
        for function in nameless(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert seen == set(WITHOUT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('def f():\n    open(p, "w").write("7")', ["f"]),
        ("def f():\n    os.pwrite(h, b'7', 0)", ["f"]),
        ('def f():\n    with naming(p), open(p, mode="ab") as h:\n        h.write(b"7")', []),
        ("def f():\n    return open(p).read()", []),
    ],
)
def test_a_write_without_a_name_is_seen(text, expected):
    assert list(nameless(ast.parse(text))) == expected


# ---- on a device that is always full


def full(tmp_path: Path, name: str = "file") -> str:
    path = tmp_path / name
    path.symlink_to("/dev/full")
    return str(path)


def _package(path: str) -> None:
    package_medium.retrieve(io.BytesIO(b"7" * 99), {"offset": 0, "bytes": 99, "sha256": "", "file": "a.deb"}, path)


def _exports(path: str) -> None:
    exports = nfs_export.Exports.__new__(nfs_export.Exports)
    exports.file = path[: -len(".new")]
    nfs_export.Exports._write_file(exports, {"op": "write_file", "target": "file", "was": None, "will": "/srv\n"})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("file", lambda path: cluster_folder.replace(path, "7")),
        ("file", lambda path: cluster_folder.append(path, "7")),
        ("file", lambda path: host.write_text(path, "7")),
        ("file", _package),
        ("file.new", _exports),
    ],
)
def test_a_full_disk_is_named_by_the_file(tmp_path, monkeypatch, name: str, write: Callable[[str], None]):
    monkeypatch.setattr(nfs_export, "EXPORTS_DIR", str(tmp_path))
    path = full(tmp_path, name)
    with pytest.raises(OSError, match="No space left") as caught:
        write(path)
    failure = refused_by_system(caught.value)
    assert failure.details == {"errno": "ENOSPC", "path": path.removesuffix(".new")}
    assert "Make room there." in str(failure)


def _image(folder: Path) -> None:
    disk_image.create(str(folder / "d.img"), 1 << 20)


def _lock(folder: Path) -> None:
    testbed_lock.take(str(folder / "lock"), {"process": "7"})


def _stamp(folder: Path) -> None:
    (folder / "own").mkdir()
    own_file.make(str(folder), "own", "token", stamped=False)


def _ledger(folder: Path) -> None:
    ledger.append(str(folder), "asked")


@pytest.mark.parametrize(
    ("write", "call", "name"),
    [
        (_ledger, "write", "ledger.jsonl"),
        (_image, "posix_fallocate", "d.img.part"),
        (_lock, "pwrite", "lock"),
        (_stamp, "fsync", "own"),
    ],
)
def test_a_full_disk_is_named_where_a_number_is_written_to(tmp_path, monkeypatch, write, call, name):
    def refuses(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, refuses)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path)
    assert caught.value.filename == str(tmp_path / name)
