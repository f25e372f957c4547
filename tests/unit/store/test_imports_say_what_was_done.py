# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a file of somebody else says outranks what this collection would have written: nothing is made up, and a contradiction is a failure.

The documents are made here, in the form in which fio writes them; each has figures of its own.
"""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.action import import_results
from ansible_collections.storlab.testbed.plugins.filter.fio_results import FilterModule
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_documents
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import import_files, importer


def direction(ios: int, runtime_ms: int, block: int = 4096, mean_ns: float = 50_000) -> dict:
    seconds = runtime_ms / 1000
    figures = {"min": mean_ns / 2, "max": mean_ns * 4, "mean": mean_ns, "stddev": mean_ns / 3, "N": ios}
    return {
        "io_bytes": ios * block,
        "bw_bytes": round(ios * block / seconds),
        "iops": ios / seconds,
        "runtime": runtime_ms,
        "total_ios": ios,
        "lat_ns": figures,
        "clat_ns": {**figures, "percentile": {"50.000000": 49_000, "99.000000": 99_000}},
    }


def record(options: dict, **more) -> dict:
    return {"jobname": "job", "groupid": 0, "error": 0, "elapsed": 4, "job options": options, **more}


def document(*records: dict, version: str = "fio-3.33", shared: dict | None = None, head: dict | None = None) -> str:
    whole = {**(head or {}), "fio version": version, "timestamp": 1_795_000_000, "timestamp_ms": 1_795_000_000_123}
    return json.dumps({**whole, "global options": shared or {}, "jobs": list(records)}, indent=1)


def point(text: str, name: str = "nas/r.json") -> dict:
    results, unread = importer.points(import_files.read(name, text.encode()), "lab", "run", "nas")
    assert (len(results), unread) == (1, [])
    return results[0]


READ = {"rw": "randread", "bs": "4k", "iodepth": "4", "ioengine": "libaio", "direct": "1"}


def test_a_run_that_ended_by_size_has_no_run_time_of_ours():
    made = point(document(record({**READ, "size": "16M"}, read=direction(4096, 196))))
    assert "runtime_s" not in made["workload"] and made["runtime_s"] == 0.196
    assert made["status"] == "measured"
    timed = point(document(record({**READ, "runtime": "7", "time_based": "1"}, read=direction(4096, 7001))))
    assert timed["workload"]["runtime_s"] == 7


@pytest.mark.parametrize(("runtime", "seconds", "ran_ms"), [("11000ms", 11, 11_001), ("1500ms", 1.5, 1_501)])
def test_a_time_in_milliseconds_is_kept_and_held_against_what_it_took(runtime, seconds, ran_ms):
    options = {**READ, "runtime": runtime, "time_based": "1"}
    made = point(document(record(options, read=direction(5000, ran_ms))))
    assert (made["workload"]["runtime_s"], made["status"], made["failures"]) == (seconds, "measured", [])
    short = point(document(record(options, read=direction(5000, ran_ms // 3))))
    assert [failure["code"] for failure in short["failures"]] == ["too_short"]


def test_depth_without_an_engine_is_what_was_in_flight():
    options = {"rw": "randread", "bs": "4k", "iodepth": "24", "direct": "1"}
    alone = {"iodepth_level": {"1": 100.0, "2": 0.0, "4": 0.0, "8": 0.0, "16": 0.0, "32": 0.0, ">=64": 0.0}}
    deep = {"iodepth_level": {"1": 0.1, "2": 0.1, "4": 0.1, "8": 0.1, "16": 99.6, "32": 0.0, ">=64": 0.0}}
    assert point(document(record(options, read=direction(9000, 1001), **alone)))["workload"]["queue_depth"] == 1
    # Windows' default engine does not wait.
    assert point(document(record(options, read=direction(9000, 1001), **deep)))["workload"]["queue_depth"] == 24
    named = {**options, "ioengine": "io_uring"}
    assert point(document(record(named, read=direction(9000, 1001), **alone)))["workload"]["queue_depth"] == 24


def test_an_offset_and_a_searched_depth_are_workloads_of_their_own():
    more = ({}, {"offset": "32M"}, {"latency_target": "150us", "latency_window": "100ms"})
    texts = [document(record({**READ, **options}, read=direction(7000 + n, 1000))) for n, options in enumerate(more)]
    entries = [entry for n, text in enumerate(texts) for entry in import_files.read(f"dev/{n}.json", text.encode())]
    results, _unread = importer.points(entries, "lab", "run", "dev")
    assert [result["repetition"] for result in results] == [1, 1, 1]
    assert len({result["workload_id"] for result in results}) == 3
    assert [result["workload"]["range"]["offset_bytes"] for result in results] == [0, 32 << 20, 0]


def test_reads_in_a_job_that_writes_fail():
    options = {**READ, "rw": "write", "rate_iops": "300", "group_reporting": "1"}
    made = point(document(record(options, read=direction(900, 3001), write=direction(901, 3001))))
    assert (made["status"], [failure["code"] for failure in made["failures"]]) == ("failed", ["options_contradicted"])
    assert "900 read I/Os were done, but the options ask for write I/O only" in made["failures"][0]["message"]
    assert "group_reporting" in made["failures"][0]["message"]
    # What verification reads back is not the workload's.
    verified = point(
        document(
            record({**READ, "rw": "write", "verify": "crc32c"}, read=direction(900, 3001), write=direction(901, 3001))
        )
    )
    assert verified["status"] == "measured"


@pytest.mark.parametrize(
    ("more", "ios", "fits"),
    [
        ({"rate_iops": "300"}, 905, True),
        ({"rate_iops": "300"}, 1800, False),
        ({"rate_iops": "300", "numjobs": "2"}, 1800, True),
        # Arrivals by chance have no limit.
        ({"rate_iops": "300", "rate_process": "poisson"}, 1800, True),
        # The ramp is made up for.
        ({"rate_iops": "300", "ramp_time": "3"}, 1800, True),
        ({"thinktime": "10000"}, 302, True),
        ({"thinktime": "10000"}, 700, False),
        ({"thinktime": "10000", "thinktime_blocks": "4"}, 700, True),
    ],
)
def test_more_than_a_rate_or_a_pause_allows_fails(more, ios, fits):
    made = point(document(record({**READ, **more}, read=direction(ios, 3001))))
    assert [failure["code"] for failure in made["failures"]] == ([] if fits else ["options_contradicted"])


def test_too_much_in_flight_names_several_sections_where_they_were_grouped():
    crowded = direction(250_000, 3001, mean_ns=750_000)
    grouped, plain = (
        point(document(record({**READ, "iodepth": "32", **more}, read=crowded)))
        for more in ({"group_reporting": "1"}, {})
    )
    assert [failure["code"] for failure in grouped["failures"]] == ["impossible_figures"]
    assert "Several sections that group_reporting put into one record" in grouped["failures"][0]["message"]
    assert "group_reporting" not in plain["failures"][0]["message"]


# ---------------------------------------------------------------- documents in other people's wrapping


def test_a_document_whose_first_keys_are_of_a_wrapper_is_read():
    text = document(record(READ, read=direction(6100, 1002)), head={"benchmark": "nightly", "node": {"name": "n7"}})
    assert point(f"Starting\n{text}\nDone\n")["total"]["ios"] == 6100


def test_a_wrapper_with_the_document_inside_is_read_too():
    inner = document(record(READ, read=direction(6200, 1002)))
    assert point(f'{{\n"node": "n7",\n"result": {inner}\n}}\n')["total"]["ios"] == 6200


def test_other_documents_before_are_passed_over():
    text = document(record(READ, read=direction(6300, 1002)), head={"a": 1})
    assert point('{"level": "info"}\n{"broken": \n' + text)["total"]["ios"] == 6300


def test_a_file_without_a_document_says_so_in_one_sentence():
    with pytest.raises(Failure, match="left no result"):
        fio_documents.parse('{"level": "info"}\n' * 500)


OWN_KEYS = {"benchmark": "nightly", "node": {"name": "n7"}}


def wrapped() -> str:
    return document(record(READ, read=direction(6100, 1002)), head=OWN_KEYS)


@pytest.mark.parametrize("before", ["", "whole"])
def test_a_document_with_keys_of_a_wrapper_that_breaks_off_says_where(before):
    """Also after another that is whole: half of what was measured is not passed over."""
    text = wrapped()
    text = (f"{text}\n" if before else "") + text[: len(text) * 2 // 3]
    last = text.count("\n") + 1
    with pytest.raises(
        Failure, match=rf"is damaged: the document that begins in line \d+ breaks off in line {last}\."
    ) as caught:
        fio_documents.parse(text)
    assert caught.value.code == ("fio_output_unreadable" if before else "no_result")


def test_a_document_with_keys_of_a_wrapper_may_hold_what_is_no_number():
    text = wrapped().replace('"iops_stddev"', '"note": -nan, "iops_stddev"', 1)
    text = text.replace('"node"', '"load": nan, "node"', 1)
    assert point(text)["total"]["ios"] == 6100


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"level": "info", "rows": []}, "whose keys are 'level', 'rows'."),
        ([{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}], "whose keys are 'a', 'b', 'c', 'd', 'e', …."),
        ({"rc": 0, "stdout": "TEXT"}, "holds the output of fio as the text of its key 'stdout'."),
        (
            {"results": [{"stdout_lines": ["{", "TEXT"]}]},
            "holds the output of fio as the text of its key 'stdout_lines'.",
        ),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_of_another_program_is_named_as_that(held, words, indent):
    text = json.dumps(held, indent=indent).replace("TEXT", '\\"fio version\\": 1')
    with pytest.raises(Failure) as caught:
        fio_documents.parse(text)
    assert caught.value.code == "no_result" and words in str(caught.value) and "it says" not in str(caught.value)


@pytest.mark.parametrize("indent", [None, 1])
def test_wrapped_documents_in_a_list_or_in_another_are_read(indent):
    inner = json.loads(wrapped())
    for held in ([inner], {"node": "n7", "result": inner}, {"runs": [inner]}):
        assert point(json.dumps(held, indent=indent))["total"]["ios"] == 6100


HUMAN = """pod: configuration [global]
ioengine=libaio
vol-x: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=libaio, iodepth=8
fio-3.39
Starting 1 process

vol-x: (groupid=0, jobs=1): err= 0: pid=99
  read: IOPS=411, BW=1644KiB/s (1683kB/s)(4932KiB/3000msec)
"""


def test_output_for_people_is_named_with_the_remedy(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "pod.json").write_text(HUMAN, encoding="utf-8")
    entries, unread, _seen = import_results.collect(str(tmp_path / "in"), str(tmp_path / "out"))
    assert entries == []
    (row,) = unread
    assert "output for people" in row["reason"] and "--output-format=json" in row["reason"]


def test_a_fio_that_wrote_no_options_is_named():
    text = document(record({}, read={**direction(50, 1000), "bw": 200}), version="fio-2.2.10")
    results, unread = importer.points(import_files.read("old.json", text.encode()), "lab", "run", "old")
    assert results == []
    assert unread == [
        {"file": "old.json", "reason": "'job': fio 2.2 wrote no options of the job, which fio does from 2.3 on"}
    ]


def test_a_filter_reads_what_an_import_reads():
    text = document(record(READ, read=direction(6400, 1002)), head={"own": "key"})
    read = FilterModule().filters()["fio_results"]
    as_lookup = text.encode("utf-16").decode("utf-8", "surrogateescape")
    inside = f'{{\n"node": "n8",\n"result": {document(record(READ, read=direction(6400, 1002)))}\n}}\n'
    for given in (
        *(text, text.encode(), text.encode("utf-16"), text.encode("utf-16-le"), as_lookup, "\ufeff" + text),
        f"Starting\n{text}\nDone\n",
        '{"level": "info"}\n{"broken": \n' + text,
        inside,
        inside.encode("utf-16"),
    ):
        assert read(given)[0]["total"]["ios"] == 6400
    with pytest.raises(AnsibleFilterError, match="output for people"):
        read(HUMAN)


# ---------------------------------------------------------------- servers

SERVER = "<{0}> vol: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=libaio, iodepth=4\n<{0}> Starting 1 process\n"


def clients(*ports: int) -> str:
    rows = [record(READ, read=direction(3000 + port, 1001), hostname="127.0.0.1", port=port) for port in ports]
    return json.dumps({"fio version": "fio-3.33", "timestamp": 1_795_000_000, "client_stats": rows}, indent=1)


def test_a_server_that_refused_the_job_is_lost():
    text = f"<store-b> error: failed to setup shm segment\n{SERVER.format('store-a')}\n{clients(8765)}"
    made = point(text)
    assert made["status"] == "failed"
    assert [failure["code"] for failure in made["failures"]] == ["client_lost"]
    assert "failed to setup shm segment" in made["failures"][0]["message"]
    assert [client["host"] for client in made["clients"]] == ["127.0.0.1", "store-b"]


def test_a_server_that_started_and_left_nothing_is_lost():
    both = SERVER.format("store-a") + SERVER.format("store-b")
    assert [failure["code"] for failure in point(f"{both}\n{clients(8765)}")["failures"]] == ["client_lost"]
    assert point(f"{both}\n{clients(8765, 8766)}")["failures"] == []


# ---------------------------------------------------------------- when


def starts(text: str) -> dict:
    results, _unread = importer.points(import_files.read("nas/r.json", text.encode()), "lab", "run", "nas")
    return {made["job_name"]: made.get("started_utc") for made in results}


def job(name: str, group: int, ran_ms: int, **more) -> dict:
    return {
        **record({**READ, "filename": f"/dev/{name}"}, read=direction(1000, ran_ms), **more),
        "jobname": name,
        "groupid": group,
    }


def test_a_run_began_its_run_time_before_fio_wrote_the_file():
    # 1 795 000 000 s since 1970 is 11:06:40 of that day; fio stamped 123 ms later.
    assert starts(document(job("vda", 0, 10_023))) == {"vda": "2026-11-18T11:06:30.100Z"}
    # Jobs of later groups waited for it, and those of one group ran together.
    several = document(job("vda", 0, 30_000), job("vdb", 0, 20_000), job("vdc", 1, 7_000))
    assert starts(several) == {
        "vda": "2026-11-18T11:06:03.123Z",
        "vdb": "2026-11-18T11:06:13.123Z",
        "vdc": "2026-11-18T11:06:33.123Z",
    }
    # What fio says itself outranks what follows.
    said = document(job("vda", 0, 30_000, job_start=1_794_999_900_456), version="fio-3.36")
    assert starts(said) == {"vda": "2026-11-18T11:05:00.456Z"}


def test_a_client_stamps_its_start():
    assert point(clients(8765))["started_utc"] == "2026-11-18T11:06:40.000Z"
    assert "finished_utc" not in point(clients(8765))


@pytest.mark.parametrize("stamp", [0, 1 << 33])
def test_a_stamp_that_no_clock_can_have_shown_says_nothing(stamp):
    whole = json.loads(document(job("vda", 0, 10_023)))
    whole.update(timestamp=stamp, timestamp_ms=1000 * stamp)
    assert starts(json.dumps(whole)) == {"vda": None}
    assert "finished_utc" not in point(json.dumps(whole))


def imported(tmp_path, order: str) -> dict:
    """The comparison of two imported folders, whose files were measured in this order, a minute each."""
    sides: dict = {"a": [], "b": []}
    for place, side in enumerate(order):
        whole = json.loads(document(record(READ, read=direction(5000 + 7 * place, 10_001))))
        whole.update(timestamp=1_795_000_000 + 60 * place, timestamp_ms=1_795_000_000_500 + 60_000 * place)
        sides[side] += import_files.read(f"run-{len(sides[side]) + 1}/r.json", json.dumps(whole).encode())
    before, after = (importer.points(entries, "lab", side, "nas")[0] for side, entries in sides.items())
    return comparison.compare(before, after, metrics=["iops"])


@pytest.mark.parametrize(
    ("order", "design", "method"),
    [
        ("abba" * 3, "interleaved", "pairs"),
        ("abababab", "interleaved", "groups"),
        ("aaaabbbb", "blocks", "groups"),
    ],
)
def test_imported_runs_have_a_design(tmp_path, order, design, method):
    made = imported(tmp_path, order)
    assert (made["design"], made["method"]) == (design, method)
