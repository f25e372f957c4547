# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps and restores what a testbed claims on a host; documentation in plugins/modules/testbed_claims.py."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..module_utils.core.files import read_json, write_json, write_whole
from ..module_utils.core.names import check_testbed_id
from ..module_utils.core.shape import misfit
from ..module_utils.linux.own_folder import RUN_DIR
from ..module_utils.linux.watch import claims
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import ledger

HOST_MODULE = "storlab.testbed.testbed_claims_host"


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["kept", "restored", "forgotten"], "required": True},
        "testbed_id": {"type": "str", "required": True},
        "state_dir": {"type": "path", "required": True},
        "results_dir": {"type": "path", "required": True},
    }

    def perform(self, params: dict) -> dict:
        self.testbed_id = check_testbed_id("testbed_id", params["testbed_id"])
        self.host = self.task_vars["inventory_hostname"]
        self.state_dir = self._loader.path_dwim(params["state_dir"])
        self.path = os.path.join(self.state_dir, "claims", f"{self.host}.json")
        self.ledger = os.path.join(self._loader.path_dwim(params["results_dir"]), self.testbed_id)
        if params["state"] == "restored":
            return self._restore()
        if self._task.check_mode:
            return {"changed": False}
        return self._note({"areas": {}} if params["state"] == "forgotten" else self._read())

    def _restore(self) -> dict:
        content = self._copy()
        if content is None:
            # A build that was cut has no copy, and records nevertheless.
            if self._has_records():
                self._read()
            return {"changed": False, "restored": []}
        if not self._believed(content):
            text = f"{self.path} does not match the ledger in {self.ledger}, or the ledger itself was changed"
            remedy = f"Records that {self.host} may have lost are not restored from it."
            return {"changed": False, "restored": [], "warnings": [f"{text}. {remedy}"]}
        copy = json.loads(content)
        if self._untouched(copy):
            return {"changed": False, "restored": []}
        answer = self._on_host(claims=copy)
        warnings = [
            f"{self.host}: {', '.join(names)} ({area}) is not what the testbed made there; it stays."
            for area, names in sorted(answer["doubtful"].items())
        ]
        if answer["restored"]:
            areas = ", ".join(answer["restored"])
            warnings.append(
                f"{self.host}: the testbed's records of {areas} were lost; they are taken from {self.path}."
                if answer["claims"]["boot_id"] == copy["boot_id"]
                else f"{self.host} was restarted since: what outlives that of the testbed's records of {areas} is taken from {self.path}."
            )
        self._remember(answer["claims"])
        return {"changed": answer["changed"], "restored": answer["restored"], "warnings": warnings}

    def _untouched(self, copy: dict) -> bool:
        """Whether each record is to the byte what it was. A checksum is there at once, where Python takes seconds to begin on an emulated machine."""
        names = {f"{RUN_DIR}/{self.testbed_id}/{area}.json": claim["sha256"] for area, claim in copy["areas"].items()}
        done = self.on_host(f"sha256sum -- {' '.join(map(shlex.quote, names))}")
        lines = [line.split("  ", 1) for line in done["stdout"].splitlines()]
        return {line[1].strip(): line[0] for line in lines if len(line) == 2} == names

    def _has_records(self) -> bool:
        folder = shlex.quote(f"{RUN_DIR}/{self.testbed_id}")
        return bool(self.on_host(f"ls {folder}/*.json 2>/dev/null")["stdout"].strip())

    def _read(self) -> dict:
        claimed = self._on_host()["claims"]
        self._remember(claimed)
        return claimed

    def _remember(self, claimed: dict) -> None:
        """The things that the claims name are kept until a proof that it is gone (storage_baseline)."""
        path = os.path.join(self.state_dir, "made", f"{self.host}.json")
        # Where it cannot be written, the copy of the records cannot either, and that is said (_note).
        with contextlib.suppress(OSError):
            if not self._task.check_mode:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                write_json(path, claims.made(claimed, _known(path)), mode=0o600, indent=1)

    def _note(self, claimed: dict) -> dict:
        content = json.dumps(claimed, indent=1, sort_keys=True).encode()
        before = self._copy()
        try:
            if not claimed["areas"]:
                if before is not None:
                    os.unlink(self.path)
                    ledger.append(self.ledger, "claimed", host=self.host, sha256="", areas=[])
            elif not self._believed(content):
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                # The line comes first: a copy that it does not name is not believed, and the next build makes both again.
                sha256, areas = hashlib.sha256(content).hexdigest(), sorted(claimed["areas"])
                ledger.append(self.ledger, "claimed", host=self.host, sha256=sha256, areas=areas)
                write_whole(self.path, content, mode=0o600)
            elif before != content:
                write_whole(self.path, content, mode=0o600)
        except OSError as error:
            # The records on the host are what counts, and they are there.
            text = f"{error.filename} cannot be written: {error.strerror}."
            return {
                "changed": False,
                "warnings": [f"{text} What the testbed made on {self.host} is on record there only."],
            }
        return {"changed": False}

    def _copy(self) -> bytes | None:
        try:
            with open(self.path, "rb") as handle:
                return handle.read()
        except FileNotFoundError:
            return None

    def _believed(self, content: bytes) -> bool:
        """Whether the ledger names this copy, and holds."""
        lines, findings = ledger.read(self.ledger)
        return not findings and ledger.claimed(lines, self.host) == hashlib.sha256(content).hexdigest()

    def _on_host(self, **arguments: dict) -> dict:
        answer = self._execute_module(
            module_name=HOST_MODULE,
            module_args={"testbed_id": self.testbed_id, **arguments},
            task_vars=self.task_vars,
        )
        if answer.get("failed"):
            raise Failure.of_result(answer)
        return answer


def _claims(content: bytes) -> tuple[dict, str | None]:
    """(what was kept of a host, None), or ({}, why it cannot be used)."""
    shape = {"boot_id": str, "areas": {str: {"record": dict, "witnesses": dict, "sha256": str}}}
    try:
        claims = json.loads(content)
    except (ValueError, RecursionError) as error:
        return {}, str(error)
    reason = misfit(claims, shape)
    return ({}, reason) if reason else (claims, None)


def _known(path: str) -> dict:
    """The copy from before; nothing from a damaged file."""
    try:
        known = read_json(path)
    except Failure:
        return {}
    return known if isinstance(known, dict) else {}
