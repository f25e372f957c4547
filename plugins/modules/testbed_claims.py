#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: testbed_claims
short_description: Keeps on the controller what the testbed claims on a Linux host, and restores it there
version_added: 1.0.0
description:
  - What a testbed made on a Linux host is in records in C(/run/storlab/<testbed_id>), and nothing else is removed. O(state=kept) keeps a copy of them in
    C(claims/<host>.json) of O(state_dir), and its SHA-256 in the testbed's ledger, C(<results_dir>/<testbed_id>/ledger.jsonl). O(state=restored) writes
    those again that are lost or damaged on the host.
  - Only a copy that the ledger's last line about this host names is restored, only since the same start of the host, and without what has come later under
    the same name. A record that is there stays. A ledger that was changed is not believed.
  - O(state=forgotten) is for a host whose roles have all ended with nothing left. It does not ask the host.
  - Secrets are not kept, nor anything derived from them.
  - What records on the host name is kept in C(made/<host>.json) of O(state_dir), too, until M(storlab.testbed.storage_baseline) has proven that it is gone.
options:
  state:
    description: The action to take.
    type: str
    choices: [kept, restored, forgotten]
    required: true
  testbed_id:
    description: The testbed.
    type: str
    required: true
  results_dir:
    description: Folder on the controller that keeps the results and the ledger of each testbed.
    type: path
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.state
attributes:
  check_mode:
    description: Keeps nothing, and says what would be restored.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Find again what a lost record named
  storlab.testbed.testbed_claims:
    state: restored
    testbed_id: embedded
    state_dir: /tmp/storlab-example
    results_dir: /tmp/storlab-example/results
"""

RETURN = r"""
restored:
  description: Areas whose record was written again on the host.
  returned: O(state=restored)
  type: list
  elements: str
  sample: [ramdisk, tgt_target]
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: bad_value, details: {}}
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
