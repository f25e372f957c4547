# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A point of the load on a database: the options that its action and the module on the host share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  testbed_id:
    description: The testbed that the database belongs to.
    type: str
    required: true
  database:
    description: Which database it must be.
    type: str
    choices: [postgresql, mariadb]
    default: postgresql
  hammerdb_dir:
    description:
      - Folder of your own copy of HammerDB on the host, which issues the load on the rows that it has made. O(ramp_s) and O(runtime_s) are multiples
        of 60 then, and O(isolation) is left out.
    type: path
  warehouses:
    description: The warehouses that the database must have.
    type: int
    default: 1
  virtual_users:
    description: Connections that issue one transaction after another, without a pause.
    type: int
    default: 4
  ramp_s:
    description: Seconds before the measured time.
    type: int
    default: 60
  runtime_s:
    description: Measured seconds.
    type: int
    default: 300
  isolation:
    description: Isolation of the transactions. A transaction that the database refuses for it is tried again, up to ten times; by pgbench since version 15.
    type: str
    choices: [read_committed, repeatable_read, serializable]
    default: read_committed
"""
