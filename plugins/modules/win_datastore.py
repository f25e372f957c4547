#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_datastore
short_description: NTFS volumes with a file that benchmarks overwrite
version_added: 0.2.0
description:
  - Initialises the disk of a layer, formats it with NTFS under a drive letter and writes a file of random bytes, which is published as a layer.
  - Only a blank disk, proven by number, unique id and size, is written to; never one of the system or a cluster.
  - A RAM disk of M(storlab.testbed.win_ramdisk) that has an MBR and no partitions is blank, too, and gets its MBR back.
  - O(state=absent) makes the disk blank again, and refuses while files of others are on it.
options:
  state:
    description: "V(present) makes the volumes of O(datastores), V(absent) removes all that this testbed made here."
    type: str
    choices: [present, absent]
    default: present
  discard_contents:
    description: Remove volumes that still hold files of others, too.
    type: bool
    default: false
  datastores:
    description: The volumes.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the datastore in the testbed.
        type: str
        required: true
      layer:
        description: The published layer whose disk is taken, of purpose C(data).
        type: str
        required: true
      mount_point:
        description: "A drive letter, such as V(T:)."
        type: str
        required: true
      filesystem:
        description: The file system.
        type: str
        choices: [ntfs]
        default: ntfs
      benchmark_file_mib:
        description: Size of the file that benchmarks overwrite. V(0) makes none and publishes no layer.
        type: int
        default: 0
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
- name: Make a volume on the LUN
  storlab.testbed.win_datastore:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    layers: "{{ ansible_facts.storlab_layers }}"
    datastores:
      - name: ds1
        layer: initiator-ds1
        mount_point: "T:"
        benchmark_file_mib: 4096
"""

RETURN = r"""
layers:
  description: The datastores as layers to publish, without their host. The path is that of the benchmark file; null without one.
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
  sample: {code: signature_present, details: {}}
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
