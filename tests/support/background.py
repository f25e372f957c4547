# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon that a test makes itself, in place of QEMU or qemu-nbd."""

from __future__ import annotations

# The end of such a Python program: it goes into the background, writes its process into the file `place` and waits. Who started it goes on once
# that file is there. It needs os and signal.
GOES_INTO_THE_BACKGROUND = """
ready, written = os.pipe()
if os.fork():
    os.close(written)
    os._exit(0 if os.read(ready, 1) else 1)
os.setsid()
for number in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), number)
with open(place + ".new", "w") as stream:
    stream.write(str(os.getpid()))
os.rename(place + ".new", place)
os.write(written, b"1")
signal.pause()
"""
