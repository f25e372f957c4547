#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: raid
short_description: Makes the RAID arrays of a testbed with mdadm
version_added: 1.0.0
description:
  - Makes all RAID arrays of one testbed on a host, or removes them, in one call.
  - Every member passes the device guard before anything is changed. One that is used, holds data or is not the disk that is meant is refused.
  - The name in the superblocks is the testbed's stamp, C(storlab-<testbed_id>:<name>). An array with any other name is never stopped, and of its
    members nothing is zeroed. A record of it is also in C(/run/storlab/<testbed_id>/raid.json).
  - An array that is not what O(arrays) says is refused, never reshaped.
  - Needs C(mdadm) where there are arrays.
options:
  testbed_id:
    description: The testbed the arrays belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes O(arrays) and removes this testbed's other ones.
      - V(absent) stops them all and zeroes the superblocks that they left on their members; O(arrays) then says where arrays of an earlier boot are.
    type: str
    choices: [present, absent]
    default: present
  resync_timeout_s:
    description: Seconds that each array may take until all its members hold the same data.
    type: int
    default: 3600
  arrays:
    description: The arrays.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the array in the testbed.
        type: str
        required: true
      level:
        description: RAID level. V(0), V(1) and V(10) need 1, 2 and 4 members at least, V(5) and V(6) 3 and 4. V(0) of one member is a single drive.
        type: int
        choices: [0, 1, 5, 6, 10]
        required: true
      members:
        description: The disks, in this order.
        type: list
        elements: dict
        required: true
        suboptions:
          device:
            description: Path of the disk. By default the one disk of the host that shows what else is said.
            type: path
          serial:
            description: Serial that the disk must have.
            type: str
          naa:
            description: NAA identifier that the disk must have.
            type: str
          wwid:
            description: WWID that the disk must have, as the kernel shows it.
            type: str
          uuid:
            description: UUID of a logical volume (LVM), an MD array or another device mapper device.
            type: str
      chunk_kib:
        description: Size of a chunk in KiB, a power of two. By default 512, as mdadm's. Not for level V(1).
        type: int
      bitmap:
        description: Whether the array notes in a bitmap where a write may not have reached all members.
        type: str
        choices: [none, internal]
        default: none
      assume_clean:
        description:
          - Take the members for equal instead of making them so. The layer says so.
          - Of disks that held something this is not true, and of levels V(5) and V(6) the parity is then worth nothing.
        type: bool
        default: false
      stripe_cache:
        description: Pages of 4 KiB for each member in the stripe cache of levels V(5) and V(6), 17 to 32768. By default the kernel's 256.
        type: int
      resync:
        description: V(wait) waits until all members hold the same data. V(run) lets the kernel go on, and the layer says that it does.
        type: str
        choices: [wait, run]
        default: wait
      purpose:
        description: V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
        type: str
        choices: [scratch, data]
        default: data
      emulated_delay:
        description: The limit that makes the members slow on purpose, such as C({iops 300}); the layer carries it.
        type: dict
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Changes nothing, refuses what would be refused, and returns the paths where they can be predicted.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: RAID 10 of four disks, known by their serials
  storlab.testbed.raid:
    testbed_id: lab
    arrays:
      - name: slow
        level: 10
        chunk_kib: 64
        purpose: scratch
        members:
          - {serial: Z1F0A7QK}
          - {serial: Z1F0A8PD}
          - {serial: Z1F0B11X}
          - {serial: Z1F0B2MM}

- name: Remove it
  storlab.testbed.raid:
    testbed_id: lab
    state: absent
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: V(create), V(assemble), V(set_stripe_cache), V(remove), or V(wait), which is not a change.
      returned: always
      type: str
      sample: create
    target:
      description: The array.
      returned: always
      type: str
      sample: RAID slow
    was:
      description: The state before; null where there is none.
      returned: always
      type: str
      sample: superblocks on /dev/sdb, /dev/sdc
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: str
      sample: RAID 1 of 2 members (/dev/sdb, /dev/sdc)
layers:
  description: The arrays as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: backing-slow
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: backing
    path:
      description: The array's device; predicted in check mode when there is none yet.
      returned: always
      type: str
      sample: /dev/md127
    parent:
      description: Nothing of the testbed is below it.
      returned: always
      type: str
      sample: null
    purpose:
      description: V(scratch) when raw benchmarks may overwrite it, else V(data).
      returned: always
      type: str
      sample: scratch
    size_bytes:
      description: Exact size; null in check mode when there is no array yet.
      returned: always
      type: int
      sample: 131072000
    identity:
      description: Proof that the path is that array.
      returned: always
      type: dict
      sample: {stamp: lab/slow, uuid: "1f0c4e1a:9b8e7d6c:5a493827:16057f3e", size_bytes: 131072000, major_minor: "9:127"}
    detail:
      description: Facts for the report and for comparisons. C(raid) has level, chunks, bitmap, stripe cache, members and whether they hold the same data.
      returned: always
      type: dict
      sample: {provider: raid, generation: 1f0c4e1a9b8e, raid: {level: 10, chunk_bytes: 65536, bitmap: none, resync: done, members: [{device: /dev/sdb}]}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.backing import raid


def main() -> None:
    module = AnsibleModule(argument_spec=raid.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(raid.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
