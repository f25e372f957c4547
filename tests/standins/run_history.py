# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of one testbed on several days, for the tests of the page over all runs."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.report import make_fixture


def testbed(base: Path, *days: str) -> Path:
    """Runs of the synthetic chain, one a day, each a little faster; from the third on with another kernel."""
    folder = base / "results" / make_fixture.TESTBED
    for number, day in enumerate(days):
        made = Path(make_fixture.write_run(str(base / f"made{number}"), 1, 3))
        run = folder / f"run-{day}"
        run.parent.mkdir(parents=True, exist_ok=True)
        made.rename(run)
        for path in run.glob("points/*/result.json"):
            result = json.loads(path.read_text())
            result["run_id"] = run.name
            for key in ("started_utc", "finished_utc"):
                result[key] = result[key].replace("2026-11-21", day)
            result["total"]["iops"] *= 1 + number / 10
            path.write_text(json.dumps(result))
        if number > 1:
            change(run, "target01", lambda facts: facts["kernel"].update(release="6.1.0-51-cloud-amd64"))
    return folder


def change(run: Path, host: str, how) -> None:
    path = run / "hosts" / f"{host}.json"
    facts = json.loads(path.read_text())
    how(facts)
    path.write_text(json.dumps(facts))


# Its name does not make it a test.
testbed.__test__ = False
