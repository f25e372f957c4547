# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of all actions: arguments that are checked before anything happens, commands on the host, and failures that become results."""

from __future__ import annotations

import copy
import secrets
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase

from ..module_utils.core.answer import refused_by_system, umask
from ..module_utils.core.failure import Failure
from ..module_utils.core.marks import begun, between, marked
from ..module_utils.core.visible import visible


class CollectionAction(ActionBase):
    """A subclass has SPEC, the arguments as AnsibleModule takes them, and perform(params), which returns the result or raises Failure."""

    TRANSFERS_FILES = False
    SPEC: ClassVar[dict[str, Any]]
    RULES: ClassVar[dict[str, Any]] = {}  # mutually_exclusive, required_one_of …, as AnsibleModule takes them
    UNWRITABLE: ClassVar[tuple[Any, ...]] = ()  # (code, what cannot be written) of an OSError that perform lets through

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.task_vars = task_vars or {}
        try:
            with umask():
                result.update(self.perform(self.parameters()))
            # Ansible writes these to the terminal as they are.
            if "warnings" in result:
                result["warnings"] = [visible(str(text)) for text in result["warnings"]]
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        except OSError as error:
            result.update(failed=True, **self._refused(error).as_result())
        return result

    def _refused(self, error: OSError) -> Failure:
        if not self.UNWRITABLE:
            return refused_by_system(error, on_controller=True)
        code, what = self.UNWRITABLE
        remedy = "Give the controller's user the right to write there."
        return Failure(code, f"{what} cannot be written: {error}.", remedy, path=error.filename)

    def perform(self, params: dict[str, object]) -> dict[str, Any]:
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """The arguments of the task, before they are checked."""
        return dict(self._task.args)

    def parameters(self) -> dict[str, Any]:
        """Every argument of SPEC, converted and with its default; Failure 'bad_value' names what is wrong."""
        return self.checked(self.SPEC)

    def checked(self, spec: dict[str, object]) -> dict[str, Any]:
        # A copy, because Ansible completes the very mappings that are defaults.
        checked = ArgumentSpecValidator(copy.deepcopy(spec), **self.RULES).validate(self.arguments())
        if checked.error_messages:
            # Ansible names those that it does not know without a word of what is wrong with them.
            reasons = "; ".join(
                f"{'unsupported ' if isinstance(error, UnsupportedError) else ''}{error.msg.rstrip('.')}"
                for error in checked.errors
            )
            raise Failure("bad_value", f"{self._task.action}: {reasons}.", "Correct the arguments.")
        parameters: dict[str, Any] = checked.validated_parameters
        return parameters

    def on_host(self, command: str, become: bool = True) -> dict[str, Any]:
        """{rc, stdout, stderr} of a shell command on the host, without what sudo, a banner or the user's shell print on the way.

        Failure 'command_refused' where the host does not run it, as for a user who lost his rights; AnsibleConnectionFailure where its answer did not arrive.
        """
        token = secrets.token_hex(8)
        try:
            done = self._low_level_execute_command(marked(command, token), sudoable=become)
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:
            raise refused(self.task_vars["inventory_hostname"], str(error)) from error
        answer = between(done["stdout"], token)
        if answer is None and not begun(done["stdout"], token) and done["rc"]:
            words = f"exit {done['rc']}: {done['stderr']} {done['stdout']}"
            raise refused(self.task_vars["inventory_hostname"], words)
        if answer is None:
            raise AnsibleConnectionFailure("the end of its answer is missing")
        return dict(zip(("rc", "stdout", "stderr"), answer))


class AroundModule(CollectionAction):
    """The same of an action that does its part around the module of its own name, whose arguments SPEC has.

    Only what the task gives is checked, and handed on: the module may find the rest in the environment where it runs, and says what is missing.
    """

    def parameters(self) -> dict[str, Any]:
        given = self.arguments()
        return {name: value for name, value in self.checked(optional(self.SPEC)).items() if name in given}


def refused(host: str, words: str) -> Failure:
    return Failure(
        "command_refused",
        f"{host} does not run commands for the playbook's user ({visible(' '.join(words.split())[-300:])}).",
        f"Correct ansible_become, ansible_become_method or the password; ansible {host} -m ansible.builtin.command -a id --become tries them.",
        host=host,
    )


def optional(spec: dict[str, Any]) -> dict[str, Any]:
    """A specification by which nothing must be given, and nothing is added."""
    return {
        name: {key: value for key, value in option.items() if key not in ("required", "default", "fallback")}
        for name, option in spec.items()
    }
