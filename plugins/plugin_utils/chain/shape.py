# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a value is what an argument specification asks for, with one sentence for everything that is not.

A specification is that of Ansible's modules and roles (``type``, ``elements``, ``choices``, ``required``, ``default``, ``options`` or
``suboptions``) with one more type, ``size``: a text such as 128MiB, which becomes a number of MiB.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ...module_utils.core.failure import Failure
from .description import size_mib

KINDS = {
    "str": "a text",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "size": "a size with its unit, MiB, GiB or TiB, such as 128MiB",
}
TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# In the name of a variable: what is never shown, and may be any text.
SECRET = re.compile(r"password|secret|product_key")
# How people write sizes that are none here: 8G, 1.5 GB, 512m.
_ALMOST_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([MGT])i?B?\s*", re.I)
_MIB_OF = {"M": 1, "G": 1 << 10, "T": 1 << 20}
# A value that does not fit is left out, so that the rest can still be looked at.
UNFIT = object()
Named = TypeVar("Named")


class Problem(Failure):
    """The problem of one variable: its name, its value as shown (None = not shown), why it is wrong, and what to write instead.

    instead: what follows a colon; the remedy of another failure is a sentence of its own, with its full stop.
    """

    def __init__(self, variable: str, value: str | None, why: str, instead: str) -> None:
        shown_value = "" if value is None else f" is {value}"
        reason = f"{',' if shown_value else ''} {why}" if why else ""
        end = "." if instead.endswith(".") else ":"
        remedy = instead if instead.endswith((".", "?")) else f"{instead}."
        super().__init__("bad_value", f"{variable}{shown_value}{reason}{end}", remedy, variable=variable, value=value)
        self.variable, self.value, self.why, self.instead = variable, value, why, instead

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(str(self))

    def as_dict(self) -> dict[str, str | None]:
        return {"variable": self.variable, "value": self.value, "why": self.why, "remedy": self.instead}

    def about(self, variable: str) -> Problem:
        return Problem(variable, self.value, self.why, self.instead)

    def sentence(self) -> str:
        return str(self)


def shown(value: Any) -> str:
    """A value as a user knows it, short."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "empty"}[value]
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def near(word: str, words: Iterable[Any], alike: float = 0.6) -> str | None:
    """The word that was probably meant."""
    return next(iter(difflib.get_close_matches(str(word), [str(known) for known in words], 1, alike)), None)


def did_you_mean(word: str, words: Iterable[Any]) -> str:
    """The remedy for a name that is none of words."""
    known = [str(word) for word in words]
    meant = near(word, known)
    if meant:
        return f"did you mean {meant}?"
    return f"use one of {', '.join(known)}" if known else "there is none yet; describe one first"


def fit(variable: str, value: Any, option: dict[str, Any], problems: list[Problem]) -> Any:
    """The value as its type, with defaults filled in; UNFIT and a Problem in ``problems`` when it is none."""
    kind = option.get("type", "str")
    if kind == "raw":
        return value
    if kind == "dict" and isinstance(value, dict):
        options = option.get("suboptions") or option.get("options")
        return fit_mapping(variable, value, options, problems) if options else value
    if kind == "list" and isinstance(value, (list, tuple)):
        element = {**option, "type": option.get("elements", "raw")}
        entries = [fit(f"{variable}[{index}]", entry, element, problems) for index, entry in enumerate(value)]
        return [entry for entry in entries if entry is not UNFIT]
    if kind == "list" and option.get("elements") == "str" and isinstance(value, str):
        return [value]
    choices = option.get("choices")
    fitted = _SCALARS[kind](value) if kind in _SCALARS else None
    if fitted is None:
        problems.append(Problem(variable, _kept(value, option), "", _remedy(value, kind, choices)))
        return UNFIT
    if choices and fitted not in choices:
        problems.append(Problem(variable, shown(value), "", did_you_mean(value, choices)))
        return UNFIT
    return fitted


def fit_mapping(variable: str, value: dict[str, Any], options: dict[str, Any], problems: list[Problem]) -> Any:
    """The mapping with only what fits, and defaults; UNFIT without something required."""
    for name in value:
        if name not in options:
            problems.append(Problem(f"{variable}.{name}", None, "is not a known key", did_you_mean(name, options)))
    result, complete = {}, True
    for name, option in options.items():
        if value.get(name) is None:
            if option.get("required"):
                problems.append(Problem(f"{variable}.{name}", None, "is not set", f"write {KINDS[option['type']]}"))
                complete = False
            elif "default" in option:
                result[name] = option["default"]
            continue
        fitted = fit(f"{variable}.{name}", value[name], option, problems)
        if fitted is not UNFIT:
            result[name] = fitted
        elif option.get("required"):
            complete = False
        elif "default" in option:
            result[name] = option["default"]
    return result if complete else UNFIT


def _remedy(value: Any, kind: str, choices: list[Any] | None) -> str:
    """The words to write in the place of a value that is of another type."""
    if choices:
        return f"use one of {', '.join(map(str, choices))}"
    meant = size_meant(value) if kind == "size" else None
    return f"did you mean {meant}?" if meant else f"write {KINDS[kind]}"


def size_meant(value: Any) -> str | None:
    """The size that was probably meant by a text such as 8G, as it is written here."""
    match = _ALMOST_SIZE.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return None
    unit, number = match[2].upper(), float(match[1])
    mib = int(number * _MIB_OF[unit])
    if not mib or mib != number * _MIB_OF[unit]:
        return None
    return f"{int(number)}{unit}iB" if number == int(number) else f"{mib}MiB"


def _kept(value: Any, option: dict[str, Any]) -> str:
    return "of another kind" if option.get("no_log") else shown(value)


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else TRUTHS.get(str(value).strip().lower())


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "path": _text,
    "int": _whole,
    "float": _number,
    "bool": _truth,
    "size": size_mib,
}


def repeated(names: Iterable[Named]) -> list[Named]:
    """The names that are there more than once, in their order."""
    all_names = list(names)
    return sorted({name for name in all_names if all_names.count(name) > 1}, key=all_names.index)
