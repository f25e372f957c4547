#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tgt_target
short_description: iSCSI targets in user space (tgt)
version_added: 0.1.0
description:
  - Makes all targets of one testbed on a host with tgt, repairs what differs, or removes them, in one call.
  - The testbed has a tgtd of its own, with its own control port, that listens on the portals of O(targets) only. A tgtd of others is never touched.
  - CHAP secrets reach tgtd through its control socket and are in no argument list. tgtd does not show them again, so a salted hash of each, in a record
    only root can read, tells whether it changed.
  - What tgt cannot do is refused, never done by half. All LUNs of a target are seen by all its initiators, LUN 0 is tgt's own controller, a target has one
    mutual name, and a name has one secret. An initiator may use any of its target's CHAP names.
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.iscsi_targets
options:
  page_cache:
    description:
      - Whether tgtd reads and writes through the page cache of its host. Then many reads are answered from memory, whatever lies below, and writes
        are done before they have reached it.
      - By default it opens the devices for direct I/O, as LIO does, and LUNs have the logical block size of their device.
    type: bool
    default: false
  control_port:
    description: Number of the control socket of the testbed's tgtd; it is no TCP port.
    type: int
    default: 3260
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: Linux with tgt.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Export a RAM disk to one initiator
  storlab.testbed.tgt_target:
    testbed_id: embedded
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
"""

RETURN = r"""
steps:
  description: What was changed, or would be in check mode; without secrets.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: What is done.
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
      description: What kind of place it is.
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
      description: What proves that the path is that device.
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

from ..module_utils.core.failure import Failure
from ..module_utils.linux import iscsi_target, provider_tgt


def main() -> None:
    module = AnsibleModule(argument_spec={**iscsi_target.SPEC, **provider_tgt.OPTIONS}, supports_check_mode=True)
    try:
        module.exit_json(**provider_tgt.ensure(module.params, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
