# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTML and SVG are written by templates that escape; no Python of the report has a tag in its strings."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import jinja2
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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "words.html.j2").write_text("<p>{{ word }}</p>")
    return tmp_path


def filled(folder) -> str:
    """By a process that has not compiled anything yet."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, bytecode_cache=markup.Compiled(str(folder))
    )
    return environment.get_template("words.html.j2").render(word="5 < 6")


def test_a_template_is_compiled_once(folder, monkeypatch):
    assert filled(folder) == "<p>5 &lt; 6</p>"
    monkeypatch.setattr(jinja2.Environment, "compile", None)
    assert filled(folder) == "<p>5 &lt; 6</p>"


@pytest.mark.parametrize("damage", [b"", b"\n", None])
def test_a_changed_template_or_a_damaged_file_is_compiled_anew(folder, damage):
    filled(folder)
    (kept,) = (folder / "__pycache__").iterdir()
    whole = kept.read_bytes()
    if damage is None:
        (folder / "words.html.j2").write_text("<b>{{ word }}</b>")
        assert filled(folder) == "<b>5 &lt; 6</b>"
        return
    kept.write_bytes(whole[: whole.index(b"\n")] + damage)
    assert filled(folder) == "<p>5 &lt; 6</p>" and kept.read_bytes() == whole


def test_nothing_is_kept_where_nothing_can_be_written(folder):
    (folder / "__pycache__").write_text("a file")
    assert filled(folder) == filled(folder) == "<p>5 &lt; 6</p>"
    assert (folder / "__pycache__").read_text() == "a file"


def test_nothing_is_kept_where_python_keeps_nothing(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert filled(folder) == "<p>5 &lt; 6</p>" and not (folder / "__pycache__").exists()
