# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a report's page as a reader does: its text without style sheets and scripts, and the figures of its layer waterfall."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """text: what is shown, blanks joined. waterfall: {layer: {metric: value}} in the order of the rows."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.pieces: list = []
        self.waterfall: dict = {}
        self.hidden = 0
        self.table = self.metric = None
        self.layer: str | None = None
        self.feed(source)
        self.close()
        self.text = " ".join(" ".join(self.pieces).split())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        if tag in ("style", "script"):
            self.hidden += 1
        elif tag == "table":
            self.table = given.get("class") or ""
        elif tag == "tr" and self.table == "waterfall" and "data-layer" in given:
            self.layer = given["data-layer"]
            self.waterfall.setdefault(self.layer, {})
        if self.layer:
            self.metric = given.get("data-metric", self.metric)
            if tag == "data" and self.metric:
                self.waterfall[self.layer].setdefault(self.metric, float(given["value"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("style", "script"):
            self.hidden -= 1
        elif tag == "tr":
            self.layer = self.metric = None
        elif tag == "td":
            self.metric = None
        elif tag == "table":
            self.table = None

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.pieces.append(data)
