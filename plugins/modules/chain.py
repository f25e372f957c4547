#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: chain
short_description: Expands the description of a testbed into the variables of all roles, and checks it as a whole
version_added: 1.0.0
description:
  - Reads who is who from the groups C(targets), C(hypervisors), C(clients) and C(guests), and what is on them from the variable C(testbed).
  - Derives what the roles need on each host, such as IQNs, LUN numbers, access lists, CHAP, portals, sessions, names and parents of layers. A role's
    variable that the inventory sets is taken as it is, and what follows from it is derived from that.
  - Finds everything that is wrong at once, and fails with one sentence for each, which names the variable, its value and the remedy.
  - Runs on the controller and touches no host. Without O(show) it makes the testbed's CHAP secrets when there are none yet.
options:
  addresses:
    description:
      - The addresses that the hosts of RV(without_address) log in from, by host. They are kept in the testbed's state folder, for later playbooks.
    type: dict
    default: {}
    version_added: 1.0.0
  built:
    description:
      - V(kept) writes down what the hosts of the play are, after a build; V(forgotten) removes that, after a teardown. With C(--limit) nothing of the
        other hosts is changed.
      - While it is kept, changes that a running testbed cannot follow are refused.
    type: str
    choices: [kept, forgotten]
  hold:
    description: Whether to fail where O(probes) show that the description cannot be, instead of returning what is wrong.
    type: bool
    default: false
  probes:
    description:
      - What the hosts have, by name. C(probe) of M(storlab.testbed.host_probe) of Linux hosts, C(about) of M(storlab.testbed.esxi_state) and
        M(storlab.testbed.win_state) of the others. Hosts that were not reached have C(unreached), the reason as Ansible gives it, or null.
      - The description is held against it (RV(problems)), and what a lab lacks is in RV(findings). Secrets are masked, and none is made.
    type: dict
    default: {}
  require:
    description: The parts that must be described. For V(results), such as for reports, O(testbed) may be missing, and so may all hosts.
    type: str
    choices: [testbed, results]
    default: testbed
  scope:
    description:
      - What the playbook works on. With C(--limit) it is refused (C(limit_unfit)) where that leaves none of these hosts, as Ansible would skip its
        plays and end well.
      - V(any) works on the controller, V(benchmark) on hosts and guests, V(machines) on the controller of an embedded lab, V(installation) on guests
        and the hosts that make them, V(teardown) on all hosts but guests. V(build) works on the same, and the layers that they need must be built,
        or their hosts left in. V(whole) cannot leave a host out.
    type: str
    choices: [any, benchmark, build, installation, machines, teardown, whole]
    default: any
    version_added: 1.0.0
  show:
    description: Return a drawing and YAML, with secrets masked, and make no secrets.
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.testbed
attributes:
  check_mode:
    description: Makes no secrets in check mode; stars replace them.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Draw the testbed of the inventory
  storlab.testbed.chain:
    show: true
  run_once: true
  register: result

- name: The variables of every role on this host
  storlab.testbed.chain:
  run_once: true
  register: result
  no_log: true
"""

RETURN = r"""
testbed_id:
  description: Name of the testbed.
  returned: success
  type: str
  sample: embedded
state_dir:
  description: Folder on the controller that keeps the testbed's state.
  returned: success
  type: str
  sample: /srv/testbed/state
results_dir:
  description: Folder on the controller that keeps results.
  returned: success
  type: str
  sample: /srv/results
absent_machines:
  description: Machines of the embedded lab that do not run, and the hosts that depend on them.
  returned: success
  type: list
  elements: str
  sample: []
without_address:
  description: The ESXi hosts whose address a build reads, because O(testbed.access) is V(address) and the inventory names none.
  returned: success
  type: list
  elements: str
  sample: [esxi01]
guest_hosts:
  description: The hosts that make or run guests.
  returned: success
  type: list
  elements: str
  sample: [hypervisor01]
hosts:
  description:
    - By host its C(platform), the C(variables) of the roles, C(because) what made each of them so, the C(stages) that concern it, the hosts
      that it depends on (C(depends_on)), and of Linux hosts what M(storlab.testbed.host_probe) should look for (C(needs)).
  returned: success
  type: dict
  sample: {target01: {platform: linux, stages: [backing, target], depends_on: [], needs: {}, variables: {}, because: {}}}
layers:
  description: The layers that a build publishes, each with C(name), C(kind), C(host), C(parent), C(purpose) and C(what) it is.
  returned: success
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
    host:
      description: The host that issues I/O there.
      returned: always
      type: str
      sample: target01
    what:
      description: Its description in words.
      returned: always
      type: str
      sample: LUN bench of target01
left_out:
  description: What C(--limit) leaves out of what can be measured, each with C(host) and its C(layers).
  returned: success
  type: list
  elements: dict
  sample: [{host: target01, layers: [backing-bench]}]
overwritten:
  description:
    - A sentence for each device that the user names and whose contents will be gone, with its path, what proves it, and C(OVERWRITTEN) or
      C(FORMATTED).
  returned: success
  type: list
  elements: str
  sample: ["OVERWRITTEN: /dev/sdb, serial S1234 on target01 (testbed.disks[1]): measured raw as target-slow and initiator-slow"]
findings:
  description: The abilities and gaps of the hosts, each with C(host), C(what), C(good), C(said) and, when it is not good, the C(command) that mends it.
  returned: with O(probes)
  type: list
  elements: dict
  contains:
    host:
      description: The host.
      returned: always
      type: str
      sample: target01
    what:
      description: The subject of the check.
      returned: always
      type: str
      sample: memory
    good:
      description: Whether it suffices.
      returned: always
      type: bool
      sample: false
    said:
      description: The observation.
      returned: always
      type: str
      sample: "1024 MiB of memory, 4096 are needed"
    command:
      description: The command that mends it.
      returned: always
      type: str
      sample: apt-get install fio
    sentence:
      description: The sentence with which a build would refuse it.
      returned: when a build would refuse it
      type: str
      sample: "testbed.disks[0].path is '/dev/sdf', which is not a block device of store01: correct it."
problems:
  description: Errors of the description that the hosts reveal, one sentence each.
  returned: with O(probes)
  type: list
  elements: str
  sample: ["target01 has 1024 MiB of memory, where 4096 are needed."]
table:
  description: The findings as a table, one line each, and what mends those that are not good.
  returned: with O(probes)
  type: list
  elements: str
  sample: ["host      check    good  details", "target01  reached  yes   by SSH"]
drawing:
  description: The layers as a drawing, one line each.
  returned: with O(show)
  type: list
  elements: str
  sample: [backing-bench, "  target-bench"]
yaml:
  description: All derived variables as YAML, each with what made it so.
  returned: with O(show)
  type: str
  sample: "iscsi_target_provider: lio"
"""
