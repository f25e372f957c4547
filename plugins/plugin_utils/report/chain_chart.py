# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of layers as SVG. It is drawn twice, wide and narrow, because on a phone it runs from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...module_utils.core.cache_modes import words as cache_words
from ...module_utils.core.layers import DECLARED, Layer, link
from . import plot
from .charts import tint
from .markup import shapes
from .plot import CHARACTER


@dataclass(frozen=True, kw_only=True)
class Chain(plot.Chart):
    """Frames of hosts [(x, y, width, height)] with their names [(x, y, name)], arrows [(class, path)] and nodes [{css, title, x, y, wide, high, texts}]."""

    hosts: list[Any]
    arrows: list[Any]
    hostnames: list[Any]
    nodes: list[Any]

    @property
    def body(self) -> Markup:
        markup: Markup = shapes().chain(self)
        return markup


PAD, HEAD = 12, 26  # pixels beside the boxes of a host, and above them for its name
BOX = 62  # pixels of a layer's height
Place = tuple[float, float]  # left, top
Frame = tuple[str, float, float, float, float]  # host, left, top, width, height


def chain_chart(ident: str, layers: list[Layer], measured: Mapping[str, str], width: int) -> plot.Chart | None:
    """The chain as it really is: one lane per chain of parents, one band per host, an arrow along each parent.

    layers: bottom first. measured: layer name -> one line of figures; the others are drawn dim and said to be unmeasured.
    Wide, the I/O runs from the guest on the right to the backing on the left; narrow, from top to bottom.
    """
    if not layers:
        return None
    narrow, by_name = width < 500, {layer["name"]: layer for layer in layers}
    place, frames, box_w, height = (_from_top_to_bottom if narrow else _from_right_to_left)(layers, width)
    names = ", ".join(
        f"{layer['name']} on {layer['host']}"
        + (f" through {layer['parent']}" if layer.get("parent") else "")
        + (" (declared)" if link(by_name, layer) == DECLARED else "")
        + ("" if layer["name"] in measured else " (not measured)")
        for layer in layers
    )
    return Chain(
        ident,
        "The chain of layers",
        names,
        f"chain {'narrow' if narrow else 'wide'}",
        round(height),
        width,
        hosts=[
            (f"{left + 0.5:.1f}", f"{top + 0.5:.1f}", f"{wide - 1:.1f}", f"{high - 1:.1f}")
            for _host, left, top, wide, high in frames
        ],
        arrows=[
            (
                "arrow declared" if link(by_name, layer) == DECLARED else "arrow",
                _arrow(place[layer["name"]], place[layer["parent"]], box_w, BOX, narrow),
            )
            for layer in layers
            if layer.get("parent") in place
        ],
        hostnames=[
            (f"{left + PAD:.1f}", f"{top + 17:.1f}", _fit(host, wide - 2 * PAD))
            for host, left, top, wide, _high in frames
        ],
        nodes=[_node(layer, place[layer["name"]], measured.get(layer["name"]), box_w) for layer in layers],
    )


def _from_top_to_bottom(layers: list[Layer], width: int) -> tuple[dict[str, Place], list[Frame], float, float]:
    """(place of each layer, frames of the hosts, width of a box, height of all) of a band per host, top = the layers nearest the guest."""
    slots, lanes, bands = _layout(layers, True)
    gap, count = 14, max(lanes.values()) + 1
    box_w = (width - 2 * PAD - (count - 1) * 10) / count
    tops, at = {}, 0.0
    for host, first, last in reversed(bands):
        tops[host] = at
        at += HEAD + (last - first + 1) * (BOX + gap) + 6
    place = {
        layer["name"]: (
            PAD + lanes[layer["name"]] * (box_w + 10),
            next(
                tops[host] + HEAD + (last - slots[layer["name"]]) * (BOX + gap)
                for host, first, last in bands
                if first <= slots[layer["name"]] <= last
            ),
        )
        for layer in layers
    }
    frames = [
        (host, 2.0, tops[host], width - 4.0, HEAD + (last - first + 1.0) * (BOX + gap) - gap + 8)
        for host, first, last in bands
    ]
    return place, frames, box_w, at


def _from_right_to_left(layers: list[Layer], width: int) -> tuple[dict[str, Place], list[Frame], float, float]:
    """The same with the hosts beside each other and a row per lane."""
    slots, lanes, bands = _layout(layers, False)
    gap, row = 34, 78
    inner = width - len(bands) * 2 * PAD - (len(bands) - 1) * 18
    count = bands[-1][2] + 1
    box_w = (inner - (count - len(bands)) * gap) / count
    starts, at = {}, 0.0
    for host, first, last in bands:
        starts[host] = at
        at += 2 * PAD + (last - first + 1) * box_w + (last - first) * gap + 18
    height = HEAD + (max(lanes.values()) + 1) * row + 4
    place = {
        layer["name"]: (
            next(
                starts[host] + PAD + (slots[layer["name"]] - first) * (box_w + gap)
                for host, first, last in bands
                if first <= slots[layer["name"]] <= last
            ),
            float(HEAD + lanes[layer["name"]] * row),
        )
        for layer in layers
    }
    frames = [
        (host, starts[host], 1.0, 2 * PAD + (last - first + 1) * box_w + (last - first) * gap, height - 2.0)
        for host, first, last in bands
    ]
    return place, frames, box_w, height


def _node(layer: Layer, place: Place, line: str | None, box_w: float) -> dict[str, object]:
    """A box with the layer's name, what it is made of and where, and its line of figures."""
    left, top = place
    path, made = layer.get("path") or ("no device" if layer["kind"] == "ceiling" else "no path"), _made(layer)
    where = (
        f"{made} · {_tail(str(path), box_w - 16 - (len(made) + 3) * CHARACTER)}"
        if made
        else _tail(str(path), box_w - 16)
    )
    texts = (
        ("node-name", 19, _fit(layer["name"], box_w - 16)),
        ("node-path", 35, _fit(where, box_w - 16)),
        ("node-figure", 52, _figures(line, box_w - 14) if line else "not measured"),
    )
    return {
        "css": tint(layer["kind"]) + ("" if line else " dim"),
        "title": f"{layer['name']}: {path}",
        "x": f"{left:.1f}",
        "y": f"{top:.1f}",
        "wide": f"{box_w:.1f}",
        "high": BOX,
        "texts": [(css, f"{left + 12:.1f}", f"{top + down:.1f}", text) for css, down, text in texts],
    }


def _made(layer: Layer) -> str:
    """'xfs', 'RAID 5 of 4', 'write-back cache …': what the layer is made of."""
    detail = layer.get("detail") or {}
    made = str(detail.get("filesystem") or detail.get("provider") or "") if layer["kind"] != "ceiling" else ""
    array, tier = detail.get("raid") or {}, detail.get("cache_tier") or {}
    if array:
        made = f"RAID {array.get('level')} of {len(array.get('members') or [])}"
    if tier:
        blocks = tier.get("block_bytes", 0) // 1024
        made = cache_words(tier.get("cached"), tier.get("mode"), blocks, tier.get("provider"))
    return made + (", page cache" if detail.get("page_cache") == "used" else "")


def _fit(text: str, width: float) -> str:
    room = max(4, int(width / CHARACTER))
    return text if len(text) <= room else text[: room - 1] + "…"


def _figures(line: str, width: float) -> str:
    """'20.9k IOPS · 184 µs', without its first unit where that takes the room of a figure: half a figure is none."""
    return _fit(line if len(line) <= int(width / CHARACTER) else line.replace(" IOPS ·", " ·"), width)


def _tail(path: str, width: float) -> str:
    """The end of a path says which; its beginning can go."""
    room = max(6, int(width / CHARACTER))
    return path if len(path) <= room else "…" + path[1 - room :]


def _layout(layers: list[Layer], narrow: bool) -> tuple[dict[str, int], dict[str, int], list[tuple[str, int, int]]]:
    """Slot (place along the chain) and lane of every layer by name, and [(host, first slot, last slot)] with each host in one piece.

    Between the ends of a chain nothing else is in its lane, or an arrow would run through it and show a way that is not there.
    """
    devices = [layer for layer in layers if layer["kind"] != "ceiling"]
    slots, bands = _slots(devices, layers)
    lanes, taken = _lanes(devices, slots)
    for layer in layers:
        if layer["kind"] == "ceiling":
            first, last = next((first, last) for host, first, last in bands if host == layer["host"])
            lane_limit = max(lanes.values(), default=0) + 1
            free = [
                (slot, lane)
                for slot in range(last, first - 1, -1)
                for lane in range(lane_limit)
                if (lane, slot) not in taken
            ]
            if not narrow or not (free or first == 0):
                # A lane of its own, if need be.
                slots[layer["name"]], lanes[layer["name"]] = (
                    first,
                    next(lane for lane in range(lane_limit + 1) if (lane, first) not in taken),
                )
            else:
                # A phone has no room for a lane more: a free place, else one below the whole chain, where no arrow passes.
                below = next(lane for lane in range(len(layers)) if (lane, -1) not in taken)
                slots[layer["name"]], lanes[layer["name"]] = free[0] if free else (-1, below)
            taken.add((lanes[layer["name"]], slots[layer["name"]]))
    if -1 in slots.values():
        slots = {name: slot + 1 for name, slot in slots.items()}
        bands = [(host, first + 1 if first else 0, last + 1) for host, first, last in bands]
    return slots, lanes, bands


def _slots(devices: list[Layer], layers: list[Layer]) -> tuple[dict[str, int], list[tuple[str, int, int]]]:
    """Hosts in chain order, in each a slot per kind, or beyond the layer below it; a host with nothing but a ceiling has one slot."""
    slots, bands, position = {}, [], 0
    for host in dict.fromkeys(layer["host"] for layer in devices + layers):
        mine = [layer for layer in devices if layer["host"] == host]
        kinds = list(dict.fromkeys(layer["kind"] for layer in mine))
        places = _places({layer["name"]: layer for layer in mine}, kinds)
        columns = sorted(set(places.values()))
        slots.update({name: position + columns.index(place) for name, place in places.items()})
        bands.append((host, position, position + max(1, len(columns)) - 1))
        position += max(1, len(columns))
    return slots, bands


def _places(mine: dict[str, Any], kinds: list[str]) -> dict[str, float]:
    """The place of each layer of a host by its kind; one on a layer of a later kind, such as an export over NFS, just beyond that."""
    places: dict[str, float] = {}
    for name in mine:
        way, at = [], name
        while at in mine and at not in way:
            way.append(at)
            at = mine[at].get("parent")
        place = -1.0
        for at in reversed(way):
            place = max(float(kinds.index(mine[at]["kind"])), place + 1 / (len(mine) + 1))
        places[name] = place
    return places


def _lanes(devices: list[Layer], slots: dict[str, int]) -> tuple[dict[str, int], set[tuple[int, int]]]:
    """Longest chains first; a layer shared by several chains stays in the first; a lane is used again where it is free."""
    by_name = {layer["name"]: layer for layer in devices}
    parents = {layer.get("parent") for layer in devices}
    chains = []
    for leaf in [layer for layer in devices if layer["name"] not in parents] + devices:
        chain: list[Any] = []
        name: Any = leaf["name"]
        while name in by_name and name not in chain:
            chain.append(name)
            name = by_name[name].get("parent")
        chains.append(chain)
    lanes: dict[str, Any] = {}
    taken: set[Any] = set()
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


def _arrow(child: tuple[float, float], parent: tuple[float, float], box_w: float, box_h: float, narrow: bool) -> str:
    """The path of an arrow."""
    if narrow:
        x1, y1, x2, y2 = child[0] + box_w / 2, child[1] + box_h, parent[0] + box_w / 2, parent[1] - 2
        middle = (y1 + y2) / 2
        return f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    x1, y1, x2, y2 = child[0], child[1] + box_h / 2, parent[0] + box_w + 2, parent[1] + box_h / 2
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
