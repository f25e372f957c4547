# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HammerDB: transaction rates out of the log of a timed TPROC-C run.

The line that counts is written by HammerDB's driver in one of two orders: NOPM first (4.x and later), TPM first (3.x, and later when
``first_result`` says so). The JSON of ``jobs <id> result`` holds the same line as a string, so both are found alike. ``jobs <id> summaryjson``
of HammerDB 5 and 6 gives the figures as numbers (schema hammerdb-job-report-v1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
_SUMMARY = "hammerdb-job-report-v1"
_ERROR = re.compile(r"^[^\n]{0,80}?(?:Error in Virtual User \d+:|Error:)[^\n]{0,200}", re.MULTILINE)


def results(text: str) -> list[Any]:
    """One mapping for every timed run in the log, in order:

    {engine: {name, version}, status, failures: [{code, message}], tpm, nopm, database, virtual_users, ramp_s, runtime_s}; what the log does
    not say is absent. TPM of 0 beside new orders is unknown: the database's counters were read too early (Oracle's snapshots).
    Failure 'no_result' when the log holds no result at all.
    """
    if _SUMMARY in text:
        return _summaries(text)
    version = _VERSION.search(text)
    engine = {"name": "hammerdb", **({"version": version.group(1)} if version else {})}
    runs = [{"engine": engine, **run} for part in _runs(text) for run in _read(part)]
    if not any("nopm" in run for run in runs):
        error = _ERROR.search(text)
        raise Failure(
            "no_result",
            f"The HammerDB log holds no TEST RESULT{f'; it says {error.group(0).strip()!r}' if error else ''}.",
            "Run the timed driver to its end and keep its whole output.",
        )
    return runs


def _summaries(text: str) -> list[dict[str, object]]:
    """The runs of one or several documents of jobs summaryjson, whatever is printed around them."""
    decoder, runs, position = json.JSONDecoder(), [], text.find("{")
    while position >= 0:
        try:
            document, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if isinstance(document, dict) and document.get("schema") == _SUMMARY:
                runs.append(_summary(document))
        position = text.find("{", end)
    if not runs:
        raise Failure(
            "no_result",
            f"The output of HammerDB's jobs summaryjson ({_SUMMARY}) breaks off, or is not JSON.",
            "Keep its whole output.",
        )
    return runs


def _summary(document: Mapping[str, object]) -> dict[str, Any]:
    def part(name: str) -> dict[str, int | str]:
        value = document.get(name)
        return value if isinstance(value, dict) else {}

    job, config, result = part("job"), part("benchmark_config"), part("result")
    release = re.match(r"v?(\d+(?:\.\d+)+)", str(job.get("hdb_version", "")))
    numbers: dict[str, tuple[Any, int]] = {
        "virtual_users": (config.get("virtual_users", result.get("active_virtual_users")), 1),
        "ramp_s": (config.get("rampup_minutes"), 60),
        "runtime_s": (config.get("duration_minutes"), 60),
    }
    figures: dict[str, Any] = {name: result.get(name) for name in ("tpm", "nopm")}
    return {
        "engine": {"name": "hammerdb", **({"version": release.group(1)} if release else {})},
        **{key: value * scale for key, (value, scale) in numbers.items() if _count(value)},
        **_judged({name: value for name, value in figures.items() if _count(value)}, job.get("database"), []),
    }


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _runs(text: str) -> list[Any]:
    """The log cut where a monitor starts; what stands before the first (configuration, or the JSON of a job) goes with it.

    Not cut where several were at work at the same time (a step run): no one can say which lines are whose.
    """
    starts = [match.start() for match in _START.finditer(text)][1:]
    parts = [text[begin:end] for begin, end in zip([0, *starts], [*starts, len(text)])]
    return [text] if _interleaved(parts) else parts


def _interleaved(parts: list[str]) -> bool:
    """Whether one monitor has two results and another that ran has none."""
    counts = [len(_RESULT.findall(part)) for part in parts if _TIMED.search(part)]
    return bool(counts) and min(counts) == 0 and max(counts) > 1


def _read(part: str) -> list[Any]:
    matches = list(_RESULT.finditer(part))
    if not matches:
        return [_run(part, None)] if _TIMED.search(part) else []
    if len(_START.findall(part)) > 1:
        # Only the results of their settings are certain.
        failed = _users_failed(part)
        return [_judged(_figures(match), _database(match), failed) for match in matches]
    # Several results without a start between them: the JSON of several jobs.
    ends = [match.end() for match in matches[:-1]] + [len(part)]
    return [_run(part[begin:end], match) for begin, end, match in zip([0, *ends], ends, matches)]


def _figures(match: Any) -> dict[str, int]:
    return {"tpm": int(match["tpm"] or match["tpm_first"]), "nopm": int(match["nopm"] or match["nopm_second"])}


def _database(match: Any) -> str:
    return str(match["database"] or match["database_second"]).strip()


def _users_failed(part: str) -> list[dict[str, str]]:
    broken = sorted({int(number) for number in _BROKEN.findall(part)})
    return (
        [{"code": "users_failed", "message": f"Virtual users that failed: {', '.join(map(str, broken))}."}]
        if broken
        else []
    )


def _judged(figures: dict[str, int], database: object, failed: list[dict[str, str]]) -> dict[str, Any]:
    """{tpm, nopm, database, failures, status} of what HammerDB reported: {tpm, nopm} in as far as it did."""
    failures = list(failed)
    if not figures:
        failures.insert(0, {"code": "no_result", "message": "The run was started but has no TEST RESULT."})
    elif not figures.get("nopm"):
        failures.insert(0, {"code": "no_transactions", "message": "No new order was completed in the timed period."})
    elif figures.get("tpm") == 0:
        figures = {"nopm": figures["nopm"]}
    return {
        **figures,
        **({"database": str(database)} if figures and database else {}),
        "failures": failures,
        "status": "failed" if failures else "measured",
    }


def _run(part: str, match: Any) -> dict[str, Any]:
    """One run out of its part of the log. match: its TEST RESULT, None where it has none."""
    settings = {}
    for key, pattern, scale in (("virtual_users", _USERS, 1), ("ramp_s", _RAMP, 60), ("runtime_s", _DURATION, 60)):
        setting = pattern.search(part)
        if setting:
            settings[key] = int(setting.group(1)) * scale
    judged = _judged(_figures(match) if match else {}, _database(match) if match else None, _users_failed(part))
    return {**settings, **judged}
