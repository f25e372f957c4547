# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules esxi_iscsi and esxi_datastore as Ansible calls them, against the simulated ESXi and a real tgtd on loopback.

What has happened is read with pyVmomi. The scenario molecule/esxi tries the roles against LIO.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_datastore, esxi_iscsi, esxi_state
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import esxsim_process

PASSWORD, IN, OUT = "sl-esxsim-pw-0816", "secret-in-0817", "secret-out-0818"
IQN = "iqn.2026-11.test.storlab:storage"
BIG, SMALL = "600000000000000000c0ffee00081601", "600000000000000000c0ffee00081602"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def portal(tmp_path_factory):
    """A real target with a LUN of 256 MiB and one of 32 MiB, which wants CHAP and can prove itself."""
    port, control, folder = free_port(), str(21000 + os.getpid() % 10000), tmp_path_factory.mktemp("luns")
    daemon = subprocess.Popen(["tgtd", "-f", "-C", control, "--iscsi", f"portal=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)

    def admin(*arguments: str, check: bool = True) -> int:
        return subprocess.run(["tgtadm", "-C", control, "--lld", "iscsi", *arguments], check=check, capture_output=True).returncode

    try:
        deadline = time.monotonic() + 20
        while admin("--mode", "target", "--op", "show", check=False):
            assert time.monotonic() < deadline, "tgtd does not answer"
            time.sleep(0.05)
        admin("--mode", "target", "--op", "new", "--tid", "1", "--targetname", IQN)
        for lun, size_mib, naa, serial in (("1", 256, BIG, "SN0816A"), ("2", 32, SMALL, "SN0816B")):
            backing = folder / lun
            with open(backing, "wb") as handle:
                handle.truncate(size_mib << 20)
            admin("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", lun, "--backing-store", str(backing))
            admin("--mode", "logicalunit", "--op", "update", "--tid", "1", "--lun", lun, "--params", f"scsi_id={naa[16:]},scsi_sn={serial}")
        admin("--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL")
        for user, secret, extra in (("esx", IN, ()), ("array", OUT, ("--outgoing",))):
            admin("--mode", "account", "--op", "new", "--user", user, "--password", secret)
            admin("--mode", "account", "--op", "bind", "--tid", "1", "--user", user, *extra)
        yield {"address": "127.0.0.1", "port": port}
        admin("--mode", "target", "--op", "delete", "--force", "--tid", "1", check=False)
    finally:
        # It ignores a polite signal.
        daemon.kill()
        daemon.wait()


class Host:
    def __init__(self, home: Path, ready: dict):
        self.home = home
        self.ready = ready
        address, port = ready["address"].split(":")
        self.login = {"hostname": address, "port": int(port), "username": "root", "password": PASSWORD, "ca_path": ready["certificate"]}
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=address, port=int(port), user="root", pwd=PASSWORD, sslContext=context)
        content = self.instance.RetrieveContent()
        self.host = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view[0]

    def call(self, module, check: bool = False, **arguments) -> dict:
        given = {**self.login, **arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": str(self.home)}
        output = io.StringIO()
        with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
            module.main()
        answer = json.loads(output.getvalue())
        for secret in (PASSWORD, IN, OUT):
            assert secret not in json.dumps({key: value for key, value in answer.items() if key != "invocation"})
        return answer

    def state(self) -> dict:
        return self.call(esxi_state)["storage_state"]


@pytest.fixture
def host(tmp_path):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD) as ready:
        found = Host(tmp_path, ready)
        yield found
        Disconnect(found.instance)


def iscsi(host: Host, portal: dict, **changes) -> dict:
    target = {"iqn": IQN, "portal": portal, "chap_user": "esx", "chap_password": IN, "mutual_chap_user": "array", "mutual_chap_password": OUT,
              "luns": [{"lun": 1, "name": "big", "serial": "SN0816A"}, {"lun": 2, "name": "small"}], **changes.pop("target", {})}
    return {"testbed_id": "tb-st", "state_dir": str(host.home / "state"), "initiator_name": "iqn.2026-11.test.storlab:esx-st", "wait_s": 2,
            "targets": [target], **changes}


def store(**changes) -> dict:
    return {"testbed_id": "tb-st", "layers": {"initiator-big": {"identity": {"naa": BIG}}, "initiator-small": {"identity": {"naa": SMALL}}},
            "datastores": [{"name": "tb-ds", "layer": "initiator-big"}], **changes}


def code(answer: dict) -> str:
    assert answer.get("failed"), answer
    return answer["failure"]["code"]


@pytest.mark.parametrize("discovery", ["dynamic", "static"])
def test_check_mode_tells_what_then_happens_and_teardown_gives_it_back(host, portal, discovery):
    before, wanted = host.state(), iscsi(host, portal, target={"discovery": discovery}, options={"DelayedAck": False}, port_binding=["vmk0"])
    told = host.call(esxi_iscsi, check=True, **wanted)
    assert host.state() == before
    done = host.call(esxi_iscsi, **wanted)
    assert done["steps"] == told["steps"]
    assert {lun["naa"]: lun["size_bytes"] for lun in done["luns"]} == {BIG: 256 << 20, SMALL: 32 << 20}
    assert host.call(esxi_iscsi, **wanted)["changed"] is False
    told = host.call(esxi_datastore, check=True, **store())
    assert "tb-ds" not in [each.name for each in host.host.datastore]
    assert host.call(esxi_datastore, **store())["steps"] == told["steps"]
    assert "tb-ds" in [each.name for each in host.host.datastore]
    assert host.call(esxi_datastore, **store())["changed"] is False
    assert host.call(esxi_datastore, **store(state="absent"))["changed"] is True
    assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])["changed"] is True
    assert host.state() == before


def test_a_lun_that_is_too_small_takes_no_datastore(host, portal):
    host.call(esxi_iscsi, **iscsi(host, portal))
    before = host.state()
    small = store(datastores=[{"name": "tb-small", "layer": "initiator-small"}])
    for check in (True, False):
        answer = host.call(esxi_datastore, check=check, **small)
        assert code(answer) == "device_unfit"
        assert SMALL in answer["msg"]
    assert host.state() == before


@pytest.mark.parametrize("wrong", [{"chap_password": "secret-wrong-0819"}, {"mutual_chap_password": "secret-wrong-0820"}, {"chap_user": "nobody"}])
def test_a_login_that_fails_leaves_nothing(host, portal, wrong):
    before = host.state()
    answer = host.call(esxi_iscsi, **iscsi(host, portal, target=wrong))
    assert code(answer) == "lun_missing"
    assert "CHAP" in answer["msg"]
    assert "secret-wrong" not in answer["msg"]
    assert host.state() == before
    assert not list(host.home.glob("state/esxi/*.json"))


def test_what_fails_on_an_adapter_in_use_is_taken_back_as_well(host, portal):
    storage = host.host.configManager.storageSystem
    storage.UpdateSoftwareInternetScsiEnabled(True)
    before = host.state()
    none = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))
    wanted = iscsi(host, portal, target={**none, "discovery": "static"}, adapter_chap={"chap_user": "esx", "chap_password": "secret-wrong-0821"})
    assert code(host.call(esxi_iscsi, **wanted)) == "lun_missing"
    assert host.state() == before
    adapter = next(each for each in storage.storageDeviceInfo.hostBusAdapter if isinstance(each, vim.host.InternetScsiHba))
    assert adapter.authenticationProperties.chapAuthEnabled is False
    assert not list(host.home.glob("state/esxi/*.json"))


def test_a_target_added_in_vain_is_not_remembered(host, portal):
    good = iscsi(host, portal, target={"discovery": "static"})
    host.call(esxi_iscsi, **good)
    record = next(host.home.glob("state/esxi/*.json"))
    kept = json.loads(record.read_text())
    vain = {**good["targets"][0], "iqn": "iqn.2026-11.test.storlab:nowhere"}
    assert code(host.call(esxi_iscsi, **{**good, "targets": [*good["targets"], vain]})) == "lun_missing"
    assert json.loads(record.read_text()) == kept
    assert host.call(esxi_iscsi, **good)["changed"] is False
    # A wrong secret at a target that is there stays set; the next build with the right one sets it again.
    wrong = {**good["targets"][0], "chap_password": "secret-wrong-0822"}
    assert code(host.call(esxi_iscsi, **{**good, "targets": [wrong]})) == "lun_missing"
    assert host.call(esxi_iscsi, **good)["changed"] is True
    assert host.call(esxi_iscsi, **good)["changed"] is False


def test_chap_of_the_adapter_serves_targets_without_their_own_and_is_taken_back(host, portal):
    before = host.state()
    none = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))
    wanted = iscsi(host, portal, target={**none, "discovery": "static"}, adapter_chap={"chap_user": "esx", "chap_password": IN})
    assert host.call(esxi_iscsi, **wanted)["changed"] is True
    adapter = next(each for each in host.host.configManager.storageSystem.storageDeviceInfo.hostBusAdapter if isinstance(each, vim.host.InternetScsiHba))
    assert (adapter.authenticationProperties.chapAuthEnabled, adapter.authenticationProperties.chapName) == (True, "esx")
    assert host.call(esxi_iscsi, **wanted)["changed"] is False
    assert code(host.call(esxi_iscsi, **{**wanted, "adapter_chap": {"chap_user": "esx", "chap_password": "short"}})) == "bad_value"
    assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])["changed"] is True
    assert host.state() == before


def test_a_target_that_somebody_else_has_configured_is_left_to_him(host, portal):
    storage = host.host.configManager.storageSystem
    storage.UpdateSoftwareInternetScsiEnabled(True)
    adapter = next(each for each in storage.storageDeviceInfo.hostBusAdapter if isinstance(each, vim.host.InternetScsiHba))
    storage.AddInternetScsiSendTargets(adapter.device, [vim.host.InternetScsiHba.SendTarget(address=portal["address"], port=portal["port"])])
    before = host.state()
    assert code(host.call(esxi_iscsi, **iscsi(host, portal, initiator_name=adapter.iScsiName))) == "target_foreign"
    assert host.state() == before


def test_nfs_is_mounted_and_let_go_of(host):
    wanted = store(datastores=[{"name": "tb-nfs", "type": "nfs", "server": "127.0.0.1", "path": "/export/tb"}])
    assert code(host.call(esxi_datastore, **wanted)) == "refused"
    with socket.create_server(("127.0.0.1", 2049)):
        done = host.call(esxi_datastore, **wanted)
        assert done["changed"] is True
        assert done["layers"][0]["detail"]["remote"] == "127.0.0.1:/export/tb"
        assert host.call(esxi_datastore, **wanted)["changed"] is False
    other = store(datastores=[{"name": "tb-nfs", "type": "nfs", "server": "127.0.0.1", "path": "/export/other"}])
    assert code(host.call(esxi_datastore, **other)) == "datastore_name_taken"
    assert host.call(esxi_datastore, **{**wanted, "state": "absent"})["changed"] is True
    assert "tb-nfs" not in [each.name for each in host.host.datastore]


def test_no_secret_is_in_the_most_talkative_output(host, portal):
    given = {**host.login, **iscsi(host, portal)}
    done = subprocess.run(
        ["ansible", "localhost", "-i", "localhost,", "-c", "local", "-vvvv", "--diff", "-m", "storlab.testbed.esxi_iscsi", "-a", json.dumps(given),
         "-e", f"ansible_python_interpreter={sys.executable}"], capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2])
    assert "chap_found" in done.stdout
    for secret in (PASSWORD, IN, OUT):
        assert secret not in done.stdout + done.stderr


def test_the_simulators_own_tests():
    """Its iSCSI initiator against a real target, in Go."""
    go = Path(sys.executable).with_name("go")
    done = subprocess.run([str(go), "test", "./..."], cwd=esxsim_process.SOURCE, capture_output=True, text=True, check=False,
                          env={**os.environ, "GOTOOLCHAIN": "local"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout
