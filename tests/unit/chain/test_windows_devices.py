# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, disks and letters that the user names on a Windows host, and that are not there or are somebody else's."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import doctor
from chain_lab import expanded

MIB = 1 << 20
LAB = """
all: {testbed_id: lab, testbed_windows: true}
targets: {win01: {testbed_address: 192.0.2.11}}
clients: {win02: {testbed_address: 192.0.2.12}}
"""
SYSTEM = {"letter": "C", "label": "System", "size_bytes": 90 * MIB}
SEEN = {
    "volumes": [SYSTEM, {"letter": "E", "label": "", "size_bytes": 40 * MIB}],
    "disks": [
        {"number": 0, "name": "Msft Virtual Disk", "size_bytes": 100 * MIB},
        {"number": 1, "name": "Fast RAM", "size_bytes": 64 * MIB},
        {"number": 2, "name": "Fast RAM", "size_bytes": 48 * MIB},
        {"number": 3, "name": "Fast RAM", "size_bytes": 48 * MIB},
    ],
}


def problems(disk: str, stores: str = "", seen=SEEN, host: str = "win01", lab: str = LAB) -> list:
    words = f"{{disks: [{disk}]{', datastores: [' + stores + ']' if stores else ''}}}"
    testbed = expanded(lab.replace("testbed_windows: true}", f"testbed_windows: true, testbed: {words}}}", 1))
    return [problem.sentence() for problem in doctor.unfit(testbed, {host: seen})]


def vhdx(path: str = "E:\\lab\\a.vhdx", size: str = "32MiB", more: str = "") -> str:
    return f"{{name: bench, kind: vhdx, path: '{path}', size: {size}{more}}}"


@pytest.mark.parametrize("disk", [vhdx(), vhdx("e:\\a.vhdx"), vhdx("C:\\a.vhdx", "89MiB", ", allocation: fixed")])
def test_a_file_on_a_volume_that_is_there_is_good(disk):
    assert problems(disk) == []


@pytest.mark.parametrize(
    ("disk", "sentence"),
    [
        (
            vhdx("F:\\lab\\a.vhdx"),
            "testbed.disks[0].path is 'F:\\\\lab\\\\a.vhdx', and win01 has no volume F:: use one of its volumes, which are C:, E:, or make F: there.",
        ),
        (
            vhdx(size="41MiB", more=", allocation: fixed"),
            "testbed.disks[0].size is 41MiB, and volume E: of win01 has 40MiB in all: make the file smaller, or write allocation: dynamic.",
        ),
        (
            "{name: bench, size: 64MiB, model: 'Slow*'}",
            "testbed.disks[0].model is 'Slow*', and win01 has no disk of that model: make it in its own product, or use a model that Get-Disk lists "
            "there: Fast RAM, Msft Virtual Disk.",
        ),
        (
            "{name: bench, size: 63MiB, model: 'fast*'}",
            "testbed.disks[0].model is 'fast*', and the disks of that model on win01 have 48MiB, 64MiB, not 63MiB: correct the size, or make the disk "
            "of that size in its own product.",
        ),
        (
            "{name: bench, size: 48MiB, model: 'Fast RAM'}",
            "testbed.disks[0].model is 'Fast RAM', and 2 disks of win01 have that model and 48MiB: give the disks different sizes in their own product.",
        ),
    ],
)
def test_what_is_not_there_is_named_with_its_remedy(disk, sentence):
    assert problems(disk) == [sentence]


def test_a_file_on_a_volume_that_the_build_makes_is_good():
    ram = "{name: ram, size: 64MiB, model: 'fast*', to: []}, "
    store = "{disk: ram, hosts: [win01], mount_point: 'R:'}"
    assert problems(ram + vhdx("r:\\lab\\a.vhdx"), store) == []
    assert len(problems(ram + vhdx("Q:\\lab\\a.vhdx"), store)) == 1


def test_one_disk_of_a_model_is_the_one_that_is_meant():
    assert problems("{name: bench, size: 64MiB, model: 'fast*'}") == []


@pytest.mark.parametrize(("label", "free"), [("", True), ("storlab-lab-ds1", True), ("Accounts", False)])
def test_a_letter_of_somebodys_volume_is_refused(label, free):
    seen = {**SEEN, "volumes": [SYSTEM, {"letter": "S", "label": label, "size_bytes": MIB}]}
    wrong = problems("{name: ds1, size: 64MiB}", "{disk: ds1, mount_point: 'S:', benchmark_file: 16MiB}", seen, "win02")
    assert wrong == (
        []
        if free
        else [
            "testbed.datastores[0].mount_point is 'S:', which is the volume 'Accounts' of win02 already: use a letter that is free there, such as D:."
        ]
    )


def test_a_role_variable_is_named_as_it_was_written():
    lab = LAB.replace(
        "win01: {",
        "win01: {ramdisk_provider: preinstalled, ramdisk_disks: [{name: bench, size_mib: 64, model: Other, purpose: scratch}], ",
    )
    assert problems("{name: bench, size: 64MiB}", lab=lab) == [
        "ramdisk_disks[0].model of win01 is 'Other', and win01 has no disk of that model: make it in its own product, or use a model that Get-Disk "
        "lists there: Fast RAM, Msft Virtual Disk."
    ]


def test_a_host_that_was_not_seen_has_nothing_wrong():
    assert problems(vhdx("F:\\lab\\a.vhdx"), seen={"unreached": "no way"}) == []
