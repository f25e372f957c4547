# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes .config/sbom.cdx.json anew, after a lock has changed (`make lock` does it): what is installed beside this collection, as CycloneDX 1.5."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from places import ROOT

LOCKS = ROOT / ".config"
PATH = LOCKS / "sbom.cdx.json"
# What playbooks need at run time; the other locks are for tests and the site of the documentation.
NEEDED = "requirements.lock"


def pinned(text: str) -> dict:
    """{package: version} of a lock."""
    return dict(re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", text, re.MULTILINE))


def document(locks: dict) -> str:
    """locks: {name of the lock: its text}. It has no date and no number of its own: the same locks give the same document."""
    where: dict = {}
    for lock, text in sorted(locks.items()):
        for name, version in pinned(text).items():
            where.setdefault((re.sub(r"[-_.]+", "-", name).lower(), version), []).append(lock)
    components = []
    for (name, version), found in sorted(where.items()):
        address = f"pkg:pypi/{name}@{version}"
        components.append(
            {
                "type": "library",
                "bom-ref": address,
                "name": name,
                "version": version,
                "scope": "required" if NEEDED in found else "excluded",
                "purl": address,
                "properties": [{"name": "storlab:lock", "value": lock} for lock in found],
            }
        )
    whole = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "storlab.testbed", "bom-ref": "storlab.testbed"}},
        "components": components,
    }
    return json.dumps(whole, indent=1) + "\n"


def locks(folder: Path = LOCKS) -> dict:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.lock")}


if __name__ == "__main__":
    PATH.write_text(document(locks()), encoding="utf-8")
