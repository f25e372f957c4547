# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of a long run while it runs: whole lines only, because the lines of many hosts interleave and a log keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...module_utils.workload.point import Point

BAR_CELLS = 20
# Seconds between two lines of one host: at least, and at most when nothing changes.
INTERVAL_S = {"bar": (5.0, 5.0), "line": (5.0, 5.0), "log": (5.0, 30.0)}


class Lines:
    """Says how far a run is, through ``say``, not more often than its style allows. style: bar, line, log or none."""

    def __init__(self, host: str, style: str, say: Callable[[str], object]) -> None:
        self.host, self.style, self.say, self.shown = host, style, say, float("-inf")
        self.seen: tuple[int, str | None] | None = None

    def show(self, state: dict[str, Any], now: float) -> None:
        if self.style == "none" or not state.get("point"):
            return
        position = (state["point"], state.get("phase"))
        least, most = INTERVAL_S[self.style]
        if now - self.shown >= (least if position != self.seen else most):
            self.seen, self.shown = position, now
            self.say((bar if self.style == "bar" else line)(self.host, state))


def style(wanted: str, terminal: bool) -> str:
    """What ``progress`` means here: auto is a bar on a terminal, and elsewhere lines that are fewer while nothing changes."""
    return {"auto": "bar" if terminal else "log"}.get(wanted, wanted)


def line(host: str, state: dict[str, Any]) -> str:
    """[target01] 3/12 backing-bench 4k-r70-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 41 s left"""
    return " ".join(
        [
            f"[{host}] {state['point']}/{state['points']}",
            *_doing(state),
            f"{duration(state.get('remaining_s', 0))} left",
            *_failed(state),
        ]
    )


def bar(host: str, state: dict[str, Any]) -> str:
    """[target01] [#####...............] 3/12 backing-bench 4k-r70-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 14 s gone 41 s left"""
    elapsed, left = state.get("updated", 0), state.get("remaining_s", 0)
    # By time, not by points: the first one may have to write the whole layer.
    full = int(BAR_CELLS * elapsed / (elapsed + left)) if elapsed + left > 0 else 0
    return " ".join(
        [
            f"[{host}] [{'#' * full}{'.' * (BAR_CELLS - full)}] {state['point']}/{state['points']}",
            *_doing(state),
            f"{duration(elapsed)} gone {duration(left)} left",
            *_failed(state),
        ]
    )


def ahead(host: str, points: int, expected_s: float, end_utc: str | None = None) -> str:
    """The points to measure, said before they are measured."""
    until = f", until {end_utc}" if end_utc else ""
    return f"[{host}] {points} point{'' if points == 1 else 's'} to measure, about {duration(expected_s)}{until}"


def at_most(host: str, most_s: float) -> str:
    return f"[{host}] then what the search decides, about {duration(most_s)} altogether at most"


def answered(host: str, answer: dict[str, Any]) -> str:
    """[target01] backing-bench 4k-r100-rnd100-qd1-w1: queue_depth 14 → 76.3k IOPS, p99 3.33 ms, found"""
    head, search, best = f"[{host}] {answer['layer']} {answer['workload_id']}:", answer["search"], answer.get("found")
    if best is None:
        return f"{head} {answer['outcome'].replace('_', ' ')}"
    load = f"{search['key']} {best['load']}" if "key" in search else "peak"
    metric = search.get("metric", "latency_p99_ns")
    latency = (
        f", {metric[len('latency_') : -len('_ns')].replace('_', '.')} {best[metric] / 1e6:.3g} ms"
        if metric in best
        else ""
    )
    return f"{head} {load} → {short_number(best['iops'])} IOPS{latency}, {answer['outcome'].replace('_', ' ')}{_sure(best)}"


def _sure(best: dict[str, Any]) -> str:
    """How sure the answer is, where it is known, see certainty.py."""
    if "probability" not in best:
        return ""
    low, high = best.get("limit_low"), best.get("limit_high")
    if low is None and high is None:
        between = ""
    elif high is None:
        between = f" (crossed above {low:.3g})"
    else:
        between = f" (crossed below {high:.3g})" if low is None else f" (crossed at {low:.3g} to {high:.3g})"
    # Never 0 or 100 %: no number of repetitions makes it certain.
    share = min(max(round(100 * best["probability"]), 1), 99)
    return f", keeps the limit with a probability of {share} %{between}"


def listed(host: str, points: list[Point], repetitions: int) -> list[str]:
    """Lines that say in which order the points of a plan come, how long each takes, and which are there already."""
    lines = []
    for point in points:
        words = [f"[{host}] {point['order']:>{len(str(points[-1]['order']))}}", point["layer"], point["workload_id"]]
        words += [point["variant"]] if "variant" in point else []
        words += [f"rep {point['repetition']}/{repetitions}"] if repetitions > 1 else []
        lines.append(" ".join([*words, "stored" if point["status"] == "stored" else duration(point["duration_s"])]))
    return lines


def _doing(state: dict[str, Any]) -> list[str]:
    words = [state["layer"], state["workload_id"]]
    if state.get("repetitions", 1) > 1:
        words.append(f"rep {state['repetition']}/{state['repetitions']}")
    if "elapsed_s" in state:
        # How long writing a whole layer takes is not known before.
        planned = (
            f"/{state['phase_s']:.0f}"
            if state.get("phase_s") and state["phase"] not in ("fill", "precondition", "zero")
            else ""
        )
        # fio may need a moment to end; more than was planned is reported as the rest.
        gone = min(state["elapsed_s"], state["phase_s"]) if planned else state["elapsed_s"]
        words.append(f"{state['phase']} {gone:.0f}{planned} s")
    if state.get("iops") is not None:
        words.append(f"{short_number(state['iops'])} IOPS")
    return words


def _failed(state: Mapping[str, object]) -> list[str]:
    return [f"({state['failed']} failed)"] if state.get("failed") else []


def duration(seconds: float) -> str:
    """41 s, 6 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def short_number(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"
