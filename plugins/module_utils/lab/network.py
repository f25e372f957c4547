# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of one embedded lab: what the module lab_network takes and does."""

from __future__ import annotations

import os
import re
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.steps import shown_words
from . import netns, qemu

SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "netns": {"type": "str", "required": True},
    "address": {"type": "str"},
    "taps": {"type": "list", "elements": "str", "default": []},
}


def desired(params: dict[str, Any]) -> dict[str, object]:
    if not re.fullmatch(r"storlab-[a-z0-9_-]{1,60}", params["netns"]):
        raise bad_value("netns", params["netns"], "Give a name made by the filter storlab.testbed.lab_netns.")
    if params["state"] == "absent":
        return {"netns": False}
    for tap in params["taps"]:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,14}", tap):
            raise bad_value("taps", tap, "An interface name has up to 15 lower-case letters, digits, _ and -.")
    return {"netns": True, "address": netns.check_address("address", params["address"]), "taps": params["taps"]}


def refuse_running_machines(name: str) -> None:
    folder = os.path.join(netns.run_dir(name), "vm")
    running = [
        vm
        for vm in (sorted(os.listdir(folder)) if os.path.isdir(folder) else [])
        if qemu.running_pid(os.path.join(folder, vm))
    ]
    if running:
        raise Failure(
            "machines_running",
            f"The network {name} cannot be removed, {', '.join(running)} still runs in it.",
            "End the machines first.",
            netns=name,
            machines=running,
        )


def ensure(params: dict[str, Any], check_mode: bool) -> dict[str, str]:
    name, wanted = params["netns"], desired(params)
    steps = netns.plan(netns.read_state(name), wanted)
    if not check_mode:
        if not wanted["netns"]:
            refuse_running_machines(name)
        netns.apply(steps, name)
    return {**shown_words([" ".join(step) for step in steps]), "namespace_path": netns.namespace_path(name)}
