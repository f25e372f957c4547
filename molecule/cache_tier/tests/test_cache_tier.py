# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of the tiers, after the refusals, a cache that was taken out and put in again, and the point of side_effect.yml."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://target01"]
MIB = 1 << 20
STATE = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/mcache"
RUN = STATE / "results/mcache/mcache"
# name: mode, block in sectors, MiB of the origin
TIERS = {"back": ("writeback", "128", 48), "through": ("writethrough", "256", 56)}


def layer(name: str) -> dict:
    return json.loads((STATE / f"layers/backing-{name}.json").read_text(encoding="utf-8"))


def read(host, path: str) -> str:
    return host.file(path).content_string.strip()


def number(host, serial: str) -> str:
    """major:minor of the disk with that serial."""
    (folder,) = host.check_output("dirname $(grep -lx %s /sys/block/vd*/serial)", serial).splitlines()
    return read(host, f"{folder}/dev")


def test_there_are_these_tiers_and_no_others(host):
    names = sorted(line.split("\t")[0] for line in host.check_output("dmsetup ls").splitlines())
    assert names == sorted(f"storlab:mcache:{name}{part}" for name in TIERS for part in ("", ":blocks", ":metadata"))


@pytest.mark.parametrize("name", TIERS)
def test_a_tier_is_as_it_was_described(host, name):
    mode, block, size_mib = TIERS[name]
    words = host.check_output("dmsetup table storlab:mcache:%s", name).split()
    assert words[:3] == ["0", str(size_mib * 2048), "cache"]
    assert (words[5], words[6]) == (number(host, f"{name}-slow"), block)
    assert mode in words and "smq" in words
    blocks = host.check_output("dmsetup table storlab:mcache:%s:blocks", name).split()
    assert blocks[2:4] == ["linear", number(host, f"{name}-fast")]


@pytest.mark.parametrize("name", TIERS)
def test_the_layer_is_that_tier(host, name):
    published = layer(name)
    device = os.path.basename(published["path"])
    assert read(host, f"/sys/block/{device}/dm/name") == f"storlab:mcache:{name}"
    assert published["size_bytes"] == int(read(host, f"/sys/block/{device}/size")) * 512 == TIERS[name][2] * MIB
    facts = published["detail"]["cache_tier"]
    assert (facts["mode"], facts["cached"]) == (TIERS[name][0], True)
    slow = {"by": "QEMU", "iops": 400, "mib_s": 40} if name == "back" else None
    assert published["detail"].get("emulated_delay") == slow


def test_the_tier_was_measured_and_its_cache_counted():
    (point,) = [json.loads(path.read_text(encoding="utf-8")) for path in RUN.glob("points/*/result.json")]
    assert (point["layer"], point["status"]) == ("backing-back", "measured")
    counted = point["counters"]["caches"]["mcache:back"]
    assert counted["read_hits"] + counted["read_misses"] > 0
    assert "mcache:through" in point["counters"]["caches"]
