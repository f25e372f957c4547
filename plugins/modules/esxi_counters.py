#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_counters
short_description: Tells what an ESXi host and its machines counted while something was measured
version_added: 0.2.0
description:
  - Reads the host's real-time samples (one in 20 s) over the API, in one session and one request, and weights them to exactly the time that is asked for.
    Processor use in MHz of the host and of each machine; I/O and latency of devices, adapters, datastores and virtual disks; and of devices where the latency
    arises, GAVG = KAVG + DAVG. See C(docs/counters.md).
  - With O(run_dir) every point of that run whose I/O passes this host gets C(counters.esxi) and C(counters.hosts.<host>), with the MHz that an IOPS costs.
    The samples are kept beside the point. Points that have them are left as they are, so this may run again.
  - The host's settings that figures depend on (options of the iSCSI adapter, MTU, drivers, path policy, VAAI, power policy) are kept in
    C(hosts/<host>.json), so that runs under other ones are not compared as if they were alike.
  - A point while whose device had commands aborted, or its bus reset, becomes a failed one; the next benchmark of that run measures it again.
  - ESXi keeps real-time samples for an hour. When a benchmark takes longer, run O(state=recorded) at least once an hour while it runs.
  - The clocks of the host and of what was measured may differ; both are compared with the controller's.
options:
  state:
    description:
      - V(collected) reads what is needed and adds it to the points.
      - V(recorded) keeps all samples of the last hour in the run's folder, for a later V(collected).
    type: str
    choices: [collected, recorded]
    default: collected
  run_dir:
    description: Folder of a run on the controller. Without it O(started_utc) is read, and only returned.
    type: path
  started_utc:
    description: Where the time begins that figures are wanted of, as C(2026-11-21T16:33:10Z), by the clock of the machine that this task runs on.
    type: str
  finished_utc:
    description: Where it ends.
    type: str
  wait_s:
    description: How long after its end to wait for the sample in which the time ends.
    type: int
    default: 60
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.esxi
attributes:
  check_mode:
    description: Reads, and says which points would get figures.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
seealso:
  - module: storlab.testbed.benchmark_observer
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Add to the results of a run what the host counted
  storlab.testbed.esxi_counters:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    run_dir: results/lab/20261121T133616Z

- name: How busy was the host during these two minutes?
  storlab.testbed.esxi_counters:
    hostname: esxi01.lab.example
    username: root
    password: "{{ vaulted_esxi_password }}"
    started_utc: "2026-11-21T13:40:00Z"
    finished_utc: "2026-11-21T13:42:00Z"
"""

RETURN = r"""
clock:
  description: How far the host's clock is ahead of that of the machine this task ran on (C(offset_s)), and how well that is known (C(uncertain_s)).
  returned: when the host was asked
  type: dict
  contains:
    offset_s:
      description: How far it is ahead.
      returned: always
      type: float
      sample: 0.0021
    uncertain_s:
      description: How well that is known.
      returned: always
      type: float
      sample: 0.0008
figures:
  description: >-
    C(interval_s), C(samples) (whole ones), C(partial_samples), C(cpu) (C(used_mhz), C(host_busy_percent), C(cores), C(mhz), C(vm_mhz) by machine), and
    by instance C(devices) (C(iops), C(gavg_ns), C(kavg_ns), C(davg_ns), C(qavg_ns), C(read_iops), …), C(adapters), C(datastores) and C(virtual_disks).
  returned: with O(started_utc) and O(finished_utc), without O(run_dir)
  type: dict
  contains:
    interval_s:
      description: The time that a sample covers.
      returned: always
      type: int
      sample: 20
    samples:
      description: Whole samples.
      returned: always
      type: int
      sample: 3
    partial_samples:
      description: Samples that lie only partly in the time.
      returned: always
      type: int
      sample: 1
    cpu:
      description: Processors of the host, and of each machine.
      returned: always
      type: dict
      sample: {host_busy_percent: 12.5, cores: 16}
    devices:
      description: Figures by device.
      returned: always
      type: dict
      sample: {naa.6001405a77a1836191159e1a847ae920: {iops: 6958.4, gavg_ns: 1158822.1}}
    adapters:
      description: Figures by adapter.
      returned: always
      type: dict
      sample: {}
    datastores:
      description: Figures by datastore.
      returned: always
      type: dict
      sample: {}
    virtual_disks:
      description: Figures by virtual disk.
      returned: always
      type: dict
      sample: {}
samples:
  description: The samples they are made of.
  returned: without O(run_dir)
  type: dict
  sample: {interval_s: 20, counters: {}}
added:
  description: Points that have got figures.
  returned: with O(run_dir) and O(state=collected)
  type: list
  elements: str
  sample: [initiator-bench.4k.r1]
missed:
  description: Why other points have not, by point.
  returned: with O(run_dir) and O(state=collected)
  type: dict
  sample: {initiator-bench.4k.r2: nothing was counted at that time}
failed_points:
  description: Why points have become failed ones, by point.
  returned: with O(run_dir) and O(state=collected)
  type: dict
  sample: {initiator-bench.4k.r3: esxi01 aborted 3 commands to naa.6001405a77a1836191159e1a847ae920 while this point was measured.}
"""

import time

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.failure import bad_value
from ..module_utils.core.times import unix_s
from ..module_utils.esxi import counters as esxi_counters
from ..module_utils.esxi import fingerprint
from ..module_utils.esxi import session as esxi

# For so long ESXi keeps real-time samples.
KEPT_S = 3600


def moment(params: dict, key: str) -> float | None:
    try:
        return unix_s(params[key]) if params[key] else None
    except ValueError:
        raise bad_value(key, params[key], "Give a time in UTC as 2026-11-21T16:33:10Z.") from None


def main() -> None:
    module = AnsibleModule(argument_spec={**esxi.spec(env_fallback), **esxi_counters.SPEC}, supports_check_mode=True)
    params = module.params
    with failures_of(module):
        started_s, finished_s = moment(params, "started_utc"), moment(params, "finished_utc")
        if started_s and finished_s and started_s >= finished_s:
            raise bad_value("finished_utc", params["finished_utc"], f"Give a time after {params['started_utc']}.")
        now_s = time.time()
        with esxi.Session(params) as session:
            host = session.host()
            # Without an end there is nothing to wait for.
            wait_s = params["wait_s"] if finished_s else 0
            samples = esxi_counters.read(session, host, started_s or now_s - KEPT_S, finished_s or now_s, wait_s)
            samples["settings"] = fingerprint.read(session, host)
        result = {"changed": False, "clock": samples["clock"], "samples": samples}
        if started_s and finished_s and not params["run_dir"]:
            offset_s = samples["clock"]["offset_s"]
            result["figures"] = esxi_counters.figures(samples, started_s + offset_s, finished_s + offset_s)
        module.exit_json(**result)


if __name__ == "__main__":
    main()
