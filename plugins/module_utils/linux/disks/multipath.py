# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dm-multipath: several paths to one LUN as one device, made by the multipathd that the host runs.

The daemon is the host's own: it is neither started nor configured here. A LUN that it leaves alone (``find_multipaths strict``) is named to it in
/etc/multipath/wwids, and what came into its files with the testbed's LUNs goes again with them.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from ...core.failure import Failure
from ...core.files import write_whole
from ..host import read_text, run, wait_for
from . import block_device

FILES = ("/etc/multipath/wwids", "/etc/multipath/bindings")
PREFIX = "mpath-"


def runs() -> bool:
    return any(read_text(path, default="") == "multipathd" for path in glob.glob("/proc/[0-9]*/comm"))


def map_of(path: str, root: str = "/") -> dict[str, Any] | None:
    """The map that a disk is a path of: {name, path, uuid, wwid, disks}; None when it is of none. Its wwid is multipath's, such as 36001405…"""
    for folder in glob.glob(os.path.join(root, "sys/class/block", os.path.basename(path), "holders", "*")):
        base = os.path.join(root, "sys/class/block", os.path.basename(folder))
        uuid = read_text(os.path.join(base, "dm/uuid"), default="")
        if uuid.startswith(PREFIX):
            return {
                "name": read_text(os.path.join(base, "dm/name"), default=""),
                # The kernel's own name: it exists already.
                "path": f"/dev/{os.path.basename(folder)}",
                "uuid": uuid,
                "wwid": uuid[len(PREFIX) :],
                "disks": sorted(f"/dev/{name}" for name in os.listdir(os.path.join(base, "slaves"))),
            }
    return None


def users(path: str, with_openers: bool = True) -> list[Any]:
    """Everything that uses the disk or the devices on it, apart from multipathd and its map."""
    device_map = map_of(path)
    own = f"held by {os.path.basename(device_map['path'])}" if device_map else None
    return [
        use
        for use in block_device.users(path, with_openers)
        if use != own and not use.startswith("open in multipathd (pid ")
    ]


def join(what: str, naa: str, disks: list[str], timeout_s: float) -> dict[str, Any] | None:
    """The map of all these disks; None when one of them is in use by itself, so that it cannot become part of a map.

    Raises multipath_missing when multipathd makes none, multipath_differs when it made one of other disks.
    """
    device_map = map_of(disks[0])
    # A udev worker or multipathd itself may still be looking at it: who only has it open is not an obstacle.
    if device_map is None and any(users(disk, with_openers=False) for disk in disks):
        return None
    if device_map is None:
        wwid = f"3{naa}"
        run(["multipath", "-a", disks[0]], ok=(0, 1))
        run(["multipathd", "add", "map", wwid], ok=(0, 1))
    wait_for(lambda: set(disks) <= set((map_of(disks[0]) or {"disks": []})["disks"]), timeout_s=timeout_s)
    device_map = map_of(disks[0])
    if device_map is None:
        raise Failure(
            "multipath_missing",
            f"{what} has {len(disks)} paths ({', '.join(disks)}), and multipathd has made no device of them.",
            "Look at /etc/multipath.conf (is it in blacklist?) and at `multipath -v3`, or stop multipathd; then one path is used.",
            disks=disks,
        )
    if set(device_map["disks"]) != set(disks) or (naa and device_map["wwid"] != f"3{naa}"):
        raise Failure(
            "multipath_differs",
            f"{what} has the paths {', '.join(disks)}, but {device_map['name']} ({device_map['wwid']}) is made of {', '.join(device_map['disks'])}.",
            "Look at `multipath -ll`: a path that failed, or a disk of another LUN with the same name.",
            disks=disks,
            found=device_map["disks"],
        )
    return device_map


def flush(device_map: dict[str, Any]) -> None:
    """Take the map away; what uses it has been looked at."""
    gone = wait_for(
        lambda: (
            run(["multipath", "-f", device_map["name"]], ok=(0, 1)).returncode == 0
            or not os.path.exists(f"/sys/class/block/{os.path.basename(device_map['path'])}")
        ),
        timeout_s=10,
        interval_s=0.5,
    )
    if not gone:
        raise Failure(
            "multipath_in_use",
            f"The multipath device {device_map['name']} ({device_map['path']}) cannot be taken away.",
            "Look at `dmsetup info` and `lsof` for what holds it.",
            device=device_map["path"],
        )


# ---------------------------------------------------------------- multipathd's files


def wwids_of(name: str, text: str) -> list[str]:
    """The LUNs that a file of multipathd names: /36001405…/ in wwids, mpatha 36001405… in bindings."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [line.strip("/") if name.endswith("wwids") else line.split()[-1] for line in lines]


def without(name: str, text: str, wwids: set[str]) -> str:
    """The file without these LUNs."""
    return "".join(
        line for line in text.splitlines(keepends=True) if line.startswith("#") or not set(wwids_of(name, line)) & wwids
    )


def files() -> dict[str, Any]:
    """{file: the LUNs in it, or None when there is no such file}: what forget() needs, taken before a LUN is seen."""
    return {path: wwids_of(path, read_text(path)) if os.path.exists(path) else None for path in FILES}


def forget(before: dict[str, Any], wwids: list[str]) -> None:
    """Take these LUNs out of multipathd's files again, as far as they were not in them before."""
    for path, known in before.items():
        try:
            with open(path, encoding="utf-8") as handle:
                text = handle.read()
        except FileNotFoundError:
            continue
        left = without(path, text, set(wwids) - set(known or []))
        if known is None and not wwids_of(path, left):
            # Made with the first LUN; of comments alone multipathd has no need.
            os.unlink(path)
        elif left != text:
            write_whole(path, left.encode(), mode=os.stat(path).st_mode & 0o777)
