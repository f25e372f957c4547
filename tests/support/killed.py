# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that is killed after its so-many-th change to a host made of files (rooted.py): what it left must be the testbed's.

with pytest.MonkeyPatch.context() as patch:
    killed = is_killed(lambda: call(target()), patch, 7, (lio, record))
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record

# Functions of a module that change the host, and those of os.
CHANGES = ("run", "write_text", "load_module", "unload_modules", "write_json", "write_whole")
OF_OS = ("chmod", "makedirs", "mkdir", "rename", "replace", "rmdir", "symlink", "unlink")


class Killed(BaseException):
    """The end of the process: nothing of it runs after that, no cleaning up and no record."""


class Full:
    """The file system of the records is full from the so-many-th record on, until it is emptied: {changes: made to the host since}."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, modules: Iterable[ModuleType]) -> None:
        self.number, self.records, self.changes, self.full = number, 0, [], False
        write = record.write_json
        patch.setattr(record, "write_json", lambda path, *rest, **named: self._write(write, path, *rest, **named))
        for module in modules:
            for name in CHANGES:
                if hasattr(module, name) and module is not record:
                    patch.setattr(module, name, self._counted(name, getattr(module, name)))

    def _write(self, write: Any, path: str, *rest: Any, **named: Any) -> None:
        self.records += 1
        if self.records >= self.number:
            self.full = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write(path, *rest, **named)

    def _counted(self, name: str, function: Any) -> Any:
        def changed(*arguments: Any, **named: Any) -> Any:
            if self.full:
                self.changes.append((name, *map(str, arguments[:1])))
            return function(*arguments, **named)

        return changed


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
