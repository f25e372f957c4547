# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload at every layer, as a section of the page: marks, axes, charts and tables beside the figures themselves."""

from __future__ import annotations

from ...module_utils.core import units
from ...module_utils.workload.workload import Workload
from . import charts, views
from .model import SAMPLED
from .nouns import Report, Waterfall
from .rows import not_measured
from .sentences import workload_words
from .series import Curve, Lane


def section(
    index: int, waterfall: Waterfall, report: Report, choices: views.base.Choices, pictured: bool
) -> dict[str, object]:
    """Values with which the template draws one workload: marks, axis and distribution beside the figures themselves."""
    rates = [figure for step in waterfall.steps if (figure := step.cell.figure("iops")) and figure.low > 0]
    ticks = charts.log_ticks(min(figure.low for figure in rates), max(figure.high for figure in rates)) if rates else []
    full = max(
        (value for step in waterfall.steps if (value := step.cell.value("latency_mean_ns")) is not None), default=0
    )
    rows = []
    for step in waterfall.steps:
        cell = step.cell
        rate, mean = cell.figure("iops"), cell.value("latency_mean_ns")
        below = step.below.value("latency_mean_ns") if step.below and step.relation != "ceiling" else 0
        solid = step.comparable or step.relation == "ceiling"
        rows.append(
            {
                "step": step,
                "cell": cell,
                "css": choices.only(cell.layer),
                "rate_mark": charts.rate_mark(rate, ticks) if rate and rate.low > 0 else "",
                "added_mark": charts.added_mark(below or 0, mean, full, solid) if mean is not None and full else "",
            }
        )
    title, ident = workload_words(waterfall.workload), f"w{index + 1}"
    known = [(step.cell, choices.layer(step.cell.layer)) for step in waterfall.steps if step.cell.bins]
    curves, lanes = [], []
    if pictured:
        room = views.base.room(views.base.CURVE_POINTS, sum(len(other.steps) for other in report.waterfalls), 24, 60)
        curves = [Curve(cell.layer, css, charts.percentile_curve(cell.bins, room)) for cell, css in known]
        lanes = [
            Lane(cell.layer, css, cell.bins, cell.value("latency_p50_ns"), cell.value("latency_p99_ns"))
            for cell, css in known
        ]
    room = views.base.room(
        views.base.LINE_SAMPLES,
        len(views.over_time.COLUMNS) * len(waterfall.steps) * min(SAMPLED, len(report.waterfalls)),
        24,
        300,
    )
    return {
        "id": ident,
        "waterfall": waterfall,
        "rows": rows,
        "full": full,
        "not_measured": not_measured(waterfall),
        "conditions": _conditions(waterfall.workload),
        "pattern": choices.pattern(waterfall.workload),
        "ticks": [(100 * charts.log_position(tick, ticks), units.tick(units.iops(tick))) for tick in ticks],
        "mixed": any("read" in step.cell.figures and "write" in step.cell.figures for step in waterfall.steps),
        "distribution": charts.percentile_chart(f"{ident}-d", f"Latency distribution, {title}", curves),
        "histogram": charts.histogram_chart(f"{ident}-h", f"Latency histogram, {title}", lanes),
        "legend": [(cell.layer, css) for cell, css in known],
        "bounded": any(step.cell.bounds.get("total") for step in waterfall.steps),
        "time": views.over_time.pictures(ident, waterfall, report, choices, room),
        "cpu": views.cpu.table(waterfall, choices),
        "flushes": views.flushes.table(waterfall, report, choices),
        "esxi": views.esxi.table(waterfall, choices),
        "splits": views.counters.tables(waterfall),
    }


def _conditions(workload: Workload) -> list[str]:
    """How a workload was run: time, ramp, cache, and what kept I/Os in flight."""
    conditions = []
    if "runtime_s" in workload:
        ramp = f" after {workload['ramp_s']} s of ramp" if "ramp_s" in workload else ""
        conditions.append(f"{workload['runtime_s']} s per repetition{ramp}")
    if "direct" in workload:
        conditions.append(f"{'direct' if workload['direct'] else 'buffered'} I/O")
    depth = workload.get("queue_depth")
    if "rate_iops" in workload:
        conditions.append(f"a requested rate of {workload['rate_iops']} IOPS")
    elif depth is not None:
        waits = ", so waiting in the queue is part of every latency" if depth > 1 else ""
        conditions.append(f"closed loop: {depth} I/O{'' if depth == 1 else 's'} in flight per worker{waits}")
    return conditions
