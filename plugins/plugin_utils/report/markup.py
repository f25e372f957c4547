# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where HTML, SVG and Markdown come from: the templates beside this file. Values put into HTML and SVG are escaped by Jinja2 itself.

Python works out figures and places; whatever has a tag in it is written by a template, or by a macro of ``chart.svg.j2`` that is called from here.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jinja2
from markupsafe import Markup

from ...module_utils.core import units
from ...module_utils.core.files import write_whole
from . import theme

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
NOTHING = Markup("")


def plain(text: object) -> str:
    """Text that stays text in Markdown: no table break, no HTML, no emphasis, no link."""
    return (
        re.sub(r"([\\|*_`\[\]#~])", r"\\\1", " ".join(str(text).split()))
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )


def code(text: object) -> str:
    return "`" + " ".join(str(text).split()).replace("`", "'").replace("|", "¦") + "`"


def added_between(step: Any) -> str:
    """' (95 %: +1.10 ms to +1.32 ms)', or that there is no such interval; nothing where no difference is given."""
    if step.added_mean_ns is None or not step.comparable:
        return ""
    if step.added_between_ns is None:
        return " (one repetition, no interval)"
    low, high = (units.added_latency(value) for value in step.added_between_ns)
    return f" (95 %: {low} to {high})"


ESCAPED = ["html.j2", "svg.j2"]
OPTIONS: dict[str, Any] = {
    "undefined": jinja2.StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    # Folding the constants of a template takes longer than it saves.
    "optimized": False,
}


class Compiled(jinja2.BytecodeCache):
    """Compiled templates in ``__pycache__`` beside the templates, as Python keeps its own: compiling them takes longer than a small report.

    Each holds the checksum of what it was compiled of and marshalled code. Where nothing can be written each process compiles again.
    """

    def __init__(self, folder: str):
        self.folder = os.path.join(folder, "__pycache__")

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return f"{name}.{sys.implementation.cache_tag}"

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(f"{jinja2.__version__} {ESCAPED} {sorted(OPTIONS.items())} {source}")

    def load_bytecode(self, bucket: Any) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), open(self._path(bucket), "rb") as handle:
            if handle.readline() == f"{bucket.checksum}\n".encode():
                bucket.code = marshal.load(handle)  # noqa: S302 who writes there can write the templates

    def dump_bytecode(self, bucket: Any) -> None:
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                os.makedirs(self.folder, exist_ok=True)
                write_whole(self._path(bucket), f"{bucket.checksum}\n".encode() + marshal.dumps(bucket.code))

    def _path(self, bucket: Any) -> str:
        return os.path.join(self.folder, bucket.key)


@functools.cache
def templates() -> Any:
    """HTML and SVG are escaped by Jinja2, Markdown by the filters plain and code, which know what Markdown takes for markup."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=jinja2.select_autoescape(ESCAPED),
        bytecode_cache=Compiled(FOLDER),
        **OPTIONS,
    )
    environment.filters.update(
        plain=plain,
        code=code,
        iops=units.iops,
        latency=units.latency,
        between=units.latency_between,
        added=units.added_latency,
        added_between=added_between,
        bandwidth=units.bandwidth,
        ratio=units.ratio,
        percent=units.percent,
        moment=units.moment,
        exact=units.exact,
    )
    return environment


def fill(name: str, **content: Any) -> str:
    """The template of this name with its content."""
    return str(templates().get_template(name).render(content))


def pieces(name: str, **content: Any) -> Iterator[str]:
    """The same in pieces, for a page that is too long to be whole in memory."""
    return iter(templates().get_template(name).generate(content))


@functools.cache
def shapes() -> Any:
    """The macros of chart.svg.j2 as functions that return Markup."""
    return templates().get_template("chart.svg.j2").module


def joined(parts: Iterable[Markup]) -> Markup:
    return NOTHING.join(parts)


def style(coloured: Iterable[tuple[str, str]] = (), *more: str) -> str:
    """The style sheet of a page. coloured: [(class, name of its colour)] beside those that every page has; more: sheets of its own."""
    colours = (*theme.COLOURED, *coloured)
    return fill("style.css.j2", theme=theme, c=theme.VARIABLES, alone=False, coloured=colours) + "".join(
        map(asset, more)
    )


def asset(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as handle:
        return handle.read()
