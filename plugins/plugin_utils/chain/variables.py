# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of an inventory's variables: which nothing reads, and which every play overrides by a variable of the whole testbed."""

from __future__ import annotations

from typing import Any

from .description import CONNECTION, OLD_WORDS, WORDS, lab_wide_words
from .nouns import Lab
from .shape import Problem, near, shown
from .testbed import Testbed


def unknown_names(lab: Lab, testbed: Testbed) -> list[Problem]:
    """Variables with our prefixes that nothing reads."""
    roles = lab["roles"]
    known = {**WORDS, **{name: option for role in roles.values() for name, option in role.items()}}
    unknown: dict[str, Any] = {}
    for host, own in lab["hosts"].items():
        for name in own:
            if name not in known and name not in CONNECTION:
                unknown.setdefault(name, []).append(host)
    problems = []
    for name, hosts in sorted({**lab.get("others", {}), **unknown}.items()):
        where = "" if len(hosts) == len(lab["hosts"]) else f" of {', '.join(hosts)}"
        if name in OLD_WORDS:
            problems.append(Problem(f"{name}{where}", None, "was renamed after 0.3", f"write {OLD_WORDS[name]}"))
            continue
        meant = _meant(name, known, roles) if name in unknown else near(name, known, 0.92)
        if name.startswith("testbed_") or meant:
            remedy = f"did you mean {meant}?" if meant else "remove it, or give a variable of your own another prefix"
            problems.append(Problem(f"{name}{where}", None, "is not a variable of this collection", remedy))
    return problems


def overridden(lab: Lab, _testbed: Testbed) -> list[Problem]:
    """Words of a role in the place of one of the whole testbed: its own plays would follow them, the others would not, and a run would be split in two."""
    wrong: dict[tuple[str, str, str | None], list[str]] = {}
    for name, word in lab_wide_words(lab["roles"]).items():
        for host, own in lab["hosts"].items():
            given = own.get(name) or None
            if given is not None and str(given) != str(own.get(word)):
                # A mapping is a login, which is not for the eye.
                wrong.setdefault((name, word, None if isinstance(given, dict) else shown(given)), []).append(host)
    problems = []
    for (name, word, value), hosts in wrong.items():
        where = "" if len(hosts) == len(lab["hosts"]) else f" of {', '.join(hosts)}"
        why = f"{'is set, ' if value is None else ''}but the playbooks give all roles {word}"
        problems.append(Problem(f"{name}{where}", value, why, f"write {word} in its place"))
    return problems


def _meant(name: str, known: dict[str, Any], roles: dict[str, Any]) -> str | None:
    """The variable of the same prefix that is written almost so."""
    prefix = next(
        prefix for prefix in sorted(("testbed", *roles), key=len, reverse=True) if name.startswith(f"{prefix}_")
    )
    rests = [other.removeprefix(f"{prefix}_") for other in known if other.startswith(f"{prefix}_")]
    meant = near(name.removeprefix(f"{prefix}_"), rests, 0.75)
    return f"{prefix}_{meant}" if meant else None
