# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook record on a simulated ESXi host, a stand-in for a Windows host and this computer, and its recordings read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import recording, session

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import play_recording
from places import ROOT, TESTS
from unchanged import refused, unchanged

PASSWORD = "sl-esxsim-pw-3301"
FAKE = TESTS / "fake_windows"


@pytest.fixture
def esxi(tmp_path):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD) as ready:
        yield ready


def login(ready: dict) -> dict:
    name, port = ready["address"].split(":")
    return {
        "hostname": name,
        "port": int(port),
        "username": "root",
        "password": PASSWORD,
        "thumbprint": ready["thumbprint"],
    }


def play(folder: Path, ready: dict, *options: str) -> tuple[int, str]:
    world = folder / "world.json"
    sys_path = [sys.executable, str(FAKE / "world.py"), str(world), "make", json.dumps({"secretwin": {}})]
    subprocess.run(sys_path, check=True, capture_output=True)
    hosts = {
        "secretesx": {"ansible_connection": "local", "testbed_esxi": login(ready)},
        "secretlinux": {"ansible_connection": "local"},
        "secretwin": {
            "ansible_connection": "fake_windows",
            "ansible_fake_windows_world": str(world),
            "testbed_windows": True,
        },
    }
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": {"ansible_python_interpreter": sys.executable}}}))
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            str(inventory),
            "playbooks/record.yml",
            *options,
            "-e",
            f"record_folder={folder}/lent",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_CONNECTION_PLUGINS": str(FAKE / "connection")},
    )
    return done.returncode, done.stdout + done.stderr


def test_a_lab_is_recorded_and_read_again_and_nothing_of_it_is_named(esxi, tmp_path):
    with unchanged(esxsim_process.changes(esxi)):
        code, text = play(tmp_path, esxi)
    assert code == 0, text[-3000:]
    folder = tmp_path / "lent"
    assert sorted(path.name for path in folder.iterdir()) == [
        "LOOK_AT_THIS_FIRST.md",
        "esxi-1.json",
        "linux-1.json",
        "windows-1.json",
    ]
    assert folder.stat().st_mode & 0o077 == 0
    assert "Left out, see the messages above: no host." in text
    page = (folder / "LOOK_AT_THIS_FIRST.md").read_text()
    assert "an answer of a stand-in (esxsim)" in page and "an answer of a stand-in (fake_windows)" in page
    for path in folder.iterdir():
        content = path.read_text()
        for secret in (PASSWORD, "secretesx", "secretlinux", "secretwin"):
            assert secret not in content, (path.name, secret)
        if path.suffix == ".json":
            result = play_recording.answer_of(path)
            assert (result["kind"] == path.name.partition("-")[0] and result["unread"] == []) or path.name.startswith(
                "linux"
            )
            assert result["seen"] and "failure" not in result["seen"]
    adapter = play_recording.answer_of(folder / "esxi-1.json")["seen"]["adapter"]
    assert adapter["enabled"] is False and "failure" not in adapter


def test_a_host_that_does_not_answer_is_left_out_by_name(esxi, tmp_path):
    unreachable = {"hostname": "127.0.0.1", "port": 9}
    code, text = play(tmp_path, {**esxi, "address": f"{unreachable['hostname']}:{unreachable['port']}"})
    assert code == 0, text[-3000:]
    assert "Left out, see the messages above: secretesx." in text and "cannot be reached" in text
    names = sorted(path.name for path in (tmp_path / "lent").iterdir())
    assert names == ["LOOK_AT_THIS_FIRST.md", "linux-1.json", "windows-1.json"]


def test_a_folder_with_files_stays_as_it_is(esxi, tmp_path):
    (tmp_path / "lent").mkdir()
    (tmp_path / "lent" / "mine").write_text("mine")
    code, text = play(tmp_path, esxi, "--limit", "localhost,secretlinux")
    assert code != 0 and "name a new folder" in text
    assert [path.name for path in (tmp_path / "lent").iterdir()] == ["mine"]


@pytest.fixture
def connected(esxi):
    params = {
        **login(esxi),
        "validate_certs": True,
        "ca_path": None,
        "timeout_s": 60,
        "long_timeout_s": 60,
        "esxi_host": None,
    }
    with session.Session(params) as connection:
        yield connection


def test_a_replay_gives_what_the_host_gave(connected):
    tape = recording.Tape(connected)
    connected.content = connected.instance.RetrieveContent()
    connected.stand_in = connected._stand_in()
    first = recording.seen(connected, connected.host())
    replay = recording.Replay(json.loads(json.dumps(tape.recording())))
    assert recording.seen(replay, replay.host()) == first
    assert "failure" not in first["adapter"] and "failure" not in first["network"]
    with refused(lambda: dict(replay.answers), match="has no answer to FindByDnsName"):
        replay.content.searchIndex.FindByDnsName(dnsName="x", vmSearch=False)


def test_a_recording_lets_nothing_through_that_changes(connected, esxi):
    recording.Tape(connected)
    host = connected.host()
    with refused(esxsim_process.changes(esxi), match="A recording only looks"):
        host.configManager.storageSystem.UpdateSoftwareInternetScsiEnabled(True)
