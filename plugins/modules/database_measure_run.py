#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: database_measure_run
short_description: Runs the load on the database of this host once
version_added: 1.0.0
description:
  - Runs pgbench or sysbench against the database that M(storlab.testbed.database_load) has made, counts what the host and its disk do then, and looks
    afterwards whether the data meet the conditions of the TPC-C specification (3.3.2).
  - Used by M(storlab.testbed.database_measure), which makes a result of what this returns.
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.database_point
  - storlab.testbed.attributes.on_host
attributes:
  idempotent:
    description: Each time is a measurement.
    support: none
  check_mode:
    description: Is skipped.
    support: none
  diff_mode:
    description: Nothing is configured.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A minute of load by eight users
  storlab.testbed.database_measure_run:
    testbed_id: lab
    virtual_users: 8
    ramp_s: 10
    runtime_s: 60
"""

RETURN = r"""
raw:
  description: The driver's output, the counts of its log, and the outcome of the conditions.
  returned: success
  type: dict
  sample: {exit_code: 0}
meta:
  description: When it was and what the host counted.
  returned: success
  type: dict
  sample: {started_utc: "2026-03-01T10:15:00.000Z"}
environment:
  description: The host's fingerprint.
  returned: success
  type: dict
  sample: {kernel: 6.1.0}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.watch import environment
from ..module_utils.run import database


def main() -> None:
    module = AnsibleModule(argument_spec=database.SPEC)
    with failures_of(module):
        module.exit_json(changed=True, **database.measure(module.params), environment=environment.fingerprint())


if __name__ == "__main__":
    main()
