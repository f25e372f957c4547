# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make mutation` puts into files, and what it says of tests that notice and tests that do not."""

from __future__ import annotations

import mutation
import places
import pytest

CODE = '''"""A text."""
LIMIT: "int | None" = 3


def within(sizes: dict, strict: bool = False):
    """No mistake is put into this."""
    if not sizes:
        return None
    first = sizes.get("first") or sizes["size"]
    return first < LIMIT * 2 and f"{first:5}" != "x"
'''


def test_each_kind_of_mistake_is_put_in_once_and_alone():
    every = mutation.mistakes(CODE)
    assert {(mistake.line, mistake.what) for mistake in every} == {
        (2, "3  ->  4"),
        (5, "False  ->  True"),
        (7, "not sizes  ->  sizes"),
        (9, "'first'  ->  'firstx'"),
        (9, "'size'  ->  'sizex'"),
        (9, "sizes.get('first') or sizes['size']  ->  sizes.get('first') and sizes['size']"),
        (10, "return first < LIMIT * 2 and f'{first:5}' != 'x'  ->  return None"),
        (10, "first < LIMIT * 2 and f'{first:5}' != 'x'  ->  first < LIMIT * 2 or f'{first:5}' != 'x'"),
        (10, "first < LIMIT * 2  ->  first <= LIMIT * 2"),
        (10, "LIMIT * 2  ->  LIMIT / 2"),
        (10, "2  ->  3"),
        (10, "f'{first:5}' != 'x'  ->  f'{first:5}' == 'x'"),
        (10, "'x'  ->  'xx'"),
    }
    assert len({mistake.text for mistake in every}) == len(every)


def test_a_mistake_changes_what_the_code_does():
    texts = {mistake.what: mistake.text for mistake in mutation.mistakes(CODE)}

    def answer(text, *arguments):
        names: dict = {}
        exec(text, names)  # noqa: S102 - the text stands above
        return names["within"](*arguments)

    assert answer(CODE, {"first": 6}) is False
    assert answer(texts["first < LIMIT * 2  ->  first <= LIMIT * 2"], {"first": 6}) is True
    assert answer(texts["2  ->  3"], {"first": 6}) is True


@pytest.fixture
def checkout(tmp_path):
    """A copy that has a file with two limits and a test of one of them; what was made in the checkout stays out."""
    origin, target = tmp_path / "origin", tmp_path / "copy"
    origin.mkdir()
    target.mkdir()
    (origin / "limits.py").write_text("LOW = 1\nHIGH = 9\n")
    (origin / "test_limits.py").write_text("import limits\n\n\ndef test_low():\n    assert limits.LOW == 1\n")
    (origin / ".cache").mkdir()
    (origin / ".cache/made").write_text("")
    return mutation.copy(target, origin)


def test_a_mistake_that_no_test_looks_at_is_not_noticed(checkout):
    low, high = mutation.mistakes((checkout / "limits.py").read_text())
    assert not (checkout / ".cache/made").exists()
    assert not mutation.noticed(checkout, ("test_limits.py",))
    (checkout / "limits.py").write_text(low.text)
    assert mutation.noticed(checkout, ("test_limits.py",))
    (checkout / "limits.py").write_text(high.text)
    assert not mutation.noticed(checkout, ("test_limits.py",))


def test_tests_that_are_not_there_are_no_verdict(checkout):
    with pytest.raises(RuntimeError, match="pytest ended with 4"):
        mutation.noticed(checkout, ("test_gone.py",))


def test_who_lives_stands_before_the_score_of_each_file():
    mistake = mutation.Mistake(7, "1  ->  2", "")
    assert mutation.report([("b.py", mistake, True), ("a.py", mistake, False), ("a.py", mistake, True)]) == [
        "a.py:7  1  ->  2",
        " 50.0 %     1 of    2 noticed  a.py",
        "100.0 %     1 of    1 noticed  b.py",
        " 66.7 %     2 of    3 noticed  all files",
    ]


def test_every_file_and_its_tests_are_there():
    for name, tests in mutation.FILES.items():
        assert all((places.ROOT / path).exists() for path in (name, *tests))
