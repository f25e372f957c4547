# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drafts of docs/upstream: their tasks, played against the simulated ESXi with the modules of others that are installed, do what the drafts say."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_datastore, esxi_iscsi, esxi_vm
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import tgt_process
from places import ROOT

DRAFTS = ROOT / "docs" / "upstream"
PASSWORD, IN, OUT = "sl-esxsim-pw-3905", "secret-in-3906", "secret-out-3907"
IQN, NAA = "iqn.2026-11.test.storlab:upstream", "600000000000000000c0ffee00390501"


class Host:
    def __init__(self, home: Path, ready: dict[str, Any]) -> None:
        self.home, self.ready = home, ready
        name, port = ready["address"].split(":")
        self.login = {"hostname": name, "port": int(port), "username": "root", "password": PASSWORD}
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=name, port=int(port), user="root", pwd=PASSWORD, sslContext=context)
        content = self.instance.RetrieveContent()
        self.host = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view[0]
        self.storage = self.host.configManager.storageSystem

    def call(self, module: Any, check: bool = False, **arguments: Any) -> dict[str, Any]:
        own = {"_ansible_check_mode": check, "_ansible_remote_tmp": str(self.home)}
        output = io.StringIO()
        with (
            patch_module_args({**self.login, **arguments, **own}),
            contextlib.redirect_stdout(output),
            pytest.raises(SystemExit),
        ):
            module.main()
        answer: dict[str, Any] = json.loads(output.getvalue())
        assert not answer.get("failed"), answer
        return answer

    def adapter(self) -> Any:
        esxsim_process.settle(self.ready)
        kind = vim.host.InternetScsiHba
        return next(each for each in self.storage.storageDeviceInfo.hostBusAdapter if isinstance(each, kind))

    def volumes(self) -> dict[str, bool]:
        """{name: whether it is mounted} of the VMFS volumes that the host knows."""
        esxsim_process.settle(self.ready)
        known = self.storage.fileSystemVolumeInfo.mountInfo
        return {each.volume.name: each.mountInfo.mounted for each in known if each.volume.type == "VMFS"}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD) as ready:
        seen = Host(tmp_path, ready)
        seen.storage.UpdateSoftwareInternetScsiEnabled(True)
        yield seen
        Disconnect(seen.instance)


def blocks(draft: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (DRAFTS / draft).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def play(host: Host, draft: str, look: Any = lambda: None, **values: str) -> list[Any]:
    """Play the tasks of a draft, compare them with what it says of each, and return what ``look`` saw after each."""
    (source,), (recorded,) = blocks(draft, "yaml"), blocks(draft, "json")
    text = jinja2.Template(source).render(host=host.host.name, adapter=host.adapter().device, **values)
    seen, outcomes = [], []
    for task in yaml.safe_load(text):
        (name,) = [key for key in task if "." in key]
        module = importlib.import_module("ansible_collections.{}.{}.plugins.modules.{}".format(*name.split(".")))
        changes = esxsim_process.changes(host.ready)
        changes()
        outcome: dict[str, Any]
        try:
            answer = host.call(module, check=task.get("check_mode", False), validate_certs=False, **task[name])
            outcome = {"changed": answer["changed"]}
        except AttributeError as fault:
            outcome = {"failed": f"AttributeError: {fault.name}"}
        outcomes.append({**outcome, "calls": changes()})
        seen.append(look())
    assert outcomes == json.loads(recorded)
    return seen


def test_chap_of_a_target_is_set_by_the_second_run(host):
    def chap() -> list[tuple[bool, str]]:
        targets = [target.authenticationProperties for target in host.adapter().configuredSendTarget]
        return [(each.chapInherited, each.chapName) for each in targets]

    assert play(host, "iscsi_target_chap.md", chap) == [[], [(True, "initiator")], [(False, "of-the-target")]]


def test_what_is_not_given_is_reset(host):
    def own() -> tuple[str, bool, str]:
        adapter = host.adapter()
        settings = adapter.authenticationProperties
        return adapter.iScsiAlias or "", settings.chapAuthEnabled, settings.chapName or ""

    assert play(host, "iscsi_defaults.md", own) == [("rack-7", True, "initiator"), ("", False, "")]


def test_check_mode_reports_a_change_where_there_is_none(host):
    assert play(host, "iscsi_check_mode.md") == [None, None]


def test_absent_destroys_a_vmfs(host, tmp_path):
    (tmp_path / "luns").mkdir()
    with tgt_process.Array(tmp_path / "luns", IQN, IN, OUT) as array:
        array.add(1, 256, NAA, "SN3905A")
        target = {
            "iqn": IQN,
            "portal": array.portal,
            "chap_user": "esx",
            "chap_password": IN,
            "mutual_chap_user": "array",
            "mutual_chap_password": OUT,
            "luns": [{"lun": 1, "name": "big"}],
        }
        login = {"ca_path": host.ready["certificate"], "testbed_id": "tb-up"}
        name = {"initiator_name": "iqn.2026-11.test.storlab:esx-up", "state_dir": str(host.home / "state")}
        host.call(esxi_iscsi, **login, **name, wait_s=60, targets=[target])
        layers = {"initiator-big": {"identity": {"naa": NAA}}}
        stores = {"layers": layers, "datastores": [{"name": "tb-up", "layer": "initiator-big"}], "allow_device": [NAA]}
        host.call(esxi_datastore, **login, **stores)
        assert host.volumes() == {"tb-up": True}
        # An unmounted volume would go on being listed.
        assert play(host, "datastore_unmount.md", host.volumes, datastore="tb-up") == [{}]


def test_a_machine_with_a_raw_mapping_cannot_be_changed(host):
    (lun,) = [each for each in host.storage.storageDeviceInfo.scsiLun if each.lunType == "disk"][:1]
    layers = {"datastore-raw": {"identity": {"naa": lun.canonicalName, "serial": "LUN-3909"}}}
    disks = [
        {"name": "file", "size_mib": 16, "controller": "pvscsi"},
        {"name": "raw", "controller": "lsilogic", "rdm": {"layer": "datastore-raw"}},
    ]
    own = {
        "ca_path": host.ready["certificate"],
        "testbed_id": "tb-up",
        "name": "up-raw",
        "allow_device": [lun.canonicalName],
    }
    guest = {"datastore": "LocalDS_0", "guest_id": "debian10_64Guest", "vcpus": 1, "memory_mib": 64}
    host.call(esxi_vm, **own, **guest, layers=layers, disks=disks)

    def devices() -> list[tuple[str, int]]:
        (machine,) = [each for each in host.host.vm if each.name == "up-raw"]
        found = [each for each in machine.config.hardware.device if isinstance(each, vim.vm.device.VirtualDisk)]
        return [(type(each.backing).__name__, each.capacityInKB) for each in found]

    before = devices()
    size = f"{lun.capacity.block * lun.capacity.blockSize // 1024}kb"
    assert play(host, "vm_raw_mapping.md", devices, machine="up-raw", lun_size=size) == [before] * 3
    assert [kind.rsplit(".", 1)[-1] for kind, _size in before] == [
        "FlatVer2BackingInfo",
        "RawDiskMappingVer1BackingInfo",
    ]


def test_every_draft_is_played_and_in_the_list():
    drafts = {path.name for path in DRAFTS.glob("*.md")} - {"reports.md"}
    listed = set(re.findall(r"\]\((\w+\.md)\)", (DRAFTS / "reports.md").read_text(encoding="utf-8")))
    played = set(re.findall(r'play\(host, "(\w+\.md)"', Path(__file__).read_text(encoding="utf-8")))
    assert drafts == listed == played
    for draft in drafts:
        assert len(blocks(draft, "yaml")) == len(blocks(draft, "json")) == 1
