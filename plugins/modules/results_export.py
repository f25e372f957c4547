#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: results_export
short_description: Writes the stored results of a run for other tools
version_added: 0.2.0
description:
  - Reads a run that M(storlab.testbed.benchmark) stored and writes it as one file in a format that spreadsheets, databases and time-series
    databases read.
  - The same results give the same bytes, so a second run changes nothing. A figure that was not measured is absent, never 0.
  - Results that cannot be read are listed in RV(damaged) with the reason, and the rest is exported.
  - Runs on the controller. No host of the testbed is needed.
options:
  format:
    description:
      - V(csv) is a table with one row per point. Its columns keep their names and order; new ones come at the end.
      - V(parquet) is the same table with types. It needs the Python package C(pyarrow) on the controller.
      - V(jsonl) is one JSON object a line, the result without its histograms, or the whole of it with O(full=true).
      - V(prometheus) is the text exposition format, in base units, without time stamps, as the textfile collector and the push gateway want it.
      - V(influx) is the InfluxDB line protocol with the time at which the point ended. Points that never ran have none and are in RV(left_out).
    type: str
    required: true
    choices: [csv, influx, jsonl, parquet, prometheus]
  dest:
    description: File on the controller to write. Its folder must exist.
    type: str
    required: true
  full:
    description: Whole results with their histograms. Only for O(format=jsonl).
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.run
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says whether the file would change, without writing it.
    support: full
  diff_mode:
    description: Shows what changes in the file; of Parquet only its size and hash.
    support: full
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Give the newest run of a testbed to a spreadsheet
  storlab.testbed.results_export:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
    format: csv
    dest: /tmp/storlab-example/results.csv

- name: Let the node exporter's textfile collector pick a run up
  storlab.testbed.results_export:
    run_dir: /tmp/storlab-example/results/embedded/20261121T133616Z
    format: prometheus
    dest: /tmp/storlab-example/storlab.prom
"""

RETURN = r"""
dest:
  description: The file.
  returned: success
  type: str
  sample: /srv/export/run.csv
run_dir:
  description: Folder of the run.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z
points:
  description: Number of points in the file.
  returned: success
  type: int
  sample: 12
bytes:
  description: Size of the file.
  returned: success
  type: int
  sample: 48211
sha256:
  description: SHA-256 of the file.
  returned: success
  type: str
  sample: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
left_out:
  description: Points that the format cannot hold, because they never ran and so have no time.
  returned: success
  type: list
  elements: str
  sample: [guest-guest01.4k.r1]
damaged:
  description: Results that could not be read.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: The file, relative to the run's folder.
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
      description: Short name, V(run_missing), V(bad_value), V(package_missing), V(result_unreadable) or V(export_unwritable).
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      type: dict
      sample: {variable: testbed_id}
"""
