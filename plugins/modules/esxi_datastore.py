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
  - A VMFS datastore takes the whole of one LUN, which is found by its NAA identifier. It is never grown, and never formatted over what is there.
  - Several hosts share a VMFS datastore; the second one finds it when it rescans.
  - Unmounting and destroying are different states. Destroying needs the testbed's stamp, a file in the datastore's root, and no virtual machine on it.
  - When a LUN is a new, blank disk behind the old identifier (a RAM disk that was lost), the dead datastore is forgotten and made anew.
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
  - The storlab.testbed developers
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.storlab.testbed.plugins.module_utils import esxi
from ansible_collections.storlab.testbed.plugins.module_utils.esxi_datastore import Datastores, check, layer_of, plan, read, stamp_of
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.host import check_testbed_id


def ensure(session: esxi.Session, host, params: dict, check_mode: bool) -> dict:
    wanted = [(entry, check(entry, params["layers"], "datastore_datastores", params["testbed_id"], params["state"], check_mode))
              for entry in params["datastores"]]
    state, stores = read(session, host), Datastores(session, host)
    plans = [(want, plan(state, want, lambda name: stamp_of(session, host, name))) for _entry, want in wanted if want["type"] != "rdm"]
    for want, steps in plans:
        for step in steps:
            if not check_mode:
                stores.apply(step, want)
            elif "device" in step and len(steps) == 1:
                with session.doing(f"ask whether {want['naa']} can take a VMFS"):
                    stores.offer(step, want)
    if not check_mode:
        state = read(session, host) if any(steps for _want, steps in plans) else state
    steps = [{key: step[key] for key in ("op", "target", "was", "will")} for _want, its_steps in plans for step in its_steps]
    result = {"changed": bool(steps), "steps": steps,
              "diff": {side: "".join(f"{step['op']} {step['target']}: {step[key]}\n" for step in steps if step[key] is not None)
                       for side, key in (("before", "was"), ("after", "will"))}}
    if params["state"] == "present":
        volumes = {volume["name"]: volume for volume in state["volumes"]}
        result["layers"] = [layer_of(want, volumes.get(want["name"]), entry["layer"]) for entry, want in wanted]
        for layer, (_entry, want) in zip(result["layers"], wanted):
            layer["size_bytes"] = layer["size_bytes"] or (state["disks"].get(want["naa"]) or {}).get("size_bytes")
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **esxi.spec(),
            "testbed_id": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "unmounted", "absent"], "default": "present"},
            "layers": {"type": "dict", "default": {}},
            "datastores": {"type": "list", "elements": "dict", "required": True, "options": {
                "name": {"type": "str", "required": True},
                "type": {"type": "str", "choices": ["vmfs", "nfs", "rdm"], "default": "vmfs"},
                "layer": {"type": "str"},
                "version": {"type": "int", "default": 6},
                "compatibility": {"type": "str", "choices": ["physical", "virtual"], "default": "physical"},
                "server": {"type": "str"},
                "path": {"type": "str"},
            }},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        check_testbed_id("datastore_testbed_id", params["testbed_id"])
        with esxi.Session(params) as session:
            module.exit_json(about=session.about, **ensure(session, session.host(), params, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
