#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: device_users
short_description: Says who uses the device of a layer
version_added: 1.0.0
description:
  - Lists mounts, swap, what uses the device, exports and processes that have it open. Does not open the device, which may be dead.
  - Roles ask it before something under the device is taken away on another host.
options:
  layer:
    description: A published layer of this host. The device must have the serial, NAA identifier or name that the layer was published with.
    type: dict
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Who uses the LUN
  storlab.testbed.device_users:
    layer: "{{ ansible_facts.storlab_layers['initiator-ds1'] }}"
  register: result
"""

RETURN = r"""
users:
  description: Who uses the device, a phrase each; empty when it is free.
  returned: success
  type: list
  elements: str
  sample: ["mounted on /srv/storlab/ds1"]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.failure import Failure
from ..module_utils.linux.disks import block_device, device_safety, verdicts
from ..module_utils.linux.host import wait_for


def users_of(layer: dict) -> list:
    facts = device_safety.identity(layer["path"])
    if facts["type"] != "block":
        raise Failure(
            "device_missing",
            f"{layer['path']} of layer {layer['name']} is not a block device.",
            "Build the testbed again.",
            path=layer["path"],
        )
    wrong = verdicts.identity_refusals(facts, layer)
    if wrong:
        raise device_safety.not_touched(layer, wrong)
    # A udev worker may still be looking at a disk that just appeared.
    wait_for(lambda: not block_device.users(layer["path"]), timeout_s=3, interval_s=0.3)
    return block_device.users(layer["path"])


def main() -> None:
    module = AnsibleModule(argument_spec={"layer": {"type": "dict", "required": True}}, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(changed=False, users=users_of(module.params["layer"]))


if __name__ == "__main__":
    main()
