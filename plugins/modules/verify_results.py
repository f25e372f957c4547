#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: verify_results
short_description: Says whether the results of a run follow from their raw files
version_added: 1.0.0
description:
  - Makes each C(result.json) of a run again of the files that it was made of (C(point.json), C(meta.json), the engine's output) and names each field that
    is another. One edited field of a result is always found.
  - Compares every file of the run with its checksum in the ledger of the testbed, and sees that no line of the ledger was changed or removed.
  - Fails with C(results_differ) when something does not follow. One that cannot be made again, because the run is of an earlier version or was imported, is
    listed in RV(unproven) and does not fail.
  - Keeps the verdict as C(verified.json) in the folder of the run; the report of the run shows it and links to it.
  - Runs on the controller. No host of the testbed is needed.
extends_documentation_fragment:
  - storlab.testbed.run
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Verifies as always, and keeps no verdict.
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
- name: See that no figure of the newest run was changed
  storlab.testbed.verify_results:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
"""

RETURN = r"""
run_dir:
  description: Folder of the run.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z
verdict:
  description: V(follows), V(differs), or V(unproven) when nothing differs and something could not be made again.
  returned: always
  type: str
  sample: follows
ledger:
  description: V(holds), V(broken), or V(silent) when there is none that names this run.
  returned: always
  type: str
  sample: holds
summary:
  description: The verdict in a sentence.
  returned: always
  type: str
  sample: Every result follows from its raw files.
points:
  description: How many points the run has.
  returned: always
  type: int
  sample: 54
findings:
  description: The first 20 figures that do not follow.
  returned: always
  type: list
  elements: dict
  contains:
    file:
      description: The file, relative to the run's folder.
      type: str
      sample: points/backing-bench.4k-r100-rnd100-qd8-w1.r1/result.json
    field:
      description: Which field of it, with dots between the keys.
      type: str
      sample: total.iops
    found:
      description: The stored value; absent without one.
      type: raw
      sample: 90000
    follows:
      description: The value that follows from the raw files; absent without one.
      type: raw
      sample: 81234.5
    reason:
      description: The mistake.
      type: str
      sample: it does not follow from the files beside it
unproven:
  description: The first 20 results that could not be made again, and why.
  returned: always
  type: list
  elements: dict
  contains:
    file:
      description: The file, relative to the run's folder.
      type: str
      sample: points/a.r1/result.json
    reason:
      description: Why.
      type: str
      sample: point.json is missing, so it is unknown what was requested
file:
  description: The verdict with all of them.
  returned: always
  type: str
  sample: /srv/results/embedded/20260301T101500Z/verified.json
failure:
  description: The failure, for scripts.
  returned: failure
  type: dict
  contains:
    code:
      description: Short name, V(results_differ), V(run_missing), V(bad_value) or V(verdict_unwritable).
      type: str
      sample: results_differ
    details:
      description: Facts for scripts.
      type: dict
      sample: {findings: 1}
"""
