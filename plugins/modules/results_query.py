#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: results_query
short_description: Filters and summarises the stored points of any number of runs
version_added: 1.0.0
description:
  - Takes the points of one run, of some runs, of a testbed or of all testbeds that M(storlab.testbed.benchmark) stored, keeps those that meet O(where), and
    summarises them in groups.
  - Uses the index of each run, a cache that is brought up to date first. Changed files are read again, an index that is missing or damaged is recreated, so
    the figures match the files.
  - A group may hold different workloads, and RV(groups[].workloads) says how many. It is a summary and no verdict; M(storlab.testbed.compare) judges.
  - Runs on the controller. No host of the testbed is needed.
options:
  run_dir:
    description:
      - Folder of a run on the controller.
      - Either this, or O(results_dir).
    type: path
  results_dir:
    description: Folder on the controller that holds one folder per testbed and in it one folder per run.
    type: path
  testbed_id:
    description: Name of the testbed in O(results_dir). By default all testbeds.
    type: str
  run_ids:
    description: Names of runs of O(testbed_id), or V(latest) for the run that started last. By default all of them.
    type: list
    elements: str
    default: []
  where:
    description: Which points. All filters must hold, and one of the values of each. Names are compared exactly.
    type: dict
    default: {}
    suboptions:
      layer:
        description: Names of layers.
        type: list
        elements: str
      layer_kind:
        description: Kinds of layers, such as V(backing).
        type: list
        elements: str
      host:
        description: Hosts that issued the I/O.
        type: list
        elements: str
      workload:
        description: Short names of workloads, such as V(4k-r70-rnd100-qd8-w1).
        type: list
        elements: str
      variant:
        description: Labels of configurations. An empty one stands for points without.
        type: list
        elements: str
      profile:
        description: Names of profiles. Points of the runs in which one of them was asked for.
        type: list
        elements: str
      status:
        description: Whether the point was measured. By default both.
        type: list
        elements: str
        choices: [measured, failed]
      block_size:
        description: Block sizes in bytes or like V(4k). Workloads of several block sizes have none of these.
        type: list
        elements: str
      read_percent:
        description: Shares of reads.
        type: list
        elements: int
      random_percent:
        description: Shares of random I/O.
        type: list
        elements: int
      queue_depth:
        description: Queue depths of a worker.
        type: list
        elements: int
      workers:
        description: Numbers of workers.
        type: list
        elements: int
      started_from:
        description: Points that began then or later, a day such as V(2026-11-21), or a time in UTC such as V(2026-11-21T16:33:10Z).
        type: str
      started_before:
        description: Points that began earlier than this day or time in UTC.
        type: str
      flagged:
        description: Points with flags, or points without. By default both.
        type: bool
      flags:
        description: Points that have one of these flags.
        type: list
        elements: str
  by:
    description: The keys that are equal within a group. Without any, all points are one group.
    type: list
    elements: str
    choices:
      - testbed_id
      - run_id
      - layer
      - layer_kind
      - host
      - workload_id
      - variant
      - status
      - block_size_bytes
      - read_percent
      - random_percent
      - queue_depth
      - workers
    default: [layer, workload_id]
  limit:
    description: How many of the points are listed one by one in RV(points).
    type: int
    default: 0
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Reads as always.
    support: full
  diff_mode:
    description: Changes nothing, so there is no difference to show.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: How fast were the layers of this testbed in all runs of a month?
  storlab.testbed.results_query:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
    where:
      status: measured
      block_size: [4k, 8k]
      flagged: false
      started_from: 2026-11-01
      started_before: 2026-12-01
    by: [layer, block_size_bytes]

- name: Which points of any testbed have flags, and which?
  storlab.testbed.results_query:
    results_dir: /tmp/storlab-example/results
    where:
      flagged: true
    by: [testbed_id, run_id]
    limit: 20
"""

RETURN = r"""
matched:
  description: Number of points that meet O(where).
  returned: success
  type: int
  sample: 54
groups:
  description:
    - The groups, each with the words of O(by) that it has, numbers of points, and figures of the measured ones. Figures that none of them has are absent.
    - Of each figure V(low) and V(high) are the extremes of the points.
  returned: success
  type: list
  elements: dict
  contains:
    points:
      description: Number of points.
      type: int
      sample: 5
    measured:
      description: How many of them were measured. Only these have figures.
      type: int
      sample: 5
    flagged:
      description: How many of the points have a flag.
      type: int
      sample: 1
    flags:
      description: How many points have which flag.
      type: dict
      sample: {buffered_io: 1}
    workloads:
      description: Number of different workloads.
      type: int
      sample: 1
    iops:
      description: Median and mean of the points' rates, and C(spread_percent), by which the extremes are apart, in percent of the median.
      type: dict
      sample: {median: 5210.5, mean: 5204.1, low: 5102.0, high: 5299.8, spread_percent: 3.8}
    bandwidth_bytes_s:
      description: The same of bytes per second.
      type: dict
      sample: {median: 21342208.0, mean: 21315993.6, low: 20897792.0, high: 21707980.8, spread_percent: 3.8}
    latency_mean_ns:
      description: Mean latency of all I/O of the points.
      type: dict
      sample: {mean: 191800.2, low: 188700.0, high: 196000.4}
    latency_p99_ns:
      description: The middle one of the points' 99th percentiles. Percentiles of all I/O together are in reports.
      type: dict
      sample: {median: 415744.0, low: 407552.0, high: 428032.0}
table:
  description: The groups as lines of a table.
  returned: success
  type: list
  elements: str
  sample: ["layer          workload_id           points  failed  flagged   IOPS"]
points:
  description: The first O(limit) points by run and name, with their figures and flags.
  returned: success
  type: list
  elements: dict
  sample: []
runs:
  description: The runs that have such points, and how many.
  returned: success
  type: list
  elements: dict
  sample: [{testbed_id: embedded, run_id: 20260301T101500Z, points: 54}]
damaged:
  description: Results that could not be read and count for nothing.
  returned: success
  type: list
  elements: dict
  contains:
    run_dir:
      description: Folder of the run.
      type: str
      sample: /srv/results/embedded/20260301T101500Z
    file:
      description: The file, relative to that.
      type: str
      sample: points/x/result.json
    reason:
      description: Why it cannot be read.
      type: str
      sample: it is not JSON
failure:
  description: The failure, for scripts.
  returned: failure
  type: dict
  contains:
    code:
      description: Short name, V(bad_value) or V(run_missing).
      type: str
      sample: run_missing
    details:
      description: Facts for scripts.
      type: dict
      sample: {testbed_id: embedded}
"""
