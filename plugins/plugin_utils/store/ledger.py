# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of a testbed: ``<results_dir>/<testbed_id>/ledger.jsonl``, one JSON object a line, only ever appended to.

A line has ``number`` (from 1), ``utc``, ``event``, the data of that event, and ``previous``, the SHA-256 of the line before; so a line that is changed, removed
or put in between breaks the chain. ``ledger.head`` ({number, sha256} of the last line) shows when the last lines are gone. A line is on the disk (fsync)
before the files that it names are written: a controller that dies leaves at most a line of files that are not there yet, and they are collected again.

A teardown works from the records on the hosts. Only where one of these is lost, the last line ``claimed`` of the host says which copy of it is to be
believed. A ledger that is lost begins again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ...module_utils.core.files import naming, write_json

FILE = "ledger.jsonl"
HEAD = "ledger.head"
EVENTS = ("asked", "started", "collected", "noted", "fault", "built", "claimed", "removed")
_BLOCK_BYTES = 64 << 10


def append(testbed_dir: str, event: str, **details: Any) -> None:
    """Add a line; OSError where it cannot be kept."""
    if event not in EVENTS:
        raise ValueError(event)
    os.makedirs(testbed_dir, exist_ok=True)
    path = os.path.join(testbed_dir, FILE)
    with naming(path), open(path, "ab+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        last, end = _last(handle)
        # The text after the last whole line was cut off while it was written, so no one was informed that it was kept.
        handle.truncate(end)
        head = _head(testbed_dir)
        number = _number(last) + 1 if last else 1
        line = {
            "number": number,
            "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "event": event,
            **details,
            "previous": _digest(last) if last else "",
        }
        # If a controller died between the line and the head, the head is one line behind.
        if head and not (last and (_digest(last) == head["sha256"] or _number(last) == head["number"] + 1)):
            line["lost"] = head
        content = json.dumps(line, sort_keys=True, separators=(",", ":")).encode()
        try:
            _write(handle.fileno(), content + b"\n")
            os.fsync(handle.fileno())
            write_json(os.path.join(testbed_dir, HEAD), {"number": number, "sha256": _digest(content)})
        except OSError:
            # Where a disk is full, a line may find room that the head does not. The head would be behind by as many lines as are tried.
            handle.truncate(end)
            raise


def read(testbed_dir: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(lines that are whole, findings): the breaks of the chain, as verify.py reports findings. Both are empty where there is no ledger."""
    lines: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    head, previous, number = _head(testbed_dir), "", 0
    path = os.path.join(testbed_dir, FILE)
    if os.path.exists(path):
        with open(path, "rb") as handle:
            for number, content in enumerate(handle, start=1):
                raw = content.rstrip(b"\n")
                line = _parsed(raw)
                if line is None:
                    findings.append(_finding(number, "it cannot be read"))
                else:
                    lines.append(line)
                    if line.get("previous") != previous or line.get("number") != number:
                        findings.append(
                            _finding(
                                number,
                                "it does not continue the line before: one of the two was changed, or something between them removed",
                            )
                        )
                    if line.get("lost"):
                        findings.append(_finding(number, "lines before it were gone when it was written"))
                previous = _digest(raw)
    if (
        head
        and head["sha256"] != previous
        and not (number == head["number"] + 1 and lines and lines[-1].get("previous") == head["sha256"])
    ):
        findings.append(
            _finding(
                head["number"], f"the last line is not the one recorded in {HEAD}: it was changed, or lines are gone"
            )
        )
    if lines and not head:
        findings.append(
            {"file": f"../{HEAD}", "reason": "it is missing, so it is unknown whether the last lines are there"}
        )
    return lines, findings


def of_run(lines: list[dict[str, Any]], run_id: str) -> dict[str, str | None]:
    """{file of the run: its SHA-256 when it was last written, None for one that was removed}, as in these lines."""
    files: dict[str, str | None] = {}
    for line in lines:
        if line.get("run") == run_id and isinstance(line.get("files"), dict):
            files.update(line["files"])
    return files


def claimed(lines: Sequence[Mapping[str, object]], host: str) -> str:
    """The SHA-256 of the testbed's claims on a host, by the last line about it; empty where there is none."""
    mine = [line for line in lines if line.get("event") == "claimed" and line.get("host") == host]
    return str(mine[-1].get("sha256") or "") if mine else ""


def digests(files: dict[str, bytes | None]) -> dict[str, str | None]:
    return {name: None if content is None else _digest(content) for name, content in files.items()}


def against(run_dir: str, kept: list[str]) -> tuple[str, list[dict[str, str]]]:
    """(state of the ledger, findings) of a run. 'silent': it does not name the run; 'holds': all is as it says; 'broken': it is not.

    kept: the files of the run of which the ledger has to know, relative to it.
    """
    run_dir = os.path.abspath(run_dir)
    lines, findings = read(os.path.dirname(run_dir))
    expected = of_run(lines, os.path.basename(run_dir))
    if expected:
        findings += _unlike(run_dir, expected, kept)
    return ("broken" if findings else "holds" if expected else "silent"), findings


def unlike(run_dir: str, present: dict[str, str | None]) -> list[dict[str, Any]]:
    """[{file, reason}] of the results of a run that are not those which the ledger names; nothing where it does not name the run.

    present: {points/<name>/result.json: its SHA-256, None when it cannot be read}.
    """
    run_dir = os.path.abspath(run_dir)
    lines, _findings = read(os.path.dirname(run_dir))
    expected = {
        name: sha256
        for name, sha256 in of_run(lines, os.path.basename(run_dir)).items()
        if name.startswith("points/") and name.endswith("/result.json")
    }
    if not expected:
        return []
    reasons = {
        name: "it is missing, by the ledger" for name, sha256 in expected.items() if sha256 and not present.get(name)
    }
    for name, sha256 in present.items():
        if sha256 and expected.get(name) != sha256:
            reasons[name] = (
                "the ledger does not know it"
                if name not in expected
                else "it was changed since it was written, by the ledger"
            )
    return [{"file": name, "reason": reason} for name, reason in sorted(reasons.items())]


def _unlike(run_dir: str, expected: dict[str, str | None], kept: list[str]) -> Iterator[dict[str, str]]:
    for name, sha256 in sorted(expected.items()):
        place = os.path.normpath(name)
        # A path that leads out of the run, or is not a file, is not even opened.
        if place.startswith(("..", "/")) or (
            os.path.exists(os.path.join(run_dir, name)) and not os.path.isfile(os.path.join(run_dir, name))
        ):
            yield {"file": name, "reason": "it is not a file of the run, but the ledger names it"}
            continue
        try:
            with open(os.path.join(run_dir, name), "rb") as handle:
                present = _digest(handle.read())
        except OSError:
            present = None
        if present != sha256:
            reason = (
                "it is missing"
                if present is None
                else "it was removed, and is there"
                if sha256 is None
                else "it was changed since it was written"
            )
            yield {"file": name, "reason": f"{reason}, by the ledger"}
    for name in sorted(set(kept) - set(expected)):
        yield {"file": name, "reason": "the ledger does not know it"}


def _write(descriptor: int, content: bytes) -> None:
    """Without a buffer, whose rest would be written when the file is closed."""
    while content:
        content = content[os.write(descriptor, content) :]


def _finding(number: int, reason: str) -> dict[str, object]:
    return {"file": f"../{FILE}", "field": f"line {number}", "reason": reason}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _number(raw: bytes) -> int:
    number = (_parsed(raw) or {}).get("number")
    return number if isinstance(number, int) else 0


def _head(testbed_dir: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(testbed_dir, HEAD), "rb") as handle:
            head = _parsed(handle.read())
    except OSError:
        return None
    fits = head is not None and isinstance(head.get("number"), int) and isinstance(head.get("sha256"), str)
    return head if fits else {"number": 0, "sha256": "unreadable"}


def _last(handle: BinaryIO) -> tuple[bytes, int]:
    """(the last whole line without its end, where it ends); (b"", 0) where there is none."""
    size = handle.seek(0, os.SEEK_END)
    content = b""
    while size > len(content):
        start = max(0, size - len(content) - _BLOCK_BYTES)
        handle.seek(start)
        content = handle.read(size - start)
        whole = content.rfind(b"\n")
        if whole >= 0 and (start == 0 or content.rfind(b"\n", 0, whole) >= 0):
            return content[content.rfind(b"\n", 0, whole) + 1 : whole], start + whole + 1
    return b"", 0
