# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that shows the texts of recordings before anybody sends them: grouped by where they stand, without numbers and without repetition."""

from __future__ import annotations

import json
import re
from typing import Any

MOST_TEXTS, MOST_LETTERS = 60, 200
_NO_TEXT = re.compile(r"^[\s\d.,:+\-/TZ%]*$|^(true|false|null|none|yes|no|unset)$", re.IGNORECASE)
_ELEMENT = re.compile(r"<(\w+)(?: [^>]*)?>([^<]+)</\1>")


def texts(recording: dict[str, Any]) -> dict[str, set[str]]:
    """{where it stands: texts}. where: the XML element, the key of the state, the file's name without the device, or the command line."""
    groups: dict[str, set[str]] = {}

    def put(where: str, text: str) -> None:
        if not _NO_TEXT.match(text):
            groups.setdefault(where, set()).add(text.strip()[:MOST_LETTERS])

    def walk(item: object, where: str) -> None:
        if isinstance(item, dict):
            for key, part in item.items():
                walk(part, str(key))
        elif isinstance(item, list):
            for part in item:
                walk(part, where)
        elif isinstance(item, str):
            put(where, item)

    for call in recording.get("calls", []):
        for element, text in _ELEMENT.findall(call["request"] + call["answer"]):
            put(element, text)
    for path, value in recording.get("files", {}).items():
        text = value if isinstance(value, str) else next(iter(value.values()))
        for line in {path, *text.splitlines()}:
            put("/".join(path.split("/")[-2:]) if path.startswith("sys/") else path, line)
    for command, output in recording.get("outputs", {}).items():
        for line in output["out"].splitlines():
            put(command, line)
    walk(recording.get("state", {}), "state")
    return groups


def markdown(recordings: dict[str, dict[str, Any]]) -> str:
    """The page. recordings: by the name of their file."""
    lines = [
        "# Look at this before you send anything",
        "",
        "These are the texts that the recordings hold, numbers apart. Names, addresses, identifiers and serial numbers were replaced by others of the same",
        "form; look for what should not leave your lab. Edit the files, or leave one out, as you like.",
    ]
    for name, recording in sorted(recordings.items()):
        about = recording.get("about") or recording.get("state", {}).get("about") or {}
        product = " ".join(str(about[key]) for key in ("product", "version") if key in about)
        size = len(json.dumps(recording)) / 1024
        simulated = f" It is an answer of a stand-in ({about['stand_in']})." if about.get("stand_in") else ""
        lines += [
            "",
            f"## {name}",
            "",
            f"{recording['kind']}{', ' + product if product else ''}, {size:.0f} KiB.{simulated}",
            "",
        ]
        for where, group in sorted(texts(recording).items()):
            shown = sorted(group)[:MOST_TEXTS]
            more = f" … and {len(group) - len(shown)} more" if len(group) > len(shown) else ""
            lines.append(f"- `{where}`: {', '.join(_code(text) for text in shown)}{more}")
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    plain = " ".join(text.replace("`", "'").split())
    return f"`{plain}`"
