#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_state
short_description: Reads what the storage of a Windows host looks like
version_added: 0.2.0
description:
  - Reads the role, services, virtual disks, targets, portals, firewall rules of this collection, sessions, disks and volumes of a Windows host, in the
    form that M(storlab.testbed.storage_baseline) keeps and compares.
  - Changes nothing.
options:
  testbed_id:
    description: Entries of another testbed of this collection on the host are left out.
    type: str
    default: ""
  wait_s:
    description:
      - How long to wait for Windows to answer, such as while it is being installed; it is asked every 10 s. V(0) asks once.
      - Without an answer until then the task fails with the code C(windows_silent).
    type: float
    default: 0
    version_added: 1.0.0
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken, as far as they can be known before the first of them.
    support: full
  diff_mode:
    description: Shows the steps, without secrets.
    support: full
  platform:
    description: Windows Server 2016 and later. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: windows
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read the state
  storlab.testbed.win_state:
    testbed_id: lab
  register: windows

- name: Wait for a machine that installs itself
  storlab.testbed.win_state:
    wait_s: 7200

- name: Record the state of the host
  storlab.testbed.storage_baseline:
    state: captured
    testbed_id: lab
    state_dir: /var/lib/lab/state
    storage_state: "{{ windows.storage_state }}"
"""

RETURN = r"""
storage_state:
  description: Sections of sorted lines of text.
  returned: success
  type: dict
  sample: {block_devices: [vda 1073741824 bytes], iscsi_sessions: []}
ours:
  description: The lines whose virtual disk or target carries the stamp of the testbed; sections without ownership information are not in it.
  returned: success
  type: dict
  sample: {targets: [], virtual_disks: []}
existing:
  description: The volumes and disks that may be read as they are, each with a C(name), an C(entry) for C(testbed.existing), C(what) it is, and whether
    other hosts may see the same (C(shared)). Windows' own are not among them.
  returned: success
  type: list
  elements: dict
  sample: [{name: data, entry: {kind: volume, path: "E:"}, what: NTFS of 931.5 GiB, shared: false}]
seen:
  description: The volumes and disks that an inventory may name.
  returned: success
  type: dict
  contains:
    volumes:
      description: The volumes with a drive letter.
      returned: always
      type: list
      elements: dict
      sample: [{letter: C, label: System, size_bytes: 107374182400}]
    disks:
      description: The disks, with the name that C(Get-Disk) shows as the model.
      returned: always
      type: list
      elements: dict
      sample: [{number: 0, name: Msft Virtual Disk, size_bytes: 107374182400}]
about:
  description: The C(product) and C(version) of the host. A stand-in for a host also has C(stand_in).
  returned: success
  type: dict
  contains:
    product:
      description: Its name.
      returned: always
      type: str
      sample: Windows Server 2022 Standard
    version:
      description: Its version.
      returned: always
      type: str
      sample: 10.0.20348
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: state_unreadable, details: {}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
