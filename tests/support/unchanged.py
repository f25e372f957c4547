# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A refusal changes nothing: tests name what the code in hand could change, and it is compared before and after.

What could change is given as a folder (every file in it: kind, mode, contents or link), as a list or mapping that a test double fills (the
changing commands that it was given, the state that it keeps), or as a function that reads it (of a simulator, of a device).
Code that is handed values and no such thing, and only plans, needs no check: there is nothing that it could change.
"""

from __future__ import annotations

import copy
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest


def tree(folder: Path) -> dict:
    """{path in the folder: (kind and mode, SHA-256 of the contents or where a link points)}; a folder that is missing is empty."""
    result = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            holds = os.readlink(path) if stat.S_ISLNK(mode) else ""
            if stat.S_ISREG(mode):
                holds = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            result[os.path.relpath(path, folder)] = (stat.filemode(mode), holds)
    return result


def differences(before: Any, after: Any, where: str = "") -> list:
    """One line for each place where two states differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{where}[{key!r}]"
            if key not in after:
                lines.append(f"{place} is gone, it was {before[key]!r:.200}")
            elif key not in before:
                lines.append(f"{place} is new: {after[key]!r:.200}")
            else:
                lines += differences(before[key], after[key], place)
        return lines
    return [] if before == after else [f"{where} was {before!r:.200} and is {after!r:.200}"]


class Watch:
    """What could change, as it is now. `assert_unchanged` fails with a line for each difference."""

    def __init__(self, *what: Path | list | dict | Callable[[], Any]) -> None:
        if not what:
            raise TypeError("Name what could change; nothing is never changed.")
        self.before = [(item, self._read(item)) for item in what]

    @staticmethod
    def _read(item: Path | list | dict | Callable[[], Any]) -> Any:
        if isinstance(item, Path):
            return tree(item)
        return copy.deepcopy(item() if callable(item) else item)

    def assert_unchanged(self) -> None:
        lines = []
        for item, before in self.before:
            name = getattr(item, "__name__", str(item) if isinstance(item, Path) else type(item).__name__)
            lines += differences(before, self._read(item), name)
        assert not lines, "It was refused, and yet something changed:\n" + "\n".join(lines)


@contextmanager
def unchanged(*what: Path | list | dict | Callable[[], Any]) -> Iterator[None]:
    """For what answers with a failure: what is named is after the block as it was before."""
    watch = Watch(*what)
    yield
    watch.assert_unchanged()


@contextmanager
def refused(
    *what: Path | list | dict | Callable[[], Any],
    match: str | None = None,
    kind: type[BaseException] | tuple = (),
) -> Iterator[pytest.ExceptionInfo]:
    """For what raises a Failure (or another kind of exception): it is raised, and what is named is after it as it was before."""
    from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure

    with unchanged(*what), pytest.raises(kind or Failure, match=match) as caught:
        yield caught


def broken_off(match: str | None = None) -> AbstractContextManager[pytest.ExceptionInfo]:
    """For what raises a Failure when it has begun, and for what changes nothing by its nature: the test itself looks at what is left."""
    from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure

    return pytest.raises(Failure, match=match)
