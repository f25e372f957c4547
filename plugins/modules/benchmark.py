#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Measures the layers of a testbed that lie on this host
version_added: 0.1.0
description:
  - Issues the same workloads on every layer of O(layers) that lies on the current host, with fio, and keeps every result on the controller.
  - Measuring overwrites the layers. Before every point the device guard proves that the path still is the testbed's own device; it refuses what is
    mounted, used, exported by others, partitioned, carries a signature, or has another size or serial. See C(docs/safety.md).
  - All points of a host are handed over at once and measured there one after another by a supervisor that survives a broken connection; the task
    shows how far it is. When the task is interrupted the run goes on, and the same task picks it up again.
  - Every block of a layer is written once before the first point that reads it, because blocks that were never written are read from nowhere.
  - A point that fails is recorded with its reason and the others go on; the task then fails with C(failure.code) V(points_failed).
  - Points that O(run_id) already holds, measured with the same workload on the same device, are not measured again.
options:
  testbed_id:
    description: The testbed. Letters, digits, dot, dash and underscore.
    type: str
    required: true
  run_id:
    description: Names the run, and the folder of its results. Letters, digits, dot, dash and underscore.
    type: str
    required: true
  results_dir:
    description:
      - Folder on the controller for results; this run writes below C(<results_dir>/<testbed_id>/<run_id>), see C(docs/results.md).
      - A relative path starts at the playbook's folder.
    type: path
    required: true
  layers:
    description:
      - Layers as M(storlab.testbed.layer) publishes them, a list or a mapping by name. By default those in C(ansible_facts.storlab_layers).
      - Measured are the layers whose C(host) is the current host, whose C(purpose) is V(scratch) and that have a C(path), or are of kind V(ceiling) (the
        null engine of fio, which shows what the generator alone can do). The others only say what stands on what.
    type: raw
  workload:
    description:
      - What I/O is issued, a mapping. Any value may be a list; lists are multiplied out.
      - C(block_size) (V(4k)), C(read_percent) (V(100)), C(random_percent) (V(100)), C(queue_depth) (V(1)), C(workers) (V(1)), C(ramp_s) (V(2)),
        C(runtime_s) (V(10)), C(alignment) (the block size), C(direct) (V(true)), C(range) (a mapping of C(offset_bytes) and C(size_bytes), the whole layer).
    type: dict
  workloads:
    description: Several workloads instead of O(workload).
    type: list
    elements: dict
  sweep:
    description: Lists of values that replace those of O(workload), or of each of O(workloads), multiplied out.
    type: dict
  repetitions:
    description: How often every point is measured. Repetitions of all points are interleaved.
    type: int
    default: 1
  engine:
    description: What issues the I/O.
    type: str
    choices: [fio]
    default: fio
  fill:
    description: Whether every block of a layer is written once before it is read. Points measured without it carry the flag V(not_filled).
    type: bool
    default: true
  allow_device:
    description:
      - Paths on which refusals of the device guard are overridden, as far as they can be. Everything on these devices may be lost.
      - What was overridden is recorded in the result.
    type: list
    elements: str
    default: []
  force:
    description: Whether points that the run already holds are measured again and replaced.
    type: bool
    default: false
  progress:
    description:
      - V(auto) shows a line when something changes, at most every 5 seconds, and at least every 30 seconds. V(line) shows one every 2 seconds or
        less often in long runs. V(none) shows nothing.
    type: str
    choices: [auto, line, none]
    default: auto
attributes:
  check_mode:
    description: Validates everything that can be validated on the controller and lists the points and how long they would take. Nothing runs.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux, with fio and blkid installed, and rights to open the devices. Python 3.9 or later.
    support: full
    platforms: linux
notes:
  - A task with C(async) cannot show progress and is not needed, because the run survives a broken connection anyway.
  - The task holds a fork while the host measures; with more hosts than C(forks) they are measured in turns.
seealso:
  - module: storlab.testbed.layer
  - module: storlab.testbed.report
author:
  - The storlab.testbed developers
"""

EXAMPLES = r"""
- name: Measure all layers on this host
  storlab.testbed.benchmark:
    testbed_id: embedded
    run_id: first
    results_dir: /tmp/storlab-example
    workload:
      block_size: 4k
      read_percent: 70
      queue_depth: 8
      runtime_s: 30

- name: Measure how one device behaves from queue depth 1 to 32, three times
  storlab.testbed.benchmark:
    testbed_id: embedded
    run_id: depths
    results_dir: /tmp/storlab-example
    repetitions: 3
    workload:
      block_size: 4k
    sweep:
      queue_depth: [1, 4, 16, 32]
      read_percent: [100, 0]
    layers:
      - name: backing-bench
        kind: backing
        host: target01
        path: /dev/ram0
        parent: null
        purpose: scratch
        size_bytes: 67108864
        identity:
          major_minor: "1:0"
"""

RETURN = r"""
ansible_facts:
  description: Facts of the current host.
  returned: when there was something to measure, not in check mode
  type: dict
  contains:
    storlab_benchmarks:
      description:
        - Runs by C(run_id), earlier ones included. Each has C(testbed_id), C(run_dir) and C(points), by C(point_id), without histograms.
        - The complete results are in the files.
      type: dict
      returned: always
points:
  description: All points of this host.
  returned: success
  type: list
  elements: dict
  contains:
    point_id:
      description: Names the point, and the folder of its files.
      type: str
      returned: always
    layer:
      description: The layer.
      type: str
      returned: always
    workload_id:
      description: Short name of the workload.
      type: str
      returned: always
    repetition:
      description: Number of the repetition.
      type: int
      returned: always
    duration_s:
      description: How long the point takes, as far as can be said before.
      type: float
      returned: always
    status:
      description: V(measured) or V(failed); in check mode V(planned) or V(stored).
      type: str
      returned: always
estimated_s:
  description: How long the points that have to be measured take, as far as can be said before.
  returned: success
  type: float
run_dir:
  description: Folder of the run's results on the controller.
  returned: success
  type: str
run_id:
  description: The run.
  returned: success
  type: str
skipped_layers:
  description: Layers on this host that hold data and are therefore not measured themselves.
  returned: success
  type: list
  elements: str
"""
