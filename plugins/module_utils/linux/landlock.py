# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wall around a process: the kernel refuses to open anything for writing to it, but what is below one folder (Landlock, landlock(7)).

It is about the process and what that starts, and takes nothing from others: no device is claimed, and none is set read-only. The kernel looks when a
file is opened, so an I/O costs what it costs without.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

# System calls (include/uapi/asm-generic/unistd.h), and the machines on which they have other numbers.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
OTHER_NUMBERS = ("alpha", "mips", "mips64")
ASK_VERSION, BELOW_FOLDER = 1, 1
PR_SET_NO_NEW_PRIVS = 38
# {version of the interface: what it can refuse of all that changes something} (include/uapi/linux/landlock.h): writing to a file or a device,
# removing, making; moving; cutting off.
CHANGES = {1: 1 << 1 | sum(1 << bit for bit in range(4, 13)), 2: 1 << 13, 3: 1 << 14}
# A device that every process may write to, but for those behind a wall.
TRIED = "/dev/zero"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _call(number: int, *arguments: int | bytes | None) -> int:
    """The answer of a system call; raises OSError for an error."""
    given = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    answer = int(_libc.syscall(ctypes.c_long(number), *given))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


class Wall:
    """A wall with one gate, a folder; made by one process, for another to go behind. Raises OSError of a kernel without Landlock."""

    def __init__(self, folder: str) -> None:
        if os.uname().machine in OTHER_NUMBERS:
            raise OSError(f"the numbers of Landlock's system calls are not known on {os.uname().machine}")
        version = _call(CREATE_RULESET, None, 0, ASK_VERSION)
        rights = sum(added for since, added in CHANGES.items() if since <= version)
        refused = struct.pack("=Q", rights)
        self.ruleset = _call(CREATE_RULESET, refused, len(refused), 0)
        gate = os.open(folder, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            _call(ADD_RULE, self.ruleset, BELOW_FOLDER, struct.pack("=Qi", rights, gate), 0)
        except OSError:
            self.close()
            raise
        finally:
            os.close(gate)

    def enter(self) -> None:
        """Be behind it from now on, with all that this process starts; there is no way back."""
        try:
            _call(RESTRICT_SELF, self.ruleset, 0)
        except PermissionError:
            # Without root's rights a process first has to give up getting more.
            _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            _call(RESTRICT_SELF, self.ruleset, 0)

    def close(self) -> None:
        """Forget it here; who is behind it stays there."""
        os.close(self.ruleset)


def holds(folder: str) -> bool:
    """Whether walls hold on this host: tried by a process that goes behind one and writes, to a device and into the folder."""
    try:
        wall = Wall(folder)
    except OSError:
        return False
    try:
        pid = os.fork()
        if not pid:
            os._exit(_tried(wall, folder))
        return os.waitpid(pid, 0)[1] == 0
    finally:
        wall.close()


def _tried(wall: Wall, folder: str) -> int:
    """0 where a device cannot be opened for writing behind the wall, and a file of the folder can."""
    own = os.path.join(folder, f"wall-{os.getpid()}")
    try:
        if not stat.S_ISCHR(os.stat(TRIED).st_mode):
            return 2
        wall.enter()
        os.close(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(own)
        os.open(TRIED, os.O_WRONLY)
    except PermissionError as error:
        return int(error.filename != TRIED)
    except BaseException:
        return 3
    return 4
