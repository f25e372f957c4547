# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behaviour of the stand-ins for ESXi and Windows that no recording and no documentation shows: marked in their sources, counted, listed in docs/support.md.

A mark is a comment ``belief: that …``; its sentence ends with the first full stop. Whoever finds a recording or a page of the vendor removes the mark and
the line of the page, and lowers the number.
"""

from __future__ import annotations

import re

import places
import pytest

STAND_INS = {"ESXi": "tests/esxsim", "Windows": "tests/fake_windows"}
# May only fall.
MOST = {"ESXi": 10, "Windows": 13}
ROOT = places.TESTS.parent
MARK = re.compile(r"^\s*(?://|#) belief: (.*)$", re.MULTILINE)


def beliefs(system: str) -> list[str]:
    """The sentence of each mark, without its full stop."""
    sources = [path for path in sorted((ROOT / STAND_INS[system]).rglob("*")) if path.suffix in (".go", ".py")]
    assert sources
    texts = [text for path in sources for text in MARK.findall(path.read_text(encoding="utf-8"))]
    return sorted(text.partition(". ")[0].rstrip(".") for text in texts)


def listed(system: str) -> list[str]:
    page = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    part = page.partition("### Beliefs of the stand-ins\n")[2].partition("\n#")[0]
    return sorted(re.findall(rf"^\| {system} \| (.*?) \|$", part, re.MULTILINE))


@pytest.mark.parametrize("system", STAND_INS)
def test_each_belief_is_a_sentence_of_its_own_on_the_page(system):
    marks = beliefs(system)
    assert all(text.startswith("that ") for text in marks), marks
    assert len(set(marks)) == len(marks)
    assert listed(system) == marks


@pytest.mark.parametrize("system", STAND_INS)
def test_their_number_only_falls(system):
    assert len(beliefs(system)) == MOST[system], (
        "lower the number when a belief was proven; prove a new one instead of raising it"
    )


@pytest.mark.parametrize("system", STAND_INS)
def test_no_belief_is_hidden_in_other_words(system):
    for path in (ROOT / STAND_INS[system]).rglob("*"):
        if path.suffix in (".go", ".py"):
            rest = MARK.sub("", path.read_text(encoding="utf-8"))
            assert not re.search(r"\bbelie(f|ved?)\b", rest, re.IGNORECASE), path
