#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_installation
short_description: Times the installation of an operating system in a virtual machine of the testbed
version_added: 0.3.0
description:
  - Turns a machine on that M(storlab.testbed.esxi_vm) has made with an empty disk and an ISO image, waits until the installation has ended, and reports how
    long it took and how many commands per second its datastore served at the time. The image must install by itself (an answer file), and is the user's own.
  - Start and end are what the host's events say about the machine's power, in the host's time, so waiting adds nothing to them.
  - The machine remembers its installation in its settings (C(storlab.testbed.installation)). A run whose connection broke joins it when it is run again with
    the same O(run_id), and one that is over is not run again. A machine that was installed once is refused; recreate it.
  - A machine of the same name without this testbed's stamp is refused and left as it is.
options:
  testbed_id:
    description: The testbed the machine belongs to.
    type: str
    required: true
  name:
    description: Name of the machine.
    type: str
    required: true
  run_id:
    description: The run that the installation belongs to.
    type: str
    required: true
  repetition:
    description:
      - Which of several installations of this run it is. The machine remembers it with the run, and the result is C(<guest>.r<repetition>.json).
      - A machine that was installed for another repetition is refused; recreate it for each, as the playbook C(os_installation) does.
    type: int
  until:
    description:
      - What ends the installation. V(powered_off) is a shutdown at the end of the answer file; V(tools_running) is VMware Tools in the guest, V(address) the
        address that they report.
      - Of the latter two it is known to about a second when they were there; the result says how well (C(uncertain_s)).
    type: str
    choices: [powered_off, tools_running, address]
    default: powered_off
  installation_timeout_s:
    description: How long the installation may take. After it the task fails, and the machine stays as it is.
    type: int
    default: 7200
  power_off_at_timeout:
    description: Whether the machine is turned off when the time is over. It must be recreated then.
    type: bool
    default: false
  settle_s:
    description: How long the machine must stay off until that is an end and not a restart.
    type: int
    default: 20
  reconnect_s:
    description: How long the host may be out of reach during it.
    type: int
    default: 600
  join:
    description:
      - Whether a machine that runs already, and remembers no installation, is taken as one that is being installed since it was turned on last.
    type: bool
    default: false
  results_dir:
    description:
      - Folder of all results on the controller. With it C(<results_dir>/<testbed_id>/<run_id>/installations/<guest>.json) is written, see C(docs/results.md).
        When that is there already the host is not asked.
    type: path
  guest:
    description: Name of the guest in the results. By default O(name).
    type: str
  layer:
    description: Name of the layer that the machine's datastore is, for the results.
    type: str
  image:
    description: The image on the controller, whose SHA-256 becomes C(medium) of the result. Only times of the same image are compared.
    type: path
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.esxi
attributes:
  idempotent:
    description: With O(results_dir) an installation whose result is there is not done again; without it each run installs.
    support: partial
  check_mode:
    description: Looks whether the installation could begin, and says what would be done.
    support: full
  diff_mode:
    description: Shows what is done.
    support: full
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
seealso:
  - module: storlab.testbed.esxi_vm
  - module: storlab.testbed.esxi_counters
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A machine with an empty disk and an image that installs by itself, both on the datastore that is tried
  storlab.testbed.esxi_vm:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    name: lab-install01
    datastore: lab-ds1
    guest_id: windows9Server64Guest
    vcpus: 2
    memory_mib: 4096
    disks:
      - {name: system, size_mib: 20480, controller: lsilogic, provisioning: thin}
    iso:
      src: /srv/images/server-unattended.iso

- name: How long does the installation take?
  storlab.testbed.esxi_installation:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    testbed_id: lab
    name: lab-install01
    run_id: 20261121T133616Z
    results_dir: results
"""

RETURN = r"""
steps:
  description: Actions taken, or planned in check mode.
  returned: unless the result was there already
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
installation:
  description:
    - C(started_utc), C(finished_utc) (the host's time), C(duration_s), C(ended_by), C(datastore) (of the machine's first disk), C(iso), and C(vm), what was
      installed on.
    - C(uncertain_s) is by how much the end may have been earlier; it is there when no event of the host marked the end. A host that reports no events at all
      is a warning.
    - C(counters) has the C(samples) (how many), C(cpu), and of the C(datastore) C(commands_s) with C(mean), C(p95) and C(max), of the samples of 20 s that lie
      in the installation as a whole; C(counters_missed) says why there are none.
  returned: when it is over
  type: dict
  contains:
    started_utc:
      description: When the machine was turned on.
      returned: always
      type: str
      sample: "2026-03-01T10:15:00.000Z"
    finished_utc:
      description: When it was over.
      returned: always
      type: str
      sample: "2026-03-01T10:21:07.412Z"
    duration_s:
      description: How long it took.
      returned: always
      type: float
      sample: 367.4
    ended_by:
      description: How the end was determined.
      returned: always
      type: str
      sample: powered_off
    datastore:
      description: Where the first disk lies.
      returned: always
      type: str
      sample: lab-ds1
    iso:
      description: The medium.
      returned: always
      type: str
      sample: "[lab-ds1] iso/debian.iso"
    vm:
      description: The storage of the installation.
      returned: always
      type: dict
      sample: {vcpus: 2, memory_mib: 2048}
    counters:
      description: Counters of the host over that time.
      returned: always
      type: dict
      sample: {samples: 18}
line:
  description: The same in a line for a terminal.
  returned: when it is over
  type: str
  sample: guest01 was installed in 367.4 s.
file:
  description: The result on the controller.
  returned: with O(results_dir)
  type: str
  sample: installations/guest01.json
about:
  description: The host, as RV(storlab.testbed.esxi_state#module:about) has it.
  returned: unless the result was there already
  type: dict
  sample: {product: VMware ESXi, version: 8.0.2, build: '22380479', api: 8.0.2.0, kind: HostAgent}
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.names import check_testbed_id
from ..module_utils.esxi import session as esxi
from ..module_utils.esxi.installation import SPEC, Installation
from ..module_utils.esxi.installation_plan import check


def main() -> None:
    module = AnsibleModule(argument_spec={**esxi.spec(env_fallback), **SPEC}, supports_check_mode=True)
    with failures_of(module):
        check_testbed_id("guest_vm_testbed_id", module.params["testbed_id"])
        installation = Installation(module.params, check(module.params), module.check_mode)
        result = installation.run()
        if installation.without_events:
            module.warn(installation.without_events)
        module.exit_json(**result)


if __name__ == "__main__":
    main()
