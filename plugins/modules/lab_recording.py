#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lab_recording
short_description: Keeps the recorded answers of a lab, and a page that shows their texts
version_added: 1.0.0
description:
  - Writes each recording of M(storlab.testbed.esxi_recording), M(storlab.testbed.host_recording) and M(storlab.testbed.win_recording) into a file without
    the host's name, and C(LOOK_AT_THIS_FIRST.md) with the texts that they hold. Sends nothing.
options:
  folder:
    description: Folder on the controller, which must not exist or be empty.
    type: path
    required: true
  recordings:
    description: The recordings that the three modules returned.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  idempotent:
    description: Refuses a folder that holds files.
    support: none
  check_mode:
    description: Writes nothing.
    support: full
  diff_mode:
    description: Nothing differs.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Keep what was recorded
  storlab.testbed.lab_recording:
    folder: "{{ playbook_dir }}/lent"
    recordings: ["{{ answers.recording }}"]
"""

RETURN = r"""
files:
  description: Names of the files, one per recording.
  returned: success
  type: list
  elements: str
  sample: [esxi-1.json, linux-1.json]
page:
  description: Path of the page to look at first.
  returned: success
  type: str
  sample: /home/me/lent/LOOK_AT_THIS_FIRST.md
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
