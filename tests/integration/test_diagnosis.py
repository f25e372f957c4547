# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is it the storage, the network or the machine? Asked by the shipped playbook about folders whose speed is known, one of them held to a rate."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from loop_device import attached as loop_on
from plays import shipped
from slow_file import slow_file

SIZE, FILE = 24 << 20, 8 << 20
# One read after another, each of at least this long.
DELAY_S = 0.004
TESTBED = "diagnosis-test"


@contextlib.contextmanager
def folder(place: Path, device: str) -> Iterator[Path]:
    """A file system with a file of somebody on a device."""
    place.mkdir()
    subprocess.run(["mount", "-o", "noatime", device, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that answers one read per DELAY_S."""
    image = tmp_path / "image"
    with loop_on(image, SIZE) as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with folder(tmp_path / "filling", device) as place:
            (place / "vm.img").write_bytes(os.urandom(FILE))
    (tmp_path / "fuse").mkdir()
    with slow_file(tmp_path / "fuse" / "slow", image, SIZE, DELAY_S) as slow:
        done = subprocess.run(
            ["losetup", "--find", "--show", "--read-only", "--direct-io=on", str(slow.path)],
            check=True,
            capture_output=True,
            text=True,
        )
        device = done.stdout.strip()
        try:
            with folder(tmp_path / "share", device) as place:
                yield place
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)


def play(lab: Path, *books: str) -> str:
    returned, text = shipped(lab, *books)
    assert returned == 0, text
    return text


def inventory(tmp_path: Path, place: Path, **words) -> Path:
    """A lab with a folder that this computer reads."""
    content = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "testbed_id": TESTBED,
            "testbed": {"existing": [{"name": "slow", "kind": "path", "path": str(place)}]},
            "testbed_state_dir": str(tmp_path / "kept"),
            "testbed_results_dir": str(tmp_path / "results"),
            "benchmark_beat": False,
            **words,
        },
        "children": {"clients": {"hosts": {"client01": {"ansible_host": "127.0.0.1"}}}},
    }
    lab = tmp_path / "lab.yml"
    lab.write_text(yaml.safe_dump({"all": content}), encoding="utf-8")
    return lab


def test_a_profile_that_measures_something_else_is_refused_before_anything_is_changed(tmp_path):
    name = f"{TESTBED}-refused"
    lab = inventory(tmp_path, tmp_path / "share", benchmark_profile="random_4k_read", testbed_id=name)
    (tmp_path / "share").mkdir()
    returned, text = shipped(lab, "diagnose")
    assert returned == 2 and "benchmark_profile is random_4k_read, which does not measure 4 KiB" in " ".join(
        text.split()
    )
    # The check of the inventory keeps whose folder of state it is and the secrets; nothing is built and nothing measured.
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["inventory.json", "secrets"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "lab.yml", "share"]
    assert list((tmp_path / "share").iterdir()) == [] and name not in Path("/proc/mounts").read_text(encoding="utf-8")


def test_a_check_of_storage_that_was_never_measured_comes_to_its_end(tmp_path):
    name = f"{TESTBED}-checked"
    lab = inventory(tmp_path, tmp_path / "share", benchmark_profile="existing_read", testbed_id=name)
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "vm.img").write_bytes(os.urandom(FILE))
    for book in ("diagnose", "site"):
        returned, text = shipped(lab, book, options=("--check",))
        assert returned == 0, text
    assert not (tmp_path / "results").exists()
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    assert name not in mounts


@pytest.mark.long
def test_a_folder_that_is_held_to_a_rate_is_the_storage_and_the_page_names_the_rate(share, tmp_path):
    before = hashlib.sha256((tmp_path / "image").read_bytes()).hexdigest()
    rest = {"read_percent": 100, "ramp_s": 0, "runtime_s": 1}
    lab = inventory(
        tmp_path,
        share,
        benchmark_repetitions=3,
        benchmark_workloads=[
            {"block_size": "4k", "queue_depth": 1, **rest},
            {"block_size": "4k", "queue_depth": 32, **rest},
            {"block_size": "1m", "queue_depth": 32, "random_percent": 0, **rest},
        ],
    )
    try:
        text = play(lab, "diagnose")
    finally:
        play(lab, "teardown", "verify_clean")
    assert "datastore-slow on client01: STORAGE. The machine is far from its limit" in text
    (page,) = tmp_path.glob(f"results/{TESTBED}/*/report/diagnosis.json")
    (answer,) = json.loads(page.read_text(encoding="utf-8"))
    assert (answer["answer"], answer["path"]) == ("storage", None)
    one, many, _stream, _machine = answer["figures"]
    for figure in (one, many):
        iops = float(re.search(r"time: ([0-9.]+) IOPS", figure)[1])
        # A busy computer makes it slower; faster than its law it cannot be, but for a point that ends between two reads.
        assert 0 < iops < 1.05 / DELAY_S, figure
    assert any("caches of the storage" in line for line in answer["unseen"])
    assert page.with_suffix(".md").read_text(encoding="utf-8").startswith("# Is it the storage, the network or the")
    assert hashlib.sha256((tmp_path / "image").read_bytes()).hexdigest() == before
