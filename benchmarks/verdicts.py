#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the verdicts of a comparison are wrong, and what they can see: simulated results whose truth is known. See verdicts.md.

Everything goes through comparison.compare(), as in compare and in compare_results. Seeded, so it prints the same tables each time.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
importlib.import_module("conftest")  # lets the checkout be imported as the collection
comparison = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.comparison")
gate = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.gate")
stats = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.stats")

VARIATIONS = (1, 2, 5, 10)
REPETITIONS = (4, 5, 10, 20)
EFFECTS = (5, 10, 20)


# So small that every difference matters: what is tested are the tests, not the mercy of a margin.
NO_MARGIN = 0.001


def judged(before: list, after: list, interleaved: bool = False, margin_percent: float = NO_MARGIN) -> dict:
    """The comparison of IOPS: before and after hold for each point the logarithms of its repetitions."""

    def results(points: list, side: int) -> list:
        return [
            {
                "layer": f"p{index}",
                "workload_id": "w",
                "repetition": number,
                "total": {"iops": math.exp(value)},
                "started_utc": f"{2 * number + side if interleaved else number + side * len(values):06}",
            }
            for index, values in enumerate(points)
            for number, value in enumerate(values)
        ]

    return comparison.compare(results(before, 0), results(after, 1), metrics=["iops"], margin_percent=margin_percent)


def verdicts(found: dict) -> list:
    return [row["verdict"] for row in found["rows"]]


def within_margin(row: dict) -> bool:
    """What makes 'no difference' at the default margin."""
    return row["change_low_percent"] >= -gate.MARGIN_PERCENT and row["change_high_percent"] <= gate.MARGIN_PERCENT


def alarm(found: dict) -> bool:
    return not {"worse", "better"}.isdisjoint(verdicts(found))


def draws(noise: random.Random, count: int, deviation: float, shift: float = 0.0) -> list:
    return [noise.gauss(shift, deviation) for _index in range(count)]


def log_deviation(variation_percent: float) -> float:
    """Of a log-normal distribution with this coefficient of variation."""
    return math.sqrt(math.log1p((variation_percent / 100) ** 2))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share and share < 0.1 else f"{100 * share:.0f} %"


def table(head: tuple, rows: list) -> None:
    print("| " + " | ".join(head) + " |\n| " + " | ".join(["---:"] * len(head)) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def one_point(noise: random.Random, trials: int) -> None:
    print("### One point\n")
    rows = []
    for variation in VARIATIONS:
        for count in REPETITIONS:
            deviation = log_deviation(variation)
            shares = {}
            visible = []
            for effect in (0, *EFFECTS):
                found = [
                    judged(
                        [draws(noise, count, deviation)], [draws(noise, count, deviation, -math.log1p(effect / 100))]
                    )
                    for _trial in range(trials)
                ]
                shares[effect] = sum(map(alarm, found)) / trials
                visible += [one["rows"][0]["visible_percent"] for one in found]
                if effect == 10:
                    overlooked = sum(within_margin(one["rows"][0]) for one in found) / trials
            seen = statistics.median(visible)
            there = (
                sum(
                    alarm(
                        judged(
                            [draws(noise, count, deviation)], [draws(noise, count, deviation, math.log1p(seen / 100))]
                        )
                    )
                    for _trial in range(trials)
                )
                / trials
            )
            rows.append(
                (
                    f"{variation} %",
                    str(count),
                    percent(shares[0]),
                    *(percent(shares[effect]) for effect in EFFECTS),
                    percent(overlooked),
                    f"{seen:.1f} %",
                    percent(there),
                )
            )
    table(
        (
            "CV",
            "n",
            "false alarms",
            "finds 5 %",
            "finds 10 %",
            "finds 20 %",
            "10 % called none",
            "could see (median)",
            "finds that",
        ),
        rows,
    )


def many_points(noise: random.Random, trials: dict) -> None:
    print("### 36 points, one of them differs\n")
    rows = []
    for count in REPETITIONS:

        def family(shift: float, size: int = count) -> dict:
            return judged(
                [draws(noise, size, 0.01) for _point in range(36)],
                [draws(noise, size, 0.01, shift if point == 7 else 0.0) for point in range(36)],
            )

        calm = [family(0.0) for _trial in range(trials[count])]
        seen = statistics.median(row["visible_percent"] for one in calm for row in one["rows"])
        other = [family(math.log1p(seen / 100)) for _trial in range(trials[count])]
        mine = [next(row for row in one["rows"] if row["layer"] == "p7")["verdict"] for one in other]
        holm = sum(min(row["p"] for row in one["rows"]) * 36 <= stats.ALPHA for one in other) / len(other)
        deviations = math.log1p(seen / 100) / 0.01
        rows.append(
            (
                str(count),
                percent(sum(map(alarm, calm)) / len(calm)),
                *(f"{100 * math.expm1(deviations * log_deviation(variation)):.1f} %" for variation in VARIATIONS),
                percent(mine.count("better") / len(mine)),
                percent(holm),
            )
        )
    table(
        (
            "n",
            "false alarm anywhere",
            *(f"could see at CV {variation} %" for variation in VARIATIONS),
            "finds that",
            "Holm on Mann-Whitney would",
        ),
        rows,
    )


def disturbed(noise: random.Random, trials: int) -> None:
    """Noise that is not independent, in the order of time: A A A … B B B … against A B A B …"""
    print("### False alarms under disturbed noise (CV 2 %)\n")
    deviation = 0.02

    def white(length: int) -> list:
        return draws(noise, length, deviation)

    def remembering(memory: float):
        def series(length: int) -> list:
            values = draws(noise, 1, deviation)
            while len(values) < length:
                values.append(memory * values[-1] + noise.gauss(0, deviation * math.sqrt(1 - memory**2)))
            return values

        return series

    def drifting(length: int) -> list:
        return [value + 0.1 * place / length for place, value in enumerate(white(length))]

    def outliers(length: int) -> list:
        return [value - (0.2 if noise.random() < 0.1 else 0.0) for value in white(length)]

    rows = []
    for name, series in (
        ("independent", white),
        ("each remembers half of the one before", remembering(0.5)),
        ("remembers 0.9", remembering(0.9)),
        ("10 % drift over the whole time", drifting),
        ("one in ten is 20 % slower", outliers),
    ):
        row = [name]
        for count in (5, 10):
            counts = [0, 0, 0]
            for _trial in range(trials):
                values = series(2 * count)
                counts[0] += alarm(judged([values[:count]], [values[count:]]))
                rounds = list(zip(values[::2], values[1::2]))
                counts[1] += alarm(judged([[a for a, _b in rounds]], [[b for _a, b in rounds]], interleaved=True))
                drawn = [noise.sample(pair, 2) for pair in rounds]
                counts[2] += alarm(judged([[a for a, _b in drawn]], [[b for _a, b in drawn]], interleaved=True))
            row += [percent(alarms / trials) for alarms in counts]
        rows.append(tuple(row))
    table(
        ("noise", *(f"n {count}, {order}" for count in (5, 10) for order in ("A…A B…B", "ABAB", "drawn order"))), rows
    )


def intervals(noise: random.Random, trials: int, resamples: int) -> None:
    """Why the interval is Hodges and Lehmann's: the bootstrap of the ratio of medians, which is widely used, is too narrow where repetitions are few."""
    print("### How often a 95 % interval holds the true change (and its width, in standard deviations)\n")
    rows = []
    for count in REPETITIONS:
        held, width = [0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]
        for _trial in range(trials):
            a, b = draws(noise, count, 1.0), draws(noise, count, 1.0)
            medians = sorted(
                statistics.median(noise.choices(b, k=count)) - statistics.median(noise.choices(a, k=count))
                for _index in range(resamples)
            )
            rounds = [noise.choices(range(count), k=count) for _index in range(resamples)]
            by_round = sorted(
                statistics.median([b[place] for place in chosen]) - statistics.median([a[place] for place in chosen])
                for chosen in rounds
            )
            ends = [
                (values[math.floor(0.025 * resamples)], values[math.ceil(0.975 * resamples) - 1])
                for values in (medians, by_round)
            ]
            ends += [
                (found.get("low", -math.inf), found.get("high", math.inf))
                for found in (stats.shift(a, b), stats.paired_shift([late - early for early, late in zip(a, b)]))
            ]
            for place, (low, high) in enumerate(ends):
                held[place] += low <= 0 <= high
                width[place] += high - low
        rows.append(
            (
                str(count),
                *(
                    f"{percent(hits / trials)} ({wide / trials:.1f})" if math.isfinite(wide) else "none"
                    for hits, wide in zip(held, width)
                ),
            )
        )
    table(("n", "bootstrap", "bootstrap by round", "Hodges-Lehmann (used, apart)", "Walsh (used, interleaved)"), rows)


def advice(noise: random.Random, trials: int) -> None:
    """What comes of following 'run N more': the new repetitions join the old ones."""
    print("### After following 'run N more' (n 5, CV 5 %)\n")
    rows = []
    for effect in (0, 5, 10):
        open_trials = settled = wrong = wrong_at_once = 0
        asked = []
        for _trial in range(trials):
            sides = [draws(noise, 5, 0.05), draws(noise, 5, 0.05, math.log1p(effect / 100))]
            first = judged([sides[0]], [sides[1]], margin_percent=gate.MARGIN_PERCENT)
            wrong_at_once += effect == 0 and alarm(first)
            row = first["rows"][0]
            if row["verdict"] != "cannot_tell" or "run_more" not in row:
                continue
            open_trials += 1
            asked.append(row["run_more"])
            second = judged(
                [sides[0] + draws(noise, asked[-1], 0.05)],
                [sides[1] + draws(noise, asked[-1], 0.05, math.log1p(effect / 100))],
                margin_percent=gate.MARGIN_PERCENT,
            )
            settled += verdicts(second) != ["cannot_tell"]
            wrong += effect == 0 and alarm(second)
        rows.append(
            (
                f"{effect} %",
                percent(open_trials / trials),
                str(round(statistics.median(asked))),
                percent(settled / open_trials),
                percent((wrong + wrong_at_once) / trials) if effect == 0 else "–",
            )
        )
    table(("true change", "open after 5", "asked for (median)", "then settled", "false alarms, both looks"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="simulated comparisons for each cell (default 100)")
    trials = parser.parse_args().trials
    begun = time.process_time()
    noise = random.Random(20261121)  # noqa: S311 noise, no secret
    one_point(noise, trials)
    many_points(noise, {4: 2 * trials, 5: 2 * trials, 10: max(10, trials // 4), 20: max(10, trials // 5)})
    disturbed(noise, 2 * trials)
    intervals(noise, trials, 300)
    advice(noise, 2 * trials)
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
