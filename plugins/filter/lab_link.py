# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the network of a machine of the embedded lab is shaped, as a word of its kernel command line."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils.core.failure import Failure
from ..module_utils.lab.links import kernel_word

DOCUMENTATION = r"""
name: lab_link
short_description: How the network of a machine of the embedded lab is shaped, as a word of its kernel command line
version_added: 1.0.0
description:
  - Checks all links and makes the word of one machine. A link that cannot be is refused.
options:
  _input:
    description:
      - The links, as in C(embedded_lab_links) of the role embedded_lab. Each has at least one of C(rate_mbit), C(delay_ms) and C(loss_percent), and may name
        its C(machine).
    type: list
    elements: dict
    required: true
  machines:
    description: Names of the machines of the lab.
    type: list
    elements: str
    required: true
  name:
    description: The machine that the word is for.
    type: str
    required: true
positional: machines, name
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
append: "{{ [{'delay_ms': 2, 'rate_mbit': 100}] | storlab.testbed.lab_link(['target01', 'hypervisor01'], 'target01') }}"
"""

RETURN = r"""
_value:
  description: The word, such as C(storlab.link=delay,2000us,rate,100000kbit); empty where the network is as it is.
  type: str
"""


def lab_link(links: list, machines: list, name: str) -> str:
    try:
        return kernel_word(links, machines, name)
    except Failure as failure:
        raise AnsibleFilterError(str(failure)) from failure


class FilterModule:
    def filters(self) -> dict:
        return {"lab_link": lab_link}
