# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option for layers that others have published."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers).
    type: dict
    default: {}
"""
