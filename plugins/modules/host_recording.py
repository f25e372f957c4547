#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: host_recording
short_description: Records the answers of a Linux host that this collection reads
version_added: 1.0.0
description:
  - Reads the files of C(/proc), C(/sys) and C(/etc) that this collection reads of a host, and the outputs of commands that only look, so that the same readers
    can read them again elsewhere. Playbook C(storlab.testbed.record) uses it.
  - Changes nothing. Without root's rights it records what the user may read. No secret of CHAP or NVMe is read.
  - Names, addresses, identifiers and serial numbers are replaced before they leave the host, each by the same replacement everywhere.
extends_documentation_fragment:
  - storlab.testbed.recording
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  platform:
    description: Linux.
    support: full
    platforms: linux
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Record the answers of a host
  storlab.testbed.host_recording:
    key: "{{ lookup('ansible.builtin.password', '/dev/null') }}"
  register: answers
"""

RETURN = r"""
recording:
  description: The host's answers, with other names and identifiers.
  returned: success
  type: dict
  contains:
    format:
      description: Version of this form.
      returned: always
      type: int
      sample: 1
    kind:
      description: V(linux).
      returned: always
      type: str
      sample: linux
    files:
      description: By path without the first slash the text, or C(link) with its target, or C(latin1) with bytes.
      returned: always
      type: dict
      sample: {proc/swaps: ""}
    outputs:
      description: By command line its C(rc) and C(out).
      returned: always
      type: dict
      sample: {fio --version: {rc: 0, out: "fio-3.33\n"}}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.pseudonyms import SPEC
from ..module_utils.linux.watch import recording


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    with failures_of(module):
        names, key = set(module.params["names"]), module.params["key"].encode()
        module.exit_json(
            changed=False,
            recording={"format": 1, "kind": "linux", **recording.scrubbed(recording.record(), key, names)},
        )


if __name__ == "__main__":
    main()
