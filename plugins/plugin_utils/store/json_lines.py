# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Side files of a run that hold one JSON object per line. Unusable lines are reported, and the other lines count."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def read(
    run_dir: str, file: str, parse: Callable[[bytes], Any], problem_of: Callable[[Any], str | None]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(the lines as they are in the file, [{file, reason}] of unusable lines). No file: no lines.

    parse: makes JSON of bytes, or raises ValueError. problem_of: why a line is none of this file, None when it is one.
    """
    try:
        with open(os.path.join(run_dir, file), "rb") as handle:
            content = handle.read().splitlines()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [{"file": file, "reason": f"it cannot be read: {error}"}]
    lines, damaged = [], []
    for number, raw in enumerate(content, start=1):
        try:
            line = parse(raw)
            reason = problem_of(line)
        except (ValueError, RecursionError) as error:
            line, reason = None, f"it cannot be read: {error}"
        if reason:
            damaged.append({"file": file, "reason": f"line {number}: {reason}"})
        else:
            lines.append(line)
    return lines, damaged
