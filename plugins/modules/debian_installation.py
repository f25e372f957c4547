#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: debian_installation
short_description: Installs Debian on a guest's disk, and keeps how long it took
version_added: 1.0.0
description:
  - Makes a file system on the disk of a published layer, unpacks and configures packages there with C(dpkg), and unmounts it again; the time from the first
    to the last of these is kept in the folder of a run, as M(storlab.testbed.esxi_installation) keeps its own.
  - The packages come from the end of the same disk, where they are put before the first installation, not timed, because guests of a lab reach no network. They
    are read from the disk and not from memory each time.
  - The disk is proven by the device guard, and is without a file system before and after. All that it holds is lost.
  - An installation that fails, such as on a disk that is full, has no time; the task fails with code C(installation_failed), and the disk is left as before.
  - What the run has already is not installed again.
options:
  testbed_id:
    description: The testbed that the layer belongs to.
    type: str
    required: true
  run_id:
    description: The run that the time belongs to.
    type: str
    required: true
  results_dir:
    description: Folder of all results on the controller.
    type: path
    required: true
  layer:
    description: The published layer of the disk, on this host.
    type: str
    required: true
  medium:
    description: The packages, as M(storlab.testbed.debian_packages) returns them.
    type: dict
    required: true
  repetition:
    description: Number of the repetition.
    type: int
    default: 1
  timeout_s:
    description: After how many seconds an installation is ended. It is a failure then.
    type: int
    default: 3600
extends_documentation_fragment:
  - storlab.testbed.attributes
attributes:
  async:
    description: Ansible refuses C(async), because a part of the task runs on the controller.
    support: none
  check_mode:
    description: Says whether it would be installed.
    support: full
  diff_mode:
    description: Nothing is configured.
    support: none
  platform:
    description: Linux.
    support: full
    platforms: linux
seealso:
  - module: storlab.testbed.debian_packages
  - module: storlab.testbed.esxi_installation
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: Packages
  storlab.testbed.debian_packages:
    cache_dir: /var/cache/storlab
  delegate_to: localhost
  register: packages

- name: Install them once
  storlab.testbed.debian_installation:
    testbed_id: lab
    run_id: first
    results_dir: results
    layer: guest-guest01
    medium: "{{ packages.medium }}"
"""

RETURN = r"""
installation:
  description: The time as it is kept, see C(docs/results.md).
  returned: not in check mode
  type: dict
  sample: {duration_s: 41.2, datastore: ds1}
line:
  description: The same in a line.
  returned: not in check mode
  type: str
  sample: "guest01 on ds1, repetition 1: installed in 41.2 s (filesystem 1.0 s, retrieve 2.2 s, extract 11.0 s, install 25.0 s, sync 2.0 s)"
"""
