# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be held of tests/powershell without a PowerShell: that every script has cases, that those ask Windows for documented things only, and that
the state which they expect has the shape of the state that tests/fake_windows gives."""

from __future__ import annotations

import copy
import json
import os
import re
import sys

import places
import pytest
import tree_sitter
import tree_sitter_pwsh
from test_windows_scripts import CMDLETS, commands, declared, functions
from world import HOST, Host, World

POWERSHELL = places.TESTS / "powershell"
sys.path.insert(0, str(POWERSHELL))

import bench
from cases import FOLDER, Case, Like
from windows_cases import CASES
from windows_cases.state import CLIENT, SERVER

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_pwsh.language()))
SCRIPTS = sorted(name.removesuffix(".ps1") for name in os.listdir(bench.script_text.SCRIPTS) if name.endswith(".ps1"))
OWN_FILES = [*POWERSHELL.glob("*.ps1"), *POWERSHELL.glob("*.psm1"), *(POWERSHELL / "worlds").glob("*.ps1")]
# Of PowerShell itself, as stand_ins.psm1 declares them.
CMDLET_NAMES = {name.lower() for name in CMDLETS} | {"start-service", "stop-service"}
BUILT_IN = {
    "Get-CimInstance",
    "Start-Service",
    "Stop-Service",
    "Start-Process",
    "Stop-Process",
    "Wait-Process",
    "Start-Sleep",
    "Remove-Item",
}
WHOLE_NUMBERS = {
    "UInt16": (0, 2**16 - 1),
    "UInt32": (0, 2**32 - 1),
    "UInt64": (0, 2**64 - 1),
    "Int32": (-(2**31), 2**31 - 1),
}


def stand_ins() -> str:
    return (POWERSHELL / "stand_ins.psm1").read_text(encoding="utf-8")


def windows_only() -> dict:
    """{function: its parameters} of the parts for Windows alone."""
    found: dict = {}
    for path in (bench.WINDOWS / "scripts" / "parts" / "windows_only").glob("*.ps1"):
        found.update(functions(path.read_text(encoding="utf-8")))
    return found


# ---- the lists


def test_every_script_has_a_case_and_every_case_a_script():
    assert {case.script for case in CASES} == set(SCRIPTS)


def test_every_file_of_cases_is_run():
    files = {path.stem for path in (POWERSHELL / "windows_cases").glob("*.py")} - {"__init__"}
    text = (POWERSHELL / "windows_cases" / "__init__.py").read_text(encoding="utf-8")
    assert set(re.search(r"for group in \((.*?)\)", text, re.S)[1].replace(",", " ").split()) == files


def test_no_two_cases_have_one_name():
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_succeeds_once_and_what_is_one_cmdlet_is_refused_by_it(script):
    outcomes = {(case.world, case.error is None) for case in CASES if case.script == script}
    assert any(succeeds for _world, succeeds in outcomes)
    text = bench.script_text.read(script)
    if [name for name, _parameters in commands(text) if name in CMDLET_NAMES] and not bench.script_text.parts(text):
        assert {("refusing", False), ("refusing_and_ending", False)} <= outcomes or script in (
            "engine_list",
            "engine_status",
            "own_look",
            "volume_look",
        )


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_text_parameter_is_given_what_looks_like_a_script(script):
    """Quotes, variables, calls and letters of other alphabets, in every parameter that is text and goes to Windows as it is."""
    text = bench.script_text.read(script)
    wild = {
        name
        for case in CASES
        if case.script == script
        for name, value in case.given.items()
        if "`d`" in json.dumps(value, ensure_ascii=False) or "日本" in json.dumps(value, ensure_ascii=False)
    }
    # Folders of runs are refused with such names; a root, a session and names of addresses are one of a few; the case of a list holds one of them.
    fixed = {
        "Folder",
        "Root",
        "TestbedId",
        "Session",
        "Style",
        "TaskName",
        "Initiators",
        "Names",
        "Contents",
        "Runner",
        "Files",
        "Iqn",
        "Address",
    }
    wanted = {name for name, kind in declared(text).items() if kind in ("string", "string[]")} - fixed
    assert wanted - wild == set()


# ---- the expectations against Microsoft's documentation, which the stand-ins are made of


def calls() -> list:
    return [(case, name, given) for case in CASES for name, given in case.calls if name in CMDLETS]


def test_every_call_binds_to_one_documented_parameter_set():
    wrong = []
    for case, name, given in calls():
        about = CMDLETS[name]["parameters"]
        unknown = set(given) - set(about) - {"ErrorAction"}
        sets = {key for parameter in about.values() for key in parameter["sets"]}
        bound = [
            one
            for one in sets
            if all(one in about[key]["sets"] for key in given if key in about)
            and all(key in given for key, parameter in about.items() if parameter["sets"].get(one))
        ]
        if unknown or not bound:
            wrong.append((case.name, name, unknown))
    assert wrong == []


def test_every_call_has_documented_types_and_values():
    wrong = []
    for case, name, given in calls():
        for key, value in given.items():
            if key == "ErrorAction":
                continue
            about = CMDLETS[name]["parameters"][key]
            kind, listed = about["type"].replace("[]", ""), about["type"].endswith("[]")
            for one in value if listed and isinstance(value, list) else [value]:
                good = {
                    "Boolean": isinstance(one, bool),
                    "SwitchParameter": isinstance(one, bool),
                    "PSCredential": isinstance(one, str) and one.startswith("credential "),
                    "Char": isinstance(one, str) and len(one) == 1,
                    "TimeSpan": isinstance(one, str) and ":" in one,
                }.get(kind)
                if kind in WHOLE_NUMBERS:
                    good = type(one) is int and WHOLE_NUMBERS[kind][0] <= one <= WHOLE_NUMBERS[kind][1]
                if about.get("accepted"):
                    good = one in about["accepted"]
                if good is None:
                    good = isinstance(one, str)
                if not good or listed != isinstance(value, list):
                    wrong.append((case.name, name, key, value))
    assert wrong == []


def test_every_call_is_of_something_that_stands_in():
    own = {name.lower() for name in (*CMDLETS, *BUILT_IN, "WaitForExit")} | set(windows_only())
    assert {name for case in CASES for name, _given in case.calls if name.lower() not in own} == set()


# ---- the stand-ins


def test_stand_ins_are_all_functions_of_windows_only_parts_with_the_same_parameters():
    ours = functions(stand_ins())
    assert {name: ours.get(name) for name in windows_only()} == windows_only()


def test_no_construct_of_powershell_7_is_in_them():
    for path in OWN_FILES:
        text = path.read_text(encoding="utf-8")
        assert text.isascii(), path.name
        code = re.sub(r"'[^']*'|\"[^\"\n]*\"|#.*", "", text)
        assert re.findall(r"-AsHashtable|\?\?|&&|\|\||\?\.|ForEach-Object -Parallel|-isnot \[void\]", code) == [], (
            path.name
        )


def broken(text: str) -> bool:
    return PARSER.parse(text.encode()).root_node.has_error


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.name)
def test_own_file_parses(path):
    assert not broken(path.read_text(encoding="utf-8"))


def test_every_change_of_a_world_parses_and_every_world_is_there():
    assert {case.name for case in CASES if broken(case.change.replace(FOLDER, "/tmp/x"))} == set()
    assert {case.world for case in CASES} == {path.stem for path in (POWERSHELL / "worlds").glob("*.ps1")}


# ---- the comparison itself finds what differs

RIGHT = {
    "failed": False,
    "error": None,
    "changed": True,
    "result": {"left": []},
    "output": [],
    "calls": [{"name": "Set-Disk", "parameters": {"Number": 3}}],
    "registry": {},
}
SEEN = Case("disk_online", "x", calls=[("Set-Disk", {"Number": 3})], result={"left": []}, files={"a/b": "text"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"failed": True}, "failed"),
        ({"error": "no"}, "error"),
        ({"changed": False}, "changed"),
        ({"result": {"left": ["x"]}}, "result"),
        ({"output": ["x"]}, "output"),
        ({"calls": []}, "calls"),
        ({"calls": [{"name": "Set-Disk", "parameters": {"Number": 4}}]}, "calls"),
        ({"registry": {"k": {}}}, "registry"),
        ({"bench_error": "it did not come back"}, "no answer"),
    ],
)
def test_comparison_names_what_differs(tmp_path, change, said):
    bench.furnish(tmp_path / "case", SEEN.files)
    found = bench.differences(SEEN, {**copy.deepcopy(RIGHT), **change}, str(tmp_path / "case"))
    assert [line.partition(":")[0] for line in found] == ([said] if said else [])


def test_comparison_looks_at_files(tmp_path):
    folder = tmp_path / "case"
    bench.furnish(folder, SEEN.files)
    (folder / "a" / "b").write_text("other")
    (folder / "new").mkdir()
    assert len(bench.differences(SEEN, copy.deepcopy(RIGHT), str(folder))) == 2
    (folder / "a" / "b").unlink()
    assert len(bench.differences(SEEN, copy.deepcopy(RIGHT), str(folder))) == 2


def test_pattern_is_matched_as_a_whole():
    assert Like("a+") == "aaa"
    assert Like("a+") != "aaab"
    assert Like("a+") != 3


# ---- the two stand-ins


def shape(value, found: dict, place: str = "") -> dict:
    """{place in the state: types that are there, and keys of mappings}; the places in a list are one."""
    kinds = found.setdefault(place, set())
    if isinstance(value, dict):
        kinds.add(("mapping", tuple(sorted(value))))
        for key, item in value.items():
            shape(item, found, f"{place}.{key}")
    elif isinstance(value, list):
        kinds.add(("list",))
        for item in value:
            shape(item, found, f"{place}[]")
    else:
        kinds.add((type(value).__name__,))
    return found


def rich_host(folder) -> list:
    """States of simulated hosts that have all that a state can hold, and that have nothing of it."""
    world = World(folder / "world.json")
    with world.open():
        world.add(
            "server",
            feature="Installed",
            loopback=1,
            files=["D:\\lab\\b.vhdx"],
            firewall_rules={"storlab t1 iSCSI target": {}},
            services={
                "WinTarget": {"state": "Running", "start_mode": "Auto"},
                "MSiSCSI": {"state": "Running", "start_mode": "Manual"},
            },
            portals={"192.0.2.11": {"port": 3260, "enabled": True}},
            loopback_read=1,
        )
        world.add("client", server=False)
        server = Host(world, "server")
        server.script_vdisk_new("ramdisk:a.vhdx", 1 << 30, "storlab testbed t1: a")
        server.script_target_new("a", ["IQN:iqn.1991-05.com.microsoft:host"])
        server.script_target_name("a", "iqn.2026-11.org.example:a", "storlab testbed t1")
        server.script_target_chap("a", ("user-in", "first-secret-1"))
        server.script_lun_map("a", "ramdisk:a.vhdx", 5)
        server.script_initiator_portal_new("192.0.2.11", 3260)
        server.script_session_login_chap("iqn.2026-11.org.example:a", "192.0.2.11", 3260, ("user-in", "first-secret-1"))
        server.data["disks"]["0"]["partitions"][1]["folders"] = ["D:\\mnt\\"]
        server.data["disks"]["0"]["volumes"]["C"]["entries"] = [
            {"name": "x", "size_bytes": 1},
            {"name": "y", "size_bytes": None},
        ]
        # A disk whose unit is not known.
        server.data["disks"]["7"] = {**copy.deepcopy(HOST["disks"]["0"]), "lun": None}
        return [server.state(["D:\\lab\\b.vhdx"]), Host(world, "client").state([])]


def test_simulated_state_has_the_shape_of_the_scripts_state_at_every_depth(tmp_path):
    scripts: dict = {}
    for state in (SERVER, CLIENT, {**SERVER, "files": ["a file"]}):
        shape(state, scripts)
    simulated: dict = {}
    for state in rich_host(tmp_path):
        # What no host says.
        assert state["about"].pop("stand_in")
        shape(state, simulated)
    assert len(scripts) > 60
    assert {place: simulated.get(place) for place in scripts | simulated} == {
        place: scripts.get(place) for place in scripts | simulated
    }


def test_comparison_of_shapes_sees_a_key_and_a_type_that_differ():
    one = shape({"a": [{"b": 1}]}, {})
    assert one != shape({"a": [{"b": "1"}]}, {})
    assert one != shape({"a": [{"c": 1}]}, {})
    assert one != shape({"a": [{"b": 1}, {"b": None}]}, {})
    assert one == shape({"a": [{"b": 2}, {"b": 3}]}, {})


@pytest.mark.parametrize(
    "script", ["engine_host", "engine_list", "engine_status", "engine_remove", "file_read", "aim_list"]
)
def test_simulated_answers_have_the_keys_of_the_scripts_answers(script):
    """The keys of the mappings that are expected of a script stand in the stand-in's code for it, too."""
    wanted = {
        tuple(sorted(case.result))
        for case in CASES
        if case.script == script and isinstance(case.result, dict) and case.result
    }
    assert len(wanted) == 1
    text = "".join(
        (places.TESTS / "fake_windows" / name).read_text(encoding="utf-8") for name in ("engines.py", "aim.py")
    )
    body = text[text.index(f"def script_{script}(") :]
    body = body[: body.find("\n    def ", 10)]
    assert [key for key in next(iter(wanted)) if f'"{key}"' not in body and f"{key}=" not in body] == []
