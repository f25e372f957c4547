#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_iscsi_target
short_description: iSCSI targets of Windows Server
version_added: 0.2.0
description:
  - Makes targets with their virtual disks, initiators, CHAP in one or both directions, LUNs and portals, and repairs what has changed since.
  - A Windows target has one CHAP name and secret and shows all its LUNs to everyone who may log in; what asks for more is refused.
  - The portals of the server are one list. Addresses that no target of the testbed names are switched off, unless targets of others need them or
    O(allow_any_address) is true, and given back with O(state=absent).
  - Touches only targets and virtual disks whose description names the testbed. VHDX files are deleted with their virtual disk.
options:
  state:
    description: "V(present) makes the targets of O(targets) and removes the other ones of this testbed, V(absent) removes them all."
    type: str
    choices: [present, absent]
    default: present
  allow_no_chap:
    description: Accept initiators without CHAP. They are then distinguished by their name alone, which anybody can take.
    type: bool
    default: false
  allow_any_address:
    description: Leave the portals of the server as they are, which is on all its addresses.
    type: bool
    default: false
  targets:
    description: The targets.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The iSCSI qualified name (IQN) of the target.
        type: str
        required: true
      portals:
        description: Where the target listens.
        type: list
        elements: dict
        required: true
        suboptions:
          address:
            description: An address of this host.
            type: str
            required: true
          port:
            description: TCP port.
            type: int
            default: 3260
      luns:
        description: The LUNs that the target exports.
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
          layer:
            description:
              - The published layer that is exported, made with M(storlab.testbed.win_ramdisk).
              - With O(targets[].luns[].vhdx) the volume that the file is on, made with M(storlab.testbed.win_datastore) on this host.
            type: str
          vhdx:
            description: A file to make and export.
            type: dict
            suboptions:
              path:
                description: Its full path on a local volume.
                type: str
                required: true
              size_mib:
                description: Its size in MiB.
                type: int
                required: true
              allocation:
                description: V(fixed) takes all the space at once and zeroes it.
                type: str
                choices: [dynamic, fixed]
                default: dynamic
          purpose:
            description:
              - V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
              - By default the purpose of the layer below, which it must not contradict; without one V(data).
            type: str
            choices: [scratch, data]
      initiators:
        description: Who may log in, each by exactly one of its name, address, host name or MAC address.
        type: list
        elements: dict
        required: true
        suboptions:
          iqn:
            description: Name of the initiator.
            type: str
          address:
            description: IPv4 or IPv6 address that the initiator logs in from. An address proves no identity, so CHAP is required all the same.
            type: str
          dns_name:
            description: Host name of the initiator, which the server must be able to look up.
            type: str
          mac_address:
            description: MAC address of the initiator, which the server only sees in its own network.
            type: str
          luns:
            description: The LUNs it sees, which must be all.
            type: list
            elements: int
          chap_user:
            description: The name the initiator must give; one for all initiators of a target.
            type: str
          chap_password:
            description: The secret the initiator must give, 12 to 16 characters; one for all initiators of a target.
            type: str
          mutual_chap_user:
            description: The name the target gives in return (mutual CHAP).
            type: str
          mutual_chap_password:
            description: The secret the target gives in return; it must differ from O(targets[].initiators[].chap_password).
            type: str
  uses:
    description:
      - Users of LUNs as the hosts of the initiators report them, each by the C(key) of the failure C(target_in_use). CHAP names and secrets change under a
        session only where its initiator reports no user of the LUN.
    type: dict
    default: {}
    version_added: 1.0.0
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
- name: Export a RAM disk and a file to an ESXi host
  storlab.testbed.win_iscsi_target:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.example.lab:target01
        portals:
          - address: 192.0.2.11
        luns:
          - lun: 0
            name: ds1
            layer: backing-ds1
            purpose: data
          - lun: 1
            name: raid
            purpose: data
            vhdx:
              path: 'E:\storlab\raid.vhdx'
              size_mib: 20480
              allocation: fixed
        initiators:
          - iqn: iqn.2026-01.example.lab:esxi01
            chap_user: esxi01
            chap_password: "{{ vaulted_chap_password }}"

- name: Let a host in by the address of its vmk0
  storlab.testbed.win_iscsi_target:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.example.lab:target02
        portals:
          - address: 192.0.2.11
        luns:
          - lun: 0
            name: ds2
            layer: backing-ds2
            purpose: data
        initiators:
          - address: 192.0.2.31
            chap_user: esxi01
            chap_password: "{{ vaulted_chap_password }}"
"""

RETURN = r"""
layers:
  description: The LUNs as layers to publish, without their host. They have no path because they are reached through a login.
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
  sample: {code: foreign_target, details: {}}
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
