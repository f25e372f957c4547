# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of the testbed's own on storage of others, with the file that a benchmark may write.

The folder is the testbed's when its stamp has the token that was drawn before the folder was made, and that the record and the published layer keep. A name
alone proves nothing: another lab may use the same one. Each file is opened in the open folder, follows no link, and is a plain file with one link; what else
is in the folder was put there by others, and stays.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from ...core.failure import Failure
from ...core.files import naming
from ...core.layers import Layer
from ...core.names import BENCHMARK_FILE
from .. import mounts
from ..disks import device_safety, verdicts
from ..disks.facts import Facts
from . import benchmark_file
from .benchmark_file import MIB

STAMP = ".storlab-owner.json"
PARTIAL = f".{BENCHMARK_FILE}.new"
# So much of the whole file system stays free for its owner.
RESERVE_PERCENT = 10
NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# A stamp is some hundred bytes long.
MOST_STAMP_BYTES = 4096
BUILD_AGAIN = "Build the testbed again, which looks for it again."


def folder_name(testbed_id: str, name: str) -> str:
    """No testbed and no entry has a name with a plus sign, so no two of them share a folder."""
    return f"storlab.{testbed_id}+{name}"


def refuse_taken(place: str, folder: str) -> None:
    """Raises folder_foreign where something has the folder's name before this testbed has made it."""
    if os.path.lexists(os.path.join(place, folder)):
        raise _foreign(place, folder, "was there before this build")


def make(place: str, folder: str, token: str, stamped: bool) -> None:
    """The folder with its stamp. stamped: whether an earlier call has written the stamp already."""
    try:
        os.mkdir(os.path.join(place, folder), 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise Failure(
            "folder_unwritable",
            f"{folder} cannot be made in {place}: {error.strerror}.",
            "Let this host write there, or leave out access: write.",
            folder=place,
        ) from None
    with naming(os.path.join(place, folder)), _opened(place, folder) as handle:
        if _is_ours(handle, token, stamped):
            if _token(handle) != token:
                _write_stamp(handle, token)
            return
    raise _foreign(place, folder, "does not carry the stamp of this testbed")


def size_bytes(place: str, folder: str) -> int | None:
    """How large the benchmark file is; None while it is not there, or not a plain file."""
    try:
        with _opened(place, folder) as handle:
            status = os.stat(BENCHMARK_FILE, dir_fd=handle, follow_symlinks=False)
    except (OSError, Failure):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def write(place: str, folder: str, token: str, size: int) -> None:
    """The benchmark file, each byte of it written. Raises space_short where that would leave its owner too little space."""
    with _opened(place, folder) as handle:
        if not _is_ours(handle, token, stamped=True):
            raise _foreign(place, folder, "does not carry the stamp of this testbed")
        for name in (PARTIAL, BENCHMARK_FILE):
            # A file of another size goes first, for the space is needed once.
            if _status(handle, name) and not (name == BENCHMARK_FILE and _refuse_linked(handle, name).st_size == size):
                os.unlink(name, dir_fd=handle)
        if _status(handle, BENCHMARK_FILE):
            return
        refuse_full(os.fstatvfs(handle), size, os.path.join(place, folder))
        try:
            _write_file(handle, size)
        except OSError as error:
            if _status(handle, PARTIAL):
                os.unlink(PARTIAL, dir_fd=handle)
            raise Failure(
                "space_short" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "folder_unwritable",
                f"The benchmark file of {size // MIB} MiB cannot be written in {place}/{folder}: {error.strerror}.",
                "Set a smaller benchmark_file, or look at the storage.",
                folder=place,
            ) from None


def refuse_full(space: os.statvfs_result, size: int, what: str) -> None:
    """Raises space_short unless a tenth of the file system stays free."""
    refuse_short(space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize, size, what)


def refuse_short(free_bytes: int, whole_bytes: int, size: int, what: str) -> None:
    """As refuse_full, of numbers."""
    reserve = whole_bytes * RESERVE_PERCENT // 100
    if free_bytes - size < reserve:
        raise Failure(
            "space_short",
            f"{size // MIB} MiB in {what} would leave {(free_bytes - size) // MIB} MiB free, and {reserve // MIB} MiB ({RESERVE_PERCENT} %) stay free.",
            "Set a smaller benchmark_file, or free space on that storage.",
            needed_bytes=size,
            available_bytes=free_bytes,
        )


def remove(place: str, folder: str, token: str, stamped: bool) -> list[str]:
    """Take away what is the testbed's. Returns the paths that stay, because others put them there."""
    path = os.path.join(place, folder)
    if not os.path.lexists(path):
        return []
    try:
        with _opened(place, folder) as handle:
            if not _is_ours(handle, token, stamped):
                return [path]
            for name in (PARTIAL, BENCHMARK_FILE):
                status = _status(handle, name)
                if status and stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    os.unlink(name, dir_fd=handle)
            left = sorted(name for name in os.listdir(handle) if name != STAMP)
            if left:
                # The stamp stays, too: it says who made the folder that the others' files are in.
                return [os.path.join(path, name) for name in left]
            if _status(handle, STAMP):
                os.unlink(STAMP, dir_fd=handle)
        os.rmdir(path)
    except (Failure, OSError):
        # Among them a file that others put there just now.
        return [path]
    return []


# ---------------------------------------------------------------- before a point


def is_own(layer: Layer) -> bool:
    """Whether a layer is the testbed's own file on storage of others."""
    return bool(layer.get("identity", {}).get("own_folder"))


def guard(layer: Layer) -> Facts:
    """The facts of the file that the layer means; raises the first refusal as a Failure."""
    facts = device_safety.inspect(layer["path"])
    reasons = refusals(facts, layer)
    if reasons:
        raise device_safety.not_touched(layer, reasons)
    return facts


def refusals(facts: Facts, layer: Layer) -> list[Failure]:
    """Why the file must not be written to, empty when it is the testbed's own. It reads the stamp beside the file."""
    path, identity, own = layer["path"], layer["identity"], layer["detail"]["own"]
    place, folder = str(identity["mount_point"]), str(identity["own_folder"])
    if facts["type"] != "file" or path != os.path.join(place, folder, BENCHMARK_FILE):
        return [Failure("not_a_device", f"{path} is not the benchmark file of {layer['name']}.", BUILD_AGAIN)]
    mount = mounts.mounted_at(mounts.read(), place)
    if not mount or mount["source"] != identity.get("source") or facts.get("mount_point") != place:
        where = mount["source"] if mount else "nothing"
        return [Failure("wrong_mount", f"{place} shows {where}, not {identity.get('source')}.", BUILD_AGAIN)]
    with _opened(place, folder) as handle:
        if _token(handle) != own["token"]:
            return [_foreign(place, folder, "does not carry the stamp of this testbed")]
        status = _refuse_linked(handle, BENCHMARK_FILE)
        if facts["held_as"].split()[1] != str(status.st_ino):
            return [Failure("file_replaced", f"{path} leads out of the testbed's own folder.", BUILD_AGAIN)]
    used = bool(facts.get("loops") or facts.get("exports") or facts.get("swap") or facts.get("mounts"))
    reasons = [Failure("device_in_use", f"{path} is used by this host.", "Find out what uses it.")] if used else []
    return reasons + verdicts.size_refusals(facts, layer)


# ---------------------------------------------------------------- one open folder


@contextmanager
def _opened(place: str, folder: str) -> Iterator[int]:
    """The folder itself, never what a link leads to; raises folder_foreign where the name is a link or not a folder."""
    try:
        handle = os.open(os.path.join(place, folder), os.O_RDONLY | os.O_DIRECTORY | NO_LINK)
    except OSError as error:
        raise _foreign(place, folder, f"cannot be opened ({error.strerror})") from None
    try:
        yield handle
    finally:
        os.close(handle)


def _status(handle: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refuse_linked(handle: int, name: str) -> os.stat_result:
    """The status of a plain file with one link; raises file_linked for everything else, which may be a file of others."""
    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return status
    raise Failure(
        "file_linked",
        f"{name} in the testbed's own folder is {'a link or no plain file' if not stat.S_ISREG(status.st_mode) else 'a file with several names'}.",
        "Remove it, and find out who put it there.",
        file=name,
    )


def _token(handle: int) -> str | None:
    """The token of the stamp; None without one that can be read."""
    try:
        stamp = os.open(STAMP, os.O_RDONLY | NO_LINK, dir_fd=handle)
    except OSError:
        return None
    with open(stamp, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stamp).st_mode):
            return None
        try:
            content = json.loads(stream.read(MOST_STAMP_BYTES))
        except ValueError:
            return None
    token = content.get("token") if isinstance(content, dict) else None
    return token if isinstance(token, str) else None


def _is_ours(handle: int, token: str, stamped: bool) -> bool:
    """A folder without its stamp is ours only where the record says that we were about to write it, and nothing else is in it."""
    return _token(handle) == token or (not stamped and set(os.listdir(handle)) <= {STAMP} and _token(handle) is None)


def _write_stamp(handle: int, token: str) -> None:
    if _status(handle, STAMP):
        os.unlink(STAMP, dir_fd=handle)
    text = {"token": token, "what": "made by storlab.testbed for its benchmarks, removed by its teardown"}
    stamp = os.open(STAMP, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600, dir_fd=handle)
    with open(stamp, "w", encoding="utf-8") as stream:
        json.dump(text, stream)
        stream.flush()
        os.fsync(stamp)


def _write_file(handle: int, size: int) -> None:
    """Written under another name and renamed when it is complete, so that a file of that name is a finished one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
    try:
        file = os.open(PARTIAL, flags | os.O_DIRECT, 0o600, dir_fd=handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # A file system without direct I/O may have made the file before it refused.
        if _status(handle, PARTIAL):
            os.unlink(PARTIAL, dir_fd=handle)
        file = os.open(PARTIAL, flags, 0o600, dir_fd=handle)
    try:
        benchmark_file.fill(file, size)
    finally:
        os.close(file)
    os.rename(PARTIAL, BENCHMARK_FILE, src_dir_fd=handle, dst_dir_fd=handle)


def _foreign(place: str, folder: str, why: str) -> Failure:
    return Failure(
        "folder_foreign",
        f"{os.path.join(place, folder)} {why}, so nothing in it is touched.",
        "Move it away, or remove it if it is left of an earlier testbed; else choose another name in testbed.existing.",
        folder=os.path.join(place, folder),
    )
