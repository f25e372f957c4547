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
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
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
  description: Actions taken, or planned in check mode.
  returned: always
  type: list
  elements: str
  sample: [add netns]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.lab import network


def main() -> None:
    module = AnsibleModule(
        argument_spec=network.SPEC, required_if=[("state", "present", ["address"])], supports_check_mode=True
    )
    with failures_of(module):
        module.exit_json(**network.ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
