# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipes of docs/habits.md for GitHub and GitLab: their steps that need no hosts are executed as a runner would, on synthetic runs."""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import places
import pytest
import yaml
from fixtures.compare import make_runs

SMALL, _LARGE = make_runs.WORKLOADS
NEEDS_HOSTS = ("storlab.testbed.site", "storlab.testbed.teardown", "pip install", "make demo")
NIGHTS = 22


CACHED = (".github/workflows/storage-cached.yml", ".gitlab-ci-cached.yml")


def recipe_of(file: str) -> dict:
    page = (places.ROOT / "docs" / "habits.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^`{re.escape(file)}`:\n\n```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return yaml.safe_load(text)


def steps(file: str) -> list[str]:
    """The shell texts of a recipe, in order; of GitHub those of its first job."""
    recipe = recipe_of(file)
    if file.startswith(".gitlab-ci"):
        job = recipe["storage"]
        return [*job["before_script"], *job["script"], *job["after_script"]]
    return [step["run"] for step in recipe["jobs"]["own-hosts"]["steps"] if "run" in step]


@pytest.fixture
def folder(tmp_path):
    """As many nightly runs as are more than a recipe keeps, a second apart, each a little different from the others."""
    nights = random.Random(7)  # noqa: S311 noise, no secret
    for night in range(NIGHTS):
        medians = {("backing-a", SMALL): 20_000 * math.exp(nights.gauss(0, 0.01))}
        name = f"{1000 + night}"
        run = make_runs.write_run(
            tmp_path / "results",
            make_runs.results(4, medians, seed=night, run_id=name, start=60 * night),
            asked={"run_id": name, "testbed_id": "synthetic"},
        )
        os.utime(run / "run.json", (1_790_000_000 + night, 1_790_000_000 + night))
    return tmp_path


def execute(folder: Path, file: str, candidate: str, **variables) -> list[subprocess.CompletedProcess]:
    """The steps, with what a runner puts into them."""
    assert any("ansible-playbook" in step for step in steps(file))
    done = []
    for step in steps(file):
        if any(word in step for word in NEEDS_HOSTS):
            continue
        text = step.replace("${{ github.run_id }}", candidate).replace("/srv/storlab-results", str(folder / "results"))
        text = text.replace("venv/bin/", f"{Path(sys.executable).parent}/").replace("-i my_lab", "-i localhost,")
        assert "${{" not in text
        text = text.replace("storlab.testbed.compare ", "storlab.testbed.compare -e testbed_id=synthetic ")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        done.append(
            subprocess.run(
                ["bash", "-ec", text],
                cwd=folder,
                env={
                    **environment,
                    "ANSIBLE_COLLECTIONS_PATH": str(places.ROOT / ".cache" / "collections"),
                    "CI_PIPELINE_ID": candidate,
                    **variables,
                },
                capture_output=True,
                text=True,
                check=False,
            )
        )
    return done


def kept(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in (folder / "results" / "synthetic").glob("*/run.json"))


def test_github_fails_for_half_the_speed_and_shows_it(folder):
    run = make_runs.results(4, {("backing-a", SMALL): 10_000}, run_id="2000", start=7200)
    make_runs.write_run(folder / "results", run, asked={"run_id": "2000", "testbed_id": "synthetic"})
    summary = folder / "summary.md"
    compared, shown, pruned = execute(folder, ".github/workflows/storage.yml", "2000", GITHUB_STEP_SUMMARY=str(summary))
    assert compared.returncode == 2 and "Failed: regression > 5 % " in compared.stdout, compared.stdout
    assert (shown.returncode, pruned.returncode) == (0, 0), shown.stderr + pruned.stderr
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# 2000 against ") and "Failed" in text and " worse, by " in text
    assert re.search(r"^::error ", shown.stdout, re.MULTILINE)
    (junit,) = (folder / "results" / "synthetic" / "compare").glob("2000-vs-*/junit.xml")
    assert ET.parse(junit).findall(".//failure")  # noqa: S314 our own text
    # The newest twenty: 2000 and the last nineteen nights. Comparisons stay.
    assert kept(folder) == [f"{1000 + night}" for night in range(3, NIGHTS)] + ["2000"]
    assert junit.is_file()


def test_gitlab_passes_for_a_night_like_the_others_and_keeps_twenty(folder):
    run = make_runs.results(4, {("backing-a", SMALL): 20_050}, run_id="3000", start=7200)
    make_runs.write_run(folder / "results", run, asked={"run_id": "3000", "testbed_id": "synthetic"})
    compared, pruned = execute(folder, ".gitlab-ci.yml", "3000")
    assert compared.returncode == 0 and "Passed: no figure meets regression > 5 %." in compared.stdout, compared.stdout
    assert pruned.returncode == 0 and len(kept(folder)) == 20 and "3000" in kept(folder)


def test_an_updated_kernel_says_what_differs_and_keeps_the_runs(folder):
    changed = {**make_runs.environment(), "kernel": {"release": "6.12.1"}}
    run = make_runs.results(4, {("backing-a", SMALL): 20_050}, run_id="4000", start=7200)
    make_runs.write_run(folder / "results", run, changed, asked={"run_id": "4000", "testbed_id": "synthetic"})
    compared = execute(folder, ".gitlab-ci.yml", "4000")[0]
    text = " ".join((compared.stdout + compared.stderr).split())
    assert compared.returncode == 2 and "kernel.release (6.1.0-50 → 6.12.1)" in text, text


def carried(file: str) -> tuple[set[str], set[str]]:
    """(paths that the next pipeline gets, paths that people get) as a recipe names them."""
    recipe = recipe_of(file)
    if file.startswith(".gitlab-ci"):
        job = recipe["storage"]
        assert (job["cache"]["when"], job["artifacts"]["when"]) == ("always", "always")
        return set(job["cache"]["paths"]), set(job["artifacts"]["paths"])
    uses = {step["uses"].partition("@")[0]: step for step in recipe["jobs"]["own-hosts"]["steps"] if "uses" in step}
    restored, saved = uses["actions/cache/restore"], uses["actions/cache/save"]
    assert restored["with"]["path"] == saved["with"]["path"]
    # A key is written once: each pipeline has its own, and begins with the newest of those before.
    assert saved["with"]["key"].startswith(restored["with"]["restore-keys"]) and "run_id" in saved["with"]["key"]
    # A failed comparison is the one that is wanted.
    assert saved["if"] == uses["actions/upload-artifact"]["if"] == "always()"
    return {saved["with"]["path"]}, {uses["actions/upload-artifact"]["with"]["path"]}


@pytest.mark.parametrize("file", CACHED)
def test_a_runner_that_is_recreated_carries_the_history_in_its_cache(file, folder):
    (cached,), (artifact,) = carried(file)
    carrier = folder
    for number, (median, words, failed) in enumerate(
        [(20_050, "Passed: no figure meets", 0), (10_000, "Failed: regression > 5 %", 2)]
    ):
        # A workspace with nothing in it but what was carried over.
        workspace = folder / f"workspace{number}"
        workspace.mkdir()
        shutil.copytree(carrier / cached, workspace / cached)
        name = f"{5000 + number}"
        run = make_runs.results(4, {("backing-a", SMALL): median}, run_id=name, start=7200 + 600 * number)
        make_runs.write_run(workspace / "results", run, asked={"run_id": name, "testbed_id": "synthetic"})
        compared, pruned = execute(workspace, file, name)
        assert compared.returncode == failed and words in compared.stdout, compared.stdout + compared.stderr
        assert pruned.returncode == 0 and len(kept(workspace)) == 20 and name in kept(workspace)
        assert list(workspace.glob(f"{artifact}/{name}-vs-*/report.md"))
        carrier = workspace
    assert "5000" in kept(workspace)


@pytest.mark.parametrize("file", CACHED)
def test_a_lost_cache_is_inconclusive_and_does_not_stop(file, tmp_path):
    for number in range(3):
        run = make_runs.results(
            4, {("backing-a", SMALL): 20_000 - 5_000 * number}, run_id=f"{number}", start=60 * number
        )
        make_runs.write_run(tmp_path / "results", run, asked={"run_id": f"{number}", "testbed_id": "synthetic"})
    compared = execute(tmp_path, file, "2")[0]
    assert compared.returncode == 0 and "Inconclusive" in compared.stdout, compared.stdout + compared.stderr
