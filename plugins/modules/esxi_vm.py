#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_vm
short_description: Makes, changes, zeroes and destroys a virtual machine on an ESXi host
version_added: 0.2.0
description:
  - Makes a virtual machine empty, from a vCenter's template or from an OVA, gives it disks at the controllers that are to be compared, maps LUNs raw, uploads
    and mounts an ISO image, and turns it on, in one call and one session.
  - It carries the testbed's stamp in its configuration (C(storlab.testbed)) from its first moment on. A machine of the same name without that stamp is refused
    and left as it is, whatever O(state) is.
  - Differences are repaired. Changes that need it to be off are refused while it runs, unless O(restart) allows it. A disk that is there is never recreated;
    when its size or kind differs that is a failure. Disks and network cards that are not listed are left alone.
  - It keeps a record of the disks that came with it. A host deletes whatever disk is attached to a machine that it destroys, so disks without a record are
    detached before, and images and files of floppy drives and ports that others mounted are taken out; they are named in the plan and in RV(kept_for_others).
    Beside files of others in its folder the machine is taken away file by file. A snapshot that holds a disk of others is refused.
  - A creation that fails destroys what it made. One that was cut off is noticed by the next run and recreated.
options:
  testbed_id:
    description: The testbed the machine belongs to.
    type: str
    required: true
  state:
    description:
      - V(present) makes or repairs the machine, V(absent) turns it off and destroys it with the disks that it has a record of.
      - V(zeroed) fills the disks that the testbed made with zeroes (C(vmkfstools -w)), all or those named in O(disks); what they held is lost.
      - V(released) only lets go of a datastore that is lost, so that it can be recreated - of the machine when it is there, else of its disks there, which
        V(present) then adds again; see M(storlab.testbed.esxi_datastore).
      - V(installed) takes the answer file of O(unattended) out of its drive and deletes it with the password in it, once Windows is installed. After that
        V(present) does not put it back.
    type: str
    choices: [present, absent, zeroed, released, installed]
    default: present
  name:
    description: Name of the machine.
    type: str
    required: true
  power:
    description: Whether it shall run. V(as_is) changes nothing about that.
    type: str
    choices: ['on', 'off', as_is]
    default: as_is
  restart:
    description: Whether the machine may be turned off and on again for changes that need it. A guest with running tools is asked to shut down first.
    type: bool
    default: false
  datastore:
    description: Datastore with the machine's files. Required when O(state=present) or O(state=installed).
    type: str
  guest_id:
    description: The guest's system as the host names it, such as V(debian12_64Guest). Required for an empty machine.
    type: str
  vcpus:
    description: Processors. Required for an empty machine.
    type: int
  memory_mib:
    description: Memory. Required for an empty machine.
    type: int
  reserve_memory:
    description: Whether all of the memory is reserved, so that nothing of it is swapped or shared while something is measured.
    type: bool
    default: true
  disks:
    description: The disks that the testbed adds. Disks of a template or an OVA come in addition.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the disk in the testbed.
        type: str
        required: true
      size_mib:
        description: Size. Left out with O(disks[].rdm).
        type: int
      controller:
        description: LSI Logic Parallel, VMware Paravirtual, IDE or NVMe.
        type: str
        choices: [lsilogic, pvscsi, ide, nvme]
        default: pvscsi
      bus:
        description: Bus number of the controller. By default the first one of this kind with room, or the next free one.
        type: int
      unit:
        description: Unit at the controller. By default the first free one.
        type: int
      provisioning:
        description: V(eager) is written with zeroes when it is made, V(lazy) when a block is first written to, V(thin) takes space only then.
        type: str
        choices: [eager, lazy, thin]
        default: eager
      datastore:
        description: Datastore with the disk's file, or with the file that describes the mapping. By default O(datastore).
        type: str
      rdm:
        description: Map a LUN raw instead of making a file.
        type: dict
        suboptions:
          layer:
            description: Name of the layer the LUN is.
            type: str
          naa:
            description: NAA identifier of the LUN, when it is not a layer. The guest may overwrite all its contents.
            type: str
          compatibility:
            description: V(physical) hands SCSI commands on to the LUN, V(virtual) makes it a disk of the host.
            type: str
            choices: [physical, virtual]
            default: physical
  iso:
    description: ISO image in the CD-ROM drive.
    type: dict
    suboptions:
      src:
        description: File where the task runs, uploaded when the datastore does not have it as it is. Without it the file must be there.
        type: path
      path:
        description: Path on the datastore; its folder must be there. By default the name of O(iso.src).
        type: str
      datastore:
        description: Datastore of the image. By default O(datastore).
        type: str
  unattended:
    description:
      - Install Windows Server from O(iso) without a question. The answer file is generated, put on an ISO image of its own with Python's C(pycdlib), uploaded
        to the folder C(storlab-<testbed>) of O(datastore) and mounted in a second drive, until O(state=installed) or O(state=absent) deletes it.
      - The machine needs one disk, at C(ide) or C(nvme), which Setup wipes, and cards C(e1000e) or C(e1000); others can be added after the installation.
      - While the machine runs, the image is neither replaced nor put back. The steps show the answers without password and key.
      - At the first logon WinRM gets a certificate that the machine makes itself, and listens over HTTPS alone. No real Windows Setup has read this file.
    type: dict
    version_added: 1.0.0
    suboptions:
      administrator_password:
        description: Password of the user Administrator, 8 to 127 characters of three kinds.
        type: str
        required: true
      product_key:
        description: Your key. An evaluation medium needs none.
        type: str
      image_name:
        description: Name of the image on the medium, such as V(Windows Server 2012 R2 SERVERSTANDARD).
        type: str
      image_index:
        description: Its number, in place of O(unattended.image_name).
        type: int
      host_name:
        description: Name of the machine for itself. By default O(name).
        type: str
      language:
        description: Language of the medium.
        type: str
        default: en-US
      locale:
        description: Formats and keyboard. By default O(unattended.language).
        type: str
      time_zone:
        description: Time zone as Windows names it.
        type: str
        default: UTC
      address:
        description: Address with prefix of the first card, such as V(192.0.2.11/24). Without it the machine asks DHCP.
        type: str
      gateway:
        description: Router of O(unattended.address).
        type: str
      dns:
        description: Name servers, with O(unattended.address).
        type: list
        elements: str
        default: []
      reachable_from:
        description: Networks that the firewall lets in to WinRM, or V(LocalSubnet), or V(Any).
        type: list
        elements: str
        default: [LocalSubnet]
  nics:
    description: The network cards, in their order.
    type: list
    elements: dict
    default: []
    suboptions:
      network:
        description: Name of the port group.
        type: str
        required: true
      type:
        description: Kind of card.
        type: str
        choices: [vmxnet3, e1000e, e1000]
        default: vmxnet3
  extra_config:
    description: Advanced settings of the machine. Their values are not shown among the steps, but the host keeps and shows them; give no secrets.
    type: dict
    default: {}
  template:
    description: Name of the template to clone. Needs a vCenter.
    type: str
  ova:
    description: OVA file where the task runs, to be imported. Its own disks become thin.
    type: path
  allow_device:
    description:
      - LUNs that a raw mapping gives to the guest whatever is on them, by identifier (C(naa.…)) or path. Without it only a LUN that is provably blank is
        mapped. One that carries a datastore of the host, or is mapped to another machine, is refused nevertheless.
    type: list
    elements: str
    default: []
  wait_for_address_s:
    description: How long to wait until the guest's tools report its address; 0 does not wait.
    type: int
    default: 0
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
  - storlab.testbed.layers
attributes:
  idempotent:
    description: Except for O(state=zeroed), which writes every time.
    support: partial
  check_mode:
    description: Changes nothing; the steps are those that would be taken.
    support: full
  diff_mode:
    description: Shows what is changed.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A machine with a disk on the testbed's datastore, and the same size as a raw mapping
  storlab.testbed.esxi_vm:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    name: lab-guest01
    power: "on"
    datastore: lab-ds1
    guest_id: debian12_64Guest
    vcpus: 4
    memory_mib: 8192
    layers: "{{ ansible_facts.storlab_layers }}"
    disks:
      - {name: system, size_mib: 16384, provisioning: thin, datastore: local}
      - {name: data, size_mib: 20480, controller: pvscsi}
      - {name: raw, controller: lsilogic, rdm: {layer: datastore-lab-raw}}
    iso:
      src: /srv/images/debian-12.iso
    nics:
      - network: VM Network

- name: From a template, and wait for its address
  storlab.testbed.esxi_vm:
    hostname: vcenter.lab.example
    username: lab@vsphere.local
    password: "{{ vaulted_vcenter_password }}"
    esxi_host: esxi01.lab.example
    testbed_id: lab
    name: lab-guest02
    power: "on"
    datastore: lab-ds1
    template: debian12
    disks:
      - {name: data, size_mib: 20480, controller: nvme}
    wait_for_address_s: 120

- name: Fill a disk with zeroes before a test
  storlab.testbed.esxi_vm:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state: zeroed
    name: lab-guest01
    restart: true
    disks:
      - name: data

- name: A machine on which Windows Server installs itself
  storlab.testbed.esxi_vm:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    name: ramdisk01
    power: "on"
    datastore: local
    guest_id: windows8Server64Guest
    vcpus: 2
    memory_mib: 12288
    disks:
      - {name: system, size_mib: 40960, controller: ide, provisioning: thin}
    iso:
      src: /srv/images/windows-2012r2.iso
    unattended:
      administrator_password: "{{ vaulted_windows_password }}"
      image_name: Windows Server 2012 R2 SERVERSTANDARD
      address: 192.0.2.11/24
    nics:
      - {network: VM Network, type: e1000e}

- name: Delete the answer file and its password after the installation
  storlab.testbed.esxi_vm:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state: installed
    name: ramdisk01
    datastore: local
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
kept_for_others:
  description: Files that others attached to the machine or put into its folder; they are there when it is gone.
  returned: when O(state=absent)
  type: list
  elements: str
  sample: ["[LocalDS_0] golden/dataset.vmdk"]
disks:
  description:
    - The disks that the testbed made, each C(name), C(path), C(controller), C(bus), C(unit), C(size_bytes), C(provisioning), C(datastore), C(uuid), and
      C(naa), C(compatibility) and C(layer) of a raw mapping.
    - C(serial) is what the guest sees as the disk's serial number; null when that is not known, as with IDE and NVMe.
  returned: when O(state=present), in check mode those that are there
  type: list
  elements: dict
  contains:
    name:
      description: Name of the disk.
      returned: always
      type: str
      sample: data
    path:
      description: Its file.
      returned: always
      type: str
      sample: "[lab-ds1] guest01/data.vmdk"
    controller:
      description: Kind of its controller.
      returned: always
      type: str
      sample: pvscsi
    bus:
      description: Number of the controller.
      returned: always
      type: int
      sample: 1
    unit:
      description: Its place at the controller.
      returned: always
      type: int
      sample: 0
    size_bytes:
      description: Its size.
      returned: always
      type: int
      sample: 67108864
    provisioning:
      description: How its blocks are given.
      returned: always
      type: str
      sample: eager
    datastore:
      description: Where it lies.
      returned: always
      type: str
      sample: lab-ds1
    uuid:
      description: The UUID of its backing.
      returned: always
      type: str
      sample: 6000C29f-0a1b-2c3d-4e5f-60718293a4b5
    serial:
      description: The serial number that the guest sees; null when that is not known.
      returned: always
      type: str
      sample: 6000c29f0a1b2c3d4e5f60718293a4b5
vm:
  description: The machine, C(name), C(power), C(path), C(uuid), C(guest_id), C(vcpus), C(memory_mib), C(memory_reserved).
  returned: when O(state=present) and it is there
  type: dict
  contains:
    name:
      description: Its name.
      returned: always
      type: str
      sample: guest01
    power:
      description: V(on) or V(off).
      returned: always
      type: str
      sample: "on"
    path:
      description: Its file.
      returned: always
      type: str
      sample: "[lab-ds1] guest01/guest01.vmx"
    uuid:
      description: Its UUID.
      returned: always
      type: str
      sample: 564d1f0e-52a4-5c1e-9a57-73746f726c61
    guest_id:
      description: The kind of system that it is for.
      returned: always
      type: str
      sample: debian12_64Guest
    vcpus:
      description: Its processors.
      returned: always
      type: int
      sample: 2
    memory_mib:
      description: Its memory.
      returned: always
      type: int
      sample: 2048
    memory_reserved:
      description: Whether all of its memory is reserved.
      returned: always
      type: bool
      sample: true
address:
  description: The address that the guest reported.
  returned: when O(wait_for_address_s) is not 0
  type: str
  sample: 192.0.2.21
about:
  description: The host, as RV(storlab.testbed.esxi_state#module:about) has it.
  returned: always
  type: dict
  sample: {product: VMware ESXi, version: 8.0.2, build: '22380479', api: 8.0.2.0, kind: HostAgent}
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.names import check_testbed_id
from ..module_utils.esxi import guest
from ..module_utils.esxi import session as esxi


def main() -> None:
    module = AnsibleModule(
        argument_spec={**esxi.spec(env_fallback), **guest.SPEC},
        required_if=[("state", "present", ["datastore"]), ("state", "installed", ["datastore"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        check_testbed_id("guest_vm_testbed_id", module.params["testbed_id"])
        with esxi.Session(module.params) as session:
            result = guest.ensure(session, module.params, module.check_mode)
            for path in result.get("kept_for_others", []):
                module.warn(
                    f"{path} is kept: the testbed did not attach it to {module.params['name']}, or put it beside it."
                )
            module.exit_json(about=session.about, **result)


if __name__ == "__main__":
    main()
