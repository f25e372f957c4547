#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: database_measure
short_description: Measures the TPROC-C style load on a testbed's database, as a point of a run
version_added: 1.0.0
description:
  - Runs the load once on the database that M(storlab.testbed.database_load) has made on this host, and stores a point with C(tpm), C(nopm), the latencies of
    the transactions by kind, what the host and the layer's disk did at the time, and whether the data were right afterwards. C(docs/database.md) explains them.
  - A point that is there already and was measured with the same values is not measured again.
  - A point that fails is stored with its reason, and the task fails with code C(points_failed). Earlier points stay.
options:
  run_id:
    description: The run that the point belongs to.
    type: str
    required: true
  results_dir:
    description: Folder of all results on the controller.
    type: path
    required: true
  layer:
    description: The published layer that the database is on.
    type: str
    required: true
  repetition:
    description: Number of the repetition.
    type: int
    default: 1
  variant:
    description: The variant, such as V(baseline) or V(cached), where one run has several.
    type: str
  published:
    description: Figures of such a load that others have published, which the run keeps for its report.
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
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.database_point
attributes:
  async:
    description: Ansible refuses C(async), because a part of the task runs on the controller.
    support: none
  check_mode:
    description: Says that the point would be measured.
    support: full
  diff_mode:
    description: Nothing is configured.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
seealso:
  - module: storlab.testbed.database_load
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Three repetitions of five minutes by eight users
  storlab.testbed.database_measure:
    testbed_id: lab
    run_id: 20260301T101500Z
    results_dir: results
    layer: datastore-ds1
    warehouses: 10
    virtual_users: 8
    repetition: "{{ item }}"
  loop: [1, 2, 3]
"""

RETURN = r"""
point_id:
  description: Name of the point.
  returned: success
  type: str
  sample: datastore-ds1.tproc_c-w10-vu8.r1
result:
  description: The point without its histograms, see C(docs/results.md).
  returned: when it was measured, now or before
  type: dict
  sample: {status: measured, tpm: 21540.0, nopm: 9710.4}
line:
  description: The same in a line for a terminal.
  returned: when it was measured, now or before
  type: str
  sample: "datastore-ds1.tproc_c-w10-vu8.r1: 21540 TPM, 9710 NOPM"
failure:
  description: Stable code and facts of the failure.
  returned: failure
  type: dict
  contains:
    code:
      description: V(points_failed) when the point was stored as failed, or what kept it from beginning.
      type: str
      sample: points_failed
    details:
      description: Facts for scripts.
      type: dict
      sample: {point_id: datastore-ds1.tproc_c-w10-vu8.r1, failures: [database_full]}
"""
