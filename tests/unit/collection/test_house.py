# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where code lies and what it may import, read from the code: docs/architecture.md has the rules in words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import house
import places
import pytest
from house import CONTROLLER, FLOORS, SHIPPED, House, floor, room

HOUSE = House()
VERMIN = str(Path(sys.executable).parent / "vermin")
SHIPPED_FILES = sorted((places.ROOT / "plugins" / "module_utils").rglob("*.py"))
# What a module orders lies in module_utils; beside it stand its arguments and how it ends.
THIN_LINES = 60
# What each room of module_utils may import besides itself.
SHIPPED_ARROWS = {
    "core": set(),
    "linux": {"core"},
    "workload": {"core"},
    "result": {"workload", "core"},
    "engines": {"result", "workload", "core"},
    # What runs on a measured host looks at its devices and processes.
    "run": {"engines", "result", "workload", "linux", "core"},
    "lab": {"linux", "core"},
    "esxi": {"run", "engines", "result", "workload", "core"},
}
# The same of plugin_utils; all of it may import module_utils.
CONTROLLER_ARROWS = {
    "action": set(),
    "windows": {"action"},
    "chain": set(),
    "recording": set(),
    "store": set(),
    "benchmark": {"store", "windows"},
    "compare": {"store"},
    "report": {"compare", "store"},
}
# Not of the standard library, and yet in module_utils: imported when an ESXi host is spoken to, which the controller does.
OTHERS = {
    "module_utils.esxi.session": {"pyVim", "pyVmomi"},
    "module_utils.esxi.recording": {"pyVmomi"},
    "module_utils.esxi.unattended": {"pycdlib"},
}


def allowed(module: str, other: str) -> bool:
    """Whether a module may import another one of this collection."""
    here, there = room(module), room(other)
    tree, _, name = here.partition(".")
    to_tree, _, to_name = there.partition(".")
    if here == there:
        if here in FLOORS:
            return FLOORS[here].index(floor(other)) <= FLOORS[here].index(floor(module))
        return tree in ("module_utils", "plugin_utils")  # no action imports an action, no module a module
    if tree in ("action", "filter"):
        return to_tree in ("module_utils", "plugin_utils")
    if tree == "modules":
        return to_tree == "module_utils"
    if tree == "plugin_utils":
        # The words of the one-page description are defined where ansible-doc reads them.
        return (
            to_tree == "module_utils"
            or to_name in CONTROLLER_ARROWS[name]
            or (name, there) == ("chain", "doc_fragments")
        )
    return tree == to_tree == "module_utils" and to_name in SHIPPED_ARROWS[name]


def cycles(graph: dict) -> list:
    """Modules that import each other in a circle, as one path that ends where it begins; empty when there is none."""
    done: set = set()

    def look(name: str, path: list) -> list:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if circle := look(other, [*path, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in sorted(graph) if (circle := look(name, []))), [])


def test_every_file_lies_in_a_room():
    lost = [
        name
        for name in HOUSE.paths
        if (parts := name.split("."))[0] in house.TREES and len(parts) > 1 and parts[1] not in house.TREES[parts[0]]
    ]
    assert lost == []
    deep = {
        ".".join(parts[:3]) for name in HOUSE.paths if len(parts := name.split(".")) > 3 and parts[0] in house.TREES
    }
    # The views of a report stand on its nouns and charts, its pages on the views; the stages of a chain on its records, the rest of the chain on the
    # stages. That no file imports itself in a circle is held below.
    assert deep - {"plugin_utils.report.views", "plugin_utils.chain.stages"} == {
        f"{name}.{inner}" for name, floors in FLOORS.items() for inner in floors if inner
    }
    assert set(SHIPPED_ARROWS) == set(SHIPPED) and set(CONTROLLER_ARROWS) == set(CONTROLLER)


@pytest.mark.parametrize("module", sorted(HOUSE.paths))
def test_imports_point_one_way(module):
    ours, _others = HOUSE.imports(module)
    assert [other for other in sorted(ours) if not allowed(module, other)] == []
    # A name that is no module would be an import of nothing.
    assert [other for other in sorted(ours) if other not in HOUSE.paths] == []


def test_nothing_imports_itself_in_a_circle():
    assert cycles({module: HOUSE.imports(module)[0] - {module} for module in HOUSE.paths}) == []


@pytest.mark.parametrize("module", sorted(name for name in HOUSE.paths if name.startswith("module_utils.")))
def test_what_may_be_shipped_needs_the_standard_library_alone(module):
    others = {name.partition(".")[0] for name in HOUSE.imports(module)[1]}
    assert others - set(sys.stdlib_module_names) - OTHERS.get(module, set()) == set()


@pytest.mark.parametrize("module", sorted(name for name in HOUSE.paths if name.startswith("modules.")))
def test_modules_import_relatively_and_of_ansible_the_basics_alone(module):
    text = HOUSE.paths[module].read_text(encoding="utf-8")
    assert house.COLLECTION not in text
    others = {name for name in HOUSE.imports(module)[1] if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others <= {"ansible.module_utils.basic"}


def below_documentation(text: str) -> int:
    """How many lines a module has below its last block of documentation."""
    blocks = [
        node.end_lineno
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and getattr(node.targets[0], "id", "") in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    ]
    return len(text.splitlines()) - max(blocks)


def test_modules_are_thin():
    lengths = {
        path.stem: below_documentation(path.read_text(encoding="utf-8"))
        for path in (places.ROOT / "plugins" / "modules").glob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > THIN_LINES} == {}


def test_lines_below_the_documentation_are_counted():
    assert below_documentation('DOCUMENTATION = """a\nb"""\nRETURN = """c"""\nimport os\n\nprint(os)\n') == 3


# A function is read at a glance, and a file at a sitting. Where more is there today, it may only get less.
LONG_FUNCTION, LONG_FUNCTIONS = 60, 31
LONG_FILE, LONG_FILES = 600, 1


def long_functions(text: str) -> list[str]:
    """The functions of a text that have more lines than one should have."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.lineno >= LONG_FUNCTION
    ]


def test_functions_and_files_get_no_longer():
    texts = {module: path.read_text(encoding="utf-8") for module, path in HOUSE.paths.items()}
    functions = [f"{module}.{name}" for module, text in texts.items() for name in long_functions(text)]
    assert len(functions) <= LONG_FUNCTIONS, sorted(functions)
    rooms = {module: text for module, text in texts.items() if module.partition(".")[0] in house.TREES}
    files = [module for module, text in rooms.items() if len(text.splitlines()) > LONG_FILE]
    assert len(files) <= LONG_FILES, sorted(files)


def test_a_long_function_is_noticed():
    body = "    x = 1\n" * LONG_FUNCTION
    assert long_functions(f"def short():\n{body[10:]}\ndef long():\n{body}") == ["long"]


def dispatched_by_name(text: str) -> list:
    """Lines on which a name that is put together is looked up: what is called there, nobody finds by its name."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "getattr"
        and isinstance(node.args[1], (ast.JoinedStr, ast.BinOp))
    ]


def test_nothing_is_called_by_a_name_that_is_put_together():
    seen = {module: dispatched_by_name(path.read_text(encoding="utf-8")) for module, path in HOUSE.paths.items()}
    assert {module: lines for module, lines in seen.items() if lines} == {}


def test_a_name_that_is_put_together_is_noticed():
    text = 'getattr(a, "_" + op)()\ngetattr(a, f"_{op}")()\ngetattr(a, "b")\ngetattr(a, key, None)\n'
    assert dispatched_by_name(text) == [1, 2]


# A provider's file is taken by its name (target_providers.py); the schema is written by a program of the tests.
USED_OTHERWISE = {
    *(
        f"module_utils.linux.exports.provider_{name}.{part}"
        for name in ("lio", "nvmet", "tgt")
        for part in (
            "COMMANDS",
            "KERNEL_MODULES",
            "FIRST_LUN",
            "LUN_0",
            "SHARES_LUNS",
            "SPLITS_TARGETS",
            "PROTOCOL",
            "Area",
        )
    ),
    "plugin_utils.chain.schema.schema",
    # All files of a report at once, for whoever compares them; the action takes them in pieces.
    "plugin_utils.report.render.render",
}


def test_nothing_is_kept_that_nobody_uses():
    templates = "".join(path.read_text(encoding="utf-8") for path in sorted(house.PLUGINS.rglob("*.j2")))
    unused = HOUSE.unused(templates, (places.ROOT / ".config" / "labs.py",))
    assert set(unused) - USED_OTHERWISE == set()


def test_what_nobody_uses_is_noticed(tmp_path):
    room = tmp_path / "module_utils" / "core"
    room.mkdir(parents=True)
    (tmp_path / "modules").mkdir()
    (room / "a.py").write_text(
        "LEFT = 1\nTAKEN = 2\nOWN = 3\nDRAWN = 4\ndef far(): return OWN\ndef near(): pass\ndef gone(): pass\n"
    )
    (room / "b.py").write_text("LEFT = 1\nprint(LEFT)\ndef gone(): gone_too = 1\ngone()\n")
    (tmp_path / "modules" / "m.py").write_text(
        "from ..module_utils.core import a as other\nfrom ..module_utils.core.a import TAKEN\nother.far()\n"
    )
    (tmp_path / "program.py").write_text("from plugins.module_utils.core import a\na.near()\n")
    found = house.House(tmp_path).unused("{{ DRAWN }}", (tmp_path / "program.py",))
    assert found == ["module_utils.core.a.LEFT", "module_utils.core.a.gone"]


def makes_a_diff(node: ast.AST) -> bool:
    return isinstance(node, ast.Dict) and {"before", "after"} <= {getattr(key, "value", None) for key in node.keys}


def gives_a_file_its_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.replace", "os.rename")


def knows_how_naa_names_begin(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "naa."


def says_that_a_layer_could_not_be_filled(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "fill_failed"


# Texts of a failure, and constants that are one.
SENTENCES = {"what", "remedy", "why", "instead", "msg"}
EDITS = {name for name in dir(str) if not name.startswith(("_", "is"))} - {
    "startswith",
    "endswith",
    "find",
    "count",
    "index",
}


def edits_a_sentence_of_a_failure(node: ast.AST) -> bool:
    """Cuts or changes it: whoever needs another sentence writes it from its parts."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EDITS:
        text = node.func.value
    elif isinstance(node, ast.Subscript):
        text = node.value
    else:
        return False
    return (isinstance(text, ast.Attribute) and text.attr in SENTENCES) or (
        isinstance(text, ast.Name) and text.id.endswith("REMEDY")
    )


# What one function does for all, and where it is done otherwise because something else is done; each of them says so.
DONE_ONCE = {
    makes_a_diff: {
        "module_utils.core.steps",
        # Of what is there before and after, not of steps.
        "module_utils.lab.image",
        "module_utils.linux.backing.ramdisk",
        # Of whole files.
        "action.compare",
        "action.report",
        "action.results_export",
    },
    gives_a_file_its_name: {
        "module_utils.core.files",
        # A folder, and files that are as large as disks.
        "module_utils.lab.image",
        "module_utils.lab.disk_image",
        "module_utils.linux.clients.datastore",
        "module_utils.linux.clients.own_file",
        # A file with a name that teardown knows; a file that the first writer makes; a database; a log that is begun anew.
        "module_utils.linux.exports.nfs_export",
        "plugin_utils.chain.inventory",
        "plugin_utils.store.point_index",
        "module_utils.run.observer",
    },
    # tgt: a kind of iSCSI names, which begins alike.
    knows_how_naa_names_begin: {"module_utils.core.names", "module_utils.linux.exports.tgt"},
    # What precedes a point, on Linux and on Windows.
    says_that_a_layer_could_not_be_filled: {"module_utils.run.preparation"},
    # Of Ansible's own error about arguments, which are several in one sentence of ours.
    edits_a_sentence_of_a_failure: {"plugin_utils.action"},
}


def doing(what, modules: House = HOUSE) -> set:
    """The modules that do it anywhere."""
    return {
        module
        for module, path in modules.paths.items()
        if any(what(node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    }


@pytest.mark.parametrize("what", DONE_ONCE, ids=lambda what: what.__name__)
def test_what_one_function_does_for_all_is_done_nowhere_else(what):
    assert doing(what) == DONE_ONCE[what]


def test_what_is_done_by_hand_is_noticed(tmp_path):
    for name, text in {
        "diff": 'a = {"diff": {"before": "", "after": x}}\n',
        "file": 'os.replace(f"{path}.new", path)\n',
        "naa": 'naa = name[4:] if name.startswith("naa.") else None\n',
        "fill": 'raise Failure("fill_failed", what, remedy)\n',
        "edit": 'text = failure.remedy.rstrip(".")\n',
        "cut": "text = NAME_REMEDY[1:]\n",
        "none": 'a = {"before": 1}\nnaa = "naa"\n"a".replace("b", "c")\nends = failure.what.endswith(".")\n',
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert [doing(what, House(tmp_path)) for what in DONE_ONCE] == [
        {"diff"},
        {"file"},
        {"naa"},
        {"fill"},
        {"edit", "cut"},
    ]


def first_lines_by_interpreter(texts: dict) -> list:
    """Tests that write a program whose first line is the path of their interpreter, which may hold a blank, as a checkout's may: no kernel finds it then."""
    return sorted(name for name, text in texts.items() if re.search(r"#!\{|[\"']#![\"'] ?\+", text))


def test_programs_of_tests_name_no_path_of_an_interpreter_in_their_first_line():
    texts = {str(path): path.read_text(encoding="utf-8") for path in (places.ROOT / "tests").rglob("*.py")}
    assert len(texts) > 100 and first_lines_by_interpreter({**texts, str(Path(__file__).resolve()): ""}) == []


def test_a_path_of_an_interpreter_in_a_first_line_is_noticed():
    texts = {"a": 'f"#!{sys.executable}"', "b": '"#!" + sys.executable', "c": '"#!/usr/bin/env python3"'}
    assert first_lines_by_interpreter(texts) == ["a", "b"]


def late_imports(path: Path) -> list:
    """Files of the collection that a function imports when it is called, as it names them."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    return [
        "." * node.level + (node.module or "")
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def test_what_may_be_shipped_imports_its_own_files_at_once():
    """A supervisor or an observer goes on after the task that started it, whose files Ansible removes from the host."""
    assert {path.name: late for path in SHIPPED_FILES if (late := late_imports(path))} == {}


def test_an_import_when_a_function_is_called_is_noticed(tmp_path):
    code = tmp_path / "code.py"
    code.write_text("from . import a\ndef f():\n    import fcntl\n    from .b import c\n    from ..d import e\n")
    assert late_imports(code) == [".b", "..d"]


@pytest.mark.parametrize("path", SHIPPED_FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_what_may_be_shipped_is_python_3_9(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


def lacking_in_python_3_9(paths: list[Path]) -> str:
    """What vermin finds, which knows since when each function of the standard library is there; annotations are not evaluated."""
    done = subprocess.run(
        [VERMIN, "--target=3.9-", "--violations", "--no-tips", "--exclude", "str.decode", *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout[-3000:] + done.stderr[-3000:] if done.returncode else ""


def test_what_may_be_shipped_uses_no_library_function_that_python_3_9_lacks():
    assert lacking_in_python_3_9(SHIPPED_FILES) == ""


def test_tests_of_what_runs_on_hosts_import_nothing_that_python_3_9_lacks():
    """`make matrix` runs them with the oldest Python that hosts may have."""
    rooms = ast.literal_eval(
        re.search(r"^HOSTS_ROOMS = (.*)$", (places.ROOT / ".ci" / "matrix").read_text(encoding="utf-8"), re.MULTILINE)[
            1
        ]
    )
    tests = [path for name in rooms for path in sorted((places.ROOT / "tests" / "unit" / name).rglob("*.py"))]
    modules = HOUSE.behind({module for path in tests for module in HOUSE.imports_of(path)[0]})
    assert {"module_utils.linux.backing.raid", "plugin_utils.store.load"} <= modules
    assert lacking_in_python_3_9([*tests, *(HOUSE.paths[module] for module in sorted(modules))]) == ""


def test_the_picture_in_the_documentation_is_of_this_code():
    text = (places.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert HOUSE.picture() in text, "python tests/tools/house.py prints it as it is now"


def test_the_documentation_has_one_line_for_each_room():
    text = (places.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for tree, names in house.TREES.items():
        for name in names:
            assert text.count(f"| `{tree}/{name}` |") == 1, f"{tree}/{name}"
    for name, floors in FLOORS.items():
        for inner in filter(None, floors):
            path = f"{name.replace('.', '/')}/{inner}"
            assert text.count(f"| `{path}` |") == 1, path


def test_the_provider_shown_to_contributors_is_the_real_one():
    shown = (places.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    real = (places.ROOT / "plugins" / "module_utils" / "linux" / "exports" / "provider_tgt.py").read_text(
        encoding="utf-8"
    )
    # Without the licence, which all files have.
    assert shown == real[real.index('"""') :]
    assert len(real.splitlines()) < 100


# ---- the rules themselves refuse what they must


@pytest.mark.parametrize(
    ("module", "other"),
    [
        ("module_utils.core.failure", "module_utils.linux.host"),
        ("module_utils.linux.host", "module_utils.run.runner"),
        ("module_utils.linux.host", "module_utils.linux.disks.sought"),
        ("module_utils.linux.disks.device_safety", "module_utils.linux.clients.nfs_mount"),
        ("module_utils.linux.exports.lio", "module_utils.linux.loads.database"),
        ("module_utils.engines.fio", "plugin_utils.store.store"),
        ("plugin_utils.store.store", "plugin_utils.report.model"),
        ("plugin_utils.compare.stats", "plugin_utils.report.units"),
        ("plugin_utils.windows.action", "action.win_state"),
        ("action.compare", "action.report"),
        ("modules.ramdisk", "plugin_utils.store.store"),
        ("modules.ramdisk", "modules.raid"),
        ("filter.fio_results", "action.report"),
    ],
)
def test_what_points_the_wrong_way_is_refused(module, other):
    assert not allowed(module, other)


def test_imports_inside_functions_and_through_packages_are_seen(tmp_path):
    folder = tmp_path / "module_utils" / "core"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text("def late():\n    from ..linux import two\n    import yaml\n    return two, yaml\n")
    (folder.parent / "linux").mkdir()
    (folder.parent / "linux" / "two.py").write_text(f"from {house.COLLECTION}module_utils.core.one import late\n")
    seen = House(tmp_path)
    assert seen.imports("module_utils.core.one") == ({"module_utils.linux.two"}, {"yaml"})
    assert cycles({name: seen.imports(name)[0] for name in seen.paths}) == [
        "module_utils.core.one",
        "module_utils.linux.two",
        "module_utils.core.one",
    ]


def test_newer_python_is_noticed(tmp_path):
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass\n", feature_version=(3, 9))
    late = tmp_path / "late.py"
    late.write_text("from itertools import pairwise\n")
    done = subprocess.run(
        [VERMIN, "--target=3.9-", "--violations", "--no-tips", "--exclude", "str.decode", str(late)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
