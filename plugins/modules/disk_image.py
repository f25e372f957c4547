#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: disk_image
short_description: Makes a guest's disk as a file on a datastore
version_added: 0.1.0
description:
  - Makes a raw image file of an exact size, with every byte written, so that no later read is answered without touching the storage.
  - Never writes over a file, never changes a file's size, never writes to the root file system.
  - Makes and removes only files whose name begins with O(stamp).
options:
  path:
    description: The image file, in an existing folder on a mounted file system.
    type: path
    required: true
  stamp:
    description: The prefix of the names of this testbed's images, C(storlab-<testbed>-).
    type: str
    required: true
  size_bytes:
    description: Size, a multiple of 1048576. Required with O(state=present).
    type: int
  state:
    description: Whether the image shall be there.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_host
attributes:
  check_mode:
    description: Writes and removes nothing in check mode. A datastore that is not there yet is not an error then.
    support: full
  diff_mode:
    description: Shows the file's size before and after.
    support: full
  platform:
    description: Linux.
    platforms: linux
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Make the data disk of a guest
  storlab.testbed.disk_image:
    path: /srv/storlab/ds1/storlab-embedded-guest01.img
    stamp: storlab-embedded-
    size_bytes: 50331648
"""

RETURN = r"""
steps:
  description: Actions taken, or planned in check mode.
  returned: always
  type: list
  elements: str
  sample: [create 64 MiB]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.core.steps import diff_of
from ..module_utils.lab import disk_image


def ensure(params: dict, check_mode: bool) -> dict:
    path, size_bytes = params["path"], params["size_bytes"] if params["state"] == "present" else None
    disk_image.check(path, params["stamp"], size_bytes)
    seen = disk_image.observe(path)
    # In check mode the roles that make the datastore have made nothing.
    datastore_to_come = check_mode and size_bytes is not None and seen["mount_point"] in (None, "/")
    steps = ["create"] if datastore_to_come else disk_image.plan(path, seen, size_bytes)
    if not check_mode:
        disk_image.apply(path, steps, size_bytes)
    after = seen["size_bytes"] if not steps else size_bytes
    size = {"was": in_bytes(seen["size_bytes"]), "will": in_bytes(after)}
    return {"changed": bool(steps), "steps": steps, "diff": diff_of([size], lambda _size: path)}


def in_bytes(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{size_bytes} bytes"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "stamp": {"type": "str", "required": True},
            "size_bytes": {"type": "int"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["size_bytes"])],
        supports_check_mode=True,
    )
    with failures_of(module):
        module.exit_json(**ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
