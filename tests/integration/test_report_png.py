# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts as PNG, drawn by a real browser."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import static
from fixtures.report import make_fixture
from plays import report as task

# -- with the task ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(make_fixture.write_run(str(tmp_path / "results"), 1, 1))


def test_png_files_are_pictures_and_are_drawn_once(tmp_path, run):
    first = task(tmp_path, run_dir=str(run), static=["png"])
    pictures = [Path(path) for name, path in first["files"].items() if name.endswith(".png")]
    assert len(pictures) == 4 and not list((run / "report" / "charts").glob("*.svg"))
    for picture in pictures:
        content = picture.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert content.startswith(static.PNG_SIGNATURE) and width > 1500 and height > 300
    times = [picture.stat().st_mtime_ns for picture in pictures]
    assert task(tmp_path, run_dir=str(run), static=["png"])["written"] == []
    assert [picture.stat().st_mtime_ns for picture in pictures] == times
    pictures[0].write_bytes(b"scribbled over")
    assert task(tmp_path, run_dir=str(run), static=["png"])["written"] == [str(pictures[0])]
