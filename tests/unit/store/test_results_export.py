# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports, read back by the parsers of others where there are some, and by the grammar of the format where there are none."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import export, store
from fixtures.report import make_fixture
from plays import play
from prometheus_client.parser import text_string_to_metric_families

BASE = {
    "schema": "storlab.result/1",
    "testbed_id": "lab",
    "run_id": "one",
    "layer_kind": "backing",
    "engine": {"name": "fio", "version": "3.33", "latency": "total"},
    "workload": {"block_size_bytes": 4096, "read_percent": 70, "direct": True},
    "repetition": 1,
}
MEASURED = {
    **BASE,
    "point_id": "a.4k.r1",
    "layer": "backing-a",
    "host": "target01",
    "workload_id": "4k",
    "status": "measured",
    "failures": [],
    "flags": ["buffered_io", "not_filled"],
    "started_utc": "2026-11-21T10:00:00Z",
    "finished_utc": "2026-11-21T10:00:10.000123Z",
    "runtime_s": 10,
    "read": {
        "ios": 7000,
        "bytes": 2867200,
        "iops": 70.25,
        "bandwidth_bytes_s": 286720,
        "latency_mean_ns": 1234.5,
        "latency_p99_ns": 4567,
    },
    "total": {
        "ios": 90000,
        "bytes": 3686400,
        "iops": 90.75,
        "bandwidth_bytes_s": 368640,
        "latency_mean_ns": 1300,
        "latency_p99_9_ns": 7890,
    },
    "cpu": {"user_percent": 12.5, "host_busy_percent": 50, "us_per_io": 3.25, "mhz_per_iops": 0.015},
    "errors": {"total": 0},
    "steady_state": {"steady": True},
}
# As bad as names can be made.
ODD = {
    **MEASURED,
    "point_id": 'b,=" \\x.r2',
    "host": "two words",
    "repetition": 2,
    "variant": "line\nbreak",
    "status": "failed",
    "failures": [{"code": "no_io", "message": "a"}, {"code": "too_short", "message": "b"}],
    "flags": [],
}
STOPPED = {
    **BASE,
    "point_id": "c.4k.r3",
    "layer": "backing-a",
    "host": "target01",
    "workload_id": "4k",
    "status": "failed",
    "repetition": 3,
    "flags": [],
    "failures": [{"code": "stopped", "message": "Ended."}],
}


# ---------------------------------------------------------------- tables


def test_csv_read_back():
    rows = list(csv.DictReader(io.StringIO(export.as_csv([MEASURED, ODD, STOPPED]).decode(), newline="")))
    assert [row["point_id"] for row in rows] == ["a.4k.r1", 'b,=" \\x.r2', "c.4k.r3"]
    assert float(rows[0]["read_latency_p99_ns"]) == 4567
    assert float(rows[0]["total_iops"]) == 90.75
    assert (rows[0]["flags"], rows[1]["failure_codes"], rows[0]["direct"], rows[0]["steady"]) == (
        "buffered_io;not_filled",
        "no_io;too_short",
        "true",
        "true",
    )
    assert (rows[0]["write_ios"], rows[0]["errors_total"], rows[2]["errors_total"]) == ("", "0", "")
    assert rows[1]["variant"] == "line\nbreak"


def test_columns_are_a_promise():
    """Their names and order may only grow at the end: people have tables with them."""
    names = [column for column, _where, _kind in export.COLUMNS]
    assert names[:16] == [
        "testbed_id",
        "run_id",
        "point_id",
        "layer",
        "layer_kind",
        "host",
        "path",
        "workload_id",
        "repetition",
        "variant",
        "order",
        "status",
        "failure_codes",
        "flags",
        "started_utc",
        "finished_utc",
    ]
    assert names[28:32] == ["read_ios", "read_bytes", "read_iops", "read_bandwidth_bytes_s"]
    assert names[67:76] == [
        "errors_total",
        "cpu_user_percent",
        "cpu_system_percent",
        "host_busy_percent",
        "host_steal_percent",
        "cpu_us_per_io",
        "cpu_mhz_per_iops",
        "steady",
        "raw_sha256",
    ]
    assert len(set(names)) == len(names)


def test_jsonl_read_back():
    lines = export.as_jsonl([MEASURED, ODD]).decode().splitlines()
    assert [json.loads(line) for line in lines] == [MEASURED, ODD]


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is large and optional")
def test_parquet_read_back():
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(io.BytesIO(export.as_parquet([MEASURED, ODD, STOPPED])))
    assert read.column("total_latency_p99_9_ns").to_pylist() == [7890.0, 7890.0, None]
    assert read.column("repetition").to_pylist() == [1, 2, 3]
    assert {str(read.schema.field(name).type) for name in ("read_ios", "repetition")} == {"int64"}
    assert read.column_names == [column for column, _where, _kind in export.COLUMNS]
    assert pyarrow.parquet.read_table(io.BytesIO(export.as_parquet([]))).num_rows == 0
    assert export.as_parquet([MEASURED]) == export.as_parquet([MEASURED])


def test_parquet_without_its_package_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Failure, match="Install pyarrow") as caught:
        export.as_parquet([MEASURED])
    assert caught.value.code == "package_missing"


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"repetition": "one"}, "repetition"),
        ({"repetition": 1.5}, "repetition"),
        ({"total": {"ios": 1 << 63}}, "total_ios"),
        ({"host": 5}, "host"),
        ({"runtime_s": float("inf")}, "runtime_s"),
        ({"flags": "none"}, "flags"),
        ({"flags": [1]}, "flags"),
        ({"workload": {"direct": 1}}, "direct"),
        ({"order": True}, "order"),
    ],
)
def test_what_is_of_another_kind_is_refused(change, column):
    with pytest.raises(Failure, match=f"as {column}, which is no") as caught:
        export.as_csv([{**MEASURED, **change}])
    assert caught.value.code == "result_unreadable"


# ---------------------------------------------------------------- Prometheus


def families(rows: list) -> dict:
    """By prometheus_client's own parser: {name: {(point_id, direction): value}}, and {} for what has no point."""
    point_ids = {
        (row["layer"], row["workload_id"], str(row["repetition"]), row.get("variant")): row["point_id"] for row in rows
    }
    names = ("layer", "workload_id", "repetition", "variant")
    found = {}
    for family in text_string_to_metric_families(export.as_prometheus(rows).decode()):
        assert (family.type, bool(family.documentation)) == ("gauge", True)
        found[family.name] = {
            (point_ids[tuple(map(sample.labels.get, names))], sample.labels.get("direction")): sample.value
            for sample in family.samples
            if "layer" in sample.labels
        }
        assert len(found[family.name]) == (0 if family.name == "storlab_run_info" else len(family.samples))
    return found


def series(text: bytes) -> set:
    """What a server keeps for ever: the names and labels."""
    return {line.rpartition(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")}


def test_another_run_makes_no_new_series_but_the_one_that_names_it():
    later = [{**row, "run_id": "two", "read": {**MEASURED["read"], "iops": 71.5}} for row in (MEASURED, ODD)]
    before, after = (series(export.as_prometheus(rows)) for rows in ([MEASURED, ODD], later))
    assert before ^ after == {f'storlab_run_info{{testbed_id="lab",run_id="{run_id}"}}' for run_id in ("one", "two")}
    assert len(before) > 20
    before, after = (
        {line.split(" ")[0] for line in export.as_influx([row]).decode().splitlines()} for row in (MEASURED, later[0])
    )
    assert before == after != set()


def test_prometheus_read_back():
    found = families([MEASURED, ODD, STOPPED])
    assert found["storlab_iops"][("a.4k.r1", "read")] == 70.25
    assert found["storlab_latency_p99_seconds"] == {
        ("a.4k.r1", "read"): pytest.approx(4.567e-6),
        (ODD["point_id"], "read"): pytest.approx(4.567e-6),
    }
    assert found["storlab_bandwidth_bytes_per_second"][(ODD["point_id"], "total")] == 368640
    assert found["storlab_measured"] == {("a.4k.r1", None): 1, (ODD["point_id"], None): 0, ("c.4k.r3", None): 0}
    assert found["storlab_host_cpu_busy_ratio"][("a.4k.r1", None)] == 0.5
    assert found["storlab_host_cpu_hertz_per_iops"][("a.4k.r1", None)] == 15000
    assert found["storlab_host_cpu_seconds_per_io"][("a.4k.r1", None)] == pytest.approx(3.25e-6)
    assert found["storlab_finished_timestamp_seconds"][("a.4k.r1", None)] == pytest.approx(
        datetime(2026, 11, 21, 10, 0, 10, 123, tzinfo=timezone.utc).timestamp()
    )


def test_prometheus_labels_survive():
    (sample,) = [
        sample
        for family in text_string_to_metric_families(export.as_prometheus([ODD]).decode())
        for sample in family.samples
        if family.name == "storlab_measured"
    ]
    assert sample.labels == {
        "testbed_id": "lab",
        "layer": "backing-a",
        "layer_kind": "backing",
        "host": "two words",
        "workload_id": "4k",
        "repetition": "2",
        "variant": "line\nbreak",
        "engine": "fio",
    }


def test_prometheus_has_no_time_stamps_and_every_metric_its_type():
    lines = export.as_prometheus([MEASURED, STOPPED]).decode().splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z_0-9]+\{.*\} [0-9.e+-]+", line) for line in samples)
    assert {line.partition("{")[0] for line in samples} == {
        line.split()[2] for line in lines if line.startswith("# TYPE ")
    }
    assert not any("_ns" in line.partition("{")[0] or "_percent" in line.partition("{")[0] for line in samples)


# ---------------------------------------------------------------- InfluxDB


KEY = r"(?:[^,= \n\\]|\\[,= ]|\\(?![,= ]))+"
FIELD = r'(?:"(?:[^"\\]|\\["\\])*"|-?\d+i|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|true|false)'
LINE = re.compile(
    rf"(?P<measurement>{KEY})(?P<tags>(?:,{KEY}={KEY})*) (?P<fields>{KEY}={FIELD}(?:,{KEY}={FIELD})*) (?P<time>\d+)"
)


def influx(rows: list) -> list:
    """[(measurement, tags, fields, time)] by the grammar of the line protocol, written apart from the code under test."""
    found = []
    for line in export.as_influx(rows).decode().splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        tags = [
            re.fullmatch(rf"({KEY})=({KEY})", pair).groups() for pair in re.findall(rf",({KEY}={KEY})", match["tags"])
        ]
        fields = re.findall(rf"({KEY})=({FIELD})", match["fields"])
        assert [name for name, _text in tags] == sorted(name for name, _text in tags)
        found.append(
            (
                match["measurement"],
                {name: re.sub(r"\\([,= ])", r"\1", text) for name, text in tags},
                dict(fields),
                int(match["time"]),
            )
        )
    return found


def test_influx_read_back():
    point, read, total = influx([MEASURED])
    assert [point[0], read[0], total[0]] == ["storlab_point", "storlab", "storlab"]
    assert (read[1]["direction"], total[1]["direction"]) == ("read", "total")
    assert (read[2]["ios"], read[2]["iops"], total[2]["latency_p99_9_ns"]) == ("7000i", "70.25", "7890.0")
    assert [line[2]["run_id"] for line in (point, read, total)] == ['"one"'] * 3
    assert point[2]["point_id"] == '"a.4k.r1"'
    assert (point[2]["measured"], point[2]["errors_total"], point[2]["runtime_s"], point[2]["failure_codes"]) == (
        "true",
        "0i",
        "10.0",
        '""',
    )
    assert {line[3] for line in (point, read, total)} == {
        int(datetime(2026, 11, 21, 10, 0, 10, tzinfo=timezone.utc).timestamp()) * 10**9 + 123_000
    }


def test_influx_escapes():
    odd = {**ODD, "variant": "a=b,c d"}
    point = influx([odd])[0]
    assert (point[1]["variant"], point[1]["host"]) == ("a=b,c d", "two words")
    assert point[2]["point_id"] == r'"b,=\" \\x.r2"'
    assert (point[2]["measured"], point[2]["failure_codes"]) == ("false", '"no_io;too_short"')


@pytest.mark.parametrize("name", ["line\nbreak", "ends in \\"])
def test_influx_refuses_what_it_cannot_hold(name):
    with pytest.raises(Failure, match="line protocol cannot hold"):
        export.as_influx([{**MEASURED, "variant": name}])


def test_influx_fields_are_of_one_type_each():
    """InfluxDB refuses a field that was a number before and is an integer now."""
    kinds: dict = {}
    for measurement, _tags, fields, _time in influx(
        [MEASURED, {**MEASURED, "runtime_s": 1.5, "read": {**MEASURED["read"], "iops": 70, "latency_mean_ns": 5}}]
    ):
        for name, text in fields.items():
            kinds.setdefault((measurement, name), set()).add(text[-1] if text[-1] in 'i"e' else "number")
    assert all(len(kind) == 1 for kind in kinds.values())


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:00.500+01:00", 500_000_000),
        ("1970-01-01T00:00:02", 2 * 10**9),
    ],
)
def test_times(text, nanoseconds):
    assert export.time_ns({"finished_utc": text}) == nanoseconds


def test_a_time_that_is_none_is_refused():
    with pytest.raises(Failure) as caught:
        export.as_influx([{**MEASURED, "finished_utc": "yesterday"}])
    assert caught.value.code == "result_unreadable"


@pytest.mark.parametrize("kind", sorted(set(export.WRITERS) - {"parquet"}))
def test_no_rows(kind):
    text = export.WRITERS[kind]([]).decode()
    assert text.count("\n") == (1 if kind == "csv" else 0)


# ---------------------------------------------------------------- the task


@pytest.fixture
def results(tmp_path) -> Path:
    make_fixture.write_run(str(tmp_path / "results"), 1, 2)
    return tmp_path / "results"


def export_task(tmp_path: Path, *options: str, **arguments) -> dict:
    return play(tmp_path, {"storlab.testbed.results_export": arguments}, *options)[0]


def test_task_writes_once_and_then_finds_nothing_to_do(tmp_path, results):
    arguments = {
        "results_dir": str(results),
        "testbed_id": "embedded",
        "format": "csv",
        "dest": str(tmp_path / "out.csv"),
    }
    shown = export_task(tmp_path, "--check", "--diff", **arguments)
    assert shown["changed"] and not (tmp_path / "out.csv").exists()
    assert shown["diff"]["after"].startswith("testbed_id,run_id,")
    first = export_task(tmp_path, **arguments)
    assert (first["changed"], first["points"], first["damaged"], first["left_out"]) == (True, 12, [], [])
    content = (tmp_path / "out.csv").read_bytes()
    assert len(content) == first["bytes"]
    wanted = {row["point_id"]: row["total"]["iops"] for row in store.open_run(first["run_dir"]).rows}
    assert {
        row["point_id"]: float(row["total_iops"]) for row in csv.DictReader(io.StringIO(content.decode()))
    } == wanted
    assert not export_task(tmp_path, **arguments)["changed"]
    assert (tmp_path / "out.csv").read_bytes() == content


def test_task_full_lines_hold_the_histograms(tmp_path, results):
    export_task(
        tmp_path,
        results_dir=str(results),
        testbed_id="embedded",
        format="jsonl",
        full=True,
        dest=str(tmp_path / "out.jsonl"),
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line in lines:
        path = results / "embedded" / make_fixture.RUN_ID / "points" / line["point_id"] / "result.json"
        assert line == json.loads(path.read_text())


def test_task_lists_what_is_damaged_and_what_has_no_time(tmp_path, results):
    points = results / "embedded" / make_fixture.RUN_ID / "points"
    names = sorted(path.name for path in points.iterdir())
    (points / names[0] / "result.json").write_text("{")
    unfinished = json.loads((points / names[1] / "result.json").read_text())
    del unfinished["finished_utc"]
    (points / names[1] / "result.json").write_text(json.dumps(unfinished))
    found = export_task(tmp_path, run_dir=str(points.parent), format="influx", dest=str(tmp_path / "out.line"))
    assert ([item["file"] for item in found["damaged"]], found["left_out"], found["points"]) == (
        [f"points/{names[0]}/result.json"],
        [names[1]],
        10,
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"format": "csv", "full": True}, "bad_value"),
        ({"format": "csv", "dest": "."}, "bad_value"),
        ({"format": "csv", "dest": "nowhere/out.csv"}, "export_unwritable"),
        ({"format": "csv", "run_dir": "nowhere"}, "run_missing"),
    ],
)
def test_task_says_what_is_wrong(tmp_path, results, arguments, code):
    run_dir = results / "embedded" / make_fixture.RUN_ID
    changed = {key: str(tmp_path / found) if key in ("dest", "run_dir") else found for key, found in arguments.items()}
    found = export_task(tmp_path, **{"run_dir": str(run_dir), "dest": str(tmp_path / "out"), **changed})
    assert (found["failed"], found["failure"]["code"]) == (True, code)
    assert not (tmp_path / "out").exists()
