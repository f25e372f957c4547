#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: qemu_vm
short_description: Runs a QEMU machine
version_added: 0.1.0
description:
  - Starts a machine as a daemon and leaves a running one alone as long as its definition is the same.
  - A running machine whose definition differs is restarted, one that died is started.
  - Ends only a process whose command line proves that it is this machine.
  - Needs root and C(qemu-system-x86_64).
options:
  name:
    description: Name of the machine.
    type: str
    required: true
  state:
    description: Whether the machine shall run.
    type: str
    choices: [present, absent]
    default: present
  run_dir:
    description:
      - Folder of the machine's control files, removed with the machine. Must be the machine's own.
      - Keep it short, the path of a socket in it may have 107 bytes.
    type: path
    required: true
  netns:
    description: Network namespace to run in, a name made by M(storlab.testbed.lab_network) or the path of a namespace file.
    type: str
  accel:
    description:
      - V(auto) starts O(kernel) under KVM for a trial and takes KVM only when that works, otherwise emulation.
    type: str
    choices: [auto, kvm, tcg]
    default: auto
  accel_cache:
    description: File that keeps what V(auto) found out.
    type: path
  memory_mib:
    description: Memory of the machine.
    type: int
    default: 512
  vcpus:
    description: Processors of the machine.
    type: int
    default: 1
  kernel:
    description: Kernel to start. Symbolic links are resolved, so that a new image behind a link restarts the machine.
    type: path
  initrd:
    description: Initial RAM disk for O(kernel).
    type: path
  append:
    description: Command line for O(kernel).
    type: str
  disks:
    description: Disks, in this order. They are virtio disks.
    type: list
    elements: dict
    default: []
    suboptions:
      file:
        description: A file or block device.
        type: path
      url:
        description: An NBD export, C(nbd://host:port/export), or C(nbds://host:port/export) for one that speaks TLS.
        type: str
      serial:
        description: Serial by which the machine finds the disk.
        type: str
        required: true
      format:
        description: Format of the content.
        type: str
        choices: [raw, qcow2]
        default: raw
      readonly:
        description: Whether the machine can only read it.
        type: bool
        default: false
      cache:
        description: V(none) passes the page cache of the host by.
        type: str
        choices: [none, writeback]
        default: none
      aio:
        description: How QEMU issues I/O to O(disks[].file).
        type: str
        choices: [threads, native, io_uring]
        default: threads
      size_mib:
        description: Make O(disks[].file) of this size, all holes, when the machine is started and there is no such file.
        type: int
      iops:
        description: I/Os per second that the disk does at most. By default as many as it can.
        type: int
      mib_s:
        description: MiB per second that the disk does at most. By default as many as it can.
        type: int
      layer:
        description: The published layer that O(disks[].file) is, a LUN that the machine has whole. The device guard proves it before the machine is started.
        type: dict
  nics:
    description: Network cards. They are virtio cards.
    type: list
    elements: dict
    default: []
    suboptions:
      tap:
        description: Tap interface, which must exist.
        type: str
        required: true
      mac:
        description: Address; computed from O(run_dir) and the interface when it is not given.
        type: str
  nbd_secret:
    description:
      - The secret of the exports that O(disks) reach by C(nbds), see O(storlab.testbed.nbd_export#module:secret). Needed with such a disk.
      - Kept in O(run_dir) in a file of root's, and removed with it. Another one restarts the machine.
    type: str
  console_log:
    description: File for what the machine writes to its serial console. By default C(console.log) in O(run_dir).
    type: path
  generation:
    description: Any text. A change of it restarts the machine, for instance because the disk behind the same name was replaced.
    type: str
    default: ''
  ssh_control_dir:
    description: Folder with control sockets of SSH connections. When the machine is started or ended they are closed, they may be to its former self.
    type: path
  wait_for:
    description: Wait until a server in the machine greets with C(SSH-).
    type: dict
    suboptions:
      address:
        description: Address of the machine.
        type: str
        required: true
      port:
        description: Port of the server.
        type: int
        default: 22
      timeout_s:
        description: Seconds to wait at most.
        type: int
        default: 60
  stop_timeout_s:
    description: Seconds each way of ending the machine may take.
    type: int
    default: 10
  testbed_id:
    description: Name of the testbed, for the device guard.
    type: str
    default: ''
  layers:
    description: The published layers by name, for the device guard.
    type: dict
    default: {}
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Starts and ends nothing in check mode.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Linux on x86_64.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Run a machine and wait until it can be reached
  storlab.testbed.qemu_vm:
    name: target01
    run_dir: /run/storlab/storlab-embedded-1a2b3c/vm/target01
    netns: storlab-embedded-1a2b3c
    memory_mib: 512
    kernel: /var/cache/storlab/image/vmlinuz
    initrd: /var/cache/storlab/image/initrd.img
    append: console=ttyS0 quiet storlab.hostname=target01 storlab.address=10.213.0.11/24
    disks:
      - file: /var/cache/storlab/image/root.ext4
        serial: storlab-root
        readonly: true
    nics:
      - tap: tap-target01
    wait_for:
      address: 10.213.0.11
"""

RETURN = r"""
steps:
  description: Actions taken, or planned in check mode.
  returned: always
  type: list
  elements: str
  sample: [start target01]
vm:
  description: The machine.
  returned: O(state=present)
  type: dict
  contains:
    accel:
      description: V(kvm) or V(tcg).
      type: str
      returned: always
      sample: kvm
    accel_reason:
      description: Why that one, one sentence.
      type: str
      returned: always
      sample: KVM started the kernel in a trial
    emulated:
      description: Whether the processor is emulated, which makes figures from the machine slow.
      type: bool
      returned: always
      sample: false
    pid:
      description: Process of the machine.
      type: int
      returned: when it runs
      sample: 4711
    definition:
      description: Hash of what the machine was started from.
      type: str
      returned: always
      sample: 9f4f0f7c2a3b4c5d
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.lab import machine


def main() -> None:
    module = AnsibleModule(argument_spec=machine.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**machine.ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
