# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends that could not do its work, and with which modes it makes files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .failure import Failure

# The user's umask does not decide who may read or write what is made; what is for one user alone is given its mode where it is made.
UMASK = 0o022
# A disk that was pulled out, or a LUN whose target was away for longer than its initiator waits.
AWAY = (
    "Nothing answers at that device any more: bring back the disk or the target behind it, the testbed's own by `build`, "
    "then run the same playbook again."
)
REMEDIES = {
    errno.ENXIO: AWAY,
    errno.ENODEV: AWAY,
    errno.EROFS: "Mount that file system for writing, or name a place on another file system.",
    errno.ENOSPC: "Make room there.",
    errno.EDQUOT: "Make room there, or raise the quota.",
    errno.EACCES: "Give the user of the task the right to it, or set ansible_become.",
    errno.EPERM: "Give the user of the task the right to it, or set ansible_become.",
    errno.ENOTDIR: "Name a place that is not below a file.",
    errno.EIO: "Look at the kernel log of the host: the device does not work.",
}
UNKNOWN = "Correct what the system says, or look at the kernel log of the host."
OWN = "Give the controller's user the right to it."
# These differ for an action: it runs on the controller, and its task belongs to a host.
CONTROLLER_REMEDIES = {
    errno.EACCES: OWN,
    errno.EPERM: OWN,
    errno.EIO: "Look at the kernel log of the controller: the device does not work.",
}
CONTROLLER_UNKNOWN = "Correct what the system says, or look at the kernel log of the controller."


@contextmanager
def failures_of(module: Any) -> Iterator[None]:
    """Inside, a Failure and what the system refuses become the answer of the module, an AnsibleModule."""
    with umask():
        try:
            yield
        except Failure as failure:
            module.fail_json(**failure.as_result())
        except OSError as error:
            module.fail_json(**refused_by_system(error).as_result())


@contextmanager
def umask() -> Iterator[None]:
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


def refused_by_system(error: OSError, on_controller: bool = False) -> Failure:
    """on_controller: the call of an action, whose failure is shown as one of the task's host."""
    paths = [os.fsdecode(path) for path in (error.filename, error.filename2) if isinstance(path, (str, bytes))]
    reason = error.strerror or str(error) or type(error).__name__
    remedies, unknown = (
        ({**REMEDIES, **CONTROLLER_REMEDIES}, CONTROLLER_UNKNOWN) if on_controller else (REMEDIES, UNKNOWN)
    )
    return Failure(
        "system_refused",
        f"{' to '.join(paths) or 'A call of the system'} failed{' on the controller' * on_controller}: {reason}.",
        remedies.get(error.errno or 0, unknown),
        errno=errno.errorcode.get(error.errno or 0, ""),
        **({"path": paths[0]} if paths else {}),
    )
