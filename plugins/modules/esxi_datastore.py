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
    That the host offers a VMFS on all of a device is no proof, because it does so for devices that hold data.
  - Several hosts share a VMFS datastore. Each rescans before anything is planned, and finds what another one has made.
  - Unmounting and destroying are different states. Destroying needs the testbed's stamp, a file in the datastore's root, and no virtual machine on it.
  - A datastore that cannot be reached is not a lost one. Only when its device is lost for good, is another one now, or is provably blank, and when the
    record in O(state_dir) says that this testbed made it and no virtual machine is registered on it, the host is made to forget it, so that
    V(present) can make it anew. Otherwise the task fails and says what to do.
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
      - Folder on the controller that keeps, among other things, which volumes this testbed has made on this host.
      - Without one a datastore that is lost with its device is never forgotten, because nothing proves whose it was.
    type: path
    version_added: 0.4.0
  allow_device:
    description:
      - Devices that may be overwritten whatever is on them, by identifier or path, such as C(naa.600140512345678). What was overwritten is in the steps.
      - A device that carries a datastore of this host, or that is mapped to a virtual machine, is refused nevertheless.
    type: list
    elements: str
    default: []
    version_added: 0.4.0
  wait_s:
    description: How long the host may take until it shows what it, or another host, has made of a LUN.
    type: int
    default: 60
    version_added: 0.4.0
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers).
    type: dict
    default: {}
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
        description: V(rdm) makes nothing on the LUN; it publishes it for guests that get it as a raw device mapping.
        type: str
        choices: [vmfs, nfs, rdm]
        default: vmfs
      layer:
        description: Name of the layer the LUN is, for V(vmfs) and V(rdm).
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
  - storlab.testbed.esxi
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
  description: What was changed, or would be in check mode.
  returned: always
  type: list
  elements: dict
layers:
  description: The datastores as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
about:
  description: What the host is, C(product), C(version), C(build), C(api), C(kind).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.failure import Failure
from ..module_utils.core.memory import Memory
from ..module_utils.core.names import check_testbed_id
from ..module_utils.core.steps import shown
from ..module_utils.esxi import session as esxi
from ..module_utils.esxi.datastore import (
    Datastores,
    behind,
    check,
    layer_of,
    plan,
    read,
    remembered,
    stamp_of,
    visible,
)


def ensure(session: esxi.Session, host, params: dict, memory: Memory | None, check_mode: bool) -> dict:
    wanted = [
        (
            entry,
            check(
                entry,
                params["layers"],
                "datastore_datastores",
                params["testbed_id"],
                params["state"],
                check_mode,
                params["allow_device"],
            ),
        )
        for entry in params["datastores"]
    ]
    names, naas = [want["name"] for _entry, want in wanted], [want["naa"] for _entry, want in wanted if want["naa"]]
    recorded = memory.data.get("datastores", {}) if memory else {}
    stores = Datastores(session, host)
    if not check_mode and any(want["type"] == "vmfs" for _entry, want in wanted):
        # What another host has made of a shared LUN shows only after a rescan of this one, and then a while later.
        stores.rescan()
    state = session.until(
        lambda: read(session, host, names, naas),
        lambda seen: check_mode or not any(behind(seen, want) for _entry, want in wanted),
        params["wait_s"],
    )
    plans = [
        (want, plan(state, want, lambda name: stamp_of(session, host, name), recorded))
        for _entry, want in wanted
        if want["type"] != "rdm"
    ]
    for want, steps in plans:
        for step in steps:
            if not check_mode:
                stores.apply(step, want)
            elif "device" in step and len(steps) == 1:
                with session.doing(f"ask whether {want['naa']} can take a VMFS"):
                    stores.offer(step, want)
    if not check_mode:
        taken = [want for want, steps in plans if steps]
        if taken:
            state = settle(session, host, taken, params["wait_s"])
        if memory:
            remember(memory, [want for _entry, want in wanted], state)
    result = shown([step for _want, its_steps in plans for step in its_steps])
    if params["state"] == "present":
        volumes = {volume["name"]: volume for volume in state["volumes"]}
        result["layers"] = [layer_of(want, volumes.get(want["name"]), entry["layer"]) for entry, want in wanted]
        for layer, (_entry, want) in zip(result["layers"], wanted):
            layer["size_bytes"] = layer["size_bytes"] or (state["disks"].get(want["naa"]) or {}).get("size_bytes")
    return result


def settle(session: esxi.Session, host, wanted: list, wait_s: float) -> dict:
    """The state once the host shows what was done, so that who reads it next sees it."""
    state = session.until(lambda: read(session, host), lambda seen: all(visible(seen, want) for want in wanted), wait_s)
    for want in wanted:
        if not visible(state, want):
            raise Failure(
                "change_unseen",
                f"The host does not show the datastore {want['name']} as it was made {want['state']} {wait_s} s ago.",
                "Look at the host's events; a longer datastore_esxi_wait_s may help.",
                name=want["name"],
            )
    return state


def remember(memory: Memory, wanted: list, state: dict) -> None:
    kept = remembered(memory.data.get("datastores", {}), wanted, state)
    if kept != memory.data.get("datastores", {}):
        memory.data["datastores"] = kept
        memory.save() if kept else memory.forget()


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **esxi.spec(env_fallback),
            "testbed_id": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "unmounted", "absent"], "default": "present"},
            "state_dir": {"type": "path"},
            "allow_device": {"type": "list", "elements": "str", "default": []},
            "wait_s": {"type": "int", "default": 60},
            "layers": {"type": "dict", "default": {}},
            "datastores": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "type": {"type": "str", "choices": ["vmfs", "nfs", "rdm"], "default": "vmfs"},
                    "layer": {"type": "str"},
                    "version": {"type": "int", "default": 6},
                    "compatibility": {"type": "str", "choices": ["physical", "virtual"], "default": "physical"},
                    "server": {"type": "str"},
                    "path": {"type": "str"},
                },
            },
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        check_testbed_id("datastore_testbed_id", params["testbed_id"])
        with esxi.Session(params) as session:
            host = session.host()
            with session.doing("read the host's name"):
                area = f"datastore-{params['testbed_id']}"
                memory = Memory(params["state_dir"], area, host.name) if params["state_dir"] else None
            module.exit_json(about=session.about, **ensure(session, host, params, memory, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
