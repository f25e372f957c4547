# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Additions to results after they were measured, in files of its own beside them.

A result.json is written once. The counters of other hosts and of the ESXi host, and the conclusions of a host's other points, are known later; they are
kept by its source, and every reader merges it into the result::

    <run>/added/<source>.json: {"schema": "storlab.additions/1", "points": {point_id: addition}}
    addition: {of, counters: {…}, event: {…}, checks: [{name, …}], flags: [name], replaced_flags: [name], failures: [{code, message}]}, all but ``of`` optional

``of`` says which measurement of the point it belongs to, so that it does not pass to another of the same name. A point with failures is a failed point.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...module_utils.core.failure import Failure

SCHEMA = "storlab.additions/1"
FOLDER = "added"


def measurement(result: dict[str, Any]) -> str | None:
    """The identity of this measurement of a point: the checksum of its raw file, else when it began."""
    raw = result.get("raw")
    return (raw.get("sha256") if isinstance(raw, dict) else None) or result.get("started_utc")


def merged(result: dict[str, Any], additions: list[dict[str, Any]]) -> dict[str, Any]:
    """The result with these additions, in their order: counters by host, checks by name, flags and failures once."""
    for addition in additions:
        if addition.get("of") != measurement(result):
            continue
        result = dict(result)
        if "counters" in addition:
            known, fresh = result.get("counters") or {}, addition["counters"]
            hosts = {**known.get("hosts", {}), **fresh.get("hosts", {})}
            result["counters"] = {**known, **fresh, **({"hosts": hosts} if hosts else {})}
        if "event" in addition:
            result["event"] = addition["event"]
        if "checks" in addition:
            names = {check["name"] for check in addition["checks"]}
            kept = [check for check in result.get("checks") or [] if check["name"] not in names]
            result["checks"] = [*kept, *addition["checks"]]
        if "flags" in addition or "replaced_flags" in addition:
            replaced = addition.get("replaced_flags", ())
            flags = [flag for flag in result.get("flags") or [] if flag not in replaced]
            result["flags"] = list(dict.fromkeys([*flags, *addition.get("flags", ())]))
        if addition.get("failures"):
            known = result.get("failures") or []
            result["failures"] = [*known, *(failure for failure in addition["failures"] if failure not in known)]
            result["status"] = "failed"
    return result


def problem(content: object) -> str | None:
    """Why this is not a file of additions that can be merged, None when it is one."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or not isinstance(content.get("points"), dict):
        return f"it does not hold additions of schema {SCHEMA}"
    for name, addition in content["points"].items():
        if not isinstance(addition, dict) or not all(
            isinstance(addition.get(key, kind()), kind)
            for key, kind in (
                ("counters", dict),
                ("event", dict),
                ("checks", list),
                ("flags", list),
                ("replaced_flags", list),
                ("failures", list),
            )
        ):
            return f"what it adds to {name} has the wrong form"
        if not isinstance(addition.get("counters", {}).get("hosts", {}), dict) or not all(
            isinstance(check, dict) and "name" in check for check in addition.get("checks", ())
        ):
            return f"what it adds to {name} has the wrong form"
        if not all(isinstance(failure, dict) for failure in addition.get("failures", ())):
            return f"what it adds to {name} has the wrong form"
    return None


class Additions:
    """All additions of one run, read at once. damaged: [{file, reason}] of what is there and cannot be read."""

    def __init__(self, run_dir: str, parse: Callable[[bytes], Any]) -> None:
        """parse: makes JSON of bytes, or raises ValueError."""
        self.by_point: dict[str | None, list[dict[str, Any]]] = {}
        self.damaged: list[dict[str, str]] = []
        folder = os.path.join(run_dir, FOLDER)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if not name.endswith(".json"):
                continue
            try:
                with open(os.path.join(folder, name), "rb") as handle:
                    content = parse(handle.read())
                reason = problem(content)
            except (OSError, ValueError, RecursionError) as error:
                content, reason = None, f"it cannot be read: {error}"
            if reason:
                self.damaged.append({"file": f"{FOLDER}/{name}", "reason": reason})
                continue
            for point_id, addition in content["points"].items():
                self.by_point.setdefault(point_id, []).append(addition)

    def to(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result with what was added to it."""
        return merged(result, self.by_point.get(result.get("point_id"), []))

    def fail(self) -> bool:
        """Whether something was added that fails a point."""
        return any(addition.get("failures") for added in self.by_point.values() for addition in added)

    def refuse_damaged(self) -> None:
        """Failure 'run_damaged' where something cannot be read, for those who are about to add."""
        for entry in self.damaged:
            raise Failure(
                "run_damaged",
                f"{entry['file']} of the run cannot be used: {entry['reason']}.",
                "Restore it from a copy, or remove it; its additions to the results are then lost.",
                file=entry["file"],
            )
