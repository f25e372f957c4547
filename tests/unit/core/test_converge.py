# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of converge, and that each area keeps to it: what is guarded is guarded before anything is applied."""

from __future__ import annotations

import ast
import importlib
from functools import partial

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import Area, converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.area import HostArea
from house import COLLECTION, House

HOUSE = House()
# Methods of the areas and of what they work on that change a host.
CHANGING = {"apply", "carry_out", "forget", "load", "log_in", "prepare", "remember", "remove", "remove_all", "save"}
# What an area refuses while it applies, because the host shows it only then.
LATE = {
    # The file system behind an NFS mount is seen once it is mounted; it is proven before the next layer uses it.
    "module_utils.linux.clients.datastore": {"refuse_silent", "refuse_other"},
    # Rows are counted once they are loaded, and before the stamp that calls them loaded.
    "module_utils.run.database": {"refuse_wrong_rows"},
}


def class_of(module: str) -> ast.ClassDef | None:
    """The area in a file, if it has one."""
    nodes = ast.parse(HOUSE.paths[module].read_text(encoding="utf-8")).body
    return next((node for node in nodes if isinstance(node, ast.ClassDef) and node.name == "Area"), None)


CLASSES = {
    module: node
    for module in sorted(HOUSE.paths)
    if module.startswith("module_utils.") and module != "module_utils.core.converge" and (node := class_of(module))
}


def called(node: ast.AST) -> set[str]:
    """Names of what is called anywhere in there, of methods the last part."""
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return {func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "") for func in calls}


def methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {inner.name: inner for inner in node.body if isinstance(inner, ast.FunctionDef)}


def reached(node: ast.ClassDef, name: str) -> set[str]:
    """The same of a method, and of the own methods that it calls."""
    own, seen, ahead = methods(node), set(), {name}
    names: set[str] = set()
    while ahead:
        method = ahead.pop()
        seen.add(method)
        names |= called(own[method])
        ahead |= names & set(own) - seen
    return names


def faults(module: str, node: ast.ClassDef) -> list[str]:
    """Sentences about what an area does at a time that is not its own."""
    own = methods(node)
    early = [
        f"{name} calls {other}"
        for name in ("plan", "guard", "answer")
        for other in sorted((reached(node, name) if name in own else set()) & CHANGING)
    ]
    refused = {name for method in set(own) - {"guard"} for name in called(own[method]) if name.startswith("refuse_")}
    in_apply = {name for name in reached(node, "apply") if name.startswith("refuse_")} if "apply" in own else set()
    late = [f"apply calls {name}" for name in sorted(in_apply & refused - LATE.get(module, set()))]
    empty = "guard" in own and not any(name.startswith("refuse_") for name in reached(node, "guard"))
    return early + late + (["guard refuses nothing"] if empty else [])


@pytest.mark.parametrize("module", CLASSES)
def test_each_area_guards_before_it_applies(module):
    assert faults(module, CLASSES[module]) == []


@pytest.mark.parametrize("module", CLASSES)
def test_each_area_is_stopped_by_its_guard_and_by_check_mode(module, monkeypatch):
    area = importlib.import_module(f"{COLLECTION}{module}").Area
    # An area of an ESXi host is given its login, which none of these steps use.
    made = partial(area, None) if issubclass(area, HostArea) else area
    calls: list = []
    monkeypatch.setattr(area, "plan", lambda self: calls.append("plan") or [{"op": "make"}])
    monkeypatch.setattr(area, "apply", lambda self, steps: calls.append("apply"))
    monkeypatch.setattr(area, "answer", lambda self, steps: {"steps": steps})

    def guard(_self, steps):
        calls.append("guard")
        if steps:
            raise Failure("device_in_use", "It is in use.", "Free it.")

    monkeypatch.setattr(area, "guard", guard)
    for check_mode in (False, True):
        with pytest.raises(Failure):
            converge(made, {"state": "present"}, check_mode)
    assert calls == ["plan", "guard"] * 2
    monkeypatch.setattr(area, "guard", lambda self, steps: calls.append("guard"))
    for check_mode, order in ((True, ["plan", "guard"]), (False, ["plan", "guard", "apply"])):
        calls.clear()
        assert converge(made, {"state": "present"}, check_mode) == {"steps": [{"op": "make"}]} and calls == order


def test_the_areas_are_those_of_the_modules():
    """No module makes an area itself, which would leave the order to it."""
    used = {
        module: [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for module, path in HOUSE.paths.items()
        if module.startswith("modules.")
    }
    made = {module for module, calls in used.items() for call in calls if getattr(call.func, "attr", "") == "Area"}
    assert made == set()
    assert {"module_utils.linux.backing.raid", "module_utils.linux.exports.provider_lio"} <= set(CLASSES)
    assert {"module_utils.esxi.datastores", "module_utils.esxi.login"} <= set(CLASSES)
    assert len(CLASSES) > 8 and Area not in CLASSES.values()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("def plan(self): return []\n def guard(self, s): refuse_used()\n def apply(self, s): go()", []),
        ("def plan(self): self.x.apply()\n def guard(self, s): refuse_used()", ["plan calls apply"]),
        ("def plan(self): self.do()\n def do(self): self.x.remove_all()", ["plan calls remove_all"]),
        ("def guard(self, s): look()", ["guard refuses nothing"]),
        ("def guard(self, s): refuse_a()\n def apply(self, s): refuse_unsafe()", ["apply calls refuse_unsafe"]),
    ],
)
def test_what_an_area_does_too_early_or_too_late_is_noticed(body, fault):
    (node,) = ast.parse(f"class Area:\n {body}\n").body
    assert faults("module_utils.x", node) == fault
