#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: iscsi_target
short_description: iSCSI and NVMe targets of a Linux host, whatever makes them
version_added: 1.0.0
description:
  - Makes all targets of one testbed on a host, repairs what differs, or removes them, in one call, with the provider of O(provider).
  - V(lio) works on the kernel's own interface, configfs; targetcli is not needed and its saved configuration is not touched. Backstores are called
    C(storlab-<testbed_id>-<lun name>). CHAP secrets are written to and compared in configfs, where only root can read them.
  - V(tgt) gives the testbed a tgtd of its own, with its own control port, that listens on the portals of O(targets) only. CHAP secrets reach it through
    its control socket. tgtd does not show them again, so a salted hash of each, in a record only root can read, shows whether it changed.
  - V(nvmet) makes NVMe subsystems that are reached over TCP, by the kernel's own interface, configfs. The names (NQN) of them and of their hosts are the
    given ones with C(nqn) in the place of C(iqn). A LUN is the namespace of its number, from 1 on, with a UUID of the testbed's. A host that may see one LUN
    of a target sees all. CHAP is DH-HMAC-CHAP, where the kernel has that for targets; its keys are made of the secrets.
  - What V(tgt) cannot do is refused, never done by half. All LUNs of a target are seen by all its initiators, LUN 0 is tgt's own controller, a target has
    one mutual name, and a name has one secret. An initiator may use any of its target's CHAP names.
  - Targets, backstores and daemons of others are never touched. Secrets are in no argument list and no result.
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.iscsi_targets
options:
  provider:
    description: The target server, V(lio), which is in the kernel, V(tgt), in user space, or V(nvmet), the NVMe target of the kernel.
    type: str
    choices: [lio, tgt, nvmet]
    default: lio
  options:
    description:
      - What only this provider has. V(lio) and V(nvmet) have nothing of their own.
      - V(tgt) has C(page_cache) (V(false) by default), whether it reads and writes through the page cache of its host. Then many reads are answered from
        memory, whatever is below, and writes are done before they have reached it. Otherwise it opens the devices for direct I/O, as V(lio) does, and
        LUNs have the logical block size of their device. And C(control_port) (V(3260)), the number of its control socket, which is not a TCP port.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Export a RAM disk to one initiator
  storlab.testbed.iscsi_target:
    testbed_id: embedded
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.lab.example:bench
        portals:
          - address: 10.213.0.11
        luns:
          - lun: 0
            name: bench
            layer: backing-bench
        initiators:
          - iqn: iqn.2026-01.lab.example:hypervisor01
            chap_user: hypervisor01
            chap_password: "{{ vaulted_chap_password }}"

- name: Export it with tgt, whose own controller is LUN 0
  storlab.testbed.iscsi_target:
    testbed_id: embedded
    provider: tgt
    options:
      page_cache: true
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.lab.example:bench
        portals:
          - address: 10.213.0.11
        luns:
          - lun: 1
            name: bench
            layer: backing-bench
        initiators:
          - iqn: iqn.2026-01.lab.example:hypervisor01
            chap_user: hypervisor01
            chap_password: "{{ vaulted_chap_password }}"

- name: Export it by NVMe over TCP as nqn.2026-01.lab.example:bench
  storlab.testbed.iscsi_target:
    testbed_id: embedded
    provider: nvmet
    allow_no_chap: true
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.lab.example:bench
        portals:
          - address: 10.213.0.11
            port: 4420
        luns:
          - lun: 1
            name: bench
            layer: backing-bench
        initiators:
          - iqn: iqn.2026-01.lab.example:hypervisor01

- name: Remove the testbed's targets
  storlab.testbed.iscsi_target:
    testbed_id: embedded
    state: absent
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
      sample: mkdir
    path:
      description: To what in configfs.
      returned: with V(lio) and V(nvmet)
      type: str
      sample: "iscsi/iqn.2026-01.lab.example:bench"
    target:
      description: To which target of tgtd; null for tgtd itself.
      returned: with V(tgt)
      type: str
      sample: iqn.2026-01.lab.example:bench
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: ""
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
from ..module_utils.linux.exports import iscsi_target, target_providers


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **iscsi_target.SPEC,
            "provider": {
                "type": "str",
                "choices": list(target_providers.PROVIDERS),
                "default": target_providers.DEFAULTS["iscsi"],
            },
            "options": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    with failures_of(module):
        module.exit_json(**converge(target_providers.area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
