#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark
short_description: Measures the layers of a testbed on this host
version_added: 0.1.0
description:
  - Issues the same workloads on every layer of O(layers) on the current host, with O(engine), and keeps every result on the controller.
  - Measuring overwrites the layers. Before every point the device guard proves that the path still is the testbed's own device; it refuses what is
    mounted, used, exported by others, partitioned, carries a signature, or has another size or serial. See C(docs/safety.md).
  - All points of a host are handed over at once and measured there one after another by a supervisor that survives a broken connection; the task
    shows how far it is. When the task is interrupted the run goes on, and the same task picks it up again.
  - On a Windows host, which needs no Python, the controller starts one point after another, each as a scheduled task that survives a broken connection.
    When the task is interrupted that point goes on, and the same task takes its result and measures the others. See C(docs/windows.md).
  - Every block of a layer is written once before the first point that reads it, because blocks that were never written are read from nowhere.
  - A point that fails is recorded with its reason and the others go on; the task then fails with C(failure.code) V(points_failed).
  - Points that O(run_id) already holds, measured with the same workload on the same device, are not measured again.
  - See C(docs/benchmark.md) for how to measure, with examples.
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
        null engine of fio, which shows what the generator alone can do). The others only show which layer is on which.
    type: raw
  profile:
    description:
      - Name of a profile, a file of workloads with a version and a source, such as V(oltp). See C(docs/workloads.md).
      - O(workload) and O(sweep) then replace values in each of its workloads, O(exclude) takes some of them away.
    type: str
  profile_dirs:
    description: Folders on the controller with profiles of your own. If two have the same name, the last folder counts, before the collection's.
    type: list
    elements: path
    default: []
  servers:
    description:
      - Measure the layers of many hosts at once through their fio servers, instead of this host's own layers. This host only coordinates and adds up.
      - Each entry has C(host), C(address), C(port), C(version) and C(layer), as M(storlab.testbed.benchmark_server) returns them on those hosts in
        C(ansible_facts.storlab_servers); O(layers) describes their layers. See C(docs/many_hosts.md).
      - There is one result for all, with what each host did in C(clients). When one of them fails or is lost it is named and the point fails.
    type: list
    elements: dict
    default: []
    version_added: 0.2.0
  servers_layer:
    description: The name under which the layers of all O(servers) are one layer. By default their kind followed by C(-many).
    type: str
    version_added: 0.2.0
  workloads:
    description: Several workloads instead of O(workload), with the same words.
    type: list
    elements: dict
  sweep:
    description: Lists of values that replace the values of O(workload), of each of O(workloads), or of each workload of O(profile), multiplied out.
    type: dict
  exclude:
    description: Parts of workloads; a workload that has all values of one of them is not measured. One that describes no workload is an error.
    type: list
    elements: dict
    default: []
  repetitions:
    description: How often every point is measured. A comparison wants at least 4, better 5.
    type: int
    default: 1
  only_repetitions:
    description: Numbers of the repetitions that this task measures. By default all; for variants, which take turns.
    type: list
    elements: int
    default: []
  order:
    description:
      - V(interleaved) measures every point once before any is measured again, so that what drifts over time shows as spread and not as a difference.
      - V(random) does the same with each round shuffled by O(seed), the same way on every host. V(as_listed) repeats each point at once.
      - With O(engine=iometer), which measures a grid in one run, V(interleaved) has the points of a layer together in each round.
    type: str
    choices: [interleaved, random, as_listed]
    default: interleaved
  seed:
    description: What O(order=random) shuffles by. By default it follows from O(run_id). It is recorded in C(run.json).
    type: int
  variant:
    description:
      - Name of the configuration that is measured, when several are compared in one run. It becomes part of the points' names.
      - Letters, digits, dot, dash and underscore.
    type: str
  prepare:
    description: Preparation before the measurement.
    type: dict
    default: {}
    suboptions:
      fill:
        description: Whether every block of a layer is written once before it is measured. Points that read without it carry the flag V(not_filled).
        type: bool
        default: true
      precondition_passes:
        description: How often the whole layer is written, sequentially. SNIA's specification asks for 2 on devices with flash.
        type: int
        default: 0
      precondition_block_bytes:
        description: Size of the blocks it is written in, in bytes or as a size such as V(1m).
        type: raw
        default: 131072
      warmup_s:
        description: How long a workload runs on a layer before its first repetition there is measured.
        type: float
        default: 0
      warmup_turns:
        description:
          - How often that is done at most on a host with cache tiers. It ends when the hit rates of two turns in a row differ by 2 percentage points or
            less. Results list them.
        type: int
        default: 1
      drop_caches:
        description: Whether the host's page cache is emptied before a point that goes through it. Whether it is empty is checked.
        type: bool
        default: true
      zero_before:
        description:
          - Whether the whole layer is written with zeroes between points, so that each finds the same contents.
          - Results say how much that was and how long it took.
          - V(point) does it before every point. V(case) does it whenever a layer's workload differs from the one before, V(round) before the first point of
            a layer in each repetition.
          - A layer that is written with zeroes needs no O(prepare.fill). IOMeter cannot write zeroes.
        type: str
        choices: [nothing, round, case, point]
        default: nothing
  steady_state:
    description:
      - Whether a point is measured round by round until it is steady, as SNIA's specification defines it.
      - V(true) takes that specification's limits, a mapping changes them, and V(false) is as if it were left out.
    type: dict
    suboptions:
      metric:
        description: The figure of the total that is watched.
        type: str
        choices:
          [iops, bandwidth_bytes_s, latency_mean_ns, latency_p50_ns, latency_p95_ns, latency_p99_ns, latency_p99_9_ns, latency_p99_99_ns]
        default: iops
      window:
        description: How many rounds in a row must be steady.
        type: int
        default: 5
      round_s:
        description: How long a round is. By default the workload's C(runtime_s).
        type: int
      excursion_percent:
        description: How far the rounds of a window may lie apart, in percent of their average.
        type: float
        default: 20
      slope_percent:
        description: How much the line through the rounds of a window may rise or fall, in percent of their average.
        type: float
        default: 10
      budget_s:
        description: How long all rounds may take; then the point is kept with the flag V(not_steady). By default 25 rounds.
        type: float
  series:
    description: Whether what happened in each second is kept, in C(series.json) of each point.
    type: bool
    default: true
  beat:
    description:
      - Whether the host plays the reference beat before every round (where the repetition changes; once where each point is repeated at once),
        fio's null engine for half a second and a copy of memory, about a second in all. It shows whether the host itself became slower or faster.
      - It is kept in C(beats.jsonl) of the run and is part of no point and no figure. A beat that cannot be played is noted there, and fails nothing.
        Windows hosts play none.
    type: bool
    default: true
    version_added: 1.0.0
  search:
    description:
      - Decides from what has been measured what to measure next; one of the following. For each layer and workload by itself.
      - With O(repetitions) of 3 or more a search separates noise from an answer. Interrupted, it goes on where it was.
    type: dict
    suboptions:
      max_iops:
        description: The most I/Os per second whatever they wait. The load is doubled until two doublings in a row bring nothing more.
        type: dict
        suboptions:
          key:
            description: The key of the workload that is the load.
            type: str
            choices: [queue_depth, workers]
            default: queue_depth
          low:
            description: The least load.
            type: int
            default: 1
          high:
            description: The greatest load.
            type: int
            default: 256
          precision_percent:
            description: A smaller gain counts as none.
            type: float
            default: 5
      max_iops_at:
        description: The greatest load at which a latency stays within a limit, which is given in one of three units.
        type: dict
        suboptions:
          limit_ms:
            description: The limit in milliseconds.
            type: float
          limit_us:
            description: The limit in microseconds.
            type: float
          limit_ns:
            description: The limit in nanoseconds.
            type: float
          metric:
            description: The latency that is held against the limit.
            type: str
            choices: [latency_mean_ns, latency_p50_ns, latency_p95_ns, latency_p99_ns, latency_p99_9_ns, latency_p99_99_ns]
            default: latency_p99_ns
          key:
            description: The key of the workload that is the load.
            type: str
            choices: [queue_depth, workers, rate_iops]
            default: queue_depth
          low:
            description: The least load.
            type: int
            default: 1
          high:
            description: The greatest load.
            type: int
            default: 256
          precision_percent:
            description: How well the answer is known when the search ends.
            type: float
            default: 5
      knee:
        description: The load beyond which more load costs more latency than it brings I/O.
        type: dict
        suboptions:
          values:
            description: At least three loads to begin with.
            type: list
            elements: int
            required: true
          key:
            description: The key of the workload that is the load.
            type: str
            choices: [queue_depth, workers, rate_iops]
            default: queue_depth
          refine:
            description: How many more loads are measured around the knee.
            type: int
            default: 3
      rate_ladder:
        description: The peak, then fixed rates at shares of it that do not wait for answers.
        type: dict
        suboptions:
          percents:
            description: The shares of the peak.
            type: list
            elements: float
            default: [20, 40, 60, 80, 90, 95]
  engine:
    description:
      - The program that issues the I/O. Workloads that an engine cannot express are refused before anything runs.
      - C(docs/engines.md) lists the engines, and on which hosts each runs. The ceiling is fio's alone.
      - Points that follow each other on one layer share a run of IOMeter, as far as one of its configurations can hold them in the order of the plan.
    type: str
    default: fio
  windows:
    description: How the engine is run on a Windows host. Others do not look at it.
    type: dict
    default: {}
    version_added: 0.3.0
    suboptions:
      program:
        description: The program, in full when it is not on the host's search path. By default C(fio.exe), C(diskspd.exe) or C(IOmeter.exe).
        type: str
      root:
        description: Folder on the host for everything that is run; administrators alone may write there. No blanks, because of IOMeter.
        type: str
        default: C:\storlab
      session:
        description:
          - V(service) runs it as the system, without a desktop. V(interactive) runs it on the desktop of the account that Ansible connects as, which must
            be logged on at the console.
          - V(auto) is V(service) for fio and diskspd, and V(interactive) for IOMeter, which is a program with windows.
        type: str
        choices: [auto, service, interactive]
        default: auto
      iometer_version:
        description: Version of IOMeter. While it runs its licence counts as accepted, so that its question does not stop it; who sets this engine accepts it.
        type: str
        default: 1.1.0
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
  runner:
    description:
      - What the call for the turn before returned as RV(runner), so that the process which measures on the host goes on with this turn.
        By default it is started, which takes a second, or ten on an emulated processor.
      - With O(only_repetitions) that end before O(repetitions) and without O(variant), it waits for the next turn for ten minutes and then ends. One that
        is gone is started again.
    type: dict
    version_added: 1.0.0
    suboptions:
      state_dir:
        description: The folder of the run on the host.
        type: str
        required: true
      boot_id:
        description: The start of the host on which it was begun.
        type: str
        required: true
      pid:
        description: The process.
        type: int
        required: true
  progress:
    description:
      - Display while it runs. V(bar) shows a line with a bar and V(line) one without, both every 5 seconds.
      - V(auto) shows V(bar) on a terminal; elsewhere a line when something changes, at most every 5 seconds, and at least every 30 seconds.
      - V(none) shows nothing.
    type: str
    choices: [auto, bar, line, none]
    default: auto
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.workload
attributes:
  check_mode:
    description: Validates everything that can be validated on the controller and lists the points in their order and how long they take. Nothing runs.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description:
      - Linux, with fio and blkid installed, and rights to open the devices. Python 3.9 or later.
      - Windows Server 2016, Windows 10 and later, with an administrator's account. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: linux, windows
notes:
  - A task with C(async) is refused. It is not needed, because the run survives a broken connection and the end of the playbook anyway.
  - The task holds a fork while the host measures; with more hosts than C(forks) they are measured in turns, which is said.
  - The fact C(storlab_benchmarks) holds at most 2 kB per point and works with fact caching.
seealso:
  - module: storlab.testbed.layer
  - module: storlab.testbed.report
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Measure all layers on this Windows host with IOMeter
  storlab.testbed.benchmark:
    testbed_id: lab
    run_id: first
    results_dir: /tmp/storlab-example
    engine: iometer
    windows:
      program: C:\Iometer\IOmeter.exe
    workload:
      block_size: 4k
      read_percent: 80
      random_percent: 80
      runtime_s: 30

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

- name: Measure a profile for a short time, in a shuffled order that can be repeated
  storlab.testbed.benchmark:
    testbed_id: embedded
    run_id: profile
    results_dir: /tmp/storlab-example
    profile: four_corners
    workload:
      ramp_s: 1
      runtime_s: 5
    repetitions: 5
    order: random
    seed: 42

- name: Find the greatest queue depth whose 99th percentile stays within 2 ms
  storlab.testbed.benchmark:
    testbed_id: embedded
    run_id: limit
    results_dir: /tmp/storlab-example
    workload:
      block_size: 4k
      runtime_s: 10
    repetitions: 3
    search:
      max_iops_at:
        limit_ms: 2
        key: queue_depth
        high: 128

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
  returned: when there was something to measure and all of it was measured, not in check mode
  type: dict
  contains:
    storlab_benchmarks:
      description:
        - Runs by C(run_id), earlier ones included. Each has C(testbed_id), C(run_dir) and C(points), by C(point_id), without histograms.
        - The complete results are in the files.
      type: dict
      returned: always
      sample: {20260301T101500Z: {testbed_id: embedded, run_dir: /srv/results/embedded/20260301T101500Z, points: {}}}
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
      sample: backing-bench.4k-r70-rnd100-qd8-w1.r1
    layer:
      description: The layer.
      type: str
      returned: always
      sample: backing-bench
    workload_id:
      description: Short name of the workload.
      type: str
      returned: always
      sample: 4k-r70-rnd100-qd8-w1
    repetition:
      description: Number of the repetition.
      type: int
      returned: always
      sample: 1
    order:
      description: Place in the order of the plan.
      type: int
      returned: always
      sample: 1
    variant:
      description: The variant.
      type: str
      returned: when there is one
      sample: jumbo
    duration_s:
      description: How long the point takes, as far as can be said before; at most, with O(steady_state).
      type: float
      returned: always
      sample: 65.0
    status:
      description: V(measured) or V(failed); in check mode V(planned) or V(stored).
      type: str
      returned: always
      sample: measured
runner:
  description: The process that waits on the host for its next turn, for O(runner) of that.
  returned: when a turn of the host follows
  type: dict
  sample: {state_dir: /run/storlab/embedded/bench/20260301T101500Z, boot_id: 5a8a19bd-5c4c-4d25-8e07-9fd6d6ac3b7c, pid: 4711}
estimated_s:
  description: How long the points that have to be measured take, as far as can be said before.
  returned: success
  type: float
  sample: 780.0
estimated_most_s:
  description: How long the whole search takes at most, unless a device contradicts itself.
  returned: with O(search)
  type: float
  sample: 1560.0
search:
  description: The answer, for each layer and workload; also in C(search.json) of the run.
  returned: when the search has ended
  type: list
  elements: dict
  contains:
    layer:
      description: The layer.
      type: str
      returned: always
      sample: backing-bench
    workload_id:
      description: The workload that was varied.
      type: str
      returned: always
      sample: 4k-r70-rnd100-qd8-w1
    search:
      description: The complete request, with the C(kind) of search.
      type: dict
      returned: always
      sample: {kind: knee, parameter: queue_depth}
    outcome:
      description:
        - V(found). Or why the answer is not what was asked for - V(lowest_breaks_limit) and V(highest_within_limit) of C(max_iops_at), V(at_lowest) and
          V(at_highest) of C(knee), V(at_highest) of C(max_iops).
      type: str
      returned: always
      sample: found
    found:
      description:
        - The step that answers, all its repetitions taken as one - C(load), C(iops), C(bandwidth_bytes_s), C(latency_mean_ns), C(latency_p99_ns) and the
          other percentiles, C(repetitions), C(points). For a C(rate_ladder), the peak.
      type: dict
      returned: unless the lowest load breaks the limit
      contains:
        load:
          description: "The load: what C(search) varies."
          returned: always
          type: float
          sample: 8.0
        iops:
          description: I/Os per second.
          returned: always
          type: float
          sample: 6958.4
        bandwidth_bytes_s:
          description: Bytes a second.
          returned: always
          type: float
          sample: 28501606.4
        latency_mean_ns:
          description: Mean latency.
          returned: always
          type: float
          sample: 1158822.1
        latency_p99_ns:
          description: 99th percentile; the others are beside it.
          returned: always
          type: int
          sample: 2736128
        repetitions:
          description: How many repetitions were taken as one.
          returned: always
          type: int
          sample: 3
        probability:
          description: That this load keeps the limit, by a line through the repetitions of the four loads nearest to it.
          returned: with C(max_iops_at), when four loads were measured
          type: float
          sample: 0.86
        limit_low:
          description: The limit is crossed at no less than this load, with a confidence of 95 %.
          returned: with C(max_iops_at), when four loads were measured and bound it
          type: float
          sample: 7.6
        limit_high:
          description: The limit is crossed at no more than this load, with a confidence of 95 %.
          returned: with C(max_iops_at), when four loads were measured and bound it
          type: float
          sample: 8.8
        points:
          description: Their points.
          returned: always
          type: list
          elements: str
          sample: [initiator-bench.4k.r1]
    steps:
      description: All loads that were measured, ascending, each like C(found), with C(within), C(power) or C(percent) and C(reached).
      type: list
      elements: dict
      returned: always
      contains:
        load:
          description: "The load: what C(search) varies."
          returned: always
          type: float
          sample: 8.0
        iops:
          description: I/Os per second.
          returned: always
          type: float
          sample: 6958.4
        bandwidth_bytes_s:
          description: Bytes a second.
          returned: always
          type: float
          sample: 28501606.4
        latency_mean_ns:
          description: Mean latency.
          returned: always
          type: float
          sample: 1158822.1
        latency_p99_ns:
          description: 99th percentile; the others are beside it.
          returned: always
          type: int
          sample: 2736128
        repetitions:
          description: How many repetitions were taken as one.
          returned: always
          type: int
          sample: 3
        points:
          description: Their points.
          returned: always
          type: list
          elements: str
          sample: [initiator-bench.4k.r1]
run_dir:
  description: Folder of the run's results on the controller.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z
run_id:
  description: The run.
  returned: success
  type: str
  sample: 20260301T101500Z
skipped_layers:
  description: Layers on this host that hold data and are therefore not measured themselves.
  returned: success
  type: list
  elements: str
  sample: [initiator-ds1]
"""
