#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks the scripts in every small way, one at a time, and says which of them no case notices.

    python tests/powershell/mutate.py --pwsh pwsh [--only engine_]

Each that lives is to be read: it is either the same to Windows and to the controller, or a case is missing. Exit code 1 when fewer than 95 % are
noticed. Parts are broken, too, with the cases of every script that they are put into; those for Windows alone are not, because no case runs them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import Bench, script_text
from windows_cases import CASES

LEAST = 0.95
# What nobody can notice, or only on Windows itself: {(file, pattern of the line): why no case is needed}.
NEEDS_NO_CASE = {
    (
        "aim_list",
        r"Get-Command .*\[(1 -> 2|-First 1 -> |-CommandType Application -> )",
    ): "two programs of one name on the search path, and functions of that name, are another host's matter",
    ("engine_host", r"Get-Command .*\[(1 -> 2|-First 1 -> |-CommandType Application -> )"): "as in aim_list",
    (
        "engine_run",
        r"\$run = @\{.*\[(0|[a-z_]+) -> ",
    ): "what is not there yet is as good as nothing, and both times are written before they are read",
    ("engine_run", r"-Name Handle"): "only Windows gives no exit code to who has not asked for the handle",
    (
        "engine_remove",
        r"-EndTicks 0",
    ): "a run that has not ended has no child from after its end; ticks of year 1 are as early as none",
    (
        "file_write",
        r"-ArgumentList 1048576|Flush\(\$true\)",
    ): "how large a block is, and whether it is on the disk, only a disk tells",
}
BATCH, AT_ONCE = 400, 3
OPERATORS = "eq|ne|and|or|not|contains|notcontains|gt|lt|match|like|band|bor|is"
# (what, what is put in its place)
WAYS = (
    (r"\$true\b", lambda found: "$false"),
    (r"\$false\b", lambda found: "$true"),
    (r"(?i)-eq\b", lambda found: "-ne"),
    (r"(?i)-ne\b", lambda found: "-eq"),
    (r"-and\b(?! -not)", lambda found: "-or"),
    (r"-or\b", lambda found: "-and"),
    (r"-not ", lambda found: ""),
    (r"-notcontains\b", lambda found: "-contains"),
    (r"-contains\b", lambda found: "-notcontains"),
    (r"-gt\b", lambda found: "-lt"),
    (r"-lt\b", lambda found: "-gt"),
    # A property, a text, a number, a key of a mapping.
    (r"(?<=[\w)\]]\.)[A-Za-z_]+\b(?![(\\])", lambda found: f"{found[0]}x"),
    (r"'[A-Za-z][^'\n]*'", lambda found: f"{found[0][:-1]}x'"),
    (r"(?<![\w.#x])\d+\b(?![.\w])", lambda found: str(int(found[0]) + 1)),
    (r"(?<=[{;] )[a-z_]+(?= = )", lambda found: f"{found[0]}x"),
    (r"^ +[a-z_]+(?= = )", lambda found: f"{found[0]}x"),
    # A parameter with its value, and one without.
    (rf" -(?!(?i:{OPERATORS})\b|FilterScript|Process\b)[A-Z][A-Za-z]+ \$?[\w'.\\-]+(?=[ )}}|\n]|$)", lambda found: ""),
    (r" -(?:Confirm:\$false|Force|UseFixed|RemoveData|UseMaximumSize|Recurse|PassThru)\b", lambda found: ""),
)


def mutants(text: str) -> list:
    """[(line and what was done, text)]; comments are left alone, and the names of scripts and parts."""
    lines, found, seen = text.splitlines(keepends=True), [], {text}
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        for pattern, put in WAYS:
            for match in re.finditer(pattern, line):
                new = line[: match.start()] + put(match) + line[match.end() :]
                changed = "".join([*lines[:number], new, *lines[number + 1 :]])
                if changed not in seen:
                    seen.add(changed)
                    found.append(
                        (
                            f"{number + 1}: {line.strip()[:110]}  [{match[0].strip()} -> {put(match).strip() or 'nothing'}]",
                            changed,
                        )
                    )
    return found


def tries(folder: Path, only: str) -> dict:
    """{(file, what was done): [(case, text of its script)]} of every mutant and every case that could notice it; those that should succeed first."""
    found: dict = {}
    cases = sorted(runnable(), key=lambda case: case.error is not None)
    for path in sorted(folder.rglob("*.ps1")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        part, text = name.removeprefix("parts/"), path.read_text(encoding="utf-8")
        if not part.startswith(only) or part.startswith(script_text.WINDOWS_ONLY):
            continue
        concerned = [
            case
            for case in cases
            if case.script == name or part in script_text.parts(script_text.read(case.script, str(folder)))
        ]
        bench = Bench("", str(folder))
        for what, changed in mutants(text):
            if needs_no_case(name, what):
                continue
            path.write_text(changed, encoding="utf-8")
            found[name, what] = [(case, bench.text(case)) for case in concerned]
        path.write_text(text, encoding="utf-8")
    return found


def needs_no_case(name: str, what: str) -> bool:
    return any(name == file and re.search(pattern, what) for file, pattern in NEEDS_NO_CASE)


def runnable() -> list:
    return [case for case in CASES if os.name != "nt" or not (case.linux or case.core)]


def unnoticed(bench: Bench, wanted: dict) -> list:
    """Who lives. A few cases at a time: most mutants are noticed by the first, and need not be shown to the others."""
    alive, first = list(wanted), 0
    while any(len(wanted[one]) > first for one in alive):
        shown = [(one, *pair) for one in alive for pair in wanted[one][first : first + AT_ONCE]]
        noticed: set = set()
        for start in range(0, len(shown), BATCH):
            batch = shown[start : start + BATCH]
            answers = bench.run([case for _one, case, _text in batch], [text for _one, _case, text in batch])
            noticed |= {one for (one, _case, _text), lines in zip(batch, answers) if lines}
        alive = [one for one in alive if one not in noticed]
        first += AT_ONCE
    return alive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pwsh", default=os.environ.get("PWSH") or "pwsh")
    parser.add_argument("--only", default="", help="files whose name begins so")
    given = parser.parse_args()
    bench = Bench(given.pwsh)
    wrong = [(case.name, lines) for case, lines in zip(runnable(), bench.run(runnable())) if lines]
    if wrong:
        sys.exit("Mend these first:\n" + "\n".join(f"{name}: {lines}" for name, lines in wrong))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "scripts"
        shutil.copytree(script_text.SCRIPTS, folder)
        wanted = tries(folder, given.only)
    alive = unnoticed(bench, wanted)
    print("\n".join(f"{name} {what}" for name, what in alive))
    print(f"{len(wanted) - len(alive)} of {len(wanted)} noticed")
    sys.exit(len(alive) > (1 - LEAST) * len(wanted))


if __name__ == "__main__":
    main()
