#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Renders what each layer of a testbed costs, from the stored results of a run
version_added: 0.1.0
description:
  - Reads a run that M(storlab.testbed.benchmark) stored and writes a report beside its results.
  - The report is one self-contained HTML file that opens offline, a Markdown file fit for a pull request, a CSV file with one row a
    point, a JSON file with everything the report says, and a JUnit file in which each point is a test case.
  - Keeps a page of all runs of the testbed beside them, see O(index).
  - Repetitions are pooled. Rates are medians, mean latencies are weighted by the number of I/Os, percentiles come from merged histograms.
  - Each layer is set against the layer its I/O goes through next. Layers that cannot be compared are shown and called not comparable.
  - Failed points and damaged files are listed with the reason; the rest of the run is reported.
  - The same stored results give the same bytes, so a second run changes nothing.
  - Runs on the controller. No host of the testbed is needed.
options:
  title:
    description: Title of the report. By default it names the testbed.
    type: str
  scrub:
    description:
      - Gives hosts, users, testbeds, addresses (IPv4, IPv6, MAC), IQNs, NAAs, serial numbers and UUIDs pseudonyms such as C(host-1), the same ones in
        all files of the report, also within paths and sentences. Figures are unchanged.
      - Raw files hold the real names, so the report does not link them; their checksums stay.
      - The page of all runs, which is not part of the report, has the real names.
    type: bool
    default: false
  static:
    description:
      - Writes each chart of the report as a file of its own to C(charts) in the folder of the report, light, with the styles it needs.
      - V(png) is drawn by a headless Chromium on the controller.
    type: list
    elements: str
    choices: [svg, png]
    default: []
  targets:
    description:
      - What the testbed shall reach, such as V(p99 <= 5 ms at 10k IOPS on guest), V(IOPS >= 20k on initiator) or V(MB/s >= 400 under 64k-r100-rnd0-qd4-w1).
      - C(at) a rate looks only at what did at least so many I/Os per second. C(on) takes the name or the kind of a layer, without it the top of the chain
        is meant. C(under) takes the id of a workload, without it every workload has to reach the target.
      - Each is met, missed, or not shown. The report says so at its top, and each is a case of the JUnit file, failed unless it is met.
    type: list
    elements: str
    default: []
    version_added: 1.0.0
  index:
    description:
      - Keeps C(index.html) and C(index.json) in the folder of the testbed. They list all runs with what each found, link the reports, and show
        how each figure went from run to run and where the environment changed.
      - Only for a run in C(results_dir/testbed_id/run_id), as M(storlab.testbed.benchmark) stores it. With O(state=absent) the
        link goes, and both files with the last report.
    type: bool
    default: true
  state:
    description:
      - V(present) writes the report, V(absent) removes its files and leaves the results.
      - V(listed) brings the page of all runs up to date alone, see O(index), whether a run has a report or not. It needs O(results_dir) and O(testbed_id).
    type: str
    choices: [present, absent, listed]
    default: present
extends_documentation_fragment:
  - storlab.testbed.run
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says which files would be written or removed, and returns the figures, without writing.
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
- name: Report the newest run of a testbed
  storlab.testbed.report:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
  register: report

- name: Report the newest run in a form that can be shown to anybody, with pictures for a paper
  storlab.testbed.report:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
    scrub: true
    static: [svg]

- name: Report a run under a title of its own
  storlab.testbed.report:
    run_dir: /tmp/storlab-example/results/embedded/20261121T133616Z
    title: Before the change of the queue depth
"""

RETURN = r"""
run_dir:
  description: Folder of the run.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z
report_dir:
  description: Folder of the report.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z/report
index:
  description: Path of the HTML file.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z/report/index.html
runs:
  description: Path of the page of all runs of the testbed.
  returned: when O(index) and the run is in the folder of its testbed
  type: str
  sample: /srv/results/embedded/index.html
files:
  description: Path of each file of the report, by name.
  returned: success
  type: dict
  sample: {index.html: /srv/results/embedded/20260301T101500Z/report/index.html}
written:
  description: Files that were written, or would be in check mode.
  returned: O(state=present)
  type: list
  elements: str
  sample: [report/index.html]
removed:
  description: Files that were removed, or would be in check mode.
  returned: O(state=absent)
  type: list
  elements: str
  sample: [report/index.html]
testbed_id:
  description: The testbed, as the results name it.
  returned: O(state=present)
  type: str
  sample: embedded
run_id:
  description: The run, as the results name it.
  returned: O(state=present)
  type: str
  sample: 20260301T101500Z
verdict:
  description: One sentence that names the most expensive step.
  returned: O(state=present)
  type: str
  sample: Most of the time goes between initiator-bench and target-bench.
trust:
  description: Whether the figures can be believed, in a sentence.
  returned: O(state=present)
  type: str
  sample: "Large differences only: fewer than 4 repetitions."
next_step:
  description: The next thing to do, in a sentence.
  returned: O(state=present)
  type: str
  sample: Change one thing in the step from datastore-ds1 to guest-guest01, measure again, and compare the two runs.
summary:
  description:
    - One row per layer and workload. A metric that was not measured is absent, never 0.
  returned: O(state=present)
  type: list
  elements: dict
  sample:
    - {workload_id: 4k-r70-rnd100-qd8-w1, layer: target-bench, layer_kind: target, host: target01, ioengine: libaio, repetitions: 3, iops: 6958.4,
       bandwidth_bytes_s: 28501606.4, latency_mean_ns: 1158822.1, latency_p50_ns: 1056768, latency_p99_ns: 2736128, below: backing-bench,
       relation: parent, comparable: true, added_mean_ns: 1018723.9, latency_ratio: 8.27, iops_ratio: 0.12, share: 0.25}
table:
  description: The same as lines of text for a terminal.
  returned: O(state=present)
  type: list
  elements: str
  sample: ["| layer | IOPS |", "| backing-bench | 6958 |"]
points:
  description: Number of points in the run.
  returned: O(state=present)
  type: int
  sample: 12
points_failed:
  description: Number of points that failed and count in no figure.
  returned: O(state=present)
  type: int
  sample: 0
damaged:
  description: Files of the run that could not be used.
  returned: O(state=present)
  type: list
  elements: dict
  contains:
    file:
      description: The file, relative to the folder of the run.
      type: str
      sample: points/x/result.json
    reason:
      description: Why it could not be used.
      type: str
      sample: it is not JSON
targets:
  description: Whether each of O(targets) was met.
  returned: O(state=present)
  type: list
  elements: dict
  contains:
    target:
      description: The target as it was written.
      type: str
      sample: p99 <= 5 ms at 10k IOPS on guest
    verdict:
      description: C(met), C(missed), or C(not shown) where no measurement answers it.
      type: str
      sample: missed
    why:
      description: The figure that decided.
      type: str
      sample: 7.31 ms on guest-guest01 under 4k-r70-rnd100-qd8-w1
flags:
  description: Notes to read before trusting a figure, each with C(level) V(warning) or V(note) and C(text).
  returned: O(state=present)
  type: list
  elements: dict
  contains:
    level:
      description: V(warning) or V(note).
      returned: always
      type: str
      sample: warning
    text:
      description: The note.
      returned: always
      type: str
      sample: The processor of target01 is emulated.
failure:
  description: Stable code and facts of the failure.
  returned: failure
  type: dict
  contains:
    code:
      description: One of V(run_missing), V(run_empty), V(report_unwritable), V(browser_missing), V(browser_failed), V(bad_value).
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      type: dict
      sample: {variable: testbed_id}
"""
