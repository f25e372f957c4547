# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays docs/tour.md as a reader who has nothing: `make tour`, as root.

    python tests/tools/play_tour.py ARTEFACT.tar.gz [PICTURE…]

Every command of the page runs in its order, in a terminal of 80 columns, with an empty folder as the home and no tool of this checkout. Two of them
differ from the page: a package of the distribution is installed without a question, and the collection comes from ARTEFACT and not from Galaxy. The
page's /srv/tour must not exist before, and is removed at the end. Each PICTURE named (`all`: every one) is drawn into docs/img from what its command
printed, or from the page that it wrote.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]

import pictures
from places import ROOT

PAGE = ROOT / "docs" / "tour.md"
MEASURED = Path("/srv/tour")
INSTALL = "ansible-galaxy collection install storlab.testbed"
BLOCK = re.compile(r"^```\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
# Pictures of pages, in the results' folder: of the run that the page measures first, and of the comparison.
PAGES = {"tour-report": "*/report/index.html", "tour-verdict": "compare/*/index.html"}
MOUNTS = Path("/proc/self/mountinfo")


def blocks(text: str) -> list[str]:
    """The commands of a page, block by block; a fence with a language is a file."""
    return BLOCK.findall(re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def played(block: str, artefact: Path) -> str:
    """A block as it is run: by root, without a question, with the collection of this checkout."""
    block = block.replace("sudo -s\n", "").replace("apt-get install ", "apt-get -qq -y install ")
    return block.replace(INSTALL, f"ansible-galaxy collection install --no-deps --offline {shlex.quote(str(artefact))}")


def mounts() -> set[str]:
    """The mount points of this computer."""
    return {line.split()[4] for line in MOUNTS.read_text(encoding="utf-8").splitlines()}


def results_of(home: Path) -> Path:
    """The tour's folder of results."""
    return home / "tour" / "tour-testbed" / "results" / "tour"


def problems(home: Path, before: set[str]) -> list[str]:
    """What a reader would miss at the end, a sentence each."""
    results = results_of(home)
    missing = [
        f"{results} has no {name}."
        for name in ("*/report/index.html", "*/report/results.csv", "index.html", "compare/*/index.html")
        if not list(results.glob(name))
    ]
    left = mounts() - before
    return missing + [f"{point} is still mounted." for point in sorted(left)]


def play(artefact: Path, names: list[str]) -> list[str]:
    """Plays the page; the answer is what is wrong at its end."""
    wanted = {command: name for name, command in pictures.shown(PAGE.read_text(encoding="utf-8")).items()}
    every = {*wanted.values(), *PAGES}
    names = sorted(every) if names == ["all"] else names
    if not every.issuperset(names):
        return [
            f"{PAGE.name} has no picture {', '.join(sorted(set(names) - every))}. It has {', '.join(sorted(every))}."
        ]
    if MEASURED.exists():
        return [f"{MEASURED} exists. Move it away: the tour makes it and removes it again."]
    before = mounts()
    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        home = Path(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "STORLAB_"))}
        system = [path for path in os.environ["PATH"].split(":") if not path.startswith(str(ROOT))]
        environment = {**kept, "HOME": folder, "PATH": ":".join([f"{folder}/venv/bin", *system])}
        try:
            for block in blocks(PAGE.read_text(encoding="utf-8")):
                print(f"\n$ {block}", flush=True)
                text = pictures.printed(["bash", "-euc", played(block, artefact)], home, environment)
                print(text, flush=True)
                name = wanted.get(pictures.typed(block))
                if name in names:
                    pictures.save(name, pictures.typed(block), text)
            for name in set(names).intersection(PAGES):
                page = min(results_of(home).glob(PAGES[name]))
                pictures.photographed(page, ROOT / "docs" / "img" / f"{name}.png", 1100, 900, "light")
            return problems(home, before)
        finally:
            shutil.rmtree(MEASURED, ignore_errors=True)


def main(words: list[str]) -> int:
    if not words or os.geteuid() != 0:
        print(__doc__)
        return 2
    wrong = play(Path(words[0]).resolve(), words[1:])
    print("\n".join(wrong) or "The tour came to its verdict and left nothing mounted.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
