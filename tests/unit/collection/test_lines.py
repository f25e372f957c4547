# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and drawings are printed as lines whatever format results have, and never among JSON for a program."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import actions
import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.action import lines
from ansible_collections.storlab.testbed.plugins.module_utils.core.visible import visible

ROOT = show_testbed.ROOT
LAB = """
testbed_id: plain
testbed:
  disks: [{name: bench, size: 64MiB}]
"""


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "lab"
    (folder / "group_vars").mkdir(parents=True)
    (folder / "hosts.yml").write_text(
        "all: {children: {targets: {hosts: {store01: {ansible_host: 192.0.2.11}}}}}", encoding="utf-8"
    )
    (folder / "group_vars" / "all.yml").write_text(LAB, encoding="utf-8")
    return folder


def shown(lab, *options: str, **environment) -> str:
    """What show prints where no ansible.cfg of the clone is in force."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(lab), "storlab.testbed.show", *options],
        cwd=lab.parent,
        env={**kept, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def at_a_terminal(columns: int, command: list, **environment) -> str:
    """The output of a command at a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**kept, **environment}):
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:  # the end of a pseudo terminal
            pass
    os.close(ours)
    return b"".join(parts).decode()


@pytest.mark.parametrize(("columns", "number"), [(80, 2), (120, 1)])
def test_a_drawing_that_is_wider_than_a_real_terminal_goes_on_below_itself(lab, columns, number):
    """Ansible runs an action in a process of its own, whose output is not a terminal."""
    path = "/srv/measurements-of-the-whole-department"
    (lab / "group_vars" / "all.yml").write_text(
        f"testbed_id: wide\ntestbed:\n  existing: [{{name: data, kind: path, path: {path}}}]\n", encoding="utf-8"
    )
    (lab / "hosts.yml").write_text("all: {children: {clients: {hosts: {here: {}}}}}", encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(lab), "storlab.testbed.show"]
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_NOCOLOR": "1"}
    text = at_a_terminal(columns, command, **environment).replace("\r", "")
    drawn = text[text.index("└─ datastore-data") :].split("\n\n")[0].split("\n")
    assert len(drawn) == number and all(len(line) < columns for line in drawn)
    sentence = f"└─ datastore-data on here: folder {path}, which was there before, only read"
    assert " ".join(line.strip() for line in drawn) == sentence


DRAWN = "backing-bench on store01: RAM disk, 64 MiB, measured raw: overwritten"


@pytest.mark.parametrize("format_of_results", ["", "json", "yaml"])
def test_show_draws_lines_under_every_format_of_results(lab, format_of_results):
    chosen = {"ANSIBLE_CALLBACK_RESULT_FORMAT": format_of_results} if format_of_results else {}
    text = shown(lab, **chosen)
    drawn = next(line for line in text.splitlines() if DRAWN in line)
    assert drawn.lstrip("├└─ ") == DRAWN
    assert "\\n" not in text


def test_show_fits_a_screen_and_prints_variables_when_asked(lab):
    assert "testbed_id: plain" in shown(lab, "-e", "show_variables=true").splitlines()
    text = shown(lab)
    assert "testbed_id: plain" not in text and "-e show_variables=true" in text
    # A terminal of 25 lines keeps the drawing.
    assert len(text[text.index(DRAWN) :].splitlines()) < 25


def test_json_for_programs_stays_json_and_has_the_lines(lab):
    document = json.loads(shown(lab, ANSIBLE_STDOUT_CALLBACK="ansible.posix.json"))
    (result,) = document["plays"][0]["tasks"][1]["hosts"].values()
    assert any(line.endswith(DRAWN) for line in result["msg"].split("\n")) and result["changed"] is False


def test_a_text_of_a_host_does_not_command_the_terminal():
    result = actions.make(lines, {"lines": ["a\x1b[2Jb\tc", "first\nsecond\r", "\x9b1m"]}).run(task_vars={})
    assert result["msg"] == "a?[2Jb\tc\nfirst\nsecond?\n?1m" and result["changed"] is False


def test_marks_of_the_direction_of_writing_do_not_turn_a_line_round():
    """Of a path of a host such as gpj.<U+202E>exe a table would show another one."""
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    texts = [f"/dev/{mark}abc" for mark in marks]
    result = actions.make(lines, {"lines": [*texts, "\u2500 \u05d0\u05d1 caf\u00e9"]}).run(task_vars={})
    assert result["msg"].split("\n") == ["/dev/?abc"] * len(marks) + ["\u2500 \u05d0\u05d1 caf\u00e9"]


@pytest.mark.parametrize("mark", ["\u061c", "\u202e", "\u2028", "\u2029", "\x9b", "\x1b"])
def test_a_sentence_shows_such_a_mark_as_its_escape(mark):
    """Line and paragraph separators would begin a line that the host wrote."""
    assert visible(f"a{mark}b") == f"a{mark.encode('unicode_escape').decode()}b"


def test_what_no_list_of_lines_can_be_is_refused():
    result = actions.make(lines, {}).run(task_vars={})
    assert result["failed"] and result["failure"]["code"] == "bad_value" and "lines" in result["msg"]


def test_nothing_prints_several_lines_by_debug():
    """It shows them as one line with \\n in it, unless results are in YAML."""
    wrong = []
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("tasks/*.yml")]:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        # A file of variables is no list of tasks.
        for task in tasks_in(content if isinstance(content, list) else []):
            text = str((task.get("ansible.builtin.debug") or {}).get("msg", ""))
            if "\n" in text.strip() or re.search(r"join\(.(\\n|\n)|\.splitlines|\| list", text):
                wrong.append(f"{path.name}: {task['name']}")
    assert wrong == []


def tasks_in(entries: list):
    for entry in entries:
        if "name" in entry:
            yield entry
        for part in ("tasks", "block", "rescue", "always", "pre_tasks", "post_tasks"):
            yield from tasks_in(entry.get(part) or [])


TREE = [
    "testbed embedded",
    "├─ backing-bench on target01: RAM disk, 128 MiB, measured raw: overwritten",
    "│  └─ target-bench on target01: LUN 0 of iqn.2026-11.test.storlab:embedded:target01",
    "└─ backing-ds1 on target01: RAM disk, 96 MiB",
    "   ├─ target-ds1 on target01: LUN 1 of iqn.2026-11.test.storlab:embedded:target01",
    "   └─ a sentence that is not a name and has a dozen words, so that it goes on below",
]


def test_a_wide_branch_goes_on_below_its_own_text():
    assert [lines.folded(line, 60).split("\n") for line in TREE] == [
        ["testbed embedded"],
        ["├─ backing-bench on target01: RAM disk, 128 MiB, measured", "│    raw: overwritten"],
        ["│  └─ target-bench on target01: LUN 0 of", "│       iqn.2026-11.test.storlab:embedded:target01"],
        ["└─ backing-ds1 on target01: RAM disk, 96 MiB"],
        ["   ├─ target-ds1 on target01: LUN 1 of", "   │    iqn.2026-11.test.storlab:embedded:target01"],
        ["   └─ a sentence that is not a name and has a dozen words,", "        so that it goes on below"],
    ]


def test_a_wide_last_column_goes_on_below_itself():
    row = "store01  kernel modules  NO    brd, target_core_mod and dm_raid are not there"
    assert lines.folded(row, 64).split("\n") == [
        "store01  kernel modules  NO    brd, target_core_mod and dm_raid",
        "                               are not there",
    ]
    assert lines.folded(row, 60).split("\n") == [
        "store01  kernel modules  NO",
        "        brd, target_core_mod and dm_raid are not there",
    ]
    # As many columns as fit into a row, and no column is broken.
    assert lines.folded(row, 26).split("\n") == [
        "store01  kernel modules",
        "        NO",
        "        brd, target_core_mod and dm_raid are not there",
    ]


def test_other_lines_and_wide_terminals_keep_their_lines():
    table = "layer          IOPS    " + "x" * 90
    assert lines.folded(table, 60) == table
    assert [lines.folded(line, 200) for line in TREE] == TREE
