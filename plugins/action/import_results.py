# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns other people's results into a stored run; documentation in plugins/modules/import_results.py."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import write_whole
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import import_files, importer, local_times

# The files that an import writes into a run's folder; a report that was rendered there is not its business.
OWN = "points"


def collect(path: str, run_dir: str) -> tuple:
    """(entries, unread, files seen) of a file, or of a folder without the run that is written."""
    entries, unread, seen = [], [], 0
    for full, name in _paths(path, run_dir):
        seen += 1
        try:
            if not os.path.isfile(path) and not _within(full, path):
                raise Failure("no_result", "It is a link out of the folder that is imported.", "Copy the file there.")
            kind = os.stat(full)
            # A pipe or a device would be read for ever.
            if not stat.S_ISREG(kind.st_mode):
                raise Failure("no_result", "It is not a regular file.", "Copy it into one.")
            if kind.st_size > import_files.MOST_BYTES:
                raise Failure(
                    "no_result",
                    f"It has {kind.st_size} bytes, more than a result ever has.",
                    "Split it, one result a file.",
                )
            with open(full, "rb") as handle:
                entries += import_files.read(name, handle.read())
        except Failure as failure:
            unread.append({"file": name, "reason": str(failure)})
        except OSError as error:
            unread.append({"file": name, "reason": f"It cannot be read: {error.strerror}."})
    return entries, unread, seen


def _paths(path: str, run_dir: str):
    """(path, name relative to what is imported) of every file, in natural order."""
    if os.path.isfile(path):
        return [(path, os.path.basename(path))]
    paths = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not _same(os.path.join(folder, name), run_dir)]
        paths += [os.path.join(folder, name) for name in names]
    named = [(full, os.path.relpath(full, path).replace(os.sep, "/")) for full in paths]
    return sorted(named, key=lambda pair: importer.natural(pair[1]))


def _within(path: str, folder: str) -> bool:
    """Whether a file really is in a folder: files from elsewhere, such as an archive of somebody else's, may hold links to anything."""
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(path)]) == top


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def plan(run_dir: str, texts: dict, raw: dict) -> list:
    """[{path (in the run's folder), text | copy | neither = remove}] of what differs from what is wanted.

    texts: {path: content}. raw: {path: (file to copy, its sha256)}.
    """
    steps = [
        {"path": name, "text": text}
        for name, text in texts.items()
        if _sha256(os.path.join(run_dir, name)) != hashlib.sha256(text.encode()).hexdigest()
    ]
    steps += [
        {"path": name, "copy": source}
        for name, (source, sha256) in raw.items()
        if _sha256(os.path.join(run_dir, name)) != sha256
    ]
    present = [
        os.path.relpath(os.path.join(folder, name), run_dir).replace(os.sep, "/")
        for folder, _folders, names in os.walk(os.path.join(run_dir, OWN))
        for name in names
    ]
    return steps + [{"path": name} for name in sorted(set(present) - set(texts) - set(raw))]


def _sha256(path: str):
    if not os.path.isfile(path):
        return None
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def apply(run_dir: str, steps: list) -> None:
    copied: dict = {}
    # run.json comes first: it marks the folder as an import, so that one that broke off can be repeated.
    for step in sorted(steps, key=lambda step: step["path"] != "run.json"):
        path = os.path.join(run_dir, step["path"])
        if "text" in step:
            _write(path, step["text"].encode())
        elif "copy" in step:
            _copy(step["copy"], path, copied)
        else:
            os.unlink(path)
    for folder, _folders, _names in os.walk(os.path.join(run_dir, OWN), topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def _copy(source: str, path: str, copied: dict) -> None:
    """A file of many tests is the raw file of many points: one copy with many names, where the file system has that. copied: {source: its copy}."""
    if source in copied:
        try:
            if os.path.lexists(path):
                os.unlink(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.link(copied[source], path)
            return
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
                raise
    with open(source, "rb") as handle:
        _write(path, handle.read())
    copied[source] = path


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_whole(path, content)


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "path": {"type": "path", "required": True},
        "run_dir": {"type": "path"},
        "results_dir": {"type": "path"},
        "testbed_id": {"type": "str", "default": "imported"},
        "run_id": {"type": "str"},
        "layer": {"type": "str"},
        "time_zone": {"type": "str"},
    }
    UNWRITABLE = ("run_unwritable", "The run")

    def perform(self, args: dict) -> dict:
        path = os.path.abspath(args["path"]) if args["path"] else None
        if not path or not os.path.exists(path):
            raise bad_value("path", args["path"], "Give a folder of results or a file that is there.")
        root = os.path.splitext(os.path.basename(path))[0] if os.path.isfile(path) else os.path.basename(path) or "root"
        testbed_id, run_id, run_dir = self._run(args, root)
        if args["layer"] is not None and importer.file_name(args["layer"]) != args["layer"]:
            raise bad_value("layer", args["layer"], "Use up to 90 letters, digits, _ and - only; it names a folder.")
        if _same(path, run_dir) or os.path.realpath(path).startswith(os.path.realpath(run_dir) + os.sep):
            raise bad_value("path", path, f"It is in the run's own folder {run_dir}; import into another.")
        zone = local_times.zone_of(args["time_zone"]) if args["time_zone"] is not None else None
        entries, unread, seen = collect(path, run_dir)
        entries = local_times.dated(entries, zone) if zone else entries
        results, unusable = importer.points(entries, testbed_id, run_id, args["layer"] or root)
        unread = sorted(unread + unusable, key=lambda row: importer.natural(row["file"]))
        if not results:
            first = "; ".join(f"{row['file']}: {row['reason']}" for row in unread[:3])
            raise Failure(
                "nothing_imported",
                f"{path} holds no result that can be used{f' ({first})' if first else ''}.",
                "Give the folder with the output of fio (json or json+), IOMeter (CSV) or diskspd (-Rxml).",
                unread=unread,
            )
        self._refuse_foreign(run_dir)
        texts, copies = importer.files(results, unread, root)
        base = os.path.dirname(path) if os.path.isfile(path) else path
        steps = plan(
            run_dir, texts, {name: (os.path.join(base, source), sha256) for name, (source, sha256) in copies.items()}
        )
        if not self._task.check_mode:
            apply(run_dir, steps)
        used = {source for source, _sha256 in copies.values()}
        return {
            "changed": bool(steps),
            "run_dir": run_dir,
            "testbed_id": testbed_id,
            "run_id": run_id,
            "points": len(results),
            "points_failed": sum(result["status"] == "failed" for result in results),
            "layers": sorted({result["layer"] for result in results}),
            "imported": sorted(used, key=importer.natural),
            "unread": unread,
            "ignored": seen - len(used | {row["file"] for row in unread}),
            "written": [step["path"] for step in steps if len(step) > 1],
            "removed": [step["path"] for step in steps if len(step) == 1],
        }

    def _run(self, args: dict, root: str) -> tuple:
        """(testbed_id, run_id, folder of the run)."""
        run_dir, results_dir = args["run_dir"], args["results_dir"]
        testbed_id, run_id = args["testbed_id"], args["run_id"] or importer.file_name(root)
        if bool(run_dir) == bool(results_dir):
            raise bad_value("run_dir", run_dir, "Give either run_dir or results_dir.")
        if run_dir:
            return testbed_id, run_id, os.path.abspath(run_dir)
        for name, value in (("testbed_id", testbed_id), ("run_id", run_id)):
            importer.checked(value, name)
        return testbed_id, run_id, os.path.abspath(os.path.join(results_dir, testbed_id, run_id))

    def _refuse_foreign(self, run_dir: str) -> None:
        """An import replaces what an earlier one wrote, and nothing else."""
        if not os.path.isdir(run_dir) or not os.listdir(run_dir):
            return
        try:
            with open(os.path.join(run_dir, "run.json"), encoding="utf-8") as handle:
                kind = json.load(handle).get("kind")
        except (OSError, ValueError, AttributeError):
            kind = None
        if kind != importer.KIND:
            raise Failure(
                "run_exists",
                f"{run_dir} is not empty and holds no imported run.",
                "Name another run_id or an empty folder.",
                run_dir=run_dir,
            )
