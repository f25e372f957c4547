# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines' image from its recipe to the finished folder, with stand-ins for the programs that make its parts."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import image as lab_image
from places import ROOT
from unchanged import broken_off

RECIPE_DIR = str(ROOT / "roles/embedded_lab/files/image")
RELEASE = "6.1.0-test"
MODULES = {"virtio_pci": [], "virtio_blk": [], "virtio_net": [], "ext4": ["crc16"], "crc16": []}
STATUS = (
    "Package: fio\nStatus: install ok installed\nVersion: 3.33-3\n\nPackage: gone\nStatus: deinstall ok config-files\n"
)


def make_root(root: Path) -> None:
    """What mmdebstrap leaves, as far as the build looks at it; overlay is built into the kernel."""
    modules = root / "lib/modules" / RELEASE
    for folder in ("usr/lib/python3.11", "usr/local/lib/python3.11/dist-packages", "etc/ssh", "sbin", "bin", "boot"):
        (root / folder).mkdir(parents=True)
    for folder in ("root", "usr/local/bin", "var/lib/dpkg"):
        (root / folder).mkdir(parents=True)
    (root / "usr/lib/python3.11/sitecustomize.py").write_text("# Debian's\n")
    (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAAhost root@build\n")
    (root / "bin/busybox").write_bytes(b"busybox")
    (root / f"boot/vmlinuz-{RELEASE}").write_bytes(b"kernel of 19 bytes!")
    (root / "var/lib/dpkg/status").write_text(STATUS)
    modules.mkdir(parents=True)
    for name in MODULES:
        (modules / f"{name}.ko").write_bytes(name.encode())
    needs = {name: " ".join(f"{needed}.ko" for needed in needed_by) for name, needed_by in MODULES.items()}
    (modules / "modules.dep").write_text("".join(f"{name}.ko: {needs[name]}\n" for name in MODULES))
    (modules / "modules.builtin").write_text("kernel/fs/overlayfs/overlay.ko\n")


@pytest.fixture
def programs(monkeypatch):
    """The commands that were run, each with a stand-in; programs.broken names one that fails."""

    class Programs(list):
        broken: str | None = None

        def run(self, argv, log, lock_fd, on_line=None, env=None):
            self.append(argv)
            if self.broken in argv:
                raise Failure("image_build", f"{self.broken} ended with 1.", "Read the log.")
            if "mmdebstrap" in argv:
                assert os.path.dirname(env["TMPDIR"]) == os.path.dirname(log)
                make_root(Path(argv[-1]))
                for line in ("I: running apt-get update...", "I: nothing that is a phase", "I: cleaning package lists"):
                    on_line(line)
            elif argv[0] == "ssh-keygen":
                Path(argv[-1]).write_text("PRIVATE")
                Path(f"{argv[-1]}.pub").write_text("ssh-ed25519 AAAAlab storlab-lab\n")
            elif argv[0] == "mke2fs":
                # As the file system would have them.
                root = Path(argv[argv.index("-d") + 1])
                kept = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
                modes = {name: stat.S_IMODE(path.stat().st_mode) for name, path in kept.items()}
                texts = {name: path.read_text(errors="replace") for name, path in kept.items()}
                Path(argv[-2]).write_text(json.dumps({"modes": modes, "texts": texts}))

    programs = Programs()
    monkeypatch.setattr(lab_image, "run", programs.run)
    return programs


def params(folder: Path, **more) -> dict:
    return {"state": "present", "image_dir": str(folder), "recipe_dir": RECIPE_DIR, "packages": [], **more}


def test_an_image_is_made_once_and_taken_away_once(tmp_path, programs):
    folder = tmp_path / "images"
    checked = lab_image.ensure(params(folder), True)
    assert checked["changed"] is True and not folder.exists() and programs == []
    made = lab_image.ensure(params(folder), False)
    image = Path(made["image"]["path"])
    assert made["changed"] is True and made["build_s"] >= 0
    assert (made["image"]["kernel"], image.name) == (RELEASE, made["image"]["recipe_sha256"])
    assert made["diff"] == checked["diff"] == {"before": "", "after": f"{image}\n"}
    assert [argv[0] for argv in programs] == ["unshare", "ssh-keygen", "chroot", "mke2fs"]
    assert programs[2][2:] == ["depmod", RELEASE]
    again = lab_image.ensure(params(folder), False)
    assert again["changed"] is False and again["image"] == made["image"] and len(programs) == 4
    # Nothing of the build is left beside it.
    assert sorted(os.listdir(folder)) == sorted([".lock", "build.log", image.name])
    absent = params(folder, state="absent")
    assert lab_image.ensure(absent, True)["changed"] is True and image.exists()
    assert lab_image.ensure(absent, False)["changed"] is True and not folder.exists()
    assert lab_image.ensure(absent, False) == {"changed": False, "diff": {"before": "", "after": ""}}


def test_what_the_machines_boot_is_what_the_recipe_says(tmp_path, programs):
    image = Path(lab_image.ensure(params(tmp_path), False)["image"]["path"])
    assert stat.S_IMODE(image.stat().st_mode) == 0o700
    assert (image / "vmlinuz").read_bytes() == b"kernel of 19 bytes!"
    assert (image / "ssh/known_hosts").read_text() == "storlab-lab ssh-ed25519 AAAAhost\n"
    manifest = json.loads((image / "manifest.json").read_text())
    assert manifest["packages"] == {"fio": "3.33-3"} and manifest["kernel"] == RELEASE
    assert manifest["files"] == {
        name: (image / name).stat().st_size
        for name in ("initrd.img", "root.ext4", "ssh/id_ed25519", "ssh/known_hosts", "vmlinuz")
    }
    root = json.loads((image / "root.ext4").read_text())
    recipe = Path(RECIPE_DIR)
    modes = {
        "sbin/labinit": 0o755,
        "etc/inittab": 0o644,
        "etc/ssh/sshd_config": 0o644,
        "usr/local/lib/python_server.py": 0o644,
    }
    for name, mode in modes.items():
        assert (root["texts"][name], root["modes"][name]) == ((recipe / Path(name).name).read_text(), mode)
    client = "usr/local/bin/python-client"
    assert (root["texts"][client], root["modes"][client]) == ((recipe / "python_client").read_text(), 0o755)
    assert root["texts"]["root/.ssh/authorized_keys"] == "ssh-ed25519 AAAAlab storlab-lab\n"
    # Debian's own would be found first.
    assert [name for name in root["texts"] if name.endswith("sitecustomize.py")] == [
        "usr/local/lib/python3.11/dist-packages/sitecustomize.py"
    ]
    assert not any(name.startswith("boot/") for name in root["texts"])
    archive = gzip.decompress((image / "initrd.img").read_bytes())
    order = b"virtio_pci.ko\nvirtio_blk.ko\nvirtio_net.ko\ncrc16.ko\next4.ko\n"
    assert order in archive and b"overlay.ko" not in archive and b"modules/crc16.ko" in archive


@pytest.mark.parametrize("broken", ["mmdebstrap", "ssh-keygen", "depmod", "mke2fs"])
def test_a_build_that_broke_off_leaves_no_image_and_the_next_one_clears_up(tmp_path, programs, broken):
    programs.broken = broken
    with broken_off() as caught:
        lab_image.ensure(params(tmp_path), False)
    assert caught.value.code == "image_build"
    identity = lab_image.recipe_hash(lab_image.read_recipe(RECIPE_DIR, []))
    assert not (tmp_path / identity).exists() and len(lab_image.left_overs(str(tmp_path))) == 1
    programs.broken = None
    assert lab_image.ensure(params(tmp_path), False)["changed"] is True
    assert lab_image.left_overs(str(tmp_path)) == [] and (tmp_path / identity / "root.ext4").exists()


@pytest.mark.parametrize(
    "damage",
    ["{", "[]", "7", '{"files": ["vmlinuz"], "kernel": "6.1"}', '{"files": {}}', '{"files": {"vmlinuz": 5}}', None],
)
def test_a_damaged_image_is_made_anew(tmp_path, programs, damage):
    image = Path(lab_image.ensure(params(tmp_path), False)["image"]["path"])
    if damage is None:
        (image / "manifest.json").unlink()
    else:
        (image / "manifest.json").write_text(damage)
    assert lab_image.ensure(params(tmp_path), True)["changed"] is True
    answer = lab_image.ensure(params(tmp_path), False)
    assert (answer["changed"], answer["image"]["kernel"]) == (True, RELEASE)
    assert lab_image.image_problem(str(image)) is None


def test_an_image_that_another_build_made_meanwhile_is_used(tmp_path, programs, monkeypatch):
    lab_image.ensure(params(tmp_path), False)
    seen = iter(["it has no manifest.json", None])
    monkeypatch.setattr(lab_image, "image_problem", lambda folder: next(seen))
    answer = lab_image.ensure(params(tmp_path), False)
    assert answer["changed"] is False and "build_s" not in answer and len(programs) == 4
    assert not (tmp_path / ".progress").exists()
