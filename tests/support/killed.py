# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that is killed after its so-many-th change to a host made of files (rooted.py): what it left must be the testbed's.

with pytest.MonkeyPatch.context() as patch:
    killed = is_killed(lambda: call(target()), patch, 7, (lio, record))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

# Functions of a module that change the host, and those of os.
CHANGES = ("run", "write_text", "load_module", "unload_modules", "write_json", "write_whole")
OF_OS = ("chmod", "makedirs", "mkdir", "rename", "replace", "rmdir", "symlink", "unlink")


class Killed(BaseException):
    """The end of the process: nothing of it runs after that, no cleaning up and no record."""


class _Os:
    def __init__(self, inner: Any, deadly: Callable[[Any], Any]) -> None:
        self._inner, self._deadly = inner, deadly

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._inner, name)
        return self._deadly(function) if name in OF_OS else function


def is_killed(run: Callable[[], object], patch: pytest.MonkeyPatch, number: int, modules: Iterable[ModuleType]) -> bool:
    """Whether the run came to so many changes, after the last of which it was killed; else it ended by itself."""
    changes = 0

    def deadly(function: Any) -> Any:
        def changed(*arguments: Any, **named: Any) -> Any:
            nonlocal changes
            if changes >= number:
                raise Killed
            try:
                return function(*arguments, **named)
            finally:
                changes += 1
                if changes >= number:
                    # In place of its answer, which nobody gets any more.
                    raise Killed

        return changed

    for module in modules:
        for name in CHANGES:
            if hasattr(module, name):
                patch.setattr(module, name, deadly(getattr(module, name)))
        if hasattr(module, "os"):
            patch.setattr(module, "os", _Os(module.os, deadly))
    try:
        run()
    except Killed:
        return True
    return False
