# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The published experiments: each is described by a page, and by nothing but an inventory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import show_testbed
import yaml

ROOT = Path(__file__).resolve().parents[3]
BOOKS = ROOT / "playbooks" / "experiments"


@pytest.fixture
def shown(tmp_path):
    """shown(inventory, *options) -> (rc, what show, or what failed before it, says of experiment E2 on an example inventory)."""
    book = tmp_path / "book.yml"
    names = (BOOKS / "e2_testbed.yml", ROOT / "playbooks" / "show.yml")
    book.write_text(yaml.safe_dump([{"import_playbook": str(name)} for name in names]), encoding="utf-8")

    def ask(inventory: str, *options: str) -> tuple:
        rc, document, _said = show_testbed.run(ROOT / "inventories" / inventory, *options, playbook=str(book))
        results = [
            next(iter(task["hosts"].values())) for play in document["plays"] for task in play["tasks"] if task["hosts"]
        ]
        return rc, next(one for one in results if "drawing" in one or one.get("failed"))

    return ask


def test_e2_is_the_published_one_on_hardware_and_says_so_where_it_is_scaled_down(shown):
    rc, full = shown("lab_local")
    assert rc == 0
    assert (full["testbed_id"], full["drawing"][1:]) == (
        "e2",
        ["└─ backing-e2 on target01: RAM disk, 20480 MiB", "   └─ datastore-e2 on target01: ext4 at /srv/storlab/e2"],
    )
    store = full["hosts"]["target01"]["variables"]["datastore_datastores"][0]
    assert (store["benchmark_file_mib"], store["benchmark_files"]) == (4096, 4)
    rc, small = shown("embedded")
    assert rc == 0 and small["testbed_id"] == "e2-scaled-down"
    assert [(layer["name"], layer["host"], layer["purpose"]) for layer in small["layers"]] == [
        ("backing-e2", "target01", "data"),
        ("backing-e2-iscsi", "target01", "data"),
        ("target-e2-iscsi", "target01", "data"),
        ("initiator-e2-iscsi", "hypervisor01", "data"),
        ("datastore-e2", "target01", "scratch"),
        ("datastore-e2-iscsi", "hypervisor01", "scratch"),
    ]
    # What is mounted on the target is not exported.
    exports = small["hosts"]["target01"]["variables"]["iscsi_target_targets"]
    assert [lun["layer"] for export in exports for lun in export["luns"]] == ["backing-e2-iscsi"]
    # The guest of the inventory's own testbed is not there.
    assert small["hosts"]["guest01"]["stages"] == []


@pytest.mark.parametrize(("inventory", "layers"), [("lab_linux_esxi", 2), ("lab_linux", 6)])
def test_e2_is_measured_over_iscsi_by_the_first_linux_host_that_logs_in(shown, inventory, layers):
    rc, result = shown(inventory)
    assert rc == 0 and len(result["layers"]) == layers
    assert {layer["host"] for layer in result["layers"]} == {"target01", *(["client01"] if layers > 2 else [])}


def test_e2_that_does_not_fit_into_memory_is_refused_with_the_arithmetic(shown):
    rc, result = shown("embedded", "-e", '{"testbed_e2": {"disk": "192MiB", "file": "40MiB"}}')
    assert rc == 2 and result["failure"]["code"] == "description_wrong"
    assert (
        "memory of target01 is 768 MiB, but its RAM disks take 384 MiB, the buffers of 4m-r100-rnd0-qd64-w1: 1 worker × 64 in flight × 4096 KiB "
        "take 256 MiB and the system needs 192 MiB"
    ) in result["msg"]
    rc, result = shown(
        "embedded", "-e", '{"testbed_e2": {"disk": "160MiB", "file": "40MiB", "workload": {"queue_depth": 2}}}'
    )
    assert rc == 2 and "testbed.disks[0].size is 160 MiB, but 160 MiB are to lie on the datastore e2" in result["msg"]


def test_a_word_of_e2_that_nothing_reads_is_refused(shown):
    rc, result = shown("embedded", "-e", '{"testbed_e2": {"files": "40MiB"}}')
    assert rc == 2
    assert result["msg"] == "testbed_e2.files is no word of this experiment: use block_sizes, disk, file, workload."


@pytest.mark.parametrize("inventory", ["embedded", "lab_local"])
def test_playbooks_of_experiments_are_sound(inventory):
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            f"inventories/{inventory}",
            "--syntax-check",
            *map(str, sorted(BOOKS.glob("*.yml"))),
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_experiment_ends_in_a_report_after_everything_was_taken_down():
    imported = [
        entry["ansible.builtin.import_playbook"]
        for entry in yaml.safe_load((BOOKS / "e2_ram_disk.yml").read_text(encoding="utf-8"))
        if "ansible.builtin.import_playbook" in entry
    ]
    assert imported[:2] == ["e2_testbed.yml", "../build.yml"]
    assert imported[-3:] == ["../teardown.yml", "../verify_clean.yml", "../report.yml"]


def test_every_experiment_has_a_page_and_readers_find_it():
    pages = {path.stem for path in (ROOT / "docs" / "experiments").glob("*.md")}
    assert pages == {path.stem for path in BOOKS.glob("*.yml") if not path.stem.endswith("_testbed")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/experiments/{page}.md" in readme for page in pages)
