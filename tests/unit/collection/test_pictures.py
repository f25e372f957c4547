# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the pictures of the documentation are made."""

from __future__ import annotations

import re
import struct
import zlib

import pictures
import small_png


def test_a_small_png_has_the_pixels_that_it_was_given():
    data = small_png.png(3, 2, [0x102030, 0xFFEEDD], bytes([0, 1, 1, 1, 0, 0]))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, rest = {}, data[8:]
    while rest:
        (size,), kind = struct.unpack(">I", rest[:4]), rest[4:8]
        assert struct.unpack(">I", rest[8 + size : 12 + size]) == (zlib.crc32(rest[4 : 8 + size]),)
        chunks[kind], rest = rest[8 : 8 + size], rest[12 + size :]
    assert list(chunks) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    assert struct.unpack(">II5B", chunks[b"IHDR"]) == (3, 2, 8, 3, 0, 0, 0)
    assert chunks[b"PLTE"].hex() == "102030ffeedd"
    # A row begins with its filter: none.
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 1, 1, 0, 1, 0, 0])


def test_a_command_belongs_to_the_picture_right_after_it():
    text = "```\na b   # why\nc\n```\n\n![x](img/p-one.svg)\n\n```\nd\n```\n\nText\n\n![y](img/p-two.svg)\n\n```yaml\ne\n```\n\n![z](img/p-three.svg)\n"
    assert pictures.shown(text) == {"p-one": "a b\nc"}


def test_a_terminal_has_80_columns_and_no_line_break_as_text(tmp_path):
    drawing = pictures.drawn("true", "\x1b[0;32mok\x1b[0m\nworking 10 %\rworking 20 %\n" + "x\n" * 9, 4)
    text = re.sub(r"&#160;", " ", drawing)
    assert text.count(">x<") == 4 and "…" in text and "working" not in text
