#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: network_ceiling
short_description: Measures what the network between two hosts carries without any storage
version_added: 1.0.0
description:
  - TCP throughput each way for three seconds with four streams, and the time there and back of single bytes, over an address of the target. Hosts need Python
    and nothing else.
  - O(state=listening) is for the target (C(delegate_to)), O(state=measured) for the host that measures; it keeps what it finds in C(network.jsonl) of the run,
    which the report and C(compare) show. A link that cannot be measured is noted there, and fails nothing.
  - The target listens on O(address) alone, for one measurement, answers only who knows the random O(token), and ends by itself.
  - A link that was measured for the run already is not measured again.
options:
  state:
    description: Which side this is.
    type: str
    choices: [listening, measured]
    required: true
  testbed_id:
    description: The testbed.
    type: str
    required: true
  run_id:
    description: The run beside which it is kept.
    type: str
    required: true
  results_dir:
    description: Folder on the controller that keeps results.
    type: path
    required: true
  host:
    description: The host that measures, as the inventory names it.
    type: str
    required: true
  target:
    description: The target, as the inventory names it.
    type: str
    required: true
  address:
    description: Its IP address in the storage network.
    type: str
    required: true
  token:
    description: 32 hexadecimal digits, random and the same on both sides.
    type: str
    required: true
  listening:
    description: The return value of the task with O(state=listening). Required for O(state=measured).
    type: dict
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Measures nothing.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux. Python 3.9 or later.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Wait on the target
  storlab.testbed.network_ceiling:
    state: listening
    testbed_id: lab
    run_id: first
    results_dir: /var/lib/lab/results
    host: client01
    target: target01
    address: 192.0.2.11
    token: "{{ token }}"
  delegate_to: target01
  register: listening

- name: Measure
  storlab.testbed.network_ceiling:
    state: measured
    testbed_id: lab
    run_id: first
    results_dir: /var/lib/lab/results
    host: client01
    target: target01
    address: 192.0.2.11
    token: "{{ token }}"
    listening: "{{ listening }}"
"""

RETURN = r"""
port:
  description: Where the target listens.
  returned: state=listening, when the link is to be measured
  type: int
  sample: 41235
note:
  description: Why it does not.
  returned: state=listening, when it cannot
  type: str
  sample: "This host cannot listen on 192.0.2.11: Cannot assign requested address."
network:
  description: The line of C(network.jsonl).
  returned: state=measured, not in check mode
  type: dict
  sample: {host: client01, target: target01, address: 192.0.2.11, to_target_bits_s: 9412345678, from_target_bits_s: 9387654321, round_trip_ns: 81000}
"""
