# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way this collection fails: what failed on what, and what to change."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from .visible import visible

# Printed by shells and by version managers of Python where a module's Python does not start.
NO_PYTHON = r"python[\w.]*[:'’ ]*(?:command )?not found|python[\w.]*: No such file or directory"
PYTHON = (
    "Set ansible_python_interpreter of the host to a Python of 3.9 or newer that starts there; -vvv shows the rest."
)


class Fault(TypedDict):
    """A failure as stored results keep it: its code, and what and remedy as a text."""

    code: str
    message: str


class Failure(Exception):
    """A failure a user can act on.

    code: short snake_case name that scripts and tests match on, e.g. ``device_mounted``.
    what: one sentence, what failed on what.
    remedy: one sentence, what to change; empty where what failed says it all.
    details: JSON-able facts (device, size_bytes, …); never secrets.
    """

    def __init__(self, code: str, what: str, remedy: str = "", **details: Any) -> None:
        # A text of others may end in a full stop already, and may hold what a terminal obeys.
        what, remedy = (visible(re.sub(r"(?<![.])[.]{2}(?=\s|$)", ".", text)) for text in (what, remedy))
        super().__init__(f"{what} {remedy}".strip())
        self.code = code
        self.what = what
        self.remedy = remedy
        self.details = details

    def as_result(self) -> dict[str, object]:
        """Keyword arguments for ``fail_json`` or an action plugin's result (which adds ``failed``)."""
        whole = {"code": self.code, "what": self.what, "remedy": self.remedy, "details": self.details}
        return {"msg": str(self), "failure": whole}

    @staticmethod
    def of_result(result: Mapping[str, Any]) -> Failure:
        """The failure that a module reported as as_result gives it; 'module_failed' for a module that broke off before it could."""
        if "failure" not in result:
            # From ansible-core 2.19 on the exception is a structure, whose text does not help a reader.
            given = (result.get(key) for key in ("msg", "module_stderr", "exception"))
            words = " ".join(text.strip() for text in given if isinstance(text, str))
            remedy = PYTHON if re.search(NO_PYTHON, words) else "Look at the host with -vvv."
            return Failure("module_failed", f"The module broke off: {words[-1000:]}", remedy)
        whole = result["failure"]
        return Failure(whole["code"], whole["what"], whole["remedy"], **whole["details"])

    def as_fault(self) -> Fault:
        return {"code": self.code, "message": str(self)}


def messages(faults: Iterable[Fault]) -> str:
    """The messages of all of them, as a text."""
    return " ".join(fault["message"] for fault in faults)


def bad_value(variable: str, value: object, remedy: str, **details: Any) -> Failure:
    """The failure for bad input: names the variable, the value and the remedy."""
    return Failure("bad_value", f"{variable} is {value!r}.", remedy, variable=variable, value=value, **details)


def unfit(variable: str, value: object, why: str, instead: str) -> Failure:
    """bad_value with a reason: 'size is 1, but a pair needs 2: name more.' why and instead are clauses without a full stop."""
    what = f"{variable} is {value!r}, {why}:"
    return Failure("bad_value", what, f"{instead}.", variable=variable, value=value)


def exit_words(exit_code: int) -> str:
    """How a process ended, by what subprocess says: a negative number is the signal that ended it. Windows' own codes are known in hexadecimal."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}" + (f" ({exit_code:#010x})" if exit_code > 0xFFFF else "")
    return f"was ended by signal {-exit_code} ({signal.strsignal(-exit_code)})"
