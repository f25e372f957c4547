# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a case is: one script, what it is given, and what Windows must be asked and the controller be told. The cases are in windows_cases/.

Expectations are written by hand, from what the cmdlets are documented to take and from what the plans need to know; nothing is recorded.
Standard library only, so that the cases can be read on any machine.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = "{FOLDER}"
# A text that no script may take for a part of itself: quotes of both kinds, a variable, a call, a back-tick, wildcards, and letters of other alphabets.
WILD = "a'b\"c $env:PATH $(exit) `d` [e]* ; ü → 日本"
# As much of it as Windows takes in the name of a file.
WILD_NAME = "a'b $HOME $(exit) `d` [e] ; ü 日本"
# More than 32 bits hold, signed (2^31) and unsigned (2^32); a size that 43 bits do not hold; and more than a double counts without a gap.
PAST_INT, PAST_UINT, LARGE = 2**31 + 7, 2**32 + 9, 2**43 + 512


def at(*names: str) -> str:
    """A path in the case's own folder."""
    return os.path.join(FOLDER, *names)


def aged(path: str, seconds: float) -> str:
    """For the change of a world: the file was written so long before the script runs, and not a moment less."""
    return f"[System.IO.File]::SetLastWriteTimeUtc('{path}', [DateTime]::UtcNow.AddSeconds(-{seconds}))\n"


class Like:
    """Equal to every text that the pattern matches as a whole."""

    def __init__(self, pattern: str):
        self.pattern = pattern

    def __eq__(self, other) -> bool:
        return isinstance(other, str) and re.fullmatch(self.pattern, other, re.DOTALL) is not None

    def __hash__(self):
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Like({self.pattern!r})"


class Anything:
    """Equal to everything: a number that the machine gives."""

    def __eq__(self, other) -> bool:
        return True

    def __hash__(self):
        return 0

    def __repr__(self) -> str:
        return "Anything()"


class AtLeast:
    """Equal to every whole number from the least on: a time that the machine takes."""

    def __init__(self, least: int):
        self.least = least

    def __eq__(self, other) -> bool:
        return isinstance(other, int) and not isinstance(other, bool) and other >= self.least

    def __hash__(self):
        return hash(self.least)

    def __repr__(self) -> str:
        return f"AtLeast({self.least})"


@dataclass(frozen=True)
class Json:
    """A file that holds this JSON."""

    value: object


@dataclass(frozen=True)
class Bytes:
    """A file of so many bytes, whatever they are; different: whether two parts of it must differ."""

    size: int
    different: bool = True


@dataclass(frozen=True)
class AnyFile:
    """A file, whatever is in it."""


@dataclass(frozen=True)
class Case:
    """calls: [(name, parameters)] of the stand-ins, in order. left: {path: content} when it ends, None for a folder; files: the same before,
    and what is expected when left is not given. error: the sentence it fails with. registry: {key: values} when it ends."""

    script: str
    what: str
    given: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)
    result: object = field(default_factory=dict)
    changed: bool = True
    error: object = None
    secret: tuple | None = None
    check: bool = False
    world: str = "nothing"
    change: str = ""
    files: dict = field(default_factory=dict)
    left: dict | None = None
    registry: dict = field(default_factory=dict)
    # The script as a file beside its plan, as a task runs it.
    as_file: str = ""
    # With the parts for Windows alone, on Windows alone; and without any stand-in.
    whole: bool = False
    stand_ins: bool = True
    # Uses a program of Linux; is about PowerShell 7.
    linux: bool = False
    core: bool = False
    # What is put in place of what in the script, where time would make the case long.
    edit: tuple = ()

    @property
    def name(self) -> str:
        return f"{self.script}: {self.what}"


def call(name: str, **parameters) -> tuple:
    return name, parameters


def quiet(name: str, **parameters) -> tuple:
    """A call whose error is passed over: it says only that something is not there."""
    return name, {**parameters, "ErrorAction": "SilentlyContinue"}


def refused(case: Case) -> list:
    """The case, when the one cmdlet that it calls refuses: with an error after which a script could go on, and with one that ends it."""
    (name, _parameters) = case.calls[-1]
    return [
        replace(case, what=f"{case.what}, {name} refuses ({world})", world=world, error=f"{name} is denied.", result={})
        for world in ("refusing", "refusing_and_ending")
    ]


def wild(case: Case, *names: str) -> Case:
    """The case with a text that looks like a script in place of these parameters, and of the same texts where Windows is asked."""
    olds = {case.given[name] for name in names}

    def changed(value):
        if isinstance(value, list):
            return [changed(item) for item in value]
        return WILD if isinstance(value, str) and value in olds else value

    calls = [(name, {key: changed(value) for key, value in given.items()}) for name, given in case.calls]
    return replace(
        case,
        what=f"{case.what}, with names that look like a script",
        given={**case.given, **dict.fromkeys(names, WILD)},
        calls=calls,
    )
