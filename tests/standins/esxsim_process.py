#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds, starts and ends the simulated ESXi, for scenarios and for tests.

Its sockets are opened here and handed on, so that it can live in a lab's network namespace, where the real targets are, and
still be reached from outside.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "esxsim"
PATIENCE_S = 60.0
# The LUNs of most tests are smaller than a VMFS may be.
SMALL_LUNS = "least-vmfs-size"


def build() -> Path:
    """The program, built when its source is newer. The module cache is Go's own."""
    # The compiler that the test tools pin lies beside this interpreter.
    go = shutil.which("go", path=os.path.dirname(sys.executable)) or shutil.which("go")
    if go is None:
        raise SystemExit("The simulated ESXi is a Go program, and go is not installed: run make setup-test.")
    binary = ROOT / ".cache" / "esxsim" / "esxsim"
    binary.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [go, "build", "-o", str(binary), "."],
        cwd=SOURCE,
        check=True,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
    )
    return binary


def start(
    home: Path,
    password: str,
    model: str = "esx",
    netns: str | None = None,
    lenient: tuple = (),
    lab: tuple = (),
    volumes: Path | None = None,
    small_luns: bool = True,
    recorded: Path | None = None,
) -> dict:
    """Start it and wait until it serves. Returns {address, control, certificate, thumbprint, pid}.

    lenient: the ways of being strict (tests/esxsim/strict.go) to do without; by default all are on but for the least size of a VMFS.
    lab: the peculiarities of a lab to have.
    recorded: file with a host as a real one has answered (ObjectContent as XML); it answers as that one did, and refuses every change.
    volumes: folder for the files of volumes, which hosts on their own have in common where they share a LUN.
    """
    binary = build()
    home.mkdir(parents=True, exist_ok=True)
    (home / "ready.json").unlink(missing_ok=True)
    (home / "password").write_text(password, encoding="utf-8")
    (home / "password").chmod(0o600)
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    descriptors = [each.fileno() for each in sockets]
    argv = [
        str(binary),
        "-model",
        model,
        "-home",
        str(home),
        "-password-file",
        str(home / "password"),
        "-listen",
        f"fd:{descriptors[0]}",
        "-control",
        f"fd:{descriptors[1]}",
        "-lenient",
        ",".join([*lenient, *([SMALL_LUNS] if small_luns else [])]),
        "-lab",
        ",".join(lab),
        *(["-volumes", str(volumes)] if volumes else []),
        *(["-recorded", str(recorded)] if recorded else []),
    ]
    if netns:
        argv = ["nsenter", f"--net={netns}", *argv]
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=descriptors, start_new_session=True
        )
    for each in sockets:
        each.close()
    deadline = time.monotonic() + PATIENCE_S
    while not (home / "ready.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"The simulated ESXi did not start: {(home / 'log').read_text(errors='replace')[-1000:]}")
        time.sleep(0.05)
    return json.loads((home / "ready.json").read_text(encoding="utf-8"))


def stop(home: Path) -> None:
    """End it, by its pid and only if that still is it."""
    try:
        pid = json.loads((home / "ready.json").read_text(encoding="utf-8"))["pid"]
    except FileNotFoundError:
        return
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("esxsim"):
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + PATIENCE_S
            while (home / "ready.json").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
    shutil.rmtree(home)


# Calls that look, or have the host look, and leave everything as it is.
LOOKS = re.compile(
    "Login|Logout|Fetch|Retrieve|Query|Search|CurrentTime|Create(ContainerView|CollectorForEvents|ImportSpec)|Destroy(View|Collector|PropertyFilter)|"
    "SetCollectorPageSize|ResetCollector|RewindCollector|Rescan|Refresh|CreateFilter|WaitForUpdates"
)


def changes(ready: dict) -> Callable[[], dict]:
    """A reader for tests of refusals: which changing calls the simulator has had since it was read first, {method: times}."""
    begun = False

    def counted() -> dict:
        nonlocal begun
        with urllib.request.urlopen(f"http://{ready['control']}/calls", timeout=PATIENCE_S) as answer:
            calls = json.loads(answer.read())
        begun, first = True, not begun
        return {} if first else {method: times for method, times in calls.items() if not LOOKS.match(method)}

    return counted


def settle(ready: dict) -> None:
    """Have the host do now what it is yet to do."""
    urllib.request.urlopen(f"http://{ready['control']}/settle", timeout=PATIENCE_S).close()


def properties(ready: dict) -> dict[str, int]:
    """How often which property was asked for since this was read last, {path: times}."""
    with urllib.request.urlopen(f"http://{ready['control']}/properties", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


@contextlib.contextmanager
def running(home: Path, password: str, model: str = "esx", lenient: tuple = (), **more):
    try:
        yield start(home, password, model, lenient=lenient, **more)
    finally:
        stop(home)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument(
        "--home", type=Path, required=True, help="folder of this instance; ready.json in it tells how to reach it"
    )
    parser.add_argument("--password-env", default="ESXSIM_PASSWORD", help="environment variable with the password")
    parser.add_argument("--model", default="esx", choices=["esx", "vpx"])
    parser.add_argument(
        "--recorded", type=Path, help="file with a host as a real one has answered; nothing can be changed"
    )
    parser.add_argument("--small-luns", action="store_true", help="VMFS on LUNs smaller than a real one may be")
    parser.add_argument("--netns", help="file of the network namespace it lives in")
    asked = parser.parse_args()
    if asked.action == "stop":
        stop(asked.home)
    else:
        password = os.environ[asked.password_env]
        more = {"small_luns": asked.small_luns, "recorded": asked.recorded}
        print(json.dumps(start(asked.home, password, asked.model, asked.netns, **more)))


if __name__ == "__main__":
    sys.exit(main())
