#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_failures
short_description: Fails with what failed in the turns of a host
version_added: 1.0.0
description:
  - Hosts that take turns in rounds go on to the next round when points fail. This ends them with one failure, C(failure.code) V(points_failed), of all rounds.
  - Reads and measures nothing. Runs on the controller.
options:
  failures:
    description: The C(failure) of M(storlab.testbed.benchmark) of each turn in which points failed. With none of them the task succeeds.
    type: list
    elements: dict
    required: true
  points:
    description: How many points all turns had.
    type: int
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Fails in check mode, too.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Report what failed in all rounds
  storlab.testbed.benchmark_failures:
    failures: "{{ failures_of_turns }}"
    points: 12
"""

RETURN = r"""
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: points_failed, details: {failed: {}, measured: 3}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
