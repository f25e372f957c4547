#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: esxi_recording
short_description: Records the answers of an ESXi host that this collection reads
version_added: 1.0.0
description:
  - Reads everything that this collection reads of a host before it changes anything, and returns the requests with the host's answers as XML, so that the
    same readers can read them again elsewhere. Playbook C(storlab.testbed.record) uses it.
  - Changes nothing; a call that would change something is refused before it is sent. A read-only licence and an account with the role read-only are enough;
    the host's refusals are recorded, too.
  - Names, addresses, identifiers and serial numbers are replaced before the answers leave the module, each by the same replacement everywhere. Notes of
    machines, their settings (except this collection's), passwords, licence keys and certificates are left out.
extends_documentation_fragment:
  - storlab.testbed.recording
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
  - storlab.testbed.esxi
attributes:
  platform:
    description: ESXi 6.5 and later, standalone or under vCenter.
    support: full
    platforms: esxi
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Record the answers of a host
  storlab.testbed.esxi_recording:
    hostname: esxi01.lab.example
    username: reader
    password: "{{ vaulted_esxi_password }}"
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
      description: V(esxi).
      returned: always
      type: str
      sample: esxi
    about:
      description: Product, version, build and interface of the host, C(stand_in) of one that is simulated.
      returned: always
      type: dict
      sample: {product: VMware ESXi, version: 8.0.3}
    version:
      description: Version of the API, as pyVmomi names it.
      returned: always
      type: str
      sample: vim.version.v8_0_3_0
    calls:
      description: In their order, C(request) and C(answer) as XML and the HTTP C(status).
      returned: always
      type: list
      elements: dict
      sample: []
"""

from ansible.module_utils.basic import AnsibleModule, env_fallback

from ..module_utils.core.answer import failures_of
from ..module_utils.core.pseudonyms import SPEC
from ..module_utils.esxi import recording
from ..module_utils.esxi import session as esxi


def main() -> None:
    module = AnsibleModule(argument_spec={**esxi.spec(env_fallback), **SPEC}, supports_check_mode=True)
    with failures_of(module), esxi.Session(module.params) as session:
        own = {module.params["hostname"], module.params["username"], module.params["esxi_host"] or ""}
        answers = recording.record(session)
        scrubbed = recording.scrubbed(answers, module.params["key"].encode(), own | set(module.params["names"]))
        module.exit_json(changed=False, recording={"format": 1, "kind": "esxi", "about": session.about, **scrubbed})


if __name__ == "__main__":
    main()
