#!/usr/bin/python
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: win_benchmark
short_description: Brings what measures to a Windows host, and takes it and its runs away
version_added: 0.3.0
description:
  - Looks for fio, diskspd or IOMeter on a Windows host and, where it is not there, fetches and installs it from O(download), whose checksum is proven.
  - The measuring itself is the business of M(storlab.testbed.benchmark).
  - O(state=absent) ends every run of the testbed on the host, with the processes that it started and no others, removes what the runs left, and uninstalls what
    this testbed has brought. Programs that were there before stay.
options:
  testbed_id:
    description: The testbed.
    type: str
    required: true
  state:
    description: Whether the engine shall be there, or nothing of the testbed's benchmarks.
    type: str
    choices: [present, absent]
    default: present
  engine:
    description: The program that issues the I/O, one of the engines of C(docs/engines.md) that run on Windows hosts.
    type: str
    default: fio
  program:
    description: The program, in full when it is not on the host's search path. By default C(fio.exe), C(diskspd.exe) or C(IOmeter.exe).
    type: str
  root:
    description: Folder on the host for everything that is run; administrators alone may write there. No blanks, because of IOMeter.
    type: str
    default: C:\storlab
  discard:
    description:
      - Whether O(state=absent) removes runs that have ended and whose results no controller has taken. Without it that is refused
        (C(run_uncollected)); the same M(storlab.testbed.benchmark) again takes them.
    type: bool
    default: false
  download:
    description: Where the engine comes from when the host does not have it.
    type: dict
    default: {}
    suboptions:
      url:
        description: Address of an C(.msi), C(.zip) or C(.exe) file, which the host fetches. Left out, a host without the engine is a failure.
        type: str
      checksum:
        description: The file's SHA-256. Required with C(url).
        type: str
      program:
        description:
          - Where the program is afterwards. By default where the publisher's package puts it - C(C:\Program Files\fio\fio.exe) of fio's C(.msi),
            C(amd64\diskspd.exe) in diskspd's C(.zip), the file itself otherwise.
        type: str
extends_documentation_fragment:
  - storlab.testbed.attributes
  - storlab.testbed.attributes.on_controller
  - storlab.testbed.windows
  - storlab.testbed.state
attributes:
  check_mode:
    description: Changes nothing; the steps are those that would be taken.
    support: full
  diff_mode:
    description: Shows the steps.
    support: full
  platform:
    description: Windows Server 2016, Windows 10 and later. Not yet run on one; docs/windows.md says what was tried, and how.
    support: full
    platforms: windows
seealso:
  - module: storlab.testbed.benchmark
author:
  - The storlab.testbed developers (@storlab)
"""

EXAMPLES = r"""
- name: See that diskspd is there, and bring it if it is not
  storlab.testbed.win_benchmark:
    testbed_id: lab
    state_dir: /var/lib/storlab
    engine: diskspd
    download:
      url: https://intranet.lab.example/diskspd.zip
      checksum: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

- name: End all runs of the testbed on this host
  storlab.testbed.win_benchmark:
    testbed_id: lab
    state_dir: /var/lib/storlab
    state: absent
"""

RETURN = r"""
program:
  description: The program with its full path.
  returned: O(state=present), unless it is yet to be installed in check mode
  type: str
  sample: "C:\\storlab\\diskspd.exe"
version:
  description: The version in its file.
  returned: when the file has one
  type: str
  sample: 2.2.0
steps:
  description: Changes made, or planned in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    op:
      description: The kind of step.
      returned: always
      type: str
      sample: create
    target:
      description: To what.
      returned: always
      type: str
      sample: bench
    was:
      description: The state before; null where there is none.
      returned: always
      type: raw
      sample: null
    will:
      description: The state after; null where nothing is left.
      returned: always
      type: raw
      sample: 64 MiB
about:
  description: The host, as RV(storlab.testbed.win_state#module:about) has it.
  returned: success
  type: dict
  sample: {product: Windows Server 2022 Standard, version: 10.0.20348}
failure:
  description: Machine-readable cause.
  returned: failure
  type: dict
  sample: {code: engine_missing, details: {}}
  contains:
    code:
      description: Stable name of the failure.
      returned: always
      type: str
      sample: bad_value
    details:
      description: Facts for scripts.
      returned: always
      type: dict
      sample: {}
"""
