# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of an SMB server on a Linux client (the kernel's cifs).

Who logs in is said in a file that only root reads, which is there for as long as mount.cifs(8) reads it: never on a command line, in a mount's options, in the
record or in a log.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...core.failure import bad_value
from ...core.files import naming

FILE_SYSTEM, PORT = "cifs", 445
VERSIONS = ("2.1", "3.0", "3.0.2", "3.1.1")
# Who logs in is said by words of the entry, and never in options, which every user of the host can read.
FORBIDDEN_OPTIONS = (
    *("credentials", "cred", "user", "username", "pass", "password", "password2", "dom", "domain", "workgroup"),
    *("guest", "cache", "directio", "forcedirectio", "strictcache"),
)


def check(what: str, entry: Mapping[str, Any]) -> None:
    """Raises bad_value for a share that cannot be mounted whatever the server has."""
    share = entry["share"].strip("/")
    if not share or not share.isprintable() or set(share) & set("\\,") or ".." in share.split("/"):
        raise bad_value(
            f"{what} share",
            entry["share"],
            "Give the name of the share, with a folder in it where needed: vms or vms/images.",
        )
    for key in ("user", "password", "domain"):
        if entry[key] and not entry[key].isprintable():
            raise bad_value(f"{what} {key}", None, "Leave out line ends and other control characters.")
    if ":" in entry["server"]:
        raise bad_value(
            f"{what} server",
            entry["server"],
            "Give a name or an IPv4 address; mount.cifs takes no literal address of IPv6.",
        )
    if entry["user"] and not entry["password"]:
        raise bad_value(f"{what} password", None, "Write it beside user, with ansible-vault.")
    for key in ("password", "domain"):
        if entry[key] and not entry["user"]:
            raise bad_value(f"{what} user", None, f"Write it beside {key}.")


def source(entry: Mapping[str, Any]) -> str:
    return f"//{entry['server']}/{entry['share'].strip('/')}"


def options(entry: Mapping[str, Any]) -> str:
    """The options of mount(8) but for who logs in. Nothing passes the page cache of the client: cache=none."""
    return f"vers={entry['smb_version']},cache=none{'' if entry['user'] else ',guest'}"


def credentials(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """{name: content of the file for mount.cifs(8)} of the entries that log in."""
    words = (("user", "username"), ("password", "password"), ("domain", "domain"))
    return {
        entry["name"]: "".join(f"{name}={entry[key]}\n" for key, name in words if entry[key])
        for entry in entries
        if entry["kind"] == "smb" and entry["user"]
    }


def credentials_path(folder: str, name: str) -> str:
    """folder: of the testbed's records on this host, which is its user's alone."""
    return os.path.join(folder, f"{name}.credentials")


def forget(folder: str, name: str) -> None:
    """Remove the file that a call left which was killed while mount.cifs(8) ran."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(credentials_path(folder, name))


@contextlib.contextmanager
def credentials_file(folder: str, name: str, content: str | None) -> Iterator[str]:
    """The option that names a file with the content, which is there for the length of this context alone; '' without content."""
    if content is None:
        yield ""
        return
    path = credentials_path(folder, name)
    forget(folder, name)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with naming(path), open(handle, "w", encoding="utf-8") as stream:
            stream.write(content)
        yield f",credentials={path}"
    finally:
        forget(folder, name)
