#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_run
short_description: Starts, watches, stops and collects the points that one host measures
version_added: 0.1.0
description:
  - The part of M(storlab.testbed.benchmark) that runs on the measured host. Use that one; this one is for trying and repairing.
  - O(action=start) proves with the device guard that every layer is the testbed's own, then leaves a supervisor running that measures one
    point after another, and returns at once. The run goes on when the connection breaks. Starting the same plan again joins the run.
  - The supervisor keeps C(state.json) in its folder below C(/run/storlab), for users who may not write there below
    C($XDG_STATE_HOME), C(~/.local/state) or C(/var/tmp).
  - Only one run at a time measures on a host.
options:
  action:
    description: The action to take.
    type: str
    choices: [start, status, stop, collect]
    required: true
  testbed_id:
    description: The testbed.
    type: str
    required: true
  run_id:
    description: The run. O(action=stop) without it means all runs of the testbed on this host.
    type: str
  plan:
    description:
      - What O(action=start) measures, a mapping of C(points) (each C(point_id), C(layer), C(workload), C(workload_id), C(repetition), C(seed),
        and C(servers) when it is measured on many hosts), C(layers) that are measured, C(known_layers) of the whole testbed,
        C(repetitions), C(allow_device) and optionally C(grace_s), and the following.
      - C(prepare), a mapping of C(fill), C(precondition_passes), C(precondition_block_bytes), C(warmup_s), C(warmup_turns), C(drop_caches) and
        C(zero_before). A layer is written
        before its first point; C(prepared) (by layer, what C(preparation) and C(prepared) of a stored result say) spares that
        when it is the very same instance of the device.
      - C(steady_state), a mapping of C(metric), C(window), C(round_s), C(excursion_percent), C(slope_percent) and C(budget_s). Each point is
        then repeated in rounds until it is steady or the budget is used up.
      - C(series), whether C(series.json) is kept beside each point, with a row per second.
      - C(beat), whether the reference beat is played before every round; it goes with the first point of the round.
    type: dict
  offset:
    description: Where in the archive O(action=collect) begins.
    type: int
    default: 0
  remove:
    description:
      - Whether O(action=stop) also removes the folders of the runs. It refuses (C(run_uncollected)) while one of them has finished points
        that no controller has taken; the same M(storlab.testbed.benchmark) again takes them.
    type: bool
    default: false
  discard:
    description: Whether O(remove) deletes such points as well.
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: V(start) proves the layers safe and starts nothing, V(stop) says what it would end.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux, with fio installed. Python 3.9 or later.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: End whatever this testbed measures here and remove its leftovers
  storlab.testbed.benchmark_run:
    action: stop
    testbed_id: embedded
    remove: true

- name: See how far a run is
  storlab.testbed.benchmark_run:
    action: status
    testbed_id: embedded
    run_id: first
"""

RETURN = r"""
state_dir:
  description: The run's folder on the host.
  returned: start, status
  type: str
  sample: /run/storlab/embedded/bench/20260301T101500Z
pid:
  description: The supervisor's process.
  returned: start
  type: int
  sample: 4711
joined:
  description: Whether the run was there already. One that has ended (RV(alive=false)) was not started again; it has points to take.
  returned: start
  type: bool
  sample: false
boot_id:
  description: Tells the start of the host on which the run was begun from every other one.
  returned: start
  type: str
  sample: 5a8a19bd-5c4c-4d25-8e07-9fd6d6ac3b7c
alive:
  description: Whether the supervisor is running.
  returned: start, status
  type: bool
  sample: true
state:
  description:
    - What the supervisor last said, C(status), C(point), C(points), C(phase) (V(fill), V(precondition), V(zero), V(warmup), V(ramp) or V(measure)), C(iops),
      C(remaining_s) and more.
  returned: status, collect
  type: dict
  contains:
    status:
      description: V(running) until the run has ended.
      returned: always
      type: str
      sample: running
    point:
      description: How many points have begun.
      returned: always
      type: int
      sample: 3
    points:
      description: How many points there are.
      returned: always
      type: int
      sample: 12
    phase:
      description: The kind of step.
      returned: always
      type: str
      sample: measure
    iops:
      description: I/Os per second just now.
      returned: always
      type: float
      sample: 6958.4
    remaining_s:
      description: How long it still takes.
      returned: always
      type: float
      sample: 42.0
stopped:
  description: Folders of the runs that were ended.
  returned: stop
  type: list
  elements: str
  sample: [/run/storlab/embedded/bench/20260301T101500Z]
uncollected:
  description: By run, how many finished points no controller has taken.
  returned: stop, when there are some
  type: dict
  sample: {20260301T101500Z: 3}
areas:
  description: Which of V(bench) (runs), V(observer) and V(server) the testbed has on this host after that.
  returned: stop
  type: list
  elements: str
  sample: []
removed:
  description: Folders that were removed.
  returned: stop
  type: list
  elements: str
  sample: [/run/storlab/embedded/bench/20260301T101500Z]
content:
  description: A piece of the archive (tar, gzip), in base64.
  returned: collect
  type: str
  sample: H4sIAAAAAAAA
sha256:
  description: Checksum of the whole archive.
  returned: collect with offset 0
  type: str
  sample: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
size_bytes:
  description: Size of the whole archive.
  returned: collect
  type: int
  sample: 48211
next_offset:
  description: Where the next piece begins; absent after the last one.
  returned: collect
  type: int
  sample: 32768
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.engines.catalogue import engine_of_plan
from ..module_utils.run import runner


def main():
    module = AnsibleModule(
        argument_spec={
            "action": {"type": "str", "choices": ["start", "status", "stop", "collect"], "required": True},
            "testbed_id": {"type": "str", "required": True},
            "run_id": {"type": "str"},
            "plan": {"type": "dict"},
            "offset": {"type": "int", "default": 0},
            "remove": {"type": "bool", "default": False},
            "discard": {"type": "bool", "default": False},
        },
        required_if=[
            ("action", "start", ["run_id", "plan"]),
            ("action", "status", ["run_id"]),
            ("action", "collect", ["run_id"]),
        ],
        supports_check_mode=True,
    )
    options = module.params
    with failures_of(module):
        names = {"testbed_id": options["testbed_id"], "run_id": options["run_id"]}
        if options["action"] == "start":
            plan = {**options["plan"], **names}
            result = {"changed": True, **(_try(plan) if module.check_mode else runner.start(plan))}
        elif options["action"] == "stop":
            result = runner.stop(
                **names, remove=options["remove"], discard=options["discard"], dry_run=module.check_mode
            )
        elif options["action"] == "collect":
            result = runner.collect(**names, offset=options["offset"])
        else:
            result = runner.status(**names)
    module.exit_json(**result)


def _try(plan: dict) -> dict:
    runner.find_engine(engine_of_plan(plan).name)
    runner.check_layers(plan)
    return {}


if __name__ == "__main__":
    main()
