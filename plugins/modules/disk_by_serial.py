#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: disk_by_serial
short_description: Finds a disk by its serial
version_added: 0.1.0
description:
  - Finds the one disk with a serial, and proves its size.
  - On Linux it looks in C(/sys/block), without udev, and changes nothing.
  - On Windows it reads the host as the other modules for Windows do, refuses disks from which Windows starts, that hold a page file or belong to a cluster,
    and brings the disk online and makes it writable, because servers keep new disks offline. Dashes, blanks and capitals in serials make no difference there.
options:
  serial:
    description: The serial.
    type: str
    required: true
  size_bytes:
    description: The size the disk must have.
    type: int
    required: true
  timeout_s:
    description: Seconds to wait for the disk.
    type: int
    default: 10
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: The plan is made as usual, and nothing is changed.
    support: full
  diff_mode:
    description: The steps on a Windows host.
    support: full
  platform:
    description: Linux, and Windows Server 2016 and later. Not yet run on Windows; docs/windows.md says what was tried, and how.
    platforms: linux, windows
    support: full
requirements:
  - On Windows, PowerShell 5.1 on the host, and the collection ansible.windows on the controller.
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Find the data disk
  storlab.testbed.disk_by_serial:
    serial: storlab-0123456789ab
    size_bytes: 50331648
"""

RETURN = r"""
path:
  description: The disk's device.
  returned: always
  type: str
  sample: /dev/vdb
unique_id:
  description: The id that Windows gives the disk, by which the guard knows it.
  returned: on Windows
  type: str
  sample: 6000C29F0A1B2C3D4E5F60718293A4B5
steps:
  description: Actions taken, or planned in check mode.
  returned: on Windows
  type: list
  elements: dict
  sample:
    - {op: online, target: disk 2, was: offline, will: online}
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
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.disks import disk_serial


def main() -> None:
    module = AnsibleModule(argument_spec=disk_serial.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**disk_serial.ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
