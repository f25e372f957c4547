# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name says what it names: a result, a layer, a message. Words that say only how it was come by are no names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

ROOT = Path(__file__).parents[3]
PLUGINS = ROOT / "plugins"
WORDS = {"found", "one", "told", "said", "asked"}
EXCEPTIONS = {
    # A step that is told of, and kept, by this name: CHAP for targets that the host has found by discovery.
    ("module_utils/esxi/adapter.py", "chap_found"),
    # A key of the state that raid.py plans from: the superblocks on an array's members.
    ("module_utils/linux/nouns.py", "found"),
    ("plugin_utils/chain/nouns.py", "said"),
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


MISSPELT = re.compile(r"(?<![\w./@:-])(?!iSCSI)(?i:iscsi)(?![\w./:-])")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|\b[CVOM]\([^)]*\)", re.MULTILINE | re.DOTALL)


def misspelt(text: str) -> list[str]:
    """Where the protocol's name is written otherwise than iSCSI in prose: code, links and parts of other names have spellings of their own."""
    return MISSPELT.findall(CODE.sub("", text))


def prose() -> Iterator[tuple[str, str]]:
    """(file, prose): whole pages, and of playbooks, roles and modules what people are shown of them."""
    # CHANGELOG.md is generated, and takes names apart by backslashes.
    for path in [*(ROOT / "docs").rglob("*.md"), *(set(ROOT.glob("*.md")) - {ROOT / "CHANGELOG.md"})]:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted(
        path for place in ("playbooks", "roles", "molecule", "plugins") for path in (ROOT / place).rglob("*")
    ):
        if path.suffix in (".yml", ".py"):
            lines = re.findall(
                r"^ *(?:- )?(?:name|description|short_description): (.* .*)$", path.read_text(encoding="utf-8"), re.M
            )
            yield str(path.relative_to(ROOT)), "\n".join(lines)


def test_iscsi_is_written_as_its_standard_has_it():
    assert {file: wrong for file, text in prose() if (wrong := misspelt(text))} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ISCSI target", ["ISCSI"]),
        ("An iscsi session, an iScsi target, an Iscsi one.", ["iscsi", "iScsi", "Iscsi"]),
        (
            "An iSCSI target, `iscsi`, C(ISCSI.MaxIoSizeKB), iscsi_target, [it](x/iscsi), open-iscsi, /etc/iscsi, E2-iscsi",
            [],
        ),
        ("```\niscsi x\n```\nISCSI x", ["ISCSI"]),
    ],
)
def test_other_spellings_are_noticed(text, expected):
    assert misspelt(text) == expected
