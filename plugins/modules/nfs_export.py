#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: nfs_export
short_description: Exports the datastores of a testbed over NFS
version_added: 1.0.0
description:
  - Exports the file systems of one testbed on a host with the kernel's NFS server, or withdraws them, in one call.
  - An export is for the clients that are named, and never open to all. Its C(fsid) is the UUID of the file system, by which clients prove what they mount.
  - The exports are in C(/etc/exports.d/storlab-<testbed_id>.exports), and are announced and withdrawn one by one, so exports of others are not touched. What
    was made is recorded in C(/run/storlab/<testbed_id>/nfs_export.json).
  - A server that runs is used as it is. One that does not is started on O(addresses), and stopped by the last testbed of the host that withdraws.
  - An export on which a client has files open is not withdrawn (NFS 4; version 3 does not report that).
  - Needs C(exportfs), C(rpc.nfsd) and C(rpc.mountd) where there are exports, and C(rpcbind) for version 3.
options:
  testbed_id:
    description: The testbed the exports belong to.
    type: str
    required: true
  state:
    description: V(present) makes O(exports) and withdraws this testbed's other ones, V(absent) withdraws them all.
    type: str
    choices: [present, absent]
    default: present
  addresses:
    description: Addresses of the host on which a server that is started listens. Needed where there are exports.
    type: list
    elements: str
    default: []
  versions:
    description: Versions of NFS. A server that runs without one of them is refused.
    type: list
    elements: str
    choices: ["3", "4.2"]
    default: ["4.2"]
  threads:
    description: Threads of a server that is started.
    type: int
    default: 8
  exports:
    description: The exports.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the export; its layer is C(target-<name>).
        type: str
        required: true
      layer:
        description: Layer of the datastore on this host that is exported, with its mount point.
        type: str
        required: true
      clients:
        description: Addresses of the clients, or networks of theirs.
        type: list
        elements: str
        required: true
      sync:
        description: Whether the server answers a write only when it is on the disk. Without it data that were acknowledged are lost with the server.
        type: bool
        default: true
      read_only:
        description: Whether clients may only read.
        type: bool
        default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.layers
attributes:
  check_mode:
    description: Changes nothing, and refuses what would be refused.
    support: full
  diff_mode:
    description: Shows the steps, and the file of exports before and after.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: One datastore, for one client
  storlab.testbed.nfs_export:
    testbed_id: lab
    layers: "{{ ansible_facts.storlab_layers }}"
    addresses: [10.0.5.10]
    exports:
      - name: share
        layer: datastore-ds1
        clients: [10.0.5.21]

- name: Withdraw it, and stop the server when it was started for it
  storlab.testbed.nfs_export:
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
      description: V(write_file), V(remove_file), V(start_server), V(stop_server), V(export) or V(withdraw).
      returned: always
      type: str
      sample: export
    target:
      description: The object of the step.
      returned: always
      type: str
      sample: /srv/storlab/ds1 to 10.0.5.21
    was:
      description: The state before; null where there is none.
      returned: always
      type: str
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: str
      sample: rw,sync,no_subtree_check,no_root_squash,sec=sys,fsid=6d6a2a1c-3f0e-5c3b-9a55-0c1d2e3f4a5b
layers:
  description: The exports as layers to publish, without their host. They have no path, because an export is not measured where it is made.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: target-share
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: target
    parent:
      description: The layer below.
      returned: always
      type: str
      sample: datastore-ds1
    identity:
      description: The UUID of the file system, which is the fsid of the export, and its path.
      returned: always
      type: dict
      sample: {uuid: 6d6a2a1c-3f0e-5c3b-9a55-0c1d2e3f4a5b, export: /srv/storlab/ds1}
    detail:
      description: Facts for the report and for comparisons.
      returned: always
      type: dict
      sample: {provider: nfs, versions: ["4.2"], sync: true, read_only: false}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.exports import nfs_export


def main() -> None:
    module = AnsibleModule(argument_spec=nfs_export.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(nfs_export.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
