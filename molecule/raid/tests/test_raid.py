# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel and the superblocks say of the arrays, after the refusals and the point of side_effect.yml."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://target01"]
MIB = 1 << 20
STATE = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/mraid"
RUN = STATE / "results/mraid/mraid"
# name: level, chunk in bytes, serials of the members, attributes of the kernel's md folder
ARRAYS = {
    "ten": ("raid10", 65536, 4, {"layout": "258", "bitmap/location": "none"}),
    "zero": ("raid0", 131072, 2, {}),
    "one": ("raid1", 0, 2, {"bitmap/location": "+8"}),
    "five": ("raid5", 32768, 3, {"stripe_cache_size": "512", "bitmap/location": "none"}),
    "six": ("raid6", 524288, 4, {"stripe_cache_size": "256"}),
}


def layer(name: str) -> dict:
    return json.loads((STATE / f"layers/backing-{name}.json").read_text(encoding="utf-8"))


def read(host, path: str) -> str:
    return host.file(path).content_string.strip()


@pytest.fixture(scope="module")
def found(host) -> dict:
    """{array's name: name of its device}, by what mdadm prints of the superblocks."""
    lines = host.check_output("mdadm --detail --scan").splitlines()
    return {
        re.search(r"name=(\S+)", line)[1]: os.path.basename(host.check_output("readlink -f %s", line.split()[1]))
        for line in lines
    }


def test_there_are_these_arrays_and_no_others(host, found):
    assert sorted(found) == sorted(f"storlab-mraid:{name}" for name in ARRAYS)
    assert len(re.findall(r"^md\d+ : active raid", read(host, "/proc/mdstat"), re.M)) == len(ARRAYS)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_as_it_was_described(host, found, name):
    level, chunk, count, attributes = ARRAYS[name]
    folder = f"/sys/block/{found[f'storlab-mraid:{name}']}/md"
    expected = {"level": level, "chunk_size": str(chunk), "raid_disks": str(count), **attributes}
    assert {key: read(host, f"{folder}/{key}") for key in expected} == expected
    members = [entry[len("dev-") :] for entry in host.file(folder).listdir() if entry.startswith("dev-")]
    assert sorted(read(host, f"/sys/block/{member}/serial") for member in members) == [
        f"{name}-{number}" for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("name", [name for name in ARRAYS if name != "zero"])
def test_all_members_hold_the_same_data(host, found, name):
    """The build waited for it, or was told to take them for equal."""
    folder = f"/sys/block/{found[f'storlab-mraid:{name}']}/md"
    expected = {"sync_action": "idle", "resync_start": "none", "degraded": "0"}
    assert {key: read(host, f"{folder}/{key}") for key in expected} == expected
    assert layer(name)["detail"]["raid"]["resync"] == ("skipped" if name == "six" else "done")


@pytest.mark.parametrize("name", ARRAYS)
def test_the_layer_is_that_array(host, found, name):
    published = layer(name)
    device = found[f"storlab-mraid:{name}"]
    assert published["path"] == f"/dev/{device}"
    assert published["size_bytes"] == int(read(host, f"/sys/block/{device}/size")) * 512 > 20 * MIB
    exported = host.check_output("mdadm --detail --export %s", published["path"]).splitlines()
    assert f"MD_UUID={published['identity']['uuid']}" in exported
    facts = published["detail"]["raid"]
    assert f"raid{facts['level']}" == ARRAYS[name][0] and len(facts["members"]) == ARRAYS[name][2]
    slow = {"by": "QEMU", "iops": 400} if name in ("ten", "zero") else None
    assert published["detail"].get("emulated_delay") == slow


def test_an_array_is_exported_with_its_uuid_as_proof(host, found):
    stores = host.check_output("cat /sys/kernel/config/target/core/iblock_*/*/udev_path").split()
    assert [os.path.basename(host.check_output("readlink -f %s", path)) for path in stores] == [
        found["storlab-mraid:ten"]
    ]


def results() -> dict:
    points = [json.loads(path.read_text(encoding="utf-8")) for path in RUN.glob("points/*/result.json")]
    return {point["layer"]: point for point in points}


def test_arrays_and_the_export_were_measured():
    measured = results()
    assert sorted(measured) == ["backing-ten", "backing-zero", "target-ten"]
    assert {point["status"] for point in measured.values()} == {"measured"}


@pytest.mark.parametrize(("name", "members"), [("ten", 4), ("zero", 2)])
def test_slow_disks_are_slow(name, members):
    """No array can do more than its members together; QEMU lets a disk that rested be ahead by a tenth of a second."""
    point = results()[f"backing-{name}"]
    assert 0 < point["total"]["iops"] <= members * 400 * 1.2


def test_the_run_keeps_what_the_figures_depend_on():
    layers = json.loads((RUN / "layers.json").read_text(encoding="utf-8"))
    layers = layers.values() if isinstance(layers, dict) else layers
    facts = next(item for item in layers if item["name"] == "backing-ten")["detail"]["raid"]
    assert (facts["level"], facts["chunk_bytes"]) == (10, 65536)
    assert [member["serial"] for member in facts["members"]] == ["ten-1", "ten-2", "ten-3", "ten-4"]
