# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""elbencho: its arguments, its refusals, and its output, which elbencho 3.1-10 wrote on a file of 64 MiB in memory (fixtures/elbencho)."""

from __future__ import annotations

import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import elbencho
from ansible_collections.storlab.testbed.plugins.module_utils.engines.catalogue import ENGINES
from ansible_collections.storlab.testbed.plugins.module_utils.engines.engine import Place
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise

MIB = 1 << 20
ENGINE = ENGINES["elbencho"]
COMMON = (
    "--lat --lathisto --jsonfile elbencho.json --csvfile /dev/null --resfile /dev/null "
    "--livecsv stdout --liveint 1000 --nolive --nopathexp /dev/sdz"
)


def job(path: str = "/dev/sdz", size_bytes: int = 96 * MIB, **said) -> dict:
    workload = normalise({"ramp_s": 0, "runtime_s": 7, "block_size": "4k", **said})
    return {"point_id": "a.1", "layer": "a", "path": path, "size_bytes": size_bytes, "seed": 3, "workload": workload}


def text(name: str) -> str:
    return (places.FIXTURES / "elbencho" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"queue_depth": 9, "workers": 3},
            "-r -b 4096 -t 3 --iodepth 9 --rand --timelimit 7 --infloop --direct -s 100663296",
        ),
        (
            {"read_percent": 70, "random_percent": 0, "direct": False},
            "-w --rwmixpct 70 -b 4096 -t 1 --iodepth 1 --timelimit 7 --infloop -s 100663296",
        ),
        (
            {"read_percent": 0, "range": {"size_bytes": "8m"}, "engine_options": {"elbencho": {"zones": 1}}},
            "-w -b 4096 -t 1 --iodepth 1 --rand --timelimit 7 --infloop --zones 1 --direct -s 8388608",
        ),
    ],
)
def test_a_point_is_a_command_line(said, words):
    point = job(**said)
    ENGINE.check(point)
    start = ENGINE.command([point], Place("/run/x"))
    assert " ".join(start["arguments"]) == f"{words} {COMMON}"
    assert start["job"] == {"elbencho.txt": f"elbencho {words} {COMMON}\n"} and start["files"] == {}


@pytest.mark.parametrize(("direct", "more"), [(True, "--direct"), (False, "--sync")])
def test_a_layer_is_written_in_blocks_that_it_consists_of(direct, more):
    make, point = ENGINE.fill(job(size_bytes=5 * MIB + 4096, direct=direct), MIB, passes=2)
    words = f"-w -b 4096 -t 1 --iodepth 4 -i 2 {more} -s 5246976"
    assert " ".join(make(Place("/run/x"))["arguments"]) == f"{words} {COMMON}"
    assert point["least_bytes"] == 2 * (5 * MIB + 4096)


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        ({"ramp_s": 2}, "ramp_s"),
        ({"random_percent": 40}, "random_percent"),
        ({"block_size": {"4k": 50, "8k": 50}}, "block_size"),
        ({"alignment": "8k"}, "alignment"),
        ({"range": {"offset_bytes": "1m"}}, "range.offset_bytes"),
        ({"distribution": "zipf:1.2"}, "distribution"),
        ({"think_time_us": 5}, "think_time_us"),
        ({"rate_iops": 100}, "rate_iops"),
        ({"rate_bytes_s": "1m"}, "rate_bytes_s"),
        ({"read_percent": 0, "sync": {"fsync_every": 2}}, "sync"),
        ({"read_percent": 0, "verify": "md5"}, "verify"),
        ({"loops": 2}, "loops"),
        ({"io_bytes": "4m"}, "io_bytes"),
        ({"read_percent": 0, "data": {"pattern": "zero"}}, "data"),
        ({"engine_options": {"elbencho": {"treefile": "/etc/passwd"}}}, "engine_options.elbencho.treefile"),
    ],
)
def test_what_it_cannot_do_is_refused(said, variable):
    with pytest.raises(Failure) as caught:
        ENGINE.check(job(**said))
    assert (caught.value.code, caught.value.details["variable"]) == ("workload_unsupported", variable)
    assert caught.value.remedy


@pytest.mark.parametrize("path", ["/srv/a[1-4]", "-x", "/srv/a b", None])
def test_a_path_that_it_would_read_otherwise_is_refused(path):
    with pytest.raises(Failure) as caught:
        ENGINE.check(job(path=path))
    assert caught.value.code == "bad_value"


def test_reads_are_read():
    (result,) = ENGINE.results(text("read.json"))
    total = result["total"]
    assert (result["engine"], result["failures"]) == ({"name": "elbencho", "version": "3.1-10"}, [])
    assert (result["runtime_s"], total["bytes"], total["ios"]) == (2.085, 349237248, 85263)
    assert "write" not in result and total["iops"] == pytest.approx(85263 / 2.085)
    assert total["latency_mean_ns"] == 180_000
    assert sum(result["latency_bins"]["counts"]) == 85263
    # One microsecond more than the bin says, because whole ones are counted.
    assert 0 < total["latency_p50_lower_ns"] < total["latency_p50_upper_ns"] <= total["latency_max_ns"]
    assert all(
        high - low >= 1000 for low, high in zip(result["latency_bins"]["lower"], result["latency_bins"]["upper"])
    )


def test_a_mix_has_both_directions():
    (result,) = ENGINE.results(text("mixed.json"))
    assert (result["read"]["bytes"], result["write"]["bytes"]) == (336297984, 143802368)
    assert result["total"]["ios"] == (336297984 + 143802368) // 8192
    assert result["read"]["ios"] / result["total"]["ios"] == pytest.approx(0.7, abs=0.02)


def test_every_pass_of_a_fill_counts_and_its_other_phases_do_not():
    results = ENGINE.results(text("fill.json"))
    assert [result["write"]["bytes"] for result in results] == [64 * MIB, 64 * MIB]


@pytest.mark.parametrize(
    "content",
    ["", "{}", '{"phase_type": "SYNC"}', '{"phase_type": "READ"', '{"phase_type": "READ", "config": {}}', "[]"],
)
def test_what_holds_no_figures_is_a_failure(content):
    with pytest.raises(Failure) as caught:
        elbencho.results(content)
    assert caught.value.code == "no_result"


def test_both_directions_are_shown_while_it_runs():
    printed = text("mixed.live").encode()
    assert ENGINE.live(printed) == (9801.0 + 22850, float(76 + 178 << 20))
    # A line that is cut off, and the headline alone, say nothing.
    both = printed.index(b"20:44:39.810")
    assert ENGINE.live(printed[: both - 5]) == (7845.0 + 18413, float(61 + 143 << 20))
    assert ENGINE.live(printed.split(b"\n")[0] + b"\n") == (None, None)


def test_an_engine_is_named_in_its_file_in_the_list_and_in_its_docs():
    rooms = ("plugins", "roles", "playbooks", "inventories", "docs")
    files = [
        path
        for room in rooms
        for path in (places.ROOT / room).rglob("*")
        if path.suffix in (".py", ".yml", ".md", ".json", ".j2")
    ]
    written = {"docs/words.md", "docs/schema/storlab.testbed.schema.json"}  # by a program
    named = {
        str(path.relative_to(places.ROOT)) for path in files if "elbencho" in path.read_text("utf-8").lower()
    } - written
    assert named == {
        "plugins/module_utils/engines/elbencho.py",
        "plugins/module_utils/engines/catalogue.py",
        "docs/engines.md",
    }
