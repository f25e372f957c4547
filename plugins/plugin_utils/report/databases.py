# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads of a database in a report: all repetitions of one layer, variant and load as a row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...module_utils.core import units
from ...module_utils.result import histogram
from ...module_utils.result.result import PERCENTILES
from ...module_utils.result.schema import Result
from ..store.database import is_database, title_of
from .tables import Field, Table, cell, words

# The transactions whose latencies are in the table: all, and the one that NOPM counts.
KINDS = ("total", "new_order")
RATES: tuple[Literal["tpm", "nopm"], ...] = ("tpm", "nopm")
SHOWN = ("latency_p50_ns", "latency_p95_ns", "latency_p99_ns")


def loads(results: list[Result]) -> list[dict[str, Any]]:
    """[{layer, workload_id, workload, driver, repetitions, tpm, tpm_low, tpm_high, nopm …, failed, retried, latency: {total, new_order}, device}].

    TPM and NOPM are medians of the repetitions, percentiles are of all their transactions, and what the device did is a mean.
    """
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if is_database(result) and result["status"] == "measured":
            groups.setdefault((result["layer"], result["workload_id"]), []).append(result)
    return [_load(group) for _key, group in sorted(groups.items())]


def _load(group: list[Result]) -> dict[str, object]:
    rates = {}
    for name in RATES:
        values = [result[name] for result in group]
        rates.update({name: statistics.median(values), f"{name}_low": min(values), f"{name}_high": max(values)})
    # HammerDB says rates, and nothing of single transactions.
    logged = [result["transactions"] for result in group if "transactions" in result]
    latency: dict[str, Any] = {kind: dict.fromkeys(SHOWN) for kind in KINDS}
    for kind in KINDS if logged else ():
        parts = [transactions[kind] for transactions in logged]
        bins = histogram.merge(part["histogram"]["bins"] for part in parts if "histogram" in part)
        quantiles = histogram.percentiles(bins, PERCENTILES, ordered=True)
        latency[kind] = {name: quantiles[percent] for percent, name in PERCENTILES.items() if name in SHOWN}
    return {
        "layer": group[0]["layer"],
        "workload_id": group[0]["workload_id"],
        "workload": group[0]["workload"],
        "driver": group[0]["engine"]["name"],
        "repetitions": len(group),
        "points": [result["point_id"] for result in group],
        **rates,
        **{
            key: sum(transactions["total"][key] for transactions in logged) if logged else None
            for key in ("failed", "retried")
        },
        "latency": latency,
        "device": _device(group),
    }


def _device(group: list[Result]) -> dict[str, Any]:
    """{read_iops, write_iops, write_bytes_s} of the layer's disk; empty where it does not count."""
    counted = [result.get("counters") or {} for result in group]
    if not all((counters.get("device") or {}).get("read") and counters.get("interval_s") for counters in counted):
        return {}
    rates = {
        "read_iops": [each["device"]["read"]["ios"] / each["interval_s"] for each in counted],
        "write_iops": [each["device"]["write"]["ios"] / each["interval_s"] for each in counted],
        "write_bytes_s": [each["device"]["write"]["bytes"] / each["interval_s"] for each in counted],
    }
    return {name: statistics.fmean(values) for name, values in rates.items()}


def published(record: dict[str, Any], known: Sequence[Mapping[str, object]] = ()) -> list[dict[str, object]]:
    """[{where, note, and tpm, nopm where given}] of what others have published of such a load, each once.

    record: of a run, whose requests say it. known: what is known beside it, as a request says it.
    """
    figures = list(known)
    for request in record.get("requests") or []:
        figures += (request.get("published") if isinstance(request, dict) else None) or []
    places: dict[tuple[str, str], dict[str, Any]] = {}
    for figure in figures:
        if isinstance(figure, dict) and figure.get("metric") in RATES and isinstance(figure.get("value"), (int, float)):
            where, note = (str(figure.get(key) or "") for key in ("where", "note"))
            places.setdefault((where, note), {"where": where, "note": note})[figure["metric"]] = figure["value"]
    return list(places.values())


def describe(workload: dict[str, Any]) -> str:
    isolation = str(workload["isolation"]).replace("_", " ")
    named = f"{title_of(workload)}, " if "database" in workload or "driver" in workload else ""
    named += "rows and driver of HammerDB, " if "driver" in workload else ""
    return f"{named}{workload['warehouses']} warehouses, {workload['virtual_users']} virtual users, {isolation}"


def driven(rows: list[dict[str, Any]]) -> str:
    """'pgbench on a PostgreSQL': by what the loads were issued, each once."""
    return " and by ".join(dict.fromkeys(f"{row['driver']} on a {title_of(row['workload'])}" for row in rows))


def sentence(load: dict[str, Any]) -> str:
    return f"{load['layer']} does {load['tpm']:.0f} TPM and {load['nopm']:.0f} NOPM with {describe(load['workload'])}."


def table(rows: list[dict[str, Any]], figures: list[dict[str, Any]]) -> Table | None:
    """figures: what others have published, below the measured ones; None where there is nothing to compare."""
    head = [
        ("Layer", False),
        ("Load", False),
        ("TPM", True),
        ("NOPM", True),
        ("NOPM, lowest", True),
        ("highest", True),
        ("p50", True),
        ("p99", True),
        ("New-Order p99", True),
        ("Tried again", True),
        ("Given up", True),
        ("Reads/s", True),
        ("Writes/s", True),
        ("Written", True),
        ("Repetitions", True),
    ]
    fields = [("", row["layer"], [words(describe(row["workload"])), *_figures(row)]) for row in rows]
    for figure in figures if rows else ():
        values = [
            cell(value, f"{value:.0f}") if (value := figure.get(name)) is not None else words("") for name in RATES
        ]
        described = words(f"published{'; ' if figure['note'] else ''}{figure['note']}")
        fields.append(("", figure["where"], [described, *values, *[words("")] * (len(head) - 4)]))
    return Table("Database loads", head, fields) if fields else None


def beside(figures: list[dict[str, object]], rows: list[dict[str, object]]) -> Table | None:
    """Published figures, one per row, beside the measured ones; None where nothing was published.

    figures: as published makes them. rows: [{layer, workload_id, tpm, nopm}], empty where no load was measured.
    """
    layers = [row["layer"] for row in rows]
    columns = [
        row["layer"] if layers.count(row["layer"]) == 1 else f"{row['layer']}, {row['workload_id']}" for row in rows
    ]
    head = [
        ("Metric", False),
        ("What", False),
        ("Where", False),
        ("Published", True),
        *((column, True) for column in columns or ["Measured"]),
    ]
    fields = []
    for figure in figures:
        for name in (name for name in RATES if name in figure):
            values = [words(figure["note"]), words(figure["where"]), cell(figure[name], f"{figure[name]:.0f}")]
            values += [cell(row[name], f"{row[name]:.0f}") for row in rows] or [words("not measured", "n absent")]
            fields.append(("", name.upper(), values))
    return Table("Published database loads", head, fields, "published") if fields else None


def _figures(row: dict[str, Any]) -> list[Field]:
    latency, device = row["latency"], row["device"]
    return [
        *(cell(row[name], f"{row[name]:.0f}") for name in ("tpm", "nopm", "nopm_low", "nopm_high")),
        *(
            cell(latency[kind][name], units.latency(latency[kind][name]))
            for kind, name in (
                ("total", "latency_p50_ns"),
                ("total", "latency_p99_ns"),
                ("new_order", "latency_p99_ns"),
            )
        ),
        *(cell(row[name], str(row[name])) for name in ("retried", "failed")),
        *(cell(device.get(name), units.iops(device.get(name))) for name in ("read_iops", "write_iops")),
        cell(device.get("write_bytes_s"), units.bandwidth(device.get("write_bytes_s"))),
        cell(row["repetitions"], str(row["repetitions"])),
    ]
