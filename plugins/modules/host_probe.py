#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: host_probe
short_description: Looks what a Linux host has of what a testbed needs
version_added: 1.0.0
description:
  - Looks for commands and kernel modules, at memory, addresses and devices, and tries how the host reaches others. Changes nothing.
options:
  commands:
    description: Commands to look for.
    type: list
    elements: str
    default: []
  modules:
    description: Kernel modules to look for. One of several names with C(|) between them is enough.
    type: list
    elements: str
    default: []
  peers:
    description: Where TCP connections and the largest packet are tried.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: IP address.
        type: str
        required: true
      port:
        description: TCP port.
        type: int
        required: true
  devices:
    description: Block devices to look at.
    type: list
    elements: path
    default: []
  named:
    description:
      - Disks that a user named, each with C(path), or with what proves it (C(serial), C(naa), C(wwid), C(uuid)), or with both. Anything else an entry
        has is returned with it.
      - One with C(fate), which says that its contents will be gone, is sampled.
    type: list
    elements: dict
    default: []
  folders:
    description: Folders that are to become mount points.
    type: list
    elements: path
    default: []
  unused:
    description: Whether to look at every disk, for those that seem unused.
    type: bool
    default: false
  existing:
    description: Whether to look for storage that may be measured as it is (C(testbed.existing)). No server is asked.
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Can this host be an iSCSI client?
  storlab.testbed.host_probe:
    commands: [iscsiadm, fio]
    modules: [iscsi_tcp]
    peers:
      - {address: 192.0.2.11, port: 3260}
  register: result
"""

RETURN = r"""
probe:
  description:
    - C(addresses), C(memory_mib), C(memory_available_mib), C(mtus) by interface, C(missing_commands), C(missing_modules), C(package_manager), C(kvm),
      C(root), C(python), C(kernel), C(system), C(machine_id), C(boot_id), C(utc_s), and C(clock_ahead_s), by how much
      the clock is certainly ahead of the controller's.
    - C(peers) with C(way) (C(open), C(refused) when nothing listens and nothing is in the way, C(filtered), C(unreachable)), C(mtu_bytes) and
      C(mtu_passes), which is null without an answer.
    - C(devices) by path with C(size_bytes) and C(sector_bytes).
    - C(disks) with O(unused), all of them, each with C(path), C(size_bytes), C(sector_bytes), C(serial) and C(used). That C(used) is false proves nothing.
    - C(existing) with O(existing), what may be measured as it is, each with C(name), the C(entry) of C(testbed.existing), C(what) it is, and C(shared), whether
      other hosts may see the same.
    - C(named), the entries of O(named) with the C(paths) that show what is said, the C(type) of their own path, and what that C(shows). With C(fate) also the
      C(contents) (C(blank), C(data), or C(unreadable) with C(reason)) and the C(designators) of its disk, all that distinguishes it from others.
    - C(folders) by path, each empty when it can become a mount point, or with C(problem) and the path that it is C(at).
  returned: always
  type: dict
  contains:
    addresses:
      description: The addresses of the host.
      returned: always
      type: list
      elements: str
      sample: [192.0.2.11]
    memory_mib:
      description: Its memory.
      returned: always
      type: int
      sample: 7960
    missing_commands:
      description: Commands that are not there.
      returned: always
      type: list
      elements: str
      sample: [fio]
    missing_modules:
      description: Kernel modules that are not there.
      returned: always
      type: list
      elements: str
      sample: []
    package_manager:
      description: The package manager there.
      returned: always
      type: str
      sample: apt
    kvm:
      description: Whether KVM can be used.
      returned: always
      type: bool
      sample: true
    root:
      description: Whether the task ran as root.
      returned: always
      type: bool
      sample: true
    python:
      description: The version of Python.
      returned: always
      type: str
      sample: 3.11.2
    kernel:
      description: The release of the kernel.
      returned: always
      type: str
      sample: 6.1.0-18-amd64
    system:
      description: The distribution.
      returned: always
      type: str
      sample: Debian GNU/Linux 12 (bookworm)
    machine_id:
      description: Its machine-id, which clones of one image share. For a host without one, the namespace of its processes.
      returned: always
      type: str
      sample: 3d1219c7c4c5404aaa1f6d2a48adfda4
    boot_id:
      description: The identifier of this start of its kernel, which containers of one machine share.
      returned: always
      type: str
      sample: 5a37a92e-dfd6-46d5-bd0b-4ad05ae6eb0b
    peers:
      description: The answer.
      returned: always
      type: list
      elements: dict
      sample: [{way: open, mtu_bytes: 9000, mtu_passes: true}]
    disks:
      description: All disks.
      returned: always
      type: list
      elements: dict
      sample: [{path: /dev/sdb, size_bytes: 67108864, sector_bytes: 512, serial: 9f4f0f7c, used: false}]
    existing:
      description: Storage that may be measured as it is.
      returned: with O(existing)
      type: list
      elements: dict
      sample: [{name: tank, entry: {kind: path, path: /tank}, what: "folder /tank, zfs of tank", shared: false}]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.clients import offered
from ..module_utils.linux.disks import wanted_disks
from ..module_utils.linux.watch.probe import probe


def main() -> None:
    texts = {"type": "list", "elements": "str", "default": []}
    peer = {"address": {"type": "str", "required": True}, "port": {"type": "int", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "commands": texts,
            "modules": texts,
            "peers": {"type": "list", "elements": "dict", "default": [], "options": peer},
            "devices": {"type": "list", "elements": "path", "default": []},
            "named": {"type": "list", "elements": "dict", "default": []},
            "folders": {"type": "list", "elements": "path", "default": []},
            "unused": {"type": "bool", "default": False},
            "existing": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    with failures_of(module):
        host = {name: module.params[name] for name in ("commands", "modules", "peers", "devices")}
        disks = {name: module.params[name] for name in ("named", "folders", "unused")}
        existing = {"existing": offered.look()} if module.params["existing"] else {}
        module.exit_json(changed=False, probe={**probe(**host), **wanted_disks.look(**disks), **existing})


if __name__ == "__main__":
    main()
