# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only Windows has, on Windows: rights of folders, accounts, versions of files, and a disk that is made, read and taken away. Without stand-ins.

For machines that are thrown away: it needs an administrator and Windows PowerShell 5.1, and makes folders in the root of C: and a virtual disk.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
from cases import Case

pytestmark = [
    pytest.mark.powershell,
    pytest.mark.skipif(
        os.name != "nt" or not os.environ.get("STORLAB_THROWAWAY"),
        reason="not a throwaway Windows: STORLAB_THROWAWAY is not set",
    ),
]
SIZE_MIB = 64
LETTER = "S"


def asked(bench, script: str, **given) -> dict:
    """The answer of a script as it is sent, all its parts with it, to Windows itself."""
    case = Case(script, "on Windows", given, whole=True, stand_ins=False)
    return bench.answer(case)


def rights_of(folder: Path) -> str:
    return subprocess.run(["icacls", str(folder)], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder():
    place = Path("C:\\", f"storlab-test-{uuid.uuid4().hex[:8]}")
    yield place
    shutil.rmtree(place, ignore_errors=True)


def test_private_folder_belongs_to_administrators_and_system_alone(bench, folder):
    answer = asked(bench, "folder_private", Folder=str(folder / "t1"))
    assert (answer["failed"], answer["error"]) == (False, None)
    for place in (folder, folder / "t1"):
        lines = [line for line in rights_of(place).replace(str(place), "").splitlines() if ":(" in line]
        assert len(lines) == 2
        assert all("(OI)(CI)(F)" in line and "(I)" not in line for line in lines)
    # Made once, it is taken as it is.
    assert asked(bench, "folder_private", Folder=str(folder / "t1"))["error"] is None


def test_folder_that_others_may_replace_is_refused_and_nothing_is_made_in_it(bench, folder):
    folder.mkdir()
    subprocess.run(["icacls", str(folder), "/grant", "*S-1-5-32-545:(OI)(CI)M"], check=True, capture_output=True)
    answer = asked(bench, "folder_private", Folder=str(folder / "t1"))
    assert answer["failed"]
    assert "be replaced by others" in answer["error"] or "does not belong to the administrators" in answer["error"]
    assert list(folder.iterdir()) == []


def test_run_does_not_begin_in_a_folder_of_somebody_else(bench, folder):
    folder.mkdir()
    subprocess.run(["icacls", str(folder), "/grant", "*S-1-5-32-545:(OI)(CI)M"], check=True, capture_output=True)
    texts = (
        "Runner",
        "Program",
        "Arguments",
        "Output",
        "Session",
        "Link",
        "LinkTarget",
        "LicenceVersion",
        "Leaves",
        "Mark",
    )
    answer = asked(
        bench,
        "engine_start",
        Folder=str(folder / "run"),
        TaskName=f"storlab test {folder.name}",
        Names=[],
        Contents=[],
        LimitS=1,
        **dict.fromkeys(texts, ""),
    )
    assert answer["failed"]
    assert list(folder.iterdir()) == []


def test_host_is_described(bench):
    program = Path(os.environ["SYSTEMROOT"], "System32", "WindowsPowerShell", "v1.0", "powershell.exe")
    answer = asked(bench, "engine_host", Program=str(program))
    assert answer["error"] is None
    about = answer["result"]
    assert about["program"].lower() == str(program).lower()
    assert about["version"]
    assert about["account"].rpartition("\\")[2].lower() == getpass.getuser().lower()
    assert about["cpu"]["cores"] == os.cpu_count()
    assert about["memory_bytes"] > 1 << 30
    assert about["product"].startswith("Microsoft Windows")
    assert asked(bench, "engine_host", Program="storlab-none")["result"]["program"] is None


def diskpart(*lines: str) -> None:
    subprocess.run(["diskpart"], input="\n".join([*lines, "exit"]) + "\n", capture_output=True, text=True, check=True)


@pytest.fixture
def attached(bench, tmp_path):
    """(number) of a disk that is there since, of a size that no other has."""
    file = tmp_path / "disk.vhd"
    before = {disk["number"] for disk in asked(bench, "state", Files=[])["result"]["disks"]}
    diskpart(
        f'create vdisk file="{file}" maximum={SIZE_MIB} type=expandable', f'select vdisk file="{file}"', "attach vdisk"
    )
    try:
        (number,) = {disk["number"] for disk in asked(bench, "state", Files=[])["result"]["disks"]} - before
        yield number
    finally:
        diskpart(f'select vdisk file="{file}"', "detach vdisk")


def test_disk_is_initialised_formatted_and_read_by_the_real_cmdlets(bench, attached):
    def disk() -> dict:
        return next(one for one in asked(bench, "state", Files=[])["result"]["disks"] if one["number"] == attached)

    blank = disk()
    assert (blank["size_bytes"], blank["style"], blank["partitions"], blank["boot"], blank["system"]) == (
        SIZE_MIB << 20,
        "RAW",
        [],
        False,
        False,
    )
    ready = [("disk_online", {"Number": attached})] * blank["offline"] + [
        ("disk_writable", {"Number": attached})
    ] * blank["read_only"]
    for script, given in (
        *ready,
        ("disk_initialize", {"Number": attached, "Style": "MBR"}),
        ("partition_new", {"Number": attached, "Letter": LETTER}),
        ("volume_format", {"Letter": LETTER, "Label": "storlab-12345678"}),
        ("file_write", {"Path": f"{LETTER}:\\storlab-benchmark.dat", "SizeBytes": 1048577}),
    ):
        answer = asked(bench, script, **given)
        assert (script, answer["error"], answer["output"]) == (script, None, [])
    state = asked(bench, "state", Files=[f"{LETTER}:\\storlab-benchmark.dat", f"{LETTER}:\\none"])["result"]
    (part,) = disk()["partitions"]
    assert (disk()["style"], part["letter"]) == ("MBR", LETTER)
    (volume,) = [one for one in state["volumes"] if one["letter"] == LETTER]
    assert (volume["label"], volume["filesystem"]) == ("storlab-12345678", "NTFS")
    assert {"name": "storlab-benchmark.dat", "size_bytes": 1048577} in volume["entries"]
    assert state["files"] == [f"{LETTER}:\\storlab-benchmark.dat"]
    assert asked(bench, "disk_clear", Number=attached)["error"] is None
    assert (disk()["style"], disk()["partitions"]) == ("RAW", [])
    # What no expectation was written for is kept in the log of the run.
    print(json.dumps(state, indent=1))
