# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host made of the files of one folder, for modules that name /sys, /dev and the like: what a test puts there they see, and what they change is there.

    host = Rooted(monkeypatch, tmp_path, open_iscsi, record)
    host.write("/sys/class/iscsi_session/session7/state", "LOGGED_IN")

A kind of host derives from it: command() is what a program does there, wrote() what a kernel does when an attribute is written.
"""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure

MAPPED = ("/sys", "/dev", "/proc", "/run", "/etc", "/var")
# Functions whose first argument is a path.
OF_PATHS = ("exists", "lexists", "isdir", "isfile", "islink")
OF_FILES = ("access", "chmod", "chown", "listdir", "lstat", "makedirs", "open", "stat", "statvfs", "unlink")


class _Standin:
    """A module whose named functions get the path that is meant; all else of it is as it was."""

    def __init__(self, module, host: Rooted, names: tuple, **own) -> None:
        self._module, self._host, self._names = module, host, names
        vars(self).update(own)

    def __getattr__(self, name: str):
        function = getattr(self._module, name)
        if name not in self._names:
            return function
        return lambda path, *rest, **named: function(self._host.real(path), *rest, **named)


class Rooted:
    # What every command writes to its standard error.
    complains = ""

    def __init__(self, monkeypatch, root, *modules) -> None:
        self.root, self.done, self.modules = str(root), [], {"ext4"}
        self.available = {"brd", "loop", "zram", "iscsi_tcp", "sd_mod", "target_core_mod"}
        for name in MAPPED:
            os.makedirs(f"{self.root}{name}", exist_ok=True)
        paths = _Standin(os.path, self, OF_PATHS, realpath=lambda path: self.shown(os.path.realpath(self.real(path))))
        for module in modules:
            own = {
                # Direct I/O is the file system's to give, and this one is whatever tests are run on.
                "os": _Standin(
                    os,
                    self,
                    OF_FILES,
                    path=paths,
                    symlink=self._symlink,
                    readlink=self._readlink,
                    rename=self._rename,
                    mkdir=self.mkdir,
                    rmdir=self.rmdir,
                    kill=self.kill,
                    O_DIRECT=0,
                ),
                "glob": SimpleNamespace(glob=self._glob, escape=glob.escape),
                "read_text": self.read_text,
                "write_text": self.write_text,
                "loaded_modules": lambda: set(self.modules),
                "load_module": self.load_module,
                "missing_modules": self.missing_modules,
                "module_available": lambda name: name in self.available | self.modules,
                "unload_modules": self.unload_modules,
                "run": self.run,
                "wait_for": lambda condition, *_patience, **_more: condition(),
            }
            for name, value in own.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, value)
            monkeypatch.setattr(module, "open", self._open, raising=False)

    # -- paths

    def real(self, path: str) -> str:
        mapped = any(path == name or path.startswith(f"{name}/") for name in MAPPED)
        return f"{self.root}{path}" if mapped and not path.startswith(f"{self.root}/") else path

    def shown(self, path: str) -> str:
        return path[len(self.root) :] if path.startswith(f"{self.root}/") else path

    def _open(self, path: str, *rest, **named):
        return open(self.real(path), *rest, **named)

    def _glob(self, pattern: str) -> list:
        real = self.real(pattern)
        return [
            self.shown(path) for path in glob.glob(glob.escape(self.root) + pattern if real != pattern else pattern)
        ]

    def _symlink(self, source: str, path: str) -> None:
        os.symlink(self.real(source), self.real(path))

    def _rename(self, source: str, path: str) -> None:
        os.rename(self.real(source), self.real(path))

    def _readlink(self, path: str) -> str:
        return self.shown(os.readlink(self.real(path)))

    # -- what a test puts there

    def write(self, path: str, text: str = "") -> None:
        Path(self.real(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(self.real(path)).write_text(text, encoding="utf-8")

    def folder(self, path: str) -> None:
        os.makedirs(self.real(path), exist_ok=True)

    def remove(self, path: str) -> None:
        real = self.real(path)
        if os.path.isdir(real) and not os.path.islink(real):
            shutil.rmtree(real)
        elif os.path.lexists(real):
            os.unlink(real)

    def has(self, path: str) -> bool:
        return os.path.lexists(self.real(path))

    # -- what the modules ask of it

    def read_text(self, path: str, default: str | None = None) -> str:
        try:
            return Path(self.real(path)).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            if default is None:
                raise
            return default

    def write_text(self, path: str, text: str) -> None:
        self.done.append(f"{text} > {self.shown(path)}")
        self.wrote(self.shown(path), text)

    def missing_modules(self, name: str) -> set:
        return {name} & self.available - self.modules

    def load_module(self, name: str, *parameters: str, intend, provides: str | None = None) -> None:
        if name in self.modules or (provides and self.has(provides)):
            return
        intend(self.missing_modules(name))
        if name not in self.available:
            raise Failure("command_failed", f"The kernel module {name} cannot be loaded.", "Use another kernel.")
        self.modules.add(name)
        self.command(["modprobe", name, *parameters])

    def unload_modules(self, names: list) -> None:
        self.modules.difference_update(names)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        os.mkdir(self.real(path), mode)

    def rmdir(self, path: str) -> None:
        os.rmdir(self.real(path))

    def run(self, argv: list, ok: tuple = (0,), what: str = "", **_rest):
        """As host.run; command() gives (exit code, output), a text for both fine, or None."""
        self.done.append(" ".join(argv))
        answer = self.command(argv)
        code, output = answer if isinstance(answer, tuple) else (0, answer or "")
        if code not in ok:
            message = f", {output}" if output else ""
            raise Failure("command_failed", f"{what or argv[0]}: exit {code}{message}.", "Look.", exit_code=code)
        return SimpleNamespace(returncode=code, stdout=output, stderr=self.complains)

    def kill(self, pid: int, number: int) -> None:
        raise AssertionError(f"nobody expects signal {number} to {pid}")

    def wrote(self, path: str, text: str) -> None:
        self.write(path, text)

    def command(self, argv: list):
        raise AssertionError(f"nobody expects {argv}")
