# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that users choose, and names that others gave: what is taken, and how they are written here."""

from __future__ import annotations

import re

from .failure import bad_value

# The file that a benchmark of a datastore reads and writes.
BENCHMARK_FILE = "storlab-benchmark.dat"
# Files of a request to an NFS server in its export (run/server_cache.py); a benchmark that is killed leaves them.
CACHE_REQUEST, CACHE_ANSWER = ".storlab-cache-request", ".storlab-cache-answer"


def benchmark_files(count: int) -> list[str]:
    """The names of a datastore's benchmark files: one alone has the plain name, several have their number from 0."""
    stem, dot, ending = BENCHMARK_FILE.rpartition(".")
    return [BENCHMARK_FILE] if count == 1 else [f"{stem}.{number}{dot}{ending}" for number in range(count)]


def check_testbed_id(variable: str, testbed_id: str) -> str:
    """The id becomes part of file, device and backstore names, so it is held to what all of them take."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9_.-]{0,30}[a-z0-9])?", testbed_id or ""):
        raise bad_value(
            variable,
            testbed_id,
            "Use at most 32 lower-case letters, digits, dots, dashes or underscores, starting and ending with a letter or digit.",
        )
    return testbed_id


NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9])?")
NAME_REMEDY = "Use at most 32 letters, digits, dots, dashes or underscores, starting and ending with a letter or digit."


def check_name(variable: str, name: str) -> str:
    if not NAME.fullmatch(name or ""):
        raise bad_value(variable, name, NAME_REMEDY)
    return name


def naa_of(name: str) -> str | None:
    """The '6001…' of 'naa.6001…'; None of a name of another kind, such as eui. or t10."""
    return name[4:] if name.startswith("naa.") else None


def designator_of(name: str) -> str | None:
    """The part of a SCSI device's name that proves which device it is: '6001…' of 'naa.6001…', and 'eui.…' and 't10.…' as they are.

    None of a name that says where the device is (mpx.) or that only one host gives it.
    """
    return naa_of(name) or (name if name.startswith(("eui.", "t10.")) else None)


def device_name(designator: str) -> str:
    """The name that hosts give the device of a designator, as ``designator_of`` returns it."""
    return designator if designator.startswith(("eui.", "t10.")) else f"naa.{designator}"


def plain_naa(name: str) -> str:
    """'naa.6001…' as '6001…', which is how layers carry it; other names as they are."""
    return naa_of(name) or name
