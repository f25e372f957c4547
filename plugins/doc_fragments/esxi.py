# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  hostname:
    description: Address or name of the ESXi host, or of the vCenter that manages it. Without it the environment's C(VMWARE_HOST).
    type: str
    required: true
  port:
    description: Its HTTPS port. Without it the environment's C(VMWARE_PORT).
    type: int
    default: 443
  username:
    description: Who logs in. Without it the environment's C(VMWARE_USER).
    type: str
    required: true
  password:
    description: The password. Without it the environment's C(VMWARE_PASSWORD).
    type: str
    required: true
  validate_certs:
    description: Whether the host must show a certificate that is trusted and made out to O(hostname).
    type: bool
    default: true
  ca_path:
    description: File with the certificates that are trusted, in PEM format. By default those that the controller trusts.
    type: path
  timeout_s:
    description: How long an answer may take.
    type: int
    default: 60
  esxi_host:
    description: Name of the host as the inventory of O(hostname) lists it. By default the only one there is.
    type: str
requirements:
  - pyVmomi, where the task runs
notes:
  - Runs where the task runs, usually on the controller (C(ansible_connection=local)); nothing is installed on the ESXi host and no SSH is used.
  - One login and one session for everything the task does.
"""
