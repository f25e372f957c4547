#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: nvme_session
short_description: Connects to NVMe subsystems over TCP and finds their disks
version_added: 1.0.0
description:
  - Makes all NVMe connections of one testbed on a host, repairs what differs, or removes them, in one call.
  - Targets and the host are named as for C(storlab.testbed.iscsi_session); their NVMe names (NQN) are the same with C(nqn) in the place of C(iqn). A LUN is
    the namespace of its number. So one description serves both protocols.
  - The kernel is asked directly, at C(/dev/nvme-fabrics). nvme-cli is not needed, which takes secrets in its arguments. The host's C(/etc/nvme/hostnqn) and the
    connections of others stay as they are.
  - A disk is found by subsystem and namespace, and proven by its UUID and size, never by the order of C(/dev/nvmeX).
  - A connection that broke is tried again by the kernel until the target is back, and waited for here. A failed one leaves nothing behind.
options:
  testbed_id:
    description: The testbed the sessions belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes the connections of O(targets) and ends this testbed's other ones, V(absent) ends them all. Refused while a disk is in use.
    type: str
    choices: [present, absent]
    default: present
  initiator_name:
    description: The name of this host as an iSCSI initiator would have it, such as C(iqn.2026-01.lab.example:client01). Required when O(state=present).
    type: str
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers). The UUID and size they give for a LUN must hold.
    type: dict
    default: {}
  queue_depth:
    description: Commands that may be outstanding in one queue of a connection, which has one for each processor; 16 to 1024.
    type: int
    default: 32
  replacement_timeout_s:
    description: How long I/O waits for a lost connection before it fails (C(fast_io_fail_tmo)).
    type: int
    default: 120
  login_timeout_s:
    description: How long a connection, a rescan and a recovery may take, each.
    type: int
    default: 15
  noop_interval_s:
    description: With O(noop_timeout_s) the time within which a lost connection is noticed (C(keep_alive_tmo)); 0 leaves it to the kernel.
    type: int
    default: 5
  noop_timeout_s:
    description: Added to O(noop_interval_s).
    type: int
    default: 5
  targets:
    description: The targets to log in to.
    type: list
    elements: dict
    default: []
    suboptions:
      iqn:
        description: Name of the target.
        type: str
        required: true
      portal:
        description: Where it listens.
        type: dict
        required: true
        suboptions:
          address:
            description: IP address.
            type: str
            required: true
          port:
            description: TCP port.
            type: int
            default: 3260
      other_portals:
        description:
          - Further portals of the target, with a connection each, which the kernel makes one disk of.
          - Where its parameter C(nvme_core.multipath) is off, the path through O(targets[].portal) is used, and a warning says so.
        type: list
        elements: dict
        default: []
        suboptions:
          address:
            description: IP address.
            type: str
            required: true
          port:
            description: TCP port.
            type: int
            default: 3260
      chap_user:
        description: Not used by NVMe, whose hosts have their NQN alone; O(targets[].chap_password) needs one.
        type: str
      chap_password:
        description: The secret of which the key of this host is made (DH-HMAC-CHAP).
        type: str
      mutual_chap_user:
        description: Not used by NVMe; O(targets[].mutual_chap_password) needs one.
        type: str
      mutual_chap_password:
        description: The secret of which the target's key is made.
        type: str
      luns:
        description: The LUNs that must be there.
        type: list
        elements: dict
        required: true
        suboptions:
          lun:
            description: The number of the namespace.
            type: int
            required: true
          name:
            description: Name of the LUN in the testbed.
            type: str
            required: true
          parent:
            description: Name of the layer its I/O goes through next.
            type: str
          purpose:
            description:
              - V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
              - By default the purpose of the layer below, which it must not contradict; without one V(data).
            type: str
            choices: [scratch, data, read]
          layer_kind:
            description: V(target) for a target's login to itself, which makes the export measurable without the network.
            type: str
            choices: [initiator, target]
            default: initiator
          serial:
            description: Not used by NVMe.
            type: str
          naa:
            description: Not used by NVMe.
            type: str
          size_bytes:
            description: The size it must have.
            type: int
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Changes nothing and asks no target; disks that are not there yet have no path.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: Linux 5.11 or later.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Connect to one subsystem, nqn.2026-01.lab.example:bench
  storlab.testbed.nvme_session:
    testbed_id: embedded
    initiator_name: iqn.2026-01.lab.example:hypervisor01
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - iqn: iqn.2026-01.lab.example:bench
        portal:
          address: 10.213.0.11
          port: 4420
        chap_user: hypervisor01
        chap_password: "{{ vaulted_chap_password }}"
        luns:
          - lun: 1
            name: bench
            parent: target-bench
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode; secrets are masked.
  returned: always
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
layers:
  description: The LUNs as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: target-bench
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: target
    path:
      description: The device or file there; null when it cannot be measured itself.
      returned: always
      type: str
      sample: /dev/nvme0n1
    parent:
      description: Name of the layer that its I/O goes through next; null for none.
      returned: always
      type: str
      sample: backing-bench
    purpose:
      description: V(scratch) when raw benchmarks may overwrite it, else V(data).
      returned: always
      type: str
      sample: scratch
    size_bytes:
      description: Exact size of what the path names.
      returned: always
      type: int
      sample: 67108864
    identity:
      description: Proof that the path is that device.
      returned: always
      type: dict
      sample: {wwid: uuid.9f4f0f7c-2a3b-4c5d-8e6f-7a8b9c0d1e2f}
    detail:
      description: Facts for the report.
      returned: always
      type: dict
      sample: {provider: nvme_tcp}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.clients import nvme_sessions


def main() -> None:
    module = AnsibleModule(
        argument_spec=nvme_sessions.SPEC,
        required_if=[("state", "present", ["initiator_name"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        result = converge(nvme_sessions.Area, module.params, module.check_mode)
        for warning in result.pop("warnings"):
            module.warn(warning)
        module.exit_json(**result)


if __name__ == "__main__":
    main()
