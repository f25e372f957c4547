#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: testbed_lock_file
short_description: Writes and removes the lock of a testbed on a host
version_added: 1.0.0
description:
  - The part of M(storlab.testbed.testbed_lock) that runs on the host. Use that one; this one is for trying and repairing.
  - The holder is a process of the controller, so the controller judges whether it still runs.
options:
  state:
    description: V(held) writes the lock unless somebody else is in it. V(released) removes it when O(holder) is in it.
    type: str
    choices: [held, released]
    default: held
  testbed_id:
    description: The testbed.
    type: str
    required: true
  holder:
    description: Who is to have the lock.
    type: dict
    required: true
  instead_of:
    description: Whom to replace, as RV(holder) said.
    type: dict
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Does nothing in check mode, which reads.
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
- name: Give back a lock
  storlab.testbed.testbed_lock_file:
    state: released
    testbed_id: embedded
    holder: {process: {pid: 4711, host: ctl1}, purpose: build}
"""

RETURN = r"""
holder:
  description: Who else has the lock.
  returned: when someone else has it
  type: dict
  sample: {user: root, purpose: build, since_utc: "2026-11-21T16:33:10.123Z", process: {pid: 4711, host: ctl1}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.names import check_testbed_id
from ..module_utils.linux import testbed_lock


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
            "testbed_id": {"type": "str", "required": True},
            "holder": {"type": "dict", "required": True},
            "instead_of": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    options, other = module.params, None
    with failures_of(module):
        path = testbed_lock.host_path(check_testbed_id("testbed_id", options["testbed_id"]))
        if module.check_mode:
            pass
        elif options["state"] == "held":
            other = testbed_lock.take(path, options["holder"], options["instead_of"])
        else:
            testbed_lock.release(path, options["holder"])
    module.exit_json(changed=False, **({"holder": other} if other else {}))


if __name__ == "__main__":
    main()
