# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of a Windows machine and an ESXi host, both stand-ins.

As the one for Windows exports nothing, a tgtd has the name, the secrets and the LUN of its target.
"""

from __future__ import annotations

import contextlib
import copy
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import esxsim_process
import tgt_process
import yaml
from cut_plays import play_until
from places import ROOT, TESTS
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim, vmodl
from world import World, drive

PASSWORD, IN, OUT = "sl-esxsim-pw-3301", "secret-in-3302", "secret-out-3303"
# Of the Windows machine that the experiment makes.
ADMINISTRATOR, KEY = "sl-Windows-pw-3305", "AAAA3-BBBB3-CCCC0-DDDD6-EEEE7"
# The names of the hosts are those of the accounts, as the collection derives them and tgtd has them.
WINDOWS, ESXI = "array", "esx"
NAA = "600000000000000000c0ffee00330101"
DRIVE = drive("STARWIND RAMDISK", "RAM-3304", 8 << 30, style="MBR")
# What a teardown must bring back on the Windows host.
KEPT = ("disks", "targets", "virtual_disks", "files", "feature", "portals", "folders", "tasks")


class Lab:
    """variables: of all hosts of the inventory. settings: of the Windows host in its stand-in. guests: {name: variables}. windows: variables of that host.
    machine: that the inventory has no Windows host, and testbed_e1_windows.machine describes one in these words. It answers after so many connections.
    """

    def __init__(
        self,
        folder: Path,
        ready: dict,
        array: tgt_process.Array,
        variables: dict,
        settings: dict | None = None,
        guests: dict | None = None,
        windows: dict | None = None,
        machine: dict | None = None,
        silent: int = 2,
    ):
        self.folder, self.world = folder, World(folder / "world" / "world.json")
        address = array.portal["address"]
        with self.world.open():
            self.world.add(WINDOWS, **{"addresses": [address], **(settings or {})})["disks"]["1"] = copy.deepcopy(DRIVE)
            for guest in guests or {}:
                console = {"console_user": f"{guest.upper()}\\Administrator"}
                self.world.add(guest, **{**(settings or {}), "server": False, **console})
        name, port = ready["address"].split(":")
        self.login = {"hostname": name, "port": int(port), "username": "root", "password": PASSWORD}
        self.login["ca_path"] = ready["certificate"]
        stand_in = {
            "ansible_connection": "fake_windows",
            "ansible_fake_windows_world": str(self.world.path),
            "testbed_windows": True,
        }
        own = {**stand_in, "testbed_address": f"{address}:{array.portal['port']}", **(windows or {})}
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        everybody = {
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            **variables,
        }
        if machine is not None:
            (folder / "windows.iso").write_bytes(b"a stand-in for an image of Windows Server")
            answers = {
                "administrator_password": ADMINISTRATOR,
                "product_key": KEY,
                "image_name": "Windows Server 2012 R2 SERVERSTANDARD",
                "address": f"{address}/8",
            }
            wanted = {
                "host": WINDOWS,
                "datastore": "LocalDS_0",
                "connection": own,
                "esxi": {"iso": {"src": str(folder / "windows.iso")}, "unattended": answers},
                **machine,
            }
            everybody["testbed_e1_windows"] = {**everybody["testbed_e1_windows"], "machine": wanted}
            with self.world.open():
                self.world.data["hosts"][WINDOWS]["line"] = {"how": "installing", "after": silent}
        groups = {
            **({"targets": {"hosts": {WINDOWS: own}}} if machine is None else {}),
            "hypervisors": {"hosts": {ESXI: {**local, "testbed_esxi": self.login}}},
            **(
                {
                    "guests": {
                        "hosts": {
                            guest: {**stand_in, "ansible_fake_windows_host": guest, **more}
                            for guest, more in guests.items()
                        }
                    }
                }
                if guests
                else {}
            ),
        }
        (folder / "lab.yml").write_text(yaml.safe_dump({"all": {"vars": everybody, "children": groups}}))
        (folder / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {TESTS}/fake_windows/connection\n"
            f"callback_plugins = {TESTS}/kill_controller\ninject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n"
        )

    def run(self, *books: str, options: tuple = (), at: str = "") -> tuple[int, dict, list]:
        """(return code, document, moments) of playbooks one after the other. at: where to kill it; returns when nothing of it runs any more."""
        arguments = [*map(str, options), *(f"playbooks/{name}.yml" for name in books)]
        returned, text, moments = play_until(self.folder, arguments, at)
        assert not [secret for secret in (IN, OUT, PASSWORD, ADMINISTRATOR, KEY) if secret in text]
        place = max(text.rfind("\n{\n") + 1, text.find("{"))
        document = json.JSONDecoder().raw_decode(text, place)[0] if returned >= 0 else {}
        return returned, document, moments

    def play(self, *books: str, options: tuple = ()) -> dict:
        """{host: how many tasks changed something}, of playbooks one after the other."""
        rc, document, _moments = self.run(*books, options=options)
        assert rc == 0, failures(document)
        return {host: counts["changed"] for host, counts in document["stats"].items() if host in (WINDOWS, ESXI)}

    def host(self, name: str = WINDOWS) -> dict:
        return json.loads(self.world.path.read_text())["hosts"][name]

    def attach(self, guest: str, unique_id: str, size_bytes: int, serial: str) -> None:
        """Have the Windows of a guest show a disk that the ESXi host gave its machine, as Windows shows it: offline, the serial written otherwise."""
        disk = drive("VMware Virtual disk", unique_id, size_bytes, offline=True, read_only=True)
        shown = {"serial": f"{serial[:8]}-{serial[8:]}".upper(), "offline_reason": "Policy"}
        with self.world.open():
            self.world.data["hosts"][guest]["disks"]["1"] = {**disk, **shown}

    def shown(self, guest: str, uuid: str | None) -> bool:
        """Whether the Windows of a guest shows the disk with this UUID."""
        disk = self.host(guest)["disks"].get("1")
        return bool(disk and uuid) and disk["serial"].replace("-", "").lower() == str(uuid).replace("-", "").lower()

    def answers(self, guest: str, answering: bool) -> None:
        """Have the Windows of a guest answer to connections, or not, as one whose machine is off."""
        with self.world.open():
            host = self.world.data["hosts"][guest]
            host.pop("line", None)
            if not answering:
                host["line"] = {"how": "installing", "after": 10**6}

    def kept(self) -> dict:
        """What of the lab must be after a teardown as it was before."""
        host = self.host()
        return {**{key: host[key] for key in KEPT}, "volumes": self.volumes(), "machines": self.machines()}

    @contextlib.contextmanager
    def api(self) -> Iterator:
        """The host's object in the API of the simulated ESXi host, with its content."""
        context = ssl.create_default_context(cafile=self.login["ca_path"])
        host, port = self.login["hostname"], self.login["port"]
        instance = SmartConnect(host=host, port=port, user="root", pwd=PASSWORD, sslContext=context)
        try:
            content = instance.RetrieveContent()
            [system] = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view
            yield content, system
        finally:
            Disconnect(instance)

    def volumes(self) -> list:
        """[(name, version, mounted)] of the VMFS that the simulated ESXi host has."""
        with self.api() as (_content, system):
            info = system.configManager.storageSystem.fileSystemVolumeInfo.mountInfo or []
            return [
                (entry.volume.name, entry.volume.majorVersion, entry.mountInfo.mounted)
                for entry in info
                if isinstance(entry.volume, vim.host.VmfsVolume)
            ]

    def machines(self) -> list:
        with self.api() as (content, _system):
            view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True).view
            return sorted(machine.name for machine in view)

    def layers(self) -> dict:
        folder = self.folder / "state" / "layers"
        return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


@contextlib.contextmanager
def windows_in_guests(lab: Lab, guests: dict[str, tuple[str, int]]) -> Iterator:
    """guests: {name: (its machine, MiB of its measured disk)}. No Windows runs in the machines of the simulated host, so the stand-ins for it are told.

    A guest answers while its machine runs, and shows the measured disk that this machine has.
    """
    ended = threading.Event()

    def look(content, running: dict[str, bool]) -> None:
        view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True)
        there = {machine.name: machine for machine in view.view}
        for name, (machine, mib) in guests.items():
            devices = there[machine].config.hardware.device if machine in there else []
            disks = [device for device in devices if isinstance(device, vim.vm.device.VirtualDisk)]
            uuid = next((disk.backing.uuid for disk in disks if disk.capacityInKB == mib << 10), None)
            if uuid and not lab.shown(name, uuid):
                lab.attach(name, f"EUI-{name}", mib << 20, uuid.replace("-", "").lower())
            runs = machine in there and there[machine].runtime.powerState == "poweredOn"
            if running.get(name) is not runs:
                lab.answers(name, runs)
                running[name] = runs
        view.Destroy()

    def watch() -> None:
        running: dict[str, bool] = {}
        with lab.api() as (content, _system):
            while not ended.wait(0.3):
                # A machine that is being made may go while it is read.
                with contextlib.suppress(vmodl.MethodFault, AttributeError):
                    look(content, running)

    for name in guests:
        lab.answers(name, False)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def failures(document: dict) -> list:
    return [
        result["msg"]
        for play in document["plays"]
        for task in play["tasks"]
        for result in task["hosts"].values()
        if result.get("failed")
    ]


@contextlib.contextmanager
def running(folder: Path, testbed_id: str, variables: dict, **more: dict) -> Iterator[Lab]:
    """A lab with the simulated ESXi host and the tgtd of a testbed of this name, whose LUN 1 has 6 GiB."""
    (folder / "luns").mkdir(parents=True)
    iqn = f"iqn.2026-11.test.storlab:{testbed_id}:{WINDOWS}"
    with (
        tgt_process.Array(folder / "luns", iqn, IN, OUT, "127.0.0.2") as array,
        esxsim_process.running(folder / "esxsim", PASSWORD, "esx") as ready,
    ):
        array.add(1, 6144, NAA, "SN3301A")
        yield Lab(folder, ready, array, variables, **more)
