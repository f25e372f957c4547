#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lab_image
short_description: Builds the disk image that the machines of the embedded lab boot
version_added: 0.1.0
description:
  - Builds a small Debian root disk, a kernel, an initial RAM disk and SSH keys from the distribution's own packages.
  - An image is named by the hash of its recipe. It is built once and then used again; a build that was interrupted leaves nothing that looks like an image.
  - Needs root, C(mmdebstrap), C(mke2fs) and C(ssh-keygen), and a package mirror that C(mmdebstrap) finds itself.
  - Shows what it does, the elapsed and the remaining time while it builds.
options:
  state:
    description:
      - V(present) builds the image unless it is there, V(absent) removes O(image_dir) and all images in it.
    type: str
    choices: [present, absent]
    default: present
  image_dir:
    description: Folder that keeps the images.
    type: path
    required: true
  recipe_dir:
    description: Folder with the recipe. Required with O(state=present).
    type: path
  packages:
    description:
      - Names of packages beside the recipe's own, such as V(postgresql). A different list is a different image, which is kept beside the existing images.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
attributes:
  check_mode:
    description: Builds and removes nothing in check mode.
    support: full
  diff_mode:
    description: Shows which image would be there.
    support: full
  platform:
    description: The controller, a Debian or Ubuntu host on x86_64.
    platforms: Debian
    support: full
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Build the image of the lab's machines
  storlab.testbed.lab_image:
    image_dir: /var/cache/storlab/images
    recipe_dir: "{{ role_path }}/files/image"
"""

RETURN = r"""
image:
  description: Where the image is and what it is.
  returned: O(state=present)
  type: dict
  contains:
    path:
      description: Folder of the image.
      type: str
      returned: always
      sample: /var/cache/storlab/image/9f4f0f7c
    recipe_sha256:
      description: Hash of the recipe, also the folder's name.
      type: str
      returned: always
      sample: 9f4f0f7c2a3b4c5d
    kernel:
      description: Kernel release.
      type: str
      returned: when the image is there
      sample: 6.1.0-18-cloud-amd64
build_s:
  description: Seconds the build took.
  returned: when an image was built
  type: float
  sample: 94.2
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.core.answer import failures_of
from ..module_utils.lab import image


def main() -> None:
    module = AnsibleModule(
        argument_spec=image.SPEC, required_if=[("state", "present", ["recipe_dir"])], supports_check_mode=True
    )
    with failures_of(module):
        module.exit_json(**image.ensure(module.params, module.check_mode))


if __name__ == "__main__":
    main()
