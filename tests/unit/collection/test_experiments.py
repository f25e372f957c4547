# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The published experiments: each is described by a page, and by nothing but an inventory."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from pathlib import Path

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.module_utils.workload.sweep import expand_all
from experiment_book import BOOKS, IMPORT, PARTS, plays
from fixtures.compare import make_runs
from places import ROOT


def results_of(document: dict) -> list[dict]:
    """The result of each task that was played on a host."""
    return [next(iter(task["hosts"].values())) for play in document["plays"] for task in play["tasks"] if task["hosts"]]


@pytest.fixture
def shown(tmp_path):
    """shown(inventory, *options, of="e2") -> (rc, what show, or what failed before it, says of an experiment on an example inventory)."""
    book = tmp_path / "book.yml"

    def ask(inventory: str, *options: str, of: str = "e2") -> tuple:
        names = (BOOKS / f"{of}_testbed.yml", ROOT / "playbooks" / "show.yml")
        book.write_text(yaml.safe_dump([{"import_playbook": str(name)} for name in names]), encoding="utf-8")
        rc, document, _said = show_testbed.run(ROOT / "inventories" / inventory, *options, playbook=str(book))
        return rc, next(one for one in results_of(document) if "drawing" in one or one.get("failed"))

    return ask


def afterwards(
    tmp_path: Path,
    experiment: str,
    names: tuple,
    said: dict,
    facts: tuple = (),
    inventory: str = "lab_local",
    *options: str,
) -> tuple:
    """The answer of show about an experiment once these of its plays are played, and the facts after each of them. said: what -e says of it."""
    ask = {"hosts": "target01", "gather_facts": False}
    ask["tasks"] = [{"ansible.builtin.debug": {"msg": {name: "{{ " + name + " }}" for name in facts}}}]
    parts = []
    for name in names:
        (play,) = [one for one in plays(experiment) if one["name"] == name]
        parts += [play, ask] if facts else [play]
    (tmp_path / "after.yml").write_text(yaml.safe_dump(parts), encoding="utf-8")
    book = tmp_path / "book.yml"
    imported = (BOOKS / f"{experiment[:2]}_testbed.yml", tmp_path / "after.yml", ROOT / "playbooks" / "show.yml")
    book.write_text(yaml.safe_dump([{"import_playbook": str(name)} for name in imported]), encoding="utf-8")
    rc, document, _said = show_testbed.run(
        ROOT / "inventories" / inventory, *options, "-e", json.dumps(said), playbook=str(book)
    )
    assert rc == 0
    results = results_of(document)
    messages = [one["msg"] for one in results if isinstance(one.get("msg"), dict) and set(one["msg"]) == set(facts)]
    return next(one for one in results if "drawing" in one), messages


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
        ("target-e2-nfs", "target01", "data"),
        ("datastore-e2", "target01", "scratch"),
        ("datastore-e2-iscsi", "hypervisor01", "scratch"),
        ("datastore-e2-nfs", "hypervisor01", "scratch"),
    ]
    # What is mounted on the target is not exported.
    exports = small["hosts"]["target01"]["variables"]["iscsi_target_targets"]
    assert [lun["layer"] for export in exports for lun in export["luns"]] == ["backing-e2-iscsi"]
    # Over NFS the client measures the files that the target measures, and nobody else may mount them.
    (share,) = small["hosts"]["target01"]["variables"]["nfs_export_exports"]
    assert share["layer"] == "datastore-e2" and len(share["clients"]) == 1
    over_nfs = small["hosts"]["hypervisor01"]["variables"]["datastore_datastores"][1]
    assert (over_nfs["layer"], over_nfs["filesystem"], over_nfs["export"]) == (
        "target-e2-nfs",
        "nfs",
        "/srv/storlab/e2",
    )
    assert (over_nfs["benchmark_file_mib"], over_nfs["benchmark_files"]) == (40, 4)
    # The guest of the inventory's own testbed is not there.
    assert small["hosts"]["guest01"]["stages"] == []


@pytest.mark.parametrize(("inventory", "layers"), [("lab_linux_esxi", 2), ("lab_linux", 8)])
def test_e2_is_measured_over_iscsi_and_nfs_by_the_first_linux_host_that_logs_in(shown, inventory, layers):
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
    assert rc == 2 and "testbed.disks[0].size is 160 MiB, but 160 MiB are needed on the datastore e2" in result["msg"]


def test_a_word_of_e2_that_nothing_reads_is_refused(shown):
    rc, result = shown("embedded", "-e", '{"testbed_e2": {"files": "40MiB"}}')
    assert rc == 2
    assert (
        result["msg"]
        == "testbed_e2.files is not a known key of this experiment: use block_sizes, disk, file, jobs, random, read, repetitions, workload."
    )


def test_both_sweeps_of_e2_are_of_the_shares_that_it_is_scaled_down_to(tmp_path):
    said = {"block_sizes": ["8k"], "jobs": [3], "random": [40], "read": [70]}
    _shown, (jobs,) = afterwards(
        tmp_path, "e2_ram_disk", ("Jobs instead of block sizes",), {"testbed_e2": said}, ("benchmark_sweep",)
    )
    assert jobs["benchmark_sweep"] == {"workers": [3], "random_percent": [40], "read_percent": [70]}


def test_e2_measures_a_nas_that_is_there_and_only_reads_it(shown):
    """Without a target. A word that only a RAM disk has is refused."""
    rc, result = shown("existing_nas", "-e", '{"testbed_e2": {"jobs": [1, 4]}}')
    assert rc == 0 and result["testbed_id"] == "e2-existing-scaled-down"
    assert [(layer["name"], layer["purpose"]) for layer in result["layers"]] == [("datastore-nas", "read")]
    assert not any("RAM disk" in line or "lost" in line for line in result["drawing"])
    variables = result["hosts"]["client01"]["variables"]
    assert variables["existing_storage_entries"][0]["server"] == "192.0.2.10"
    rc, result = shown("existing_nas", "-e", '{"testbed_e2": {"file": "40MiB"}}')
    assert rc == 2 and result["msg"].startswith("testbed_e2.file is the size of what this experiment makes on a target")


@pytest.mark.parametrize(
    ("more", "purposes"),
    [([], ["scratch"]), ([{"name": "two", "kind": "path", "path": "/d"}], ["scratch", "read"])],
)
def test_e2_writes_to_what_is_there_only_where_all_of_it_may_be_written_to(shown, tmp_path, more, purposes):
    """A workload that writes would be refused where something is only read."""
    nas = {"name": "nas", "kind": "nfs", "server": "192.0.2.10", "export": "/v", "access": "write"}
    own = {"testbed_id": "n", "testbed": {"existing": [nas, *more]}}
    content = {"all": {"vars": own, "children": {"clients": {"hosts": {"c": {"ansible_host": "192.0.2.21"}}}}}}
    (tmp_path / "lab.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    rc, result = shown(tmp_path / "lab.yml")
    assert rc == 0 and result["testbed_id"] == "e2-existing"
    assert [layer["purpose"] for layer in result["layers"]] == purposes


MEMBERS = [{"serial": "Z1F0A7QK"}, {"naa": "5000c500a1b2c3d4"}, {"serial": "Z1F0B11X"}]


def _losses(result: dict) -> int:
    """How many devices of others the drawing of two lines is followed by, as losing what is on them."""
    return len([line for line in result["drawing"][3:] if line.startswith("- OVERWRITTEN: ")])


def test_e5_is_on_the_drives_that_a_lab_names_and_says_so_where_it_is_scaled_down(shown):
    # More that is measured does not make the experiment a smaller one.
    more = {"parity": {"level": 5}, "sequential_direct": 4}
    rc, full = shown("lab_local", "-e", json.dumps({"testbed_e5": {"members": MEMBERS, **more}}), of="e5")
    assert rc == 0 and full["testbed_id"] == "e5"
    assert _losses(full) == 3 and full["drawing"][1].startswith("└─ backing-e5 on target01: RAID 0 of 3 disks")
    (array,) = full["hosts"]["target01"]["variables"]["raid_arrays"]
    assert (array["level"], array["members"], array["purpose"]) == (0, MEMBERS, "scratch")
    rc, small = shown("embedded", of="e5")
    assert rc == 0 and small["testbed_id"] == "e5-scaled-down"
    assert len(small["drawing"]) == 2 and small["drawing"][1].startswith("└─ backing-e5 on target01: RAID 0 of 4 disks")
    (array,) = small["hosts"]["target01"]["variables"]["raid_arrays"]
    assert [member["serial"] for member in array["members"]] == ["e5-1", "e5-2", "e5-3", "e5-4"]
    assert small["hosts"]["guest01"]["stages"] == []


@pytest.mark.parametrize("inventory", ["lab_linux", "lab_linux_esxi", "lab_linux_kvm"])
def test_e5_is_the_same_on_every_lab_with_a_linux_target(shown, inventory):
    rc, result = shown(inventory, "-e", json.dumps({"testbed_e5": {"members": MEMBERS}}), of="e5")
    assert rc == 0 and [(layer["name"], layer["host"]) for layer in result["layers"]] == [("backing-e5", "target01")]


def test_e5_on_a_windows_target_is_refused(shown):
    secrets = {"vault_windows_password": "x", "vault_esxi_password": "x", "testbed_e5": {"members": MEMBERS}}
    rc, result = shown("lab_windows_esxi", "-e", json.dumps(secrets), of="e5")
    assert rc == 2 and "testbed.disks[0].kind is 'raid', but target01 runs Windows" in result["msg"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "testbed_e5.members is not set: name the drives of the target that the experiment overwrites"),
        ({"members": MEMBERS, "emulated": {"count": 2, "size": "32MiB"}}, "testbed_e5.members is set beside emulated"),
        (
            {"members": MEMBERS, "ranges": "4g"},
            "testbed_e5.ranges is not a known key of this experiment: use chunk, depths",
        ),
        ({"members": MEMBERS, "drives": [2, 4]}, "testbed_e5.drives is [2, 4]: use numbers from 1 to 3"),
        ({"members": MEMBERS, "drives": [0, 3]}, "testbed_e5.drives is [0, 3]: use numbers from 1 to 3"),
        (
            {"members": MEMBERS, "sequential_direct": True},
            "testbed_e5.sequential_direct is True: write the queue depth",
        ),
        ({"members": MEMBERS, "parity": True}, "testbed_e5.parity is True: write the level, 5 or 6, and two or more"),
        ({"members": MEMBERS, "parity": {"level": 1}}, "testbed_e5.parity is {'level': 1}: write the level, 5 or 6"),
        ({"members": MEMBERS, "parity": {"stripe_caches": [256, 256]}}, "and two or more different sizes"),
    ],
)
def test_what_is_wrong_with_e5_is_said_before_anything_is_touched(shown, said, sentence):
    rc, result = shown("lab_local", "-e", json.dumps({"testbed_e5": said}), of="e5")
    assert rc == 2 and sentence in " ".join(result["msg"].split())


def e5_afterwards(tmp_path: Path, said: dict) -> tuple:
    """What show says of the drives after RAID 0 was measured, and the facts of the measurements that follow."""
    names = ("Numbers of drives instead of searches", "The same drives with parity")
    facts = ("benchmark_sweep", "benchmark_exclude", "benchmark_variants")
    return afterwards(tmp_path, "e5_raid0_surfaces", names, {"testbed_e5": said}, facts)


def test_e5_measures_drives_past_the_page_cache_and_parity_when_they_are_asked_for(tmp_path):
    parity = {"level": 6, "stripe_caches": [512, 64, 8192]}
    members = [*MEMBERS, {"serial": "Z1F0C00Y"}]
    said = {"members": members, "drives": [3, 1], "sequential_direct": 7, "parity": parity}
    shown, (drives, writes) = e5_afterwards(tmp_path, said)
    assert shown["drawing"][1].startswith("└─ backing-e5-parity on target01: RAID 6 of 4 disks")
    (array,) = shown["hosts"]["target01"]["variables"]["raid_arrays"]
    assert (array["level"], array["stripe_cache"], array["members"]) == (6, 512, members)
    assert [(entry["name"], entry["vars"]) for entry in drives["benchmark_variants"]] == [
        ("3-drives", {"drives": 3}),
        ("1-drives", {"drives": 1}),
    ]
    shipped = profile.find("e5_sequential", [str(ROOT / "roles" / "benchmark" / "files" / "profiles")], yaml.safe_load)
    left = expand_all(shipped["workloads"][:1], drives["benchmark_sweep"], "workloads", drives["benchmark_exclude"])
    assert sorted((one["direct"], one["queue_depth"], one["read_percent"]) for one in left) == [
        (False, 1, 0),
        (False, 1, 100),
        (True, 7, 0),
        (True, 7, 100),
    ]
    assert [(entry["name"], entry["vars"]) for entry in writes["benchmark_variants"]] == [
        ("stripe-cache-512", {"pages": 512}),
        ("stripe-cache-64", {"pages": 64}),
        ("stripe-cache-8192", {"pages": 8192}),
    ]
    files = {Path(entry["tasks_file"]) for one in (drives, writes) for entry in one["benchmark_variants"]}
    # The folder of these playbooks is not the one of the book that imports the plays here.
    assert {path.parent.name for path in files} == {"tasks"} and len(files) == 2
    assert all((BOOKS / "tasks" / path.name).is_file() for path in files)
    written = expand_all(shipped["workloads"][:1], writes["benchmark_sweep"], "workloads", writes["benchmark_exclude"])
    assert {(one["direct"], one["read_percent"]) for one in written} == {(True, 0)} and len(written) == 2


def test_e5_without_parity_leaves_raid_0_alone(tmp_path):
    shown, (drives, after) = e5_afterwards(tmp_path, {"members": MEMBERS})
    assert shown["testbed_id"] == "e5" and shown["drawing"][1].startswith(
        "└─ backing-e5 on target01: RAID 0 of 3 disks"
    )
    assert after == drives and drives["benchmark_sweep"] == {} and drives["benchmark_exclude"] == []
    # The single drive and all of them belong to the original's column of drives.
    assert [entry["vars"]["drives"] for entry in drives["benchmark_variants"]] == [1, 2, 3]


E4 = {"origin": {"serial": "Z1F0A7QK"}, "fast": {"naa": "5000c500a1b2c3d4"}}


def test_e4_is_on_the_disks_that_a_lab_names_and_says_so_where_it_is_scaled_down(shown):
    rc, full = shown("lab_linux_kvm", "-e", json.dumps({"testbed_e4": {**E4, "guest": False}}), of="e4")
    assert rc == 0 and full["testbed_id"] == "e4"
    assert _losses(full) == 2 and full["drawing"][1].startswith("└─ backing-e4 on target01: the origin alone")
    assert len(full["layers"]) == 1
    (cache,) = full["hosts"]["target01"]["variables"]["cache_tier_caches"]
    assert {key: cache[key] for key in (*E4, "mode", "cached", "purpose")} == {
        **E4,
        "mode": "writeback",
        "cached": False,
        "purpose": "scratch",
    }
    rc, small = shown("embedded", of="e4")
    assert rc == 0 and small["testbed_id"] == "e4-scaled-down"
    (cache,) = small["hosts"]["target01"]["variables"]["cache_tier_caches"]
    assert (cache["origin"], cache["fast"]) == ({"serial": "e4-slow"}, {"serial": "e4-fast"})


CHAIN_OF_E4 = [
    ("backing-e4", "target01", "data"),
    ("target-e4", "target01", "data"),
    ("initiator-e4", "hypervisor01", "data"),
    ("datastore-e4", "hypervisor01", "scratch"),
    ("guest-e4", "guest01", "scratch"),
]


OF_MOLECULE = yaml.safe_load((ROOT / "molecule" / "e4" / "vars.yml").read_text(encoding="utf-8"))["testbed_e4"]


@pytest.mark.parametrize(
    ("inventory", "said", "size_mib"),
    [
        ("lab_linux_kvm", {**E4, "disk": "7GiB"}, 7168),
        ("embedded", OF_MOLECULE, 8),
        # A guest that has a whole LUN in the lab's own testbed, which is not there in this one.
        ("embedded", {**OF_MOLECULE, "guest": {"name": "guest01", "memory": "320MiB", "raw": "bench"}}, 8),
    ],
)
def test_e4_is_measured_in_a_guest_where_the_lab_has_one(shown, inventory, said, size_mib):
    """As published. The testbed of the inventory lends its guest and nothing else."""
    rc, result = shown(inventory, "-e", json.dumps({"testbed_e4": said}), of="e4")
    assert rc == 0
    assert [(layer["name"], layer["host"], layer["purpose"]) for layer in result["layers"]] == CHAIN_OF_E4
    guests = [guest for host in result["hosts"].values() for guest in host["variables"].get("guest_vm_guests") or []]
    assert [(guest["name"], guest["data_disk"]["size_mib"]) for guest in guests] == [("e4", size_mib)]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "testbed_e4.origin is not set: name the slow disk of the target and the fast one before it"),
        ({"origin": E4["origin"]}, "testbed_e4.fast is not set: name the slow disk"),
        (
            {**E4, "ranges": "4g"},
            "testbed_e4.ranges is not a known key of this experiment: use block, database, disk, fast, guest",
        ),
        ({**E4, "profiles": ["e4_max_ios"]}, "testbed_e4.profiles is ['e4_max_ios']: use some of e4_max_bandwidth"),
        (
            {**E4, "database": "yes"},
            "testbed_e4.database is yes: use true or false, or a mapping with some of max_wal_mib",
        ),
        (
            {**E4, "database": {"users": 3}},
            "use true or false, or a mapping with some of max_wal_mib, ramp_s, runtime_s",
        ),
        (
            {**E4, "guest": True},
            "testbed_e4.guest is set to True, but no guest is measured: describe one in testbed.guests",
        ),
        ({**E4, "guest": {"name": "guest01"}}, "but no guest is measured: describe one in testbed.guests"),
        ({**E4, "disk": "3GiB"}, "testbed_e4.disk is set to 3GiB, but no guest is measured"),
        ({**E4, "database": {}}, "testbed_e4.database is {}: use true or false, or a mapping with some of max_wal_mib"),
        ({**E4, "fast": E4["origin"]}, "testbed.disks[0].cache.fast.serial is 'Z1F0A7QK', which is the origin"),
    ],
)
def test_what_is_wrong_with_e4_is_said_before_anything_is_touched(shown, said, sentence):
    rc, result = shown("lab_local", "-e", json.dumps({"testbed_e4": said}), of="e4")
    assert rc == 2 and sentence in " ".join(result["msg"].split())


def e4_afterwards(tmp_path: Path, said: dict) -> tuple:
    """What show says of the disks after the raw device was measured, and the facts that the load of a database gets."""
    loads = (f"database_load_{name}" for name in ("ramp_s", "variants", "published", "warehouses"))
    names, facts = ("The same disks with a file system",), ("e4_on_files", *loads)
    shown, (messages,) = afterwards(tmp_path, "e4_server_side_cache", names, {"testbed_e4": said}, facts)
    return shown, messages


def test_e4_measures_a_database_on_a_file_system_of_the_same_disks_when_it_is_asked_for(tmp_path):
    shown, facts = e4_afterwards(tmp_path, {**E4, "database": True})
    assert shown["testbed_id"] == "e4"
    variables = shown["hosts"]["target01"]["variables"]
    (cache,) = variables["cache_tier_caches"]
    assert (cache["origin"], cache["purpose"], cache["cached"]) == (E4["origin"], "data", False)
    (store,) = variables["datastore_datastores"]
    assert (store["name"], store["layer"]) == ("e4", "backing-e4")
    assert [(entry["name"], entry["vars"]) for entry in facts["database_load_variants"]] == [
        ("baseline", {"cached": False}),
        ("cached", {"cached": True}),
    ]
    assert all(Path(entry["tasks_file"]).is_file() for entry in facts["database_load_variants"])
    published = [(figure["metric"], figure["value"]) for figure in facts["database_load_published"]]
    assert published == [("tpm", 17790), ("nopm", 7845), ("tpm", 31536), ("nopm", 12128)]
    # The page of all experiments has the same figures, for runs without a database.
    (play,) = [one for one in plays("all") if "tasks" in one]
    listed = {one["name"]: one.get("published") for one in play["vars"]["__experiments"]}
    shared = yaml.safe_load((BOOKS / "vars" / "published.yml").read_text(encoding="utf-8"))
    assert listed.pop("e4") == "{{ __e4_published_loads }}" and set(listed.values()) == {None}
    assert shared == {"__e4_published_loads": facts["database_load_published"]}
    # A name that nothing has would be taken for nothing that was published.
    play["tasks"] = [{"ansible.builtin.debug": {"msg": "{{ __experiments | selectattr('published', 'defined') }}"}}]
    play["vars_files"] = [str(BOOKS / path) for path in play["vars_files"]]
    book = tmp_path / "page.yml"
    book.write_text(yaml.safe_dump([play]), encoding="utf-8")
    _rc, document, _said = show_testbed.run(ROOT / "inventories" / "lab_local", playbook=str(book))
    (of_e4,) = document["plays"][0]["tasks"][0]["hosts"]["localhost"]["msg"]
    assert of_e4["published"] == facts["database_load_published"]
    small, facts = e4_afterwards(tmp_path, {**E4, "database": {"warehouses": 3, "ramp_s": 7}})
    assert small["testbed_id"] == "e4-scaled-down"
    assert (facts["database_load_warehouses"], facts["database_load_ramp_s"]) == (3, 7)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, [(1 << 20, 0), (8192, 0), (8192, 100)]),
        ({"profiles": ["e4_max_bandwidth"]}, [(1 << 20, 0)]),
        ({"profiles": ["e4_real_life", "e4_max_io"], "workload": {"queue_depth": 2}}, [(8192, 0), (8192, 100)]),
    ],
)
def test_e4_measures_the_profiles_that_are_asked_for_in_one_go(tmp_path, asked, kept):
    facts = ("profile", "workload", "exclude")
    ask = [{"ansible.builtin.debug": {"msg": {name: "{{ benchmark_" + name + " }}" for name in facts}}}]
    book = tmp_path / "book.yml"
    book.write_text(
        yaml.safe_dump(
            [
                {"import_playbook": str(BOOKS / "e4_testbed.yml")},
                {"hosts": "target01", "gather_facts": False, "tasks": ask},
            ]
        )
    )
    rc, document, _said = show_testbed.run(
        ROOT / "inventories" / "lab_local", "-e", json.dumps({"testbed_e4": {**E4, **asked}}), playbook=str(book)
    )
    assert rc == 0
    said = document["plays"][-1]["tasks"][0]["hosts"]["target01"]["msg"]
    shipped = profile.find(said["profile"], [str(ROOT / "roles" / "benchmark" / "files" / "profiles")], yaml.safe_load)
    measured_with = [{**workload, **said["workload"]} for workload in shipped["workloads"]]
    left = expand_all(measured_with, None, "workloads", said["exclude"])
    assert [(one["block_size_bytes"], one["random_percent"]) for one in left] == kept
    assert {one["queue_depth"] for one in left} == {asked.get("workload", {}).get("queue_depth", 32)}


@pytest.mark.parametrize("said", [E4, {**E4, "database": False}])
def test_e4_without_a_database_leaves_the_raw_device_alone(tmp_path, said):
    shown, facts = e4_afterwards(tmp_path, said)
    assert facts["e4_on_files"] == {} and shown["testbed_id"] == "e4"
    assert [layer["name"] for layer in shown["layers"]] == ["backing-e4"]


@pytest.mark.parametrize(
    "experiment", ["e1_two_datastores", "e2_ram_disk", "e3_vmfs_rdm", "e4_server_side_cache", "e5_raid0_surfaces"]
)
def test_an_experiment_ends_in_a_report_after_everything_was_taken_down(experiment):
    imported = [play[IMPORT] for play in plays(experiment) if IMPORT in play]
    assert imported[:2] == [f"{experiment[:2]}_testbed.yml", "../build.yml"]
    # What is compared needs no host, so nothing that goes wrong with it leaves anything built or unreported.
    compared = imported.count("../compare.yml")
    end = ["../teardown.yml", "../verify_clean.yml", "../report.yml", *["../compare.yml"] * compared]
    assert imported[-len(end) :] == end and compared == (2 if experiment == "e5_raid0_surfaces" else 1)


# -- what is compared in the end ---------------------------------------------------------------------------------------

SMALL, LARGE = make_runs.WORKLOADS
WHEN = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)


def measured(sides: list, run_id: str = "run1", repetitions: int = 8) -> list:
    """Results of sides [(IOPS over those of the first, what each of its results has)] that took turns, forwards and back."""
    results = []
    for place, (factor, has) in enumerate(sides):
        medians = {(has["layer"], SMALL): 20_000 * factor, (has["layer"], LARGE): 7_000 * factor}
        for index, result in enumerate(make_runs.results(repetitions, medians, seed=place, run_id=run_id)):
            turn = place if result["repetition"] % 2 else len(sides) - 1 - place
            moment = WHEN + datetime.timedelta(seconds=200 * index + 10 * turn)
            variant = f"{has['variant']}." if "variant" in has else ""
            point_id = f"{has['layer']}.{result['workload_id']}.{variant}r{result['repetition']}"
            engine = {**result["engine"], **has.get("engine", {})}
            utc = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            results.append({**result, **has, "engine": engine, "point_id": point_id, "started_utc": utc})
    return results


def keep(results_dir: Path, testbed_id: str, results: list, layers: dict, variants: dict | None = None) -> None:
    """A stored run of these results. variants: what each has of the devices of the host."""
    folder = results_dir / testbed_id / results[0]["run_id"]
    for result in results:
        (folder / "points" / result["point_id"]).mkdir(parents=True)
        (folder / "points" / result["point_id"] / "result.json").write_text(json.dumps(result), encoding="utf-8")
    (folder / "hosts").mkdir()
    for host in {result["host"] for result in results}:
        plain = {**make_runs.environment(), "host": host, "devices": {}}
        under = {name: {**plain, "devices": devices} for name, devices in (variants or {}).items()}
        known = json.dumps({**plain, **({"variants": under} if under else {})})
        (folder / "hosts" / f"{host}.json").write_text(known, encoding="utf-8")
    (folder / "layers.json").write_text(json.dumps(layers), encoding="utf-8")


def layer(name: str, host: str = "target01", **more) -> dict:
    kind = name.partition("-")[0]
    return {"name": name, "kind": kind, "host": host, "parent": None, "size_bytes": 1 << 27, **more}


@pytest.fixture
def compared(tmp_path):
    """compared(experiment, *options) -> (rc, what its last comparison returned, None where it was left out), of the runs kept in tmp_path / "results"."""

    def ask(experiment: str, *options: str, inventory: str = "embedded", place: int = -1) -> tuple:
        last = plays(experiment)[place]
        assert last.pop(IMPORT) == "../compare.yml"
        short = experiment if experiment == "e1_windows_esxi" else experiment[:2]
        described = {"import_playbook": str(BOOKS / f"{short}_testbed.yml")}
        book = tmp_path / "book.yml"
        book.write_text(
            yaml.safe_dump([described, {**last, "import_playbook": str(ROOT / "playbooks" / "compare.yml")}]),
            encoding="utf-8",
        )
        rc, document, _said = show_testbed.run(
            ROOT / "inventories" / inventory,
            *("-e", f"testbed_results_dir={tmp_path / 'results'}", *options),
            playbook=str(book),
        )
        tasks = [
            task["hosts"].get("localhost", {})
            for play in document["plays"]
            for task in play["tasks"]
            if task["task"]["name"] == "Is the change real?"
        ]
        return rc, next((result for result in tasks if not result.get("skipped")), None)

    return ask


def changes(result: dict) -> dict:
    """What the comparison says of the IOPS of the smaller workload, by side: the verdict and the change in tens of percent."""
    rows = {
        side["name"]: next(row for row in side["rows"] if (row["metric"], row["workload_id"]) == ("iops", SMALL))
        for side in result["sides"]
    }
    return {name: (row["verdict"], round(row["change_percent"], -1)) for name, row in rows.items()}


def over_the_network(**of_client) -> tuple:
    """Sides and layers of an E2 whose client has fio of another version."""
    client = {"host": "hypervisor01", "engine": {"version": "3.36"}, **of_client}
    sides = [
        (1.0, {"layer": "datastore-e2"}),
        (0.5, {"layer": "datastore-e2-iscsi", **client}),
        (0.3, {"layer": "datastore-e2-nfs", "preparation": {"storage_cache": "unknown"}, **client}),
    ]
    return sides, {has["layer"]: layer(has["layer"], has.get("host", "target01")) for _factor, has in sides}


def test_e2_sets_both_ways_over_the_network_against_local_in_one_table(tmp_path, compared):
    sides, layers = over_the_network()
    keep(tmp_path / "results", "e2-scaled-down", measured(sides), layers)
    rc, result = compared("e2_ram_disk")
    assert rc == 0 and changes(result) == {"over iSCSI": ("worse", -50), "over NFS": ("worse", -70)}
    assert result["under_test_same"] == [] and result["method"] == "pairs"
    text = Path(result["files"]["comparison.json"]).read_text(encoding="utf-8")
    assert json.loads(text)["schema"] == "storlab.sides/1"
    assert json.loads(text)["baseline"]["layer"] == "datastore-e2"


def test_another_engine_at_the_client_of_e2_is_no_part_of_the_network(tmp_path, compared):
    sides, layers = over_the_network(engine={"ioengine": "psync"})
    keep(tmp_path / "results", "e2-scaled-down", measured(sides), layers)
    rc, result = compared("e2_ram_disk")
    assert rc == 2 and result["failure"]["code"] == "unlike_runs" and "engine.compared.ioengine" in result["msg"]


def test_e2_without_a_client_has_nothing_to_compare(tmp_path, compared):
    keep(tmp_path / "results", "e2", measured([(1.0, {"layer": "datastore-e2"})]), {})
    assert compared("e2_ram_disk", inventory="lab_local") == (0, None)


def test_the_run_that_is_compared_is_the_one_that_went_on(tmp_path, compared):
    """Of a run that is named and finished later there may be a newer one."""
    sides, layers = over_the_network()
    for run_id, factor in (("older", 1), ("newer", 2)):
        results = measured(
            [(share * (factor if place else 1), has) for place, (share, has) in enumerate(sides)], run_id
        )
        late = [{**result, "started_utc": result["started_utc"].replace("11-21", "11-22")} for result in results]
        keep(tmp_path / "results", "e2-scaled-down", late if run_id == "newer" else results, layers)
    assert changes(compared("e2_ram_disk")[1])["over iSCSI"] == ("no_difference", 0)
    _rc, result = compared("e2_ram_disk", "-e", "testbed_run_id=older")
    assert changes(result) == {"over iSCSI": ("worse", -50), "over NFS": ("worse", -70)}


E1_SIDES = [
    (1.0, {"layer": "datastore-e1-raid10", "host": "hypervisor01"}),
    (2.0, {"layer": "datastore-e1-ram", "host": "hypervisor01"}),
    (5.0, {"layer": "backing-e1-raw", "layer_kind": "backing", "engine": {"version": "3.36"}}),
]


def test_e1_sets_both_ram_disks_against_the_raid10(tmp_path, compared):
    layers = {has["layer"]: layer(has["layer"], has.get("host", "target01")) for _factor, has in E1_SIDES}
    keep(tmp_path / "results", "e1-scaled-down", measured(E1_SIDES), layers)
    rc, result = compared("e1_two_datastores")
    assert rc == 0
    assert changes(result) == {"datastore on the RAM disk": ("better", 100), "RAM disk": ("better", 400)}
    assert result["under_test_same"] == []


def test_e1_on_one_host_and_on_esxi_is_compared_as_far_as_it_is_measured(tmp_path, compared):
    said = ("-e", json.dumps({"testbed_e1": {"members": DISKS}, "vault_esxi_password": "x"}))
    here = [(factor, {"layer": has["layer"]}) for factor, has in E1_SIDES]
    keep(tmp_path / "results", "e1", measured(here), {has["layer"]: layer(has["layer"]) for _factor, has in here})
    rc, result = compared("e1_two_datastores", *said, inventory="lab_local")
    assert rc == 0 and len(result["sides"]) == 2 and result["under_test_same"] == []
    assert compared("e1_two_datastores", *said, inventory="lab_linux_esxi") == (0, None)


def of_statements(result: dict) -> list:
    return [statement["verdict"] for statement in result["statements"]]


def test_e3_sets_vmfs_against_the_mapped_lun(tmp_path, compared):
    sides = [(1.0, {"layer": "guest-e3-raw", "host": "guest01"}), (0.8, {"layer": "guest-e3", "host": "guest01"})]
    layers = {has["layer"]: layer(has["layer"], "guest01") for _factor, has in sides}
    keep(tmp_path / "results", "e3-scaled-down", measured(sides), layers)
    rc, result = compared("e3_vmfs_rdm")
    assert rc == 0, result
    row = next(row for row in result["rows"] if (row["metric"], row["workload_id"]) == ("iops", SMALL))
    assert (row["verdict"], round(row["change_percent"], -1), result["under_test_same"]) == ("worse", -20, [])
    assert of_statements(result) == ["no", "no"]
    # One is about random I/O, the other about sequential I/O of 16 KiB and more.
    about = [{figure["point"].split()[-1] for figure in statement["figures"]} for statement in result["statements"]]
    assert about == [{SMALL}, {LARGE}]


E1_WINDOWS = {
    "vault_windows_password": "x",
    "vault_esxi_password": "x",
    "testbed_e1_windows": {"raid10": "RAID 10", "repetitions": 8},
}


def test_e1_on_windows_sets_each_layer_against_the_raw_disk(tmp_path, compared):
    names = {"backing-e1-ram": 1.0, "datastore-e1-ram": 0.9, "target-e1-through": 0.5}
    layers = {name: layer(name) for name in names}
    results = measured([(factor, {"layer": name}) for name, factor in names.items()])
    keep(tmp_path / "results", "e1-windows-scaled-down", results, layers)
    rc, result = compared("e1_windows_esxi", "-e", json.dumps(E1_WINDOWS), inventory="lab_windows_esxi")
    assert rc == 0, result
    assert changes(result) == {"file on the RAM disk": ("worse", -10), "through the target": ("worse", -50)}
    assert of_statements(result) == ["yes"]


def test_e1_on_windows_with_guests_sets_one_datastore_against_the_other(tmp_path, compared):
    guest = {"disk_size": "2GiB", "memory": "1GiB", "address": "192.0.2.41"}
    said = {**E1_WINDOWS["testbed_e1_windows"], "guests": {"ram": guest, "raid10": guest}}
    sides = [
        (1.0, {"layer": "guest-e1-on-raid10", "host": "e1-on-raid10", "layer_kind": "guest"}),
        (6.0, {"layer": "guest-e1-on-ram", "host": "e1-on-ram", "layer_kind": "guest"}),
    ]
    layers = {has["layer"]: layer(has["layer"], has["host"]) for _factor, has in sides}
    keep(tmp_path / "results", "e1-windows-scaled-down", measured(sides), layers)
    options = ("-e", json.dumps({**E1_WINDOWS, "testbed_e1_windows": said}))
    rc, result = compared("e1_windows_esxi", *options, inventory="lab_windows_esxi")
    assert rc == 0, result
    assert changes(result) == {"guest on the RAM disk": ("better", 500)}
    assert of_statements(result) == ["yes"]


@pytest.mark.parametrize(
    ("inventory", "said", "expected"),
    [
        (
            "lab_windows_esxi",
            {"raid": "x"},
            "testbed_e1_windows.raid is not a known key of this experiment: use file, guests",
        ),
        ("lab_windows_esxi", {"guests": {"ram": {}}}, "testbed_e1_windows.guests is set, and raid10 is not"),
        ("lab_linux_esxi", {}, "The group targets has no Windows host"),
    ],
    ids=["a word", "one guest", "no Windows"],
)
def test_e1_on_windows_without_what_it_needs_is_refused(shown, inventory, said, expected):
    rc, result = shown(inventory, "-e", json.dumps({**E1_WINDOWS, "testbed_e1_windows": said}), of="e1_windows_esxi")
    assert rc == 2 and result["msg"].startswith(expected), result["msg"]


def drives_of_e5(*numbers: int) -> tuple:
    """Results, layers and the devices of each variant of an E5 with so many drives, whose arrays are new ones each time."""
    sides = [(number / numbers[0], {"layer": "backing-e5", "variant": f"{number}-drives"}) for number in numbers]
    under = {
        f"{number}-drives": layer(
            "backing-e5",
            size_bytes=number << 25,
            identity={"uuid": f"array-{number}"},
            detail={"raid": {"level": 0, "members": [{"serial": f"d{place}"} for place in range(number)]}},
        )
        for number in numbers
    }
    devices = {
        name: {"backing-e5": {"size_bytes": of["size_bytes"], "queue": {"optimal_io_size": of["size_bytes"]}}}
        for name, of in under.items()
    }
    # Searches and surfaces of the same run have no variant.
    others = measured([(9.0, {"layer": "backing-e5"})])
    return measured(sides) + others, {"backing-e5": {**under[f"{numbers[-1]}-drives"], "variants": under}}, devices


def test_e5_sets_more_drives_against_the_least(tmp_path, compared):
    results, layers, devices = drives_of_e5(2, 3, 4, 12)
    keep(tmp_path / "results", "e5-scaled-down", results, layers, devices)
    said = {"emulated": {"count": 12, "size": "32MiB"}, "drives": [12, 2, 4, 3]}
    rc, result = compared("e5_raid0_surfaces", "-e", json.dumps({"testbed_e5": said}))
    assert rc == 0 and list(changes(result).items()) == [
        ("3 drives", ("better", 50)),
        ("4 drives", ("better", 100)),
        ("12 drives", ("better", 500)),
    ]
    assert result["under_test_same"] == []


def test_e5_past_the_page_cache_says_whether_drives_bring_their_number(tmp_path, compared):
    results, layers, devices = drives_of_e5(1, 2, 3)
    for result in results:
        # 3 drives bring 2.2 times as much, which is none of what their number makes of it.
        if result.get("variant") == "3-drives":
            for part in {"read", "write", "total"} & result.keys():
                result[part]["bandwidth_bytes_s"] *= 2.2 / 3
    keep(tmp_path / "results", "e5-scaled-down", results, layers, devices)
    depth = next(result["workload"]["queue_depth"] for result in results)
    said = {"emulated": {"count": 3, "size": "32MiB"}, "drives": [1, 2, 3], "sequential_direct": depth}
    rc, result = compared("e5_raid0_surfaces", "-e", json.dumps({"testbed_e5": said}))
    assert rc == 0 and of_statements(result) == ["yes", "yes", "no"]
    assert [one["text"] for one in result["statements"]][1:] == [
        "Past the page cache 2 drives have 2.0 times the bandwidth of 1.",
        "Past the page cache 3 drives have 3.0 times the bandwidth of 1.",
    ]


def test_e5_sets_more_stripe_cache_against_the_least(tmp_path, compared):
    pages = (4096, 64, 512)
    sides = [
        (1 + place, {"layer": "backing-e5-parity", "variant": f"stripe-cache-{of}"}) for place, of in enumerate(pages)
    ]
    under = {
        f"stripe-cache-{of}": layer("backing-e5-parity", detail={"raid": {"level": 5, "stripe_cache": of}})
        for of in pages
    }
    layers = {"backing-e5-parity": {**under["stripe-cache-512"], "variants": under}}
    keep(tmp_path / "results", "e5-scaled-down", measured(sides), layers, {name: {} for name in under})
    said = {"emulated": {"count": 3, "size": "32MiB"}, "parity": {"stripe_caches": list(pages)}}
    rc, result = compared("e5_raid0_surfaces", "-e", json.dumps({"testbed_e5": said}), place=-2)
    assert rc == 0 and changes(result) == {"512 pages": ("better", 50), "4096 pages": ("worse", -50)}
    assert result["under_test_same"] == []
    # Without parity nothing is compared.
    del said["parity"]
    assert compared("e5_raid0_surfaces", "-e", json.dumps({"testbed_e5": said}), place=-2) == (0, None)


def test_e5_with_one_number_of_drives_has_nothing_to_compare(tmp_path, compared):
    results, layers, devices = drives_of_e5(2)
    keep(tmp_path / "results", "e5-scaled-down", results, layers, devices)
    said = {"emulated": {"count": 2, "size": "32MiB"}, "drives": [2]}
    assert compared("e5_raid0_surfaces", "-e", json.dumps({"testbed_e5": said})) == (0, None)


def test_e4_sets_cached_against_baseline(tmp_path, compared):
    names = {"baseline": 1.0, "cached": 3.0}
    sides = [(factor, {"layer": "backing-e4", "variant": name}) for name, factor in names.items()]
    under = {name: layer("backing-e4", detail={"cache_tier": {"cached": name == "cached"}}) for name in names}
    keep(
        tmp_path / "results",
        "e4-scaled-down",
        measured(sides),
        {"backing-e4": {**under["cached"], "variants": under}},
        {name: {} for name in names},
    )
    rc, result = compared("e4_server_side_cache")
    rows = [row for row in result["rows"] if row["metric"] == "iops"]
    assert rc == 0 and [row["verdict"] for row in rows] == ["better", "better"] and result["under_test_same"] == []


# It needs an ESXi host and a Windows server, so those that all repeats are without it.
ELSEWHERE = {"e1_windows_esxi"}
# The same experiment another way, with the page of the first.
ANOTHER_WAY = {"e3_vmfs_rdm_esxi": "e3_vmfs_rdm"}


def experiments() -> set[str]:
    """Playbooks of whole experiments; the others are parts of one."""
    return {path.stem for path in BOOKS.glob("*.yml") if not path.stem.endswith(PARTS)} - set(ANOTHER_WAY)


def test_every_experiment_has_a_page_and_readers_find_it():
    pages = {path.stem for path in (ROOT / "docs" / "experiments").glob("*.md")}
    assert pages == experiments() >= ELSEWHERE
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/experiments/{page}.md" in readme for page in pages)
    for book, page in ANOTHER_WAY.items():
        text = (ROOT / "docs" / "experiments" / f"{page}.md").read_text(encoding="utf-8")
        assert (BOOKS / f"{book}.yml").is_file() and f"storlab.testbed.experiments.{book}" in text


def test_every_experiment_is_one_line_of_those_that_all_repeats():
    (play,) = [one for one in plays("all") if "tasks" in one]
    listed = play["vars"]["__experiments"]
    assert {one["playbook"].removesuffix(".yml") for one in listed} == experiments() - ELSEWHERE - {"all"}
    assert all(one["playbook"].startswith(f"{one['name']}_") and one["title"] for one in listed)
    assert all((BOOKS / f"{one['name']}_testbed.yml").is_file() for one in listed)
    page = (ROOT / "docs" / "experiments" / "all.md").read_text(encoding="utf-8")
    assert all(f"({one['playbook'].removesuffix('.yml')}.md)" in page for one in listed)


def all_of(tmp_path: Path, inventory: str, *options: str) -> tuple:
    """(rc, output) of the playbook all on an inventory, with its results in a folder of the test's."""
    done = subprocess.run(
        [
            *("ansible-playbook", "-i", f"inventories/{inventory}", "-e", f"testbed_results_dir={tmp_path}"),
            *options,
            str(BOOKS / "all.yml"),
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join(done.stdout.split())


def test_an_experiment_that_fails_stops_no_other_and_the_page_says_with_what_each_failed(tmp_path):
    """Both are refused before anything is touched: the inventory names no disks. What -e says of one reaches that one only."""
    said = json.dumps({"testbed_experiments": ["e5", "e1"], "testbed_e1": {"files": "4GiB"}})
    rc, output = all_of(tmp_path, "lab_local", "-e", said)
    assert rc == 2 and "e5, e1 failed; " in output
    first, second = json.loads((tmp_path / "experiments" / "index.json").read_text(encoding="utf-8"))["experiments"]
    assert [(one["name"], one["rc"], one["attempts"]) for one in (first, second)] == [("e5", 2, 1), ("e1", 2, 1)]
    assert first["failures"][0]["message"].startswith("testbed_e5.members is not set: name the drives of the target")
    assert second["failures"][0]["message"].startswith("testbed_e1.files is not a known key of this experiment")
    page = (tmp_path / "experiments" / "index.html").read_text(encoding="utf-8")
    assert all(one["failures"][0]["message"] in page for one in (first, second))
    assert all((tmp_path / "experiments" / f"{name}.log").stat().st_size > 0 for name in ("e1", "e5"))


@pytest.mark.parametrize("asked", [["e5", "e6"], []])
def test_what_is_no_experiment_is_refused_and_nothing_is_begun(tmp_path, asked):
    rc, output = all_of(tmp_path, "lab_local", "-e", json.dumps({"testbed_experiments": asked}))
    assert rc == 2 and f"testbed_experiments is {asked}: use some of e1, e2, e3, e4, e5." in output
    assert list(tmp_path.iterdir()) == []


def test_check_mode_runs_no_experiment(tmp_path):
    rc, _output = all_of(tmp_path, "embedded", "--check")
    assert rc == 0 and list(tmp_path.iterdir()) == []


GUEST = {"name": "guest01", "memory": "2GiB", "vcpus": 1}
ON_ESXI = {**GUEST, "esxi": {"datastore": "datastore1", "template": "windows2022"}}


@pytest.fixture
def with_guest(tmp_path):
    """Options that add a guest to an example inventory which has none."""
    inventory = tmp_path / "guest.yml"
    hosts = {"guest01": {"ansible_host": "192.0.2.31", "ansible_connection": "psrp"}}
    inventory.write_text(yaml.safe_dump({"all": {"children": {"guests": {"hosts": hosts}}}}), encoding="utf-8")
    return ["-i", str(inventory), "-e", "vault_esxi_password=x"]


def test_e3_has_a_file_and_a_whole_lun_in_one_guest_where_no_esxi_host_is(shown):
    rc, small = shown("embedded", of="e3")
    assert rc == 0 and small["testbed_id"] == "e3-scaled-down"
    layers = {layer["name"]: layer for layer in small["layers"]}
    measured = {
        name for name, layer in layers.items() if layer["purpose"] == "scratch" and layer["kind"] != "datastore"
    }
    assert measured == {"guest-e3", "guest-e3-raw"}
    assert {layers[name]["host"] for name in measured} == {"guest01"}
    assert (layers["guest-e3"]["parent"], layers["guest-e3-raw"]["parent"]) == ("datastore-e3", "initiator-e3-raw")
    variables = small["hosts"]["guest01"]["variables"]
    assert variables["benchmark_profile"] == "e3_vmfs_rdm"
    # Both sides are of one size.
    (guest,) = small["hosts"]["controller01"]["variables"]["guest_vm_guests"]
    disks = {disk["name"]: disk["size_mib"] for disk in small["hosts"]["target01"]["variables"]["ramdisk_disks"]}
    assert guest["data_disk"]["size_mib"] == disks["e3-raw"] == 16
    rc, full = shown("lab_linux_kvm", of="e3")
    assert rc == 0 and full["testbed_id"] == "e3"
    (guest,) = full["hosts"]["hypervisor01"]["variables"]["guest_vm_guests"]
    assert (guest["data_disk"]["size_mib"], guest["raw_disk"]["transport"]) == (18 * 1024, "file")
    # The system is that of the inventory's guest.
    assert guest["boot"]["image"] == "/var/lib/storlab/guest01.qcow2" and guest["host"] == "guest01"


@pytest.mark.parametrize("inventory", ["lab_linux_esxi", "lab_windows_esxi"])
def test_e3_on_esxi_begins_with_vmfs_on_the_lun_that_is_mapped_later(shown, with_guest, inventory):
    said = json.dumps({"testbed_e3": {"guest": ON_ESXI}, "vault_windows_password": "x"})
    rc, result = shown(inventory, *with_guest, "-e", said, of="e3")
    assert rc == 0 and result["testbed_id"] == "e3"
    (guest,) = result["hosts"]["esxi01"]["variables"]["guest_vm_guests"]
    assert (guest["name"], guest["host"], guest["esxi"]["datastore"]) == ("e3-vmfs", "guest01", "datastore1")
    assert guest["esxi"]["disks"] == [
        {
            "name": "data",
            "datastore": "e3-vmfs",
            "size_mib": 18 * 1024,
            "controller": "lsilogic",
            "provisioning": "eager",
        }
    ]
    (store,) = result["hosts"]["esxi01"]["variables"]["datastore_datastores"]
    assert (store["name"], store["layer"]) == ("e3-vmfs", "initiator-e3")


def test_e3_takes_a_lun_that_is_striped_over_two_groups_of_disks(shown, with_guest):
    """A metaLUN of the original: its groups are arrays that are there already, and each shows its UUID."""
    groups = [{"uuid": "5a3c19e0:77d2b64f:0c81aa52:e94d3b16"}, {"uuid": "c4e07b91:12f6d3a8:6b5910ce:38a7f24d"}]
    disk = {"kind": "raid", "raid": {"level": 0, "chunk": "64KiB", "members": groups}}
    said = json.dumps({"testbed_e3": {"guest": ON_ESXI, "target_disk": disk}})
    rc, result = shown("lab_linux_esxi", *with_guest, "-e", said, of="e3")
    assert rc == 0
    variables = result["hosts"]["target01"]["variables"]
    (array,) = variables["raid_arrays"]
    assert (array["name"], array["level"], array["chunk_kib"]) == ("e3", 0, 64)
    assert (array["members"], array["purpose"]) == (groups, "data")
    assert variables["ramdisk_disks"] == []
    (target,) = variables["iscsi_target_targets"]
    assert [lun["layer"] for lun in target["luns"]] == ["backing-e3"]
    # A group that is named by nothing that it shows is refused.
    disk["raid"]["members"] = [groups[0], {"path": "/dev/md1"}]
    said = json.dumps({"testbed_e3": {"guest": ON_ESXI, "target_disk": disk}})
    rc, result = shown("lab_linux_esxi", *with_guest, "-e", said, of="e3")
    assert rc == 2 and "raid.members[1].path is '/dev/md1', which does not identify a device" in result["msg"]


def test_e3_maps_the_same_lun_afterwards(shown, with_guest, tmp_path):
    """The facts of the second half, described as the playbook does it."""
    said = {"testbed_e3": {"guest": ON_ESXI}}
    result, _facts = afterwards(
        tmp_path, "e3_vmfs_rdm", ("The same LUN, mapped",), said, (), "lab_linux_esxi", *with_guest
    )
    (guest,) = result["hosts"]["esxi01"]["variables"]["guest_vm_guests"]
    assert (guest["name"], guest["host"]) == ("e3-rdm", "guest01")
    assert guest["esxi"]["disks"] == [{"name": "data", "controller": "lsilogic", "rdm": {"layer": "datastore-e3-rdm"}}]
    (store,) = result["hosts"]["esxi01"]["variables"]["datastore_datastores"]
    assert (store["name"], store["type"], store["layer"]) == ("e3-rdm", "rdm", "initiator-e3")
    (disk,) = result["hosts"]["target01"]["variables"]["ramdisk_disks"]
    assert (disk["name"], disk["size_mib"]) == ("e3", 20 * 1024)


@pytest.mark.parametrize(
    ("inventory", "said", "sentence"),
    [
        ("lab_linux", {}, "The group hypervisors is empty: this experiment measures in a guest"),
        ("lab_linux_esxi", {}, "testbed_e3.guest is not set, and testbed.guests neither: describe a guest"),
        ("lab_linux_esxi", {"guest": GUEST}, "testbed_e3.guest.esxi.datastore is not set: name a datastore of esxi01"),
        (
            "embedded",
            {"target_disk": {"kind": "vhdx"}},
            "testbed_e3.target_disk is set: hypervisor01 is not an ESXi host",
        ),
        (
            "embedded",
            {"depth": 3},
            "testbed_e3.depth is not a known key of this experiment: use block_sizes, disk, guest",
        ),
    ],
)
def test_what_is_wrong_with_e3_is_said_before_anything_is_touched(shown, with_guest, inventory, said, sentence):
    rc, result = shown(inventory, "-e", json.dumps({"testbed_e3": said, "vault_esxi_password": "x"}), of="e3")
    assert rc == 2 and sentence in " ".join(result["msg"].split())


DISKS = [{"serial": "Z1F0A7QK"}, {"naa": "5000c500a1b2c3d4"}, {"serial": "Z1F0B11X"}, {"wwid": "t10.ATA_ST600MP0006"}]


def test_e1_has_both_datastores_on_the_first_host_that_logs_in_and_says_where_it_is_scaled_down(shown):
    rc, full = shown("lab_linux", "-e", json.dumps({"testbed_e1": {"members": DISKS}}), of="e1")
    assert rc == 0 and full["testbed_id"] == "e1"
    (array,) = full["hosts"]["target01"]["variables"]["raid_arrays"]
    assert (array["level"], array["members"], array["purpose"]) == (10, DISKS, "data")
    stores = full["hosts"]["client01"]["variables"]["datastore_datastores"]
    assert [(store["name"], store["benchmark_file_mib"]) for store in stores] == [
        ("e1-ram", 10240),
        ("e1-raid10", 10240),
    ]
    measured = {"backing-e1-raw", "datastore-e1-ram", "datastore-e1-raid10"}
    assert {layer["name"] for layer in full["layers"] if layer["purpose"] == "scratch"} == measured
    rc, small = shown("embedded", of="e1")
    assert rc == 0 and small["testbed_id"] == "e1-scaled-down"
    assert {(layer["name"], layer["host"]) for layer in small["layers"] if layer["purpose"] == "scratch"} == {
        ("backing-e1-raw", "target01"),
        ("datastore-e1-ram", "hypervisor01"),
        ("datastore-e1-raid10", "hypervisor01"),
    }
    (array,) = small["hosts"]["target01"]["variables"]["raid_arrays"]
    assert [member["serial"] for member in array["members"]] == [f"e1-raid10-{number}" for number in range(1, 7)]
    assert small["hosts"]["guest01"]["stages"] == []


def test_e1_has_a_guest_on_each_datastore_when_an_installation_is_asked_for(shown):
    said = {
        "ram": "192MiB",
        "emulated": {"count": 4, "size": "96MiB"},
        "file": "32MiB",
        "installation": {"disk": "80MiB"},
    }
    rc, result = shown("embedded", "-e", json.dumps({"testbed_e1": said}), of="e1")
    assert rc == 0
    assert {
        (layer["name"], layer["host"], layer["parent"]) for layer in result["layers"] if layer["kind"] == "guest"
    } == {
        ("guest-e1guest-ram", "e1guest-ram", "datastore-e1-ram"),
        ("guest-e1guest-raid10", "e1guest-raid10", "datastore-e1-raid10"),
    }
    guests = result["hosts"]["controller01"]["variables"]["guest_vm_guests"]
    assert [guest["data_disk"]["size_mib"] for guest in guests] == [80, 80]
    assert "benchmark" in result["hosts"]["e1guest-ram"]["stages"] and result["hosts"]["guest01"]["stages"] == []


def test_e1_on_one_host_and_on_esxi(shown):
    said = json.dumps({"testbed_e1": {"members": DISKS}, "vault_esxi_password": "x"})
    rc, alone = shown("lab_local", "-e", said, of="e1")
    assert rc == 0
    assert {(layer["name"], layer["host"]) for layer in alone["layers"] if layer["kind"] == "datastore"} == {
        ("datastore-e1-ram", "target01"),
        ("datastore-e1-raid10", "target01"),
    }
    rc, esxi = shown("lab_linux_esxi", "-e", said, of="e1")
    assert rc == 0
    assert [line.split(" on ", 1)[1] for line in esxi["drawing"] if "VMFS" in line] == ["esxi01: VMFS"] * 2


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "testbed_e1.members is not set: name the disks of the target that the experiment overwrites"),
        ({"members": DISKS, "emulated": {"count": 4, "size": "32MiB"}}, "testbed_e1.members is set beside emulated"),
        (
            {"members": DISKS, "files": "4GiB"},
            "testbed_e1.files is not a known key of this experiment: use chunk, depths",
        ),
        (
            {"members": DISKS, "installation": {}},
            "testbed_e1.installation is set, and this inventory makes no machines",
        ),
        ({"members": DISKS[:3]}, "testbed.disks[2].raid.members is 3 disks, but RAID 10 needs at least 4"),
        (
            {"members": DISKS, "ram": "8GiB"},
            "testbed.disks[1].size is 8 GiB, but 10 GiB are needed on the datastore e1-ram",
        ),
    ],
)
def test_what_is_wrong_with_e1_is_said_before_anything_is_touched(shown, said, sentence):
    rc, result = shown("lab_local", "-e", json.dumps({"testbed_e1": said}), of="e1")
    assert rc == 2 and sentence in " ".join(result["msg"].split())
