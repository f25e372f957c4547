# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's record: one JSON file an area under /run/storlab/<testbed_id>/ of what this testbed made on this host. Nothing else makes it ours.

It is written before the thing it describes, so that a killed run leaves nothing unclaimed, and it carries the boot id, because RAM disks and
targets do not outlive a boot even where /run does.
"""

from __future__ import annotations

import contextlib
import glob
import os
from typing import Any

from ..core.failure import Failure
from ..core.files import read_json, write_json
from .host import loaded_modules, missing_modules, read_text, unload_modules
from .own_folder import RUN_DIR, private_folder, proven

TEXT = (str, type(None))
PROCESS = {"pid": int, "start_ticks": (str, type(None))}
DEVICE = {"device": str}
# {area: shape of its record (core/shape.py)}; every area may have modules. Whoever adds an area says here what its teardown relies on.
SHAPES: dict[str, Any] = {
    "ramdisk": {"provider?": TEXT, "order?": [str], "brd?": dict, "disks?": {str: {"path": TEXT}}},
    "raid": {"arrays?": {str: {"uuid": str, "members?": [DEVICE], "unfinished?": bool}}},
    "cache_tier": {"caches?": {str: {"origin": DEVICE, "fast": DEVICE}}},
    "lio_target": {
        "targets?": [str],
        "core?": {str: [str]},
        "chap?": {str: {"salt": str, "digest": str}},
        "mounted_configfs?": bool,
        "made_fabric?": bool,
    },
    "tgt_target": {"accounts?": {str: dict}, "made_folder?": bool},
    "nvme_target": {
        "subsystems?": [str],
        "hosts?": [str],
        "ports?": {str: int},
        "mounted_configfs?": bool,
    },
    "nvme_session": {"hosts?": [str], "logins?": {str: dict}},
    "nfs_export": {
        "exports?": {str: [str]},
        "server?": (dict, type(None)),
        "folder?": TEXT,
        "daemons?": {str: [PROCESS]},
        "announced_before?": [str],
        "mounted?": bool,
    },
    "iscsi_session": {
        "logins?": {str: dict},
        "folders?": [str],
        "daemon?": TEXT,
        "multipath?": {"files": dict, "wwids": [str]},
    },
    "datastore": {"datastores?": {str: {"mount_point": str, "folders?": list}}},
    "existing": {
        "mounts?": {
            str: {
                "mount_point": str,
                "source": str,
                "folders": [str],
                "own?": {"folder": str, "token": str, "stamped": bool},
            }
        }
    },
    "database": {
        "folder?": str,
        "user?": str,
        "programs?": dict,
        "pid?": int,
        "start_ticks?": (str, type(None)),
        "segments?": [int],
    },
}
# Modules that a mount of version 3 or 4 loads beside nfs itself.
NFS_MODULES = ("nfsv3", "nfsv4")
UNREADABLE = "Restore it, or remove it when nothing of the testbed is left on this host."


class Record:
    """The testbed's record of one area on this host; a dict in ``data``."""

    def __init__(self, testbed_id: str, area: str, run_dir: str = RUN_DIR):
        self.run_dir, self.folder = run_dir, proven(run_dir, testbed_id)
        self.path = os.path.join(self.folder, f"{area}.json")
        self.boot_id = read_text("/proc/sys/kernel/random/boot_id", default="")
        data = read_json(self.path, UNREADABLE, {"modules?": [str], **SHAPES.get(area, {})}) or {}
        # A record of an earlier boot describes things that are gone.
        self.data = data if data.get("boot_id") == self.boot_id else {}
        self._intended: set[str] = set()

    def save(self) -> None:
        try:
            private_folder(self.run_dir, os.path.basename(self.folder))
            write_json(self.path, {**self.data, "boot_id": self.boot_id}, mode=0o600, indent=1)
        except OSError as error:
            self._remove_empty()
            raise Failure(
                "record_unwritable",
                f"{self.path} cannot be written: {error.strerror}.",
                "Make room there; without its record nothing is made on this host, because its owner would be unknown.",
                path=self.path,
            ) from None

    def intend_modules(self, names: set[str]) -> None:
        """Claim modules that are not loaded, before they are: a run that is killed in between leaves none without an owner."""
        new = names - set(self.data.get("modules", [])) - loaded_modules()
        if new:
            self._intended |= new
            self.data["modules"] = sorted({*self.data.get("modules", []), *new})
            self.save()

    def intend(self, *names: str) -> None:
        """Claim the modules that a program or the kernel is going to load by itself."""
        self.intend_modules({module for name in names for module in missing_modules(name)})

    def note_modules(self, before: set[str]) -> None:
        """Remember the modules that appeared since ``before``, the kernel's own dependencies included, and drop claims that came to nothing."""
        loaded = loaded_modules()
        claimed = set(self.data.get("modules", [])) - (self._intended - loaded)
        self.data["modules"] = sorted(claimed | (loaded - before))
        self.save()

    def unload_modules(self) -> None:
        """Unload the modules that came with this testbed; what another testbed still uses becomes that one's to unload."""
        unload_modules(self.data.get("modules", []))
        self.bequeath(modules=sorted(set(self.data.get("modules", [])) & loaded_modules()))

    def _others(self) -> list[Record]:
        """The records of this host's other areas and testbeds."""
        run_dir = os.path.dirname(self.folder)
        # Each file of a record there is an area; no list of them has to be kept.
        paths = [
            path for path in sorted(glob.glob(os.path.join(glob.escape(run_dir), "*", "*.json"))) if path != self.path
        ]
        names = [(os.path.basename(os.path.dirname(path)), os.path.basename(path)[: -len(".json")]) for path in paths]
        records = []
        for testbed_id, area in names:
            # A folder that is somebody else's holds no record of ours.
            with contextlib.suppress(Failure):
                records.append(Record(testbed_id, area, run_dir))
        return [record for record in records if record.data]

    def has_heirs(self) -> bool:
        """Whether another testbed keeps a record of the same area on this host; one that cannot be read is one, too."""
        places = os.path.join(glob.escape(os.path.dirname(self.folder)), "*", os.path.basename(self.path))
        return any(_tells(path) for path in glob.glob(places) if path != self.path)

    def bequeath(self, **left: Any) -> None:
        """Leave what others on this host still use to their records, so that the last one removes it."""
        others, area = self._others(), os.path.basename(self.path)
        for key, value in left.items():
            # Modules can be in use by any layer; the rest is understood by the same one only.
            heirs = [record for record in others if key == "modules" or os.path.basename(record.path) == area]
            if value and heirs:
                heir = min(heirs, key=lambda record: os.path.basename(record.path) != area)
                heir.data[key] = sorted(set(heir.data.get(key, [])) | set(value)) if isinstance(value, list) else value
                heir.save()

    def remove(self) -> None:
        """Forget the area, and the testbed's folder with the last area."""
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._remove_empty()

    def _remove_empty(self) -> None:
        for folder in (self.folder, os.path.dirname(self.folder)):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                # A run that was cut had removed this one, and not the one above it.
                continue
            except OSError:  # another area or testbed still has its record there
                return


def _tells(path: str) -> bool:
    """Whether a record describes something that is there since this boot, or cannot be read."""
    folder, name = os.path.split(path)
    try:
        return bool(Record(os.path.basename(folder), name[: -len(".json")], os.path.dirname(folder)).data)
    except Failure as failure:
        # The contents of a stranger's folder prove nothing.
        return failure.code == "record_damaged"
