#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums of all files of the reports of stored runs: a change that must not change a report leaves them as they are.

python -m pytest --basetemp=/tmp/corpus tests/unit/report tests/unit/store tests/unit/compare   # leaves the runs of these tests
python tests/tools/report_bytes.py /tmp/corpus results > before.txt                                    # the same again after the change
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.storlab.testbed.plugins.plugin_utils."


def checksums(run_dir: Path) -> Iterator[str]:
    """A line per file of the report, its charts among them; one line where the run has no report."""
    names = ("model", "render", "static", "junit", "terminal")
    model, render, static, junit, terminal = (importlib.import_module(f"{PACKAGE}report.{name}") for name in names)
    failure = importlib.import_module(PACKAGE.replace("plugin_utils.", "module_utils.core.failure")).Failure
    try:
        report = model.build(importlib.import_module(f"{PACKAGE}store.load").read_run(str(run_dir)))
    except failure as exc:
        yield f"- {run_dir} {exc}"
        return
    texts = {**render.render(report), "junit.xml": junit.junit(report), **static.files(report, ["svg"])}
    texts["lines for a terminal"] = "\n".join(terminal.table(report))
    for name, text in sorted(texts.items()):
        # A name out of a file may hold what UTF-8 cannot say.
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        yield f"{digest} {run_dir}/{name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders with stored runs somewhere below them")
    folders = parser.parse_args().folders
    sys.path.insert(0, str(ROOT / ".cache" / "collections"))
    points = (path for folder in folders for name in ("points", "installations") for path in folder.rglob(name))
    for run_dir in sorted({path.parent for path in points if path.is_dir()}):
        print(*checksums(run_dir), sep="\n")


if __name__ == "__main__":
    main()
