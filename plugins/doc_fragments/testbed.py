# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of the description of a testbed. The check of it and its JSON schema are made from this, too."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  testbed:
    description: Everything on the hosts, from the disks of the targets up to the disks of the guests. By default the variable C(testbed).
    type: dict
    suboptions:
      disks:
        description: The disks of the targets. Those without a datastore are measured raw, and overwritten by that.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the disk. Its layers are C(backing-<name>), C(target-<name>) and C(initiator-<name>).
            type: str
            required: true
          size:
            description: Exact size, in MiB, GiB or TiB, such as V(128MiB). Needed, except of a device, RAID array or cache tier.
            type: str
          kind:
            description:
              - V(ramdisk) makes a RAM disk, V(device) takes a device that the target has, V(raid) makes a RAID array and V(cache) a slow disk with a fast
                one before it on a Linux target, V(vhdx) makes a file on a Windows target.
            type: str
            choices: [ramdisk, device, raid, cache, vhdx]
            default: ramdisk
          raid:
            description: The parts of a disk of kind V(raid). Contents of its members must be gone before, and are refused else.
            type: dict
            suboptions:
              level:
                description: RAID level.
                type: int
                choices: [0, 1, 5, 6, 10]
                required: true
              members:
                description: The disks, in this order.
                type: list
                elements: dict
                suboptions:
                  path:
                    description: Path of the disk. By default the one disk of the target that shows what else is said.
                    type: str
                  serial:
                    description: Serial that the disk must have.
                    type: str
                  naa:
                    description: NAA identifier that the disk must have.
                    type: str
                  wwid:
                    description: WWID that the disk must have, as the kernel shows it.
                    type: str
                  uuid:
                    description: UUID that the disk must have, when it is a logical volume (LVM), an MD array or another device mapper device.
                    type: str
              emulated:
                description: In the embedded lab, in the place of O(testbed.disks[].raid.members), disks of the machine that QEMU makes slow.
                type: dict
                suboptions:
                  count:
                    description: How many.
                    type: int
                    required: true
                  size:
                    description: Size of each, such as V(64MiB).
                    type: str
                    required: true
                  iops:
                    description: I/Os per second that each does at most. By default as many as it can.
                    type: int
                  mib_s:
                    description: MiB per second that each does at most. By default as many as it can.
                    type: int
              chunk:
                description: Size of a chunk, in KiB or MiB, a power of two. By default V(512KiB), as mdadm's. Not for level V(1).
                type: str
              bitmap:
                description: Whether the array notes in a bitmap where a write may not have reached all members.
                type: str
                choices: [none, internal]
                default: none
              assume_clean:
                description: Take the members for equal instead of making them so. The layer says so.
                type: bool
                default: false
              stripe_cache:
                description: Pages of 4 KiB for each member in the stripe cache of levels V(5) and V(6).
                type: int
              resync:
                description: V(wait) waits until all members hold the same data. V(run) does not, and the layer says that they do not yet.
                type: str
                choices: [wait, run]
                default: wait
          cache:
            description: The parts of a disk of kind V(cache). Contents of both devices must be gone before, and are refused else.
            type: dict
            suboptions:
              origin:
                description: The slow disk, which has everything.
                type: dict
                required: true
                suboptions:
                  path:
                    description: Path of the disk. By default the one disk of the target that shows what else is said.
                    type: str
                  serial:
                    description: Serial that the disk must have.
                    type: str
                  naa:
                    description: NAA identifier that the disk must have.
                    type: str
                  wwid:
                    description: WWID that the disk must have, as the kernel shows it.
                    type: str
                  uuid:
                    description: UUID that the disk must have, when it is a logical volume (LVM), an MD array or another device mapper device.
                    type: str
                  emulated:
                    description: In the embedded lab, in the place of everything else, a disk of the machine.
                    type: dict
                    suboptions:
                      size:
                        description: Its size, such as V(64MiB).
                        type: str
                        required: true
                      iops:
                        description: I/Os per second that QEMU lets it do. By default as many as it can.
                        type: int
                      mib_s:
                        description: MiB per second that QEMU lets it do. By default as many as it can.
                        type: int
              fast:
                description: The fast disk, which caches.
                type: dict
                required: true
                suboptions:
                  path:
                    description: Path of the disk. By default the one disk of the target that shows what else is said.
                    type: str
                  serial:
                    description: Serial that the disk must have.
                    type: str
                  naa:
                    description: NAA identifier that the disk must have.
                    type: str
                  wwid:
                    description: WWID that the disk must have, as the kernel shows it.
                    type: str
                  uuid:
                    description: UUID that the disk must have, when it is a logical volume (LVM), an MD array or another device mapper device.
                    type: str
                  emulated:
                    description: In the embedded lab, in the place of everything else, a disk of the machine.
                    type: dict
                    suboptions:
                      size:
                        description: Its size, such as V(64MiB).
                        type: str
                        required: true
                      iops:
                        description: I/Os per second that QEMU lets it do. By default as many as it can.
                        type: int
                      mib_s:
                        description: MiB per second that QEMU lets it do. By default as many as it can.
                        type: int
              provider:
                description: Who caches, V(dm_cache) of the kernel, V(lvm), which has it made by LVM, or V(bcache).
                type: str
                choices: [dm_cache, lvm, bcache]
                default: dm_cache
              mode:
                description:
                  - V(writethrough) writes to both, V(writeback) to the origin later what is in the cache.
                  - V(writearound), with V(bcache) only, writes to the origin alone, and caches what is read.
                type: str
                choices: [writearound, writeback, writethrough]
                default: writethrough
              cached:
                description: Whether the cache is put in. Without it the disk is its origin alone, under the same name.
                type: bool
                default: true
              block:
                description: Size of what is cached as one, in KiB or MiB, a multiple of 32KiB. By default V(64KiB).
                type: str
              migration:
                description: How much may be on its way between both disks at once, in KiB or MiB, eight blocks at least. By default V(1MiB), or eight blocks.
                type: str
          targets:
            description: The targets that have it, by host or group. One of several targets gets a disk of its own each, named C(<name>-<host>).
            type: list
            elements: str
            default: [targets]
          path:
            description: Path of the device, or of the VHDX file.
            type: str
          serial:
            description: Serial that the device must have.
            type: str
          naa:
            description: NAA identifier that the device must have.
            type: str
          wwid:
            description: WWID that the device must have, as the kernel shows it.
            type: str
          uuid:
            description: UUID that the device must have, when it is a logical volume (LVM), an MD array or another device mapper device.
            type: str
          allocation:
            description: How the VHDX file takes its space.
            type: str
            choices: [dynamic, fixed]
          model:
            description: Model of a RAM disk that another product made on Windows.
            type: str
          purpose:
            description: V(scratch) is measured raw and overwritten, V(data) is not. By default V(data) with a datastore, V(scratch) without.
            type: str
            choices: [scratch, data]
          to:
            description: Hosts or groups that may log in to it. By default all that can use it; ESXi hosts only use what carries a datastore.
            type: list
            elements: str
          lun:
            description: Its LUN number. By default its place among the disks of its target.
            type: int
          loopback:
            description: Whether the target logs in to itself to measure the export without the network. By default with scratch disks of Linux targets.
            type: bool
      datastores:
        description: File systems and volumes on the disks where a host has logged in.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the datastore. Its layer is C(datastore-<name>). By default the name of its disk, on ESXi hosts after the testbed's.
            type: str
          disk:
            description: Name of the disk it is on.
            type: str
          type:
            description: Its file system. By default V(ext4) on Linux, V(ntfs) on Windows and V(vmfs) on ESXi hosts. A datastore of an ESXi host that was
              there before is one of O(testbed.existing).
            type: str
            choices: [ext4, xfs, ntfs, vmfs, rdm, nfs]
          hosts:
            description: Hosts or groups that have it. By default all hosts that the disk is exported to.
            type: list
            elements: str
          mount_point:
            description: Where it is mounted. By default C(/srv/storlab/<name>), on Windows drive T and those after it.
            type: str
          mount_options:
            description: Options of mount(8).
            type: str
          benchmark_file:
            description: Size of the file on it that is measured and overwritten. Without it the datastore itself is not measured.
            type: str
          benchmark_files:
            description: How many such files there are, on Linux hosts. With several, every worker has its own. By default one, which all share.
            type: int
          version:
            description: VMFS version.
            type: int
            choices: [5, 6]
          compatibility:
            description: How a guest sees a LUN that is mapped raw.
            type: str
            choices: [physical, virtual]
          nfs:
            description: Name of a datastore of a Linux target, with benchmark files, that the hosts have over NFS. It is then mounted on the target, and
              no host logs in to its disk.
            type: str
          nfs_version:
            description: Version of NFS. By default V(4.2).
            type: str
            choices: ["3", "4.2"]
          nconnect:
            description: How many connections to its target the mount has, from 1 to 16. Mounts from one target share them, so all of them take the same
              number. By default that of the kernel, which is one.
            type: int
          server:
            description: NFS server.
            type: str
          path:
            description: Path that the NFS server exports.
            type: str
      guests:
        description: Virtual machines with a measured disk on a datastore.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the guest. Its layer is C(guest-<name>).
            type: str
            required: true
          datastore:
            description: Name of the datastore that holds its measured disk, of O(testbed.datastores) or of O(testbed.existing).
            type: str
          raw:
            description:
              - Name of a disk whose LUN it has whole, as a second measured disk beside the one on the datastore (QEMU). Its layer is C(guest-<name>-raw),
                and it is overwritten by that. On ESXi hosts a datastore of type V(rdm) does it.
            type: str
          host:
            description: Its inventory name, in the group C(guests). By default its name.
            type: str
          hypervisor:
            description: The host that runs it. By default the first one that has the datastore.
            type: str
          disk_size:
            description: Size of its measured disk. Needed, unless O(testbed.guests[].esxi) lists its disks.
            type: str
          memory:
            description: Its memory. Needed, except by guests from a template or an OVA.
            type: str
          vcpus:
            description: Its processors.
            type: int
          address:
            description: Address or name at which it answers Ansible. By default C(ansible_host) of its host.
            type: str
          image:
            description: Disk image with its system, on the host that runs it (QEMU).
            type: str
          image_format:
            description: Format of the image.
            type: str
            choices: [raw, qcow2]
          taps:
            description: Tap interfaces of its network cards, which must exist (QEMU).
            type: list
            elements: str
          esxi:
            description: Further properties of a guest on an ESXi host; see C(esxi) in C(guest_vm_guests) of the role C(guest_vm). Wins over what is derived.
            type: dict
      existing:
        description: Storage that was there before the testbed and stays after it, which is only read unless O(testbed.existing[].access=write).
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the storage. Its layer is C(datastore-<name>), that of a disk C(initiator-<name>), and in a guest C(guest-<name>).
            type: str
            required: true
          kind:
            description:
              - V(nfs) is an export of an NFS server, V(path) a folder of a file system that is mounted, V(device) a disk or LUN of the host.
              - V(smb) is a share of an SMB server.
              - V(guest) is a disk or a folder inside of a machine of the group C(guests), whatever runs it.
              - V(iscsi) is a LUN of a target that build logs in to, and teardown logs out of.
              - V(disk) is a disk and V(volume) a drive or a folder of a Windows host.
              - V(esxi_datastore) is a datastore of an ESXi host, whose name there is the O(testbed.existing[].name). With
                O(testbed.existing[].access=write) guests of the testbed have disks on it.
            type: str
            choices: [device, disk, esxi_datastore, guest, iscsi, nfs, path, smb, volume]
            required: true
          hosts:
            description: Hosts or groups that read it. By default all clients and hypervisors that run Linux, or without these all guests; of kind V(guest) all
              guests, of kinds V(disk) and V(volume) those that run Windows, and of kind V(esxi_datastore) all ESXi hosts.
            type: list
            elements: str
          "on":
            description: Name of the existing storage below it. A folder or disk of the same host is looked at, and so are the names of disks that are one in
              the whole world; what nothing proves is called declared.
            type: str
          access:
            description:
              - V(read) only reads. V(write) overwrites a disk or LUN, which then needs its identity, and lets exports and folders have a benchmark file in a
                folder of the testbed's own. Datastores of ESXi hosts may then hold disks of guests that the testbed makes.
            type: str
            choices: [read, write]
            default: read
          benchmark_file:
            description: Size of the file that is written with O(testbed.existing[].access=write) to an export, a folder or a volume. By default 1GiB.
            type: str
          path:
            description: The folder of kind V(path) or V(guest), or the drive or folder of kind V(volume). With V(device) the disk to look at; by default the
              one that shows the serial, naa, wwid or uuid.
            type: str
          serial:
            description: Serial that the disk must have.
            type: str
          unique_id:
            description: Unique id that a disk of a Windows host must have, as C(Get-Disk) shows it.
            type: str
          naa:
            description: NAA identifier that the disk must have.
            type: str
          wwid:
            description: WWID that the disk must have, as the kernel shows it, such as an EUI name (V(eui.0025385b21404321)).
            type: str
          uuid:
            description: UUID that the disk must have, when it is a logical volume (LVM) or another device mapper device.
            type: str
          server:
            description: Name or address of the NFS or SMB server.
            type: str
          export:
            description: Path that the NFS server exports.
            type: str
          nfs_version:
            description: Version of NFS. By default V(4.2).
            type: str
            choices: ["3", "4.0", "4.1", "4.2"]
          share:
            description: Name of the share, with a folder in it where needed, such as V(vms/images).
            type: str
          smb_version:
            description: Dialect of SMB. By default V(3.1.1).
            type: str
            choices: ["2.1", "3.0", "3.0.2", "3.1.1"]
          user:
            description: Who logs in to the share. Without it a guest does.
            type: str
          password:
            description: Its password.
            type: str
          domain:
            description: Its domain.
            type: str
          mount_options:
            description: More options of mount(8) for an export or a share. It is mounted read-only unless O(testbed.existing[].access=write).
            type: str
          file:
            description: The file to read, relative to the folder or the export. By default the biggest.
            type: str
          portal:
            description: Address of the target, with a port where it is not 3260, such as V(192.0.2.10:3260).
            type: str
          iqn:
            description: Name of the target. It must let in the C(iscsi_initiator_name) of the host.
            type: str
          lun:
            description: Number of the LUN. By default 0.
            type: int
          chap_user:
            description: CHAP name with which the host logs in.
            type: str
          chap_password:
            description: Its secret.
            type: str
          mutual_chap_user:
            description: CHAP name of the target, where it has to prove itself, too.
            type: str
          mutual_chap_password:
            description: Its secret.
            type: str
      iqn_prefix:
        description: The beginning of all IQNs. By default C(iqn.2026-11.test.storlab:<testbed_id>).
        type: str
      protocol:
        description:
          - How initiators reach the disks. V(nvme) is NVMe over TCP, between Linux hosts alone, by their kernels, and O(testbed.port) is by
            default 4420. Names of targets and hosts are the same with C(nqn) in the place of C(iqn), and a LUN is a namespace.
          - With V(nvme), O(testbed.chap) is DH-HMAC-CHAP, which few kernels have for targets. Without it hosts are let in by their names, with V(none).
        type: str
        choices: [iscsi, nvme]
        default: iscsi
      port:
        description: TCP port of the targets.
        type: int
        default: 3260
      chap:
        description: How initiators and targets prove who they are. V(mutual) is both ways, wherever the initiator can.
        type: str
        choices: [mutual, one_way, none]
        default: mutual
      access:
        description:
          - By what a Windows target lets initiators in, by V(iqn) their name, or by V(address) the address that they log in from.
          - An address is C(testbed_address) of the host. If an ESXi host has none, a build reads the address of the interface C(vmk0) from the host.
        type: str
        choices: [iqn, address]
        default: iqn
      chap_password:
        description: The initiators' secret, 12 to 16 characters. Without it one is made once, and kept in C(testbed_state_dir).
        type: str
      mutual_chap_password:
        description: The targets' secret, a different one of 12 to 16 characters. Made likewise.
        type: str
      nbd:
        description:
          How the disk of a guest goes from the host that serves it over NBD to the one that runs the guest, as in the embedded lab. V(plain) is without
          encryption and password, V(tls) is TLS with a secret of both, which is made once and kept in C(testbed_state_dir).
        type: str
        choices: [plain, tls]
        default: plain
"""
