# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/troubleshooting.md has every code that the collection can fail with, once, with cause and remedy, and no other."""

from __future__ import annotations

import ast
import functools
import re

import failure_codes
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import database as linux_database
from ansible_collections.storlab.testbed.plugins.module_utils.run import database as run_database
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import host
from places import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = failure_codes.sources(ROOT)


def unwritable() -> set:
    """First items of UNWRITABLE in the actions."""
    return {
        node.value.elts[0].value
        for source in SOURCES.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "UNWRITABLE"
    }


def obstacles() -> set:
    """First items of what is assigned to reasons[…] among the RAM disks."""
    return {
        node.value.elts[0].value
        for node in ast.walk(ast.parse(SOURCES["plugins/module_utils/linux/backing/ramdisk.py"]))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("reasons[")
    }


def operations() -> set:
    """What others' modules are called for on Windows hosts."""
    calls = [call for source in SOURCES.items() for call in failure_codes.Module(*source).calls("module_call")]
    return {call.args[0].value for call in calls}


TOUCHED_NEVER = {
    code for code, _words in host.never_touched(dict.fromkeys(("boot", "system", "page_file", "clustered"), True))
}
# What cannot be read from the place itself, by 'file: expression'.
OF_PLACES = {
    "plugins/module_utils/esxi/adapter.py: f\"wrong_{key.removesuffix('_bytes')}\"": {
        "wrong_naa",
        "wrong_serial",
        "wrong_size",
    },
    "plugins/module_utils/linux/clients/open_iscsi.py: f\"wrong_{key.replace('_bytes', '')}\"": {
        "wrong_naa",
        "wrong_serial",
        "wrong_size",
        "wrong_wwid",
    },
    "plugins/module_utils/linux/clients/open_iscsi.py: code": {error[0] for error in open_iscsi.LOGIN_ERRORS.values()},
    "plugins/module_utils/linux/loads/database.py: code": {linux_database.FULL, linux_database.DIED},
    'plugins/module_utils/linux/loads/database.py: f"{cluster.NAME}_missing"': {
        f"{name}_missing" for name in run_database.CLUSTERS
    },
    "plugins/module_utils/linux/backing/ramdisk.py: code": obstacles(),
    "plugins/plugin_utils/action.py: code": unwritable(),
    "plugins/plugin_utils/windows/action.py: f\"{call['op']}_failed\"": {f"{name}_failed" for name in operations()},
    "plugins/plugin_utils/windows/device_safety.py: code": TOUCHED_NEVER,
    "plugins/plugin_utils/windows/host.py: code": TOUCHED_NEVER,
    # These say again what another failure said.
    "plugins/module_utils/core/failure.py: self.code": set(),
    'plugins/module_utils/core/failure.py: whole["code"]': set(),
    "plugins/module_utils/linux/disks/device_safety.py: reasons[0].code": set(),
    "plugins/module_utils/engines/hammerdb_load.py: failure.code": set(),
    # The shape of what a host notes.
    "plugins/plugin_utils/store/archive.py: str": set(),
    'plugins/module_utils/engines/engine.py: result["failures"][0]["code"]': set(),
}


@functools.cache
def codes_of_the_collection() -> tuple:
    return failure_codes.of(SOURCES)


def entries(text: str) -> list:
    """[(code, [what it means, cause, remedy])] of the tables of a page, in its order."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| `") else []
        found += [(code, cells[1:]) for code in re.findall(r"`([a-z_]+)`", cells[0])] if cells else []
    return found


def test_every_place_of_a_code_is_understood():
    _found, unread = codes_of_the_collection()
    assert set(unread) == set(OF_PLACES)
    assert all("_" in code for codes in OF_PLACES.values() for code in codes)


def test_the_page_has_every_code_and_no_other():
    found, _unread = codes_of_the_collection()
    listed = [code for code, _cells in entries(PAGE.read_text(encoding="utf-8"))]
    assert len(found) > 200
    assert set(listed) == set(found).union(*OF_PLACES.values())


def test_every_entry_says_meaning_cause_and_remedy_and_stands_once():
    found = entries(PAGE.read_text(encoding="utf-8"))
    assert [code for code, cells in found if len(cells) != 3 or not all(cells)] == []
    codes = [code for code, _cells in found]
    assert sorted(code for code in set(codes) if codes.count(code) > 1) == []


def test_codes_are_read_however_they_are_written():
    source = """
def plain():
    raise Failure("one", "what", "remedy")
def either(a):
    raise core.Failure("two" if a else "three", "what", "remedy")
def wrapper(code, message):
    return {"code": code, "message": message}
def caller():
    wrapper("four", "m"); wrapper(message="m", code="five")
def variable(a):
    code, what = ("six", "w")
    if a:
        code = "seven"
    raise Failure(code, what, "remedy")
def loop():
    for key, code in (("a", "eight"), ("b", "nine")):
        raise Failure(code, key, "remedy")
def unreadable(other):
    raise Failure(other.code, "what", "remedy")
def table(rows):
    code, what = rows[3]
    raise Failure(code, what, "remedy")
EXIT = {"code": 3}
"""
    found, unread = failure_codes.of({"a.py": source})
    assert sorted(found) == ["eight", "five", "four", "nine", "one", "seven", "six", "three", "two"]
    assert unread == ["a.py: code", "a.py: other.code"]


def test_an_entry_without_a_remedy_is_noticed():
    assert entries("| `a_b`, `c_d` | means | |\n| code | x |\n") == [("a_b", ["means", ""]), ("c_d", ["means", ""])]
