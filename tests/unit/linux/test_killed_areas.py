# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports over NFS, arrays and cache tiers whose build or teardown is killed after each of its changes: the next build mends, and a teardown leaves nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from killed import is_killed

sys.path += [str(Path(__file__).parent)]

from test_full_records import AREAS

# The others are in exports/test_killed_builds.py, clients/test_killed_clients.py, backing/test_ramdisk_life.py and loads/test_full_databases.py.
HERE = {"nfs_export": 8, "raid": 3, "cache_tier": 4}


@pytest.mark.parametrize("next_run", ["absent", "present"])
@pytest.mark.parametrize("struck", ["build", "remove"])
@pytest.mark.parametrize("area", HERE)
def test_one_that_is_killed_after_any_change(tmp_path, area, struck, next_run):
    host_of, build, remove, module, _fewest = AREAS[area]
    number, ended = 0, False
    while not ended:
        number += 1
        with pytest.MonkeyPatch.context() as standin:
            host = host_of(standin, tmp_path / str(number))
            if struck == "remove":
                build()
            with pytest.MonkeyPatch.context() as patch:
                ended = not is_killed({"build": build, "remove": remove}[struck], patch, number, (module, record))
            if next_run == "present":
                build()
            remove()
            assert not host.has("/run/storlab"), number
    assert number > HERE[area] - (2 if struck == "remove" else 0)
