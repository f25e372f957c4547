# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program of the stand-in is given, and what it says will become of it."""

from __future__ import annotations

from dataclasses import dataclass, field

STDOUT, STDERR = "", "stderr.txt"


@dataclass
class Started:
    """host: the Engines it runs on. licence: the version whose licence the account has accepted in IOMeter. fault: see engines.py."""

    arguments: list
    files: dict
    folder: str
    version: str
    account: str
    licence: str
    fault: str
    host: object
    begun: float


@dataclass
class Outcome:
    """seconds: when it ends, None when it never does. pieces: [(seconds, file or STDOUT, content)] that are appended then.
    written: {path: bytes} until the end.
    """

    seconds: float | None
    exit_code: int = 0
    pieces: list = field(default_factory=list)
    written: dict = field(default_factory=dict)


def said(text: str, exit_code: int = 1, name: str = STDERR) -> Outcome:
    """A program that says something and ends."""
    return Outcome(0.0, exit_code, [(0.0, name, text.replace("\n", "\r\n").encode())])
