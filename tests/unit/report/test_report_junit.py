# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""junit.xml read back with a parser of its own and held against the rules of the schema that CI servers use."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import junit, model
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture

# junit-10.xsd of Jenkins: attributes that must be, attributes that may be, children in their order.
RULES = {
    "testsuites": ((), ("name", "time", "tests", "failures", "disabled", "errors"), ("testsuite",)),
    "testsuite": (
        ("name", "tests"),
        ("failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"),
        ("properties", "testcase", "system-out", "system-err"),
    ),
    "testcase": (
        ("name",),
        ("assertions", "time", "classname", "status"),
        ("skipped", "error", "failure", "system-out", "system-err"),
    ),
    "failure": ((), ("type", "message"), ()),
    "error": ((), ("type", "message"), ()),
    "system-out": ((), (), ()),
}


def held(element) -> None:
    must, may, children = RULES[element.tag]
    assert set(must) <= set(element.attrib) <= {*must, *may}, element.attrib
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order), [child.tag for child in element]
    for number in ("tests", "failures", "errors", "skipped"):
        assert element.get(number, "0").isdecimal()
    assert float(element.get("time", "0")) >= 0
    for child in element:
        held(child)


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(make_fixture.write_run(str(tmp_path), 1, 2))


def change(run: Path, layer: str, **more) -> None:
    path = next(run.glob(f"points/{layer}_*_1/result.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}), encoding="utf-8")


def cases(run: Path) -> dict:
    root = ElementTree.fromstring(junit.junit(model.build(load.read_run(str(run)))))  # noqa: S314
    held(root)
    [suite] = root
    found = {(case.get("classname"), case.get("name")): case for case in suite}
    assert len(found) == len(suite) == int(suite.get("tests"))
    assert int(suite.get("failures")) == sum(case.find("failure") is not None for case in suite)
    assert int(suite.get("errors")) == sum(case.find("error") is not None for case in suite)
    assert (suite.get("name"), suite.get("timestamp")) == ("embedded 20261121T133616Z", "2026-11-21T13:36:16")
    return found


def test_a_case_for_each_point_and_none_fails(run):
    found = cases(run)
    assert len(found) == 12 and all(len(case) == 0 for case in found.values())
    assert ("backing-bench", "4k-r70-rnd100-qd8-w1 r2") in found
    assert {case.get("time") for case in found.values()} == {"5"}


def test_what_failed_fails_with_its_reason(run):
    change(
        run,
        "target-bench",
        status="failed",
        wall_s=7.25,
        failures=[{"code": "io_errors", "message": "3 I/O errors on <sda> & \x07more."}, {"code": "too_short"}],
    )
    case = cases(run)["target-bench", "4k-r70-rnd100-qd8-w1 r1"]
    assert [(part.get("type"), part.get("message")) for part in case.iter("failure")] == [
        ("io_errors", "3 I/O errors on <sda> & ?more."),
        ("too_short", "too_short"),
    ]
    assert case.get("time") == "7.25"


def test_a_point_without_a_reason_still_fails(run):
    change(run, "target-bench", status="failed", failures=[])
    [failure] = cases(run)["target-bench", "4k-r70-rnd100-qd8-w1 r1"].iter("failure")
    assert failure.get("message") == "no reason was recorded"


def test_a_check_that_refutes_the_figures_fails_and_a_remark_does_not(run):
    change(
        run,
        "backing-bench",
        flags=["device_counters_differ", "generator_bound", "not_known"],
        checks=[
            {"name": "device_counters", "ok": False, "engine_bytes": 4096, "device_bytes": 17},
            {"name": "generator", "ok": False, "percent": 44},
            {"name": "ceiling", "ok": True},
        ],
    )
    case = cases(run)["backing-bench", "4k-r70-rnd100-qd8-w1 r1"]
    [failure] = case.iter("failure")
    assert failure.get("type") == "check_device_counters" and "device_bytes 17, engine_bytes 4096" in failure.get(
        "message"
    )
    said = case.find("system-out").text.splitlines()
    assert [line.partition(":")[0] for line in said] == ["device_counters_differ", "generator_bound", "not_known"]


def test_a_flag_alone_fails_nothing(run):
    change(run, "backing-bench", flags=["not_steady"])
    case = cases(run)["backing-bench", "4k-r70-rnd100-qd8-w1 r1"]
    assert case.find("failure") is None and "steady" in case.find("system-out").text


def test_a_file_that_cannot_be_read_is_an_error(run):
    damaged = next(run.glob("points/guest-guest01_*_2/result.json"))
    damaged.write_text("{", encoding="utf-8")
    found = cases(run)
    [error] = found["files", str(damaged.relative_to(run))].iter("error")
    assert "cannot be read" in error.get("message") and len(found) == 12
