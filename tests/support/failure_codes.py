# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every code that a failure or a failed point can have, read from the source without running it.

A code stands where a Failure is raised, or in a mapping {"code": …, "message": …}: as a text, as one of several (`a if b else c`), as a variable that the
function assigns, or as a parameter that callers give. What is none of these is a place that the caller of `of` has to know.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def texts(node: ast.expr | None) -> list | None:
    """The texts that an expression can be; None when it is something else, too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        branches = [texts(node.body), texts(node.orelse)]
        return None if None in branches else [text for branch in branches for text in branch or []]
    return None


class Module:
    """One file: its functions, and the places in it that say a code."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.tree = name, ast.parse(source)
        self.lines = source.encode().splitlines(keepends=True)  # of bytes, as the places in the tree are counted
        self.inside: dict = {}  # node: the function it lies in
        self._enter(self.tree, None)
        self.called: dict = {}  # last part of the name of a function: its calls
        for node in self.inside:
            if isinstance(node, ast.Call):
                self.called.setdefault(getattr(node.func, "attr", getattr(node.func, "id", None)), []).append(node)

    def _enter(self, node: ast.AST, function: ast.FunctionDef | None) -> None:
        for child in ast.iter_child_nodes(node):
            self.inside[child] = function
            self._enter(child, child if isinstance(child, ast.FunctionDef) else function)

    def written(self, place: ast.expr) -> str:
        """An expression as the file has it, in one line: what Python makes of it again differs between its versions."""
        first, last = place.lineno - 1, place.end_lineno or place.lineno
        lines = [*self.lines[first : last - 1], self.lines[last - 1][: place.end_col_offset]]
        return " ".join(b"".join([lines[0][place.col_offset :], *lines[1:]]).decode().split())

    def calls(self, name: str) -> list:
        return self.called.get(name, [])

    def places(self) -> Iterator[ast.expr]:
        """Expressions that are codes."""
        for call in self.calls("Failure"):
            yield from call.args[:1]
        for node in self.inside:
            if isinstance(node, ast.Dict):
                keys = {key.value: value for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant)}
                if "code" in keys and "message" in keys:
                    yield keys["code"]


def given(call: ast.Call, function: ast.FunctionDef, parameter: str) -> ast.expr | None:
    """What a call gives for a parameter, None for its default."""
    names = [argument.arg for argument in function.args.args]
    if isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    place = names.index(parameter)
    if place < len(call.args):
        return call.args[place]
    return next((keyword.value for keyword in call.keywords if keyword.arg == parameter), None)


def assigned(function: ast.FunctionDef, name: str) -> list:
    """What a function assigns to a variable; None among them for what cannot be told apart."""
    values: list = []
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Name) and target.id == name:
                values.append(node.value)
            elif isinstance(target, ast.Tuple):
                names = [getattr(part, "id", None) for part in target.elts]
                if name in names:
                    whole = isinstance(node.value, ast.Tuple)
                    values.append(node.value.elts[names.index(name)] if whole else None)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
            names = [getattr(part, "id", None) for part in node.target.elts]
            if name in names:
                rows = node.iter.elts if isinstance(node.iter, (ast.Tuple, ast.List)) else [None]
                values += [row.elts[names.index(name)] if isinstance(row, ast.Tuple) else None for row in rows]
    return values


def of(sources: dict) -> tuple:
    """({code: [places]}, [places whose codes cannot be read]). sources: {name of a file: its text}; a place: 'file: expression'."""
    modules = [Module(name, source) for name, source in sources.items()]
    found: dict = {}
    unread: list = []
    asked: list = [(module, place) for module in modules for place in module.places()]
    seen = set()
    while asked:
        module, place = asked.pop()
        if place in seen:
            continue
        seen.add(place)
        where = f"{module.name}: {module.written(place)}"
        codes = texts(place)
        function = module.inside.get(place)
        if codes is not None:
            for code in codes:
                found.setdefault(code, []).append(where)
        elif isinstance(place, ast.Name) and function is not None:
            if place.id in [argument.arg for argument in function.args.args]:
                values = [
                    (other, given(call, function, place.id)) for other in modules for call in other.calls(function.name)
                ]
            else:
                values = [(module, value) for value in assigned(function, place.id)]
            if not values or any(value is None for _module, value in values):
                unread.append(where)
            asked += [(other, value) for other, value in values if value is not None]
        else:
            unread.append(where)
    return found, sorted(set(unread))


def sources(root: Path) -> dict:
    """The collection's own Python, by its path below the collection."""
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted((root / "plugins").rglob("*.py"))
    }
