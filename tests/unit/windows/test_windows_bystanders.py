# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets, virtual disks, files, sessions, disks and volumes of others on a Windows host, however alike their names and marks, are in no plan of removal;
all of ours are."""

from __future__ import annotations

import copy

from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import ntfs, ramdisk, session, target
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows.host import (
    INITIATOR_SERVICE,
    TARGET_SERVICE,
    stamp,
)
from hypothesis import given, settings
from hypothesis import strategies as st

CASES = settings(max_examples=500, deadline=None)
NAMES = st.sampled_from(
    ("storlab-id-one", "storlab-id-2-one", "storlab-id2-one", "storlab-id", "one", "STORLAB-ID-ONE")
)
# Marks that are not ours, one that begins like ours and none at all among them.
FOREIGN = st.sampled_from(
    (
        "",
        "storlab testbed id-2",
        "storlab testbed id2: bench",
        "storlab testbed id-2: bench",
        "storlab testbed i",
        "storlab testbed ID",
        "x storlab testbed id",
    )
)
OURS = st.sampled_from((stamp("id"), stamp("id", "bench")))
SERVICES = [{"name": name, "state": "Running", "start_mode": "Auto"} for name in (TARGET_SERVICE, INITIATOR_SERVICE)]


@CASES
@given(
    ours=st.lists(NAMES, unique=True, max_size=3),
    foreign=st.lists(st.tuples(NAMES, FOREIGN), max_size=6),
    marked=st.booleans(),
)
def test_targets(ours, foreign, marked):
    """A target of ours that was just made has no mark yet, but the record has its name."""
    state = {"services": SERVICES, "portals": [], "virtual_disks": [], "files": [], "targets": []}
    for number, name in enumerate(ours):
        state["targets"].append(
            {
                "name": name,
                "iqn": f"iqn.t:{number}",
                "description": stamp("id") if marked else "",
                "luns": [{"lun": 0, "path": f"ramdisk:{name}"}],
                "sessions": [],
            }
        )
    others = [one for one in foreign if one[0] not in ours]
    for name, description in others:
        state["targets"].append(
            {
                "name": name,
                "iqn": "iqn.t:0",
                "description": description,
                "luns": [{"lun": 0, "path": "x"}],
                "sessions": ["iqn.somebody"],
            }
        )
    steps = target.absent_plan(state, {"targets": ours}, "id")
    assert [step["target"] for step in steps if step["op"] == "remove_target"] == ours
    assert {step["target"].partition(" LUN ")[0] for step in steps} == set(ours)


@CASES
@given(
    ours=st.lists(st.tuples(st.sampled_from(("a", "b", "ab")), OURS), unique_by=lambda one: one[0], max_size=3),
    foreign=st.lists(
        st.tuples(st.sampled_from(("a", "a2", "id", "b-2")), FOREIGN), unique_by=lambda one: one[0], max_size=4
    ),
    recorded=st.sets(st.sampled_from(("a", "a2", "id"))),
)
def test_virtual_disks(ours, foreign, recorded):
    """What is in the record and carries another's mark is somebody else's, who took the name; files are ours by the record alone."""
    own, theirs = (
        [(f"{ramdisk.PREFIX}{kind}-{name}", mark) for name, mark in some]
        for kind, some in (("own", ours), ("their", foreign))
    )
    files = [(f"D:\\{name}.vhdx", mark) for name, mark in foreign if mark]
    disks = [{"path": path, "description": mark, "size_bytes": 1 << 30} for path, mark in [*own, *theirs, *files]]
    state = {
        "services": SERVICES,
        "portals": [],
        "targets": [],
        "disks": [],
        "virtual_disks": disks,
        "files": ["D:\\x.vhdx", *(path for path, _mark in files)],
    }
    assert [step["target"] for step in ramdisk.absent_plan(state, {}, "id")] == [path for path, _mark in own]
    taken = [f"D:\\{name}.vhdx" for name in sorted(recorded)]
    marked = {path for path, _mark in files}
    steps = target.absent_plan(state, {"files": taken}, "id")
    assert not {step["target"] for step in steps} & marked


@CASES
@given(
    ours=st.lists(st.sampled_from(("iqn.t:id", "iqn.t:id:one")), unique=True, max_size=2),
    foreign=st.lists(
        st.sampled_from(("iqn.t:id", "iqn.t:id:one", "iqn.t:id2", "iqn.t:id-2", "iqn.t:i", "IQN.T:ID")), max_size=5
    ),
    was_stopped=st.booleans(),
    lost=st.booleans(),
)
def test_sessions(ours, foreign, was_stopped, lost):
    """lost: our own are gone, and only those of others are there, with the same targets, too."""
    own = {iqn: f"ffffc18a7e8d1010-400001370000{number:04x}" for number, iqn in enumerate(ours)}
    others = [(iqn, f"ffffc18a7e8d1010-40000137000000{number:02x}5") for number, iqn in enumerate(foreign)]
    present = [*others, *([] if lost else own.items())]
    sessions = [{"iqn": iqn, "id": known, "disks": []} for iqn, known in present]
    state = {"services": SERVICES, "disks": [], "initiator": {"sessions": sessions, "portals": []}}
    memory = {
        "sessions": ours,
        "session_ids": own,
        "portals": [],
        "service_was": "Stopped" if was_stopped else "Running",
    }
    steps = session.absent_plan(state, memory)
    ended = [step["parameters"] for step in steps if step["op"] == "logout"]
    assert ended == ([] if lost else [{"Iqn": iqn, "Id": known} for iqn, known in own.items()])
    # A service that others use goes on.
    assert any(step["script"] == "service_stop" for step in steps) == (was_stopped and not foreign)


LABELS = st.sampled_from(
    (
        "storlab-id-ds1",
        "storlab-id-ds1",
        "storlab-id-ds1",
        "storlab-id-ds10",
        "STORLAB-ID-DS1",
        "storlab-id2-ds1",
        "",
        "Data",
    )
)
PARTITIONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("Basic", "Reserved")),
        "letter": st.booleans(),
        "label": LABELS,
        "filesystem": st.sampled_from(("NTFS", "")),
        "entries": st.sets(
            st.sampled_from(
                ("storlab-benchmark.dat", "System Volume Information", "notes.txt", "storlab-benchmark.dat.old")
            )
        ),
    }
)


@CASES
@given(
    own=st.tuples(
        st.just("60003FF4AA"), st.sampled_from(("GPT", "RAW")), st.none(), st.lists(PARTITIONS, min_size=1, max_size=3)
    ),
    foreign=st.lists(
        st.tuples(
            st.sampled_from(("60003FF4AA0", "60003FF4A", "60003ff4aa", "")),
            st.sampled_from(("RAW", "GPT", "MBR")),
            st.sampled_from((None, "boot", "system", "clustered", "page_file")),
            st.lists(PARTITIONS, max_size=3),
        ),
        max_size=3,
        unique_by=lambda disk: disk[0],
    ),
    first=st.booleans(),
    kind=st.sampled_from((None, None, None, "boot", "clustered")),
    built=st.sampled_from((True, True, False)),
    discard=st.booleans(),
)
def test_datastores(own, foreign, first, kind, built, discard):
    """The disk that was made to carry one, by its whole unique id, and only while it carries that one alone."""
    own = (*own[:2], kind, own[3])
    there = [own, *foreign] if first else [*foreign, own]
    letters, disks, volumes = iter("DEFGHIJKLMNOPQRSTUVWXYZ"), [], []
    for number, (unique_id, style, kind, parts) in enumerate(there):
        partitions = []
        for place, part in enumerate(parts if style != "RAW" else [], start=1):
            letter = next(letters) if part["letter"] and part["type"] == "Basic" else ""
            partitions.append(
                {"number": place, "type": part["type"], "size_bytes": 1 << 20, "letter": letter, "folders": []}
            )
            if letter:
                entries = [{"name": name, "size_bytes": 1} for name in sorted(part["entries"])]
                volumes.append(
                    {
                        "letter": letter,
                        "label": part["label"],
                        "filesystem": part["filesystem"],
                        "size_bytes": 1 << 20,
                        "entries": entries,
                    }
                )
        flags = {name: name == kind for name in ("boot", "system", "clustered", "page_file")}
        disks.append(
            {
                "number": number,
                "unique_id": unique_id,
                "style": style,
                "size_bytes": 64 << 20,
                "offline": False,
                "offline_reason": "",
                "read_only": False,
                "partitions": partitions,
                **flags,
            }
        )
    state = {"disks": disks, "volumes": volumes}
    memory = {"disks": {"ds1": "60003FF4AA"}, "labels": {"ds1": "storlab-id-ds1"}} if built else {}
    before = copy.deepcopy(state)
    mine = [
        (number, disk) for number, disk in enumerate(there) if disk[0] == "60003FF4AA" and disk[1] != "RAW" and built
    ]
    basic = [part for _number, disk in mine for part in disk[3] if part["type"] == "Basic"]
    seen = [part for part in basic if part["letter"]]
    # What a cut build leaves has no label, and no files.
    labelled = all(
        part["label"] == "storlab-id-ds1"
        or not (part["label"] or part["entries"] & {"notes.txt", "storlab-benchmark.dat.old"})
        for part in seen
        if part["filesystem"]
    )
    empty = not any(part["entries"] & {"notes.txt", "storlab-benchmark.dat.old"} for part in seen)
    allowed = labelled and not any(disk[2] for _number, disk in mine) and (discard or (empty and len(basic) <= 1))
    try:
        steps = ntfs.absent_plan(state, memory, discard)
    except Failure as failure:
        assert mine and not allowed
        assert failure.code in (
            "datastore_foreign",
            "datastore_not_empty",
            "disk_boot",
            "disk_system",
            "disk_clustered",
            "disk_page_file",
        )
        steps = []
    else:
        assert allowed or not mine
        assert [step["parameters"] for step in steps] == [{"Number": number} for number, _disk in mine]
    assert state == before
