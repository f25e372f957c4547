# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How numbers look in every output of the report: three significant digits, a unit, and a dash for what was not measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ABSENT = "–"


def significant(value: float, digits: int = 3) -> str:
    """1.6402 -> '1.64', 57.43 -> '57.4', 599.2 -> '599', 12345 -> '12345'."""
    if value == 0:
        return "0"
    if digits == 3:
        # Most figures are so far from the next power of ten that rounding does not reach it.
        size = abs(value)
        if 1 <= size < 9.99:
            return f"{value:.2f}"
        if 10 <= size < 99.9:
            return f"{value:.1f}"
        if 100 <= size < 999:
            return f"{value:.0f}"
    # The exponent after rounding: 9.996 is 1.00e+01, so 10.0 and not 10.00.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def exact(value: float) -> str:
    """The figure for programs: whole numbers as they are, others to a thousandth, small ones to nine places. No instrument here is finer."""
    return (
        str(value)
        if isinstance(value, int)
        else f"{value:.3f}".rstrip("0").rstrip(".")
        if abs(value) >= 1
        else f"{value:.9f}".rstrip("0").rstrip(".")
    )


def _scaled(value: float, steps: Sequence[tuple[float, str]]) -> str:
    """The value in the largest unit in which it is, once rounded, still at least 1."""
    for factor, suffix in reversed(steps):
        # 999.5 is 1000 in three digits, so it belongs to the next unit.
        if abs(value) >= 0.9995 * factor:
            return f"{significant(value / factor)}{suffix}"
    return f"{significant(value / steps[0][0])}{steps[0][1]}"


def iops(value: float | None) -> str:
    return ABSENT if value is None else _scaled(value, ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")))


def latency(value_ns: float | None) -> str:
    return ABSENT if value_ns is None else _scaled(value_ns, ((1, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")))


def latency_between(bounds: tuple[Any, ...] | None) -> str:
    """(2e6, 5e6) -> '2–5 ms', (9e5, 2e6) -> '900 µs–2 ms'."""
    if bounds is None:
        return ABSENT
    low, high = (tick(latency(value)) for value in bounds)
    unit = low.partition(" ")[2]
    return low if low == high else f"{low.partition(' ')[0] if unit == high.partition(' ')[2] else low}–{high}"


def microseconds(value_us: float | None) -> str:
    """A time that is given in µs."""
    return ABSENT if value_us is None else latency(value_us * 1e3)


def whole_percent(value_percent: float) -> str:
    """A figure that is in percent already: 99.6 -> '99.6 %', 4.13 -> '4.1 %'."""
    return f"{value_percent:.1f}".removesuffix(".0") + " %"


def tick(text: str) -> str:
    """'10.0k' -> '10k', '1.00 ms' -> '1 ms': a tick of an axis is exact, its zeros say nothing."""
    number, *rest = re.split(r"(?=[^0-9.])", text, maxsplit=1)
    return (number.rstrip("0").rstrip(".") if "." in number else number) + "".join(rest)


def added_latency(value_ns: float | None) -> str:
    """A difference: always with its sign, a true minus for less."""
    if value_ns is None:
        return ABSENT
    return ("+" if value_ns >= 0 else "−") + latency(abs(value_ns))


def bandwidth(value_bytes_s: float | None) -> str:
    """Always MB/s (10^6), so that a column can be compared by eye; small values keep three digits."""
    if value_bytes_s is None:
        return ABSENT
    return f"{value_bytes_s / 1e6:,.0f}" if value_bytes_s >= 999.5e6 else significant(value_bytes_s / 1e6)


def ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{significant(value, 2 if value < 100 else 3)}×"


def percent(share: float | None) -> str:
    if share is None:
        return ABSENT
    text = significant(abs(share) * 100, 2) if abs(share) < 0.1 else f"{abs(share) * 100:.0f}"
    return ("−" if share < 0 and text != "0" else "") + f"{text} %"


def size(value_bytes: int | None) -> str:
    """Binary and exact where it is exact: 4096 -> '4 KiB', 1000 -> '1000 B'."""
    if value_bytes is None:
        return ABSENT
    for factor, suffix in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value_bytes >= factor:
            return (
                f"{value_bytes // factor if value_bytes % factor == 0 else significant(value_bytes / factor)} {suffix}"
            )
    return f"{value_bytes} B"


def moment(utc: str | None) -> str:
    """'2026-11-21T13:36:16Z' -> '2026-11-21 13:36 UTC'; anything else is shown as it stands."""
    if not utc:
        return ABSENT
    return f"{utc[:10]} {utc[11:16]} UTC" if len(utc) >= 16 and utc[10] == "T" else utc
