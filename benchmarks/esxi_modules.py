#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the ESXi part of build, second build and teardown takes with this collection's modules and with the upstream ones.

Both do the same job on the same simulated host with the same real target on loopback, in turn: software iSCSI with CHAP, a bound
interface and MaxIoSizeKB, a VMFS on the LUN that is found; then all of it back. See esxi_modules.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
import esxsim_process

PORTAL, CONTROL = 3288, "88"
TARGET = "iqn.2026-11.test.storlab:benchmark"
HOST = "localhost.localdomain"
PASSWORD = "sl-bench-pw-4711"  # noqa: S105, of the simulator
CHAP = {"chap_user": "bench", "chap_password": "secret-bench-1"}
OPTION = {"ISCSI.MaxIoSizeKB": 512}
NAA = "600000000000000000c0ffee00889911"


def tgtadm(*arguments: str) -> None:
    subprocess.run(["tgtadm", "-C", CONTROL, "--lld", "iscsi", *arguments], check=True)


def start_target(folder: Path) -> subprocess.Popen:
    daemon = subprocess.Popen(
        ["tgtd", "-f", "-C", CONTROL, "--iscsi", f"portal=127.0.0.1:{PORTAL}"], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 10
    while subprocess.run(
        ["tgtadm", "-C", CONTROL, "--mode", "sys", "--op", "show"], capture_output=True, check=False
    ).returncode:
        if time.monotonic() > deadline:
            raise SystemExit("tgtd does not answer; is port 3288 free?")
        time.sleep(0.05)
    backing = folder / "lun1"
    with open(backing, "wb") as handle:
        handle.truncate(256 << 20)
    tgtadm("--mode", "target", "--op", "new", "--tid", "1", "--targetname", TARGET)
    tgtadm("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", str(backing))
    tgtadm(
        "--mode",
        "logicalunit",
        "--op",
        "update",
        "--tid",
        "1",
        "--lun",
        "1",
        "--params",
        f"scsi_id={NAA[16:]},scsi_sn=SN4711",
    )
    tgtadm("--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL")
    tgtadm("--mode", "account", "--op", "new", "--user", CHAP["chap_user"], "--password", CHAP["chap_password"])
    tgtadm("--mode", "account", "--op", "bind", "--tid", "1", "--user", CHAP["chap_user"])
    return daemon


def ours(ready: dict, folder: Path) -> dict:
    host, port = ready["address"].split(":")
    login = {
        "hostname": host,
        "port": int(port),
        "username": "root",
        "password": PASSWORD,
        "ca_path": ready["certificate"],
    }
    iscsi = {
        "testbed_id": "bench",
        "state_dir": str(folder / "state"),
        "initiator_name": "iqn.2026-11.test.storlab:esxi01",
        "host_options": OPTION,
        "port_binding": ["vmk0"],
        "targets": [
            {
                "iqn": TARGET,
                "portal": {"address": "127.0.0.1", "port": PORTAL},
                **CHAP,
                "luns": [{"lun": 1, "name": "ds1"}],
            }
        ],
    }
    stores = {
        "testbed_id": "bench",
        "layers": {"initiator-ds1": {"identity": {"naa": NAA}}},
        "datastores": [{"name": "bench-ds1", "layer": "initiator-ds1"}],
        "allow_device": [NAA],
    }
    present = [{"storlab.testbed.esxi_iscsi": iscsi}, {"storlab.testbed.esxi_datastore": stores}]
    absent = [
        {"storlab.testbed.esxi_datastore": {**stores, "state": "absent"}},
        {"storlab.testbed.esxi_iscsi": {"testbed_id": "bench", "state_dir": str(folder / "state"), "state": "absent"}},
    ]
    defaults = {"group/storlab.testbed.esxi": login}
    return {
        name: [play(tasks, defaults)]
        for name, tasks in (("build", present), ("second build", present), ("teardown", absent))
    }


def upstream(ready: dict) -> dict:
    """The sequence that works with the upstream modules, as short as it gets."""
    host, port = ready["address"].split(":")
    login = {"hostname": host, "port": int(port), "username": "root", "password": PASSWORD, "validate_certs": True}
    config = {
        "vmhba_name": "{{ found.iscsi_properties.vmhba_name }}",
        "alias": "storlab-bench",
        "send_target": {"address": "127.0.0.1", "port": PORTAL},
        # At the adapter, because at the target it takes two runs.
        "authentication": {
            "chap_auth_enabled": True,
            "chap_authentication_type": "chapPreferred",
            "chap_name": CHAP["chap_user"],
            "chap_secret": CHAP["chap_password"],
        },
    }
    binding = {key: config[key] for key in ("vmhba_name", "alias", "authentication")} | {"port_bind": ["vmk0"]}
    found = [{"community.vmware.vmware_host_iscsi_info": {"esxi_hostname": HOST}, "register": "found"}]
    present = [
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "enabled"}},
        *found,
        {"community.vmware.vmware_host_config_manager": {"esxi_hostname": HOST, "options": OPTION}},
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "present", "iscsi_config": binding}},
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "present", "iscsi_config": config}},
        {"community.vmware.vmware_host_scanhba": {"esxi_hostname": HOST, "rescan_vmfs": True}, "changed_when": False},
        {"community.vmware.vmware_host_scsidisk_info": {"esxi_hostname": HOST}, "register": "luns"},
        {
            "community.vmware.vmware_host_datastore": {
                "esxi_hostname": HOST,
                "datastore_name": "bench-ds1",
                "datastore_type": "vmfs",
                "vmfs_device_name": f"naa.{NAA}",
                "vmfs_version": 6,
                "auto_expand": False,
                "state": "present",
            }
        },
    ]
    absent = [
        *found,
        {
            "community.vmware.vmware_host_datastore": {
                "esxi_hostname": HOST,
                "datastore_name": "bench-ds1",
                "state": "absent",
                "auto_expand": False,
            }
        },
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "absent", "iscsi_config": config}},
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "absent", "iscsi_config": binding}},
        {"community.vmware.vmware_host_config_manager": {"esxi_hostname": HOST, "options": {"ISCSI.MaxIoSizeKB": 128}}},
        {"community.vmware.vmware_host_scanhba": {"esxi_hostname": HOST, "rescan_vmfs": True}, "changed_when": False},
        {"community.vmware.vmware_host_iscsi": {"esxi_hostname": HOST, "state": "disabled"}},
    ]
    defaults = {"group/community.vmware.vmware": login}
    return {
        name: [play(tasks, defaults)]
        for name, tasks in (("build", present), ("second build", present), ("teardown", absent))
    }


def play(tasks: list, defaults: dict) -> dict:
    return {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "module_defaults": defaults,
        "tasks": tasks,
    }


def run(content: list, folder: Path, certificate: str) -> float:
    path = folder / "play.yml"
    path.write_text(json.dumps(content), encoding="utf-8")
    environment = {**os.environ, "SSL_CERT_FILE": certificate, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    begun = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often both ways are timed, in turn (default 5)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        daemon = start_target(folder)
        times: dict = {}
        try:
            with esxsim_process.running(folder / "esxsim", PASSWORD) as ready:
                empty = [run([play([], {})], folder, ready["certificate"]) for _ in range(asked.rounds)]
                for _ in range(asked.rounds):
                    for way, steps in (("ours", ours(ready, folder)), ("upstream", upstream(ready))):
                        for step, content in steps.items():
                            times.setdefault((step, way), []).append(run(content, folder, ready["certificate"]))
        finally:
            tgtadm("--mode", "target", "--op", "delete", "--force", "--tid", "1")
            daemon.kill()
            daemon.wait()
    start = statistics.median(empty)
    print(f"an empty play: {start:.2f} s, taken off below; medians of {asked.rounds}")
    for step in ("build", "second build", "teardown"):
        own, other = (statistics.median(times[step, way]) - start for way in ("ours", "upstream"))
        print(f"{step:13s} ours {own:.2f} s   upstream {other:.2f} s   ratio {own / other:.2f}")


if __name__ == "__main__":
    main()
