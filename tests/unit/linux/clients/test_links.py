# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a folder or a disk is on, by a kernel's files of the test's own making, and what the report says of it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import layers
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import attached, links
from unchanged import refused

# {folder in sysfs: files}; the numbers are those of /dev below.
DISKS = {
    "sda": {"dev": "8:0"},
    "sda/sda1": {"dev": "8:1", "partition": "1"},
    "sdb": {"dev": "8:16"},
    "sdb/sdb1": {"dev": "8:17", "partition": "1"},
    "dm-3": {"dev": "253:3"},
    "loop0": {"dev": "7:0"},
}
SLAVES = {"dm-3": ["sdb/sdb1"]}
TABLE = """21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 253:3 / /data rw - xfs /dev/mapper/vg-data rw
23 21 0:40 / /tank rw - zfs tank rw
24 21 0:41 / /pool rw - btrfs /dev/sdb1 rw
25 21 7:0 / /image rw - ext4 /dev/loop0 rw
"""


@pytest.fixture
def system():
    """A host whose files are in the tables above."""
    files = {f"/sys/block/{name}/{key}": text for name, given in DISKS.items() for key, text in given.items()}
    files |= {"/proc/self/mountinfo": TABLE, "/sys/block/loop0/loop/backing_file": "/data/disk.img"}
    numbers = {f"/sys/dev/block/{given['dev']}": f"/sys/block/{name}" for name, given in DISKS.items()}
    numbers |= {
        f"/sys/block/{upper}/slaves/{n}": f"/sys/block/{lower[n]}" for upper, lower in SLAVES.items() for n in range(1)
    }
    numbers["/sys/fs/btrfs/u1/devices/sdb1"] = "/sys/block/sdb/sdb1"
    folders = {"/sys/fs/btrfs": ["u1"], "/sys/fs/btrfs/u1/devices": ["sdb1"], "/sys/block/dm-3/slaves": [0]}
    nodes = {f"/dev/{name.rpartition('/')[2]}": given["dev"] for name, given in DISKS.items()}

    def stat(path):
        if path.startswith("/gone"):
            raise FileNotFoundError(path)
        major, minor = map(int, nodes.get(path, "0:0").split(":"))
        return SimpleNamespace(st_rdev=os.makedev(major, minor))

    return SimpleNamespace(
        read=files.get,
        resolve=lambda path: numbers.get(path, path),
        names=lambda path: folders.get(path, []),
        stat=stat,
        calls=[],
    )


@pytest.mark.parametrize(
    ("path", "disk", "answer"),
    [
        ("/srv/files", "/dev/sda", "proven"),
        ("/data/vms", "/dev/sdb", "proven"),
        ("/data/vms", "/dev/dm-3", "proven"),
        ("/dev/dm-3", "/dev/sdb", "proven"),
        ("/pool/a", "/dev/sdb", "proven"),
        ("/image/a", "/dev/sdb", "proven"),
        ("/tank/a", "/dev/sdb", "declared"),
        ("/gone", "/dev/sdb", "declared"),
        ("/data/vms", "/gone", "declared"),
    ],
)
def test_what_a_folder_is_on(system, path, disk, answer):
    assert links.link("data", path, "initiator-lun", disk, system) == answer


@pytest.mark.parametrize(("path", "disk"), [("/data/vms", "/dev/sda"), ("/srv", "/dev/sdb"), ("/dev/sda", "/dev/sdb")])
def test_a_wrong_word_is_refused(system, path, disk):
    with refused(system.calls) as caught:
        links.link("data", path, "initiator-lun", disk, system)
    assert caught.value.code == "on_another" and disk in str(caught.value)


def entry(**given):
    plain = {key: option.get("default") for key, option in attached.SPEC["entries"]["options"].items()}
    return {**plain, "layer_kind": "datastore", **given}


def test_a_build_that_is_refused_mounts_nothing(monkeypatch, tmp_path, system):
    """The folder is on this computer's own disk, and the user says that it is on another."""
    monkeypatch.setattr(attached, "located", lambda *_given: "/dev/sdb")
    monkeypatch.setattr(attached, "System", lambda: system)
    monkeypatch.setattr(attached, "Record", lambda *_given: SimpleNamespace(data={}))
    monkeypatch.setattr(attached, "_apply", lambda *given: system.calls.append(given))
    disk = entry(name="lun", kind="device", layer_kind="initiator", naa="6001")
    folder = entry(name="files", kind="path", folder=str(tmp_path), parent="initiator-lun")
    with refused(tmp_path, system.calls) as caught:
        converge(
            attached.Area,
            {"testbed_id": "t", "state": "present", "entries": [folder, disk], "layers": [], "below": []},
            False,
        )
    assert caught.value.code == "on_another"
    below = [{"name": "initiator-far", "path": "/dev/sda"}]
    assert attached.linked([entry(name="a", kind="path", folder="/srv", parent="initiator-far")], below, system) == {
        "datastore-a": "proven"
    }
    assert attached.linked([entry(name="a", kind="nfs", parent="initiator-far")], below, system) == {
        "datastore-a": "declared"
    }
    assert attached.linked([entry(name="a", kind="path", folder="/srv")], below, system) == {}


def layer(name, host, link=None, provider="existing", **identity):
    parent = "initiator-lun" if name != "initiator-lun" else None
    detail = {"provider": provider, **({"link": link} if link else {})}
    return {"name": name, "host": host, "parent": parent, "identity": identity, "detail": detail}


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (layer("guest-a", "vm01", naa="6001405AA"), "proven"),
        (layer("guest-a", "vm01", wwid="naa.6001405aa"), "proven"),
        (layer("guest-a", "vm01", naa="6001405bb"), "declared"),
        (layer("guest-a", "vm01", serial="S7"), "declared"),
        (layer("datastore-a", "kvm01", link="proven"), "proven"),
        (layer("datastore-a", "kvm01", link="declared"), "declared"),
        (layer("datastore-a", "kvm01", provider="ext4"), None),
        (layer("initiator-lun", "kvm01"), None),
    ],
)
def test_disks_of_one_worldwide_name_are_one_disk(given, answer):
    """A serial is made up by a hypervisor, and proves nothing about what is below."""
    lun = layer("initiator-lun", "kvm01", naa="6001405aa", serial="S7")
    assert layers.link({"initiator-lun": lun}, given) == answer
