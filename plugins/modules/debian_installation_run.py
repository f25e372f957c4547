#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: debian_installation_run
short_description: Installs packages of Debian on a disk of this host once, and times it
version_added: 1.0.0
description:
  - The part of M(storlab.testbed.debian_installation) that runs on the host. Use that one; this one is for trying and repairing.
  - The device guard proves the disk before anything is written. Leftovers of an installation that was killed are unmounted and replaced; anything else
    that the disk holds is refused.
  - Needs C(dpkg), C(mkfs.ext4) and C(mount).
options:
  action:
    description:
      - V(look) says whether the packages are at the end of the disk. V(put) fills the disk with zeroes and writes them there. V(install) installs and times
        them, and leaves the disk without a file system.
    type: str
    choices: [look, put, install]
    required: true
  testbed_id:
    description: The testbed that the disk belongs to.
    type: str
    required: true
  layer:
    description: The published layer of the disk.
    type: dict
    required: true
  layers:
    description: All published layers by name.
    type: dict
    default: {}
  index_sha256:
    description: The key of the packages, as M(storlab.testbed.debian_packages) says.
    type: str
    required: true
  bytes:
    description: How long they are with their index.
    type: int
    required: true
  source:
    description: With O(action=put) the file on this host that holds them.
    type: path
  timeout_s:
    description: After how many seconds an installation is ended. It is a failure then.
    type: int
    default: 3600
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  idempotent:
    description: Each time is a measurement.
    support: none
  check_mode:
    description: Is skipped.
    support: none
  diff_mode:
    description: Nothing is configured.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Are the packages on the disk?
  storlab.testbed.debian_installation_run:
    action: look
    testbed_id: embedded
    layer: "{{ ansible_facts.storlab_layers['guest-guest01'] }}"
    index_sha256: "{{ packages.medium.index_sha256 }}"
    bytes: "{{ packages.medium.bytes }}"
"""

RETURN = r"""
there:
  description: Whether the packages are at the end of the disk.
  returned: action=look and action=put
  type: bool
  sample: true
installation:
  description: When it was, how long it took as a whole and in its phases, and what this host counted at the time.
  returned: action=install
  type: dict
  sample: {duration_s: 41.2, packages: 26}
log:
  description: The end of what the programs said.
  returned: action=install
  type: str
  sample: Setting up dash (0.5.12-2) ...
environment:
  description: The host's fingerprint.
  returned: action=install
  type: dict
  sample: {kernel: 6.1.0}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.loads import debian_installation
from ..module_utils.linux.watch import environment


def main() -> None:
    module = AnsibleModule(argument_spec=debian_installation.SPEC)
    with failures_of(module):
        result = debian_installation.perform(module.params)
    if "installation" in result:
        result["environment"] = environment.fingerprint()
    module.exit_json(**result)


if __name__ == "__main__":
    main()
