# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A supervisor that stays between two turns of its host.

Most of what a turn costs is a start of Python that reads all that the module brings. A supervisor whose plan says ``stays`` waits for the plan of the host's
next turn in place of ending. The controller claims it with one command: it renames WAITING, which succeeds once, and leaves the plan as NEXT.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from ..core.files import write_whole

# In the run's folder on the host.
WAITING, CLAIMED, NEXT = "waiting", "claimed", "next"
# A turn of the other hosts that takes longer than this is long beside a start of Python.
WAIT_S = 600.0
# From the claim to the plan lie two commands of one shell.
CLAIM_S = 30.0
LOOK_S = 0.25


def announce(folder: str) -> None:
    """Say that the run's supervisor waits for a plan."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, NEXT))
    write_whole(os.path.join(folder, WAITING), b"", mode=0o600)


def waits(folder: str) -> bool:
    """Whether a supervisor that lives measures nothing, and waits for the host's next turn."""
    return os.path.exists(os.path.join(folder, WAITING))


def packed(plan: Mapping[str, object]) -> str:
    """A plan as one word of a command."""
    return base64.b64encode(zlib.compress(json.dumps(plan).encode())).decode()


def next_plan(folder: str, stopping: Callable[[], bool]) -> dict[str, Any] | None:
    """The plan that was left for a supervisor that had said that it waits; None when it is to end, or no one claimed it in time."""
    path = os.path.join(folder, NEXT)
    until = time.monotonic() + WAIT_S
    while not stopping():
        if os.path.exists(path):
            with open(path, "rb") as handle:
                plan: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(handle.read())))
            os.unlink(path)
            return plan
        if time.monotonic() > until:
            try:
                os.unlink(os.path.join(folder, WAITING))
                return None
            except FileNotFoundError:
                # Claimed in the last moment, or removed with its folder.
                if not os.path.exists(os.path.join(folder, CLAIMED)) or time.monotonic() > until + CLAIM_S:
                    return None
        time.sleep(LOOK_S)
    return None
