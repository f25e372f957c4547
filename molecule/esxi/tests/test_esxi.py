# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated hosts show to the modules of others, and what the real target's kernel says of the sessions with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import testinfra

HOME = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
TESTBED = os.environ.get("STORLAB_TESTBED", "molecule")
LAB = HOME / ".cache" / "lab" / TESTBED
LAYERS = HOME / ".cache" / "testbeds" / TESTBED / "esxi-scenario" / "layers"
PREFIX = "iqn.2026-11.test.storlab.molecule"
PASSWORD = "sl-esxsim-pw-4711"


def upstream(instance: str, module: str, **arguments) -> dict:
    """Ask through a module that is not ours."""
    ready = json.loads((LAB / "esxsim" / instance / "ready.json").read_text())
    host, port = ready["address"].split(":")
    given = {"hostname": host, "port": int(port), "username": "root", "password": PASSWORD, **arguments}
    done = subprocess.run(
        [
            "ansible",
            "localhost",
            "-i",
            "localhost,",
            "-c",
            "local",
            "-m",
            module,
            "-a",
            json.dumps(given),
            "-e",
            json.dumps({"ansible_python_interpreter": sys.executable}),
        ],
        env={
            **os.environ,
            "SSL_CERT_FILE": ready["certificate"],
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # Other callbacks may print after it.
    answer = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]["plays"][0]["tasks"][0]["hosts"][
        "localhost"
    ]
    assert not answer.get("failed"), answer
    return answer


def layer(name: str) -> dict:
    return json.loads((LAYERS / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def target():
    return testinfra.get_host("ssh://target01", ssh_config=str(LAB / "ssh" / "config"), timeout=120)


def serials(target) -> dict:
    """{LUN name: unit serial} by the target's kernel."""
    paths = target.check_output(
        "ls -d /sys/kernel/config/target/core/iblock_*/storlab-mesxi-*/wwn/vpd_unit_serial"
    ).split()
    return {
        path.split("/")[-3].rsplit("-", 1)[1]: target.file(path).content_string.split(":")[1].strip() for path in paths
    }


def test_layers_carry_the_serials_that_the_targets_kernel_gives(target):
    found = {
        name: layer(f"initiator-{name}{suffix}")["identity"]["serial"]
        for name, suffix in (("ea0", ""), ("ea5", ""), ("eb2", "-vc1"))
    }
    assert found == serials(target)
    assert len(set(found.values())) == 3


def test_others_see_the_same_datastores_on_the_same_luns():
    for instance, host, name, lun in (
        ("esx", "localhost.localdomain", "mesxi-ds1", "initiator-ea0"),
        ("vpx", "DC0_H0", "mesxi-shared", "initiator-eb2-vc1"),
    ):
        info = upstream(instance, "community.vmware.vmware_host_disk_info", esxi_hostname=host)["hosts_disk_info"][host]
        assert f"naa.{layer(lun)['identity']['naa']}" in {disk["canonical_name"] for disk in info}
        stores = {
            store["name"]: store for store in upstream(instance, "community.vmware.vmware_datastore_info")["datastores"]
        }
        assert stores[name]["type"] == "VMFS"
        assert stores[name]["accessible"] is True


def test_two_hosts_share_one_volume():
    first, second = layer("datastore-mesxi-shared-vc1"), layer("datastore-mesxi-shared-vc2")
    assert first["identity"] == second["identity"]
    assert {first["host"], second["host"]} == {"vc-host1", "vc-host2"}


def test_others_see_the_same_adapter():
    found = upstream("esx", "community.vmware.vmware_host_iscsi_info", esxi_hostname="localhost.localdomain")[
        "iscsi_properties"
    ]
    assert found["iscsi_enabled"] is True
    assert found["iscsi_name"] == f"{PREFIX}:esx01"
    assert found["iscsi_alias"] == "storlab-mesxi"
    assert [target["address"] for target in found["iscsi_send_targets"]] == ["10.213.0.11"]
    assert "vmk0" in json.dumps(found["port_bind"])


def test_an_upstream_module_sees_the_guest_as_it_was_asked_for():
    found = upstream(
        "esx",
        "community.vmware.vmware_guest_info",
        name="storlab-mesxi-eg1",
        datacenter="ha-datacenter",
        schema="vsphere",
        properties=["config.hardware", "config.memoryReservationLockedToMax", "runtime.powerState", "guest.ipAddress"],
    )["instance"]
    hardware = found["config"]["hardware"]
    assert (hardware["numCPU"], hardware["memoryMB"], found["config"]["memoryReservationLockedToMax"]) == (2, 512, True)
    assert (found["runtime"]["powerState"], found["guest"]["ipAddress"]) == ("poweredOn", "10.213.0.77")
    raw, data = sorted(
        (disk for disk in hardware["device"] if "capacityInKB" in disk), key=lambda disk: -disk["capacityInKB"]
    )
    assert (raw["capacityInKB"], data["capacityInKB"]) == (96 * 1024, 16 * 1024)
    assert raw["backing"]["compatibilityMode"] == "physicalMode"
    assert layer("initiator-ea5")["identity"]["naa"] in raw["backing"]["lunUuid"]


def test_the_guests_layer_rests_on_its_datastore_and_says_why_it_has_no_path():
    guest = layer("guest-eg1")
    assert (guest["parent"], guest["path"], guest["size_bytes"]) == ("datastore-mesxi-ds1", None, 16 * 1048576)
    assert guest["identity"]["serial"] == guest["identity"]["uuid"].replace("-", "").lower()
    assert (guest["detail"]["memory_reserved"], guest["detail"]["controller"], guest["detail"]["provisioning"]) == (
        True,
        "pvscsi",
        "eager",
    )
    assert guest["detail"]["path_unknown"]
    assert "simulated" in guest["detail"]["hypervisor"]


def test_the_mark_of_the_volume_lies_on_the_real_disk(target):
    """The simulated host wrote through the real session: the target's own disk has it."""
    head = target.check_output("dd if=/dev/ram0 bs=512 skip=2048 count=1 status=none | head -c 11")
    assert head == "ESXSIM VMFS"


def test_no_secret_is_in_what_the_testbed_keeps():
    kept = "".join(path.read_text() for path in LAYERS.parent.rglob("*.json"))
    for secret in ("secret-esx01-in-1", "secret-esx-out-2", "secret-vc1-in-3", "secret-vc2-in-4", PASSWORD):
        assert secret not in kept


def test_the_simulation_says_that_it_is_one():
    hba = upstream("esx", "community.vmware.vmware_host_vmhba_info", esxi_hostname="localhost.localdomain")[
        "hosts_vmhbas_info"
    ]
    assert "simulated" in json.dumps(hba)
