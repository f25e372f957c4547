# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a comparison in a real browser, on SYNTHETIC results; and two real runs of fio's null engine compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_report_browser import BACKGROUND, CUT_OFF

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """A page with every verdict, a gate that was met, differences, and something left out; and its comparison.json."""
    from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, gate
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import compare_render
    from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
    from fixtures.compare import make_runs

    base = tmp_path_factory.mktemp("results")
    small, large = make_runs.WORKLOADS
    rates = {
        ("backing-a", small): 20_000,
        ("backing-a", large): 7_000,
        ("backing-b", small): 11_000,
        ("backing-b", large): 3_000,
    }
    factors = {("backing-a", small): 0.8, ("backing-b", small): 1.3}
    before = make_runs.results(5, rates, 2.0)
    after = make_runs.results(
        5, {key: rate * factors.get(key, 1.0) for key, rate in rates.items()}, 2.0, seed=2, run_id="after"
    )
    for one in [*before, *after]:
        if one["layer"] == "backing-b":
            one["total"]["latency_p99_9_ns"] = round(
                one["total"]["latency_p99_9_ns"] * (1 + 0.7 * (one["repetition"] % 3))
            )
    after[-1].update(status="failed", failures=[{"code": "io_errors", "message": "3 I/O errors."}])
    after[-5].update(status="failed", failures=[{"code": "io_errors", "message": "5 I/O errors."}])
    runs = [
        load.read_run(str(make_runs.write_run(base, results, host)))
        for results, host in ((before, None), (after, make_runs.environment("none [mq-deadline]", load=4.0)))
    ]
    selector = {"layer": None, "variant": None, "workload": None}
    found = comparison.compare_runs(
        *({"runs": [run], "selector": selector, "label": run.run_id} for run in runs),
        ["*.queue.scheduler", "*.kernel.*"],
    )
    rules = gate.rules(["regression > 5 %"])
    found.update(gate.concluded(["regression > 5 %"], gate.hits(found, rules), gate.unjudged(found, rules)))
    assert set(found["counts"].values()) != {0} and {row["verdict"] for row in found["rows"]} == {*gate.VERDICTS} - {
        "different"
    }
    for name, text in compare_render.render(found).items():
        (base / name).write_text(text, encoding="utf-8")
    return base / "index.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 360])
def test_nothing_goes_wrong_and_nothing_is_cut_off(browser, compared, width, theme):
    browser.open(compared, width, theme)
    assert browser.troubles() == []
    assert [url for url in browser.requested() if not url.startswith(("file:", "data:"))] == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


def test_the_page_says_what_the_comparison_says(browser, compared):
    browser.open(compared)
    found = json.loads((compared.parent / "comparison.json").read_text(encoding="utf-8"))
    rows = browser.run("""[...document.querySelectorAll('.effects tbody tr')].map((row) => [row.closest('section').dataset.metric, row.dataset.point,
      row.dataset.verdict, Number(row.querySelector('td[data-label="Change"] data')?.value ?? NaN)])""")
    wanted = {(row["metric"], row["point"]): row for row in found["rows"]}
    assert {(metric, point): verdict for metric, point, verdict, _change in rows} == {
        key: row["verdict"] for key, row in wanted.items()
    }
    judged = [
        (wanted[metric, point]["change_percent"], change)
        for metric, point, _verdict, change in rows
        if change is not None
    ]
    assert len(judged) > 15 and all(ours == pytest.approx(theirs) for ours, theirs in judged)
    assert browser.run("Number(document.querySelector('.tile.v-worse data').value)") == found["counts"]["worse"] == 7


def test_marks_stand_where_their_figures_are(browser, compared):
    """The dot of a loss is left of the dashed line, that of a gain is right of it, and an interval within the margin ends within the band."""
    browser.open(compared)
    wrong = """[...document.querySelectorAll('.effects tbody tr')].filter((row) => {
      const dot = row.querySelector('.estimate'); if (!dot) { return false; }
      const change = Number(row.querySelector('td[data-label="Change"] data').value);
      const middle = (box) => box.left + box.width / 2;
      const side = middle(dot.getBoundingClientRect()) - middle(row.querySelector('.zero').getBoundingClientRect());
      const band = row.querySelector('.band').getBoundingClientRect(), line = row.querySelector('.interval').getBoundingClientRect();
      const within = line.left >= band.left - 1 && line.right <= band.right + 1;
      return (Math.abs(change) > 1 && Math.sign(side) !== Math.sign(change)) || (row.dataset.verdict === 'no_difference' && !within);
    }).length"""
    assert browser.run("document.querySelectorAll('.estimate').length") > 15 and browser.run(wrong) == 0


def test_labels_of_an_axis_stand_apart(browser, compared):
    browser.open(compared)
    close = """[...document.querySelectorAll('.effects .axis')].flatMap((axis) => {
      const boxes = [...axis.children].map((text) => text.getBoundingClientRect()).sort((a, b) => a.left - b.left);
      return boxes.filter((box, index) => index && box.left < boxes[index - 1].right + 2).map(() => axis.textContent);
    })"""
    assert browser.run(close) == []


def test_readable_with_scripts_off_and_in_print(browser, compared):
    browser.open(compared, scripts=False)
    assert browser.run("document.getElementById('theme').hidden") is True
    assert (
        browser.run(
            "[...document.querySelectorAll('.verdict-cell')].filter((cell) => cell.getBoundingClientRect().height < 10).length"
        )
        == 0
    )
    assert browser.run("document.querySelectorAll('#left-out li').length") == 2
    browser.open(compared, theme="dark", media="print")
    assert browser.run(BACKGROUND) == "rgb(255, 255, 255)"


def test_verdicts_can_be_sorted_by(browser, compared):
    browser.open(compared)
    browser.run(
        "[...document.querySelectorAll('#m1 thead button')].find((button) => button.textContent === 'Estimate').click()"
    )
    values = browser.run(
        "[...document.querySelectorAll('#m1 td[data-label=\"Change\"] data')].map((cell) => Number(cell.value))"
    )
    assert len(values) == 3 and values == sorted(values)


def test_names_and_headings_for_screen_readers(browser, compared):
    browser.open(compared)
    levels = browser.run("[...document.querySelectorAll('h1, h2, h3')].map((heading) => Number(heading.tagName[1]))")
    assert (
        levels[0] == 1
        and levels.count(1) == 1
        and all(after - before <= 1 for before, after in zip(levels, levels[1:]))
    )
    assert (
        browser.run(
            "[...document.querySelectorAll('a, button')].filter((element) => !element.textContent.trim()).length"
        )
        == 0
    )
    assert (
        browser.run("[...document.querySelectorAll('.scroll')].filter((element) => element.tabIndex !== 0).length") == 0
    )
    colours = "['--bad', '--good', '--link', '--warn'].map((name) => getComputedStyle(document.body).getPropertyValue(name).trim())"
    assert len(set(browser.run(colours))) == 4


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_axe_finds_no_serious_violation(browser, compared, width, theme):
    browser.open(compared, width, theme)
    assert browser.violations() == []


# -- real runs --------------------------------------------------------------------------------------------------------


def test_real_runs_are_alike_and_a_real_difference_is_found(tmp_path):
    """fio's null engine, paced so that a machine under load does not matter: the same rate twice, and two rates in turns."""
    layer = {
        "name": "ceiling-localhost",
        "kind": "ceiling",
        "host": "localhost",
        "path": None,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 1 << 30,
        "identity": {},
    }
    results = {"results_dir": str(tmp_path / "results"), "testbed_id": "compared"}
    measure = {
        "storlab.testbed.benchmark": {
            **results,
            "run_id": "{{ item }}",
            "layers": [layer],
            "workload": {"ramp_s": 0, "runtime_s": 1},
            "sweep": {"rate_iops": [2000, 3000]},
            "repetitions": 6,
            "progress": "none",
        },
        "loop": ["first", "second"],
        "register": "measured",
        "until": "measured is not failed",
        # Another run on this machine is waited for.
        "retries": 20,
        "delay": 3,
    }
    again = {
        "storlab.testbed.compare": {
            "baseline": {**results, "run_id": "first"},
            "candidate": {**results, "run_id": "second"},
            "metrics": ["iops"],
            "fail_on": ["regression > 10 %", "missing"],
        }
    }
    rates = [
        {
            **results,
            "run_id": "first",
            "workload": f"{{{{ measured.results[0].points | map(attribute='workload_id') | unique | sort | {which} }}}}",
        }
        for which in ("first", "last")
    ]
    apart = {"storlab.testbed.compare": {"baseline": rates[0], "candidate": rates[1], "metrics": ["iops"]}}
    steps = [
        measure,
        {**again, "register": "again"},
        {**apart, "register": "apart"},
        {
            "ansible.builtin.copy": {
                "content": "{{ [again, apart] | to_json }}",
                "dest": str(tmp_path / "out.json"),
                "mode": "0600",
            }
        },
    ]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": steps}])
    )
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "localhost,",
            "-e",
            json.dumps({"ansible_python_interpreter": sys.executable}),
            tmp_path / "play.yml",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    same, other = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (same["design"], len(same["rows"]), same["differences"], same["hits"]) == ("blocks", 2, [], [])
    [row] = other["rows"]
    assert other["design"] == "interleaved" and row["verdict"] in ("better", "worse")
    assert abs(row["change_percent"]) == pytest.approx(50 if row["verdict"] == "better" else 100 / 3, abs=10)
