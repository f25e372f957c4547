# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The device guard on real loop devices that are used in one way each."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device, contents, wanted_disks
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety as guard
from loop_device import attached
from loop_device import layer as layer_of


@pytest.fixture
def loop(tmp_path):
    """A real loop device on a file of this test, detached by its name."""
    image = tmp_path / "image"
    with attached(image, 1 << 20) as path:
        yield SimpleNamespace(path=path, image=str(image))


def real_layer(loop, **changes):
    return layer_of(loop.path, 1 << 20, **changes)


def real_codes(layer):
    return [item.code for item in guard.refusals(guard.inspect(layer["path"]), layer)]


def test_real_blank_device(loop):
    assert real_codes(real_layer(loop)) == []


def test_real_device_through_a_link(loop, tmp_path):
    os.symlink(loop.path, tmp_path / "link")
    layer = real_layer(loop, path=str(tmp_path / "link"))
    assert real_codes(layer) == []
    assert real_codes({**layer, "identity": {"major_minor": "8:0"}}) == ["wrong_number"]


def test_real_device_of_another_size(loop):
    assert real_codes(real_layer(loop, size_bytes=2 << 20)) == ["wrong_size"]


def test_real_file_behind_a_loop_device(loop):
    assert real_codes(real_layer(loop, path=loop.image)) == ["not_a_device", "device_held"]


def test_real_device_that_is_open_for_writing(loop):
    with subprocess.Popen(["tail", "-f", "/dev/null"], stdin=os.open(loop.path, os.O_RDWR | os.O_CLOEXEC)) as other:
        assert real_codes(real_layer(loop)) == ["device_in_use"]
        other.kill()


def test_real_device_that_is_claimed(loop):
    claimed = os.open(loop.path, os.O_RDONLY | os.O_EXCL)
    try:
        assert real_codes(real_layer(loop)) == ["device_busy"]
    finally:
        os.close(claimed)


def test_real_swap(loop):
    subprocess.run(["mkswap", loop.path], check=True, capture_output=True)
    subprocess.run(["swapon", loop.path], check=True)
    try:
        assert set(real_codes(real_layer(loop))) == {"device_swap", "signature_present"}
    finally:
        subprocess.run(["swapoff", loop.path], check=True)


def test_real_things_that_are_no_devices(loop, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, code in {
        "/dev/zero": "not_a_device",
        str(tmp_path): "not_a_device",
        str(tmp_path / "fifo"): "not_a_device",
        str(tmp_path / "nowhere" / "x"): "device_missing",
        f"{loop.image}/x": "device_missing",
    }.items():
        assert real_codes(real_layer(loop, path=path)) == [code]


def test_real_file_system_and_mount(loop, tmp_path):
    subprocess.run(["mkfs.ext4", "-q", loop.path], check=True)
    assert real_codes(real_layer(loop)) == ["signature_present"]
    mount_point = tmp_path / "mounted"
    mount_point.mkdir()
    subprocess.run(["mount", loop.path, str(mount_point)], check=True)
    try:
        assert set(real_codes(real_layer(loop))) == {"device_mounted", "signature_present"}
        uuid = subprocess.run(
            ["blkid", "-p", "-s", "UUID", "-o", "value", loop.path], check=True, capture_output=True, text=True
        ).stdout.strip()
        (mount_point / "bench.dat").write_bytes(bytes(65536))
        layer = real_layer(
            loop,
            path=str(mount_point / "bench.dat"),
            size_bytes=65536,
            identity={"mount_point": str(mount_point), "uuid": uuid},
        )
        assert real_codes(layer) == []
        assert real_codes({**layer, "identity": {**layer["identity"], "uuid": "1234"}}) == ["wrong_uuid"]
    finally:
        subprocess.run(["umount", str(mount_point)], check=True)


def test_real_mount_in_another_namespace_cannot_be_overridden(loop, tmp_path):
    subprocess.run(["mkfs.ext4", "-q", loop.path], check=True)
    script = f"mount {loop.path} {tmp_path} && echo mounted && read -r end"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline() == "mounted\n"
            with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
                assert loop.path not in mounts.read()
            kept, _overridden = guard.judge(guard.inspect(loop.path), real_layer(loop), allow=[loop.path])
            assert [item.code for item in kept] == ["device_mounted"]
            assert block_device.users(loop.path) == [f"mounted on {tmp_path} (as process {other.pid} sees it)"]
        finally:
            other.communicate("end\n", timeout=20)


@pytest.fixture
def node(loop, tmp_path):
    """Another node of the same device, as a container or a jail makes it."""
    path = tmp_path / "node"
    os.mknod(path, 0o600 | stat.S_IFBLK, os.stat(loop.path).st_rdev)
    return str(path)


def test_real_writer_through_another_node(loop, node):
    with subprocess.Popen(["tail", "-f", "/dev/null"], stdin=os.open(node, os.O_WRONLY | os.O_CLOEXEC)) as other:
        try:
            assert real_codes(real_layer(loop)) == ["device_in_use"]
            assert block_device.users(loop.path) == [f"open in tail (pid {other.pid})"]
        finally:
            other.kill()
    assert real_codes(real_layer(loop)) == []


def test_real_writer_through_another_path_of_the_file_behind(loop, tmp_path):
    """The file of the loop device, open under the name of another link."""
    os.link(loop.image, tmp_path / "same")
    handle = os.open(tmp_path / "same", os.O_RDWR | os.O_CLOEXEC)
    with subprocess.Popen(["tail", "-f", "/dev/null"], stdin=handle) as other:
        try:
            assert "device_in_use" in real_codes(real_layer(loop, path=loop.image))
        finally:
            other.kill()


def test_real_file_system_on_a_loop_over_another_node(loop, node, tmp_path):
    subprocess.run(["mkfs.ext4", "-q", loop.path], check=True)
    done = subprocess.run(["losetup", "--find", "--show", node], check=True, capture_output=True, text=True)
    upper, mount_point = done.stdout.strip(), tmp_path / "mounted"
    try:
        # Its path in sysfs is one that leads to nothing here.
        os.rename(node, f"{node}.moved")
        assert set(real_codes(real_layer(loop))) == {"device_held", "signature_present"}
        mount_point.mkdir()
        subprocess.run(["mount", upper, str(mount_point)], check=True)
        try:
            kept, _overridden = guard.judge(guard.inspect(loop.path), real_layer(loop), allow=[loop.path])
            assert [item.code for item in kept] == ["device_mounted"]
            assert str(mount_point) in kept[0].what
        finally:
            subprocess.run(["umount", str(mount_point)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", upper], check=True)
    assert real_codes(real_layer(loop)) == ["signature_present"]


def fill(path: str, offset: int, content: bytes) -> None:
    with open(path, "r+b", buffering=0) as device:
        device.seek(offset)
        device.write(content)
        os.fsync(device.fileno())


def test_real_device_without_a_signature_is_not_called_blank(loop):
    """A disk image of a version that blkid does not know, and what it holds behind that: no signature, and somebody's nevertheless."""
    assert contents.look(loop.path) == {"contents": "blank"}
    fill(loop.path, 0, b"QFI\xfb" + (3).to_bytes(4, "big") + b"somebody's cluster " * 3000)
    before = Path(loop.image).read_bytes()
    assert real_codes(real_layer(loop)) == []  # blkid sees nothing
    assert contents.look(loop.path) == {"contents": "data"}
    assert Path(loop.image).read_bytes() == before and before[:4] == b"QFI\xfb"


@pytest.mark.parametrize("offset", [0, (1 << 20) - 1])
def test_one_byte_at_an_end_of_a_real_device_is_seen(loop, offset):
    fill(loop.path, offset, b"\1")
    assert contents.look(loop.path) == {"contents": "data"}


def test_real_erased_flash_is_blank(loop):
    fill(loop.path, 0, b"\xff" * (1 << 20))
    assert contents.look(loop.path) == {"contents": "blank"}


def test_a_named_device_is_sampled_where_it_would_be_overwritten(loop, monkeypatch):
    """A loop device shows nothing that proves it, so it is given a serial here."""
    of_kernel = guard.identity
    monkeypatch.setattr(
        guard,
        "identity",
        lambda path, system=None: {**of_kernel(path, system), **({"serial": "L1"} if path == loop.path else {})},
    )
    fill(loop.path, 4096, b"somebody's rows " * 256)
    before = Path(loop.image).read_bytes()
    named = {"variable": "testbed.disks[0]", "path": loop.path, "serial": "L1"}
    kept, gone = wanted_disks.look([named, {**named, "fate": "OVERWRITTEN"}], [], False)["named"]
    assert (gone["paths"], gone["contents"], gone["designators"]) == ([loop.path], "data", {"serial": "L1"})
    assert kept["paths"] == [loop.path] and "contents" not in kept
    assert Path(loop.image).read_bytes() == before
