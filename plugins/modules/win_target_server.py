#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_target_server
short_description: Installs the iSCSI Target Server of Windows Server and opens its port
version_added: 0.2.0
description:
  - Installs the role C(FS-iSCSITarget-Server), starts its service and opens the port to the named networks only.
  - With O(loopback) it lets the host log in to itself, which makes the layer C(target) one that can be measured. The service reads that switch (the
    registry value C(AllowLoopBack)) when it starts, so it is restarted; refused while there are RAM disks or sessions of anybody, which would be lost.
  - O(state=absent) takes the rule away, gives the switch back once nothing of the testbed is left, and takes away the role when it came with this testbed
    and no target or virtual disk of anybody is left. While others use the service it is not restarted, and reads the switch when it starts next.
  - Does not restart the host. Where RV(reboot_required) is true, M(ansible.windows.win_reboot) has to follow, and where RV(unfinished) is true the same
    task once more after that.
options:
  state:
    description: "V(present) installs and opens, V(absent) gives back."
    type: str
    choices: [present, absent]
    default: present
  networks:
    description:
      - Networks from which initiators may come, such as V(192.0.2.0/24). An empty list takes the testbed's firewall rule away; left out, the rule stays as it
        is.
    type: list
    elements: str
  ports:
    description: TCP ports of the portals.
    type: list
    elements: int
    default: [3260]
  loopback:
    description: Let the host log in to its own targets. V(false) leaves that as it is, until O(state=absent).
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
  - storlab.testbed.state
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken, as far as they can be known before the first of them.
    support: full
  diff_mode:
    description: Shows the steps, without secrets.
    support: full
  platform:
    description: Windows Server 2016 and later. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: windows
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Make the host an iSCSI target server
  storlab.testbed.win_target_server:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    networks: [192.0.2.0/24]
  register: server

- name: Restart it when Windows asks for that
  ansible.windows.win_reboot:
  when: server.reboot_required
"""

RETURN = r"""
reboot_required:
  description: Whether the host must be restarted before the role can be used.
  returned: success
  type: bool
  sample: false
unfinished:
  description: Whether the role is still there, because it was installed without the restart that this needs, and can only be taken away after it.
  returned: when O(state=absent)
  type: bool
  sample: false
steps:
  description: Changes made, or planned in check mode; secrets are in none of them.
  returned: success
  type: list
  elements: dict
  contains:
    op:
      description: The kind of step.
      returned: always
      type: str
      sample: create
    target:
      description: To what.
      returned: always
      type: str
      sample: bench
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: 64 MiB
about:
  description: The host, as RV(storlab.testbed.win_state#module:about) has it.
  returned: success
  type: dict
  sample: {product: Windows Server 2022 Standard, version: 10.0.20348}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: not_a_server, details: {}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
