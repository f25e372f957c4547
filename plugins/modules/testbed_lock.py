#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: testbed_lock
short_description: Lets one playbook at a time change a testbed
version_added: 1.0.0
description:
  - O(state=held) fails with C(testbed_busy), naming who and since when, while another playbook changes the testbed. The playbooks of this collection that
    change something take the lock on the controller and on each Linux host; those that only read need none.
  - The lock is held by the process of the playbook, and lasts no longer than that process, however it ends. A process is identified by boot id, pid
    and start time; how old a lock is proves nothing. Taking it again in the same playbook, or in one that it starts, changes nothing.
  - Whether a process on another controller, or in another container, still runs cannot be seen. O(take_over) names it once it certainly is gone.
options:
  state:
    description:
      - V(held) takes the lock, unless this playbook has it. V(released) gives back what this playbook took for the same O(purpose).
    type: str
    choices: [held, released]
    default: held
  where:
    description: V(controller) is the file C(lock) in O(state_dir), V(host) is C(/run/storlab-<testbed_id>.lock) on the host of the task.
    type: str
    choices: [controller, host]
    default: controller
  testbed_id:
    description: The testbed.
    type: str
    required: true
  state_dir:
    description: Folder on the controller that keeps the testbed's state. Required with O(where=controller).
    type: path
  purpose:
    description: The activity, for the message to others.
    type: str
    required: true
  take_over:
    description: Whose lock to replace, when it cannot be seen whether it still runs, as the failure names it.
    type: str
    default: ""
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Does nothing in check mode, which reads.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Lock the testbed against changes by others
  storlab.testbed.testbed_lock:
    testbed_id: embedded
    state_dir: /tmp/storlab-example
    purpose: my own playbook

- name: Give it back
  storlab.testbed.testbed_lock:
    state: released
    testbed_id: embedded
    state_dir: /tmp/storlab-example
    purpose: my own playbook
"""

RETURN = r"""
holder:
  description: Who has the lock, which is this playbook or one that started it.
  returned: O(state=held)
  type: dict
  sample: {user: root, purpose: build, since_utc: "2026-11-21T16:33:10.123Z", process: {pid: 4711, host: ctl1}}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: testbed_busy, details: {testbed_id: embedded, where: the controller}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: testbed_busy
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
