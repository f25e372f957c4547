#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: ramdisk
short_description: Makes the RAM disks of a testbed, with exact sizes
version_added: 0.1.0
description:
  - Makes all RAM disks of one testbed on a host, or removes them, in one call.
  - What the testbed made is recorded in C(/run/storlab/<testbed_id>/ramdisk.json), which vanishes at a reboot as RAM disks do. Only what is
    recorded there is ever changed or removed, and never while anything uses it.
options:
  testbed_id:
    description: The testbed the disks belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes the disks of O(disks) and removes this testbed's other ones, V(absent) removes them all.
    type: str
    choices: [present, absent]
    default: present
  provider:
    description:
      - V(brd) is the kernel's RAM disk. All its disks come from one loading of the module and have one size, so a smaller one is a partition
        that exists only in the kernel's memory (C(/dev/ram0p1)), which starts at sector 0 and adds nothing to the I/O path. Changing any of them
        replaces them all. Refused when brd is already loaded by something else.
      - V(tmpfs) is a loop device, with direct I/O where the kernel can, on a preallocated file on a tmpfs of its own.
      - V(zram) compresses what is written, so its speed depends on the data.
      - V(auto) takes the first of V(brd), V(tmpfs), V(zram) that the kernel has, and stays with what the testbed already uses.
    type: str
    choices: [auto, brd, tmpfs, zram]
    default: auto
  disks:
    description: The RAM disks.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the disk in the testbed.
        type: str
        required: true
      size_mib:
        description: Exact size in MiB.
        type: int
        required: true
      purpose:
        description: V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
        type: str
        choices: [scratch, data]
        default: data
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Changes nothing, and returns the paths where they can be predicted.
    support: full
  diff_mode:
    description: Shows the disks before and after.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Two RAM disks from the best provider this kernel has
  storlab.testbed.ramdisk:
    testbed_id: embedded
    disks:
      - name: bench
        size_mib: 64
      - name: ds1
        size_mib: 192
        purpose: data

- name: Remove them
  storlab.testbed.ramdisk:
    testbed_id: embedded
    state: absent
"""

RETURN = r"""
provider:
  description: The provider in use.
  returned: when O(state=present)
  type: str
  sample: brd
provider_reason:
  description: Why it was chosen.
  returned: when O(state=present)
  type: str
  sample: best available
steps:
  description: Changes made, or planned in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: V(create) or V(remove).
      returned: always
      type: str
      sample: create
    disk:
      description: Name of the disk.
      returned: always
      type: str
      sample: bench
    provider:
      description: The provider that makes it.
      returned: always
      type: str
      sample: brd
    size_bytes:
      description: Its size.
      returned: always
      type: int
      sample: 67108864
layers:
  description: The disks as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
  sample:
    - name: backing-bench
      kind: backing
      path: /dev/ram0
      parent: null
      purpose: scratch
      size_bytes: 67108864
      identity: {stamp: embedded/bench, size_bytes: 67108864, major_minor: "1:0"}
      detail: {provider: brd}
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
from ..module_utils.linux.backing import ramdisk


def main() -> None:
    module = AnsibleModule(argument_spec=ramdisk.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(ramdisk.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
