# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever else is on a Linux host, however alike its names: never in a plan of removal, never taken for a stray of ours, and none of ours is missed.

Each case makes a folder that stands for the host's /sys, /proc and /run, with 500 random mixtures of what is ours and what is not.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import luns
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import ramdisk
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import ownership
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.leftovers import judge
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch.storage_state import examine
from hypothesis import given, settings
from hypothesis import strategies as st
from places import in_memory
from test_storage_state import gather, host, mounted, session, strays, write

OURS = "id"
CASES = settings(max_examples=500, deadline=None)
# What begins, ends or goes on like ours.
ALIKE = ("id-2", "id2", "id-", "i", "id.bench", "id-bench", "ID", "xid", "id_", "storlab-id", "id-bench-2", "other")
NAMES = st.sampled_from(ALIKE)
LUNS = ("bench", "ds1", "bench-2")


@pytest.fixture(scope="module", autouse=True)
def folders():
    """Hypothesis runs many cases in one test, so each makes a folder of its own."""
    whole = tempfile.mkdtemp(prefix="storlab-bystanders-", dir=in_memory())
    yield whole
    shutil.rmtree(whole)


def roots(folders: str, number: int) -> list[Path]:
    """For one case. The files of the case before go, so that memory has room for them."""
    for path in Path(folders).iterdir():
        shutil.rmtree(path)
    return [Path(tempfile.mkdtemp(dir=folders)) for _root in range(number)]


def root_in(folders: str) -> Path:
    return roots(folders, 1)[0]


def backstore(root: Path, hba: str, name: str, serial: str) -> str:
    path = f"core/{hba}/{name}"
    write(root, f"{path}/wwn/vpd_unit_serial", f"T10 VPD Unit Serial Number: {serial}\n")
    write(root, f"{path}/info", "Status: ACTIVATED\nUDEV PATH: /dev/ram0\n")
    return path


def export(root: Path, target: str, store: str, hba: str, initiator: str) -> None:
    base = f"iscsi/{target}/tpgt_1"
    for attribute in ("enable", *(f"attrib/{key}" for key in ("authentication", *lio.TPG_ATTRIBUTES))):
        write(root, f"{base}/{attribute}", "1\n")
    write(root, f"{base}/np/10.0.0.1:3260/x")
    (root / base / "lun/lun_0").mkdir(parents=True)
    os.symlink(root / "core" / hba / store, root / base / "lun/lun_0" / store)
    write(root, f"{base}/acls/{initiator}/lun_0/write_protect", "0")
    os.symlink(root / base / "lun/lun_0", root / base / "acls" / initiator / "lun_0" / "lun_0")


@CASES
@given(
    own=st.lists(st.sampled_from(LUNS), unique=True, max_size=3),
    foreign=st.lists(
        st.tuples(
            NAMES,
            st.sampled_from(LUNS),
            st.sampled_from(("iblock_0", "iblock_1", "rd_mcp_0", "fileio_2")),
            st.sampled_from(("", "s-bench", "f7")),
        ),
        unique_by=lambda one: (one[0], one[1], one[2]),
        max_size=6,
    ),
    stem=st.sampled_from(("iqn.2026-01.t:", "iqn.2026-01.t:id", "iqn.2026-01.t:id:")),
)
def test_lio(folders, own, foreign, stem):
    root, recorded, mine = root_in(folders), {"core/iblock_0": []}, set()
    target = "iqn.2026-01.t:id:one"
    for name in own:
        path = backstore(root, "iblock_0", f"storlab-{OURS}-{name}", f"s-{name}")
        recorded[path] = [f"s-{name}"]
        mine.add(path)
    if own:
        export(root, target, f"storlab-{OURS}-{own[0]}", "iblock_0", "iqn.a:i")
    others = set()
    for number, (testbed, name, hba, serial) in enumerate(foreign):
        path = f"core/{hba}/storlab-{testbed}-{name}"
        if path in mine or path in others:
            continue
        others.add(backstore(root, hba, f"storlab-{testbed}-{name}", serial))
        export(root, f"{stem}{number}", f"storlab-{testbed}-{name}", hba, "iqn.a:i")
    here = lio.Configfs(str(root))
    current = {**here.stores(recorded), **(here.target(target) if own else {})}
    removed = {step["path"] for step in lio.plan(current, []) if step["op"] in ("rmdir", "unlink")}
    touched = {step["path"] for step in lio.plan(current, [])}
    # Of all that is there, exactly ours.
    assert {path for path in removed if path.count("/") == 2 and path.startswith("core/")} == mine
    assert not any(path == other or path.startswith(f"{other}/") for path in touched for other in others)
    assert {path.split("/")[1] for path in touched if path.startswith("iscsi/")} == ({target} if own else set())
    # An adapter that carries something of somebody else's stays.
    assert ("core/iblock_0" in removed) == (bool(own) and not any(path.startswith("core/iblock_0/") for path in others))


def test_a_recorded_backstore_with_another_serial_is_somebody_elses(folders):
    root = root_in(folders)
    path = backstore(root, "iblock_0", "storlab-id-bench", "another")
    current = lio.Configfs(str(root)).stores({"core/iblock_0": [], path: ["ours"]})
    assert lio.plan(current, []) == []


THINGS = ("store", "target", "session", "mount", "disk", "loop", "array", "file")


def put(root: Path, thing: str, testbed: str, number: int, images: str = "/srv") -> str:
    """Put one thing there, and return what a line of the state says of it."""
    if thing == "store":
        write(
            root,
            f"sys/kernel/config/target/core/iblock_{number}/storlab-{testbed}-bench{number}/udev_path",
            "/dev/ram0",
        )
        return f"LIO backstore storlab-{testbed}-bench{number}"
    if thing == "target":
        write(root, f"sys/kernel/config/target/iscsi/iqn.2026-01.t:{testbed}:n{number}/param")
        return f"LIO target iqn.2026-01.t:{testbed}:n{number}"
    if thing == "session":
        session(root, number, f"iqn.2026-01.t:{testbed}", f"storlab-{testbed}")
        return f"iqn.2026-01.t:{testbed} at 10.0.0.9:3261, session {number}"
    if thing == "mount":
        mounted(root, f"/dev/sdx{number}", f"/srv/storlab/{testbed}-{number}")
        return f"/dev/sdx{number} on /srv/storlab/{testbed}-{number} type ext4"
    if thing == "disk":
        write(root, f"sys/block/ram{number}/size", "2048\n")
        return f"ram{number} 1048576 bytes"
    if thing == "loop":
        write(root, f"sys/block/loop{number}/size", "4096\n")
        write(root, f"sys/block/loop{number}/loop/backing_file", f"{images}/{testbed}/a.img\n")
        return f"loop{number} 2097152 bytes on {images}/{testbed}/a.img"
    if thing == "array":
        write(root, f"sys/block/md{number}/size", "8192\n")
        return f"md{number} 4194304 bytes"
    write(root, f"etc/tgt/conf.d/{testbed}-{number}", "x")
    return f"/etc/tgt/conf.d/{testbed}-{number} sha256"


def record(root: Path, thing: str, testbed: str, number: int) -> None:
    """The records of the testbed that made it."""
    base = f"run/storlab/{testbed}"

    def add(area: str, key: str, name: str, value) -> None:
        path = root / base / f"{area}.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if isinstance(value, list) and name == "":
            known[key] = [*known.get(key, []), *value]
        else:
            known.setdefault(key, {})[name] = value
        write(root, f"{base}/{area}.json", json.dumps(known))

    if thing == "store":
        add("lio_target", "core", f"core/iblock_{number}/storlab-{testbed}-bench{number}", ["7"])
    elif thing == "target":
        add("lio_target", "targets", "", [f"iqn.2026-01.t:{testbed}:n{number}"])
    elif thing == "session":
        write(root, f"{base}/iscsi_session.json", "{}")
    elif thing == "mount":
        add("datastore", "datastores", f"d{number}", {"mount_point": f"/srv/storlab/{testbed}-{number}"})
    elif thing == "disk":
        add("ramdisk", "disks", f"r{number}", {"path": f"/dev/ram{number}", "whole": f"/dev/ram{number}"})
    elif thing == "array":
        add("raid", "arrays", f"a{number}", {"uuid": f"0:0:0:{number}", "device": f"/dev/md{number}", "members": []})


SOME = st.lists(st.tuples(st.sampled_from(THINGS), NAMES, st.booleans()), max_size=7)
# What each kind of thing is called in a state, and the area of the records that may have taken it from somebody else.
TAKEN_BY = {"targets": "lio_target", "iscsi sessions": "iscsi_session", "raid": "raid"}


@CASES
@given(
    there=SOME,
    came=SOME,
    left=st.lists(st.sampled_from([thing for thing in THINGS if thing != "file"]), max_size=5),
    gone_too=st.sets(st.sampled_from([thing for thing in THINGS if thing != "file"])),
)
def test_strays(folders, there, came, left, gone_too):
    """there: foreign before the build; those with True go meanwhile. came: foreign while ours was up, with True named by the records of a testbed.
    left: ours that the teardown missed. gone_too: kinds of ours that it did not miss."""
    earlier, root = roots(folders, 2)
    for place in (earlier, root):
        host(place)
    for number, (thing, testbed, goes) in enumerate(there):
        put(earlier, thing, testbed, number)
        if not goes:
            put(root, thing, testbed, number)
    before = gather(str(earlier), testbed_id=OURS)
    for number, (thing, testbed, recorded) in enumerate(came, start=30):
        put(root, thing, testbed, number)
        if recorded:
            record(root, thing, testbed, number)
    expected = sorted(
        put(root, thing, OURS, number, images="/run/storlab") for number, thing in enumerate(left, start=60)
    )
    for number, thing in enumerate([*left, *sorted(gone_too)], start=60):
        record(root, thing, OURS, number)
    records = {path.stem: json.loads(path.read_text()) for path in (root / f"run/storlab/{OURS}").glob("*.json")}
    shutil.rmtree(root / f"run/storlab/{OURS}", ignore_errors=True)
    made = {**ownership.names_of(records), "areas": list(records)}
    after = examine(str(root), testbed_id=OURS, made=made)
    verdict = judge(before, after.lines, after.ours, made)
    ends = (" (is left of the testbed)", " (is gone)")
    lines = sorted(line.partition(": ")[2].removesuffix(ends[0]) for line in verdict.strays if line.endswith(ends[0]))
    assert lines == expected
    # What was there and may have been taken is a stray; whatever else differs is told.
    gone = [line for line in verdict.strays if line.endswith(ends[1])]
    assert all(TAKEN_BY.get(line.partition(": ")[0]) in records for line in gone)
    assert all(TAKEN_BY.get(line.partition(": ")[0]) not in records for line in verdict.notes if line.endswith(ends[1]))
    everything = [
        line.replace("was not there before", "is left of the testbed") for line in strays(before, after.lines)
    ]
    judged = [line.replace("was not there before", "is left of the testbed") for line in verdict.strays + verdict.notes]
    assert sorted(judged) == sorted(everything)


PORTALS = st.sampled_from(("10.0.0.1", "10.0.0.11", "10.0.0.1."))
IQNS = st.sampled_from(("iqn.t:id", "iqn.t:id2", "iqn.t:id:one", "iqn.t:i", "iqn.t:id-2"))
TARGETS = st.lists(st.tuples(IQNS, PORTALS, st.sampled_from((3260, 32600))), unique=True, max_size=6)
INTERFACES = st.sampled_from(("default", "storlab-id-2", "storlab-id2", "storlab-i"))


def as_target(one: tuple) -> dict:
    return {"iqn": one[0], "portal": {"address": one[1], "port": one[2]}}


@CASES
@given(records=TARGETS, wanted=TARGETS)
def test_recorded_targets_that_are_no_longer_wanted(records, wanted):
    found = luns.unwanted([as_target(one) for one in records], [as_target(one) for one in wanted])
    assert found == [as_target(one) for one in records if one not in wanted]


@CASES
@given(ours=TARGETS, foreign=st.lists(st.tuples(IQNS, PORTALS, INTERFACES), max_size=6))
def test_sessions_of_open_iscsi(folders, ours, foreign):
    """Sessions of others, to the very same target too, are none of ours: they have another interface."""
    root = root_in(folders)
    for number, one in enumerate(ours):
        session(root, number, one[0], "storlab-id", one[1], str(one[2]))
    for number, one in enumerate(foreign, start=50):
        session(root, number, one[0], one[2], one[1], "3260")
    iscsi = open_iscsi.OpenIscsi.__new__(open_iscsi.OpenIscsi)
    iscsi.iface = "storlab-id"
    read = open_iscsi.read_text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_iscsi, "SESSIONS", f"{root}/sys/class/iscsi_session")
        patch.setattr(
            open_iscsi,
            "read_text",
            lambda path, **rest: read(path if path.startswith(str(root)) else f"{root}{path}", **rest),
        )
        found = {one: iscsi.session(as_target(one)) for one in ours}
        others = {(one[0], one[1], 3260) for one in foreign} - set(ours)
        assert not any(iscsi.session(as_target(one)) for one in others)
        assert len(iscsi.sessions()) == len(ours)
    assert [int(one["sid"]) for one in found.values()] == list(range(len(ours)))


@CASES
@given(
    ours=st.dictionaries(st.sampled_from(("bench", "ds1", "bench-2")), st.integers(0, 3), max_size=3),
    gone=st.sets(st.integers(0, 3)),
    foreign=st.sets(st.integers(4, 9)),
)
def test_ram_disks(folders, ours, gone, foreign):
    """Only what the record names, and only while it is what the record says."""
    root = root_in(folders)
    disks = ramdisk.RamDisks.__new__(ramdisk.RamDisks)
    disks.record = Record("id", "ramdisk", str(root / "run"))
    disks.record.data = {
        "provider": "zram",
        "order": list(ours),
        "disks": {
            name: {"provider": "zram", "path": f"/dev/zram{number}", "size_bytes": (number + 1) << 20}
            for name, number in ours.items()
        },
    }
    sizes = {f"zram{number}": (number + 1) << 20 for number in {*ours.values(), *foreign} - gone}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_device, "size_bytes", lambda name: sizes.get(name, 0))
        patch.setattr(ramdisk.os.path, "exists", lambda path: os.path.basename(path) in sizes)
        steps = ramdisk.plan(disks.current(), {"provider": "zram", "disks": {}})
    assert [(step["op"], step["disk"]) for step in steps] == [
        ("remove", name) for name, number in ours.items() if number not in gone
    ]
