#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: benchmark_server
short_description: Runs fio's server on a host that takes part in a measurement of many hosts
version_added: 0.2.0
description:
  - With O(state=started) proves with the device guard that O(layer) is the testbed's own, holds it, and leaves fio's server running that listens
    on O(address) only. Holding means that the device is open, and claimed where nothing in the kernel has claimed it, so that it cannot be mounted.
  - The server ends at its deadline even when it is not stopped. A job whose client is gone is ended at once.
  - With O(state=stopped) ends the server and everything it started; nothing of it is left.
  - fio's server does not authenticate clients, and does whatever it is sent, as the user it runs as. Let it listen in a network of the testbed alone
    and only while it is needed, keep others away with the host's firewall, or let it listen on V(127.0.0.1) and
    reach it through a tunnel. See C(docs/many_hosts.md).
options:
  state:
    description: Whether the server is running.
    type: str
    choices: [started, stopped]
    default: started
  testbed_id:
    description: The testbed.
    type: str
    required: true
  layer:
    description: The layer that may be measured through this server, as M(storlab.testbed.layer) publishes it. It has a path on this host.
    type: dict
  layers:
    description: The published layers of the testbed, a list or a mapping by name; an export by one of their targets is the testbed's own.
    type: raw
    default: []
  address:
    description: The address to listen on, one that this host has in the testbed's network. Addresses that mean all of them are refused.
    type: str
  port:
    description: The port to listen on. Another server of the testbed on this host, for another layer, needs its own. Without it O(state=stopped) means all.
    type: int
  allow_any_address:
    description: Whether the server may listen on all addresses of the host (V(0.0.0.0), V(::)).
    type: bool
    default: false
  allow_device:
    description: Paths on which refusals of the device guard are overridden, as far as they can be. Everything on these devices may be lost.
    type: list
    elements: str
    default: []
  deadline_s:
    description: After how many seconds the server ends by itself. Asking for the same server again restarts its time.
    type: int
    default: 14400
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: V(started) proves the layer safe and the address usable and starts nothing, V(stopped) says what it would end.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux, with fio and blkid installed, and rights to open the device. Python 3.9 or later.
    support: full
    platforms: linux
seealso:
  - module: storlab.testbed.benchmark
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Let the coordinating host measure this host's disk
  storlab.testbed.benchmark_server:
    testbed_id: embedded
    layer: "{{ ansible_facts['storlab_layers']['initiator-bench'] }}"
    layers: "{{ ansible_facts['storlab_layers'] }}"
    address: 10.213.0.12
    port: 8765

- name: End all servers of the testbed on this host
  storlab.testbed.benchmark_server:
    state: stopped
    testbed_id: embedded
"""

RETURN = r"""
address:
  description: Where the server listens.
  returned: state=started
  type: str
  sample: 192.0.2.21
port:
  description: The port it listens on.
  returned: state=started
  type: int
  sample: 8765
version:
  description: The version of fio, which must be the same on all hosts of a measurement.
  returned: state=started
  type: str
  sample: fio-3.33
pid:
  description: The server's process.
  returned: state=started, not in check mode
  type: int
  sample: 4711
stopped:
  description: Ports of the servers that were ended.
  returned: state=stopped
  type: list
  elements: int
  sample: [8765]
ansible_facts:
  description: Facts of the current host.
  returned: not in check mode
  type: dict
  contains:
    storlab_servers:
      description:
        - All servers of the testbed on this host, as M(storlab.testbed.benchmark) takes them.
        - Each has C(host), C(address), C(port), C(version) and C(layer).
      type: list
      elements: dict
      returned: always
      contains:
        host:
          description: The host.
          returned: always
          type: str
          sample: client01
        address:
          description: Where it listens.
          returned: always
          type: str
          sample: 192.0.2.21
        port:
          description: The port it listens on.
          returned: always
          type: int
          sample: 8765
        version:
          description: The version of fio.
          returned: always
          type: str
          sample: fio-3.33
        layer:
          description: The layer that it may measure.
          returned: always
          type: str
          sample: initiator-bench
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.layers import validate_layer
from ..module_utils.engines.fio_distributed import SERVER_KEYS
from ..module_utils.run import fio_server, runner


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "testbed_id": {"type": "str", "required": True},
            "layer": {"type": "dict"},
            "layers": {"type": "raw", "default": []},
            "address": {"type": "str"},
            "port": {"type": "int"},
            "allow_any_address": {"type": "bool", "default": False},
            "allow_device": {"type": "list", "elements": "str", "default": []},
            "deadline_s": {"type": "int", "default": 14400},
        },
        required_if=[("state", "started", ["layer", "address", "port"])],
        supports_check_mode=True,
    )
    options = module.params
    with failures_of(module):
        if options["state"] == "stopped":
            result = fio_server.stop(options["testbed_id"], options["port"], dry_run=module.check_mode)
        else:
            known = options["layers"]
            options = {
                **options,
                "layer": validate_layer(options["layer"]),
                "layers": [validate_layer(layer) for layer in (known.values() if isinstance(known, dict) else known)],
            }
            done = fio_server.start(options, runner.find_engine(), dry_run=module.check_mode)
            result = {
                "changed": done["changed"],
                **{key: done["server"][key] for key in ("address", "port", "version", "pid") if key in done["server"]},
            }
        if not module.check_mode:
            servers = [
                {key: server[key] for key in SERVER_KEYS} for server in fio_server.running(options["testbed_id"])
            ]
            result["ansible_facts"] = {"storlab_servers": servers}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
