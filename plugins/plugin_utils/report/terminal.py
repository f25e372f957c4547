# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waterfalls of a report as lines for a terminal."""

from __future__ import annotations

from ...module_utils.core import units
from . import views
from .nouns import Report, Step
from .rows import flushes, latency, not_measured
from .sentences import workload_words


def table(report: Report) -> list[str]:
    """The waterfalls as lines for a terminal."""
    lines: list[str] = []
    choices = views.base.Choices(report)
    head = ("layer", "host", "IOPS", "MB/s", "mean", "p50", "p99", "adds", "IOPS against")
    for waterfall in report.waterfalls:
        rows = [head] + [
            (
                step.cell.layer,
                step.cell.host,
                units.iops(step.cell.value("iops")),
                units.bandwidth(step.cell.value("bandwidth_bytes_s")),
                *(latency(step.cell, metric) for metric in ("latency_mean_ns", "latency_p50_ns", "latency_p99_ns")),
                units.added_latency(step.added_mean_ns if step.comparable else None),
                _against(step),
            )
            for step in waterfall.steps
        ]
        if not any(step.below for step in waterfall.steps):
            rows = [row[:-2] for row in rows]
        widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
        lines.append(f"{waterfall.workload_id}: {workload_words(waterfall.workload)}")
        for row in rows:
            cells = [
                text.ljust(width) if index in (0, 1, 8) else text.rjust(width)
                for index, (text, width) in enumerate(zip(row, widths))
            ]
            lines.append(("  " + "  ".join(cells)).rstrip())
        lines.extend(f"  {text}" for text in flushes(report, waterfall, choices))
        lines.extend(f"  {shares.verdict}" for shares in waterfall.splits if shares.verdict)
        lines.extend(f"  not measured: {text}" for text in not_measured(waterfall))
    return lines + [f"target {judged['verdict']}: {judged['target']} ({judged['why']})" for judged in report.targets]


def _against(step: Step) -> str:
    if step.below is None:
        return units.ABSENT
    remark = ", not comparable" if not step.comparable else ", repetitions overlap" if step.overlap else ""
    return f"{units.ratio(step.iops_ratio)} {step.below.layer}{remark}"
