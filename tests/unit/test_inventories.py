# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

INVENTORIES = sorted(path for path in (Path(__file__).resolve().parents[2] / "inventories").iterdir() if path.is_dir())


@pytest.mark.parametrize("inventory", INVENTORIES, ids=lambda path: path.name)
def test_what_a_testbed_keeps_is_not_read_as_inventory(tmp_path, inventory):
    copy = tmp_path / "labs" / "mine"
    shutil.copytree(inventory, copy)

    def listed() -> tuple:
        done = subprocess.run(["ansible-inventory", "-i", copy, "--list"], capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stderr, json.loads(done.stdout)

    warned, before = listed()
    assert not warned
    texts = [path.read_text(encoding="utf-8") for path in sorted(copy.rglob("*.yml"))]
    named = {re.sub(r"\{\{ testbed_id \}\}", "lab", value) for text in texts for value in re.findall(r'"(\{\{ inventory_dir .*)"', text)}
    assert named
    for value in named:
        # What stands after the folder of the inventory, from there: a file that is made at once.
        steps, rest = re.fullmatch(r"\{\{ inventory_dir((?: \| dirname)*) \}\}(.*)", value).groups()
        folder = copy
        for _step in re.findall("dirname", steps):
            folder = folder.parent
        kept = Path(f"{folder}{rest}") / "state" / "secrets" / "chap"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("a-secret-of-mine\n", encoding="utf-8")
    assert listed() == (warned, before)
