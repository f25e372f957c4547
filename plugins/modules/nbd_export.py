#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: nbd_export
short_description: Serves an image file over NBD
version_added: 0.1.0
description:
  - Runs one C(qemu-nbd) for one image file, so that the QEMU of a guest on another host can use it as a disk.
  - An export whose file was replaced, or whose storage is not the one the kernel assumes, is restarted.
  - Without O(secret) NBD has neither a password nor encryption. Bind it to an address of a private network then.
  - Ends only a process whose command line proves that it is this export.
options:
  name:
    description: Name of the export.
    type: str
    required: true
  state:
    description:
      - V(present) serves the file, V(absent) ends the export.
      - V(released) ends it only when what it serves is not the file any more, so that the file system under it can be unmounted and recreated.
    type: str
    choices: [present, absent, released]
    default: present
  path:
    description: The image file, or the device of O(layer). Not needed with O(state=absent).
    type: path
  layer:
    description: The published layer whose whole device is served. The device guard proves it before it is served.
    type: dict
  layers:
    description: The published layers by name, for the device guard.
    type: dict
    default: {}
  testbed_id:
    description: Name of the testbed, for the device guard.
    type: str
    default: ''
  address:
    description: Address to listen on. Never all of them.
    type: str
    required: true
  port:
    description: Port to listen on.
    type: int
    default: 10809
  secret:
    description:
      - With it the export speaks nothing but TLS, and serves only clients that know this secret (TLS-PSK). 20 to 64 letters, digits and signs.
      - The host keeps it in a file of root's beside the export, and forgets it with the export. Another one restarts the export.
    type: str
  aio:
    description: How C(qemu-nbd) issues I/O.
    type: str
    choices: [threads, native, io_uring]
    default: threads
  stop_timeout_s:
    description: Seconds each way of ending the export may take.
    type: int
    default: 10
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Starts and ends nothing in check mode.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Linux.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Serve the data disk of a guest
  storlab.testbed.nbd_export:
    name: storlab-embedded-guest01
    path: /srv/storlab/ds1/storlab-embedded-guest01.img
    address: 10.213.0.12
"""

RETURN = r"""
url:
  description: How to reach the export; C(nbds) with O(secret).
  returned: always
  type: str
  sample: nbd://10.213.0.12:10809/storlab-embedded-guest01
instance:
  description: Tells this start of the export from every other one; empty when it does not run.
  returned: always
  type: str
  sample: "1b4e28ba-2fa1-11d2-883f-0016d3cca427:4711:90210"
problem:
  description: Why the export was or would be restarted or ended.
  returned: when there was one
  type: str
  sample: it serves a file that is no longer at its path
steps:
  description: Actions taken, or planned in check mode.
  returned: always
  type: list
  elements: str
  sample: [start]
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.steps import shown_words
from ..module_utils.lab import nbd
from ..module_utils.linux import daemon
from ..module_utils.linux.disks import device_safety


def ensure(params: dict, check_mode: bool) -> dict:
    name, path = params["name"], os.path.realpath(params["path"] or "")
    secret, at = params["secret"], (params["address"], params["port"])
    nbd.check(name, *at, secret)
    argv = nbd.build_argv(name, path, *at, params["aio"], bool(secret))
    current = nbd.read_state(name, argv, path, secret)
    steps = nbd.plan(current, params["state"])
    for step in [] if check_mode else steps:
        if step == "stop":
            nbd.stop(name, params["stop_timeout_s"])
            continue
        if params["layer"]:
            device_safety.prove_whole(params["layer"], params["testbed_id"], params["layers"])
        nbd.start(name, argv, secret)
    return {
        **shown_words(steps, name),
        "instance": daemon.instance(nbd.running_pid(name) or 0),
        "url": nbd.build_url(name, *at, bool(secret)),
        **({"problem": current["problem"]} if current["problem"] else {}),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
            "path": {"type": "path"},
            "layer": {"type": "dict"},
            "layers": {"type": "dict", "default": {}},
            "testbed_id": {"type": "str", "default": ""},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "default": 10809},
            "secret": {"type": "str", "no_log": True},
            "aio": {"type": "str", "choices": ["threads", "native", "io_uring"], "default": "threads"},
            "stop_timeout_s": {"type": "int", "default": 10},
        },
        required_if=[("state", "present", ["path"]), ("state", "released", ["path"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        module.exit_json(**ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
