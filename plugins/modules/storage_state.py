#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: storage_state
short_description: Reads what a Linux host's storage looks like
version_added: 0.1.0
description:
  - Lists block devices, mounts, swap, iSCSI sessions, LIO targets, storage configuration files, kernel modules, storage daemons, network interfaces
    and the files that this collection keeps on the host, in a form that two moments can be compared in.
  - M(storlab.testbed.storage_baseline) compares the state before a build with the state after the teardown.
  - Changes nothing.
options:
  testbed_id:
    description:
      - What the records of other testbeds of this collection on the host (C(/run/storlab/<testbed_id>/)) name is left out; names are compared exactly.
        Without it everything is listed.
    type: str
    default: ""
  own_names:
    description: Further names under which this testbed keeps folders below C(/run/storlab), such as the namespace of its embedded lab.
    type: list
    elements: str
    default: []
  made:
    description:
      - Names of what the testbed is known to have made, by kind, as M(storlab.testbed.testbed_claims) keeps them in C(made/<host>.json). A thing they name is
        the testbed's, even where its records are gone.
    type: dict
    default: {}
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Read the storage state
  storlab.testbed.storage_state:
  register: result
"""

RETURN = r"""
storage_state:
  description: Sections, each a sorted list of lines that a person can read.
  returned: success
  type: dict
  sample:
    block_devices: [vda 1073741824 bytes]
    iscsi_sessions: []
    nvme_connections: []
    nvme_targets: []
    kernel_modules: [ext4, virtio_blk]
ours:
  description: Those of the lines that the testbed has made, or that carry its mark. Nothing without O(testbed_id).
  returned: success
  type: dict
  sample:
    mounts: [/dev/sdb on /srv/storlab/ds1 type ext4]
boot_id:
  description: Identifies this start of the host.
  returned: success
  type: str
  sample: 4d1f0a54-2f5c-4d51-9c3f-0f3a4f0c7a11
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.watch import claims
from ..module_utils.linux.watch.storage_state import examine


def main():
    module = AnsibleModule(
        argument_spec={
            "testbed_id": {"type": "str", "default": ""},
            "own_names": {"type": "list", "elements": "str", "default": []},
            "made": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    ip = module.get_bin_path("ip")
    addresses = module.run_command([ip, "-json", "address", "show"], check_rc=True)[1] if ip else ""
    mdadm = module.get_bin_path("mdadm")
    # Superblocks outlive the array that a teardown stopped.
    arrays = module.run_command([mdadm, "--examine", "--scan"])[1] if mdadm else ""
    with failures_of(module):
        testbed_id, own_names = module.params["testbed_id"], module.params["own_names"]
        state = examine("/", addresses, testbed_id, own_names, arrays, claims.still(module.params["made"]))
    module.exit_json(changed=False, storage_state=state.lines, ours=state.ours, boot_id=claims.boot_id())


if __name__ == "__main__":
    main()
