# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules would refuse of the roles' variables later on, told before anything is touched and by the words that the user wrote.

The shape of a variable that the inventory sets is held against the module's own specification; its values, and those of derived variables, are
given to the functions with which the module itself looks at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import Layer
from ...module_utils.linux.backing import ramdisk
from ...module_utils.linux.clients import datastore
from ...module_utils.linux.exports import iscsi_target, tgt
from .shape import Problem, fit, shown
from .testbed import OVERRIDDEN, Host, Testbed, mappings


def problems(testbed: Testbed) -> list[Problem]:
    collected: list[Problem] = []
    for host in testbed.hosts.values():
        if host.platform != "linux":
            continue
        for variable, option, look in _LOOKS:
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
        # What has to be built first is no fault of the description.
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


def _disks(_testbed: Testbed, _host: Host, disks: list[Any]) -> None:
    ramdisk.check_disks(disks)


def _targets(testbed: Testbed, host: Host, targets: list[Any]) -> None:
    values, here = host.variables, [layer for layer in testbed.layers if layer["host"] == host.name]
    # As the role ramdisk publishes them.
    layers: dict[str, Layer] = {layer["name"]: {**layer, "path": None, "parent": None, "detail": {}} for layer in here}
    checked = iscsi_target.check_targets(
        targets,
        layers,
        bool(values.get("iscsi_target_allow_no_chap")),
        bool(host.own.get("iscsi_target_allow_any_address")),
    )
    if values.get("iscsi_target_provider") == "tgt":
        tgt.check_targets(checked)


def _stores(_testbed: Testbed, _host: Host, stores: list[Any]) -> None:
    datastore.resolve({"datastores": stores, "layers": {}})


_LOOKS = (
    ("ramdisk_disks", ramdisk.SPEC["disks"], _disks),
    ("iscsi_target_targets", iscsi_target.SPEC["targets"], _targets),
    ("datastore_datastores", datastore.SPEC["datastores"], _stores),
)
