#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_network
short_description: Plans the network of an ESXi host for iSCSI, its power policy and its time servers
version_added: 1.0.0
description:
  - Reads the network of the host, refuses what must not be done, and says with which calls of the modules of C(community.vmware) what is wanted is reached.
    The role C(esxi_network) makes these calls; this module changes nothing on the host, but for its time service with O(confirm).
  - Never touches the management network. An adapter that is an uplink of it, its port group and its address are refused.
  - What was there before is used when it is as described, and refused when it is not. It is never changed and never removed.
  - What is made is recorded in O(state_dir) before it is, so that O(state=absent) plans the removal of exactly that.
  - The power policy and the time servers of before are recorded, too, and given back, unless somebody else has changed them since; then a warning says so.
options:
  testbed_id:
    description: The testbed the network belongs to.
    type: str
    required: true
  state:
    description: V(present) plans what is described, V(absent) the removal of all that this testbed has made.
    type: str
    choices: [present, absent]
    default: present
  confirm:
    description: >-
      Starts, restarts or stops the time service of the host, where that is planned, which no module that is here to stay does. Then waits until the host
      shows that nothing is left to do, and records what is there as made.
    type: bool
    default: false
  state_dir:
    description: Folder on the machine where the task runs that keeps what was made.
    type: path
    required: true
  switches:
    description: The standard switches (vSwitches).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      uplinks:
        description: Its physical adapters, such as V(vmnic1). No other switch may have them.
        type: list
        elements: str
        required: true
      mtu:
        description: Its MTU in bytes.
        type: int
        default: 1500
  ports:
    description: The VMkernel interfaces, each on a port group of its own.
    type: list
    elements: dict
    default: []
    suboptions:
      port_group:
        description: Name of the port group.
        type: str
        required: true
      switch:
        description: The switch it is on, one of O(switches) or one that is there.
        type: str
        required: true
      uplink:
        description: The one adapter of the switch that it uses, as iSCSI wants it; no other is active or stands by.
        type: str
        required: true
      address:
        description: IPv4 address of the interface with the length of its network, such as V(192.0.2.21/24).
        type: str
        required: true
      vlan:
        description: The VLAN; V(0) for none.
        type: int
        default: 0
      mtu:
        description: MTU of the interface in bytes.
        type: int
        default: 1500
  power_policy:
    description: The power policy of the host. V(as_is) leaves it alone, or gives back what was there before this testbed changed it.
    type: str
    choices: [as_is, balanced, high-performance, low-power, custom]
    default: as_is
  ntp_servers:
    description:
      - The time servers of the host, by IP address or host name, in the place of those that it has. Its time service, C(ntpd), then runs, and starts
        with the host.
      - An empty list leaves them alone, or gives back what was there before this testbed changed it.
    type: list
    elements: str
    default: []
  wait_s:
    description: How long to wait for the host to show what was done.
    type: int
    default: 60
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
attributes:
  check_mode:
    description: Plans the same, and keeps no record.
    support: full
  diff_mode:
    description: Shows what is going to be changed.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Plan a switch with one interface
  storlab.testbed.esxi_network:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state_dir: /var/lib/lab/state
    switches:
      - {name: storage, uplinks: [vmnic2], mtu: 9000}
    ports:
      - {port_group: storage-a, switch: storage, uplink: vmnic2, address: 192.0.2.21/24, mtu: 9000}
  register: plan
"""

RETURN = r"""
steps:
  description: The changes to come.
  returned: unless O(confirm)
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
      sample: port group storage-a
    was:
      description: The state before; null where there is none.
      returned: always
      type: str
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: str
      sample: switch storage, vlan 0, active vmnic2, standby
calls:
  description: The same steps as calls, in their order, without the calls of the time service.
  returned: unless O(confirm)
  type: list
  elements: dict
  contains:
    kind:
      description: >-
        V(switch) for C(community.vmware.vmware_vswitch), V(port_group) for C(vmware_portgroup), V(interface) for C(vmware_vmkernel), V(power_policy) for
        C(vmware_host_powermgmt_policy), V(ntp_servers) for C(vmware_host_ntp).
      returned: always
      type: str
      sample: switch
    target:
      description: Its object.
      returned: always
      type: str
      sample: switch storage
    arguments:
      description: The module's arguments, without the login.
      returned: always
      type: dict
      sample: {switch: storage, nics: [vmnic2], mtu: 9000, state: present}
login:
  description: How these modules check the host's certificate; empty when there is nothing to do.
  returned: unless O(confirm)
  type: dict
  contains:
    validate_certs:
      description: Whether they check it.
      returned: always
      type: bool
      sample: true
    ca_file:
      description: File of what they trust, for the environment's C(SSL_CERT_FILE); null for what the controller trusts.
      returned: always
      type: str
      sample: /var/lib/lab/state/esxi/certificate-esxi01.lab.example.pem
interfaces:
  description: Which interface is on each port group of O(ports), as far as they are there.
  returned: always
  type: dict
  sample: {storage-a: vmk1}
about:
  description: The host, as RV(storlab.testbed.esxi_state#module:about) has it.
  returned: always
  type: dict
  sample: {product: VMware ESXi, version: 8.0.2, build: '22380479', api: 8.0.2.0, kind: HostAgent}
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.converge import converge
from ..module_utils.core.names import check_testbed_id
from ..module_utils.esxi import network
from ..module_utils.esxi import session as esxi


def main() -> None:
    module = AnsibleModule(argument_spec={**esxi.spec(env_fallback), **network.SPEC}, supports_check_mode=True)
    with failures_of(module):
        check_testbed_id("esxi_network_testbed_id", module.params["testbed_id"])
        with esxi.Session(module.params) as session:
            if module.params["confirm"]:
                result = network.confirm(session, module.params, module.check_mode)
            else:
                result = converge(partial(network.Area, session), module.params, module.check_mode)
            for text in result.pop("warnings", []):
                module.warn(text)
            module.exit_json(about=session.about, **result)


if __name__ == "__main__":
    main()
