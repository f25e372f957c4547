# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    # An event as path_event has it armed and path_event_run arms it.
    DOCUMENTATION = r"""
options:
  kind:
    description: The kind of event. V(target_off) switches a target of the kernel's iSCSI server off, which ends its sessions, and on again.
    type: str
    choices: [target_off]
    default: target_off
  target:
    description: Name (IQN) of the target. Needed to arm an event.
    type: str
  after_s:
    description: For how many seconds I/O must have arrived without a pause before the event.
    type: float
    default: 10.0
  for_s:
    description: After how many seconds it is undone.
    type: float
    default: 0.0
  deadline_s:
    description: After how many seconds without such I/O it is given up.
    type: float
    default: 600.0
"""
