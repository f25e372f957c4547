# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the words of a workload anew where users read them, after the table in module_utils/workload/words.py has changed.

docs/workloads.md gets its two tables, plugins/doc_fragments/workload.py the suboptions that ansible-doc shows.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("", "support")]

import conftest  # noqa: F401 - makes the collection importable
import places
from ansible_collections.storlab.testbed.plugins.module_utils.workload.words import WORDS, Word

PAGE = places.ROOT / "docs" / "workloads.md"
FRAGMENT = places.ROOT / "plugins" / "doc_fragments" / "workload.py"
ALWAYS, WHEN_USED = "| key | meaning | default |\n| --- | --- | --- |\n", "| key | meaning |\n| --- | --- |\n"
HEAD = '''# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a workload, written by ``python tests/tools/write_workload.py`` from ``module_utils/workload/words.py``; do not edit."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  workload:
    description:
      - What I/O is issued. Any value may be a list; lists are multiplied out, so each option is of any type here, and is checked by its meaning.
      - C(docs/workloads.md) has examples, and what each engine cannot do.
    type: dict
    suboptions:
'''


def default(word: Word) -> str:
    usual = word.default or str(word.usual)
    return usual if word.of_amount is None else f"{usual}; {word.of_amount} with C(loops) or C(io_bytes)"


def markdown(text: str) -> str:
    return re.sub(r"C\(([^()]*)\)", r"`\1`", text)


def rows(words: Iterable[Word]) -> str:
    return "".join(
        "| "
        + " | ".join((f"`{word.name}`", markdown(word.meaning), *([] if word.optional else [markdown(default(word))])))
        + " |\n"
        for word in words
    )


def page(text: str) -> str:
    """The page with its tables written again."""
    for head, words in (
        (ALWAYS, [word for word in WORDS if not word.optional]),
        (WHEN_USED, [word for word in WORDS if word.optional]),
    ):
        before, _, after = text.partition(head)
        rest = after[re.match(r"(\|.*\n)*", after).end() :]
        text = before + head + rows(words) + rest
    return text


def fragment() -> str:
    parts = []
    for word in WORDS:
        meaning = f"{word.meaning[0].upper()}{word.meaning[1:]}."
        parts.append(f"      {word.name}:\n        description:\n")
        sentences = [meaning] if word.optional else [meaning, f"By default {default(word)}."]
        for sentence in sentences:
            lines = textwrap.wrap(sentence, 140, break_long_words=False, break_on_hyphens=False)
            parts.append("          - >-\n" + "".join(f"            {line}\n" for line in lines))
        parts.append("        type: raw\n")
    return HEAD + "".join(parts) + '"""\n'


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    FRAGMENT.write_text(fragment(), encoding="utf-8")
    print(PAGE, FRAGMENT, sep="\n")
