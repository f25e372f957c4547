# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of Arsenal Image Mounter, against the stand-in: made, found again, made anew after a restart, and never anybody else's."""

# A fixture of another file is used by its name.
# ruff: noqa: F811

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.action import win_ramdisk, win_state
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import action as windows_action
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import aim, device_safety
from test_windows_actions import bench, code  # noqa: F401
from world import Host

MADE = {"program": "aim_ll.exe", "folder": "C:\\aim\\driver", "installed": True, "devices": {}}
THEIRS = 90 << 20


@pytest.fixture
def host(bench, monkeypatch):
    """A client with Arsenal Image Mounter, and build, teardown and the like of two RAM disks on it."""
    monkeypatch.setattr(win_ramdisk, "APPEARS_S", 0)
    monkeypatch.setattr(windows_action, "RETRY_EVERY_S", 0)
    disks = [{"name": "one", "size_mib": 70, "purpose": "scratch"}, {"name": "two", "size_mib": 33}]

    def change(work):
        with bench.world.open():
            return work(Host(bench.world, "client"))

    def build(**arguments) -> dict:
        return bench.run("client", win_ramdisk, **{"provider": "aim", "disks": disks, **arguments})

    change(lambda client: client.data.update(aim=copy.deepcopy(MADE)))
    return SimpleNamespace(
        build=build,
        disks=disks,
        change=change,
        bench=bench,
        data=lambda: bench.host("client"),
        teardown=lambda: bench.run("client", win_ramdisk, provider="aim", state="absent"),
        state=lambda: bench.run("client", win_state)["storage_state"],
        drive=lambda number: bench.host("client")["disks"][str(bench.host("client")["aim"]["devices"][number])],
        others=lambda number="", size=THEIRS: change(
            lambda client: client._aim_ll(["-a", "-t", "vm", "-s", str(size), *(["-u", number] if number else [])])
        ),
        record=lambda: json.loads(
            next((bench.folder / "state" / "windows").glob("ramdisk-*")).read_text(encoding="utf-8")
        ),
        calls=lambda: [call["script"] for call in bench.world.data["calls"]],
    )


def ops(result: dict) -> list:
    assert not result.get("failed"), result["msg"]
    return [(step["op"], step["target"]) for step in result["steps"]]


ALL = [
    ("make_disk", "RAM disk one"),
    ("make_disk", "RAM disk two"),
    ("clear", "RAM disk one"),
    ("initialize", "RAM disk one"),
    ("clear", "RAM disk two"),
    ("initialize", "RAM disk two"),
]


def test_disks_have_their_exact_size_an_mbr_and_no_partition(host):
    result = host.build()
    assert ops(result) == ALL
    for number, size in (("000000", 70 << 20), ("000100", 33 << 20)):
        disk = host.drive(number)
        assert (disk["size_bytes"], disk["style"], disk["partitions"], disk["volumes"], disk["offline"]) == (
            size,
            "MBR",
            [],
            {},
            False,
        )
    layers = {layer["name"]: layer for layer in result["layers"]}
    assert layers["backing-two"] == {
        "name": "backing-two",
        "kind": "backing",
        "parent": None,
        "purpose": "data",
        "size_bytes": 33 << 20,
        "path": f"\\\\.\\PhysicalDrive{host.data()['aim']['devices']['000100']}",
        "detail": {"provider": "aim", "device": "000100"},
        "identity": {"unique_id": host.drive("000100")["unique_id"], "serial": host.drive("000100")["serial"]},
    }
    assert layers["backing-one"]["path"] != layers["backing-two"]["path"]


@pytest.mark.parametrize(
    "looks",
    [
        {"partitions": [{"number": 1, "type": "Unknown", "size_bytes": 5 << 20, "letter": ""}]},
        {"style": "GPT"},
        {"partitions": [], "volumes": {}, "style": "RAW"},
    ],
    ids=["another partition", "GPT", "blank"],
)
def test_disk_that_was_just_made_is_taken_as_it_is(host, monkeypatch, looks):
    """Windows may show a new device in another way than the source of the program promises; its number proves it as long as this run lasts."""
    real = Host._aim_attach

    def attach(self, options):
        answer = real(self, options)
        self.data["disks"][str(self.data["aim"]["devices"][options["-u"]])].update(copy.deepcopy(looks))
        return answer

    monkeypatch.setattr(Host, "_aim_attach", attach)
    assert "make_disk" in [op for op, _target in ops(host.build())]
    assert [(host.drive(number)["style"], host.drive(number)["partitions"]) for number in ("000000", "000100")] == [
        ("MBR", []),
        ("MBR", []),
    ]
    assert host.build()["changed"] is False


def test_second_run_changes_nothing_and_tells_the_same_layers(host):
    first = host.build()
    before = copy.deepcopy(host.data())
    again = host.build()
    assert (ops(again), again["changed"], again["layers"]) == ([], False, first["layers"])
    assert host.data() == before


def test_check_mode_tells_the_same_steps_and_changes_nothing(host):
    before = copy.deepcopy(host.data())
    told = host.build(check=True)
    assert host.data() == before
    assert not (host.bench.folder / "state").exists()
    assert [layer["path"] for layer in told["layers"]] == [None, None]
    real = host.build()
    assert (told["steps"], told["diff"]) == (real["steps"], real["diff"])


def test_teardown_removes_exactly_what_was_made(host):
    host.others()
    before = host.state()
    host.build()
    assert sorted(ops(host.teardown())) == [("remove_disk", "RAM disk one"), ("remove_disk", "RAM disk two")]
    assert host.state() == before
    assert list(host.data()["aim"]["devices"]) == ["000000"]
    assert list((host.bench.folder / "state" / "windows").iterdir()) == []
    assert host.teardown()["changed"] is False


def test_disk_that_is_not_wanted_any_more_goes(host):
    host.build()
    assert ops(host.build(disks=host.disks[1:])) == [("remove_disk", "RAM disk one")]
    assert list(host.data()["aim"]["devices"]) == ["000100"]
    assert host.build(disks=host.disks[1:])["changed"] is False


def test_guard_lets_a_benchmark_write_to_it_and_to_no_later_one_in_its_place(host):
    layer = host.build()["layers"][0]
    assert device_safety.judge(host.change(lambda client: client.state([])), layer) == ([], [])
    host.change(lambda client: client.restart())
    host.others("000000", 70 << 20)
    refused, _overridden = device_safety.judge(host.change(lambda client: client.state([])), layer)
    assert {"wrong_unique_id", "wrong_serial", "device_mounted"} <= {one.code for one in refused}


@pytest.mark.parametrize(
    "theirs", [[], ["000000"], ["000100", "000000"]], ids=["nobody", "one of others", "two of others"]
)
def test_disks_are_made_anew_after_a_restart_and_those_of_others_stay(host, theirs):
    host.build()
    host.change(lambda client: client.restart())
    for number in theirs:
        # Of the same number and size as ours was.
        host.others(number, 70 << 20 if number == "000000" else 33 << 20)
    kept = {number: host.drive(number)["unique_id"] for number in theirs}
    assert ops(host.build()) == ALL
    assert {number: host.drive(number)["unique_id"] for number in theirs} == kept
    assert len(host.data()["aim"]["devices"]) == 2 + len(theirs)
    assert host.build()["changed"] is False
    host.teardown()
    assert {number: host.drive(number)["unique_id"] for number in theirs} == kept
    assert len(host.data()["aim"]["devices"]) == len(theirs)


def test_teardown_after_a_restart_needs_nothing_and_touches_nobody(host):
    host.build()
    host.change(lambda client: client.restart())
    host.others("000000", 70 << 20)
    host.change(lambda client: client.data["aim"].update(program="moved.exe"))
    assert host.teardown()["changed"] is False
    assert list(host.data()["aim"]["devices"]) == ["000000"]


def test_device_without_a_serial_is_ours_in_this_start_of_the_host_only(host):
    disks = host.disks[:1]
    host.build(disks=disks)
    record = next((host.bench.folder / "state" / "windows").glob("ramdisk-*"))
    host.change(lambda client: client.data["disks"]["1"].update(serial=""))
    kept = json.loads(record.read_text(encoding="utf-8"))
    kept["devices"]["one"]["serial"] = ""
    record.write_text(json.dumps(kept), encoding="utf-8")
    assert host.build(disks=disks)["changed"] is False
    # The next start gives the same place to a device of the same size, which some drivers show as the same id.
    host.change(lambda client: client.data.update(boot=client.data["boot"] + 1))
    assert ops(host.build(disks=disks))[0] == ("make_disk", "RAM disk one")
    assert len(host.data()["aim"]["devices"]) == 2


@pytest.mark.parametrize("change", [{"unique_id": "ANOTHER"}, {"serial": "{another}"}, {"size_bytes": 71 << 20}])
def test_device_that_differs_in_one_thing_is_not_ours(host, change):
    disks = host.disks[:1]
    host.build(disks=disks)
    host.change(lambda client: client.data["disks"]["1"].update(change))
    assert ops(host.build(disks=disks))[0] == ("make_disk", "RAM disk one")
    host.teardown()
    assert list(host.data()["aim"]["devices"]) == ["000000"]
    assert host.data()["disks"]["1"].items() >= change.items()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"partitions": [{"number": 1, "type": "IFS", "size_bytes": 69 << 20, "letter": ""}]}, "device_partitioned"),
        ({"boot": True}, "disk_boot"),
        ({"system": True}, "disk_system"),
        ({"clustered": True}, "disk_clustered"),
    ],
    ids=["partitioned", "boot", "system", "clustered"],
)
def test_disk_of_ours_that_is_used_is_neither_changed_nor_removed(host, change, expected):
    host.build()
    host.change(lambda client: client.data["disks"]["1"].update(change))
    before = copy.deepcopy(host.data())
    for refused in (host.build(), host.teardown(), host.build(disks=host.disks[1:]), host.build(check=True)):
        assert code(refused) == expected
    assert host.data() == before


@pytest.mark.parametrize(
    ("change", "repair"),
    [
        ({"offline": True}, ["online"]),
        ({"read_only": True}, ["writable"]),
        ({"style": "RAW"}, ["initialize"]),
        ({"style": "GPT"}, ["clear", "initialize"]),
    ],
)
def test_what_was_changed_since_is_repaired(host, change, repair):
    host.build()
    was = {key: host.drive("000000")[key] for key in change}
    host.change(lambda client: client.data["disks"]["1"].update(change))
    assert [op for op, _target in ops(host.build())] == repair
    assert {key: host.drive("000000")[key] for key in change} == was


def test_other_size_is_refused(host):
    host.build()
    before = copy.deepcopy(host.data())
    assert code(host.build(disks=[{"name": "one", "size_mib": 71}, host.disks[1]])) == "wrong_size"
    assert host.data() == before


@pytest.mark.parametrize("down", [True, False], ids=["taken down", "finished"])
@pytest.mark.parametrize(
    ("script", "nth"),
    [
        ("aim_run", 1),
        ("aim_run", 2),
        ("disk_clear", 1),
        ("disk_initialize", 1),
        ("disk_clear", 2),
        ("disk_initialize", 2),
    ],
)
def test_build_that_broke_anywhere_is_finished_or_taken_down(host, monkeypatch, script, nth, down):
    host.others()
    before = host.state()
    real, seen = Host.module, []

    def breaks(self, name, arguments, check_mode):
        seen.append(arguments["script"].partition("\n")[0].removeprefix("# storlab: "))
        if seen[-1] == script and seen.count(script) == nth:
            return {"failed": True, "msg": "broken"}
        return real(self, name, arguments, check_mode)

    monkeypatch.setattr(Host, "module", breaks)
    assert code(host.build()) == "windows_script_failed"
    if not down:
        assert host.build()["changed"] is True
        assert host.build()["changed"] is False
    assert not host.teardown().get("failed")
    assert host.state() == before


class Ended(Exception):
    """The controller ends here; no failure of it can be reported any more."""


def broken_off(host) -> None:
    """A device was made, and the controller ended before anybody heard of it."""
    real = Host.script_aim_run

    def loses(self, Program, Arguments):
        real(self, Program, Arguments)
        raise Ended

    Host.script_aim_run = loses
    try:
        with pytest.raises(Ended):
            host.build(disks=host.disks[:1])
    finally:
        Host.script_aim_run = real


def test_device_whose_making_broke_off_is_taken_over(host):
    broken_off(host)
    assert host.record()["devices"]["one"]["unique_id"] is None
    assert ops(host.build(disks=host.disks[:1])) == [("clear", "RAM disk one"), ("initialize", "RAM disk one")]
    assert list(host.data()["aim"]["devices"]) == ["000000"]


def test_device_whose_making_broke_off_is_removed(host):
    before = host.state()
    broken_off(host)
    assert ops(host.teardown()) == [("remove_disk", "RAM disk one")]
    assert host.state() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda disk: disk["volumes"]["D"].update(filesystem="NTFS"),
        lambda disk: disk["partitions"][0].update(size_bytes=68 << 20),
        lambda disk: disk["partitions"][0].update(folders=["C:\\mnt"]),
        lambda disk: disk["partitions"].append({"number": 2, "type": "IFS", "size_bytes": 1 << 20, "letter": ""}),
        lambda disk: disk.update(style="GPT"),
    ],
    ids=["formatted", "another partition", "mounted in a folder", "two partitions", "GPT"],
)
def test_device_that_nobody_was_told_of_is_not_ours_once_somebody_has_used_it(host, change):
    broken_off(host)
    host.change(lambda client: change(client.data["disks"]["1"]))
    before = copy.deepcopy(host.data()["disks"]["1"])
    assert ops(host.build(disks=host.disks[:1]))[0] == ("make_disk", "RAM disk one")
    host.teardown()
    assert host.data()["disks"]["1"] == before


def test_files_on_a_new_device_stay_when_it_could_not_be_cleared(host):
    host.change(
        lambda client: client.world.data["faults"].append(
            {"host": "client", "what": "disk_clear", "message": "busy", "times": 1}
        )
    )
    assert code(host.build(disks=host.disks[:1])) == "windows_script_failed"
    host.change(lambda client: client.data["disks"]["1"]["volumes"]["D"].update(filesystem="NTFS"))
    before = copy.deepcopy(host.data())
    assert [code(result) for result in (host.build(disks=host.disks[:1]), host.teardown())] == [
        "device_partitioned"
    ] * 2
    assert host.data() == before


# ---- the program and its driver


def test_missing_program_is_a_clear_failure(host):
    refused = host.build(aim_program="C:\\elsewhere\\aim_ll.exe")
    assert (code(refused), "C:\\elsewhere\\aim_ll.exe" in refused["msg"], "ramdisk_aim_program" in refused["msg"]) == (
        "program_missing",
        True,
        True,
    )


def test_missing_driver_is_a_clear_failure(host):
    host.change(lambda client: client.data["aim"].update(installed=False))
    before = copy.deepcopy(host.data())
    for refused in (host.build(), host.build(check=True)):
        assert (code(refused), "ramdisk_aim_driver_folder" in refused["msg"]) == ("driver_missing", True)
    assert host.data() == before


@pytest.mark.parametrize("restart", [False, True])
def test_driver_of_the_testbed_comes_and_goes_with_it(host, restart):
    host.change(lambda client: client.data["aim"].update(installed=False, restart=restart))
    result = host.build(aim_driver_folder="C:\\aim\\driver\\")
    assert result["reboot_required"] is restart
    if restart:
        assert (ops(result), result["layers"]) == ([("driver", aim.PRODUCT)], [])
        host.change(lambda client: client.restart())
        assert ops(host.build(aim_driver_folder="C:\\aim\\driver")) == ALL
    else:
        assert ops(result) == [("driver", aim.PRODUCT), *ALL]
    assert host.build()["changed"] is False
    down = host.teardown()
    assert (ops(down)[-1], down["reboot_required"]) == (("driver", aim.PRODUCT), restart)
    assert host.data()["aim"]["installed"] == ("leaving" if restart else False)
    assert list((host.bench.folder / "state" / "windows").iterdir()) == []


def test_check_mode_of_a_host_without_the_driver(host):
    host.change(lambda client: client.data["aim"].update(installed=False))
    told = host.build(check=True, aim_driver_folder="C:\\aim\\driver")
    assert ops(told) == [("driver", aim.PRODUCT), *ALL]
    assert told["steps"] == host.build(aim_driver_folder="C:\\aim\\driver")["steps"]


def test_driver_that_was_there_before_stays(host):
    host.build(aim_driver_folder="C:\\aim\\driver")
    host.teardown()
    assert host.data()["aim"]["installed"] is True


def test_driver_stays_while_others_have_devices_and_goes_with_the_last(host):
    host.change(lambda client: client.data["aim"].update(installed=False))
    host.build(aim_driver_folder="C:\\aim\\driver")
    host.others()
    assert ("driver", aim.PRODUCT) not in ops(host.teardown())
    assert list(host.data()["aim"]["devices"]) == ["000200"]
    host.change(lambda client: client._aim_lose("000200"))
    assert ops(host.teardown()) == [("driver", aim.PRODUCT)]
    assert host.data()["aim"]["installed"] is False


def test_driver_that_could_not_be_installed_is_not_removed_later(host):
    host.change(lambda client: client.data["aim"].update(installed=False))
    refused = host.build(aim_driver_folder="C:\\nowhere")
    assert (code(refused), "C:\\nowhere" in refused["msg"], refused["failure"]["details"]["exit_code"]) == (
        "aim_failed",
        True,
        3,
    )
    host.change(lambda client: client.data["aim"].update(installed=True))
    host.build()
    assert ("driver", aim.PRODUCT) not in ops(host.teardown())


def test_memory_that_is_too_small_is_what_the_program_says(host):
    host.change(lambda client: client.data["aim"].update(memory_bytes=64 << 20))
    refused = host.build()
    assert (code(refused), "Not enough memory" in refused["msg"]) == ("aim_failed", True)
    assert host.data()["aim"]["devices"] == {}
    host.change(lambda client: client.data["aim"].pop("memory_bytes"))
    assert ops(host.build()) == ALL


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"aim_program": ""}, "ramdisk_aim_program"),
        ({"aim_driver_folder": "driver"}, "full path"),
        ({"aim_driver_folder": 'C:\\a" --uninstall "'}, "full path"),
        ({"disks": [{"name": "one", "size_mib": 70, "model": "x"}]}, "model"),
    ],
)
def test_bad_values_are_refused(host, arguments, says):
    refused = host.build(**arguments)
    assert (code(refused), says in refused["msg"]) == ("bad_value", True)


def test_other_providers_do_not_ask_the_program(host):
    host.bench.run("client", win_ramdisk, provider="preinstalled", disks=[])
    host.bench.run("client", win_ramdisk, provider="preinstalled", state="absent")
    host.build(disks=[])
    assert host.calls().count("aim_list") == 1


# ---- what the program says


LISTED = """Device number 000000\r
Device is \\\\?\\PhysicalDrive2\r
No image file.\r
Size: 73400320 bytes (70 MB), Virtual Memory, HDD, Modified.\r
Contains volume \\\\?\\Volume{0c1d}\\\r
  Mounted at E:\\\r
\r
Device number 010100\r
Device is \\\\?\\PhysicalDrive14\r
Image file: \\??\\C:\\images\\Device number 5.img\r
Size: 1048576 bytes (1 MB), Queued unbuffered I/O Image File, HDD.\r
\r
Device number 020000\r
\r
3 devices found.\r
"""


def answer(code, output="", errors="", found=True) -> dict:
    return {"found": found, "exit_code": code, "output": output, "errors": errors}


def test_list_of_devices_is_read():
    assert aim.listing(answer(0, LISTED, "Error opening device: Access is denied. "), "aim_ll.exe") == {
        "driver": True,
        "devices": {
            "000000": {"drive": 2, "size_bytes": 73400320, "in_memory": True},
            "010100": {"drive": 14, "size_bytes": 1048576, "in_memory": False},
            "020000": {"drive": None, "size_bytes": None, "in_memory": False},
        },
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (answer(1, "No virtual disks.\r\n"), {"driver": True, "devices": {}}),
        (answer(4, errors="Arsenal Image Mounter not installed.\r\n"), {"driver": False, "devices": {}}),
    ],
)
def test_empty_lists_are_read(given, expected):
    assert aim.listing(given, "aim_ll.exe") == expected


@pytest.mark.parametrize(
    ("given", "expected", "says"),
    [
        (answer(None, found=False), "program_missing", "aim_ll.exe"),
        # What aim_ll 1.2.29 said where its driver could not be opened.
        (
            answer(6, errors="Cannot control the Arsenal Image Mounter: Invalid handle. \r\n"),
            "driver_inaccessible",
            "Invalid handle.",
        ),
        (answer(None), "driver_inaccessible", "no message"),
    ],
)
def test_lists_that_are_none_are_failures(given, expected, says):
    with pytest.raises(Failure) as raised:
        aim.listing(given, "aim_ll.exe")
    assert (raised.value.code, says in raised.value.as_result()["msg"]) == (expected, True)


@pytest.mark.parametrize(
    ("arguments", "status", "good"),
    [
        ("-a -t vm -s 1 -u 000000", 0, True),
        ("-a -t vm -s 1 -u 000000", 1, False),
        ("-d -u 000000", 2, False),
        ('--install "C:\\x"', 1, True),
        ('--install "C:\\x"', 3, False),
        ("--uninstall", 0, True),
        ("-d -u 000000", None, False),
    ],
)
def test_exit_codes_are_judged(arguments, status, good):
    given = answer(status, "Creating device...\r\n", "Error creating virtual disk: Invalid handle. \r\n")
    if good:
        aim.check_answer(arguments, given)
        return
    with pytest.raises(Failure) as raised:
        aim.check_answer(arguments, given)
    assert "Invalid handle. Creating device" in raised.value.as_result()["msg"]


def test_numbers_run_out(host):
    host.change(
        lambda client: client.data["aim"].update(
            devices={f"{unit:02X}{target:02X}00": 0 for unit in range(24) for target in range(8)}
        )
    )
    assert code(host.build()) == "devices_exhausted"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [("-a -t vm -s 70m", 70_000_000), ("-a -t vm -s 70M", 70 << 20), ("-a -t vm -s 7340032", 7340032)],
)
def test_stand_in_takes_units_as_the_program_does(host, arguments, expected):
    host.change(lambda client: client.script_aim_run("aim_ll.exe", arguments))
    assert host.drive("000000")["size_bytes"] == expected


def test_stand_in_removes_everybodys_devices_where_no_number_is_given(host):
    host.others()
    host.others()
    assert host.change(lambda client: client.script_aim_run("aim_ll.exe", "-d"))["exit_code"] == 0
    assert host.data()["aim"]["devices"] == {}
