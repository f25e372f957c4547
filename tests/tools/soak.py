# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds, measures and takes down one embedded testbed again and again, and looks at what each cycle leaves behind.

The machines stay up. After each cycle every machine and this computer are read, by nothing of the collection: processes, files, kernel modules, mounts,
block devices, targets, sessions and used memory. What is there after a cycle and was not after the first has leaked. Memory and the time of a cycle may not
grow; both vary by themselves, so only a growth that the whole of a 95 % interval shows is a failure.

What each cycle left is a line of .cache/soak/cycles.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

from scipy.stats import theilslopes

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]

from places import ROOT
from small_lab import MACHINES, REPETITIONS, Lab

NAME = "soak"
MOST_MEMORY = 0.01  # of the memory of the machine, over all cycles
MOST_TIME = 0.05  # of a cycle's time, over all cycles
# Below this many cycles no interval says anything.
LEAST_FOR_A_SLOPE = 10
# Runs on a machine; prints what is there as JSON. Memory that the kernel gives back when asked is not used. Of its own connection it says nothing.
READ = r"""
import glob, json, os
def text(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""
os.sync()
with open("/proc/sys/vm/drop_caches", "w") as handle:
    handle.write("3")
processes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    stat = text("/proc/%s/stat" % pid)
    name, fields = stat[stat.find("(") + 1 : stat.rfind(")")], stat[stat.rfind(")") + 2 :].split()
    # 2 is the parent of the kernel's own threads.
    if fields and "2" not in (pid, fields[1]) and not name.startswith("sshd") and int(fields[3]) != os.getsid(0):
        processes.append(name)
files = [
    os.path.join(folder, name)
    for top in ("/etc", "/root", "/run", "/srv", "/tmp", "/var")
    for folder, folders, names in os.walk(top)
    for name in folders + names
]
memory = {line.split(":")[0]: int(line.split()[1]) for line in text("/proc/meminfo").splitlines()}
print(json.dumps({
    "processes": processes,
    "files": files,
    "modules": [line.split()[0] for line in text("/proc/modules").splitlines()],
    "mounts": [" ".join(line.split()[:3]) for line in text("/proc/mounts").splitlines()],
    "block_devices": os.listdir("/sys/block"),
    "targets": glob.glob("/sys/kernel/config/target/*/*") + glob.glob("/sys/class/iscsi_session/*"),
    "used_kib": memory["MemTotal"] - memory["MemAvailable"],
    "total_kib": memory["MemTotal"],
}))
"""
COUNTED = ("processes", "files", "modules", "mounts", "block_devices", "targets")


def of_this_computer(lab: Lab) -> dict:
    """What carries the lab's name here. Others work here, too, so nothing else is looked at."""
    marks = [f"/storlab-{lab.name}-", f"{ROOT}/.cache/lab/{lab.name}", f"{ROOT}/.cache/testbeds/{lab.name}"]
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError):
            commands.append(path.read_bytes().decode(errors="replace").split("\0"))
    folders = [
        *Path("/run/storlab").glob(f"storlab-{lab.name}-*"),
        *(ROOT / ".cache" / kind / lab.name for kind in ("lab", "testbeds")),
    ]
    return {
        "processes": [words[0] for words in commands if any(mark in word for word in words for mark in marks)],
        # Of a run there is one folder more each time, in the results. Here it may leave nothing.
        "files": [str(path) for folder in folders for path in folder.rglob("*")],
        "mounts": [
            line
            for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
            if any(mark in line for mark in marks)
        ],
    }


def leaks(first: dict, later: dict) -> list:
    """What is there after a later cycle, and was not, or not as often, after the first: {place: {kind: things}} of both."""
    return [
        f"{place}: {kind}: {thing}"
        for place in sorted(later)
        for kind in COUNTED
        for thing in sorted((Counter(later[place].get(kind, ())) - Counter(first[place].get(kind, ()))).elements())
    ]


def growth(values: list) -> tuple:
    """(growth from the first to the last of equally spaced values, the least growth that a 95 % interval holds), by the slope of Theil and Sen. The interval
    is None for too few values."""
    slope, _intercept, low, _high = theilslopes(values)
    steps = len(values) - 1
    return slope * steps, low * steps if len(values) >= LEAST_FOR_A_SLOPE else None


def grown(cycles: list) -> list:
    """What grows by more than it may. cycles: [{seconds, places: {machine: {used_kib, total_kib}}}]"""
    problems = []
    for machine in MACHINES:
        total = cycles[0]["places"][machine]["total_kib"]
        _growth, least = growth([cycle["places"][machine]["used_kib"] for cycle in cycles])
        if least is not None and least > MOST_MEMORY * total:
            problems.append(
                f"{machine}: used memory grows by at least {least:.0f} KiB in {len(cycles)} cycles, of {total} KiB"
            )
    seconds = [cycle["seconds"] for cycle in cycles]
    _growth, least = growth(seconds)
    if least is not None and least > MOST_TIME * statistics.median(seconds):
        problems.append(
            f"a cycle takes at least {least:.1f} s longer after {len(cycles)} cycles, of {statistics.median(seconds):.1f} s"
        )
    return problems


def read(lab: Lab) -> dict:
    """{place: what is there}"""
    places = {machine: json.loads(lab.run(machine, f"exec python3 - <<'END'\n{READ}\nEND")) for machine in MACHINES}
    return {**places, "this computer": of_this_computer(lab)}


def cycle(lab: Lab, run: str) -> dict:
    """One cycle: build, measure, take down, prove that nothing is left."""
    plays = [
        ("build", lab.play("build")),
        ("benchmark", lab.play("benchmark", testbed_run_id=run)),
        ("teardown", lab.play("teardown", "verify_clean")),
    ]
    problems = [f"{name}: {played.failures}" for name, played in plays if played.returned]
    statuses = [result["status"] for result, _raw in lab.points(run)]
    if statuses != ["measured"] * REPETITIONS:
        problems.append(f"benchmark: {statuses}")
    return {"seconds": sum(played.seconds for _name, played in plays), "problems": problems, "places": read(lab)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build, benchmark and teardown of one embedded testbed again and again."
    )
    parser.add_argument("--cycles", type=int, default=100)
    given = parser.parse_args()
    lab, cycles, problems = Lab(NAME), [], []
    (lab.folder / "cycles.jsonl").unlink(missing_ok=True)
    try:
        for number in range(1, given.cycles + 1):
            one = cycle(lab, f"cycle-{time.time_ns()}")
            cycles.append(one)
            new = one["problems"] + leaks(cycles[0]["places"], one["places"])
            problems += [f"cycle {number}: {problem}" for problem in new]
            with open(lab.folder / "cycles.jsonl", "a", encoding="utf-8") as kept:
                used = {machine: one["places"][machine]["used_kib"] for machine in MACHINES}
                kept.write(
                    json.dumps({"cycle": number, "seconds": one["seconds"], "used_kib": used, "problems": new}) + "\n"
                )
            print(f"{number}/{given.cycles}: {one['seconds']:.0f} s, {used} KiB used", *new, sep="\n  ", flush=True)
        problems += grown(cycles)
    finally:
        gone = lab.play("embedded_lab", testbed_lab_state="absent")
    if gone.returned:
        problems.append(f"the lab does not go: {gone.failures}")
    for machine in MACHINES if len(cycles) > 1 else ():
        change, least = growth([one["places"][machine]["used_kib"] for one in cycles])
        print(
            f"{machine}: memory {change:+.0f} KiB over {len(cycles)} cycles, at least {'unknown' if least is None else f'{least:+.0f}'}"
        )
    if len(cycles) > 1:
        change, least = growth([one["seconds"] for one in cycles])
        print(
            f"time of a cycle: {change:+.1f} s over {len(cycles)} cycles, at least {'unknown' if least is None else f'{least:+.1f}'}"
        )
    print(*(problems or ["Nothing is left, and nothing grows."]), sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
