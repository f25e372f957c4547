# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored results in the formats of other tools. Pure: rows of the store in, bytes out; the same rows give the same bytes.

Formats: RFC 4180 (CSV), jsonlines.org, Apache Parquet by pyarrow, Prometheus text exposition format 0.0.4
(prometheus.io/docs/instrumenting/exposition_formats), InfluxDB line protocol (docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.result.derived import thin
from ...module_utils.result.result import DIRECTIONS, PARTS, PERCENTILES
from ...module_utils.workload import words
from .spreadsheet import harmless
from .store import value

ANY_DIRECTION = (*DIRECTIONS, "total")
# In every table of ours by these names and in this order. New ones are added at the end; none is ever renamed or taken away.
FIGURES = {
    "ios": "int",
    "bytes": "int",
    "iops": "float",
    "bandwidth_bytes_s": "float",
    "latency_mean_ns": "float",
    "latency_min_ns": "float",
    "latency_max_ns": "float",
    "latency_stddev_ns": "float",
    **dict.fromkeys(PERCENTILES.values(), "float"),
}
# (column, where the row has it, kind)
COLUMNS = [
    ("testbed_id", "testbed_id", "text"),
    ("run_id", "run_id", "text"),
    ("point_id", "point_id", "text"),
    ("layer", "layer", "text"),
    ("layer_kind", "layer_kind", "text"),
    ("host", "host", "text"),
    ("path", "path", "text"),
    ("workload_id", "workload_id", "text"),
    ("repetition", "repetition", "int"),
    ("variant", "variant", "text"),
    ("order", "order", "int"),
    ("status", "status", "text"),
    ("failure_codes", "failures", "codes"),
    ("flags", "flags", "names"),
    ("started_utc", "started_utc", "text"),
    ("finished_utc", "finished_utc", "text"),
    ("runtime_s", "runtime_s", "float"),
    ("wall_s", "wall_s", "float"),
    ("engine", "engine.name", "text"),
    ("engine_version", "engine.version", "text"),
    ("ioengine", "engine.ioengine", "text"),
    ("latency_of", "engine.latency", "text"),
    *((name, f"workload.{name}", kind) for name, kind in words.columns()),
    *(
        (f"{direction}_{figure}", f"{direction}.{figure}", kind)
        for direction in ANY_DIRECTION
        for figure, kind in FIGURES.items()
    ),
    ("errors_total", "errors.total", "int"),
    ("cpu_user_percent", "cpu.user_percent", "float"),
    ("cpu_system_percent", "cpu.system_percent", "float"),
    ("host_busy_percent", "cpu.host_busy_percent", "float"),
    ("host_steal_percent", "cpu.host_steal_percent", "float"),
    ("cpu_us_per_io", "cpu.us_per_io", "float"),
    ("cpu_mhz_per_iops", "cpu.mhz_per_iops", "float"),
    ("steady", "steady_state.steady", "bool"),
    ("raw_sha256", "raw.sha256", "text"),
    *(
        (f"sync_{figure}", f"sync.{figure}", kind)
        for figure, kind in FIGURES.items()
        if figure == "ios" or figure.startswith("latency_")
    ),
    ("stall_total_s", "stall.total_s", "float"),
    ("stall_longest_s", "stall.longest_s", "float"),
]
LARGEST = 1 << 63
# The keys of a series. Neither the run nor the point's name, which holds nothing else: a series that begins again with each run makes the
# server's index grow for ever, and no two runs would be on one line.
TAGS = (
    "testbed_id",
    "layer",
    "layer_kind",
    "host",
    "workload_id",
    "repetition",
    "variant",
    "engine",
)
# Figure: (metric, factor to its base unit, what it is). Base units and names as prometheus.io/docs/practices/naming has them.
METRICS = {
    "ios": ("storlab_ios", 1, "I/Os that completed."),
    "bytes": ("storlab_bytes", 1, "Bytes of the I/Os that completed."),
    "iops": ("storlab_iops", 1, "I/Os per second."),
    "bandwidth_bytes_s": ("storlab_bandwidth_bytes_per_second", 1, "Bytes a second."),
    **{
        figure: (
            f"storlab_{figure[: -len('_ns')]}_seconds",
            1e-9,
            f"Latency: {figure[len('latency_') : -len('_ns')].replace('_', '.')}.",
        )
        for figure in FIGURES
        if figure.endswith("_ns")
    },
}
POINT_METRICS = {
    "runtime_s": ("storlab_runtime_seconds", 1, "Time that was measured, without the ramp."),
    "errors_total": ("storlab_errors", 1, "I/O errors."),
    "cpu_user_percent": ("storlab_engine_cpu_user_ratio", 0.01, "User time of the engine's threads, 1 is one core."),
    "cpu_system_percent": (
        "storlab_engine_cpu_system_ratio",
        0.01,
        "System time of the engine's threads, 1 is one core.",
    ),
    "host_busy_percent": ("storlab_host_cpu_busy_ratio", 0.01, "Busy share of all cores of the measured host."),
    "host_steal_percent": (
        "storlab_host_cpu_steal_ratio",
        0.01,
        "Share of the cores that the host's hypervisor took away.",
    ),
    "cpu_us_per_io": ("storlab_host_cpu_seconds_per_io", 1e-6, "Processor time of the measured host for one I/O."),
    "cpu_mhz_per_iops": (
        "storlab_host_cpu_hertz_per_iops",
        1e6,
        "Clock of the measured host's busy cores for one I/O per second.",
    ),
}


def table(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """The rows as lists of cells in the order of COLUMNS; None where nothing was measured."""
    return [[_cell(row, column, where, kind) for column, where, kind in COLUMNS] for row in map(_supported, rows)]


def _supported(row: dict[str, Any]) -> dict[str, Any]:
    """The row without percentiles that too few I/Os are beyond."""
    parts = {name: row[name] for name in PARTS if isinstance(row.get(name), dict)}
    gone = {name: few for name, part in parts.items() if (few := thin(part, PERCENTILES))}
    return {
        **row,
        **{name: {key: parts[name][key] for key in parts[name] if key not in few} for name, few in gone.items()},
    }


def _cell(row: dict[str, object], column: str, where: str, kind: str) -> Any:
    content = value(row, where)
    if content is None:
        return None
    if kind in ("codes", "names"):
        content = (
            [item.get("code") if isinstance(item, dict) else item for item in content]
            if isinstance(content, list)
            else [None]
        )
        if all(isinstance(name, str) for name in content):
            return ";".join(content) or None
    elif (kind == "bool" and isinstance(content, bool)) or (kind == "text" and isinstance(content, str)):
        return content
    elif (
        kind in ("int", "float")
        and isinstance(content, (int, float))
        and not isinstance(content, bool)
        and math.isfinite(content)
    ):
        if kind == "float":
            return float(content)
        if content == int(content) and -LARGEST <= content < LARGEST:
            return int(content)
    raise Failure(
        "result_unreadable",
        f"Point {row.get('point_id')} has {str(content)[:80]!r} as {column}, which is no {kind}.",
        "Measure the point again or remove its folder.",
        point_id=row.get("point_id"),
        column=column,
    )


def _named(rows: list[dict[str, object]]) -> list[dict[str, Any]]:
    """The rows as mappings from column to cell, without the empty ones."""
    names = [column for column, _where, _kind in COLUMNS]
    return [{name: cell for name, cell in zip(names, cells) if cell is not None} for cells in table(rows)]


# ---------------------------------------------------------------- tables


def as_csv(rows: list[dict[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([column for column, _where, _kind in COLUMNS])
    writer.writerows(
        [
            ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else harmless(cell) for cell in cells]
            for cells in table(rows)
        ]
    )
    return _utf8(text.getvalue())


def as_jsonl(results: Sequence[Mapping[str, object]]) -> bytes:
    """Rows, or whole results, one a line."""
    return b"".join(_utf8(json.dumps(result, sort_keys=True, separators=(",", ":")) + "\n") for result in results)


def as_parquet(rows: list[dict[str, object]]) -> bytes:
    try:
        import pyarrow  # not needed for anything else, and large
        import pyarrow.parquet
    except ImportError as error:
        raise Failure(
            "package_missing",
            "Parquet needs the Python package pyarrow, which the controller does not have.",
            "Install pyarrow into the Python that runs Ansible, or choose another format.",
            package="pyarrow",
        ) from error
    kinds = {"int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(column, kinds.get(kind, pyarrow.string())) for column, _where, kind in COLUMNS])
    columns = list(zip(*table(rows))) or [()] * len(COLUMNS)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table([pyarrow.array(cells, field.type) for cells, field in zip(columns, schema)], schema=schema), sink
    )
    return sink.getvalue()


# ---------------------------------------------------------------- time series


def as_prometheus(rows: list[dict[str, object]]) -> bytes:
    """Gauges without a time stamp, which the textfile collector and the push gateway refuse; when a point ended is a gauge of its own.

    Which run it is says the label of storlab_run_info alone, as is the custom for what changes from time to time.
    """
    points, lines = _named(rows), []

    def family(name: str, text: str, samples: list[tuple[dict[str, str], float]]) -> None:
        if samples:
            lines.extend([f"# HELP {name} {text}", f"# TYPE {name} gauge"])
            lines.extend(f"{name}{{{_labels(labels)}}} {number!r}" for labels, number in samples)

    for figure, (name, factor, text) in METRICS.items():
        family(
            name,
            text,
            [
                ({**_tags(point), "direction": direction}, _scaled(point[f"{direction}_{figure}"], factor))
                for point in points
                for direction in PARTS
                if f"{direction}_{figure}" in point
            ],
        )
    for column, (name, factor, text) in POINT_METRICS.items():
        family(name, text, [(_tags(point), _scaled(point[column], factor)) for point in points if column in point])
    runs = sorted({(point["testbed_id"], point["run_id"]) for point in points})
    family(
        "storlab_run_info",
        "Always 1; the run that the other figures are of.",
        [({"testbed_id": testbed_id, "run_id": run_id}, 1) for testbed_id, run_id in runs],
    )
    family(
        "storlab_measured",
        "1 when the point was measured, 0 when it failed.",
        [(_tags(point), int(point["status"] == "measured")) for point in points],
    )
    family(
        "storlab_finished_timestamp_seconds",
        "When the point ended, in seconds since 1970.",
        [(_tags(point), time_ns(point) / 1e9) for point in points if "finished_utc" in point],
    )
    return _utf8("\n".join([*lines, ""]))


def _scaled(number: float, factor: float) -> float:
    # Divided, because 1e-9 is not exactly what it says and 1e9 is.
    return number if factor == 1 else number / round(1 / factor) if factor < 1 else number * factor


def _tags(point: Mapping[str, object]) -> dict[str, str]:
    return {name: str(point[name]) for name in TAGS if name in point}


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def as_influx(rows: list[dict[str, object]]) -> bytes:
    """One line of ``storlab_point`` for each point and one of ``storlab`` for each of its directions, at the time the point ended.

    Rows without that time must be left out before: a line without a time stamp would get the time at which it is read.
    """
    lines = []
    for point in _named(rows):
        at, tags = time_ns(point), _tags(point)
        fields = {column: point[column] for column in ("runtime_s", "wall_s", *POINT_METRICS) if column in point}
        fields.update({"measured": point["status"] == "measured", "failure_codes": point.get("failure_codes", "")})
        fields.update({"run_id": point["run_id"], "point_id": point["point_id"]})
        lines.append(_line("storlab_point", tags, fields, at))
        for direction in PARTS:
            fields = {figure: point[f"{direction}_{figure}"] for figure in FIGURES if f"{direction}_{figure}" in point}
            if fields:
                lines.append(
                    _line("storlab", {**tags, "direction": direction}, {**fields, "run_id": point["run_id"]}, at)
                )
    return _utf8("".join(f"{line}\n" for line in lines))


def _line(measurement: str, tags: dict[str, str], fields: dict[str, Any], at: int) -> str:
    series = ",".join([measurement, *(f"{name}={_tag(name, tags[name])}" for name in sorted(tags) if tags[name])])
    return f"{series} {','.join(f'{name}={_field(field)}' for name, field in fields.items())} {at}"


def _tag(name: str, text: str) -> str:
    if re.search(r"[\r\n]|\\$", text):
        raise Failure(
            "bad_value",
            f"{name} is {text!r}, which InfluxDB's line protocol cannot hold.",
            "Choose another format, or rename it.",
            variable=name,
        )
    return re.sub(r"([,= ])", r"\\\1", text)


def _field(field: bool | float | str) -> str:
    if isinstance(field, bool):
        return str(field).lower()
    if isinstance(field, int):
        return f"{field}i"
    if isinstance(field, float):
        return repr(field)
    escaped = field.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def time_ns(point: dict[str, Any]) -> int:
    """When the point ended, in ns since 1970, exactly."""
    text = point["finished_utc"]
    try:
        # Python before 3.11 does not read the Z.
        moment = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text))
    except ValueError as error:
        raise Failure(
            "result_unreadable",
            f"Point {point.get('point_id')} has {text!r} as finished_utc.",
            "Measure the point again or remove its folder.",
            point_id=point.get("point_id"),
            column="finished_utc",
        ) from error
    since = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - datetime(
        1970, 1, 1, tzinfo=timezone.utc
    )
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def _utf8(text: str) -> bytes:
    # Text of a tool in no known encoding must not stop the rest.
    return text.encode("utf-8", "backslashreplace")


WRITERS = {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet, "prometheus": as_prometheus, "influx": as_influx}
