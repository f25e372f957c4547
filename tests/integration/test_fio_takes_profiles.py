# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio itself accepts every workload that is shipped."""

from __future__ import annotations

import subprocess

import places
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import workload_id

SHIPPED = places.ROOT / "roles" / "benchmark" / "files" / "profiles"
NAMES = sorted(path.stem for path in SHIPPED.glob("*.yml"))


def shipped(name: str) -> dict:
    return profile.find(name, [str(SHIPPED)], yaml.safe_load)


def test_fio_takes_every_shipped_workload(tmp_path):
    files = []
    for name in NAMES:
        for workload in shipped(name)["workloads"]:
            files.append(tmp_path / f"{name}.{workload_id(workload)}.fio")
            files[-1].write_text(
                fio.job_file(
                    {"point_id": "p", "path": "/dev/ram0", "size_bytes": 64 << 30, "workload": workload, "seed": 3}
                )
            )
    done = subprocess.run(["fio", "--parse-only", *files], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert len(files) > 250
