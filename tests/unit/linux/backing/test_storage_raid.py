# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAID arrays: what mdadm and the kernel said is read, the plan, what is refused, and what is left alone.

The transcripts in fixtures/raid are of a real kernel; Host answers with them.
"""

from __future__ import annotations

import copy
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import raid, raid_plan
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety
from unchanged import refused

FIXTURES = Path(__file__).parents[2] / "fixtures" / "raid"
UUID = "0badc0de:1234abcd:5678ef01:000000"
NO_SUPERBLOCK = (1, "", "mdadm: No md superblock detected.\n")
MINE, OTHERS = "storlab-embedded:slow", "storlab-embedded-2:slow"


def transcript(name: str) -> tuple:
    """({command: (exit code, output)}, {attribute: text}) of a fixture; of a command said twice the first answer."""
    answers: dict = {}
    text = (FIXTURES / f"{name}.txt").read_text(encoding="utf-8")
    for command, output, code in re.findall(r"^=== (.*?)\n(.*?)^--- rc (\d+)$", text, re.M | re.S):
        answers.setdefault(command, (int(code), output, ""))
    attributes: dict = {}
    for line in re.sub(r"^=== .*?^--- rc \d+$", "", text, flags=re.M | re.S).splitlines():
        if match := re.fullmatch(r"dev-(\w+) slot=(\S+) state=(\S+)", line):
            attributes.setdefault(f"dev-{match[1]}/slot", match[2])
            attributes.setdefault(f"dev-{match[1]}/state", match[3])
        elif match := re.fullmatch(r"([\w/]+)=(.*)", line):
            attributes.setdefault(match[1], match[2])
    return answers, attributes


class Host(device_safety.System):
    """A host with seven blank virtio disks, vdb with the serial slow-1 to vdh with slow-7; ``run`` answers for mdadm and blkid."""

    def __init__(self, root):
        super().__init__(str(root))
        self.answers: dict = {}
        self.done: list = []
        self.numbers: dict = {}
        for index, letter in enumerate("bcdefgh", 1):
            self.disk(f"vd{letter}", 16 * index, f"slow-{index}")
        self.write("/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n")
        self.write("/proc/swaps", "Filename Type Size Used Priority\n")

    def disk(self, name: str, minor: int, serial: str, major: int = 254) -> None:
        folder = f"/sys/devices/block/{name}"
        for key, content in {
            "dev": f"{major}:{minor}",
            "size": str((60 + minor) * 2048),
            "ro": "0",
            "serial": serial,
        }.items():
            self.write(f"{folder}/{key}", content)
        os.makedirs(self.real(f"{folder}/holders"), exist_ok=True)
        for link in (f"/sys/block/{name}", f"/sys/class/block/{name}", f"/sys/dev/block/{major}:{minor}"):
            os.makedirs(os.path.dirname(self.real(link)), exist_ok=True)
            os.symlink(os.path.relpath(self.real(folder), os.path.dirname(self.real(link))), self.real(link))
        self.write(f"/dev/{name}", "")
        self.numbers[f"/dev/{name}"] = os.makedev(major, minor)

    def write(self, path: str, content: str) -> None:
        os.makedirs(os.path.dirname(self.real(path)), exist_ok=True)
        Path(self.real(path)).write_text(content, encoding="utf-8")

    def array(self, fixture: str, name: str = "md127", stamp: str = MINE, **changed) -> None:
        """The array of a transcript, with some attributes changed, and its superblocks on its members."""
        answers, attributes = transcript(fixture)
        self.disk(name, int(name[2:]), "", major=9)
        os.unlink(self.real(f"/sys/devices/block/{name}/serial"))
        for key, content in {**attributes, **changed}.items():
            self.write(f"/sys/devices/block/{name}/md/{key}", content)
        detail = answers["mdadm --detail --export /dev/md127"][1].replace(MINE, stamp)
        self.answers[f"mdadm --detail --export /dev/{name}"] = (0, detail, "")
        for member in {key.split("/")[0][len("dev-") :] for key in attributes if key.startswith("dev-")}:
            self.superblock(member, detail)
            self.write(f"/sys/devices/block/{member}/holders/{name}", "")

    def superblock(self, member: str, text: str) -> None:
        self.answers[f"mdadm --examine --export /dev/{member}"] = (0, text, "")
        self.answers[f"blkid -p -o export /dev/{member}"] = (0, "TYPE=linux_raid_member\n", "")

    def stat(self, path: str):
        if path in self.numbers:
            return SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=self.numbers[path], st_ino=1, st_dev=1)
        return super().stat(path)

    def exclusive(self, path: str):
        return "EBUSY" if self.names(f"/sys/class/block/{os.path.basename(path)}/holders") else None

    def run(self, argv: list):
        command = " ".join(argv)
        self.done.append(command)
        if command in self.answers:
            return self.answers[command]
        return (2, "", "") if argv[0] == "blkid" else NO_SUPERBLOCK


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "root")


@pytest.fixture
def arrays(host, tmp_path, monkeypatch):
    return arrays_on(host, tmp_path / "run", monkeypatch)


def arrays_on(host, run_dir: Path, monkeypatch):
    """Arrays(testbed_id) on that host, with records in a folder of their own; what would be changed is noted in host.done."""
    monkeypatch.setattr(raid, "Record", lambda testbed, area: record.Record(testbed, area, str(run_dir)))
    monkeypatch.setattr(record, "loaded_modules", set)
    monkeypatch.setattr(raid, "load_module", lambda name, intend: host.done.append(f"modprobe {name}"))
    return lambda testbed_id="embedded": raid.Arrays(testbed_id, host)


def wanted(level=10, count=4, **more) -> dict:
    return {
        "name": "slow",
        "level": level,
        "members": [{"serial": f"slow-{number}"} for number in range(1, count + 1)],
        "chunk_kib": 128 if level == 10 else None,
        "bitmap": "internal" if level == 10 else "none",
        "assume_clean": False,
        "stripe_cache": None,
        "resync": "wait",
        "purpose": "scratch",
        "emulated_delay": None,
        **more,
    }


def planned(arrays, described, present=True, testbed_id="embedded"):
    mine = arrays(testbed_id)
    return raid_plan.plan(mine.current(described, wanted=present), described if present else [])


def ops(steps) -> list:
    return [(step["op"], step["target"]) for step in steps]


def changes(host) -> list:
    return [
        command
        for command in host.done
        if not command.startswith(("mdadm --detail", "mdadm --examine", "mdadm --version", "blkid"))
    ]


# ---- reading


def test_a_running_resync_is_read(host):
    host.array("raid10")
    array = raid.read_array("md127", host)
    assert {key: array[key] for key in ("level", "chunk_bytes", "layout", "raid_disks", "bitmap", "metadata")} == {
        "level": 10,
        "chunk_bytes": 131072,
        "layout": 258,
        "raid_disks": 4,
        "bitmap": "internal",
        "metadata": "1.2",
    }
    assert (array["uuid"], array["stamp"]) == (f"{UUID}10", MINE)
    assert [member["path"] for member in array["members"]] == ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"]
    assert (
        array["sync_percent"] == 31
        and raid_plan.synchronising(array)
        and not raid_plan.settled(array)
        and raid_plan.runs(array)
    )


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("raid0", {"level": 0, "chunk_bytes": 65536, "stripe_cache": None, "bitmap": "none"}),
        ("raid1", {"level": 1, "chunk_bytes": 0, "stripe_cache": None, "bitmap": "none"}),
        ("raid6", {"level": 6, "chunk_bytes": 524288, "stripe_cache": 256, "bitmap": "none"}),
    ],
)
def test_other_levels_are_read(host, fixture, expected):
    host.array(fixture)
    array = raid.read_array("md127", host)
    assert {key: array[key] for key in expected} == expected
    assert raid_plan.settled(array)


def test_raid_5_that_still_lacks_a_member_is_not_settled(host):
    """The kernel has begun to fill it, and says idle between two of its steps."""
    host.array("raid5")
    array = raid.read_array("md127", host)
    assert (array["degraded"], array["sync_action"], array["resync_start"]) == (1, "idle", "none")
    assert not raid_plan.settled(array)


def test_an_array_that_the_host_began_to_assemble_does_not_run(host):
    host.array("inactive")
    array = raid.read_array("md127", host)
    # The kernel shows no UUID of it; its superblocks do.
    assert (array["uuid"], array["stamp"], raid_plan.runs(array)) == (f"{UUID}10", MINE, False)


def test_without_mdadm_the_package_is_named(host):
    host.run = lambda argv: None
    with refused(Path(host.root), match="Install the package mdadm") as caught:
        raid.examine("/dev/vdb", host)
    assert caught.value.code == "command_missing"


def test_a_teardown_where_nothing_could_be_made_needs_no_mdadm(host, arrays):
    host.run = lambda argv: None
    assert planned(arrays, [wanted()], present=False) == []
    # What a record names can only be removed with it.
    arrays()._keep(wanted(), f"{UUID}10", ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"])
    with refused(Path(host.root), match="Install the package mdadm"):
        planned(arrays, [wanted()], present=False)


# ---- whose it is


def test_stamps_of_different_arrays_differ_and_fit():
    pairs = [
        ("a", "b.c"),
        ("a.b", "c"),
        ("embedded", "slow"),
        ("embedded-2", "slow"),
        ("e" * 32, "s" * 32),
        ("e" * 32, "s" * 31),
    ]
    stamps = [raid.stamp(*pair) for pair in pairs]
    assert len(set(stamps)) == len(pairs)
    # mdadm leaves the part before the colon out when both have 32 bytes or more.
    assert all(len(text) <= 31 and text.count(":") == 1 for text in stamps)
    assert raid.stamp("embedded", "slow") == MINE


@pytest.mark.parametrize(
    "stamp", [OTHERS, "storlab-embedded:slow2", "storlab-embedded:slo", "storlab-embedde:slow", "host:0", ""]
)
def test_an_array_of_somebody_else_is_no_array_of_ours(host, arrays, stamp):
    host.array("raid10", stamp=stamp)
    assert planned(arrays, [wanted()], present=False) == []
    current = arrays().current([wanted()])
    assert current["slow"]["active"] is None and not any(current["slow"]["found"].values())
    # Its members are refused as what they are.
    steps = raid_plan.plan(current, [wanted()])
    with refused(lambda: changes(host)) as caught:
        arrays().refuse_unsafe(steps, [wanted()], current)
    assert caught.value.code == "device_held" and "md127" in str(caught.value)
    assert changes(host) == []


def test_our_name_with_another_uuid_than_the_recorded_one_is_not_ours(host, arrays):
    host.array("raid10")
    mine = arrays()
    mine._keep(wanted(), raid.new_uuid(), ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"])
    assert planned(arrays, [wanted()], present=False) == []


def test_an_array_of_an_earlier_boot_is_taken_over(host, arrays):
    host.array("raid10", sync_action="idle", sync_completed="none", resync_start="none")
    mine, described = arrays(), [wanted()]
    current = mine.current(described)
    steps = raid_plan.plan(current, described)
    assert steps == []
    mine.apply(steps, described, current, 1)
    assert arrays().recorded["slow"]["uuid"] == f"{UUID}10"
    assert [member["serial"] for member in arrays().recorded["slow"]["members"]] == [
        "slow-1",
        "slow-2",
        "slow-3",
        "slow-4",
    ]


# ---- the plan


def test_an_array_is_made_and_waited_for(arrays):
    steps = planned(arrays, [wanted()])
    assert ops(steps) == [("create", "RAID slow"), ("wait", "RAID slow")]
    assert steps[0]["was"] is None
    assert (
        steps[0]["will"]
        == "RAID 10 of 4 members (/dev/vdb, /dev/vdc, /dev/vdd, /dev/vde) in chunks of 128 KiB with a bitmap"
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"level": 0, "bitmap": "none"}, ["create"]),
        ({"assume_clean": True}, ["create"]),
        ({"resync": "run"}, ["create"]),
        ({"level": 5, "stripe_cache": 1024, "bitmap": "none"}, ["create", "set_stripe_cache", "wait"]),
    ],
)
def test_what_is_waited_for(arrays, more, expected):
    assert [step["op"] for step in planned(arrays, [wanted(**more)])] == expected


def test_all_arrays_synchronise_at_once(arrays):
    two = wanted(1, 2, name="two", members=[{"serial": "slow-5"}, {"serial": "slow-6"}])
    steps = planned(arrays, [wanted(), two])
    assert ops(steps) == [("create", "RAID slow"), ("create", "RAID two"), ("wait", "RAID slow"), ("wait", "RAID two")]


def test_a_second_build_changes_nothing(host, arrays):
    host.array("raid6")
    same = wanted(6, chunk_kib=None, stripe_cache=256)
    assert planned(arrays, [same]) == []
    # The default is mdadm's 512 KiB, said or not.
    assert planned(arrays, [{**same, "chunk_kib": 512}]) == []
    steps = planned(arrays, [{**same, "stripe_cache": 1024}])
    assert [(step["op"], step["was"], step["will"]) for step in steps] == [("set_stripe_cache", 256, 1024)]


def test_a_resync_that_runs_is_waited_for_or_said(host, arrays):
    host.array("raid10")
    assert ops(planned(arrays, [wanted()])) == [("wait", "RAID slow")]
    described = [wanted(resync="run")]
    assert planned(arrays, described) == []
    mine = arrays()
    layer = mine.layers(described, mine.current(described))[0]
    assert layer["detail"]["raid"]["resync"] == "running"


@pytest.mark.parametrize("scrub", ["check", "repair"])
def test_a_check_of_the_kernel_is_not_waited_for_but_said(host, arrays, scrub):
    host.array("raid6", sync_action=scrub, sync_completed="7 / 70")
    described = [wanted(6, chunk_kib=None)]
    assert planned(arrays, described) == []
    mine = arrays()
    facts = mine.layers(described, mine.current(described))[0]["detail"]["raid"]
    assert (facts["resync"], facts["scrub"]) == ("done", scrub)


def test_a_check_hides_no_member_that_is_lost(host, arrays):
    host.array("raid6", sync_action="check", degraded="1")
    with refused(lambda: changes(host)) as caught:
        planned(arrays, [wanted(6, chunk_kib=None)])
    assert caught.value.code == "array_degraded"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"level": 5, "bitmap": "internal"}, "its level is 10 instead of 5"),
        ({"chunk_kib": 64}, "its chunks have 128 KiB instead of 64 KiB"),
        ({"bitmap": "none"}, "it has a bitmap instead of no bitmap"),
        (
            {"members": [{"serial": f"slow-{number}"} for number in (1, 2, 3, 7)]},
            "its members are /dev/vdb, /dev/vdc, /dev/vdd, /dev/vde instead of /dev/vdb, /dev/vdc, /dev/vdd, /dev/vdh",
        ),
        (
            {"members": [{"serial": f"slow-{number}"} for number in range(1, 7)]},
            "instead of /dev/vdb, /dev/vdc, /dev/vdd, /dev/vde, /dev/vdf",
        ),
    ],
)
def test_a_changed_array_is_refused(host, arrays, more, sentence):
    host.array("raid10")
    with refused(lambda: changes(host)) as caught:
        planned(arrays, [wanted(**more)])
    assert caught.value.code == "array_differs"
    assert sentence in str(caught.value) and "run teardown and build" in str(caught.value)
    assert changes(host) == []


def test_an_array_that_lost_a_member_is_refused(host, arrays):
    idle = {"sync_action": "idle", "sync_completed": "none", "resync_start": "none"}
    host.array("raid10", degraded="1", **idle)
    with refused(lambda: changes(host), match="has lost 1 of 4 members") as caught:
        planned(arrays, [wanted()])
    assert caught.value.code == "array_degraded"


def test_what_is_no_longer_wanted_goes(host, arrays):
    host.array("raid10")
    mine = arrays()
    mine._keep(wanted(), f"{UUID}10", ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"])
    other = wanted(1, 2, name="other", members=[{"serial": "slow-5"}, {"serial": "slow-6"}])
    assert ops(planned(arrays, [other])) == [("remove", "RAID slow"), ("create", "RAID other"), ("wait", "RAID other")]
    assert planned(arrays, [], testbed_id="embedded-2") == []


def test_a_stopped_array_is_put_together_again(host, arrays):
    detail = transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1]
    for member in ("vdb", "vdc", "vdd", "vde"):
        host.superblock(member, detail)
    assert ops(planned(arrays, [wanted()])) == [("assemble", "RAID slow"), ("wait", "RAID slow")]


def test_an_array_that_was_killed_at_its_birth(host, arrays):
    detail = transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1]
    for member in ("vdb", "vdc"):
        host.superblock(member, detail)
    with refused(lambda: changes(host)) as caught:
        planned(arrays, [wanted()])
    assert (
        caught.value.code == "array_incomplete"
        and "/dev/vdb, /dev/vdc of /dev/vdb, /dev/vdc, /dev/vdd, /dev/vde" in str(caught.value)
    )
    steps = planned(arrays, [wanted()], present=False)
    assert ops(steps) == [("remove", "RAID slow")] and steps[0]["was"] == "superblocks on /dev/vdb, /dev/vdc"


# ---- members


def test_a_member_is_found_by_its_serial_and_must_be_one(host, arrays):
    with refused(lambda: changes(host), match="no disk of this host shows serial slow-8") as caught:
        planned(arrays, [wanted(members=[{"serial": f"slow-{number}"} for number in (1, 2, 3, 8)])])
    assert caught.value.code == "member_missing"
    host.disk("vdz", 160, "slow-3")
    with refused(lambda: changes(host), match=r"several disks show serial slow-3 \(/dev/vdd, /dev/vdz\)") as caught:
        planned(arrays, [wanted()])
    assert caught.value.code == "serial_twice"


def test_two_entries_of_one_disk_are_refused(host, arrays):
    twice = [{"serial": "slow-1"}, {"device": "/dev/vdb", "naa": "6001"}, {"serial": "slow-2"}, {"serial": "slow-3"}]
    with refused(lambda: changes(host), match="Two entries lead to it") as caught:
        planned(arrays, [wanted(members=twice)])
    assert caught.value.code == "bad_value" and caught.value.details["value"] == "/dev/vdb"


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({"device": "/dev/vdc", "serial": "slow-1"}, "wrong_serial"),
        ({"device": "/dev/vdc"}, "identity_missing"),
        ({"device": "/dev/none", "serial": "slow-2"}, "device_missing"),
    ],
)
def test_a_member_that_is_not_proven_is_refused(host, arrays, member, code):
    described = [wanted(members=[{"serial": "slow-1"}, member, {"serial": "slow-3"}, {"serial": "slow-4"}])]
    mine = arrays()
    current = mine.current(described)
    with refused(lambda: changes(host)) as caught:
        mine.refuse_unsafe(raid_plan.plan(current, described), described, current)
    assert caught.value.code == code


def occupied(host, how):
    if how == "device_mounted":
        host.write(
            "/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 254:48 / /home rw - ext4 /dev/vdd rw\n"
        )
    elif how == "device_partitioned":
        host.write("/sys/devices/block/vdd/vdd1/partition", "1")
        host.write("/sys/devices/block/vdd/vdd1/dev", "254:49")
    elif how == "device_swap":
        host.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/vdd partition 1 0 -2\n")
    elif how == "device_held":
        host.disk("dm-0", 0, "", major=253)
        os.symlink("../../dm-0", host.real("/sys/devices/block/vdd/holders/dm-0"))
    elif how == "signature_present":
        host.answers["blkid -p -o export /dev/vdd"] = (0, "TYPE=xfs\n", "")


@pytest.mark.parametrize(
    "how", ["device_mounted", "device_partitioned", "device_swap", "device_held", "signature_present"]
)
def test_a_member_in_use_is_refused_before_anything_is_changed(host, arrays, how):
    occupied(host, how)
    mine, described = arrays(), [wanted()]
    current = mine.current(described)
    with refused(lambda: changes(host)) as caught:
        mine.refuse_unsafe(raid_plan.plan(current, described), described, current)
    assert caught.value.code == how and "/dev/vdd" in str(caught.value)
    assert changes(host) == [] and mine.recorded == {}


# ---- changing


@pytest.fixture
def kernel(host, monkeypatch):
    return with_mdadm(host, monkeypatch)


def with_mdadm(host, monkeypatch):
    """mdadm as far as it changes something: arrays come and go on the host, and every command is noted."""
    made: dict = {}

    def begin(device: str, array_uuid: str) -> None:
        # An array that was there before the test is that of a transcript.
        fixture, stamp = made.get(array_uuid, ("raid10", MINE))
        host.array(fixture, os.path.basename(device), stamp)
        if array_uuid in made:
            for command, answer in list(host.answers.items()):
                host.answers[command] = (answer[0], re.sub(rf"{UUID}\d\d", array_uuid, answer[1]), answer[2])

    def run(argv, **_rest):
        host.done.append(" ".join(argv))
        word = argv[1]
        if word == "--create":
            given = dict(item[2:].split("=", 1) for item in argv if item.startswith("--") and "=" in item)
            made[given["uuid"]] = (f"raid{given['level']}", f"{given['homehost']}:{given['name']}")
            begin(argv[2], given["uuid"])
        elif word == "--assemble":
            begin(argv[2], argv[3].partition("=")[2])
        elif word == "--stop":
            name = os.path.basename(argv[2])
            for path in [f"/sys/block/{name}", f"/sys/class/block/{name}", f"/sys/dev/block/9:{name[2:]}"]:
                os.unlink(host.real(path))
            for member in "bcdefgh":
                holder = host.real(f"/sys/devices/block/vd{member}/holders/{name}")
                if os.path.exists(holder):
                    os.unlink(holder)
        elif word == "--zero-superblock":
            del host.answers[f"mdadm --examine --export {argv[2]}"]
            host.answers.pop(f"blkid -p -o export {argv[2]}", None)

    monkeypatch.setattr(raid, "run", run)
    monkeypatch.setattr(raid, "loaded_modules", set)
    return host


def apply(arrays, described, present=True, timeout_s=0.0):
    mine = arrays()
    shall = described if present else []
    current = mine.current(described, wanted=present)
    steps = raid_plan.plan(current, shall)
    mine.apply(steps, shall, current, timeout_s)
    return mine


def test_made_as_described_and_taken_away_again(kernel, arrays):
    described = [wanted(0, 2, chunk_kib=64)]
    mine = apply(arrays, described)
    uuid = mine.recorded["slow"]["uuid"]
    assert changes(kernel) == [
        "modprobe raid0",
        f"mdadm --create /dev/md127 --run --metadata=1.2 --homehost=storlab-embedded --name=slow --uuid={uuid} --level=0 --raid-devices=2 "
        "--chunk=64 /dev/vdb /dev/vdc",
    ]
    assert raid_plan.plan(arrays().current(described), described) == []
    layer = arrays().layers(described, arrays().current(described))[0]
    assert (layer["name"], layer["path"], layer["identity"]["uuid"]) == ("backing-slow", "/dev/md127", uuid)
    kernel.done.clear()
    # The description is no longer needed: the record is.
    mine = apply(arrays, [], present=False)
    assert changes(kernel) == [
        "mdadm --stop /dev/md127",
        "mdadm --zero-superblock /dev/vdb",
        "mdadm --zero-superblock /dev/vdc",
    ]
    assert mine.recorded == {} and planned(arrays, described, present=False) == []


def test_a_single_drive_is_an_array_of_one_member(kernel, arrays, monkeypatch):
    """mdadm refuses one member unless it is forced (Create.c); test_made_as_described holds that nothing else is."""
    # The transcript is of an array of two, which is not what is wanted.
    monkeypatch.setattr(raid.Arrays, "_expect", lambda *_made: None)
    apply(arrays, [wanted(0, 1, chunk_kib=64)])
    (made,) = [line for line in changes(kernel) if "--create" in line]
    assert made.endswith(" --level=0 --force --raid-devices=1 --chunk=64 /dev/vdb")


MEMBERS = ("/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde")


def cut(kernel, arrays, after: int = 4, inactive: bool = False, running: bool = False, foreign: str = "") -> str:
    """The remains of a build that was killed in the middle of its mdadm: superblocks on the first ``after`` members, and an array that runs or does
    not; foreign: a member that carries somebody else's by now. Returns the recorded UUID."""
    described = [wanted()]

    def killed(argv, **_rest):
        raise KeyboardInterrupt(argv[0])

    run, raid.run = raid.run, killed
    try:
        with pytest.raises(KeyboardInterrupt):
            apply(arrays, described)
    finally:
        raid.run = run
    uuid = arrays().recorded["slow"]["uuid"]
    ours = transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1].replace(f"{UUID}10", uuid)
    if inactive or running:
        kernel.array("inactive" if inactive else "raid10")
        for command, answer in list(kernel.answers.items()):
            kernel.answers[command] = (answer[0], answer[1].replace(f"{UUID}10", uuid), answer[2])
    for member in MEMBERS[: 4 if running else after]:
        kernel.superblock(member[len("/dev/") :], ours)
    if foreign:
        kernel.superblock(foreign, ours.replace(uuid, f"{UUID}77"))
    kernel.done.clear()
    return uuid


ATTEMPTS = {"nothing": (0, False), "one": (1, False), "some": (3, False), "all": (4, False), "begun": (4, True)}


@pytest.mark.parametrize("stage", ATTEMPTS)
def test_a_second_build_makes_what_a_cut_one_began(kernel, arrays, stage):
    after, inactive = ATTEMPTS[stage]
    earlier = cut(kernel, arrays, after, inactive)
    mine = apply(arrays, [wanted(resync="run")])
    done = [command for command in changes(kernel) if not command.startswith("modprobe")]
    stopped = ["mdadm --stop /dev/md127"] if inactive else []
    assert done[:-1] == [*stopped, *(f"mdadm --zero-superblock {member}" for member in MEMBERS[:after])]
    assert done[-1].startswith("mdadm --create /dev/md127 ") and earlier not in done[-1]
    assert mine.recorded["slow"]["uuid"] != earlier and "unfinished" not in arrays().recorded["slow"]
    kernel.done.clear()
    apply(arrays, [wanted(resync="run")])
    assert changes(kernel) == []


@pytest.mark.parametrize("stage", ATTEMPTS)
def test_a_teardown_takes_what_a_cut_build_began(kernel, arrays, stage):
    after, inactive = ATTEMPTS[stage]
    cut(kernel, arrays, after, inactive)
    # Without the description: the intention names the members.
    mine = apply(arrays, [], present=False)
    mine.forget()
    stopped = ["mdadm --stop /dev/md127"] if inactive else []
    assert changes(kernel) == [*stopped, *(f"mdadm --zero-superblock {member}" for member in MEMBERS[:after])]
    assert not os.path.exists(mine.record.path)


def begun_empty(kernel, name: str = "md127", raid_disks: str = "4") -> None:
    """mdadm --create tells the kernel how many members the array has before it writes their superblocks (Create.c: set_array_info, then add_disks); one
    that is killed then leaves an array without members, of which --detail says neither name nor UUID. Belief: no transcript of such an array is here."""
    kernel.disk(name, int(name[2:]), "", major=9)
    os.unlink(kernel.real(f"/sys/devices/block/{name}/serial"))
    kernel.write(f"/sys/devices/block/{name}/size", "0")
    nobodys = "00000000-0000-0000-0000-000000000000"
    for key, content in {"array_state": "inactive", "raid_disks": raid_disks, "level": "10", "uuid": nobodys}.items():
        kernel.write(f"/sys/devices/block/{name}/md/{key}", content)
    kernel.answers[f"mdadm --detail --export /dev/{name}"] = (0, f"MD_DEVICES={raid_disks}\n", "")


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("after", [0, 2, 4])
def test_an_array_without_members_that_a_cut_mdadm_left_goes(kernel, arrays, after, present):
    cut(kernel, arrays, after)
    begun_empty(kernel)
    mine = apply(arrays, [wanted(resync="run")] if present else [], present=present)
    done = [command for command in changes(kernel) if not command.startswith("modprobe")]
    zeroed = [f"mdadm --zero-superblock {member}" for member in MEMBERS[:after]]
    assert done[: after + 1] == ["mdadm --stop /dev/md127", *zeroed]
    if present:
        assert done[-1].startswith("mdadm --create /dev/md127 ") and len(done) == after + 2
    else:
        assert len(done) == after + 1 and mine.recorded == {}


@pytest.mark.parametrize("present", [True, False])
def test_an_array_without_members_that_a_cut_assembly_left_goes(kernel, arrays, monkeypatch, present):
    """After a restart of the host the superblocks are there. belief: mdadm --assemble begins as --create does (set_array_info, then add_disk)."""
    for member in MEMBERS:
        kernel.superblock(member[len("/dev/") :], transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1])

    def killed(argv, **_rest):
        raise KeyboardInterrupt(argv[1])

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="--assemble"):
        patch.setattr(raid, "run", killed)
        apply(arrays, [wanted(resync="run")])
    begun_empty(kernel)
    kernel.done.clear()
    apply(arrays, [wanted(resync="run")] if present else [], present=present)
    done = [command for command in changes(kernel) if not command.startswith("modprobe")]
    assert done[0] == "mdadm --stop /dev/md127"
    if present:
        assert done[1:] == [f"mdadm --assemble /dev/md127 --uuid={UUID}10 {' '.join(MEMBERS)}"]
        assert "assembling" not in arrays().recorded["slow"]
    else:
        assert done[1:] == [f"mdadm --zero-superblock {member}" for member in MEMBERS]


@pytest.mark.parametrize("whose", ["another number", "other members", "being made", "ours was finished"])
def test_an_array_without_members_of_somebody_else_stays(kernel, arrays, monkeypatch, whose):
    cut(kernel, arrays, 0)
    begun_empty(
        kernel, "md126" if whose == "another number" else "md127", raid_disks="3" if whose == "other members" else "4"
    )
    if whose == "being made":
        kernel.write("/proc/77/cmdline", "mdadm\0--create\0/dev/md127\0--level=10\0")
    if whose == "ours was finished":
        mine = arrays()
        del mine.recorded["slow"]["unfinished"]
        mine.record.save()
    apply(arrays, [], present=False)
    assert "mdadm --stop" not in " ".join(changes(kernel))


def test_a_build_that_was_killed_after_its_mdadm_is_gone_on_with(kernel, arrays):
    """The array runs, and nothing but our note of that is missing; from here on a lost superblock is a fault again."""
    uuid = cut(kernel, arrays, running=True)
    apply(arrays, [wanted(resync="run")])
    assert changes(kernel) == [] and arrays().recorded["slow"]["uuid"] == uuid
    assert "unfinished" not in arrays().recorded["slow"]


def test_an_array_that_ran_is_never_made_anew(host, arrays):
    """Superblocks are missing of one that was finished: that is a loss, and what is left may be wanted."""
    mine = arrays()
    mine._keep(wanted(), f"{UUID}10", list(MEMBERS))
    for member in ("vdb", "vdc"):
        host.superblock(member, transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1])
    with refused(lambda: changes(host)) as caught:
        planned(arrays, [wanted()])
    assert caught.value.code == "array_incomplete"


@pytest.mark.parametrize("present", [True, False])
def test_what_somebody_put_on_a_member_since_the_cut_stays(kernel, arrays, present):
    cut(kernel, arrays, after=1, foreign="vdd")
    mine, described = arrays(), [wanted()]
    current = mine.current(described, wanted=present)
    steps = raid_plan.plan(current, described if present else [])
    if present:
        with refused(lambda: changes(kernel)) as caught:
            mine.refuse_unsafe(steps, described, current)
        assert caught.value.code == "signature_present" and "/dev/vdd" in str(caught.value)
    else:
        mine.apply(steps, [], current, 0)
        assert changes(kernel) == ["mdadm --zero-superblock /dev/vdb"]


def test_a_member_that_the_remains_hid_is_judged_before_the_array_is_made(kernel, arrays, monkeypatch):
    """Below our superblock there is a file system of somebody: it shows when ours is gone."""
    cut(kernel, arrays, after=2)
    zero = raid.run

    def run(argv, **rest):
        zero(argv, **rest)
        if argv[1] == "--zero-superblock":
            kernel.answers[f"blkid -p -o export {argv[2]}"] = (0, "TYPE=xfs\n", "")

    monkeypatch.setattr(raid, "run", run)
    with refused(lambda: [line for line in changes(kernel) if "--create" in line]) as caught:
        apply(arrays, [wanted()])
    assert caught.value.code == "signature_present"


def test_a_mdadm_that_is_still_at_work_is_waited_for(kernel, arrays, monkeypatch):
    uuid = cut(kernel, arrays, after=2)
    kernel.write("/proc/4711/cmdline", f"mdadm\0--create\0/dev/md127\0--uuid={uuid}\0")
    asked = []

    def waits(condition, *_patience, **_more):
        asked.append(condition())
        os.unlink(kernel.real("/proc/4711/cmdline"))
        asked.append(condition())

    monkeypatch.setattr(raid, "wait_for", waits)
    planned(arrays, [wanted()])
    assert asked == [False, True]


def test_a_foreign_array_beside_ours_stays(kernel, arrays):
    kernel.array("raid6", stamp=OTHERS)
    described = [wanted(1, 2, members=[{"serial": "slow-6"}, {"serial": "slow-7"}])]
    # The transcript's members are not these; what was made is looked at, and found to be another array.
    with pytest.raises(Failure) as caught:
        apply(arrays, described)
    assert caught.value.code == "array_wrong"
    assert "mdadm --create /dev/md126" in changes(kernel)[1]
    assert not any("md127" in command or "--zero-superblock" in command for command in changes(kernel))


def test_a_member_that_carries_another_superblock_by_now_is_not_zeroed(kernel, arrays):
    described = [wanted(0, 2, chunk_kib=64)]
    apply(arrays, described)
    mine = arrays()
    current = mine.current([], wanted=False)
    kernel.superblock("vdc", transcript("raid10")[0]["mdadm --examine --export /dev/vdc"][1].replace(MINE, OTHERS))
    kernel.done.clear()
    mine.apply(raid_plan.plan(current, []), [], current, 0)
    assert changes(kernel) == ["mdadm --stop /dev/md127", "mdadm --zero-superblock /dev/vdb"]


def test_a_disk_that_took_the_place_of_a_member_is_not_zeroed(kernel, arrays):
    described = [wanted(0, 2, chunk_kib=64)]
    apply(arrays, described)
    kernel.write("/sys/devices/block/vdc/serial", "somebody-elses")
    kernel.done.clear()
    apply(arrays, [], present=False)
    assert changes(kernel) == ["mdadm --stop /dev/md127", "mdadm --zero-superblock /dev/vdb"]


def test_a_resync_that_takes_too_long_is_a_failure_that_says_how_far_it_is(kernel, arrays):
    with pytest.raises(Failure, match=r"still synchronises its members after 0 s: 31 % is done") as caught:
        apply(arrays, [wanted()])
    assert caught.value.code == "resync_running"
    # The array is there and ours: the next run waits on.
    assert ops(planned(arrays, [wanted()])) == [("wait", "RAID slow")]


def test_a_used_array_is_not_removed_and_the_user_is_named(host, arrays):
    host.array("raid10")
    host.write(
        "/proc/self/mountinfo", "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 9:127 / /srv/x rw - ext4 /dev/md127 rw\n"
    )
    mine = arrays()
    current = mine.current([wanted()], wanted=False)
    with refused(
        lambda: changes(host), match=r"RAID slow \(/dev/md127\) cannot be removed: it is mounted on /srv/x"
    ) as caught:
        mine.refuse_used(raid_plan.plan(current, []), current)
    assert caught.value.code == "device_mounted"


# ---- the layer


def test_the_layer_says_what_the_figures_depend_on(host, arrays):
    host.array("raid6")
    described = [wanted(6, emulated_delay={"iops": 300})]
    mine = arrays()
    mine._keep({**described[0]}, f"{UUID}06", ["/dev/vdb", "/dev/vdc", "/dev/vdd", "/dev/vde"], assume_clean=True)
    layer = mine.layers(described, mine.current(described))[0]
    facts = layer["detail"]["raid"]
    assert layer["detail"]["emulated_delay"] == {"iops": 300} and layer["detail"]["provider"] == "raid"
    assert {key: value for key, value in facts.items() if key != "members"} == {
        "level": 6,
        "chunk_bytes": 524288,
        "bitmap": "none",
        "layout": 2,
        "metadata": "1.2",
        "stripe_cache": 256,
        "assume_clean": True,
        "resync": "skipped",
    }
    assert facts["members"][1] == {"device": "/dev/vdc", "serial": "slow-2", "size_bytes": (60 + 32) << 20}
    assert layer["identity"] == {"stamp": "embedded/slow", "uuid": f"{UUID}06", "size_bytes": (60 + 127) << 20}
    assert layer["detail"]["generation"] == f"{UUID}06".replace(":", "")[:12]


def test_the_guard_takes_the_published_array_and_no_other_in_its_place(host, arrays):
    host.array("raid6")
    mine, described = arrays(), [wanted(6)]
    layer = {**mine.layers(described, mine.current(described))[0], "host": "target01"}
    facts = device_safety.inspect("/dev/md127", system=host)
    assert device_safety.refusals(facts, layer) == []
    # Made anew it has another UUID; what was published of the one before is not it.
    stale = {**layer, "identity": {**layer["identity"], "uuid": f"{UUID}07"}}
    assert [refusal.code for refusal in device_safety.refusals(facts, stale)] == ["device_mapped"]


def test_arrays_that_are_not_there_yet_are_predicted(arrays):
    described = [wanted(1, 2), wanted(1, 2, name="two", members=[{"serial": "slow-3"}, {"serial": "slow-4"}])]
    layers = arrays().layers(described, arrays().current(described))
    assert [(layer["path"], layer["size_bytes"]) for layer in layers] == [("/dev/md127", None), ("/dev/md126", None)]


# ---- what the user writes


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"members": [{"serial": "a"}]}, "raid_arrays slow members is 1, but RAID 10 needs at least 4: name more."),
        (
            {"level": 1, "chunk_kib": None, "members": [{"serial": "a"}]},
            "raid_arrays slow members is 1, but RAID 1 needs at least 2: name more.",
        ),
        (
            {"members": [{"serial": text} for text in "abcde"]},
            "raid_arrays slow members is 5, but RAID 10 mirrors pairs: name an even number.",
        ),
        (
            {"chunk_kib": 63},
            "raid_arrays slow chunk is '63KiB', but a chunk is a power of two from 4KiB: write one, such as 64KiB.",
        ),
        ({"chunk_kib": 2}, "a power of two from 4KiB"),
        ({"level": 1, "chunk_kib": 64}, "raid_arrays slow chunk is '64KiB', but RAID 1 has no chunks: leave it out."),
        ({"level": 0}, "raid_arrays slow bitmap is 'internal', but RAID 0 has nothing to synchronise: leave it out."),
        ({"stripe_cache": 512}, "RAID 10 has no stripe cache: leave it out, or use level 5 or 6."),
        (
            {"level": 5, "stripe_cache": 16},
            "raid_arrays slow stripe_cache is 16, but the kernel takes 17 to 32768 pages: write one of these.",
        ),
        ({"level": 6, "stripe_cache": 32769}, "17 to 32768 pages"),
        ({"members": [{"serial": "a"}] * 4}, "raid_arrays slow members is 'a'. Name each member once."),
        ({"members": [{"serial": "a"}, {"serial": "b"}, {"serial": "c"}, {}]}, "Say which disk is meant"),
        ({"name": "sl ow"}, "raid_arrays name is 'sl ow'."),
    ],
)
def test_bad_arrays(more, sentence):
    array = {**wanted(), **more}
    before = copy.deepcopy(array)
    with pytest.raises(Failure) as caught:
        raid.check_arrays([array])
    assert caught.value.code == "bad_value" and sentence in str(caught.value)
    assert array == before


def test_good_arrays():
    good = [
        wanted(),
        wanted(0, 2, name="r0", bitmap="none"),
        wanted(5, 3, name="r5", stripe_cache=17),
        wanted(6, 4, name="r6"),
    ]
    assert raid.check_arrays(good) == good
    with pytest.raises(Failure, match="another name"):
        raid.check_arrays([wanted(), wanted()])
