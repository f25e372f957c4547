# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk and a volume that a Windows host has are measured by the shipped playbooks, read only or written to. The host is a stand-in for Windows."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fake_windows"))

from world import World, drive

ROOT = Path(__file__).resolve().parents[2]
FIO = "C:\\Program Files\\fio\\fio.exe"
RUN = "20261128T033700Z"
MIB = 1 << 20
# What is of others, or would be left: all of the host but what counts its calls.
KEPT = ("disks", "files", "folders", "tasks", "services", "feature", "initiator", "targets", "virtual_disks", "portals")
LUN = drive("Array LUN", "6001405AABB0037", 96 * MIB, serial="S-3701", style="GPT")
LUN["partitions"] = [{"number": 2, "type": "Basic", "size_bytes": 95 * MIB, "letter": "E"}]
ENTRIES = [{"name": f"vms\\{name}.vhdx", "size_bytes": size} for name, size in (("one", 23 * MIB), ("two", 7 * MIB))]
LUN["volumes"] = {
    "E": {"label": "Data of others", "filesystem": "NTFS", "size_bytes": 95 * MIB, "entries": ENTRIES},
}
# A disk that nobody uses, to be overwritten.
BLANK = drive("Array LUN", "6001405ABLANK", 64 * MIB, serial="S-3702", style="RAW")
READ_ONLY = [
    {"name": "array", "kind": "disk", "unique_id": "6001405AABB0037"},
    {"name": "vms", "kind": "volume", "path": "E:\\vms", "on": "array"},
]
WRITTEN = [
    {"name": "blank", "kind": "disk", "unique_id": "6001405ABLANK", "access": "write"},
    {"name": "vms", "kind": "volume", "path": "E:\\vms", "access": "write", "benchmark_file": "3MiB"},
]
FOLDER = "E:\\vms\\storlab.there+vms"
FILE = f"{FOLDER}\\storlab-benchmark.dat"


class Lab:
    def __init__(self, folder: Path, existing: list):
        self.folder, self.world = folder, World(folder / "world" / "world.json")
        with self.world.open():
            programs = {FIO: {"engine": "fio", "version": "fio-3.42"}}
            host = self.world.add("win01", server=False, programs=programs)
            host["disks"]["1"] = copy.deepcopy(LUN)
            host["disks"]["2"] = copy.deepcopy(BLANK)
        variables = {
            "ansible_connection": "fake_windows",
            "ansible_fake_windows_world": str(self.world.path),
            "testbed_windows": True,
            "testbed_id": "there",
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            "testbed_run_id": RUN,
            "testbed": {"existing": existing},
            "benchmark_ceiling": False,
            "benchmark_workloads": [{"block_size": "4k", "read_percent": 100, "ramp_s": 0, "runtime_s": 1}],
        }
        groups = {"clients": {"hosts": {"win01": {"ansible_host": "192.0.2.21"}}}}
        (folder / "lab.yml").write_text(yaml.safe_dump({"all": {"vars": variables, "children": groups}}))
        (folder / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {ROOT}/tests/fake_windows/connection\n"
            "inject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n"
        )

    def play(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["ansible-playbook", "-i", self.folder / "lab.yml", *words],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def host(self) -> dict:
        return json.loads(self.world.path.read_text())["hosts"]["win01"]

    def kept(self) -> dict:
        return {key: self.host()[key] for key in KEPT}

    def scripts(self) -> set:
        return {call["script"] for call in json.loads(self.world.path.read_text())["calls"]}

    def layers(self) -> dict:
        paths = (self.folder / "state" / "layers").glob("*.json")
        return {path.stem: json.loads(path.read_text()) for path in paths}


@pytest.mark.long
def test_what_a_windows_host_has_is_measured_and_stays_as_it_is(tmp_path):
    lab = Lab(tmp_path, READ_ONLY)
    before = lab.kept()
    rc, text = lab.play("playbooks/build.yml")
    assert rc == 0, text[-3000:]
    layers = lab.layers()
    assert {name: (layer["path"], layer["purpose"], layer["parent"]) for name, layer in layers.items()} == {
        "initiator-array": ("\\\\.\\PhysicalDrive1", "read", None),
        "datastore-vms": ("E:\\vms\\one.vhdx", "read", "initiator-array"),
    }
    assert layers["datastore-vms"]["detail"]["link"] == "proven"
    # Only looked at: not one script that changes something was sent.
    assert lab.scripts() - {None} == {"state", "volume_look"} and lab.kept() == before

    # A workload that writes is refused before the first task, whatever the engine.
    writes = json.dumps({"benchmark_workloads": [{"block_size": "4k", "read_percent": 70, "runtime_s": 1}]})
    rc, text = lab.play("playbooks/benchmark.yml", "-e", writes)
    assert rc != 0 and "storage that was there before" in text and lab.kept() == before

    rc, text = lab.play("playbooks/benchmark.yml", "playbooks/report.yml")
    assert rc == 0, text[-3000:]
    folder = lab.folder / "results" / "there" / RUN
    points = [json.loads(path.read_text()) for path in folder.glob("points/*/result.json")]
    assert {point["path"] for point in points} == {"\\\\.\\PhysicalDrive1", "E:\\vms\\one.vhdx"}
    for point in points:
        assert point["status"] == "measured" and "write" not in point and "cache_unknown" in point["flags"]
    assert lab.kept() == before and not any(lab.host().get("written", {}).values())

    rc, text = lab.play("playbooks/teardown.yml", "playbooks/verify_clean.yml")
    assert rc == 0, text[-3000:]
    assert lab.kept() == before and lab.layers() == {}


def entries(kept: dict) -> list:
    """What the volume of others holds."""
    return kept["disks"]["1"]["volumes"]["E"]["entries"]


@pytest.mark.long
def test_a_volume_is_written_to_in_a_folder_of_the_testbeds_own_and_a_blank_disk_as_a_whole(tmp_path):
    lab = Lab(tmp_path, WRITTEN)
    before = lab.kept()
    rc, text = lab.play("playbooks/build.yml")
    assert rc == 0, text[-3000:]
    assert {name: (layer["path"], layer["purpose"]) for name, layer in lab.layers().items()} == {
        "initiator-blank": ("\\\\.\\PhysicalDrive2", "scratch"),
        "datastore-vms": (FILE, "scratch"),
    }
    # Beside what others have there is the folder with its stamp and its file, and all else of the host is as it was.
    built = lab.kept()
    own = [entry for entry in entries(built) if entry not in entries(before)]
    below = FOLDER.partition("\\")[2]
    assert sorted(entry["name"].removeprefix(below) for entry in own) == [
        "",
        "\\.storlab-owner.json",
        "\\storlab-benchmark.dat",
    ]
    assert [entry for entry in entries(built) if entry not in own] == entries(before)
    assert {key: built[key] for key in KEPT[1:]} == {key: before[key] for key in KEPT[1:]}

    writes = json.dumps(
        {"benchmark_workloads": [{"block_size": "4k", "read_percent": 70, "ramp_s": 0, "runtime_s": 1}]}
    )
    rc, text = lab.play("playbooks/benchmark.yml", "playbooks/report.yml", "-e", writes)
    assert rc == 0, text[-3000:]
    folder = lab.folder / "results" / "there" / RUN
    points = [json.loads(path.read_text()) for path in folder.glob("points/*/result.json")]
    assert {point["path"] for point in points} == {"\\\\.\\PhysicalDrive2", FILE}
    for point in points:
        assert point["status"] == "measured" and point["write"]["ios"] > 0
        assert point["preparation"]["storage_cache"] == "unknown" and "cache_unknown" in point["flags"]
    written = {place for place, count in lab.host()["written"].items() if count}
    assert written == {"\\\\.\\PhysicalDrive2", FILE}
    assert [entry for entry in entries(lab.kept()) if not entry["name"].startswith(below)] == entries(before)

    rc, text = lab.play("playbooks/teardown.yml", "playbooks/verify_clean.yml")
    assert rc == 0, text[-3000:]
    assert lab.kept() == before and lab.layers() == {}


@pytest.mark.long
def test_a_disk_that_others_use_is_not_overwritten_and_nothing_changes(tmp_path):
    lab = Lab(tmp_path, [{**READ_ONLY[0], "access": "write"}])
    before = lab.kept()
    rc, text = lab.play("playbooks/build.yml")
    assert rc != 0 and "device_mounted" in text and "PhysicalDrive1" in text, text[-3000:]
    assert lab.kept() == before and lab.layers() == {} and not any(lab.host().get("written", {}).values())
