# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is it the storage, the network or the machine? The answer about one layer, from what a run has measured and what its host shows of the way to the server.

Each part has a limit of its own: the machine the rate at which its engine alone issues I/Os (the ceiling), the network the speed of the link and the time
there and back. The part that is used nearly up is the tightest. Where the whole interval of its use is above the mark, it is named; where all parts are below
theirs for certain, it is the storage; everything else is called by its name: cannot tell.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...module_utils.core import units
from ...module_utils.core.layers import DECLARED, Layer, link
from ...module_utils.result.student import t_quantile
from ..compare.networks import rate
from ..store.cells import directions_of

STORAGE, NETWORK, MACHINE, CANNOT_TELL = "storage", "network", "machine", "cannot tell"
CONFIDENCE = 0.95
# A part whose use is above its mark is the tightest; both are measured against what that part does at best.
MACHINE_MARK, NETWORK_MARK = 0.7, 0.8
# The share of a link's speed that carries data: Ethernet, IP and TCP headers take the rest at 1500 bytes.
PAYLOAD = 0.94
# Half of the latency of an I/O that waits for nothing else.
ROUND_TRIP_MARK = 0.5
# One segment in a hundred that comes out of order or twice.
LOSS_MARK = 0.01
# A fifth of what the layer below gives.
ABOVE_MARK = 0.2
# Two layers whose quotient is within these for certain are alike.
ALIKE = (0.9, 1.1)
KIB = 1024
# File systems that are on disks of the machine; every other one may be on a server.
ON_DISKS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "ntfs3", "vfat", "exfat", "tmpfs")
# The workloads that the answer is made of: (bytes of a block, I/Os at a time).
LATENCY, RATE, STREAM = (4 * KIB, 1), (4 * KIB, 32), (1024 * KIB, 32)


@dataclass(frozen=True)
class Interval:
    """A figure with the interval of its mean; low and high are None with a single repetition."""

    value: float
    low: float | None
    high: float | None

    def over(self, other: Interval) -> Interval:
        """The quotient, as far as both are known."""
        value = self.value / other.value
        if None in (self.low, self.high, other.low, other.high) or not other.low or not other.high:
            return Interval(value, None, None)
        return Interval(value, (self.low or 0) / other.high, (self.high or 0) / other.low)


class Use(NamedTuple):
    """How much of a part is used, against the mark from which it is named."""

    part: str
    words: str
    low: float | None
    high: float | None
    mark: float


class Below(NamedTuple):
    """The layer that a layer is on, which was measured, too."""

    name: str
    host: str
    cells: Mapping[tuple[int, int], Mapping[str, Any]]
    answer: Mapping[str, Any]


def interval(values: Sequence[float]) -> Interval | None:
    """The geometric mean of repetitions with its interval by Student's t of their logarithms, as rates are judged as quotients; None without any."""
    if not values or min(values) <= 0:
        return None
    logs = [math.log(value) for value in values]
    mean = statistics.fmean(logs)
    if len(logs) == 1:
        return Interval(values[0], None, None)
    away = t_quantile((1 + CONFIDENCE) / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(mean), math.exp(mean - away), math.exp(mean + away))


# ---------------------------------------------------------------- the network


def network_path(before: str, after: str) -> dict[str, Any]:
    """The way to a server as a host shows it, of two looks around a benchmark (the tasks network_path of the playbook diagnose), without a login on the server.

    {interface, mtu_bytes, path_mtu_bytes, speed_bits_s, round_trip_ns, least_round_trip_ns, segments, odd_segments: sent again or come out of order};
    keys that the host does not show are absent. {note: why} where the look failed; {same_host: True} of an address of its own.
    """
    first, last = _parts(before), _parts(after)
    for text in (first, last):
        if text.get("failed"):
            return {"note": text["failed"]}
    route = re.search(r"\bdev (\S+)", last.get("route", ""))
    if route is None:
        return {"note": "the host shows no route to it"}
    if route[1] == "lo" or re.match(r"local\b", last.get("route", "")):
        return {"same_host": True, "interface": route[1]}
    path: dict[str, Any] = {"interface": route[1]}
    for key, name, scale in (("mtu_bytes", "mtu", 1), ("speed_bits_s", "speed", 1_000_000)):
        # A network card of a virtual machine answers with -1, or not at all.
        if last.get(name, "").isdecimal() and int(last[name]):
            path[key] = int(last[name]) * scale
    sockets, earlier = _sockets(last.get("sockets", "")), _sockets(first.get("sockets", ""))
    if not sockets:
        return {**path, "note": "the host shows no open connection to it"}
    least = [socket["minrtt"] for socket in sockets.values() if "minrtt" in socket]
    trips = [(socket["rtt"], socket.get("segs_in", 1)) for socket in sockets.values() if "rtt" in socket]
    pmtus = [socket["pmtu"] for socket in sockets.values() if "pmtu" in socket]
    if trips:
        weight = sum(number for _rtt, number in trips)
        path["round_trip_ns"] = round(sum(rtt * number for rtt, number in trips) / weight * 1e6)
    if least:
        path["least_round_trip_ns"] = round(min(least) * 1e6)
    if pmtus:
        path["path_mtu_bytes"] = int(min(pmtus))
    both = [(socket, earlier.get(name, {})) for name, socket in sockets.items()]
    path["segments"] = int(sum(_grown(now, then, "segs_in") + _grown(now, then, "segs_out") for now, then in both))
    path["odd_segments"] = int(
        sum(_grown(now, then, "retrans") + _grown(now, then, "rcv_ooopack") for now, then in both)
    )
    return path


def _parts(text: str) -> dict[str, str]:
    """{name: content} of a look, whose parts begin with a line '== name'."""
    if "== end" not in text:
        return {"failed": "the look at it did not end"}
    return {
        name: content.strip()
        for name, content in re.findall(r"^== (\w+)\n(.*?)(?=^== )", text, re.DOTALL | re.MULTILINE)
    }


def _sockets(text: str) -> dict[str, dict[str, float]]:
    """{local address: figures} of what ss -tinH prints: a line of addresses, and an indented one of figures."""
    sockets: dict[str, dict[str, float]] = {}
    name = ""
    for line in text.splitlines():
        words = line.split()
        if line[:1].isspace() and name:
            figures = {key: float(value) for key, value in re.findall(r"\b([a-z_]+):([0-9.]+)", line)}
            again = re.search(r"\bretrans:\d+/(\d+)", line)
            sockets[name] = {**figures, "retrans": float(again[1]) if again else 0.0}
        elif len(words) >= 5:
            name = words[3]
    return sockets


def _grown(now: Mapping[str, float], then: Mapping[str, float], key: str) -> float:
    return max(now.get(key, 0.0) - then.get(key, 0.0), 0.0)


# ---------------------------------------------------------------- the answer


def measured(results: Sequence[Mapping[str, Any]], layer: str) -> dict[tuple[int, int], dict[str, Any]]:
    """{(block, depth): {iops, bandwidth_bytes_s, latency_mean_ns: values of the repetitions; flags}} of the reads on a layer."""
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for result in results:
        workload, total = result["workload"], directions_of(result).get("total")
        if (
            result["layer"] != layer
            or result["status"] != "measured"
            or not total
            or workload.get("read_percent") != 100
            or "block_size_bytes" not in workload
        ):
            continue
        depth = (workload.get("queue_depth") or 1) * (workload.get("workers") or 1)
        cell = cells.setdefault((workload["block_size_bytes"], depth), {"flags": set()})
        cell["flags"] |= set(result.get("flags") or ())
        for key in ("iops", "bandwidth_bytes_s", "latency_mean_ns"):
            if total.get(key):
                cell.setdefault(key, []).append(total[key])
    return cells


def diagnosis(
    layer: Layer,
    cells: Mapping[tuple[int, int], Mapping[str, Any]],
    ceiling: Mapping[tuple[int, int], Mapping[str, Any]],
    path: Mapping[str, Any] | None,
    below: Below | None = None,
) -> dict[str, Any]:
    """{layer, host, answer, why, figures: [line], unseen: [line]}. cells, ceiling: as ``measured`` makes them, of the layer and of its host's engine alone;
    path: as network_path makes it, None where the layer is on no server; below: None where the layer that it is on was not measured."""
    figures = [text for place in (LATENCY, RATE, STREAM) if (text := _figure(place, cells.get(place, {})))]
    unseen: list[str] = []
    answer = {"layer": layer["name"], "host": layer["host"], "figures": figures, "unseen": unseen}
    rates, streams, waits = (
        interval(cells.get(place, {}).get(key, ()))
        for place, key in ((RATE, "iops"), (STREAM, "bandwidth_bytes_s"), (LATENCY, "latency_mean_ns"))
    )
    if rates is None or streams is None or waits is None:
        return {
            **answer,
            "answer": CANNOT_TELL,
            "why": "4 KiB at depths 1 and 32 and 1 MiB at depth 32 were not all measured: set benchmark_profile: existing_read",
        }
    flags: set[str] = set().union(*(cell["flags"] for cell in cells.values()))
    if "not_filled" in flags:
        return {
            **answer,
            "answer": CANNOT_TELL,
            "why": "much of what was read holds only zeros, which may come from nowhere",
        }
    if "cache_unknown" in flags:
        unseen.append("what the caches of the storage held: it may be slower when more is read")
    uses = [*_machine(rates, ceiling, figures, unseen), *_network(streams, waits, path, figures, unseen)]
    uses += _above(cells, below, figures) if below else []
    named = [use for use in uses if use.low is not None and use.low >= use.mark]
    if named:
        use = max(named, key=lambda use: (use.low or 0) / use.mark)
        why = f"{use.words}, at least {100 * (use.low or 0):.0f} % with {100 * CONFIDENCE:.0f} % confidence"
        return {**answer, "answer": use.part, "why": why}
    unknown = [use.words for use in uses if use.high is None or use.high >= use.mark]
    if rates.low is None:
        return {**answer, "answer": CANNOT_TELL, "why": "one repetition has no interval; measure two or more"}
    missing = [line for line in unseen if not line.startswith("what the caches")]
    if unknown or missing:
        return {
            **answer,
            "answer": CANNOT_TELL,
            "why": "; ".join([*(f"{words}, which may be too much" for words in unknown), *missing]),
        }
    if below:
        why = f"as much arrives as {below.name} gives on {below.host}, and of that: {below.answer['why']}"
        return {**answer, "answer": below.answer["answer"], "why": why}
    low, high = rates.low, rates.high or rates.value
    why = (
        f"{'neither the machine nor the network is near its' if path else 'the machine is far from its'} limit, so it is the storage that gives "
        f"{units.significant(low)} to {units.significant(high)} IOPS of 4 KiB and {_bytes_s(streams)}"
    )
    return {**answer, "answer": STORAGE, "why": why}


def _machine(
    rates: Interval, ceiling: Mapping[tuple[int, int], Mapping[str, Any]], figures: list[str], unseen: list[str]
) -> list[Use]:
    alone = interval(ceiling.get(RATE, {}).get("iops", ()))
    if alone is None:
        unseen.append("how many I/Os the machine alone issues: its ceiling was not measured")
        return []
    figures.append(f"the machine alone issues {_between(alone)} of 4 KiB at depth 32")
    share = rates.over(alone)
    words = f"{_percent(share.value)} of what the machine alone issues is used"
    return [Use(MACHINE, words, share.low, share.high, MACHINE_MARK)]


def _network(
    streams: Interval, waits: Interval, path: Mapping[str, Any] | None, figures: list[str], unseen: list[str]
) -> list[Use]:
    if path is None or path.get("same_host"):
        return []
    if "note" in path:
        unseen.append(f"the network: {path['note']}")
        if not path.get("carried_bits_s"):
            return []
    uses: list[Use] = []
    mtu, seen = path.get("mtu_bytes"), path.get("path_mtu_bytes")
    if mtu and seen:
        figures.append(
            f"packets of {seen} bytes pass on the way, the interface {path['interface']} has an MTU of {mtu}"
        )
    speed, carried = path.get("speed_bits_s"), path.get("carried_bits_s")
    if speed:
        figures.append(f"the link {path['interface']} has {rate(speed)}")
    if carried:
        figures.append(f"the network alone carried {rate(carried)} from the server")
    most = carried or (speed or 0) * PAYLOAD
    if most:
        share = streams.over(Interval(most / 8, most / 8, most / 8))
        what = "the network alone carried" if carried else "the link carries"
        uses.append(
            Use(NETWORK, f"{_percent(share.value)} of what {what} is used", share.low, share.high, NETWORK_MARK)
        )
    else:
        unseen.append("the speed of the link, which the host does not show")
    if path.get("least_round_trip_ns"):
        least, now = path["least_round_trip_ns"], path.get("round_trip_ns", path["least_round_trip_ns"])
        figures.append(f"there and back takes {units.latency(least)} at best, {units.latency(now)} under load")
        trip = Interval(least, least, least).over(waits)
        words = f"{_percent(trip.value)} of the latency of one I/O is the way there and back"
        uses.append(Use(NETWORK, words, trip.low, trip.high, ROUND_TRIP_MARK))
    if path.get("segments"):
        loss = path["odd_segments"] / path["segments"]
        figures.append(
            f"{path['odd_segments']} of {path['segments']} TCP segments were sent again or came out of order"
        )
        words = f"{100 * loss:.1f} % of the TCP segments were lost or out of order"
        uses.append(Use(NETWORK, words, loss, loss, LOSS_MARK))
    return uses


def _above(cells: Mapping[tuple[int, int], Mapping[str, Any]], below: Below, figures: list[str]) -> list[Use]:
    """The part of what the layer below gives that is lost in the machine above it."""
    uses = []
    for place, share in _quotients(cells, below.cells).items():
        figures.append(f"{_size(place)}: {_share(share)} of what {below.name} gives on {below.host} arrives")
        low, high = (None if end is None else 1 - end for end in (share.high, share.low))
        words = (
            f"{_percent(1 - share.value)} of what {below.name} gives on {below.host} at {_size(place)} is lost above it"
        )
        uses.append(Use(MACHINE, words, low, high, ABOVE_MARK))
    return uses


def beside(
    cells: Mapping[tuple[int, int], Mapping[str, Any]], other: str, others: Mapping[tuple[int, int], Mapping[str, Any]]
) -> list[str]:
    """Lines that compare a layer with another layer of its kind."""
    lines = []
    for place, share in _quotients(cells, others).items():
        word = "too uncertain to judge"
        if share.low is not None and share.high is not None:
            if ALIKE[0] <= share.low and share.high <= ALIKE[1]:
                word = "alike"
            elif share.high < ALIKE[0] or share.low > ALIKE[1]:
                word = "less" if share.high < ALIKE[0] else "more"
        lines.append(f"{_size(place)}: {_share(share)} of what {other} gives, {word}")
    return lines


def _quotients(
    cells: Mapping[tuple[int, int], Mapping[str, Any]], others: Mapping[tuple[int, int], Mapping[str, Any]]
) -> dict[tuple[int, int], Interval]:
    """{workload: rate of a layer as a share of the other's rate}, where both were measured. Its interval is rather too wide."""
    shares = {}
    for place, key in ((RATE, "iops"), (STREAM, "bandwidth_bytes_s")):
        mine, theirs = (interval(each.get(place, {}).get(key, ())) for each in (cells, others))
        if mine is not None and theirs is not None:
            shares[place] = mine.over(theirs)
    return shares


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _share(share: Interval) -> str:
    if share.low is None or share.high is None:
        return _percent(share.value)
    return f"{_percent(share.value)} ({100 * share.low:.0f} to {_percent(share.high)})"


def _size(place: tuple[int, int]) -> str:
    size = f"{place[0] // KIB} KiB" if place[0] < 1024 * KIB else f"{place[0] // 1024 // KIB} MiB"
    return f"{size}, {place[1]} at a time"


def _figure(place: tuple[int, int], cell: Mapping[str, Any]) -> str:
    rates, waits = interval(cell.get("iops", ())), interval(cell.get("latency_mean_ns", ()))
    if rates is None or waits is None:
        return ""
    return f"{_size(place)}: {_between(rates)}, {units.latency(waits.value)} each"


def _between(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return f"{units.significant(figure.value)} IOPS"
    return (
        f"{units.significant(figure.value)} IOPS ({units.significant(figure.low)} to {units.significant(figure.high)})"
    )


def _bytes_s(figure: Interval) -> str:
    return f"{units.significant(figure.value / 1e6)} MB/s of 1 MiB"


# ---------------------------------------------------------------- a run


def of_run(
    layers: Mapping[str, Layer],
    results: Sequence[Mapping[str, Any]],
    ways: Mapping[str, Mapping[str, Mapping[str, str]]],
    networks: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """A diagnosis of each measured layer, the lower ones first. ways: {host: {address: {before, after}}}, the two looks of each host at the servers of its
    layers; networks: what the network alone carried, where the collection reaches both of its ends."""
    names = dict.fromkeys(result["layer"] for result in results if result["layer_kind"] != "ceiling")
    cells = {name: measured(results, name) for name in names}
    answers: dict[str, dict[str, Any]] = {}
    for name in sorted(names, key=lambda name: len(_parents(layers, name))):
        layer = layers[name]
        path = _way(layer, ways.get(str(layer["host"]), {}), networks)
        ceilings = [
            result for result in results if result["layer_kind"] == "ceiling" and result["host"] == layer["host"]
        ]
        ceiling = measured(ceilings, ceilings[0]["layer"]) if ceilings else {}
        below = _below(layers, name, cells, answers)
        answer = diagnosis(layer, cells[name], ceiling, path, below)
        if below and link(layers, layer) == DECLARED:
            answer["figures"].append(f"{name} is declared to be on {layer['parent']}; nothing proves it")
        peer = next((other for other in answers if layers[other]["kind"] == layer["kind"]), None)
        if peer and not below:
            answer["figures"] += beside(cells[name], peer, cells[peer])
        answers[name] = {**answer, "path": path}
    return list(answers.values())


def _way(
    layer: Layer, looks: Mapping[str, Mapping[str, str]], networks: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The way to the server of a layer as network_path has it, with what the network alone carried; None where the layer is on no server."""
    address = str((layer.get("detail") or {}).get("server") or "") or _portal(layer)
    if not address:
        return {"note": "its layer does not name a server"} if _remote(layer) else None
    look = looks.get(address)
    path = network_path(look["before"], look["after"]) if look else {"note": "it was not looked at"}
    for line in networks:
        if line["host"] == layer["host"] and line["address"] == address and "from_target_bits_s" in line:
            path["carried_bits_s"] = line["from_target_bits_s"]
    return path


def _parents(layers: Mapping[str, Layer], name: str) -> list[str]:
    """The layers below a layer, the nearest first. Layers of a damaged file may be on each other, and end the list."""
    chain: list[str] = []
    parent = layers[name].get("parent")
    while parent and parent in layers and parent not in chain:
        chain.append(parent)
        parent = layers[parent].get("parent")
    return chain


def _below(
    layers: Mapping[str, Layer],
    name: str,
    cells: Mapping[str, Mapping[tuple[int, int], Mapping[str, Any]]],
    answers: Mapping[str, Mapping[str, Any]],
) -> Below | None:
    """The nearest layer below that was measured, where only the machine is between: in a guest, or on the same host."""
    layer = layers[name]
    parent = next((other for other in _parents(layers, name) if other in answers), None)
    if parent is None or not (layer["kind"] == "guest" or layers[parent]["host"] == layer["host"]):
        return None
    return Below(parent, str(layers[parent]["host"]), cells[parent], answers[parent])


def _remote(layer: Layer) -> bool:
    """Whether the layer may be on a server: all but a disk, and a folder of a file system that is on a disk."""
    detail = layer.get("detail") or {}
    if detail.get("provider") != "existing":
        return True
    return detail.get("existing") != "device" and detail.get("filesystem") not in ON_DISKS


def _portal(layer: Layer) -> str:
    portal = (layer.get("detail") or {}).get("portal")
    if isinstance(portal, dict):
        return str(portal.get("address") or "")
    return re.sub(r":\d+$", "", str(portal)).strip("[]") if portal else ""


QUESTION = "Is it the storage, the network or the machine?"


def lines(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The printed answer: a line per layer, and its reasons."""
    result = []
    for answer in answers:
        result.append(
            f"{answer['layer']} on {answer['host']}: {answer['answer'].upper()}. {answer['why'][:1].upper()}{answer['why'][1:]}."
        )
        result += [f"  - {figure}" for figure in answer["figures"]]
        result += [f"  - not seen: {line}" for line in answer["unseen"]]
    return result or ["Nothing was measured, so there is no answer."]


def page(testbed_id: str, run_id: str, answers: Sequence[Mapping[str, Any]]) -> str:
    """The page diagnosis.md of a run."""
    text = [f"# {QUESTION}", "", f"Testbed {testbed_id}, run {run_id}.", ""]
    for answer in answers:
        text += [
            f"## {answer['layer']} on {answer['host']}: {answer['answer']}",
            "",
            f"{answer['why'][:1].upper()}{answer['why'][1:]}.",
            "",
        ]
        text += [f"- {figure}" for figure in answer["figures"]]
        if answer["unseen"]:
            text += ["", "Not seen:", "", *(f"- {line}" for line in answer["unseen"])]
        text.append("")
    return "\n".join(text if answers else [*text, "Nothing was measured, so there is no answer.", ""])


def as_json(answers: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(answers, indent=1, sort_keys=True) + "\n"
