#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_ramdisk
short_description: RAM disks of Windows hosts
version_added: 0.2.0
description:
  - O(provider=iscsi_target) makes virtual disks in the memory of the iSCSI target server, for M(storlab.testbed.win_iscsi_target) to export. They are no
    disks of the host itself, and a restart of the service C(WinTarget) loses them.
  - O(provider=aim) makes drives of the host itself with Arsenal Image Mounter, of exactly the size that is asked for, and gives them an MBR without
    partitions. They go when the host restarts; the next run makes them again. Nothing marks them, so the record on the controller separates them from disks of
    others by their number, size, unique id and serial, which is drawn again for each.
  - O(provider=preinstalled) finds a RAM disk that another product made, which has to be online, proves it by model and size, and gives it an MBR without
    partitions.
  - Removes only what carries the testbed in its description or is in its record; a disk that a target exports or that has partitions is not removed.
options:
  state:
    description: "V(present) makes the disks of O(disks) and removes the other ones of this testbed, V(absent) removes them all."
    type: str
    choices: [present, absent]
    default: present
  provider:
    description: Where the disks come from.
    type: str
    choices: [iscsi_target, aim, preinstalled]
    default: iscsi_target
  aim_program:
    description: The program C(aim_ll) of Arsenal Image Mounter, found on the path of the host or with its full path; it needs its C(aimapi.dll) beside it.
    type: str
    default: aim_ll.exe
  aim_driver_folder:
    description:
      - Folder on the host with the setup files of Arsenal Image Mounter's driver. When the driver is missing it is installed from there, and removed with
        O(state=absent) once no device is left. Empty installs none.
      - Where RV(reboot_required) is true, M(ansible.windows.win_reboot) has to follow, and this module again.
    type: str
    default: ""
  disks:
    description: The disks.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the disk in the testbed.
        type: str
        required: true
      size_mib:
        description: Its size in MiB, which is met exactly.
        type: int
        required: true
      purpose:
        description: V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
        type: str
        choices: [scratch, data]
        default: data
      model:
        description: The model of a preinstalled disk, as C(Get-Disk) shows it; C(*) stands for any letters.
        type: str
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
  - storlab.testbed.state
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
- name: Make a RAM disk that can be exported
  storlab.testbed.win_ramdisk:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    disks:
      - name: ds1
        size_mib: 8192
        purpose: data

- name: Make a drive in memory for raw benchmarks
  storlab.testbed.win_ramdisk:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    provider: aim
    aim_program: 'C:\aim\aim_ll.exe'
    disks:
      - name: local
        size_mib: 4096

- name: Take over the RAM disk of another product for raw benchmarks
  storlab.testbed.win_ramdisk:
    testbed_id: lab
    state_dir: /var/lib/lab/state
    provider: preinstalled
    disks:
      - name: bench
        size_mib: 8192
        model: "STARWIND RAMDISK*"
"""

RETURN = r"""
reboot_required:
  description: Whether the host must be restarted because of the driver of Arsenal Image Mounter.
  returned: success
  type: bool
  sample: false
layers:
  description: The disks as layers to publish, without their host. Those of the target server have no path. None before a restart that is needed first.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: target-bench
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: target
    path:
      description: The device or file there; null when it cannot be measured itself.
      returned: always
      type: str
      sample: /dev/sdb
    parent:
      description: Name of the layer that its I/O goes through next; null for none.
      returned: always
      type: str
      sample: backing-bench
    purpose:
      description: V(scratch) when raw benchmarks may overwrite it, else V(data).
      returned: always
      type: str
      sample: scratch
    size_bytes:
      description: Exact size of what the path names.
      returned: always
      type: int
      sample: 67108864
    identity:
      description: Proof that the path is that device.
      returned: always
      type: dict
      sample: {serial: 9f4f0f7c2a3b4c5d8e6f7a8b9c0d1e2f}
    detail:
      description: Facts for the report.
      returned: always
      type: dict
      sample: {provider: lio}
steps:
  description: Changes made, or planned in check mode; secrets are in none of them.
  returned: success
  type: list
  elements: dict
  contains:
    op:
      description: The kind of step.
      returned: always
      type: str
      sample: create
    target:
      description: To what.
      returned: always
      type: str
      sample: bench
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: 64 MiB
about:
  description: The host, as RV(storlab.testbed.win_state#module:about) has it.
  returned: success
  type: dict
  sample: {product: Windows Server 2022 Standard, version: 10.0.20348}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: device_in_use, details: {}}
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
