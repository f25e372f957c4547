# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mean latency of one layer divided among the layers below it, by what their devices counted in the very seconds in which it was measured.

A device that on average has N requests in flight while the workload does X I/Os per second holds each of these I/Os for ``N / X``: Little's law, L = λ W
(J. D. C. Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961, doi:10.1287/opre.9.3.383). N is the time that all reads and
writes of the device took together over the time in which that was counted, from the kernel's block statistics (Documentation/admin-guide/iostats.rst,
fields 4 and 8). So with the devices of a chain from the top down and the engine's own mean latency L above them,

    at_0 = L,  at_k = N_k / X,  own_k = at_k - at_(k+1),  own of the lowest = at of it,

the parts add up to L exactly, and a part is the time between two devices that count. X is the measured layer's own device in the same
seconds, where it is a device that takes each I/O as it is, else the engine's rate. A part is per I/O of the workload whatever becomes of that I/O below:
a request that a cache spares is time that was not spent. Where an I/O becomes several requests their times may overlap, and where several become one each
waits for all of it, so there a part is a bound; notes say so. Where more time was counted below than above no part is given.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils.core.layers import Layer
from ...module_utils.result.schema import Figures, Result
from ...module_utils.result.student import t_quantile

# An I/O is the same at a device when requests and bytes equal the workload's within this share: the engine's rate is of the whole run.
COUNTS_AGREE = 0.1
# Requests of another size than the I/Os of the workload, beyond this share, are not these I/Os.
SAME_SIZE = 0.01
# Fewer requests for each I/O than this are somebody else's.
NONE_PASS = 0.01


@dataclass
class Place:
    """A device that counted while a point was measured."""

    index: int  # of the lowest layer in the chain that it is
    host: str
    device: str
    in_flight: float
    ios_s: float
    bytes_s: float | None


@dataclass
class Part:
    """The time of the I/O between one device that counts and the next."""

    layers: list[str]  # whose cost it is, top first
    host: str
    device: str  # from which it is counted; empty where the engine itself measures
    at_ns: float  # spent here and below
    own_ns: float | None
    own_between_ns: tuple[float, float] | None = None  # 95 %, by the repetitions
    share: float | None = None
    above_ns: float | None = None  # of own_ns, what lies above the measured layer's own device: engine and kernel
    ios_per_io: float | None = None
    bytes_per_byte: float | None = None
    waterfall_ns: float | None = None  # what the layers add in the waterfall
    against_ns: float | None = None  # own_ns - waterfall_ns
    against_between_ns: tuple[float, float] | None = None
    apart: bool = (
        False  # the repetitions tell that difference from none, all parts of the split taken together (Bonferroni, 5 %)
    )


@dataclass
class Split:
    layer: str
    repetitions: int
    latency_mean_ns: float
    parts: list[Part]
    notes: list[str] = field(default_factory=list)
    elsewhere: float | None = None  # share of the latency that the waterfall puts at other layers
    verdict: str = ""


def places(result: Result, chain: Sequence[Layer]) -> list[Place]:
    """The devices of the chain (layers from the measured one down) that counted while the result was measured, top first.

    An export's own device is the login of the host that makes it, which the I/O of layers above does not go through. Layers that are one device count once,
    as the lowest of them.
    """
    counting: list[Place] = []
    for index, layer in enumerate(chain):
        if index and layer["kind"] == "target":
            continue
        place = _counted(result, layer, index)
        if place is None:
            continue
        if counting and (counting[-1].host, counting[-1].device) == (place.host, place.device):
            counting.pop()
        counting.append(place)
    # An engine that is not at work in the counted seconds leaves nothing to divide.
    if counting and not counting[0].index and counting[0].ios_s < NONE_PASS * (result["total"].get("iops") or 0):
        return []
    return counting


def _counted(result: Result, layer: Layer, index: int) -> Place | None:
    counters, host = result.get("counters") or {}, layer["host"]
    # A variant's layer is named after it, what was counted is not.
    name = layer["name"].removesuffix(f" ({result['variant']})") if result.get("variant") else layer["name"]
    of_host = counters if host == result["host"] else (counters.get("hosts") or {}).get(host) or {}
    figures = (of_host.get("layers") or {}).get(name)
    if figures and figures["interval_s"] > 0:
        ios, size = (sum(figures[way][key] for way in ("read", "write")) for key in ("ios", "bytes"))
        seconds = figures["interval_s"]
        return Place(index, host, figures["name"], figures["in_flight"], ios / seconds, size / seconds)
    esxi = counters.get("esxi") or {}
    if layer["kind"] == "initiator" and esxi.get("host") == host and {"gavg_ns", "device_iops", "device"} <= set(esxi):
        # GAVG is what a command takes as seen above the VMkernel.
        in_flight = esxi["gavg_ns"] / 1e9 * esxi["device_iops"]
        device = f"{esxi['device']}{' (simulated)' if esxi.get('simulated') else ''}"
        return Place(index, host, device, in_flight, esxi["device_iops"], None)
    return None


def split(
    results: list[Result],
    chain: Sequence[Layer],
    waterfall: dict[str, tuple[float, dict[int, float]]] | None = None,
) -> Split | None:
    """The mean latency of a layer by the repetitions ``results`` of one workload on it; None where no device below it counted.

    chain: the layers from the measured one down. waterfall: {layer: (mean latency in ns, {repetition: the same})} of what was measured at the layers of the
    chain themselves, or at what stands for them.
    """
    known = [
        (result, places(result, chain))
        for result in results
        if {"iops", "latency_mean_ns"} <= set(result.get("total") or {}) and result["total"]["iops"]
    ]
    # A repetition cannot show a device that it lacks; the devices that most repetitions have are taken, and those repetitions.
    kinds = Counter(tuple(place.index for place in counting) for _result, counting in known)
    usual = max(kinds, key=lambda indexes: (kinds[indexes], len(indexes)), default=())
    if not any(usual):
        return None
    taken = [(result, counting) for result, counting in known if tuple(place.index for place in counting) == usual]
    bounds = [0, *(index for index in usual if index)]
    weights = [result["total"].get("ios") or 1 for result, _places in taken]
    at, above, shares = [], [], Split(chain[0]["name"], len(taken), 0.0, [])
    for result, counting in taken:
        held = {place.index: 1e9 * place.in_flight / _rate(result["total"], counting) for place in counting}
        latency = result["total"]["latency_mean_ns"]
        at.append([latency, *(held[index] for index in bounds[1:])])
        above.append(latency - held[0] if 0 in held else None)
    owns = [[upper - lower for upper, lower in zip(row, [*row[1:], 0.0])] for row in at]
    shares.latency_mean_ns = _mean([row[0] for row in at], weights)
    if len(taken) < len(results):
        shares.notes.append(
            f"{len(taken)} of {len(results)} repetitions are used; in the others a different set of devices counted."
        )
    for number, index in enumerate(bounds):
        end = bounds[number + 1] if number + 1 < len(bounds) else len(chain)
        own = [row[number] for row in owns]
        place = next((place for place in taken[0][1] if place.index == index), None)
        part = Part(
            layers=[layer["name"] for layer in chain[index:end]],
            host=place.host if place else chain[0]["host"],
            device=place.device if place else "",
            at_ns=_mean([row[number] for row in at], weights),
            own_ns=_mean(own, weights),
            own_between_ns=interval(own),
        )
        part.share = part.own_ns / shares.latency_mean_ns if shares.latency_mean_ns else None  # type: ignore[operator]
        if number == 0 and None not in above:
            part.above_ns = _mean([value for value in above if value is not None], weights)
        shares.parts.append(part)
        if place:
            _weigh_counts(part, taken, index, shares.notes)
    _refuse_impossible(shares)
    if waterfall is not None:
        _set_against(shares, [(result["repetition"], row) for (result, _places), row in zip(taken, owns)], waterfall)
    shares.verdict = _verdict(shares)
    return shares


def _rate(total: Figures, counting: list[Place]) -> float:
    """I/Os of the workload a second while the devices counted.

    That is not the engine's rate where it began later, as on a busy machine, or faltered: the devices count all of their time.
    """
    top = counting[0]
    iops: float = total["iops"]
    bandwidth: float = total.get("bandwidth_bytes_s") or 0.0
    if top.index or not (top.ios_s and top.bytes_s and bandwidth):
        return iops
    same = abs(top.bytes_s / top.ios_s * iops / bandwidth - 1) <= SAME_SIZE
    return top.ios_s if same else iops


def interval(values: list[float], miss: float = 0.05) -> tuple[float, float] | None:
    """Interval that misses the mean with this probability, by Student's t; None of fewer than two values."""
    if len(values) < 2:
        return None
    middle = statistics.fmean(values)
    reach = t_quantile(1 - miss / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return middle - reach, middle + reach


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    mean: float = sum(value * weight for value, weight in zip(values, weights)) / sum(weights)
    return mean


def _weigh_counts(part: Part, taken: list[Any], index: int, notes: list[str]) -> None:
    """Requests and bytes at a device for each of the workload's, and what it means when they are not the same."""
    rates = [_rate(result["total"], counting) for result, counting in taken]
    pairs = [(result["total"], next(place for place in counting if place.index == index)) for result, counting in taken]
    part.ios_per_io = statistics.fmean(place.ios_s / rate for rate, (_total, place) in zip(rates, pairs))
    sizes = [
        place.bytes_s / (rate * total["bandwidth_bytes_s"] / total["iops"])
        for rate, (total, place) in zip(rates, pairs)
        if place.bytes_s is not None and total.get("bandwidth_bytes_s")
    ]
    part.bytes_per_byte = statistics.fmean(sizes) if len(sizes) == len(pairs) else None
    where, ios, size = f"{part.device} on {part.host}", part.ios_per_io, part.bytes_per_byte
    if ios < NONE_PASS:
        notes.append(f"Hardly any I/O reached {where}: a layer above it answered.")
    elif size is not None and abs(size - 1) > COUNTS_AGREE:
        notes.append(
            f"{where} moved {size:.2f} bytes for each byte of the workload: a cache answers or keeps part of it, the layer above adds to it, or "
            "something else uses the device. Its time is given per I/O of the workload; nothing waits for data that is written later."
        )
    elif ios > 1 + COUNTS_AGREE:
        notes.append(
            f"{where} was given {ios:.2f} requests for each I/O. They may be served in parallel, so the time shown is an upper bound."
        )
    elif ios < 1 - COUNTS_AGREE:
        notes.append(
            f"{where} was given {ios:.2f} requests for each I/O. I/Os that share a request wait for all of it, so the time shown is a lower bound."
        )


def _refuse_impossible(shares: Split) -> None:
    """More time below than above, beyond what the repetitions leave open: neither side of that device is known."""
    wrong = {
        number
        for number, part in enumerate(shares.parts)
        if (part.own_ns or 0) < 0 and (part.own_between_ns is None or part.own_between_ns[1] < 0)
    }
    for number in sorted(wrong):
        below = shares.parts[number + 1]
        shares.notes.append(
            f"More time was counted at {below.device} on {below.host} than above it: requests are served in parallel, or belong to other loads. "
            "So no share is shown on either side of it."
        )
    for part in [shares.parts[number] for number in sorted(wrong | {number + 1 for number in wrong})]:
        part.own_ns = part.own_between_ns = part.share = None


def _set_against(shares: Split, owns: list[Any], waterfall: dict[str, tuple[float, dict[Any, float]]]) -> None:
    """The sum of the layers of each part in the waterfall, and the difference, paired by repetition."""
    ends = [waterfall.get(part.layers[0]) for part in shares.parts]
    for number, part in enumerate(shares.parts):
        upper, last = ends[number], number + 1 == len(ends)
        lower = (0.0, {}) if last else ends[number + 1]
        if upper is None or lower is None or part.own_ns is None:
            continue
        part.waterfall_ns = upper[0] - lower[0]
        part.against_ns = part.own_ns - part.waterfall_ns
        differences = [
            row[number] - (upper[1][repetition] - (0.0 if last else lower[1][repetition]))
            for repetition, row in owns
            if repetition in upper[1] and (last or repetition in lower[1])
        ]
        part.against_between_ns = interval(differences)
        strict = interval(differences, 0.05 / len(shares.parts))
        part.apart = strict is not None and not strict[0] <= 0 <= strict[1]
    if all(part.against_ns is not None for part in shares.parts) and shares.latency_mean_ns:
        # Both sides add up to the same latency, so what one has more elsewhere lacks.
        shares.elsewhere = sum(abs(part.against_ns or 0) for part in shares.parts) / 2 / shares.latency_mean_ns


def _verdict(shares: Split) -> str:
    """How far counters and waterfall agree, in a sentence."""
    if shares.elsewhere is None:
        return ""
    apart = [", ".join(part.layers) for part in shares.parts if part.apart]
    agree = f"Counters and waterfall put {100 * (1 - shares.elsewhere):.0f} % of the mean latency of {shares.layer} at the same layers"
    if shares.repetitions < 2:
        return f"{agree}; one repetition cannot show whether the rest is noise."
    if apart:
        return f"{agree}; they differ by more than repetitions vary at {' and at '.join(apart)}."
    return f"{agree}; the rest is within the variation of the repetitions."
