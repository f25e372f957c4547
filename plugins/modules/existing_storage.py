#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: existing_storage
short_description: Attaches storage that was there before the testbed
version_added: 1.0.0
description:
  - Attaches all storage that one testbed measures on a host without owning it, or takes that back, in one call. It is only read, unless its entry says
    O(entries[].access=write).
  - An export of an NFS server, a share of an SMB server and a folder are mounted read-only on a mount point of the testbed's own, below
    C(/srv/storlab-existing), so the kernel refuses whoever would write. A disk is proven by what it shows of itself.
  - One file of an export or a folder is read, the biggest unless one is named. It is opened for reading alone.
  - With O(entries[].access=write) an export or a folder gets a folder C(storlab.<testbed_id>+<name>) with a benchmark file of the testbed's own; no file of
    others is ever opened for writing, and 10 % of the file system stay free. O(state=absent) removes that folder, and keeps what others put into it. A disk
    passes the guard of all devices that are overwritten.
  - Who logs in to a share is in a file that only root reads, for as long as mount.cifs(8) reads it, and nowhere else on the host.
  - Each mount is recorded in C(/run/storlab/<testbed_id>), and unmounted again with O(state=absent).
options:
  testbed_id:
    description: The testbed the storage is measured by.
    type: str
    required: true
  state:
    description: V(present) makes the storage of O(entries) readable, V(absent) unmounts all that this testbed mounted.
    type: str
    choices: [present, absent]
    default: present
  entries:
    description: The storage.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the storage in the testbed. Its layer is C(<layer_kind>-<name>).
        type: str
        required: true
      kind:
        description: V(device) is a disk, V(nfs) an export of an NFS server, V(path) a folder of a file system that is mounted, V(smb) a share.
        type: str
        choices: [device, nfs, path, smb]
        required: true
      layer_kind:
        description: The kind of place in the chain.
        type: str
        choices: [backing, target, initiator, datastore, guest]
        required: true
      parent:
        description: Name of the layer below it.
        type: str
      device:
        description: Path of the disk. By default the one disk of the host that shows what else is given.
        type: path
      serial:
        description: The serial that the disk must have.
        type: str
      naa:
        description: The NAA identifier that the disk must have.
        type: str
      wwid:
        description: The WWID that the disk must have, as the kernel shows it, such as V(eui.0025385b21404321).
        type: str
      uuid:
        description: The UUID that the disk must have, when it is a logical volume (LVM), an MD array or another device mapper device.
        type: str
      server:
        description: Name or address of the NFS or SMB server.
        type: str
      export:
        description: Path that the NFS server exports.
        type: str
      nfs_version:
        description: Version of NFS. With V(3) the mount has no locks (C(nolock)).
        type: str
        choices: ["3", "4.0", "4.1", "4.2"]
        default: "4.2"
      share:
        description: Name of the share, with a folder in it where needed, such as V(vms/images).
        type: str
      smb_version:
        description: Dialect of SMB.
        type: str
        choices: ["2.1", "3.0", "3.0.2", "3.1.1"]
        default: "3.1.1"
      user:
        description: Who logs in to the share. Without it a guest does.
        type: str
      password:
        description: Its password. With O(state=absent) it is used to mount a share again whose folder of the testbed's own has to go.
        type: str
      domain:
        description: Its domain.
        type: str
      mount_options:
        description: More options of mount(8), such as V(rsize=1048576), or V(seal) and V(multichannel) of a share. Those that allow writing are refused, and
          those that say who logs in.
        type: str
        default: ""
      folder:
        description: The folder of kind V(path).
        type: path
      file:
        description: The file to read, relative to the folder or the export. By default the biggest.
        type: str
      access:
        description: V(read) only reads. V(write) overwrites a disk, and a file of the testbed's own on an export or in a folder.
        type: str
        choices: [read, write]
        default: read
      benchmark_file_mib:
        description: Size in MiB of the testbed's own file, with O(entries[].access=write).
        type: int
        default: 1024
  layers:
    description: Layers of this storage that an earlier call returned. With them a folder of the testbed's own is known again when the host was restarted.
    type: list
    elements: dict
    default: []
  below:
    description: Layers of this host that others have published and that O(entries[].parent) names. A folder or a device that is on another disk is refused.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows what is changed.
    support: full
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read an export of a NAS
  storlab.testbed.existing_storage:
    testbed_id: nas
    entries:
      - name: nas
        kind: nfs
        layer_kind: datastore
        server: 192.0.2.10
        export: /volume1/vms

- name: Write to a file of its own in a folder
  storlab.testbed.existing_storage:
    testbed_id: nas
    entries:
      - name: tank
        kind: path
        layer_kind: datastore
        folder: /tank/vms
        access: write
        benchmark_file_mib: 64
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    op:
      description: The kind of step.
      returned: always
      type: str
      sample: mount
    target:
      description: To which entry.
      returned: always
      type: str
      sample: nas
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: 192.0.2.10:/volume1/vms on /srv/storlab-existing/nas/nas, ro,vers=4.2,proto=tcp
kept:
  description: Paths in folders of the testbed's own that stay, because others put them there. Empty in check mode.
  returned: always
  type: list
  elements: str
  sample: []
layers:
  description: The storage as layers to publish, without their host. In check mode those that can be looked at already.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Unique in the testbed.
      returned: always
      type: str
      sample: datastore-nas
    kind:
      description: The kind of layer.
      returned: always
      type: str
      sample: datastore
    path:
      description: The disk or file.
      returned: always
      type: str
      sample: /srv/storlab-existing/nas/nas/backup.img
    parent:
      description: Name of the layer that its I/O goes through next; null for none.
      returned: always
      type: str
      sample: null
    purpose:
      description: V(read) of what is only read, V(scratch) of what is written to.
      returned: always
      type: str
      sample: read
    size_bytes:
      description: How much of it is used, whole blocks of 4 KiB.
      returned: always
      type: int
      sample: 68719476736
    identity:
      description: Proves that the path is that disk or file.
      returned: always
      type: dict
      sample: {mount_point: /srv/storlab-existing/nas/nas, source: "192.0.2.10:/volume1/vms", inode: 81}
    detail:
      description: Facts for the report.
      returned: always
      type: dict
      sample: {provider: existing, existing: nfs, access: read}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.linux.clients import attached


def main() -> None:
    module = AnsibleModule(argument_spec=attached.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**converge(attached.Area, module.params, module.check_mode))


if __name__ == "__main__":
    main()
