# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every single edit of a JSON value: each number, text and truth changed, each key and element taken away, one added everywhere.

Of a mapping or list with more than MANY entries (the bins of a histogram) the first, the middle and the last are edited: all of them are alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MANY = 40


def _keys(value: Any) -> list:
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return keys if len(keys) <= MANY else [keys[0], keys[len(keys) // 2], keys[-1]]


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """(path, leaf) of everything that is neither a mapping nor a list; an empty one counts as a leaf."""
    keys = _keys(value)
    if not keys:
        yield path, value
    for key in keys:
        yield from leaves(value[key], (*path, key))


def changed(leaf: Any) -> list:
    """Other values of a leaf, among them the smallest that anybody would write."""
    if isinstance(leaf, bool):
        return [not leaf]
    if isinstance(leaf, int):
        return [leaf + 1, -leaf - 1]
    if isinstance(leaf, float):
        return [leaf * (1 + 1e-9) + 1e-9, -leaf - 1]
    if isinstance(leaf, str):
        return [f"{leaf}x", ""] if leaf else ["x"]
    return [1]


def edits(value: Any) -> Iterator[tuple]:
    """(dotted path, the whole value with that one edit)."""
    for path, leaf in leaves(value):
        for other in changed(leaf):
            yield _dotted(path), _with(value, path, lambda parent, key, other=other: parent.__setitem__(key, other))
    for path in _containers(value):
        whole = _at(value, path)
        for key in _keys(whole):
            yield _dotted((*path, key)), _with(value, (*path, key), lambda parent, key: parent.__delitem__(key))
        if isinstance(whole, dict):
            yield (
                _dotted((*path, "added")),
                _with(value, (*path, "added"), lambda parent, key: parent.__setitem__(key, 1)),
            )
        else:
            yield _dotted(path), _with(value, (*path, 0), lambda parent, _key: parent.append("added"))


def _containers(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if isinstance(value, (dict, list)):
        yield path
        for key in _keys(value):
            yield from _containers(value[key], (*path, key))


def _at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: tuple, change: Any) -> Any:
    edited = json.loads(json.dumps(value))
    change(_at(edited, path[:-1]), path[-1])
    return edited


def _dotted(path: tuple) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
