# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stored run is meant: the options of what reads one."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  run_dir:
    description:
      - Folder of the run on the controller.
      - Either this, or O(results_dir) and O(testbed_id).
    type: path
  results_dir:
    description: Folder on the controller that holds one folder per testbed and in it one folder per run.
    type: path
  testbed_id:
    description: Name of the testbed in O(results_dir).
    type: str
  run_id:
    description: Name of the run in O(results_dir), or V(latest) for the run that started last.
    type: str
    default: latest
"""
