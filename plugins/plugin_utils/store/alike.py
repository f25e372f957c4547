# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that the results of a run have alike, which are in memory once."""

from __future__ import annotations

import marshal
from typing import Any

# The parts of a result that others of its run, layer or workload say in the same words.
WORDS = ("schema", "testbed_id", "run_id", "status", "layer", "layer_kind", "host", "path", "variant", "workload_id")
FILES = ("raw", "job", "series")  # each with what was recorded of a file
SAME = frozenset(
    ("engine", "workload", "errors", "flags", "failures", "job", "series")
)  # parts that many results have alike; nobody changes them


class Ordered(dict[str, Any]):
    """A result whose keys are in the order of the alphabet, as are the keys of all mappings in it but ``files``: a writer need not sort them."""

    __slots__ = ()


def share(result: dict[str, Any], once: dict[Any, Any]) -> None:
    """Let the result have in common with others what they have alike. once: what was met so far, from call to call."""
    for key in SAME & result.keys():
        # By the bytes: 1 and 1.0 are equal, but are written in different words.
        result[key] = once.setdefault(marshal.dumps(result[key], 2), result[key])
    for key in FILES:
        if type(record := result.get(key)) is dict:
            for name, word in record.items():
                record[name] = once.setdefault(word, word) if type(word) is str else word
    for key in WORDS:
        if type(word := result.get(key)) is str:
            result[key] = once.setdefault(word, word)
