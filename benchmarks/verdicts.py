#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the verdicts of a comparison are wrong, and what they can see: simulated results whose truth is known. See verdicts.md.

Everything goes through comparison.compare(), as in compare and in compare_results. Seeded, so it prints the same tables each time.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import math
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
importlib.import_module("conftest")  # lets the checkout be imported as the collection
comparison = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.comparison")
gate = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.gate")
several = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.sides")
stats = importlib.import_module("ansible_collections.storlab.testbed.plugins.plugin_utils.compare.stats")

VARIATIONS = (1, 2, 5, 10)
REPETITIONS = (4, 5, 10, 20)
EFFECTS = (5, 10, 20)
BIN_DEVIATIONS = (0.001, 0.003, 0.01, 0.03)


# So small that every difference matters: what is tested are the tests, not the mercy of a margin.
NO_MARGIN = 0.001
START = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)


def result(point: int, number: int, value: float, place: int, run: str = "") -> dict:
    """A repetition of IOPS, given as a logarithm, that was the place-th in time."""
    return {
        "layer": f"p{point}",
        "workload_id": "w",
        "repetition": number,
        "run_id": run,
        "total": {"iops": math.exp(value)},
        "started_utc": (START + datetime.timedelta(seconds=10 * place)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def judged(before: list, after: list, margin_percent: float = NO_MARGIN) -> dict:
    """The comparison of sides that took turns within rounds, now this one first and now that: for each point the logarithms of its repetitions."""
    sides = [
        [
            result(index, number, value, 2 * number + (number + side) % 2)
            for index, values in enumerate(points)
            for number, value in enumerate(values, 1)
        ]
        for side, points in enumerate((before, after))
    ]
    return comparison.compare(*sides, metrics=["iops"], margin_percent=margin_percent)


def ordered(values: list, labels: str, run_length: int = 0) -> dict:
    """The comparison of one point whose values, in the order of time, belong to the sides as the labels say ('A' or 'B').

    The n-th A and the n-th B are one round. run_length: so many in a row are a run of their own.
    """
    sides: dict = {"A": [], "B": []}
    for place, (value, label) in enumerate(zip(values, labels)):
        number = place % run_length if run_length else len(sides[label])
        sides[label].append(result(0, number + 1, value, place, f"run{place // run_length}" if run_length else label))
    return comparison.compare(sides["A"], sides["B"], metrics=["iops"], margin_percent=NO_MARGIN)


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
            "Holm would",
        ),
        rows,
    )


# name -> (labels of a sequence, repetitions per run; 0: all in one run), each drawn anew.
DESIGNS = {
    "one after the other, n 10": lambda noise: ("A" * 10 + "B" * 10, 0),
    "in turns ABBA, 6 rounds": lambda noise: ("ABBA" * 3, 0),
    "in turns ABBA, 10 rounds": lambda noise: ("ABBA" * 5, 0),
    "in turns ABAB, 10 rounds": lambda noise: ("AB" * 10, 0),
    "in turns, drawn order, 10 rounds": lambda noise: (drawn(noise, 10), 0),
    "runs a b a b a b of 5": lambda noise: (("A" * 5 + "B" * 5) * 3, 5),
    "runs a b a b a b a b a b of 5": lambda noise: (("A" * 5 + "B" * 5) * 5, 5),
    "one run of 5 after 8": lambda noise: ("A" * 40 + "B" * 5, 5),
}


def drawn(noise: random.Random, rounds: int) -> str:
    return "".join(noise.choice(("AB", "BA")) for _round in range(rounds))


def disturbances(noise: random.Random) -> dict:
    """name -> function of (number of values, values per run) that gives them in the order of time, as logarithms; nothing differs between the sides."""
    deviation = 0.02

    def white(length: int, run: int) -> list:
        return draws(noise, length, deviation)

    def remembering(memory: float):
        def series(length: int, run: int) -> list:
            values = draws(noise, 1, deviation)
            while len(values) < length:
                values.append(memory * values[-1] + noise.gauss(0, deviation * math.sqrt(1 - memory**2)))
            return values

        return series

    def drifting(length: int, run: int) -> list:
        return [value - 0.1 * place / (length - 1) for place, value in enumerate(white(length, run))]

    def cooling(length: int, run: int) -> list:
        return [value + 0.1 * math.exp(-5 * place / length) for place, value in enumerate(white(length, run))]

    def of_runs(length: int, run: int) -> list:
        effects = draws(noise, length // run + 1, 0.05)
        return [value + effects[place // run] for place, value in enumerate(white(length, run))]

    def neighbour(length: int, run: int) -> list:
        # Comes and goes in spells of 5 on average, and takes 10 %; 40 % of the time it is there.
        there, values = noise.random() < 0.4, []
        for value in white(length, run):
            values.append(value - 0.1 * there)
            there = noise.random() >= 0.2 if there else noise.random() < 0.2 * 0.4 / 0.6
        return values

    def outliers(length: int, run: int) -> list:
        return [value - (0.2 if noise.random() < 0.1 else 0.0) for value in white(length, run)]

    return {
        "independent": white,
        "linear drift of 10 % over the whole time": drifting,
        "thermal decay of 10 %, gone after three fifths": cooling,
        "every run differs by itself (5 %)": of_runs,
        "a neighbour takes 10 % in 40 % of the time": neighbour,
        "each remembers half of the one before": remembering(0.5),
        "AR(1) 0.9": remembering(0.9),
        "one in ten is 20 % slower": outliers,
    }


def disturbed(trials: int) -> None:
    """What time does to a machine on which nothing was changed, for each design."""
    print("### False alarms by design and disturbance (CV 2 %)\n")
    names = disturbances(random.Random())  # noqa: S311 noise, no secret
    table(
        ("noise", *DESIGNS), [(name, *(disturbed_cell(name, design, trials) for design in DESIGNS)) for name in names]
    )


def disturbed_cell(name: str, design: str, trials: int) -> str:
    """Share of false alarms; of sides that did not take turns also that of 'different', which is none."""
    noise = random.Random(f"{name}/{design}")  # noqa: S311
    series, alarms, candidates = disturbances(noise)[name], 0, 0
    for _trial in range(trials):
        labels, run_length = DESIGNS[design](noise)
        # A side that was measured as a block of its own is a run of its own.
        blocks = not run_length and labels == "".join(sorted(labels))
        values = series(len(labels), run_length or (len(labels) // 2 if blocks else len(labels)))
        found = ordered(values, labels, run_length=run_length)
        alarms += alarm(found)
        candidates += "different" in verdicts(found)
    share = percent(alarms / trials)
    return f"{share} (may be drift: {percent(candidates / trials)})" if candidates else share


POWER_DESIGNS = {
    "in turns, drawn order, 6 rounds": lambda noise: (drawn(noise, 6), 0),
    "in turns, drawn order, 10 rounds": lambda noise: (drawn(noise, 10), 0),
    "in turns ABBA, 10 rounds": lambda noise: ("ABBA" * 5, 0),
    "in turns ABAB, 10 rounds": lambda noise: ("AB" * 10, 0),
    "runs a b a b a b of 5": lambda noise: (("A" * 5 + "B" * 5) * 3, 5),
    "one run of 5 after 8": lambda noise: ("A" * 40 + "B" * 5, 5),
    "one after the other, n 10": lambda noise: ("A" * 10 + "B" * 10, 0),
}
POWER_SIZES = (0, 5, 10, 20, 50)


def periodic(noise: random.Random) -> dict:
    """Something that the machine does again and again, in step with the points: it begins at a drawn point and takes 10 % of each."""

    def every(period: int):
        def series(length: int, run: int) -> list:
            begins = noise.randrange(period)
            # Half of each period, so that forth and back can meet the same side every time.
            return [
                value - 0.1 * ((place + begins) % period < period / 2)
                for place, value in enumerate(draws(noise, length, 0.02))
            ]

        return series

    return {"half of every two points, 10 %": every(2), "half of every four points, 10 %": every(4)}


def power(trials: int) -> None:
    """How often a candidate that is slower is called worse, under each disturbance; by 0 %: how often it is called better or worse."""
    for design in POWER_DESIGNS:
        print(f"### {design}\n")
        rows = []
        for name in (*disturbances(random.Random()), *periodic(random.Random())):  # noqa: S311 noise, no secret
            cells = []
            for size in POWER_SIZES:
                noise, hits = random.Random(f"power/{name}/{design}/{size}"), 0  # noqa: S311
                series = {**disturbances(noise), **periodic(noise)}[name]
                for _trial in range(trials):
                    labels, run_length = POWER_DESIGNS[design](noise)
                    blocks = not run_length and labels == "".join(sorted(labels))
                    values = series(len(labels), run_length or (len(labels) // 2 if blocks else len(labels)))
                    slower = math.log1p(-size / 100)
                    values = [value + (slower if label == "B" else 0.0) for value, label in zip(values, labels)]
                    compared = ordered(values, labels, run_length=run_length)
                    hits += "worse" in verdicts(compared) if size else alarm(compared)
                cells.append(percent(hits / trials))
            rows.append((name, *cells))
        table(("noise", "false alarms", *(f"{size} % slower" for size in POWER_SIZES[1:])), rows)


def drawn_orders(trials: int) -> None:
    """False alarms of a drawn order, of so many comparisons that their share is known: 95 % interval by Wilson."""
    print(f"### False alarms of a drawn order, {trials} comparisons a cell\n")
    designs = [name for name in POWER_DESIGNS if "drawn" in name]
    rows = []
    for name in (*disturbances(random.Random()), *periodic(random.Random())):  # noqa: S311 noise, no secret
        cells = []
        for design in designs:
            noise, alarms = random.Random(f"more/{name}/{design}"), 0  # noqa: S311
            series = {**disturbances(noise), **periodic(noise)}[name]
            for _trial in range(trials):
                labels, run_length = POWER_DESIGNS[design](noise)
                alarms += alarm(ordered(series(len(labels), len(labels)), labels, run_length=run_length))
            low, high = wilson(alarms, trials)
            cells.append(f"{percent(alarms / trials)} ({100 * low:.1f} to {100 * high:.1f})")
        rows.append((name, *cells))
    table(("noise", *designs), rows)


SEEN_DESIGNS = ("in turns, drawn order, 6 rounds", "in turns, drawn order, 10 rounds", "one run of 5 after 8")


def seen(trials: int) -> None:
    """How often a comparison finds a change of the size that itself says it could see, under each disturbance: slower or faster."""
    print(f"### A change of the size that a comparison says it could see, {trials} comparisons a cell\n")
    rows = []
    for name in (*disturbances(random.Random()), *periodic(random.Random())):  # noqa: S311 noise, no secret
        cells = []
        for design in SEEN_DESIGNS:
            noise, sizes, hits = random.Random(f"seen/{name}/{design}"), [], 0  # noqa: S311
            series = {**disturbances(noise), **periodic(noise)}[name]
            for _trial in range(trials):
                labels, run_length = POWER_DESIGNS[design](noise)
                values = series(len(labels), run_length or len(labels))
                # What the machine does to these points is what the size is said of, so the change is made to the same ones.
                sizes.append(ordered(values, labels, run_length=run_length)["rows"][0]["visible_percent"])
                change = math.log1p(sizes[-1] / 100) * noise.choice((1, -1))
                changed = [value + (change if label == "B" else 0.0) for value, label in zip(values, labels)]
                hits += alarm(ordered(changed, labels, run_length=run_length))
            low, high = wilson(hits, trials)
            cells.append(
                f"{statistics.median(sizes):.1f} %: {percent(hits / trials)} ({100 * low:.0f} to {100 * high:.0f})"
            )
        rows.append((name, *cells))
    table(("noise", *SEEN_DESIGNS), rows)


def wilson(count: int, trials: int, z: float = 1.96) -> tuple:
    """95 % interval of a share. E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209."""
    share, scale = count / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return max(0.0, middle - half), middle + half


GATES = {
    "in turns, 6 rounds": ("ABBA" * 3, 0),
    "one run of 4 after 8": ("A" * 32 + "B" * 4, 4),
    "one run of 4 after 12": ("A" * 48 + "B" * 4, 4),
    "one block of 4 after one of 4": ("A" * 4 + "B" * 4, 0),
}
SIZES = (0, 5, 10, 20, 33, 50)


def gates(trials: int) -> None:
    """How often a gate says worse, by how much slower the candidate is. Whole runs vary by CV 2 % beside the 0.5 % of their repetitions."""
    print("### A gate: 'worse', by design and size of the change (runs vary by CV 2 %)\n")
    rows = []
    for design, (labels, run_length) in GATES.items():
        cells = []
        for size in SIZES:
            noise, alarms = random.Random(f"gate/{design}/{size}"), 0  # noqa: S311
            for _trial in range(trials):
                of_runs = draws(noise, len(labels), log_deviation(2))
                values = [
                    noise.gauss(of_runs[place // run_length if run_length else place], 0.005)
                    + (math.log1p(-size / 100) if label == "B" else 0.0)
                    for place, label in enumerate(labels)
                ]
                alarms += "worse" in verdicts(ordered(values, labels, run_length=run_length))
            cells.append(percent(alarms / trials))
        rows.append((design, *cells))
    table(("design", "nothing changed", *(f"{size} % slower" for size in SIZES[1:])), rows)


def intervals(noise: random.Random, trials: int) -> None:
    """The interval that is shown, where the sides are alike, and where they differ in noise and number."""
    print("### How often a 95 % interval holds the true change\n")
    cases = (
        ("SD 2 % and 2 %, 5 against 5", (0.02, 5), (0.02, 5)),
        ("SD 2 % and 2 %, 20 against 20", (0.02, 20), (0.02, 20)),
        ("SD 1 % and 10 %, 20 against 5", (0.01, 20), (0.10, 5)),
        ("SD 1 % and 10 %, 5 against 20", (0.01, 5), (0.10, 20)),
        ("SD 1 % and 10 %, 5 against 5", (0.01, 5), (0.10, 5)),
        ("SD 1 % and 10 %, 4 against 4", (0.01, 4), (0.10, 4)),
    )
    rows = []
    for name, early, late in cases:
        held = [0, 0]
        for _trial in range(trials):
            for place, tail in enumerate((0.0, 0.1)):
                a, b = (
                    [
                        noise.gauss(0, deviation) - (10 * deviation if noise.random() < tail else 0.0)
                        for _index in range(count)
                    ]
                    for deviation, count in (early, late)
                )
                low, high = stats.apart(a, b).interval()
                truth = 10 * tail * (early[0] - late[0])
                held[place] += low <= truth <= high
        rows.append((name, *(percent(hits / trials) for hits in held)))
    held = dict.fromkeys((6, 10, 20), 0)
    for count in held:
        for _trial in range(trials):
            low, high = stats.paired(draws(noise, count, 0.03)).interval()
            held[count] += low <= 0 <= high
    rows += [(f"{count} rounds, pair by pair", percent(hits / trials), "–") for count, hits in held.items()]
    table(("sides", "normal noise", "one in ten lies 10 SD lower"), rows)


def typical(noise: random.Random, trials: int) -> None:
    """The interval of a typical repetition (20 % trimmed mean) beside that of the mean, each against its own truth."""
    print("### Mean and typical repetition\n")
    cases = (
        ("SD 2 % and 2 %, 10 against 10", (0.02, 10), (0.02, 10)),
        ("SD 2 % and 2 %, 20 against 20", (0.02, 20), (0.02, 20)),
        ("SD 1 % and 10 %, 10 against 10", (0.01, 10), (0.10, 10)),
        ("SD 1 % and 10 %, 20 against 10", (0.01, 20), (0.10, 10)),
        ("10 rounds, pair by pair", (0.02, 10), None),
        ("20 rounds, pair by pair", (0.02, 20), None),
    )
    rows = []
    for name, early, late in cases:
        cells = []
        for tail in (0.0, 0.1):
            held, widths = [0, 0], [0.0, 0.0]
            for _trial in range(trials):
                sides = [contaminated(noise, *side, tail) for side in (early, late) if side]
                shifts = (
                    (stats.apart(*sides), stats.typical(*sides))
                    if late
                    else (stats.paired(sides[0]), stats.typical_paired(sides[0]))
                )
                away = (late[0] if late else 2 * early[0]) - early[0]
                for place, (shift, truth) in enumerate(zip(shifts, (-10 * tail * away, trimmed_truth(tail) * away))):
                    low, high = shift.interval()
                    held[place] += low <= truth <= high
                    widths[place] += high - low
            cells += [percent(hits / trials) for hits in held]
            cells.append(f"{widths[1] / widths[0]:.2f}")
        rows.append((name, *cells))
    head = ("mean", "typical", "width, typical over mean")
    table(("sides", *head, *(f"{word}, one in ten 10 SD lower" for word in head)), rows)


def contaminated(noise: random.Random, deviation: float, count: int, tail: float) -> list[float]:
    return [noise.gauss(0, deviation) - (10 * deviation if noise.random() < tail else 0.0) for _index in range(count)]


def trimmed_truth(tail: float) -> float:
    """The 20 % trimmed mean of all values that could be drawn so, in standard deviations: those far off are all among what is left out."""
    normal = statistics.NormalDist()
    low, high = (normal.inv_cdf((share - tail) / (1 - tail)) for share in (stats.TRIMMED, 1 - stats.TRIMMED))
    kept = normal.cdf(high) - normal.cdf(low)
    return (normal.pdf(low) - normal.pdf(high)) / kept


def binned(value: float) -> int:
    """The middle of the bin of fio's histograms that a latency (ns) falls into."""
    shift = max(0, int(value).bit_length() - 7)
    return (int(value) >> shift << shift) + (1 << shift >> 1)


def bins(noise: random.Random, trials: int) -> None:
    """Intervals of percentiles, which are known as the bin they lie in; where in it the truth lies is drawn for each side."""
    print("### How often the 95 % interval of a percentile holds the true change\n")
    rows = []
    for deviation in BIN_DEVIATIONS:
        cells = []
        for count in (4, 6, 10):
            held, widths = 0, []
            for _trial in range(trials):
                base, change = math.log(noise.uniform(100_000, 200_000)), noise.uniform(-0.1, 0.1)
                row = percentiles(noise, base, change, deviation, count)
                held += row["change_low_percent"] <= 100 * math.expm1(change) <= row["change_high_percent"]
                widths.append(row["change_high_percent"] - row["change_low_percent"])
            cells += [percent(held / trials), f"{statistics.median(widths):.1f} %"]
        rows.append((f"{100 * deviation:g} %", *cells))
    table(("SD", *(head for count in (4, 6, 10) for head in (f"n {count}", "width (median)"))), rows)


def percentiles(noise: random.Random, base: float, change: float, deviation: float, count: int) -> dict:
    """The row of p99 of a comparison whose sides took turns: as groups below 6 repetitions, round by round from there."""
    sides: list = [[], []]
    for number in range(1, count + 1):
        for side, shift in enumerate((0.0, change)):
            repetition = result(0, number, 0.0, 2 * number + (number + side) % 2)
            repetition["total"]["latency_p99_ns"] = binned(math.exp(noise.gauss(base + shift, deviation)))
            sides[side].append(repetition)
    return comparison.compare(*sides, metrics=["latency_p99_ns"], margin_percent=NO_MARGIN)["rows"][0]


def equivalence(noise: random.Random, trials: int) -> None:
    """Points that all differ by just the margin: calling one of them 'no difference larger than 5 %' is wrong."""
    print("### 36 points, all of them 5 % slower: 'no difference larger than 5 %' for any of them (CV 2 %)\n")
    rows = []
    for count in (5, 10):
        wrong = none = alone = 0
        for _trial in range(trials):
            sides = [[draws(noise, count, 0.02, shift) for _point in range(36)] for shift in (0.0, math.log(0.95))]
            found = judged(*sides, margin_percent=gate.MARGIN_PERCENT)
            wrong += "no_difference" in verdicts(found)
            alone += any(within_margin(row) for row in found["rows"])
            calm = [[draws(noise, count, 0.01) for _point in range(36)] for _side in (0, 1)]
            none += verdicts(judged(*calm, margin_percent=gate.MARGIN_PERCENT)).count("no_difference") / 36
        rows.append((str(count), percent(wrong / trials), percent(alone / trials), percent(none / trials)))
    table(("n", "wrong anywhere", "without correction", "found alike where nothing differs (CV 1 %)"), rows)


def advice(noise: random.Random, trials: int) -> None:
    """What comes of following 'run N more': the new repetitions join the old ones."""
    print("### After following 'run N more' (n 5)\n")
    rows = []
    for variation in (0.02, 0.05, 0.10):
        for effect in (0, 2, 5, 10):
            still_open = kept = wrong = 0
            asked = []
            for _trial in range(trials):
                sides = [draws(noise, 5, variation), draws(noise, 5, variation, math.log1p(effect / 100))]
                row = judged([sides[0]], [sides[1]], margin_percent=gate.MARGIN_PERCENT)["rows"][0]
                wrong += mistaken(row, effect)
                still_open += row["verdict"] == "cannot_tell"
                if row["verdict"] != "cannot_tell" or "run_more" not in row:
                    continue
                asked.append(row["run_more"])
                second = judged(
                    [sides[0] + draws(noise, asked[-1], variation)],
                    [sides[1] + draws(noise, asked[-1], variation, math.log1p(effect / 100))],
                    margin_percent=gate.MARGIN_PERCENT,
                )
                kept += verdicts(second) != ["cannot_tell"]
                wrong += mistaken(second["rows"][0], effect)
            rows.append(
                (
                    percent(variation),
                    f"{effect} %",
                    percent(still_open / trials),
                    percent(len(asked) / max(still_open, 1)),
                    str(round(statistics.median(asked))) if asked else "–",
                    percent(kept / len(asked)) if asked else "–",
                    percent((len(asked) - kept) / max(still_open, 1)),
                    percent(wrong / trials),
                )
            )
    table(
        (
            "CV",
            "true change",
            "open after 5",
            "given a number",
            "number (median)",
            "then settled",
            "given one in vain, of all open",
            "wrong, both looks together",
        ),
        rows,
    )


def mistaken(row: dict, effect: int) -> bool:
    """Whether the verdict is not what the truth is: a difference where there is none, the wrong direction, or none where it is above the margin."""
    if row["verdict"] == "better":
        return effect == 0
    return row["verdict"] == "worse" or (row["verdict"] == "no_difference" and effect > gate.MARGIN_PERCENT)


# name -> (rounds, repetitions of a run; 0: all in one run) of sides that take turns, forth and back.
TURNS = {
    "5 rounds": (5, 0),
    "6 rounds": (6, 0),
    "8 rounds": (8, 0),
    "3 runs per side of 5": (3, 5),
}


def against_one(count: int, turns: str, series, points: int = 3, shift: float = 0.0) -> tuple:
    """(results of each side, rows of each candidate): the baseline and ``count`` candidates took turns; the last lies ``shift`` above, no other does."""
    rounds, run_length = TURNS[turns]
    length = run_length or 1
    given: list = [[] for _side in range(count + 1)]
    for point in range(points):
        # Each point has a machine of its own: what is alike among points makes alarms fewer.
        values = iter(series(rounds * (count + 1) * length, length if run_length else (count + 1) * rounds))
        place = 0
        for number in range(rounds):
            for side in range(count + 1) if number % 2 == 0 else reversed(range(count + 1)):
                for repetition in range(length):
                    value = next(values) + (shift if side == count else 0.0)
                    counted = repetition + 1 if run_length else number + 1
                    given[side].append(result(point, counted, value, place, f"{side}-{number}" if run_length else ""))
                    place += 1
    matches = {side: comparison.matched(given[0], given[side]) for side in range(1, count + 1)}
    _designs, rows, _lacking = several.judged(matches, ["iops"], NO_MARGIN)
    return given, rows


def raised(rows: list) -> bool:
    return any(row["verdict"] in ("better", "worse") for of in rows for row in of)


def raised_alone(given: list) -> bool:
    """Whether any of the candidates raises an alarm in a comparison of its own."""
    return any(alarm(comparison.compare(given[0], side, ["iops"], NO_MARGIN)) for side in given[1:])


def many_sides(noise: random.Random, trials: int) -> None:
    """Several candidates against one baseline, all figures judged together."""
    print("### Four candidates against one baseline, 3 points: false alarms anywhere (CV 2 %)\n")
    rows = []
    names = disturbances(random.Random())  # noqa: S311 noise, no secret
    for name in names:
        cells = []
        for turns in TURNS:
            series = disturbances(random.Random(f"{name}/{turns}/sides"))[name]  # noqa: S311
            alarms = sum(raised(against_one(4, turns, series)[1].values()) for _trial in range(trials))
            cells.append(percent(alarms / trials))
        rows.append((name, *cells))
    table(("noise", *TURNS), rows)
    print("### By the number of candidates, 3 points (CV 2 %)\n")
    rows = []
    series = disturbances(noise)["independent"]
    for turns in ("5 rounds", "8 rounds"):
        for count in (1, 2, 4, 8):
            calm = [against_one(count, turns, series) for _trial in range(trials)]
            seen = statistics.median(
                row["visible_percent"] for _given, of in calm for each in of.values() for row in each
            )
            other = [
                against_one(count, turns, series, shift=math.log1p(seen / 100))[1] for _trial in range(trials // 2)
            ]
            far = [against_one(count, turns, series, shift=0.5)[1] for _trial in range(trials)]
            last = [row["verdict"] for of in other for row in of[count]]
            rows.append(
                (
                    turns,
                    str(count),
                    percent(sum(raised(of.values()) for _given, of in calm) / trials),
                    percent(sum(raised_alone(given) for given, _of in calm) / trials),
                    percent(sum(raised(list(of.values())[:-1]) for of in far) / trials) if count > 1 else "–",
                    f"{seen:.1f} %",
                    percent(last.count("better") / len(last)),
                )
            )
    table(
        (
            "in turns",
            "candidates",
            "false alarm anywhere",
            "each compared alone",
            "among the others, where one is 65 % faster",
            "could see (median)",
            "finds that",
        ),
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trials",
        type=int,
        default=25,
        help="simulated comparisons for each cell of the tables of one point (default 25), a multiple of them elsewhere",
    )
    parser.add_argument(
        "--only",
        action="append",
        help="design, gate, power, drawn, seen, interval, typical, bins, point, many, equal, advice or sides; all of them by default",
    )
    arguments = parser.parse_args()
    trials = arguments.trials
    begun = time.process_time()
    parts = {
        "design": lambda _noise: disturbed(4 * trials),
        "gate": lambda _noise: gates(4 * trials),
        "power": lambda _noise: power(4 * trials),
        "drawn": lambda _noise: drawn_orders(80 * trials),
        "seen": lambda _noise: seen(16 * trials),
        "interval": lambda noise: intervals(noise, 80 * trials),
        "typical": lambda noise: typical(noise, 80 * trials),
        "bins": lambda noise: bins(noise, 16 * trials),
        "point": lambda noise: one_point(noise, trials),
        "many": lambda noise: many_points(
            noise, {4: 2 * trials, 5: 2 * trials, 10: max(10, trials // 2), 20: max(10, trials // 2)}
        ),
        "equal": lambda noise: equivalence(noise, trials),
        "advice": lambda noise: advice(noise, 4 * trials),
        "sides": lambda noise: many_sides(noise, 4 * trials),
    }
    for name, part in parts.items():
        if name in (arguments.only or parts):
            # Each has noise of its own, so that it prints the same table alone.
            part(random.Random(f"20261121/{name}"))  # noqa: S311 noise, no secret
    print(f"{time.process_time() - begun:.0f} s of processor time")


if __name__ == "__main__":
    main()
