# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of our own on storage of others: only what carries our stamp is written to and removed, and nothing is written through a link."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import own_file
from unchanged import broken_off, refused, unchanged

MIB = 1 << 20
FOLDER = own_file.folder_name("lab", "nas")
TOKEN = "17c5"


@pytest.fixture
def share(tmp_path):
    """Somebody's folder; its file system is taken for an empty one, whatever the tests' own has left."""
    place = tmp_path / "share"
    (place / "vms").mkdir(parents=True)
    (place / "vms" / "theirs.img").write_bytes(os.urandom(MIB))
    return place


@pytest.fixture(autouse=True)
def space(monkeypatch):
    free = SimpleNamespace(f_bavail=1000, f_blocks=1000, f_frsize=MIB)
    monkeypatch.setattr(own_file.os, "fstatvfs", lambda _handle: free)
    return free


@pytest.fixture
def ours(share):
    own_file.make(str(share), FOLDER, TOKEN, stamped=False)
    own_file.write(str(share), FOLDER, TOKEN, 3 * MIB)
    return share / FOLDER


def removed(share, stamped=True, token=TOKEN):
    return own_file.remove(str(share), FOLDER, token, stamped)


def test_names_of_folders_are_injective():
    pairs = [("a", "b-c"), ("a-b", "c"), ("a.b", "c"), ("a", "b.c"), ("a", "b")]
    assert len({own_file.folder_name(*pair) for pair in pairs}) == len(pairs)


def test_what_is_made_is_written_whole_and_removed_whole(share, ours):
    with unchanged(share / "vms"):
        content = (ours / "storlab-benchmark.dat").read_bytes()
        assert len(content) == own_file.size_bytes(str(share), FOLDER) == 3 * MIB
        assert len({content[at : at + MIB] for at in range(0, 3 * MIB, MIB)}) == 3
        assert ours.stat().st_mode & 0o777 == 0o700
        assert json.loads((ours / own_file.STAMP).read_text())["token"] == TOKEN
        assert removed(share) == [] and not ours.exists()
        # Nothing is left to remove.
        assert removed(share) == []


def test_a_second_build_writes_nothing_and_another_size_is_written_anew(share, ours):
    with unchanged(share):
        own_file.make(str(share), FOLDER, TOKEN, stamped=True)
        own_file.write(str(share), FOLDER, TOKEN, 3 * MIB)
    own_file.write(str(share), FOLDER, TOKEN, 2 * MIB)
    assert own_file.size_bytes(str(share), FOLDER) == 2 * MIB


@pytest.mark.parametrize("what", ["folder", "file", "link", "other stamp", "bad stamp", "stamp is a link"])
def test_what_others_have_under_that_name_stays_theirs(share, tmp_path, what):
    place = share / FOLDER
    if what == "file":
        place.write_text("theirs")
    elif what == "link":
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / own_file.STAMP).write_text(json.dumps({"token": TOKEN}))
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        (place / "storlab-benchmark.dat").write_bytes(b"theirs")
        if what == "other stamp":
            (place / own_file.STAMP).write_text(json.dumps({"token": "23e9"}))
        elif what == "bad stamp":
            (place / own_file.STAMP).write_text("[1")
        elif what == "stamp is a link":
            (tmp_path / "stamp").write_text(json.dumps({"token": TOKEN}))
            (place / own_file.STAMP).symlink_to(tmp_path / "stamp")
    for attempt in (
        lambda: own_file.refuse_taken(str(share), FOLDER),
        lambda: own_file.make(str(share), FOLDER, TOKEN, stamped=True),
        lambda: own_file.make(str(share), FOLDER, TOKEN, stamped=False),
        lambda: own_file.write(str(share), FOLDER, TOKEN, MIB),
    ):
        if what == "folder" and attempt.__code__.co_consts and False in attempt.__code__.co_consts:
            continue
        with refused(tmp_path, match="nothing in it is touched") as caught:
            attempt()
        assert caught.value.code == "folder_foreign"
    with unchanged(tmp_path):
        assert removed(share) == [str(place)]
        assert removed(share, stamped=False) == [str(place)]


@pytest.mark.parametrize("there", ["nothing", "empty stamp"])
def test_a_build_that_was_killed_before_its_stamp_goes_on(share, there):
    (share / FOLDER).mkdir()
    if there == "empty stamp":
        (share / FOLDER / own_file.STAMP).touch()
    own_file.make(str(share), FOLDER, TOKEN, stamped=False)
    own_file.write(str(share), FOLDER, TOKEN, MIB)
    assert removed(share) == [] and not (share / FOLDER).exists()


@pytest.mark.parametrize("there", ["nothing", "empty stamp"])
def test_so_does_its_teardown(share, there):
    (share / FOLDER).mkdir()
    if there == "empty stamp":
        (share / FOLDER / own_file.STAMP).touch()
    assert removed(share, stamped=False) == [] and not (share / FOLDER).exists()


def test_what_others_put_beside_ours_stays_and_is_named(share, ours):
    (ours / "letter.txt").write_text("theirs")
    (ours / "sub").mkdir()
    assert removed(share) == [f"{ours}/letter.txt", f"{ours}/sub"]
    assert sorted(os.listdir(ours)) == [own_file.STAMP, "letter.txt", "sub"]
    (ours / "letter.txt").unlink()
    (ours / "sub").rmdir()
    assert removed(share) == [] and not ours.exists()


def own_layer(share):
    return {
        "name": "datastore-nas",
        "kind": "datastore",
        "host": "client01",
        "purpose": "scratch",
        "parent": None,
        "path": f"{share}/{FOLDER}/storlab-benchmark.dat",
        "size_bytes": 3 * MIB,
        "identity": {"mount_point": str(share), "source": "nas:/vms", "own_folder": FOLDER},
        "detail": {"provider": "existing", "own": {"token": TOKEN}},
    }


def facts_of(path):
    """What the host's own look at a path has of a file that nothing uses."""
    resolved = os.path.realpath(path)
    status = os.stat(resolved)
    return {
        "path": path,
        "resolved": resolved,
        "type": "file" if os.path.isfile(resolved) else "character device",
        "held_as": f"inode {status.st_ino} on 0:41",
        "size_bytes": status.st_size,
        "mount_point": path.partition(f"/{FOLDER}")[0].partition("/vms")[0],
    }


@pytest.fixture
def mounted(monkeypatch, share):
    """The share is a mount."""
    table = [{"mount_point": str(share), "source": "nas:/vms", "filesystem": "nfs4", "options": "rw"}]
    monkeypatch.setattr(own_file.mounts, "read", lambda: table)
    monkeypatch.setattr(own_file.device_safety, "inspect", facts_of)
    return table


def test_the_guard_takes_our_file_and_nothing_else(share, ours, mounted):
    assert own_file.is_own(own_layer(share)) and not own_file.is_own({"identity": {"mount_point": "/x"}})
    assert own_file.guard(own_layer(share))["size_bytes"] == 3 * MIB


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("second name", "file_linked"),
        ("link", "not_a_device"),
        ("link inside", "file_linked"),
        ("other path", "not_a_device"),
        ("stamp gone", "folder_foreign"),
        ("other stamp", "folder_foreign"),
        ("other server", "wrong_mount"),
        ("not mounted", "wrong_mount"),
        ("size", "wrong_size"),
        ("folder is a link", "folder_foreign"),
    ],
)
def test_a_point_is_refused_on_whatever_else_has_that_name(share, ours, mounted, tmp_path, what, code):
    layer, file = own_layer(share), ours / "storlab-benchmark.dat"
    if what == "second name":
        os.link(file, share / "vms" / "twin")
    elif what == "link":
        file.unlink()
        file.symlink_to("/dev/null")
    elif what == "link inside":
        file.rename(ours / "other")
        file.symlink_to(ours / "other")
    elif what == "other path":
        layer["path"] = str(share / "vms" / "theirs.img")
    elif what == "stamp gone":
        (ours / own_file.STAMP).unlink()
    elif what == "other stamp":
        (ours / own_file.STAMP).write_text(json.dumps({"token": "23e9"}))
    elif what == "other server":
        mounted[0]["source"] = "nas2:/vms"
    elif what == "not mounted":
        mounted.clear()
    elif what == "size":
        layer["size_bytes"] = 2 * MIB
    else:
        ours.rename(share / "moved")
        ours.symlink_to(share / "moved")
    with refused(tmp_path) as caught:
        own_file.guard(layer)
    assert caught.value.code == code


def test_a_file_with_a_second_name_is_neither_written_nor_removed(share, ours, tmp_path):
    os.link(ours / "storlab-benchmark.dat", share / "vms" / "twin")
    with refused(tmp_path) as caught:
        own_file.write(str(share), FOLDER, TOKEN, MIB)
    assert caught.value.code == "file_linked"
    assert removed(share) == [f"{ours}/storlab-benchmark.dat"]
    assert (share / "vms" / "twin").stat().st_nlink == 2


@pytest.mark.parametrize(("free", "refuses"), [(102, False), (101, True), (1, True)])
def test_a_tenth_of_the_file_system_stays_free(share, space, free, refuses, tmp_path):
    own_file.make(str(share), FOLDER, TOKEN, stamped=False)
    space.f_bavail = free
    if not refuses:
        own_file.write(str(share), FOLDER, TOKEN, 2 * MIB)
        return
    with refused(tmp_path, match="100 MiB .10 %. stay free") as caught:
        own_file.write(str(share), FOLDER, TOKEN, 2 * MIB)
    assert caught.value.code == "space_short"


def test_storage_that_fills_up_meanwhile_keeps_no_part_of_the_file(share, monkeypatch):
    own_file.make(str(share), FOLDER, TOKEN, stamped=False)
    real = os.pwritev
    monkeypatch.setattr(own_file.os, "pwritev", lambda file, parts, at: real(file, parts, at) if at < 2 * MIB else 17)
    with broken_off(match="No space left") as caught:
        own_file.write(str(share), FOLDER, TOKEN, 5 * MIB)
    assert caught.value.code == "space_short" and os.listdir(share / FOLDER) == [own_file.STAMP]


def test_a_place_that_cannot_be_written_to_has_a_sentence(share, monkeypatch):
    def refuses(*_given):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(own_file.os, "mkdir", refuses)
    with refused(share, match="Read-only file system") as caught:
        own_file.make(str(share), FOLDER, TOKEN, stamped=False)
    assert caught.value.code == "folder_unwritable"
