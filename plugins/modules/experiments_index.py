#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: experiments_index
short_description: Writes one page of several experiments, those that failed among them
version_added: 1.0.0
description:
  - Says of each experiment what it is, when it ran, how many points were measured and how many failed, whether it was scaled down, on what machines it
    ran, what its report says first, what was compared within its run, and what was published beside what was measured.
  - An experiment that failed is on the page with the messages of the tasks that failed, read from the output of C(ansible-playbook). Points measured
    before are there, too.
  - The page is C(experiments/index.html) in the folder of the results, one self-contained HTML file that links the reports, with C(index.json) beside it.
    The next one takes its place; the results and reports of earlier runs stay.
  - The playbook C(experiments/all.yml) ends with it.
  - Runs on the controller. No host of the testbed is needed.
options:
  results_dir:
    description: Folder on the controller that keeps the results of all testbeds.
    type: path
    required: true
  experiments:
    description: The experiments that ran, in the order of the page.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - Its name. Its results belong to the testbed of that name or, where it was scaled down, of the testbed C(<name>-scaled-down).
        type: str
        required: true
      title:
        description: Its name.
        type: str
        required: true
      run_id:
        description: The run that it measured.
        type: str
        required: true
      rc:
        description: How it ended; anything but 0 is a failure.
        type: int
        required: true
      attempts:
        description: How often it was started; a second time only what had failed the first time is measured.
        type: int
        default: 1
      started_utc:
        description: When it began, such as V(2026-11-22T01:14:00Z).
        type: str
        required: true
      finished_utc:
        description: When it ended.
        type: str
        required: true
      words:
        description: Its settings in the inventory, shown where it was scaled down.
        type: dict
        default: {}
      published:
        description:
          - Figures of the load of a database that were published of it. They are on the page beside the measurement, or with the words that nothing was.
          - The figures of its I/O, and of a load that it did measure, the run itself knows.
        type: list
        elements: dict
        default: []
        suboptions:
          metric:
            description: Transactions of all kinds a minute, or New-Orders.
            type: str
            choices: [tpm, nopm]
            required: true
          value:
            description: The figure.
            type: float
            required: true
          unit:
            description: Its unit.
            type: str
            required: true
          where:
            description: The system it was measured on.
            type: str
            required: true
          note:
            description: Remarks on it.
            type: str
      log:
        description: File with what C(ansible-playbook) said, written with C(callback_result_format=json).
        type: path
        required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says whether the page would change, and writes nothing.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: One page of what was repeated tonight
  storlab.testbed.experiments_index:
    results_dir: /tmp/storlab-example/results
    experiments:
      - name: e2
        title: fio on a Linux RAM disk
        run_id: 20261122T011400Z
        rc: 0
        started_utc: "2026-11-22T01:12:17Z"
        finished_utc: "2026-11-22T01:27:40Z"
        log: /tmp/storlab-example/results/experiments/e2.log
"""

RETURN = r"""
index:
  description: Path of the page.
  returned: success
  type: str
  sample: /srv/results/experiments/index.html
summary:
  description: A line per experiment.
  returned: success
  type: list
  elements: str
  sample: ["e2: done (24 of 24 points measured, 15 min 23 s)"]
failed_experiments:
  description: Names of those that failed.
  returned: success
  type: list
  elements: str
  sample: [e5]
failure:
  description: Stable code and facts of the failure.
  returned: failure
  type: dict
  contains:
    code:
      description: One of V(report_unwritable), V(bad_value).
      type: str
      sample: report_unwritable
    details:
      description: Facts for scripts.
      type: dict
      sample: {path: /srv/results/experiments/index.html}
"""
