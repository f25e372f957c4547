# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workflows: what each must have, and the program that runs their steps on this machine. actionlint reads them in `make workflows`."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import pytest
import run_workflow
import yaml
from places import ROOT

FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
# Everything secret that a workflow may use; the head of release.yml says who provides it.
SECRETS = {"secrets.GALAXY_TOKEN", "secrets.GITHUB_TOKEN"}


def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci/release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def jobs(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]


def faults(text):
    """What is wrong with a workflow, a word each."""
    document = yaml.safe_load(text)
    wrong = ["pin" for line in text.splitlines() if "uses:" in line and not PINNED.search(line)]
    wrong += ["permissions"] if document.get("permissions") != {"contents": "read"} else []
    wrong += ["secret"] if set(re.findall(r"secrets\.\w+", text)) - SECRETS else []
    for job in document["jobs"].values():
        wrong += [] if "timeout-minutes" in job else ["timeout"]
        for step in job["steps"]:
            command = step.get("run", "")
            # An expression inside a command is text of others that a shell would execute; the matrix is our own.
            wrong += [
                "injection" for name in run_workflow.EXPRESSION.findall(command) if not name.startswith("matrix.")
            ]
            wrong += ["shell"] if subprocess.run(["bash", "-n", "-c", command], check=False).returncode else []
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_is_pinned_limited_and_readable(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ("- uses: actions/checkout@v4", "pin"),
        ("- run: echo ${{ github.event.issue.title }}", "injection"),
        ("- run: echo $(", "shell"),
        ("- run: echo\n        env: {A: '${{ secrets.OTHER }}'}", "secret"),
    ],
)
def test_each_fault_is_seen(bad, fault):
    text = f"permissions: {{contents: read}}\njobs:\n  a:\n    timeout-minutes: 5\n    steps:\n      {bad}\n"
    assert faults(text) == [fault]
    assert sorted(faults(text.replace("timeout-minutes: 5", "name: a").replace("contents: read", ""))) == sorted(
        [fault, "permissions", "timeout"]
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_targets_and_files_that_steps_name_are_there(path):
    recipes = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "Makefile", *(ROOT / "make").glob("*.mk")))
    commands = "\n".join(step.get("run", "") for job in jobs(path).values() for step in job["steps"])
    targets = re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE)
    assert [name for name in targets if not re.search(rf"^{name}[ a-z-]*:", recipes, re.MULTILINE)] == []
    files = re.findall(r"(?<![\w/$}\".])((?:tests|\.ci|\.config)/[\w./-]+)", commands)
    made = (".ci/execution-environment/context", ".ci/execution-environment/storlab-testbed.tar.gz")
    assert files and [name for name in files if not (ROOT / name).exists() and name not in made] == []


WORKFLOW = """
jobs:
  last:
    needs: first
    env: {WHO: "${{ matrix.who }}"}
    strategy: {matrix: {who: [ada, bob]}}
    steps:
      - uses: actions/download-artifact@x
        with: {name: box, path: got}
      - run: echo "$WHO $(cat got/file) $GITHUB_REF_NAME" >"$OUT"
      - name: Publish
        run: touch "$OUT.published"
        env: {TOKEN: "${{ secrets.TOKEN }}"}
      - run: docker push something
      - name: Left out
        run: touch "$OUT.left"
      - uses: actions/deploy-pages@x
  first:
    steps:
      - run: mkdir box && echo 17 >box/file
      - uses: actions/upload-artifact@x
        with: {name: box, path: box}
"""


@pytest.fixture
def workflow(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    path = tmp_path / "w.yml"
    path.write_text(WORKFLOW, encoding="utf-8")
    return path


def test_steps_run_in_order_and_what_cannot_is_listed(workflow, tmp_path):
    runner = run_workflow.run(workflow, ROOT, tmp_path / "place", "v1.2.3", without=("Left out",))
    assert (tmp_path / "out").read_text() == "ada 17 v1.2.3\n"
    assert [label.split(" ")[0] for label in runner.ran] == ["first", "first", "last", "last"]
    assert [reason for _label, reason in runner.left] == [
        "secrets.TOKEN",
        "docker acts on a service",
        "left out",
        "the action actions/deploy-pages",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "place", "w.yml"]


def test_a_step_that_fails_ends_it(workflow, tmp_path):
    workflow.write_text(WORKFLOW.replace("echo 17 >box/file", "false"), encoding="utf-8")
    with pytest.raises(SystemExit, match="The step ended with 1"):
        run_workflow.run(workflow, ROOT, tmp_path / "place", "v1.2.3")
    assert not (tmp_path / "out").exists()


def test_a_job_that_is_not_there_is_named(workflow, tmp_path):
    with pytest.raises(SystemExit, match=r"has no job middle. It has last, first."):
        run_workflow.run(workflow, ROOT, tmp_path / "place", "v1.2.3", ["middle"])


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "changelogs/fragments").mkdir(parents=True)
    (tmp_path / "galaxy.yml").write_text("version: 3.4.5\n")
    (tmp_path / "CHANGELOG.md").write_text(
        '# Notes\n\n<a id="v3-4-5"></a>\n## v3\\.4\\.5\n\n<a id="bugfixes"></a>\n### Bugfixes\n\n* It holds\\.\n\n'
        '<a id="v3-4-4"></a>\n## v3\\.4\\.4\n\n* Older\\.\n'
    )
    return tmp_path


def test_a_release_is_complete_or_each_gap_is_named(tree):
    program = release()
    assert program.problems(tree, "3.4.5") == []
    assert program.notes((tree / "CHANGELOG.md").read_text(), "3.4.5") == "### Bugfixes\n\n* It holds\\.\n"
    (tree / "changelogs/fragments/late.yml").write_text("---\n")
    gaps = program.problems(tree, "3.5.0")
    assert ["galaxy.yml has version 3.4.5" in gaps[0], "no part about 3.5.0" in gaps[1], "late.yml" in gaps[2]] == [
        True
    ] * 3
    for tag in ("1.2.3", "v1.2", "v1.2.3-rc1", "v1.2.3\n"):
        with pytest.raises(SystemExit):
            program.version_of(tag)
    assert program.version_of("v1.2.3") == "1.2.3"


def test_the_version_of_galaxy_yml_has_notes_for_people():
    """Fragments that come later become entries of it (``make changelog``), so none waiting is not asked for here."""
    program = release()
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    assert program.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version).startswith("### In short")
    changes = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text(encoding="utf-8"))["releases"][version]
    breaking = changes["changes"]["breaking_changes"]
    # What is different, and what to do: two sentences at least.
    assert [entry for entry in breaking if len(re.findall(r"[.)](?: |$)", entry)) < 2] == []
    assert breaking
