#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: datastore_filesystem
short_description: Makes the file system datastores of a testbed
version_added: 0.1.0
description:
  - Makes all datastores of one testbed on a host (file system, mount, benchmark file), repairs what differs, or removes them, in one call.
  - The UUID of a file system derives from the testbed and the datastore's name, so a rebuild gives the same one, and nothing else is taken for it.
  - A file system is made only on a device that the guard (C(docs/safety.md)) proves to be blank, unused, and the layer it was published as.
  - When the device under a mounted datastore was replaced (its target was rebuilt), the dead file system is detached, the processes that hold its files
    are ended, and a new one is made.
  - With V(nfs) it mounts what another host of the testbed exports (role C(nfs_export)). The mount must show the fsid of that file system, and the
    benchmark files that its host has made; everything else there is never written or removed by this module.
  - Nothing is written to C(/etc/fstab), because a LUN on a RAM disk is a new LUN after the next boot of its target.
options:
  testbed_id:
    description: The testbed the datastores belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes the datastores of O(datastores), V(absent) unmounts all of this testbed's, wipes their signatures and removes their folders.
    type: str
    choices: [present, absent]
    default: present
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers); needed for datastores that name a layer.
    type: dict
    default: {}
  discard_contents:
    description: With O(state=absent), remove datastores that hold files of others, too.
    type: bool
    default: false
  datastores:
    description: The datastores.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the datastore in the testbed.
        type: str
        required: true
      layer:
        description: The published layer whose device it is on. Either this or O(datastores[].device).
        type: str
      device:
        description:
          - The device it is on, which must be empty and unused.
          - One of O(datastores[].serial), O(datastores[].naa), O(datastores[].wwid) and O(datastores[].uuid) has to prove that it is the one that is
            meant; the failure without them says what the device shows.
        type: path
      serial:
        description: The serial that O(datastores[].device) must have.
        type: str
      naa:
        description: The NAA identifier that O(datastores[].device) must have.
        type: str
      wwid:
        description: The WWID that O(datastores[].device) must have, as the kernel shows it.
        type: str
      uuid:
        description: The UUID that O(datastores[].device) must have, when it is a logical volume (LVM), an MD array or another device mapper device.
        type: str
      filesystem:
        description: The file system.
        type: str
        choices: [ext4, xfs, nfs]
        default: ext4
      server:
        description: Address of the NFS server. Needed with V(nfs), as are O(datastores[].export) and the O(datastores[].layer) of the export.
        type: str
      export:
        description: Path that the NFS server exports.
        type: str
      nfs_version:
        description: Version of NFS. With V(3) the mount has no locks (C(nolock)).
        type: str
        choices: ["3", "4.2"]
        default: "4.2"
      nconnect:
        description:
          - How many connections to the server the mount has, from 1 to 16, proven after it is mounted. Without it the number is that of the kernel.
          - The kernel gives all mounts of a server by one version the same connections. A mount that would get another number so is refused.
        type: int
      mount_point:
        description: Where it is mounted. Folders that are missing are made, and removed again.
        type: path
        required: true
      mount_options:
        description: Options of mount(8).
        type: str
        default: noatime
      benchmark_file_mib:
        description: Size of C(storlab-benchmark.dat) on it, which benchmarks overwrite; every block is written once. 0 is none.
        type: int
        default: 0
      benchmark_files:
        description:
          - How many such files there are, each of that size. With several (C(storlab-benchmark.0.dat) and so on), every worker of a workload has one to
            itself, and a workload of more workers is refused.
        type: int
        default: 1
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A datastore on a LUN
  storlab.testbed.datastore_filesystem:
    testbed_id: embedded
    layers: "{{ ansible_facts.storlab_layers }}"
    datastores:
      - name: ds1
        layer: initiator-ds1
        mount_point: /srv/storlab/ds1
        benchmark_file_mib: 32
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: The kind of step.
      returned: always
      type: str
      sample: make_filesystem
    datastore:
      description: To which datastore.
      returned: always
      type: str
      sample: ds1
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: ext4
ended:
  description: Processes that held files of a datastore whose device was replaced, and were ended.
  returned: always
  type: list
  elements: dict
  sample: [{pid: 812, command: qemu-nbd}]
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
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.clients import datastore


def main() -> None:
    module = AnsibleModule(argument_spec=datastore.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(datastore.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
