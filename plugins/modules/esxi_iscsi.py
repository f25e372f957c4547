#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_iscsi
short_description: Connects the software iSCSI adapter of an ESXi host with targets and finds their LUNs
version_added: 0.2.0
description:
  - Enables the software iSCSI adapter, gives it its name, options and bound interfaces, adds targets with their CHAP settings, rescans, and waits until
    every LUN is there, in one call and one session. Gives everything back with O(state=absent).
  - A LUN is found by target and number, and proven by its serial, NAA identifier and size.
  - CHAP is set at each target, or at the adapter with O(adapter_chap). A secret cannot be read back from the host; a salted digest in O(state_dir) tells
    whether it has changed.
  - What fails is undone; nothing half built is left.
  - The adapter's alias is the testbed's stamp, C(storlab-<testbed_id>). What was there before is kept in O(state_dir).
options:
  testbed_id:
    description: The testbed the connection belongs to.
    type: str
    required: true
  state:
    description: V(present) makes the connection, V(absent) gives the adapter back as it was.
    type: str
    choices: [present, absent]
    default: present
  state_dir:
    description: Folder on the machine where the task runs that keeps what the host looked like before.
    type: path
    required: true
  initiator_name:
    description: The iSCSI qualified name (IQN) of the host's adapter. Required when O(state=present).
    type: str
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers). What they say of a LUN's serial, NAA identifier and size must hold.
    type: dict
    default: {}
  options:
    description: Options of the adapter such as V(DelayedAck), V(NoopOutInterval), V(LoginTimeout), V(MaxBurstLength), by the names that the host gives them.
    type: dict
    default: {}
  host_options:
    description: Advanced options of the host such as V(ISCSI.MaxIoSizeKB).
    type: dict
    default: {}
  queue_depth:
    description: Commands that may be outstanding at one LUN. The host takes it over when it starts next, see RV(reboot_required). By default as it is.
    type: int
  port_binding:
    description: VMkernel interfaces to bind to the adapter.
    type: list
    elements: str
    default: []
  adapter_chap:
    description: CHAP settings of the adapter itself, which targets without their own use. Refused when others have set some.
    type: dict
    suboptions:
      chap_user:
        description: The name this initiator gives.
        type: str
        required: true
      chap_password:
        description: The secret this initiator gives.
        type: str
        required: true
      mutual_chap_user:
        description: The name the target must give in return.
        type: str
      mutual_chap_password:
        description: The secret the target must give in return.
        type: str
  wait_s:
    description: How long to wait for the LUNs.
    type: int
    default: 60
  targets:
    description: The targets to log in to.
    type: list
    elements: dict
    default: []
    suboptions:
      iqn:
        description: Name of the target.
        type: str
        required: true
      portal:
        description: Where it listens.
        type: dict
        required: true
        suboptions:
          address:
            description: IP address.
            type: str
            required: true
          port:
            description: TCP port.
            type: int
            default: 3260
      discovery:
        description: V(dynamic) asks the portal for its targets, V(static) names the target only.
        type: str
        choices: [dynamic, static]
        default: dynamic
      discovery_chap:
        description: Whether the discovery session uses CHAP, too. Targets such as LIO refuse that unless they are set up for it.
        type: bool
        default: false
      chap_user:
        description: The name this initiator gives.
        type: str
      chap_password:
        description: The secret this initiator gives.
        type: str
      mutual_chap_user:
        description: The name the target must give in return.
        type: str
      mutual_chap_password:
        description: The secret the target must give in return.
        type: str
      luns:
        description: The LUNs that must be there.
        type: list
        elements: dict
        required: true
        suboptions:
          lun:
            description: The logical unit number.
            type: int
            required: true
          name:
            description: Name of the LUN in the testbed.
            type: str
            required: true
          parent:
            description: Name of the layer its I/O goes through next.
            type: str
          purpose:
            description: V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
            type: str
            choices: [scratch, data]
            default: scratch
          serial:
            description: The unit serial it must have.
            type: str
          naa:
            description: The NAA identifier it must have.
            type: str
          size_bytes:
            description: The size it must have.
            type: int
extends_documentation_fragment:
  - storlab.testbed.esxi
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers
"""

EXAMPLES = r"""
- name: Connect an ESXi host with the testbed's target
  storlab.testbed.esxi_iscsi:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state_dir: /var/lib/lab/state
    initiator_name: iqn.2026-01.example.lab:esxi01
    options:
      DelayedAck: false
    host_options:
      ISCSI.MaxIoSizeKB: 512
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - iqn: iqn.2026-01.example.lab:target01
        portal:
          address: 192.0.2.11
        chap_user: esxi01
        chap_password: "{{ vaulted_chap_password }}"
        luns:
          - lun: 1
            name: ds1
            parent: target-ds1
            purpose: data
"""

RETURN = r"""
steps:
  description: What was changed, or would be in check mode; secrets are in none of them.
  returned: always
  type: list
  elements: dict
layers:
  description: The LUNs as layers to publish, without their host. They have no path, because only the hypervisor issues I/O there.
  returned: when O(state=present)
  type: list
  elements: dict
luns:
  description: All LUNs that the host sees, each C(iqn), C(lun), C(name), C(naa), C(serial), C(size_bytes), C(device), C(state).
  returned: when O(state=present)
  type: list
  elements: dict
waited_s:
  description: How long it took from the last rescan until all LUNs were there.
  returned: when O(state=present) and not in check mode
  type: float
adapter:
  description: Name of the adapter, such as V(vmhba65).
  returned: when O(state=present) and it is enabled
  type: str
reboot_required:
  description: Whether the host must be restarted before the queue depth holds.
  returned: when O(state=present)
  type: bool
about:
  description: What the host is, C(product), C(version), C(build), C(api), C(kind). A simulated host says so.
  returned: always
  type: dict
"""

import contextlib
import copy
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.storlab.testbed.plugins.module_utils import esxi
from ansible_collections.storlab.testbed.plugins.module_utils.esxi_iscsi import (
    CHAP,
    SECRETS,
    Adapter,
    absent_plan,
    entries,
    entry_key,
    keep_secret,
    missing,
    plan,
    prove,
    read,
)
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure, bad_value
from ansible_collections.storlab.testbed.plugins.module_utils.host import check_testbed_id
from ansible_collections.storlab.testbed.plugins.module_utils.iscsi_names import check_chap, check_iqn, portal_address
from ansible_collections.storlab.testbed.plugins.module_utils.open_iscsi import expected, layers_of


def check(params: dict) -> list:
    """The targets with what is expected of their LUNs; raises bad_value."""
    check_iqn("iscsi_initiator_name", params["initiator_name"])
    if params["queue_depth"] is not None and not 1 <= params["queue_depth"] <= 255:
        raise bad_value("iscsi_initiator_queue_depth", params["queue_depth"], "Give 1 to 255.")
    targets = []
    for target in params["targets"]:
        check_iqn("iscsi_initiator_targets iqn", target["iqn"])
        check_chap(f"iscsi_initiator_targets {target['iqn']}", target, allow_none=True)
        portal = {**target["portal"], "address": portal_address(f"iscsi_initiator_targets {target['iqn']} portal", target["portal"]["address"])}
        luns = [{**expected(lun, target["iqn"], params["layers"]), "layer_kind": "initiator"} for lun in target["luns"]]
        targets.append({**target, "portal": portal, "luns": luns})
    return targets


def undo(adapter: Adapter, session: esxi.Session, host, before: dict, done: list) -> None:
    """Give back what this call has changed. A fault on the way is not the one that the user must hear of."""
    added = [step["entry"] for step in done if step["op"] == "add_target"]
    changes = {"before": before, "targets": [entry_key(entry) for entry in added],
               "bound": [step["target"] for step in done if step["op"] == "bind"],
               "options": [key for step in done if step["op"] == "options" for key in step["will"]],
               "queue_depth": any(step["op"] == "queue_depth" for step in done),
               "secrets": {step["target"]: True for step in done if step["op"] == "chap"}}
    with contextlib.suppress(Failure):
        state = read(session, host, before["host_options"])
        for step in absent_plan(state, changes):
            adapter.apply(step)


def as_it_was(state: dict) -> dict:
    kept = {key: state[key] for key in ("enabled", "iqn", "alias", "options", "module_options", "host_options")}
    return {**kept, "targets": [entry_key(target) for target in state["targets"]]}


def remember(memory: esxi.Memory, state: dict, want: dict) -> None:
    """What the teardown needs, written before anything is changed."""
    known = memory.data.get("before") or as_it_was(state)
    # An option that is asked for later was still the host's own until now.
    known["host_options"] = {**state["host_options"], **known["host_options"]}
    wanted = entries(want["targets"])
    memory.data.update(
        before=known,
        targets=sorted(set(memory.data.get("targets", [])) | {entry_key(entry) for entry in wanted}),
        bound=sorted(set(memory.data.get("bound", [])) | {name for name in want["port_binding"] if name not in state["bound"]}),
        options=sorted(set(memory.data.get("options", [])) | set(want["options"])),
        queue_depth=bool(want["queue_depth"]) or memory.data.get("queue_depth", False),
    )
    memory.save()


def restore(memory: esxi.Memory, earlier: dict, done: list) -> None:
    """The record as it was before a call that failed. Of a secret that was set meanwhile nobody knows any more whether it is the old one."""
    for step in done:
        earlier.get("secrets", {}).pop(step["target"], None)
    memory.data = earlier
    if earlier:
        memory.save()
    else:
        memory.forget()


def present(session: esxi.Session, host, params: dict, memory: esxi.Memory, check_mode: bool) -> dict:
    targets = check(params)
    own = params["adapter_chap"]
    if own:
        check_chap("iscsi_initiator_esxi_adapter_chap", own, allow_none=False)
    want = {"testbed_id": params["testbed_id"], "name": params["initiator_name"], "targets": targets,
            "adapter_chap": {key: own[key] or "" for key in CHAP} if own else None,
            **{key: params[key] for key in ("options", "host_options", "queue_depth", "port_binding")}}
    state = read(session, host, params["host_options"])
    ours = {entry_key(entry) for entry in entries(targets)} - set(memory.data.get("targets", []))
    foreign = [target for target in state["targets"] if entry_key(target) in ours and not target["discovered"]]
    if foreign:
        raise Failure("target_foreign", f"{entry_key(foreign[0])} is configured on this host already, and not by this testbed.",
                      "Remove it there, or use another portal.", target=entry_key(foreign[0]))
    steps = plan(state, want, memory.data)
    waited: dict = {}
    adapter, found, done, earlier = Adapter(session, host, state["device"]), state["luns"], [], copy.deepcopy(memory.data)
    if not check_mode:
        if any(step["op"] != "rescan" for step in steps):
            remember(memory, state, want)
        try:
            for step in steps:
                adapter.apply(step)
                done.append(step)
                if step["op"] in ("chap", "chap_found"):
                    memory.data.setdefault("secrets", {})[step["target"]] = {key: keep_secret(step["entry"][key]) for key in SECRETS if step["entry"][key]}
                    memory.save()
            begun = time.monotonic()
            found = adapter.wait(targets, params["wait_s"]) if targets else found
            waited = {"waited_s": round(time.monotonic() - begun, 2)}
            disks = prove(targets, found)
        except Failure:
            undo(adapter, session, host, as_it_was(state), done)
            restore(memory, earlier, done)
            raise
    else:
        disks = {} if missing(found, targets) else prove(targets, found)
    result = {"luns": found, "layers": [{**layer, "path": None} for layer in layers_of(targets, disks, "esxi")],
              "reboot_required": any(step["op"] == "queue_depth" for step in steps)}
    name = state["device"] if check_mode else adapter.device()
    return {**result, **waited, **({"adapter": name} if name else {}), **told(steps)}


def absent(session: esxi.Session, host, params: dict, memory: esxi.Memory, check_mode: bool) -> dict:
    state = read(session, host, memory.data.get("before", {}).get("host_options", {}))
    steps = absent_plan(state, memory.data)
    if not check_mode:
        adapter = Adapter(session, host, state["device"])
        for step in steps:
            adapter.apply(step)
        memory.forget()
    return told(steps)


def told(steps: list) -> dict:
    """Steps without the entries, which hold secrets, and their diff. A rescan alone changes nothing."""
    plain = [{key: step[key] for key in ("op", "target", "was", "will")} for step in steps]
    diff = {side: "".join(f"{step['op']} {step['target']}: {step[key]}\n" for step in plain if step[key] is not None)
            for side, key in (("before", "was"), ("after", "will"))}
    return {"changed": any(step["op"] not in ("discover", "rescan") for step in plain), "steps": plain, "diff": diff}


def main() -> None:
    lun = {
        "lun": {"type": "int", "required": True}, "name": {"type": "str", "required": True}, "parent": {"type": "str"},
        "purpose": {"type": "str", "choices": ["scratch", "data"], "default": "scratch"},
        "serial": {"type": "str"}, "naa": {"type": "str"}, "size_bytes": {"type": "int"},
    }
    chap = {
        "chap_user": {"type": "str"}, "chap_password": {"type": "str", "no_log": True},
        "mutual_chap_user": {"type": "str"}, "mutual_chap_password": {"type": "str", "no_log": True},
    }
    target = {
        "iqn": {"type": "str", "required": True},
        "portal": {"type": "dict", "required": True, "options": {"address": {"type": "str", "required": True}, "port": {"type": "int", "default": 3260}}},
        "discovery": {"type": "str", "choices": ["dynamic", "static"], "default": "dynamic"},
        "discovery_chap": {"type": "bool", "default": False},
        **chap,
        "luns": {"type": "list", "elements": "dict", "required": True, "options": lun},
    }
    module = AnsibleModule(
        argument_spec={
            **esxi.spec(),
            "testbed_id": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "state_dir": {"type": "path", "required": True},
            "initiator_name": {"type": "str"},
            "layers": {"type": "dict", "default": {}},
            "options": {"type": "dict", "default": {}},
            "host_options": {"type": "dict", "default": {}},
            "queue_depth": {"type": "int"},
            "port_binding": {"type": "list", "elements": "str", "default": []},
            "adapter_chap": {"type": "dict", "options": {key: {**value, "required": not key.startswith("mutual")} for key, value in chap.items()}},
            "wait_s": {"type": "int", "default": 60},
            "targets": {"type": "list", "elements": "dict", "default": [], "options": target},
        },
        required_if=[("state", "present", ["initiator_name"])],
        supports_check_mode=True,
    )
    params = module.params
    try:
        check_testbed_id("iscsi_initiator_testbed_id", params["testbed_id"])
        with esxi.Session(params) as session:
            host = session.host()
            with session.doing("read the host's name"):
                memory = esxi.Memory(params["state_dir"], f"iscsi-{params['testbed_id']}", host.name)
            work = present if params["state"] == "present" else absent
            module.exit_json(about=session.about, **work(session, host, params, memory, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
