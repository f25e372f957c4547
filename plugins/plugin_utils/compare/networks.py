# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of the network alone, in words, and how much of it a layer used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils.core import units

# Where the I/O of a layer goes over the network, and from which direction of it.
OVER_NETWORK = ("initiator", "datastore")
WAYS = {"read": "from_target_bits_s", "write": "to_target_bits_s"}


def rate(bits_s: float) -> str:
    """9412345678 -> '9.41 Gbit/s'."""
    if bits_s >= 1e9:
        return f"{units.significant(bits_s / 1e9)} Gbit/s"
    return f"{units.significant(bits_s / 1e6)} Mbit/s"


def link(line: dict[str, Any]) -> str:
    return f"{line['host']} to {line['target']} ({line['address']})"


def sentence(line: dict[str, Any]) -> str:
    """One line of network.jsonl: 'client01 to target01 (192.0.2.11): the network carried 9.41 Gbit/s there and 9.38 Gbit/s back, …'."""
    if "note" in line:
        return f"{link(line)}: the network alone was not measured ({line['note'].rstrip('.')})."
    return (
        f"{link(line)}: the network alone carried {rate(line['to_target_bits_s'])} there and {rate(line['from_target_bits_s'])} back, "
        f"in {units.latency(line['round_trip_ns'])} there and back."
    )


def used(
    line: dict[str, Any], lines: Sequence[Mapping[str, object]], rates: Iterable[tuple[str, str, str, str, float]]
) -> dict[str, Any] | None:
    """{share, layer, workload, way} of the point that used most of a link; None where nothing is known of it.

    rates: (host, layer, workload, 'read' or 'write', bytes per second) of points measured over the network. For a host with several links it is unknown
    which way its I/O went, and a share of one of them would be made up.
    """
    if "note" in line or sum(other["host"] == line["host"] for other in lines) != 1:
        return None
    shares = [
        {"share": 8 * bytes_s / line[WAYS[way]], "layer": layer, "workload": workload, "way": way}
        for host, layer, workload, way, bytes_s in rates
        if host == line["host"] and way in WAYS
    ]
    return max(shares, key=lambda each: each["share"], default=None)
