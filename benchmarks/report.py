#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report costs: processor time, memory and size of the page, over runs of growing size, first and once the run has its index. See report.md.

The runs are synthetic (tests/standins/synthetic_run.py) with everything in them that a report can show, and raw files as large as fio writes them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RAW_BYTES = 30_000  # of fio's json+ for one point, by our own runs
REPETITIONS = 5
INDEXES = ("index.sqlite", "index.jsonl")  # that make what is done first and what is done again different


def write(base: str, points: int) -> str:
    """A run of at least so many points; its folder. What is beyond the first thousand has the same figures under other queue depths."""
    sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
    import synthetic_run

    folder = Path(
        synthetic_run.write_run(
            base, "large" if points > 100 else "chain", REPETITIONS if points > 100 else max(1, points // 6)
        )
    )
    originals = sorted((folder / "points").iterdir())
    for path in originals:
        filled(path)
    for copy in range(1, -(-points // len(originals))):
        for path in originals:
            result = json.loads((path / "result.json").read_text(encoding="utf-8"))
            old, new = f"qd{result['workload']['queue_depth']}-", f"qd{result['workload']['queue_depth'] + 10 * copy}-"
            result["workload"]["queue_depth"] += 10 * copy
            for key in ("point_id", "workload_id"):
                result[key] = result[key].replace(old, new)
            target = folder / "points" / result["point_id"]
            target.mkdir()
            for name in ("fio.json", "job.fio", "series.json"):
                (target / name).write_bytes((path / name).read_bytes())
            (target / "result.json").write_text(json.dumps(result, indent=1, sort_keys=True), encoding="utf-8")
    return str(folder)


def filled(point: Path) -> None:
    """The raw file as large as a real one, and its checksum where it is kept."""
    raw = (point / "fio.json").read_text(encoding="utf-8").ljust(RAW_BYTES)
    (point / "fio.json").write_text(raw, encoding="utf-8")
    result = json.loads((point / "result.json").read_text(encoding="utf-8"))
    result["raw"]["sha256"] = hashlib.sha256(raw.encode()).hexdigest()
    (point / "result.json").write_text(json.dumps(result, indent=1, sort_keys=True), encoding="utf-8")


def installed(checkout: str) -> str:
    """The package of the plugins of this checkout."""
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    _AnsibleCollectionFinder(paths=[os.path.join(os.path.abspath(checkout), ".cache", "collections")])._install()
    return "ansible_collections.storlab.testbed.plugins"


def keep_index(folder: str, checkout: str) -> None:
    """Write the index as benchmark does when it has measured a run, and print what that took."""
    load = importlib.import_module(f"{installed(checkout)}.plugin_utils.store.load")
    began = time.process_time()
    load.keep_index(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_s": time.process_time() - began, "rss_bytes": peak}))


def measure(folder: str, checkout: str) -> None:
    """In a process of its own: what reading, working out and drawing take with the collection of this checkout."""
    plugins = installed(checkout)
    if os.path.isdir(os.path.join(checkout, "plugins", "plugin_utils", "report")):
        places = (f"{plugins}.plugin_utils.store", *[f"{plugins}.plugin_utils.report"] * 2)
    else:  # up to version 0.3.0
        places = (f"{plugins}.module_utils.report",) * 3
    load, model, render = (
        importlib.import_module(f"{place}.{name}") for place, name in zip(places, ("load", "model", "render"))
    )
    marks = [time.process_time()]
    run = load.read_run(folder)
    marks.append(time.process_time())
    report = model.build(run)
    if hasattr(run, "forget_bins"):
        run.forget_bins()
    marks.append(time.process_time())
    html_bytes = drawn(render, report)
    marks.append(time.process_time())
    print(
        json.dumps(
            {
                "points": len(report.points),
                "cpu_s": [after - before for before, after in zip(marks, marks[1:])],
                "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "html_bytes": html_bytes,
            }
        )
    )


def drawn(render, report) -> int:
    """Draw the files and write them, as the action does. Bytes of the page."""
    files = render.files(report) if hasattr(render, "files") else render.render(report)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as handle:
                handle.writelines(text() if callable(text) else [text])
        return os.path.getsize(os.path.join(folder, "index.html"))


def measured(folder: str, checkout: str) -> dict:
    # As for users: Python keeps what it compiles.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, "--measure", folder, "--checkout", checkout]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="+", default=[54, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=1, help="each figure of time is the least of so many")
    parser.add_argument("--against", help="another checkout, with its link in .cache/collections, measured in turns")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--index", metavar="RUN", help="only write the index of this run, as benchmark does")
    parser.add_argument(
        "--write", metavar="FOLDER", help="only write a run of the first number of points there, and print its folder"
    )
    parser.add_argument("--checkout", default=str(ROOT), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.checkout)
        return
    if arguments.index:
        keep_index(arguments.index, arguments.checkout)
        return
    if arguments.write:
        print(write(arguments.write, arguments.points[0]))
        return
    checkouts = [str(ROOT), *([os.path.abspath(arguments.against)] if arguments.against else [])]
    print(
        f"{'points':>7} {'read s':>7} {'work out s':>11} {'draw s':>7} {'all s':>6} {'MB of memory':>13} {'kB of page':>11}"
    )
    for points in arguments.points:
        runs: dict = {}
        with tempfile.TemporaryDirectory() as base:
            folder = write(base, points)
            for _round in range(arguments.rounds):
                for checkout in checkouts:
                    for name in INDEXES:
                        Path(folder, name).unlink(missing_ok=True)
                    for again in (False, True):
                        runs.setdefault((checkout, again), []).append(measured(folder, checkout))
        least = {}
        for (checkout, again), taken in runs.items():
            read, built, drawn = (min(times) for times in zip(*(run["cpu_s"] for run in taken)))
            least[checkout, again] = min(sum(run["cpu_s"]) for run in taken)
            print(
                f"{taken[0]['points']:>7} {read:>7.2f} {built:>11.2f} {drawn:>7.2f} {least[checkout, again]:>6.2f} "
                f"{taken[0]['rss_bytes'] / 1e6:>13.0f} {taken[0]['html_bytes'] / 1e3:>11.0f}  {'again' if again else 'first'}",
                flush=True,
            )
        if arguments.against:
            for again, words in ((False, "first"), (True, "again")):
                ratio = least[checkouts[0], again] / least[checkouts[1], again]
                print(f"{'':>7} ratio of all, {words}: {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
