#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_observer_run
short_description: Counts on a host while another host is measured
version_added: 0.2.0
description:
  - The part of M(storlab.testbed.benchmark_observer) that runs on the observing host. Use that one; this one is for trying and repairing.
  - O(action=start) leaves a daemon behind that reads the kernel's counters once a second and keeps the newest readings, at most 32 MiB, below C(/run/storlab).
    It pauses while a run of the testbed measures on its own host, and ends at its deadline. It also says what the host is.
  - O(action=collect) says what was counted in given intervals.
options:
  action:
    description: The action to take.
    type: str
    choices: [start, collect, stop]
    required: true
  testbed_id:
    description: The testbed.
    type: str
    required: true
  paths:
    description: Paths of this host's layers, by name. Those that are devices with statistics are counted as well; others are left out.
    type: dict
    default: {}
  deadline_s:
    description: After how many seconds the daemon ends by itself. Asking for the same again restarts its time.
    type: int
    default: 14400
  intervals:
    description: What O(action=collect) is asked for, lists of two times in seconds since 1970, by name.
    type: dict
    default: {}
  clock_offset_s:
    description: How far this host's clock is ahead of the one that O(intervals) are of.
    type: float
    default: 0.0
  clock_uncertain_s:
    description: How well that is known. Devices are counted by readings that are certainly within the interval.
    type: float
    default: 0.0
extends_documentation_fragment:
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
- name: Count from now on, for an hour at most
  storlab.testbed.benchmark_observer_run:
    action: start
    testbed_id: embedded
    deadline_s: 3600

- name: Activity within ten seconds
  storlab.testbed.benchmark_observer_run:
    action: collect
    testbed_id: embedded
    intervals:
      first: [1795278790.0, 1795278800.0]
"""

RETURN = r"""
layers:
  description: Layers whose devices are counted.
  returned: action=start
  type: list
  elements: str
  sample: [backing-bench]
environment:
  description: The host's fingerprint, with its layers of O(paths).
  returned: action=start
  type: dict
  sample: {kernel: {release: 6.1.0-18-amd64}, memory_bytes: 536870912}
observed:
  description: Counts of each interval, as C(counters) of a result, see C(docs/results.md).
  returned: action=collect
  type: dict
  sample: {backing-bench.4k.r1: {cpu: {busy_percent: 31.2}}}
missed:
  description: Why nothing is known of the other intervals, by name.
  returned: action=collect
  type: dict
  sample: {initiator-bench.4k.r2: nothing was counted at that time}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.watch import environment
from ..module_utils.run import observer


def main():
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["start", "collect", "stop"], "required": True},
            "testbed_id": {"type": "str", "required": True},
            "paths": {"type": "dict", "default": {}},
            "deadline_s": {"type": "int", "default": 14400},
            "intervals": {"type": "dict", "default": {}},
            "clock_offset_s": {"type": "float", "default": 0.0},
            "clock_uncertain_s": {"type": "float", "default": 0.0},
        },
        supports_check_mode=True,
    )
    options = module.params
    with failures_of(module):
        if options["action"] == "start":
            layers = [{"name": name, "path": path} for name, path in options["paths"].items()]
            result = {
                **observer.start(
                    options["testbed_id"], options["paths"], options["deadline_s"], dry_run=module.check_mode
                ),
                "environment": environment.fingerprint(layers),
            }
        elif options["action"] == "stop":
            result = observer.stop(options["testbed_id"], dry_run=module.check_mode)
        else:
            result = observer.collect(
                options["testbed_id"],
                options["intervals"],
                options["clock_offset_s"],
                clock_uncertain_s=options["clock_uncertain_s"],
            )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
