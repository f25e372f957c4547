#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_state
short_description: Reads what the storage of an ESXi host looks like
version_added: 0.2.0
description:
  - The counterpart of M(storlab.testbed.storage_state) for ESXi hosts; M(storlab.testbed.storage_baseline) compares two of its answers.
  - Reads the software iSCSI adapter with its targets, options and bound interfaces, the network, the devices, the datastores, the virtual machines and the
    options and settings that testbeds set.
options:
  testbed_id:
    description: The testbed whose things RV(ours) names.
    type: str
    default: ""
  state_dir:
    description: Folder on the controller that keeps the records of O(testbed_id). Without it RV(kept_for_others) is empty.
    type: path
  images:
    description: Images that machines are going to be installed from. RV(room) names the ones that are missing.
    type: list
    elements: dict
    default: []
    version_added: 1.0.0
    suboptions:
      datastore:
        description: Datastore of the image.
        type: str
      path:
        description: Its path there.
        type: str
      src:
        description: File on the controller that is to be uploaded, in the place of one that is there.
        type: path
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
attributes:
  check_mode:
    description: Reads only.
    support: full
  diff_mode:
    description: Nothing differs.
    support: none
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read the state
  storlab.testbed.esxi_state:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
  register: now
"""

RETURN = r"""
storage_state:
  description: Sorted lines of text by section.
  returned: always
  type: dict
  sample: {block_devices: [vda 1073741824 bytes], iscsi_sessions: []}
read_only_licence:
  description: Name of the licence that lets the host be read and not changed.
  returned: when a host on its own has such a licence
  type: str
  sample: VMware vSphere Hypervisor
ours:
  description: The lines whose virtual machine carries the stamp of O(testbed_id); sections without ownership information are not in it.
  returned: always
  type: dict
  sample: {virtual machines: []}
kept_for_others:
  description:
    - By section the lines that a teardown of O(testbed_id) leaves, because others use it or have brought it, by the records in O(state_dir).
    - While others have targets on the software iSCSI adapter that came since the build, these are its settings, the network of its bound interfaces, those
      targets, and the devices and datastores behind them. So are NFS datastores that the testbed has not mounted.
  returned: always
  type: dict
  sample: {iscsi adapter: [{line: "bound vmk2", before: null, why: "kept for send 192.0.2.90:3260"}]}
existing:
  description: The datastores that can be reached, each with its C(name), an C(entry) for C(testbed.existing) and C(what) it is; C(shared) is true.
  returned: always
  type: list
  elements: dict
  sample: [{name: datastore1, entry: {kind: esxi_datastore}, what: datastore with 500.0 GiB free, shared: true}]
room:
  description: The host's room for more machines.
  returned: always
  type: dict
  contains:
    memory_mib:
      description: Memory of the host without the reservations of running machines; null where the host does not report it.
      returned: always
      type: int
      sample: 65426
    machines:
      description: The machines that are there.
      returned: always
      type: list
      elements: str
      sample: [vcenter]
    datastores:
      description: C(free_mib) and C(accessible) of each datastore.
      returned: always
      type: dict
      sample: {datastore1: {free_mib: 512000, accessible: true}}
    missing:
      description: O(images) that are not there.
      returned: always
      type: list
      elements: str
      sample: ["[datastore1] iso/windows2022.iso"]
addresses:
  description: The address of each VMkernel interface.
  returned: always
  type: dict
  sample: {vmk0: 192.0.2.31}
about:
  description: The host's C(product), C(version), C(build), C(api) and C(kind). A stand-in for a host also has C(stand_in).
  returned: always
  type: dict
  contains:
    product:
      description: Its name.
      returned: always
      type: str
      sample: VMware ESXi
    version:
      description: Its version.
      returned: always
      type: str
      sample: 8.0.2
    build:
      description: Its build.
      returned: always
      type: str
      sample: "22380479"
    api:
      description: Version of its interface.
      returned: always
      type: str
      sample: 8.0.2.0
    kind:
      description: V(HostAgent) for a host on its own, V(VirtualCenter) for a vCenter.
      returned: always
      type: str
      sample: HostAgent
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.esxi import adapter as esxi_iscsi
from ..module_utils.esxi import datastore as esxi_datastore
from ..module_utils.esxi import host_state, machine_state
from ..module_utils.esxi import network as esxi_network
from ..module_utils.esxi import room as esxi_room
from ..module_utils.esxi import session as esxi
from ..module_utils.esxi import settings as esxi_settings


def main() -> None:
    spec = {
        **esxi.spec(env_fallback),
        "testbed_id": {"type": "str", "default": ""},
        "state_dir": {"type": "path"},
        "images": esxi_room.IMAGES,
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    with failures_of(module), esxi.Session(module.params) as session:
        host, testbed_id = session.host(), module.params["testbed_id"]
        adapter = esxi_iscsi.read(session, host, optional=esxi_iscsi.HOST_OPTIONS)
        stores = esxi_datastore.read(session, host)
        network, settings = esxi_network.read(session, host), esxi_settings.read(session, host)
        with session.doing("list the virtual machines"):
            machines = [vm.name for vm in host.vm]
            ours = machine_state.ours(host, testbed_id)
        kept = {}
        if testbed_id and module.params["state_dir"]:
            records = host_state.records(module.params["state_dir"], testbed_id, network["host"])
            kept = host_state.left(adapter, stores, network, records, network["host"])
        room = esxi_room.room(session, host, module.params["images"])
        module.exit_json(
            changed=False,
            existing=esxi_room.offers(room["datastores"]),
            about=session.about,
            **session.licence(),
            storage_state=host_state.lines(adapter, stores, machines, network, settings),
            ours=ours,
            kept_for_others=kept,
            room=room,
            addresses={device: nic["address"] for device, nic in network["interfaces"].items()},
        )


if __name__ == "__main__":
    main()
