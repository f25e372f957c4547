#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: iscsi_session
short_description: Logs in to iSCSI targets with open-iscsi and finds their disks
version_added: 0.1.0
description:
  - Makes all sessions of one testbed on a host, repairs what differs, or removes them, in one call.
  - The initiator name is in an open-iscsi interface record of its own, C(storlab-<testbed_id>). The host's C(initiatorname.iscsi), the sessions
    of others and a running iscsid stay as they are.
  - A disk is found by session and LUN, and proven by its serial, NAA identifier and size, never by the order of C(/dev/sdX).
  - CHAP secrets are written to the node record's file, which only root can read; they are in no argument list and no result.
  - A failed login leaves no new record behind. A session that died is waited for, and recreated when it does not come back.
options:
  testbed_id:
    description: The testbed the sessions belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes the sessions of O(targets) and ends this testbed's other ones, V(absent) ends them all. Refused while a disk is in use.
    type: str
    choices: [present, absent]
    default: present
  initiator_name:
    description: The iSCSI qualified name (IQN) of this initiator. Required when O(state=present).
    type: str
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers). The serial, NAA identifier and size they give for a LUN must hold.
    type: dict
    default: {}
  queue_depth:
    description: Commands that may be outstanding at one disk.
    type: int
    default: 32
  replacement_timeout_s:
    description: How long I/O waits for a lost session before it fails. Where multipathd joined its paths, that sets a time of its own (C(fast_io_fail_tmo)).
    type: int
    default: 120
  login_timeout_s:
    description: How long a login, a rescan and a recovery may take, each.
    type: int
    default: 15
  noop_interval_s:
    description: How often an idle connection is tried; 0 is never.
    type: int
    default: 5
  noop_timeout_s:
    description: How long the answer may take before the connection counts as lost.
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
          - Further portals of the target, with a session each.
          - Where multipathd runs, a LUN's paths become one device. Elsewhere the path through O(targets[].portal) is used, and a warning says so.
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
        description: The name this initiator gives.
        type: str
      chap_password:
        description: The secret this initiator gives.
        type: str
      mutual_chap_user:
        description: The name the target must give in return.
        type: str
      mutual_chap_password:
        description: The secret the target must give in return.
        type: str
      luns:
        description: The LUNs that must be there.
        type: list
        elements: dict
        required: true
        suboptions:
          lun:
            description: The logical unit number.
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
            description: The unit serial it must have.
            type: str
          naa:
            description: The NAA identifier it must have.
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
    description: Linux with open-iscsi.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Log in to one target
  storlab.testbed.iscsi_session:
    testbed_id: embedded
    initiator_name: iqn.2026-01.lab.example:hypervisor01
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - iqn: iqn.2026-01.lab.example:bench
        portal:
          address: 10.213.0.11
        chap_user: hypervisor01
        chap_password: "{{ vaulted_chap_password }}"
        luns:
          - lun: 0
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
      sample: /dev/sdb
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
      sample: {serial: 9f4f0f7c2a3b4c5d8e6f7a8b9c0d1e2f}
    detail:
      description: Facts for the report.
      returned: always
      type: dict
      sample: {provider: lio}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.clients import iscsi_sessions


def main() -> None:
    module = AnsibleModule(
        argument_spec=iscsi_sessions.SPEC,
        required_if=[("state", "present", ["initiator_name"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        result = converge(iscsi_sessions.Area, module.params, module.check_mode)
        for warning in result.pop("warnings"):
            module.warn(warning)
        module.exit_json(**result)


if __name__ == "__main__":
    main()
