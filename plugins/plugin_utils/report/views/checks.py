# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the points, and those that did not pass."""

from __future__ import annotations

from typing import Any

from ....module_utils.result.schema import Result
from ...store.flatten import flatten
from ..nouns import Report


def passed(point: Result) -> bool:
    """Whether every check that was made of a point was passed."""
    return all(check.get("ok") is True for check in point.get("checks") or [] if isinstance(check, dict))


def of_run(report: Report) -> dict[str, Any] | None:
    """{passed, made, rows: [(point, check, figures in words)]} of what was checked about the points; rows are those that failed."""
    made = [(point, check) for point in report.points for check in point.get("checks") or [] if isinstance(check, dict)]
    if not made:
        return None
    failed = [
        (
            point,
            str(check.get("name")),
            ", ".join(
                f"{key} {value}"
                for key, value in flatten({key: check[key] for key in check if key not in ("name", "ok")})
            ),
        )
        for point, check in made
        if check.get("ok") is not True
    ]
    return {
        "made": len(made),
        "passed": len(made) - len(failed),
        "failed": failed,
        "names": ", ".join(sorted({str(check.get("name")) for _point, check in made})),
    }
