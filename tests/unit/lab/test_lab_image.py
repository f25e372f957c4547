# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os

import pytest
from ansible_collections.storlab.testbed.plugins.action.lab_image import progress_line
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import (
    image as lab_image,
)
from ansible_collections.storlab.testbed.plugins.module_utils.lab import (
    preflight as lab_preflight,
)
from unchanged import refused

RECIPE = {"init": b"a", "packages.txt": b"fio\n"}


def test_an_image_is_named_by_all_of_its_recipe():
    one = lab_image.recipe_hash(RECIPE)
    assert one == lab_image.recipe_hash(dict(reversed(list(RECIPE.items()))))
    others = [
        {**RECIPE, "init": b"b"},
        {**RECIPE, "packages.txt": b"fio\ntgt\n"},
        {**RECIPE, "more": b""},
        {"init": b"a" + b"fio\n", "packages.txt": b""},
    ]
    assert len({one, *(lab_image.recipe_hash(other) for other in others)}) == 5


def test_a_recipe_that_lacks_a_file_is_refused(tmp_path):
    with refused(tmp_path) as caught:
        lab_image.read_recipe(str(tmp_path), [])
    assert caught.value.code == "recipe_missing"


def test_the_roles_recipe_is_complete(root):
    recipe = lab_image.read_recipe(str(root / "roles/embedded_lab/files/image"), [])
    packages = lab_image.package_list(recipe["packages.txt"].decode())
    assert {"fio", "open-iscsi", "openssh-server", "python3", "qemu-utils", "tgt"} <= set(packages)
    assert sorted(os.listdir(root / "roles/embedded_lab/files/image")) == sorted(lab_image.RECIPE_FILES)


def test_comments_and_empty_lines_are_no_packages():
    assert lab_image.package_list("# two\nfio\n\n tgt # target\nfio\n") == ["fio", "tgt"]


def test_packages_beside_the_recipes_own_make_another_image():
    """However they are named, and only where the recipe lacks them: then an image that is there is not built again."""
    one = lab_image.recipe_hash(RECIPE)
    none = [[], ["fio"], ["fio", "fio"]]
    assert {lab_image.recipe_hash(lab_image.with_packages(RECIPE, packages)) for packages in none} == {one}
    more = [["tgt"], ["tgt", "g++", "libfoo1.2-dev"], ["tgt", "g++"]]
    others = {lab_image.recipe_hash(lab_image.with_packages(RECIPE, packages)) for packages in more}
    assert len(others | {one}) == 4
    again = lab_image.with_packages(RECIPE, ["g++", "fio", "tgt", "g++"])
    assert lab_image.recipe_hash(again) in others and RECIPE["packages.txt"] == b"fio\n"
    assert lab_image.package_list(again["packages.txt"].decode()) == ["fio", "g++", "tgt"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "Postgresql",
        "postgresql=15",
        "postgresql:i386",
        "postgresql-",
        "-o",
        "a,b",
        "a b",
        "a\n",
        "?name",
        "./a",
    ],
)
def test_what_is_no_name_of_a_package_is_refused_before_anything_is_looked_at(tmp_path, root, name):
    with refused(tmp_path) as caught:
        lab_preflight.observe(str(tmp_path), str(root / "roles/embedded_lab/files/image"), ["tgt", name], [], [], [])
    assert caught.value.code == "bad_value"
    assert str(caught.value).startswith(f"embedded_lab_image_packages is {name!r}. Use names of packages of Debian")


def test_an_image_with_other_packages_is_not_the_one_that_is_there(tmp_path, root):
    recipe = str(root / "roles/embedded_lab/files/image")
    make_image(tmp_path / lab_image.recipe_hash(lab_image.read_recipe(recipe, [])))
    there = {
        name: lab_preflight.observe(str(tmp_path), recipe, [name], [], [], [])["image_there"]
        for name in ("fio", "postgresql")
    }
    assert there == {"fio": True, "postgresql": False}
    params = {"image_dir": str(tmp_path), "recipe_dir": recipe, "state": "present"}
    assert lab_image.ensure({**params, "packages": ["fio"]}, True)["changed"] is False
    assert lab_image.ensure({**params, "packages": ["postgresql"]}, True)["changed"] is True


MODULES_DEP = """\
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko.xz:
kernel/net/net-failover.ko: kernel/net/failover.ko
kernel/net/failover.ko:
kernel/lib/crc16.ko:
kernel/drivers/virtio_net.ko: kernel/net/net-failover.ko kernel/net/failover.ko
"""


def test_modules_are_loaded_after_what_they_need():
    table = lab_image.parse_modules_dep(MODULES_DEP)
    order = lab_image.load_order(("virtio_net", "ext4", "overlay"), table, {"overlay"})
    assert (
        order.index("kernel/net/failover.ko")
        < order.index("kernel/net/net-failover.ko")
        < order.index("kernel/drivers/virtio_net.ko")
    )
    assert order.index("kernel/fs/jbd2/jbd2.ko") < order.index("kernel/fs/ext4/ext4.ko")
    assert len(order) == len(set(order)) == 6


def test_a_kernel_without_a_needed_module_is_refused():
    with pytest.raises(Failure) as caught:
        lab_image.load_order(("virtio_blk",), lab_image.parse_modules_dep(MODULES_DEP), set())
    assert caught.value.details == {"module": "virtio_blk"}


def unpack(archive: bytes) -> list:
    """(name, mode, content) of each entry, read as the kernel's documentation of the form says."""
    entries, at = [], 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        content_at = (at + 110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return entries
        entries.append((name, mode, archive[content_at : content_at + size]))
        at = (content_at + size + 3) // 4 * 4


def test_the_archive_can_be_unpacked():
    entries = [("dir", 0o040755, b""), ("dir/odd", 0o100644, b"12345"), ("init", 0o100755, b"#!x\n")]
    archive = lab_image.newc(entries)
    assert unpack(archive) == entries
    assert len(archive) % 4 == 0


def test_installed_packages_are_listed_with_their_versions():
    text = (
        "Package: fio\nStatus: install ok installed\nVersion: 3.33-3\nDescription: tool\n more: text\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
    )
    assert lab_image.parse_status(text) == {"fio": "3.33-3"}


def make_image(folder, size: int = 4) -> None:
    folder.mkdir(parents=True)
    (folder / "root.ext4").write_bytes(b"x" * size)
    (folder / "manifest.json").write_text(json.dumps({"files": {"root.ext4": 4}, "kernel": "6.1"}))


def test_only_a_complete_image_is_one(tmp_path):
    make_image(tmp_path / "good")
    make_image(tmp_path / "short", size=3)
    make_image(tmp_path / "damaged")
    (tmp_path / "damaged/manifest.json").write_text("{")
    assert lab_image.image_problem(str(tmp_path / "good")) is None
    assert lab_image.image_problem(str(tmp_path / "short")) == "root.ext4 is not there with its 4 bytes"
    assert lab_image.image_problem(str(tmp_path / "damaged")) == "its manifest.json is damaged"
    assert lab_image.image_problem(str(tmp_path / "none")) == "it has no manifest.json"


def test_left_overs_of_killed_builds_are_known(tmp_path):
    for name in (".building-a", ".building-b", "0123abcd", ".lock"):
        (tmp_path / name).mkdir()
    assert lab_image.left_overs(str(tmp_path)) == [".building-a", ".building-b"]


def test_a_folder_with_a_mount_in_it_is_not_removed():
    with pytest.raises(Failure) as caught:
        lab_image.remove_tree("/dev" if os.path.ismount("/dev/shm") else "/")
    assert caught.value.code == "mounted_inside"
    assert os.path.exists("/dev/null")


def test_a_build_waits_for_the_lock_and_says_so(tmp_path):
    (tmp_path / "progress").write_text("", encoding="ascii")
    progress = lab_image.Progress(str(tmp_path / "progress"))
    with (
        lab_image.locked(str(tmp_path), progress),
        refused(tmp_path) as caught,
        lab_image.locked(str(tmp_path), progress, timeout_s=0),
    ):
        pass
    assert caught.value.code == "image_locked"


def test_mmdebstrap_mounts_where_the_host_does_not_see_it(tmp_path, monkeypatch):
    commands = []

    def note(argv, *dummy, **named):
        commands.append(argv)
        raise Failure("stop", "Enough seen.", "Go on.")

    monkeypatch.setattr(lab_image, "run", note)
    monkeypatch.setattr(lab_image, "read_recipe", lambda folder, packages: lab_image.with_packages(RECIPE, packages))
    with pytest.raises(Failure):
        lab_image.build("/recipe", ["tgt"], str(tmp_path), lab_image.Progress(str(tmp_path / "p")), 0)
    assert commands[0][:6] == ["unshare", "--mount", "--propagation", "private", "--", "mmdebstrap"]
    assert "--include=fio,tgt" in commands[0]


def test_a_tool_that_fails_is_quoted_with_its_last_words(tmp_path):
    with open(tmp_path / "lock", "w") as lock, pytest.raises(Failure) as caught:
        lab_image.run(["sh", "-c", "echo first; echo no space left >&2; exit 3"], str(tmp_path / "log"), lock.fileno())
    assert caught.value.details["tail"] == ["first", "no space left"]
    assert "ended with 3" in str(caught.value)
    assert "no space left" in (tmp_path / "log").read_text()


def test_a_tool_that_is_not_there_is_named(tmp_path):
    with open(tmp_path / "lock", "w") as lock, pytest.raises(Failure) as caught:
        lab_image.run(["storlab-no-such-tool"], str(tmp_path / "log"), lock.fileno())
    assert caught.value.code == "tool_missing"


def test_the_remaining_time_follows_from_what_was_seen():
    assert lab_image.remaining_s(0.0, 0.0, 5.0) == lab_image.NOMINAL_S - 5
    assert lab_image.remaining_s(0.5, 30.0, 30.0) == 30
    assert lab_image.remaining_s(0.5, 30.0, 41.0) == 19
    assert lab_image.remaining_s(0.94, 30.0, 90.0) == 1
    assert [share for name, share in lab_image.PHASES] == sorted(share for name, share in lab_image.PHASES)


def test_phases_are_read_from_mmdebstrap():
    lines = [
        "I: downloading packages with apt...",
        "I: running --customize-hook directly: /x/kernel_hook /root",
        "I: success in 33 seconds",
        "I: extracting archives...",
    ]
    assert [lab_image.phase_of(line) for line in lines] == [
        "downloading packages",
        "adding the kernel",
        None,
        "extracting archives",
    ]


def test_progress_names_host_phase_and_times(tmp_path):
    progress = lab_image.Progress(str(tmp_path / "p"))
    progress.enter("making the root disk")
    state = {**json.loads((tmp_path / "p").read_text()), "started": 1000.0, "entered": 1047.0}
    assert (
        progress_line("controller01", state, 1047.0)
        == "[controller01] image: making the root disk, 47 s elapsed, ~3 s left"
    )


SEEN = {
    "architecture": "x86_64",
    "user_id": 0,
    "has_apt": True,
    "missing_packages": [],
    "image_there": False,
    "disk_free_mib": 9000,
    "disk_folder": "/srv",
    "memory_free_mib": 4000,
    "memory_needed_mib": 1300,
}


def test_a_controller_with_everything_has_no_problem():
    assert lab_preflight.first_problem(SEEN, False) is None


@pytest.mark.parametrize(
    ("change", "install", "code", "words"),
    [
        ({"architecture": "aarch64"}, True, "architecture", ["aarch64"]),
        ({"user_id": 1000}, True, "not_root", ["root rights", "sudo"]),
        ({"missing_packages": ["fio", "nc"]}, False, "packages_missing", ["apt-get install fio nc"]),
        ({"missing_packages": ["fio"], "has_apt": False}, True, "packages_missing", ["fio"]),
        ({"disk_free_mib": 3071}, True, "disk_space", ["3071 MiB", "3072 MiB", "/srv", "embedded_lab_image_dir"]),
        ({"memory_free_mib": 1299}, True, "memory", ["1299 MiB", "1300 MiB", "embedded_lab_machines"]),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(change, install, code, words):
    problem = lab_preflight.first_problem({**SEEN, **change}, install)
    assert problem.code == code
    assert all(word in str(problem) for word in words)


def test_missing_packages_are_no_problem_when_they_can_be_installed():
    assert lab_preflight.first_problem({**SEEN, "missing_packages": ["mmdebstrap"]}, True) is None


def test_with_the_image_there_little_space_is_enough():
    assert lab_preflight.first_problem({**SEEN, "image_there": True, "disk_free_mib": 200}, True) is None


def test_only_what_is_missing_is_to_be_installed(tmp_path, root):
    seen = lab_preflight.observe(
        str(tmp_path / "not/there/yet"),
        str(root / "roles/embedded_lab/files/image"),
        [],
        [{"run_dir": str(tmp_path), "memory_mib": 100}],
        [{"command": "sh", "package": "dash"}, {"command": "storlab-none", "package": "p1"}],
        [{"file": "/etc/passwd", "package": "base-passwd"}, {"file": "/storlab-none", "package": "p2"}],
    )
    assert seen["missing_packages"] == ["p1", "p2"]
    assert seen["memory_needed_mib"] == 100 + lab_preflight.OVERHEAD_MIB
    assert seen["disk_folder"] == str(tmp_path)
    assert seen["image_there"] is False
