# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that the results of a run have alike, which are in memory once."""

from __future__ import annotations

import contextlib
import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .point_index import Texts, Written

# The parts of a result that others of its run, layer or workload say in the same words.
WORDS = ("schema", "testbed_id", "run_id", "status", "layer", "layer_kind", "host", "path", "variant", "workload_id")
FILES = ("raw", "job", "series")  # each with what was recorded of a file
LENT = 128  # points whose texts are taken from the index at once
SHARED = ("name", "sha256", "state")  # of a file: others have the same words
SAME = frozenset(
    ("engine", "workload", "errors", "flags", "failures", "job", "series")
)  # parts that many results have alike; nobody changes them


class Ordered(dict[str, Any]):
    """A result whose keys are in the order of the alphabet, as are the keys of all mappings in it but ``files``: a writer need not sort them.

    texts, point: where its JSON is, and its key there; None where that is unknown, and once one of its keys has another value.
    """

    __slots__ = ("point", "texts")

    def __init__(self, result: dict[str, object], point: bytes | None = None) -> None:
        super().__init__(result)
        self.point = point
        self.texts: Texts | None = None

    def __setitem__(self, key: str, value: object) -> None:
        self.texts = None
        super().__setitem__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy is nobody's text


def lend(results: Iterable[object], texts: Texts | None) -> None:
    """Let the results that have their JSON in an index know where."""
    for result in results:
        if isinstance(result, Ordered) and result.point is not None:
            result.texts = texts


def lent(
    points: Sequence[dict[str, Any]], opened: Callable[[Texts], contextlib.AbstractContextManager[Written]]
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Each point, and its text from the index in the form that opened gives; None where there is none."""
    # The points of one run, so one index.
    lender = next((point.texts for point in points if isinstance(point, Ordered) and point.texts), None)
    with opened(lender) if lender else contextlib.nullcontext() as written:
        for start in range(0, len(points), LENT):
            batch = points[start : start + LENT]
            keys = [_text_at(point) for point in batch]
            texts = written([key for key in keys if key is not None]) if written else {}
            for point, key in zip(batch, keys):
                yield point, texts.get(key) if key is not None else None


def _text_at(point: dict[str, Any]) -> bytes | None:
    return point.point if isinstance(point, Ordered) and point.texts else None


def share(result: dict[str, Any], once: dict[Any, Any]) -> None:
    """Let the result have in common with others what they have alike. once: what was met so far, from call to call."""
    for key in SAME & result.keys():
        # By the bytes: 1 and 1.0 are equal, but are written in different words.
        value = result[key]
        result[key] = once.setdefault(marshal.dumps(value, 2) if value != [] else "[]", value)
    # The other files are in memory once as a whole.
    if type(record := result.get("raw")) is dict:
        for name, word in record.items():
            record[name] = once.setdefault(word, word) if type(word) is str else word
    for key in WORDS:
        if type(word := result.get(key)) is str:
            result[key] = once.setdefault(word, word)


def share_files(result: dict[str, Any], once: dict[object, object]) -> None:
    """Order the files as they are shown, and keep words that others have in memory once."""
    files = result["files"]
    result["files"] = {kind: files[kind] for kind in FILES if kind in files}
    for file in files.values():
        for key in SHARED:
            word = file[key]
            file[key] = once.setdefault(word, word)
