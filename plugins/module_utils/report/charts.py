# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures as SVG text. Colours are CSS classes (k-<kind>), so that one picture serves light, dark and print.

A picture that must be read on a phone is drawn twice, wide and narrow, because text in an SVG shrinks with it.
"""

from __future__ import annotations

import math
import re
from html import escape

from . import units

CHARACTER = 6.9  # width of a character of the 11.5 px monospaced-ish label text, measured in Chromium


def log_ticks(low: float, high: float) -> list[float]:
    """The decades that enclose low..high, at least one apart."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def log_position(value: float, ticks: list[float]) -> float:
    """0..1 along the axis whose ends are the first and last tick."""
    return (math.log10(value) - math.log10(ticks[0])) / (math.log10(ticks[-1]) - math.log10(ticks[0]))


def tint(kind: str) -> str:
    """The CSS class of a kind's colour; a kind comes out of a file, so only letters of it reach the page."""
    return "k-" + re.sub(r"[^a-z]", "", str(kind))


def _fit(text: str, width: float) -> str:
    room = max(4, int(width / CHARACTER))
    return text if len(text) <= room else text[: room - 1] + "…"


def _tail(path: str, width: float) -> str:
    """The end of a path says which; its beginning can go."""
    room = max(6, int(width / CHARACTER))
    return path if len(path) <= room else "…" + path[1 - room :]


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


# -- bars of the waterfall -------------------------------------------------------------------------------------------


def rate_mark(kind: str, figure, ticks: list[float]) -> str:
    """A dot on a log axis with the extremes of the repetitions: a bar would need a zero, which a log axis has not."""
    at, low, high = (100 * log_position(value, ticks) for value in (figure.value, figure.low, figure.high))
    grid = "".join(f'<line class="grid" x1="{_number(100 * log_position(tick, ticks))}%" x2="{_number(100 * log_position(tick, ticks))}%" y1="0" y2="100%"/>'
                   for tick in ticks[1:-1])
    spread = f'<line class="spread {tint(kind)}" x1="{low:.2f}%" x2="{high:.2f}%" y1="50%" y2="50%"/>' if high - low > 0.05 else ""
    return (f'<svg class="mark" aria-hidden="true" focusable="false">{grid}<line class="stem {tint(kind)}" x1="0" x2="{at:.2f}%" y1="50%" y2="50%"/>'
            f'{spread}<circle class="dot {tint(kind)}" cx="{at:.2f}%" cy="50%" r="5"/></svg>')


def added_mark(kind: str, below: float, own: float, full: float, comparable: bool) -> str:
    """A floating bar on a linear axis: what lies below, pale, and what this layer adds, in full colour."""
    start, end = 100 * min(below, own) / full, 100 * max(below, own) / full
    width = max(end - start, 0.4)
    classes = f"added {tint(kind)}" + ("" if comparable else " pale") + (" faster" if own < below else "")
    base = f'<rect class="base {tint(kind)}" x="0" y="35%" width="{start:.2f}%" height="30%"/>' if start > 0.05 else ""
    return (f'<svg class="mark" aria-hidden="true" focusable="false">{base}'
            f'<rect class="{classes}" x="{min(start, 99.6):.2f}%" y="10%" width="{width:.2f}%" height="80%" rx="2"/></svg>')


# -- latency distribution --------------------------------------------------------------------------------------------

TAIL = 5.0  # nines: the axis ends at 99.999 %
CURVE_POINTS = 60
CURVE_STEP = 1.15  # ratio of latencies


def percentile_curve(bins: dict) -> list[tuple]:
    """[(share of all I/Os, latency_ns)], thinned to what the eye can see, ending where the samples end."""
    pairs = sorted((float(edge), count) for edge, count in bins.items() if count)
    total, seen = sum(count for _edge, count in pairs), 0
    kept: list[tuple] = []
    last_at = last_edge = 0.0
    for edge, count in pairs:
        # Each bin is a flat step: it begins where the one below it ends.
        for share in (seen / total, (seen + count) / total):
            # Kept is what moves by a visible step, sideways or up: without the second a steep rise would be cut across.
            at = nines(share)
            if not kept or at - last_at >= TAIL / CURVE_POINTS or edge >= last_edge * CURVE_STEP:
                kept.append((share, edge))
                last_at, last_edge = at, max(1.0, edge)
        seen += count
    # The last sample is the maximum; a percentile finer than one in total cannot be known.
    if kept and kept[-1][0] == 1.0:
        kept.pop()
    return [*kept, (1 - 0.5 / total, pairs[-1][0])] if pairs else []


def nines(share: float) -> float:
    """0 -> 0, 0.9 -> 1, 0.99 -> 2: the axis that gives the tail as much room as the bulk."""
    return min(TAIL, -math.log10(max(1 - share, 10**-TAIL)))


def percentile_chart(ident: str, title: str, series: list[tuple], width: int, height: int) -> str:
    """series: [(name, kind, percentile_curve)], drawn in that order, each named at the end of its line."""
    if not series:
        return ""
    narrow = width < 500
    longest = max(len(name) for name, _kind, _curve in series)
    left, right, top, bottom = 58, 16 if narrow else min(190, 22 + longest * CHARACTER), 14, 40
    values = [max(1.0, value) for _name, _kind, curve in series for _share, value in curve]
    ticks = log_ticks(min(values), max(values))
    end = max(nines(curve[-1][0]) for _name, _kind, curve in series)
    end = max(2.0, math.ceil(end * 2) / 2)

    def x(share: float) -> float:
        return left + (width - left - right) * min(nines(share), end) / end

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * log_position(max(1.0, value), ticks)

    out = [f'<svg class="chart {"narrow" if narrow else "wide"}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ident}-t {ident}-d">',
           f'<title id="{ident}-t">{escape(title)}</title>',
           f'<desc id="{ident}-d">{escape("Latency on a log axis against the percentile. " + _described(series))}</desc>']
    for tick in ticks:
        out.append(f'<line class="grid" x1="{left}" x2="{width - right:.0f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
                   f'<text class="tick" x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{units.tick(units.latency(tick))}</text>')
    free = 0.0
    for share, label in ((0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999")):
        if nines(share) <= end:
            out.append(f'<line class="grid" x1="{x(share):.1f}" x2="{x(share):.1f}" y1="{top}" y2="{height - bottom}"/>')
            half = len(label) * CHARACTER / 2
            if x(share) - half >= free:
                out.append(f'<text class="tick" x="{min(x(share), width - half - 2):.1f}" y="{height - bottom + 17}" text-anchor="middle">{label}</text>')
                free = x(share) + half + 3
    out.append(f'<text class="axis" x="{(left + width - right) / 2:.0f}" y="{height - 4}" text-anchor="middle">percentile of all I/Os</text>')
    for name, kind, curve in series:
        line = " ".join(f"{x(share):.1f},{y(value):.1f}" for share, value in curve)
        data = " ".join(f"{share * 100:.5g}:{value:.0f}" for share, value in curve) if not narrow else ""
        out.append(f'<polyline class="line {tint(kind)}" points="{line}"' + (f' data-name="{escape(name)}" data-curve="{data}"' if data else "") + "/>")
    if not narrow:
        out.extend(_end_labels([(name, kind, x(curve[-1][0]), y(curve[-1][1])) for name, kind, curve in series], width - right + 10, top, height - bottom))
    out.append("</svg>")
    return "".join(out)


def _described(series: list[tuple]) -> str:
    return " ".join(f"{name} ends at {units.latency(curve[-1][1])}." for name, _kind, curve in series)


def _end_labels(labels: list[tuple], at: float, top: float, bottom: float, gap: float = 15) -> list[str]:
    """Names beside the line ends, pushed apart, joined to their line by a thin leader."""
    placed, previous = [], top - gap
    for name, kind, x, y in sorted(labels, key=lambda label: label[3]):
        previous = max(y, previous + gap)
        placed.append([name, kind, x, y, previous])
    limit = bottom
    for entry in reversed(placed):
        entry[4] = min(entry[4], limit)
        limit = entry[4] - gap
    return [f'<polyline class="leader {tint(kind)}" points="{x:.1f},{y:.1f} {at - 3:.1f},{label:.1f}"/>'
            f'<text class="name {tint(kind)}" x="{at:.1f}" y="{label + 4:.1f}">{escape(name)}</text>' for name, kind, x, y, label in placed]


# -- the chain -------------------------------------------------------------------------------------------------------


def chain_chart(ident: str, layers: list[dict], measured: dict, width: int) -> str:
    """The chain as it really is: one lane a chain of parents, one band a host, an arrow along each parent.

    layers: bottom first. measured: layer name -> one line of figures; the others are drawn dim and said to be unmeasured.
    Wide, the I/O runs from the guest on the right to the backing on the left; narrow, from top to bottom.
    """
    if not layers:
        return ""
    narrow = width < 500
    slots, lanes, bands = _layout(layers, narrow)
    count_slots, count_lanes = bands[-1][2] + 1, max(lanes.values()) + 1
    pad, head, gap = 12, 26, 14 if narrow else 34
    if narrow:
        box_w = (width - 2 * pad - (count_lanes - 1) * 10) / count_lanes
        box_h = 62
        # A band per host, top = the layers nearest the guest.
        tops, at = {}, 0.0
        for host, first, last in reversed(bands):
            tops[host] = at
            at += head + (last - first + 1) * (box_h + gap) + 6
        height = at
        place = {layer["name"]: (pad + lanes[layer["name"]] * (box_w + 10),
                                 next(tops[host] + head + (last - slots[layer["name"]]) * (box_h + gap) for host, first, last in bands
                                      if first <= slots[layer["name"]] <= last)) for layer in layers}
        frames = [(host, 2, tops[host], width - 4, head + (last - first + 1) * (box_h + gap) - gap + 8) for host, first, last in bands]
    else:
        box_h, row = 62, 78
        inner = width - len(bands) * 2 * pad - (len(bands) - 1) * 18
        box_w = (inner - (count_slots - len(bands)) * gap) / count_slots
        starts, at = {}, 0.0
        for host, first, last in bands:
            starts[host] = at
            at += 2 * pad + (last - first + 1) * box_w + (last - first) * gap + 18
        height = head + count_lanes * row + 4
        place = {layer["name"]: (next(starts[host] + pad + (slots[layer["name"]] - first) * (box_w + gap) for host, first, last in bands
                                      if first <= slots[layer["name"]] <= last), head + lanes[layer["name"]] * row) for layer in layers}
        frames = [(host, starts[host], 1, 2 * pad + (last - first + 1) * box_w + (last - first) * gap, height - 2) for host, first, last in bands]

    names = ", ".join(f"{layer['name']} on {layer['host']}" + (f" through {layer['parent']}" if layer.get("parent") else "")
                      + ("" if layer["name"] in measured else " (not measured)") for layer in layers)
    out = [f'<svg class="chart chain {"narrow" if narrow else "wide"}" viewBox="0 0 {width} {height:.0f}" role="img" aria-labelledby="{ident}-t {ident}-d">',
           f'<title id="{ident}-t">The chain of layers</title><desc id="{ident}-d">{escape(names)}</desc>',
           f'<defs><marker id="{ident}-a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
           '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>']
    for _host, left, top, wide, high in frames:
        out.append(f'<rect class="host" x="{left + 0.5:.1f}" y="{top + 0.5:.1f}" width="{wide - 1:.1f}" height="{high - 1:.1f}" rx="10"/>')
    for layer in layers:
        if layer.get("parent") in place:
            out.append(_arrow(place[layer["name"]], place[layer["parent"]], box_w, box_h, ident, narrow))
    # After the arrows: the name's halo keeps it readable where one passes.
    for host, left, top, wide, _high in frames:
        out.append(f'<text class="hostname" x="{left + pad:.1f}" y="{top + 17:.1f}">{escape(_fit(host, wide - 2 * pad))}</text>')
    for layer in layers:
        left, top = place[layer["name"]]
        line = measured.get(layer["name"])
        path, detail = layer.get("path") or ("no device" if layer["kind"] == "ceiling" else "no path"), layer.get("detail") or {}
        made = str(detail.get("filesystem") or detail.get("provider") or "") if layer["kind"] != "ceiling" else ""
        where = f"{made} · {_tail(str(path), box_w - 16 - (len(made) + 3) * CHARACTER)}" if made else _tail(str(path), box_w - 16)
        out.append(f'<g class="node {tint(layer["kind"])}{"" if line else " dim"}"><title>{escape(layer["name"])}: {escape(str(path))}</title>'
                   f'<rect x="{left:.1f}" y="{top:.1f}" width="{box_w:.1f}" height="{box_h}" rx="7"/>'
                   f'<rect class="edge" x="{left:.1f}" y="{top:.1f}" width="4" height="{box_h}" rx="2"/>'
                   f'<text class="node-name" x="{left + 12:.1f}" y="{top + 19:.1f}">{escape(_fit(layer["name"], box_w - 16))}</text>'
                   f'<text class="node-path" x="{left + 12:.1f}" y="{top + 35:.1f}">{escape(_fit(where, box_w - 16))}</text>'
                   f'<text class="node-figure" x="{left + 12:.1f}" y="{top + 52:.1f}">{escape(_fit(line or "not measured", box_w - 14))}</text></g>')
    out.append("</svg>")
    return "".join(out)


def _layout(layers: list[dict], narrow: bool) -> tuple[dict, dict, list]:
    """Slot (place along the chain) and lane of every layer by name, and [(host, first slot, last slot)] with each host in one piece.

    Between the ends of a chain nothing else stands in its lane, or an arrow would run through it and tell of a way that is not there.
    """
    devices = [layer for layer in layers if layer["kind"] != "ceiling"]
    slots, bands = _slots(devices, layers)
    lanes, taken = _lanes(devices, slots)
    for layer in layers:
        if layer["kind"] == "ceiling":
            first, last = next((first, last) for host, first, last in bands if host == layer["host"])
            lane_limit = max(lanes.values(), default=0) + 1
            free = [(slot, lane) for slot in range(last, first - 1, -1) for lane in range(lane_limit) if (lane, slot) not in taken]
            if not narrow or not (free or first == 0):
                # A lane of its own, if need be.
                slots[layer["name"]], lanes[layer["name"]] = first, next(lane for lane in range(lane_limit + 1) if (lane, first) not in taken)
            else:
                # A phone has no room for a lane more: a free place, else one below the whole chain, where no arrow passes.
                below = next(lane for lane in range(len(layers)) if (lane, -1) not in taken)
                slots[layer["name"]], lanes[layer["name"]] = free[0] if free else (-1, below)
            taken.add((lanes[layer["name"]], slots[layer["name"]]))
    if -1 in slots.values():
        slots = {name: slot + 1 for name, slot in slots.items()}
        bands = [(host, first + 1 if first else 0, last + 1) for host, first, last in bands]
    return slots, lanes, bands


def _slots(devices: list[dict], layers: list[dict]) -> tuple[dict, list]:
    """Hosts in chain order, in each a slot a kind; a host with nothing but a ceiling has one slot."""
    slots, bands, position = {}, [], 0
    for host in dict.fromkeys(layer["host"] for layer in devices + layers):
        mine = [layer for layer in devices if layer["host"] == host]
        kinds = list(dict.fromkeys(layer["kind"] for layer in mine))
        slots.update({layer["name"]: position + kinds.index(layer["kind"]) for layer in mine})
        bands.append((host, position, position + max(1, len(kinds)) - 1))
        position += max(1, len(kinds))
    return slots, bands


def _lanes(devices: list[dict], slots: dict) -> tuple[dict, set]:
    """Longest chains first; a layer shared by several chains stays in the first; a lane is used again where it is free."""
    by_name = {layer["name"]: layer for layer in devices}
    parents = {layer.get("parent") for layer in devices}
    chains = []
    for leaf in [layer for layer in devices if layer["name"] not in parents] + devices:
        chain, name = [], leaf["name"]
        while name in by_name and name not in chain:
            chain.append(name)
            name = by_name[name].get("parent")
        chains.append(chain)
    lanes: dict = {}
    taken: set = set()
    for chain in sorted(chains, key=lambda chain: (-len(chain), chain[0])):
        mine = [name for name in chain if name not in lanes]
        if not mine:
            continue
        places = [slots[name] for name in mine]
        span = range(min(places), max(places) + 1)
        lane = 0
        while any((lane, slot) in taken for slot in span):
            lane += 1
        lanes.update(dict.fromkeys(mine, lane))
        taken.update((lane, slot) for slot in span)
    return lanes, taken


def _arrow(child: tuple, parent: tuple, box_w: float, box_h: float, ident: str, narrow: bool) -> str:
    if narrow:
        x1, y1, x2, y2 = child[0] + box_w / 2, child[1] + box_h, parent[0] + box_w / 2, parent[1] - 2
        middle = (y1 + y2) / 2
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    else:
        x1, y1, x2, y2 = child[0], child[1] + box_h / 2, parent[0] + box_w + 2, parent[1] + box_h / 2
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path class="arrow" d="{path}" marker-end="url(#{ident}-a)"/>'
