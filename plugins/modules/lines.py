#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lines
short_description: Prints lines as they are
version_added: 1.0.0
description:
  - Prints tables and drawings as such, whatever format Ansible prints results in. C(ansible.builtin.debug) prints a text of several lines as one line
    with C(\n) in it, unless C(callback_result_format) is V(yaml).
  - Prints nothing where the output of C(ansible-playbook) is JSON for a program (the callbacks C(json) and C(jsonl)), which finds the lines in RV(msg).
  - Runs on the controller.
options:
  lines:
    description: The text to print. A text with line breaks is as many lines. Control characters become question marks.
    type: list
    elements: str
    required: true
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Prints the same in check mode.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Print a table
  storlab.testbed.lines:
    lines:
      - layer           IOPS
      - backing-bench  57.4k
"""

RETURN = r"""
msg:
  description: The lines as one text.
  returned: success
  type: str
  sample: "layer           IOPS\nbacking-bench  57.4k"
"""
