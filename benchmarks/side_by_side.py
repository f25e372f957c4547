#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same fio files through this collection, fio-plot and CBT's comparison: processor time, peak memory, what comes out. See side_by_side.md.

fio measures the same twice, on a file beside its results, so whatever difference is told between the two is noise. fio-plot and what CBT needs are
installed into an environment of their own, below the folder of the test. CBT is no package: name a checkout of it, otherwise it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATTERNS, DEPTHS, WORKERS = ("randread", "randwrite"), (1, 4, 16), (1, 2)
SIDES = ("before", "after")
FIO_PLOT = "fio-plot==1.1.21"
FOR_CBT = ("pyyaml", "lxml", "mdutils")  # and matplotlib, which fio-plot brings
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - storlab.testbed.import_results:
        path: "{base}/{{{{ item }}}}"
        run_dir: "{base}/ours/files/{{{{ item }}}}"
        testbed_id: files
        run_id: "{{{{ item }}}}"
      loop: [before, after]
    - storlab.testbed.report: {{run_dir: "{base}/ours/files/{{{{ item }}}}", index: false}}
      loop: [before, after]
    - storlab.testbed.compare:
        baseline: {{run_dir: "{base}/ours/files/before"}}
        candidate: {{run_dir: "{base}/ours/files/after"}}
        output_dir: "{base}/ours"
"""


def measure_files(base: Path, repetitions: int) -> int:
    """<side>/run-<n>/file/4k/<pattern>-<depth>-<workers>.json, as bench-fio lays them out; how many there are."""
    number = 0
    for repetition in range(1, repetitions + 1):
        for side in SIDES:
            folder = base / side / f"run-{repetition}" / "file" / "4k"
            folder.mkdir(parents=True)
            for pattern in PATTERNS:
                for depth in DEPTHS:
                    for workers in WORKERS:
                        name = f"{pattern}-{depth}-{workers}"
                        # Everything that CBT asks of the global options; they are global because --name comes last.
                        subprocess.run(
                            [
                                "fio",
                                "--output-format=json+",
                                f"--output={folder / name}.json",
                                "--ioengine=libaio",
                                "--direct=1",
                                f"--filename={base / 'data'}",
                                "--size=64M",
                                "--bs=4096B",
                                "--time_based",
                                "--runtime=250ms",
                                f"--rw={pattern}",
                                f"--iodepth={depth}",
                                f"--numjobs={workers}",
                                "--group_reporting",
                                f"--write_iops_log={name}",
                                "--log_avg_msec=1000",
                                f"--name={pattern}",
                            ],
                            check=True,
                            cwd=folder,
                            stdout=subprocess.DEVNULL,
                        )
                        for log in folder.glob("*.log"):
                            log.unlink()
                        number += 1
    return number


def run(commands: list, folder: Path, **environment) -> tuple:
    """(processor seconds, peak bytes of the largest process) of commands, one after the other."""
    spent, peak = 0.0, 0
    for command in commands:
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}
            )
            _pid, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read()
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{said[-3000:]}")
        spent, peak = spent + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss * 1024)
    return spent, peak


def ours(base: Path) -> tuple:
    play = base / "play.yml"
    play.write_text(PLAY.format(base=base), encoding="utf-8")
    return run(
        [["ansible-playbook", "-i", "localhost,", "-c", "local", play]], ROOT, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg")
    )


def fio_plot(base: Path, programs: Path) -> tuple:
    """All pictures that it has for such files: of one repetition, because a folder holds one file a point."""
    folder = base / "fio-plot"
    folder.mkdir()
    inputs = {side: base / side / "run-1" / "file" / "4k" for side in SIDES}
    commands = []
    for pattern in PATTERNS:
        for side, path in inputs.items():
            common = [programs / "fio-plot", "-i", path, "-T", side, "-r", pattern, "-o"]
            commands += [
                [*common, f"{side}-{pattern}-depths-{workers}.png", "-l", "-n", str(workers)] for workers in WORKERS
            ]
            commands += [
                [*common, f"{side}-{pattern}-workers.png", "-N", "-d", str(DEPTHS[-1])],
                [*common, f"{side}-{pattern}-surface.png", "-L", "-t", "iops"],
                [*common, f"{side}-{pattern}-histogram.png", "-H", "-d", str(DEPTHS[-1]), "-n", "1"],
            ]
        commands.append(
            [
                programs / "fio-plot",
                "-i",
                *inputs.values(),
                "-T",
                "both",
                "-C",
                "-r",
                pattern,
                "-d",
                str(DEPTHS[-1]),
                "-n",
                "1",
                "--xlabel-parent",
                "3",
                "-o",
                f"compared-{pattern}.png",
            ]
        )
    return run(commands, folder, MPLBACKEND="Agg")


def cbt(base: Path, programs: Path, checkout: Path) -> tuple:
    """Its two steps, files into its own format and the comparison of folders of those: of one repetition and one worker, what more there is it adds up."""
    for side in SIDES:
        archive = base / "cbt" / side / "results" / "00000000" / "id-1"
        archive.mkdir(parents=True)
        (base / "cbt" / side / "results" / "cbt_config.yaml").write_text("benchmarks: {}\n", encoding="utf-8")
        for number, path in enumerate(sorted((base / side / "run-1" / "file" / "4k").glob("*-1.json"))):
            shutil.copy(path, archive / f"json_output{number}.0")
    sides = [base / "cbt" / side for side in SIDES]
    commands = [
        [programs / "python", checkout / "tools" / "fio_common_output_wrapper.py", f"--archive={side}"]
        for side in sides
    ]
    commands.append(
        [
            programs / "python",
            checkout / "tools" / "generate_comparison_performance_report.py",
            f"--baseline={sides[0]}",
            f"--archives={sides[1]}",
            f"--output_directory={base / 'cbt' / 'report'}",
        ]
    )
    return run(commands, base / "cbt", PYTHONPATH=str(checkout), MPLBACKEND="Agg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--cbt", type=Path, help="a checkout of CBT")
    parser.add_argument("--keep", type=Path, help="an empty folder that keeps what came out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        base = (arguments.keep or Path(scratch)).resolve()
        base.mkdir(exist_ok=True)
        print(f"{measure_files(base, arguments.repetitions)} files of fio")
        venv.create(base / "venv", with_pip=True)
        programs = base / "venv" / "bin"
        run([[programs / "pip", "install", "--quiet", FIO_PLOT, *(FOR_CBT if arguments.cbt else ())]], base)
        found = {"ours": ours(base), "fio-plot": fio_plot(base, programs)}
        if arguments.cbt:
            found["cbt"] = cbt(base, programs, arguments.cbt.resolve())
        for name, (seconds, peak) in found.items():
            files = [
                path
                for path in (base / name).rglob("*")
                if path.is_file() and (path.suffix in (".html", ".png", ".md"))
            ]
            size = sum(path.stat().st_size for path in files)
            print(
                f"{name:9} {seconds:6.1f} s of processor {peak / 1e6:6.0f} MB {len(files):4} pages and pictures {size / 1e3:7.0f} kB"
            )
        comparison = json.loads(next((base / "ours").glob("*-vs-*/comparison.json")).read_text(encoding="utf-8"))
        print(f"ours:     {comparison['headline']} {comparison['counts']}")
        for path in (base / "cbt" / "report").glob("*.md") if arguments.cbt else ():
            print(
                "cbt:\n"
                + "\n".join(
                    line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")
                )
            )


if __name__ == "__main__":
    main()
