# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installations of packages that the test makes itself, by real dpkg, on a file system of a real disk: timed, refused, broken, killed, repaired."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import debian_installation, debian_packages
from loop_device import attached, layer
from waiting import until

MIB = 1 << 20
DISK_BYTES = 48 * MIB
COLLECTIONS = Path(__file__).resolve().parents[2] / ".cache/collections"


def deb(folder: Path, name: str, payload_bytes: int, postinst: str = "") -> str:
    """A package of one file with contents that do not shrink much. Its script needs no shell of the root when there is none."""
    root = folder / f"tree-{name}"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: of a test\n"
    )
    if postinst:
        (root / "DEBIAN/postinst").write_text(postinst)
        (root / "DEBIAN/postinst").chmod(0o755)
    (root / "usr/share" / name).mkdir(parents=True)
    seed = hashlib.sha256(name.encode()).digest()
    data = b"".join(hashlib.sha256(seed + number.to_bytes(4, "big")).digest() for number in range(payload_bytes // 32))
    (root / "usr/share" / name / "data").write_bytes(data)
    path = folder / f"{name}_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(path)], check=True, capture_output=True)
    return str(path)


def shell(folder: Path) -> str:
    """A package with a shell and sleep, and the libraries that they need, for those whose scripts need them."""
    path = deb(folder, "shell", 32)
    root = folder / "tree-shell"
    for program in ("/bin/sh", "/bin/sleep"):
        listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        libraries = [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]
        for file in (program, *libraries):
            (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(os.path.realpath(file), root / file.lstrip("/"))
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(root), path], check=True, capture_output=True)
    return path


class Lab:
    """A disk, the packages, and what the module is told of them."""

    def __init__(self, device: str, folder: Path, files: list[str]) -> None:
        self.device, self.folder = device, folder
        self.base = str(folder / "run")
        self.medium = debian_packages.keep(files, str(folder))
        self.params = {
            "testbed_id": "lab",
            "layer": layer(device, DISK_BYTES, name="guest-one", kind="guest"),
            "layers": {},
            "index_sha256": self.medium["index_sha256"],
            "bytes": self.medium["bytes"],
            "source": str(folder / f"{self.medium['index_sha256']}.medium"),
            "timeout_s": 600,
        }

    def do(self, action: str, **changes) -> dict:
        return debian_installation.perform({**self.params, "action": action, **changes}, self.base)

    def refused(self, action: str = "install", **changes) -> Failure:
        with pytest.raises(Failure) as caught:
            self.do(action, **changes)
        return caught.value

    def signature(self) -> str:
        return subprocess.run(["blkid", "-p", self.device], capture_output=True, text=True).stdout

    def mounted(self) -> bool:
        return any(line.split()[0] == self.device for line in Path("/proc/mounts").read_text().splitlines())

    def left_empty(self) -> bool:
        return not self.mounted() and not self.signature() and not list(Path(self.base).glob("*"))


@pytest.fixture
def make(tmp_path):
    """make(files): a Lab on a disk of its own."""
    assert os.geteuid() == 0, "run the tests as root, as `make test` does"
    (tmp_path / "run").mkdir()
    with attached(tmp_path / "disk", DISK_BYTES) as device:
        yield lambda *files: Lab(device, tmp_path, list(files))
        subprocess.run(["umount", device], capture_output=True)


def test_packages_are_installed_and_timed_and_the_disk_is_empty_afterwards(make, tmp_path):
    lab = make(deb(tmp_path, "one", 3 * MIB), shell(tmp_path), deb(tmp_path, "two", MIB, "#!/bin/sh\nsleep 1\n"))
    assert lab.do("look")["there"] is False
    assert lab.do("put") == {"changed": True, "there": True} and lab.do("look")["there"] is True
    for _repetition in range(2):
        begun = time.monotonic()
        result = lab.do("install")
        took_s = time.monotonic() - begun
        timed = result["installation"]
        # The script of one of them sleeps for a second.
        assert 1 < timed["duration_s"] <= took_s
        assert sum(timed["phases"].values()) == pytest.approx(timed["duration_s"], abs=0.2)
        assert timed["phases"]["install_s"] > 1
        assert timed["packages"] == 3 and timed["package_bytes"] == sum(
            os.path.getsize(tmp_path / f"{name}_1.0_all.deb") for name in ("one", "shell", "two")
        )
        # Unpacked they are on the disk beside the packages themselves; none of it came from memory.
        assert timed["installed_bytes"] > 8 * MIB
        device = timed["counters"]["device"]
        assert device["name"] == os.path.basename(lab.device)
        assert device["write"]["bytes"] > 8 * MIB and device["read"]["bytes"] > 4 * MIB
        assert "Setting up two" in result["log"] and lab.left_empty()
    assert lab.do("look")["there"] is True


def test_what_is_installed_is_what_the_packages_hold(make, tmp_path, monkeypatch):
    lab = make(deb(tmp_path, "one", MIB), deb(tmp_path, "two", MIB))
    lab.do("put")
    seen = {}

    def look(self, count):
        root = Path(self.mount_point)
        seen.update(data=(root / "usr/share/one/data").read_bytes(), status=(root / "var/lib/dpkg/status").read_text())
        return original(self, count)

    original = debian_installation.Installation._check
    monkeypatch.setattr(debian_installation.Installation, "_check", look)
    lab.do("install")
    assert seen["data"] == (tmp_path / "tree-one/usr/share/one/data").read_bytes()
    assert seen["status"].count("Status: install ok installed") == 2


# dpkg unpacks what is there already beside it, so the smaller one fits once and not twice.
@pytest.mark.parametrize("size_mib, step", [(17, "unpack large_1.0_all.deb"), (11, "install the packages")])
def test_a_full_disk_is_a_failure_and_leaves_it_empty(make, tmp_path, size_mib, step):
    lab = make(deb(tmp_path, "small", MIB), deb(tmp_path, "large", size_mib * MIB))
    lab.do("put")
    failure = lab.refused()
    assert failure.code == "installation_failed" and "No space left on device" in failure.what, failure.what
    assert f"could not {step}" in failure.what
    assert lab.left_empty()


def test_a_script_that_fails_is_a_failure_with_its_words(make, tmp_path):
    lab = make(shell(tmp_path), deb(tmp_path, "bad", 64, "#!/bin/sh\necho it is broken\nexit 3\n"))
    lab.do("put")
    failure = lab.refused()
    assert failure.code == "installation_failed" and "exit status 3" in failure.what
    assert "it is broken" in failure.details["log"] and lab.left_empty()


def test_what_takes_too_long_is_ended_with_all_that_it_started(make, tmp_path):
    lab = make(shell(tmp_path), deb(tmp_path, "slow", 64, "#!/bin/sh\nexec sleep 54321\n"))
    lab.do("put")
    assert lab.refused(timeout_s=3).code == "installation_timeout"
    assert lab.left_empty() and not sleepers()


def sleepers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"54321" in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


RUN = """
import json, sys
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.loads import debian_installation
try:
    debian_installation.perform({**json.loads(sys.argv[1]), "action": "install"}, sys.argv[2])
except Failure as failure:
    print(failure.code, failure.what)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_installation_is_no_time_and_the_next_one_repairs_the_disk(make, tmp_path, number):
    script = "#!/bin/sh\n[ -e /slow ] || exec sleep 54321\n"
    lab = make(shell(tmp_path), deb(tmp_path, "slow", MIB, script))
    lab.do("put")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, json.dumps(lab.params), lab.base],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
    )
    until(lambda: sleepers() or process.poll() is not None)
    process.send_signal(number)
    said = process.communicate(timeout=120)[0]
    if number == signal.SIGTERM:
        assert said.startswith("installation_failed") and "signal 15" in said
        assert lab.left_empty() and not sleepers()
    else:
        assert lab.mounted()
        for pid in sleepers():
            os.kill(pid, signal.SIGKILL)
    again = make(str(tmp_path / "shell_1.0_all.deb"), deb(tmp_path, "quick", MIB))
    again.do("put")
    assert again.do("install")["installation"]["packages"] == 2 and again.left_empty()


def test_one_that_goes_on_is_not_disturbed(make, tmp_path, monkeypatch):
    monkeypatch.setattr(debian_installation, "UNMOUNT_S", 1)
    lab = make(deb(tmp_path, "one", 64))
    lab.do("put")
    place = Path(lab.base, "storlab-lab", "installation-guest-one")
    known = debian_installation.filesystem_uuid("lab", "guest-one")
    subprocess.run(["mkfs.ext4", "-q", "-F", "-U", known, lab.device, "20000k"], check=True)
    place.mkdir(parents=True)
    subprocess.run(["mount", lab.device, str(place)], check=True)
    with (place / "open").open("w"):
        failure = lab.refused()
        assert failure.code == "installation_left" and str(place) in failure.what and lab.mounted()
    assert lab.do("install")["installation"]["packages"] == 1 and lab.left_empty()


@pytest.mark.parametrize("action", ["put", "install"])
def test_a_disk_that_is_not_proven_is_not_touched(make, tmp_path, action):
    lab = make(deb(tmp_path, "one", 64))
    lab.do("put")
    subprocess.run(["mkfs.ext4", "-q", "-F", lab.device, "20000k"], check=True)
    before = Path(lab.device).read_bytes()
    assert lab.refused(action).code == "signature_present"
    other = {**lab.params["layer"], "identity": {"serial": "another"}}
    assert lab.refused(action, layer=other).code == "signature_present"
    subprocess.run(["wipefs", "-aq", lab.device], check=True)
    before_wiped = Path(lab.device).read_bytes()
    assert lab.refused(action, layer=other).code == "wrong_serial"
    assert lab.refused(action, layer={**lab.params["layer"], "purpose": "data"}).code == "purpose_data"
    assert lab.refused(action, layer={**lab.params["layer"], "size_bytes": DISK_BYTES - MIB}).code == "wrong_size"
    assert Path(lab.device).read_bytes() == before_wiped and before != before_wiped


def test_packages_that_were_damaged_on_the_disk_are_no_installation(make, tmp_path):
    lab = make(deb(tmp_path, "one", MIB), deb(tmp_path, "two", MIB))
    lab.do("put")
    begin = debian_installation.medium_begin(DISK_BYTES, lab.medium["bytes"])
    with open(lab.device, "r+b") as handle:
        handle.seek(begin + 1500000)
        handle.write(b"damaged")
    failure = lab.refused()
    assert failure.code == "medium_damaged" and "two_1.0_all.deb" in failure.what and lab.left_empty()
    with open(lab.device, "r+b") as handle:
        handle.seek(begin)
        handle.write(b"damaged")
    assert lab.do("look")["there"] is False and lab.refused().code == "medium_damaged"
    Path(lab.params["source"]).write_bytes(b"no medium")
    assert lab.refused("put").code == "medium_damaged"
