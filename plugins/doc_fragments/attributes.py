# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    # For all modules; each says itself what check mode and diff mode show.
    DOCUMENTATION = r"""
attributes:
  idempotent:
    description: When run twice with the same arguments, the second time changes nothing.
    support: full
"""

    ON_HOST = r"""
attributes:
  async:
    description: May be run with C(async).
    support: full
"""

    ON_CONTROLLER = r"""
attributes:
  async:
    description: Ansible refuses C(async), because the task runs on the controller.
    support: none
"""
