#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: compare
short_description: Says whether a change is real, from the stored results of two runs or more
version_added: 0.2.0
description:
  - Sets a candidate against a baseline at every point that both have measured, and gives each figure a verdict, better, worse, no
    difference larger than the margin, different but may be drift, or undecided and how many more repetitions it would take.
  - Effects come with a confidence interval, p values are corrected for the number of figures, and beside each verdict stands the smallest
    difference that the comparison could have seen. With fewer than 4 repetitions per side, or with lists of runs fewer than 3 runs, there is no
    verdict. C(docs/comparison.md) explains the verdicts, C(docs/methods.md) the methods and how often they are wrong.
  - Better and worse need sides that took turns, repetition by repetition or run by run, which the start times show; or a baseline of 8 runs or more,
    whose own variation shows what a run can be with nothing changed; or, of sides measured one block after the other, a difference that is larger than
    time explains. A smaller one is different, but may be drift.
  - With O(fail_on) there are three outcomes, V(passed), V(failed) and V(inconclusive). A figure that could not be judged does not pass.
  - Refuses unlike things. The hosts and devices of both are compared first; a difference that is not named in O(under_test) stops the task with
    code V(unlike_runs), and the message names every one.
  - Two layers, variants or workloads of one run are compared by naming them in O(baseline) and O(candidate).
  - Writes a folder with C(index.html), C(report.md), C(comparison.json), C(comparison.csv), C(junit.xml) and C(github.txt) (annotations for GitHub
    Actions). The same results give the same bytes, so a second run changes nothing.
  - Runs on the controller. No host of the testbed is needed.
options:
  baseline:
    description: The run that the candidate is compared with.
    type: dict
    required: true
    suboptions: &selector
      run_dir:
        description:
          - Folder of the run on the controller.
          - Either this, or C(results_dir) and C(testbed_id).
        type: path
      results_dir:
        description: Folder on the controller that holds one folder per testbed and in it one folder per run.
        type: path
      testbed_id:
        description: Name of the testbed in C(results_dir).
        type: str
      run_id:
        description: Name of the run in C(results_dir), or V(latest) for the run that started last.
        type: str
        default: latest
      run_ids:
        description:
          - Names of several runs in C(results_dir), in the place of C(run_id). Each counts as one measurement, so that what differs from run to run
            is part of the noise. A name with C(*) stands for all runs whose names fit, except the candidate's.
          - At least 3 per side, measured in turns with the other side, a b a b a b; or of the baseline 8 or more before the candidate.
        type: list
        elements: str
      last:
        description:
          - Takes so many runs of C(testbed_id) that began before the candidate as the baseline, its history.
          - Of O(baseline) only. A verdict takes 8 or more.
        type: int
      layer:
        description: Takes this layer only. When the other side names another, the two layers are compared.
        type: str
      variant:
        description: Takes this variant only. When the other side names another or none, the two are compared.
        type: str
      workload:
        description: Takes the workload of this C(workload_id) only. When the other side names another, the two are compared.
        type: str
  candidate:
    description:
      - What is judged, with the same keys as O(baseline).
      - Either this or O(candidates).
    type: dict
    suboptions: *selector
  candidates:
    description:
      - Several that are judged, each against the same baseline, in one table and one chart per figure.
      - All figures of all of them are corrected together, so that one false alarm anywhere is not likelier than with one candidate. No candidate is
        set against another.
    version_added: 1.0.0
    type: list
    elements: dict
    suboptions:
      name:
        description: Its name in the table, 40 characters at most.
        type: str
        required: true
      <<: *selector
  under_test:
    description:
      - Names of facts that are meant to differ, as patterns in which C(*) stands for anything, for example
        C(hosts.*.devices.*.queue.scheduler).
    type: list
    elements: str
    default: []
  metrics:
    description:
      - Metrics to compare. Those that a point has not measured are left out for it.
      - A metric of the total such as V(latency_p95_ns), of one direction such as V(write.iops), or any number in a result with what is
        good, such as V(database.orders_s higher).
      - By default IOPS, bandwidth, latency (mean, p50, p99, p99.9), that of flushes (V(sync.latency_mean_ns), V(sync.latency_p99_ns)),
        processor cost (C(us_per_io), C(mhz_per_iops)), the time with I/O and the longest stall where a side paused (C(running_percent),
        C(stall_longest_s)), C(tpm) and C(nopm).
    type: list
    elements: str
  margin_percent:
    description: Differences up to this size do not matter.
    type: float
    default: 5.0
  fail_on:
    description:
      - Makes the task fail, after the files are written, when a figure meets one of these.
      - V(regression) is a verdict of worse, V(regression > 5 %) one whose estimate is worse by more, V(different > 20 %) a figure that is worse by more
        than that for certain, even if it may be drift, V(cannot_tell) a figure without a verdict or one that may be drift (with it, what is inconclusive
        fails), V(missing) a point that the candidate lacks or failed. All but the last can stand after a metric, as in V(latency_p99_ns regression > 10 %).
    type: list
    elements: str
    default: []
  statements:
    description:
      - Sentences of others about the comparison, such as the one that the author of an experiment drew. Each is answered with V(yes), V(no) or
        V(cannot tell), and with the intervals that decide, in what is returned and on the page.
      - It is yes where the interval of each figure that a sentence is about is within its range, no where one is outside. The intervals are those in which
        all figures of the comparison are together. A figure that may be drift is neither.
    version_added: 1.0.0
    type: list
    elements: dict
    default: []
    suboptions:
      text:
        description: The sentence.
        type: str
        required: true
      source:
        description: Its author, or the page that has it.
        type: str
      metric:
        description: The metric that it is about, as in O(metrics).
        type: str
        required: true
      side:
        description: Name of one of O(candidates), or a pattern of names.
        type: str
        default: "*"
      point:
        description: A pattern of the points that it is about, such as C(*rnd100*).
        type: str
        default: "*"
      least_percent:
        description: The least change against the baseline that it allows. C(0) is not less. Either this or O(statements[].most_percent), or both.
        type: float
      most_percent:
        description: The largest change that it allows.
        type: float
  output_dir:
    description: Folder in which the folder of the comparison is made. By default C(compare) beside the candidate's run.
    type: path
  scrub:
    description:
      - Gives hosts, users, testbeds, addresses and identifiers pseudonyms, the same ones on both sides.
      - Names in O(baseline), O(candidate) and O(under_test) are the real ones all the same.
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Returns the verdicts and says which files would be written, without writing.
    support: full
  diff_mode:
    description: Shows the difference of the Markdown file; the other files say the same.
    support: partial
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Is the new queue scheduler any better?
  storlab.testbed.compare:
    baseline: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: before}
    candidate: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: after}
    under_test: ["hosts.*.devices.*.queue.scheduler"]
  register: comparison

- name: Stop the pipeline when the tail gets worse, or when it is undecided
  storlab.testbed.compare:
    baseline: {run_dir: /tmp/storlab-example/results/embedded/before}
    candidate: {run_dir: /tmp/storlab-example/results/embedded/after}
    under_test: ["hosts.*.devices.*.queue.scheduler"]
    fail_on: [regression > 10 %, latency_p99_ns regression > 20 %, missing]

- name: Three runs of either, measured in turns on different days
  storlab.testbed.compare:
    baseline: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_ids: [a1, a2, a3]}
    candidate: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_ids: [b1, b2, b3]}
    under_test: ["hosts.*.devices.*.queue.scheduler"]

- name: The last run against the eight before it
  storlab.testbed.compare:
    baseline: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, last: 8}
    candidate: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: latest}
    fail_on: [regression > 5 %]

- name: Four kinds of RAM disk, variants of one run, in one table
  storlab.testbed.compare:
    baseline: {results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: kinds, variant: brd}
    candidates:
      - {name: zram, results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: kinds, variant: zram}
      - {name: tmpfs, results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: kinds, variant: tmpfs}
      - {name: file, results_dir: /tmp/storlab-example/results, testbed_id: embedded, run_id: kinds, variant: file}
    under_test: ["layers.backing-bench.*", "hosts.*.devices.*"]
    fail_on: [regression > 10 %]

- name: Is the cache as fast as its author says?
  storlab.testbed.compare:
    baseline: {run_dir: /tmp/storlab-example/results/embedded/before}
    candidate: {run_dir: /tmp/storlab-example/results/embedded/after}
    under_test: ["hosts.*.devices.*.queue.scheduler"]
    statements:
      - {text: The other scheduler does more I/Os per second., metric: iops, least_percent: 0}

- name: What does the network cost? Two layers of one run
  storlab.testbed.compare:
    baseline: {run_dir: /tmp/storlab-example/results/embedded/after, layer: target-bench}
    candidate: {run_dir: /tmp/storlab-example/results/embedded/after, layer: initiator-bench}
    metrics: [iops, latency_mean_ns, write.latency_p99_ns]
"""

RETURN = r"""
verdict:
  description: Over all figures, the first that any has of V(worse), V(different), V(cannot_tell), V(no_verdict), V(better), else V(no_difference).
  returned: success
  type: str
  sample: no_difference
summary:
  description: The comparison in one line, by the number of figures with each verdict.
  returned: when there is one candidate
  type: str
  sample: 3 of 28 figures worse, 1 better, 20 within 5 %, 4 without a verdict
headline:
  description: The comparison in a few sentences, the first of which says in which order the sides were measured.
  returned: success
  type: str
  sample: No figure differs by more than the margin.
counts:
  description: Number of figures with each verdict.
  returned: success
  type: dict
  contains:
    worse:
      description: Figures that are worse.
      returned: always
      type: int
      sample: 1
    better:
      description: Figures that are better.
      returned: always
      type: int
      sample: 0
    no_difference:
      description: Figures without a difference that matters.
      returned: always
      type: int
      sample: 3
    cannot_tell:
      description: Figures for which the repetitions are too few or too far apart.
      returned: always
      type: int
      sample: 0
    no_verdict:
      description: Figures that cannot be judged.
      returned: always
      type: int
      sample: 0
sides:
  description:
    - Of each of O(candidates), in that order, C(name) and what is returned of a single candidate, C(verdict), C(headline), C(counts), C(design), C(method),
      C(machines), C(rows), C(unmatched), C(damaged), C(under_test_same), C(failed_points) and C(differences), all corrected for the others.
    - A row also has C(row), the part of its point that is the same on all sides. Networks are in C(comparison.json).
  returned: success, with O(candidates)
  type: list
  elements: dict
  contains:
    name:
      description: The candidate.
      returned: always
      type: str
      sample: zram
    verdict:
      description: Over its figures, as V(verdict) over all.
      returned: always
      type: str
      sample: better
  sample: [{name: zram, verdict: better}, {name: file, verdict: worse}]
design:
  description:
    - How the sides are ordered in time, by their start times. V(interleaved) when their repetitions took turns, V(alternating) when whole runs
      did, V(blocks) when one was measured after the other, V(unknown) when no start times are recorded.
  returned: success, with O(candidate)
  type: str
  sample: interleaved
method:
  description: V(pairs) when rounds are compared one by one (6 or more in turns), V(runs) when each run counts once, else V(groups).
  returned: success
  type: str
  sample: pairs
rows:
  description: One row per point and metric. Unknown values are absent.
  returned: success, with O(candidate)
  type: list
  elements: dict
  sample:
    - {point: initiator-bench 4k-r70-rnd100-qd8-w1, layer: initiator-bench, workload_id: 4k-r70-rnd100-qd8-w1, variant: "", metric: iops, better: higher,
       baseline: {value: 6958.4, low: 6801.2, high: 7044.9, repetitions: 5, variation_percent: 1.4},
       candidate: {value: 6011.7, low: 5903.3, high: 6120.8, repetitions: 5, variation_percent: 1.2},
       change_percent: -13.6, change_low_percent: -15.7, change_high_percent: -11.0, confidence_percent: 96.8, p: 0.0079, p_corrected: 0.0079,
       visible_percent: 4.1, verdict: worse}
table:
  description: The same as lines of text for a terminal.
  returned: success
  type: list
  elements: str
  sample: ["| layer | IOPS |", "| backing-bench | 6958 |"]
differences:
  description: Facts in which the two sides differ and that are under test, each with C(fact), C(baseline), C(candidate) and C(status).
  returned: success, with O(candidate)
  type: list
  elements: dict
  contains:
    fact:
      description: The difference.
      returned: always
      type: str
      sample: hosts.target01.kernel.release
    baseline:
      description: Its value in the baseline.
      returned: always
      type: raw
      sample: 6.1.0-18-amd64
    candidate:
      description: Its value in the candidate.
      returned: always
      type: raw
      sample: 6.1.0-21-amd64
    status:
      description: Why it does not lead to a refusal.
      returned: always
      type: str
      sample: under_test
under_test_same:
  description: Patterns of O(under_test) that match no difference; the setting under test is probably the same on both sides.
  returned: success
  type: list
  elements: str
  sample: ["hosts.*.kernel.*"]
machines:
  description:
    - Hosts that were themselves slower or faster on the candidate's side, by their reference beats, the greatest change first. Each has C(host),
      C(figure) (V(null_iops) or V(memory_copy_bytes_s)), C(change_percent) and C(p).
  returned: success, with O(candidate)
  type: list
  elements: dict
  sample: [{host: hypervisor01, figure: null_iops, change_percent: -12.1, p: 0.0004}]
networks:
  description: Throughput of the network alone on each side, before its points were measured.
  returned: success, with O(candidate)
  type: list
  elements: dict
  contains:
    side:
      description: V(baseline) or V(candidate).
      returned: always
      type: str
      sample: baseline
    text:
      description: The sentence.
      returned: always
      type: str
      sample: "hypervisor01 to target01 (10.0.5.10): the network alone carried 9.41 Gbit/s there and 9.38 Gbit/s back, in 81.0 µs there and back."
unmatched:
  description: Points and metrics that only one side has measured.
  returned: success, with O(candidate)
  type: list
  elements: dict
  sample: [{point: guest-guest01 4k, metric: iops}]
failed_points:
  description: Points that failed in either run and count in no figure.
  returned: success, with O(candidate)
  type: list
  elements: dict
  sample: [{point: guest-guest01 4k, repetition: 2}]
damaged:
  description: Files of the runs that could not be used.
  returned: success, with O(candidate)
  type: list
  elements: dict
  sample: [{file: points/x/result.json, reason: it is not JSON}]
outcome:
  description: V(failed) where a rule of O(fail_on) is met, V(inconclusive) where one could not be judged, else V(passed).
  returned: with O(fail_on)
  type: str
  sample: passed
conclusion:
  description: The same as a sentence.
  returned: with O(fail_on)
  type: str
  sample: "Passed: no figure meets regression > 5 %."
unjudged:
  description: Figures that the rules of O(fail_on) could neither fail nor pass, with the same keys as RV(hits).
  returned: success
  type: list
  elements: dict
  sample: [{rule: regression > 5 %, point: initiator-bench 4k-r70-rnd100-qd8-w1, metric: iops, text: "cannot tell: run 3 more"}]
hits:
  description: Figures that met O(fail_on), each with C(rule), C(point), C(metric) and C(text), and with O(candidates) C(side).
  returned: success
  type: list
  elements: dict
  contains:
    rule:
      description: The rule of O(fail_on).
      returned: always
      type: str
      sample: worse
    point:
      description: The point.
      returned: always
      type: str
      sample: initiator-bench 4k-r70-rnd100-qd8-w1
    metric:
      description: The metric.
      returned: always
      type: str
      sample: iops
    text:
      description: The event, in words.
      returned: always
      type: str
      sample: "iops fell by 13.6 %"
statements:
  description: O(statements) with their answers.
  returned: success
  type: list
  elements: dict
  contains:
    text:
      description: The sentence.
      returned: always
      type: str
      sample: The cache makes it faster.
    source:
      description: Its author, empty where none is given.
      returned: always
      type: str
      sample: ""
    verdict:
      description: V(yes), V(no) or V(cannot tell).
      returned: always
      type: str
      sample: "yes"
    why:
      description: The figures that decide, with their intervals.
      returned: always
      type: str
      sample: IOPS, backing-e4 8k-r80-rnd100-qd32-w16 +446 % (+402 % … +494 %)
    line:
      description: All of it as a sentence.
      returned: always
      type: str
      sample: “The cache makes it faster.” Does it hold here? Yes. IOPS, backing-e4 8k-r80-rnd100-qd32-w16 +446 % (+402 % … +494 %).
    figures:
      description: Each figure that it is about, with C(side), C(point), C(metric), C(verdict), C(change_percent), C(low_percent), C(high_percent) and C(why).
      returned: always
      type: list
      elements: dict
      sample: []
compare_dir:
  description: Folder of the comparison.
  returned: success
  type: str
  sample: /srv/results/embedded/compare/b-vs-a
index:
  description: Path of the HTML file.
  returned: success
  type: str
  sample: /srv/results/embedded/compare/b-vs-a/index.html
files:
  description: Path of each file, by name.
  returned: success
  type: dict
  sample: {index.html: /srv/results/embedded/20260301T101500Z/report/index.html}
written:
  description: Files that were written, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [report/index.html]
failure:
  description: Stable code and facts of the failure.
  returned: failure
  type: dict
  contains:
    code:
      description:
        - One of V(unlike_runs), V(regression), V(nothing_to_compare), V(metric_missing), V(run_missing), V(run_empty), V(report_unwritable),
          V(bad_value).
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      type: dict
      sample: {variable: testbed_id}
"""
