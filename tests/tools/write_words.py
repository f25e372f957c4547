# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/words.md anew, after words of the description or variables of roles have changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("", "support")]

import conftest

HEAD = """# All variables

Written by `python tests/tools/write_words.py` from the argument specifications; do not edit. An editor completes and checks the same words with the
[schema](schema/storlab.testbed.schema.json). [The one page](description.md) says how they belong together.
"""
COLUMNS = "| variable | type | default | meaning |\n| --- | --- | --- | --- |\n"


def plain(text: str | list) -> str:
    """A description without Ansible's markup, fit for a cell of a table."""
    text = " ".join(text) if isinstance(text, list) else str(text)
    text = re.sub(r"\b(?:O|V|C|RV|E|M|P)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", r"`\1`", text)
    text = re.sub(r"\bL\(([^,()]*), *([^()]*)\)", r"[\1](\2)", text)
    return re.sub(r"[BI]\(([^()]*)\)", r"\1", text).replace("|", "\\|").strip()


def kind(option: dict) -> str:
    """The type as a reader needs it: of lists what they are of, of choices all of them."""
    if "choices" in option:
        return " or ".join(f"`{choice}`" for choice in option["choices"])
    name = option.get("type", "str")
    return f"list of {option['elements']}" if name == "list" and "elements" in option else name


def default(option: dict) -> str:
    if option.get("required"):
        return "needed"
    value = option.get("default")
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`".replace("|", "\\|")


def rows(options: dict, above: str = "", instead: dict | None = None) -> Iterator[str]:
    """A line for each option, and for each of those in it. instead: {option: the word that stands in its place in an inventory of the playbooks}."""
    for name, option in options.items():
        text = plain(option.get("description", ""))
        if instead and name in instead:
            text += f" With the playbooks write `{instead[name]}` instead."
        yield f"| `{above}{name}` | {kind(option)} | {default(option)} | {text} |\n"
        inner = option.get("suboptions") or option.get("options") or {}
        yield from rows(inner, f"{above}{name}{'[]' if option.get('type') == 'list' else ''}.")


def page(words: dict, testbed: dict, roles: dict, instead: dict) -> str:
    """words: lab-wide; testbed: what the variable testbed holds; roles: {role: {variable: option}}; instead: see rows."""
    parts = [
        HEAD,
        "\n## Of the whole testbed\n\n",
        COLUMNS,
        *rows(words),
        "\n## In `testbed`\n\n",
        COLUMNS,
        *rows(testbed, "testbed."),
    ]
    for role, options in roles.items():
        parts += [f"\n## Of the role `{role}`\n\n", COLUMNS, *rows(options, instead=instead)]
    return "".join(parts)


def current() -> str:
    from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import description, inventory

    roles = inventory.role_options()
    return page(description.WORDS, description.OPTIONS, roles, description.lab_wide_words(roles))


if __name__ == "__main__":
    path = conftest.ROOT / "docs" / "words.md"
    path.write_text(current(), encoding="utf-8")
    print(path)
