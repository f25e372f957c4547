# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name says what it names: a result, a layer, a message. Words that say only how it was come by are no names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

PLUGINS = Path(__file__).parents[3] / "plugins"
WORDS = {"found", "one", "told", "said", "asked"}
EXCEPTIONS = {
    # A step that is told of, and kept, by this name: CHAP for targets that the host has found by discovery.
    ("module_utils/esxi/adapter.py", "chap_found"),
}


def names_of_python(text: str) -> Iterator[str]:
    """Every name that a file gives: to variables, parameters, attributes, functions, classes and what it imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name


def names_of_jinja(text: str) -> Iterator[str]:
    for node in Environment(autoescape=True).parse(text).find_all((nodes.Name, nodes.Macro)):
        if isinstance(node, nodes.Macro) or node.ctx in ("store", "param"):
            yield node.name


READERS = {".py": names_of_python, ".j2": names_of_jinja}


def vague(names: Iterator[str]) -> list[str]:
    return [name for name in names if WORDS & set(name.lower().split("_"))]


def test_names_say_what_they_name():
    files = [path for path in sorted(PLUGINS.rglob("*")) if path.suffix in READERS]
    assert {".py", ".j2"} == {path.suffix for path in files}
    seen = {
        (path.relative_to(PLUGINS).as_posix(), name)
        for path in files
        for name in vague(READERS[path.suffix](path.read_text(encoding="utf-8")))
    }
    assert seen == EXCEPTIONS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("found = 1", ["found"]),
        ("for one, result in pairs: pass", ["one"]),
        ("layers = [each for one_layer in layers]", ["one_layer"]),
        ("if (said := read()): pass", ["said"]),
        ("def told(host): pass", ["told"]),
        ("def read(host, *asked, **said): pass", ["asked", "said"]),
        ("lines = sorted(lines, key=lambda one: one['at'])", ["one"]),
        ("self.asked_s = 5", ["asked_s"]),
        ("class Found: pass", ["Found"]),
        ("from .host import state as found", ["found"]),
        ("try: pass\nexcept OSError as told: pass", ["told"]),
        ("match layer:\n    case [*one]: pass\n    case said: pass", ["one", "said"]),
        ("ASKED = ('engine',)", ["ASKED"]),
        # What is read is not named here, keys are data, and parts of words are other words.
        ("state = found['said'](told=one.asked)", []),
        ("component, toldness, foundation, phone_number = 1, 2, 3, 4", []),
    ],
)
def test_names_are_seen_wherever_python_gives_them(text, expected):
    assert sorted(vague(names_of_python(text))) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% set found = 1 %}{{ found }}", ["found"]),
        ("{% for one in layers %}{{ one.name }}{% endfor %}", ["one"]),
        ("{% macro told(said) %}{{ said }}{% endmacro %}", ["told", "said"]),
        ("{{ found.said }}{% for layer in asked %}{{ layer }}{% endfor %}", []),
    ],
)
def test_names_are_seen_wherever_a_template_gives_them(text, expected):
    assert sorted(vague(names_of_jinja(text))) == sorted(expected)
