#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release must be before it is published, and its notes. Needs Python only.

.ci/release.py check v1.2.3     fails unless galaxy.yml and the changelog have that version and no fragment waits
.ci/release.py notes v1.2.3     prints the release's part of CHANGELOG.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TAG = re.compile(r"v(\d+\.\d+\.\d+)\Z")


def version_of(tag: str) -> str:
    match = TAG.match(tag)
    if match is None:
        raise SystemExit(f"{tag!r} is not a tag of a release. Name it v1.2.3.")
    return match.group(1)


def notes(changelog: str, version: str) -> str:
    """The part of CHANGELOG.md about a version, without its heading and anchors; empty where there is none."""
    escaped = "\\.".join(version.split("."))
    heading = f"## v{escaped}\n"
    if heading not in changelog:
        return ""
    part = changelog.split(heading, 1)[1].split("\n## ", 1)[0]
    return re.sub(r'^<a id="[^"]*"></a>$', "", part, flags=re.MULTILINE).strip() + "\n"


def problems(root: Path, version: str) -> list[str]:
    """A sentence for each thing that is missing."""
    described = re.search(r"^version: (\S+)$", (root / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    missing = []
    if described is None or described.group(1) != version:
        has = described.group(1) if described else "none"
        missing.append(f"galaxy.yml has version {has}, not {version}. Change it in the commit that is tagged.")
    if not notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), version):
        missing.append(
            f"CHANGELOG.md has no part about {version}. Run antsibull-changelog release --version {version}."
        )
    waiting = sorted(path.name for path in (root / "changelogs/fragments").glob("*.y*ml"))
    if waiting:
        missing.append(
            f"{len(waiting)} changelog fragments are not released, such as {waiting[0]}. Release them first."
        )
    return missing


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in ("check", "notes"):
        raise SystemExit(__doc__)
    version = version_of(words[1])
    if words[0] == "notes":
        print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), end="")
        return 0
    missing = problems(ROOT, version)
    for sentence in missing:
        print(sentence, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
