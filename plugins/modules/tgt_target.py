#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: tgt_target
short_description: iSCSI targets in user space (tgt)
version_added: 0.1.0
description:
  - Makes all targets of one testbed on a host with tgt, repairs what differs, or removes them, in one call.
  - The testbed has a tgtd of its own, with its own control port, that listens on the portals of O(targets) only. A tgtd of others is never touched.
  - CHAP secrets reach tgtd through its control socket and are in no argument list. tgtd does not show them again, so a salted hash of each, in a record
    only root can read, tells whether it changed.
  - What tgt cannot do is refused, never done by half. All LUNs of a target are seen by all its initiators, LUN 0 is tgt's own controller, a target has one
    mutual name, and a name has one secret. An initiator may use any of its target's CHAP names.
extends_documentation_fragment:
  - storlab.testbed.iscsi_targets
options:
  page_cache:
    description:
      - Whether tgtd reads and writes through the page cache of its host. Then many reads are answered from memory, whatever lies below, and writes
        are done before they have reached it.
      - By default it opens the devices for direct I/O, as LIO does, and LUNs have the logical block size of their device.
    type: bool
    default: false
  control_port:
    description: Number of the control socket of the testbed's tgtd; it is no TCP port.
    type: int
    default: 3260
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: Linux with tgt.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Export a RAM disk to one initiator
  storlab.testbed.tgt_target:
    testbed_id: embedded
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.lab.example:bench
        portals:
          - address: 10.213.0.11
        luns:
          - lun: 1
            name: bench
            layer: backing-bench
        initiators:
          - iqn: iqn.2026-01.lab.example:hypervisor01
            chap_user: hypervisor01
            chap_password: "{{ vaulted_chap_password }}"
"""

RETURN = r"""
steps:
  description: What was changed, or would be in check mode; without secrets.
  returned: always
  type: list
  elements: dict
layers:
  description: The LUNs as layers to publish, without their host.
  returned: when O(state=present)
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.failure import Failure
from ..module_utils.core.names import check_testbed_id
from ..module_utils.core.steps import shown
from ..module_utils.linux import block_device, iscsi_target
from ..module_utils.linux.host import wait_for
from ..module_utils.linux.tgt import TgtTarget, check_targets, lost_luns, lun_identity, plan


def refuse_lost(tgt: TgtTarget, steps: list, targets: list, params: dict, patience_s: float) -> None:
    """Raises target_in_use for LUNs that initiators would lose; waits for sessions that are just ending, unless they were asked already."""

    def lost():
        return lost_luns(tgt.current(), steps)

    wait_for(lambda: not lost(), 0 if params["uses"] else patience_s, interval_s=0.5)
    iscsi_target.refuse_withdrawn(iscsi_target.withdrawn(lost(), targets, params["layers"]), params["uses"])


def ensure(params: dict, check_mode: bool) -> dict:
    tgt = TgtTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]), params["control_port"])
    if params["state"] == "absent" or not params["targets"]:
        there = bool(tgt.record.data or tgt.pid())
        steps = (
            [{"op": "stop", "target": "tgtd", "was": "running" if tgt.pid() else "recorded", "will": None}]
            if there
            else []
        )
        if there and not check_mode:
            refuse_lost(tgt, steps, [], params, patience_s=60)
            tgt.remove_all()
        return {**shown(steps), **({"layers": []} if params["state"] == "present" else {})}
    targets = iscsi_target.check_targets(
        params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
    )
    for lun in [lun for target in targets for lun in target["luns"]]:
        # In check mode on a fresh host the device below is not there yet.
        lun["block_bytes"] = (lun["device"] and block_device.logical_block_bytes(lun["device"])) or 512
    accounts = check_targets(targets)
    current = tgt.current()
    steps = plan(
        current, targets, tgt.changed_accounts(accounts) & current["accounts"], tgt.testbed_id, params["page_cache"]
    )
    added = {step["lun"] for step in steps if step["op"] == "add_lun"}
    for name, lun in [(target["name"], lun) for target in targets for lun in target["luns"] if lun["name"] in added]:
        ours = any(
            found.get("device") == lun["device"]
            for known in current["targets"].values()
            for found in known["luns"].values()
        )
        # In check mode on a fresh host the device below is not there yet.
        if not ours and not (check_mode and lun["expected"]):
            iscsi_target.refuse_unsafe(lun, name, tgt.testbed_id)
    refuse_lost(tgt, steps, targets, params, patience_s=5)
    if steps and not check_mode:
        tgt.apply(steps, targets, accounts)
    layers = iscsi_target.layers_of(
        targets,
        params["layers"],
        lambda target, lun: lun_identity(tgt.testbed_id, target, lun),
        "tgt",
        page_cache=params["page_cache"],
    )
    return {**shown(steps), "layers": layers}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **iscsi_target.SPEC,
            "control_port": {"type": "int", "default": 3260},
            "page_cache": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**ensure(module.params, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
