# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the embedded lab that inventories have to know before anything runs."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..module_utils.lab.netns import netns_name

DOCUMENTATION = r"""
name: lab_netns
short_description: Name of the network namespace of an embedded lab
version_added: 0.1.0
description:
  - Computes the name from the lab's folder and name, so that two checkouts with a lab of the same name never meet.
options:
  _input:
    description: The lab's folder, an absolute path.
    type: str
    required: true
  name:
    description: The lab's name.
    type: str
    required: true
positional: name
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
lab_netns: "{{ lab_dir | storlab.testbed.lab_netns('embedded') }}"
"""

RETURN = r"""
_value:
  description: The name.
  type: str
"""


def lab_netns(lab_dir: str, name: str) -> str:
    try:
        return netns_name(name, lab_dir)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self) -> dict:
        return {"lab_netns": lab_netns}
