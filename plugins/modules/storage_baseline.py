#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: storage_baseline
short_description: Keeps a host's storage state before a build and proves that the teardown brought it back
version_added: 0.1.0
description:
  - O(state=captured) reads the state with M(storlab.testbed.storage_state) and keeps it on the controller,
    in C(before/<host>.json) of O(state_dir). A state that is kept already and was not yet verified stays, so a second build does not
    take the testbed for the host's own state. After a verification that failed the next capture replaces it.
  - O(state=verified) reads the state again, compares, and fails naming each stray. Everything the testbed has made is a stray, by its records
    (C(made/<host>.json) of O(state_dir)) or by its mark, whatever was there before. So is what was there before and is gone, where the testbed may have
    taken it. Everything else that differs is of others, and in RV(notes).
  - A host that was restarted in between has lost everything that does not outlive a restart; that is in RV(notes), too.
  - Where no state is kept, it fails and lists what carries the testbed's name.
  - States that another module has read (O(storage_state)) show owners in some sections only (O(ours)); in the others every difference is a stray, and so is
    all that is gone.
  - Runs on the controller and reads on the host. Changes nothing on the host.
options:
  state:
    description: The action to take.
    type: str
    choices: [captured, verified]
    required: true
  testbed_id:
    description: Entries in the records of other testbeds of this collection on the host are left out.
    type: str
    default: ""
  own_names:
    description: Further names under which this testbed keeps folders on the host, see M(storlab.testbed.storage_state).
    type: list
    elements: str
    default: []
  storage_state:
    description: The state, where another module has read it, as M(storlab.testbed.esxi_state) does. By default it is read on the host.
    type: dict
  ours:
    description: The lines of O(storage_state) that the testbed has made. In a section that is not in it every difference is a stray.
    type: dict
    default: {}
  kept_for_others:
    description:
      - What a teardown leaves on the host for others, by section, as M(storlab.testbed.esxi_state) returns it.
      - It is in RV(notes), with the reason, and not a stray.
      - A captured state has it as it was before the testbed, because a later teardown gives it back so.
    type: dict
    default: {}
  ignore:
    description: Regular expressions. Differences that one of them matches are not strays.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.state
attributes:
  check_mode:
    description: Writes nothing in check mode. Verifies as usual.
    support: full
  diff_mode:
    description: Does not show differences. The failure lists them.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Record the state of the host
  storlab.testbed.storage_baseline:
    state: captured
    testbed_id: embedded
    state_dir: /tmp/storlab-example

- name: Prove that nothing of the testbed is left
  storlab.testbed.storage_baseline:
    state: verified
    testbed_id: embedded
    state_dir: /tmp/storlab-example
    ignore:
      - '^configuration files: /etc/systemd/'
      - '^network: '
"""

RETURN = r"""
path:
  description: File on the controller that keeps the state.
  returned: success
  type: str
  sample: /srv/testbed/state/before/target01.json
strays:
  description: Things the testbed has left, or may have taken, one sentence fragment each.
  returned: O(state=verified)
  type: list
  elements: str
  sample: ["kernel modules: brd (was not there before)"]
notes:
  description: Changes that others made, one sentence fragment each.
  returned: O(state=verified)
  type: list
  elements: str
  sample: ["block devices: loop3 10485760 bytes on /srv/disk.img (is gone)"]
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: not_clean, details: {strays: ["kernel modules: brd (was not there before)"]}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
