#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_recording
short_description: Records the answers of a Windows host that this collection reads
version_added: 1.0.0
description:
  - Runs the script that reads the state of a Windows host and returns its answer, so that the same readers can read it again elsewhere. Playbook
    C(storlab.testbed.record) uses it.
  - Changes nothing.
  - Names, addresses, identifiers and serial numbers are replaced on the controller, each by the same replacement everywhere.
extends_documentation_fragment:
  - storlab.testbed.recording
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  platform:
    description: Windows Server 2016 and later. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: windows
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Record the answers of a host
  storlab.testbed.win_recording:
    key: "{{ lookup('ansible.builtin.password', '/dev/null') }}"
  register: answers
"""

RETURN = r"""
about:
  description: The host, as RV(storlab.testbed.win_state#module:about) has it.
  returned: success
  type: dict
  sample: {product: Windows Server 2022 Standard, version: 10.0.20348}
recording:
  description: The host's answers, with other names and identifiers.
  returned: success
  type: dict
  contains:
    format:
      description: Version of this form.
      returned: always
      type: int
      sample: 1
    kind:
      description: V(windows).
      returned: always
      type: str
      sample: windows
    state:
      description: The answer of the script, see C(plugins/plugin_utils/windows/scripts/state.ps1).
      returned: always
      type: dict
      sample: {disks: []}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: state_unreadable, details: {}}
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
