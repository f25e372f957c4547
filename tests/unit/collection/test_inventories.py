# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import show_testbed
from places import ROOT

INVENTORIES = sorted(path for path in (ROOT / "inventories").iterdir() if path.is_dir())
# The layers that each describes, and where.
LAYERS = {
    "embedded": "backing-bench:target01 backing-ds1:target01 target-bench:target01 target-ds1:target01 initiator-bench:hypervisor01 "
    "initiator-ds1:hypervisor01 datastore-ds1:hypervisor01 guest-guest01:guest01",
    "existing_datastore": "datastore-datastore1:esxi01 guest-guest01:guest01",
    "existing_guest": "guest-disk:guest01 guest-data:guest01",
    "existing_lun": "initiator-lun:client01",
    "existing_nas": "datastore-nas:client01",
    "existing_smb": "datastore-share:client01",
    "existing_windows": "initiator-array:win01 datastore-data:win01",
    "lab_linux": "backing-bench:target01 backing-ds1:target01 target-bench:target01 target-ds1:target01 initiator-bench:client01 "
    "initiator-ds1:client01 datastore-ds1:client01",
    "lab_linux_esxi": "backing-bench:target01 backing-ds1:target01 target-bench:target01 target-ds1:target01 initiator-ds1:esxi01 "
    "datastore-lab-ds1:esxi01",
    "lab_linux_kvm": "backing-bench:target01 backing-ds1:target01 target-bench:target01 target-ds1:target01 initiator-bench:hypervisor01 "
    "initiator-ds1:hypervisor01 datastore-ds1:hypervisor01 guest-guest01:guest01",
    "lab_local": "backing-bench:target01 backing-ds1:target01 datastore-ds1:target01",
    "lab_windows_esxi": "backing-ds1:target01 target-ds1:target01 initiator-ds1:esxi01 datastore-lab-ds1:esxi01",
}
# Lines that are neither empty nor comments, of the description (group_vars/all.yml) and of all files.
MOST_LINES = {
    # Eleven of each are of experiments.
    "embedded": (31, 57),
    "existing_datastore": (8, 27),
    "existing_guest": (7, 15),
    "existing_lun": (6, 14),
    "existing_nas": (6, 14),
    "existing_smb": (6, 14),
    "existing_windows": (7, 18),
    "lab_linux": (9, 22),
    "lab_linux_esxi": (11, 29),
    "lab_linux_kvm": (18, 34),
    "lab_local": (9, 16),
    "lab_windows_esxi": (9, 32),
}


def lines(path: Path) -> int:
    return sum(
        bool(line.split("#")[0].strip()) for line in path.read_text(encoding="utf-8").splitlines() if line != "---"
    )


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_inventory_is_short_and_describes_its_layers(inventory):
    result = show_testbed.expansion(inventory)
    assert " ".join(f"{layer['name']}:{layer['host']}" for layer in result["layers"]) == LAYERS[inventory.name]
    assert result["drawing"][0] == f"testbed {result['testbed_id']}"
    counted = lines(inventory / "group_vars" / "all.yml"), sum(map(lines, inventory.rglob("*.yml")))
    assert all(count <= most for count, most in zip(counted, MOST_LINES[inventory.name], strict=True))


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_what_a_testbed_keeps_is_not_read_as_inventory(tmp_path, inventory):
    copy = tmp_path / "labs" / "mine"
    shutil.copytree(inventory, copy)

    def listed() -> tuple:
        done = subprocess.run(
            ["ansible-inventory", "-i", copy, "--list"], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        return done.stderr, json.loads(done.stdout)

    warned, before = listed()
    assert not warned
    result = show_testbed.expansion(copy)
    for folder in (result["state_dir"], result["results_dir"]):
        assert folder.startswith(str(tmp_path)) and not Path(folder).exists()
        kept = Path(folder) / "secrets" / "chap"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("a-secret-of-mine\n", encoding="utf-8")
    assert listed() == (warned, before)
    # What is kept is no news to the description either, and not shown.
    again = show_testbed.expansion(copy)
    assert again["layers"] == result["layers"] and "a-secret-of-mine" not in json.dumps(again)
