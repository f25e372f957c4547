# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    # Shared by the modules that record what a host answers; plugins/module_utils/core/pseudonyms.py has the same as SPEC.
    DOCUMENTATION = r"""
options:
  key:
    description: Any secret. Recordings with the same key replace the same thing in the same way.
    type: str
    required: true
  names:
    description: More names to replace, such as the names in the inventory.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reads only.
    support: full
  diff_mode:
    description: Nothing differs.
    support: none
"""
