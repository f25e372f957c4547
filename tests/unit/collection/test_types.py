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
import write_params

FOLDERS = tuple(places.ROOT / "plugins" / name for name in ("module_utils", "plugin_utils"))
# Percent of the annotations that hold Any. They only fall: whoever gives types to more writes the lower figure here; at most 15 is the goal, which is kept.
MOST_PERCENT = {"parameters": 13.2, "returns": 14.1}
# A noun: the file that has its type, a key that every one has, and the same mistyped.
NOUNS = {
    "Layer": ("module_utils.core.layers", "host", "hots"),
    "Workload": ("module_utils.workload.workload", "queue_depth", "queue_dept"),
    "Point": ("module_utils.workload.point", "point_id", "pointid"),
    "Step": ("module_utils.core.steps", "target", "taget"),
    "Result": ("module_utils.result.schema", "status", "staus"),
    "Measured": ("module_utils.result.schema", "job_name", "jobname"),
    "Figures": ("module_utils.result.schema", "latency_mean_ns", "latency_mean"),
    "Check": ("module_utils.result.schema", "limit_percent", "limit_percents"),
    "Meta": ("module_utils.result.schema", "exit_code", "exitcode"),
    "Server": ("module_utils.workload.point", "address", "adress"),
    "Entry": ("plugin_utils.store.import_files", "sha256", "sha265"),
    "ActiveArray": ("module_utils.linux.nouns", "sync_action", "sync_acton"),
    "Cache": ("module_utils.linux.nouns", "block_kib", "block_kb"),
    "CacheStamp": ("module_utils.linux.nouns", "origin_bytes", "origin_byte"),
    "ExportedTarget": ("module_utils.linux.nouns", "portals", "portal"),
    "ExportedLun": ("module_utils.linux.nouns", "block_bytes", "blocks_bytes"),
    "LostLun": ("module_utils.linux.nouns", "initiator", "intiator"),
    "LoginState": ("module_utils.linux.nouns", "multipath", "mutlipath"),
    "LoginSession": ("module_utils.linux.nouns", "recovery_tmo", "recovery_timeo"),
    "Mount": ("module_utils.linux.nouns", "mount_point", "mountpoint"),
    "Store": ("module_utils.linux.nouns", "benchmark_bytes", "benchmark_byte"),
    "StoreWant": ("module_utils.esxi.states", "exported", "exportd"),
    "MachineWant": ("module_utils.esxi.states", "reserve", "reserv"),
    "AdapterWant": ("module_utils.esxi.states", "port_binding", "port_bindings"),
    "Samples": ("module_utils.esxi.states", "host_samples", "host_sample"),
    "Sample": ("module_utils.linux.watch.counters", "cpu_ticks", "cpu_tick"),
    "HostFigures": ("module_utils.linux.watch.counters", "interrupts", "interupts"),
    "Lab": ("plugin_utils.chain.nouns", "hosts", "hots"),
    "Kept": ("plugin_utils.chain.nouns", "groups", "group"),
    "Finding": ("plugin_utils.chain.nouns", "said", "sayd"),
    "Probe": ("plugin_utils.chain.nouns", "missing_commands", "missing_comands"),
    "Named": ("plugin_utils.chain.nouns", "designators", "designator"),
    "SeenDisk": ("plugin_utils.chain.nouns", "sector_bytes", "sectors_bytes"),
    "Row": ("plugin_utils.compare.nouns", "change_percent", "changed_percent"),
    "Comparison": ("plugin_utils.compare.nouns", "headline", "headlines"),
    "Compared": ("plugin_utils.compare.nouns", "sides", "side"),
    "SideFigure": ("plugin_utils.compare.nouns", "repetitions", "repetition"),
    "Index": ("plugin_utils.report.index", "trends", "trend"),
    "Rule": ("plugin_utils.compare.gate", "percent", "percents"),
    "Hit": ("plugin_utils.compare.gate", "point", "points"),
    "SideHit": ("plugin_utils.compare.gate", "side", "sied"),
    "IscsiSessionParams": ("module_utils.linux.params", "queue_depth", "queue_dept"),
    "TargetParams": ("plugin_utils.windows.params", "allow_no_chap", "allow_no_chaps"),
    "SessionParams": ("plugin_utils.windows.params", "wait_s", "waits_s"),
    "DiskWant": ("plugin_utils.windows.wants", "size_bytes", "size_byte"),
    "TargetWant": ("plugin_utils.windows.wants", "initiators", "initiator"),
    "VmParams": ("module_utils.esxi.params", "wait_for_address_s", "wait_for_adress_s"),
}


def holds(annotation: ast.AST, names: set[str]) -> bool:
    """Whether an annotation holds one of these names, also behind a dot or in quotes."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in names | {"typing.Any"}:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node is not annotation:
            continue  # a word of a Literal
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return holds(ast.parse(node.value, mode="eval").body, names)
            except SyntaxError:
                return False
    return False


def own_aliases(tree: ast.Module, known: set[str]) -> set[str]:
    """These names and those that the file itself makes of them, so that no other name hides Any: also under an ``if``, as a TypeAlias, a NewType."""
    known = set(known)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and stands_for_a_type(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if holds(node.value, known):
                known |= {target.id for target in targets if isinstance(target, ast.Name)}
    return known


def stands_for_a_type(node: ast.Assign | ast.AnnAssign) -> bool:
    value = node.value
    if isinstance(node, ast.AnnAssign) and "TypeAlias" not in ast.unparse(node.annotation):
        return False
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in ("NewType", "TypeVar")
    return isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Constant))


def aliases(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The names of each file that stand for a type with Any in it, its own and those that it imports from other files, under whatever name."""
    known: dict[str, set[str]] = {name: {"Any"} for name in trees}
    while True:
        more = {name: own_aliases(tree, known[name] | imported(tree, known)) for name, tree in trees.items()}
        if more == known:
            return known
        known = more


def imported(tree: ast.Module, known: dict[str, set[str]]) -> set[str]:
    """Names of others' aliases as this file writes them: ``Alias``, ``Other`` or ``module.Alias``. Modules are matched by their last word."""
    names = set()
    by_stem: dict[str, set[str]] = {}
    for name, held in known.items():
        by_stem.setdefault(name.rpartition(".")[2], set()).update(word for word in held if "." not in word)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            held = by_stem.get((node.module or "").rpartition(".")[2], {"Any"})
            for item in node.names:
                here = item.asname or item.name
                names |= {here} if item.name in held else set()
                names |= {f"{here}.{name}" for name in by_stem.get(item.name, ())}
    return names


def annotations(tree: ast.Module, names: set[str]) -> Iterator[tuple[str, bool]]:
    """(parameters or returns, whether it holds Any) of each annotation of a function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
                if parameter is not None and parameter.annotation is not None:
                    yield "parameters", holds(parameter.annotation, names)
            if node.returns is not None:
                yield "returns", holds(node.returns, names)


def percent(texts: dict[str, str]) -> dict[str, float]:
    """texts: {dotted name of a file: its text}."""
    kinds: dict[str, list[bool]] = {"parameters": [], "returns": []}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    names = aliases(trees)
    for name, tree in trees.items():
        for kind, loose in annotations(tree, names[name]):
            kinds[kind].append(loose)
    return {kind: 100 * sum(loose) / len(loose) for kind, loose in kinds.items() if loose}


def test_ever_less_is_of_any_type():
    texts = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
    }
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
        (
            "State: TypeAlias = 'dict[str, Any]'\ndef f(a: list[State]) -> None: ...",
            {"parameters": 100.0, "returns": 0.0},
        ),
        ("if late:\n    B = Any\nC = B\ndef f(a: 'C') -> None: ...", {"parameters": 100.0, "returns": 0.0}),
        ("import typing\ndef f(a: typing.Any) -> object: ...", {"parameters": 100.0, "returns": 0.0}),
        ("T = TypeVar('T', bound=Any)\ndef f(a: T) -> None: ...", {"parameters": 100.0, "returns": 0.0}),
        ("A = Literal['Any']\ndef f(a: A) -> Literal['Any']: ...", {"parameters": 0.0, "returns": 0.0}),
        ("KINDS: dict[str, Any] = {}\ndef f(a: object) -> str: ...", {"parameters": 0.0, "returns": 0.0}),
        ("def f(a, b): ...", {}),
    ],
)
def test_any_is_seen_wherever_an_annotation_holds_it(text, expected):
    assert percent({"room.file": text}) == pytest.approx(expected)


def test_any_is_seen_behind_names_of_other_files():
    texts = {
        "core.nouns": "State = dict[str, Any]\nName = str\n",
        "core.more": "from .nouns import State as Whole\nWholes = list[Whole]\n",
        "linux.user": "from ..core import more\nfrom ..core.nouns import Name\ndef f(a: more.Wholes, b: Name) -> more.Whole: ...\n",
    }
    assert percent(texts) == {"parameters": 50.0, "returns": 100.0}


@pytest.mark.ansible
@pytest.mark.parametrize("room", write_params.ROOMS)
def test_parameters_have_the_types_of_their_modules_options(room):
    """Else: python tests/tools/write_params.py."""
    assert write_params.path_of(room).read_text(encoding="utf-8") == write_params.text_of(room)


def test_a_parameter_has_the_type_of_its_option():
    spec = {
        "entries": {"type": "list", "elements": "dict", "required": True, "options": {"size_mib": {"type": "int"}}},
        "layers": {"type": "dict", "default": {}},
        "names": {"type": "list", "elements": "str", "default": []},
        "wait_s": {"type": "int", "default": 0},
        "path": {"type": "path"},
    }
    assert "\n".join(write_params.classes("Disk", spec)) == (
        "class DiskEntryOption(TypedDict):\n    size_mib: Any\n\n"
        "class DiskParams(TypedDict):\n    entries: list[DiskEntryOption]\n    layers: dict[str, Layer]\n    names: list[str]\n"
        "    wait_s: int\n    path: Any\n"
    )


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
