# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage of others before it is read: only what the build saw is read, whatever else is on it; and nothing that writes passes."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety, reading_guard
from unchanged import broken_off

MIB = 1 << 20
PLACE = "/srv/storlab-existing/lab/nas"
# In use by everybody, which is no reason not to read it.
DISK = {
    "path": "/dev/sdq",
    "resolved": "/dev/sdq",
    "type": "block",
    "size_bytes": 7 * MIB,
    "major_minor": "65:0",
    "serial": "S7",
    "naa": "6001405aa",
    "mapped": False,
    "mapped_uuid": None,
    "mounts": ["/home"],
    "swap": False,
    "partitions": ["sdq1"],
    "partition": False,
    "holders": ["dm-1"],
    "exports": [{"software": "lio", "name": "theirs", "serial": "x"}],
    "openers": [{"pid": 1, "command": "qemu", "writes": True}],
    "signature": {"TYPE": "ext4"},
    "claim": "EBUSY",
}
FILE = {
    "path": f"{PLACE}/vm.img",
    "type": "file",
    "size_bytes": 9 * MIB,
    "inode": 81,
    "mount_point": PLACE,
    "source": "192.0.2.7:/vms",
}


def layer(facts, **other):
    of_disk = {key: DISK[key] for key in ("serial", "naa", "major_minor")}
    of_file = {key: FILE[key] for key in ("mount_point", "source", "inode")}
    identity = of_disk if facts["type"] == "block" else of_file
    known = {"name": "initiator-lun", "host": "client01", "path": facts["path"], "size_bytes": facts["size_bytes"]}
    return {**known, "purpose": "read", "identity": identity, **other}


def codes(facts, **other):
    return [
        reason.code for reason in reading_guard.refusals(facts, layer(DISK if "serial" in facts else FILE, **other))
    ]


def test_what_others_use_is_read():
    assert codes(DISK) == []
    assert codes(FILE) == [] and codes({**FILE, "size_bytes": 11 * MIB}) == []


@pytest.mark.parametrize("facts", [DISK, FILE])
def test_the_guard_for_writing_refuses_all_of_it(facts):
    facts = {"loops": [], "openers": [], "exports": [], "mounts": [], "swap": False, "resolved": facts["path"], **facts}
    facts.setdefault("read_only", False)
    layers = layer(facts)
    for allow in ((), (facts["path"],)):
        reasons = device_safety.refusals(facts, layers, allow)
        assert "purpose_data" in [reason.code for reason in reasons]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({**DISK, "serial": "S8"}, "wrong_serial"),
        ({**DISK, "naa": "6001405bb"}, "wrong_naa"),
        ({**DISK, "size_bytes": 6 * MIB}, "wrong_size"),
        ({**DISK, "type": "missing"}, "device_missing"),
        ({**DISK, "type": "unknown", "claim": "EIO"}, "device_unreadable"),
        ({**DISK, "type": "directory"}, "not_a_device"),
        ({**FILE, "inode": 82}, "file_replaced"),
        ({**FILE, "size_bytes": 8 * MIB}, "wrong_size"),
        ({**FILE, "source": "192.0.2.8:/vms"}, "wrong_mount"),
        ({**FILE, "mount_point": "/srv"}, "wrong_mount"),
        ({**FILE, "type": "block"}, "not_a_device"),
    ],
)
def test_another_thing_under_the_name_is_not_read(facts, code):
    sizes = DISK if "serial" in facts else FILE
    assert codes(facts, size_bytes=sizes["size_bytes"])[0] == code


@pytest.mark.parametrize("purpose", ["scratch", "data", None])
def test_only_layers_for_reading_pass(purpose):
    assert codes(DISK, purpose=purpose) == ["purpose_data"]


def point(**workload):
    return {"point_id": "p", "layer": "l", "workload": {"read_percent": 100, **workload}}


@pytest.mark.parametrize(
    ("workload", "prepare"),
    [
        ({"read_percent": 99}, {}),
        ({"read_percent": 0}, {}),
        ({"verify": {}}, {}),
        ({}, {"precondition_passes": 1}),
        ({}, {"zero_before": "point"}),
    ],
)
def test_a_host_takes_no_point_that_writes_to_it(workload, prepare):
    with broken_off() as caught:
        reading_guard.refuse_writing_points([point(**workload)], {"l": layer(DISK)}, prepare)
    assert caught.value.code == "layer_read_only"
    # On a layer of the testbed's own it is nobody's business.
    reading_guard.refuse_writing_points([point(**workload)], {"l": layer(DISK, purpose="scratch")}, prepare)
    reading_guard.refuse_writing_points([point()], {"l": layer(DISK)}, {"fill": True, "zero_before": "nothing"})


def test_zeros_and_holes_are_counted(tmp_path):
    full, empty, half = (tmp_path / name for name in ("full", "empty", "half"))
    full.write_bytes(os.urandom(4 * MIB))
    with empty.open("wb") as stream:
        stream.truncate(4 * MIB)
    with half.open("wb") as stream:
        stream.write(b"x" * (2 * MIB))
        stream.truncate(4 * MIB)
    seen = {path.name: reading_guard.sampled(str(path), 4 * MIB) for path in (full, empty, half)}
    if "zero_percent" not in seen["full"]:
        pytest.skip("The file system of the tests has no direct I/O.")
    assert (seen["full"]["zero_percent"], seen["empty"]["zero_percent"]) == (0, 100)
    assert 45 <= seen["half"]["zero_percent"] <= 55


def test_what_cannot_be_looked_at_is_not_called_full(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x" * MIB)

    def fails(*_given):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(reading_guard.contents.block_device, "read_direct", fails)
    assert reading_guard.sampled(str(path), MIB) == {}
