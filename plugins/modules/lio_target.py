#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lio_target
short_description: iSCSI targets of the Linux kernel (LIO)
version_added: 0.1.0
description:
  - Makes all targets of one testbed on a host, repairs what differs, or removes them, in one call.
  - Works on the kernel's own interface, configfs; targetcli is not needed and its saved configuration is not touched.
  - Backstores are called C(storlab-<testbed_id>-<lun name>). Targets and backstores of others are never touched.
  - CHAP secrets are written to and compared in configfs, where only root can read them; they are in no argument list and no result.
extends_documentation_fragment:
  - storlab.testbed.iscsi_targets
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Export a RAM disk to one initiator
  storlab.testbed.lio_target:
    testbed_id: embedded
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - name: iqn.2026-01.lab.example:bench
        portals:
          - address: 10.213.0.11
        luns:
          - lun: 0
            name: bench
            layer: backing-bench
        initiators:
          - iqn: iqn.2026-01.lab.example:hypervisor01
            chap_user: hypervisor01
            chap_password: "{{ vaulted_chap_password }}"

- name: Remove the testbed's targets
  storlab.testbed.lio_target:
    testbed_id: embedded
    state: absent
"""

RETURN = r"""
steps:
  description: What was changed in configfs, or would be in check mode; secrets are masked.
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
from ..module_utils.core.steps import diff_of
from ..module_utils.linux import iscsi_target
from ..module_utils.linux.lio import LioTarget, lun_identity, newly_exported, plan


def ensure(params: dict, check_mode: bool) -> dict:
    lio = LioTarget(check_testbed_id("iscsi_target_testbed_id", params["testbed_id"]))
    if params["state"] == "absent":
        steps = plan(lio.current(), [])
        changed = bool(steps or lio.record.data)
        if changed and not check_mode:
            # The session of an initiator that died lasts until LIO misses its answers.
            lost = lio.lost_luns(lio.current(), steps, patience_s=0 if params["uses"] else 60)
            iscsi_target.refuse_withdrawn(iscsi_target.withdrawn(lost, [], params["layers"]), params["uses"])
            lio.remove_all(steps)
        return {"changed": changed, "steps": steps, "diff": diff_of(steps, lambda step: step["path"])}
    targets = iscsi_target.check_targets(
        params["targets"], params["layers"], params["allow_no_chap"], params["allow_any_address"]
    )
    current = lio.current()
    lio.refuse_foreign(current, targets)
    entries = lio.entries(current, targets)
    steps = plan(current, entries)
    for target, lun in newly_exported(current, steps, targets, lio.testbed_id):
        # In check mode on a fresh host the device below is not there yet.
        if not (check_mode and lun["expected"]):
            iscsi_target.refuse_unsafe(lun, target["name"], lio.testbed_id)
    lost = lio.lost_luns(current, steps, patience_s=0 if params["uses"] else 5)
    iscsi_target.refuse_withdrawn(iscsi_target.withdrawn(lost, targets, params["layers"]), params["uses"])
    if steps and not check_mode:
        lio.apply(targets, steps, entries)
    layers = iscsi_target.layers_of(
        targets, params["layers"], lambda target, lun: lun_identity(lio.testbed_id, target, lun), "lio"
    )
    return {"changed": bool(steps), "steps": steps, "diff": diff_of(steps, lambda step: step["path"]), "layers": layers}


def main() -> None:
    module = AnsibleModule(argument_spec=iscsi_target.SPEC, supports_check_mode=True)
    try:
        module.exit_json(**ensure(module.params, module.check_mode))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
