#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: import_results
short_description: Turns files of fio, bench-fio, HCIBench, CBT, IOMeter and diskspd into a stored run
version_added: 0.2.0
description:
  - Reads every file below a folder and stores what it can use as a run, as M(storlab.testbed.benchmark) stores its own. It can be reported and compared.
  - Reads fio's JSON of any 3.x and of 2.21 or later whatever the files are called, with messages around it, several documents in one file, and
    client/server output; IOMeter's CSV from 2006.07.27 to 1.1.0; diskspd's XML.
  - What fio wrote of several processes or servers of one job is one point. So are the files that HCIBench or CBT left of clients that ran at the same time.
    Histograms are merged; where there are none, a percentile of all is given as bounds.
  - The folders name the layer, without folders that describe the workload. The same workload on the same layer is numbered as repetitions.
  - Raw files are copied byte for byte into the run, and every point names its raw file and the checksum. The folder that is read is not changed.
  - What looks like a result and cannot be used is listed with the reason, in RV(unread) and in the run. Other files are counted in RV(ignored).
  - The same files give the same run, so a second import changes nothing. An import replaces what an earlier one stored under the same name.
  - Runs on the controller. No host is needed.
options:
  path:
    description: Folder of results, with any folders in it, or one file.
    type: path
    required: true
  run_dir:
    description:
      - Folder of the run to write. It must be missing, empty or an earlier import.
      - Either this or O(results_dir).
    type: path
  results_dir:
    description: Folder that holds one folder per testbed and in it one folder per run. The run becomes O(results_dir)/O(testbed_id)/O(run_id).
    type: path
  testbed_id:
    description: Name of the testbed that the run is stored under.
    type: str
    default: imported
  run_id:
    description: Name of the run. By default the name of O(path), as far as it is fit to name a folder.
    type: str
  layer:
    description:
      - Name of the layer where no folder below O(path) names one. By default the name of O(path).
      - Imports of the same thing that are to be compared, such as one before and one after a change, have the same layer.
    type: str
  time_zone:
    description:
      - Zone of the local times in IOMeter's files, which have none, as a name such as V(Europe/Berlin) or an offset such as V(+01:00).
      - Without it, no point of IOMeter has a time. A time that the zone has twice, when clocks are put back, is absent, too.
    type: str
    version_added: 1.0.0
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Says what would be written or removed, and returns what was read, without writing.
    support: full
  diff_mode:
    description: There is no text to compare; RV(written) and RV(removed) name the files.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Store what bench-fio left as a run
  storlab.testbed.import_results:
    path: /tmp/storlab-example/benchmarks
    results_dir: /tmp/storlab-example/results
    testbed_id: old_array
  register: imported

- name: Report it
  storlab.testbed.report:
    run_dir: "{{ imported.run_dir }}"
"""

RETURN = r"""
run_dir:
  description: Folder of the run.
  returned: success
  type: str
  sample: /srv/results/embedded/20260301T101500Z
testbed_id:
  description: The testbed that the run is stored under.
  returned: success
  type: str
  sample: embedded
run_id:
  description: Name of the run.
  returned: success
  type: str
  sample: 20260301T101500Z
layers:
  description: Names of the layers that were found.
  returned: success
  type: list
  elements: str
  sample: [backing-bench]
points:
  description: Number of points.
  returned: success
  type: int
  sample: 12
points_failed:
  description: Number of points whose measurement had failed.
  returned: success
  type: int
  sample: 0
imported:
  description: Files that were used, relative to O(path).
  returned: success
  type: list
  elements: str
  sample: [job1.json]
unread:
  description: Files that look like results and could not be used, or parts of them.
  returned: success
  type: list
  elements: dict
  contains:
    file:
      description: The file, relative to O(path).
      type: str
      sample: notes.txt
    reason:
      description: Why it could not be used.
      type: str
      sample: it is not a result of a known engine
ignored:
  description: Number of other files.
  returned: success
  type: int
  sample: 3
written:
  description: Files of the run that were written, or would be in check mode, relative to RV(run_dir).
  returned: success
  type: list
  elements: str
  sample: [run.json]
removed:
  description: Files of an earlier import that were removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [points/old/result.json]
failure:
  description: Stable code and facts of the failure.
  returned: failure
  type: dict
  contains:
    code:
      description: One of V(nothing_imported), V(run_exists), V(run_unwritable), V(bad_value).
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      type: dict
      sample: {variable: testbed_id}
"""
