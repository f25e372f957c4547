# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rebuilt chain, link by link, as the kernels of its machines see it; and the results of the run before."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from datetime import datetime
from pathlib import Path

import pytest
import testinfra
from report_page import Page

HOME = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
RUN = HOME / "results" / "molecule" / "molecule"
LAYERS = HOME / ".cache" / "testbeds" / "molecule" / "layers"
KINDS = ["ceiling", "backing", "target", "initiator", "datastore", "guest"]
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def machine():
    config = HOME / ".cache" / "lab" / "molecule" / "ssh" / "config"
    return lambda name: testinfra.get_host(f"ssh://{name}", ssh_config=str(config), timeout=120)


def layer(name: str) -> dict:
    return json.loads((LAYERS / f"{name}.json").read_text())


def test_target_exports_the_ram_disks(machine):
    target = machine("target01")
    devices = {
        path.split("/")[-2]: target.file(path).content_string.strip()
        for path in target.check_output("ls -d /sys/kernel/config/target/core/iblock_*/*/udev_path").split()
    }
    assert devices == {"storlab-molecule-bench": "/dev/ram0", "storlab-molecule-ds1": "/dev/ram1"}
    for name in ("ram0", "ram1"):
        assert int(target.file(f"/sys/block/{name}/size").content_string) * 512 == 128 * MIB


def test_initiator_sees_what_the_target_exports(machine):
    serials = {
        name: machine("target01").file(path).content_string.split(":")[1].strip()
        for name, path in (
            (path.split("/")[-3].rsplit("-", 1)[1], path)
            for path in machine("target01")
            .check_output("ls -d /sys/kernel/config/target/core/iblock_*/*/wwn/vpd_unit_serial")
            .split()
        )
    }
    for name, serial in serials.items():
        disk = layer(f"initiator-{name}")["path"].rsplit("/", 1)[1]
        assert serial.encode() in machine("hypervisor01").file(f"/sys/block/{disk}/device/vpd_pg80").content


def test_datastore_is_on_the_data_lun(machine):
    mount = machine("hypervisor01").mount_point("/srv/storlab/ds1")
    assert mount.exists
    assert mount.device == layer("initiator-ds1")["path"]


def test_guests_disk_is_a_file_on_the_datastore(machine):
    """What the guest writes is read back from the file that the datastore's host has."""
    disk, mark = layer("guest-guest01")["path"], "storlab-mark-4711"
    machine("guest01").check_output(
        "sh -c 'printf %%s %s | dd of=%s bs=512 seek=8 conv=notrunc,sync,fsync'", mark, disk
    )
    files = machine("hypervisor01").check_output("find /srv/storlab/ds1 -name '*.img'").split()
    assert len(files) == 1
    found = machine("hypervisor01").check_output(
        "dd if=%s bs=512 skip=8 count=1 iflag=direct status=none | tr --delete '\\0'", files[0]
    )
    assert found == mark


def test_the_guests_disk_goes_by_tls_and_the_secret_is_in_no_command_line(machine):
    """That strangers are refused is tried in tests/integration/test_nbd_tls.py: here the guest has the one place of the export."""
    assert layer("guest-guest01")["detail"]["transport"] == "nbd with TLS"
    secret = (HOME / ".cache/testbeds/molecule/secrets/nbd").read_text().strip()
    hidden = (secret, secret.encode().hex())
    keeper = machine("hypervisor01")
    (folder,) = keeper.check_output("ls -d /run/storlab/nbd/*.tls").split()
    assert keeper.check_output("stat -c %%a %s %s/keys.psk", folder, folder).split() == ["700", "600"]
    assert keeper.check_output("cat %s/keys.psk", folder) == f"storlab:{hidden[1]}"
    there = keeper.check_output("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert f"tls-creds-psk,id=tls,endpoint=server,dir={folder}" in there
    here = ""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended meanwhile
            here += path.read_text(errors="replace").replace("\0", " ")
    assert '"tls-creds": "nbd"' in here
    assert not any(text in commands for text in hidden for commands in (there, here))


def test_parents_are_what_the_io_goes_through():
    expected = {
        "backing-bench": None,
        "target-bench": "backing-bench",
        "initiator-bench": "target-bench",
        "backing-ds1": None,
        "target-ds1": "backing-ds1",
        "initiator-ds1": "target-ds1",
        "datastore-ds1": "initiator-ds1",
        "guest-guest01": "datastore-ds1",
    }
    for name, parent in expected.items():
        assert layer(name)["parent"] == parent


def test_rebuilt_testbed_is_the_same():
    """What the run before the machine died was measured on, and what was built since, has the same names; its disks are new, and say so."""
    before = json.loads((RUN / "layers.json").read_text())
    names = [name for name in before if not name.startswith(("backing-", "ceiling-"))]
    assert len(names) == 6
    for name in names:
        for key in ("target_iqn", "lun", "uuid", "mount_point"):
            assert before[name]["identity"].get(key) == layer(name)["identity"].get(key), (name, key)
    luns = {name for name in names if name.startswith(("target-", "initiator-"))}
    assert len(luns) == 4
    for name in names:
        for key in {"serial", "naa"} & set(before[name]["identity"]):
            same = before[name]["identity"][key] == layer(name)["identity"][key]
            assert same is (name not in luns), (name, key)
        assert (before[name]["detail"].get("generation") != layer(name)["detail"].get("generation")) is (name in luns)


def points() -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((RUN / "points").glob("*/result.json"))]


def test_all_six_layers_were_measured():
    measured = [point for point in points() if point["status"] == "measured"]
    assert sorted({point["layer_kind"] for point in measured}, key=KINDS.index) == KINDS
    assert len(measured) == 2 * 6
    for point in measured:
        assert point["read"]["iops"] > 0 and point["write"]["iops"] > 0


def test_layers_take_turns_in_every_round():
    """Of all hosts: whatever the testbed did over time falls on no layer more than on another. The machines' clocks are set against the controller's."""
    clocks = json.loads((RUN / "clocks.json").read_text())

    def moment(point, key):
        return datetime.fromisoformat(point[key]).timestamp() - clocks[point["host"]]["offset_s"]

    order = sorted(points(), key=lambda point: moment(point, "started_utc"))
    assert [point["repetition"] for point in order] == [1] * 6 + [2] * 6
    assert len({point["host"] for point in order[:6]}) == 3
    uncertain_s = 2 * max(clock["uncertain_s"] for clock in clocks.values())
    for one, following in zip(order, order[1:]):
        assert moment(one, "finished_utc") <= moment(following, "started_utc") + uncertain_s


def test_raw_files_are_there_and_unchanged():
    for point in points():
        folder = RUN / "points" / point["point_id"]
        for part in ("raw", "job"):
            data = (folder / Path(point[part]["file"]).name).read_bytes()
            assert hashlib.sha256(data).hexdigest() == point[part]["sha256"]


def test_results_say_what_fio_said():
    for point in points():
        document = json.loads((RUN / "points" / point["point_id"] / "fio.json").read_text())
        assert document["jobs"][0]["read"]["total_ios"] == point["read"]["ios"]


def test_io_of_a_layer_went_through_the_device_of_that_layer():
    """What fio claims the kernel's counters of the very device have seen, so nothing was read from a cache or from elsewhere."""
    counted = {}
    for point in points():
        for check in point.get("checks", []):
            if check["name"] == "device_counters":
                counted.setdefault(point["layer_kind"], []).append((point, check))
    # A RAM disk of this kernel keeps no counters, and a file has none of its own.
    assert {"target", "initiator", "guest"} <= set(counted)
    for measured in counted.values():
        for point, check in measured:
            for direction in ("read", "write"):
                claimed = point[direction]["bytes"]
                assert claimed > 0 and check[direction]["device_bytes_max"] >= 0.98 * claimed


def test_report_shows_every_layer_with_what_was_measured_there():
    page = Page((RUN / "report" / "index.html").read_text())
    kinds = {point["layer"]: point["layer_kind"] for point in points()}
    assert sorted({kinds[name] for name in page.waterfall}, key=KINDS.index) == KINDS
    for name, row in page.waterfall.items():
        iops = [point["total"]["iops"] for point in points() if point["layer"] == name]
        assert len(iops) == 2
        assert min(iops) * 0.999 <= row["iops"] <= max(iops) * 1.001
    for host in {point["host"] for point in points()}:
        assert f"{host} (emulated)" in page.text


def test_no_secret_is_in_results_or_published_layers():
    secrets = [path.read_text().split()[0] for path in (HOME / ".cache/testbeds/molecule/secrets").iterdir()]
    assert len(secrets) == 3
    for path in [*RUN.rglob("*"), *LAYERS.rglob("*")]:
        if path.is_file():
            data = path.read_bytes()
            assert not any(secret.encode() in data for secret in secrets), path
