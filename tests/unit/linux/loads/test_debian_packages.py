# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of an installation: how they lie in one file, what apt is asked for and says, and what of an installation is pure."""

from __future__ import annotations

import hashlib
import io
import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import (
    debian_installation,
    debian_packages,
    package_medium,
)
from unchanged import refused

CONTENTS = {"a_1_all.deb": b"a" * 10, "b_1_all.deb": b"b" * 4096, "c_1_all.deb": b"c" * (2 << 20 | 5)}


@pytest.fixture
def medium(tmp_path):
    """(what keep says, the file's bytes)."""
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    known = debian_packages.keep([str(tmp_path / name) for name in CONTENTS], str(tmp_path))
    return known, (tmp_path / f"{known['index_sha256']}.medium").read_bytes()


def test_every_package_comes_back_from_behind_anything(medium, tmp_path):
    known, content = medium
    assert known["bytes"] == len(content)
    handle = io.BytesIO(bytes(12288) + content)
    entries, digest = package_medium.read_index(handle, 12288)
    assert digest == known["index_sha256"] and [entry["file"] for entry in entries] == list(CONTENTS)
    for entry in entries:
        assert entry["offset"] % 4096 == 0
        package_medium.retrieve(handle, entry, str(tmp_path / "copy"))
        assert (tmp_path / "copy").read_bytes() == CONTENTS[entry["file"]]


def test_the_same_packages_are_the_same_file_and_others_are_not(medium, tmp_path):
    known, _content = medium
    paths = [str(tmp_path / name) for name in CONTENTS]
    assert debian_packages.keep(paths, str(tmp_path)) == known
    (tmp_path / "a_1_all.deb").write_bytes(b"b" * 10)
    assert debian_packages.keep(paths, str(tmp_path))["index_sha256"] != known["index_sha256"]


@pytest.mark.parametrize("place", [0, 17, 60])
def test_a_damaged_index_is_none(medium, place):
    content = bytearray(medium[1])
    content[place] ^= 1
    assert package_medium.read_index(io.BytesIO(bytes(content)), 0) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(8192)])
def test_what_is_no_medium_has_no_index(content):
    assert package_medium.read_index(io.BytesIO(content), 0) is None


@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_package_is_refused_and_not_left_there(medium, tmp_path, cut):
    content = bytearray(medium[1])
    content[-5000] ^= 1
    handle = io.BytesIO(bytes(content[:-8192] if cut else content))
    entry = package_medium.read_index(handle, 0)[0][-1]
    with refused(tmp_path) as caught:
        package_medium.retrieve(handle, entry, str(tmp_path / "copy"))
    assert caught.value.code == "medium_damaged" and "c_1_all.deb" in caught.value.what


def test_names_of_packages_are_of_what_apt_would_install():
    printed = (
        "Reading package lists...\n"
        "'http://deb.debian.org/debian/pool/main/a/acl/libacl1_2.3.1-3_amd64.deb' libacl1_2.3.1-3_amd64.deb 31488 MD5Sum:84\n"
        "'http://security.debian.org/x/liblzma5_5.4.1-1%2bdeb12u2_amd64.deb' liblzma5_5.4.1-1+deb12u2_amd64.deb 205796 \n"
    )
    assert debian_packages.names_of(printed) == ["libacl1_2.3.1-3_amd64.deb", "liblzma5_5.4.1-1+deb12u2_amd64.deb"]


def test_packages_are_asked_for_once_whatever_their_order():
    assert debian_packages.check(["dpkg", "dash", "sed", "sed"]) == ["dash", "dpkg", "sed"]


@pytest.mark.parametrize(
    "packages, words",
    [
        (["dash", "dpkg", "sed="], "is 'sed='"),
        (["dash", "dpkg", "sed-"], "is 'sed-'"),
        (["dash", "dpkg", "--purge"], "is '--purge'"),
        (["dash", "sed"], "Add dpkg:"),
        ([], "Add dpkg and dash:"),
    ],
)
def test_other_words_of_apt_and_a_system_without_a_shell_are_refused(packages, words):
    with pytest.raises(Failure) as caught:
        debian_packages.check(packages)
    assert caught.value.code == "bad_value" and words in str(caught.value)
    assert "testbed_installation.packages" in str(caught.value)


def test_what_was_downloaded_is_not_downloaded_again(medium, tmp_path, monkeypatch):
    known, _content = medium
    params = {"cache_dir": str(tmp_path), "packages": ["dpkg", "dash"]}
    downloads = []
    monkeypatch.setattr(debian_packages, "_downloaded", lambda *given: downloads.append(given) or known)
    assert debian_packages.ensure(params, check_mode=True) == {"changed": True} and not downloads
    answer = debian_packages.ensure(params, check_mode=False)
    assert answer["changed"] and answer["medium"]["index_sha256"] == known["index_sha256"]
    again = debian_packages.ensure({**params, "packages": ["dash", "dpkg"]}, check_mode=False)
    assert again == {**answer, "changed": False} and len(downloads) == 1
    (tmp_path / f"{known['index_sha256']}.medium").unlink()
    assert debian_packages.ensure(params, check_mode=False)["changed"] and len(downloads) == 2
    assert not list(tmp_path.glob(".apt-*"))


def test_the_packages_lie_at_the_end_of_the_disk():
    assert debian_installation.medium_begin(112 << 20, 12275712) == 100 << 20
    assert debian_installation.medium_begin((112 << 20) + 4096, (12 << 20) + 8192) == 99 << 20
    with pytest.raises(Failure) as caught:
        debian_installation.medium_begin(24 << 20, 12275712)
    assert caught.value.code == "bad_value" and "disk_size" in str(caught.value) and "12275712" in str(caught.value)


def test_a_package_that_is_not_installed_is_named():
    states = "ii  dash\niU  sed\niF  dpkg\nii  libc6\n"
    assert debian_installation.not_installed(states) == ["sed", "dpkg"]
    assert debian_installation.not_installed("") == []


def facts(**changes) -> dict:
    return {
        "path": "/dev/vdb",
        "resolved": "/dev/vdb",
        "type": "block",
        "size_bytes": 1 << 20,
        "serial": "s1",
        "mounts": [],
        "swap": [],
        "partitions": [],
        "partition": False,
        "whole_device": "/dev/vdb",
        "holders": [],
        "mapped": False,
        "mapped_uuid": None,
        "claim": None,
        "read_only": False,
        "exports": [],
        "loops": [],
        "openers": [],
        "signature": {},
        **changes,
    }


LAYER = {
    "name": "guest-g1",
    "kind": "guest",
    "host": "g1",
    "path": "/dev/vdb",
    "parent": "datastore-ds1",
    "purpose": "scratch",
    "size_bytes": 1 << 20,
    "identity": {"serial": "s1"},
}
OURS = debian_installation.filesystem_uuid("lab", "guest-g1")


@pytest.mark.parametrize(
    "changes, codes",
    [
        ({}, []),
        ({"signature": {"TYPE": "ext4", "UUID": OURS}}, []),
        ({"signature": {"TYPE": "ext4", "UUID": OURS}, "serial": "s2"}, ["wrong_serial"]),
        ({"signature": {"TYPE": "ext4", "UUID": OURS}, "mounts": ["/mnt"]}, ["device_mounted"]),
        (
            {"signature": {"TYPE": "ext4", "UUID": debian_installation.filesystem_uuid("lab", "guest-g2")}},
            ["signature_present"],
        ),
        (
            {"signature": {"TYPE": "ext4", "UUID": debian_installation.filesystem_uuid("other", "guest-g1")}},
            ["signature_present"],
        ),
        ({"signature": {"TYPE": "ext4"}}, ["signature_present"]),
    ],
)
def test_only_the_file_system_of_an_earlier_installation_is_no_objection(changes, codes):
    reasons = debian_installation.refusals(facts(**changes), LAYER, "lab", {})
    assert [reason.code for reason in reasons] == codes


def test_the_index_says_what_each_package_is():
    index = package_medium.index_of([("a.deb", 5000, "x"), ("b.deb", 1, "y")])
    assert json.loads(index) == [
        {"file": "a.deb", "offset": 0, "bytes": 5000, "sha256": "x"},
        {"file": "b.deb", "offset": 8192, "bytes": 1, "sha256": "y"},
    ]
    assert package_medium.whole_bytes(index) == 4096 + 8192 + 4096
    assert hashlib.sha256(index).digest() in next(package_medium.pieces(index, []))
