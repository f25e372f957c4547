#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_collect
short_description: Ends the runs of a testbed on this host, and takes the finished points that no controller has
version_added: 1.0.0
description:
  - A run that was interrupted goes on by itself, and what it finishes stays on its host. This ends the runs of the testbed there and brings what they have
    finished to their folders in O(results_dir), as M(storlab.testbed.benchmark) would have done. Nothing is measured.
  - A run whose folder is not there is left (RV(left)), because its request is unknown here.
    M(storlab.testbed.benchmark_run) then refuses to remove it.
options:
  testbed_id:
    description: The testbed.
    type: str
    required: true
  results_dir:
    description: Folder on the controller that keeps the results of all testbeds.
    type: path
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Ends and takes nothing, and says what it would.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux hosts.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Take what interrupted runs have finished
  storlab.testbed.benchmark_collect:
    testbed_id: embedded
    results_dir: /tmp/storlab-example
"""

RETURN = r"""
taken:
  description: By run, how many finished points were taken.
  returned: always
  type: dict
  sample: {20260301T101500Z: 3}
left:
  description: By run, how many finished points were left on the host, because the run is not in O(results_dir).
  returned: always
  type: dict
  sample: {}
areas:
  description: Which of V(bench) (runs), V(observer), V(server) and V(event) the testbed had on this host when the runs were ended.
  returned: always
  type: list
  elements: str
  sample: [bench]
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: results_unwritable, details: {}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: results_unwritable
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
