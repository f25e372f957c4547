# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HammerDB: transaction rates out of the log of a timed TPROC-C run.

The line that counts is written by HammerDB's driver in one of two orders: NOPM first (4.x and later), TPM first (3.x, and later when
``first_result`` says so). The JSON of ``jobs <id> result`` holds the same line as a string, so both are found alike.
"""

from __future__ import annotations

import re
from typing import Any

from ..core.failure import Failure

_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:(?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?P<database>[^\n\"]{1,80}?) TPM"
    r"|(?P<tpm_first>\d+) (?P<database_second>[^\n\"]{1,80}?) TPM at (?P<nopm_second>\d+) NOPM)"
)
# The monitor of a run; a schema build has one too, but times nothing.
_START = re.compile(r"^[^\n]{0,80}?Vuser 1:RUNNING", re.MULTILINE)
_TIMED = re.compile(r"Vuser \d+:(?:Beginning rampup time|Timing test period)")
_VERSION = re.compile(r"HammerDB CLI v(\d+(?:\.\d+)+)")
_USERS = re.compile(r"(\d+) Active Virtual Users configured")
_RAMP = re.compile(r"Beginning rampup time of (\d+) minutes")
_DURATION = re.compile(r"Timing test period of (\d+) in minutes")
_BROKEN = re.compile(r"Vuser (\d+):FINISHED FAILED")
_ERROR = re.compile(r"^[^\n]{0,80}?(?:Error in Virtual User \d+:|Error:)[^\n]{0,200}", re.MULTILINE)


def results(text: str) -> list[Any]:
    """One mapping for every timed run in the log, in order:

    {engine: {name, version}, status, failures: [{code, message}], tpm, nopm, database, virtual_users, ramp_s, runtime_s}; what the log does
    not say is absent. Failure 'no_result' when the log holds no result at all.
    """
    version = _VERSION.search(text)
    engine = {"name": "hammerdb", **({"version": version.group(1)} if version else {})}
    runs = [{"engine": engine, **run} for part in _runs(text) for run in _read(part)]
    if not any("tpm" in run for run in runs):
        error = _ERROR.search(text)
        raise Failure(
            "no_result",
            f"The HammerDB log holds no TEST RESULT{f'; it says {error.group(0).strip()!r}' if error else ''}.",
            "Run the timed driver to its end and keep its whole output.",
        )
    return runs


def _runs(text: str) -> list[Any]:
    """The log cut where a monitor starts; what stands before the first (configuration, or the JSON of a job) goes with it."""
    starts = [match.start() for match in _START.finditer(text)][1:]
    return [text[begin:end] for begin, end in zip([0, *starts], [*starts, len(text)])]


def _read(part: str) -> list[Any]:
    matches = list(_RESULT.finditer(part))
    if not matches:
        return [_run(part, None)] if _TIMED.search(part) else []
    # Several results without a start between them: the JSON of several jobs.
    ends = [match.end() for match in matches[:-1]] + [len(part)]
    return [_run(part[begin:end], match) for begin, end, match in zip([0, *ends], ends, matches)]


def _run(part: str, result: Any) -> dict[str, Any]:
    run: dict[str, Any] = {"failures": []}
    for key, pattern, scale in (("virtual_users", _USERS, 1), ("ramp_s", _RAMP, 60), ("runtime_s", _DURATION, 60)):
        match = pattern.search(part)
        if match:
            run[key] = int(match.group(1)) * scale
    if result is None:
        run["failures"].append({"code": "no_result", "message": "The run was started but has no TEST RESULT."})
    else:
        run.update(
            tpm=int(result["tpm"] or result["tpm_first"]),
            nopm=int(result["nopm"] or result["nopm_second"]),
            database=(result["database"] or result["database_second"]).strip(),
        )
        if not run["tpm"] or not run["nopm"]:
            run["failures"].append(
                {"code": "no_transactions", "message": "No transaction was completed in the timed period."}
            )
    broken = sorted({int(number) for number in _BROKEN.findall(part)})
    if broken:
        run["failures"].append(
            {"code": "users_failed", "message": f"Virtual users that failed: {', '.join(map(str, broken))}."}
        )
    run["status"] = "failed" if run["failures"] else "measured"
    return run
