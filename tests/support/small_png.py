# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PNG files with a palette: a picture of a page takes a third of what Chromium writes."""

from __future__ import annotations

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Turns the picture `data` (base64) into indices of its 256 most frequent colours; every other colour becomes the nearest one.
REDUCED = """(async (data) => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + data;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const bytes = context.getImageData(0, 0, image.width, image.height).data, colours = new Uint32Array(bytes.length / 4), counts = new Map();
    for (let i = 0; i < colours.length; i++) {
        const colour = colours[i] = bytes[4 * i] << 16 | bytes[4 * i + 1] << 8 | bytes[4 * i + 2];
        counts.set(colour, (counts.get(colour) || 0) + 1);
    }
    const palette = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 256).map(([colour]) => colour);
    const places = new Map(palette.map((colour, place) => [colour, place]));
    const distance = (a, b) => [16, 8, 0].reduce((sum, shift) => sum + ((a >> shift & 255) - (b >> shift & 255)) ** 2, 0);
    for (const colour of counts.keys()) if (!places.has(colour)) {
        let best = 0;
        for (let place = 1; place < palette.length; place++) if (distance(colour, palette[place]) < distance(colour, palette[best])) best = place;
        places.set(colour, best);
    }
    let pixels = '';
    for (const colour of colours) pixels += String.fromCharCode(places.get(colour));
    return {width: image.width, height: image.height, palette, pixels: btoa(pixels)};
})"""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, palette: list[int], pixels: bytes) -> bytes:
    """palette: colours as 0xRRGGBB; pixels: a place in the palette each, row by row."""
    rows = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    return SIGNATURE + b"".join(
        (
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", b"".join(colour.to_bytes(3, "big") for colour in palette)),
            chunk(b"IDAT", zlib.compress(rows, 9)),
            chunk(b"IEND", b""),
        )
    )
