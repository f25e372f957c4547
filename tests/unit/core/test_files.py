# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are replaced whole, or not at all."""

from __future__ import annotations

import json
import os
import resource
import stat

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import files
from ansible_collections.storlab.testbed.plugins.module_utils.core.answer import refused_by_system
from unchanged import refused


def mode_of(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_file_is_made_and_replaced_with_its_mode(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(str(path), {"b": 2, "a": 1})
    assert path.read_text() == '{"a": 1, "b": 2}' and mode_of(path) == 0o644
    files.write_json(str(path), [3], mode=0o600, indent=1)
    assert path.read_text() == "[\n 3\n]" and mode_of(path) == 0o600
    assert os.listdir(tmp_path) == ["a.json"]


def test_who_has_the_old_file_open_reads_it_to_its_end(tmp_path):
    path = tmp_path / "a.bin"
    files.write_whole(str(path), b"old")
    with path.open("rb") as handle:
        files.write_whole(str(path), b"new one")
        assert handle.read() == b"old"
    assert path.read_bytes() == b"new one"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    files.write_whole(str(path), b"old")

    def full(_source, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with refused(tmp_path, kind=OSError, match="No space"):
        files.write_whole(str(path), b"new")


@pytest.fixture
def full_disk():
    """Every file ends after its first byte, as on a full disk: the error has no name of a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_a_full_disk_refuses_is_named_and_the_old_file_stays(tmp_path, full_disk):
    path = tmp_path / "record.json"
    with pytest.raises(OSError, match=r"record\.json") as caught:
        files.write_json(str(path), {"key": "value"})
    assert caught.value.filename == str(path) and list(tmp_path.iterdir()) == []
    assert str(path) in refused_by_system(caught.value).what


def test_it_is_written_beside_another_folder_where_every_file_is_read(tmp_path, monkeypatch):
    (tmp_path / "records").mkdir()
    seen = []
    replace = os.replace
    monkeypatch.setattr(files.os, "replace", lambda source, target: (seen.append(source), replace(source, target)))
    files.write_whole(str(tmp_path / "records" / "default"), b"x", beside=str(tmp_path))
    assert [os.path.dirname(path) for path in seen] == [str(tmp_path)]
    assert (tmp_path / "records" / "default").read_bytes() == b"x"


def test_what_is_not_there_is_none_and_what_is_no_json_a_failure(tmp_path):
    path = tmp_path / "a.json"
    assert files.read_json(str(path)) is None
    path.write_text("{")
    with refused(tmp_path) as caught:
        files.read_json(str(path), "Restore it.")
    assert (
        caught.value.code == "record_damaged" and str(path) in str(caught.value) and "Restore it." in str(caught.value)
    )
    path.write_text(json.dumps({"a": [1]}))
    assert files.read_json(str(path)) == {"a": [1]}
