# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a run as test cases, for a CI server. Elements and attributes are from Jenkins' junit-10.xsd, which follows Ant's:

testsuites > testsuite(name, tests, failures, errors, skipped, time, timestamp, hostname) > testcase(classname, name, time) > failure | error, system-out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ...module_utils.core import units
from ...module_utils.result.schema import Result
from ..store.flatten import flatten
from .nouns import Report
from .sentences import FLAG_WORDS

# A layer that is near to what the generator can do is a fast layer; its flag says the rest.
REMARKS = ("generator", "choice")


def junit(report: Report) -> str:
    """A point that failed, or whose figures a check refutes, is a failed case; a file that cannot be read is one in error; flags are system-out."""
    cases = [
        (
            point["layer"],
            f"{point['workload_id']} r{point['repetition']}",
            _time_s(point),
            _failures(point),
            _output(point),
        )
        for point in report.points
    ]
    damaged = [
        ("files", file["file"], None, f'<error type="unreadable" message={attribute(file["reason"])}/>', "")
        for file in report.damaged
    ]
    # A run does not meet a target that it does not show.
    cases += [
        (
            "targets",
            judged["target"],
            None,
            ""
            if judged["verdict"] == "met"
            else f"<failure type={attribute('target_' + judged['verdict'].replace(' ', '_'))} message={attribute(judged['why'])}/>",
            "",
        )
        for judged in report.targets
    ]
    failed, times = sum(bool(case[3]) for case in cases), [case[2] for case in cases if case[2] is not None]
    suite = {
        "name": f"{report.testbed_id} {report.run_id}",
        "tests": len(cases) + len(damaged),
        "failures": failed,
        "errors": len(damaged),
        "skipped": 0,
        "time": units.exact(sum(times)) if times else None,
        "timestamp": report.started_utc.removesuffix("Z") or None,
    }
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites><testsuite{_attributes(suite)}>"]
    lines += [
        f"<testcase{_attributes({'classname': layer, 'name': name, 'time': None if time_s is None else units.exact(time_s)})}>{failures}{output}</testcase>"
        for layer, name, time_s, failures, output in [*cases, *damaged]
    ]
    return "\n".join([*lines, "</testsuite></testsuites>"]) + "\n"


def _time_s(point: Mapping[str, object]) -> Any:
    """How long the point took, else how long it measured."""
    return next((point[key] for key in ("wall_s", "runtime_s") if isinstance(point.get(key), (int, float))), None)


def _failures(point: Result) -> str:
    failures = []
    if point["status"] != "measured":
        reasons = [
            (failure.get("code"), failure.get("message")) for failure in point["failures"] if isinstance(failure, dict)
        ]
        failures = [(code or point["status"], message or code) for code, message in reasons] or [
            (point["status"], "no reason was recorded")
        ]
    for check in point.get("checks") or []:
        if isinstance(check, dict) and check.get("ok") is False and check.get("name") not in REMARKS:
            figures = ", ".join(
                f"{key} {value}"
                for key, value in flatten(
                    {key: value for key, value in sorted(check.items()) if key not in ("name", "ok")}
                )
            )
            failures.append(
                (
                    f"check_{check.get('name')}",
                    f"the check {check.get('name')} failed" + (f" ({figures})" if figures else ""),
                )
            )
    return "".join(f"<failure type={attribute(kind)} message={attribute(message)}/>" for kind, message in failures)


def _output(point: Result) -> str:
    flags = [f"{flag}: {FLAG_WORDS.get(str(flag), flag)}" for flag in point["flags"]]
    return f"<system-out>{escape(printable(chr(10).join(flags)))}</system-out>" if flags else ""


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {name}={attribute(value)}" for name, value in values.items() if value is not None)


def attribute(text: object) -> str:
    """Quoted, as the value of an attribute."""
    return quoteattr(printable(str(text)))


def printable(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
