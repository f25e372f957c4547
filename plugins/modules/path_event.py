#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: path_event
short_description: Adds to results what an event on the way to the layer cost
version_added: 1.0.0
description:
  - Makes an event on the host of a target while another host is measured through it, and adds to the result how long no I/O was completed, how many I/Os
    failed and are missing, and when the old rate was back. See C(docs/failover.md).
  - O(state=armed) leaves a daemon on this host that makes the event once I/O arrives, and undoes it. It needs neither the controller nor a connection then.
  - O(state=collected) adds the figures to the results of the run whose variant and repetition the event was armed for. It needs the difference of the two
    hosts' clocks, which M(storlab.testbed.benchmark_observer) has measured.
  - O(state=stopped) ends the daemon, and undoes what was left done.
options:
  state:
    description: The action to take.
    type: str
    choices: [armed, collected, stopped]
    default: armed
  testbed_id:
    description: The testbed. Only targets that it made on this host are touched.
    type: str
    required: true
  run_id:
    description: The run, as given to M(storlab.testbed.benchmark). Needed for V(collected).
    type: str
  results_dir:
    description: Folder on the controller for results, as given to M(storlab.testbed.benchmark). Needed for V(collected).
    type: path
  variant:
    description: The variant that is measured while the event happens. Needed for V(armed).
    type: str
  repetition:
    description: The repetition that is measured while it happens. Needed for V(armed).
    type: int
extends_documentation_fragment:
  - storlab.testbed.path_event
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says whether an event would be armed or ended. Nothing is collected.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux. Python 3.9 or later.
    support: full
    platforms: linux
seealso:
  - module: storlab.testbed.benchmark
  - module: storlab.testbed.benchmark_observer
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Switch the target off for 15 s in the middle of the next measurement
  storlab.testbed.path_event:
    testbed_id: embedded
    variant: timeout-5
    repetition: 1
    target: iqn.2026-01.lab.example:bench
    for_s: 15

- name: Add what it cost
  storlab.testbed.path_event:
    state: collected
    testbed_id: embedded
    run_id: failover
    results_dir: /tmp/storlab-example
"""

RETURN = r"""
added:
  description: Points that got the figures of an event.
  returned: state=collected
  type: list
  elements: str
  sample: [initiator-bench.4k.timeout-5.r1]
missed:
  description: Why others of the run did not, by point.
  returned: state=collected
  type: dict
  sample: {}
undone:
  description: Whether an event was left to be undone.
  returned: state=stopped
  type: bool
  sample: false
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: foreign_target, details: {}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: foreign_target
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
