# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of others about a comparison, and whether they hold: yes, no or cannot tell."""

from __future__ import annotations

import ast
import random

import jinja2
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, statements
from experiment_book import BOOKS, IMPORT, PARTS, plays
from places import ROOT
from test_compare_sides import LARGE, SMALL, measured, side, three


def claim(**changes) -> dict:
    return {"text": "It is faster.", "metric": "iops", "side": "*", "point": "*", **changes}


def answers(compared: dict, *claims: dict) -> list:
    sides = compared.get("sides") or [{**compared, "name": ""}]
    return statements.judged(statements.parsed(list(claims)), sides)


@pytest.mark.parametrize(
    ("limits", "name", "expected"),
    [
        ({"least_percent": 0}, "zram", "yes"),
        ({"least_percent": 0}, "loop", "no"),
        ({"most_percent": 0}, "zram", "no"),
        ({"most_percent": 0}, "loop", "yes"),
        ({"least_percent": -5, "most_percent": 5}, "file", "yes"),
        ({"least_percent": -5, "most_percent": 5}, "zram", "no"),
        # Its interval is on both sides of what is asked.
        ({"least_percent": 0}, "file", "cannot tell"),
        ({"least_percent": 30}, "zram", "cannot tell"),
    ],
)
def test_a_sentence_holds_where_the_interval_is_within_its_range(limits, name, expected):
    [answer] = answers(three(), claim(side=name, point=f"*{SMALL}*", **limits))
    assert answer["verdict"] == expected and len(answer["figures"]) == 1
    [figure] = answer["figures"]
    assert figure["side"] == name and figure["low_percent"] < figure["change_percent"] < figure["high_percent"]
    assert answer["line"].startswith(f"“It is faster.” Does it hold here? {expected.capitalize()}. IOPS: {name}, ")


def test_every_figure_has_to_agree_and_one_is_enough_to_deny():
    compared = three()
    # LARGE is the same on all sides, so nobody knows whether it is a little faster.
    both, one, all_sides = answers(
        compared,
        claim(side="zram", least_percent=0),
        claim(side="zram", point=f"*{SMALL}*", least_percent=0),
        claim(point=f"*{SMALL}*", least_percent=0),
    )
    assert {figure["point"].split()[-1] for figure in both["figures"]} == {SMALL, LARGE}
    assert (both["verdict"], one["verdict"], all_sides["verdict"]) == ("cannot tell", "yes", "no")
    # The figure that decides comes first.
    assert all_sides["why"].startswith("IOPS: loop, ")


def test_what_nobody_has_measured_is_not_answered():
    [answer] = answers(three(), claim(side="tmpfs", least_percent=0))
    assert (answer["verdict"], answer["figures"]) == ("cannot tell", [])
    assert "neither side has measured it" in answer["line"]
    few = comparison.compare_runs(side(measured("brd")[:4]), side(measured("zram", 1.3, place=1)[:4]), [])
    [answer] = answers(few, claim(least_percent=0))
    assert answer["verdict"] == "cannot tell" and "repetitions" in answer["why"]


def test_what_may_be_drift_is_neither():
    row = {"metric": "iops", "point": "p", "change_percent": 9.0, "joint_low_percent": 7.0, "joint_high_percent": 11.0}
    for design, verdict, more, expected in (
        ("interleaved", "better", {}, "yes"),
        ("interleaved", "cannot_tell", {}, "yes"),
        ("interleaved", "cannot_tell", {"drift": {}}, "cannot tell"),
        ("blocks", "better", {}, "yes"),
        ("blocks", "cannot_tell", {}, "cannot tell"),
        ("blocks", "different", {}, "cannot tell"),
        ("unknown", "cannot_tell", {}, "cannot tell"),
    ):
        compared = {"design": design, "rows": [{**row, "verdict": verdict, **more}]}
        assert answers(compared, claim(least_percent=0))[0]["verdict"] == expected, (design, verdict, more)


def test_a_sentence_about_many_figures_is_seldom_denied_where_it_is_true():
    """Forty figures that are equal: an interval of 95 % each would leave out the truth twice among them, all together leave it out in one of 20 comparisons."""
    drawn = random.Random(20261127)  # noqa: S311 no secret
    denied = 0
    for _number in range(30):
        rows = []
        for point in range(40):
            for name in ("a", "b"):
                rows += [
                    {
                        "point_id": f"{name}.{point}.{repetition}",
                        "layer": name,
                        "workload_id": f"w{point}",
                        "repetition": repetition,
                        "started_utc": f"2026-11-27T{repetition:02}:{point:02}:{30 * (name == 'b'):02}Z",
                        "total": {"iops": 1000 * drawn.lognormvariate(0, 0.02)},
                    }
                    for repetition in range(1, 7)
                ]
        sides = [[row for row in rows if row["layer"] == name] for name in ("a", "b")]
        compared = comparison.compare(sides[0], sides[1], ["iops"])
        [answer] = answers(compared, claim(least_percent=-0.001, most_percent=0.001))
        denied += answer["verdict"] == "no"
    assert denied <= 5


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({}, "Set least_percent or most_percent"),
        ({"least_percent": 5, "most_percent": 5}, "Use less than most_percent"),
        ({"least_percent": 0, "metric": "speed"}, "speed"),
    ],
    ids=["nothing contradicts it", "an empty range", "no metric"],
)
def test_a_sentence_that_nothing_could_answer_is_refused(wrong, expected):
    with pytest.raises(Failure, match=expected):
        statements.parsed([claim(**wrong)])


@pytest.mark.parametrize("number", range(1, 6))
def test_each_experiment_ends_with_its_authors_sentence_and_enough_repetitions(number):
    [book] = [path.stem for path in BOOKS.glob(f"e{number}_*.yml") if not path.stem.endswith((*PARTS, "_esxi"))]
    compared = [play for play in plays(book) if "compare.yml" in play.get(IMPORT, "")]
    given = [play["vars"].get("testbed_compare_statements", []) for play in compared]
    # E5 has a sentence for each number of drives.
    values = {"e5_drives": [1, 4], "e5_direct_depth": 4}
    given = [ast.literal_eval(jinja2.Template(one).render(values)) if isinstance(one, str) else one for one in given]
    claims = [entry for one in given for entry in one]
    assert claims and all(entry["source"] for entry in claims)
    assert [statement.text for statement in statements.parsed(claims)] == [entry["text"] for entry in claims]
    embedded = yaml.safe_load((ROOT / "inventories" / "embedded" / "group_vars" / "all.yml").read_text())
    assert embedded[f"testbed_e{number}"]["repetitions"] >= 4
