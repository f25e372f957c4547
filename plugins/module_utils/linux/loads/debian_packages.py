# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of Debian and all that they need, downloaded once by the controller's own apt and kept as one file for installations without a network.

Nothing of the controller's system is touched: apt has a state, a cache and an empty list of installed packages of its own. A package that was asked for once is
not asked for again, so that all repetitions and all guests install the very same versions::

    <cache_dir>/<SHA-256 of the index>.medium       what package_medium.py says
    <cache_dir>/asked/<SHA-256 of the question>.json  {medium, packages: [{file, bytes, sha256}]}
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.files import read_json, write_json, write_whole
from ..host import run
from ..params import DebianPackagesParams
from . import package_medium

# As Debian's policy has it, section 5.6.1.
PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
URI = re.compile(r"'[^']+' (?P<file>\S+\.deb) (?P<bytes>\d+)")
# A Debian that runs its packages' own scripts: a shell, its tools, and what administers packages.
SMALL = (
    "base-files",
    "base-passwd",
    "coreutils",
    "dash",
    "debianutils",
    "dpkg",
    "findutils",
    "grep",
    "libc-bin",
    "sed",
)
SPEC: dict[str, Any] = {
    "cache_dir": {"type": "path", "required": True},
    "packages": {"type": "list", "elements": "str", "default": list(SMALL)},
}


def check(packages: list[str]) -> list[str]:
    """The names, each once and sorted; raises bad_value."""
    for name in packages:
        # apt makes more of name-, name+, name=version and ?pattern.
        if not PACKAGE_NAME.fullmatch(name) or (name[-1] in "+-" and name != "g++"):
            raise bad_value(
                "testbed_installation.packages",
                name,
                "Use names of packages of Debian: lower-case letters, digits, +, - and dots, without a version.",
            )
    lacking = [name for name in ("dpkg", "dash") if name not in packages]
    if lacking:
        raise bad_value(
            "testbed_installation.packages",
            packages,
            f"Add {' and '.join(lacking)}: the scripts of packages need them while they are configured.",
        )
    return sorted(set(packages))


def question(packages: list[str]) -> str:
    return hashlib.sha256(json.dumps(packages).encode()).hexdigest()


def names_of(printed: str) -> list[str]:
    """File names of what ``apt-get --print-uris install`` prints, in its order."""
    return [match["file"] for line in printed.splitlines() if (match := URI.match(line))]


def ensure(params: DebianPackagesParams, check_mode: bool) -> dict[str, object]:
    packages = check(params["packages"])
    cache = params["cache_dir"]
    place = os.path.join(cache, "asked", f"{question(packages)}.json")
    known = read_json(place)
    if known and os.path.isfile(os.path.join(cache, f"{known['index_sha256']}.medium")):
        return {"changed": False, **_answer(cache, known)}
    if check_mode:
        return {"changed": True}
    os.makedirs(os.path.dirname(place), exist_ok=True)
    work = tempfile.mkdtemp(prefix=".apt-", dir=cache)
    try:
        known = _downloaded(packages, work, cache)
    finally:
        shutil.rmtree(work)
    write_json(place, known, indent=1)
    return {"changed": True, **_answer(cache, known)}


def _answer(cache: str, known: Mapping[str, object]) -> dict[str, object]:
    return {"medium": {**known, "path": os.path.join(cache, f"{known['index_sha256']}.medium")}}


def _downloaded(packages: list[str], work: str, cache: str) -> dict[str, Any]:
    archives, state = os.path.join(work, "archives"), os.path.join(work, "state")
    for folder in (os.path.join(archives, "partial"), os.path.join(state, "lists", "partial")):
        os.makedirs(folder)
    empty = os.path.join(work, "installed")
    with open(empty, "w", encoding="ascii"):
        pass
    options = {
        "Dir::State": state,
        "Dir::State::status": empty,
        "Dir::Cache": work,
        "Dir::Cache::archives": archives,
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "0",
    }
    apt = ["apt-get", "--quiet", "--quiet", *(f"--option={name}={value}" for name, value in options.items())]
    remedy = "Look at the controller's sources of apt and its way to them; once downloaded, the packages are kept."
    run([*apt, "update"], timeout_s=900, what="The lists of packages cannot be had", remedy=remedy)
    install = ["--yes", "install", "--", *packages]
    printed = run(
        [*apt, "--print-uris", *install], what=f"The packages {', '.join(packages)} cannot be had", remedy=remedy
    ).stdout
    run(
        [*apt, "--download-only", *install],
        timeout_s=3600,
        what="The packages cannot be downloaded",
        remedy=remedy,
    )
    paths = [os.path.join(archives, name) for name in names_of(printed)]
    lacking = [os.path.basename(path) for path in paths if not os.path.isfile(path)]
    if lacking or not paths:
        raise Failure(
            "packages_unavailable",
            f"apt has not brought {', '.join(lacking) or 'a single package'}.",
            remedy,
            lacking=lacking,
        )
    return keep(paths, cache)


def keep(paths: list[str], cache: str) -> dict[str, object]:
    """Makes the medium of these files in the folder, and says what it is."""
    files = []
    for path in paths:
        with open(path, "rb") as handle:
            digest = hashlib.sha256()
            while piece := handle.read(package_medium.PIECE):
                digest.update(piece)
        files.append((os.path.basename(path), os.path.getsize(path), digest.hexdigest()))
    index = package_medium.index_of(files)
    name = hashlib.sha256(index).hexdigest()
    write_whole(os.path.join(cache, f"{name}.medium"), package_medium.pieces(index, paths))
    return {
        "index_sha256": name,
        "bytes": package_medium.whole_bytes(index),
        "packages": [{"file": file, "bytes": size_bytes, "sha256": sha256} for file, size_bytes, sha256 in files],
    }
