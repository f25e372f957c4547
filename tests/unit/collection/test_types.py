# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What functions pass to each other has a type: a mistyped key of a noun fails the type check, and less and less is of any type."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import places
import pytest

FOLDERS = tuple(places.ROOT / "plugins" / name for name in ("module_utils", "plugin_utils"))
# Percent of the annotations that hold Any. They only fall: whoever gives types to more writes the lower figure here; 15 is the goal.
MOST_PERCENT = {"parameters": 36.5, "returns": 31.0}
# A noun: the file that has its type, a key that every one has, and the same mistyped.
NOUNS = {
    "Layer": ("module_utils.core.layers", "host", "hots"),
    "Workload": ("module_utils.workload.workload", "queue_depth", "queue_dept"),
    "Point": ("module_utils.workload.point", "point_id", "pointid"),
    "Step": ("module_utils.core.steps", "target", "taget"),
    "Result": ("module_utils.result.schema", "status", "staus"),
}


def aliases(tree: ast.Module) -> set[str]:
    """Names at the top of a file that stand for a type with Any in it, so that no other name hides it."""
    known = {"Any"}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and not isinstance(node.value, (ast.Dict, ast.Call))
            and holds(node.value, known)
        ):
            known |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return known


def holds(annotation: ast.expr, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(annotation))


def annotations(text: str) -> Iterator[tuple[str, bool]]:
    """(parameters or returns, whether it holds Any) of each annotation of a function."""
    tree = ast.parse(text)
    names = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
                if parameter is not None and parameter.annotation is not None:
                    yield "parameters", holds(parameter.annotation, names)
            if node.returns is not None:
                yield "returns", holds(node.returns, names)


def percent(texts: list[str]) -> dict[str, float]:
    kinds: dict[str, list[bool]] = {"parameters": [], "returns": []}
    for text in texts:
        for kind, loose in annotations(text):
            kinds[kind].append(loose)
    return {kind: 100 * sum(loose) / len(loose) for kind, loose in kinds.items() if loose}


def test_ever_less_is_of_any_type():
    texts = [path.read_text(encoding="utf-8") for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
    share = percent(texts)
    print({kind: round(value, 1) for kind, value in share.items()})
    assert {kind for kind, most in MOST_PERCENT.items() if share[kind] > most} == set()
    # A limit that nobody lowers holds nothing.
    assert {kind for kind, most in MOST_PERCENT.items() if share[kind] < most - 2} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a: int, b: dict[str, Any]) -> str: ...", {"parameters": 50.0, "returns": 0.0}),
        ("def f(*a: Any, b: Layer, **c: int) -> list[Any] | None: ...", {"parameters": 100 / 3, "returns": 100.0}),
        ("State = dict[str, Any]\ndef f(a: State) -> None: ...", {"parameters": 100.0, "returns": 0.0}),
        ("def f(a, b): ...", {}),
    ],
)
def test_any_is_seen_wherever_an_annotation_holds_it(text, expected):
    assert percent([text]) == pytest.approx(expected)


def checked(folder: Path, reads: dict[str, str]) -> str:
    """What mypy says of a file that reads one key of each noun, with the project's settings and what it remembers of the files."""
    lines = ["from __future__ import annotations", ""]
    for noun, key in reads.items():
        lines += [
            f"from plugins.{NOUNS[noun][0]} import {noun}",
            f"def read_{noun.lower()}(it: {noun}) -> object:",
            f'    return it["{key}"]',
        ]
    file = folder / "reads.py"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    mypy = (sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--follow-imports", "silent")
    ran = subprocess.run([*mypy, str(file)], cwd=places.ROOT, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_a_mistyped_key_of_a_noun_fails_the_type_check(tmp_path):
    output = checked(tmp_path, {noun: wrong for noun, (_, _, wrong) in NOUNS.items()})
    missing = {noun for noun, (_, _, wrong) in NOUNS.items() if f'"{noun}" has no key "{wrong}"' not in output}
    assert missing == set(), output
    assert f"Found {len(NOUNS)} errors" in output


def test_the_right_keys_pass_it(tmp_path):
    assert "Success" in checked(tmp_path, {noun: key for noun, (_, key, _) in NOUNS.items()})
