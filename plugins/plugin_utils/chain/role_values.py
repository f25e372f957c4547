# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refusals of the roles' variables by the modules later on, reported before anything is touched and by the words that the user wrote.

The shape of a variable that the inventory sets is compared with the module's own specification; its values, and those of derived variables, are
given to the functions with which the module itself looks at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module_utils.core.failure import Failure
from .shape import Problem, fit, shown
from .stages import STAGES
from .testbed import OVERRIDDEN, Host, Testbed, mappings


def problems(testbed: Testbed) -> list[Problem]:
    collected: list[Problem] = []
    for host in testbed.hosts.values():
        if host.platform != "linux":
            continue
        for variable, option, look in [ahead for stage in STAGES for ahead in stage.looks_ahead()]:
            if variable not in host.variables:
                continue
            wrong: list[Problem] = []
            if host.because.get(variable) == OVERRIDDEN:
                fit(f"{variable} of {host.name}", host.variables[variable], option, wrong)
            if not wrong:
                wrong = _refused(testbed, host, variable, option, look)
            collected += wrong
    return collected


def _refused(
    testbed: Testbed, host: Host, variable: str, option: dict[str, Any], look: Callable[..., None]
) -> list[Problem]:
    try:
        look(testbed, host, _complete(host.variables[variable], option))
    except Failure as failure:
        # A thing that has to be built first is not a fault of the description.
        if failure.code != "bad_value":
            return []
        name, because = f"{failure.details['variable']} of {host.name}", host.because.get(variable, OVERRIDDEN)
        return [
            Problem(
                name if because == OVERRIDDEN else f"{because.split(',')[0]} (from which follows {name})",
                shown(failure.details["value"]),
                "",
                failure.remedy,
            )
        ]
    return []


def _complete(value: Any, option: dict[str, Any]) -> Any:
    """The value with all options in it, as a module gets it."""
    options = option.get("options")
    if option.get("type") == "list" and option.get("elements") == "dict":
        return [_complete(entry, {"type": "dict", "options": options}) for entry in mappings(value)]
    if option.get("type") == "dict" and isinstance(value, dict) and options:
        every = {name: suboption.get("default") for name, suboption in options.items()} | value
        return {name: _complete(entry, options[name]) if name in options else entry for name, entry in every.items()}
    return value
