#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_iscsi
short_description: Connects the software iSCSI adapter of an ESXi host with targets and finds their LUNs
version_added: 0.2.0
description:
  - Enables the software iSCSI adapter, gives it its name, options and bound interfaces, adds targets with their CHAP settings, rescans, and waits until
    every LUN is there, in one call and one session. Gives everything back with O(state=absent).
  - A LUN is found by target and number, and proven by its serial, NAA identifier and size.
  - CHAP is set at each target, or at the adapter with O(adapter_chap). A secret cannot be read back from the host; a salted digest in O(state_dir) shows
    whether it has changed.
  - What fails is undone; nothing half built is left.
  - The adapter's alias is the testbed's stamp, C(storlab-<testbed_id>). The state before is kept in O(state_dir).
  - Others may use the adapter, too. Only targets that this testbed configured, or that one of its own send targets reported, are removed; while targets
    are configured that others have added since, the adapter keeps its name, alias, CHAP, options and bound interfaces, see RV(kept_for_others). Two testbeds
    can share a host when O(initiator_name) is the same; a second one of another name is refused.
  - A target is not removed while one of its LUNs holds a mounted datastore, or a LUN is mapped to a machine.
options:
  testbed_id:
    description: The testbed the connection belongs to.
    type: str
    required: true
  state:
    description: V(present) makes the connection, V(absent) gives the adapter back as it was.
    type: str
    choices: [present, absent]
    default: present
  state_dir:
    description: Folder on the machine where the task runs that keeps what the host looked like before.
    type: path
    required: true
  initiator_name:
    description: The iSCSI qualified name (IQN) of the host's adapter. Required when O(state=present).
    type: str
  layers:
    description: The published layers by name, as in C(ansible_facts.storlab_layers). The serial, NAA identifier and size they give for a LUN must hold.
    type: dict
    default: {}
  options:
    description:
      - Options of the adapter such as V(DelayedAck), V(NoopInterval), V(LoginTimeout), V(MaxBurstLength), by the names that the API gives them.
        C(esxcli) calls some otherwise (C(NoopOutInterval)).
      - An option that the host declares read-only, and a value outside the host's bounds, are refused.
    type: dict
    default: {}
  host_options:
    description:
      - Advanced options of the host such as V(ISCSI.MaxIoSizeKB). A value outside the host's bounds is refused.
      - Those whose own text on the host asks for a reboot hold only from its next start on, see RV(restart_pending).
    type: dict
    default: {}
  queue_depth:
    description: Commands that may be outstanding at one LUN. The host takes it over when it starts next, see RV(restart_pending). By default as it is.
    type: int
  port_binding:
    description: VMkernel interfaces to bind to the adapter, each by its name, such as V(vmk1), or by that of the port group that it is on.
    type: list
    elements: str
    default: []
  adapter_chap:
    description: CHAP settings of the adapter itself, which targets without their own use. Refused when others have set some.
    type: dict
    suboptions:
      chap_user:
        description: The name this initiator gives.
        type: str
        required: true
      chap_password:
        description: The secret this initiator gives.
        type: str
        required: true
      mutual_chap_user:
        description: The name the target must give in return.
        type: str
      mutual_chap_password:
        description: The secret the target must give in return.
        type: str
  wait_s:
    description: How long to wait for the adapter, for targets that a portal reports, and for the LUNs, each.
    type: int
    default: 60
  targets:
    description: The targets to log in to.
    type: list
    elements: dict
    default: []
    suboptions:
      iqn:
        description: Name of the target.
        type: str
        required: true
      portal:
        description: Where it listens.
        type: dict
        required: true
        suboptions:
          address:
            description: IP address.
            type: str
            required: true
          port:
            description: TCP port.
            type: int
            default: 3260
      discovery:
        description: V(dynamic) asks the portal for its targets, V(static) names the target only.
        type: str
        choices: [dynamic, static]
        default: dynamic
      discovery_chap:
        description: Whether the discovery session uses CHAP, too. Targets such as LIO refuse that unless they are set up for it.
        type: bool
        default: false
      chap_user:
        description: The name this initiator gives.
        type: str
      chap_password:
        description: The secret this initiator gives.
        type: str
      mutual_chap_user:
        description: The name the target must give in return.
        type: str
      mutual_chap_password:
        description: The secret the target must give in return.
        type: str
      luns:
        description: The LUNs that must be there.
        type: list
        elements: dict
        required: true
        suboptions:
          lun:
            description: The logical unit number.
            type: int
            required: true
          name:
            description: Name of the LUN in the testbed.
            type: str
            required: true
          parent:
            description: Name of the layer its I/O goes through next.
            type: str
          purpose:
            description:
              - V(scratch) when raw benchmarks may overwrite it, V(data) when something is kept on it.
              - By default the purpose of the layer below, which it must not contradict; without one V(data).
            type: str
            choices: [scratch, data]
          serial:
            description: The unit serial it must have.
            type: str
          naa:
            description: The NAA identifier it must have.
            type: str
          size_bytes:
            description: The size it must have.
            type: int
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken.
    support: full
  diff_mode:
    description: Shows what is changed, without secrets.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Connect an ESXi host with the testbed's target
  storlab.testbed.esxi_iscsi:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    state_dir: /var/lib/lab/state
    initiator_name: iqn.2026-01.example.lab:esxi01
    options:
      DelayedAck: false
    host_options:
      ISCSI.MaxIoSizeKB: 512
    layers: "{{ ansible_facts.storlab_layers }}"
    targets:
      - iqn: iqn.2026-01.example.lab:target01
        portal:
          address: 192.0.2.11
        chap_user: esxi01
        chap_password: "{{ vaulted_chap_password }}"
        luns:
          - lun: 1
            name: ds1
            parent: target-ds1
            purpose: data
"""

RETURN = r"""
steps:
  description: Changes made, or planned in check mode; secrets are in none of them.
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
layers:
  description: The LUNs as layers to publish, without their host. They have no path, because only the hypervisor issues I/O there.
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
luns:
  description: All LUNs that the host sees, each C(iqn), C(lun), C(name), C(naa), C(serial), C(size_bytes), C(device), C(state).
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    iqn:
      description: Name of the target.
      returned: always
      type: str
      sample: "iqn.2026-01.lab.example:bench"
    lun:
      description: The logical unit number.
      returned: always
      type: int
      sample: 1
    name:
      description: Name of the LUN in the testbed; null for LUNs of others.
      returned: always
      type: str
      sample: bench
    naa:
      description: Its NAA identifier, or its C(eui.) or C(t10.) name where the host names it so; null where nothing of its name proves which device it is.
      returned: always
      type: str
      sample: 6001405a77a1836191159e1a847ae920
    serial:
      description: Its unit serial.
      returned: always
      type: str
      sample: a77a1836191159e1a847ae920e7ccffa
    size_bytes:
      description: Its size.
      returned: always
      type: int
      sample: 67108864
    device:
      description: Its path on the host.
      returned: always
      type: str
      sample: /vmfs/devices/disks/naa.6001405a77a1836191159e1a847ae920
    state:
      description: The state that the host reports. V(ok) and V(degraded) are taken, because I/O is possible.
      returned: always
      type: str
      sample: ok
    ways:
      description: How many paths lead to it, by their state.
      returned: always
      type: dict
      sample: {active: 1, dead: 1}
    designators:
      description: All identifiers by which the host knows it.
      returned: always
      type: list
      elements: str
      sample: [6001405a77a1836191159e1a847ae920]
waited_s:
  description: How long it took from the last rescan until all LUNs were there.
  returned: when O(state=present) and not in check mode
  type: float
  sample: 2.4
adapter:
  description: Name of the adapter, such as V(vmhba65).
  returned: when O(state=present) and it is enabled
  type: str
  sample: vmhba65
kept_for_others:
  description: Settings that stay as the testbed has set them, because targets of others are configured on the adapter. A later O(state=absent) gives it back.
  returned: when O(state=absent)
  type: list
  elements: dict
  contains:
    setting:
      description: Its name, such as V(name), V(alias), V(CHAP), V(option DelayedAck), V(bound vmk1), V(adapter).
      returned: always
      type: str
      sample: name
    value:
      description: Its value now.
      returned: always
      type: raw
      sample: "iqn.2026-01.lab.example:esx1"
    before:
      description: Its value before the testbed; null where there was none.
      returned: always
      type: raw
      sample: "iqn.1998-01.com.vmware:esx1-4c1fe29e"
reboot_required:
  description: Whether options are configured that hold only once the host has been restarted; said by every run until then.
  returned: always
  type: bool
  sample: false
restart_pending:
  description: Those options, each C(option), what is C(configured), and what C(running) still holds.
  returned: always
  type: list
  elements: dict
  contains:
    option:
      description: The option.
      returned: always
      type: str
      sample: ISCSI.MaxIoSizeKB
    configured:
      description: The value from the next start on.
      returned: always
      type: raw
      sample: "512"
    running:
      description: The current value.
      returned: always
      type: raw
      sample: "128"
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
from ..module_utils.esxi import login
from ..module_utils.esxi import session as esxi


def main() -> None:
    module = AnsibleModule(
        argument_spec={**esxi.spec(env_fallback), **login.SPEC},
        required_if=[("state", "present", ["initiator_name"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        check_testbed_id("iscsi_initiator_testbed_id", module.params["testbed_id"])
        with esxi.Session(module.params) as session:
            result = converge(partial(login.Area, session), module.params, module.check_mode)
            for text in result.pop("warnings", []):
                module.warn(text)
            module.exit_json(about=session.about, **result)


if __name__ == "__main__":
    main()
