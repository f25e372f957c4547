# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real Windows hosts answer where it is not what one expects; see test_linux_answers.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import host


def part(number: int, letter: str = "", size_bytes: int = 7 << 20, *folders: str) -> dict[str, Any]:
    return {"number": number, "type": "Basic", "size_bytes": size_bytes, "letter": letter, "folders": list(folders)}


def read(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    state = {
        "about": {"product": "x"},
        "disks": [{"number": 3, "partitions": list(parts)}, {"number": 4, "partitions": []}],
    }
    answer = host.without_repeats(state)
    assert answer["about"] == {"product": "x"} and [disk["number"] for disk in answer["disks"]] == [3, 4]
    assert answer["disks"][1]["partitions"] == []
    partitions: list[dict[str, Any]] = answer["disks"][0]["partitions"]
    return partitions


def test_a_partition_that_a_cluster_shows_twice_is_there_once():
    assert read(part(2, "L"), part(2, "L"), part(5)) == [part(2, "L"), part(5)]
    # One of both may not say where it is mounted.
    assert read(part(2), part(2, "L", 7 << 20, "C:\\a")) == [part(2, "L", 7 << 20, "C:\\a")]


def test_two_partitions_stay_two():
    for parts in ([part(1), part(2)], [part(2, "L"), part(2, "L", 9 << 20)], [part(0), part(0)], []):
        assert read(*parts) == parts
    assert host.without_repeats({"about": {}}) == {"about": {}}
