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
  - Finds the one disk with a serial in C(/sys/block), without udev, and proves its size.
  - Changes nothing.
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
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  platform:
    description: Linux.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers
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
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure

SYS_BLOCK = "/sys/block"


def read(folder: str, *names: str) -> str:
    """The first of the files that is there."""
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                return stream.read().strip()
        except OSError:
            continue
    return ""


def unit_serial(folder: str) -> str:
    """Of a SCSI disk, whose kernel shows the page of vital product data as it came (SPC-4: four bytes of header, then the number)."""
    try:
        with open(os.path.join(folder, "device/vpd_pg80"), "rb") as stream:
            return stream.read()[4:].decode("ascii", "replace").strip("\0 ")
    except OSError:
        return ""


def disks(sys_block: str = SYS_BLOCK) -> list:
    """(name, serial, size_bytes) of each disk; the kernel counts in sectors of 512 bytes whatever the disk's own are."""
    found = []
    for name in sorted(os.listdir(sys_block)):
        folder = os.path.join(sys_block, name)
        found.append((name, read(folder, "serial", "device/serial") or unit_serial(folder), int(read(folder, "size") or 0) * 512))
    return found


def pick(found: list, serial: str, size_bytes: int) -> str | None:
    """Device of the disk; None when there is none yet."""
    matching = [disk for disk in found if disk[1] == serial]
    if not matching:
        return None
    if len(matching) > 1:
        raise Failure("serial_twice", f"Disks {', '.join(disk[0] for disk in matching)} all have the serial {serial}.",
                      "Give each disk a serial of its own.", serial=serial)
    name, _serial, actual = matching[0]
    if actual != size_bytes:
        raise Failure("size_differs", f"Disk /dev/{name} with serial {serial} has {actual} bytes, not {size_bytes}.",
                      "Attach the right disk.", serial=serial, size_bytes=actual, wanted_bytes=size_bytes)
    return f"/dev/{name}"


def find(serial: str, size_bytes: int, timeout_s: int) -> str:
    deadline = time.monotonic() + timeout_s
    while True:
        path = pick(disks(), serial, size_bytes)
        if path:
            return path
        if time.monotonic() > deadline:
            raise Failure("disk_missing", f"There is no disk with the serial {serial}.", "Attach it and run this again.", serial=serial)
        time.sleep(0.2)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "serial": {"type": "str", "required": True},
            "size_bytes": {"type": "int", "required": True},
            "timeout_s": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, path=find(module.params["serial"], module.params["size_bytes"], module.params["timeout_s"]))
    except Failure as failure:
        module.fail_json(**failure.as_result())


if __name__ == "__main__":
    main()
