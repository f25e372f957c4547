# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated ESXi as a host of which real answers are known: it speaks that host's version of the API, answers as it did, and changes nothing.

The hosts are those of tests/support/esxi_answers.py. A recording of your own is played the same way: tests/esxsim -recorded FILE.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import recording, session
from ansible_collections.storlab.testbed.plugins.modules import esxi_iscsi, esxi_state

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import play_recording
from api_objects import Of, object_content, option
from esxi_answers import ESX4, ESX4_NETWORK, ESXI7, ESXI8, ESXI8_NETWORK, ESXI67, POWER, service
from unchanged import unchanged

PASSWORD = "sl-esxsim-pw-3902"
CLOCK = {
    "timeZone": {"key": "UTC", "name": "UTC", "description": "UTC", "gmtOffset": 0},
    "ntpConfig": {"server": "time.example.com"},
}
LARGEST = option("ISCSI.MaxIoSizeKB", "long", 128)


def product(version: str, build: str, **api: str) -> dict:
    names = {"name": "VMware ESXi", "fullName": f"VMware ESXi {version} build-{build}", "vendor": "VMware, Inc."}
    return {
        **names,
        "version": version,
        "build": build,
        "osType": "vmnix-x86",
        "productLineId": "embeddedEsx",
        "apiType": "HostAgent",
        **api,
    }


# By version of the API: what the host says of itself, and what the API is called by pyVmomi.
HOSTS = {
    "4.1": (
        {
            "product": product("4.1.0", "260247"),
            **ESX4,
            **ESX4_NETWORK,
            "service": {"service": service("ntpd", True)},
            "option": option("Disk.MaxLUN", "long", 256),
        },
        "vim.version.version6",
    ),
    "6.7": (
        {
            "product": product("6.7.0", "8169922", apiVersion="6.7"),
            **ESXI67,
            **ESX4_NETWORK,
            **POWER,
            "dateTimeInfo": CLOCK,
            "service": {"service": [service("TSM", False, "off"), service("ntpd", True, "on")]},
            "option": [LARGEST],
        },
        "vim.version.version12",
    ),
    "7.0.3.0": (
        {
            "product": product("7.0.3", "19000000", apiVersion="7.0.3.0"),
            **ESXI7,
            "fileSystemVolume": {"volumeTypeList": ["VMFS"]},
            **ESX4_NETWORK,
            **POWER,
            "option": [LARGEST],
        },
        "vim.version.v7_0_3_0",
    ),
    "8.0.2.0": (
        {
            "product": product("8.0.3", "24000000", apiVersion="8.0.2.0"),
            **ESXI8,
            **ESXI8_NETWORK,
            **POWER,
            "dateTimeInfo": CLOCK,
            "option": [LARGEST],
        },
        "vim.version.v8_0_2_0",
    ),
}


@pytest.fixture
def recorded(tmp_path):
    """A function of a version: a simulated host that answers as the one of this version, and its recording."""
    with contextlib.ExitStack() as stack:

        def start(api: str) -> tuple[dict, str]:
            text = object_content("HostSystem:ha-host", config=Of("HostConfigInfo", **HOSTS[api][0]), name="esx-7")
            (tmp_path / "host.xml").write_text(text, encoding="utf-8")
            running = esxsim_process.running(tmp_path / "esxsim", PASSWORD, recorded=tmp_path / "host.xml")
            return stack.enter_context(running), text

        yield start


def login(ready: dict) -> dict:
    name, port = ready["address"].split(":")
    return {
        "hostname": name,
        "port": int(port),
        "username": "root",
        "password": PASSWORD,
        "thumbprint": ready["thumbprint"],
    }


def asked(module, ready: dict, home: Path, check: bool = False, **arguments) -> dict:
    given = {**login(ready), **arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": str(home)}
    output = io.StringIO()
    with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
        module.main()
    return json.loads(output.getvalue())


@pytest.mark.parametrize("api", HOSTS)
def test_the_readers_see_over_the_api_what_the_recording_says(recorded, api):
    ready, text = recorded(api)
    params = {**login(ready), "validate_certs": True, "ca_path": None, "timeout_s": 60, "long_timeout_s": 60}
    with session.Session({**params, "esxi_host": None}) as connection:
        assert connection.about["api"] == api and connection.instance._stub.version == HOSTS[api][1]
        assert connection.about["stand_in"] == "esxsim"
        document = recording.record(connection)
    replay = recording.Replay(json.loads(json.dumps(document)))
    seen = recording.seen(replay, replay.host())
    assert not [name for name, look in seen.items() if "failure" in look and name != "counters"], seen
    direct = play_recording.play_objects(text)["seen"]["HostSystem 0"]
    # The recording has neither when the host has started nor what is on its disks.
    seen["adapter"].update(boot_time=None, host_options={})
    if "datastores" in direct:
        assert seen["datastores"]["volumes"] == direct["datastores"]["volumes"]
    for look in ("adapter", "network", "settings", "fingerprint"):
        assert json.loads(play_recording.as_json(seen[look])) == json.loads(play_recording.as_json(direct[look])), look


def test_the_adapter_of_a_host_without_the_option_is_read_and_recorded(recorded, tmp_path):
    ready, _text = recorded("4.1")
    state = asked(esxi_state, ready, tmp_path)["storage_state"]
    assert state["iscsi adapter"] == ["software iSCSI disabled"]
    assert state["host options"] == ["module iscsi_vmk no options"]
    assert [line for line in state["devices"] if line.startswith("eui.")] == ["eui.0a1b2c3d4e5f6071 2097152 bytes"]


WANTED = {
    "testbed_id": "tb-rec",
    "initiator_name": "iqn.2026-11.test.storlab:esx-rec",
    "wait_s": 5,
    "targets": [
        {
            "iqn": "iqn.2026-11.test.storlab:recorded",
            "portal": {"address": "192.0.2.77", "port": 3260},
            "luns": [{"lun": 1, "name": "big", "serial": "SN3902A"}],
        }
    ],
}


def test_a_build_is_planned_on_a_recorded_host_and_then_refused(recorded, tmp_path):
    ready, _text = recorded("6.7")
    wanted = {**WANTED, "state_dir": str(tmp_path / "state")}
    plan = asked(esxi_iscsi, ready, tmp_path, check=True, **wanted)
    assert plan["changed"] and [step["op"] for step in plan["steps"]][:3] == ["enable", "name", "alias"]
    changes = esxsim_process.changes(ready)
    with unchanged(lambda: asked(esxi_state, ready, tmp_path)["storage_state"]):
        assert changes() == {}
        answer = asked(esxi_iscsi, ready, tmp_path, **wanted)
        assert answer["failed"] and "NotSupported" in answer["failure"]["what"]
        # The call came, and was not carried out.
        assert changes() == {"UpdateSoftwareInternetScsiEnabled": 1}


def test_an_adapter_with_targets_of_others_is_refused_as_on_a_host_in_use(recorded, tmp_path):
    ready, _text = recorded("7.0.3.0")
    with unchanged(lambda: asked(esxi_state, ready, tmp_path)["storage_state"], esxsim_process.changes(ready)):
        answer = asked(esxi_iscsi, ready, tmp_path, **WANTED, state_dir=str(tmp_path / "state"))
    assert answer["failure"]["code"] == "adapter_in_use"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (object_content("Datastore:datastore-7", name="x"), "no HostSystem"),
        (object_content("HostSystem:host-7", name="x"), "no configuration"),
        (
            object_content("HostSystem:host-7", config=Of("HostConfigInfo", product=product("3.5.0", "1"))),
            "no version of the API is known",
        ),
        ("<ObjectContent>", "host.xml"),
    ],
    ids=["another object", "no configuration", "too old", "no XML"],
)
def test_a_file_that_is_no_recorded_host_starts_nothing(tmp_path, text, words):
    (tmp_path / "host.xml").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=words):
        esxsim_process.start(tmp_path / "esxsim", PASSWORD, recorded=tmp_path / "host.xml")
    assert not (tmp_path / "esxsim" / "ready.json").exists()
