# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of the playbook lab_check: which line is good, and what a bad one says."""

from __future__ import annotations

import json

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from places import ROOT

TEMPLATE = ROOT / "playbooks" / "templates" / "lab_check.md.j2"
# As a failure of this collection looks: what is for scripts stands before the sentence.
FAILURE = {
    "failed": True,
    "failure": {"code": "not_clean", "details": {"strays": ["mounts: x {y}"]}},
    "msg": "client01 is not | as it was.",
}


def output(results: dict, **changes: dict) -> str:
    """What a run prints: a task for each host's result, and how it ended."""
    stats = {host: {"changed": 0, "failures": 0, "unreachable": 0, **changes.get(host, {})} for host in results}
    plays = [{"tasks": [{"hosts": {host: result}} for host, result in results.items()]}]
    document = json.dumps({"plays": plays, "stats": stats}, indent=4, sort_keys=True)
    return f"[WARNING]: none\n{document}\n\nTASKS RECAP ***\n"


@pytest.fixture
def line():
    """The report's line for one run."""

    def of(rc: int, stdout: str, stderr: str = "", **item) -> str:
        times = {"start": "2026-01-02 03:04:05.000000", "end": "2026-01-02 03:04:12.500000"}
        run = {"rc": rc, "stdout": stdout, "stderr": stderr, "item": {"what": "try", **item}, **times}
        known = {
            "testbed_id": "lab",
            "lab_check_hosts": [],
            "lab_check_runs": [run],
            "lab_check_addresses": ["esx07.lab.example"],
        }
        text = Templar(loader=DataLoader(), variables=known).template(trust_as_template(TEMPLATE.read_text()))
        (found,) = [one for one in text.splitlines() if one.startswith("| try ")]
        return found

    return of


def test_a_run_that_works(line):
    text = output({"a": {"changed": True}, "b": {}}, a={"changed": 3}, b={"changed": 4})
    assert line(0, text) == "| try | yes | 7.5 | 2 hosts, 7 changed, 0 failed |"


def test_a_second_build_that_changes_something(line):
    text = output({"a": {}}, a={"changed": 1})
    assert line(0, text, unchanged=True) == "| try | no | 7.5 | 1 hosts, 1 changed, 0 failed |"


def test_a_failure_is_told(line):
    text = output({"a": {}, "client01": FAILURE}, client01={"failures": 1})
    assert line(2, text) == "| try | no | 7.5 | 2 hosts, 0 changed, 1 failed: client01 is not   as it was. |"


def test_a_run_that_could_not_begin(line):
    said = "[WARNING]: old\n[ERROR]: the file is no YAML"
    assert line(4, "", said) == "| try | no | 7.5 | 0 hosts, 0 changed, 0 failed: [ERROR]: the file is no YAML |"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("esx07.lab.example:443 cannot be reached.", "[address]:443 cannot be reached."),
        ("The portal 192.0.2.17:3260 does not offer it.", "The portal [address]:3260 does not offer it."),
        ("send [fd00::17]:3260 is configured.", "send [address]:3260 is configured."),
        ("It is 2001:db8:0:0:0:0:0:9 now.", "It is [address] now."),
        ("The card 00:50:56:0a:0b:0c is gone.", "The card [address] is gone."),
        # What only looks a little like one stays.
        ("At 12:30:45 of ESXi 8.0.3 iqn.2026-11.test:bed:fade has LUN 3.", None),
        ("Ratio 1:2: see the host.", None),
    ],
)
def test_a_remark_has_no_address(line, text, shown):
    failed = output({"a": {"failed": True, "msg": text}}, a={"failures": 1})
    assert line(2, failed) == f"| try | no | 7.5 | 1 hosts, 0 changed, 1 failed: {shown or text} |"
