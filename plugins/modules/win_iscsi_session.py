#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_iscsi_session
short_description: iSCSI sessions of Windows hosts
version_added: 0.2.0
description:
  - Starts the initiator service, asks portals for their targets, logs in with CHAP, finds the disks of the LUNs by number and size, and brings them
    online.
  - The name of the initiator is the host's own and is compared only. Mutual CHAP is refused, because its secret is the host's own, too, and could not be
    given back.
  - Sessions are not persistent. Sessions and portals of others are not touched.
options:
  state:
    description: "V(present) makes the sessions of O(targets) and ends the other ones of this testbed, V(absent) ends them all."
    type: str
    choices: [present, absent]
    default: present
  initiator_name:
    description: The iSCSI qualified name that this host has. Needed with O(state=present).
    type: str
  wait_s:
    description: How long to wait for the LUNs.
    type: int
    default: 60
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
            description: IP address; not V(127.0.0.1), for a login of the host to itself neither.
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
        description: The secret this initiator gives, 12 to 16 characters.
        type: str
      mutual_chap_user:
        description: Refused; see the description.
        type: str
      mutual_chap_password:
        description: Refused; see the description.
        type: str
      luns:
        description: The LUNs that must be there.
        type: list
        elements: dict
        required: true
        suboptions:
          lun:
            description: The logical unit number, 0 to 255.
            type: int
            required: true
          name:
            description: Name of the LUN in the testbed.
            type: str
            required: true
          layer_kind:
            description: V(target) for a login of a target to itself, which M(storlab.testbed.win_target_server) must allow with its option C(loopback).
            type: str
            choices: [initiator, target]
            default: initiator
          parent:
            description: Name of the layer its I/O goes through next.
            type: str
          purpose:
            description:
              - V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
              - By default the purpose of the layer below, which it must not contradict; without one V(data).
            type: str
            choices: [scratch, data]
          size_bytes:
            description: The size it must have. By default that of its published export.
            type: int
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
  - storlab.testbed.layers
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
- name: Log a Windows guest in
  storlab.testbed.win_iscsi_session:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    initiator_name: iqn.1991-05.com.microsoft:guest01
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - iqn: iqn.2026-01.example.lab:target01
        portal:
          address: 192.0.2.11
        chap_user: guest01
        chap_password: "{{ vaulted_chap_password }}"
        luns:
          - lun: 0
            name: ds1
            parent: target-ds1
            purpose: data
"""

RETURN = r"""
layers:
  description: The disks as layers to publish, without their host.
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
  sample: {code: lun_missing, details: {}}
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
