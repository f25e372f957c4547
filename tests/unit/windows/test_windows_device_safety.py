# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device guard of Windows hosts, over states written by hand. Not against Windows."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import device_safety as guard
from hypothesis import given
from hypothesis import strategies as st
from unchanged import refused

SIZE, FILE_SIZE = 200 << 20, 60 << 20
DRIVE = "\\\\.\\PhysicalDrive3"
FILE = "T:\\storlab-benchmark.dat"
LABEL = "storlab-a30d0284"  # of datastore ds1 in testbed t1, as the datastore role has made it
FINAL = {
    "device_missing",
    "not_a_device",
    "disk_boot",
    "disk_system",
    "disk_page_file",
    "disk_clustered",
    "device_mounted",
    "device_exported",
    "wrong_stamp",
    "wrong_size",
    "purpose_data",
}
LAYER = {
    "name": "initiator-bench",
    "kind": "initiator",
    "host": "win01",
    "path": DRIVE,
    "parent": "target-bench",
    "purpose": "scratch",
    "size_bytes": SIZE,
    "identity": {"unique_id": "6000-BENCH", "serial": "5A1E-1D04"},
}
FILE_LAYER = {
    "name": "datastore-ds1",
    "kind": "datastore",
    "host": "win01",
    "path": FILE,
    "parent": "initiator-ds1",
    "purpose": "scratch",
    "size_bytes": FILE_SIZE,
    "identity": {"mount_point": "T:\\", "stamp": LABEL},
}
PARENT = {"name": "initiator-ds1", "host": "win01", "identity": {"unique_id": "6000-DS1"}}


def part(number: int, kind: str = "Basic", letter: str = "", folders=()) -> dict:
    return {"number": number, "type": kind, "size_bytes": 1 << 20, "letter": letter, "folders": list(folders)}


def disk(number: int, unique_id: str, size_bytes: int, parts=(), style: str = "GPT", **changes) -> dict:
    return {
        "number": number,
        "lun": number,
        "name": "Disk",
        "serial": f"S{number}",
        "unique_id": unique_id,
        "size_bytes": size_bytes,
        "bus": "iSCSI",
        "style": style,
        "offline": False,
        "offline_reason": "",
        "read_only": False,
        "boot": False,
        "system": False,
        "clustered": False,
        "page_file": False,
        "partitions": list(parts),
        **changes,
    }


class Windows:
    """A host with its system on disk 0, a blank test disk 3 and a datastore on disk 5."""

    def __init__(self):
        self.layer, self.boot, self.session = LAYER, "2026-11-21T06:00:00Z", "ffff-1"
        self.disks = {
            0: disk(
                0,
                "SYS",
                64 << 30,
                [part(1, "System"), part(2, "Reserved"), part(3, letter="C")],
                boot=True,
                system=True,
                page_file=True,
            ),
            3: disk(3, "6000-BENCH", SIZE, style="MBR", serial="5a1e 1d04"),
            5: disk(5, "6000-DS1", 300 << 20, [part(1, "Reserved"), part(2, letter="T")]),
        }
        self.bench, self.ds1 = self.disks[3], self.disks[5]
        self.volumes = {
            "C": {"letter": "C", "label": "", "filesystem": "NTFS", "size_bytes": 63 << 30, "entries": []},
            "T": {
                "letter": "T",
                "label": LABEL,
                "filesystem": "NTFS",
                "size_bytes": 299 << 20,
                "entries": [
                    {"name": "System Volume Information", "size_bytes": None},
                    {"name": "storlab-benchmark.dat", "size_bytes": FILE_SIZE},
                ],
            },
        }
        self.virtual_disks: list = []
        self.targets: list = []

    def state(self) -> dict:
        return {
            "about": {"boot": self.boot},
            "initiator": {"sessions": [{"id": "ffff-0", "disks": [9]}, {"id": self.session, "disks": [3, 5]}]},
            "disks": list(self.disks.values()),
            "volumes": list(self.volumes.values()),
            "targets": self.targets,
            "virtual_disks": [
                {"path": path, "size_bytes": 1, "description": "storlab testbed t1"} for path in self.virtual_disks
            ],
        }

    def judge(self, layer=None, **options) -> tuple:
        """(codes refused, codes overridden)."""
        before = copy.deepcopy(self.state())
        answer = guard.judge(self.state(), layer or self.layer, **options)
        assert self.state() == before
        return tuple([item.code for item in items] for items in answer)

    def second_path(self, **changes) -> None:
        """The test disk once more, as Windows shows it without MPIO."""
        self.disks[8] = {**copy.deepcopy(self.bench), "number": 8, **changes}


@pytest.fixture
def host() -> Windows:
    return Windows()


def on_bench(**changes):
    return lambda host: host.bench.update(changes)


def layer(**changes):
    return lambda host: setattr(host, "layer", {**LAYER, **changes})


def exported(path: str, *targets: str):
    def change(host):
        host.virtual_disks.append(path)
        host.targets += [{"name": name, "luns": [{"path": path.upper(), "lun": 0}]} for name in targets]

    return change


def both(*changes):
    def change(host):
        for one in changes:
            one(host)

    return change


DISKS = {
    "gone": (lambda host: host.disks.pop(3), ["device_missing"]),
    "another number": (layer(path="\\\\.\\PhysicalDrive33"), ["device_missing"]),
    "boot": (on_bench(boot=True), ["disk_boot"]),
    "system": (on_bench(system=True), ["disk_system"]),
    "page file": (on_bench(page_file=True), ["disk_page_file"]),
    "clustered": (on_bench(clustered=True), ["disk_clustered"]),
    "mounted": (on_bench(partitions=[part(1, letter="E")]), ["device_mounted", "device_partitioned"]),
    "mounted in a folder": (
        on_bench(partitions=[part(1, folders=["D:\\data\\"])]),
        ["device_mounted", "device_partitioned"],
    ),
    "partitioned": (on_bench(partitions=[part(1, "IFS")]), ["device_partitioned"]),
    "a partition nobody knows": (
        on_bench(partitions=[part(1, "Reserved"), part(2, "Unknown")]),
        ["device_partitioned"],
    ),
    "offline by policy": (on_bench(offline=True, offline_reason="Policy"), ["disk_offline"]),
    "offline as a copy": (on_bench(offline=True, offline_reason="Collision"), ["disk_offline"]),
    "read-only": (on_bench(read_only=True), ["device_read_only"]),
    "larger": (on_bench(size_bytes=SIZE + 512), ["wrong_size"]),
    "smaller": (on_bench(size_bytes=SIZE - 512), ["wrong_size"]),
    "another disk of that number": (on_bench(unique_id="6000-OTHER"), ["wrong_unique_id"]),
    "a disk without an id": (on_bench(unique_id=""), ["wrong_unique_id"]),
    "another serial": (on_bench(serial="5a1e1d05"), ["wrong_serial"]),
    "nothing to prove it by": (layer(identity={"serial": "5a1e1d04", "lun": 2}), ["identity_missing"]),
    "the layer is a file": (layer(identity={**LAYER["identity"], "mount_point": "T:\\"}), ["not_a_device"]),
    "data": (layer(purpose="data"), ["purpose_data"]),
    "two paths": (lambda host: host.second_path(), ["device_held"]),
    "two paths, one is mounted": (
        lambda host: host.second_path(partitions=[part(1, letter="E")]),
        ["device_mounted", "device_partitioned", "device_held"],
    ),
    "two paths, one is of a cluster": (
        lambda host: host.second_path(clustered=True),
        ["disk_clustered", "device_held"],
    ),
    "holds an exported virtual disk": (
        both(on_bench(partitions=[part(1, letter="E")]), exported("E:\\lab\\a.vhdx", "mine")),
        ["device_mounted", "device_partitioned", "device_exported"],
    ),
    "holds one beneath a folder": (
        both(on_bench(partitions=[part(1, folders=["C:\\mnt\\"])]), exported("C:\\MNT\\a.vhdx", "mine")),
        ["device_mounted", "device_partitioned", "device_exported"],
    ),
    "holds a virtual disk of no target": (
        both(on_bench(partitions=[part(1, letter="E")]), exported("e:\\a.vhdx")),
        ["device_mounted", "device_partitioned", "device_held"],
    ),
    "all wrong": (
        on_bench(boot=True, offline=True, read_only=True, size_bytes=1, unique_id="", partitions=[part(1, letter="E")]),
        [
            "disk_boot",
            "device_mounted",
            "device_partitioned",
            "wrong_unique_id",
            "wrong_size",
            "disk_offline",
            "device_read_only",
        ],
    ),
    **{
        f"path {path}": (layer(path=path), ["not_a_device"])
        for path in (
            "T:",
            "T:\\",
            "T:/storlab-benchmark.dat",
            "T:\\folder\\file.dat",
            "T:\\file.dat:stream",
            "C:\\*",
            "\\\\server\\share\\file",
            "\\\\.\\PhysicalDrive",
            "\\\\.\\PhysicalDrive3\\x",
            "\\\\.\\T:",
            "/dev/sdb",
            "",
        )
    },
}


@pytest.mark.parametrize("case", DISKS)
def test_disks_that_are_refused(host, case):
    change, expected = DISKS[case]
    change(host)
    assert host.judge() == (expected, [])


@pytest.mark.parametrize("case", DISKS)
def test_naming_the_disk_overrides_only_what_may_be_overridden(host, case):
    change, expected = DISKS[case]
    change(host)
    assert host.judge(allow=[host.layer["path"].lower()]) == (
        [code for code in expected if code in FINAL],
        [code for code in expected if code not in FINAL],
    )


def on_ds1(**changes):
    return lambda host: host.ds1.update(changes)


def on_volume(**changes):
    return lambda host: host.volumes["T"].update(changes)


def file_layer(**changes):
    return lambda host: setattr(host, "layer", {**FILE_LAYER, **changes})


def entry(size_bytes):
    return on_volume(entries=[{"name": "storlab-benchmark.dat", "size_bytes": size_bytes}])


FILES = {
    "no such drive": (lambda host: host.volumes.pop("T"), ["device_missing"]),
    "a drive on no disk": (on_ds1(partitions=[part(1)]), ["device_missing"]),
    "no such file": (
        on_volume(entries=[{"name": "storlab-benchmark.dat.old", "size_bytes": FILE_SIZE}]),
        ["device_missing"],
    ),
    "a folder": (entry(None), ["not_a_device"]),
    "empty": (entry(0), ["wrong_size"]),
    "shorter": (entry(FILE_SIZE - 1), ["wrong_size"]),
    "another volume": (on_volume(label="storlab-00000000"), ["wrong_stamp"]),
    "a volume without a label": (on_volume(label="", entries=[]), ["wrong_stamp"]),
    "the system's drive": (
        file_layer(path="C:\\storlab-benchmark.dat"),
        ["disk_boot", "disk_system", "disk_page_file", "wrong_stamp"],
    ),
    "boot": (on_ds1(boot=True), ["disk_boot"]),
    "system": (on_ds1(system=True), ["disk_system"]),
    "page file": (on_ds1(page_file=True), ["disk_page_file"]),
    "clustered": (on_ds1(clustered=True), ["disk_clustered"]),
    "offline": (on_ds1(offline=True), ["disk_offline"]),
    "read-only": (on_ds1(read_only=True), ["device_read_only"]),
    "a copy of the disk": (on_ds1(unique_id="6000-COPY"), ["wrong_unique_id"]),
    "no stamp": (file_layer(identity={"mount_point": "T:\\"}), ["identity_missing"]),
    "the layer is a disk": (file_layer(identity=LAYER["identity"]), ["not_a_device"]),
    "the layer of another testbed": (
        both(
            file_layer(identity={"mount_point": "T:\\", "stamp": "storlab-99999999"}),
            on_volume(label="storlab-99999999"),
        ),
        ["wrong_stamp"],
    ),
    "data": (file_layer(purpose="data"), ["purpose_data"]),
    "a virtual disk": (both(exported(FILE), exported("C:\\a.vhdx", "theirs")), ["device_held"]),
    "an exported virtual disk": (exported(FILE, "theirs"), ["device_exported"]),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_are_refused(host, case):
    change, expected = FILES[case]
    host.layer = FILE_LAYER
    change(host)
    assert host.judge(testbed_id="t1", layers=[PARENT]) == (expected, [])
    allowed = host.judge(testbed_id="t1", layers=[PARENT], allow=[host.layer["path"]])
    assert allowed == ([code for code in expected if code in FINAL], [code for code in expected if code not in FINAL])


@pytest.mark.parametrize(
    "change",
    [
        on_bench(style="RAW"),
        on_bench(style="MBR"),
        on_bench(style="GPT", partitions=[part(1, "Reserved")]),
        layer(path=DRIVE.upper()),
        layer(identity={"unique_id": "6000-BENCH"}),
        exported("ramdisk:storlab-t1-bench.vhdx", "mine"),
        exported("C:\\lab\\file.vhdx", "mine"),
        exported("T:\\lab\\file.vhdx", "mine"),
        lambda host: host.disks[0].update(unique_id="") or host.ds1.update(unique_id=""),
    ],
    ids=[
        "blank",
        "MBR",
        "GPT",
        "in capitals",
        "without serial",
        "RAM disk exported",
        "exported from C",
        "exported from T",
        "ids that are missing elsewhere",
    ],
)
def test_the_proven_disk_is_accepted(host, change):
    change(host)
    assert host.judge() == ([], [])
    assert host.judge(allow=[DRIVE]) == ([], [])


@pytest.mark.parametrize(
    "layers",
    [[PARENT], [], [{**PARENT, "host": "win02", "identity": {"unique_id": "ELSEWHERE"}}], [{**PARENT, "identity": {}}]],
)
def test_the_benchmark_file_is_accepted(host, layers):
    exported("T:\\other.vhdx", "mine")(host)
    for path in (FILE, FILE.lower()):
        assert host.judge({**FILE_LAYER, "path": path}, testbed_id="t1", layers=layers) == ([], [])


def test_naming_another_disk_overrides_nothing(host):
    host.bench["partitions"] = [part(1)]
    assert host.judge(allow=["\\\\.\\PhysicalDrive33", "PhysicalDrive3", "3", FILE]) == (["device_partitioned"], [])


def test_data_layers_may_be_made_to_hold_data(host):
    assert host.judge({**LAYER, "purpose": "data"}, overwrite=False) == ([], [])


def test_guard_tells_of_the_disk_and_of_what_was_overridden(host):
    host.bench["partitions"] = [part(1)]
    facts, overridden = guard.guard(host.state(), LAYER, [DRIVE], "t1", [PARENT])
    assert (facts["resolved"], facts["type"], facts["size_bytes"], facts["disk"]["number"]) == (DRIVE, "disk", SIZE, 3)
    assert [item.code for item in overridden] == ["device_partitioned"]
    facts, _overridden = guard.guard(host.state(), FILE_LAYER, testbed_id="t1")
    assert (facts["resolved"], facts["type"], facts["size_bytes"], facts["disk"]["number"]) == (
        FILE,
        "file",
        FILE_SIZE,
        5,
    )


def test_guard_names_layer_host_reason_and_remedy(host):
    host.bench.update(partitions=[part(1, letter="E", folders=["D:\\data\\"])], read_only=True)
    with refused(host.state) as caught:
        guard.guard(host.state(), LAYER)
    assert caught.value.code == "device_mounted"
    assert str(caught.value) == (
        "Layer initiator-bench on win01 is not touched: \\\\.\\PhysicalDrive3 is mounted as E:\\, D:\\data\\. "
        "Take its drive letter and its data away, or name another disk."
    )
    assert [item["code"] for item in caught.value.details["refusals"]] == [
        "device_mounted",
        "device_partitioned",
        "device_read_only",
    ]


def test_instances_of_a_device_differ(host):
    seen = {guard.instance(host.state(), LAYER), guard.instance(host.state(), FILE_LAYER)}
    assert guard.instance(host.state(), LAYER) in seen
    host.session = "ffff-2"
    seen |= {guard.instance(host.state(), LAYER), guard.instance(host.state(), FILE_LAYER)}
    host.boot = "2026-11-22T06:00:00Z"
    seen |= {guard.instance(host.state(), LAYER), guard.instance(host.state(), FILE_LAYER)}
    host.bench["unique_id"] = "6000-NEXT"
    seen.add(guard.instance(host.state(), LAYER))
    assert len(seen) == 7
    host.bench["unique_id"] = ""
    assert guard.instance(host.state(), LAYER) is None
    assert guard.instance(host.state(), {**LAYER, "path": "\\\\.\\PhysicalDrive9"}) is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (on_bench(offline=True, offline_reason="Collision"), "is on a disk that is offline (Collision)."),
        (on_bench(offline=True), "is on a disk that is offline (no reason reported)."),
        (on_bench(unique_id="6000-OTHER"), "is on a disk with unique id 6000-OTHER, the layer's has 6000-BENCH."),
        (on_bench(serial=""), "has serial none, the layer has 5A1E-1D04."),
        (lambda host: host.second_path(), "and disk 8 have one unique id: they may be one disk."),
    ],
)
def test_messages_say_what_was_found(host, change, says):
    change(host)
    with refused(host.state) as caught:
        guard.guard(host.state(), LAYER)
    assert f"{DRIVE} {says}" in str(caught.value)


def test_volume_of_another_testbed_is_named(host):
    with refused(host.state) as caught:
        guard.guard(host.state(), FILE_LAYER, testbed_id="t2")
    assert f"The volume of {FILE} is called {LABEL}, the testbed's is called storlab-" in str(caught.value)
    assert guard.judge(host.state(), FILE_LAYER) == ([], [])


def test_every_final_code_is_tried(host):
    assert (
        {code for _change, codes in [*DISKS.values(), *FILES.values()] for code in codes if code in FINAL}
        == FINAL
        == set(guard.FINAL)
    )


ANYTHING = st.fixed_dictionaries(
    {
        **dict.fromkeys(("boot", "system", "page_file", "clustered", "offline", "read_only"), st.booleans()),
        "unique_id": st.sampled_from(["6000-BENCH", "6000-DS1", "SYS", ""]),
        "size_bytes": st.sampled_from([SIZE, 300 << 20]),
        "style": st.sampled_from(["RAW", "MBR", "GPT"]),
        "partitions": st.lists(
            st.builds(
                part,
                st.just(1),
                st.sampled_from(["Reserved", "Basic"]),
                st.sampled_from(["", "E"]),
                st.sampled_from([[], ["D:\\x\\"]]),
            ),
            max_size=2,
        ),
    }
)


@given(
    changes=ANYTHING,
    other=ANYTHING,
    identity=st.sampled_from([{}, LAYER["identity"], {"unique_id": ""}, FILE_LAYER["identity"]]),
    purpose=st.sampled_from(["scratch", "data"]),
    overwrite=st.booleans(),
    allow=st.sampled_from([[], [DRIVE], [FILE, DRIVE]]),
)
def test_no_combination_lets_a_disk_of_the_system_or_a_cluster_through(
    changes, other, identity, purpose, overwrite, allow
):
    host = Windows()
    host.bench.update(changes)
    host.second_path(**other)
    kept, overridden = host.judge({**LAYER, "identity": identity, "purpose": purpose}, overwrite=overwrite, allow=allow)
    flags = {"boot": "disk_boot", "system": "disk_system", "page_file": "disk_page_file", "clustered": "disk_clustered"}
    same = changes["unique_id"] and changes["unique_id"] == other["unique_id"]
    for key, code in flags.items():
        assert (code in kept) == bool(
            changes[key] or (same and other[key]) or (changes["unique_id"] == "SYS" and key != "clustered")
        )
    mounted = any(
        one["letter"] or one["folders"] for one in changes["partitions"] + (other["partitions"] if same else [])
    )
    if mounted or changes["size_bytes"] != SIZE or (overwrite and purpose == "data"):
        assert kept
    # Without being named, only the very disk is accepted.
    if not allow and not kept:
        assert (changes["unique_id"], identity, same) == ("6000-BENCH", LAYER["identity"], False)
    assert not set(overridden) & FINAL


@given(
    changes=ANYTHING,
    label=st.sampled_from([LABEL, "storlab-00000000", ""]),
    size_bytes=st.sampled_from([FILE_SIZE, 0, None]),
    allow=st.sampled_from([[], [FILE]]),
)
def test_no_combination_lets_a_file_through_that_is_not_the_benchmarks(changes, label, size_bytes, allow):
    host = Windows()
    host.ds1.update(changes, partitions=host.ds1["partitions"])
    host.volumes["T"].update(label=label, entries=[{"name": "storlab-benchmark.dat", "size_bytes": size_bytes}])
    kept, _overridden = host.judge(FILE_LAYER, testbed_id="t1", layers=[PARENT], allow=allow)
    never = changes["unique_id"] == "SYS" or any(changes[key] for key in ("boot", "system", "page_file", "clustered"))
    wrong = never or label != LABEL or size_bytes != FILE_SIZE
    may_be_lifted = changes["offline"] or changes["read_only"] or changes["unique_id"] != "6000-DS1"
    assert bool(kept) == bool(wrong or (may_be_lifted and not allow))
