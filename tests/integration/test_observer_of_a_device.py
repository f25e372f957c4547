# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer counts a real device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from ansible_collections.storlab.testbed.plugins.module_utils.run import observer
from loop_device import attached
from waiting import until


@pytest.fixture
def base(tmp_path):
    folder = str(tmp_path / "state")
    yield folder
    observer.stop("t", folder)


def kept(base):
    folder = Path(observer.observer_dir("t", base))
    return observer.read_samples(str(folder))


def test_devices_of_layers_are_counted_by_their_paths(base, tmp_path):
    with attached(tmp_path / "image", 2 << 20) as loop, attached(tmp_path / "other", 2 << 20) as idle:
        paths = {"raid": loop, "idle": idle, "file": str(tmp_path / "image")}
        assert observer.start("t", paths, 60, base) == {"changed": True, "layers": ["idle", "raid"]}
        assert observer.start("t", paths, 60, base)["changed"] is False
        until(lambda: kept(base))
        before = kept(base)[-1]
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={loop}", "bs=64k", "count=5", "oflag=direct"], check=True, capture_output=True
        )
        until(lambda: kept(base)[-1]["monotonic_s"] > before["monotonic_s"] + 1.5)
        found = counters.delta(before, kept(base)[-1])["layers"]
        assert {layer: (one["name"], one["write"]["bytes"]) for layer, one in found.items()} == {
            "raid": (os.path.basename(loop), 5 * 65536),
            **({"idle": (os.path.basename(idle), 0)} if "idle" in found else {}),
        }
        observer.stop("t", base)
