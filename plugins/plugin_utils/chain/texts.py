# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The characters that no text of an inventory may have, whatever it is for, and those allowed in texts that become part of a name, a path or a command.

The first holds for every variable that the collection reads, also for those that come later. No value is shown: it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...module_utils.core import names
from ...module_utils.workload import profile
from .description import CONNECTION, WORDS
from .inventory import PRESENT_ONLY
from .nouns import Lab
from .shape import SECRET, Problem

LONGEST = 255
LONGEST_PATH = 1024
DEEPEST = 20
# The last word of the variables that are longer than a name: paths, and sentences for people.
LONG = (
    "path",
    "dir",
    "dirs",
    "home",
    "image",
    "file",
    "folder",
    "options",
    "mount_point",
    "title",
    "iso",
    "url",
    "ova",
    "key",
    "keys",
    "targets",
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:_%\[\]-]{0,254}")
# As vSphere shows them: they may have blanks and any letters.
_LABEL = re.compile(r"\w[\w .()+-]{0,79}")
# The limit of a run's folder on the controller and on the hosts.
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME, ADDRESS, LABEL = (
    (_NAME, "use up to 63 letters, digits, dots, _ and -"),
    (_ADDRESS, "write an IP address or a host name"),
    (_LABEL, "use up to 80 letters, digits, blanks, dots, +, - and _"),
)
# Variables by their words without indices, which become part of paths, names or command lines and are looked at nowhere else before something is done.
SHAPES = {
    "testbed_run_id": (_RUN, "use up to 100 letters, digits, dots, _ and -; it names a folder"),
    "benchmark_profile": (profile.NAME, "use the name of a profile, of small letters, digits and _"),
    "testbed.disks.name": (names.NAME, names.NAME_REMEDY),
    "testbed.guests.name": NAME,
    "testbed.guests.taps": (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}"),
        "name a tap interface of up to 15 letters, digits, dots, _ and -",
    ),
    "testbed.guests.address": ADDRESS,
    "testbed.guests.esxi.datastore": LABEL,
    "testbed.datastores.name": LABEL,
    "testbed.datastores.server": ADDRESS,
    "testbed.datastores.path": (re.compile(r"(/(?!\.\.?(/|$))[^/]+)+/?"), "write an absolute path without . and .."),
    "testbed_address": ADDRESS,
    "testbed_address.address": ADDRESS,
}
# The last word of variables that become the name of a file or a folder somewhere, whatever else they are. A testbed's id is looked at by itself.
IDENTIFIERS = ("name", "id", "netns", "variant")
IDENTIFIER = (re.compile(r"(?![.-])[^/\\]+"), "write a name without / and \\ that begins with neither a dot nor a dash")


def shape_of(words: str) -> tuple[re.Pattern[str], str] | None:
    """The form of a text of a variable, and the remedy; None where any text will do."""
    last = words.rpartition(".")[2].rpartition("_")[2]
    return SHAPES.get(words) or (IDENTIFIER if last in IDENTIFIERS and words != "testbed_id" else None)


def problems(lab: Lab) -> list[Problem]:
    """One for each text of the inventory, named as the user wrote it."""
    by_variable: dict[str, Problem] = {}
    # The description is the same on every host of most labs, and is looked at once.
    seen: dict[str, Any] = {}
    # For some only the fact that they are set is read.
    known = {*WORDS, *CONNECTION, *(name for role in lab["roles"].values() for name in role)} - {*PRESENT_ONLY}
    for host, own in lab["hosts"].items():
        # A variable with one of our prefixes that is not ours, such as a command's output that a playbook registered, is nothing but a name here.
        new = {name: value for name, value in own.items() if name not in seen or seen[name] != value}
        seen.update(new)
        read = {name: value if name in known else None for name, value in new.items()}
        for problem in (*_host(host), *_value(read, "", "", 0)):
            by_variable.setdefault(problem.variable, problem)
    return list(by_variable.values())


def _host(name: str) -> Iterator[Problem]:
    if (
        "/" in name
        or name.startswith((".", "-"))
        or len(name) > LONGEST
        or _CONTROL.search(name)
        or _TEMPLATE.search(name)
    ):
        yield Problem(
            f"the host {name[:60]!r}",
            None,
            "cannot be part of the name of a file",
            "give it a plain name, and set its address in ansible_host",
        )


def _value(value: Any, variable: str, words: str, depth: int) -> Iterator[Problem]:
    """variable: as it is shown, with indices. words: the same without."""
    if depth > DEEPEST:
        yield Problem(variable, None, f"is nested more than {DEEPEST} deep", "nest it less deeply")
    elif isinstance(value, dict):
        for key, part in value.items():
            text = str(key)
            if _why(text, words):
                yield Problem(
                    variable or "a variable",
                    None,
                    f"has the key {text[:60]!r}, which {_why(text, words)}",
                    "write it plainly",
                )
                continue
            yield from _value(
                part, f"{variable}.{text}" if variable else text, f"{words}.{text}" if words else text, depth + 1
            )
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _value(part, f"{variable}[{index}]", words, depth + 1)
    elif isinstance(value, str):
        # A secret is any text: one that a vault held is never a template, and any other was worked out by Ansible.
        secret = SECRET.search(words.rpartition(".")[2])
        why = _why(_TEMPLATE.sub("", value) if secret else value, words)
        if why:
            yield Problem(variable, None, why, "write it plainly")
            return
        shape = shape_of(words)
        if shape and value and not shape[0].fullmatch(value):
            yield Problem(variable, None, "contains characters that it cannot have", shape[1])


def _why(text: str, words: str) -> str | None:
    if _CONTROL.search(text):
        return "contains a line break or another control character"
    if _TEMPLATE.search(text):
        return "contains a template that was not evaluated"
    longest = (
        LONGEST_PATH
        if words.rpartition(".")[2].rpartition("_")[2] in LONG or words.rpartition(".")[2] in LONG
        else LONGEST
    )
    return f"has {len(text)} characters, more than {longest}" if len(text) > longest else None
