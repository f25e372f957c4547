#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: cache_tier
short_description: Puts a fast device before a slow one, and takes it out again, with dm-cache, LVM or bcache
version_added: 1.0.0
description:
  - Makes all cache tiers of one testbed on a host, or removes them, in one call.
  - A tier is one device over its origin. With O(caches[].cached=true) its I/O goes through a cache on the fast device, with V(false) to the origin alone.
    The cache is put in and taken out under the device, which may be mounted, exported and under I/O all the time.
  - Before a cache is taken out, what only it has is written to the origin, and the kernel is asked whether anything is left. Nothing is taken out until
    there is nothing.
  - Both devices pass the device guard before anything is changed. The fast one is overwritten. Contents of the origin stay, and it may hold something only
    when it is the testbed's own, a layer that it published or the origin of a tier that it made.
  - The fast device carries the testbed's stamp. A record of it is also in C(/run/storlab/<testbed_id>/cache_tier.json).
  - Whoever caches, nothing but data is written to the origin. What LVM and bcache want before it, their label or superblock, is on the fast device.
  - Needs C(dmsetup), and a kernel with dm-cache, or with bcache for O(caches[].provider=bcache). O(caches[].provider=lvm) needs LVM, too.
options:
  testbed_id:
    description: The testbed the tiers belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes O(caches) and removes this testbed's other ones.
      - V(absent) removes them all, and their stamps; O(caches) then says where tiers of an earlier boot are. The contents of a tier are on its origin.
    type: str
    choices: [present, absent]
    default: present
  flush_timeout_s:
    description: Seconds that each cache may take to write what only it has.
    type: int
    default: 3600
  layers:
    description: The layers that were published on this host, by name.
    type: dict
    default: {}
  caches:
    description: The tiers.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the tier in the testbed.
        type: str
        required: true
      origin:
        description: The slow device.
        type: dict
        required: true
        suboptions:
          layer:
            description: The published layer that it is, in the place of everything else. It may hold data.
            type: str
          device: &device
            description: Path of the disk. By default the one disk of the host that shows what else is said.
            type: path
          serial: &serial
            description: Serial that the disk must have.
            type: str
          naa: &naa
            description: NAA identifier that the disk must have.
            type: str
          wwid: &wwid
            description: WWID that the disk must have, as the kernel shows it.
            type: str
          uuid: &uuid
            description: UUID of a logical volume (LVM), MD array or other device mapper device.
            type: str
      fast:
        description: The fast device, which is overwritten.
        type: dict
        required: true
        suboptions:
          device: *device
          serial: *serial
          naa: *naa
          wwid: *wwid
          uuid: *uuid
      provider:
        description:
          - Who caches. V(dm_cache) is the kernel's dm-cache, V(lvm) has it made by LVM in a volume group of the tier's own, V(bcache) is the kernel's bcache.
          - A change is applied under the device, as a change of mode is.
        type: str
        choices: [dm_cache, lvm, bcache]
        default: dm_cache
      mode:
        description:
          - V(writethrough) writes to both devices, so the origin has everything at any time.
          - V(writeback) writes to the cache what is in it, and to the origin later.
          - V(writearound), with O(caches[].provider=bcache) only, writes to the origin alone; what is read is cached.
        type: str
        choices: [writearound, writeback, writethrough]
        default: writethrough
      cached:
        description: Whether the cache is put in. A cache that is put in begins empty.
        type: bool
        default: true
      block_kib:
        description: Size of what is cached as one, in KiB, a multiple of 32. With bcache that of its buckets, a power of two up to 16384.
        type: int
        default: 64
      migration_kib:
        description:
          - How much may be on its way between both devices at once, in KiB, eight blocks at least. By default the kernel's 1024, or eight blocks.
          - Not with bcache.
        type: int
      purpose:
        description: V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it, which is the default.
        type: str
        choices: [scratch, data]
      emulated_delay:
        description: The limit that makes the origin slow on purpose, such as C({iops 300}); the layer carries it.
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
- name: A write-back cache on a fast disk before a slow one
  storlab.testbed.cache_tier:
    testbed_id: lab
    caches: &caches
      - name: e4
        mode: writeback
        purpose: scratch
        origin: {serial: Z1F0A7QK}
        fast: {serial: S2HRNX0J4}

- name: The same device without it
  storlab.testbed.cache_tier:
    testbed_id: lab
    caches:
      - name: e4
        mode: writeback
        cached: false
        purpose: scratch
        origin: {serial: Z1F0A7QK}
        fast: {serial: S2HRNX0J4}

- name: Remove it
  storlab.testbed.cache_tier:
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
      description: V(create), V(assemble) after a boot, V(put_in), V(take_out) or V(remove).
      returned: always
      type: str
      sample: put_in
    target:
      description: The tier.
      returned: always
      type: str
      sample: cache e4
    was:
      description: The state before; null where there is none.
      returned: always
      type: str
      sample: the origin alone
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: str
      sample: write-back cache in blocks of 64 KiB
layers:
  description: The tiers as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: backing-e4
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: backing
    path:
      description: The tier's device; predicted in check mode when there is none yet.
      returned: always
      type: str
      sample: /dev/dm-0
    parent:
      description: The layer that the origin is, if it is one.
      returned: always
      type: str
      sample: null
    purpose:
      description: V(scratch) when raw benchmarks may overwrite it, else V(data).
      returned: always
      type: str
      sample: scratch
    size_bytes:
      description: Exact size, that of the origin.
      returned: always
      type: int
      sample: 131072000
    identity:
      description: Proof that the path is that tier.
      returned: always
      type: dict
      sample: {stamp: lab/e4, uuid: "STORLAB-CACHE:lab:e4:1f0c4e1a9b8e7d6c5a49382716057f3e", size_bytes: 131072000, major_minor: "254:0"}
    detail:
      description: Facts for the report and for comparisons. C(cache_tier) has whether the cache is in, who caches, its mode, blocks and devices.
      returned: always
      type: dict
      sample: {provider: cache_tier, cache_tier: {cached: true, provider: dm_cache, mode: writeback, block_bytes: 65536, blocks: 432, fast: {device: /dev/sdc}}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.backing import cache_tier


def main() -> None:
    module = AnsibleModule(argument_spec=cache_tier.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(cache_tier.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
