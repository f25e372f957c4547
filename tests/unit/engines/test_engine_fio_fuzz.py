# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is done to fio's output, the reader answers with figures that stand in it or with one sentence: no traceback, no other number."""

from __future__ import annotations

import json
import math

import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_documents
from ansible_collections.storlab.testbed.plugins.module_utils.result import histogram, result
from hypothesis import given, settings
from hypothesis import strategies as st

FIXTURES = places.FIXTURES / "fio"
CODES = {"no_result", "fio_output_unreadable"}
NAMES = [
    "mixed_group.json",
    "four_records.json",
    "client_lost.txt",
    "client_server.txt",
    "unified_both.json",
    "verify_errors.txt",
    "stonewall.json",
    "versions/local_2.21.json",
    "versions/plain_3.1.json",
    "versions/clients_3.42.txt",
]
TEXTS = {name: (FIXTURES / name).read_text(encoding="utf-8", errors="surrogateescape") for name in NAMES}
DOCUMENTS = {name: json.loads(text[text.index("{") : text.rindex("}") + 1]) for name, text in TEXTS.items()}
# What a damaged or foreign document may hold in place of anything.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-1, max_value=1 << 66)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["nan", "0.00", "fio-3.33", "All clients", "127.0.0.1", "1", "05"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["jobs", "read", "bins", "5", "N", "mean"]), below, max_size=3)
    ),
    max_leaves=5,
)
PIECES = ["nan", '"', "}", "{", "\n", "0", "-", ",", "[", "1e999", "fio: pid=1, err=5\n", '"iops" : 5, ', "\x00"]
CASES = settings(max_examples=250)


def read(text: str) -> list:
    """The results, [] when the text is refused as it should be."""
    for reader in (fio.results, fio.client_results):
        try:
            found = reader(text)
        except Failure as failure:
            assert failure.code in CODES
            assert failure.what and failure.remedy
            return []
        for one in found if reader is fio.results else [*found[0], found[1]]:
            check(one)
    return fio.results(text)


def check(one: dict) -> None:
    """What holds of every result by itself."""
    assert one["status"] == ("failed" if one["failures"] else "measured")
    json.dumps(one, allow_nan=False)
    parts = [one[name] for name in ("read", "write", "trim") if name in one]
    if parts:
        assert one["total"]["ios"] == sum(part["ios"] for part in parts)
        assert one["total"]["bytes"] == sum(part["bytes"] for part in parts)
        assert "iops" not in one["total"] or one["total"]["iops"] == pytest.approx(sum(part["iops"] for part in parts))
    for part in [*parts, *([one["total"]] if "total" in one else [])]:
        assert part["ios"] > 0
        assert all(math.isfinite(value) and value >= 0 for key, value in part.items() if key != "histogram")
        if "histogram" in part:
            bins = part["histogram"]["bins"]
            assert list(map(int, bins)) == sorted(set(map(int, bins)))
            for key in result.PERCENTILES.values():
                assert key not in part or bins.get(str(part[key]), 0) > 0


def numbers(value, found: set) -> set:
    """Every number in a document, as a value or as a key."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key.isdecimal():
                found.add(int(key))
            numbers(below, found)
    elif isinstance(value, list):
        for below in value:
            numbers(below, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found.add(value)
    return found


def check_origin(text: str, found: list) -> None:
    """Every figure of a direction stands in the document, in its unit or a thousand times smaller (before 3.0), but for what is reckoned from bins."""
    known: set = set()
    for document in fio_documents.parse(text)[0]:
        numbers(document, known)
    for one in found:
        for name in ("read", "write", "trim"):
            for key, value in one.get(name, {}).items():
                if key not in ("histogram", "bandwidth_bytes_s"):
                    assert value in known or value / 1000 in known or value / 1024 in known, (name, key, value)
            for edge, count in one.get(name, {}).get("histogram", {}).get("bins", {}).items():
                assert (int(edge) in known or int(edge) / 1000 in known) and count in known


@pytest.mark.parametrize("name", NAMES)
def test_untouched_documents_pass_the_same_checks(name):
    found = read(TEXTS[name])
    assert found
    check_origin(TEXTS[name], found)


@CASES
@given(st.sampled_from(NAMES), st.data())
def test_cut_and_pasted_text(name, data):
    """Characters are deleted, repeated, replaced and inserted, and the end is cut off."""
    text = TEXTS[name]
    for _change in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 400)))
        piece = data.draw(st.sampled_from(["", text[start:end] * 2, *PIECES]))
        text = text[:start] + piece + text[end:]
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    found = read(text)
    if found:
        check_origin(text, found)


@CASES
@given(st.sampled_from(NAMES), st.data())
def test_replaced_removed_and_moved_values(name, data):
    """Somewhere in a sound document something else stands, or nothing."""
    document = json.loads(json.dumps(DOCUMENTS[name]))
    for _change in range(data.draw(st.integers(1, 3))):
        place, depth = document, data.draw(st.integers(0, 6))
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if depth == 0 or not isinstance(place[key], (dict, list)):
                if data.draw(st.booleans()):
                    place[key] = data.draw(JSON)
                else:
                    del place[key]
                break
            place, depth = place[key], depth - 1
    text = json.dumps(document)
    found = read(text)
    if found:
        check_origin(text, found)


@CASES
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(['{"fio version":', '"fio-3.1"', ',"jobs":', ":", "]", *PIECES]), max_size=60).map(
        "".join
    )
)
def test_any_text(text):
    read(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"fio version":"fio-3.1","x":'
        + "[" * 900
        + "]" * 900
        + ',"jobs":[{"jobname":'
        + "[" * 900
        + "]" * 900
        + "}]}",
        '{"fio version":"fio-3.1","jobs":[' + ",".join(['{"jobname":"x","read":{"a":1,"a":1}}'] * 20_000) + "]}",
        '{"fio version":"fio-3.1","a":{' + ",".join(['"k":1'] * 50_000) + '},"jobs":[]}',
        '{"fio version":"fio-3.1","jobs":[' + "nan," * 50_000,
        '{"jobs" ' * 50_000,
        "1;" * 200_000,
        '{"fio version":"fio-3.33","jobs":[{"jobname":"x","read":{"total_ios":' + "9" * 5000 + "}}]}",
    ],
    ids=["deep", "repeated in many", "repeated often", "many nan", "many starts", "almost terse", "long number"],
)
def test_what_would_take_long_does_not(text):
    """Each is done in well under a second when the reader's time grows with the length of the text; squared, it would take minutes."""
    assert read(text) == []


@CASES
@given(
    st.lists(
        st.dictionaries(st.integers(0, 1 << 40).map(str), st.integers(0, 1 << 50), max_size=30), min_size=1, max_size=4
    ),
    st.lists(st.floats(0, 100), min_size=1, max_size=5),
)
def test_merged_percentiles_are_those_of_all_io_together(parts, percents):
    merged = histogram.merge(parts)
    assert sum(merged.values()) == sum(sum(part.values()) for part in parts)
    total, found = sum(merged.values()), histogram.percentiles(merged, percents)
    for percent in percents:
        if not total:
            assert found[percent] is None
            continue
        below = sum(count for key, count in merged.items() if int(key) < found[percent])
        # The rule, without division: everything below is not enough, and with its own bin it is.
        above, unit = percent.as_integer_ratio()
        wanted = max(above * total, 1)
        assert below * 100 * unit < wanted <= (below + merged[str(found[percent])]) * 100 * unit or percent == 0
        assert merged[str(found[percent])] > 0
