#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_datastore
short_description: Makes, mounts, unmounts and destroys datastores of an ESXi host
version_added: 0.2.0
description:
  - A VMFS datastore takes the whole of one LUN, which is found by its NAA identifier. It is never grown.
  - It is made on a blank LUN only. The host must name the device as available, its partition table must be empty, and no copy of a VMFS may be on it.
    An offer by the host of a VMFS on all of a device does not prove it, because it does so for devices that hold data.
  - Several hosts share a VMFS datastore. Each rescans before anything is planned, and finds what another host has made.
  - Unmounting and destroying are different states. Destroying needs the testbed's stamp, a file in the datastore's root; no virtual machine on it; no host
    other than O(hosts) that mounts it; and nothing else in its root, unless O(discard_contents) is true. A login to the host itself shows neither the machines
    that are registered with other hosts nor which other hosts mount a datastore, but the files of those machines.
  - A datastore that cannot be reached is not a lost one. Only when its device is lost for good, is a different device now, or is provably blank, and when the
    record in O(state_dir) says that this testbed made it and no virtual machine is registered on it, the host is made to forget it, so that
    V(present) can recreate it. Otherwise the task fails and says what to do.
options:
  testbed_id:
    description: The testbed the datastores belong to.
    type: str
    required: true
  state:
    description:
      - V(present) makes and mounts, V(unmounted) unmounts and keeps the contents, V(absent) destroys VMFS and lets go of NFS.
    type: str
    choices: [present, unmounted, absent]
    default: present
  state_dir:
    description:
      - Folder on the controller that keeps, among other things, which volumes this testbed has made on this host, and which it was about to make.
      - Without one a datastore that is lost with its device is never forgotten, because nothing proves whose it was; what a call has made that was cut
        is taken for somebody else's, because it has no stamp; and an NFS datastore that was there before is let go of like one of the testbed's own.
    type: path
    version_added: 1.0.0
  allow_device:
    description:
      - Devices that may be overwritten whatever is on them, by identifier or path, such as C(naa.600140512345678). Overwritten contents are in the steps.
      - A device that carries a datastore of this host, or that is mapped to a virtual machine, is refused nevertheless.
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  discard_contents:
    description: Also destroy a datastore that holds something. Machines that are registered on it, and hosts that mount it, still keep it.
    type: bool
    default: false
    version_added: 1.0.0
  hosts:
    description: Names of the hosts that may mount the datastores in addition to this one, as the vCenter calls them.
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  wait_s:
    description: How long the host may take until it shows what it, or another host, has made of a LUN.
    type: int
    default: 60
    version_added: 1.0.0
  datastores:
    description: The datastores.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name, at most 42 characters.
        type: str
        required: true
      type:
        description:
          - V(rdm) makes nothing on the LUN; it publishes it for guests that get it as a raw device mapping.
          - V(existing) is a datastore that was there before the testbed. It is found by its name and published for guests. It is never made, mounted,
            unmounted, stamped or destroyed, whatever O(state) and O(discard_contents) are.
        type: str
        choices: [vmfs, nfs, rdm, existing]
        default: vmfs
      access:
        description: Whether guests may have disks on one of type V(existing). Its layer has the purpose V(read) or V(data).
        type: str
        choices: [read, write]
        default: read
        version_added: 1.0.0
      layer:
        description: Name of the layer the LUN is, for V(vmfs) and V(rdm). With V(existing) it is the layer that the user says it is on.
        type: str
      version:
        description: VMFS version, 5 or 6.
        type: int
        default: 6
      compatibility:
        description: How a guest sees a LUN that is mapped raw.
        type: str
        choices: [physical, virtual]
        default: physical
      server:
        description: NFS server.
        type: str
      path:
        description: Path that the NFS server exports.
        type: str
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
  - storlab.testbed.layers
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken.
    support: full
  diff_mode:
    description: Shows what is changed.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Make a VMFS datastore on the testbed's LUN
  storlab.testbed.esxi_datastore:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    layers: "{{ ansible_facts.storlab_layers }}"
    datastores:
      - name: lab-ds1
        layer: initiator-ds1

- name: Unmount it and keep what is on it
  storlab.testbed.esxi_datastore:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state: unmounted
    datastores:
      - name: lab-ds1
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
kept:
  description: Datastores that were to go and stay, because they were there before the testbed. Only NFS is found so, where O(state_dir) is given.
  returned: always
  type: list
  elements: str
  sample: []
layers:
  description: The datastores as layers to publish, without their host.
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
about:
  description: The host, as RV(storlab.testbed.esxi_state#module:about) has it.
  returned: always
  type: dict
  sample: {product: VMware ESXi, version: 8.0.2, build: '22380479', api: 8.0.2.0, kind: HostAgent}
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.core.names import check_testbed_id
from ..module_utils.esxi import datastores
from ..module_utils.esxi import session as esxi


def main() -> None:
    module = AnsibleModule(
        argument_spec={**esxi.spec(env_fallback), **datastores.SPEC},
        supports_check_mode=True,
    )
    with failures_of(module):
        check_testbed_id("datastore_testbed_id", module.params["testbed_id"])
        with esxi.Session(module.params) as session:
            module.exit_json(
                about=session.about, **converge(partial(datastores.Area, session), module.params, module.check_mode)
            )


if __name__ == "__main__":
    main()
