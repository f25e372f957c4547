# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datastores: superblocks of real file systems, the plan, and refusals."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import filesystem_uuid
from ansible_collections.storlab.testbed.plugins.module_utils.core.layers import parts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore, datastore_plan, filesystem

MIB = 1 << 20
UUID = filesystem_uuid("tb", "ds1")
WANTED = {
    "name": "ds1",
    "filesystem": "ext4",
    "uuid": UUID,
    "mount_point": "/srv/storlab/ds1",
    "mount_options": "noatime",
    "benchmark_bytes": 7 * MIB,
    "generation": "g2",
}
OURS = {"filesystem": "ext4", "uuid": UUID, "label": "x"}
BLANK = {"filesystem": None, "uuid": None, "label": ""}
MOUNT = {"numbers": "8:16", "mount_point": "/srv/storlab/ds1"}


def current(**change):
    """A datastore as it should be."""
    return {
        "superblock": OURS,
        "mounted": MOUNT,
        "numbers": "8:16",
        "file_bytes": 7 * MIB,
        "options": "noatime",
        "generation": "g2",
        **change,
    }


def ops(**change):
    return [step["op"] for step in datastore_plan.plan(current(**change), WANTED)]


def test_what_is_there_needs_no_step():
    assert ops() == []


def test_a_blank_device_is_formatted_mounted_and_filled():
    assert ops(superblock=BLANK, mounted=None, file_bytes=None, options=None) == [
        "make_filesystem",
        "mount",
        "write_benchmark_file",
    ]


def test_our_file_system_is_mounted_again_not_made_again():
    assert ops(mounted=None, file_bytes=None) == ["mount", "write_benchmark_file"]


def test_a_replaced_device_is_detached_and_built_anew():
    assert ops(superblock=BLANK) == ["detach", "make_filesystem", "mount", "write_benchmark_file"]
    # The LUN came back under another name with its contents.
    assert ops(numbers="8:32") == ["detach", "mount", "write_benchmark_file"]


def test_a_superblock_that_was_written_onto_a_new_disk_proves_nothing():
    assert ops(generation="g1") == ["detach", "make_filesystem", "mount", "write_benchmark_file"]
    assert ops(generation="g1", mounted=None, file_bytes=None) == ["make_filesystem", "mount", "write_benchmark_file"]
    assert ops(generation=None) == []


def test_a_file_system_whose_making_was_cut_off_is_made_again():
    cut = {"filesystem": "xfs", "uuid": UUID, "label": "x", "unfinished": True}
    (made, _mount, _file) = datastore_plan.plan(
        current(superblock=cut, mounted=None, file_bytes=None), {**WANTED, "filesystem": "xfs"}
    )
    assert (made["op"], made["was"]) == ("make_filesystem", "begun and cut off")
    # That of somebody else is what it is, and the guard refuses it before it is formatted.
    theirs = {**cut, "uuid": "12345678-0000-0000-0000-000000000007"}
    assert datastore_plan.plan(current(superblock=theirs, mounted=None), WANTED)[0]["was"] == "xfs"


def test_drift():
    assert ops(options="relatime") == ["remount"]
    assert ops(file_bytes=3 * MIB) == ["write_benchmark_file"]


def test_another_kind_of_file_system_of_ours_is_no_reason_to_format():
    with pytest.raises(Failure) as caught:
        ops(superblock={**OURS, "filesystem": "xfs"})
    assert caught.value.code == "wrong_filesystem"


def test_something_else_is_not_blank():
    assert filesystem.parse_superblock(b"\0" * 600 + b"somebody's" + b"\0" * 4000)["filesystem"] == "unknown"


def test_only_our_own_entries_are_ours():
    ours = ["lost+found", "storlab-benchmark.dat", "storlab-benchmark.12.dat", ".storlab-benchmark.dat.new"]
    others = ["a.txt", "guest.img", "my-storlab-benchmark.dat", "storlab-benchmark.dat.old", "storlab-benchmark.x.dat"]
    assert datastore_plan.foreign_entries([*ours, *reversed(others)]) == others


def entry(**change):
    return {
        "name": "ds1",
        "layer": "initiator-ds1",
        "device": None,
        "filesystem": "ext4",
        "mount_point": "/srv/storlab/ds1",
        "mount_options": "noatime",
        "benchmark_file_mib": 7,
        "benchmark_files": 1,
        **change,
    }


def resolve(*entries, purpose="data"):
    layer = {"name": "initiator-ds1", "parent": None, "path": "/dev/sdq", "purpose": purpose}
    return datastore_plan.resolve(
        {
            "testbed_id": "tb",
            "layers": {"initiator-ds1": layer},
            "datastores": list(entries),
        }
    )


def test_layers_and_labels():
    found = resolve(entry())[0]
    assert found["device"] == "/dev/sdq" and found["uuid"] == UUID and len(found["label"]) == 12
    layer = datastore.layers_of([found])[0]
    assert (layer["name"], layer["path"], layer["parent"], layer["size_bytes"]) == (
        "datastore-ds1",
        "/srv/storlab/ds1/storlab-benchmark.dat",
        "initiator-ds1",
        7 * MIB,
    )
    assert layer["identity"]["mount_point"] == "/srv/storlab/ds1" and layer["identity"]["uuid"] == UUID
    assert "files" not in layer["detail"]


def test_a_datastore_without_a_benchmark_file_is_a_layer_that_is_not_measured():
    """A guest's disk on it names it as its parent: without that layer the chain would end at the guest."""
    layer = datastore.layers_of(resolve(entry(benchmark_file_mib=0, benchmark_files=3)))[0]
    assert (layer["name"], layer["kind"], layer["parent"]) == ("datastore-ds1", "datastore", "initiator-ds1")
    assert (layer["path"], layer["purpose"], layer["size_bytes"]) == (None, "data", None)
    assert layer["identity"]["mount_point"] == "/srv/storlab/ds1" and "files" not in layer["detail"]


def test_a_layer_of_several_files_names_them_all():
    layer = datastore.layers_of(resolve(entry(benchmark_files=3)))[0]
    files = [f"/srv/storlab/ds1/storlab-benchmark.{number}.dat" for number in (0, 1, 2)]
    assert (layer["path"], layer["size_bytes"], layer["detail"]["files"]) == (files[0], 7 * MIB, files)
    assert [(part["path"], part["name"]) for part in parts(layer)] == [(path, "datastore-ds1") for path in files]


def over_nfs(provider="nfs", **change):
    layer = {
        "name": "target-share",
        "parent": "datastore-ds1",
        "path": None,
        "purpose": "data",
        "identity": {"uuid": UUID, "export": "/srv/storlab/ds1"},
        "detail": {"provider": provider},
    }
    below = {"name": "datastore-ds1", "parent": None, "detail": {"generation": "g7"}}
    described = entry(
        name="share",
        layer="target-share",
        filesystem="nfs",
        server="10.0.5.10",
        export="/srv/storlab/ds1",
        nfs_version="4.2",
        mount_point="/mnt/share",
        **change,
    )
    layers = {"target-share": layer, "datastore-ds1": below}
    return datastore_plan.resolve({"testbed_id": "tb", "layers": layers, "datastores": [described]})


def test_a_datastore_over_nfs_is_the_file_system_of_the_export():
    found = over_nfs(benchmark_files=2)
    assert (found[0]["uuid"], found[0]["generation"], found[0]["device"]) == (UUID, "g7", None)
    layer = datastore.layers_of(found)[0]
    assert (layer["name"], layer["parent"], layer["path"]) == (
        "datastore-share",
        "target-share",
        "/mnt/share/storlab-benchmark.0.dat",
    )
    assert layer["identity"]["uuid"] == UUID and layer["identity"]["mount_point"] == "/mnt/share"
    assert layer["detail"]["provider"] == "nfs" and layer["detail"]["mount_options"] == "vers=4.2,proto=tcp,noatime"
    assert layer["detail"]["server"] == "10.0.5.10" and "device" not in layer["detail"]


def test_a_check_of_a_first_build_knows_no_export_yet():
    share = {"name": "share", "layer": "target-share", "filesystem": "nfs", "server": "10.0.5.10", "export": "/srv/a"}
    share |= {"nfs_version": "4.2", "mount_point": "/mnt/share"}
    asked = {"testbed_id": "tb", "state": "present", "layers": {}, "discard_contents": False}
    asked["datastores"] = [entry(**share)]
    made = converge(datastore.Area, asked, check_mode=True)
    assert [step["op"] for step in made["steps"]] == ["mount"] and made["layers"][0]["parent"] == "target-share"
    with pytest.raises(Failure) as caught:
        converge(datastore.Area, asked, check_mode=False)
    assert caught.value.code == "layer_missing"


@pytest.mark.parametrize("path", [None, "/dev/storlab-not-there"])
def test_a_check_of_a_first_build_knows_no_device_yet(path):
    """Of a RAM disk no path is known; that of an array or a cache is foretold."""
    layer = {"name": "backing-ds1", "kind": "backing", "path": path, "purpose": "data", "identity": {}, "parent": None}
    asked = {"testbed_id": "tb", "state": "present", "layers": {"backing-ds1": layer}, "discard_contents": False}
    asked["datastores"] = [entry(name="ds1", layer="backing-ds1", mount_point="/srv/storlab/ds1")]
    made = converge(datastore.Area, asked, check_mode=True)
    assert [step["op"] for step in made["steps"]][:2] == ["make_filesystem", "mount"]
    if path:
        with pytest.raises(Failure) as caught:
            converge(datastore.Area, asked, check_mode=False)
        assert caught.value.code == "device_missing"
        # What the user named has to be there in a check as well.
        asked["datastores"] = [entry(name="ds1", layer=None, device=path, mount_point="/srv/storlab/ds1")]
        with pytest.raises(Failure) as caught:
            converge(datastore.Area, asked, check_mode=True)
        assert caught.value.code == "device_missing"


def test_only_an_export_is_mounted_over_nfs():
    with pytest.raises(Failure) as caught:
        over_nfs(provider="lio")
    assert caught.value.code == "bad_value" and "target-share" in str(caught.value)


@pytest.mark.parametrize("fault", ["fsid", "files"])
def test_what_was_mounted_over_nfs_is_looked_at(monkeypatch, fault):
    """The kernel mounts whatever the server shows under that path."""
    wanted = over_nfs()[0]
    stores = datastore.Datastores("tb")
    digits = UUID.replace("-", "")
    shown = f"{digits[:16].lstrip('0')}:{digits[16:].lstrip('0')}"
    monkeypatch.setattr(datastore.nfs_volumes, "fsid_of", lambda _mount: "1:2" if fault == "fsid" else shown)
    monkeypatch.setattr(datastore, "_file_bytes", lambda _wanted: 3 * MIB if fault == "files" else 7 * MIB)
    with pytest.raises(Failure) as caught:
        stores.refuse_other(wanted)
    assert caught.value.code == {"fsid": "wrong_uuid", "files": "benchmark_file_missing"}[fault]
    monkeypatch.setattr(datastore.nfs_volumes, "fsid_of", lambda _mount: shown)
    monkeypatch.setattr(datastore, "_file_bytes", lambda _wanted: 7 * MIB)
    stores.refuse_other(wanted)


def written(folder, count, mib, name="ds1"):
    """What lies in the folder after the benchmark files were asked for: {name: bytes}"""
    wanted = {"name": name, "mount_point": str(folder), "benchmark_bytes": mib * MIB, "benchmark_files": count}
    stores = object.__new__(datastore.Datastores)
    stores._write_benchmark_file(wanted)
    assert datastore._file_bytes(wanted) == mib * MIB
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_the_benchmark_files_are_just_those_that_are_wanted(tmp_path):
    (tmp_path / "kept.txt").write_bytes(b"x")
    assert written(tmp_path, 1, 2) == {"kept.txt": 1, "storlab-benchmark.dat": 2 * MIB}
    several = {f"storlab-benchmark.{number}.dat": MIB for number in range(3)}
    assert written(tmp_path, 3, 1) == {"kept.txt": 1, **several}
    # No block of one file is that of another, for storage that would recognise equal ones; what is there already stays.
    blocks = {name: (tmp_path / name).read_bytes() for name in several}
    assert len({content[:4096] for content in blocks.values()}) == 3
    (tmp_path / "storlab-benchmark.1.dat").unlink()
    assert written(tmp_path, 3, 1) == {"kept.txt": 1, **several}
    assert (tmp_path / "storlab-benchmark.2.dat").read_bytes() == blocks["storlab-benchmark.2.dat"]
    assert written(tmp_path, 1, 1) == {"kept.txt": 1, "storlab-benchmark.dat": MIB}


@pytest.mark.parametrize("change", ["missing", "more", "shorter"])
def test_files_that_are_not_just_those_that_are_wanted_are_written_again(tmp_path, change):
    wanted = {"mount_point": str(tmp_path), "benchmark_files": 2}
    for number in range(2):
        (tmp_path / f"storlab-benchmark.{number}.dat").write_bytes(b"x" * 9)
    assert datastore._file_bytes(wanted) == 9
    if change == "missing":
        (tmp_path / "storlab-benchmark.1.dat").unlink()
    else:
        number = {"more": 2, "shorter": 1}[change]
        (tmp_path / f"storlab-benchmark.{number}.dat").write_bytes(b"x" * 8)
    assert datastore._file_bytes(wanted) is None


@pytest.mark.parametrize(
    "change",
    [
        {"mount_point": "/srv"},
        {"mount_point": "/srv/../etc/x"},
        {"layer": None},
        {"device": "/dev/sdq"},
        {"benchmark_file_mib": -1},
        {"benchmark_files": 0},
        {"benchmark_files": 257},
        {"name": "a/b"},
    ],
)
def test_bad_datastores(change):
    with pytest.raises(Failure) as caught:
        resolve(entry(**change))
    assert caught.value.code == "bad_value"


def test_a_layer_that_raw_benchmarks_overwrite_carries_no_datastore():
    with pytest.raises(Failure, match="datastore_datastores ds1 layer is 'initiator-ds1'") as caught:
        resolve(entry(), purpose="scratch")
    assert caught.value.code == "bad_value"


def test_two_on_one_mount_point_and_a_layer_nobody_made():
    with pytest.raises(Failure, match="another name and mount point"):
        resolve(entry(), entry(name="ds2"))
    with pytest.raises(Failure) as caught:
        resolve(entry(layer="initiator-x"))
    assert caught.value.code == "layer_missing"
