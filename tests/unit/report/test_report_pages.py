# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are written in pieces are the same files, and are only written when they differ."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import pages

PIECES = ("{\n", "µ: 1", "\ud800 half\n", "}\n")
WRITTEN = "{\nµ: 1? half\n}\n".encode()


def pieces():
    return iter(PIECES)


def test_pieces_are_written_as_one_text_would_be(tmp_path):
    for name, text in (("pieces.json", pieces), ("whole.json", "".join(PIECES))):
        pages.apply(str(tmp_path), pages.plan(str(tmp_path), {name: text}))
        assert (tmp_path / name).read_bytes() == WRITTEN


@pytest.mark.parametrize(
    ("present", "differs"),
    [
        (None, True),
        (WRITTEN, False),
        (WRITTEN + b" ", True),
        (WRITTEN[:-1], True),
        (WRITTEN.replace(b"1", b"2"), True),
        (b"", True),
    ],
)
def test_pieces_are_planned_only_when_the_file_differs(tmp_path, present, differs):
    path = tmp_path / "results.json"
    if present is not None:
        path.write_bytes(present)
    steps = pages.plan(str(tmp_path), {"results.json": pieces})
    assert [step["path"] for step in steps] == [str(path)] * differs
    pages.apply(str(tmp_path), steps)
    assert path.read_bytes() == WRITTEN


def test_a_file_whose_pieces_fail_stays_as_it_was(tmp_path):
    def failing():
        yield "new"
        raise KeyError("point")

    path = tmp_path / "results.json"
    path.write_bytes(b"old")
    with pytest.raises(KeyError):
        pages.apply(str(tmp_path), [{"path": str(path), "text": failing}])
    assert path.read_bytes() == b"old" and [entry.name for entry in tmp_path.iterdir()] == ["results.json"]
