# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  testbed_id:
    description: The testbed, which is part of names and descriptions on the host. No underscores.
    type: str
    required: true
requirements:
  - The collection ansible.windows on the controller
  - PowerShell 5.1 on the host
notes:
  - Runs on the controller and sends scripts to the host with M(ansible.windows.win_powershell). Nothing is installed on the host for it.
  - What was on the host before is kept on the controller. Secrets are kept as salted digests only.
"""
