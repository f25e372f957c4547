# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others wrote: the shape that a reader relies on, bounds before anything is made of it, and control characters."""

from __future__ import annotations

import tracemalloc

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import shape
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.visible import visible

DISKS = {"disks": {str: {"path": (str, type(None)), "size_bytes": int}}, "order?": [str]}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"disks": {}}, None),
        ({"disks": {"a": {"path": None, "size_bytes": 7}}, "order": ["a"], "more": 9}, None),
        (7, "it is an int, not a mapping"),
        ("x", "it is a str, not a mapping"),
        ({}, "it has no disks"),
        ({"disks": []}, "disks is a list, not a mapping"),
        ({"disks": {"a": "b"}}, "disks.a is a str, not a mapping"),
        ({"disks": {"a": {"path": 5, "size_bytes": 7}}}, "disks.a.path is an int, not a str or null"),
        ({"disks": {"a": {"path": "/x", "size_bytes": True}}}, "disks.a.size_bytes is a bool, not an int"),
        ({"disks": {}, "order": ["a", 3]}, "order[1] is an int, not a str"),
        ({"disks": {}, "order": "a"}, "order is a str, not a list"),
    ],
)
def test_what_does_not_fit_is_named(value, problem):
    assert shape.misfit(value, DISKS) == problem


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"[" + b"[]," * 2_000_000 + b"[]]", "more than 1000 values"),
        (b"{" * 40 + b"}" * 40, "nested more than 32 deep"),
        (b'"' + b"x" * 10_000_000 + b'"', "more than 8000000 bytes"),
        (b"[NaN]", "NaN is not a number"),
        (b"[1", "Expecting"),
        (b"\xff\xfe\xff", "codec"),
    ],
)
def test_json_is_bounded_before_it_is_made(raw, words):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words):
            shape.parse(raw, most_bytes=8_000_000, most_values=1000)
        # Two million lists would take 130 MB; what is counted stays in the order of the text.
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_brackets_in_texts_are_no_depth():
    assert shape.parse(b'{"a": "[[[[\\"[[", "b": [1, 2.5]}', 100, 10, most_depth=2) == {"a": '[[[["[[', "b": [1, 2.5]}


def test_control_characters_are_shown_and_nothing_else_changes():
    hostile = "a\x1b[2Jb\x1b]0;title\x07 \x9b31m\rover\u202etxt.exe\x00\x7f"
    assert visible(hostile) == "a\\x1b[2Jb\\x1b]0;title\\x07 \\x9b31m\\x0dover\\u202etxt.exe\\x00\\x7f"
    for harmless in ("tab\tline\nend", "größer → 5 µs", "日本 \U0001f600"):
        assert visible(harmless) == harmless


def test_a_failure_says_nothing_that_a_terminal_obeys():
    failure = Failure("mkfs_failed", "mkfs.ext4: \x1b[2J\x1b]0;owned\x07.", "Look at \x9b it.")
    assert not any(character in str(failure) + failure.what + failure.remedy for character in "\x1b\x07\x9b")
    assert "\\x1b[2J" in failure.what
