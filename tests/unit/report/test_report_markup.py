# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML and SVG are written by templates that escape; no Python of the report has a tag in its strings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import places
import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import markup, tables

FOLDER = places.ROOT / "plugins" / "plugin_utils" / "report"
TAG = re.compile(r"(?<!\?P)</?[a-z][a-z0-9]*[ >/]")
# JUnit is XML for programs, and is quoted by xml.sax.
OTHERS = ("junit.py", "compare_render.py")
EVIL = "<img src=x onerror=alert(1)>'\""


def strings(source: str) -> list:
    """Every string of a module but its docstrings."""
    tree = ast.parse(source)
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    ]


def test_a_tag_in_a_string_is_found():
    assert [text for text in strings('"""<b>doc</b>"""\nx = f"<td>{1}</td>"') if TAG.search(text)] == ["<td>", "</td>"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_no_python_writes_markup(path: Path):
    source = path.read_text(encoding="utf-8")
    if path.name not in OTHERS:
        assert not re.search(r"import .*\bescape\b|(?<!re\.)\bescape\(", source)
        assert [text for text in strings(source) if TAG.search(text)] == []


@pytest.mark.parametrize(
    "written",
    [
        lambda: markup.shapes().dots([("dot", EVIL, "1", "4", EVIL)]),
        lambda: markup.shapes().stripe(EVIL, 1, 2, 3, EVIL),
        lambda: (
            markup.templates()
            .get_template("table.html.j2")
            .module.grid(
                tables.Table(EVIL, [(EVIL, True)], [(EVIL, EVIL, [tables.words(EVIL), tables.cell(5.5, EVIL)])])
            )
        ),
        lambda: markup.templates().get_template("table.html.j2").module.traces([(EVIL, "a", EVIL, EVIL)]),
    ],
)
def test_what_is_put_into_a_macro_stays_text(written):
    text = written()
    assert "<img" not in text and "&lt;img src=x onerror=alert(1)&gt;&#39;&#34;" in text
