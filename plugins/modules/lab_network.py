#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lab_network
short_description: Makes the private network of a lab's machines
version_added: 0.1.0
description:
  - Makes a network namespace with one bridge in it, and one tap interface on the bridge for each machine.
  - Nothing of the host's own network is changed, the namespace has no way out.
  - The namespace is held by C(/run/storlab/<netns>/net); C(nsenter --net=/run/storlab/<netns>/net) enters it.
  - Needs root, C(iproute2) and C(util-linux).
options:
  state:
    description: Whether the network shall be there.
    type: str
    choices: [present, absent]
    default: present
  netns:
    description: Name of the namespace, see the filter C(storlab.testbed.lab_netns). It has to begin with C(storlab-).
    type: str
    required: true
  address:
    description: Address of the bridge with its prefix. Required with O(state=present).
    type: str
  taps:
    description: Names of the tap interfaces. Others on the bridge are removed.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Makes and removes nothing in check mode.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Linux.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Make the lab's network
  storlab.testbed.lab_network:
    netns: storlab-embedded-1a2b3c
    address: 10.213.0.1/24
    taps: [tap-target01, tap-guest01]
"""

RETURN = r"""
namespace_path:
  description: The file that holds the namespace.
  returned: always
  type: str
  sample: /run/storlab/storlab-embedded-1a2b3c/net
steps:
  description: What was done, or would be done in check mode.
  returned: always
  type: list
  elements: str
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.lab import netns as network
from ..module_utils.lab import qemu


def desired(params: dict) -> dict:
    if not re.fullmatch(r"storlab-[a-z0-9_-]{1,60}", params["netns"]):
        raise bad_value("netns", params["netns"], "Give a name made by the filter storlab.testbed.lab_netns.")
    if params["state"] == "absent":
        return {"netns": False}
    for tap in params["taps"]:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,14}", tap):
            raise bad_value("taps", tap, "An interface name has up to 15 lower-case letters, digits, _ and -.")
    return {"netns": True, "address": network.check_address("address", params["address"]), "taps": params["taps"]}


def refuse_running_machines(name: str) -> None:
    folder = os.path.join(network.run_dir(name), "vm")
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


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "netns": {"type": "str", "required": True},
            "address": {"type": "str"},
            "taps": {"type": "list", "elements": "str", "default": []},
        },
        required_if=[("state", "present", ["address"])],
        supports_check_mode=True,
    )
    try:
        name = module.params["netns"]
        wanted = desired(module.params)
        steps = network.plan(network.read_state(name), wanted)
        if not module.check_mode:
            if not wanted["netns"]:
                refuse_running_machines(name)
            network.apply(steps, name)
        lines = [" ".join(step) for step in steps]
        module.exit_json(
            changed=bool(steps),
            steps=lines,
            namespace_path=network.namespace_path(name),
            diff={"before": "", "after": "".join(f"{line}\n" for line in lines)},
        )
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
