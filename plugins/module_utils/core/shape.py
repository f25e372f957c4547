# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data that is read back, or comes from somebody else, has the shape that its reader relies on, or a sentence says what has not.

A shape is a type, a tuple of types, ``[shape]`` for a list of these, ``{name: shape}`` for a mapping with these keys, of which those that end in ``?``
may be absent, or ``{str: shape}`` for a mapping of any names. A mapping may have other keys, too. bool is not an int; ``object`` is anything.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MOST_DEPTH = 32
# Nothing in it repeats, so that no text makes it slow.
_MARK = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
NUMBER = (int, float)


def misfit(value: object, shape: object, where: str = "it") -> str | None:
    """The fault, such as 'disks.ds1 is a str, not a mapping'; None when all fits."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is {_kind(value)}, not a list"
        return _first(misfit(part, shape[0], f"{where}[{number}]") for number, part in enumerate(value))
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where} is {_kind(value)}, not a mapping"
        return _first(_of_key(value, key, inner, where) for key, inner in shape.items())
    kinds = shape if isinstance(shape, tuple) else (shape,)
    fits = bool in kinds or object in kinds if isinstance(value, bool) else isinstance(value, kinds)
    return None if fits else f"{where} is {_kind(value)}, not {' or '.join(_word(kind) for kind in kinds)}"


def _of_key(value: dict[str, object], key: Any, inner: object, where: str) -> str | None:
    if key is str:
        return _first(misfit(part, inner, _below(where, name)) for name, part in value.items())
    name = key[:-1] if key.endswith("?") else key
    if name not in value:
        return None if key.endswith("?") else f"{where} has no {name}"
    return misfit(value[name], inner, _below(where, name))


def _below(where: str, name: str) -> str:
    return name if where == "it" else f"{where}.{name}"


def _first(problems: Any) -> str | None:
    return next((problem for problem in problems if problem), None)


def _word(kind: Any) -> str:
    words = {dict: "a mapping", list: "a list", type(None): "null"}
    return words.get(kind) or f"{'an' if kind is int else 'a'} {kind.__name__}"


def _kind(value: object) -> str:
    return _word(type(value))


def parse(raw: bytes, most_bytes: int, most_values: int, most_depth: int = MOST_DEPTH) -> Any:
    """JSON of bounded size, number of values and depth, all counted before a value is made; ValueError says what is exceeded.

    An empty list takes two bytes here and sixty in memory, so the size alone bounds nothing.
    """
    if len(raw) > most_bytes:
        raise ValueError(f"it has more than {most_bytes} bytes")
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > most_values:
        raise ValueError(f"it has more than {most_values} values")
    if _depth(raw) > most_depth:
        raise ValueError(f"it is nested more than {most_depth} deep")
    # Half a character may be in an engine's words; another encoding would hide brackets from what was counted.
    return json.loads(raw.decode("utf-8", "surrogatepass"), parse_constant=_not_json)


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    in_text = False
    for match in _MARK.finditer(raw):
        mark = match.group()
        if mark == b'"':
            in_text = not in_text
        elif not in_text and len(mark) == 1:
            depth += 1 if mark in b"[{" else -1
            deepest = max(deepest, depth)
    return deepest


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")
