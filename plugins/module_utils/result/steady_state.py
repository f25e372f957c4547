# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steady state as the SNIA Solid State Storage Performance Test Specification defines it.

Over a window of five rounds of the tracked figure y: max(y) - min(y) is at most 20 % of its average, and the least-squares line
through the window rises or falls by at most 10 % of the average from the first to the last round. (fio's own ``steadystate=``
takes the largest distance from the mean, and one of the two criteria only, so it is not used.)
"""

from __future__ import annotations

from typing import Any

from ..core.failure import bad_value

# cloudharmony's implementation of the specification gives up after so many rounds.
DEFAULT_ROUNDS = 25
METRICS = (
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p95_ns",
    "latency_p99_ns",
    "latency_p99_9_ns",
    "latency_p99_99_ns",
)
# As argument specs have them; round_s is the workload's runtime_s and budget_s DEFAULT_ROUNDS of it unless they are given.
OPTIONS: dict[str, Any] = {
    "metric": {"type": "str", "choices": list(METRICS), "default": "iops"},
    "window": {"type": "int", "default": 5},
    "round_s": {"type": "int"},
    "excursion_percent": {"type": "float", "default": 20},
    "slope_percent": {"type": "float", "default": 10},
    "budget_s": {"type": "float"},
}
DEFAULTS = {name: option["default"] for name, option in OPTIONS.items() if "default" in option}
KEYS = tuple(OPTIONS)


def normalise(given: dict[str, Any], runtime_s: float, variable: str = "steady_state") -> dict[str, Any]:
    """Every key present: metric, window, excursion_percent, slope_percent, round_s, budget_s. Failure 'bad_value' names what is wrong."""
    if not isinstance(given, dict):
        raise bad_value(variable, given, f"Give a mapping of {', '.join(KEYS)}.")
    for key in given:
        if key not in KEYS:
            raise bad_value(f"{variable}.{key}", given[key], f"There is no such key; use {', '.join(KEYS)}.")
    rules = {**DEFAULTS, "round_s": runtime_s, **{key: value for key, value in given.items() if value is not None}}
    if "budget_s" not in rules and _positive(rules["round_s"]):
        rules["budget_s"] = DEFAULT_ROUNDS * rules["round_s"]
    if rules["metric"] not in METRICS:
        raise bad_value(f"{variable}.metric", rules["metric"], f"Use one of {', '.join(METRICS)}.")
    for key, least, unit in (("window", 2, "rounds"), ("round_s", 1, "seconds")):
        if not isinstance(rules[key], int) or isinstance(rules[key], bool) or rules[key] < least:
            raise bad_value(f"{variable}.{key}", rules[key], f"Use a whole number of {unit}, at least {least}.")
    for key in ("excursion_percent", "slope_percent", "budget_s"):
        if not _positive(rules[key]):
            raise bad_value(f"{variable}.{key}", rules[key], "Use a number greater than 0.")
    if rounds(rules) < rules["window"]:
        raise bad_value(
            f"{variable}.budget_s",
            rules["budget_s"],
            f"A window of {rules['window']} rounds of {rules['round_s']:g} s needs at least {rules['window'] * rules['round_s']:g} s.",
        )
    return rules


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def rounds(limits: dict[str, Any]) -> int:
    """How many rounds the budget pays for. Ramp and start-up are not charged, so that a slow host is not given fewer."""
    return int(limits["budget_s"] / limits["round_s"] + 1e-9)


def judge(values: list[Any], limits: dict[str, Any]) -> dict[str, bool | float]:
    """{steady, excursion_percent, slope_percent} of the last ``window`` values; only ``steady`` while there are fewer, or none is above 0."""
    last = values[-limits["window"] :]
    average = sum(last) / len(last) if last else 0
    if len(last) < limits["window"] or average <= 0:
        return {"steady": False}
    excursion = 100 * (max(last) - min(last)) / average
    slope = 100 * abs(_slope(last)) * (len(last) - 1) / average
    return {
        "steady": excursion <= limits["excursion_percent"] and slope <= limits["slope_percent"],
        "excursion_percent": round(excursion, 3),
        "slope_percent": round(slope, 3),
    }


def judgement(values: list[Any], limits: dict[str, Any]) -> dict[str, Any]:
    """The ``steady_state`` of a result: the judgement, and what was asked for."""
    return {
        "metric": limits["metric"],
        **judge(values, limits),
        "window": limits["window"],
        "rounds": list(values),
        "round_s": limits["round_s"],
        "limits": {key: limits[key] for key in ("excursion_percent", "slope_percent")},
        "budget_s": limits["budget_s"],
    }


def _slope(values: list[float]) -> float:
    """The slope of the least-squares line through (0, y0), (1, y1) …"""
    middle = (len(values) - 1) / 2
    average = sum(values) / len(values)
    return sum((x - middle) * (y - average) for x, y in enumerate(values)) / sum(
        (x - middle) ** 2 for x in range(len(values))
    )
