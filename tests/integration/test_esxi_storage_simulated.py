# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules esxi_iscsi and esxi_datastore as Ansible calls them, against the simulated ESXi and a real tgtd on loopback.

What has happened is read with pyVmomi. The scenario molecule/esxi tries the roles against LIO.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_datastore, esxi_iscsi, esxi_state
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import tgt_process
from unchanged import unchanged

PASSWORD, IN, OUT = "sl-esxsim-pw-0816", "secret-in-0817", "secret-out-0818"
IQN = "iqn.2026-11.test.storlab:storage"
BIG, SMALL = "600000000000000000c0ffee00081601", "600000000000000000c0ffee00081602"


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    """A real target with a LUN of 256 MiB and one of 32 MiB, which wants CHAP and can prove itself."""
    with tgt_process.Array(tmp_path_factory.mktemp("luns"), IQN, IN, OUT) as array:
        array.add(1, 256, BIG, "SN0816A")
        array.add(2, 32, SMALL, "SN0816B")
        yield array


@pytest.fixture
def portal(array):
    """Its address, with nothing of an earlier test on its LUNs."""
    for lun in (1, 2):
        array.blank(lun)
    return array.portal


class Host:
    def __init__(self, home: Path, ready: dict):
        self.home = home
        self.ready = ready
        address, port = ready["address"].split(":")
        self.login = {
            "hostname": address,
            "port": int(port),
            "username": "root",
            "password": PASSWORD,
            "ca_path": ready["certificate"],
        }
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
    target = {
        "iqn": IQN,
        "portal": portal,
        "chap_user": "esx",
        "chap_password": IN,
        "mutual_chap_user": "array",
        "mutual_chap_password": OUT,
        "luns": [{"lun": 1, "name": "big", "serial": "SN0816A"}, {"lun": 2, "name": "small"}],
        **changes.pop("target", {}),
    }
    return {
        "testbed_id": "tb-st",
        "state_dir": str(host.home / "state"),
        "initiator_name": "iqn.2026-11.test.storlab:esx-st",
        "wait_s": 60,
        "targets": [target],
        **changes,
    }


def store(**changes) -> dict:
    return {
        "testbed_id": "tb-st",
        "layers": {"initiator-big": {"identity": {"naa": BIG}}, "initiator-small": {"identity": {"naa": SMALL}}},
        "datastores": [{"name": "tb-ds", "layer": "initiator-big"}],
        # No target of the testbed exports them.
        "allow_device": [BIG, SMALL],
        **changes,
    }


def software_adapter(host: Host):
    """The adapter, once the host shows it."""
    deadline = time.monotonic() + 30
    while True:
        for shown in host.host.configManager.storageSystem.storageDeviceInfo.hostBusAdapter:
            if isinstance(shown, vim.host.InternetScsiHba):
                return shown
        assert time.monotonic() < deadline, "there is no adapter"
        time.sleep(0.05)


def broken(answer: dict) -> str:
    """The failure's code of what had begun."""
    assert answer.get("failed"), answer
    return answer["failure"]["code"]


def refused(host: Host, module, **arguments) -> str:
    """The failure's code; no call has changed anything, and the host and what is remembered of it are as they were."""
    with unchanged(host.home / "state", host.state, esxsim_process.changes(host.ready)):
        return broken(host.call(module, **arguments))


@pytest.mark.parametrize("discovery", ["dynamic", "static"])
def test_check_mode_tells_what_then_happens_and_teardown_gives_it_back(host, portal, discovery):
    before, wanted = (
        host.state(),
        iscsi(host, portal, target={"discovery": discovery}, options={"DelayedAck": False}, port_binding=["vmk0"]),
    )
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
    small = store(datastores=[{"name": "tb-small", "layer": "initiator-small"}])
    for check in (True, False):
        assert refused(host, esxi_datastore, check=check, **small) == "device_unfit"
    assert SMALL in host.call(esxi_datastore, **small)["msg"]


def test_a_serial_in_other_words_is_a_warning_where_the_identifier_proves_the_lun(host, portal, monkeypatch):
    warnings: list = []
    # Where parts of the controller are loaded, too, Ansible shows them and leaves them out of the answer.
    monkeypatch.setattr(esxi_iscsi.AnsibleModule, "warn", lambda _module, text, **_more: warnings.append(text))
    odd = {"lun": 1, "name": "big", "serial": "the array's own words"}
    with unchanged(host.state):
        assert broken(host.call(esxi_iscsi, **iscsi(host, portal, target={"luns": [odd]}, wait_s=2))) == "wrong_serial"
    assert not list(host.home.glob("state/esxi/*.json"))
    assert warnings == []
    assert not host.call(esxi_iscsi, **iscsi(host, portal, target={"luns": [{**odd, "naa": BIG}]})).get("failed")
    assert len(warnings) == 1
    assert "SN0816A" in warnings[0]


@pytest.mark.parametrize(
    "wrong",
    [{"chap_password": "secret-wrong-0819"}, {"mutual_chap_password": "secret-wrong-0820"}, {"chap_user": "nobody"}],
)
def test_a_login_that_fails_leaves_nothing(host, portal, wrong):
    with unchanged(host.state):
        answer = host.call(esxi_iscsi, **iscsi(host, portal, target=wrong, wait_s=2))
    assert broken(answer) == "lun_missing"
    assert "CHAP" in answer["msg"]
    assert "secret-wrong" not in answer["msg"]
    assert not list(host.home.glob("state/esxi/*.json"))


def test_what_fails_on_an_adapter_in_use_is_taken_back_as_well(host, portal):
    storage = host.host.configManager.storageSystem
    storage.UpdateSoftwareInternetScsiEnabled(True)
    software_adapter(host)
    none = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))
    wanted = iscsi(
        host,
        portal,
        target={**none, "discovery": "static"},
        adapter_chap={"chap_user": "esx", "chap_password": "secret-wrong-0821"},
    )
    with unchanged(host.state):
        assert broken(host.call(esxi_iscsi, **{**wanted, "wait_s": 2})) == "lun_missing"
    adapter = software_adapter(host)
    assert adapter.authenticationProperties.chapAuthEnabled is False
    assert not list(host.home.glob("state/esxi/*.json"))


def test_a_target_added_in_vain_is_not_remembered(host, portal):
    good = iscsi(host, portal, target={"discovery": "static"})
    host.call(esxi_iscsi, **good)
    record = next(host.home.glob("state/esxi/*.json"))
    kept = json.loads(record.read_text())
    vain = {**good["targets"][0], "iqn": "iqn.2026-11.test.storlab:nowhere"}
    more = {**good, "targets": [*good["targets"], vain], "wait_s": 2}
    with unchanged(host.state):
        assert broken(host.call(esxi_iscsi, **more)) == "lun_missing"
    assert json.loads(record.read_text()) == kept
    assert host.call(esxi_iscsi, **good)["changed"] is False
    # A wrong secret at a target that is there stays set, and may stay unnoticed as long as its session lives; the next build with the right one
    # sets it again.
    wrong = {**good["targets"][0], "chap_password": "secret-wrong-0822"}
    host.call(esxi_iscsi, **{**good, "targets": [wrong]})
    assert host.call(esxi_iscsi, **good)["changed"] is True
    assert host.call(esxi_iscsi, **good)["changed"] is False


def test_chap_of_the_adapter_serves_targets_without_their_own_and_is_taken_back(host, portal):
    before = host.state()
    none = dict.fromkeys(("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password"))
    wanted = iscsi(
        host, portal, target={**none, "discovery": "static"}, adapter_chap={"chap_user": "esx", "chap_password": IN}
    )
    assert host.call(esxi_iscsi, **wanted)["changed"] is True
    adapter = software_adapter(host)
    assert (adapter.authenticationProperties.chapAuthEnabled, adapter.authenticationProperties.chapName) == (
        True,
        "esx",
    )
    assert host.call(esxi_iscsi, **wanted)["changed"] is False
    short = {**wanted, "adapter_chap": {"chap_user": "esx", "chap_password": "short"}}
    assert refused(host, esxi_iscsi, **short) == "bad_value"
    assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])["changed"] is True
    assert host.state() == before


def test_a_target_that_somebody_else_has_configured_is_left_to_him(host, portal):
    storage = host.host.configManager.storageSystem
    storage.UpdateSoftwareInternetScsiEnabled(True)
    adapter = software_adapter(host)
    storage.AddInternetScsiSendTargets(
        adapter.device, [vim.host.InternetScsiHba.SendTarget(address=portal["address"], port=portal["port"])]
    )
    deadline = time.monotonic() + 30
    while not (before := host.state())["iscsi targets"]:
        assert time.monotonic() < deadline, "the target does not show"
    assert refused(host, esxi_iscsi, **iscsi(host, portal, initiator_name=adapter.iScsiName)) == "target_foreign"
    assert host.state() == before


def test_nfs_is_mounted_and_let_go_of(host):
    wanted = store(datastores=[{"name": "tb-nfs", "type": "nfs", "server": "127.0.0.1", "path": "/export/tb"}])
    with unchanged(host.state):
        assert broken(host.call(esxi_datastore, **wanted)) == "refused"
    with socket.create_server(("127.0.0.1", 2049)):
        done = host.call(esxi_datastore, **wanted)
        assert done["changed"] is True
        assert done["layers"][0]["detail"]["remote"] == "127.0.0.1:/export/tb"
        assert host.call(esxi_datastore, **wanted)["changed"] is False
    other = store(datastores=[{"name": "tb-nfs", "type": "nfs", "server": "127.0.0.1", "path": "/export/other"}])
    assert refused(host, esxi_datastore, **other) == "datastore_name_taken"
    assert host.call(esxi_datastore, **{**wanted, "state": "absent"})["changed"] is True
    assert "tb-nfs" not in [each.name for each in host.host.datastore]


def test_a_proxy_of_the_environment_is_not_used_for_calls_and_not_for_files(host, portal, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{nobody.getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("NO_PROXY", "")
        host.call(esxi_iscsi, **iscsi(host, portal))
        # Its stamp is a file, which goes another way than the calls.
        assert host.call(esxi_datastore, timeout_s=5, **store())["changed"] is True
        nobody.setblocking(False)
        with pytest.raises(BlockingIOError):
            nobody.accept()


def test_the_fingerprint_of_its_certificate_is_enough_for_calls_and_files(host, portal):
    certificate = ssl.PEM_cert_to_DER_cert(Path(host.ready["certificate"]).read_text())
    host.login.update(ca_path=None, thumbprint=hashlib.sha256(certificate).hexdigest())
    host.call(esxi_iscsi, **iscsi(host, portal))
    made = host.call(esxi_datastore, **store())
    assert made.get("changed") is True, made
    host.login["thumbprint"] = "ab" * 32
    with unchanged(esxsim_process.changes(host.ready)):
        assert broken(host.call(esxi_state)) == "certificate_untrusted"


def test_no_secret_is_in_the_most_talkative_output(host, portal):
    given = {**host.login, **iscsi(host, portal)}
    done = subprocess.run(
        [
            "ansible",
            "localhost",
            "-i",
            "localhost,",
            "-c",
            "local",
            "-vvvv",
            "--diff",
            "-m",
            "storlab.testbed.esxi_iscsi",
            "-a",
            json.dumps(given),
            "-e",
            json.dumps({"ansible_python_interpreter": sys.executable}),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert "chap_found" in done.stdout
    for secret in (PASSWORD, IN, OUT):
        assert secret not in done.stdout + done.stderr


def test_the_simulators_own_tests():
    """Its iSCSI initiator against a real target, in Go."""
    go = Path(sys.executable).with_name("go")
    done = subprocess.run(
        [str(go), "test", "./..."],
        cwd=esxsim_process.SOURCE,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout


def control(simulated: Host, path: str, **body):
    """Ask the simulation itself, not the host that it plays."""
    request = urllib.request.Request(
        f"http://{simulated.ready['control']}/{path}", data=json.dumps(body).encode() if body else None
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310, the address is the simulation's
        return json.loads(answer.read())


def in_force(host: Host) -> dict:
    """The options that the running host goes by."""
    return next(iter(control(host, "options").values()))


def test_an_option_that_needs_a_restart_is_pending_until_then_on_every_run(host, portal):
    wanted = iscsi(host, portal, host_options={"ISCSI.MaxIoSizeKB": "512"}, queue_depth=77)
    first = host.call(esxi_iscsi, **wanted)
    again = host.call(esxi_iscsi, **wanted)
    assert (first["changed"], again["changed"]) == (True, False)
    assert in_force(host)["ISCSI.MaxIoSizeKB"] == "128"
    for answer in (first, again, host.call(esxi_iscsi, check=True, **wanted)):
        assert answer["reboot_required"] is True
        assert {item["option"]: (item["running"], item["configured"]) for item in answer["restart_pending"]} == {
            "ISCSI.MaxIoSizeKB": (128, 512),
            "iscsi_vmk": ("", "iscsivmk_LunQDepth=77"),
        }
        assert len(answer["layers"][0]["detail"]["restart_pending"]) == 2
    control(host, "restart", host="")
    after = host.call(esxi_iscsi, **wanted)
    assert (after["changed"], after["reboot_required"], after["restart_pending"]) == (False, False, [])
    assert "restart_pending" not in after["layers"][0]["detail"]
    assert in_force(host)["ISCSI.MaxIoSizeKB"] == "512"
    # What a teardown sets back holds from the next start on, too.
    gone = host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
    assert gone["reboot_required"] is True
    assert in_force(host)["ISCSI.MaxIoSizeKB"] == "512"
    less = {key: value for key, value in wanted.items() if key not in ("host_options", "queue_depth")}
    assert host.call(esxi_iscsi, **less)["reboot_required"] is True
    control(host, "restart", host="")
    assert host.call(esxi_iscsi, **less)["reboot_required"] is False


def test_an_option_whose_text_asks_for_no_reboot_holds_at_once(host, portal):
    done = host.call(esxi_iscsi, **iscsi(host, portal, host_options={"ISCSI.SocketRcvBufLenKB": 512}))
    assert (done["changed"], done["reboot_required"], done["restart_pending"]) == (True, False, [])


def test_an_option_of_the_adapter_is_pending_only_when_sessions_were_there(host, portal):
    first = host.call(esxi_iscsi, **iscsi(host, portal, options={"LoginTimeout": "17"}))
    assert (first["changed"], first["reboot_required"]) == (True, False)
    assert host.call(esxi_iscsi, **iscsi(host, portal, options={"LoginTimeout": 17}))["changed"] is False
    second = host.call(esxi_iscsi, **iscsi(host, portal, options={"LoginTimeout": 17, "DelayedAck": "no"}))
    assert [(item["option"], item["running"]) for item in second["restart_pending"]] == [("DelayedAck", True)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": {"DelayedAck": "perhaps"}},
        {"options": {"NoopOutInterval": 20}},
        {"options": {"NoopTimeout": 9}},
        {"options": {"MaxCommands": 64}},
        {"host_options": {"ISCSI.MaxIoSizeKB": 1024}},
        {"host_options": {"ISCSI.MaxIoSizeKB": "much"}},
        {"host_options": {"ISCSI.MaxIo": 512}},
    ],
)
def test_an_options_value_that_cannot_be_is_refused_and_nothing_has_changed(host, portal, wrong):
    # Which options an adapter has is known when it is enabled, which is taken back.
    with unchanged(host.state):
        assert broken(host.call(esxi_iscsi, **iscsi(host, portal, **wrong))) == "bad_value"
    assert not list(host.home.glob("state/esxi/*.json"))


@pytest.mark.long
def test_a_slow_rescan_does_not_undo_a_build(host, portal):
    control(host, "slow", method="RescanHba", seconds=5)
    control(host, "slow", method="RescanVmfs", seconds=5)
    done = host.call(esxi_iscsi, timeout_s=3, **iscsi(host, portal))
    assert done.get("changed") is True, done
    control(host, "slow", method="CreateVmfsDatastore", seconds=5)
    control(host, "slow", method="RemoveDatastore", seconds=5)
    made = host.call(esxi_datastore, timeout_s=3, **store())
    assert made.get("changed") is True, made
    assert host.call(esxi_datastore, timeout_s=3, **store(state="absent"))["changed"] is True


def test_a_line_that_is_lost_leaves_what_is_built_to_the_next_run(host, portal):
    control(host, "slow", method="RescanHba", seconds=20)
    cut = host.call(esxi_iscsi, long_timeout_s=2, **iscsi(host, portal))
    assert broken(cut) == "connection_lost"
    control(host, "slow", method="RescanHba", seconds=0)
    assert any(line.startswith("send ") for line in host.state()["iscsi targets"])
    done = host.call(esxi_iscsi, **iscsi(host, portal))
    assert "add_target" not in [step["op"] for step in done["steps"]]
    assert {lun["naa"] for lun in done["luns"]} == {BIG, SMALL}


def test_disabling_gives_back_name_alias_and_options_and_the_adapter_stays_listed_until_a_restart(host, portal):
    before = host.state()
    wanted = iscsi(host, portal, options={"LoginTimeout": 17})
    told = host.call(esxi_iscsi, **wanted)
    assert software_adapter(host).iScsiName == "iqn.2026-11.test.storlab:esx-st"
    gone = host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
    assert [step["op"] for step in gone["steps"]][-1] == "disable"
    left = software_adapter(host)
    assert left.device == told["adapter"]
    assert left.iScsiName.startswith("iqn.1998-01.com.vmware:")
    assert left.iScsiAlias in (None, "")
    assert {option.key: option.value for option in left.advancedOptions}["LoginTimeout"] == 5
    assert (left.configuredSendTarget, left.configuredStaticTarget) == ([], [])
    assert host.state() == before
    assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])["changed"] is False
    # Enabled again before and after a restart it is the testbed's once more, and is given back once more.
    for restart in (False, True):
        if restart:
            control(host, "restart", host="")
        assert host.call(esxi_iscsi, **wanted)["changed"] is True
        host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
        assert software_adapter(host).iScsiName == left.iScsiName
        assert host.state() == before


def test_every_address_that_a_portal_tells_of_is_logged_in_to_and_removed(host, portal):
    host.call(esxi_iscsi, **iscsi(host, portal))
    deadline, wanted = time.monotonic() + 60, {BIG: 2, SMALL: 2}
    while True:
        info = host.host.configManager.storageSystem.storageDeviceInfo
        names = {lun.key: lun.canonicalName.partition("naa.")[2] for lun in info.scsiLun}
        ways = {names[unit.lun]: len(unit.path) for unit in info.multipathInfo.lun if names.get(unit.lun) in wanted}
        if ways == wanted:
            break
        assert time.monotonic() < deadline, ways
        time.sleep(0.1)
    addresses = {target.address for target in software_adapter(host).configuredStaticTarget}
    assert len(addresses) == 2
    assert host.call(esxi_iscsi, **iscsi(host, portal))["changed"] is False
    assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=str(host.home / "state"))["changed"]
    assert software_adapter(host).configuredStaticTarget == []


def test_a_lun_that_is_named_by_its_eui_carries_a_datastore(tmp_path, portal):
    eui = f"eui.{BIG[-16:]}"
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, lab=("eui-names",)) as ready:
        host = Host(tmp_path, ready)
        before = host.state()
        done = host.call(esxi_iscsi, **iscsi(host, portal))
        layer = done["layers"][0]
        assert (layer["name"], layer["identity"]["naa"]) == ("initiator-big", eui)
        other = {"luns": [{"lun": 1, "name": "big", "naa": f"eui.{SMALL[-16:]}"}]}
        with unchanged(host.state):
            assert broken(host.call(esxi_iscsi, **iscsi(host, portal, target=other, wait_s=2))) == "wrong_naa"
        by_eui = {"layers": {"initiator-big": layer}, "allow_device": [eui]}
        made = host.call(esxi_datastore, **store(**by_eui))
        assert made["changed"] is True, made
        assert [each.info.vmfs.extent[0].diskName for each in host.host.datastore if each.name == "tb-ds"] == [eui]
        assert host.call(esxi_datastore, **store(**by_eui))["changed"] is False
        assert host.call(esxi_datastore, **store(state="absent", **by_eui))["changed"] is True
        assert host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=str(tmp_path / "state"))["changed"]
        assert host.state() == before
        Disconnect(host.instance)


def test_a_host_with_500_devices_is_never_asked_for_all_that_it_says_of_them(tmp_path, portal):
    """That is megabytes of text, and it was asked for at every look for a change."""
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, lab=("many-devices",)) as ready:
        host = Host(tmp_path, ready)
        try:
            before, wanted = host.state(), iscsi(host, portal)
            assert len(before["devices"]) > 500
            esxsim_process.properties(ready)
            steps = (
                (esxi_iscsi, wanted),
                (esxi_datastore, store()),
                (esxi_datastore, store(state="absent")),
                (esxi_iscsi, {"state": "absent", "testbed_id": "tb-st", "state_dir": wanted["state_dir"]}),
            )
            for module, arguments in steps:
                assert host.call(module, **arguments)["changed"] is True
            assert host.state() == before
            asked = esxsim_process.properties(ready)
        finally:
            Disconnect(host.instance)
    parts = {path: times for path, times in asked.items() if path.startswith("storageDeviceInfo")}
    assert "storageDeviceInfo" not in asked and not [path for path in asked if path.startswith("all of")]
    assert parts["storageDeviceInfo.hostBusAdapter"] > 0
    # Tasks that wait poll the short list; each task reads the devices themselves, and again where it proves a LUN.
    assert parts["storageDeviceInfo.scsiLun"] <= 20 and parts["storageDeviceInfo.multipathInfo"] <= 20, parts


def test_a_lun_with_one_of_two_portals_down_is_used_and_its_layer_says_so(host, portal):
    done = host.call(esxi_iscsi, **iscsi(host, portal))
    assert "paths_degraded" not in done["layers"][0]["detail"]
    (other,) = {target.address for target in software_adapter(host).configuredStaticTarget} - {portal["address"]}
    control(host, "path", name=f"{other}:{portal['port']}", method="down")
    degraded = host.call(esxi_iscsi, **iscsi(host, portal))
    assert degraded["changed"] is False, degraded
    assert {layer["detail"]["paths_degraded"] for layer in degraded["layers"]} == {"paths: 1 active, 1 dead"}
    assert host.call(esxi_datastore, **store())["changed"] is True
    assert host.call(esxi_datastore, **store())["changed"] is False
    control(host, "path", name=f"{other}:{portal['port']}", method="up")
    assert "paths_degraded" not in host.call(esxi_iscsi, **iscsi(host, portal))["layers"][0]["detail"]
    # With no path left it is lost, not degraded.
    for address in (other, portal["address"]):
        control(host, "path", name=f"{address}:{portal['port']}", method="down")
    with unchanged(lambda: host.state()["iscsi targets"]):
        assert broken(host.call(esxi_iscsi, **iscsi(host, portal, wait_s=2))) == "lun_missing"


def add_array(host: Host, portal: dict) -> None:
    """What an administrator does for an array of his."""
    storage, adapter = host.host.configManager.storageSystem, software_adapter(host)
    made = vim.host.InternetScsiHba.SendTarget(address=portal["address"], port=portal["port"])
    storage.AddInternetScsiSendTargets(adapter.device, [made])
    chap = vim.host.InternetScsiHba.AuthenticationProperties(
        chapAuthEnabled=True, chapInherited=False, chapAuthenticationType="chapRequired", chapName="esx", chapSecret=IN,
        mutualChapInherited=False, mutualChapAuthenticationType="chapRequired", mutualChapName="array", mutualChapSecret=OUT,
    )  # fmt: skip
    storage.RescanHba(adapter.device)
    deadline = time.monotonic() + 30
    parent = f"{portal['address']}:{portal['port']}"
    while not (found := [each for each in software_adapter(host).configuredStaticTarget if each.parent == parent]):
        assert time.monotonic() < deadline, "the array's targets do not show"
        time.sleep(0.1)
    names = [vim.host.InternetScsiHba.StaticTarget(address=each.address, port=each.port, iScsiName=each.iScsiName) for each in found]  # fmt: skip
    targets = vim.host.InternetScsiHba.TargetSet(staticTargets=names)
    storage.UpdateInternetScsiAuthenticationProperties(adapter.device, chap, targets)
    storage.RescanHba(adapter.device)


def test_an_array_that_an_administrator_added_after_the_build_keeps_its_targets_luns_and_name(host, portal, tmp_path):
    (tmp_path / "theirs").mkdir()
    with tgt_process.Array(tmp_path / "theirs", "iqn.2010-06.test.array:theirs", IN, OUT) as theirs:
        naa = "600000000000000000c0ffee00081703"
        theirs.add(1, 16, naa, "SN0817C")
        before = host.state()
        wanted = iscsi(host, portal, options={"LoginTimeout": 17}, port_binding=["vmk0"])
        host.call(esxi_iscsi, **wanted)
        add_array(host, theirs.portal)
        gone = host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
        kept = {item["setting"]: item["value"] for item in gone["kept_for_others"]}
        assert set(kept) == {"option LoginTimeout", "name", "alias", "bound vmk0", "adapter"}
        adapter = software_adapter(host)
        assert (adapter.iScsiName, adapter.iScsiAlias) == ("iqn.2026-11.test.storlab:esx-st", "storlab-tb-st")
        assert {each.iScsiName for each in adapter.configuredStaticTarget} == {"iqn.2010-06.test.array:theirs"}
        assert [each.port for each in adapter.configuredSendTarget] == [theirs.portal["port"]]
        devices = [lun.canonicalName for lun in host.host.configManager.storageSystem.storageDeviceInfo.scsiLun]
        assert f"naa.{naa}" in devices and f"naa.{BIG}" not in devices
        # They go, and the next teardown gives back what was there before.
        storage = host.host.configManager.storageSystem
        sends, statics = list(adapter.configuredSendTarget), list(adapter.configuredStaticTarget)
        storage.RemoveInternetScsiStaticTargets(adapter.device, statics)
        storage.RemoveInternetScsiSendTargets(adapter.device, sends)
        deadline = time.monotonic() + 30
        while host.state()["iscsi targets"]:
            assert time.monotonic() < deadline, "the targets are still shown"
        last = host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
        assert last["kept_for_others"] == []
        assert host.state() == before


def test_two_testbeds_with_names_of_their_own_do_not_share_a_host(host, portal):
    host.call(esxi_iscsi, **iscsi(host, portal))
    second = {"iqn": f"{IQN}-2", "portal": {**portal, "port": 3999}, "discovery": "static"}
    other = iscsi(host, portal, testbed_id="tb-2", initiator_name="iqn.2026-11.test.storlab:esx-2", target=second)
    for check in (True, False):
        assert refused(host, esxi_iscsi, check=check, **other) == "adapter_in_use"
    said = host.call(esxi_iscsi, **other)["msg"]
    assert "testbed tb-st" in said and "testbed tb-2" in said


def test_an_interface_is_unbound_after_its_sessions_have_ended(host, portal):
    wanted = iscsi(host, portal, port_binding=["vmk0"])
    host.call(esxi_iscsi, **wanted)
    manager, adapter = host.host.configManager.iscsiManager, software_adapter(host)
    with pytest.raises(vim.fault.IscsiFaultVnicHasActivePaths):
        manager.UnbindVnic(adapter.device, "vmk0", False)
    # A build without it cannot end the sessions, and takes nothing back by half.
    with unchanged(host.state):
        assert broken(host.call(esxi_iscsi, **iscsi(host, portal, wait_s=2))) == "paths_active"
    gone = host.call(esxi_iscsi, state="absent", testbed_id="tb-st", state_dir=wanted["state_dir"])
    assert gone["changed"] is True, gone
    assert [port.vnicDevice for port in manager.QueryBoundVnics(adapter.device)] == []


def test_a_target_is_not_removed_beneath_a_datastore(host, portal):
    wanted = iscsi(host, portal)
    host.call(esxi_iscsi, **wanted)
    host.call(esxi_datastore, **store())
    gone = {"state": "absent", "testbed_id": "tb-st", "state_dir": wanted["state_dir"]}
    assert refused(host, esxi_iscsi, **gone) == "in_use"
    assert "tb-ds" in host.call(esxi_iscsi, **gone)["msg"]
    assert refused(host, esxi_iscsi, **{**wanted, "targets": []}) == "in_use"
    assert host.call(esxi_datastore, **store(state="absent"))["changed"] is True
    assert host.call(esxi_iscsi, **gone)["changed"] is True
