# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of the actions for Windows hosts: the state script, steps that are one script each, and the record of the state before.

The plans are made on the controller, so a Windows host needs nothing but PowerShell 5.1. On the controller only: it knows Ansible's classes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, cast

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.kept_record import KeptRecord
from ...module_utils.core.steps import Step
from ..action import CollectionAction
from . import script_text
from .host import without_repeats
from .state import State

POWERSHELL = "ansible.windows.win_powershell"
# States are three levels of lists and mappings deep.
DEPTH = 6
RETRY_EVERY_S = 2.0
# The words of scripts/parts/windows_only/edition.ps1 where another PowerShell runs it.
OTHER_POWERSHELL = "ran this script; Windows PowerShell 5.1 is needed"


def refuse_unmarked(connection: Any, host: str) -> None:
    """For what needs Python on the host, and whose playbook asks whether it is a Windows host."""
    if getattr(connection._shell, "_IS_WINDOWS", False):
        raise Failure(
            "windows_unmarked",
            f"{host} is reached as a Windows host, and its inventory does not say so.",
            "Set testbed_windows to true for it.",
        )


class WindowsRecord(KeptRecord):
    """The record of one host and one area on the controller, as for ESXi hosts."""

    FOLDER = "windows"

    def __init__(self, state_dir: str, area: str, testbed_id: str, host: str) -> None:
        super().__init__(state_dir, f"{area}-{testbed_id}", host)


def _error_of(answer: dict[str, Any]) -> str:
    """Why a script failed: the last of its errors is what ended it. A message is only there when the module could not run it at all."""
    errors = [
        (error.get("exception") or {}).get("message") or error.get("output") or ""
        for error in answer.get("error") or []
    ]
    return str(answer.get("msg") or (errors and errors[-1]) or "no message")


def lost(error: Exception) -> bool:
    """Whether the connection broke. The exceptions of pypsrp, pywinrm and requests reach actions as they are; the last are OSErrors."""
    if isinstance(error, Failure):
        return error.code == "connection_lost"
    return isinstance(error, (AnsibleConnectionFailure, OSError)) or type(error).__module__.partition(".")[0] in (
        "pypsrp",
        "winrm",
    )


class WindowsScripts:
    """Scripts and modules on a Windows host, for whoever has an action's _execute_module and task_vars."""

    task_vars: dict[str, Any]
    _execute_module: Callable[..., dict[str, Any]]
    # The process of the playbook. A task has one of its own, which would go on alone when that one is killed.
    _playbook: int | None = None

    def module(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._playbook is None:
            self._playbook = os.getppid()
        if os.getppid() != self._playbook:
            # Whoever plays it again finds the testbed's lock free, and must be the only one who changes the host.
            raise Failure(
                "playbook_gone",
                "The playbook was killed while this task was at work, so the task ends, too.",
                "Run it again: it goes on from here.",
                process=self._playbook,
            )
        try:
            answer = self._execute_module(module_name=name, module_args=arguments, task_vars=self.task_vars)
        except AnsibleError as error:
            if "was not found" not in str(error):
                raise
            raise Failure(
                "collection_missing",
                f"The module {name} is not installed on the controller.",
                f"Install it: ansible-galaxy collection install {name.rpartition('.')[0]}.",
                module=name,
            ) from None
        except Exception as error:
            if not lost(error):
                raise
            # It is unknown whether it was carried out.
            host = self.task_vars["inventory_hostname"]
            raise Failure(
                "connection_lost",
                f"The connection to {host} broke while {name} was at work there: {str(error).rstrip('.')}.",
                "Run again: existing parts are kept.",
                module=name,
            ) from error
        return answer

    def script(
        self, name: str, parameters: dict[str, Any] | None = None, secret: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Run a script of plugin_utils/windows/scripts; returns its $Ansible.Result."""
        arguments = {
            "script": script_text.script(name),
            "parameters": parameters or {},
            "error_action": "stop",
            "depth": DEPTH,
        }
        if secret:
            arguments["sensitive_parameters"] = [{"name": "Chap", "username": secret[0], "password": secret[1]}]
        answer = self.module(POWERSHELL, arguments)
        if answer.get("failed"):
            reason = " ".join(_error_of(answer).split())
            if secret:
                reason = reason.replace(secret[1], "(secret)")
            if OTHER_POWERSHELL in reason:
                raise Failure(
                    "powershell_core",
                    f"{self.task_vars['inventory_hostname']} runs scripts in PowerShell 7, where the cmdlets of the iSCSI target give no objects.",
                    "Let the connection use Windows PowerShell 5.1: no ansible_psrp_configuration_name of PowerShell 7, no ansible_pwsh_interpreter, "
                    "and powershell.exe as the default shell of SSH.",
                    script=name,
                )
            raise Failure(
                "windows_script_failed",
                f"{name} failed on {self.task_vars['inventory_hostname']}: {reason[:400].rstrip('.')}.",
                "Look at the message, and at the host's event log.",
                script=name,
            )
        result: dict[str, Any] = answer.get("result") or {}
        return result

    def state(self, files: list[str] | None = None) -> State:
        state = self.script("state", {"Files": files or []})
        if not isinstance(state, dict) or "about" not in state:
            raise Failure(
                "state_unreadable",
                "The host's answer is not a state.",
                "Update ansible.windows, and look at the host with -vvv.",
            )
        return without_repeats(cast(State, state))


class WindowsAction(WindowsScripts, CollectionAction):
    """A subclass has SPEC and AREA, and a method (params, state) -> result for each of its states; one without states has present alone."""

    _supports_check_mode = True
    AREA = ""

    def perform(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("state_dir"):
            self.memory = WindowsRecord(
                params["state_dir"], self.AREA, params["testbed_id"], self.task_vars["inventory_hostname"]
            )
        state = self.state(self.files(params))
        work = getattr(self, params.get("state", "present"))
        return {"about": state["about"], **work(params, state)}

    def parameters(self) -> dict[str, Any]:
        params = super().parameters()
        if params.get("state_dir") == "":
            raise bad_value("state_dir", "", "Name a folder on the controller for the state that the hosts had before.")
        if not getattr(self._connection._shell, "_IS_WINDOWS", False):
            raise Failure(
                "not_windows",
                f"{self.task_vars.get('inventory_hostname')} is not reached as a Windows host.",
                "Set ansible_connection to psrp or winrm, or to ssh with ansible_shell_type powershell.",
            )
        return params

    def files(self, params: dict[str, Any]) -> list[Any]:
        """Files whose existence the plan must know of."""
        return []

    # ---- steps

    def apply(self, steps: list[Step], after: Any = None) -> None:
        """Carry the steps out, unless in check mode. after(step) is called after each and its record is kept."""
        if self._task.check_mode:
            return
        for step in steps:
            self.script(step["script"], step["parameters"], step["secret"])
            if after:
                after(self.memory.data, step)
                self.memory.save()

    def call(self, calls: list[Any]) -> list[Any]:
        """Carry out calls of others' modules, whose check mode is their own; each with its answer."""
        done = []
        for call in calls:
            answer = self.module(call["module"], call["arguments"])
            if answer.get("failed"):
                raise Failure(
                    f"{call['op']}_failed",
                    f"{call['target']} could not be changed: {str(answer.get('msg')).rstrip('.')}.",
                    "Look at the message, and at the host's event log.",
                    target=call["target"],
                )
            done.append({**call, "answer": answer})
        return done

    @staticmethod
    def changes(done: list[Any]) -> list[Any]:
        """Only the calls that changed something are reported."""
        return [call for call in done if call["answer"].get("changed")]

    def remember(self, data: dict[str, Any]) -> None:
        if not self._task.check_mode and data != self.memory.data:
            self.memory.data = data
            self.memory.save()

    def forget(self) -> None:
        if not self._task.check_mode:
            self.memory.forget()

    def leave(self, left: dict[str, str]) -> None:
        """Keep what is left of the record after a teardown."""
        if left:
            self.remember(left)
        else:
            self.forget()

    def wait_for(self, condition: Any, wait_s: float) -> Any:
        """The first true value of condition(), or its last one after wait_s."""
        deadline = time.monotonic() + wait_s
        while True:
            value = condition()
            if value or time.monotonic() >= deadline:
                return value
            time.sleep(min(RETRY_EVERY_S, max(deadline - time.monotonic(), 0)))
