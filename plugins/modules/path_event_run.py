#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: path_event_run
short_description: Makes an event on the way to a layer and undoes it
version_added: 1.0.0
description:
  - The part of M(storlab.testbed.path_event) that runs on the host of the target. Use that one; this one is for trying and repairing.
  - O(action=arm) leaves a daemon behind that waits until I/O arrives at the target steadily, makes the event, undoes it and notes when. A record
    of the undoing is written first, so O(action=stop) undoes it when the daemon was killed.
options:
  action:
    description: The action to take. V(events) reports what was noted so far.
    type: str
    choices: [arm, events, stop]
    required: true
  testbed_id:
    description: The testbed. Only targets that it made on this host are touched.
    type: str
    required: true
  name:
    description: Name of the event, by which it is found again.
    type: str
extends_documentation_fragment:
  - storlab.testbed.path_event
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Says what would change.
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
- name: Switch the target off for 15 s once I/O has arrived for 10 s
  storlab.testbed.path_event_run:
    action: arm
    testbed_id: embedded
    name: first
    target: iqn.2026-01.lab.example:bench
    for_s: 15

- name: End it, with the target on
  storlab.testbed.path_event_run:
    action: stop
    testbed_id: embedded
"""

RETURN = r"""
events:
  description: The events so far by name; the times are between two bounds, in seconds since 1970 by the clock of this host.
  returned: action=events
  type: dict
  sample: {first: {kind: target_off, for_s: 15.0, begun_unix_s: [1795278790.1, 1795278790.4], undone_unix_s: [1795278805.4, 1795278805.4]}}
undone:
  description: Whether an event was left to be undone.
  returned: action=stop
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.run import path_event


def main():
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["arm", "events", "stop"], "required": True},
            "testbed_id": {"type": "str", "required": True},
            "name": {"type": "str"},
            **path_event.SPEC,
        },
        required_if=[("action", "arm", ("name", "target"))],
        supports_check_mode=True,
    )
    options = module.params
    with failures_of(module):
        if options["action"] == "arm":
            wanted = {key: options[key] for key in ("name", *path_event.SPEC)}
            result = path_event.arm(options["testbed_id"], wanted, dry_run=module.check_mode)
        elif options["action"] == "stop":
            result = path_event.stop(options["testbed_id"], dry_run=module.check_mode)
        else:
            result = path_event.events(options["testbed_id"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
