#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_existing
short_description: Disks and volumes of a Windows host that were there before
version_added: 1.0.0
description:
  - Finds disks and files that one testbed reads on a Windows host without owning them, and returns them as layers. Nothing of the host is changed, unless an
    entry has O(entries[].access=write).
  - A disk is proven by its unique id or its serial. One file of a volume or a folder is read, the biggest of 1 MiB or more unless one is named; a search
    sees 20000 entries and takes 20 s.
options:
  state:
    description: V(present) returns the layers of O(entries). V(absent) removes the folders of the testbed's own.
    type: str
    choices: [present, absent]
    default: present
  entries:
    description: The storage.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the storage in the testbed. Its layer is C(<layer_kind>-<name>).
        type: str
        required: true
      kind:
        description: V(disk) is a disk of the host, V(volume) a drive or a folder of a volume.
        type: str
        choices: [disk, volume]
        required: true
      layer_kind:
        description: The kind of place in the chain.
        type: str
        choices: [backing, target, initiator, datastore, guest]
        required: true
      parent:
        description: Name of the layer below it. A file on another disk than that is refused.
        type: str
      serial:
        description: The serial that the disk must have.
        type: str
      unique_id:
        description: The unique id that the disk must have, as C(Get-Disk) shows it.
        type: str
      folder:
        description: "The drive or folder of kind V(volume), such as V(E:)."
        type: str
      file:
        description: The file to read, relative to the folder. By default the biggest.
        type: str
      access:
        description:
          - V(read) only reads.
          - V(write) allows a disk to be overwritten, if it passes the guard of all such disks.
          - On a volume V(write) makes one file of the testbed's own, in a folder of its own, into which only administrators may write. A tenth of the
            volume stays free.
        type: str
        choices: [read, write]
        default: read
      benchmark_file_mib:
        description: Size in MiB of the file that O(entries[].access=write) makes on a volume.
        type: int
        default: 1024
  layers:
    description:
      - Layers of this storage that an earlier call returned. The file of the last build is taken again.
      - Folders of the testbed's own whose record is lost are known by them.
    type: list
    elements: dict
    default: []
  state_dir:
    description: Folder on the controller for the record of the folders that are made. Needed for O(entries[].access=write) on a volume.
    type: path
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed.
    support: full
  platform:
    description: Windows Server 2016 and later. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: windows
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read a disk and a file of the volume on it
  storlab.testbed.win_existing:
    testbed_id: lab
    entries:
      - name: array
        kind: disk
        layer_kind: initiator
        unique_id: 6001405AABBCC0001
      - name: data
        kind: volume
        layer_kind: datastore
        parent: initiator-array
        folder: 'E:\vms'

- name: Write to a file of the testbed's own on that volume
  storlab.testbed.win_existing:
    testbed_id: lab
    state_dir: /srv/lab/state
    entries:
      - name: data
        kind: volume
        layer_kind: datastore
        folder: 'E:\vms'
        access: write
        benchmark_file_mib: 4096
"""

RETURN = r"""
layers:
  description: The storage as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: initiator-array
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: initiator
    path:
      description: The disk or the file.
      returned: always
      type: str
      sample: '\\.\PhysicalDrive1'
    parent:
      description: Name of the layer that its I/O goes through next; null for none.
      returned: always
      type: str
      sample: null
    purpose:
      description: V(read), or V(scratch) with O(entries[].access=write).
      returned: always
      type: str
      sample: read
    size_bytes:
      description: How much of it is read.
      returned: always
      type: int
      sample: 67108864
    identity:
      description: Proves that the path is that disk or file.
      returned: always
      type: dict
      sample: {unique_id: 6001405AABBCC0001, serial: S1234}
    detail:
      description: Facts for the report.
      returned: always
      type: dict
      sample: {provider: existing, existing: disk, access: read}
steps:
  description: Changes made, or planned in check mode, each with C(op), C(target), C(was) and C(will).
  returned: always
  type: list
  elements: dict
  sample: [{op: write, target: data, was: null, will: own file of 4096 MiB}]
kept:
  description: Paths in folders of the testbed's own that stay, because others put them there.
  returned: always
  type: list
  elements: str
  sample: []
about:
  description: The host, as RV(storlab.testbed.win_state#module:about) has it.
  returned: success
  type: dict
  sample: {product: Windows Server 2022 Standard, version: 10.0.20348}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: member_missing, details: {}}
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
