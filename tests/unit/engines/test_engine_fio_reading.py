# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's output of every kind: versions 2.21 to 3.42, client/server, damage, and merging against what fio itself merged.

fixtures/fio/versions was printed by fio of that version, built from its sources.
"""

from __future__ import annotations

import json

import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.result import result

FIXTURES = places.FIXTURES / "fio"
VERSIONS = ("2.21", "3.1", "3.12", "3.36", "3.42")
SERVERS = [
    {"host": "blue", "address": "127.0.0.1", "port": 18765},
    {"host": "green", "address": "127.0.0.1", "port": 18766},
]


def text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8", errors="surrogateescape")


def raw_records(name: str) -> list:
    """The job records as a plain JSON reader sees them."""
    document = json.loads(text(name)[text(name).index("{") :])
    return document.get("jobs") or document["client_stats"]


def told_latency(raw: dict, version: str) -> tuple:
    """(the object that mean and deviation are of, bins, percentiles) of a direction, by hand for each version."""
    if version == "2.21":
        return raw["lat"], raw["clat"].get("bins"), raw["clat"]["percentile"]
    if version in ("3.1", "3.12"):
        # The distribution of total latency was put under clat; from 3.2 on its bins are under lat, from 3.13 on all of it.
        return (
            raw["lat_ns"],
            raw["lat_ns"].get("bins") or raw["clat_ns"].get("bins"),
            raw["clat_ns"]["percentile"] or raw["lat_ns"]["percentile"],
        )
    return raw["lat_ns"], raw["lat_ns"].get("bins"), raw["lat_ns"].get("percentile")


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["local_{}.json", "clients_{}.txt"])
def test_every_version_is_read(version, kind):
    name = f"versions/{kind.format(version)}"
    found, scale = fio.results(text(name)), 1000 if version == "2.21" else 1
    records = [record for record in raw_records(name) if record["jobname"] != "All clients"]
    assert len(found) == len(records) == 2
    for one, record in zip(found, records):
        assert (one["status"], one["failures"], one["engine"]["version"]) == ("measured", [], version)
        for direction in ("read", "write"):
            raw, got = record[direction], one[direction]
            whole, bins, percentiles = told_latency(raw, version)
            assert (got["ios"], got["iops"], got["bytes"]) == (raw["total_ios"], raw["iops"], raw["io_bytes"])
            assert got["bandwidth_bytes_s"] == pytest.approx(raw["io_bytes"] / raw["runtime"] * 1000, rel=0.02)
            assert got["latency_mean_ns"] == pytest.approx(whole["mean"] * scale)
            if bins:
                assert got["histogram"]["bins"] == {str(int(key) * scale): bins[key] for key in sorted(bins, key=int)}
            for key, name_ns in (
                ("50.000000", "latency_p50_ns"),
                ("95.000000", "latency_p95_ns"),
                ("99.900000", "latency_p99_9_ns"),
            ):
                if percentiles and key in percentiles:
                    assert got[name_ns] == percentiles[key] * scale


@pytest.mark.parametrize("version", ["3.1", "3.12"])
def test_where_the_distribution_stands_under_completion_it_is_still_of_total_latency(version):
    record = raw_records(f"versions/plain_{version}.json")[0]["read"]
    one = fio.results(text(f"versions/plain_{version}.json"))[0]
    told = {**record["clat_ns"]["percentile"], **record["lat_ns"].get("percentile", {})}
    assert one["engine"]["latency"] == "total"
    assert one["read"]["latency_mean_ns"] == record["lat_ns"]["mean"] != record["clat_ns"]["mean"]
    assert one["read"]["latency_p95_ns"] == told["95.000000"]


def test_clients_of_the_newest_version_merge_to_what_fio_merged():
    """From 3.39 on fio itself gives the distribution over all clients."""
    name = "versions/clients_3.42.txt"
    everybody = next(record for record in raw_records(name) if record["jobname"] == "All clients")
    _clients, merged, _missing = fio.client_results(text(name))
    for direction in ("read", "write"):
        assert merged[direction]["histogram"]["bins"] == everybody[direction]["lat_ns"]["bins"]
        for percent, key in result.PERCENTILES.items():
            assert merged[direction][key] == everybody[direction]["lat_ns"]["percentile"][f"{percent:f}"]


def test_one_job_merged_over_its_directions_is_what_fio_merged():
    """unified_rw_reporting=both: fio prints read, write and both together of the same I/O."""
    record = raw_records("unified_both.json")[0]
    (one,) = fio.results(text("unified_both.json"))
    bins = one["total"]["histogram"]["bins"]
    assert bins == record["mixed"]["lat_ns"]["bins"]
    assert {f"{percent:f}": one["total"][key] for percent, key in result.PERCENTILES.items()} == record["mixed"][
        "lat_ns"
    ]["percentile"]
    assert one["total"]["latency_mean_ns"] == pytest.approx(record["mixed"]["lat_ns"]["mean"], rel=1e-6)
    assert one["total"]["latency_stddev_ns"] == pytest.approx(record["mixed"]["lat_ns"]["stddev"], rel=1e-6)


# ---------------------------------------------------------------- jobs that did not run together


def test_rates_of_jobs_one_after_another_are_not_added():
    one, other = fio.results(text("stonewall.json"))
    merged = fio.together([one, other])
    assert merged["total"]["ios"] == one["total"]["ios"] + other["total"]["ios"]
    assert "iops" not in merged["total"]
    assert "bandwidth_bytes_s" not in merged["total"]
    assert merged["runtime_s"] == pytest.approx(one["runtime_s"] + other["runtime_s"])


@pytest.mark.parametrize(
    ("spans", "added"),
    [(((0, 1000), (900, 1900)), True), (((0, 1000), (1000, 2000)), False), (((5000, 6000), (0, 4999)), False)],
)
def test_spans_say_whether_jobs_ran_together(spans, added):
    found = [
        {
            "schema": "s",
            "engine": {},
            "group": 0,
            "span_ms": list(span),
            "runtime_s": 1.0,
            "errors": {"total": 0},
            "flags": [],
            "failures": [],
            "total": {"ios": ios, "bytes": 1, "iops": float(ios), "bandwidth_bytes_s": 1.0},
        }
        for ios, span in zip((7, 11), spans)
    ]
    assert fio.together(found)["total"].get("iops") == (18.0 if added else None)


def test_runs_of_one_second_are_runs_of_their_own():
    """Rounds of a job: time goes on, elapsed begins anew. Documents of one run: both go on."""

    def document(milliseconds, elapsed, ios):
        return json.dumps(
            {
                "fio version": "fio-3.33",
                "timestamp": milliseconds // 1000,
                "timestamp_ms": milliseconds,
                "jobs": [
                    {
                        "jobname": "x",
                        "elapsed": elapsed,
                        "read": {
                            "total_ios": ios,
                            "io_bytes": ios * 512,
                            "bw_bytes": 512,
                            "iops": ios,
                            "runtime": 1000,
                        },
                    }
                ],
            }
        )

    rounds = document(10_000, 2, 40) + "\n" + document(11_300, 2, 41) + "\n" + document(12_600, 2, 42)
    assert [one["total"]["ios"] for one in fio.results(rounds)] == [40, 41, 42]
    assert [
        one["total"]["ios"]
        for one in fio.results(document(10_000, 2, 40) + document(11_000, 3, 40) + document(11_020, 3, 40))
    ] == [40]


# ---------------------------------------------------------------- client and server


def test_clients_are_named_and_added():
    servers = [
        {"host": "left", "address": "127.0.0.1", "port": 40593},
        {"host": "right", "address": "127.0.0.1", "port": 37999},
    ]
    clients, everybody, missing = fio.client_results(text("client_server.txt"), servers)
    records = {record["port"]: record for record in raw_records("client_server.txt")[:2]}
    assert ([one["host"] for one in clients], missing) == (["left", "right"], [])
    assert clients[1]["read"]["ios"] == records[37999]["read"]["total_ios"]
    assert everybody["status"] == "measured"
    assert everybody["read"]["iops"] == pytest.approx(sum(record["read"]["iops"] for record in records.values()))
    assert everybody["total"]["ios"] == sum(
        record[name]["total_ios"] for record in records.values() for name in ("read", "write")
    )
    assert "host" not in everybody
    assert everybody["cpu"] == {}


def test_clients_without_names_are_told_apart_by_their_port():
    assert {one["host"] for one in fio.client_results(text("client_server.txt"))[0]} == {
        "127.0.0.1:40593",
        "127.0.0.1:37999",
    }


@pytest.mark.parametrize("name", ["client_lost.txt", "client_timed_out.txt"])
def test_a_client_that_died_is_named_and_fails_the_whole(name):
    clients, everybody, missing = fio.client_results(text(name), SERVERS)
    assert (missing, [(one["host"], one["status"]) for one in clients]) == (
        ["green"],
        [("blue", "measured"), ("green", "failed")],
    )
    assert everybody["status"] == "failed"
    assert [failure["code"] for failure in everybody["failures"]] == ["client_lost"]
    assert everybody["failures"][0]["message"].startswith("green: ")
    assert everybody["read"]["ios"] == clients[0]["read"]["ios"]


@pytest.mark.parametrize("name", ["client_lost.txt", "client_timed_out.txt"])
def test_a_client_that_died_is_a_failed_result_of_the_filter_too(name):
    found = fio.results(text(name))
    assert [one["status"] for one in found] == ["measured", "failed"]
    assert "total" not in found[1]


def test_a_server_that_never_answered_is_missing_although_fio_exits_well():
    servers = [SERVERS[0], {**SERVERS[1], "port": 18777}]
    assert fio.client_results(text("client_refused.txt"), servers)[2] == ["green"]
    assert fio.client_results(text("client_refused.txt"))[2] == ["127.0.0.1"]


def test_a_document_without_clients_is_no_result():
    document = json.dumps({"fio version": "fio-2.21", "client_stats": [], "disk_util": []})
    with pytest.raises(Failure, match="Bad option") as caught:
        fio.client_results("<vm> Bad option <lat_percentiles=1>\n" + document)
    assert caught.value.code == "no_result"


# ---------------------------------------------------------------- damage


def test_carriage_returns_between_lines():
    assert (
        fio.results(text("mixed_group.json").replace("\n", "\r\n"))[0]["total"]
        == fio.results(text("mixed_group.json"))[0]["total"]
    )


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "-inf", "NaN", "Infinity"])
def test_words_for_no_number_are_not_measured(word):
    said = json.dumps(
        {
            "fio version": "fio-3.33",
            "jobs": [
                {
                    "jobname": "a: nan, -inf",
                    "usr_cpu": 3.5,
                    "sys_cpu": 77,
                    "read": {"total_ios": 5, "io_bytes": 5, "iops": 5.0, "bw_bytes": 5, "runtime": 1000},
                }
            ],
        }
    ).replace("77", word)
    (found,) = fio.results('fio: said "nothing\n' + said + "\nnan inf")
    assert found["cpu"] == {"user_percent": 3.5}
    assert found["job_name"] == "a: nan, -inf"


def test_a_truncated_document_is_refused_with_its_place():
    whole = text("mixed_group.json")
    with pytest.raises(Failure, match="begins in line 1 breaks off in line ") as caught:
        fio.results(whole[: len(whole) // 2])
    assert caught.value.code == "no_result"


def test_a_truncated_document_after_a_whole_one_is_not_passed_over():
    whole = text("mixed_group.json")
    with pytest.raises(Failure, match=rf"begins in line {whole.count(chr(10)) + 1} breaks off") as caught:
        fio.results(whole + whole[: len(whole) // 2])
    assert caught.value.code == "fio_output_unreadable"


def test_text_inside_a_document_is_refused():
    with pytest.raises(Failure, match="breaks off in line 31"):
        lines = text("mixed_group.json").splitlines()
        fio.results("\n".join([*lines[:30], "fio: io_u error on file data: Input/output error", *lines[30:]]))


@pytest.mark.parametrize(
    ("there", "twice", "where"),
    [
        ('"iops"', '"iops" : 17.0, "iops"', r"jobs\.0\.read\.iops"),
        ('"jobname"', '"jobname" : "other", "jobname"', r"jobs\.0\.jobname"),
        ('"jobs"', '"jobs" : [], "jobs"', "jobs"),
    ],
)
def test_a_figure_given_twice_is_refused(there, twice, where):
    with pytest.raises(Failure, match=f"gives {where} twice in the document that begins in line 1") as caught:
        fio.results(text("mixed_group.json").replace(there, twice, 1))
    assert caught.value.code == "fio_output_unreadable"


@pytest.mark.parametrize("key", ["iops", "io_bytes", "bw_bytes"])
def test_a_missing_rate_is_refused_and_not_zero(key):
    document = json.loads(text("mixed_group.json"))
    del document["jobs"][0]["read"][key]
    if key == "bw_bytes":
        del document["jobs"][0]["read"]["bw"]
    with pytest.raises(Failure) as caught:
        fio.results(json.dumps(document))
    assert caught.value.code == "fio_output_unreadable"


def test_rates_that_are_not_the_counts_over_the_time_are_not_measured():
    document = json.loads(text("mixed_group.json"))
    document["jobs"][0]["write"]["iops"] *= 1000
    (found,) = fio.results(json.dumps(document))
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == ("failed", ["rates_disagree"])


@pytest.mark.parametrize(
    "bins",
    [
        {"5": 1, "05": 2},
        {"5.5": 1},
        {"-5": 1},
        {"1e3": 1},
        {"5,6": 1},
        {"": 1},
        {"\u0665": 1},
        {"5": 1.5},
        {"5": None},
        {"5": True},
        {"5": -1},
    ],
)
def test_bins_that_could_be_two_things_are_refused(bins):
    document = json.loads(text("mixed_group.json"))
    document["jobs"][0]["read"]["lat_ns"]["bins"] = bins
    with pytest.raises(Failure) as caught:
        fio.results(json.dumps(document))
    assert caught.value.code == "fio_output_unreadable"


# ---------------------------------------------------------------- flushes


def test_how_long_flushes_took_is_read_apart_from_the_writes():
    found = fio.results(text("flushes.json"))
    for one, raw in zip(found, raw_records("flushes.json")):
        told = raw["sync"]["lat_ns"]
        assert one["status"] == "measured" and "sync_latency_unknown" not in one["flags"]
        assert one["sync"]["ios"] == told["N"] == sum(told["bins"].values())
        assert one["sync"]["latency_mean_ns"] == told["mean"]
        for percent, name in (("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99_9")):
            assert one["sync"][f"latency_{name}_ns"] == told["percentile"][percent]
        assert not {"bytes", "iops", "bandwidth_bytes_s"} & set(one["sync"])
        assert one["total"]["ios"] == raw["write"]["total_ios"], "a flush is no I/O"
    # Pairwise apart, so that no other figure was taken for it.
    means = {one[part]["latency_mean_ns"] for one in found for part in ("write", "sync")}
    assert len(means) == 4


def test_flushes_of_several_jobs_are_merged_by_their_histograms():
    raw = [record["sync"]["lat_ns"] for record in raw_records("flushes.json")]
    whole = fio.together(fio.results(text("flushes.json")))
    values = sorted(int(edge) for one in raw for edge, count in one["bins"].items() for _ in range(count))
    assert whole["sync"]["ios"] == len(values)
    assert whole["sync"]["latency_p99_ns"] == values[-(-99 * len(values) // 100) - 1]
    assert whole["sync"]["latency_mean_ns"] == pytest.approx(sum(one["mean"] * one["N"] for one in raw) / len(values))
    assert set(whole["sync"]) & {"bytes", "iops"} == set()


def test_flushes_of_rounds_one_after_another_are_merged():
    found = fio.results(text("flushes.json"))
    whole = result.in_a_row(found)
    assert whole["sync"]["ios"] == sum(one["sync"]["ios"] for one in found)
    assert whole["sync"]["latency_max_ns"] == max(one["sync"]["latency_max_ns"] for one in found)


@pytest.mark.parametrize(
    ("version", "known"),
    [("fio-3.33", (True, True)), ("fio-3.31", (True, True)), ("fio-3.30", (True, False)), ("fio-3.4", (True, False))],
)
def test_flushes_that_fio_does_not_time_truly_are_left_out_and_flagged(version, known):
    """Before 3.31 libaio's took 26 to 44 ns, which is the time from their end to their being counted."""
    found = fio.results(text("flushes.json").replace("fio-3.33", version))
    assert [one["engine"]["ioengine"] for one in found] == ["sync", "libaio"]
    assert tuple("sync" in one for one in found) == known
    assert tuple("sync_latency_unknown" not in one["flags"] for one in found) == known


def test_a_workload_that_does_not_flush_has_no_flushes_and_no_flag():
    (found,) = fio.results(text("mixed_group.json"))
    assert "sync" not in found and "sync_latency_unknown" not in found["flags"]


def test_flushes_counted_before_fio_said_how_many_are_as_many_as_in_their_bins():
    document = json.loads(text("flushes.json"))
    del document["jobs"][0]["sync"]["lat_ns"]["N"]
    document["jobs"][0]["sync"]["total_ios"] = 0
    document["fio version"] = "fio-3.12"
    assert fio.results(json.dumps(document))[0]["sync"]["ios"] == 400
