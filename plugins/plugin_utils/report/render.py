# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a report. Text out, nothing is written here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from ..store.collector import without_collector
from .html_page import html_pieces
from .markdown import markdown
from .nouns import Report
from .results_csv import results_csv
from .results_json import results_json

FILES = ("index.html", "report.md", "results.csv", "results.json")


def files(report: Report) -> dict[str, str | Callable[[], Iterator[str]]]:
    """File name -> text of every file of the report, or a function that yields its text in pieces: files that grow with all that is known of each point."""
    return {
        "index.html": functools.partial(_pieces, html_pieces, report),
        "report.md": markdown(report),
        "results.csv": functools.partial(_pieces, results_csv, report),
        "results.json": functools.partial(_pieces, results_json, report),
    }


def _pieces(draw: Callable[[Report], Iterator[str]], report: Report) -> Iterator[str]:
    with without_collector():
        yield from draw(report)


def render(report: Report) -> dict[str, str]:
    """File name -> text of every file of the report."""
    return {name: text if isinstance(text, str) else "".join(text()) for name, text in files(report).items()}
