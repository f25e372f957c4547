# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every provider of iSCSI targets; module_utils/linux/exports/iscsi_target.py has the argument specification."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  testbed_id:
    description: The testbed the targets belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes the targets of O(targets) and removes this testbed's other ones, V(absent) removes them all.
    type: str
    choices: [present, absent]
    default: present
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers); needed for LUNs that name a layer.
    type: dict
    default: {}
  uses:
    description:
      - What the initiators themselves say of the LUNs that would be taken from them while they are logged in, by the C(key) that the failure
        C(target_in_use) gives each of them in its details; an empty list says that nothing uses the LUN there, see M(storlab.testbed.device_users).
      - Without an empty list such a LUN is never taken away.
    type: dict
    default: {}
  allow_no_chap:
    description: Accept initiators without CHAP. They are then distinguished by their name alone, which anybody can take.
    type: bool
    default: false
  allow_any_address:
    description: Accept a portal on every address of the host (V(0.0.0.0) or V(::)).
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
        description:
          - What the target exports. A LUN's serial is derived from the testbed, the LUN's name and, on a RAM disk of the testbed, the disk's generation.
          - So it changes when such a disk was recreated, and only then.
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
          layer:
            description: The published layer whose device is exported. Either this or O(targets[].luns[].device).
            type: str
          device:
            description:
              - The device to export, which must be empty and unused.
              - One of O(targets[].luns[].serial), O(targets[].luns[].naa), O(targets[].luns[].wwid) and O(targets[].luns[].uuid) has to prove that it
                is the one that is meant; the failure without them says what the device shows.
            type: path
          serial:
            description: The serial that O(targets[].luns[].device) must have.
            type: str
          naa:
            description: The NAA identifier that O(targets[].luns[].device) must have.
            type: str
          wwid:
            description: The WWID that O(targets[].luns[].device) must have, as the kernel shows it.
            type: str
          uuid:
            description: The UUID that O(targets[].luns[].device) must have, when it is a logical volume (LVM), an MD array or another device mapper device.
            type: str
          purpose:
            description:
              - V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
              - By default the purpose of the layer below, which it must not contradict; without one V(data).
            type: str
            choices: [scratch, data]
      initiators:
        description: Who may log in. No other initiator can, nor sees the target in a discovery where the target can restrict that.
        type: list
        elements: dict
        required: true
        suboptions:
          iqn:
            description: Name of the initiator. Needed.
            type: str
          address:
            description: Refused; taken by M(storlab.testbed.win_iscsi_target) only.
            type: str
          dns_name:
            description: Refused; taken by M(storlab.testbed.win_iscsi_target) only.
            type: str
          mac_address:
            description: Refused; taken by M(storlab.testbed.win_iscsi_target) only.
            type: str
          luns:
            description: The LUNs it sees; all when left out.
            type: list
            elements: int
          chap_user:
            description: The name the initiator must give.
            type: str
          chap_password:
            description: The secret the initiator must give, 12 to 255 characters.
            type: str
          mutual_chap_user:
            description: The name the target gives in return (mutual CHAP).
            type: str
          mutual_chap_password:
            description: The secret the target gives in return; it must differ from O(targets[].initiators[].chap_password).
            type: str
"""
