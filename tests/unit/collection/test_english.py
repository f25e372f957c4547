# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain English: eight patterns that a reader has to read twice are counted, and their counts may only fall.

The counts that are left are in tests/english.json. ``python tests/unit/collection/test_english.py`` lowers them there to what is left, and never raises one.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ALLOWED = ROOT / "tests" / "tools" / "english.json"
UNITS = "second|minute|hour|host|layer|link|point|line|round|disk|guest|lane|chain|run|side|worker|step|path|row"
PATTERNS = {
    # "What is measured is told by …": a subject that is a clause. A question is none.
    "free relative": re.compile(r"(?:^|[.:;|>] |^[-*#>]+ |\"|\*\*)What(?:ever)? [a-z][^.?!|\n]*(?![^.!|\n]*\?)(?=[.!|\n]|$)", re.M),
    # "cannot tell" is the name of a verdict, and plain English; an address of the web has words of its own.
    "tell for report": re.compile(r"(?<!annot )(?<!-)\b(?:tells?|told|telling)\b"),
    # A system's user without rights is called nobody.
    "meanwhile, besides, anew, beneath, nobody": re.compile(r"\b(?:meanwhile|besides|anew|beneath|(?<![`\"(])nobody)\b", re.I),
    "stands in, lies in": re.compile(r"\b(?:stands?|lies?|lay) (?:in|on|at|there|beside|behind|below|between|within|outside|beyond|above)\b"),
    "is no": re.compile(r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)[a-zA-Z]"),
    "those of, another one": re.compile(r"\b(?:those of|another one)\b"),
    "fronted of": re.compile(r"(?:^|[.:;|>] |^[-*#>]+ )Of (?!course)[a-z]", re.M),
    "a line a link": re.compile(r"\b(?:a|an|one|\d+) [a-zA-Z]+ an? (?:" + UNITS + r")\b"),
}  # fmt: skip
PARTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "playbooks", "plugins", "roles")
# Written by a program from the argument specifications, which are counted.
WRITTEN = ("docs/words.md", "docs/schema/")


def counts(text: str) -> Counter[str]:
    return Counter({name: len(pattern.findall(text)) for name, pattern in PATTERNS.items()})


def python_texts(source: str) -> tuple[list[str], list[str]]:
    """(string literals, comments and docstrings)."""
    tree = ast.parse(source)
    first = [
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    ]
    docstrings = {id(value): str(value.value) for value in first if isinstance(value, ast.Constant)}
    literals = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    comments = [line.strip() for line in source.splitlines() if line.lstrip().startswith("#")]
    return literals, [*docstrings.values(), *comments]


def area(path: str) -> str | None:
    """The row of the table that a file's text counts in."""
    if path.startswith(WRITTEN):
        return None
    if path.endswith(".md") and path.partition("/")[0] in (
        "docs",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "roles",
    ):
        return "docs"
    if path.startswith(("playbooks/", "roles/")) and path.endswith((".yml", ".j2")):
        return "playbooks and roles"
    if path.startswith("plugins/") and path.endswith((".py", ".yml", ".j2", ".js")):
        return "plugins"
    return None


def counted(files: dict[str, str]) -> dict[str, Counter[str]]:
    """Counts by area of files by path."""
    found: dict[str, Counter[str]] = {}

    def add(where: str, text: str) -> None:
        found.setdefault(where, Counter()).update(counts(text))

    for path, text in files.items():
        where = area(path)
        if where is None:
            continue
        if path.endswith(".py"):
            literals, comments = python_texts(text)
            for literal in literals:
                add(where, literal)
            for comment in comments:
                add("comments and docstrings", comment)
            continue
        if path.endswith(".yml"):
            for line in text.splitlines():
                add("comments and docstrings" if line.lstrip().startswith("#") else where, line.strip())
            continue
        add(where, text)
    return found


def repository() -> dict[str, str]:
    paths = [
        path
        for part in PARTS
        for path in (sorted((ROOT / part).rglob("*")) if (ROOT / part).is_dir() else [ROOT / part])
    ]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_text(encoding="utf-8") for name, path in names.items() if area(name)}


def verdicts(found: dict[str, Counter[str]], allowed: dict[str, dict[str, int]]) -> list[str]:
    """A sentence for each count that is not the allowed one."""
    said = []
    for where in sorted({*found, *allowed}):
        for name in PATTERNS:
            have, may = found.get(where, Counter())[name], allowed.get(where, {}).get(name, 0)
            if have > may:
                said.append(f"{where}: {name!r} rose from {may} to {have}; write the new sentence plainly.")
            if have < may:
                said.append(
                    f"{where}: {name!r} fell from {may} to {have}; run python tests/unit/collection/test_english.py."
                )
    return said


def lowered(found: dict[str, Counter[str]], allowed: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {
        where: {name: min(found.get(where, Counter())[name], may) for name, may in names.items()}
        for where, names in allowed.items()
    }


@pytest.mark.parametrize(
    ("name", "bad", "plain"),
    [
        ("free relative", "What is measured is told by the page.", "What is measured? The page says it."),
        ("tell for report", "The host told its time.", "The host reported its time."),
        ("meanwhile, besides, anew, beneath, nobody", "It is made anew.", "It is made again."),
        ("stands in, lies in", "It lies in a folder.", "It is in a folder."),
        ("is no", "This is no disk.", "There is no disk, and it is no longer used."),
        ("those of, another one", "Use another one.", "Use another disk."),
        ("fronted of", "Of two hosts the first counts.", "The first of two hosts counts."),
        ("a line a link", "It prints a line a link.", "It prints a line per link."),
    ],
)
def test_each_pattern_finds_what_it_is_for(name, bad, plain):
    assert counts(bad)[name] == 1 and counts(plain)[name] == 0


def test_text_counts_where_it_is_read():
    files = {
        "docs/a.md": "It lies in b.",
        "docs/words.md": "It lies in b.",
        "plugins/a.py": '"""It lies in b."""\n# This is no c.\nTEXT = "It was told."\n',
        "playbooks/a.yml": "# made anew\n- name: Tell it anew, once told\n",
        "tests/a.py": '"""It lies in b."""',
    }
    found = counted(files)
    assert {where: +counter for where, counter in found.items()} == {
        "docs": Counter({"stands in, lies in": 1}),
        "plugins": Counter({"tell for report": 1}),
        "comments and docstrings": Counter(
            {"stands in, lies in": 1, "is no": 1, "meanwhile, besides, anew, beneath, nobody": 1}
        ),
        "playbooks and roles": Counter({"tell for report": 1, "meanwhile, besides, anew, beneath, nobody": 1}),
    }


def test_a_count_may_neither_rise_nor_fall_unnoticed():
    allowed = {"docs": {"is no": 2, "tell for report": 3}}
    same = {"docs": Counter({"is no": 2, "tell for report": 3})}
    moved = {"docs": Counter({"is no": 4, "tell for report": 1})}
    assert verdicts(same, allowed) == []
    fell, rose = sorted(verdicts(moved, allowed), reverse=True)
    assert "'tell for report' fell from 3 to 1" in fell and "'is no' rose from 2 to 4" in rose
    assert lowered(moved, allowed) == {"docs": {"is no": 2, "tell for report": 1}}, "nothing is raised"


def test_the_counts_of_the_repository_only_fall():
    assert verdicts(counted(repository()), json.loads(ALLOWED.read_text(encoding="utf-8"))) == []


if __name__ == "__main__":
    left = lowered(counted(repository()), json.loads(ALLOWED.read_text(encoding="utf-8")))
    ALLOWED.write_text(json.dumps(left, indent=2) + "\n", encoding="utf-8")
