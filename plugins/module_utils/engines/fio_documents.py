# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents in the output of fio: JSON between messages, damaged, broken off, with keys given twice."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any, cast

from ..core.failure import Failure
from .fio_job import WINDOWS_LOG as WINDOWS_LOG  # both halves of fio are found here
from .fio_job import check as check
from .fio_job import escape as escape
from .fio_job import fill_file as fill_file
from .fio_job import ioengine as ioengine
from .fio_job import job_file as job_file

# Lines before a document that may begin one. More of them are not a file of results.
MOST_WRAPPERS = 64
# fio writes its version first; other tools that store its output sort the keys.
_START = re.compile(r'\{\s*"(?:fio version|client_stats|disk_util|global options|jobs|time|timestamp|timestamp_ms)"')
# A wrapper may put keys of its own first. Documents begin a line, what is nested in them is indented.
_MAY_START = re.compile(r'^\{\s*"', re.MULTILINE)
# Where a document of any kind may begin that holds others.
_MAY_HOLD = re.compile(r"^[ \t]*(?=[\[{])", re.MULTILINE)
_VERSION_KEY = re.compile(r'"fio version"\s*:')
_TERSE = re.compile(r"^\d;(?:[^;\n]*;){20}", re.MULTILINE)
_HUMAN = re.compile(r"^\S[^\n]{0,200}: (?:\(groupid=\d+, jobs=\d+\): err=|\(g=\d+\): rw=)", re.MULTILINE)
# What C prints for a number that is none; JSON has no word for it.
_NOT_A_NUMBER = re.compile(r"-?(?:nan|inf)\b")
_STRING_OR_NOT_A_NUMBER = re.compile(rf'"(?:[^"\\]|\\.)*"|{_NOT_A_NUMBER.pattern}', re.DOTALL)
# The options as the user wrote them: a later one wins, as it does in fio.
_OPTION_LISTS = ("job options", "global options")
# fio 2.x and 3.0-3.1 fill a percentile list that is shorter than theirs with it, as often as it takes.
_PADDING = "0.00"


def parse(text: str) -> tuple[list[dict[str, object]], str]:
    """(every fio document in the text, in order, what is said in plain words before, between and after them).

    Failure 'no_result' when there is none, 'fio_output_unreadable' when one breaks off or gives a figure twice: which of two is meant, or what
    the missing part said, no one knows.
    """
    documents: list[dict[str, object]] = []
    between: list[str] = []
    position = 0
    repeated: dict[int, tuple[str, dict[str, object]]] = {}

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            key = _first_repeated(key for key, _value in pairs if key != _PADDING)
            if key is not None:
                # With the mapping itself, or its id could become another's.
                repeated[id(values)] = (key, values)
        return values

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=mapping)
    while True:
        match = _START.search(text, position)
        start = _own_keys_first(decoder, text, position, match.start() if match else len(text))
        repeated.clear()
        if start is None:
            if not match:
                break
            start = match.start()
        between.append(text[position:start])
        document, position = _document(decoder, text, start, bool(documents))
        if "fio version" in document:
            _refuse_repeated(document, repeated, _line(text, start))
            documents.append(document)
        repeated.clear()
    if not documents:
        documents, start, position = _held(decoder, text)
        between = [text[:start]]
        for document in documents:
            _refuse_repeated(document, repeated, _line(text, start))
    if not documents:
        raise _no_result(text)
    return documents, "\n".join([*between, text[position:]])


def _own_keys_first(decoder: json.JSONDecoder, text: str, position: int, limit: int) -> int | None:
    """Where before limit a document of fio begins with other keys than fio's own; None where none does."""
    matches = list(itertools.islice(_MAY_START.finditer(text, position, limit), MOST_WRAPPERS))
    for match, after in itertools.zip_longest(matches, matches[1:]):
        if not _VERSION_KEY.search(text, match.start()):
            return None
        try:
            document, _end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            # One that is damaged, and not a brace before others: whoever reads it finds out where.
            if _VERSION_KEY.search(text, match.start(), after.start() if after else limit):
                return match.start()
            continue
        if "fio version" in document:
            return match.start()
    return None


def _held(decoder: json.JSONDecoder, text: str) -> tuple[list[dict[str, object]], int, int]:
    """(documents of fio in a list or in a document of another program, where that begins, where it ends)."""
    for match in itertools.islice(_MAY_HOLD.finditer(text), MOST_WRAPPERS):
        if not _VERSION_KEY.search(text, match.end()):
            break
        try:
            held, end = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        documents, todo = [], [held]
        while todo:
            value = todo.pop(0)
            if isinstance(value, dict) and "fio version" in value:
                documents.append(value)
            elif isinstance(value, (dict, list)):
                todo += value.values() if isinstance(value, dict) else value
        if documents:
            return documents, match.end(), end
    return [], 0, 0


def _refuse_repeated(
    document: dict[str, object], repeated: dict[int, tuple[str, dict[str, object]]], line: int
) -> None:
    """Failure 'fio_output_unreadable' where the document, which begins in this line, gives a figure twice."""
    where = _repeated(document, repeated) if repeated else None
    if where:
        raise Failure(
            "fio_output_unreadable",
            f"The fio output gives {where} twice in the document that begins in line {line}.",
            "Measure again; the file was put together from several or is damaged.",
            key=where,
        )


def _no_result(text: str) -> Failure:
    """Why there is no document of fio in the text: in another program's JSON a line of it says nothing."""
    plain = _TERSE.search(text) or _HUMAN.search(text)
    for match in () if plain else itertools.islice(_MAY_HOLD.finditer(text), MOST_WRAPPERS):
        try:
            held, _end = json.JSONDecoder(strict=False).raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if _keys_of(held):
            key = _key_of_text(held)
            return Failure(
                "no_result",
                f"fio left no result: this is JSON of another program, which holds the output of fio as the text of its key {key!r}."
                if key
                else f"fio left no result: this is JSON of another program, whose keys are {_keys_of(held)}.",
                "Give that text alone, with its line breaks."
                if key
                else "Give the output of fio, run with --output-format=json+ (or json).",
            )
    return Failure(
        "no_result",
        f"fio left no result: {first_line(text)}",
        "Look at what fio says, and run it with --output-format=json+ (or json).",
    )


def _key_of_text(held: object) -> str | None:
    """The first key whose text, or lines of text, are output of fio."""
    todo: list[tuple[str, object]] = [("", held)]
    while todo:
        key, value = todo.pop(0)
        lines = isinstance(value, list) and value and all(isinstance(line, str) for line in value)
        text = "\n".join(cast("list[str]", value)) if lines else value
        if isinstance(text, str):
            if _VERSION_KEY.search(text):
                return key
        elif isinstance(value, dict):
            todo += [(str(name), below) for name, below in value.items()]
        elif isinstance(value, list):
            todo += [(key, below) for below in value]
    return None


def _keys_of(held: object) -> str:
    """The first keys of a mapping, or of the first one in a list; empty where there is none."""
    first = next((each for each in held if isinstance(each, dict)), {}) if isinstance(held, list) else held
    keys = [repr(str(key)[:40]) for key in cast("dict[str, object]", first)] if isinstance(first, dict) else []
    return ", ".join([*keys[:5], *(["…"] if len(keys) > 5 else [])])


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _document(decoder: json.JSONDecoder, text: str, start: int, others: bool) -> tuple[dict[str, object], int]:
    """(document, position after it) of the JSON that starts there; others: there are documents before it."""
    try:
        return decoder.raw_decode(text, start)
    except RecursionError:
        why = "is nested too deep"
    except ValueError as error:
        at = getattr(error, "pos", start)
        if _NOT_A_NUMBER.match(text, at):
            return _document(
                decoder, text[:start] + _STRING_OR_NOT_A_NUMBER.sub(_python_nan, text[start:]), start, others
            )
        why = f"breaks off in line {_line(text, at)}"
    raise Failure(
        "fio_output_unreadable" if others else "no_result",
        f"The fio output is damaged: the document that begins in line {_line(text, start)} {why}.",
        "Measure again; fio was interrupted, or the file is not whole.",
        line=_line(text, start),
    )


def _python_nan(match: re.Match[str]) -> str:
    # As long as it was, so that positions stay what they are.
    return match[0] if match[0].startswith('"') else "NaN".rjust(len(match[0]))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _repeated(document: dict[str, object], repeated: dict[int, tuple[str, dict[str, object]]]) -> str | None:
    """The path of a key that a document gives twice, None when only the options of a job do. repeated: {id of a mapping: (its first such key, it)}."""
    todo: list[tuple[str, Any]] = [("", document)]
    while todo:
        where, value = todo.pop()
        if id(value) in repeated:
            return f"{where}{repeated[id(value)][0]}"
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        todo += [
            (f"{where}{key}.", below)
            for key, below in inner
            if isinstance(below, (dict, list)) and key not in _OPTION_LISTS
        ]
    return None


def first_line(text: str) -> str:
    if _TERSE.search(text):
        return "this is terse output, which has no distribution."
    if _HUMAN.search(text):
        return "this is the output for people, which has no distribution."
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"it says {lines[0][:200]!r}." if lines else "its output is empty."
