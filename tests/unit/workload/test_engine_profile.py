# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles: those that are shipped are sound and run by the real fio; those that a user writes are read or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import places
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.module_utils.workload.description import describe
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import workload_id
from unchanged import refused

SHIPPED = places.ROOT / "roles" / "benchmark" / "files" / "profiles"
NAMES = sorted(path.stem for path in SHIPPED.glob("*.yml"))


def shipped(name: str) -> dict:
    return profile.find(name, [str(SHIPPED)], yaml.safe_load)


def test_all_are_found():
    assert profile.names([str(SHIPPED)]) == NAMES
    assert len(NAMES) > 25


@pytest.mark.parametrize("name", NAMES)
def test_shipped_profile_is_complete(name):
    found = shipped(name)
    assert (found["name"], found["version"]) == (name, "1.0")
    assert found["title"] and found["description"] and found["source"]
    assert len({workload_id(workload) for workload in found["workloads"]}) == len(found["workloads"]) > 0


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("e1_iometer_4k", 2),
        ("e2_block_sweep", 44),
        ("e2_numjobs", 12),
        ("e3_vmfs_rdm", 45),
        ("e4_server_side_cache", 3),
        ("e5_depth_threads", 72),
        ("e5_sequential", 2),
        ("snia_iops", 56),
        ("snia_latency", 9),
        ("first_look", 4),
        ("four_corners", 4),
        ("iometer_forum", 4),
        ("vmfleet_general", 3),
    ],
)
def test_number_of_workloads(name, count):
    assert len(shipped(name)["workloads"]) == count


def test_the_first_look_is_short():
    """Three rounds on the six layers of two Linux hosts take five minutes of measuring."""
    seconds = sum(workload["ramp_s"] + workload["runtime_s"] for workload in shipped("first_look")["workloads"])
    assert 6 * 3 * seconds <= 300


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("e1_iometer_4k", "4 KiB 80 % random, 80 % read, queue depth 1, 1 worker"),
        ("e4_server_side_cache", "1 MiB sequential read, queue depth 32, 16 workers"),
        (
            "etcd_fsync",
            "2.25 KiB sequential write, queue depth 1, 1 worker, through the page cache, fdatasync after 1 write, fio options ioengine=sync",
        ),
        (
            "sql_oltp",
            "8 KiB random, 70 % read, queue depth 32, 4 workers, "
            "95 % of I/O on 5 % of space, 4 % of I/O on 10 % of space, 1 % of I/O on 85 % of space, O_DSYNC",
        ),
    ],
)
def test_what_a_profile_says(name, words):
    assert describe(shipped(name)["workloads"][0]) == words


@pytest.mark.parametrize(
    ("name", "value", "workload"),
    [
        ("e1_iometer_4k", 80000, {"block_size_bytes": 4096}),
        ("e2_block_sweep", 1364, {"block_size_bytes": 4 << 20, "read_percent": 0, "random_percent": 0}),
        ("e2_numjobs", 618000, {"workers": 4, "random_percent": 100, "read_percent": 100}),
        ("e5_sequential", 14, {"read_percent": 0}),
    ],
)
def test_published_figures_say_which_workload_they_are_of(name, value, workload):
    (figure,) = [one for one in shipped(name)["published"] if one["value"] == value]
    assert figure["workload"] == workload


# ---------------------------------------------------------------- a user's

MINE = {
    "name": "mine",
    "version": "2",
    "title": "Mine",
    "source": [{"title": "me", "read": "memory"}],
    "workload": {"block_size": "16k"},
}


def write(directory: Path, content, name: str = "mine") -> str:
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.yml").write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(directory)


def test_a_file_in_a_directory_is_a_profile(tmp_path):
    found = profile.find("mine", [str(SHIPPED), write(tmp_path, MINE)], yaml.safe_load)
    assert [workload_id(workload) for workload in found["workloads"]] == ["16k-r100-rnd100-qd1-w1"]


def test_the_last_directory_counts(tmp_path):
    first, last = write(tmp_path / "a", {**MINE, "title": "first"}), write(tmp_path / "b", {**MINE, "title": "last"})
    assert profile.find("mine", [first, last], yaml.safe_load)["title"] == "last"
    assert profile.find("mine", [last, first, str(tmp_path / "missing")], yaml.safe_load)["title"] == "first"


def test_sweep_and_exclusion(tmp_path):
    content = {
        **MINE,
        "sweep": {"queue_depth": [1, 4], "read_percent": [100, 0]},
        "exclude": [{"queue_depth": 4, "read_percent": 0}],
    }
    found = profile.find("mine", [write(tmp_path, content)], yaml.safe_load)
    assert [(one["queue_depth"], one["read_percent"]) for one in found["workloads"]] == [(1, 100), (1, 0), (4, 100)]


def test_a_day_without_quotes_is_a_day(tmp_path):
    text = yaml.safe_dump({**MINE, "source": []}).replace("source: []", "source: [{title: x, read: 2026-11-20}]")
    assert profile.find("mine", [write(tmp_path, text)], yaml.safe_load)["source"] == [
        {"title": "x", "read": "2026-11-20"}
    ]


def test_an_unknown_name_is_told_the_known_ones(tmp_path):
    folder = write(tmp_path, MINE)
    with refused(tmp_path, match=r"no profile other\. Use one of mine, or put other\.yml into a directory") as caught:
        profile.find("other", [folder], yaml.safe_load)
    assert caught.value.code == "profile_unknown"


@pytest.mark.parametrize("name", ["../mine", "Mine", "", None, "a.b", "-x"])
def test_a_name_is_no_path(name):
    with pytest.raises(Failure) as caught:
        profile.find(name, [str(SHIPPED)], yaml.safe_load)
    assert caught.value.code == "bad_value"


@pytest.mark.parametrize("text", ["name: [", "\tname: x", "a: b: c", "name: !!python/object:os.system x"])
def test_a_damaged_file_is_one_sentence(tmp_path, text):
    folder = write(tmp_path, text)
    with refused(tmp_path) as caught:
        profile.find("mine", [folder], yaml.safe_load)
    assert caught.value.code == "profile_unreadable"
    assert "mine.yml cannot be read as YAML" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "mine.yml").write_bytes(b"name: \xff\xfe")
    with refused(tmp_path) as caught:
        profile.find("mine", [str(tmp_path)], yaml.safe_load)
    assert caught.value.code == "profile_unreadable"


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"name": "other"}, "name"),
        ({"version": 1.0}, "version"),
        ({"version": "new"}, "version"),
        ({"title": ""}, "title"),
        ({"title": None}, "title"),
        ({"description": ["x"]}, "description"),
        ({"source": []}, "source"),
        ({"source": [{"title": "x"}]}, "source[0].read"),
        ({"source": [{"title": "x", "read": "yesterday"}]}, "source[0].read"),
        ({"source": [{"title": "x", "read": "memory", "url": "file:///etc/passwd"}]}, "source[0].url"),
        ({"source": [{"title": "x", "read": "memory", "by": "me"}]}, "source[0].by"),
        ({"published": [{"metric": "iops", "value": "many", "unit": "IOPS", "where": "here"}]}, "published[0].value"),
        ({"published": [{"metric": "iops", "value": 5, "where": "here"}]}, "published[0].unit"),
        (
            {"published": [{"metric": "iops", "value": 5, "unit": "IOPS", "where": "here", "limit": "least"}]},
            "published[0].limit",
        ),
        ({"published": {}}, "published"),
        (
            {
                "published": [
                    {"metric": "iops", "value": 5, "unit": "IOPS", "where": "x", "workload": {"block_size": "16k"}}
                ]
            },
            "published[0].workload.block_size",
        ),
        (
            {
                "published": [
                    {"metric": "iops", "value": 5, "unit": "IOPS", "where": "x", "workload": {"block_size_bytes": 512}}
                ]
            },
            "published[0].workload",
        ),
        (
            {"published": [{"metric": "iops", "value": 5, "unit": "IOPS", "where": "x", "workload": "16k"}]},
            "published[0].workload",
        ),
        ({"workload": {"block_size": "4x"}}, "workload.block_size"),
        ({"workload": None}, "workload"),
        ({"workloads": [{}]}, "workload"),
        ({"sweep": {"queue_depth": 4}}, "sweep.queue_depth"),
        ({"exclude": [{"queue_depth": 9}]}, "exclude[0]"),
        ({"tags": ["x"]}, "tags"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, variable):
    folder = write(tmp_path, {**MINE, **change})
    with refused(tmp_path) as caught:
        profile.find("mine", [folder], yaml.safe_load)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_profile", variable)
    assert str(tmp_path / "mine.yml") in str(caught.value)


@pytest.mark.parametrize("content", ["", "- 1", "text", "5"])
def test_what_is_no_mapping_is_refused(tmp_path, content):
    folder = write(tmp_path, content)
    with refused(tmp_path) as caught:
        profile.find("mine", [folder], yaml.safe_load)
    assert caught.value.code == "bad_profile"
