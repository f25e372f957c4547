#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts one small mistake at a time into parsers and statistics, and says which of them no test notices.

    python tests/tools/mutation.py --seed 7 --cells 300 [--only histogram]

The mistakes are a random sample of all; the seed repeats it. Each that lives is to be read: it makes no difference to anybody, or a test is missing.
The tests run in copies of the checkout, which stays as it is. Exit code 1 when a mistake lives, 2 when the tests fail without any.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# What a test run may take, as a multiple of one without a mistake: a mistake in a loop may never end.
PATIENCE = 10
MADE = (".cache", ".git", ".venv", ".ansible", ".hypothesis", ".state", "__pycache__", "results")
ENGINES = ("tests/unit/engines",)
STORED = (*ENGINES, "tests/unit/store")
STATISTICS = ("tests/unit/result", "tests/unit/compare/test_compare_stats.py")
FILES = {
    "plugins/module_utils/engines/diskspd.py": STORED,
    "plugins/module_utils/engines/esxtop.py": STORED,
    "plugins/module_utils/engines/fio.py": ENGINES,
    "plugins/module_utils/engines/fio_documents.py": ENGINES,
    "plugins/module_utils/engines/fio_figures.py": ENGINES,
    "plugins/module_utils/engines/hammerdb.py": STORED,
    "plugins/module_utils/engines/icf.py": STORED,
    "plugins/module_utils/engines/icf_writer.py": STORED,
    "plugins/module_utils/engines/iometer.py": STORED,
    "plugins/module_utils/engines/iometer_file.py": STORED,
    "plugins/module_utils/engines/jetstress.py": STORED,
    "plugins/module_utils/result/histogram.py": STATISTICS,
    "plugins/module_utils/result/physics.py": STATISTICS,
    "plugins/module_utils/result/steady_state.py": STATISTICS,
    "plugins/plugin_utils/compare/stats.py": STATISTICS,
}
SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


class Mistake(NamedTuple):
    line: int
    what: str
    text: str


def _places(tree: ast.Module) -> list:
    """[(object, attribute, index or None)] of each part of the code that can be replaced; types and their texts are none."""
    places, waiting = [], [tree]
    while waiting:
        parent = waiting.pop()
        for attribute, value in ast.iter_fields(parent):
            if attribute in ("annotation", "returns", "decorator_list") or isinstance(parent, ast.JoinedStr):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(child, ast.AST):
                    places.append((parent, attribute, index))
                    waiting.append(child)
    return places


def _key(parent: ast.AST, attribute: str) -> bool:
    """Whether a text there is what something is looked up by. Other texts are messages as often as not."""
    getter = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "get"
    return attribute == "slice" or isinstance(parent, ast.Compare) or (getter and attribute == "args")


def _wrong(node: ast.AST, parent: ast.AST, attribute: str) -> ast.AST | None:
    """What is put in place of a part, or None when nothing is."""
    if type(node) in SWAPS:
        return SWAPS[type(node)]()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return ast.Constant(not node.value)
        if isinstance(node.value, (int, float)):
            return ast.Constant(node.value + 1)
        if isinstance(node.value, str) and _key(parent, attribute):
            return ast.Constant(f"{node.value}x")
        return None
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        return ast.Return(ast.Constant(None))
    if attribute == "test" and not isinstance(node, (ast.Compare, ast.BoolOp)):
        return ast.UnaryOp(ast.Not(), node)
    return None


def _put(parent: ast.AST, attribute: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, attribute, node)
    else:
        getattr(parent, attribute)[index] = node


def mistakes(text: str) -> list[Mistake]:
    """Each mistake that can be put into a file, with the text it then has."""
    tree = ast.parse(text)
    right, wanted = ast.unparse(tree), []
    for parent, attribute, index in _places(tree):
        value = getattr(parent, attribute)
        node = value if index is None else value[index]
        wrong = _wrong(node, parent, attribute)
        if wrong is None:
            continue
        shown = parent if not hasattr(node, "lineno") else node
        before = ast.unparse(shown)
        _put(parent, attribute, index, wrong)
        changed = ast.unparse(ast.fix_missing_locations(tree))
        after = ast.unparse(shown if shown is parent else wrong)
        _put(parent, attribute, index, node)
        if changed != right:
            wanted.append(Mistake(shown.lineno, f"{before[:70]}  ->  {after[:70]}", changed))
    return sorted(wanted)


def copy(folder: Path, root: Path = ROOT) -> Path:
    """The checkout without what is made in it, with a link by which it is a collection."""
    shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*MADE), symlinks=True, dirs_exist_ok=True)
    link = folder / ".cache/collections/ansible_collections/storlab/testbed"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)
    return folder


def noticed(folder: Path, tests: tuple[str, ...], timeout: float | None = None) -> bool:
    """Whether the tests fail there, or do not end."""
    # Two texts of one length in one second would share what Python compiled.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not ansible", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    # 1: a test failed, 2: a file of tests could not be imported. All else says nothing of the mistake.
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"pytest ended with {done.returncode} in {folder}:\n{done.stdout}{done.stderr}")
    return done.returncode != 0


def report(tried: list[tuple[str, Mistake, bool]]) -> list[str]:
    """Those that live, then the score of each file and of all."""
    number, killed = Counter(name for name, _, _ in tried), Counter(name for name, _, seen in tried if seen)
    rows = [(name, killed[name], number[name]) for name in sorted(number)]
    rows.append(("all files", sum(killed.values()), len(tried)))
    return [
        *(f"{name}:{mistake.line}  {mistake.what}" for name, mistake, seen in sorted(tried) if not seen),
        *(f"{100 * good / many:5.1f} %  {good:4} of {many:4} noticed  {name}" for name, good, many in rows if many),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--only", default="", help="a part of the names of the files")
    options = parser.parse_args(arguments)
    files = [name for name in FILES if options.only in name]
    every = [(name, mistake) for name in files for mistake in mistakes((ROOT / name).read_text(encoding="utf-8"))]
    cells = random.Random(options.seed).sample(every, min(options.cells, len(every)))  # noqa: S311 - a sample, no secret
    print(f"{len(cells)} of {len(every)} mistakes in {len(files)} files, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutation-") as place:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(options.jobs):
            (Path(place) / str(number)).mkdir()
            copies.put(copy(Path(place) / str(number)))
        limits = {}
        for tests in sorted({FILES[name] for name, _ in cells}):
            folder, started = copies.get(), os.times().elapsed
            if noticed(folder, tests):
                print(f"The tests fail without any mistake: pytest {' '.join(tests)}", file=sys.stderr)
                return 2
            limits[tests] = 60 + PATIENCE * (os.times().elapsed - started)
            copies.put(folder)

        def attempt(cell: tuple[str, Mistake]) -> tuple[str, Mistake, bool]:
            name, mistake = cell
            folder = copies.get()
            right = (folder / name).read_text(encoding="utf-8")
            try:
                (folder / name).write_text(mistake.text, encoding="utf-8")
                seen = noticed(folder, FILES[name], limits[FILES[name]])
            finally:
                (folder / name).write_text(right, encoding="utf-8")
                copies.put(folder)
            if not seen:
                print(f"lives: {name}:{mistake.line}  {mistake.what}", flush=True)
            return name, mistake, seen

        with ThreadPoolExecutor(options.jobs) as pool:
            tried = list(pool.map(attempt, cells))
    print("\n".join(report(tried)))
    return 1 if any(not seen for _, _, seen in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
