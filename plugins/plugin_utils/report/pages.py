# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a report on disk: which of them differ from what is wanted, and how they are written."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import naming, write_whole
from ...module_utils.core.visible import visible
from . import static

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRAWING_S = 60


def plan(folder: str, desired: dict[str, Any]) -> list[dict[str, Any]]:
    """[{path, text}] of what differs from what is wanted; a text of None is a file to remove, and a picture is drawn of its text.

    A text that is long is a function that makes it again in pieces, so that it is never whole in memory.
    """
    steps = []
    for name, text in desired.items():
        path = os.path.join(folder, name)
        if callable(text):
            if _differs(path, text()):
                steps.append({"path": path, "text": text})
            continue
        present = _read(path)
        if name.endswith(".png") and text is not None:
            differs = present is None or static.source_of(present) != hashlib.sha256(text.encode()).hexdigest()
        else:
            differs = present != (None if text is None else _bytes(text))
        if differs:
            steps.append({"path": path, "text": text})
    return steps


def apply(folder: str, steps: list[dict[str, Any]], browser: str | None = None) -> None:
    """browser: the program that draws pictures."""
    for step in steps:
        if step["text"] is None:
            os.unlink(step["path"])
            continue
        content: bytes | Iterable[bytes] = (
            map(_bytes, step["text"]())
            if callable(step["text"])
            else _drawn(step["text"], browser or "")
            if step["path"].endswith(".png")
            else _bytes(step["text"])
        )
        os.makedirs(os.path.dirname(step["path"]), exist_ok=True)
        write_whole(step["path"], content)
    for left in (os.path.join(folder, static.CHARTS), folder):
        if os.path.isdir(left) and not os.listdir(left):
            os.rmdir(left)


def _bytes(text: str) -> bytes:
    # Half a character, as fio's words may hold, is in no file, and what a terminal or a browser obeys is shown.
    return visible(text).encode("utf-8", "replace")


def _differs(path: str, pieces: Iterable[str]) -> bool:
    """Whether the file holds anything but these pieces."""
    try:
        with open(path, "rb") as handle:
            return any(handle.read(len(piece)) != piece for piece in map(_bytes, pieces)) or handle.read(1) != b""
    except FileNotFoundError:
        return True


def _read(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as handle:
        return handle.read()


def text_of(path: str) -> str:
    return (_read(path) or b"").decode("utf-8", errors="replace")


def find_browser() -> str:
    """A headless Chromium draws what any browser would; nothing that Ansible brings can draw a PNG."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if not browser:
        raise Failure(
            "browser_missing",
            f"The PNG pictures that static asks for are drawn by Chromium, and none of {', '.join(BROWSERS)} is installed on the "
            "controller.",
            "Install one of them, or ask for svg alone.",
            programs=list(BROWSERS),
        )
    return browser


def _drawn(svg: str, browser: str) -> bytes:
    """The chart as PNG, two pixels a unit."""
    width, height = static.size(svg)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, name) for name in ("chart.svg", "chart.png"))
        with naming(source), open(source, "wb") as handle:
            handle.write(_bytes(svg))
        # The sandbox of Chromium does not start for root; what is drawn is our own and has no script.
        command = [
            browser,
            "--headless",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-device-scale-factor=2",
            f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}",
            f"--screenshot={target}",
            f"file://{source}",
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=DRAWING_S, check=False
            )
            reason = done.stderr.strip()[-500:]
        except subprocess.TimeoutExpired:
            reason = f"it was not done after {DRAWING_S} s"
        picture = _read(target)
    if picture is None:
        raise Failure(
            "browser_failed",
            f"{browser} did not draw the picture: {reason or 'it gave no reason'}.",
            "Repair the browser, or ask for svg alone.",
            program=browser,
        )
    return static.with_source(picture, hashlib.sha256(svg.encode()).hexdigest())
