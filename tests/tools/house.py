# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file of plugins/ imports which: read from the code, for the test that holds the rules and the picture in docs/architecture.md.

python tests/tools/house.py         # prints the picture
python tests/tools/house.py size    # prints how large plugins is
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
COLLECTION = "ansible_collections.storlab.testbed.plugins."
# From those that know nothing of the others to those that know most.
SHIPPED = ("core", "linux", "workload", "result", "engines", "run", "lab", "esxi")
CONTROLLER = ("action", "windows", "chain", "recording", "store", "benchmark", "compare", "report")
TREES = {"module_utils": SHIPPED, "plugin_utils": CONTROLLER}
# The floors of rooms that are houses themselves, the lowest first; the empty name is what lies in no room of theirs.
FLOORS = {"module_utils.linux": ("", "disks", "backing", "watch", "clients", "exports", "loads")}


class House:
    """The modules below a plugins folder, by dotted name, such as module_utils.core.failure."""

    def __init__(self, plugins: Path = PLUGINS):
        self.paths = {}
        self.known: dict = {}  # module -> what it imports: each file is read once, however many rules are held
        for path in sorted(plugins.rglob("*.py")):
            parts = path.relative_to(plugins).with_suffix("").parts
            self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path

    def imports(self, module: str) -> tuple[set, set]:
        """(modules of this collection, names of others): imports anywhere in the file, inside functions too."""
        if module not in self.known:
            self.known[module] = self.imports_of(self.paths[module], module)
        return self.known[module]

    def imports_of(self, path: Path, module: str = "") -> tuple[set, set]:
        """The same of any file, such as a test."""
        ours, others = set(), set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    (ours if alias.name.startswith(COLLECTION) else others).add(alias.name.removeprefix(COLLECTION))
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                    base = ".".join(
                        [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
                    )
                elif (node.module or "").startswith(COLLECTION):
                    base = (node.module or "").removeprefix(COLLECTION)
                else:
                    others.add(node.module)
                    continue
                names = {f"{base}.{alias.name}" for alias in node.names}
                # What is no module is a name in one.
                ours |= {name if name in self.paths else base for name in names}
        return ours, others

    def behind(self, modules: set) -> set:
        """These modules and all that they import, directly or through others."""
        reached: set = set()
        ahead = modules & set(self.paths)
        while ahead:
            reached |= ahead
            ahead = {other for module in ahead for other in self.imports(module)[0]} & set(self.paths) - reached
        return reached

    def size(self) -> tuple[int, int]:
        """(lines, files) of Python."""
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in self.paths.values()), len(self.paths)

    def rooms(self) -> dict:
        """room -> rooms it imports from."""
        found: dict = {}
        for module in self.paths:
            for other in self.imports(module)[0]:
                found.setdefault(room(module), set()).add(room(other))
        return {name: others - {name} for name, others in found.items()}

    def inside(self, name: str) -> dict:
        """The same of the floors of one room: floor -> floors of the same room that it imports from."""
        seen: dict = {above: set() for above in FLOORS[name]}
        for module in self.paths:
            if room(module) == name:
                seen.setdefault(floor(module), set()).update(
                    floor(other) for other in self.imports(module)[0] if room(other) == name
                )
        return {above: others - {above} for above, others in seen.items()}

    def picture(self) -> str:
        """One line a room, the rooms it imports from behind it; below them the same of the floors of a room."""
        rooms, lines = self.rooms(), []
        for tree, names in (
            ("", ("action", "filter", "modules")),
            ("plugin_utils/", CONTROLLER[::-1]),
            ("module_utils/", SHIPPED[::-1]),
        ):
            for name in names:
                behind = [
                    f"{prefix}{' '.join(others)}"
                    for prefix, of in (
                        ("", ("doc_fragments",)),
                        ("plugin_utils: ", CONTROLLER[::-1]),
                        ("module_utils: ", SHIPPED[::-1]),
                    )
                    if (
                        others := [
                            other for other in of if in_full(prefix, other) in rooms.get(in_full(tree, name), ())
                        ]
                    )
                ]
                lines.append(f"{tree + name:23} -> {'; '.join(behind) or 'nothing'}")
        for name, floors in FLOORS.items():
            short, inside = name.partition(".")[2], self.inside(name)
            lines.append("")
            for above in floors[::-1]:
                others = [other or short for other in floors[::-1] if other in inside[above]]
                lines.append(f"{'/'.join(filter(None, (short, above))):23} -> {' '.join(others) or 'nothing'}")
        return "\n".join(lines) + "\n"

    def unused(self, templates: str, further: tuple = ()) -> list:
        """Functions, classes and variables of the rooms that no file of the collection names: not their own, not one that imports them, no template.

        templates: texts of templates; further: other programs that use the collection.
        """
        files = {module: Names(path) for module, path in self.paths.items()}
        others = [Names(path) for path in further]
        return [
            f"{module}.{name}"
            for module, names in files.items()
            if module.partition(".")[0] in TREES
            for name in names.made
            if name not in names.read
            and name != "__all__"
            and not re.search(rf"\b{name}\b", templates)
            and not any(other.uses(module, name) for other in [*files.values(), *others] if other is not names)
        ]


class Names:
    """What a file makes at its top level, what it reads, and what it takes from others."""

    def __init__(self, path: Path) -> None:
        self.made: list = []
        self.read: set = set()
        self.taken: set = set()  # (last part of a module, name)
        known: dict = {}  # name that a module has here: last part of the module
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.made.append(node.name)
            elif isinstance(node, ast.Assign):
                self.made += [target.id for target in node.targets if isinstance(target, ast.Name)]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    known[alias.asname or alias.name] = alias.name
                    self.taken.add(((node.module or "").split(".")[-1], alias.name))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.read.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self.taken.add((known.get(node.value.id, ""), node.attr))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                # The name of a file in a package that was imported: views.load.view.
                self.taken.add((node.value.attr, node.attr))

    def uses(self, module: str, name: str) -> bool:
        return (module.split(".")[-1], name) in self.taken


def in_full(prefix: str, name: str) -> str:
    tree = prefix.rstrip("/: ")
    return f"{tree}.{name}" if tree else name


def room(module: str) -> str:
    """module_utils.core of module_utils.core.failure; the folder alone of plugins that lie flat."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] in TREES else parts[0]


def floor(module: str) -> str:
    """disks of module_utils.linux.disks.sought; empty of module_utils.linux.host, and of what has no floors."""
    inner = module.split(".")[2] if module.count(".") > 1 else ""
    return inner if inner in FLOORS.get(room(module), ()) else ""


if __name__ == "__main__":
    if sys.argv[1:] == ["size"]:
        print("{} lines in {} files".format(*House().size()))
    else:
        print(House().picture(), end="")
