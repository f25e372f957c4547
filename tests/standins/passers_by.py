# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other people's work on the computer that runs the tests: it makes and removes loop devices, mounts, network namespaces and processes called like QEMU.

Usage: passers_by.py [SECONDS]

It ends with its parent, on SIGTERM or after SECONDS, takes all of it away and prints {kind: how many it made}. What a test or a playbook counts on this
computer must bear it: what came from here is nobody's fault. Nothing of it is in a folder of the collection, and nothing of it holds data.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

MIB = 1 << 20
# How many of each kind are there at a time, and how long until the next one comes and the oldest goes.
AT_ONCE, PAUSE_S = 2, 0.5


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    return done.stdout.strip()


@contextlib.contextmanager
def loop_device(folder: Path) -> Iterator[None]:
    image = folder / "disk.img"
    with open(image, "wb") as stream:
        stream.truncate(MIB)
    path = run("losetup", "--find", "--show", str(image))
    try:
        yield
    finally:
        # Who looks at all devices of the computer has it open for a moment; then the kernel detaches it a little later.
        run("losetup", "--detach", path)


@contextlib.contextmanager
def mount(folder: Path) -> Iterator[None]:
    place = folder / "mnt"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "passers-by", str(place))
    try:
        yield
    finally:
        run("umount", "--lazy", str(place))


@contextlib.contextmanager
def namespace(folder: Path) -> Iterator[None]:
    """Made by the program that others use: it first mounts /run/netns on itself where nobody has, which doubles whatever is mounted below already."""
    run("ip", "netns", "add", folder.name)
    try:
        yield
    finally:
        run("ip", "netns", "delete", folder.name)


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[None]:
    """A process of that name, which sleeps."""
    program = folder / "qemu-system-x86"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    with subprocess.Popen([str(program), "600"], stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


KINDS: dict[str, Callable[[Path], contextlib.AbstractContextManager[None]]] = {
    "loop devices": loop_device,
    "mounts": mount,
    "namespaces": namespace,
    "machines": machine,
}


def pass_by(folder: Path, goes_on: Callable[[], bool]) -> dict[str, int]:
    """{kind: how many came and went}"""
    made = dict.fromkeys(KINDS, 0)
    with contextlib.ExitStack() as everything:
        there: deque[contextlib.ExitStack] = deque()
        number = 0
        while goes_on():
            kind = list(KINDS)[number % len(KINDS)]
            own = folder / f"passers-by-{os.getpid()}-{number}"
            own.mkdir()
            visit = contextlib.ExitStack()
            everything.callback(visit.close)
            visit.callback(shutil.rmtree, own, ignore_errors=True)
            number += 1
            there.append(visit)
            # Two who take a free loop device at once want the same one; the other one was first.
            with contextlib.suppress(subprocess.CalledProcessError):
                visit.enter_context(KINDS[kind](own))
                made[kind] += 1
            if len(there) > AT_ONCE * len(KINDS):
                there.popleft().close()
            time.sleep(PAUSE_S / len(KINDS))
    return made


def main() -> int:
    parent, begun = os.getppid(), time.monotonic()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    ended: list = []
    signal.signal(signal.SIGTERM, lambda *_signal: ended.append(True))
    with tempfile.TemporaryDirectory(prefix="passers-by-") as folder:
        made = pass_by(
            Path(folder), lambda: not ended and os.getppid() == parent and time.monotonic() - begun < seconds
        )
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
