# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build, benchmark, teardown and proof again and again over stand-ins: what a cycle leaves on its hosts and on the controller that the first one did not leave.

`make soak` does the same with machines, whose memory and time it holds, too; a cycle takes minutes there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from cut_plays import marked
from interrupted import Lab
from soak import leaks

CYCLES = 3
FOLDERS = {"TMPDIR": "tmp", "ANSIBLE_HOME": "home"}


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Lab:
    """With temporary files of its own, which are looked at, too."""
    for variable, name in FOLDERS.items():
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("SOAK_OF", str(tmp_path))
    return Lab(tmp_path)


def files(lab: Lab, run_id: str) -> list:
    """Every file of the controller; those of a run by names that every run has."""
    results = f"live/results/interrupted/{run_id}/"
    names = [str(path.relative_to(lab.folder)) for path in lab.folder.rglob("*")]
    runs = [
        name
        for name in names
        if name.startswith("live/results/interrupted/") and not name.endswith(("ledger.head", "ledger.jsonl"))
    ]
    return [name.replace(results, "the run/") for name in names if name not in runs or name.startswith(results)]


def there(lab: Lab, run_id: str) -> dict:
    commands = [
        Path("/proc", str(pid), "comm").read_text(encoding="utf-8") for pid in marked({"SOAK_OF": str(lab.folder)})
    ]
    return {"the controller": {"files": files(lab, run_id), "processes": commands}}


@pytest.mark.long
def test_no_cycle_leaves_what_the_first_did_not_leave(lab):
    untouched, first, told = lab.hosts(), None, []
    ledger = lab.live / "results/interrupted/ledger.jsonl"
    for number in range(CYCLES):
        run_id = f"cycle{number}"
        played = lab.play("build", "benchmark", "teardown", "verify_clean", run_id=run_id)
        assert (played.returned, played.failures) == (0, [])
        assert list(lab.results(run_id).values()) == ["measured", "measured"]
        assert lab.hosts() == untouched and lab.left() == []
        now = there(lab, run_id)
        first = first or now
        assert leaks(first, now) == [], f"cycle {number}"
        told.append(len(ledger.read_text(encoding="utf-8").splitlines()))
    # The ledger forgets nothing, and each cycle tells as much as the others.
    assert [later - before for before, later in zip([0, *told], told)] == [told[0]] * CYCLES


@pytest.mark.parametrize(
    "place", ["live/state/layers/backing-x.json", "home/tmp/x", "tmp/x", "live/results/interrupted/cycle1/points/x"]
)
def test_what_a_cycle_leaves_is_seen(lab, place):
    before = there(lab, "cycle0")
    path = lab.folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert any(
        line.endswith(place.replace("live/results/interrupted/cycle1/", "the run/"))
        for line in leaks(before, there(lab, "cycle1"))
    )
