#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: testbed_claims_host
short_description: Reads and restores the records of a testbed on a host
version_added: 1.0.0
description:
  - The part of M(storlab.testbed.testbed_claims) that runs on the host. Use that one; this one is for trying and repairing.
options:
  testbed_id:
    description: The testbed.
    type: str
    required: true
  claims:
    description: The claims to restore, as RV(claims) returned them. Without it nothing is changed.
    type: dict
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Says what would be restored.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux. Python 3.9 or later.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read what the testbed claims on this host
  storlab.testbed.testbed_claims_host:
    testbed_id: embedded
"""

RETURN = r"""
claims:
  description: The records of the testbed on this host without secrets, and marks that distinguish the things that they name from later ones of the same name.
  returned: success; with O(claims) after what is lost was restored
  type: dict
  sample: {boot_id: 4d1f0a54-2f5c-4d51-9c3f-0f3a4f0c7a11, areas: {tgt_target: {record: {modules: []}, witnesses: {}}}}
restored:
  description: Areas whose record was written again.
  returned: with O(claims)
  type: list
  elements: str
  sample: [tgt_target]
doubtful:
  description: Things the claims name, by area, that are not the very things that were claimed; they were left out.
  returned: with O(claims)
  type: dict
  sample: {ramdisk: [bench]}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.names import check_testbed_id
from ..module_utils.linux.watch import claims


def main():
    module = AnsibleModule(
        argument_spec={"testbed_id": {"type": "str", "required": True}, "claims": {"type": "dict"}},
        supports_check_mode=True,
    )
    with failures_of(module):
        testbed_id = check_testbed_id("testbed_id", module.params["testbed_id"])
        if module.params["claims"] is None:
            answer = {"changed": False, "claims": claims.kept(testbed_id)}
        else:
            answer = claims.restore(testbed_id, module.params["claims"], module.check_mode)
            answer.update(changed=bool(answer["restored"]), claims=claims.kept(testbed_id))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
