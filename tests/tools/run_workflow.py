#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the `run:` steps of a workflow on this machine, as far as they go: `make workflows`.

    python tests/tools/run_workflow.py .github/workflows/release.yml --ref v1.2.3 --job build

Each job runs in a clone of HEAD in a temporary folder, in the order of `needs`. Checkout, Python and artefacts are played by this script. Every other
action, and every step that needs a secret or acts on a service, is listed as not run. A step that fails ends the script.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# Programs of hosted machines that act on services.
SERVICES = ("docker", "gh")


class Unknown(Exception):
    """An expression that only the service can answer."""


def filled(text: str, names: dict[str, Any]) -> str:
    """The text with its expressions replaced; Unknown for any that is not in names."""

    def value(match: re.Match[str]) -> str:
        if match.group(1) not in names:
            raise Unknown(match.group(1))
        return str(names[match.group(1)])

    return EXPRESSION.sub(value, text)


def cells(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The combinations of a job's matrix; one empty combination without a matrix."""
    matrix = dict((job.get("strategy") or {}).get("matrix") or {})
    include = matrix.pop("include", [])
    axes = [[(name, value) for value in values] for name, values in matrix.items()]
    product = [dict(cell) for cell in itertools.product(*axes)] if axes else []
    return [*product, *include] or [{}]


def ordered(jobs: dict[str, Any], wanted: list[str]) -> Iterator[str]:
    """Names of jobs, each after the jobs that it needs."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        needs = jobs[name].get("needs") or []
        for other in [needs] if isinstance(needs, str) else needs:
            if other not in done and other in wanted:
                yield from visit(other)
        if name not in done:
            done.add(name)
            yield name

    for name in wanted:
        yield from visit(name)


class Runner:
    def __init__(self, source: Path, place: Path, ref: str):
        self.source, self.place, self.ref = source, place, ref
        self.artefacts = place / "artefacts"
        self.ran: list[str] = []
        self.left: list[tuple[str, str]] = []
        self.without: tuple[str, ...] = ()

    def job(self, name: str, job: dict[str, Any], cell: dict[str, Any]) -> None:
        folder = self.place / "-".join([name, *(re.sub(r"\W+", "_", str(value)) for value in cell.values())])
        folder.mkdir(parents=True)
        names = {f"matrix.{key}": value for key, value in cell.items()}
        names |= {"github.ref_name": self.ref, "github.workflow": "local", "github.ref": f"refs/tags/{self.ref}"}
        usual = (job.get("defaults") or {}).get("run", {}).get("working-directory", ".")
        for number, step in enumerate(job["steps"], start=1):
            label = (
                f"{name} {number} {step.get('name') or step.get('run', step.get('uses', '')).strip().splitlines()[0]}"
            )
            try:
                if step.get("name") in self.without:
                    raise Unknown("left out")
                if "uses" in step:
                    self.action(folder, step, names)
                else:
                    self.command(
                        folder, {**step, "working-directory": step.get("working-directory", usual)}, job, names
                    )
            except Unknown as reason:
                self.left.append((label, str(reason)))
                print(f"-- not run: {label} ({reason})", flush=True)
            else:
                self.ran.append(label)

    def action(self, folder: Path, step: dict[str, Any], names: dict[str, Any]) -> None:
        action, given = step["uses"].partition("@")[0], step.get("with") or {}
        if action == "actions/checkout":
            subprocess.run(
                ["git", "clone", "--quiet", str(self.source), str(folder / given.get("path", "."))], check=True
            )
        elif action == "actions/upload-artifact":
            shutil.copytree(folder / filled(given["path"], names), self.artefacts / given["name"])
        elif action == "actions/download-artifact":
            if not (self.artefacts / given["name"]).exists():
                raise Unknown(f"no job has left the artefact {given['name']}")
            shutil.copytree(self.artefacts / given["name"], folder / given["path"])
        elif action != "actions/setup-python":  # the Python of this machine
            raise Unknown(f"the action {action}")

    def command(self, folder: Path, step: dict[str, Any], job: dict[str, Any], names: dict[str, Any]) -> None:
        text = filled(step["run"], names)
        extra = {
            key: filled(str(value), names)
            for key, value in {**(job.get("env") or {}), **(step.get("env") or {})}.items()
        }
        for program in SERVICES:
            if re.search(rf"^\s*{program}\s", text, re.MULTILINE):
                raise Unknown(f"{program} acts on a service")
        where = folder / filled(step["working-directory"], names)
        print(f"== {text.strip().splitlines()[0]}", flush=True)
        environment = {
            **os.environ,
            **extra,
            "CI": "true",
            "GITHUB_REF_NAME": self.ref,
            "GITHUB_REPOSITORY": "storlab/storlab.testbed",
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text], cwd=where, env=environment, check=False
        )
        if done.returncode:
            raise SystemExit(f"The step ended with {done.returncode}: {text.strip().splitlines()[0]}")


def run(
    workflow: Path, source: Path, place: Path, ref: str, wanted: list[str] | None = None, without: tuple[str, ...] = ()
) -> Runner:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    unknown = sorted(set(wanted or []) - set(jobs))
    if unknown:
        raise SystemExit(f"{workflow.name} has no job {unknown[0]}. It has {', '.join(jobs)}.")
    runner = Runner(source, place, ref)
    runner.without = without
    for name in ordered(jobs, wanted or list(jobs)):
        runner.job(name, jobs[name], cells(jobs[name])[0])
    return runner


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the steps of a workflow on this machine, as far as they go.")
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--job", action="append", help="only this one, with what it needs if that is named, too")
    parser.add_argument("--without", action="append", default=[], help="the name of a step to leave out")
    parser.add_argument("--ref", default="main", help="the tag or branch that it is run for")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="workflow-") as folder:
        runner = run(given.workflow, ROOT, Path(folder), given.ref, given.job, tuple(given.without))
    print(f"{len(runner.ran)} steps ran, {len(runner.left)} did not:")
    for label, reason in runner.left:
        print(f"  {label}: {reason}")
    sys.exit(0 if runner.ran else 1)


if __name__ == "__main__":
    main()
