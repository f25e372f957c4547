# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests and the roles start is what their recipes install, so that a fresh machine needs nothing by hand."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import sys
from pathlib import Path

import programs
import pytest
import yaml
from places import ROOT

TABLE = programs.listed(programs.LIST.read_text(encoding="utf-8"))
# Calls whose first argument is a command line or the name of a program.
STARTS = {
    "run",
    "Popen",
    "check_output",
    "check_call",
    "call",
    "run_command",
    "which",
    "get_bin_path",
    "started",
    "tool",
}
# Any of these draws the pages; the recipe installs the first.
ALTERNATIVES = {"chromium-browser": "chromium", "google-chrome": "chromium"}
# Brought by Python packages, or asked for only to say that it is missing.
PYTHON_TOOLS = {
    "ansible",
    "ansible-builder",
    "ansible-doc",
    "ansible-galaxy",
    "ansible-inventory",
    "ansible-playbook",
    "go",
    "molecule",
}
PROBED = {"apt-get", "storlab-no-such-tool"}
# What tests/powershell/test_on_windows.py starts comes with Windows.
OF_WINDOWS = {"diskpart", "icacls"}


def started(source: str) -> set:
    """Names of programs that stand literally in the calls of this source."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        call = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        if isinstance(first, (ast.List, ast.Tuple)) and first.elts:
            first = first.elts[0]
        elif call not in ("which", "get_bin_path"):
            continue
        if call in STARTS and isinstance(first, ast.Constant) and isinstance(first.value, str):
            names.add(first.value)
    return {name for name in names if re.fullmatch(r"[a-z][\w.+-]*", name)}


def started_in(folder: Path) -> dict:
    """{program: a file that starts it} over a folder; generators of stored samples are run by hand."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        if not path.name.startswith("make_"):
            found.update((name, path.relative_to(ROOT)) for name in started(path.read_text(encoding="utf-8")))
    return found


def test_literal_commands_are_seen():
    source = "import subprocess\nsubprocess.run(['one', '-x'])\nshutil.which('two')\nother.run(('three',))\nlabel(['no'])\nrun(x)"
    assert started(source) == {"one", "two", "three"}


def test_every_program_that_tests_start_is_installed_by_their_recipe():
    names = {ALTERNATIVES.get(name, name) for name in started_in(ROOT / "tests")} - PYTHON_TOOLS - PROBED - OF_WINDOWS
    assert {"losetup", "fio", "tgtd", "mkfs.ext4"} <= names
    assert names - set(TABLE) == set()


def test_every_program_of_the_embedded_labs_controller_is_installed_by_its_role():
    variables = yaml.safe_load((ROOT / "roles" / "embedded_lab" / "vars" / "main.yml").read_text(encoding="utf-8"))
    commands = {entry["command"]: entry["package"] for entry in variables["__embedded_lab_commands"]}
    assert {"qemu-system-x86_64", "mmdebstrap", "ip", "ssh", "nc", "nsenter", "mke2fs"} <= set(commands)
    for name, (package, _unit) in TABLE.items():
        assert commands.get(name, package) == package, name


def test_every_program_of_the_managed_hosts_is_in_their_image():
    """What modules start on Linux hosts, in the list of packages of the embedded machines."""
    packages = {
        line.strip()
        for line in (ROOT / "roles/embedded_lab/files/image/packages.txt").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    }
    needed = {
        "iscsiadm": "open-iscsi",
        "tgtadm": "tgt",
        "tgtd": "tgt",
        "mkfs.ext4": "e2fsprogs",
        "mkfs.xfs": "xfsprogs",
        "blkid": "util-linux",
        "losetup": "mount",
        "mount": "mount",
        "modprobe": "kmod",
        "fio": "fio",
        "ip": "iproute2",
        "qemu-nbd": "qemu-utils",
    }
    assert set(needed.values()) <= packages


@pytest.mark.parametrize(
    ("program", "room", "word"),
    [
        ("mkfs.xfs", "integration", None),
        ("mkfs.xfs", "unit", "tests/integration"),
        ("/usr/sbin/mkfs.xfs", "unit", "tests/integration"),
        ("mkfs.btrfs", "integration", "test-packages.txt"),
        ("/usr/bin/gcc", "integration", "test-packages.txt"),
        ("true", "unit", None),
        ("ansible-playbook", "unit", None),
        ("/tmp/of-the-test/fio", "unit", None),
    ],
)
def test_programs_that_no_recipe_installs_are_refused(monkeypatch, program, room, word):
    monkeypatch.setattr(programs.shutil, "which", lambda name: name)
    reason = programs.objection(program, room, TABLE, ("/tmp",))
    assert reason is None if word is None else word in reason


def test_a_program_that_is_nowhere_fails_by_itself():
    assert programs.objection("storlab-no-such-tool", "unit", TABLE, ()) is None


@pytest.mark.parametrize(
    ("room", "known", "refused"), [("unit", False, True), ("unit", True, False), ("integration", False, False)]
)
def test_a_quick_test_that_starts_ansible_is_refused(room, known, refused):
    guard = programs.Guard()
    guard.room, guard.ansible = room, known
    with pytest.raises(AssertionError, match="A quick test starts") if refused else contextlib.nullcontext():
        guard("subprocess.Popen", (None, ["ansible-playbook", "x.yml"], None, None))


def test_the_guard_is_at_work():
    with pytest.raises(AssertionError, match="chmod, which nothing installs"):
        subprocess.run("chmod")


def test_what_unit_tests_import_is_installed_for_every_cell_of_the_matrix():
    matrix = (ROOT / ".ci" / "matrix").read_text(encoding="utf-8")
    tools = {
        name for words in re.findall(r"^TOOLS \+?= (\[.*\])$", matrix, re.MULTILINE) for name in ast.literal_eval(words)
    }
    assert {"pytest", "vermin"} <= tools
    imported: set = set()
    for path in (ROOT / "tests" / "unit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    ours = {path.stem for path in (ROOT / "tests").rglob("*")}
    with_ansible = {"ansible", "ansible_collections", "cryptography", "jinja2", "yaml"}
    wanted = {name.lower().replace("_", "-") for name in imported - ours - with_ansible - set(sys.stdlib_module_names)}
    assert "scipy" in wanted
    assert wanted - tools == set()
