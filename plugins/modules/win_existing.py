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
  - Finds disks and files that one testbed reads on a Windows host without owning them, and returns them as layers. Nothing of the host is changed.
  - A disk is proven by its unique id or its serial. One file of a volume or a folder is read, the biggest of 1 MiB or more unless one is named; a search
    sees 20000 entries and takes 20 s.
options:
  state:
    description: V(present) returns the layers of O(entries). V(absent) has nothing to undo.
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
  layers:
    description: Layers of this storage that an earlier call returned. The file of the last build is taken again.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
attributes:
  check_mode:
    description: Nothing is changed in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
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
      description: V(read).
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
  description: Empty, because nothing is changed.
  returned: success
  type: list
  elements: dict
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
