#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lab_preflight
short_description: Looks whether the controller can hold an embedded lab
version_added: 0.1.0
description:
  - Looks at the architecture, rights, commands, free disk space and free memory, and fails with one sentence on the first thing that is missing.
  - Changes nothing.
options:
  commands:
    description: Commands the lab needs, each with the C(command) and the C(package) that brings it.
    type: list
    elements: dict
    default: []
    suboptions:
      command:
        description: The command.
        type: str
        required: true
      package:
        description: The package that brings it.
        type: str
        required: true
  files:
    description: Files the lab needs, each with the C(file) and the C(package) that brings it.
    type: list
    elements: dict
    default: []
    suboptions:
      file:
        description: The file.
        type: path
        required: true
      package:
        description: The package that brings it.
        type: str
        required: true
  image_dir:
    description: Folder that keeps the images.
    type: path
    required: true
  recipe_dir:
    description: Folder with the image's recipe.
    type: path
    required: true
  packages:
    description: Packages of the image beside the recipe's own.
    type: list
    elements: str
    default: []
  machines:
    description: The machines, each with its C(run_dir) and C(memory_mib). One that runs needs no more memory.
    type: list
    elements: dict
    default: []
    suboptions:
      run_dir:
        description: Folder of the machine's control files.
        type: path
        required: true
      memory_mib:
        description: Memory.
        type: int
        required: true
  install_packages:
    description: Whether missing packages are going to be installed, so that they do not fail the check.
    type: bool
    default: false
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  platform:
    description: Linux.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Check the controller's resources
  storlab.testbed.lab_preflight:
    commands:
      - command: mmdebstrap
        package: mmdebstrap
    image_dir: /var/cache/storlab/images
    recipe_dir: "{{ role_path }}/files/image"
"""

RETURN = r"""
missing_packages:
  description: Packages to install.
  returned: always
  type: list
  elements: str
  sample: [qemu-utils]
disk_free_mib:
  description: Free space where the images are kept.
  returned: always
  type: int
  sample: 20480
memory_free_mib:
  description: Memory available.
  returned: always
  type: int
  sample: 3072
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.lab.preflight import first_problem, observe


def needs(key: str, kind: str) -> dict:
    return {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {key: {"type": kind, "required": True}, "package": {"type": "str", "required": True}},
    }


def main() -> None:
    machine = {"run_dir": {"type": "path", "required": True}, "memory_mib": {"type": "int", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "commands": needs("command", "str"),
            "files": needs("file", "path"),
            "image_dir": {"type": "path", "required": True},
            "recipe_dir": {"type": "path", "required": True},
            "packages": {"type": "list", "elements": "str", "default": []},
            "machines": {"type": "list", "elements": "dict", "default": [], "options": machine},
            "install_packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    with failures_of(module):
        seen = observe(
            params["image_dir"],
            params["recipe_dir"],
            params["packages"],
            params["machines"],
            params["commands"],
            params["files"],
        )
        problem = first_problem(seen, params["install_packages"])
        if problem:
            raise problem
        module.exit_json(
            changed=False, **{key: seen[key] for key in ("missing_packages", "disk_free_mib", "memory_free_mib")}
        )


if __name__ == "__main__":
    main()
