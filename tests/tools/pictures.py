# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the pictures of docs/img: pages in Chromium, and commands in a terminal of 80 columns.

    python tests/tools/pictures.py report REPORT/index.html docs/img
    python tests/tools/pictures.py page PAGE.html docs/img/NAME.png [--width 1100] [--height 900] [--theme dark] [--part '#matrix .panel']
    python tests/tools/pictures.py terminal docs/img/NAME.svg [--last N] COMMAND…

The terminals of docs/tour.md are drawn by play_tour.py: each is of the command in the block right before it.
A terminal shows the command as it was given and what it printed, with its colours; `--last N` keeps the last N lines. The command really runs, in a
pseudo terminal of 80 columns, from the folder where this program was started.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, LINES = 80, 50
# Without the web font that Rich asks for: a page shows the picture the same offline.
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>{styles} .{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px }}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def printed(command: list[str], folder: Path | None = None, variables: dict[str, str] | None = None) -> str:
    """What a command prints to a terminal, from a folder (this one) with the variables of an environment (ours). It ends this program when it fails."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {
        **(os.environ if variables is None else variables),
        "COLUMNS": str(COLUMNS),
        "LINES": str(LINES),
        "TERM": "xterm-256color",
        "ANSIBLE_FORCE_COLOR": "1",
    }
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    parts: list[bytes] = []
    try:
        while data := os.read(ours, 1 << 16):
            parts.append(data)
    except OSError:  # the end of a pseudo terminal
        pass
    code = process.wait()
    text = b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")
    # Where a reader has them.
    for path, name in (
        (os.environ.get("ANSIBLE_COLLECTIONS_PATH"), "~/.ansible/collections"),
        (str(folder or os.getcwd()), "~"),
    ):
        text = text.replace(path, name) if path else text
    if code:
        sys.exit(f"{text}\n{shlex.join(command)} ended with {code}.")
    return text


def drawn(command: str, text: str, last: int | None = None) -> str:
    """The picture, an SVG. command: as the reader types it; text: with the colours of a terminal; last: how many lines at the end are kept."""
    # A line that was drawn over is shown as it was at the end.
    lines = [line.split("\r")[-1] for line in text.rstrip("\n").split("\n")]
    if last is not None and len(lines) > last:
        lines = ["…", *lines[-last:]]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi("\n".join(lines)))
    # The identifier follows from the contents: the same output gives the same bytes.
    svg = console.export_svg(title="", code_format=FRAME, unique_id="terminal")
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


SHOWN = re.compile(r"^```\n([^`]+?)\n```\n\n!\[[^]]*\]\(img/([\w-]+)\.svg\)", re.MULTILINE)
# A page shows what is left on a screen when a command has ended.
SCREEN = 36


def typed(block: str) -> str:
    """The command of a block, as a picture shows it. Several lines are one command of the shell; comments are left out."""
    return "\n".join(line.split("   #")[0].rstrip() for line in block.split("\n"))


def shown(text: str) -> dict[str, str]:
    """{name of a picture of a terminal: its command} of a page."""
    return {name: typed(block) for block, name in SHOWN.findall(text)}


def save(name: str, command: str, text: str) -> None:
    """Draws what a command of a page printed: what is left on a screen when it has ended."""
    (ROOT / "docs" / "img" / f"{name}.svg").write_text(drawn(command, text, SCREEN), encoding="utf-8")


def report(page: Path, folder: Path) -> None:
    """The pictures of docs/report.md: a report on a desktop, in the dark and on a phone."""
    for name, width, theme, height in (
        ("report-light", 1280, "light", 2300),
        ("report-dark", 1280, "dark", 2300),
        ("report-phone", 390, "light", 2600),
    ):
        photographed(page, folder / f"{name}.png", width, height, theme)


def photographed(page: Path, target: Path, width: int, height: int, theme: str, part: str | None = None) -> None:
    """part: a CSS selector; the picture is of its first match alone, as high as that is."""
    from browser import Browser

    browser = Browser()
    try:
        browser.open(page.resolve(), width, theme)
        if part:
            browser.picture(target, part=part)
        else:
            browser.picture(target, height)
    finally:
        browser.close()


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_report = kinds.add_parser("report")
    of_report.add_argument("page", type=Path)
    of_report.add_argument("folder", type=Path)
    of_page = kinds.add_parser("page")
    of_page.add_argument("page", type=Path)
    of_page.add_argument("target", type=Path)
    of_page.add_argument("--width", type=int, default=1280)
    of_page.add_argument("--height", type=int, default=900)
    of_page.add_argument("--theme", choices=["light", "dark"], default="light")
    of_page.add_argument("--part")
    of_terminal = kinds.add_parser("terminal")
    of_terminal.add_argument("target", type=Path)
    of_terminal.add_argument("--last", type=int)
    of_terminal.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.kind == "report":
        report(given.page, given.folder)
    elif given.kind == "page":
        photographed(given.page, given.target, given.width, given.height, given.theme, given.part)
    else:
        text = printed(given.command)
        given.target.write_text(drawn(shlex.join(given.command), text, given.last), encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
    import conftest  # noqa: F401 - lets the checkout be imported as the collection

    main(sys.argv[1:])
