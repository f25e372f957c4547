#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: layer
short_description: Publishes the layers of a testbed, or reads the published ones
version_added: 0.1.0
description:
  - A layer is one place in the chain where I/O can be issued, from the RAM disk up to the disk inside the guest.
  - The roles of this collection publish what they made with this module, and O(state=gathered) reads it back in a later playbook.
  - Layers are facts of the current host and, with O(state_dir), one JSON file each on the controller.
  - Runs on the controller. Changes nothing on the host, so it never reports changed.
options:
  state:
    description:
      - V(present) adds or replaces O(layers), V(absent) forgets O(names), V(gathered) only reads.
    type: str
    choices: [present, absent, gathered]
    default: present
  layers:
    description:
      - Layers to publish, each with the keys C(name), C(kind), C(host), C(path), C(parent), C(purpose), C(size_bytes) and C(identity),
        and optionally C(detail).
      - C(kind) is one of V(ceiling), V(backing), V(target), V(initiator), V(datastore), V(guest).
      - C(purpose) is V(scratch) when raw benchmarks may overwrite it, V(data) when it holds something.
      - C(identity) proves that C(path) is still what was published. Before any I/O the device guard holds it against the host; what differs is refused
        (such as C(wrong_serial)), and so is what proves nothing (C(identity_missing)). Which keys prove something depends on what C(path) is.
      - "A disk on Linux (V(backing), V(target), V(initiator), V(guest)): any of C(serial), C(naa), C(wwid) or C(major_minor). Each that is given must hold."
      - "A RAID, LVM, multipath or other mapped device on Linux (mostly V(backing)): C(uuid), or what proves a disk."
      - "A partition that the testbed made itself (RAM disks of brd): C(whole_device), the disk that it is on, in addition to C(major_minor)."
      - "A file on Linux (V(datastore)): both C(mount_point) and C(uuid), that of the file system, over NFS that of the exported one."
      - "A disk on Windows (V(backing), V(target), V(initiator), V(guest)): C(unique_id); a C(serial) that is given must hold, too."
      - "A file on Windows (V(datastore)): both C(mount_point) and C(stamp), the label of the volume."
      - "A layer without C(path) is not measured, so nothing is proven: V(ceiling) (empty), exports (C(export), C(uuid)), datastores of ESXi (C(naa), C(uuid),
        C(datastore)). These say in the report what it was, as C(stamp), C(size_bytes), C(target_iqn) and C(lun) do elsewhere."
    type: list
    elements: dict
    default: []
  names:
    description: Names of the layers to forget.
    type: list
    elements: str
    default: []
  suffix:
    description: Appended to the names, where several hosts have a layer of one name, as when ESXi hosts share a LUN.
    type: str
    default: ""
  described:
    description:
      - Names of layers that should have been published. Those that were not are named in a warning and in RV(unbuilt); when it is all of them, the task fails
        with C(nothing_built).
    type: list
    elements: str
    default: []
  state_dir:
    description: Folder on the controller that keeps the testbed's state. Without it layers live only as long as the playbook.
    type: path
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Writes nothing in check mode.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Publish a RAM disk that benchmarks may overwrite
  storlab.testbed.layer:
    state_dir: /tmp/storlab-example
    layers:
      - name: backing-bench
        kind: backing
        host: target01
        path: /dev/ram0
        parent: null
        purpose: scratch
        size_bytes: 67108864
        identity:
          stamp: embedded/bench
          major_minor: "1:0"

- name: Publish a file on an ext4 of your own, which is measured without overwriting anything else
  storlab.testbed.layer:
    state_dir: /tmp/storlab-example
    layers:
      - name: datastore-mine
        kind: datastore
        host: client01
        path: /srv/mine/bench.dat
        parent: null
        purpose: scratch
        size_bytes: 1073741824
        identity:
          mount_point: /srv/mine
          uuid: 2f1c7f0e-5a0e-4d0b-9f2c-0d6f3c1b7a55

- name: Read what was published
  storlab.testbed.layer:
    state: gathered
    state_dir: /tmp/storlab-example
"""

RETURN = r"""
unbuilt:
  description: Names of O(described) that were not published.
  returned: success
  type: list
  elements: str
  sample: []
ansible_facts:
  description: Facts of the current host.
  returned: always
  type: dict
  contains:
    storlab_layers:
      description: All known layers, by name.
      type: dict
      returned: always
      sample: {backing-bench: {name: backing-bench, kind: backing, host: target01, path: /dev/ram0, purpose: scratch}}
"""
