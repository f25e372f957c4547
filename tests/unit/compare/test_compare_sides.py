# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several candidates against one baseline: who is judged with whom, what is refused, how often it is wrong, and its files."""

from __future__ import annotations

import collections
import csv
import datetime
import io
import json
import math
import random
import re
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, gate, sides, stats
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import sides_render
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.compare_render import FIGURES, by_points
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.load import Run
from fixtures.compare import make_runs

SMALL, LARGE = make_runs.WORKLOADS
MEDIANS = {("backing-a", SMALL): 20_000, ("backing-a", LARGE): 7_000}
NOTHING = {"layer": None, "variant": None, "workload": None}
START = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)


def side(*results: list, host: dict | None = None, **selector) -> dict:
    """A side of these runs as the action hands it on."""
    runs = [
        Run(
            f"/results/synthetic/{of[0]['run_id']}",
            "synthetic",
            of[0]["run_id"],
            layers=make_runs.layers(),
            environments={"target01": host or make_runs.environment()},
            results=of,
            record={},
        )
        for of in results
    ]
    return {"runs": runs, "selector": {**NOTHING, **selector}, "label": "_".join(run.run_id for run in runs)}


def measured(name: str, factor: float = 1.0, repetitions: int = 8, place: int = 0, noise: float = 1.0) -> list:
    """A run whose first point is ``factor`` times as fast. Runs take turns by their places, 0 to 9, forwards and back."""
    medians = {**MEDIANS, ("backing-a", SMALL): 20_000 * factor}
    results = make_runs.results(repetitions, medians, noise, seed=place, run_id=name)
    for index, result in enumerate(results):
        turn = place if result["repetition"] % 2 else 9 - place
        moment = START + datetime.timedelta(seconds=100 * index + 10 * turn)
        result["started_utc"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return results


def three(**changes) -> dict:
    """brd against a faster, an equal and a slower one."""
    given = {
        "zram": side(measured("zram", 1.3, place=1)),
        "file": side(measured("file", 1.0, place=2)),
        "loop": side(measured("loop", 0.7, place=3)),
        **changes,
    }
    return sides.compare_sides(side(measured("brd")), given, [])


def verdicts(of: dict, metric: str = "iops", workload: str = SMALL) -> dict:
    return {
        mine["name"]: next(row for row in mine["rows"] if (row["metric"], row["workload_id"]) == (metric, workload))[
            "verdict"
        ]
        for mine in of["sides"]
    }


def test_each_side_is_judged_against_the_same_baseline():
    compared = three()
    assert [mine["name"] for mine in compared["sides"]] == ["zram", "file", "loop"]
    assert verdicts(compared) == {"zram": "better", "file": "no_difference", "loop": "worse"}
    assert set(verdicts(compared, workload=LARGE).values()) == {"no_difference"}
    values = {mine["rows"][0]["baseline"]["value"] for mine in compared["sides"]}
    assert len(values) == 1 and compared["verdict"] == "worse" and compared["method"] == "pairs"
    assert compared["counts"]["worse"] == compared["sides"][2]["counts"]["worse"] == 7
    assert sum(compared["counts"].values()) == 3 * 14
    changes = [mine["rows"][0]["change_percent"] for mine in compared["sides"]]
    assert changes == pytest.approx([30, 0, -30], abs=2)
    assert [mine["candidate"]["run_id"] for mine in compared["sides"]] == ["zram", "file", "loop"]
    assert compared["baseline"]["run_id"] == "brd"


def test_intervals_hold_all_sides_together():
    compared, alone = three(), comparison.compare_runs(side(measured("brd")), side(measured("zram", 1.3, place=1)), [])
    mine, other = compared["sides"][0]["rows"][0], alone["rows"][0]
    assert (mine["confidence_percent"], other["confidence_percent"]) == (pytest.approx(100 - 5 / 3), 95)
    assert mine["change_percent"] == pytest.approx(other["change_percent"])
    differences = [
        math.log(theirs["total"]["iops"] / ours["total"]["iops"])
        for ours, theirs in zip(measured("brd"), measured("zram", 1.3, place=1))
        if ours["workload_id"] == SMALL
    ]
    low, high = stats.paired(differences).interval(1 - 0.05 / 3)
    assert (mine["change_low_percent"], mine["change_high_percent"]) == pytest.approx(
        (100 * math.expm1(low), 100 * math.expm1(high))
    )
    assert mine["change_low_percent"] < other["change_low_percent"] < other["change_high_percent"]
    assert other["change_high_percent"] < mine["change_high_percent"]


def test_more_sides_ask_for_more():
    """The same sides: beside others, one that is just seen alone is seen no more, and p never falls."""

    def of(names: list) -> dict:
        given = {name: side(measured(name, place=place, noise=4.0)) for place, name in enumerate(names, 1)}
        return sides.compare_sides(side(measured("brd", noise=4.0)), given, [])

    few, many = of(["s1"]), of(["s1", "s2", "s3", "s4", "s5", "s6"])
    pairs = [
        (early["p_corrected"], late["p_corrected"])
        for early, late in zip(few["sides"][0]["rows"], many["sides"][0]["rows"])
    ]
    assert all(early <= late for early, late in pairs) and any(early < late for early, late in pairs)
    assert all(
        early["visible_percent"] < late["visible_percent"]
        for early, late in zip(few["sides"][0]["rows"], many["sides"][0]["rows"])
    )


def test_one_side_gives_the_figures_of_a_comparison_of_two():
    baseline, candidate = side(measured("brd")), side(measured("zram", 1.3, place=1))
    alone = comparison.compare_runs(baseline, candidate, [])
    [mine] = sides.compare_sides(baseline, {"zram": candidate}, [])["sides"]
    rows = [{key: value for key, value in row.items() if key != "row"} for row in mine["rows"]]
    assert {**{key: mine[key] for key in alone}, "rows": rows} == alone and mine["name"] == "zram"


def test_a_side_that_was_measured_later_says_less_and_spoils_no_other():
    late = measured("loop", 0.7, place=3)
    for result in late:
        result["started_utc"] = result["started_utc"].replace("2026-11-21", "2026-11-23")
    compared = three(loop=side(late))
    assert [mine["design"] for mine in compared["sides"]] == ["interleaved", "interleaved", "blocks"]
    assert {mine["method"] for mine in compared["sides"]} == {compared["method"]} == {"groups"}
    assert verdicts(compared) == {"zram": "better", "file": "no_difference", "loop": "different"}


def test_lists_of_runs_take_turns():
    def listed(label: str, place: int, factor: float) -> dict:
        runs = []
        for turn in range(5):
            results = measured(f"{label}{turn}", factor, 3, place)
            for result in results:
                result["started_utc"] = result["started_utc"].replace("T00", f"T{4 * turn + place:02}")
            runs.append(results)
        return side(*runs)

    given = {"zram": listed("z", 1, 1.3), "file": listed("f", 2, 1.0)}
    compared = sides.compare_sides(listed("b", 0, 1.0), given, [])
    assert [mine["design"] for mine in compared["sides"]] == ["alternating", "alternating"]
    assert compared["method"] == "runs" and verdicts(compared) == {"zram": "better", "file": "no_difference"}
    with pytest.raises(Failure, match=r"candidates.zram is 'zram'.*list of runs") as refused:
        sides.compare_sides(listed("b", 0, 1.0), {**given, "zram": side(measured("zram", place=1))}, [])
    assert refused.value.code == "bad_value"


def test_layers_are_sides_too():
    results = make_runs.results(8, {(f"backing-{name}", SMALL): 20_000 for name in ("a", "b")})
    other = [{**result, "layer": "backing-c"} for result in results if result["layer"] == "backing-b"]
    of = side([*results, *other])
    given = {name: {**of, "selector": {**NOTHING, "layer": f"backing-{name}"}, "label": name} for name in "bc"}
    compared = sides.compare_sides({**of, "selector": {**NOTHING, "layer": "backing-a"}}, given, ["*"])
    # A row is what is the same on all sides.
    assert {row["row"] for mine in compared["sides"] for row in mine["rows"]} == {SMALL}
    assert compared["sides"][1]["rows"][0]["point"] == f"backing-a → backing-c {SMALL}"


def test_what_is_wrong_is_said_of_the_side_it_is_wrong_with():
    zram = side(measured("zram", place=1))
    with pytest.raises(Failure, match=r"candidates.file.layer is 'gone'"):
        three(file=side(measured("file", place=2), layer="gone"))
    with pytest.raises(Failure, match=r"candidates.again .*zram"):
        three(zram=zram, again=zram)
    with pytest.raises(Failure, match=r"candidates.brd is 'brd'.*baseline itself"):
        three(brd=side(measured("brd")))
    with pytest.raises(Failure, match=r"candidates is {}"):
        sides.compare_sides(side(measured("brd")), {}, [])
    for name in ("baseline", "", "x" * 41):
        with pytest.raises(Failure, match=r"candidates.name is "):
            sides.compare_sides(side(measured("brd")), {name: zram}, [])
    other = [{**result, "layer": "backing-b"} for result in measured("file", place=2)]
    with pytest.raises(Failure, match=r"Baseline and candidates.file have no measured point in common"):
        three(file=side(other))


def test_unlike_sides_are_refused_all_at_once():
    host = make_runs.environment("none [mq-deadline]")
    given = {
        name: side(measured(name, place=place), host=host if place != 2 else None)
        for place, name in enumerate(("zram", "file", "loop"), 1)
    }
    with pytest.raises(Failure) as refused:
        sides.compare_sides(side(measured("brd")), given, [])
    assert refused.value.code == "unlike_runs"
    assert "candidate zram differ in 1 fact" in str(refused.value) and "candidate loop differ" in str(refused.value)
    assert "candidate file" not in str(refused.value) and set(refused.value.details["sides"]) == {"zram", "loop"}
    compared = sides.compare_sides(side(measured("brd")), given, ["*.queue.scheduler", "*.kernel.release"])
    # A pattern that differs on any side was worth naming.
    assert compared["under_test_same"] == ["*.kernel.release"]
    assert [len(mine["environment"]) for mine in compared["sides"]] == [1, 0, 1]


def test_gates_say_which_side():
    compared = three()
    hits = sides.hits(compared, gate.rules(["iops regression > 5 %"]))
    assert [(hit["side"], hit["metric"]) for hit in hits] == [("loop", "iops")]
    assert sides.hits(compared, gate.rules(["iops regression > 50 %"])) == []
    with pytest.raises(Failure, match="tpm") as refused:
        sides.hits(compared, gate.rules(["tpm regression"]))
    assert refused.value.code == "metric_missing"


def test_the_headline_speaks_of_every_side():
    compared = three()
    assert compared["headline"].startswith(
        "3 sides against brd. Measured in turns (compared round by round, 8 rounds)."
    )
    assert "zram: 7 of 14 figures are better" in compared["headline"] and "loop: 7 of 14" in compared["headline"]
    assert "file: None of 14 figures differs by more than 5 %." in compared["headline"]


@pytest.mark.parametrize(("repetitions", "method"), [(6, "pairs"), (5, "groups")])
def test_false_alarms_of_four_sides_without_a_difference(repetitions, method):
    """Simulated, seeded: better or worse anywhere, at three points of four sides that are the baseline itself. Each for itself they are far more."""
    noise, alarms, alone, trials = random.Random(20261121), 0, 0, 150  # noqa: S311 noise, no secret
    for _trial in range(trials):
        given = [
            [
                {
                    "layer": f"p{point}",
                    "workload_id": "w",
                    "repetition": number,
                    "total": {"iops": math.exp(noise.gauss(0, 0.02))},
                    "started_utc": f"2026-11-21T00:{number:02}:{place if number % 2 else 9 - place:02}Z",
                }
                for point in range(3)
                for number in range(1, repetitions + 1)
            ]
            for place in range(5)
        ]
        matches = {f"s{place}": comparison.matched(given[0], given[place]) for place in range(1, 5)}
        designs, rows, _lacking = sides.judged(matches, ["iops"], 0.001)
        assert {design.method for design in designs.values()} == {method}
        verdicts_of = [row["verdict"] for of in rows.values() for row in of]
        assert len(verdicts_of) == 12
        alarms += not {"better", "worse"}.isdisjoint(verdicts_of)
        each = [comparison.compare(given[0], given[place], ["iops"], 0.001) for place in range(1, 5)]
        alone += any(of["counts"]["better"] + of["counts"]["worse"] for of in each)
    assert alarms <= 0.07 * trials < alone


# -- files ------------------------------------------------------------------------------------------------------------


def gated(rules: tuple = ("regression > 5 %",), **changes) -> dict:
    compared = three(**changes)
    wanted = gate.rules(list(rules))
    return {**compared, **gate.concluded(list(rules), sides.hits(compared, wanted), sides.unjudged(compared, wanted))}


def test_the_page_has_a_cell_for_each_side_and_a_chart_of_each_figure():
    compared = gated()
    page = sides_render.html(compared)
    cells = re.findall(r'data-label="(\w+)" data-side="\1" data-verdict="(\w+)">(.*?)</td>', page, re.S)
    rows = {(mine["name"], row["row"], row["metric"]): row for mine in compared["sides"] for row in mine["rows"]}
    assert len(cells) == len(rows) == 42
    assert collections.Counter((name, verdict) for name, verdict, _text in cells) == collections.Counter(
        (name, row["verdict"]) for (name, _row, _metric), row in rows.items()
    )
    for name, _verdict, text in cells[:3]:
        row = rows[name, f"backing-a {SMALL}", "iops"]
        values = [float(value) for value in re.findall(r'<data (?:class="change" )?value="([^"]+)"', text)]
        assert values == [row["candidate"]["value"], row["change_percent"]]
    charts = re.findall(r'<svg class="chart plot sides".*?</svg>(?=</figure>)', page, re.S)
    assert len(charts) == 7
    # Two points of four sides, in the first chart as in all others.
    assert all(chart.count("<circle") == 8 for chart in charts)


def test_dots_stand_where_the_figures_are():
    compared = three()
    lines = sides_render.lines_of(compared)["iops"]
    chart = sides_render.chart("x", "iops", lines, ["zram", "file", "loop"])
    dots = re.findall(r'<g class="(c\d)"><circle class="dot" cx="([\d.]+)%" cy="([\d.]+)"', str(chart.body))
    iops = [20_000, 26_000, 20_000, 14_000, 7_000, 7_000, 7_000, 7_000]
    assert [css for css, _x, _y in dots] == ["c5", "c0", "c1", "c2"] * 2
    assert [float(x) for _css, x, _y in dots] == pytest.approx([100 * value / 30_000 for value in iops], abs=1.5)
    downwards = [float(y) for _css, _x, y in dots]
    assert downwards == sorted(downwards) and all(late - early > 15 for early, late in zip(downwards, downwards[1:]))


def test_the_page_needs_nothing_from_elsewhere():
    page = sides_render.html(gated())
    assert not re.search(r'(?:src|href)="(?!#|data:,|comparison\.|report\.md|junit\.xml)', page)
    assert set(re.findall(r"https?://[^'\"]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_other_forms_say_the_same():
    compared = gated()
    files = sides_render.render(compared)
    assert tuple(files) == ("index.html", "report.md", "comparison.csv", "comparison.json", "junit.xml", "github.txt")
    assert files == sides_render.render(gated())
    known = {(mine["name"], row["point"], row["metric"]): row for mine in compared["sides"] for row in mine["rows"]}
    table = list(csv.DictReader(io.StringIO(files["comparison.csv"])))
    assert len(table) == 42
    for line in table:
        row = known[line["side"], f"{line['layer']} {line['workload_id']}", line["metric"]]
        assert (float(line["change_percent"]), line["verdict"]) == (row["change_percent"], row["verdict"])
    suites = ET.fromstring(files["junit.xml"])  # noqa: S314 our own text
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("zram against brd", "14", "0"),
        ("file against brd", "14", "0"),
        ("loop against brd", "14", "7"),
    ]
    assert json.loads(files["comparison.json"])["sides"][2]["rows"] == compared["sides"][2]["rows"]
    first = next(line for line in files["report.md"].splitlines() if line.startswith("| backing-a 4k"))
    assert [text.rsplit(", ", 1)[-1] for text in first.split(" | ")[2:]] == ["better", "no difference", "worse |"]
    assert "loop: backing-a" in files["report.md"]
    lines = sides_render.table(compared)
    assert lines[0].split() == [
        *["metric", "side", "baseline", "candidate", "change"],
        "95",
        "%",
        "could",
        "see",
        "verdict",
    ]
    assert len(lines) == 1 + 2 + 42 and [line for line in lines if not line.startswith("  ")] == [
        f"backing-a {SMALL}",
        f"backing-a {LARGE}",
    ]
    assert [re.split(" {2,}", line.strip())[:2] for line in lines[2:5]] == [
        ["IOPS", "zram"],
        ["IOPS", "file"],
        ["IOPS", "loop"],
    ]
    assert re.search(r"\+30 %  +\+28 … \+32 % .* better, by 28 to 32 %$", lines[2])
    assert all(
        max(line.index(word) for word in ("better", "worse", "no diff") if word in line) <= 90
        for line in lines
        if line.startswith("  ") and "verdict" not in line
    )


def test_what_a_side_lacks_is_a_dash_and_is_listed():
    lost = [result for result in measured("file", place=2) if result["workload_id"] == SMALL]
    zram = measured("zram", 1.3, place=1)
    zram[4].update(status="failed", failures=[{"code": "io_errors", "message": "5 I/O errors."}])
    brd = measured("brd")
    brd[6].update(status="failed", failures=[{"code": "io_errors", "message": "7 I/O errors."}])
    given = {"zram": side(zram), "file": side(lost)}
    compared = {**sides.compare_sides(side(brd), given, []), **gate.concluded([], [], [])}
    assert sides_render.left_out(compared) == [
        ("Measured on one side only", [f"file lacks backing-a {LARGE}"]),
        (
            "Points that failed",
            [f"baseline: backing-a.{SMALL}.r4: 7 I/O errors.", f"zram: backing-a.{SMALL}.r3: 5 I/O errors."],
        ),
    ]
    page = sides_render.html(compared)
    assert page.count('data-label="file"><span class="absent"') == 7 and f"file lacks backing-a {LARGE}" in page
    missing = sides.hits(compared, gate.rules(["missing"]))
    assert [(hit["side"], hit["point"]) for hit in missing] == [
        ("zram", f"backing-a.{SMALL}.r3"),
        ("file", f"backing-a {LARGE}"),
    ]


def test_text_from_files_stays_text():
    evil = '<script>alert("x")</script>|*#\x07'
    compared = gated()
    compared["sides"][0].update(name=evil[:40])
    compared["sides"][1]["damaged"] = [{"side": "candidate", "file": evil, "reason": evil}]
    compared["sides"][1]["environment"] = [{"fact": evil, "baseline": evil, "status": "under_test"}]
    compared["hits"] = [{"side": evil, "rule": "missing", "point": evil, "metric": "", "text": evil}]
    for mine in compared["sides"]:
        mine["rows"][0].update(row=evil, point=evil)
    files = sides_render.render(compared)
    assert "<script>alert" not in files["index.html"] and "&lt;script&gt;alert" in files["index.html"]
    assert "<script>" not in re.sub(r"`[^`]*`", "", files["report.md"])
    lines = [line.replace("\\|", "") for line in files["report.md"].splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in lines} == {6}
    ET.fromstring(files["junit.xml"])  # noqa: S314 our own text


def test_the_table_of_many_points_is_made_in_one_pass():
    """Twice the points cost twice the looks at a point's name, and not four times."""

    class Point(str):
        looks = 0
        __slots__ = ()

        def __eq__(self, other):
            Point.looks += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def looks(points: int) -> int:
        rows = [(Point(f"layer p{number}"), ("IOPS", *"abcdef")) for number in range(points) for _figure in range(3)]
        Point.looks = 0
        assert len(by_points(("metric", *FIGURES), rows)) == 1 + 4 * points
        return Point.looks

    assert looks(200) <= 3 * looks(100)
