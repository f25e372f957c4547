#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: diagnosis
short_description: Says of a stored run whether it was the storage, the network or the machine
version_added: 1.0.0
description:
  - Reads a run of the profile C(existing_read) that M(storlab.testbed.benchmark) stored, and names for each layer the part that is nearest to its limit.
  - The machine's limit is the rate at which its engine alone issues I/Os, the network's is the speed of the link and the time there and back.
  - An answer holds with 95 % confidence, by the intervals of the repetitions. Everything else is V(cannot tell), and the page lists
    the things that could not be seen.
  - Writes C(diagnosis.md) and C(diagnosis.json) into the folder of the run's report.
  - Runs on the controller. No host of the testbed is needed.
options:
  results_dir:
    description: Folder on the controller that keeps the results of all testbeds.
    type: path
    required: true
  testbed_id:
    description: The testbed.
    type: str
    required: true
  run_id:
    description: The run. V(latest) is the one whose first point started last.
    type: str
    default: latest
  ways:
    description:
      - The way to the servers of its layers as each host showed it before and after the run, a mapping of hosts to a mapping of addresses to C(before) and
        C(after). The playbook C(diagnose) collects it. A server without an entry is one that was not looked at.
    type: dict
    default: {}
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Answers as always, without writing.
    support: full
  diff_mode:
    description: Shows no difference.
    support: none
  platform:
    description: Runs on the controller.
    support: full
    platforms: posix
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Was it the storage, the network or the machine?
  storlab.testbed.diagnosis:
    results_dir: /tmp/storlab-example/results
    testbed_id: embedded
  register: diagnosed

- name: Answer
  ansible.builtin.debug:
    msg: "{{ diagnosed.lines }}"
"""

RETURN = r"""
run_dir:
  description: Folder of the run.
  returned: success
  type: str
  sample: /srv/results/nas/20260301T101500Z
page:
  description: The page that was written.
  returned: success
  type: str
  sample: /srv/results/nas/20260301T101500Z/report/diagnosis.md
lines:
  description: The answers as lines for a terminal.
  returned: success
  type: list
  elements: str
  sample: ["datastore-nas on client01: NETWORK. 93 % of what the link carries is used, at least 91 % with 95 % confidence."]
answers:
  description: An answer for each measured layer.
  returned: success
  type: list
  elements: dict
  contains:
    layer:
      description: Name of the layer.
      type: str
      sample: datastore-nas
    host:
      description: The host that measured it.
      type: str
      sample: client01
    answer:
      description: V(storage), V(network), V(machine) or V(cannot tell).
      type: str
      sample: network
    why:
      description: The reason.
      type: str
      sample: 93 % of what the link carries is used, at least 91 % with 95 % confidence
    figures:
      description: The figures, each as a line.
      type: list
      elements: str
      sample: ["1 MiB, 32 at a time: 112 IOPS (111 to 113), 285 ms each"]
    unseen:
      description: Things that could not be looked at.
      type: list
      elements: str
      sample: ["what the caches of the storage held: it may be slower when more is read"]
    path:
      description: The way to the server as the host showed it; null of storage on no server.
      type: dict
      sample: {interface: eth0, mtu_bytes: 1500, speed_bits_s: 1000000000}
"""
