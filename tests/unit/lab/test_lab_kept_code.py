# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Python keeps in the emulated machines of Ansible's module archives, and that no module fails for it."""

from __future__ import annotations

import errno
import importlib.util
import marshal
import os
import sys
import zipimport

import pytest
from places import ROOT

SOURCE = b"ANSWER = 4711\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The machines' sitecustomize, with a folder of the test's; site.compiled counts what was compiled."""
    compiled = []

    def compile_source(pathname, source):
        compiled.append(pathname)
        return compile(source, pathname, "exec")

    monkeypatch.setattr(zipimport, "_compile_source", compile_source)
    # The folder that it lies in is the recipe of an image, and holds nothing else.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = ROOT / "roles/embedded_lab/files/image/sitecustomize.py"
    specification = importlib.util.spec_from_file_location("machines_sitecustomize", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", str(tmp_path / "kept"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    module.compiled = compiled
    return module


def answer(code) -> int:
    scope: dict = {}
    exec(code, scope)  # noqa: S102 - a line of this test
    return scope["ANSWER"]


def test_an_archive_is_compiled_once(site, tmp_path):
    codes = [zipimport._compile_source(name, SOURCE) for name in ("/tmp/a.zip/m.py", "/tmp/b.zip/m.py")]
    assert [answer(code) for code in codes] == [4711, 4711] and site.compiled == ["/tmp/a.zip/m.py"]
    [kept] = (tmp_path / "kept").iterdir()
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700 and len(kept.name) == 64
    other = zipimport._compile_source("/tmp/c.zip/m.py", b"ANSWER = 4712\n")
    assert answer(other) == 4712 and len(list((tmp_path / "kept").iterdir())) == 2


def test_nothing_is_kept_of_a_user_without_rights(site, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert answer(zipimport._compile_source("/tmp/a.zip/m.py", SOURCE)) == 4711
    assert not (tmp_path / "kept").exists()


def test_a_full_file_system_fails_no_module_and_nothing_half_written_stays(site, tmp_path, monkeypatch):
    def full(code, stream):
        stream.write(b"\0")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(marshal, "dump", full)
    assert answer(zipimport._compile_source("/tmp/a.zip/m.py", SOURCE)) == 4711
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_folder_that_cannot_be_made_fails_no_module(site, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(site, "FOLDER", str(tmp_path / "file" / "kept"))
    assert answer(zipimport._compile_source("/tmp/a.zip/m.py", SOURCE)) == 4711


@pytest.mark.parametrize("damage", [b"", b"\0", b"no code"])
def test_what_was_damaged_is_compiled_anew(site, tmp_path, damage):
    zipimport._compile_source("/tmp/a.zip/m.py", SOURCE)
    [kept] = (tmp_path / "kept").iterdir()
    kept.write_bytes(damage)
    assert answer(zipimport._compile_source("/tmp/b.zip/m.py", SOURCE)) == 4711
    assert site.compiled == ["/tmp/a.zip/m.py", "/tmp/b.zip/m.py"]
