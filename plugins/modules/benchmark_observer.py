#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_observer
short_description: Adds to results what other hosts counted while they were measured
version_added: 0.2.0
description:
  - What a target's processor does while an initiator issues the I/O is seen on the target only. An observer there reads the kernel's counters once a second
    (processors, network, interrupts, the devices of its layers); afterwards they are cut to the time of each point, and become
    C(counters.hosts.<host>) of its result, with the processor's cost of an I/O on that host. See C(docs/many_hosts.md).
  - O(state=started) measures how far the host's clock is ahead of the controller's, keeps that in the run's folder, and leaves the observer running. Start it
    on the measured host, too, whose clock must be known; there it pauses while it is measured. Its description (kernel, processor, memory, devices of its
    layers) is kept in C(hosts/<host>.json) of the run, unless a measurement of it has stored that.
  - O(state=collected) adds what this host counted to the results of other hosts in the run, those that do not have it yet. Run it before O(state=stopped).
  - Clocks may differ; the difference is measured and taken into account. Where it is more than half a second the result carries the flag V(clocks_differ).
    Where it cannot be measured to half a second nothing is added and the result carries the flag V(clock_unknown).
options:
  state:
    description: The action to take.
    type: str
    choices: [started, collected, stopped]
    default: started
  testbed_id:
    description: The testbed.
    type: str
    required: true
  run_id:
    description: The run, as given to M(storlab.testbed.benchmark). Needed for V(started) and V(collected).
    type: str
  results_dir:
    description: Folder on the controller for results, as given to M(storlab.testbed.benchmark). Needed for V(started) and V(collected).
    type: path
  layers:
    description:
      - Layers of the testbed, by name, as M(storlab.testbed.layer) publishes them. Without it the published ones. Those that are devices of this host are
        counted, so that a report can show where the I/O of another host spent its time. Files, and devices without statistics, are left out.
    type: dict
  deadline_s:
    description: After how many seconds the observer ends by itself.
    type: int
    default: 14400
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says whether an observer would be started or stopped. Nothing is collected.
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
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Count on every machine while one of them is measured
  storlab.testbed.benchmark_observer:
    testbed_id: embedded
    run_id: first
    results_dir: /tmp/storlab-example

- name: Add what this machine counted to the results of the others
  storlab.testbed.benchmark_observer:
    state: collected
    testbed_id: embedded
    run_id: first
    results_dir: /tmp/storlab-example

- name: Stop counting
  storlab.testbed.benchmark_observer:
    state: stopped
    testbed_id: embedded
"""

RETURN = r"""
layers:
  description: Layers of this host whose devices are counted.
  returned: state=started
  type: list
  elements: str
  sample: [backing-bench]
clock:
  description: How far the host's clock is ahead of the controller's (C(offset_s)), and how well that is known (C(uncertain_s)).
  returned: state=started, not in check mode
  type: dict
  contains:
    offset_s:
      description: How far it is ahead.
      returned: always
      type: float
      sample: 0.0021
    uncertain_s:
      description: How well that is known.
      returned: always
      type: float
      sample: 0.0008
added:
  description: Points whose results have got what this host counted.
  returned: state=collected, not in check mode
  type: list
  elements: str
  sample: [initiator-bench.4k.r1]
missed:
  description: Why other points have not, by point.
  returned: state=collected, not in check mode
  type: dict
  sample: {initiator-bench.4k.r2: nothing was counted at that time}
"""
