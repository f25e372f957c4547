# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The colours of pages and charts, each said once. Pages name them as variables, a chart in a file of its own has the light theme's colours themselves."""

from __future__ import annotations

from ...module_utils.core.layers import KINDS

LINES = ("backing", "initiator", "target", "datastore", "guest", "ceiling")
LIGHT = {
    "page": "#f6f7f5",
    "panel": "#ffffff",
    "line": "#dfe3df",
    "soft": "#eef1ee",
    "ink": "#16211d",
    "dim": "#56635d",
    "link": "#0b5c8a",
    "warn": "#8a4b00",
    "warn-bg": "#fff4e0",
    "warn-line": "#e8b765",
    "bad": "#a3222a",
    "good": "#1b6e4b",
    "shade": "0 1px 2px rgb(20 40 30 / .06), 0 6px 22px rgb(20 40 30 / .05)",
    "ceiling": "#626b77",
    "backing": "#0b6fae",
    "target": "#0d8068",
    "initiator": "#b45309",
    "datastore": "#a8327d",
    "guest": "#5b45c2",
    "imported": "#7a5c00",
}
DARK = {
    "page": "#0e1412",
    "panel": "#161e1b",
    "line": "#2b3732",
    "soft": "#1e2824",
    "ink": "#e9efec",
    "dim": "#a3b1ab",
    "link": "#7cc4f0",
    "warn": "#ffcf86",
    "warn-bg": "#33260f",
    "warn-line": "#7d5a1c",
    "bad": "#ff9c9c",
    "good": "#7ddcb0",
    "shade": "none",
    "ceiling": "#98a3b0",
    "backing": "#55b2ee",
    "target": "#34c6a2",
    "initiator": "#f2a34a",
    "datastore": "#ec8fcb",
    "guest": "#a99bff",
    "imported": "#d9bf6b",
}
PAPER = {
    "page": "#fff",
    "panel": "#fff",
    "line": "#c8cec9",
    "soft": "#f1f3f1",
    "ink": "#000",
    "dim": "#444",
    "link": "#000",
    "warn": "#6b3a00",
    "warn-bg": "#fff",
    "warn-line": "#b98a3c",
    "bad": "#8c1d24",
    "good": "#14583b",
    "shade": "none",
    "ceiling": "#626b77",
    "backing": "#0b6fae",
    "target": "#0d8068",
    "initiator": "#b45309",
    "datastore": "#a8327d",
    "guest": "#5b45c2",
    "imported": "#7a5c00",
}
# Class -> colour: kinds of layers, and lines of a chart that are not layers by their place among their like.
COLOURED = (
    *((f"k-{kind}", kind) for kind in (*KINDS, "imported")),
    *((f"c{index}", kind) for index, kind in enumerate(LINES)),
)
VARIABLES = {"k": "var(--k)", **{name: f"var(--{name})" for name in LIGHT}}
PLAIN = {"k": "currentColor", **LIGHT}
