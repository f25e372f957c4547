#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: debian_packages
short_description: Downloads packages of Debian and all that they need as one file, once
version_added: 1.0.0
description:
  - Asks the C(apt) of this host, a Debian that reaches its package sources, for packages and all that they need, and keeps them as one file for
    M(storlab.testbed.debian_installation). Nothing of the host's own packages is looked at or changed, and no rights are needed.
  - The file is named by the SHA-256 of its index, which has the SHA-256 of each package, so it identifies these versions. A set that was requested once
    is not asked for again.
options:
  cache_dir:
    description: Folder that keeps the files.
    type: path
    required: true
  packages:
    description:
      - Names of packages; what they depend on is added. V(dash) and V(dpkg) must be among them, because scripts of packages need them.
    type: list
    elements: str
    default: [base-files, base-passwd, coreutils, dash, debianutils, dpkg, findutils, grep, libc-bin, sed]
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Says whether something would be downloaded.
    support: full
  diff_mode:
    description: Does not show differences.
    support: none
  platform:
    description: Debian and what is derived from it.
    support: full
    platforms: debian
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: A small Debian
  storlab.testbed.debian_packages:
    cache_dir: /var/cache/storlab
  delegate_to: localhost
  register: packages
"""

RETURN = r"""
medium:
  description: "The file and what is in it: C(path), C(index_sha256), C(bytes) and C(packages) (C(file), C(bytes), C(sha256))."
  returned: unless something is missing in check mode
  type: dict
  sample: {path: /var/cache/storlab/0f3a.medium, bytes: 12255232}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.linux.loads import debian_packages


def main() -> None:
    module = AnsibleModule(argument_spec=debian_packages.SPEC, supports_check_mode=True)
    with failures_of(module):
        module.exit_json(**debian_packages.ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
