# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of a page as data; ``table.html.j2`` writes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...module_utils.core import units


class Field(NamedTuple):
    """One field. value: the exact figure for programs and for sorting, None where the field has none; before: words before the figure."""

    text: Any
    value: Any = None
    css: str = ""
    ident: str = ""
    before: str = ""


class Table(NamedTuple):
    """A table that scrolls, sorts and copies. head: [(text, is a number)]; rows: [(css, first text, [Field])]."""

    name: str
    head: list[Any]
    rows: list[Any]
    css: str = ""


def cell(value: object, text: str, css: str = "") -> Field:
    """A figure: exact for programs, rounded for readers; a dash where nothing was measured."""
    css = f"n {css}".rstrip()
    return Field(text, value, css) if value is not None else Field(units.ABSENT, None, f"{css} absent")


def words(text: Any, css: str = "") -> Field:
    return Field(str(text), None, css)


def bounds(limits: tuple[object, ...]) -> Field:
    """The bounds of a percentile without a histogram."""
    return Field(units.latency_between(limits), None, "n bounds")
