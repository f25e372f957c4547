#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: network_ceiling_run
short_description: One side of a measurement of the network between two hosts
version_added: 1.0.0
description:
  - The part of M(storlab.testbed.network_ceiling) that runs on the hosts. Use that one; this one is for trying and repairing.
options:
  state:
    description: V(listening) waits for one measurement on a free port of O(address), in a process that ends by itself; V(measured) measures.
    type: str
    choices: [listening, measured]
    required: true
  address:
    description: IP address of the target, on which it listens and nowhere else.
    type: str
    required: true
  port:
    description: The port that V(listening) returned. Required for V(measured).
    type: int
  token:
    description: 32 hexadecimal digits by which both sides know each other.
    type: str
    required: true
  deadline_s:
    description: After how many seconds the listener ends, if nothing has been measured.
    type: int
    default: 300
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Measures nothing.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Linux. Python 3.9 or later.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Wait for a measurement
  storlab.testbed.network_ceiling_run:
    state: listening
    address: 192.0.2.11
    token: "{{ token }}"
"""

RETURN = r"""
port:
  description: Where it listens.
  returned: state=listening, not in check mode
  type: int
  sample: 41235
measured:
  description: The measurement, or a C(note) why there is none; see M(storlab.testbed.network_ceiling).
  returned: state=measured, not in check mode
  type: dict
  sample: {started_utc: "2026-11-23T05:00:00Z", seconds: 3.0, streams: 4, to_target_bits_s: 9412345678, round_trip_ns: 81000}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.run import net_ceiling


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["listening", "measured"], "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int"},
            "token": {"type": "str", "required": True, "no_log": True},
            "deadline_s": {"type": "int", "default": 300},
        },
        required_if=[("state", "measured", ["port"])],
        supports_check_mode=True,
    )
    given = module.params
    with failures_of(module):
        net_ceiling.check_token(given["token"])
        if module.check_mode:
            module.exit_json(changed=False)
        if given["state"] == "measured":
            figures = net_ceiling.measure(given["address"], given["port"], given["token"])
            module.exit_json(changed=False, measured=figures)
        listener = net_ceiling.listen(given["address"])
        net_ceiling.in_child(listener, given["token"], given["deadline_s"])
        module.exit_json(changed=False, port=listener.getsockname()[1])


if __name__ == "__main__":
    main()
