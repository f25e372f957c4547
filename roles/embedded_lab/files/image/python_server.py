# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python that stays loaded in the machines of the embedded lab, and forks for each program that python_client hands to it.

An emulated processor needs more than a second to load what every module of Ansible imports. Here it is loaded once, from the archives that
the modules come in, and used for a later module only when that one's archive holds the very same files.

Usage: python_server.py [DESCRIPTOR], the listening socket when the server starts itself again because files have changed.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import os
import select
import signal
import socket
import struct
import sys
import traceback
import types
import zipimport

SOCKET = "/run/python-server"
# Where programs leave archives with files that are not loaded yet.
ARCHIVES = "/run/python-server-archives"
# A system call that the C library of the machines has no name for.
PIDFD_GETFD = 438
PACKAGES = ("ansible", "ansible_collections")


def signature(archive: str) -> dict[str, tuple[int, int]]:
    """Name of each file in an archive that can be loaded once for all -> (its size in bytes, its CRC-32), from the archive's directory."""
    files = zipimport.zipimporter(archive)._files
    return {name: (entry[3], entry[7]) for name, entry in files.items() if "/module_utils/" in name}


def within(module: types.ModuleType) -> str:
    """The name of a module's file in its archive; empty for what another module made."""
    return (getattr(module, "__file__", None) or "").partition(".zip/")[2]


class Loaded:
    """The module_utils that were imported; as a finder it puts them where a program would import its own."""

    def __init__(self) -> None:
        self.modules: dict[str, types.ModuleType] = {}
        self.files: dict[str, tuple[int, int]] = {}

    def agrees(self, files: dict[str, tuple[int, int]]) -> bool:
        """No file has another content than what is loaded of it."""
        return all(self.files.get(name, value) == value for name, value in files.items())

    def load(self, archive: str) -> bool:
        """Import what the archive has and is not loaded yet, and take all of it out of sight again. False: files differ from what is loaded."""
        files = signature(archive)
        if not self.agrees(files):
            return False
        self.show(archive)
        sys.path.insert(0, archive)
        for file in sorted(set(files) - set(self.files)):
            # A module that cannot be imported here is left to the program that wants it.
            with contextlib.suppress(Exception):
                importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        sys.path.remove(archive)
        self.modules = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in PACKAGES}
        self.files.update(files)
        # The modules here stay: no use in looking through it in each program.
        gc.freeze()
        return True

    def show(self, archive: str) -> None:
        """Put the loaded modules where programs find them, as if they came from this archive: what they import later comes from there."""
        for module in self.modules.values():
            inside, spec = within(module), module.__spec__
            if not inside or spec is None:
                continue
            module.__file__ = spec.origin = f"{archive}/{inside}"
            folder = os.path.dirname(module.__file__)
            if hasattr(module, "__path__"):
                module.__path__ = spec.submodule_search_locations = [folder]
                folder = os.path.dirname(folder)
            spec.loader = module.__loader__ = zipimport.zipimporter(folder)
        sys.modules.update(self.modules)

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Called for every import; the first one of ``ansible`` decides, when the archive of the module is the first place to look."""
        archive = sys.path[0]
        if name != "ansible" or not archive.endswith(".zip"):
            return None
        sys.meta_path.remove(self)
        files = signature(archive)
        if set(files) - set(self.files) or not self.agrees(files):
            keep(archive)
        if not self.modules or not self.agrees(files):
            return None
        # Only what the archive has: a program must not find what it did not bring.
        self.modules = {
            name: module
            for name, module in self.modules.items()
            if "/module_utils/" not in within(module) or within(module) in files
        }
        self.show(archive)
        spec = self.modules[name].__spec__
        if spec is not None:
            spec.loader = self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self.modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """It has been executed, in the server; the import system has it from its own archive from here on."""
        folder = os.path.dirname(os.path.dirname(module.__file__ or ""))
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = zipimport.zipimporter(folder)


def keep(archive: str) -> None:
    """Copy an archive for the server, which loads it when the program has ended. Without room for it everything goes on."""
    kept = os.path.join(ARCHIVES, f"{os.getpid()}.zip")
    try:
        with open(archive, "rb") as source, open(f"{kept}.part", "wb") as copy:
            copy.write(source.read())
        os.replace(f"{kept}.part", kept)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(f"{kept}.part")


def become(pid: int) -> None:
    """Take over standard files, folder, environment and file mode mask of the client."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    for number in (0, 1, 2):
        copy = libc.syscall(PIDFD_GETFD, process, number, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), f"file {number} of process {pid}")
        os.dup2(copy, number)
        os.close(copy)
    os.close(process)
    with open(f"/proc/{pid}/environ", "rb") as stream:
        pairs = [entry.partition(b"=") for entry in stream.read().split(b"\0") if entry]
    os.environb.clear()
    os.environb.update({name: value for name, dummy, value in pairs})
    os.chdir(os.readlink(f"/proc/{pid}/cwd"))
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        os.umask(next(int(line.split()[1], 8) for line in stream if line.startswith("Umask:")))


def run(source: bytes) -> int:
    """Run a program as Python runs what it reads from its standard input, and return its exit status."""
    sys.argv = [""]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(source, "<stdin>", "exec"), main.__dict__)  # noqa: S102 - from the user this runs as, who may start Python as well
    except SystemExit as end:
        if isinstance(end.code, int) or end.code is None:
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def program(pid: int, loaded: Loaded) -> None:
    """In a process of its own: what the client was called for. Does not return."""
    become(pid)
    sys.meta_path.insert(0, loaded)
    with open(0, "rb", closefd=False) as stream:
        source = stream.read()
    status = run(source)
    # All that Python does when it ends, but taking apart what the server loaded.
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 255)


def attend(connection: socket.socket, ended: int, loaded: Loaded) -> None:
    """In a process of its own: start the client's program, send the client its exit, and inform the server that it ended. Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A session of its own, which the program does not lead: so it can make one, as a program can that a shell starts.
    os.setsid()
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    started = os.fork()
    if not started:
        connection.close()
        os.close(ended)
        program(pid, loaded)
    status = os.waitstatus_to_exitcode(os.waitpid(started, 0)[1])
    with contextlib.suppress(OSError):
        # As a shell has it: 128 and the signal.
        connection.send(bytes([status if status >= 0 else 128 - status]))
    os.write(ended, b".")
    os._exit(0)


def serve(listener: socket.socket) -> None:
    """Until files have changed; then it starts itself again."""
    # Who ends is not waited for, and leaves nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.makedirs(ARCHIVES, mode=0o700, exist_ok=True)
    ended, end = os.pipe()
    loaded = Loaded()
    while load_kept(loaded):
        ready = select.select([listener, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 512)
        if listener in ready:
            connection = listener.accept()[0]
            if os.fork() == 0:
                listener.close()
                os.close(ended)
                attend(connection, end, loaded)
            connection.close()
    os.set_inheritable(listener.fileno(), True)
    os.execv(sys.executable, [sys.executable, __file__, str(listener.fileno())])  # noqa: S606 - itself


def load_kept(loaded: Loaded) -> bool:
    """Load the archives that were kept. False: one has other files than what is loaded; it stays for the next start."""
    for name in sorted(name for name in os.listdir(ARCHIVES) if name.endswith(".zip")):
        path = os.path.join(ARCHIVES, name)
        try:
            agreed = loaded.load(path)
        except (OSError, zipimport.ZipImportError):
            agreed = True
        if not agreed:
            return False
        os.unlink(path)
    return True


def listen() -> socket.socket:
    """For its own user only."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o077)
    listener.bind(SOCKET)
    os.umask(mask)
    listener.listen(64)
    return listener


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])) if len(sys.argv) > 1 else listen())
