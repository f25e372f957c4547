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
    description:
      - File with the certificates of the authorities that are trusted, in PEM format. By default those that the controller trusts.
      - For hosts of a vCenter this is its root certificate. For a certificate that an ESXi host has made itself use O(thumbprint).
    type: path
  thumbprint:
    description:
      - SHA-256 fingerprint of the certificate that the host must show, 64 hexadecimal digits with or without colons.
      - Takes the place of O(ca_path). It needs no name in the certificate and no authority, and works with certificates that Python 3.13 and later
        refuse in their strict check.
    type: str
  timeout_s:
    description: How long an answer may take.
    type: int
    default: 60
  long_timeout_s:
    description: How long a rescan, and making or removing a datastore, may take.
    type: int
    default: 900
  esxi_host:
    description: Name of the host as the inventory of O(hostname) lists it. By default the only one there is.
    type: str
requirements:
  - pyVmomi, where the task runs
notes:
  - Runs where the task runs, usually on the controller (C(ansible_connection=local)); nothing is installed on the ESXi host and no SSH is used.
  - One login and one session for everything the task does.
"""
