# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of caches by LVM and bcache that were taken out and put in again, and the points of side_effect.yml."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://target01"]
MIB = 1 << 20
STATE = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/mcachers"
RUN = STATE / "results/mcachers/mcachers"
# name: provider, mode, MiB of the origin
TIERS = {
    "volume": ("lvm", "writeback", 48),
    "back": ("bcache", "writeback", 56),
    "around": ("bcache", "writearound", 64),
}


def layer(name: str) -> dict:
    return json.loads((STATE / f"layers/backing-{name}.json").read_text(encoding="utf-8"))


def read(host, path: str) -> str:
    return host.file(path).content_string.strip()


@pytest.mark.parametrize("name", TIERS)
def test_the_layer_is_that_tier(host, name):
    provider, mode, size_mib = TIERS[name]
    published = layer(name)
    device = os.path.basename(published["path"])
    assert read(host, f"/sys/block/{device}/dm/name") == f"storlab:mcachers:{name}"
    assert published["size_bytes"] == int(read(host, f"/sys/block/{device}/size")) * 512 == size_mib * MIB
    facts = published["detail"]["cache_tier"]
    assert (facts["provider"], facts["mode"], facts["cached"]) == (provider, mode, True)


def test_bcache_caches_so_before_these_disks(host):
    modes = {}
    for folder in host.check_output("ls -d /sys/block/bcache*/bcache").splitlines():
        (chosen,) = [word[1:-1] for word in read(host, f"{folder}/cache_mode").split() if word.startswith("[")]
        size = int(read(host, f"{os.path.dirname(folder)}/size")) * 512
        modes[size // MIB] = (chosen, read(host, f"{folder}/state") in ("clean", "dirty"))
    assert modes == {TIERS["back"][2]: ("writeback", True), TIERS["around"][2]: ("writearound", True)}


def test_lvm_caches_by_the_kernels_dm_cache(host):
    cached = host.check_output("dmsetup table --target cache").splitlines()
    assert len(cached) == 1 and "writeback" in cached[0].split()
    assert int(cached[0].split(": ")[1].split()[1]) * 512 == TIERS["volume"][2] * MIB


def test_each_was_measured_and_its_cache_counted():
    points = [json.loads(path.read_text(encoding="utf-8")) for path in RUN.glob("points/*/result.json")]
    assert {point["layer"]: point["status"] for point in points} == {f"backing-{name}": "measured" for name in TIERS}
    for point in points:
        name = point["layer"].removeprefix("backing-")
        counted = point["counters"]["caches"][f"mcachers:{name}"]
        assert counted["read_hits"] + counted["read_misses"] > 0
        # What bcache does not tell is not there.
        assert ("promotions" in counted) == (name == "volume")
